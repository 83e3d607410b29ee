// SPDX-License-Identifier: BSD-3-Clause
/* The token bucket: the rate is kept, bursts and debts are bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/carrier-rate.h"
#include "util/parse.h"

#define START (7 * MP_SECOND)
#define FRAME 131072

/* Sends frames of FRAME bytes as soon as allowed for time; returns bytes. */
static uint64_t send_for(struct carrier_rate *rate, mp_time from, mp_time time)
{
    uint64_t sent = 0;
    for (mp_time now = from; now < from + time;) {
        mp_time wait = carrier_rate_wait(rate, now);
        if (wait > 0) {
            now += wait;
            continue;
        }
        carrier_rate_count(rate, FRAME);
        sent += FRAME;
    }
    return sent;
}

static void rate_is_kept(void **state)
{
    static const uint64_t rates[] = {200000, 10000000, 1000000000};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct carrier_rate rate;
        carrier_rate_init(&rate, rates[i]);
        uint64_t sent = send_for(&rate, START, 10 * MP_SECOND);
        assert_in_range(sent, rates[i] * 10 - 2 * FRAME,
                        rates[i] * 10 + rates[i] / 50 + 2 * FRAME);
    }
}

static void unlimited_never_waits(void **state)
{
    struct carrier_rate rate;
    carrier_rate_init(&rate, PARSE_UNLIMITED);
    carrier_rate_count(&rate, SIZE_MAX);
    assert_int_equal(carrier_rate_wait(&rate, START), 0);
}

static void idle_time_saves_only_a_burst(void **state)
{
    struct carrier_rate rate;
    carrier_rate_init(&rate, 100000000);
    assert_int_equal(carrier_rate_wait(&rate, START), 0);
    uint64_t sent = send_for(&rate, START + 3600 * MP_SECOND, MP_MS);
    assert_in_range(sent, 2000000, 2000000 + 100000 + FRAME);
}

static void urgent_bytes_delay_bulk_for_a_bounded_time(void **state)
{
    struct carrier_rate rate;
    carrier_rate_init(&rate, 1000000);
    assert_int_equal(carrier_rate_wait(&rate, START), 0);
    for (int i = 0; i < 1000; i++) {
        carrier_rate_count(&rate, 4096);
    }
    mp_time wait = carrier_rate_wait(&rate, START);
    assert_in_range(wait, 199 * MP_MS, 205 * MP_MS);
    assert_int_equal(carrier_rate_wait(&rate, START + wait), 0);
}

/* At a low rate one bulk frame owes more than the debt allowed; what is small
 * and urgent meanwhile must not wipe that out. */
static void urgent_bytes_forgive_nothing(void **state)
{
    struct carrier_rate rate;
    carrier_rate_init(&rate, 200000);
    assert_int_equal(carrier_rate_wait(&rate, START), 0);
    carrier_rate_count(&rate, FRAME);
    mp_time before = carrier_rate_wait(&rate, START);
    carrier_rate_count(&rate, 32);
    assert_true(carrier_rate_wait(&rate, START) >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_is_kept),
        cmocka_unit_test(unlimited_never_waits),
        cmocka_unit_test(idle_time_saves_only_a_burst),
        cmocka_unit_test(urgent_bytes_delay_bulk_for_a_bounded_time),
        cmocka_unit_test(urgent_bytes_forgive_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
