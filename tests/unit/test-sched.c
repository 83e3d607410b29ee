// SPDX-License-Identifier: BSD-3-Clause
/* The scheduler's properties, over random arrivals: strict levels, shares by
 * bytes, nobody starves, idling earns nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/memlink.h"
#include "transport/sched.h"

#define MAIN 0
#define MULTIFD 2 /* and 3, 4 */
#define DISK 10   /* and 11 */
#define RETURN_PATH 20
#define PREEMPT 21

#define FRAME 131072

static struct sched usual(void)
{
    struct sched s;
    sched_init(&s);
    sched_set_flow(&s, MAIN, SCHED_RAM, 4);
    for (unsigned i = 0; i < 3; i++) {
        sched_set_flow(&s, MULTIFD + i, SCHED_RAM, 1);
    }
    sched_set_flow(&s, DISK, SCHED_DISK, 1);
    sched_set_flow(&s, DISK + 1, SCHED_DISK, 1);
    sched_set_flow(&s, RETURN_PATH, SCHED_REVERSE, 1);
    sched_set_flow(&s, PREEMPT, SCHED_URGENT, 1);
    return s;
}

/* Serves n frames; sizes by random, at most max. Adds up in got[]. */
static void serve(struct sched *s, int n, uint32_t *random, uint32_t max,
                  uint64_t *got)
{
    for (int i = 0; i < n; i++) {
        int flow = sched_next(s, SCHED_ALL);
        uint64_t len = 1 + memlink_random(random) % max;
        assert_true(flow >= 0);
        got[flow] += len;
        sched_charge(s, (unsigned)flow, len);
    }
}

static void nothing_ready_means_nothing_next(void **state)
{
    struct sched s = usual();
    assert_int_equal(sched_next(&s, SCHED_ALL), -1);
    sched_set_ready(&s, MAIN, true);
    assert_true(sched_is_ready(&s, MAIN));
    assert_int_equal(sched_next(&s, SCHED_ALL), MAIN);
    assert_int_equal(sched_next(&s, SCHED_BIT(SCHED_DISK)), -1);
    sched_set_ready(&s, MAIN, false);
    assert_int_equal(sched_next(&s, SCHED_ALL), -1);
}

static void return_path_goes_before_preempt_before_bulk(void **state)
{
    struct sched s = usual();
    uint32_t random = 1;
    uint64_t got[SCHED_FLOWS] = {0};
    sched_set_ready(&s, MAIN, true);
    sched_set_ready(&s, DISK, true);
    serve(&s, 100, &random, FRAME, got);
    sched_set_ready(&s, PREEMPT, true);
    assert_int_equal(sched_next(&s, SCHED_ALL), PREEMPT);
    serve(&s, 100, &random, FRAME, got);
    assert_int_equal(sched_next(&s, SCHED_ALL), PREEMPT);
    sched_set_ready(&s, RETURN_PATH, true);
    assert_int_equal(sched_next(&s, SCHED_ALL), RETURN_PATH);
}

static void assert_share(uint64_t part, uint64_t whole, double share,
                         double slack)
{
    double is = (double)part / (double)whole;
    if (is < share - slack || is > share + slack) {
        fail_msg("share is %.3f, wanted %.3f", is, share);
    }
}

static void disks_keep_their_share_by_bytes(void **state)
{
    static const unsigned parts[] = {5, 10};
    for (int i = 0; i < 2; i++) {
        struct sched s = usual();
        uint32_t random = 7;
        uint64_t got[SCHED_FLOWS] = {0};
        sched_set_disk_share(&s, parts[i]);
        sched_set_ready(&s, MAIN, true);
        sched_set_ready(&s, MULTIFD, true);
        sched_set_ready(&s, DISK, true);
        serve(&s, 5000, &random, FRAME, got);
        assert_share(got[DISK], got[DISK] + got[MAIN] + got[MULTIFD],
                     1.0 / parts[i], 0.005);
        assert_share(got[MAIN], got[MAIN] + got[MULTIFD], 0.8, 0.005);
    }
}

/* Small frames of one flow against large ones of another: bytes count. */
static void share_does_not_depend_on_frame_sizes(void **state)
{
    struct sched s = usual();
    uint64_t got[SCHED_FLOWS] = {0};
    sched_set_ready(&s, MULTIFD, true);
    sched_set_ready(&s, MULTIFD + 1, true);
    for (int i = 0; i < 100000; i++) {
        int flow = sched_next(&s, SCHED_ALL);
        uint64_t len = flow == MULTIFD ? 512 : FRAME;
        got[flow] += len;
        sched_charge(&s, (unsigned)flow, len);
    }
    assert_share(got[MULTIFD], got[MULTIFD] + got[MULTIFD + 1], 0.5, 0.01);
}

static void idle_flow_gets_no_credit_for_its_absence(void **state)
{
    struct sched s = usual();
    uint32_t random = 3;
    uint64_t got[SCHED_FLOWS] = {0};
    sched_set_ready(&s, MULTIFD, true);
    serve(&s, 1000, &random, FRAME, got);
    uint64_t before = got[MULTIFD];
    sched_set_ready(&s, MULTIFD + 1, true);
    serve(&s, 200, &random, FRAME, got);
    assert_share(got[MULTIFD + 1], got[MULTIFD + 1] + got[MULTIFD] - before,
                 0.5, 0.02);
}

static void idle_group_gets_no_credit_for_its_absence(void **state)
{
    struct sched s = usual();
    uint32_t random = 3;
    uint64_t got[SCHED_FLOWS] = {0};
    sched_set_ready(&s, MAIN, true);
    serve(&s, 1000, &random, FRAME, got);
    uint64_t before = got[MAIN];
    sched_set_ready(&s, DISK, true);
    serve(&s, 500, &random, FRAME, got);
    assert_share(got[DISK], got[DISK] + got[MAIN] - before, 0.2, 0.02);
}

/* Whoever is ready is served before each other flow of its group was served
 * more than its weight allows, and a group before its share has passed. */
static void ready_flow_waits_for_a_bounded_number_of_bytes(void **state)
{
    struct sched s = usual();
    uint32_t random = 11;
    static const unsigned flows[] = {MAIN, MULTIFD,  MULTIFD + 1, MULTIFD + 2,
                                     DISK, DISK + 1, PREEMPT};
    uint64_t waited[SCHED_FLOWS] = {0};
    for (int i = 0; i < 200000; i++) {
        unsigned who = flows[memlink_random(&random) % 7];
        bool ready = memlink_random(&random) % 3 > 0;
        if (who != PREEMPT || memlink_random(&random) % 10 == 0) {
            sched_set_ready(&s, who, ready);
            waited[who] = 0;
        }
        int flow = sched_next(&s, SCHED_ALL);
        if (flow < 0) {
            continue;
        }
        uint64_t len = 1 + memlink_random(&random) % FRAME;
        sched_charge(&s, (unsigned)flow, len);
        for (int f = 0; f < 6; f++) {
            bool waits = sched_is_ready(&s, flows[f]) &&
                         (int)flows[f] != flow && flow != PREEMPT;
            waited[flows[f]] = waits ? waited[flows[f]] + len : 0;
            /* the slowest flow has a tenth: a disk of two, or a multifd of
             * seven eighths; a frame may stand before each */
            assert_true(waited[flows[f]] <= 16 * FRAME);
        }
        sched_set_ready(&s, PREEMPT, false);
    }
}

static void random_arrivals_never_serve_who_is_not_ready(void **state)
{
    struct sched s = usual();
    uint32_t random = 5;
    for (int i = 0; i < 100000; i++) {
        unsigned who = memlink_random(&random) % 24;
        sched_set_ready(&s, who, memlink_random(&random) % 2);
        int flow = sched_next(&s, SCHED_ALL);
        if (flow >= 0) {
            assert_true(sched_is_ready(&s, (unsigned)flow));
            sched_charge(&s, (unsigned)flow, 1 + memlink_random(&random) % 999);
        } else {
            for (unsigned f = 0; f < SCHED_FLOWS; f++) {
                assert_false(sched_is_ready(&s, f));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_ready_means_nothing_next),
        cmocka_unit_test(return_path_goes_before_preempt_before_bulk),
        cmocka_unit_test(disks_keep_their_share_by_bytes),
        cmocka_unit_test(share_does_not_depend_on_frame_sizes),
        cmocka_unit_test(idle_flow_gets_no_credit_for_its_absence),
        cmocka_unit_test(idle_group_gets_no_credit_for_its_absence),
        cmocka_unit_test(ready_flow_waits_for_a_bounded_number_of_bytes),
        cmocka_unit_test(random_arrivals_never_serve_who_is_not_ready),
    };
    return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
