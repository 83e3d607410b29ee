// SPDX-License-Identifier: BSD-3-Clause
/* Carriers: who is connected when, and what the end of a socket means. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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
    rig_get_stats(rig, SRC, &stats);
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
        rig_get_stats(rig, i, &stats);
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

/* Whether the other end still takes what is sent, for a while. */
static bool is_taken(struct rig *rig, int fd)
{
    static char bulk[1 << 16];
    mp_time until = clock_now() + 5 * MP_SECOND;
    size_t sent = 0;

    while (sent < 4 << 20 && clock_now() < until) {
        ssize_t n = send(fd, bulk, sizeof(bulk), MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            return false;
        }
        sent += n > 0 ? (size_t)n : 0;
        rig_run(rig, MP_MS);
    }
    return sent >= 4 << 20;
}

/* QEMU 7.2 may hang if a multifd channel ends before its main does
 * (carrier-drain.c). */
static void multifd_of_a_broken_path_is_drained(void **state)
{
    struct rig_params params = {.multifd = 3};
    struct rig *rig = rig_new(&params);
    int src = qemu_connect(rig), multifd[3];

    qemu_send_main_header(rig, src);
    int dst = qemu_accept(rig);
    multifd[0] = qemu_connect(rig);
    qemu_send_multifd_header(rig, multifd[0], 0);
    multifd[1] = qemu_connect(rig); /* it has not said what it is */
    rig_run(rig, 50 * MP_MS);
    carrier_close_qemu(rig->side[SRC].carrier, ERR_CANCELLED, "enough");
    UNTIL(rig, rig->side[SRC].broken);
    qemu_recv_end(rig, src);
    multifd[2] = qemu_connect(rig); /* late */
    for (int i = 0; i < 3; i++) {
        assert_true(is_taken(rig, multifd[i]));
    }
    rig_free_carrier(rig, SRC, "done");
    for (int i = 0; i < 3; i++) {
        qemu_recv_end(rig, multifd[i]);
        close(multifd[i]);
    }
    close(src);
    close(dst);
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
    assert_broken_alike(rig, "destination QEMU closed its preempt channel");
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
    assert_broken_alike(rig,
                        "source QEMU closed its main channel after writing ");
    qemu_recv_end(rig, m.dst);
    close(m.dst);
    rig_free(rig);

    /* before it said enough to connect anybody */
    rig = rig_new(&plain);
    m.src = qemu_connect(rig);
    qemu_send(rig, m.src, "QEV", 3);
    close(m.src);
    assert_broken_alike(rig, "closed its main channel after writing 3 bytes to "
                             "it, it needs 8 to begin");
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
        cmocka_unit_test(multifd_of_a_broken_path_is_drained),
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
