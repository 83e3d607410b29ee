// SPDX-License-Identifier: BSD-3-Clause
/* What the files of the source's end share.
 *
 *   source.c         life, deadlines, who failed; entry points
 *   source-setup.c   preparing, connecting, setup
 *   source-run.c     following QEMU: precopy, the switch, pre-switchover
 *   source-watch.c   the poll, and who is silent for too long
 *   source-commit.c  COMMIT and everything after it
 *   source-set.c     other limits on the way
 *   source-undo.c    everything back to where it was */
#ifndef PROXY_SOURCE_PRIVATE_H
#define PROXY_SOURCE_PRIVATE_H

#include "proxy/monitor.h"
#include "proxy/source.h"
#include "transport/hello.h"

#define SOURCE_POLL (200 * MP_MS)      /* query-migrate */
#define SOURCE_AWAIT (10 * MP_SECOND)  /* one long wait for news */
#define SOURCE_RETRY (200 * MP_MS)     /* asking a peer again */
#define SOURCE_PROOF_AGE (200 * MP_MS) /* at the switchover */
#define SOURCE_PROVE_AGAIN (20 * MP_MS)
#define SOURCE_PROVE (1 * MP_SECOND) /* one proof of path and QMP */

/* What the destination last said of itself ("migration.await"). */
struct source_news {
    uint64_t seq;
    bool prepared; /* loaded, not inmigrate any more */
    bool started;
    bool completed; /* all of the guest has arrived */
    bool failed;
    mp_time resumed_at; /* its clock; 0: not (yet) */
};

/* A lane on its way: it is the carrier's once it is welcome. */
struct source_dial {
    struct source *source;
    struct lane *lane;
};

struct source {
    struct migration m;
    struct monitor monitor;
    struct facts facts; /* of the local QEMU */
    struct loop_timer deadline;
    const char *deadline_name; /* "setup", for the message */
    mp_time deadline_limit;
    struct loop_timer poll;
    struct loop_timer retry;

    /* max-downtime: what QEMU has, and what it is being told */
    unsigned downtime_ms, asked_downtime_ms;
    bool setting_downtime;

    /* the destination */
    bool taken_over;                 /* from an earlier daemon's record */
    struct small_pages *small_pages; /* to be translated; NULL: none */
    bool prepared_there; /* "migration.prepare" was sent and not refused */
    uint8_t token[HELLO_TOKEN_BYTES];
    struct source_dial dials[2]; /* express, bulk */
    struct source_news news;
    bool awaiting;
    mp_time lost_since; /* no answer from the destination; 0: it answers */

    /* QEMU */
    bool migrate_sent;
    enum qmp_migrate_status status; /* last event or answer */
    bool path_dead;                 /* on_broken was called */
    bool polling;                   /* query-migrate is under way */
    mp_time heard_at;               /* the last answer or event */
    bool pausing;                   /* we stop the guest ourselves */
    mp_time stopped_at;             /* the last STOP; 0: running */
    bool counting_stop;             /* what was sent until it */
    bool seen_stopped; /* in postcopy-active: query-status said so */

    /* proving the path */
    uint64_t proof_seq; /* of the proof under way or done */
    bool proving;
    int proof_parts;     /* that are still out */
    mp_time proof_first; /* when the first part was answered */
    struct loop_timer proof_timer;
    unsigned silent_polls; /* of the path, in a row, in postcopy */
    unsigned mute_polls;   /* of QEMU, in a row */
    void (*proof_then)(struct source *s, const struct error *err);
    bool continue_sent;
    bool continue_refused; /* QEMU stays in pre-switchover */

    /* commit */
    bool commit_sent;
    bool source_completed;
    mp_time resumed_at_local; /* the destination's RESUME by our clock */

    /* undo */
    bool cancel_sent; /* migrate_cancel */
    bool untouched;   /* it began before anything was changed */
    bool unsure;      /* QEMU does not say whether the guest runs */
    bool restoring;   /* the guest is as it was; the rest follows */
    bool telling;     /* the destination */
    bool lost_here;   /* ... that the guest may be gone with this QEMU */
    bool copy_there;  /* all that is left of the guest is kept there */
    bool settled;     /* QEMU's own part is over */
    bool cont_sent;
    mp_time undo_began;
    bool giving_up;  /* telling the destination so, then attention */
    bool told_late;  /* it was told of a failure in postcopy ... */
    bool tells_late; /* ... and its answer is awaited */
    bool doubting;   /* a failure whose meaning QEMU or the destination knows */
    mp_time doubt_began;
};

/* source.c */
void source_deadline(struct source *s, const char *name, mp_time limit);
void source_drop_calls(struct source *s);
void source_deadline_stop(struct source *s);
/* Asks QEMU what a failure past the point of no return means. */
void source_ask_doubt(struct source *s);
/* Something went wrong: notes the cause and does what the state allows. */
void source_fail(struct source *s, const char *side, const struct error *err);
/* As source_fail(), for what may only be the echo of a cause at the other end
 * (a closed socket, QEMU's "failed"): that end's own word is waited for a
 * moment, so that both tell the same story. */
void source_fail_softly(struct source *s, const struct error *err);
/* The other end's word will not come. */
void source_no_word(struct source *s);
void source_grace_cb(void *arg);
void source_failf(struct source *s, const char *side, enum error_code code,
                  const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void source_end(struct source *s, enum migration_state state);
void source_attention(struct source *s);
mp_time source_qmp_timeout(const struct source *s);

/* source-setup.c */
int source_prepare(struct source *s, struct error *err);
void source_drop_lanes(struct source *s);
extern const struct qmp_ops source_qmp_ops;

/* source-run.c */
void source_on_event(void *arg, const char *name, json_object *data,
                     int64_t timestamp_us, mp_time received);
void source_await(struct source *s);
void source_on_info(void *arg, const struct qmp_migrate_info *info,
                    const struct error *err);
/* What the policy says to what was seen last, done. */
void source_decide(struct source *s);
void source_retry_cb(void *arg);
void source_proof_late(void *arg);
void source_on_path(void *arg, uint64_t seq, mp_time rtt);
void source_check_commit(struct source *s);
void source_call(struct source *s, const char *method, json_object *params,
                 mp_time timeout, peer_cb cb);
json_object *source_params(struct source *s);

/* source-commit.c */
void source_commit(struct source *s);
void source_commit_again(struct source *s);
/* All has moved, or can be taken to have. */
void source_commit_complete(struct source *s);
/* Goes on with a committed migration that was taken over. */
void source_commit_take_over(struct source *s);
void source_on_news(struct source *s);

/* source-watch.c */
void source_poll_cb(void *arg);

/* source-undo.c */
void source_undo(struct source *s);
void source_undo_status(struct source *s);
/* Tells the destination that no COMMIT comes, or no page, and why. attention:
 * for a person to see, what is loaded in its QEMU stays as it is. */
void source_tell_abort(struct source *s, bool attention, peer_cb cb);
/* From the answer to it: the cause of what was only an effect here, or that it
 * was not heard. */
void source_told(struct source *s, json_object *result,
                 const struct error *err);

#endif
