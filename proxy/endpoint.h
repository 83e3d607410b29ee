// SPDX-License-Identifier: BSD-3-Clause
/* An endpoint: one socket of QEMU's and the channel of the mux it belongs to.
 *
 * How it works
 *
 * Input is what QEMU writes: it is read straight into pooled chunks, as much
 * as mux_send_room() allows, and queued in the mux. While there is no room the
 * read event is deleted; endpoint_room() adds it again. Output is what the mux
 * offers for delivery: it is written with sendmsg(), with a write event only
 * while the socket is full (or the turn's budget is spent). Each direction ends
 * by itself: QEMU's FIN becomes mux_end(), the peer's END becomes SHUT_WR; the
 * socket is closed when both have ended.
 *
 * When QEMU has closed the socket altogether (or reset it: AF_UNIX says so when
 * it closed with bytes unread), everything it had written is taken first, then
 * on_gone is asked what that means. The endpoint itself never knows whether a
 * migration is over. */
#ifndef PROXY_ENDPOINT_H
#define PROXY_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "transport/chunk.h"
#include "transport/mux.h"
#include "util/error.h"
#include "util/loop.h"

struct endpoint;

/* Chunks of the pool an endpoint reads into. */
#define ENDPOINT_CHUNK_BYTES 131072

/* Per event; then other sockets of the loop have their turn. */
#define ENDPOINT_BUDGET_BYTES 262144

struct endpoint_ops { /* all may call endpoint_close() */
    /* Bytes were read from QEMU and are queued. */
    void (*on_input)(void *arg, struct endpoint *ep, const uint8_t *data,
                     size_t len_bytes);
    /* Bytes were written to QEMU. */
    void (*on_output)(void *arg, struct endpoint *ep, const uint8_t *data,
                      size_t len_bytes);
    /* The mux has more to send, or delivered more, than before. more: the same
     * socket is read on after this returns, so nothing need be flushed. */
    void (*on_progress)(void *arg, struct endpoint *ep, bool more);
    /* QEMU half-closed: the input has ended; mux_end() follows. */
    void (*on_input_end)(void *arg, struct endpoint *ep);
    /* QEMU closed both ways before the peer's direction had ended. Nothing
     * can be written any more; mux_end() follows unless the endpoint is closed
     * now. err says how it was seen. */
    void (*on_gone)(void *arg, struct endpoint *ep, const struct error *err);
    /* Cannot go on (memory, a broken descriptor). */
    void (*on_failed)(void *arg, struct endpoint *ep, const struct error *err);
};

/* Where input goes, if not straight into the mux. */
struct endpoint_intake {
    /* How many bytes may be read now; 0: none, until endpoint_room(). */
    size_t (*room)(void *arg, struct endpoint *ep);
    /* len_bytes at data, inside chunk (a reference of its own may be taken).
     * -1 with *err: on_failed follows. Must not close the endpoint. */
    int (*take)(void *arg, struct endpoint *ep, struct chunk *chunk,
                const uint8_t *data, size_t len_bytes, struct error *err);
};

/* Where output is looked at before it is written. */
struct endpoint_outlet {
    /* What waits, from the first byte on that was not written; it may be
     * changed. *ret_len: how many bytes of it may be written now (those not are
     * shown again, with more). -1 with *err: on_failed follows. Must not close
     * the endpoint. */
    int (*look)(void *arg, struct endpoint *ep, const struct iovec *iov,
                int count, size_t *ret_len, struct error *err);
    void (*written)(void *arg, struct endpoint *ep, size_t len_bytes);
};

struct endpoint_limits {
    size_t read_bytes;   /* one recv() */
    size_t write_bytes;  /* one sendmsg() */
    size_t budget_bytes; /* one event */
};

struct endpoint { /* to be embedded; only endpoint.c writes it */
    struct loop *loop;
    struct mux *mux;
    struct chunk_pool *pool;
    const struct endpoint_ops *ops;
    const struct endpoint_intake *intake; /* NULL: the mux; the same arg */
    const struct endpoint_outlet *outlet; /* NULL: none */
    void *arg;
    uint16_t channel;
    enum wire_class class;
    bool source;     /* the input is the forward direction */
    const char *who; /* "source QEMU", for texts */
    char name[16];   /* "main", "multifd-3" */
    struct endpoint_limits limits;

    int fd; /* -1: not open, or closed */
    struct event *read_event;
    struct event *write_event;
    bool opened;       /* it had a socket once */
    bool input_ended;  /* FIN seen and mux_end() called */
    bool output_ended; /* the peer's END was passed on */
    bool output_dead;  /* QEMU takes nothing any more */
    bool discarding;   /* ... and that is all right: output is dropped */
    bool write_wanted; /* the write event is armed */
    bool read_paused;  /* no room: endpoint_room() is awaited */
    struct chunk *chunk;
    size_t chunk_used_bytes;
    uint64_t input_bytes;  /* read from QEMU */
    uint64_t output_bytes; /* written to QEMU, dropped ones not counted */
};

/* "main", "preempt", "multifd-3", "disk-4". multifd-N is channel 2 + N. */
void endpoint_format_name(enum wire_class class, uint16_t channel, char *buf,
                          size_t size);

/* Prepares an endpoint without a socket. loop, mux and pool must outlive it.
 * source: this is the source QEMU's end. */
void endpoint_init(struct endpoint *ep, struct loop *loop, struct mux *mux,
                   struct chunk_pool *pool, uint16_t channel,
                   enum wire_class class, bool source,
                   const struct endpoint_ops *ops, void *arg);

/* Takes the socket (always, also on failure) and starts reading. The mux's
 * channel must be open. -1 with *err when out of memory. */
int endpoint_open(struct endpoint *ep, int fd, struct error *err);

/* From the next event on. */
void endpoint_set_limits(struct endpoint *ep,
                         const struct endpoint_limits *limits);

/* SO_SNDBUF of the socket (0: unchanged): what may lie between the daemon and
 * QEMU. */
void endpoint_set_send_buffer(struct endpoint *ep, int size_bytes);

/* Writes what the mux offers, up to the budget. */
void endpoint_deliver(struct endpoint *ep);

/* From now on input goes there. */
void endpoint_set_intake(struct endpoint *ep,
                         const struct endpoint_intake *intake);

/* From now on output passes there. */
void endpoint_set_outlet(struct endpoint *ep,
                         const struct endpoint_outlet *outlet);

/* There is room (MUX_EVENT_ROOM, or the intake's): reading goes on. */
void endpoint_room(struct endpoint *ep);

/* MUX_EVENT_ENDED: passes the end on as SHUT_WR. */
void endpoint_peer_ended(struct endpoint *ep);

/* QEMU is gone and its migration is over: what still comes is dropped (and
 * counts as delivered, so that the peer can end). */
void endpoint_discard(struct endpoint *ep);

/* Closes the socket at once; the mux's channel is left as it is. May be called
 * again, from callbacks, and on an endpoint without a socket. */
void endpoint_close(struct endpoint *ep);

/* As endpoint_close(), but gives the socket away. -1: it is not open. */
int endpoint_release(struct endpoint *ep);

/* Whether the socket is open. */
static inline bool endpoint_is_open(const struct endpoint *ep)
{
    return ep->fd >= 0;
}

#endif
