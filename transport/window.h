// SPDX-License-Identifier: BSD-3-Clause
/* How many bytes of bulk may be in flight: sent and not yet acknowledged as
 * delivered, all channels of the bulk lane together. Pure.
 *
 * How it works
 *
 * window = gain x delivery rate x round trip, at least a floor. Where a target
 * is set, at least delivery rate x (round trip + target): on short paths what
 * is queued costs as long as the target, and where the path carries less than
 * it could for long, more than the target is queued. The rate is the largest
 * average over 50 ms (or a round trip) of the last two seconds (or ten round
 * trips): a few frames would measure the burst that a shaper lets pass. Without
 * a target the floor is lowered on paths so slow that it takes long. The round
 * trip is the smallest of the last ten seconds, from a frame's sending to its
 * acknowledgement (before there is one, from PONGs). Both come from probes:
 * frames that ask for an acknowledgement (WIRE_FLAG_ACK): four in a window with
 * a gain of 2, ten with one of 1.25.
 *
 * Growing: where the window is what limits, a round trip delivers a window, so
 * a gain of 2 doubles it each round trip until the path limits. A sample taken
 * while the sender had nothing to send says nothing about the path and counts
 * only if it is larger than what is known.
 *
 * Keeping the round trip honest: a gain above 1 keeps a queue, and a smallest
 * round trip that was measured behind the own queue would let the window creep
 * up. So when no sample near the smallest came for ten seconds, the window is
 * lowered for about two round trips to half of what the path holds, and a frame
 * sent then measures anew; one such measurement can at most double the round
 * trip, so a QEMU that stands still for a moment does not fool it. */
#ifndef TRANSPORT_WINDOW_H
#define TRANSPORT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "util/clock.h"

#define WINDOW_FLOWS 64 /* flow numbers are below */
#define WINDOW_PROBES 64

#define WINDOW_PRECOPY_GAIN_PERCENT 200
#define WINDOW_PRECOPY_FLOOR_BYTES (1u << 20)
#define WINDOW_POSTCOPY_GAIN_PERCENT 125
#define WINDOW_POSTCOPY_FLOOR_BYTES 65536
/* With a target: what three pages and their framing take. */
#define WINDOW_TARGET_FLOOR_BYTES (3 * 4128)

/* A frame that was sent with WIRE_FLAG_ACK and is not yet acknowledged. */
struct window_probe {
    unsigned flow;
    uint64_t end; /* offset behind the frame, in its flow */
    mp_time sent_at;
    /* as they stood when it was sent */
    uint64_t delivered;
    mp_time delivered_at;
    mp_time first_sent_at;
    bool idle_sender;
    bool drained; /* nothing of ours was queued in front of it */
};

struct window_flow {
    uint64_t sent;  /* offset behind the last frame */
    uint64_t asked; /* behind the last frame with WIRE_FLAG_ACK */
    uint64_t acked;
    uint64_t unflagged_bytes; /* sent since asked */
};

struct window {
    unsigned gain_percent;
    uint64_t floor_bytes;
    uint64_t floor_most_bytes; /* as it was set */
    mp_time target;            /* of queueing, at least; 0: none */
    mp_time queue;             /* what is aimed at now, with a target */

    uint64_t in_flight;
    uint64_t delivered;    /* acknowledged, ever */
    mp_time delivered_at;  /* of the last acknowledgement */
    mp_time first_sent_at; /* of the probe acknowledged last */
    uint64_t idle_until;   /* the sender was idle until delivered gets here */
    struct window_flow flows[WINDOW_FLOWS];
    uint64_t unflagged_bytes; /* of all flows */

    struct window_probe probes[WINDOW_PROBES];
    unsigned probe_count;

    uint64_t rate; /* bytes per second: largest of this and the last period */
    uint64_t rate_now, rate_before;
    mp_time rate_since; /* start of this period */
    mp_time span_since; /* what is averaged, 0: not begun */
    uint64_t span_delivered;
    uint64_t beside; /* delivered meanwhile, not of this window */
    bool span_idle;
    unsigned spans; /* averages so far */

    mp_time rtt; /* smallest from acknowledgements, 0: none yet */
    mp_time rtt_seen_at;
    mp_time pong_rtt; /* smallest of PONGs */
    bool may_drain;
    bool draining;
    mp_time drain_until;
    mp_time drain_rtt; /* measured in this drain, 0: not yet */
};

void window_init(struct window *w);

/* Gain and floor of a phase; takes effect at once. A smaller gain also starts
 * with a new measurement of the round trip: frames become smaller then, and the
 * queue is to go. */
void window_set_gain(struct window *w, unsigned gain_percent,
                     uint64_t floor_bytes);

/* A target of queueing delay, with the gain of postcopy; until
 * window_set_gain(). */
void window_set_target(struct window *w, mp_time target, uint64_t floor_bytes);

/* Whether the window may be lowered to measure: not while the guest stands
 * still and waits for what is being sent. */
void window_allow_drain(struct window *w, bool allowed);

/* The window, bytes. */
uint64_t window_bytes(const struct window *w);

/* Whether a frame of len_bytes may leave. One always may when nothing is in
 * flight; above the floor the last frame may stand out of the window. */
bool window_has_room(const struct window *w, uint64_t len_bytes);

/* Whether bytes of the flow are in flight and none of them asked for an
 * acknowledgement, because the window was larger then. One more frame must be
 * let out, to ask. */
bool window_must_ask(const struct window *w, unsigned flow);

/* Whether a frame of len_bytes that leaves now should ask for an
 * acknowledgement: nothing of the flow that did is under way, or enough bytes
 * have gone that did not. */
bool window_wants_ack(const struct window *w, unsigned flow,
                      uint64_t len_bytes);

/* A frame of len_bytes left that ends at offset end of flow; flagged: it
 * carries WIRE_FLAG_ACK. */
void window_sent(struct window *w, unsigned flow, uint64_t end,
                 uint64_t len_bytes, bool flagged, mp_time now);

/* The flow is acknowledged up to offset, len_bytes of it newly. */
void window_acked(struct window *w, unsigned flow, uint64_t offset,
                  uint64_t len_bytes, mp_time now);

/* len_bytes were delivered that took their part of the path and are not of the
 * window: on the express lane. */
void window_beside(struct window *w, uint64_t len_bytes);

/* The flow is gone; in_flight_bytes of it will never be acknowledged. */
void window_forget(struct window *w, unsigned flow, uint64_t in_flight_bytes);

/* There was room and nothing to send. */
void window_idle(struct window *w);

/* A PING came back. */
void window_pong(struct window *w, mp_time rtt);

/* The round trip the window is made from, 0: not known. */
mp_time window_rtt(const struct window *w);

#endif
