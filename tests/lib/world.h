// SPDX-License-Identifier: BSD-3-Clause
/* Two daemons in one process, without their APIs, each with a model of QEMU,
 * and a relay between them: a migration, with what must never happen watched
 * all the time.
 *
 * What is watched, at each command that reaches a QEMU and whenever a guest
 * starts or stops:
 *   - the guest never runs on both hosts
 *   - cont reaches the destination only after the source's record on disk says
 *     COMMIT and the destination's says STARTED
 *   - cont reaches the source only while its record on disk says no COMMIT, and
 *     the destination's says no STARTED
 *   - what a model itself takes as a breach of manners
 * The first breach is kept as text. */
#ifndef TESTS_LIB_WORLD_H
#define TESTS_LIB_WORLD_H

#include <json-c/json.h>
#include <stdatomic.h>

#include "proxy/manager.h"
#include "proxy/store.h"
#include "tests/lib/model-qemu.h"
#include "tests/lib/relay.h"
#include "transport/tls.h"

#define WORLD_VM "web"

struct world;

struct world_host {
    struct world *world;
    bool is_source;
    char name[8];
    char address[32];
    char state_dir[64];
    struct conf *conf;
    struct store *store;
    struct manager *manager; /* NULL: the daemon is down */
    struct peers *peers;
};

/* What is the same for all worlds of a program: loops and certificates. */
struct worlds {
    struct loop *control;
    struct loop *data;
    char *pki;
    struct tls *tls[2];
    unsigned made;
    unsigned slow; /* all of the daemons' deadlines are so many times as long:
                    * 1, with sanitizers or under valgrind more */
    unsigned held_up; /* how often a loop was kept from running for 30 ms, as
                       * worlds_run_for() saw it */
    unsigned asked;   /* the data loop, whether it runs */
    atomic_uint seen; /* by it */
    mp_time asked_at;
};

struct world_params {
    enum api_mode mode;
    enum api_on_timeout on_timeout;
    double timeout_seconds; /* 0: none */
    unsigned multifd;       /* channels that are asked for; models have main */
    unsigned slow;          /* as in struct worlds, for this one; 0: the same */
    struct model_params source, destination; /* what is not 0 here counts */
    void (*on_command)(struct world *w, struct model_qemu *q,
                       const char *command, unsigned nth);
    void (*on_done)(struct world *w, struct model_qemu *q, const char *command);
    void (*on_stage)(struct world *w, struct model_qemu *q,
                     enum model_stage stage);
    void (*set_up)(struct world *w); /* when all is there, before the start */
};

struct world {
    struct worlds *all;
    struct world_params params;
    char name[96]; /* the case's, for messages */
    char id[16];   /* of the migration */
    char dir[48];
    struct world_host source, destination;
    struct relay *relay;
    struct model_qemu *source_qemu, *destination_qemu;
    char breach[300];
    mp_time began, over_at;
    void *user;    /* of the test */
    unsigned step; /* likewise */
};

/* Ends the process (exit) when anything of the surroundings fails. */
void worlds_init(struct worlds *all);
void worlds_done(struct worlds *all);

/* A world with both daemons up; the migration is not begun. */
struct world *world_new(struct worlds *all, const char *name,
                        const struct world_params *params);
void world_free(struct world *w);

/* Begins the migration. False with *err if it was refused at once. */
bool world_start(struct world *w, struct error *err);
/* Both daemons have ended it (one that is down counts as done). */
bool world_is_over(struct world *w);
/* Runs the loop until over, at most seconds. Returns whether it is. */
bool world_run(struct world *w, double seconds);
/* Runs the loop until each of the worlds is over. */
bool worlds_run(struct worlds *all, struct world **worlds, size_t count,
                double seconds);
/* Runs the loop until done(w), at most 20 s. */
bool world_wait(struct world *w, bool (*done)(struct world *w));
void worlds_run_for(struct worlds *all, mp_time time);

/* A daemon ends, as by SIGKILL: records on disk stay as they are at this
 * moment; and starts again on them. */
void world_kill(struct world_host *host);
void world_boot(struct world_host *host);

/* The record on disk, or NULL; the caller's to put. */
json_object *world_record(const struct world_host *host);
/* What the API shows, or NULL; the caller's to put. */
json_object *world_show(const struct world_host *host);
/* A flag of the record's successor part. */
bool world_flag(const struct world_host *host, const char *name);
/* "failed", "completed", ...; "" if there is no such migration. In one of a few
 * static buffers. */
const char *world_state(const struct world_host *host);
/* Class of its error, "" if there is none. */
const char *world_class(const struct world_host *host);
const char *world_text(const struct world_host *host, const char *member);
/* "failed: link-lost on the path: what happened". */
const char *world_error(const struct world_host *host);

/* The host's record cannot be written from now on, or can be again. */
void world_break_store(struct world_host *host);
void world_mend_store(struct world_host *host);

/* A copy of text in one of a few static buffers. */
const char *world_keep(const char *text);

void world_breach(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* After the end: what is wrong, as text, or NULL.
 *   - a breach
 *   - an end state that contradicts where the guest runs
 *   - two ends that tell different stories
 *   - sockets left behind */
const char *world_complaint(struct world *w);

/* Whether each QEMU that lives and answers has its capabilities and parameters
 * as they were. */
bool world_is_restored(const struct world *w);

#endif
