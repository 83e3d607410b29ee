// SPDX-License-Identifier: BSD-3-Clause
/* Errors: texts, cuts, context, classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "util/error.h"

static void setting_gives_code_and_text(void **state)
{
    struct error err = ERROR_INIT;

    assert_false(error_is_set(&err));
    assert_int_equal(error_set(&err, ERR_LIMIT, "%d of %s", 3, "x"), -1);
    assert_true(error_is_set(&err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.text, "3 of x");
}

static void errno_is_put_in_words_behind(void **state)
{
    struct error err = ERROR_INIT;

    assert_int_equal(error_set_errno(&err, ERR_IO, ENOENT, "open %s", "f"), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(err.text, "open f: No such file or directory");
}

static void wrapping_keeps_the_code_and_puts_context_in_front(void **state)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_TLS, "inner");
    assert_int_equal(error_wrap(&err, "peer %s", "b"), -1);
    assert_int_equal(error_wrap(&err, "migration %d", 7), -1);
    assert_int_equal(err.code, ERR_TLS);
    assert_string_equal(err.text, "migration 7: peer b: inner");
}

static void assert_is_cut(const struct error *err)
{
    size_t length = strlen(err->text);
    assert_int_equal(length, sizeof(err->text) - 1);
    assert_string_equal(err->text + length - 3, "...");
}

static void a_text_that_is_cut_says_so(void **state)
{
    char text[600];
    struct error err = ERROR_INIT;

    memset(text, 'x', sizeof(text));
    text[sizeof(err.text) - 1] = '\0';
    error_set(&err, ERR_IO, "%s", text); /* fits to the last byte */
    assert_string_equal(err.text, text);

    error_wrap(&err, "context");
    assert_memory_equal(err.text, "context: xxx", 12);
    assert_is_cut(&err);

    error_set(&err, ERR_IO, "%sy", text);
    assert_is_cut(&err);
    error_set_errno(&err, ERR_IO, EIO, "%s", text);
    assert_is_cut(&err);

    text[sizeof(err.text) - 3] = '\0'; /* no room for errno's words */
    error_set_errno(&err, ERR_IO, EIO, "%s", text);
    assert_is_cut(&err);
}

static void nobody_need_listen(void **state)
{
    struct error err = ERROR_INIT;

    assert_int_equal(error_set(NULL, ERR_IO, "x"), -1);
    assert_int_equal(error_set_errno(NULL, ERR_IO, EIO, "x"), -1);
    assert_int_equal(error_wrap(NULL, "x"), -1);
    assert_int_equal(error_copy(NULL, &err), -1);
}

static void copying_takes_all(void **state)
{
    struct error from = ERROR_INIT, into = ERROR_INIT;

    error_set(&from, ERR_QMP, "text");
    assert_int_equal(error_copy(&into, &from), -1);
    assert_int_equal(into.code, ERR_QMP);
    assert_string_equal(into.text, "text");
}

static void classes_go_both_ways(void **state)
{
    for (int i = 0; i < ERROR_CODES; i++) {
        const char *name = error_class((enum error_code)i);
        assert_true(name[0] >= 'a' && name[0] <= 'z');
        /* fails for a second code of the same name */
        assert_int_equal(error_code_of_class(name), i);
        assert_in_range(error_http_status((enum error_code)i), 200, 599);
    }
    assert_string_equal(error_class(ERR_PEER_UNREACHABLE), "peer-unreachable");
    assert_int_equal(error_http_status(ERR_CONFLICT), 409);
}

static void unknown_classes_and_codes_are_internal(void **state)
{
    assert_int_equal(error_code_of_class("from-a-newer-peer"), ERR_INTERNAL);
    assert_string_equal(error_class((enum error_code)999), "internal");
    assert_int_equal(error_http_status((enum error_code) - 1), 500);
}

static void texts_are_harmless(void **state)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_QMP, "%s", "a\x1b[31mb\n \xc3\xa9 \xff\xfe \xc3");
    assert_string_equal(err.text, "a?[31mb? \xc3\xa9 ?? ?");
    error_set(&err, ERR_QMP, "%s",
              "\xe0\x80\x80 \xed\xa0\x80 \xf0\x9f\x98\x80");
    assert_string_equal(err.text, "??? ??? \xf0\x9f\x98\x80");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_gives_code_and_text),
        cmocka_unit_test(errno_is_put_in_words_behind),
        cmocka_unit_test(wrapping_keeps_the_code_and_puts_context_in_front),
        cmocka_unit_test(a_text_that_is_cut_says_so),
        cmocka_unit_test(nobody_need_listen),
        cmocka_unit_test(copying_takes_all),
        cmocka_unit_test(classes_go_both_ways),
        cmocka_unit_test(texts_are_harmless),
        cmocka_unit_test(unknown_classes_and_codes_are_internal),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
