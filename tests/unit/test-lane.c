// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: two ends meet over real TLS, and what one sends the other gets, on
 * whichever loop it lives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/lib/lanes.h"
#include "tests/lib/pki.h"

#define MB ((uint64_t)1000000)

static char *dir;
static struct tls *tls_a, *tls_b;
static struct loop *loop;
static const struct lane_params params = {.handshake_timeout = 20 * MP_SECOND,
                                          .rekey_bytes = 3 * 1000 * 1000};

static int set_up(void **state)
{
    struct error err = ERROR_INIT;

    dir = pki_new();
    pki_make(dir, "", "host-a host-b");
    tls_a = tls_load(pki_path(dir, "host-a"), &err);
    tls_b = tls_load(pki_path(dir, "host-b"), &err);
    loop = loop_new("test", &err);
    return tls_a && tls_b && loop ? 0 : -1;
}

static int tear_down(void **state)
{
    loop_free(loop);
    tls_unref(tls_a);
    tls_unref(tls_b);
    pki_free(dir);
    return 0;
}

static void pair(struct end *a, struct end *b, enum wire_lane kind)
{
    lanes_pair(loop, a, b, tls_a, tls_b, "host-b", kind, &params);
    assert_non_null(a->lane);
    assert_non_null(b->lane);
}

static void close_both(struct end *a, struct end *b)
{
    lane_close(a->lane);
    lane_close(b->lane);
}

static void ends_meet_and_know_each_other(void **state)
{
    struct end a = {0}, b = {0};
    struct lane_stats stats;

    pair(&a, &b, WIRE_LANE_EXPRESS);
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
    close_both(&a, &b);
    assert_int_equal(a.closings + b.closings, 0);
}

static bool all_received(void *arg)
{
    struct end **ends = arg;
    return (ends[0]->received_bytes == ends[1]->to_send_bytes &&
            ends[1]->received_bytes == ends[0]->to_send_bytes) ||
           ends[0]->closings || ends[1]->closings;
}

static void assert_whole(const struct end *end)
{
    if (end->closings) {
        fail_msg("closed: %s", end->err.text);
    }
    assert_false(end->is_damaged);
}

static void start_sending(struct end *end, uint64_t bytes, uint32_t max_frame)
{
    end->to_send_bytes = bytes;
    end->max_frame_bytes = max_frame;
    end_pump(end);
}

/* Keys change every 3 MB on the way. */
static void data_survives_both_ways(void **state)
{
    static const uint32_t max_frames[] = {WIRE_DATA_MAX_BYTES, 5000};

    for (size_t i = 0; i < 2; i++) {
        struct end a = {0}, b = {0}, *ends[] = {&a, &b};
        struct lane_stats sent, received;
        pair(&a, &b, WIRE_LANE_BULK);
        start_sending(&a, 60 * MB, max_frames[i]);
        start_sending(&b, 40 * MB, max_frames[i]);
        lanes_run(loop, all_received, ends, 60, "data");
        assert_whole(&a);
        assert_whole(&b);
        assert_true(b.rooms > 1 && b.turns > 1);
        lane_get_stats(a.lane, &sent);
        lane_get_stats(b.lane, &received);
        assert_int_equal(sent.sent_bytes, received.received_bytes);
        assert_int_equal(sent.sent_frames, received.received_frames);
        assert_true(clock_now() - received.last_received < 10 * MP_SECOND);
        close_both(&a, &b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_meet_and_know_each_other),
        cmocka_unit_test(data_survives_both_ways),
    };
    return cmocka_run_group_tests_name("lane", tests, set_up, tear_down);
}
