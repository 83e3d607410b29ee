// SPDX-License-Identifier: BSD-3-Clause
/* migproxyctl watch: one migration to its end, or all of them for ever. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "qmp/json-value.h"
#include "tools/ctl-ask.h"
#include "tools/ctl-follow.h"
#include "tools/ctl-output.h"
#include "tools/ctl-report.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define RETRY_S 1
#define LOST_TIME (10 * MP_SECOND)
#define LINE_SIZE 200

const char ctl_watch_details[] =
    "With an ID it follows that migration and ends as \"migrate\" does, with "
    "its\nreport and exit status. Without one it prints what happens to all "
    "migrations of\nthe daemon until it is interrupted; --json: one object a "
    "line. Ctrl-C ends\nonly this program.\n";

struct watch {
    const struct ctl_call *call;
    char type[32];    /* of the event that is being read */
    char id[32];      /* its number, "" if it has none */
    char last_id[32]; /* of the last event that was printed */
    mp_time heard_at;
};

/* 2026-11-30T17:51:05.123456Z as 17:51:05.123Z */
static const char *clock_text(const char *at, char buf[16])
{
    snprintf(buf, 16, "%.12sZ", strlen(at) > 23 ? at + 11 : "            ");
    return buf;
}

static void print_migration(struct json_object *event,
                            struct json_object *migration)
{
    const char *at = "", *id = "?", *vm = "?", *role = "source", *peer = "?";
    char line[LINE_SIZE], when[16];

    json_value_text(event, "at", &at);
    json_value_text(migration, "id", &id);
    json_value_text(migration, "vm", &vm);
    json_value_text(migration, "role", &role);
    json_value_text(migration, "peer", &peer);
    ctl_report_progress(migration, line, sizeof(line));
    ctl_output_print(stdout, "%s  %s  %s %s %s  %s\n", clock_text(at, when), id,
                     vm, strcmp(role, "source") ? "from" : "to", peer, line);
}

static void print_event(const struct watch *watch, const char *data)
{
    CLEANUP_JSON struct json_object *event = json_tokener_parse(data);
    struct json_object *migration = NULL;
    const char *message = NULL;

    if (watch->call->json && json_object_is_type(event, json_type_object)) {
        json_object_object_add(event, "type",
                               json_object_new_string(watch->type));
        ctl_output_json(event);
    } else if (json_value_object(event, "migration", &migration)) {
        print_migration(event, migration);
    } else if (!strcmp(watch->type, "gap")) {
        ctl_output_print(stderr, "migproxyctl: some events were missed\n");
    } else if (json_value_text(event, "message", &message)) {
        ctl_output_print(stderr, "migproxyctl: %s\n", message);
    }
    fflush(stdout);
}

static void begin_event(struct watch *watch)
{
    watch->type[0] = '\0';
    watch->id[0] = '\0';
}

/* Server-Sent Events: lines of fields, an empty line ends an event. The daemon
 * writes each event's data as one line, after its other fields. */
static bool line_cb(void *arg, const char *line)
{
    struct watch *watch = arg;

    watch->heard_at = clock_now();
    if (!*line) {
        begin_event(watch);
    } else if (!strncmp(line, "id: ", 4)) {
        snprintf(watch->id, sizeof(watch->id), "%s", line + 4);
    } else if (!strncmp(line, "event: ", 7)) {
        snprintf(watch->type, sizeof(watch->type), "%s", line + 7);
    } else if (!strncmp(line, "data: ", 6)) {
        print_event(watch, line + 6);
        if (watch->id[0]) {
            memcpy(watch->last_id, watch->id, sizeof(watch->last_id));
        }
    }
    return !ferror(stdout);
}

/* A daemon that restarts is tried for a while; what happened meanwhile comes
 * by the number of the last event. */
static int watch_all(const struct ctl_call *call)
{
    struct watch watch = {.call = call, .heard_at = clock_now()};
    struct error err = ERROR_INIT;
    bool was_heard = false;

    while (ctl_http_stream(call->http, "/v1/events", watch.last_id, line_cb,
                           &watch, &err) < 0) {
        was_heard |= watch.last_id[0] != '\0';
        if (!was_heard ||
            (err.code != ERR_LINK_LOST && err.code != ERR_DAEMON_UNREACHABLE) ||
            clock_now() - watch.heard_at > LOST_TIME) {
            return (int)ctl_output_error(&err, call->json);
        }
        begin_event(&watch); /* what was cut off comes again, whole */
        sleep(RETRY_S);
    }
    return CTL_EXIT_FAILURE; /* nobody can read what is printed */
}

int ctl_watch(const struct ctl_call *call)
{
    if (!call->id) {
        return watch_all(call);
    }
    enum ctl_exit status = ctl_ask_check_id(call, call->id);
    return (int)(status == CTL_EXIT_DONE ? ctl_follow(call, call->id) : status);
}
