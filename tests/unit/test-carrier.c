// SPDX-License-Identifier: BSD-3-Clause
/* Carriers: the path and the bytes on it. Two carriers with lanes over TLS on
 * loopback, fake QEMUs on unix sockets at both ends. Each test ends with as
 * many descriptors as it began with, and without the listening socket's file
 * (rig_free()). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/carrier-rig.h"
#include "util/log.h"

static const struct rig_params plain = {.preempt = false};
static const struct rig_params preempt = {.preempt = true};

/* The path. -------------------------------------------------------------- */

static void path_is_proved_by_pings_sent_after_the_call(void **state)
{
    struct rig *rig = rig_new(&plain);
    struct carrier_stats stats;

    for (uint64_t seq = 1; seq <= 3; seq++) {
        carrier_prove_path(rig->side[SRC].carrier, seq);
        UNTIL(rig, rig->side[SRC].path_seq == seq);
        assert_in_range(rig->side[SRC].path_rtt, 1, 10 * MP_SECOND);
    }
    /* a lane that hears nothing proves nothing */
    struct sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {1, drop};
    assert_int_equal(setsockopt(rig->lane_fd[1], SOL_SOCKET, SO_ATTACH_FILTER,
                                &program, sizeof(program)),
                     0);
    rig_run(rig, 20 * MP_MS); /* what was on its way has come */
    carrier_prove_path(rig->side[SRC].carrier, 4);
    rig_run(rig, 300 * MP_MS);
    assert_int_equal(rig->side[SRC].path_seq, 3);
    rig_get_stats(rig, SRC, &stats);
    assert_true(clock_now() - stats.last_heard > 200 * MP_MS);
    assert_true(stats.express_pong_at - stats.bulk_pong_at > 100 * MP_MS);
    /* QEMU is not bothered by silence alone */
    assert_false(rig->side[SRC].broken);
    int drop_it = 0;
    setsockopt(rig->lane_fd[1], SOL_SOCKET, SO_DETACH_FILTER, &drop_it,
               sizeof(drop_it));
    UNTIL(rig, rig->side[SRC].path_seq == 4);
    rig_free(rig);
}

static void a_killed_lane_closes_everything(void **state)
{
    for (int lane = 0; lane < 2; lane++) {
        struct rig *rig = rig_new(&preempt);
        struct main_ends m = connect_main_with_return_path(rig);
        struct main_ends p = connect_next(rig);

        assert_true(rig->lane_fd[lane] >= 0);
        shutdown(rig->lane_fd[lane], SHUT_RDWR);
        UNTIL(rig, rig->side[SRC].broken && rig->side[DST].broken);
        qemu_recv_end(rig, m.src);
        qemu_recv_end(rig, m.dst);
        qemu_recv_end(rig, p.src);
        qemu_recv_end(rig, p.dst);
        assert_int_equal(rig->side[SRC].broken_count, 1);
        assert_int_equal(rig->side[DST].broken_count, 1);
        close_both(m);
        close_both(p);
        rig_free(rig);
    }
}

static void a_lane_that_comes_too_late_is_sent_away(void **state)
{
    struct rig_params params = {.no_lanes = true};
    struct rig *rig = rig_new(&params);

    carrier_close_qemu(rig->side[SRC].carrier, ERR_CANCELLED, "changed mind");
    UNTIL(rig, rig->side[SRC].broken);
    rig_connect_lanes(rig);
    UNTIL(rig, rig->side[DST].broken);
    assert_non_null(strstr(rig->side[DST].why.text, "changed mind"));
    rig_free(rig);
}

/* Bytes. ----------------------------------------------------------------- */

static void bytes_arrive_both_ways_with_slow_readers(void **state)
{
    struct rig *rig = rig_new(&preempt);
    struct main_ends m = connect_main(rig);
    struct main_ends p = connect_next(rig);
    struct carrier_stats stats;
    struct rig_flow flows[] = {
        {.from = m.src, .to = m.dst, .total_bytes = 24 << 20, .seed = 1},
        {.from = m.dst,
         .to = m.src,
         .total_bytes = 2 << 20,
         .seed = 2,
         .read_bytes_per_step = 3000},
        {.from = p.src,
         .to = p.dst,
         .total_bytes = 3 << 20,
         .seed = 3,
         .read_bytes_per_step = 5000},
    };
    rig_flow(rig, flows, 3);
    rig_get_stats(rig, SRC, &stats);
    assert_true(stats.ready);
    assert_int_equal(stats.channel_count, 2);
    assert_string_equal(stats.channel[0].name, "main");
    assert_int_equal(stats.channel[0].forward_bytes, (24 << 20) + 8);
    assert_int_equal(stats.channel[0].reverse_bytes, 2 << 20);
    assert_int_equal(stats.channel[1].forward_bytes, 3 << 20);
    assert_true(stats.wire_sent_bytes > 27 << 20);
    rig_get_stats(rig, DST, &stats);
    assert_int_equal(stats.channel[0].forward_bytes, (24 << 20) + 8);
    assert_int_equal(stats.channel[0].reverse_bytes, 2 << 20);
    close_both(m);
    close_both(p);
    rig_free(rig);
}

/* Sends until nothing is taken for a while. Returns how much was. */
static uint64_t send_until_stuck(struct rig *rig, int fd)
{
    static const char zeros[65536];
    mp_time quiet_since = clock_now();
    uint64_t sent = 0;

    while (clock_now() - quiet_since < 300 * MP_MS) {
        ssize_t n = send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL);
        if (n > 0) {
            sent += n;
            quiet_since = clock_now();
        }
        rig_step(rig, quiet_since + RIG_DEADLINE, "the sender");
    }
    return sent;
}

static void switchover_is_drained_up_to_the_buffer(void **state)
{
    struct rig_params params = {.switchover_buffer_bytes = 4 << 20};
    struct rig *rig = rig_new(&params);
    struct main_ends m = connect_main(rig);
    struct carrier_stats stats;

    /* nobody reads at the destination: a precopy takes little ... */
    carrier_set_phase(rig->side[SRC].carrier, MUX_PHASE_PRECOPY);
    uint64_t sent = send_until_stuck(rig, m.src);
    rig_get_stats(rig, SRC, &stats);
    assert_true(stats.channel[0].held_bytes <= 512 << 10);
    /* ... a switchover all it can hold */
    carrier_set_phase(rig->side[SRC].carrier, MUX_PHASE_SWITCHOVER);
    uint64_t more = send_until_stuck(rig, m.src);
    assert_true(more >= 3 << 20);
    rig_get_stats(rig, SRC, &stats);
    assert_true(stats.channel[0].held_bytes <= 4 << 20);
    for (uint64_t left = sent + more; left > 0;) {
        char buf[65536];
        size_t part = left < sizeof(buf) ? left : sizeof(buf);
        qemu_recv(rig, m.dst, buf, part);
        left -= part;
    }
    close_both(m);
    rig_free(rig);
}

static void the_cap_binds_bulk(void **state)
{
    struct rig_params params = {.bandwidth_bytes_per_second = 200000,
                                .preempt = true};
    struct rig *rig = rig_new(&params);
    struct main_ends m = connect_main(rig);
    struct main_ends p = connect_next(rig);
    struct rig_flow flow = {
        .from = m.src, .to = m.dst, .total_bytes = 400000, .seed = 4};

    /* the last frame, of up to 131040 bytes, is only paid for afterwards */
    mp_time start = clock_now();
    rig_flow(rig, &flow, 1);
    assert_true(clock_now() - start > 1200 * MP_MS);
    /* preempt is counted, not delayed: with the cap this would take 20 s */
    struct rig_flow urgent = {
        .from = p.src, .to = p.dst, .total_bytes = 4000000, .seed = 5};
    start = clock_now();
    rig_flow(rig, &urgent, 1);
    assert_true(clock_now() - start < 15 * MP_SECOND);
    /* so would this */
    carrier_set_bandwidth(rig->side[SRC].carrier, UINT64_MAX);
    flow.total_bytes += 4000000;
    start = clock_now();
    rig_flow(rig, &flow, 1);
    assert_true(clock_now() - start < 15 * MP_SECOND);
    close_both(m);
    close_both(p);
    rig_free(rig);
}

static void postcopy_holds_little_when_the_reader_stops(void **state)
{
    struct rig *rig = rig_new(&plain);
    struct main_ends m = connect_main_with_return_path(rig);
    struct carrier_stats stats;

    for (int i = 0; i < 2; i++) {
        carrier_set_phase(rig->side[i].carrier, MUX_PHASE_POSTCOPY);
    }
    rig_run(rig, 20 * MP_MS);
    send_until_stuck(rig, m.src);
    rig_get_stats(rig, SRC, &stats);
    uint64_t window = stats.window_bytes;
    assert_true(stats.channel[0].held_bytes <= 65536);
    uint64_t taken = stats.channel[0].forward_bytes;
    rig_get_stats(rig, DST, &stats);
    uint64_t in_flight = taken - 65536 - stats.channel[0].forward_bytes;
    printf("# postcopy, reader stopped: taken %llu, at QEMU %llu, window "
           "%llu\n",
           (unsigned long long)taken,
           (unsigned long long)stats.channel[0].forward_bytes,
           (unsigned long long)window);
    /* towards QEMU lies at most what its small buffer takes */
    assert_true(stats.channel[0].forward_bytes <= 128 << 10);
    assert_true((int64_t)in_flight <= (int64_t)window + 65536);
    close_both(m);
    rig_free(rig);
}

/* What goes on beside the requests: main is kept full and read. */
static uint64_t move_bulk(struct main_ends m)
{
    static char bulk[65536];
    send(m.src, bulk, sizeof(bulk), MSG_NOSIGNAL);
    ssize_t n = recv(m.dst, bulk, sizeof(bulk), 0);
    return n > 0 ? n : 0;
}

/* One request on main's return path, answered by a page on preempt. Returns
 * how long it took. */
static mp_time fault_once(struct main_ends m, struct main_ends p,
                          uint64_t *moved)
{
    /* REQ_PAGES_ID: offset 0, one page of "pc.ram" */
    static const char request[] = "\0\3\0\23\0\0\0\0\0\0\0\0\0\0\20\0\6pc.ram";
    enum { LEN = sizeof(request) - 1 };
    static char page[4096], seen[LEN];
    mp_time start = clock_now();
    size_t asked = 0, got = 0;

    assert_int_equal(send(m.dst, request, LEN, MSG_NOSIGNAL), LEN);
    while (got < sizeof(page)) {
        if (asked < LEN) {
            ssize_t n = recv(m.src, seen, LEN - asked, 0);
            asked += n > 0 ? n : 0;
            if (asked == LEN) {
                assert_int_equal(send(p.src, page, sizeof(page), MSG_NOSIGNAL),
                                 sizeof(page));
            }
        }
        ssize_t n = recv(p.dst, page, sizeof(page) - got, 0);
        got += n > 0 ? n : 0;
        *moved += move_bulk(m);
        if (clock_now() - start > RIG_DEADLINE) {
            fail_msg("deadline passed, waiting for a page");
        }
        usleep(20);
    }
    return clock_now() - start;
}

static void urgent_ping_pong_beside_bulk(void **state)
{
    struct rig *rig = rig_new(&preempt);
    struct main_ends m = connect_main_with_return_path(rig);
    struct main_ends p = connect_next(rig);
    struct carrier_stats stats;
    enum { ROUNDS = 200 };
    mp_time total = 0, worst = 0;
    uint64_t moved = 0;

    for (int i = 0; i < 2; i++) {
        carrier_set_phase(rig->side[i].carrier, MUX_PHASE_POSTCOPY);
    }
    for (int round = 0; round < ROUNDS; round++) {
        mp_time took = fault_once(m, p, &moved);
        total += took;
        worst = took > worst ? took : worst;
    }
    printf("# request to page beside bulk: mean %lld us, worst %lld us, bulk "
           "%llu MB/s\n",
           (long long)(total / ROUNDS / MP_US), (long long)(worst / MP_US),
           (unsigned long long)(moved / (total / MP_US + 1)));
    for (int i = 0; i < 2; i++) {
        rig_get_stats(rig, i, &stats);
        assert_int_equal(stats.page_requests, ROUNDS);
    }
    close_both(m);
    close_both(p);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_is_proved_by_pings_sent_after_the_call),
        cmocka_unit_test(a_killed_lane_closes_everything),
        cmocka_unit_test(a_lane_that_comes_too_late_is_sent_away),
        cmocka_unit_test(bytes_arrive_both_ways_with_slow_readers),
        cmocka_unit_test(switchover_is_drained_up_to_the_buffer),
        cmocka_unit_test(the_cap_binds_bulk),
        cmocka_unit_test(postcopy_holds_little_when_the_reader_stops),
        cmocka_unit_test(urgent_ping_pong_beside_bulk),
    };
    /* a failing path is what is tested: its warnings would hide the results */
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
