// SPDX-License-Identifier: BSD-3-Clause
/* migproxyctl set, close and incoming: orders with a body. */
#include <json-c/json.h>
#include <stdio.h>

#include "qmp/json-value.h"
#include "tools/ctl-ask.h"
#include "tools/ctl-body.h"
#include "tools/ctl-output.h"
#include "tools/ctl-report.h"
#include "util/cleanup.h"
#include "util/parse.h"

static int fail_usage(const struct ctl_call *call, struct error *err)
{
    return ctl_output_error(err, call->json);
}

/* ---- set ---- */

enum { SET_BANDWIDTH, SET_MAX_DOWNTIME };

const struct ctl_option ctl_set_options[] = {
    {"bandwidth", "RATE", "cap: 100MiB/s, 2.5Gbit/s, ... or unlimited",
     .member = "bandwidth_bytes_per_second"},
    {"max-downtime", "MS", "longest standstill, 1 to 60000 ms",
     .member = "max_downtime_ms", .min = 1, .max = 60000},
    {.name = NULL},
};

const char ctl_set_details[] =
    "On the host that sends the guest. What is not named stays as it is. A "
    "time\nmay have a unit (300ms, 1.5s); of a rate \"/s\" may be left out "
    "(100MiB).\n";

/* Prints what is in force now. */
static void print_limits(const struct ctl_call *call,
                         struct json_object *migration)
{
    struct json_object *limits = NULL;
    uint64_t rate = PARSE_UNLIMITED, downtime = 0;
    char text[32];

    json_value_object(migration, "limits", &limits);
    json_value_uint(limits, "bandwidth_bytes_per_second", &rate);
    json_value_uint(limits, "max_downtime_ms", &downtime);
    ctl_output_print(
        stdout, "Migration %s: %s, bandwidth %s, max-downtime %u ms\n",
        call->id, ctl_report_state(migration),
        parse_format_rate(rate, text, sizeof(text)), (unsigned)downtime);
}

int ctl_set(const struct ctl_call *call)
{
    CLEANUP_JSON struct json_object *body = json_object_new_object();
    struct error err = ERROR_INIT;

    if (ctl_body_add_rate(call, ctl_set_options, SET_BANDWIDTH, body,
                          "bandwidth_bytes_per_second", &err) < 0 ||
        ctl_body_add_ms(call, ctl_set_options, SET_MAX_DOWNTIME, body,
                        "max_downtime_ms", &err) < 0) {
        return fail_usage(call, &err);
    }
    if (json_object_object_length(body) == 0) {
        error_set(&err, ERR_BAD_REQUEST,
                  "nothing to set: --bandwidth RATE or --max-downtime MS is "
                  "missing");
        return fail_usage(call, &err);
    }
    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask_of_id(call, "PATCH", NULL, body, &answer);
    if (status != CTL_EXIT_DONE) {
        return (int)status;
    }
    if (call->json) {
        ctl_output_json(answer);
    } else {
        print_limits(call, answer);
    }
    return CTL_EXIT_DONE;
}

/* ---- close ---- */

enum { CLOSE_NOTE };

const struct ctl_option ctl_close_options[] = {
    {"note", "TEXT", "how it was settled, for the record", .member = "note"},
    {.name = NULL},
};

const char ctl_close_details[] =
    "When you have done what its advice says; on each host that shows it in\n"
    "attention. Touches no QEMU.\n";

int ctl_close(const struct ctl_call *call)
{
    CLEANUP_JSON struct json_object *body = json_object_new_object();
    CLEANUP_JSON struct json_object *answer = NULL;

    ctl_body_add_text(call, ctl_close_options, CLOSE_NOTE, body, "note");
    enum ctl_exit status = ctl_ask_of_id(call, "POST", "close", body, &answer);
    if (status != CTL_EXIT_DONE) {
        return (int)status;
    }
    if (call->json) {
        ctl_output_json(answer);
    } else {
        ctl_output_print(stdout, "Migration %s: %s, closed\n", call->id,
                         ctl_report_state(answer));
    }
    return CTL_EXIT_DONE;
}

/* ---- incoming ---- */

enum { INCOMING_VM, INCOMING_QMP, INCOMING_UUID, INCOMING_REMOVE };

const struct ctl_option ctl_incoming_options[] = {
    {"vm", "NAME", "the guest that is waited for", .member = "vm"},
    {"qmp", "PATH", "QMP socket of the QEMU that waits for it",
     .member = "qmp"},
    {"uuid", "UUID", "refuse a guest with another UUID", .member = "uuid"},
    {"remove", "ID", "take back what was said, by its id", .member = NULL},
    {.name = NULL},
};

const char ctl_incoming_details[] =
    "On the host that receives the guest. Without options it lists what was "
    "said.\n"
    "Needed only where the template [qemu] qmp-path does not find the QEMU. "
    "It\n"
    "lasts until a migration has used that QEMU, whatever its end, or the "
    "daemon\nends.\n";

static void print_entry(struct json_object *entry)
{
    const char *id = "?", *vm = "?", *qmp = "?", *uuid = NULL, *used = NULL;

    json_value_text(entry, "id", &id);
    json_value_text(entry, "vm", &vm);
    json_value_text(entry, "qmp", &qmp);
    json_value_text(entry, "uuid", &uuid);
    json_value_text(entry, "migration", &used);
    ctl_output_print(stdout, "%s  %s at %s%s%s%s%s\n", id, vm, qmp,
                     uuid ? ", UUID " : "", uuid ? uuid : "",
                     used ? ", being used by migration " : "",
                     used ? used : "");
}

static int print_answer(const struct ctl_call *call, enum ctl_exit status,
                        struct json_object *answer)
{
    struct json_object *list = NULL;

    if (status != CTL_EXIT_DONE) {
        return (int)status;
    }
    if (call->json) {
        ctl_output_json(answer);
    } else if (!json_value_array(answer, "incoming", &list)) {
        print_entry(answer);
    }
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        print_entry(json_object_array_get_idx(list, i));
    }
    return CTL_EXIT_DONE;
}

static int remove_incoming(const struct ctl_call *call)
{
    const char *id = call->value[INCOMING_REMOVE];
    char path[128];

    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask_check_id(call, id);
    if (status == CTL_EXIT_DONE) {
        snprintf(path, sizeof(path), "/v1/incoming/%s", id);
        status = ctl_ask(call, "DELETE", path, NULL, &answer);
    }
    return print_answer(call, status, answer);
}

static int add_incoming(const struct ctl_call *call)
{
    CLEANUP_JSON struct json_object *body = json_object_new_object();

    ctl_body_add_text(call, ctl_incoming_options, INCOMING_VM, body, "vm");
    ctl_body_add_text(call, ctl_incoming_options, INCOMING_QMP, body, "qmp");
    ctl_body_add_text(call, ctl_incoming_options, INCOMING_UUID, body, "uuid");
    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask(call, "POST", "/v1/incoming", body, &answer);
    return print_answer(call, status, answer);
}

int ctl_incoming(const struct ctl_call *call)
{
    bool adds = call->value[INCOMING_VM] || call->value[INCOMING_QMP] ||
                call->value[INCOMING_UUID];
    struct error err = ERROR_INIT;

    if (call->value[INCOMING_REMOVE] && adds) {
        error_set(&err, ERR_BAD_REQUEST, "--remove goes with nothing else");
        return fail_usage(call, &err);
    }
    if (adds && (!call->value[INCOMING_VM] || !call->value[INCOMING_QMP])) {
        error_set(&err, ERR_BAD_REQUEST, "--%s is missing",
                  call->value[INCOMING_VM] ? "qmp PATH" : "vm NAME");
        return fail_usage(call, &err);
    }
    if (call->value[INCOMING_REMOVE]) {
        return remove_incoming(call);
    }
    if (adds) {
        return add_incoming(call);
    }
    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask(call, "GET", "/v1/incoming", NULL, &answer);
    return print_answer(call, status, answer);
}
