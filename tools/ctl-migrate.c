// SPDX-License-Identifier: BSD-3-Clause
/* migproxyctl migrate: options to a request, then follows the migration. */
#include <json-c/json.h>
#include <stdio.h>

#include "qmp/json-value.h"
#include "tools/ctl-body.h"
#include "tools/ctl-follow.h"
#include "tools/ctl-output.h"
#include "tools/ctl.h"
#include "util/id.h"

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
    {"vm", "NAME", "the guest, as its QEMU says in query-name", .member = "vm"},
    {"to", "PEER", "the peer, as named in the daemon's configuration",
     .member = "to"},
    {"qmp", "PATH", "QMP socket of the guest here (else by the template)",
     .member = "qmp"},
    {"dest-qmp", "PATH", "QMP socket of the waiting QEMU there",
     .member = "dest_qmp"},
    {"mode", "MODE", "auto (default), precopy or postcopy", .member = "mode"},
    {"preempt", "WHEN", "postcopy-preempt: auto (default), on or off",
     .member = "preempt"},
    {"multifd", "N", "multifd channels, 0 (default, off) to 16",
     .member = "multifd_channels", .min = 0, .max = 16},
    {"postcopy-after", "S", "switch to postcopy after S seconds, 0 to 604800",
     .member = "postcopy_after_seconds", .min = 0, .max = 604800},
    {"bandwidth", "RATE", "cap: 100MiB/s, 2.5Gbit/s, ... or unlimited",
     .member = "bandwidth_bytes_per_second"},
    {"max-downtime", "MS", "longest standstill, 1 to 60000 ms (default 300)",
     .member = "max_downtime_ms", .min = 1, .max = 60000},
    {"timeout", "S", "when --on-timeout happens: seconds, 1 to 604800",
     .member = "timeout_seconds", .min = 1, .max = 604800},
    {"on-timeout", "WHAT", "abort (default), postcopy or pause",
     .member = "on_timeout"},
    {.name = NULL},
};

const char ctl_migrate_details[] =
    "A time is a number in the unit named below, or has its own: 90s, 5min,\n"
    "300ms. Of a rate \"/s\" may be left out: 100MiB.\n"
    "\n"
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
        ctl_body_add_ms(call, ctl_migrate_options, OPT_MAX_DOWNTIME, body,
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

int ctl_migrate(const struct ctl_call *call)
{
    char id[ID_MAX + 1];
    struct error err = ERROR_INIT;
    CLEANUP_JSON struct json_object *body = json_object_new_object();
    CLEANUP_JSON struct json_object *answer = NULL;

    /* made here and not by the daemon, so that it is known also if the answer
     * gets lost */
    id_make(id);
    if (fill_body(call, id, body, &err) < 0) {
        return ctl_output_error(&err, call->json);
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
        return ctl_output_error(&err, call->json);
    }
    if (status != 200 && status != 201) {
        return ctl_output_refusal(call, status, answer);
    }
    if (!call->json) {
        ctl_output_print(stderr, "Migration %s of %s to %s\n", id,
                         call->value[OPT_VM], call->value[OPT_TO]);
    }
    return (int)ctl_follow(call, id);
}
