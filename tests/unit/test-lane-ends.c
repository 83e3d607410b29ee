// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: how they begin and end, and who hears of it. */
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

static bool is_closed(void *arg)
{
    return ((struct end *)arg)->closings > 0;
}

static void assert_error(const struct end *end, enum error_code code,
                         const char *text)
{
    assert_int_equal(end->closings, 1);
    if (end->err.code != code || !strstr(end->err.text, text)) {
        fail_msg("%s: \"%s\", expected %s: \"%s\"", error_class(end->err.code),
                 end->err.text, error_class(code), text);
    }
}

static void a_refused_dialler_gets_code_and_text(void **state)
{
    struct end a = {0}, b = {.refusal = ERR_SHUTTING_DOWN};

    lanes_pair(rig.loop, &a, &b, rig.tls_a, rig.tls_b, "host-b",
               WIRE_LANE_CONTROL, &rig.params);
    lanes_run(rig.loop, is_closed, &a, 30, "end of the lane");
    assert_error(&a, ERR_SHUTTING_DOWN, "127.0.0.1:");
    assert_error(&a, ERR_SHUTTING_DOWN, ": refused");
    assert_int_equal(a.hellos, 0);
    assert_int_equal(b.closings, 0);
}

static void no_common_version_is_told_to_both(void **state)
{
    struct end a = {0}, b = {0};
    struct hello mine = lanes_hello(WIRE_LANE_CONTROL, "host-a");
    struct lane_params own = rig.params;
    struct sock_address address, from;
    int listen_fd = lanes_listen(&address);

    mine.version_min = mine.version_max = WIRE_VERSION_MAX + 1;
    b.mine = lanes_hello(WIRE_LANE_CONTROL, "host-b");
    own.tls = rig.tls_a;
    a.lane = lane_connect(rig.loop, &address, "host-b", &mine, &own, &end_ops,
                          &a, NULL);
    own.tls = rig.tls_b;
    b.lane = lane_accept(rig.loop, lanes_accept(listen_fd, &from), &from, &own,
                         &end_ops, &b, NULL);
    close(listen_fd);
    lanes_run(rig.loop, is_closed, &a, 30, "end of the lane");
    assert_error(&a, ERR_UNSUPPORTED,
                 "no common protocol version: here 1 to 1, host-a has 2 to 2");
    assert_int_equal(b.err.code, ERR_UNSUPPORTED);
    assert_int_equal(b.closings, 0);
}

static void an_acceptor_may_take_its_time(void **state)
{
    struct end a = {0}, b = {.is_slow = true}, *ends[] = {&a, &b};

    lanes_pair(rig.loop, &a, &b, rig.tls_a, rig.tls_b, "host-b", WIRE_LANE_BULK,
               &rig.params);
    while (!b.hellos) {
        rig_run_for(MP_MS);
    }
    rig_run_for(30 * MP_MS);
    assert_int_equal(a.hellos, 0);
    assert_int_equal(lane_welcome(b.lane, &b.mine, NULL), 0);
    while (!a.hellos) {
        rig_run_for(MP_MS);
    }
    rig_start_sending(&a, MB, 9000);
    lanes_run(rig.loop, rig_all_received, ends, 10, "data");
    rig_assert_whole(&b);
    rig_close(&a, &b);
}

/* HELLO comes all the same, frames wait. */
static void a_lane_may_be_paused_before_it_is_ready(void **state)
{
    struct end a = {0}, b = {.is_slow = true}, *ends[] = {&a, &b};

    lanes_pair(rig.loop, &a, &b, rig.tls_a, rig.tls_b, "host-b", WIRE_LANE_BULK,
               &rig.params);
    lane_pause(a.lane, true);
    lane_pause(b.lane, true);
    while (!b.hellos) {
        rig_run_for(MP_MS);
    }
    assert_int_equal(lane_welcome(b.lane, &b.mine, NULL), 0);
    rig_start_sending(&b, MB, 9000);
    while (!a.hellos) {
        rig_run_for(MP_MS);
    }
    rig_start_sending(&a, MB, 9000);
    rig_run_for(50 * MP_MS);
    assert_int_equal(a.frames + b.frames, 0);
    lane_pause(a.lane, false);
    lane_pause(b.lane, false);
    lanes_run(rig.loop, rig_all_received, ends, 30, "data");
    rig_assert_whole(&a);
    rig_assert_whole(&b);
    rig_close(&a, &b);
}

/* Both sockets are full when one end gives up: the other still learns why, and
 * gets what was sent before. */
static void last_words_arrive_behind_a_full_socket(void **state)
{
    struct end a = {0}, b = {0};

    rig_pair(&a, &b, WIRE_LANE_BULK);
    lane_pause(b.lane, true);
    rig_start_sending(&a, 45 * MB, WIRE_DATA_MAX_BYTES);
    rig_run_until_stuck(&a);
    lane_refuse(a.lane, ERR_CANCELLED, "cancelled by the operator");
    lane_pause(b.lane, false);
    lanes_run(rig.loop, is_closed, &b, 30, "end of the lane");
    assert_error(&b, ERR_CANCELLED, "cancelled by the operator");
    assert_int_equal(b.received_bytes, a.sent_bytes);
    assert_false(b.is_damaged);
    assert_int_equal(a.closings, 0);
}

/* The receiver gives up in the middle of a flood. */
static void last_words_arrive_against_the_stream(void **state)
{
    struct end a = {0}, b = {0};

    rig_pair(&a, &b, WIRE_LANE_BULK);
    rig_start_sending(&a, 800 * MB, WIRE_DATA_MAX_BYTES);
    while (b.received_bytes < 5 * MB) {
        rig_run_for(MP_MS);
    }
    lane_refuse(b.lane, ERR_QEMU_GONE, "QEMU has gone");
    lanes_run(rig.loop, is_closed, &a, 30, "end of the lane");
    assert_error(&a, ERR_QEMU_GONE, "QEMU has gone");
}

/* Nobody reads the last words; the loop's end releases them. */
static void a_loop_that_ends_takes_last_words_along(void **state)
{
    struct end a = {0}, b = {0};
    struct error err = ERROR_INIT;
    struct loop *shared = rig.loop;

    rig.loop = loop_new("own", &err);
    assert_non_null(rig.loop);
    rig_pair(&a, &b, WIRE_LANE_BULK);
    lane_pause(b.lane, true);
    rig_start_sending(&a, 45 * MB, WIRE_DATA_MAX_BYTES);
    rig_run_until_stuck(&a);
    lane_refuse(a.lane, ERR_CANCELLED, "cancelled");
    lane_close(b.lane);
    loop_free(rig.loop);
    rig.loop = shared;
}

static void a_peer_that_closes_is_a_lost_link(void **state)
{
    struct end a = {0}, b = {0};

    rig_pair(&a, &b, WIRE_LANE_EXPRESS);
    lane_close(b.lane);
    lanes_run(rig.loop, is_closed, &a, 30, "end of the lane");
    assert_error(&a, ERR_LINK_LOST, "host-b (127.0.0.1:");
    assert_error(&a, ERR_LINK_LOST, "): closed the connection");
}

static void close_hook(struct end *end)
{
    lane_close(end->lane);
    end->lane = NULL;
}

/* And nothing is called afterwards. */
static void every_callback_may_close_the_lane(void **state)
{
    for (int which = 0; which < 5; which++) {
        struct end a = {0}, b = {0};

        if (which == 0) {
            b.on_hello_hook = close_hook;
        } else {
            rig_pair(&a, &b, WIRE_LANE_BULK);
            b.on_frame_hook = which == 1 ? close_hook : NULL;
            b.on_payload_hook = which == 2 ? close_hook : NULL;
            b.on_turn_hook = which == 3 ? close_hook : NULL;
            b.on_room_hook = which == 4 ? close_hook : NULL;
        }
        if (which == 0) {
            lanes_pair(rig.loop, &a, &b, rig.tls_a, rig.tls_b, "host-b",
                       WIRE_LANE_BULK, &rig.params);
        } else {
            rig_start_sending(which == 4 ? &b : &a, 9 * MB, 30000);
        }
        lanes_run(rig.loop, is_closed, &a, 30, "end of the lane");
        assert_error(&a, ERR_LINK_LOST, "host-b (127.0.0.1:");
        assert_int_equal(b.closings, 0);
        assert_null(b.lane);
        assert_true(which != 1 || b.frames == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_dialler_gets_code_and_text),
        cmocka_unit_test(no_common_version_is_told_to_both),
        cmocka_unit_test(an_acceptor_may_take_its_time),
        cmocka_unit_test(a_lane_may_be_paused_before_it_is_ready),
        cmocka_unit_test(last_words_arrive_behind_a_full_socket),
        cmocka_unit_test(last_words_arrive_against_the_stream),
        cmocka_unit_test(a_loop_that_ends_takes_last_words_along),
        cmocka_unit_test(a_peer_that_closes_is_a_lost_link),
        cmocka_unit_test(every_callback_may_close_the_lane),
    };
    return cmocka_run_group_tests_name("lane-ends", tests, rig_set_up,
                                       rig_tear_down);
}
