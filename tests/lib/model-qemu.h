// SPDX-License-Identifier: BSD-3-Clause
/* A QEMU in a migration, as far as its daemon can tell: a model with the
 * manners of 7.2 (run states, events and their order, capabilities, what it
 * does when a socket breaks), on the test's own loop, with faults to order.
 *
 * A source has one socket, main, and sends a head that can be read, pages, and
 * marks in the pages' contents for "run" (postcopy's package) and "end". It is
 * completed when the return path says SHUT. A destination is one started with
 * -incoming defer and without -S: unless it is stopped before, it starts the
 * guest by itself when it has loaded it. */
#ifndef TESTS_LIB_MODEL_QEMU_H
#define TESTS_LIB_MODEL_QEMU_H

#include <stdbool.h>

#include "util/loop.h"

struct model_qemu;

enum model_fault {
    MODEL_OK,
    MODEL_REFUSE,    /* a command: an error, and nothing is done. A stage: the
                        migration is failed */
    MODEL_IGNORE,    /* a command: neither done nor answered. A stage: it is
                        not entered; QEMU answers, but nothing moves */
    MODEL_MUTE,      /* done, without an answer or event */
    MODEL_HANG,      /* from here on QEMU answers nothing and nothing moves */
    MODEL_EXIT,      /* QEMU ends instead: its sockets close */
    MODEL_LATE_EXIT, /* done, then it ends without an answer */
};

enum model_stage {
    MODEL_NEW,            /* both: as they are at first */
    MODEL_ACTIVE,         /* both */
    MODEL_PRE_SWITCHOVER, /* source: stopped, waits for migrate-continue */
    MODEL_DEVICE,         /* source: sends the end */
    MODEL_POSTCOPY,       /* both: the package is sent, or has come */
    MODEL_COMPLETED,      /* both */
    MODEL_STAGES
};

struct model_ops { /* any may be NULL */
    /* A command came, for the nth time, and is not looked at yet. */
    void (*on_command)(void *arg, struct model_qemu *q, const char *command,
                       unsigned nth);
    /* It was carried out and its answer is on its way. */
    void (*on_done)(void *arg, struct model_qemu *q, const char *command);
    void (*on_stage)(void *arg, struct model_qemu *q, enum model_stage stage);
    /* The guest runs, or runs no more, here. */
    void (*on_run)(void *arg, struct model_qemu *q, bool runs);
};

struct model_params {
    struct loop *loop;
    const char *path; /* of the monitor */
    const char *name; /* the guest's */
    bool is_source;
    const char *run_state; /* source: at the start; NULL: "running" */
    mp_time setup_time;    /* source: from its connection to active */
    mp_time pass_time;     /* source: of one pass */
    bool never_converges;  /* source: precopy goes on until the guest stands */
    mp_time rest_time;     /* source, postcopy: from package to end */
    mp_time load_time;     /* destination: from end (or package) to loaded */
    mp_time late_time;     /* both: the event "completed" comes so much late */
    bool hides_events;     /* MIGRATION events are never sent */
    bool cancels_late;     /* source: migrate_cancel comes between the guest's
                            * stop and pre-switchover, and is stuck there */
};

/* Listens. Ends the process (abort) when anything fails: this is a test. */
struct model_qemu *model_new(const struct model_params *params,
                             const struct model_ops *ops, void *arg);
/* NULL is fine. */
void model_free(struct model_qemu *q);

/* The nth time the command comes after the stage was entered (MODEL_NEW: at
 * all), this happens; nth 0: every time. */
void model_fail_command(struct model_qemu *q, enum model_stage after,
                        const char *command, unsigned nth,
                        enum model_fault fault);
void model_fail_stage(struct model_qemu *q, enum model_stage stage,
                      enum model_fault fault);

/* Somebody else does it: STOP with this run state ("paused", "io-error"). */
void model_stop(struct model_qemu *q, const char *run_state);
void model_resume(struct model_qemu *q);
/* The process ends: all its sockets close; path is no longer listened on. */
void model_exit(struct model_qemu *q);
/* From here on it answers nothing and nothing moves (MODEL_HANG). */
void model_hang(struct model_qemu *q);
/* The monitor's client is thrown out, QEMU lives on. */
void model_drop_client(struct model_qemu *q);

bool model_is_source(const struct model_qemu *q);
bool model_is_alive(const struct model_qemu *q);
bool model_is_hung(const struct model_qemu *q);
/* The guest runs here now; did so at any time since model_new(). */
bool model_runs(const struct model_qemu *q);
bool model_ever_ran(const struct model_qemu *q);
const char *model_run_state(const struct model_qemu *q);
const char *model_status(const struct model_qemu *q);
unsigned model_count(const struct model_qemu *q, const char *command);
/* Whether capabilities and parameters are as they were at first. */
bool model_is_restored(const struct model_qemu *q);
bool model_has_capability(const struct model_qemu *q, const char *name);
/* What a daemon must never do to a QEMU and did, or NULL. */
const char *model_violation(const struct model_qemu *q);

const char *model_stage_name(enum model_stage stage);
const char *model_fault_name(enum model_fault fault);

#endif
