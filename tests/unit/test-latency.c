// SPDX-License-Identifier: BSD-3-Clause
/* The histogram of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/latency.h"

static void nothing_is_zero(void **state)
{
    struct latency none = {0};
    assert_int_equal(latency_mean(&none), 0);
    assert_int_equal(latency_percentile(&none, 99), 0);
}

static void percentiles_are_right_within_a_fifth(void **state)
{
    struct latency l = {0};

    for (int i = 1; i <= 1000; i++) {
        latency_add(&l, i * 10 * MP_US);
    }
    assert_int_equal(l.count, 1000);
    assert_int_equal(latency_mean(&l), 5005 * MP_US);
    for (int percent = 1; percent <= 100; percent++) {
        mp_time exact = percent * 100 * MP_US;
        assert_in_range(latency_percentile(&l, percent), exact,
                        exact + exact / 4);
    }
    assert_int_equal(latency_percentile(&l, 100), 10000 * MP_US);
}

static void each_time_has_a_bucket(void **state)
{
    for (mp_time us = 0; us < 100000000; us += 1 + us / 7) {
        struct latency l = {0};
        latency_add(&l, us * MP_US);
        assert_int_equal(latency_percentile(&l, 50), us * MP_US);
        latency_add(&l, 1000 * MP_SECOND); /* so that the bucket counts */
        if (us < (1 << 24)) {
            mp_time upper = latency_percentile(&l, 50);
            assert_in_range(upper, us * MP_US, (us + us / 4 + 1) * MP_US);
        }
    }
}

static void the_extremes_are_counted(void **state)
{
    struct latency l = {0};
    latency_add(&l, -5);
    latency_add(&l, INT64_MAX / 4);
    assert_int_equal(l.count, 2);
    assert_int_equal(l.buckets[0], 1);
    assert_int_equal(l.buckets[LATENCY_BUCKETS - 1], 1);
    assert_int_equal(latency_percentile(&l, 100), INT64_MAX / 4);
}

static void counts_below_a_limit_grow_with_it(void **state)
{
    struct latency l = {0};
    uint64_t before = 0;

    for (int i = 1; i <= 1000; i++) {
        latency_add(&l, i * 10 * MP_US);
    }
    for (mp_time us = 1; us < 20000; us += 50) {
        uint64_t count = latency_count_below(&l, us * MP_US);
        uint64_t exact = (uint64_t)us / 10 < 1000 ? (uint64_t)us / 10 : 1000;
        assert_in_range(count, before, exact);
        assert_true(count + exact / 4 + 1 >= exact);
        before = count;
    }
    assert_int_equal(before, 1000);
}

static void merging_adds(void **state)
{
    struct latency a = {0}, b = {0};
    latency_add(&a, 10 * MP_US);
    latency_add(&b, 30 * MP_US);
    latency_add(&b, 80 * MP_US);
    latency_merge(&a, &b);
    assert_int_equal(a.count, 3);
    assert_int_equal(latency_mean(&a), 40 * MP_US);
    assert_int_equal(a.max, 80 * MP_US);
    assert_in_range(latency_percentile(&a, 66), 30 * MP_US, 36 * MP_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_zero),
        cmocka_unit_test(percentiles_are_right_within_a_fifth),
        cmocka_unit_test(each_time_has_a_bucket),
        cmocka_unit_test(the_extremes_are_counted),
        cmocka_unit_test(counts_below_a_limit_grow_with_it),
        cmocka_unit_test(merging_adds),
    };
    return cmocka_run_group_tests_name("latency", tests, NULL, NULL);
}
