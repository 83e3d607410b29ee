// SPDX-License-Identifier: BSD-3-Clause
/* The half of a carrier that lives in the data loop. Private to carrier*.c.
 *
 * How it works
 *
 * struct carrier (carrier.c) belongs to the control loop. It makes the core,
 * posts orders to it, and frees itself only after the core has gone: the core's
 * last act is to post its release. Everything the core tells goes through
 * carrier_tell_*() as copies, posted to the control loop, where it is dropped
 * if carrier_free() was called meanwhile.
 *
 * Every event of the data loop ends in carrier_core_turn(): take the mux's
 * events, connect what waits (destination), write what can be delivered, let
 * the mux decide on acknowledgements, and give the lanes what they take. */
#ifndef PROXY_CARRIER_CORE_H
#define PROXY_CARRIER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/carrier.h"
#include "proxy/carrier-pages.h"
#include "proxy/carrier-rate.h"
#include "proxy/endpoint.h"
#include "stream/return-path.h"
#include "stream/widen.h"
#include "transport/chunk.h"
#include "util/loop.h"

#define CARRIER_MAIN 0
#define CARRIER_PREEMPT 1
#define CARRIER_MULTIFD 2 /* + N */
#define CARRIER_MULTIFD_MAX (WIRE_CHANNELS - CARRIER_MULTIFD)

/* A sibling of main that QEMU closed with bytes undelivered: how long main's
 * own end (SHUT) may take to explain it. */
#define CARRIER_VERDICT_TIME (500 * MP_MS)

#define CARRIER_STATS_INTERVAL (50 * MP_MS)
#define CARRIER_PROOFS_MAX 16 /* carrier_prove_path() without an answer yet */

/* In MUX_PHASE_POSTCOPY: little may lie in front of a page. */
#define CARRIER_POSTCOPY_READ_BYTES 32768
#define CARRIER_POSTCOPY_WRITE_BYTES 16384
#define CARRIER_POSTCOPY_BUDGET_BYTES 65536
#define CARRIER_POSTCOPY_SOCKET_BYTES 32768 /* SO_SNDBUF towards QEMU */
#define CARRIER_POSTCOPY_BATCH_BYTES 65536
#define CARRIER_BULK_BATCH_BYTES 131072

enum carrier_life {
    CARRIER_OPEN,
    CARRIER_BROKEN,   /* on_broken was told; lanes may be up */
    CARRIER_FINISHED, /* on_finished was told */
};

struct carrier_lane {
    struct carrier_core *core; /* set once */
    enum wire_lane kind;
    struct lane *lane; /* NULL: not yet there, or closed */
    bool attached;     /* it was there once */
    bool answered;     /* a ping */
    mp_time rtt;
    mp_time pong_at;
    unsigned free_frames;   /* may leave in spite of the cap: PING, PONG */
    struct lane_stats last; /* the newest; kept after its end */
};

struct carrier_proof {
    uint64_t seq;
    mp_time since;
    mp_time rtt;
    bool express, bulk; /* answered */
};

struct carrier_channel {
    struct endpoint ep;
    bool used;          /* the channel was opened */
    bool drained;       /* our END was acknowledged */
    bool peer_ended;    /* the peer's direction ended, all delivered */
    bool dead;          /* QEMU is gone, main's word is awaited */
    struct error fault; /* how that was seen */
};

/* An accepted connection that is not labelled yet. */
struct carrier_guest {
    struct carrier_core *core;
    int fd;
    struct event *event;
    struct loop_timer timer; /* looks again when a header came in pieces */
    bool silent;             /* no byte seen so far */
    struct carrier_guest *next;
};

struct carrier_source { /* source only: carrier-source.c */
    int listen_fd;
    char *path;
    pid_t qemu_pid;
    struct event *event;
    struct loop_timer pause;       /* out of descriptors: accepts again later */
    struct carrier_guest *waiting; /* in the order of accept() */
    unsigned accepted;
    bool has[WIRE_CHANNELS]; /* labelled */
    unsigned multifd_count;  /* labelled */
    struct { /* labelled before main was, to be opened after it */
        uint16_t channel;
        int fd;
    } early[WIRE_CHANNELS];
    unsigned early_count;
};

struct carrier_target { /* destination only: carrier-dest.c */
    char *path;
    char **dirs;
    size_t dir_count;
    uid_t owner; /* of the socket, see path_connect_socket_of() */
    mp_time connect_timeout;
    uint16_t queue[WIRE_CHANNELS]; /* opened by the peer, to be connected */
    unsigned queue_count;
    mp_time started_at; /* first try of queue[0], 0: none yet */
    mp_time delay;
    struct loop_timer retry;
};

struct carrier_core {
    /* set once */
    struct carrier *owner; /* for carrier_tell_*() only */
    struct loop *loop;
    char *context;
    bool source;
    bool preempt;
    unsigned multifd;
    mp_time ping_interval;

    enum carrier_life life;
    struct error why;  /* broken: told */
    struct error lost; /* the bulk lane's end, after the migration's */
    bool ready;
    bool over;     /* the migration has ended: SHUT, or main's forward END */
    bool in_turn;  /* carrier_core_turn() runs */
    bool turn_due; /* and comes by itself */
    enum mux_phase phase;
    struct mux *mux;
    struct chunk_pool *pool;
    struct carrier_channel channel[WIRE_CHANNELS];
    uint16_t order[WIRE_CHANNELS]; /* channels as they were opened */
    unsigned order_count;
    uint64_t readable; /* bit per channel: the mux has something to deliver */

    struct carrier_lane express, bulk;
    mp_time frame_at; /* when the newest frame came */
    struct carrier_rate rate;
    struct carrier_proof proof[CARRIER_PROOFS_MAX];
    unsigned proof_count;

    struct stream_head_parser *head; /* source */
    bool head_ended;
    struct carrier_pages *pages; /* source; NULL at the destination */
    struct widen *widen;         /* source; NULL: requests pass as they are */
    struct stream_return_path_parser *return_path;
    bool shut_seen; /* source: written to QEMU; destination: read */

    struct carrier_source in;
    struct carrier_target out;
    struct carrier_drain *drains; /* source, broken: carrier-drain.c */

    struct event *again; /* another turn, after other events */
    struct loop_timer ping_timer, stats_timer, rate_timer, verdict_timer;
};

/* carrier-drain.c -------------------------------------------------------- */

struct carrier_drain;

/* Reads and drops what comes on fd until its end, or carrier_drain_close().
 * Takes fd; -1 is fine. */
void carrier_drain_add(struct carrier_core *core, int fd);
void carrier_drain_close(struct carrier_core *core);

/* carrier-core.c --------------------------------------------------------- */

/* Any thread; NULL and *err when out of memory. */
struct carrier_core *carrier_core_new(const struct carrier_params *params,
                                      struct carrier *owner, struct error *err);

/* The rest: data loop only. */
void carrier_core_start(struct carrier_core *core);
/* Ends all and frees the core. code and text go to the peer. */
void carrier_core_stop(struct carrier_core *core, enum error_code code,
                       const char *why);

/* Something happened: everything that follows from it. */
void carrier_core_turn(struct carrier_core *core);

/* The path is dead, unless the migration has ended and nothing of its return
 * path is lost: then it is finished. */
void carrier_core_fail(struct carrier_core *core, const struct error *err);

/* The path is dead: all sockets of QEMU's close, the peer's are reset. */
void carrier_core_break(struct carrier_core *core, const struct error *err);

/* A channel is open in the mux; its socket follows. */
void carrier_core_use_channel(struct carrier_core *core, uint16_t channel,
                              enum wire_class class);
/* Its socket is there (fd is always taken). */
void carrier_core_add_socket(struct carrier_core *core, uint16_t channel,
                             int fd);

void carrier_core_take_events(struct carrier_core *core);

void carrier_core_set_phase(struct carrier_core *core, enum mux_phase phase);

/* The next turn comes after other events of the loop. */
void carrier_core_again(struct carrier_core *core);

/* carrier-ends.c: what the end of a socket means ------------------------- */
extern const struct endpoint_ops carrier_endpoint_ops;
/* Main at the source, with core->widen. */
extern const struct endpoint_outlet carrier_widen_outlet;
/* The head of main has ended, understood or not. */
void carrier_ends_head(struct carrier_core *core);
/* The migration's end has passed: what is dead by now is all right. */
void carrier_ends_over(struct carrier_core *core);
/* The peer's direction of a channel has ended. */
void carrier_ends_forward_ended(struct carrier_core *core,
                                struct carrier_channel *ch);
/* A channel with a dead socket may have bytes to deliver. */
void carrier_ends_check_dead(struct carrier_core *core);
void carrier_ends_verdict_cb(void *arg);
/* Whether every channel has ended both ways. */
bool carrier_ends_all(const struct carrier_core *core);
/* Whether the return path has reached its receiver to the last byte. */
bool carrier_ends_return_path_safe(const struct carrier_core *core);

/* carrier-lanes.c -------------------------------------------------------- */
void carrier_lanes_add(struct carrier_core *core, struct lane *lane);
/* Gives both lanes what they take. flush: nothing more follows soon. */
void carrier_lanes_pump(struct carrier_core *core, bool flush);
void carrier_lanes_ping(struct carrier_core *core);
void carrier_lanes_prove(struct carrier_core *core, uint64_t seq);
void carrier_lanes_pong(struct carrier_core *core, enum wire_lane kind,
                        mp_time rtt, mp_time now);
/* GOAWAY with code and text on every lane. */
void carrier_lanes_close(struct carrier_core *core, enum error_code code,
                         const char *text);
void carrier_lanes_set_phase(struct carrier_core *core);

/* carrier-source.c ------------------------------------------------------- */
void carrier_source_listen(struct carrier_core *core, int fd, char *path,
                           pid_t qemu_pid);
/* Closes what listens or waits for its label, unlinks the path. */
/* The path is broken: what is not labelled yet is drained, and what is still
 * accepted. */
void carrier_source_drain(struct carrier_core *core);
void carrier_source_close(struct carrier_core *core);

/* carrier-dest.c --------------------------------------------------------- */
/* What must have come on a channel before QEMU may be connected. */
uint64_t carrier_first_bytes(enum wire_class class);
/* Takes path and dirs. */
void carrier_dest_set_target(struct carrier_core *core, char *path, char **dirs,
                             size_t dir_count, uid_t owner,
                             mp_time connect_timeout);
void carrier_dest_opened(struct carrier_core *core, uint16_t channel);
/* Connects what can be connected now. */
void carrier_dest_connect(struct carrier_core *core);
void carrier_dest_close(struct carrier_core *core);

/* carrier-stats.c -------------------------------------------------------- */
void carrier_stats_refresh(struct carrier_core *core);

/* carrier.c: to the control loop ----------------------------------------- */
void carrier_tell_ready(struct carrier *carrier);
void carrier_tell_path(struct carrier *carrier, uint64_t seq, mp_time rtt);
void carrier_tell_channel(struct carrier *carrier, uint16_t channel,
                          enum wire_class class);
void carrier_tell_head(struct carrier *carrier, const struct stream_head *head);
void carrier_tell_broken(struct carrier *carrier, const struct error *err);
void carrier_tell_finished(struct carrier *carrier);
/* The core has gone: nothing follows. */
void carrier_tell_gone(struct carrier *carrier);
void carrier_put_stats(struct carrier *carrier,
                       const struct carrier_stats *stats);

/* Allocation for what passes between loops: never NULL (as loop_post()). */
void *carrier_alloc(size_t size_bytes);
char *carrier_strdup(const char *text); /* NULL gives NULL */

#define carrier_log(core, level, ...)                                          \
    log_write(level, (core)->context, __VA_ARGS__)

#endif
