// SPDX-License-Identifier: BSD-3-Clause
/* migproxyctl migrate: options to a request, then follows the migration. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "tools/ctl-body.h"
#include "tools/ctl-follow.h"
#include "tools/ctl-output.h"
#include "tools/ctl.h"
#include "util/cleanup.h"

#define ID_SIZE 16

/* The order of ctl_migrate_options. */
enum {
    OPT_VM,
    OPT_TO,
    OPT_QMP,
    OPT_DEST_QMP,
    OPT_MODE,
    OPT_PREEMPT,
    OPT_MULTIFD,
    OPT_POSTCOPY_AFTER,
    OPT_BANDWIDTH,
    OPT_MAX_DOWNTIME,
    OPT_TIMEOUT,
    OPT_ON_TIMEOUT,
    OPT_COUNT
};

_Static_assert(OPT_COUNT <= CTL_OPTIONS_MAX, "a call has room for each option");

const struct ctl_option ctl_migrate_options[] = {
    {"vm", "NAME", "the guest, as its QEMU says in query-name"},
    {"to", "PEER", "the peer, as named in the daemon's configuration"},
    {"qmp", "PATH", "QMP socket of the guest here (else by the template)"},
    {"dest-qmp", "PATH", "QMP socket of the waiting QEMU there"},
    {"mode", "MODE", "auto (default), precopy or postcopy"},
    {"preempt", "WHEN", "postcopy-preempt: auto (default), on or off"},
    {"multifd", "N", "multifd channels, 0 (default, off) to 16"},
    {"postcopy-after", "S", "switch to postcopy after S seconds"},
    {"bandwidth", "RATE", "cap: 100MiB/s, 2.5Gbit/s, ... or unlimited"},
    {"max-downtime", "MS", "longest standstill, 1 to 60000 ms (default 300)"},
    {"timeout", "S", "when --on-timeout happens, in seconds"},
    {"on-timeout", "WHAT", "abort (default), postcopy or pause"},
    {NULL, NULL, NULL},
};

const char ctl_migrate_details[] =
    "Begins the migration and follows it to its end. Ctrl-C asks the daemon "
    "to\n"
    "cancel it; a second Ctrl-C leaves it running. If this program goes away,\n"
    "the migration goes on.\n"
    "\n"
    "Exit status:\n"
    "  0  the guest runs on the peer\n"
    "  1  failure, for instance no daemon to ask\n"
    "  2  usage\n"
    "  3  refused, by preflight or before it: nothing was changed\n"
    "  4  failed or cancelled, the guest is where it was\n"
    "  5  needs attention: read the advice\n";

static int check_given(const struct ctl_call *call, int option,
                       struct error *err)
{
    if (!call->value[option]) {
        return error_set(err, ERR_BAD_REQUEST, "--%s %s is missing",
                         ctl_migrate_options[option].name,
                         ctl_migrate_options[option].arg);
    }
    return 0;
}

/* The request's body from the options; what is not about numbers is left to the
 * daemon to check. */
static int fill_body(const struct ctl_call *call, const char *id,
                     struct json_object *body, struct error *err)
{
    json_object_object_add(body, "id", json_object_new_string(id));
    ctl_body_add_text(call, ctl_migrate_options, OPT_VM, body, "vm");
    ctl_body_add_text(call, ctl_migrate_options, OPT_TO, body, "to");
    ctl_body_add_text(call, ctl_migrate_options, OPT_QMP, body, "qmp");
    ctl_body_add_text(call, ctl_migrate_options, OPT_DEST_QMP, body,
                      "dest_qmp");
    ctl_body_add_text(call, ctl_migrate_options, OPT_MODE, body, "mode");
    ctl_body_add_text(call, ctl_migrate_options, OPT_PREEMPT, body, "preempt");
    ctl_body_add_text(call, ctl_migrate_options, OPT_ON_TIMEOUT, body,
                      "on_timeout");
    if (check_given(call, OPT_VM, err) < 0 ||
        check_given(call, OPT_TO, err) < 0 ||
        ctl_body_add_count(call, ctl_migrate_options, OPT_MULTIFD, body,
                           "multifd_channels", err) < 0 ||
        ctl_body_add_count(call, ctl_migrate_options, OPT_MAX_DOWNTIME, body,
                           "max_downtime_ms", err) < 0 ||
        ctl_body_add_rate(call, ctl_migrate_options, OPT_BANDWIDTH, body,
                          "bandwidth_bytes_per_second", err) < 0 ||
        ctl_body_add_seconds(call, ctl_migrate_options, OPT_POSTCOPY_AFTER,
                             body, "postcopy_after_seconds", err) < 0 ||
        ctl_body_add_seconds(call, ctl_migrate_options, OPT_TIMEOUT, body,
                             "timeout_seconds", err) < 0) {
        return -1;
    }
    return 0;
}

/* Made here and not by the daemon, so that it is known also if the answer gets
 * lost. */
static void make_id(char id[ID_SIZE])
{
    unsigned char random[6];

    while (getrandom(random, sizeof(random), 0) != sizeof(random)) {
    }
    snprintf(id, ID_SIZE, "m%02x%02x%02x%02x%02x%02x", random[0], random[1],
             random[2], random[3], random[4], random[5]);
}

static void put_object(struct json_object **object)
{
    json_object_put(*object);
}

/* The exit status for a request that did not begin a migration. */
static enum ctl_exit exit_of_status(int status)
{
    return status == 400  ? CTL_EXIT_USAGE
           : status < 500 ? CTL_EXIT_REFUSED
                          : CTL_EXIT_FAILURE;
}

int ctl_migrate(const struct ctl_call *call)
{
    char id[ID_SIZE];
    struct error err = ERROR_INIT;
    CLEANUP(put_object) struct json_object *body = json_object_new_object();
    CLEANUP(put_object) struct json_object *answer = NULL;

    make_id(id);
    if (fill_body(call, id, body, &err) < 0) {
        ctl_output_error(&err, call->json);
        return CTL_EXIT_USAGE;
    }
    ctl_follow_catch_interrupts();
    int status = ctl_http_request(call->http, "POST", "/v1/migrations", body,
                                  &answer, &err);
    if (status < 0) {
        if (err.code == ERR_LINK_LOST) {
            error_wrap(&err,
                       "whether it began is not known (migproxyctl show "
                       "%s tells)",
                       id);
        }
        ctl_output_error(&err, call->json);
        return CTL_EXIT_FAILURE;
    }
    if (status != 200 && status != 201) {
        ctl_output_refusal(status, answer, call->json);
        return (int)exit_of_status(status);
    }
    if (!call->json) {
        ctl_output_print(stderr, "Migration %s of %s to %s\n", id,
                         call->value[OPT_VM], call->value[OPT_TO]);
    }
    return (int)ctl_follow(call, id);
}
