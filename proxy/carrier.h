// SPDX-License-Identifier: BSD-3-Clause
/* A carrier: the data path of one migration on one host.
 *
 * How it works
 *
 * It lives in a data loop: two lanes (express, bulk), one mux, and an endpoint
 * for each socket of QEMU's. The source's carrier listens on a unix socket and
 * labels what QEMU connects (main, preempt, multifd-N) by order and, where
 * order does not tell, by first bytes; the destination's connects to QEMU in
 * the order in which the source's QEMU did, main only with 8 bytes in hand,
 * multifd with 64, preempt at once (docs/internals.md;
 * qemu-migration.md section 1).
 *
 * The control loop steers it by the functions below, which post to the data
 * loop, and hears of it by struct carrier_ops, posted back. After
 * carrier_close() or carrier_free() no callback comes.
 *
 * What ends a QEMU socket: the end of one direction is passed on as SHUT_WR
 * once everything before it was written; a socket closes when both directions
 * have ended. When one breaks (reset, EPIPE) before the migration's end (SHUT
 * on the return path, or main ended), all siblings are closed at both ends and
 * on_broken says why. ECONNRESET from a QEMU that closed with unread bytes is
 * an end. A lane that breaks closes all QEMU sockets too (QEMU then fails a
 * precopy, which returns to the source, or pauses a postcopy). */
#ifndef PROXY_CARRIER_H
#define PROXY_CARRIER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proxy/carrier-pages-stats.h"
#include "stream/head.h"
#include "stream/small-pages.h"
#include "transport/lane.h"
#include "transport/mux.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/loop.h"

struct carrier;

struct carrier_ops { /* all on the control loop */
    /* Both lanes are attached and answered a ping. */
    void (*on_ready)(void *arg);
    /* carrier_prove_path(seq): both lanes answered; the slower round trip. */
    void (*on_path)(void *arg, uint64_t seq, mp_time rtt);
    /* A QEMU socket was accepted or connected. */
    void (*on_channel)(void *arg, uint16_t channel, enum wire_class class);
    /* Source: the head of the main stream was read (machine type, RAM block
     * table, section ids) or is opaque. Valid during the call. */
    void (*on_head)(void *arg, const struct stream_head *head);
    /* The data path is dead; local QEMU sockets are closed already. Once. */
    void (*on_broken)(void *arg, const struct error *err);
    /* Every channel has ended both ways, everything is delivered. Once. */
    void (*on_finished)(void *arg);
};

struct carrier_params {
    struct loop *control;
    struct loop *data;
    const char *context; /* copied: in front of log lines, "mig=ID side=..." */
    bool source;
    bool preempt;     /* postcopy-preempt is on */
    unsigned multifd; /* channels, 0: off */
    uint64_t switchover_buffer_bytes;
    /* source: of pages in postcopy, at most; 0: they are not reordered */
    uint64_t pool_bytes;
    /* source: page sizes to be translated (copied), NULL: none */
    const struct small_pages *small_pages;
    mp_time ping_interval;               /* both lanes, all the time */
    uint64_t bandwidth_bytes_per_second; /* cap on bulk outside the
                                          * switchover, PARSE_UNLIMITED */
};

/* NULL and *err on failure. */
struct carrier *carrier_new(const struct carrier_params *params,
                            const struct carrier_ops *ops, void *arg,
                            struct error *err);

/* Ends everything at once: lanes (GOAWAY with class and text of why, NULL:
 * "done"), QEMU sockets, the listening socket and its file. No callback comes
 * any more; what is left is carrier_get_stats(), which has the last numbers as
 * soon as the data loop has done this. */
void carrier_close(struct carrier *carrier, const struct error *why);

/* carrier_close(), if that was not called; then the handle is no more. NULL is
 * fine. */
void carrier_free(struct carrier *carrier, const struct error *why);

/* Hands over a lane that was welcomed and detached (EXPRESS or BULK, one
 * each). */
void carrier_add_lane(struct carrier *carrier, struct lane *lane);

/* Source: hands over a listening unix socket (ownership; path is unlinked at
 * the end, NULL: not). Connections from a process other than qemu_pid are
 * refused and logged (0: from anyone). */
void carrier_listen(struct carrier *carrier, int listen_fd, const char *path,
                    pid_t qemu_pid);

/* Destination: where QEMU listens (path and dirs are copied; opened by
 * path_connect_socket()). Connects are retried on EAGAIN and
 * ECONNREFUSED/ENOENT for at most connect_timeout. */
void carrier_set_target(struct carrier *carrier, const char *path,
                        char *const *dirs, size_t dir_count, uid_t owner,
                        mp_time connect_timeout);

/* At both ends: how much is held, and how little lies ahead of a page. */
void carrier_set_phase(struct carrier *carrier, enum mux_phase phase);

/* Another cap, or PARSE_UNLIMITED. */
void carrier_set_bandwidth(struct carrier *carrier, uint64_t bytes_per_second);

/* Pings both lanes now; on_path(seq) follows when both have answered. */
void carrier_prove_path(struct carrier *carrier, uint64_t seq);

/* Closes all sockets of the local QEMU (an emergency exit: QEMU fails a
 * precopy) but keeps the lanes; the other end's are reset with this text.
 * on_broken with this text follows at both ends. */
void carrier_close_qemu(struct carrier *carrier, enum error_code code,
                        const char *text);

/* Numbers for status and report; a copy not older than 100 ms, any time. */
struct carrier_channel_stats {
    char name[16]; /* "main", "preempt", "multifd-3" */
    enum wire_class class;
    bool open;
    uint64_t forward_bytes; /* source to destination, written or read here */
    uint64_t reverse_bytes;
    uint64_t held_bytes;
    unsigned blocked; /* MUX_BLOCKED_* */
};

struct carrier_stats {
    bool ready;
    mp_time express_rtt, bulk_rtt; /* last answered pings, 0: none */
    mp_time express_pong_at, bulk_pong_at;
    mp_time last_heard; /* the older of the two lanes' last bytes */
    uint64_t wire_sent_bytes, wire_received_bytes;
    uint64_t window_bytes;
    uint64_t path_rate_bytes_per_second;
    uint64_t page_requests; /* seen on the return path */
    bool shut_seen;         /* SHUT passed on the return path */
    uint32_t shut_status;
    uint64_t stale_frames;
    /* of main: "head", "ram", "pages" (postcopy, reordered), "devices" (the end
     * of a precopy), "end", "opaque (reason)" */
    char stream_state[96];
    struct carrier_pages_stats pages;
    unsigned channel_count;
    struct carrier_channel_stats channel[WIRE_CHANNELS];
};
void carrier_get_stats(struct carrier *carrier,
                       struct carrier_stats *ret_stats);

#endif
