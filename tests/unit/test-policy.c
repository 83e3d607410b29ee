// SPDX-License-Identifier: BSD-3-Clause
/* What a running precopy is told to do: each rule, and each of its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proxy/policy.h"

#define MB UINT64_C(1000000)
#define NEVER ((mp_time)-1)

/* name, what is expected, what differs from a quiet precopy in its first
 * pass */
#define CASES(X)                                                               \
    X("a first pass is left alone", NOTHING, .pass = 1)                        \
    X("auto waits for the third pass to end", NOTHING, .pass = 3, DIRTY)       \
    X("auto switches in the fourth, not converging", POSTCOPY, .pass = 4,      \
      DIRTY)                                                                   \
    X("auto leaves a converging guest alone", NOTHING, .pass = 9)              \
    X("auto at postcopy-after, converging or not", POSTCOPY, .pass = 1,        \
      .postcopy_after = 5 * MP_SECOND, .elapsed = 5 * MP_SECOND)               \
    X("not before postcopy-after, whatever the guest does", NOTHING,           \
      .pass = 9, DIRTY, .postcopy_after = 5 * MP_SECOND,                       \
      .elapsed = 5 * MP_SECOND - 1)                                            \
    X("postcopy-after 0 is at once", POSTCOPY, .pass = 1, .postcopy_after = 0) \
    X("postcopy mode waits for one full pass", NOTHING,                        \
      .mode = API_MODE_POSTCOPY, .pass = 1)                                    \
    X("postcopy mode switches after it", POSTCOPY, .mode = API_MODE_POSTCOPY,  \
      .pass = 2)                                                               \
    X("postcopy-after comes before the first pass's end", POSTCOPY,            \
      .mode = API_MODE_POSTCOPY, .pass = 1, .postcopy_after = MP_SECOND,       \
      .elapsed = MP_SECOND)                                                    \
    X("postcopy-after defers postcopy mode's own rule", NOTHING,               \
      .mode = API_MODE_POSTCOPY, .pass = 2, .postcopy_after = MP_SECOND,       \
      .elapsed = 0)                                                            \
    X("precopy mode never switches by itself", NOTHING,                        \
      .mode = API_MODE_PRECOPY, .pass = 99, DIRTY, .postcopy_after = 0,        \
      .elapsed = 100 * MP_SECOND)                                              \
    X("the operator's order counts at once", POSTCOPY, .pass = 1,              \
      .postcopy_asked = true)                                                  \
    X("also in precopy mode that was set up for it", POSTCOPY,                 \
      .mode = API_MODE_PRECOPY, .pass = 1, .postcopy_asked = true)             \
    X("nothing switches where the ends are not set up", NOTHING,               \
      .mode = API_MODE_POSTCOPY, .pass = 9, .postcopy_asked = true,            \
      .may_postcopy = false)                                                   \
    X("not yet the timeout", NOTHING, .timeout = 8 * MP_SECOND,                \
      .elapsed = 8 * MP_SECOND - 1)                                            \
    X("timeout, abort", ABORT, .timeout = 8 * MP_SECOND,                       \
      .elapsed = 8 * MP_SECOND)                                                \
    X("timeout, pause", PAUSE, .timeout = 8 * MP_SECOND,                       \
      .elapsed = 9 * MP_SECOND, .on_timeout = API_ON_TIMEOUT_PAUSE)            \
    X("timeout, postcopy", POSTCOPY, .timeout = 8 * MP_SECOND,                 \
      .elapsed = 9 * MP_SECOND, .on_timeout = API_ON_TIMEOUT_POSTCOPY)         \
    X("timeout, postcopy in precopy mode", POSTCOPY, .mode = API_MODE_PRECOPY, \
      .timeout = 8 * MP_SECOND, .elapsed = 9 * MP_SECOND,                      \
      .on_timeout = API_ON_TIMEOUT_POSTCOPY)                                   \
    X("timeout, postcopy that is not possible", ABORT, .may_postcopy = false,  \
      .timeout = 8 * MP_SECOND, .elapsed = 9 * MP_SECOND,                      \
      .on_timeout = API_ON_TIMEOUT_POSTCOPY)                                   \
    X("a switch that is due goes before the timeout's abort", POSTCOPY,        \
      .pass = 4, DIRTY, .timeout = 8 * MP_SECOND, .elapsed = 9 * MP_SECOND)    \
    X("a timeout of 0 is one", ABORT, .timeout = 0)

#define DIRTY .dirty_bytes_per_second = 100 * MB

#define CASE_ROW(text, action, ...) {text, POLICY_##action, QUIET(__VA_ARGS__)},
/* later initialisers override the defaults, which is the point */
#define QUIET(...)                                                             \
    {                                                                          \
        .mode = API_MODE_AUTO, .may_postcopy = true, .postcopy_after = NEVER,  \
        .timeout = NEVER, .on_timeout = API_ON_TIMEOUT_ABORT,                  \
        .elapsed = MP_SECOND, .rate_bytes_per_second = 100 * MB,               \
        .dirty_bytes_per_second = 10 * MB, __VA_ARGS__                         \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct {
    const char *text;
    enum policy_action action;
    struct policy_input in;
} cases[] = {CASES(CASE_ROW)};
#pragma GCC diagnostic pop

static void each_rule(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum policy_action action = policy_decide(&cases[i].in);
        if (action != cases[i].action) {
            fail_msg("%s: %d instead of %d", cases[i].text, action,
                     cases[i].action);
        }
    }
}

static void converging_is_three_quarters(void **state)
{
    static const struct {
        uint64_t pass, rate, dirty;
        bool converges;
    } rows[] = {
        {1, 100, 1000, true},  /* the first pass tells nothing */
        {2, 0, 1000, true},    /* nothing was carried yet: not known */
        {2, 100, 74, true},    /* below three quarters */
        {2, 100, 75, false},   /* at three quarters */
        {2, 100, 1000, false}, /* above */
        {2, UINT64_MAX, UINT64_MAX / 2, true}, /* no overflow */
        {2, UINT64_MAX, UINT64_MAX, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct policy_input in = {.pass = rows[i].pass,
                                  .rate_bytes_per_second = rows[i].rate,
                                  .dirty_bytes_per_second = rows[i].dirty};
        if (policy_is_converging(&in) != rows[i].converges) {
            fail_msg("row %zu", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule),
        cmocka_unit_test(converging_is_three_quarters),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
