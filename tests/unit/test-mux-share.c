// SPDX-License-Identifier: BSD-3-Clause
/* Who gets how much, when: phases, priorities, shares, windows and credit, on
 * links with a rate and a delay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/muxpair.h"

#define MIB ((uint64_t)1 << 20)
#define GBIT ((uint64_t)125000000)

static struct muxpair *pair_on(uint64_t rate, mp_time rtt)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.rate_bytes_per_second = rate;
    config.delay = rtt / 2;
    return muxpair_new(&config);
}

static void set_phase(struct muxpair *pair, enum mux_phase phase)
{
    mux_set_phase(muxpair_mux(pair, 0), phase);
    mux_set_phase(muxpair_mux(pair, 1), phase);
}

static size_t room(struct muxpair *pair, int end, uint16_t channel)
{
    return mux_send_room(muxpair_mux(pair, end), channel);
}

/* Bytes delivered to the other end in a time. */
static void measure(struct muxpair *pair, mp_time time, const uint16_t *channel,
                    int count, uint64_t *ret_bytes)
{
    for (int i = 0; i < count; i++) {
        ret_bytes[i] = pair->end[1].got_bytes[channel[i]];
    }
    muxpair_run_for(pair, time);
    for (int i = 0; i < count; i++) {
        ret_bytes[i] = pair->end[1].got_bytes[channel[i]] - ret_bytes[i];
    }
}

static void assert_between(double value, double min, double max)
{
    if (value < min || value > max) {
        fail_msg("%.4f is not between %.4f and %.4f", value, min, max);
    }
}

/* How much is held. ------------------------------------------------------- */

static void postcopy_holds_64_kib_of_main_then_stops_reading(void **state)
{
    struct muxpair *pair = pair_on(GBIT, MP_MS);
    set_phase(pair, MUX_PHASE_POSTCOPY);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[1].deaf = 1 << MAIN;
    assert_int_equal(room(pair, 0, MAIN), 65536);
    pair->end[0].greedy = 1 << MAIN;
    pair->end[0].greedy_bytes = 4096;
    muxpair_run(pair);
    assert_int_equal(room(pair, 0, MAIN), 0);
    assert_int_equal(muxpair_stats(pair, 0, MAIN).held_bytes, 65536);
    /* what left is what the window allows */
    assert_int_equal(muxpair_stats(pair, 0, MAIN).sent_bytes, 65536);
    assert_int_equal(muxpair_stats(pair, 0, MAIN).blocked, MUX_BLOCKED_WINDOW);
    muxpair_free(pair);
}

static void room_is_told_when_a_quarter_is_free(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    set_phase(pair, MUX_PHASE_POSTCOPY);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_send_bytes(pair, 0, MAIN, 70000);
    assert_int_equal(room(pair, 0, MAIN), 0);
    struct mux_out out;
    int frames = 0;
    while (pair->end[0].rooms == 0 && frames < 10) {
        struct mux_event ev;
        assert_int_equal(room(pair, 0, MAIN), 0);
        assert_true(mux_take(muxpair_mux(pair, 0), WIRE_LANE_BULK, 1, &out));
        chunk_unref(out.chunk);
        frames++;
        while (mux_next_event(muxpair_mux(pair, 0), &ev)) {
            pair->end[0].rooms |= ev.type == MUX_EVENT_ROOM;
        }
    }
    assert_int_equal(frames, 2); /* OPEN, one frame of 32736 */
    assert_int_equal(room(pair, 0, MAIN), 65536 - (70000 - 32736));
    muxpair_free(pair);
}

static void setup_and_switchover_take_all_up_to_one_limit(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.mux[0].hold_switchover_bytes = 8 * MIB;
    struct muxpair *pair = muxpair_new(&config);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_open(pair, MULTIFD, WIRE_CLASS_MULTIFD);
    muxpair_open(pair, MULTIFD + 1, WIRE_CLASS_MULTIFD);
    assert_int_equal(room(pair, 0, MAIN), 8 * MIB);
    muxpair_send_bytes(pair, 0, MAIN, 5 * MIB);
    assert_int_equal(room(pair, 0, MAIN), 3 * MIB);
    assert_int_equal(room(pair, 0, MULTIFD), 3 * MIB);
    muxpair_send_bytes(pair, 0, MULTIFD, 3 * MIB);
    assert_int_equal(room(pair, 0, MAIN), 0);
    assert_int_equal(room(pair, 0, MULTIFD), 0);
    /* the others may wait for what comes here */
    assert_int_equal(room(pair, 0, MULTIFD + 1), 65536);
    muxpair_run(pair);
    assert_int_equal(pair->end[0].rooms, 1 << MAIN | 1 << MULTIFD);
    assert_int_equal(room(pair, 0, MAIN), 8 * MIB);
    mux_set_phase(muxpair_mux(pair, 0), MUX_PHASE_PRECOPY);
    assert_int_equal(room(pair, 0, MAIN), 262144);
    mux_set_phase(muxpair_mux(pair, 0), MUX_PHASE_SWITCHOVER);
    assert_int_equal(room(pair, 0, MAIN), 8 * MIB);
    muxpair_free(pair);
}

static void precopy_keeps_the_path_full_with_little_held(void **state)
{
    struct muxpair *pair = pair_on(GBIT, 2 * MP_MS);
    uint16_t channel = MAIN;
    uint64_t bytes;
    set_phase(pair, MUX_PHASE_PRECOPY);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[0].greedy = 1 << MAIN;
    muxpair_run_for(pair, 200 * MP_MS);
    measure(pair, 500 * MP_MS, &channel, 1, &bytes);
    assert_between((double)bytes / (double)(GBIT / 2), 0.97, 1.01);
    struct mux_channel_stats stats = muxpair_stats(pair, 0, MAIN);
    assert_true(stats.held_bytes <= 262144 + 65536);
    assert_true(stats.sent_bytes - stats.acked_bytes <= 1250 * 1024);
    muxpair_free(pair);
}

/* Priorities. ------------------------------------------------------------- */

static void urgent_frame_is_next_whatever_is_queued(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    struct mux *mux = muxpair_mux(pair, 0);
    struct mux_out out;
    struct frame frame;
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    muxpair_run(pair);
    muxpair_send_bytes(pair, 0, MAIN, MIB);
    muxpair_send_bytes(pair, 0, PREEMPT, MIB);
    muxpair_send_urgent(pair, "U", 0);
    int preempt_frames = 0;
    do {
        assert_true(mux_take(mux, WIRE_LANE_EXPRESS, 1, &out));
        chunk_unref(out.chunk);
        assert_int_equal(
            frame_decode(out.header, WIRE_LANE_EXPRESS, &frame, NULL), 0);
        preempt_frames += frame.channel == PREEMPT;
    } while (frame.substream != WIRE_SUB_URGENT);
    assert_true(preempt_frames <= 1);
    muxpair_free(pair);
}

static void control_goes_before_everything(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    struct mux *mux = muxpair_mux(pair, 0);
    struct mux_out out;
    struct frame frame;
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_run(pair);
    muxpair_send_bytes(pair, 0, PREEMPT, 100000);
    muxpair_send_bytes(pair, 0, MAIN, 100000);
    mux_ping(mux, WIRE_LANE_EXPRESS, 1);
    mux_ping(mux, WIRE_LANE_BULK, 1);
    for (int i = 0; i < 2; i++) {
        enum wire_lane lane = i ? WIRE_LANE_BULK : WIRE_LANE_EXPRESS;
        assert_true(mux_take(mux, lane, 1, &out));
        assert_int_equal(frame_decode(out.header, lane, &frame, NULL), 0);
        assert_int_equal(frame.type, WIRE_PING);
        chunk_unref(out.chunk);
    }
    muxpair_free(pair);
}

/* Bulk at full rate both ways; a request goes back, a page comes: neither waits
 * for more than what is on the link already. */
static void page_request_round_trip_on_a_full_link(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.rate_bytes_per_second = GBIT;
    config.delay = 50 * MP_US;
    struct muxpair *pair = muxpair_new(&config);
    set_phase(pair, MUX_PHASE_POSTCOPY);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_open(pair, MULTIFD, WIRE_CLASS_MULTIFD);
    pair->end[0].greedy = 1 << MAIN | 1 << MULTIFD;
    pair->end[0].greedy_flags = WIRE_FLAG_MERGE;
    pair->end[0].greedy_bytes = 4096;
    muxpair_run_for(pair, 100 * MP_MS);
    for (int i = 0; i < 50; i++) {
        mp_time start = memlink_now(pair->link);
        uint64_t before = pair->end[0].got_bytes[MAIN];
        uint64_t urgent = muxpair_stats(pair, 1, MAIN).urgent_delivered_frames;
        muxpair_send(pair, 1, MAIN, "request");
        while (pair->end[0].got_bytes[MAIN] == before) {
            muxpair_run_for(pair, 5 * MP_US);
        }
        muxpair_send_urgent(pair, "PAGE", 0);
        while (muxpair_stats(pair, 1, MAIN).urgent_delivered_frames == urgent) {
            muxpair_run_for(pair, 5 * MP_US);
        }
        /* delays 2 x 50 us; one segment of 16 KiB (131 us) that the link has
         * begun to send before the page; and another one, if the bulk page it
         * must not cut ends in the next */
        assert_between((double)(memlink_now(pair->link) - start) / 1e3, 100,
                       100 + 2 * 131 + 20);
        muxpair_run_for(pair, 3 * MP_MS);
    }
    muxpair_free(pair);
}

/* Shares. ----------------------------------------------------------------- */

static void check_disk_share(enum mux_phase phase, double share)
{
    static const uint16_t channels[] = {DISK, MAIN, MULTIFD};
    struct muxpair *pair = pair_on(GBIT, MP_MS);
    uint64_t bytes[3];
    set_phase(pair, phase);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_open(pair, MULTIFD, WIRE_CLASS_MULTIFD);
    muxpair_open(pair, DISK, WIRE_CLASS_DISK);
    pair->end[0].greedy = 1 << MAIN | 1 << MULTIFD | 1 << DISK;
    muxpair_run_for(pair, 200 * MP_MS);
    measure(pair, 500 * MP_MS, channels, 3, bytes);
    uint64_t all = bytes[0] + bytes[1] + bytes[2];
    assert_between((double)all / (double)(GBIT / 2), 0.97, 1.01);
    assert_between((double)bytes[0] / (double)all, share - 0.02, share + 0.02);
    assert_true(bytes[2] > bytes[1] / 8);
    muxpair_free(pair);
}

static void disks_keep_a_fifth_in_precopy(void **state)
{
    check_disk_share(MUX_PHASE_PRECOPY, 0.2);
}

static void disks_keep_a_tenth_in_postcopy(void **state)
{
    check_disk_share(MUX_PHASE_POSTCOPY, 0.1);
}

static void lone_class_gets_all(void **state)
{
    static const uint16_t channels[] = {DISK, MAIN};
    for (int i = 0; i < 2; i++) {
        struct muxpair *pair = pair_on(GBIT, MP_MS);
        uint64_t bytes;
        set_phase(pair, MUX_PHASE_PRECOPY);
        muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
        muxpair_open(pair, DISK, WIRE_CLASS_DISK);
        pair->end[0].greedy = 1 << channels[i];
        muxpair_run_for(pair, 200 * MP_MS);
        measure(pair, 500 * MP_MS, &channels[i], 1, &bytes);
        assert_between((double)bytes / (double)(GBIT / 2), 0.97, 1.01);
        muxpair_free(pair);
    }
}

/* A destination that takes nothing of one class must not stop the other: the
 * window is shared, but not to the last byte. */
static void stuck_class_does_not_stop_the_other(void **state)
{
    static const uint16_t channels[] = {DISK, MAIN};
    for (int stuck = 0; stuck < 2; stuck++) {
        struct muxpair *pair = pair_on(GBIT, MP_MS);
        uint16_t moves = channels[1 - stuck];
        uint64_t bytes;
        set_phase(pair, MUX_PHASE_PRECOPY);
        muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
        muxpair_open(pair, DISK, WIRE_CLASS_DISK);
        pair->end[1].deaf = 1 << channels[stuck];
        pair->end[0].greedy = 1 << MAIN | 1 << DISK;
        muxpair_run_for(pair, 500 * MP_MS);
        measure(pair, 500 * MP_MS, &moves, 1, &bytes);
        /* RAM keeps half of the window, the disks a fifth of it */
        assert_between((double)bytes / (double)(GBIT / 2),
                       moves == MAIN ? 0.95 : 0.5, 1.01);
        muxpair_free(pair);
    }
}

/* What multifd does at the end of a pass: all channels but one are not read
 * before that one is through. */
static void stuck_channels_do_not_stop_the_last_one(void **state)
{
    static const mp_time rtts[] = {MP_MS / 10, 10 * MP_MS};
    static const int counts[] = {2, 16};
    for (int i = 0; i < 4; i++) {
        struct muxpair *pair = pair_on(GBIT, rtts[i / 2]);
        int count = counts[i % 2];
        uint16_t last = (uint16_t)(MULTIFD + count - 1);
        uint64_t bytes;
        set_phase(pair, MUX_PHASE_PRECOPY);
        muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
        for (int k = 0; k < count; k++) {
            muxpair_open(pair, (uint16_t)(MULTIFD + k), WIRE_CLASS_MULTIFD);
            pair->end[0].greedy |= 1u << (MULTIFD + k);
        }
        pair->end[1].deaf = pair->end[0].greedy & ~(1u << last);
        muxpair_run_for(pair, 500 * MP_MS);
        measure(pair, 500 * MP_MS, &last, 1, &bytes);
        /* a frame each round trip is the least */
        assert_true((mp_time)bytes >=
                    500 * MP_MS / (rtts[i / 2] + 3 * MP_MS) * 32736);
        pair->end[1].deaf = 0;
        pair->end[0].greedy = 0;
        muxpair_run(pair);
        muxpair_free(pair);
    }
}

/* Credit and windows. ----------------------------------------------------- */

static void sender_stops_where_the_credit_ends(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    struct mux_channel_stats stats;
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    pair->end[1].deaf = 1 << PREEMPT;
    muxpair_send_bytes(pair, 0, PREEMPT, 10 * MIB);
    muxpair_run(pair);
    stats = muxpair_stats(pair, 0, PREEMPT);
    /* whole frames only, as long as an ACK can come */
    assert_true(stats.sent_bytes <= MIB && stats.sent_bytes > MIB - 32736);
    assert_int_equal(stats.blocked, MUX_BLOCKED_CREDIT);
    assert_int_equal(mux_deliver_bytes(muxpair_mux(pair, 1), PREEMPT),
                     stats.sent_bytes);
    pair->end[1].deaf = 0;
    muxpair_run(pair);
    assert_int_equal(pair->end[1].got_bytes[PREEMPT], 10 * MIB);
    muxpair_free(pair);
}

static void return_path_flows_beyond_its_credit(void **state)
{
    struct muxpair *pair = pair_on(GBIT, MP_MS);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_run(pair);
    muxpair_send_bytes(pair, 1, MAIN, 30 * MIB);
    muxpair_run(pair);
    assert_int_equal(pair->end[0].got_bytes[MAIN], 30 * MIB);
    muxpair_free(pair);
}

/* 6.25 MB are under way on this path, the first credit is 4 MiB: both windows
 * have to grow. */
static void credit_and_window_grow_on_a_long_path_within_a_second(void **state)
{
    struct muxpair *pair = pair_on(GBIT / 2, 100 * MP_MS);
    uint16_t channel = MAIN;
    uint64_t bytes;
    set_phase(pair, MUX_PHASE_PRECOPY);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[0].greedy = 1 << MAIN;
    muxpair_run_for(pair, 1200 * MP_MS);
    measure(pair, 500 * MP_MS, &channel, 1, &bytes);
    assert_between((double)bytes / (double)(GBIT / 4), 0.95, 1.01);
    muxpair_free(pair);
}

static void credit_does_not_grow_where_qemu_is_slow(void **state)
{
    struct muxpair *pair = pair_on(GBIT, MP_MS);
    set_phase(pair, MUX_PHASE_SETUP);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[0].greedy = 1 << MAIN;
    for (int i = 0; i < 200; i++) {
        pair->end[1].deaf = i % 4 ? 1 << MAIN : 0;
        muxpair_run_for(pair, 10 * MP_MS);
    }
    pair->end[1].deaf = 1 << MAIN;
    muxpair_run_for(pair, 500 * MP_MS);
    assert_true(mux_deliver_bytes(muxpair_mux(pair, 1), MAIN) <= 4 * MIB);
    muxpair_free(pair);
}

static void all_receive_windows_together_stay_below_their_limit(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.rate_bytes_per_second = GBIT;
    config.delay = 50 * MP_MS;
    config.mux[1].receive_total_max_bytes = 16 * MIB;
    struct muxpair *pair = muxpair_new(&config);
    mux_set_phase(muxpair_mux(pair, 0), MUX_PHASE_PRECOPY);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[0].greedy = 1 << MAIN;
    muxpair_run_for(pair, 2 * MP_SECOND);
    pair->end[1].deaf = 1 << MAIN;
    muxpair_run_for(pair, 2 * MP_SECOND);
    uint64_t held = mux_deliver_bytes(muxpair_mux(pair, 1), MAIN);
    assert_between((double)held / (double)MIB, 5, 12);
    muxpair_free(pair);
}

/* A flood of small urgent frames: the sender keeps within what the receiver
 * may be made to hold, and goes on when it is acknowledged. */
static void small_urgent_frames_stay_within_their_number(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[1].deaf = 1 << MAIN;
    for (int i = 0; i < 20000; i++) {
        muxpair_send_urgent(pair, "u", 0);
    }
    muxpair_run(pair);
    assert_int_equal(muxpair_stats(pair, 0, MAIN).urgent_sent_frames,
                     WIRE_URGENT_MAX_FRAMES);
    pair->end[1].deaf = 0;
    muxpair_run(pair);
    assert_int_equal(muxpair_stats(pair, 1, MAIN).urgent_delivered_frames,
                     20000);
    muxpair_free(pair);
}

static void small_merge_frames_stay_within_their_number(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[1].deaf = 1 << MAIN;
    for (int i = 0; i < 40000; i++) {
        muxpair_send_flags(pair, 0, MAIN, "m", WIRE_FLAG_MERGE, 0);
    }
    muxpair_run(pair);
    assert_int_equal(muxpair_stats(pair, 0, MAIN).sent_bytes,
                     WIRE_MARKED_MAX_FRAMES);
    pair->end[1].deaf = 0;
    muxpair_run(pair);
    assert_int_equal(pair->end[1].got_bytes[MAIN], 40000);
    muxpair_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(postcopy_holds_64_kib_of_main_then_stops_reading),
        cmocka_unit_test(room_is_told_when_a_quarter_is_free),
        cmocka_unit_test(setup_and_switchover_take_all_up_to_one_limit),
        cmocka_unit_test(precopy_keeps_the_path_full_with_little_held),
        cmocka_unit_test(urgent_frame_is_next_whatever_is_queued),
        cmocka_unit_test(control_goes_before_everything),
        cmocka_unit_test(page_request_round_trip_on_a_full_link),
        cmocka_unit_test(disks_keep_a_fifth_in_precopy),
        cmocka_unit_test(disks_keep_a_tenth_in_postcopy),
        cmocka_unit_test(lone_class_gets_all),
        cmocka_unit_test(stuck_channels_do_not_stop_the_last_one),
        cmocka_unit_test(stuck_class_does_not_stop_the_other),
        cmocka_unit_test(sender_stops_where_the_credit_ends),
        cmocka_unit_test(return_path_flows_beyond_its_credit),
        cmocka_unit_test(credit_and_window_grow_on_a_long_path_within_a_second),
        cmocka_unit_test(credit_does_not_grow_where_qemu_is_slow),
        cmocka_unit_test(all_receive_windows_together_stay_below_their_limit),
        cmocka_unit_test(small_urgent_frames_stay_within_their_number),
        cmocka_unit_test(small_merge_frames_stay_within_their_number),
    };
    return cmocka_run_group_tests_name("mux-share", tests, NULL, NULL);
}
