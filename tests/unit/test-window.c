// SPDX-License-Identifier: BSD-3-Clause
/* The window on bulk in flight, simulated: a link with a rate, a round trip and
 * a first-in-first-out queue, a virtual clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/wire.h"
#include "transport/window.h"

#define MBIT ((uint64_t)125000)
#define GBIT (1000 * MBIT)
#define POSTCOPY_FRAME 32736

struct ack {
    mp_time at;
    uint64_t offset;
};

struct sim {
    struct window window;
    uint64_t rate;
    mp_time rtt;
    uint64_t frame_bytes;
    mp_time now;
    mp_time busy_until; /* of the link */
    uint64_t sent, acked;
    struct ack *acks; /* under way, a ring */
    size_t ack_head, ack_count;
    uint64_t source_rate; /* the application's, 0: endless */
    bool source_waits;    /* it gives nothing by itself */
    uint64_t max_queue;
    mp_time stall_until; /* the far end delivers nothing before */
    mp_time burst;       /* a shaper that was idle lets so much pass at once */
    mp_time jitter;      /* an acknowledgement comes up to so much later */
    mp_time last_ack;
    uint32_t dice;
};

#define ACKS 65536

static struct sim sim_new(uint64_t rate, mp_time rtt)
{
    struct sim sim = {
        .rate = rate,
        .rtt = rtt,
        .frame_bytes = WIRE_DATA_MAX_BYTES,
        .now = MP_SECOND,
        .acks = calloc(ACKS, sizeof(struct ack)),
    };
    window_init(&sim.window);
    return sim;
}

static void sim_free(struct sim *sim)
{
    free(sim->acks);
}

/* Bytes the application has made by now. */
static bool has_data(const struct sim *sim)
{
    if (sim->source_rate == 0 || sim->source_waits) {
        return !sim->source_waits;
    }
    double made = (double)(sim->now - MP_SECOND) * (double)sim->source_rate /
                  (double)MP_SECOND;
    return (double)(sim->sent + sim->frame_bytes) <= made;
}

static void send_one(struct sim *sim)
{
    uint64_t len = sim->frame_bytes;
    bool flagged =
        window_wants_ack(&sim->window, 0, len) || sim->source_rate > 0;
    mp_time least = sim->now - sim->burst;
    mp_time start = sim->busy_until > least ? sim->busy_until : least;
    sim->busy_until =
        start + (mp_time)((double)len * (double)MP_SECOND / (double)sim->rate);
    sim->sent += len;
    window_sent(&sim->window, 0, sim->sent, len, flagged, sim->now);
    mp_time wait = start > sim->now ? start - sim->now : 0;
    uint64_t queue =
        (uint64_t)((double)wait * (double)sim->rate / (double)MP_SECOND);
    if (queue > sim->max_queue) {
        sim->max_queue = queue;
    }
    if (flagged) {
        mp_time left = sim->busy_until > sim->now ? sim->busy_until : sim->now;
        mp_time delivered = left + sim->rtt / 2;
        if (delivered < sim->stall_until) {
            delivered = sim->stall_until;
        }
        size_t at = (sim->ack_head + sim->ack_count++) % ACKS;
        assert_true(sim->ack_count < ACKS);
        mp_time ack = delivered + sim->rtt / 2;
        if (sim->jitter > 0) {
            sim->dice = sim->dice * 1664525u + 1013904223u;
            ack += sim->jitter / 256 * (sim->dice >> 24);
        }
        /* in order */
        sim->last_ack = ack > sim->last_ack ? ack : sim->last_ack;
        sim->acks[at] = (struct ack){sim->last_ack, sim->sent};
    }
}

static void sim_run(struct sim *sim, mp_time until)
{
    while (sim->now < until) {
        while (has_data(sim) &&
               (window_must_ask(&sim->window, 0) ||
                window_has_room(&sim->window, sim->frame_bytes))) {
            send_one(sim);
        }
        if (!has_data(sim)) {
            window_idle(&sim->window);
        }
        mp_time next = until;
        if (sim->ack_count > 0 && sim->acks[sim->ack_head].at < next) {
            next = sim->acks[sim->ack_head].at;
        }
        if (sim->source_rate > 0) {
            mp_time tick = sim->now + 50 * MP_US;
            next = tick < next ? tick : next;
        }
        sim->now = next > sim->now ? next : sim->now;
        while (sim->ack_count > 0 && sim->acks[sim->ack_head].at <= sim->now) {
            uint64_t offset = sim->acks[sim->ack_head].offset;
            sim->ack_head = (sim->ack_head + 1) % ACKS;
            sim->ack_count--;
            window_acked(&sim->window, 0, offset, offset - sim->acked,
                         sim->now);
            sim->acked = offset;
        }
    }
}

/* Percent of the link that is acknowledged between from and until, and the
 * largest queue meanwhile. */
static double sim_use(struct sim *sim, mp_time from, mp_time until)
{
    sim_run(sim, from);
    uint64_t before = sim->acked;
    sim->max_queue = 0;
    sim_run(sim, until);
    double seconds = (double)(until - from) / (double)MP_SECOND;
    return 100.0 * (double)(sim->acked - before) /
           ((double)sim->rate * seconds);
}

static uint64_t bdp(const struct sim *sim)
{
    return (uint64_t)((double)sim->rate * (double)sim->rtt / (double)MP_SECOND);
}

static const uint64_t rates[] = {100 * MBIT, GBIT, 2500 * MBIT, 10 * GBIT};
static const mp_time rtts[] = {100 * MP_US, MP_MS, 10 * MP_MS, 30 * MP_MS,
                               100 * MP_MS};
#define RATES (sizeof(rates) / sizeof(rates[0]))
#define RTTS (sizeof(rtts) / sizeof(rtts[0]))

/* Fails with what was seen when the link is not used well or the queue is
 * longer than most bytes. */
static void assert_use(struct sim *sim, mp_time from, double min_percent,
                       uint64_t most)
{
    /* an acknowledgement may be a quarter of a window: tenths of a second */
    double use = sim_use(sim, from, from + 2 * MP_SECOND);
    if (use >= min_percent && sim->max_queue <= most) {
        return;
    }
    fail_msg("%llu Mbit/s, %.1f ms: %.1f %% of the link used, wanted %.1f; "
             "queue %llu KiB, wanted at most %llu; window %llu KiB",
             (unsigned long long)(sim->rate / MBIT), (double)sim->rtt / 1e6,
             use, min_percent, (unsigned long long)(sim->max_queue >> 10),
             (unsigned long long)(most >> 10),
             (unsigned long long)(window_bytes(&sim->window) >> 10));
}

static void
precopy_fills_every_link_within_1200_ms_and_queues_one_bdp(void **state)
{
    for (size_t i = 0; i < RATES * RTTS; i++) {
        struct sim sim = sim_new(rates[i / RTTS], rtts[i % RTTS]);
        assert_use(&sim, MP_SECOND + 1200 * MP_MS, 95,
                   bdp(&sim) + WINDOW_PRECOPY_FLOOR_BYTES + sim.frame_bytes);
        sim_free(&sim);
    }
}

static void set_postcopy(struct sim *sim)
{
    sim->frame_bytes = POSTCOPY_FRAME;
    window_set_gain(&sim->window, WINDOW_POSTCOPY_GAIN_PERCENT,
                    WINDOW_POSTCOPY_FLOOR_BYTES);
}

static void postcopy_fills_every_link_and_queues_a_quarter_bdp(void **state)
{
    for (size_t i = 0; i < RATES * RTTS; i++) {
        struct sim sim = sim_new(rates[i / RTTS], rtts[i % RTTS]);
        sim_run(&sim, MP_SECOND + 1200 * MP_MS);
        set_postcopy(&sim);
        assert_use(&sim, 4 * MP_SECOND, 95,
                   bdp(&sim) / 4 + WINDOW_POSTCOPY_FLOOR_BYTES +
                       sim.frame_bytes);
        sim_free(&sim);
    }
}

static void postcopy_alone_grows_from_its_floor(void **state)
{
    for (size_t i = 0; i < RATES * RTTS; i++) {
        struct sim sim = sim_new(rates[i / RTTS], rtts[i % RTTS]);
        set_postcopy(&sim);
        assert_use(&sim, 6 * MP_SECOND, 95,
                   bdp(&sim) / 4 + WINDOW_POSTCOPY_FLOOR_BYTES +
                       sim.frame_bytes);
        sim_free(&sim);
    }
}

#define TARGET (150 * MP_US)
#define PAGE_FRAME 4120 /* a page */

static void set_target(struct sim *sim)
{
    sim->frame_bytes = PAGE_FRAME;
    window_set_target(&sim->window, TARGET, WINDOW_TARGET_FLOOR_BYTES);
}

static uint64_t target_bytes(const struct sim *sim)
{
    return (uint64_t)((double)sim->rate * (double)TARGET / (double)MP_SECOND);
}

/* Whatever the path, what is queued on it costs about as long as the target, or
 * a quarter of the round trip, and a frame or the smallest window. */
static void a_target_is_the_queue_on_every_link(void **state)
{
    for (size_t i = 0; i < RATES * RTTS; i++) {
        for (int after_precopy = 0; after_precopy < 2; after_precopy++) {
            struct sim sim = sim_new(rates[i / RTTS], rtts[i % RTTS]);
            if (after_precopy) {
                sim_run(&sim, MP_SECOND + 1200 * MP_MS);
            }
            set_target(&sim);
            /* twice while it looks whether there is more */
            uint64_t most = 2 * target_bytes(&sim) + WINDOW_TARGET_FLOOR_BYTES +
                            2 * sim.frame_bytes + bdp(&sim) / 4;
            assert_use(&sim, 8 * MP_SECOND, 90, most);
            sim_free(&sim);
        }
    }
}

/* On a slow path the floor would be seconds of queue, and the proof of the path
 * before a switchover would wait behind it. */
static void slow_path_has_a_short_queue_in_precopy(void **state)
{
    static const mp_time all[] = {MP_MS, 20 * MP_MS, 100 * MP_MS};
    for (uint64_t rate = MBIT; rate <= 25 * MBIT; rate *= 5) {
        for (size_t t = 0; t < sizeof(all) / sizeof(all[0]); t++) {
            struct sim sim = sim_new(rate, all[t]);
            uint64_t tenth = rate / 10 > 65536 ? rate / 10 : 65536;
            /* what a shaper's bucket of 16 KiB lets pass */
            sim.burst = (mp_time)(16384 * MP_SECOND / rate);
            sim.frame_bytes = POSTCOPY_FRAME;
            sim_run(&sim, 30 * MP_SECOND);
            for (int i = 0; i < 100; i++) {
                sim_run(&sim, sim.now + 100 * MP_MS);
                sim.max_queue = 0;
                sim.stall_until = sim.now + 20 * MP_MS; /* the bucket fills */
            }
            assert_use(&sim, sim.now, 75,
                       tenth + bdp(&sim) + 2 * sim.frame_bytes + 2 * 16384);
            sim_free(&sim);
        }
    }
}

/* A shaper that had a moment to rest lets frames pass at once: no rate. */
static void a_burst_is_no_rate(void **state)
{
    struct sim sim = sim_new(GBIT, 100 * MP_US);
    sim.burst = MP_MS;
    set_target(&sim);
    for (int i = 0; i < 200; i++) {
        sim_run(&sim, sim.now + 19 * MP_MS);
        if (i > 100) {
            assert_in_range(window_bytes(&sim.window),
                            (bdp(&sim) + target_bytes(&sim)) * 8 / 10,
                            (bdp(&sim) + 2 * target_bytes(&sim)) * 12 / 10);
        }
        sim.stall_until = sim.now + MP_MS;
    }
    sim_free(&sim);
}

/* Where most round trips are longer than the smallest, the target gives way. */
static void jitter_does_not_starve_a_path_with_a_target(void **state)
{
    for (mp_time jitter = 100 * MP_US; jitter <= 800 * MP_US; jitter *= 2) {
        struct sim sim = sim_new(GBIT, 100 * MP_US);
        sim_run(&sim, MP_SECOND + 1200 * MP_MS);
        sim.jitter = jitter;
        set_target(&sim);
        assert_use(&sim, 8 * MP_SECOND, 90, 16 * target_bytes(&sim));
        sim_free(&sim);
    }
}

/* A gain above 1 keeps a queue: measured behind it, the round trip would double
 * every ten seconds. */
static void window_does_not_creep_up_in_a_minute(void **state)
{
    for (size_t t = 0; t < RTTS; t++) {
        struct sim sim = sim_new(GBIT, rtts[t]);
        assert_use(&sim, 61 * MP_SECOND, 95, UINT64_MAX);
        assert_true(window_bytes(&sim.window) <=
                    2 * (bdp(&sim) + 2 * sim.frame_bytes) +
                        WINDOW_PRECOPY_FLOOR_BYTES);
        sim_free(&sim);
    }
}

/* What the measuring drains cost, all in all. */
static void drains_cost_less_than_two_percent(void **state)
{
    for (size_t t = 0; t < RTTS; t++) {
        struct sim sim = sim_new(GBIT, rtts[t]);
        double use = sim_use(&sim, 2 * MP_SECOND, 62 * MP_SECOND);
        if (use < 98.0) {
            fail_msg("%.1f ms: %.1f %% of the link", (double)rtts[t] / 1e6,
                     use);
        }
        sim_free(&sim);
    }
}

/* A source of 5 MB/s for 20 s on a long fast path, then an endless one. */
static void idle_source_does_not_lock_the_window_low(void **state)
{
    struct sim sim = sim_new(10 * GBIT, 30 * MP_MS);
    sim_run(&sim, 3 * MP_SECOND);
    uint64_t full = window_bytes(&sim.window);
    sim_free(&sim);

    sim = sim_new(10 * GBIT, 30 * MP_MS);
    sim.source_rate = 5000000;
    sim_run(&sim, 21 * MP_SECOND);
    assert_true(window_bytes(&sim.window) < full);
    sim.source_rate = 0;
    assert_use(&sim, 21 * MP_SECOND + 600 * MP_MS, 95, UINT64_MAX);
    sim_free(&sim);
}

/* Samples of an idle sender may raise the rate, never lower it. */
static void pause_of_the_source_keeps_the_window(void **state)
{
    struct sim sim = sim_new(GBIT, 30 * MP_MS);
    sim_run(&sim, 3 * MP_SECOND);
    uint64_t before = window_bytes(&sim.window);
    uint64_t sent = sim.sent;
    /* a trickle: one frame every 10 ms, for 5 s */
    sim.source_waits = true;
    for (int i = 0; i < 500; i++) {
        sim_run(&sim, sim.now + 10 * MP_MS);
        send_one(&sim);
    }
    assert_true(sim.sent > sent);
    assert_true(window_bytes(&sim.window) >= before);
    sim_free(&sim);
}

static void slower_path_lowers_the_window(void **state)
{
    struct sim sim = sim_new(10 * GBIT, 30 * MP_MS);
    sim_run(&sim, 3 * MP_SECOND);
    sim.rate = GBIT;
    assert_use(&sim, 6 * MP_SECOND, 95,
               bdp(&sim) + WINDOW_PRECOPY_FLOOR_BYTES + sim.frame_bytes);
    sim_free(&sim);
}

static void faster_path_raises_the_window(void **state)
{
    struct sim sim = sim_new(GBIT, 30 * MP_MS);
    sim_run(&sim, 3 * MP_SECOND);
    sim.rate = 10 * GBIT;
    assert_use(&sim, 3 * MP_SECOND + 500 * MP_MS, 95, UINT64_MAX);
    sim_free(&sim);
}

/* The destination's QEMU stands still while the round trip is being measured
 * anew: the estimate may double, not follow. */
static void stall_in_a_drain_at_most_doubles_the_round_trip(void **state)
{
    struct sim sim = sim_new(GBIT, MP_MS);
    sim_run(&sim, 2 * MP_SECOND);
    mp_time before = window_rtt(&sim.window);
    while (!sim.window.draining) {
        sim_run(&sim, sim.now + 100 * MP_US);
    }
    sim.stall_until = sim.now + MP_SECOND;
    sim_run(&sim, sim.now + 3 * MP_SECOND);
    assert_true(window_rtt(&sim.window) <= 2 * before);
    assert_true(window_bytes(&sim.window) <= 8 * WINDOW_PRECOPY_FLOOR_BYTES);
    sim_free(&sim);
}

static void window_is_not_lowered_while_it_must_not_be(void **state)
{
    struct sim sim = sim_new(GBIT, 30 * MP_MS);
    sim_run(&sim, 2 * MP_SECOND);
    while (!sim.window.draining) {
        sim_run(&sim, sim.now + MP_MS);
    }
    window_allow_drain(&sim.window, false);
    uint64_t before = window_bytes(&sim.window);
    assert_true(before >= 2 * bdp(&sim));
    for (mp_time end = sim.now + 30 * MP_SECOND; sim.now < end;) {
        sim_run(&sim, sim.now + MP_MS);
        assert_true(window_bytes(&sim.window) >= before / 100 * 95);
    }
    window_allow_drain(&sim.window, true);
    sim_run(&sim, sim.now + 10 * MP_MS);
    assert_true(sim.window.draining);
    sim_free(&sim);
}

/* A path that became longer (10 ms to 40 ms) is found out within half a
 * minute. */
static void longer_path_is_found_out(void **state)
{
    struct sim sim = sim_new(GBIT, 10 * MP_MS);
    sim_run(&sim, 2 * MP_SECOND);
    sim.rtt = 40 * MP_MS;
    assert_use(&sim, 32 * MP_SECOND, 95, UINT64_MAX);
    sim_free(&sim);
}

static void
in_flight_never_exceeds_the_window_by_more_than_a_frame(void **state)
{
    struct window w;
    uint64_t end = 0;
    window_init(&w);
    while (window_has_room(&w, 1000)) {
        end += 1000;
        window_sent(&w, 3, end, 1000, window_wants_ack(&w, 3, 1000), MP_SECOND);
    }
    assert_true(w.in_flight <= window_bytes(&w));
    assert_true(w.in_flight + 1000 > window_bytes(&w));
    assert_true(w.probe_count >= 4 && w.probe_count <= 5);
    window_forget(&w, 3, w.in_flight);
    assert_int_equal(w.in_flight, 0);
    assert_int_equal(w.probe_count, 0);
}

/* Bytes that nobody asked to have acknowledged must not close the window for
 * ever when it shrinks. */
static void flow_that_has_not_asked_may_send_one_frame_to_ask(void **state)
{
    struct window w;
    window_init(&w);
    assert_true(window_wants_ack(&w, 1, 1000));
    window_sent(&w, 1, 1000, 1000, true, MP_SECOND);
    assert_false(window_wants_ack(&w, 1, 100000));
    window_sent(&w, 1, 101000, 100000, false, MP_SECOND);
    window_set_gain(&w, WINDOW_POSTCOPY_GAIN_PERCENT,
                    WINDOW_POSTCOPY_FLOOR_BYTES);
    assert_false(window_has_room(&w, 30000));
    assert_false(window_must_ask(&w, 1)); /* the first frame asked */
    window_acked(&w, 1, 1000, 1000, MP_SECOND + MP_MS);
    assert_false(window_has_room(&w, 30000));
    assert_true(window_must_ask(&w, 1));
    assert_false(window_must_ask(&w, 2));
    assert_true(window_wants_ack(&w, 1, 30000));
    window_sent(&w, 1, 131000, 30000, true, MP_SECOND + MP_MS);
    assert_false(window_must_ask(&w, 1));
}

static void pong_serves_until_data_is_acknowledged(void **state)
{
    struct window w;
    window_init(&w);
    assert_true(window_rtt(&w) == 0);
    window_pong(&w, 5 * MP_MS);
    window_pong(&w, 7 * MP_MS);
    assert_true(window_rtt(&w) == 5 * MP_MS);
    window_sent(&w, 0, 100, 100, true, MP_SECOND);
    window_acked(&w, 0, 100, 100, MP_SECOND + 6 * MP_MS);
    assert_true(window_rtt(&w) == 6 * MP_MS);
}

/* No measurement, however absurd, may stop or overflow the window. */
static void absurd_samples_do_no_harm(void **state)
{
    struct window w;
    window_init(&w);
    window_sent(&w, 0, UINT64_MAX / 8, UINT64_MAX / 8, true, 1);
    window_acked(&w, 0, UINT64_MAX / 8, UINT64_MAX / 8, 1);
    assert_true(window_bytes(&w) >= w.floor_bytes);
    window_sent(&w, 0, UINT64_MAX / 4, UINT64_MAX / 8, true, 2);
    window_acked(&w, 0, UINT64_MAX / 4, UINT64_MAX / 8, INT64_MAX / 2);
    assert_true(window_has_room(&w, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            precopy_fills_every_link_within_1200_ms_and_queues_one_bdp),
        cmocka_unit_test(postcopy_fills_every_link_and_queues_a_quarter_bdp),
        cmocka_unit_test(postcopy_alone_grows_from_its_floor),
        cmocka_unit_test(a_target_is_the_queue_on_every_link),
        cmocka_unit_test(slow_path_has_a_short_queue_in_precopy),
        cmocka_unit_test(a_burst_is_no_rate),
        cmocka_unit_test(jitter_does_not_starve_a_path_with_a_target),
        cmocka_unit_test(window_does_not_creep_up_in_a_minute),
        cmocka_unit_test(drains_cost_less_than_two_percent),
        cmocka_unit_test(idle_source_does_not_lock_the_window_low),
        cmocka_unit_test(pause_of_the_source_keeps_the_window),
        cmocka_unit_test(slower_path_lowers_the_window),
        cmocka_unit_test(faster_path_raises_the_window),
        cmocka_unit_test(stall_in_a_drain_at_most_doubles_the_round_trip),
        cmocka_unit_test(window_is_not_lowered_while_it_must_not_be),
        cmocka_unit_test(longer_path_is_found_out),
        cmocka_unit_test(
            in_flight_never_exceeds_the_window_by_more_than_a_frame),
        cmocka_unit_test(flow_that_has_not_asked_may_send_one_frame_to_ask),
        cmocka_unit_test(pong_serves_until_data_is_acknowledged),
        cmocka_unit_test(absurd_samples_do_no_harm),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
