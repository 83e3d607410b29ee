// SPDX-License-Identifier: BSD-3-Clause
/* What the files of the destination's end share.
 *
 *   destination.c        life, failures, news, requests
 *   destination-setup.c  prepare, lanes, listen
 *   destination-run.c    following QEMU, commit, finish
 *   destination-undo.c   abort, and what it leads to */
#ifndef PROXY_DESTINATION_PRIVATE_H
#define PROXY_DESTINATION_PRIVATE_H

#include "proxy/destination.h"
#include "proxy/monitor.h"

#define DESTINATION_LOADED_POLL (2 * MP_MS) /* inmigrate -> paused */
#define DESTINATION_TICK (1 * MP_SECOND)

struct destination {
    struct migration m;
    char expected_uuid[API_UUID_SIZE + 1]; /* said on this host; "": any */
    struct monitor monitor;
    struct facts facts;
    struct loop_timer deadline;
    const char *deadline_name;
    mp_time deadline_limit;
    struct loop_timer tick;   /* is the source still there? */
    struct loop_timer loaded; /* polls for the end of loading */

    bool preempt_needed;
    json_object *source_facts; /* from prepare, until compared */
    uint8_t token[HELLO_TOKEN_BYTES];
    bool has_token;
    bool incoming_sent; /* migrate-incoming */
    bool carrier_ready;
    mp_time heard_at;      /* the source's last request */
    unsigned silent_ticks; /* in a row, in postcopy */

    /* requests that wait for something */
    struct peer_request *prepare;
    struct peer_request *listen;
    struct peer_request *await;
    struct peer_request *commit;
    struct peer_request *finish;
    uint64_t await_seen;

    /* news */
    uint64_t seq;
    bool prepared;
    bool completed;
    mp_time resumed_at;

    enum qmp_migrate_status status;
    mp_time qemu_heard_at; /* its last answer or, in postcopy, byte */
    unsigned mute_ticks;   /* of QEMU, in a row */
    bool source_active;    /* the source's QEMU has begun its first pass */
    bool asking_qemu;
    bool finished; /* every byte was delivered */
    bool asking_loaded;
    bool cont_sent;
    bool path_dead;
    bool shutdown_seen; /* the guest itself ended its QEMU */
    bool undoing;
    bool awaits_abort;    /* the source knows this end: it has the last word */
    bool undone;          /* QEMU's part is over */
    bool quit_sent;       /* to QEMU */
    bool ended_by_source; /* abort came */
    struct peer_request *abort; /* its answer is not known yet */
    bool restarted;             /* QEMU has not yet said what it has */
    bool attention;             /* ... and is for a person to see */
    bool own_cause;             /* ... but the cause is ours */
    json_object *late_abort;    /* came while "does it run?" was open */
    bool may_quit;              /* QEMU, if nothing speaks against it */
    bool must_look;             /* into QEMU, before that */
    mp_time look_until;         /* 0: not begun */
    bool kept;                  /* a copy of the guest, in QEMU */
    bool restoring;
};

/* In attention: why the source says that it is, unless the cause is ours. */
void destination_take_late_cause(struct destination *d);

/* destination.c */
void destination_deadline(struct destination *d, const char *name,
                          mp_time limit);
void destination_fail(struct destination *d, const struct error *err);
/* As destination_fail(), before COMMIT, for a broken path: its cause may be the
 * source's, whose abort is waited for a moment, so that both ends tell the
 * same story. */
void destination_fail_softly(struct destination *d, const struct error *err);
void destination_failf(struct destination *d, enum error_code code,
                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void destination_end(struct destination *d, enum migration_state state);
/* Something changed: answers the await that is open. */
void destination_news(struct destination *d);
json_object *destination_news_to_json(struct destination *d);
/* class, message and side of the failure. */
json_object *destination_failure_to_json(struct destination *d);
mp_time destination_qmp_timeout(const struct destination *d);
/* Started, and whether the guest runs cannot be found out: for a person. */
void destination_qemu_unknown(struct destination *d, const struct error *err);
/* Answers the abort that is open, if there is one. */
void destination_answer_abort(struct destination *d);
/* Ends a request with the migration's failure. */
void destination_refuse(struct destination *d, struct peer_request **request);

/* destination-setup.c */
int destination_prepare(struct destination *d, struct error *err);
void destination_listen(struct destination *d);
extern const struct qmp_ops destination_qmp_ops;

/* destination-run.c */
void destination_on_event(void *arg, const char *name, json_object *data,
                          int64_t timestamp_us, mp_time received);
void destination_loaded_cb(void *arg);
/* On each tick: up to precopy whether QEMU answers at all; in a postcopy in
 * which nothing moves whether it is over, or does not answer either. */
void destination_ask_qemu(struct destination *d);
void destination_source_active(struct destination *d);
void destination_prove(struct destination *d, struct peer_request *request);
void destination_commit(struct destination *d, struct peer_request *request);
void destination_finish(struct destination *d, struct peer_request *request);
/* The guest was started and has ended its QEMU itself: nothing is left to do.
 */
void destination_guest_left(struct destination *d);
void destination_resume_again(struct destination *d);

/* destination-undo.c */
void destination_abort(struct destination *d, struct peer_request *request);
/* Before COMMIT: bound not to start; QEMU is ended if it holds a half-loaded or
 * surplus guest and may_quit says so, now or before. */
void destination_undo(struct destination *d, bool may_quit);
/* On the "loaded" timer while undoing: what does QEMU hold? */
void destination_look(struct destination *d);
/* The undoing took too long: the source did not say what became of it, or QEMU
 * does not answer. */
void destination_undo_late(struct destination *d);

#endif
