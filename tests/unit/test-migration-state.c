// SPDX-License-Identifier: BSD-3-Clause
/* The table of migration states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "proxy/migration-state.h"

#define EACH(state)                                                            \
    for (enum migration_state state = 0; state < MIGRATION_STATES; state++)

static void names_round_trip(void **state)
{
    enum migration_state got;

    EACH(a)
    {
        const char *name = migration_state_name(a);
        assert_true(strlen(name) > 1);
        assert_true(migration_state_of_name(name, &got));
        assert_int_equal(got, a);
    }
    assert_false(migration_state_of_name("", &got));
    assert_false(migration_state_of_name("Completed", &got));
    assert_false(migration_state_of_name("pre", &got));
    assert_string_equal(migration_state_name(MIGRATION_STATES), "?");
    assert_string_equal(migration_state_name((enum migration_state) - 1), "?");
}

static void the_words_are_the_apis(void **state)
{
    assert_string_equal(migration_state_name(MIGRATION_PRE_SWITCHOVER),
                        "pre-switchover");
    assert_string_equal(migration_state_name(MIGRATION_ATTENTION), "attention");
}

static void ends_have_no_successors(void **state)
{
    unsigned ends = 0;

    EACH(a)
    {
        unsigned successors = 0;
        EACH(b)
        {
            successors += migration_state_may(a, b);
        }
        assert_int_equal(migration_state_is_end(a), successors == 0);
        ends += successors == 0;
    }
    assert_int_equal(ends, 4);
    assert_true(migration_state_is_end(MIGRATION_COMPLETED));
    assert_true(migration_state_is_end(MIGRATION_CANCELLED));
    assert_true(migration_state_is_end(MIGRATION_FAILED));
    assert_true(migration_state_is_end(MIGRATION_ATTENTION));
    assert_false(migration_state_is_end(MIGRATION_STATES));
}

static unsigned reachable(enum migration_state from)
{
    unsigned seen = 1u << from, before;

    do {
        before = seen;
        EACH(a)
        {
            EACH(b)
            {
                if ((seen >> a & 1) && migration_state_may(a, b)) {
                    seen |= 1u << b;
                }
            }
        }
    } while (seen != before);
    return seen;
}

static void every_state_is_reached_and_left(void **state)
{
    const unsigned ends = 1u << MIGRATION_COMPLETED |
                          1u << MIGRATION_CANCELLED | 1u << MIGRATION_FAILED |
                          1u << MIGRATION_ATTENTION;

    assert_int_equal(reachable(MIGRATION_PREPARING),
                     (1u << MIGRATION_STATES) - 1);
    EACH(a)
    {
        assert_true(reachable(a) & ends);
        assert_false(migration_state_may(a, a));
        assert_false(migration_state_may(a, MIGRATION_PREPARING));
        assert_false(migration_state_may(a, MIGRATION_STATES));
    }
    assert_false(migration_state_may(MIGRATION_STATES, MIGRATION_FAILED));
}

/* The order of the enum is the order of a migration: nothing goes back, except
 * into the undoing. */
static void nothing_goes_back(void **state)
{
    EACH(a)
    {
        EACH(b)
        {
            if (migration_state_may(a, b)) {
                assert_true(b > a);
            }
        }
    }
}

/* The whole table, by hand. */
static void undo_until_the_point_of_no_return(void **state)
{
    static const struct {
        enum migration_state state;
        bool precopy, postcopy;
    } rows[MIGRATION_STATES] = {
        {MIGRATION_PREPARING, true, true},
        {MIGRATION_CONNECTING, true, true},
        {MIGRATION_SETUP, true, true},
        {MIGRATION_PRECOPY, true, true},
        {MIGRATION_PRE_SWITCHOVER, true, true},
        {MIGRATION_SWITCHOVER, true, false}, /* the package has left */
        {MIGRATION_COMMITTING, false, false},
        {MIGRATION_POSTCOPY, false, false},
        {MIGRATION_COMPLETING, false, false},
        {MIGRATION_CANCELLING, false, false},
        {MIGRATION_COMPLETED, false, false},
        {MIGRATION_CANCELLED, false, false},
        {MIGRATION_FAILED, false, false},
        {MIGRATION_ATTENTION, false, false},
    };

    EACH(a)
    {
        assert_int_equal(rows[a].state, a);
        assert_int_equal(migration_state_can_undo(a, false), rows[a].precopy);
        assert_int_equal(migration_state_can_undo(a, true), rows[a].postcopy);
    }
    assert_false(migration_state_can_undo(MIGRATION_STATES, false));
}

/* What can be undone has the way to the undoing in the table; past COMMIT only
 * the destination's binding no leads there. */
static void undo_and_table_agree(void **state)
{
    EACH(a)
    {
        if (migration_state_can_undo(a, false)) {
            assert_true(migration_state_may(a, MIGRATION_CANCELLING));
        }
    }
    assert_true(
        migration_state_may(MIGRATION_COMMITTING, MIGRATION_CANCELLING));
    assert_false(migration_state_may(MIGRATION_POSTCOPY, MIGRATION_CANCELLING));
    assert_false(
        migration_state_may(MIGRATION_COMPLETING, MIGRATION_CANCELLING));
}

/* After COMMIT "failed" or "cancelled" can be said only by way of the
 * undoing, which needs the destination's no. */
static void no_plain_failure_after_setup(void **state)
{
    EACH(a)
    {
        if (a == MIGRATION_PREPARING || a == MIGRATION_CANCELLING) {
            continue;
        }
        assert_false(migration_state_may(a, MIGRATION_FAILED));
        assert_false(migration_state_may(a, MIGRATION_CANCELLED));
    }
}

static void completed_only_after_commit(void **state)
{
    EACH(a)
    {
        assert_int_equal(migration_state_may(a, MIGRATION_COMPLETED),
                         a == MIGRATION_COMPLETING);
        if (migration_state_may(a, MIGRATION_COMPLETING)) {
            assert_true(a == MIGRATION_COMMITTING || a == MIGRATION_POSTCOPY);
        }
        assert_int_equal(migration_state_may(a, MIGRATION_COMMITTING),
                         a == MIGRATION_SWITCHOVER);
        assert_int_equal(migration_state_may(a, MIGRATION_POSTCOPY),
                         a == MIGRATION_COMMITTING);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(the_words_are_the_apis),
        cmocka_unit_test(ends_have_no_successors),
        cmocka_unit_test(every_state_is_reached_and_left),
        cmocka_unit_test(nothing_goes_back),
        cmocka_unit_test(undo_until_the_point_of_no_return),
        cmocka_unit_test(undo_and_table_agree),
        cmocka_unit_test(no_plain_failure_after_setup),
        cmocka_unit_test(completed_only_after_commit),
    };
    return cmocka_run_group_tests_name("migration-state", tests, NULL, NULL);
}
