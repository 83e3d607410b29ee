// SPDX-License-Identifier: BSD-3-Clause
/* What both ends of a migration have in common: who, how, how far, the first
 * cause of a failure, the record.
 *
 * A struct migration is embedded in struct source or struct destination and
 * belongs to the control loop. */
#ifndef PROXY_MIGRATION_H
#define PROXY_MIGRATION_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "proxy/advice.h"
#include "proxy/api.h"
#include "proxy/carrier.h"
#include "proxy/facts.h"
#include "proxy/migration-state.h"
#include "proxy/peer.h"
#include "proxy/policy.h"
#include "proxy/store.h"
#include "util/list.h"
#include "util/log.h"

#define MIGRATION_SOURCE "source"
#define MIGRATION_DESTINATION "destination"
#define MIGRATION_PATH "path" /* neither: what is between them */
#define MIGRATION_REQUEST_KEY_BYTES 640
#define MIGRATION_HOST_BYTES 64 /* of a name, with its NUL */
#define MIGRATION_GRACE (300 * MP_MS)
#define MIGRATION_SILENT_POLLS 3 /* of a path, before its silence counts */

struct migration;

/* What a migration needs of the daemon; all outlive it. */
struct migration_env {
    struct loop *control;
    struct loop *data;
    const struct conf *conf;
    struct store *store;
    struct peers *peers;
    /* Bytes that the page pool of one more migration may have. */
    uint64_t (*pool_share)(void *arg);
    /* Something that the API shows and that people wait for has changed: its
     * state, its limits. */
    void (*on_change)(void *arg, struct migration *migration);
    /* The migration has ended and can be freed (not from within this call). */
    void (*on_end)(void *arg, struct migration *migration);
    /* The id of the migration by which this very QEMU got its guest, if that
     * arrived stopped; else NULL. */
    const char *(*arrived_stopped)(void *arg, const struct migration *m);
    void *arg;
};

struct migration_failure {
    bool is_set;
    bool is_effect;     /* of something that is not known here (yet) */
    struct error error; /* class and text are the same at both ends */
    char side[16];      /* where it arose: source, destination or path */
    char detail[512];   /* what this end saw of it, if that is more; or "" */
};

/* The names of both, as the source says; "": as this end knows them. */
struct migration_hosts {
    char source[MIGRATION_HOST_BYTES];
    char destination[MIGRATION_HOST_BYTES];
};

/* A failure that may be the echo of one that the other end knows better. */
struct migration_soft {
    bool is_set;
    struct error error;
    struct loop_timer grace;
};

/* What is counted on the way. It is kept when what it was read from is no more:
 * QEMU tells no numbers of a migration that has failed, and a daemon that is
 * restarted has those of its predecessor's record. */
struct migration_counts {
    int64_t wall_us; /* when they were true */
    double percent;  /* the most so far */
    /* source: of multifd, while the guest stood still and while it ran */
    uint64_t multifd_bytes[2];
    uint64_t unsent_bytes;  /* of the page pool, when it ended with the path */
    bool has_received_rate; /* destination */
    uint64_t received_bytes_per_second;
    uint64_t received_bytes; /* at the last look */
    mp_time received_at;
    mp_time phase_began; /* when the state was entered */
    mp_time phases[MIGRATION_STATES];
    json_object *past; /* the record it was taken over by; NULL: begun here */
};

struct migration {
    struct list node; /* the manager's */
    bool is_kept;     /* the manager's: its last record is shown */
    const struct migration_env *env;
    bool is_source;
    struct api_migrate request; /* what was asked; id, vm and peer above all */
    char request_key[MIGRATION_REQUEST_KEY_BYTES];
    char context[96]; /* for log lines */
    char uuid[40];
    /* in force, as changed since they were asked for */
    uint64_t bandwidth_bytes_per_second;
    unsigned max_downtime_ms;

    enum migration_state state;
    bool cancelled;    /* somebody asked for it */
    bool refused;      /* failed before anything was changed */
    bool may_postcopy; /* both QEMUs are set up for it */
    bool preempt;
    bool small_pages;      /* huge pages are received as ordinary memory */
    bool is_unrecoverable; /* ... and the source QEMU aborts in a recovery */
    bool told_to_listen;   /* destination: migrate-incoming, or nearly */
    bool postcopy;         /* the switch was ordered */
    struct migration_failure failure;
    struct migration_soft soft;
    char *advice;            /* NULL: none */
    const char *guest_is_on; /* source, destination, unknown */
    struct migration_hosts hosts;
    bool unsettled; /* source: the destination has not heard how it ended */

    /* the flags of the commit protocol; on disk before the step they allow */
    bool committed;      /* COMMIT: the source never runs again ... */
    bool started;        /* ... and the destination was told to run */
    bool will_not_start; /* the destination has bound itself not to */
    bool should_run;    /* the guest ran at switchover, so it shall run there */
    char run_state[32]; /* before the switchover, QEMU's word */

    int64_t started_wall_us, ended_wall_us;
    mp_time began, ended;
    mp_time active_at; /* the first pass began */

    int64_t blackout_us; /* -1: not known (or the guest did not run) */
    int64_t blackout_uncertainty_us;
    struct qmp_migrate_info info; /* last seen of the local QEMU */
    uint64_t page_requests;       /* by QEMU's count */
    int64_t vcpu_blocktime_ms;    /* the destination's, -1: not known */
    struct policy_input policy;

    uint64_t pool_bytes;              /* share of [limits] pool */
    struct carrier *carrier;          /* NULL: none (yet, or any more) */
    struct carrier *closed_carrier;   /* for its last numbers */
    struct carrier_stats final_stats; /* from when there was one */
    uint64_t moved_bytes;             /* see migration_has_moved() */
    struct migration_counts counts;

    /* what a successor needs */
    char qmp_path[PATH_SOCKET_MAX + 1];
    char socket_path[PATH_SOCKET_MAX + 1];   /* of QEMU's data; "": none yet */
    char peer_qmp_path[PATH_SOCKET_MAX + 1]; /* there; for advice only */
    pid_t qemu_pid;
    uint64_t qemu_start_ticks;
    char qemu_version[64];
    struct qmp_caps *caps; /* to be put back; NULL: nothing was set */
    bool caps_changed;
    json_object *blocks;   /* RAM blocks, both page sizes */
    json_object *sections; /* section ids of the main stream */
};

/* Fills a zeroed migration. */
void migration_init(struct migration *m, const struct migration_env *env,
                    bool is_source, const struct api_migrate *request);
void migration_done(struct migration *m);

/* The one place that changes the state: asserts that the table allows it, logs,
 * and writes the record. */
void migration_set_state(struct migration *m, enum migration_state state);

/* As migration_set_state(), but the step it stands for may be taken only if the
 * record is on disk: on failure the state is what it was. */
int migration_commit_state(struct migration *m, enum migration_state state,
                           struct error *err);

/* The request as one line, for telling whether an ended migration's request was
 * the same. */
void migration_request_key(const struct api_migrate *request, char *buf,
                           size_t size);

/* Writes the record. Failures are logged; the migration goes on. */
void migration_save(struct migration *m);

/* What both ends call the hosts; the migration's, for a while. */
const char *migration_source_host(const struct migration *m);
const char *migration_destination_host(const struct migration *m);

/* Remembers the first cause of a failure; later ones are only logged. What is
 * ERR_LINK_LOST is always an effect, on the side MIGRATION_PATH, and gets the
 * text that both ends have for it; err's own becomes the detail. */
void migration_note_failure(struct migration *m, const char *side,
                            const struct error *err);

/* The same for what may be an effect of a cause that the other end knows: a
 * data path that broke, and what followed. A cause replaces it. */
void migration_note_effect(struct migration *m, const char *side,
                           const struct error *err);

/* The other end's word, in place of whatever was noted; that is the detail. */
void migration_take_failure(struct migration *m, const char *side,
                            const struct error *err, bool is_effect);

/* As the API and the record have it; NULL: there is none. */
json_object *migration_failure_to_json(const struct migration *m);
void migration_failure_from_json(struct migration *m, json_object *object);

/* What may be an echo waits for MIGRATION_GRACE for the other end's own word;
 * then late(arg) is called, which takes it. */
void migration_soft_init(struct migration *m, loop_fn late, void *arg);
/* Keeps err, unless one is kept already; but what only says that QEMU failed
 * gives way to what it failed of. */
void migration_soft_set(struct migration *m, const struct error *err);
/* The one that is kept, which it then is no more; false: none. */
bool migration_soft_take(struct migration *m, struct error *ret_err);
/* Forgets it; done: for good. */
void migration_soft_drop(struct migration *m);
void migration_soft_done(struct migration *m);

/* The state as it is shown: "undoing" where "cancelling" would be said of what
 * nobody has cancelled. In records it is the state's own name. */
const char *migration_shown_state(const struct migration *m);

/* Says what a person should do, as far as this end knows; the last word counts.
 * detail: see struct advice, else NULL. */
void migration_advise(struct migration *m, enum advice_kind kind,
                      const char *detail);
/* Takes where the other host's QEMU has its monitor, as its daemon or a record
 * says; what is no socket's path is passed over. */
void migration_take_peer_qmp(struct migration *m, json_object *object,
                             const char *member);
/* A text of advice to the log, a line each. */
void migration_log_advice(const char *context, const char *advice);

/* Where this end and its QEMU meet, by the token that both daemons know. */
void migration_set_socket(struct migration *m, const uint8_t *token);

void migration_log(const struct migration *m, enum log_level level,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the QEMU behind qmp is the one of the record (by pid and start time,
 * as far as both are known). Fills them in where the record has none. A
 * monitor's path may lead to another QEMU by now. */
bool migration_is_same_qemu(struct migration *m, struct qmp *qmp);

/* "source" or "destination": whose QEMU an error of the data path names (both
 * ends see the same text), else fallback. */
const char *migration_side_of(const struct error *err, const char *fallback);

/* Whether anything has come from or gone to QEMU since the last call. */
bool migration_has_moved(struct migration *m,
                         const struct carrier_stats *stats);

/* Takes what the local QEMU says. Numbers that it does not tell (any more) stay
 * as they are. guest_runs: it did until this was asked. */
void migration_take_info(struct migration *m,
                         const struct qmp_migrate_info *info, bool guest_runs);

/* Has the newest numbers of the data path, if there is or was one, in
 * final_stats. */
void migration_refresh(struct migration *m);

/* Destination, now and then: the rate at which bytes come. */
void migration_measure_rate(struct migration *m);

/* What QEMU counts as sent and the page pool holds, or held when it ended. */
uint64_t migration_held_bytes(const struct migration *m);

/* From QEMU to QEMU, by the channels' own count. */
uint64_t migration_forward_bytes(const struct migration *m);

/* The data path is over: closes it, its last numbers are kept. */
void migration_drop_carrier(struct migration *m, const struct error *why);

/* What the API shows. */
json_object *migration_to_json(struct migration *m);

/* What stands on disk: the same, and under "successor" what a later process
 * needs to finish or undo it. */
json_object *migration_to_record(struct migration *m);

/* Fills m (initialised) from a record. -1 with ERR_IO naming what is missing.
 */
int migration_from_record(struct migration *m, json_object *record,
                          struct error *err);

#endif
