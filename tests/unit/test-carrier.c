// SPDX-License-Identifier: BSD-3-Clause
/* Carriers: two of them with lanes over TLS on loopback, fake QEMUs on unix
 * sockets at both ends. Each test ends with as many descriptors as it began
 * with, and without the listening socket's file (rig_free()). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/carrier-rig.h"
#include "util/log.h"

#define MAIN 0
#define PREEMPT 1
#define MULTIFD 2

static const struct rig_params plain = {.preempt = false};
static const struct rig_params preempt = {.preempt = true};

/* Both ends of main, connected, with its header passed and a PONG back. */
struct main_ends {
    int src, dst;
};

static struct main_ends connect_main(struct rig *rig)
{
    struct main_ends m;
    char buf[8];

    m.src = qemu_connect(rig);
    qemu_send_main_header(rig, m.src);
    m.dst = qemu_accept(rig);
    qemu_recv(rig, m.dst, buf, 8);
    assert_memory_equal(buf, "QEVM\0\0\0\3", 8);
    return m;
}

static struct main_ends connect_main_with_return_path(struct rig *rig)
{
    struct main_ends m = connect_main(rig);
    char buf[8];

    qemu_send_pong(rig, m.dst, 1);
    qemu_recv(rig, m.src, buf, 8);
    assert_memory_equal(buf, "\0\2\0\4\0\0\0\1", 8);
    return m;
}

/* A second channel (preempt), connected. */
static struct main_ends connect_next(struct rig *rig)
{
    struct main_ends m;
    m.src = qemu_connect(rig);
    m.dst = qemu_accept(rig);
    return m;
}

static void close_both(struct main_ends m)
{
    close(m.src);
    close(m.dst);
}

static void get_stats(struct rig *rig, int side, struct carrier_stats *stats)
{
    rig_run(rig, 60 * MP_MS);
    carrier_get_stats(rig->side[side].carrier, stats);
}

static void assert_broken_alike(struct rig *rig, const char *text)
{
    UNTIL(rig, rig->side[SRC].broken && rig->side[DST].broken);
    assert_string_equal(rig->side[SRC].why.text, rig->side[DST].why.text);
    assert_int_equal(rig->side[SRC].why.code, rig->side[DST].why.code);
    if (!strstr(rig->side[SRC].why.text, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, rig->side[SRC].why.text);
    }
    assert_int_equal(rig->side[SRC].broken_count, 1);
    assert_int_equal(rig->side[DST].broken_count, 1);
    assert_false(rig->side[SRC].finished || rig->side[DST].finished);
}

static void assert_finished(struct rig *rig)
{
    UNTIL(rig, rig->side[SRC].finished && rig->side[DST].finished);
    assert_false(rig->side[SRC].broken || rig->side[DST].broken);
    assert_int_equal(rig->side[SRC].finished_count, 1);
    assert_int_equal(rig->side[DST].finished_count, 1);
}

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
    get_stats(rig, SRC, &stats);
    assert_true(clock_now() - stats.last_heard > 200 * MP_MS);
    assert_true(clock_now() - stats.express_pong_at < 200 * MP_MS);
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
    get_stats(rig, SRC, &stats);
    assert_true(stats.ready);
    assert_int_equal(stats.channel_count, 2);
    assert_string_equal(stats.channel[0].name, "main");
    assert_int_equal(stats.channel[0].forward_bytes, (24 << 20) + 8);
    assert_int_equal(stats.channel[0].reverse_bytes, 2 << 20);
    assert_int_equal(stats.channel[1].forward_bytes, 3 << 20);
    assert_true(stats.wire_sent_bytes > 27 << 20);
    get_stats(rig, DST, &stats);
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
    get_stats(rig, SRC, &stats);
    assert_true(stats.channel[0].held_bytes <= 512 << 10);
    /* ... a switchover all it can hold */
    carrier_set_phase(rig->side[SRC].carrier, MUX_PHASE_SWITCHOVER);
    uint64_t more = send_until_stuck(rig, m.src);
    assert_true(more >= 3 << 20);
    get_stats(rig, SRC, &stats);
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
    struct rig_params params = {.bandwidth_bytes_per_second = 4000000,
                                .preempt = true};
    struct rig *rig = rig_new(&params);
    struct main_ends m = connect_main(rig);
    struct main_ends p = connect_next(rig);
    struct rig_flow flow = {
        .from = m.src, .to = m.dst, .total_bytes = 4000000, .seed = 4};

    mp_time start = clock_now();
    rig_flow(rig, &flow, 1);
    mp_time took = clock_now() - start;
    assert_in_range(took, 850 * MP_MS, 3 * MP_SECOND);
    /* preempt is counted, not delayed: 8 MB would take 2 s */
    struct rig_flow urgent = {
        .from = p.src, .to = p.dst, .total_bytes = 8000000, .seed = 5};
    start = clock_now();
    rig_flow(rig, &urgent, 1);
    assert_true(clock_now() - start < 1500 * MP_MS);
    carrier_set_bandwidth(rig->side[SRC].carrier, UINT64_MAX);
    flow.total_bytes += 16 << 20;
    start = clock_now();
    rig_flow(rig, &flow, 1);
    assert_true(clock_now() - start < 3 * MP_SECOND);
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
    get_stats(rig, SRC, &stats);
    uint64_t window = stats.window_bytes;
    assert_true(stats.channel[0].held_bytes <= 65536);
    uint64_t taken = stats.channel[0].forward_bytes;
    get_stats(rig, DST, &stats);
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
        get_stats(rig, i, &stats);
        assert_int_equal(stats.page_requests, ROUNDS);
    }
    close_both(m);
    close_both(p);
    rig_free(rig);
}

/* Connecting. ------------------------------------------------------------ */

static void main_waits_for_eight_bytes(void **state)
{
    struct rig *rig = rig_new(&plain);
    int src = qemu_connect(rig);
    char buf[8];

    qemu_send(rig, src, "QEVM\0\0\0", 7);
    rig_run(rig, 100 * MP_MS);
    assert_false(qemu_has_connection(rig));
    qemu_send(rig, src, "\3", 1);
    int dst = qemu_accept(rig);
    qemu_recv(rig, dst, buf, 8);
    close(src);
    close(dst);
    rig_free(rig);
}

/* QEMU 7.2: preempt right after main; the destination reads nothing of main
 * before it has preempt. */
static void preempt_follows_main_at_once(void **state)
{
    struct rig *rig = rig_new(&preempt);
    int main_src = qemu_connect(rig);
    int preempt_src = qemu_connect(rig);

    rig_run(rig, 50 * MP_MS);
    assert_false(qemu_has_connection(rig)); /* never before main */
    qemu_send_main_header(rig, main_src);
    qemu_send(rig, preempt_src, "urgent", 6);
    int main_dst = qemu_accept(rig);
    int preempt_dst = qemu_accept(rig);
    char buf[8];
    qemu_recv(rig, preempt_dst, buf, 6);
    assert_memory_equal(buf, "urgent", 6);
    qemu_recv(rig, main_dst, buf, 8);
    assert_memory_equal(buf, "QEVM", 4);
    UNTIL(rig, rig->side[SRC].channel_count == 2 &&
                   rig->side[DST].channel_count == 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rig->side[i].channels[0], MAIN);
        assert_int_equal(rig->side[i].channels[1], PREEMPT);
    }
    close(main_src);
    close(main_dst);
    close(preempt_src);
    close(preempt_dst);
    rig_free(rig);
}

/* QEMU 9.0 and later: main is silent until multifd is there; ids in any
 * order; preempt last, without a byte. */
static void multifd_is_told_by_first_bytes(void **state)
{
    struct rig_params params = {.multifd = 3, .preempt = true};
    struct rig *rig = rig_new(&params);
    static const uint8_t ids[3] = {2, 0, 1};
    int src[5], dst[5];
    uint8_t buf[64];

    src[0] = qemu_connect(rig);
    for (int i = 0; i < 3; i++) {
        src[1 + i] = qemu_connect(rig);
        qemu_send_multifd_header(rig, src[1 + i], ids[i]);
    }
    rig_run(rig, 50 * MP_MS);
    assert_false(qemu_has_connection(rig));
    qemu_send_main_header(rig, src[0]);
    dst[0] = qemu_accept(rig);
    qemu_recv(rig, dst[0], buf, 8);
    for (int i = 0; i < 3; i++) {
        dst[1 + i] = qemu_accept(rig);
        qemu_recv(rig, dst[1 + i], buf, 64);
        assert_int_equal(buf[24], ids[i]);
    }
    src[4] = qemu_connect(rig);
    dst[4] = qemu_accept(rig);
    qemu_send(rig, src[4], "page", 4);
    qemu_recv(rig, dst[4], buf, 4);
    UNTIL(rig, rig->side[DST].channel_count == 5);
    assert_int_equal(rig->side[DST].channels[1], MULTIFD + 2);
    assert_int_equal(rig->side[DST].channels[4], PREEMPT);
    for (int i = 0; i < 5; i++) {
        close(src[i]);
        close(dst[i]);
    }
    rig_free(rig);
}

static void a_full_backlog_is_waited_for(void **state)
{
    struct rig_params params = {.multifd = 6, .dst_backlog = 1};
    struct rig *rig = rig_new(&params);
    int src[7], dst[7];
    uint8_t buf[64];

    src[6] = qemu_connect(rig);
    qemu_send_main_header(rig, src[6]);
    for (uint8_t i = 0; i < 6; i++) {
        src[i] = qemu_connect(rig);
        qemu_send_multifd_header(rig, src[i], i);
    }
    rig_run(rig, 200 * MP_MS); /* QEMU is busy elsewhere */
    for (int i = 0; i < 7; i++) {
        dst[i] = qemu_accept(rig);
        qemu_recv(rig, dst[i], buf, i == 0 ? 8 : 64);
        rig_run(rig, 10 * MP_MS);
    }
    assert_false(rig->side[DST].broken);
    for (int i = 0; i < 7; i++) {
        close(src[i]);
        close(dst[i]);
    }
    rig_free(rig);
}

static void a_destination_that_listens_late_is_waited_for(void **state)
{
    struct rig_params params = {.no_dst_listen = true};
    struct rig *rig = rig_new(&params);
    int src = qemu_connect(rig);
    char buf[8];

    qemu_send_main_header(rig, src);
    rig_run(rig, 150 * MP_MS);
    rig_listen_dst(rig, 1);
    int dst = qemu_accept(rig);
    qemu_recv(rig, dst, buf, 8);
    close(src);
    close(dst);
    rig_free(rig);
}

static void a_destination_that_never_listens_breaks_the_path(void **state)
{
    struct rig_params params = {.no_dst_listen = true,
                                .connect_timeout = 200 * MP_MS};
    struct rig *rig = rig_new(&params);
    int src = qemu_connect(rig);

    qemu_send_main_header(rig, src);
    assert_broken_alike(rig, "did not take main in 200 ms");
    assert_int_equal(rig->side[SRC].why.code, ERR_TIMEOUT);
    qemu_recv_end(rig, src);
    close(src);
    rig_free(rig);
}

static void strangers_and_extra_connections_are_refused(void **state)
{
    struct rig_params params = {.qemu_pid = 1}; /* not this process */
    struct rig *rig = rig_new(&params);
    int stranger = qemu_connect(rig);
    assert_true(qemu_recv_end(rig, stranger));
    close(stranger);
    rig_free(rig);

    params.qemu_pid = getpid();
    rig = rig_new(&params);
    struct main_ends m = connect_main(rig);
    int extra = qemu_connect(rig);
    assert_true(qemu_recv_end(rig, extra));
    assert_false(rig->side[SRC].broken);
    close(extra);
    close_both(m);
    rig_free(rig);
}

static void the_head_is_told_once(void **state)
{
    struct rig *rig = rig_new(&plain);
    int src = qemu_connect(rig);
    struct carrier_stats stats;

    qemu_send(rig, src, "not a migration stream", 22);
    UNTIL(rig, rig->side[SRC].head_count == 1);
    assert_int_equal(rig->side[SRC].head->state, STREAM_HEAD_OPAQUE);
    get_stats(rig, SRC, &stats);
    assert_memory_equal(stats.stream_state, "opaque (", 8);
    int dst = qemu_accept(rig);
    char buf[22];
    qemu_recv(rig, dst, buf, 22); /* it is carried all the same */
    assert_memory_equal(buf, "not a migration stream", 22);
    close(src);
    close(dst);
    rig_free(rig);
}

/* Ends. ------------------------------------------------------------------ */

static void each_direction_ends_by_itself(void **state)
{
    struct rig *rig = rig_new(&plain);
    struct main_ends m = connect_main(rig);
    char buf[8];

    shutdown(m.src, SHUT_WR);
    assert_true(qemu_recv_end(rig, m.dst));
    qemu_send(rig, m.dst, "answer", 6);
    qemu_recv(rig, m.src, buf, 6);
    rig_run(rig, 50 * MP_MS);
    assert_false(rig->side[SRC].finished || rig->side[SRC].broken);
    close(m.dst);
    assert_true(qemu_recv_end(rig, m.src));
    assert_finished(rig);
    close(m.src);
    rig_free(rig);
}

static void a_migration_ends_by_shut(void **state)
{
    struct rig *rig = rig_new(&preempt);
    struct main_ends m = connect_main_with_return_path(rig);
    struct main_ends p = connect_next(rig);
    struct carrier_stats stats;
    char buf[8];

    qemu_send_shut(rig, m.dst, 0);
    close_both((struct main_ends){m.dst, p.dst});
    qemu_recv(rig, m.src, buf, 8);
    assert_memory_equal(buf, "\0\1\0\4\0\0\0\0", 8);
    close_both((struct main_ends){m.src, p.src});
    assert_finished(rig);
    for (int i = 0; i < 2; i++) {
        get_stats(rig, i, &stats);
        assert_true(stats.shut_seen);
        assert_int_equal(stats.shut_status, 0);
        assert_false(stats.channel[0].open || stats.channel[1].open);
    }
    rig_free(rig);
}

/* What is unread at the destination after SHUT is nobody's loss. */
static void after_shut_unread_bytes_do_not_matter(void **state)
{
    struct rig *rig = rig_new(&preempt);
    struct main_ends m = connect_main_with_return_path(rig);
    struct main_ends p = connect_next(rig);
    char buf[8];

    static char junk[1 << 20];
    send(m.src, junk, sizeof(junk), MSG_NOSIGNAL);
    send(p.src, junk, sizeof(junk), MSG_NOSIGNAL);
    rig_run(rig, 50 * MP_MS);
    close(p.dst); /* with unread bytes, and before SHUT */
    rig_run(rig, 20 * MP_MS);
    qemu_send_shut(rig, m.dst, 0);
    close(m.dst);
    qemu_recv(rig, m.src, buf, 8);
    close(m.src);
    close(p.src);
    assert_finished(rig);
    rig_free(rig);
}

static void a_source_that_goes_on_after_shut_is_drained(void **state)
{
    struct rig *rig = rig_new(&plain);
    struct main_ends m = connect_main_with_return_path(rig);
    static char junk[65536];
    char buf[8];

    qemu_send_shut(rig, m.dst, 0);
    close(m.dst);
    qemu_recv(rig, m.src, buf, 8);
    for (int i = 0; i < 64; i++) {
        qemu_send(rig, m.src, junk, sizeof(junk));
    }
    assert_true(qemu_recv_end(rig, m.src));
    close(m.src);
    assert_finished(rig);
    rig_free(rig);
}

static void a_lane_lost_after_the_end_is_no_failure(void **state)
{
    struct rig *rig = rig_new(&plain);
    struct main_ends m = connect_main_with_return_path(rig);
    char buf[8];

    qemu_send_shut(rig, m.dst, 0);
    close(m.dst);
    qemu_recv(rig, m.src, buf, 8);
    rig_run(rig, 50 * MP_MS); /* the source's daemon acknowledged it */
    shutdown(rig->lane_fd[1], SHUT_RDWR);
    shutdown(rig->lane_fd[0], SHUT_RDWR);
    assert_finished(rig);
    close(m.src);
    rig_free(rig);
}

static void a_destination_that_dies_breaks_the_path(void **state)
{
    struct rig *rig = rig_new(&preempt);
    struct main_ends m = connect_main_with_return_path(rig);
    struct main_ends p = connect_next(rig);
    static char bulk[1 << 20];

    send(m.src, bulk, sizeof(bulk), MSG_NOSIGNAL);
    rig_run(rig, 20 * MP_MS);
    close_both((struct main_ends){m.dst, p.dst});
    assert_broken_alike(rig, "before the migration's end: destination QEMU");
    assert_int_equal(rig->side[SRC].why.code, ERR_QEMU_GONE);
    qemu_recv_end(rig, m.src);
    qemu_recv_end(rig, p.src);
    close_both((struct main_ends){m.src, p.src});
    rig_free(rig);
}

static void a_sibling_that_dies_breaks_the_path(void **state)
{
    struct rig *rig = rig_new(&preempt);
    struct main_ends m = connect_main_with_return_path(rig);
    struct main_ends p = connect_next(rig);

    close(p.dst);
    rig_run(rig, 800 * MP_MS);
    assert_false(rig->side[SRC].broken); /* nothing is lost so far */
    send(p.src, "page", 4, MSG_NOSIGNAL);
    assert_broken_alike(rig, "destination QEMU closed preempt");
    qemu_recv_end(rig, m.dst);
    qemu_recv_end(rig, m.src);
    close_both(m);
    close(p.src);
    rig_free(rig);
}

static void a_source_that_dies_breaks_the_path(void **state)
{
    struct rig *rig = rig_new(&plain);
    struct main_ends m = connect_main_with_return_path(rig);

    close(m.src);
    assert_broken_alike(rig, "source QEMU closed main");
    qemu_recv_end(rig, m.dst);
    close(m.dst);
    rig_free(rig);

    /* before it said enough to connect anybody */
    rig = rig_new(&plain);
    m.src = qemu_connect(rig);
    qemu_send(rig, m.src, "QEV", 3);
    close(m.src);
    assert_broken_alike(rig, "after 3 bytes, it needs 8 to begin");
    rig_free(rig);
}

static void closing_qemu_tells_the_other_end(void **state)
{
    struct rig *rig = rig_new(&plain);
    struct main_ends m = connect_main(rig);

    carrier_close_qemu(rig->side[DST].carrier, ERR_TIMEOUT,
                       "no news within hold-time");
    assert_broken_alike(rig, "no news within hold-time");
    assert_int_equal(rig->side[SRC].why.code, ERR_TIMEOUT);
    qemu_recv_end(rig, m.src);
    qemu_recv_end(rig, m.dst);
    /* the lanes are still there */
    carrier_prove_path(rig->side[DST].carrier, 77);
    UNTIL(rig, rig->side[DST].path_seq == 77);
    close_both(m);
    rig_free(rig);
}

static void freeing_tells_the_other_end_why(void **state)
{
    for (int side = 0; side < 2; side++) {
        struct rig *rig = rig_new(&plain);
        struct main_ends m = connect_main(rig);
        int before = rig->side[side].broken_count;

        rig_free_carrier(rig, side, "the operator cancelled");
        UNTIL(rig, rig->side[!side].broken);
        assert_non_null(
            strstr(rig->side[!side].why.text, "the operator cancelled"));
        assert_int_equal(rig->side[!side].why.code, ERR_CANCELLED);
        assert_int_equal(rig->side[side].broken_count, before);
        qemu_recv_end(rig, m.src);
        qemu_recv_end(rig, m.dst);
        close_both(m);
        rig_free(rig);
    }
}

static void free_both(struct rig *rig)
{
    rig_free_carrier(rig, SRC, NULL);
    rig_free_carrier(rig, DST, NULL);
}

static void free_is_possible_in_every_state(void **state)
{
    struct rig_params no_lanes = {.no_lanes = true};
    struct rig *rig = rig_new(&no_lanes); /* before any lane */
    rig_free(rig);

    rig = rig_new(&no_lanes); /* with callbacks on their way */
    rig_connect_lanes(rig);
    rig_free(rig);

    rig = rig_new(&plain); /* before QEMU */
    rig_free(rig);

    struct rig_params many = {.multifd = 4}; /* labels outstanding */
    rig = rig_new(&many);
    struct main_ends m = {qemu_connect(rig), qemu_connect(rig)};
    qemu_send_multifd_header(rig, m.dst, 1);
    rig_run(rig, 10 * MP_MS);
    free_both(rig);
    close_both(m);
    rig_free(rig);

    rig = rig_new(&plain); /* in mid-stream */
    m = connect_main(rig);
    static char bulk[4 << 20];
    send(m.src, bulk, sizeof(bulk), MSG_NOSIGNAL);
    free_both(rig);
    qemu_recv_end(rig, m.src);
    qemu_recv_end(rig, m.dst);
    close_both(m);
    rig_free(rig);

    struct rig_params deaf = {.no_dst_listen = true}; /* connecting */
    rig = rig_new(&deaf);
    m.src = qemu_connect(rig);
    qemu_send_main_header(rig, m.src);
    rig_run(rig, 30 * MP_MS);
    free_both(rig);
    close(m.src);
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
        cmocka_unit_test(main_waits_for_eight_bytes),
        cmocka_unit_test(preempt_follows_main_at_once),
        cmocka_unit_test(multifd_is_told_by_first_bytes),
        cmocka_unit_test(a_full_backlog_is_waited_for),
        cmocka_unit_test(a_destination_that_listens_late_is_waited_for),
        cmocka_unit_test(a_destination_that_never_listens_breaks_the_path),
        cmocka_unit_test(strangers_and_extra_connections_are_refused),
        cmocka_unit_test(the_head_is_told_once),
        cmocka_unit_test(each_direction_ends_by_itself),
        cmocka_unit_test(a_migration_ends_by_shut),
        cmocka_unit_test(after_shut_unread_bytes_do_not_matter),
        cmocka_unit_test(a_source_that_goes_on_after_shut_is_drained),
        cmocka_unit_test(a_lane_lost_after_the_end_is_no_failure),
        cmocka_unit_test(a_destination_that_dies_breaks_the_path),
        cmocka_unit_test(a_sibling_that_dies_breaks_the_path),
        cmocka_unit_test(a_source_that_dies_breaks_the_path),
        cmocka_unit_test(closing_qemu_tells_the_other_end),
        cmocka_unit_test(freeing_tells_the_other_end_why),
        cmocka_unit_test(free_is_possible_in_every_state),
    };
    /* a failing path is what is tested: its warnings would hide the results */
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
