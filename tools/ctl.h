// SPDX-License-Identifier: BSD-3-Clause
/* What the commands of migproxyctl share. */
#ifndef TOOLS_CTL_H
#define TOOLS_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/ctl-http.h"

#define CTL_OPTIONS_MAX 16 /* of one command */

/* Exit statuses, documented in the help; ctl-exit.h has those of errors. */
enum ctl_exit {
    CTL_EXIT_DONE = 0,
    CTL_EXIT_FAILURE = 1,
    CTL_EXIT_USAGE = 2,
    CTL_EXIT_REFUSED = 3,  /* nothing was changed */
    CTL_EXIT_STAYED = 4,   /* failed, the guest is where it was */
    CTL_EXIT_ATTENTION = 5 /* a person must look */
};

/* One call of a command, as parsed. */
struct ctl_call {
    struct ctl_http *http;
    bool json;      /* print one JSON object only */
    const char *id; /* where the command takes one; NULL: not given */
    const struct ctl_option *options; /* of the command, or NULL */
    /* values in the order of the command's options, NULL where not given */
    const char *value[CTL_OPTIONS_MAX];
};

struct ctl_option {
    const char *name;
    const char *arg; /* what its value is called in the help */
    const char *help;
    const char *member; /* the API's name of it; NULL: it has none */
    /* the API's limits of a number or a time (seconds, or the member's unit) */
    uint32_t min, max;
};

enum ctl_takes { CTL_TAKES_NOTHING, CTL_TAKES_ID, CTL_MAY_TAKE_ID };

struct ctl_command {
    const char *name;
    enum ctl_takes takes;
    const char *summary;              /* one line */
    const char *details;              /* lines of the command's help, or NULL */
    const struct ctl_option *options; /* ends with a NULL name; or NULL */
    int (*run)(const struct ctl_call *call); /* an enum ctl_exit */
};

extern const struct ctl_option ctl_migrate_options[];
extern const char ctl_migrate_details[];

int ctl_migrate(const struct ctl_call *call);
int ctl_list(const struct ctl_call *call);
int ctl_show(const struct ctl_call *call);
int ctl_cancel(const struct ctl_call *call);
int ctl_postcopy(const struct ctl_call *call);
int ctl_peers(const struct ctl_call *call);
int ctl_host(const struct ctl_call *call);

extern const struct ctl_option ctl_set_options[];
extern const struct ctl_option ctl_incoming_options[];
extern const struct ctl_option ctl_close_options[];
extern const char ctl_set_details[], ctl_incoming_details[];
extern const char ctl_watch_details[], ctl_close_details[];

int ctl_set(const struct ctl_call *call);
int ctl_close(const struct ctl_call *call);
int ctl_incoming(const struct ctl_call *call);
int ctl_watch(const struct ctl_call *call);

#endif
