// SPDX-License-Identifier: BSD-3-Clause
/* The option table holds together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf.h"
#include "conf/options.h"

static void each_row_is_complete(void **state)
{
    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        size_t length = strlen(option->help);

        assert_true(options_has_section(option->section));
        assert_true(option->max >= option->min);
        assert_true(length > 10 && option->help[length - 1] == '.');
        /* an unset default needs words */
        assert_true(*option->default_text || option->default_shown);
        assert_true(option->offset < (strcmp(option->section, "peer")
                                          ? sizeof(struct conf)
                                          : sizeof(struct conf_peer)));
    }
}

static void each_row_is_found_by_its_name(void **state)
{
    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        /* fails for a second row of the same name */
        assert_ptr_equal(options_find(option->section, option->key), option);
        assert_int_equal(options_index(option), i);
    }
}

static void no_two_rows_share_a_field(void **state)
{
    for (size_t i = 0; i < options_count; i++) {
        for (size_t j = 0; j < i; j++) {
            bool peer_i = !strcmp(options_table[i].section, "peer");
            bool peer_j = !strcmp(options_table[j].section, "peer");
            assert_true(peer_i != peer_j ||
                        options_table[i].offset != options_table[j].offset);
        }
    }
}

static void unknown_names_are_not_found(void **state)
{
    assert_null(options_find("daemon", "nmae"));
    assert_null(options_find("demon", "name"));
    assert_null(options_find("tls", "name"));
    assert_false(options_has_section("demon"));
    assert_null(options_section_help("demon"));
}

static void each_row_says_what_is_allowed(void **state)
{
    char what[OPTIONS_DESCRIBE_SIZE];

    for (size_t i = 0; i < options_count; i++) {
        options_describe(&options_table[i], what, sizeof(what));
        assert_in_range(strlen(what), 10, sizeof(what) - 2);
        assert_null(strstr(what, "(null)"));
    }
    options_describe(options_find("limits", "sessions"), what, sizeof(what));
    assert_string_equal(what, "a number from 1 to 256");
    options_describe(options_find("migration", "switchover-buffer"), what,
                     sizeof(what));
    assert_string_equal(
        what, "a size from 1 MiB to 4 GiB (units: B, KiB, MiB, GiB, TiB)");
    options_describe(options_find("migration", "hold-time"), what,
                     sizeof(what));
    assert_string_equal(what,
                        "a time from 1 s to 1 h (units: us, ms, s, min, h)");
    options_describe(options_find("api", "mode"), what, sizeof(what));
    assert_string_equal(what, "an octal number from 0 to 0777");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_complete),
        cmocka_unit_test(each_row_is_found_by_its_name),
        cmocka_unit_test(no_two_rows_share_a_field),
        cmocka_unit_test(unknown_names_are_not_found),
        cmocka_unit_test(each_row_says_what_is_allowed),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
