// SPDX-License-Identifier: BSD-3-Clause
/* The window on bulk in flight. */
#include "transport/window.h"

#include <assert.h>

/* The rate is the largest average over at least a span in the last period. In
 * precopy a round trip is enough where it is not very short: the window then
 * exceeds the path by twice a burst at most. */
#define RATE_SPAN (50 * MP_MS)
#define RATE_SPAN_LEAST (10 * MP_MS)
#define RATE_PERIOD_RTTS 10
#define RATE_PERIOD_MIN (2 * MP_SECOND)
/* Where what is in flight takes longer than this, the floor gives way, down to
 * so many bytes: a proof of the path waits behind it, and QEMU takes what is in
 * flight for sent. */
#define FLOOR_TIME (50 * MP_MS)
#define FLOOR_LEAST_BYTES 65536
#define FLOOR_MORE_PERCENT 125
/* The queue may take longer than the target, up to so many times, while the
 * path carries less than this part of what it has shown that it can. */
#define QUEUE_TARGETS_MAX 8
#define RATE_LOW_PERCENT 92
#define RATE_FULL_PERCENT 96
#define QUEUE_MORE_PERCENT 110
#define QUEUE_LESS_PERCENT 97
/* One of so many averages is taken with twice the queue, or what the path could
 * carry would be forgotten where the window has limited it for long. */
#define SPANS_PER_PROBE 20
#define RATE_MAX 1e15 /* bytes per second; keeps the arithmetic in range */
#define RTT_VALID (10 * MP_SECOND)
/* A round trip this much above the smallest still confirms it. */
#define RTT_CONFIRM_PERCENT 112
#define DRAIN_MIN (10 * MP_MS)
#define DRAIN_RTTS 3

void window_init(struct window *w)
{
    *w = (struct window){
        .gain_percent = WINDOW_PRECOPY_GAIN_PERCENT,
        .floor_bytes = WINDOW_PRECOPY_FLOOR_BYTES,
        .floor_most_bytes = WINDOW_PRECOPY_FLOOR_BYTES,
        .may_drain = true,
    };
}

/* The queue is to become shorter: measures the round trip without it. */
static void drain_soon(struct window *w)
{
    if (w->rtt > 0) {
        w->rtt_seen_at = w->delivered_at - RTT_VALID - 1;
    }
}

void window_set_target(struct window *w, mp_time target, uint64_t floor_bytes)
{
    drain_soon(w);
    w->gain_percent = WINDOW_POSTCOPY_GAIN_PERCENT;
    w->target = target;
    w->queue = target;
    /* what was measured so far may have been a burst: kept until there is an
     * average */
    w->rate_now = w->rate_before = 0;
    w->span_since = 0;
    w->floor_bytes = w->floor_most_bytes = floor_bytes;
}

void window_set_gain(struct window *w, unsigned gain_percent,
                     uint64_t floor_bytes)
{
    if (gain_percent < w->gain_percent) {
        drain_soon(w);
    }
    w->target = 0;
    w->gain_percent = gain_percent;
    w->floor_bytes = w->floor_most_bytes = floor_bytes;
}

void window_allow_drain(struct window *w, bool allowed)
{
    w->may_drain = allowed;
    if (!allowed) {
        w->draining = false;
    }
}

mp_time window_rtt(const struct window *w)
{
    return w->rtt > 0 ? w->rtt : w->pong_rtt;
}

/* What the rate delivers in a time, without overflow for any rate below 2^64
 * and hours. */
static uint64_t bytes_in(const struct window *w, mp_time time)
{
    double bytes = (double)w->rate * (double)time / (double)MP_SECOND;
    return bytes < (double)(UINT64_MAX / 1024) ? (uint64_t)bytes
                                               : UINT64_MAX / 1024;
}

/* Bytes the path holds. */
static uint64_t path_bytes(const struct window *w)
{
    return bytes_in(w, window_rtt(w));
}

/* This average is taken with a longer queue. */
static bool is_probing(const struct window *w)
{
    return w->spans % SPANS_PER_PROBE == SPANS_PER_PROBE - 1;
}

/* How long what is queued on the path may take: what the gain adds to the round
 * trip, and more where the target says so. On a long path the target alone
 * would be too little to find out that there is more room. */
static mp_time queue_time(const struct window *w)
{
    mp_time time = window_rtt(w) / 100 * (w->gain_percent - 100);
    mp_time queue = w->target == 0  ? 0
                    : is_probing(w) ? 2 * w->queue
                                    : w->queue;
    return time > queue ? time : queue;
}

uint64_t window_bytes(const struct window *w)
{
    if (w->draining) {
        return path_bytes(w) / 2;
    }
    uint64_t bytes = bytes_in(w, window_rtt(w) + queue_time(w));
    return bytes > w->floor_bytes ? bytes : w->floor_bytes;
}

static bool fits(const struct window *w, uint64_t len_bytes)
{
    return w->in_flight == 0 || w->in_flight + len_bytes <= window_bytes(w);
}

/* Nothing of the flow is under way that asked for an acknowledgement. */
static bool has_not_asked(const struct window_flow *f)
{
    return f->asked <= f->acked;
}

bool window_must_ask(const struct window *w, unsigned flow)
{
    const struct window_flow *f = &w->flows[flow];
    return f->sent > f->acked && has_not_asked(f);
}

bool window_has_room(const struct window *w, uint64_t len_bytes)
{
    if (fits(w, len_bytes)) {
        return true;
    }
    /* A window of few frames that is only ever filled to whole frames would
     * measure less than it is and could not grow. */
    uint64_t window = window_bytes(w);
    return !w->draining && window > w->floor_bytes && w->in_flight < window;
}

bool window_wants_ack(const struct window *w, unsigned flow, uint64_t len_bytes)
{
    /* Half of what the gain adds to the path may go unacknowledged: a quarter
     * of the window with a gain of 2, a tenth with 1.25; or of the target. */
    uint64_t spacing =
        window_bytes(w) / (2 * w->gain_percent) * (w->gain_percent - 100);
    uint64_t target = w->draining || !w->target ? 0 : bytes_in(w, w->queue / 2);
    spacing = spacing > target ? spacing : target;
    return has_not_asked(&w->flows[flow]) ||
           w->unflagged_bytes + len_bytes >= spacing;
}

/* Starts a drain when the round trip was not confirmed for long; ends it with
 * the first measurement, or in time without one. */
static void update_drain(struct window *w, mp_time now)
{
    if (w->rtt == 0) {
        return;
    }
    if (!w->draining && w->may_drain && now - w->rtt_seen_at > RTT_VALID) {
        double queue = w->rate > 0 ? (double)w->in_flight * (double)MP_SECOND /
                                         (double)w->rate
                                   : 0;
        w->draining = true;
        w->drain_until = now + DRAIN_MIN + DRAIN_RTTS * w->rtt + (mp_time)queue;
        w->drain_rtt = 0;
        return;
    }
    if (w->draining && (w->drain_rtt > 0 || now >= w->drain_until)) {
        mp_time most = 2 * w->rtt;
        w->draining = false;
        w->rtt_seen_at = now;
        if (w->drain_rtt > w->rtt) {
            w->rtt = w->drain_rtt < most ? w->drain_rtt : most;
        }
    }
}

void window_sent(struct window *w, unsigned flow, uint64_t end,
                 uint64_t len_bytes, bool flagged, mp_time now)
{
    struct window_flow *f = &w->flows[flow];
    bool drained = w->draining && fits(w, len_bytes);
    if (w->in_flight == 0) {
        w->delivered_at = now;
        w->first_sent_at = now;
    }
    w->in_flight += len_bytes;
    f->sent = end;
    f->unflagged_bytes += len_bytes;
    w->unflagged_bytes += len_bytes;
    if (!flagged) {
        return;
    }
    f->asked = end;
    w->unflagged_bytes -= f->unflagged_bytes;
    f->unflagged_bytes = 0;
    if (w->probe_count == WINDOW_PROBES) {
        return;
    }
    w->probes[w->probe_count++] = (struct window_probe){
        .flow = flow,
        .end = end,
        .sent_at = now,
        .delivered = w->delivered,
        .delivered_at = w->delivered_at,
        .first_sent_at = w->first_sent_at,
        .idle_sender = w->delivered < w->idle_until,
        .drained = drained,
    };
}

static void add_rtt(struct window *w, mp_time rtt, bool drained, mp_time now)
{
    if (rtt <= 0) {
        rtt = 1;
    }
    if (drained && (w->drain_rtt == 0 || rtt < w->drain_rtt)) {
        w->drain_rtt = rtt;
    }
    if (w->rtt == 0 || rtt <= w->rtt) {
        w->rtt = rtt;
        w->rtt_seen_at = now;
    } else if (rtt <= w->rtt / 100 * RTT_CONFIRM_PERCENT) {
        w->rtt_seen_at = now;
    }
}

/* A path is slow where its frames take long, not where little is carried: the
 * QEMU at its end may just not read a channel. */
static void adapt_floor(struct window *w, mp_time rtt)
{
    mp_time queue = rtt - w->rtt;
    if (w->floor_most_bytes <= FLOOR_LEAST_BYTES || w->draining) {
        return;
    }
    if (queue > FLOOR_TIME) {
        uint64_t bytes = bytes_in(w, FLOOR_TIME);
        w->floor_bytes = bytes < w->floor_bytes ? bytes : w->floor_bytes;
        w->floor_bytes = w->floor_bytes > FLOOR_LEAST_BYTES ? w->floor_bytes
                                                            : FLOOR_LEAST_BYTES;
    } else if (queue < FLOOR_TIME / 2) {
        w->floor_bytes = w->floor_bytes / 100 * FLOOR_MORE_PERCENT;
        w->floor_bytes = w->floor_bytes < w->floor_most_bytes
                             ? w->floor_bytes
                             : w->floor_most_bytes;
    }
}

static void add_rate(struct window *w, uint64_t rate, bool idle_sender,
                     mp_time now)
{
    mp_time period = RATE_PERIOD_RTTS * w->rtt;
    if (period < RATE_PERIOD_MIN) {
        period = RATE_PERIOD_MIN;
    }
    if (idle_sender && rate <= w->rate) {
        return;
    }
    /* Two periods of half the length each: what counts is between half a
     * period and a whole one old. */
    if (now - w->rate_since >= period / 2) {
        w->rate_before = w->rate_now;
        w->rate_now = 0;
        w->rate_since = now;
    }
    if (rate > w->rate_now) {
        w->rate_now = rate;
    }
    w->rate = w->rate_now > w->rate_before ? w->rate_now : w->rate_before;
}

/* The smallest round trip is shorter than most, where the path jitters or
 * either end has to wait for a CPU: a window made from it would let the path
 * run dry. So the queue grows while less is carried than could be. */
static void adapt_queue(struct window *w, uint64_t rate)
{
    if (rate < w->rate / 100 * RATE_LOW_PERCENT) {
        mp_time most = QUEUE_TARGETS_MAX * w->target;
        w->queue = w->queue / 100 * QUEUE_MORE_PERCENT;
        w->queue = w->queue < most ? w->queue : most;
    } else if (rate >= w->rate / 100 * RATE_FULL_PERCENT) {
        w->queue = w->queue / 100 * QUEUE_LESS_PERCENT;
        w->queue = w->queue > w->target ? w->queue : w->target;
    }
}

/* How long a sample must be. A gain as small as that of postcopy makes little
 * of a burst, and could hardly grow from averages. */
static mp_time rate_span(const struct window *w)
{
    if (w->target == 0 && w->gain_percent < WINDOW_PRECOPY_GAIN_PERCENT) {
        return 0;
    }
    bool rtt_will_do =
        w->target == 0 && w->rtt >= RATE_SPAN_LEAST && w->rtt < RATE_SPAN;
    return rtt_will_do ? w->rtt : RATE_SPAN;
}

/* Adds the rate of a while. A shaper lets a burst pass after each moment in
 * which it had nothing to do, and a few frames measure only that: a window made
 * from it would be several times the path. */
static void add_average(struct window *w, mp_time now)
{
    mp_time span = now - w->span_since;

    if (w->delivered < w->idle_until) {
        w->span_idle = true;
    }
    if (w->span_since > 0 && span < rate_span(w)) {
        return;
    }
    if (w->span_since > 0) {
        double rate = (double)(w->delivered - w->span_delivered + w->beside) *
                      (double)MP_SECOND / (double)span;
        uint64_t whole = rate < RATE_MAX ? (uint64_t)rate : (uint64_t)RATE_MAX;
        add_rate(w, whole, w->span_idle, now);
        if (w->target > 0 && !w->span_idle && !is_probing(w)) {
            adapt_queue(w, whole);
        }
        w->spans++;
    }
    w->span_since = now;
    w->span_delivered = w->delivered;
    w->span_idle = false;
    w->beside = 0;
}

static void take_sample(struct window *w, const struct window_probe *p,
                        mp_time now)
{
    mp_time acks = now - p->delivered_at;
    mp_time sends = p->sent_at - p->first_sent_at;
    mp_time span = acks > sends ? acks : sends;
    add_rtt(w, now - p->sent_at, p->drained, now);
    adapt_floor(w, now - p->sent_at);
    if (w->rate > 0 && span < rate_span(w)) {
        return; /* add_average() */
    }
    if (span > 0) {
        double rate = (double)(w->delivered - p->delivered) *
                      (double)MP_SECOND / (double)span;
        add_rate(w, rate < RATE_MAX ? (uint64_t)rate : (uint64_t)RATE_MAX,
                 p->idle_sender, now);
    }
}

/* Takes the probes of flow that end at or before offset out; the newest of
 * them is copied to *ret_newest. */
static bool remove_probes(struct window *w, unsigned flow, uint64_t offset,
                          struct window_probe *ret_newest)
{
    bool found = false;
    unsigned kept = 0;
    for (unsigned i = 0; i < w->probe_count; i++) {
        const struct window_probe *p = &w->probes[i];
        if (p->flow != flow || p->end > offset) {
            w->probes[kept++] = *p;
            continue;
        }
        if (!found || p->end > ret_newest->end) {
            *ret_newest = *p;
            found = true;
        }
    }
    w->probe_count = kept;
    return found;
}

void window_acked(struct window *w, unsigned flow, uint64_t offset,
                  uint64_t len_bytes, mp_time now)
{
    struct window_probe newest;
    assert(len_bytes <= w->in_flight);
    w->in_flight -= len_bytes;
    w->delivered += len_bytes;
    w->flows[flow].acked = offset;
    if (remove_probes(w, flow, offset, &newest)) {
        take_sample(w, &newest, now);
        w->first_sent_at = newest.sent_at;
    }
    if (len_bytes > 0) {
        w->delivered_at = now;
    }
    if (rate_span(w) > 0) {
        add_average(w, now);
    }
    update_drain(w, now);
}

void window_beside(struct window *w, uint64_t len_bytes)
{
    w->beside += len_bytes;
}

void window_forget(struct window *w, unsigned flow, uint64_t in_flight_bytes)
{
    struct window_probe newest;
    assert(in_flight_bytes <= w->in_flight);
    w->in_flight -= in_flight_bytes;
    w->unflagged_bytes -= w->flows[flow].unflagged_bytes;
    w->flows[flow] = (struct window_flow){0};
    remove_probes(w, flow, UINT64_MAX, &newest);
}

void window_idle(struct window *w)
{
    w->idle_until = w->delivered + w->in_flight;
    if (w->in_flight == 0) {
        /* nothing will be acknowledged: the next frame starts afresh */
        w->idle_until++;
    }
}

void window_pong(struct window *w, mp_time rtt)
{
    if (rtt > 0 && (w->pong_rtt == 0 || rtt < w->pong_rtt)) {
        w->pong_rtt = rtt;
    }
}
