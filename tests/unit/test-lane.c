// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: two ends meet over real TLS, and what one sends the other gets, on
 * whichever loop it lives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/lane-rig.h"

#define MB ((uint64_t)1000000)

static void ends_meet_and_know_each_other(void **state)
{
    struct end a = {0}, b = {0};
    struct lane_stats stats;

    rig_pair(&a, &b, WIRE_LANE_EXPRESS);
    assert_string_equal(a.theirs.name, "host-b");
    assert_string_equal(b.theirs.name, "host-a");
    assert_true(tls_names_have(&a.names, "DNS:host-b"));
    assert_true(tls_names_have(&b.names, "DNS:host-a"));
    assert_int_equal(lane_kind(a.lane), WIRE_LANE_EXPRESS);
    assert_int_equal(lane_kind(b.lane), WIRE_LANE_EXPRESS);
    assert_int_equal(lane_version(a.lane), 1);
    assert_memory_equal(lane_peer_hello(b.lane)->token, a.theirs.token, 32);
    assert_non_null(strstr(lane_peer_text(a.lane), "host-b (127.0.0.1:"));
    lane_get_stats(a.lane, &stats);
    assert_string_equal(stats.security, "TLSv1.3 TLS_AES_128_GCM_SHA256");
    assert_true(stats.congestion[0] != '\0');
    rig_close(&a, &b);
    assert_int_equal(a.closings + b.closings, 0);
}

/* Keys change every megabyte on the way. */
static void data_survives_both_ways(void **state)
{
    static const uint32_t max_frames[] = {WIRE_DATA_MAX_BYTES, 5000};

    for (size_t i = 0; i < 2; i++) {
        struct end a = {0}, b = {0}, *ends[] = {&a, &b};
        struct lane_stats sent, received;
        rig_pair(&a, &b, WIRE_LANE_BULK);
        uint64_t unit = lanes_are_slow() ? MB : 10 * MB;
        rig_start_sending(&a, 6 * unit, max_frames[i]);
        rig_start_sending(&b, 4 * unit, max_frames[i]);
        lanes_run(rig.loop, rig_all_received, ends, 120, "data");
        rig_assert_whole(&a);
        rig_assert_whole(&b);
        assert_true(b.rooms > 1 && b.turns > 1);
        lane_get_stats(a.lane, &sent);
        lane_get_stats(b.lane, &received);
        assert_int_equal(sent.sent_bytes, received.received_bytes);
        assert_int_equal(sent.sent_frames, received.received_frames);
        assert_true(clock_now() - received.last_received < 10 * MP_SECOND);
        rig_close(&a, &b);
    }
}

/* What leaves. --------------------------------------------------------------
 */

#define RECORD_OVERHEAD 22 /* header 5, type 1, tag 16 */

static uint64_t wire_bytes(const struct end *end)
{
    struct lane_stats stats;
    lane_get_stats(end->lane, &stats);
    return stats.sent_bytes;
}

static bool has_64_frames(void *arg)
{
    return ((struct end *)arg)->frames == 64;
}

static void small_frames_share_a_record(void **state)
{
    struct end a = {0}, b = {0};
    struct frame ping = {.type = WIRE_PING};
    uint8_t header[WIRE_HEADER_BYTES];

    rig_pair(&a, &b, WIRE_LANE_EXPRESS);
    uint64_t before = wire_bytes(&a);
    for (ping.arg = 0; ping.arg < 64; ping.arg++) {
        frame_encode(&ping, header);
        lane_send(a.lane, header, NULL, 0);
    }
    assert_int_equal(wire_bytes(&a), before);
    lane_flush(a.lane);
    assert_int_equal(wire_bytes(&a) - before,
                     64 * WIRE_HEADER_BYTES + RECORD_OVERHEAD);
    lanes_run(rig.loop, has_64_frames, &b, 5, "64 frames");
    assert_int_equal(b.last.arg, 63);
    rig_close(&a, &b);
}

static void the_longest_frame_is_eight_full_records(void **state)
{
    struct end a = {0}, b = {0};

    rig_pair(&a, &b, WIRE_LANE_BULK);
    uint64_t before = wire_bytes(&a);
    struct frame frame = {
        .type = WIRE_DATA, .epoch = 1, .length_bytes = WIRE_DATA_MAX_BYTES};
    uint8_t header[WIRE_HEADER_BYTES];
    uint8_t *payload = test_calloc(1, WIRE_DATA_MAX_BYTES);
    frame_encode(&frame, header);
    assert_int_equal(lane_room(a.lane), WIRE_DATA_MAX_BYTES);
    lane_send(a.lane, header, payload, WIRE_DATA_MAX_BYTES);
    /* no flush: the batch is full */
    assert_int_equal(wire_bytes(&a) - before, 8 * (16384 + RECORD_OVERHEAD));
    test_free(payload);
    rig_close(&a, &b);
}

/* An owner that never stops asking is stopped, and asked again next turn. */
static void a_turn_sends_a_bounded_amount(void **state)
{
    struct end a = {0}, b = {0}, *ends[] = {&a, &b};

    rig_pair(&a, &b, WIRE_LANE_BULK);
    rig_start_sending(&a, 4 * MB, 20000);
    assert_in_range(a.sent_bytes, 1, 262144 + 20000);
    lanes_run(rig.loop, rig_all_received, ends, 120, "data");
    assert_true(a.rooms >= 15);
    rig_assert_whole(&b);
    rig_close(&a, &b);
}

static void a_small_batch_bounds_what_is_encrypted(void **state)
{
    struct end a = {0}, b = {0}, *ends[] = {&a, &b};

    rig_pair(&a, &b, WIRE_LANE_BULK);
    lane_set_batch(a.lane, 16384);
    lane_set_send_buffer(a.lane, 32768);
    assert_int_equal(lane_room(a.lane), 16384 - WIRE_HEADER_BYTES);
    rig_start_sending(&a, 3 * MB, 4096);
    assert_true(a.sent_bytes < 262144 + 4096);
    lanes_run(rig.loop, rig_all_received, ends, 120, "data");
    rig_assert_whole(&b);
    rig_close(&a, &b);
}

/* Back-pressure. ------------------------------------------------------------
 */

static void a_paused_lane_holds_the_sender_back(void **state)
{
    struct end a = {0}, b = {0}, *ends[] = {&a, &b};

    rig_pair(&a, &b, WIRE_LANE_BULK);
    lane_pause(b.lane, true);
    rig_start_sending(&a, 45 * MB, WIRE_DATA_MAX_BYTES);
    rig_run_until_stuck(&a);
    assert_true(a.sent_bytes < 40 * MB); /* what the kernel's buffers take */
    assert_int_equal(b.frames, 0);
    lane_pause(b.lane, false);
    lanes_run(rig.loop, rig_all_received, ends, 120, "data");
    rig_assert_whole(&b);
    rig_close(&a, &b);
}

static bool has_room(void *arg)
{
    return ((struct end *)arg)->rooms > 0;
}

/* The last bytes of room go to what encrypting adds, not to a frame. */
static void room_that_ends_by_a_flush_is_owed(void **state)
{
    static uint8_t payload[5000];
    struct end a = {0}, b = {0};
    struct frame frame = {.type = WIRE_DATA,
                          .epoch = 1,
                          .length_bytes = 5000 - WIRE_HEADER_BYTES - 10};
    uint8_t header[WIRE_HEADER_BYTES];

    rig_pair(&a, &b, WIRE_LANE_BULK);
    lane_pause(b.lane, true);
    rig_start_sending(&a, 45 * MB, WIRE_DATA_MAX_BYTES);
    rig_run_until_stuck(&a);
    a.to_send_bytes = 0;
    lane_set_batch(a.lane, 500000);
    rig_run_for(5 * MP_MS);
    size_t room;
    do { /* a socket takes more than it tells of */
        room = lane_room(a.lane);
        lane_flush(a.lane);
    } while (lane_room(a.lane) != room);
    lane_set_batch(a.lane, 500000 - room + 5000);
    a.rooms = 0;
    frame_encode(&frame, header);
    lane_send(a.lane, header, payload, frame.length_bytes);
    assert_int_equal(lane_room(a.lane), 10);
    lane_flush(a.lane);
    assert_int_equal(lane_room(a.lane), 0);
    lane_pause(b.lane, false);
    lanes_run(rig.loop, has_room, &a, 30, "room");
    rig_close(&a, &b);
}

static void attach_to_other_cb(void *arg)
{
    struct end *end = arg;
    lane_pause(end->lane, false);
    lane_attach(end->lane, end->loop, &end_ops, end);
}

/* The socket takes all at a flush, so that no event will tell of the room. */
static void room_that_comes_back_by_a_flush_is_owed(void **state)
{
    struct end a = {0}, b = {0};
    struct error err = ERROR_INIT;

    rig_pair(&a, &b, WIRE_LANE_BULK);
    lane_pause(b.lane, true);
    rig_start_sending(&a, 45 * MB, WIRE_DATA_MAX_BYTES);
    rig_run_until_stuck(&a);
    a.to_send_bytes = 0;
    lane_set_batch(a.lane, 4096); /* the batch is less than what waits */
    lane_detach(b.lane);
    b.loop = loop_new("other", &err);
    assert_non_null(b.loop);
    assert_int_equal(loop_start_thread(b.loop, &err), 0);
    loop_post(b.loop, attach_to_other_cb, &b);
    while (lane_room(a.lane) == 0) {
        usleep(10000);
        lane_flush(a.lane);
    }
    a.rooms = 0;
    lanes_run(rig.loop, has_room, &a, 30, "room");
    loop_stop(b.loop);
    loop_join_thread(b.loop);
    rig_close(&a, &b);
    loop_free(b.loop);
}

static void pause_hook(struct end *end)
{
    lane_pause(end->lane, true);
}

/* Pauses in the middle of what is in hand: nothing may come after it. */
static void a_slow_reader_gets_everything_in_order(void **state)
{
    struct end a = {0}, b = {0}, *ends[] = {&a, &b};

    rig_pair(&a, &b, WIRE_LANE_BULK);
    b.on_payload_hook = pause_hook;
    rig_start_sending(&a, 2 * MB, 30000);
    mp_time until = clock_now() + 20 * MP_SECOND;
    while (!rig_all_received(ends) && clock_now() < until) {
        uint64_t before = b.received_bytes;
        event_base_loop(loop_base(rig.loop), EVLOOP_NONBLOCK);
        assert_true(b.received_bytes - before <= 30000);
        lane_pause(b.lane, false);
    }
    assert_int_equal(b.received_bytes, 2 * MB);
    rig_assert_whole(&b);
    rig_close(&a, &b);
}

static void messages_to_a_peer_that_does_not_read_have_a_limit(void **state)
{
    struct end a = {0}, b = {0};
    static char text[WIRE_MESSAGE_MAX_BYTES];
    struct frame frame = {.type = WIRE_MESSAGE, .length_bytes = sizeof(text)};
    unsigned sent = 0;

    rig_pair(&a, &b, WIRE_LANE_CONTROL);
    lane_pause(b.lane, true);
    while (sent < 1000 && lane_send_frame(a.lane, &frame, text)) {
        sent++;
        rig_run_for(0);
    }
    assert_in_range(sent, LANE_SMALL_QUEUE_BYTES / sizeof(text) - 1, 200);
    lane_pause(b.lane, false);
    while (b.frames < sent) {
        rig_run_for(10 * MP_MS);
    }
    assert_true(lane_send_frame(a.lane, &frame, text));
    rig_close(&a, &b);
}

/* Moving. ------------------------------------------------------------------
 */

struct mover {
    struct end end;
    struct loop *loops[2];
    unsigned at;
    uint64_t next_move_bytes;
    unsigned moves;
    bool is_done; /* of the test's loop */
};

static void attach_cb(void *arg)
{
    struct mover *mover = arg;
    lane_attach(mover->end.lane, mover->loops[mover->at], &end_ops,
                &mover->end);
}

static void done_cb(void *arg)
{
    ((struct mover *)arg)->is_done = true;
}

/* Moves on to the other loop in the middle of a frame, every 700 kB. */
static void move_hook(struct end *end)
{
    struct mover *mover = (struct mover *)(void *)end;

    if (end->received_bytes == 20 * MB) {
        loop_post(rig.loop, done_cb, mover);
        return;
    }
    if (end->received_bytes < mover->next_move_bytes) {
        return;
    }
    mover->next_move_bytes += 700000;
    mover->moves++;
    mover->at = !mover->at;
    lane_detach(end->lane);
    loop_post(mover->loops[mover->at], attach_cb, mover);
}

static void close_cb(void *arg)
{
    struct mover *mover = arg;
    lane_close(mover->end.lane);
}

struct move {
    struct mover *mover;
    struct end *other;
};

static bool is_moved(void *arg)
{
    struct move *move = arg;
    return (move->mover->is_done && move->other->received_bytes == 10 * MB) ||
           move->other->closings;
}

static void a_lane_moves_between_loops_in_mid_stream(void **state)
{
    struct end a = {0};
    struct mover b = {.next_move_bytes = 300000};
    struct move move = {&b, &a};
    struct error err = ERROR_INIT;

    rig_pair(&a, &b.end, WIRE_LANE_BULK);
    for (int i = 0; i < 2; i++) {
        b.loops[i] = loop_new(i ? "one" : "two", &err);
        assert_non_null(b.loops[i]);
        assert_int_equal(loop_start_thread(b.loops[i], &err), 0);
    }
    /* all is on its way before the first move: some of it is in hand */
    rig_start_sending(&a, 20 * MB, WIRE_DATA_MAX_BYTES);
    b.end.to_send_bytes = 10 * MB;
    b.end.max_frame_bytes = 50000;
    b.end.on_payload_hook = move_hook;
    lanes_run(rig.loop, is_moved, &move, 120, "data");
    loop_post(b.loops[b.at], close_cb, &b);
    for (int i = 0; i < 2; i++) {
        loop_stop(b.loops[i]);
        loop_join_thread(b.loops[i]);
        loop_free(b.loops[i]);
    }
    assert_in_range(b.moves, 20, 30);
    assert_int_equal(b.end.closings, 0);
    rig_assert_whole(&a);
    rig_assert_whole(&b.end);
    lane_close(a.lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_meet_and_know_each_other),
        cmocka_unit_test(data_survives_both_ways),
        cmocka_unit_test(small_frames_share_a_record),
        cmocka_unit_test(the_longest_frame_is_eight_full_records),
        cmocka_unit_test(a_turn_sends_a_bounded_amount),
        cmocka_unit_test(a_small_batch_bounds_what_is_encrypted),
        cmocka_unit_test(a_paused_lane_holds_the_sender_back),
        cmocka_unit_test(room_that_ends_by_a_flush_is_owed),
        cmocka_unit_test(room_that_comes_back_by_a_flush_is_owed),
        cmocka_unit_test(a_slow_reader_gets_everything_in_order),
        cmocka_unit_test(messages_to_a_peer_that_does_not_read_have_a_limit),
        cmocka_unit_test(a_lane_moves_between_loops_in_mid_stream),
    };
    return cmocka_run_group_tests_name("lane", tests, rig_set_up,
                                       rig_tear_down);
}
