// SPDX-License-Identifier: BSD-3-Clause
/* The reader of configuration text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "conf/ini.h"

/* What was read, as one text: "[s][s|n]k=v;" */
struct seen {
    char text[512];
    const char *refuse; /* a key whose value is refused */
};

static int on_section(void *arg, const char *section, const char *name,
                      unsigned line, struct error *err)
{
    struct seen *seen = arg;
    size_t used = strlen(seen->text);
    snprintf(seen->text + used, sizeof(seen->text) - used, "%u[%s%s%s]", line,
             section, name ? "|" : "", name ? name : "");
    return 0;
}

static int on_value(void *arg, const char *key, const char *value,
                    unsigned line, struct error *err)
{
    struct seen *seen = arg;
    size_t used = strlen(seen->text);

    if (seen->refuse && !strcmp(seen->refuse, key)) {
        return error_set(err, ERR_BAD_REQUEST, "no %s", value);
    }
    snprintf(seen->text + used, sizeof(seen->text) - used, "%u%s=%s;", line,
             key, value);
    return 0;
}

static const struct ini_ops ops = {.on_section = on_section,
                                   .on_value = on_value};

static void assert_reads(const char *text, const char *expected)
{
    struct seen seen = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(ini_read(text, strlen(text), "f", &ops, &seen, &err), 0);
    assert_string_equal(seen.text, expected);
}

static void assert_refuses_bytes(const char *text, size_t length,
                                 const char *message)
{
    struct seen seen = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(ini_read(text, length, "f", &ops, &seen, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_string_equal(err.text, message);
    /* err may be left out */
    assert_int_equal(ini_read(text, length, "f", &ops, &seen, NULL), -1);
}

static void assert_refuses(const char *text, const char *message)
{
    assert_refuses_bytes(text, strlen(text), message);
}

static void sections_and_values_are_read(void **state)
{
    assert_reads("[a]\nkey = value\n[b \"c d\"]\nx=y", "1[a]2key=value;"
                                                       "3[b|c d]4x=y;");
}

static void blanks_around_do_not_count(void **state)
{
    assert_reads(" [ a ] \r\n\t key-1\t=\t two words \r\n[a  \"n\" ]",
                 "1[a]2key-1=two words;3[a|n]");
}

static void comments_and_empty_lines_are_skipped(void **state)
{
    assert_reads("# x\n\n ; y\n[a]\n  \n", "4[a]");
}

static void a_value_keeps_what_looks_like_a_comment(void **state)
{
    assert_reads("[a]\nk = v # w = \"x\" ; y", "1[a]2k=v # w = \"x\" ; y;");
}

static void a_value_may_be_empty(void **state)
{
    assert_reads("[a]\nk =\n", "1[a]2k=;");
    assert_reads("", "");
}

static void malformed_lines_are_refused_with_their_place(void **state)
{
    assert_refuses("[a]\n\nword\n",
                   "f:3: \"word\" is neither \"key = value\" nor [section] nor "
                   "a comment");
    assert_refuses("[a]\nK = v\n", "f:2: \"K\" is not a key (a-z, 0-9 and "
                                   "\"-\")");
    assert_refuses("[a]\n= v\n", "f:2: \"\" is not a key (a-z, 0-9 and \"-\")");
    assert_refuses("k = v\n", "f:1: k stands before any [section]");
    assert_refuses("[a\n", "f:1: section line \"[a\" does not end in \"]\"");
    assert_refuses("[a] # c\n",
                   "f:1: section line \"[a] # c\" does not end in \"]\"");
    static const char word[] = "NAME is of a-z, 0-9 and \"-\"";
    static const char quote[] =
        "what is in quotes is empty, not closed, or not the last";
    const char *const headers[][2] = {
        {"[]", word},
        {"[\"b\"]", word},
        {"[a_b]", word},
        {"[Daemon]", "NAME is in small letters"},
        {"[peer host-b]", "OF WHAT stands in quotes"},
        {"[a \"\"]", quote},
        {"[a \"b]", quote},
        {"[a \"b\" c]", quote},
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "f:1: \"%s\" is no section, [NAME] or [NAME \"OF WHAT\"]: %s",
                 headers[i][0], headers[i][1]);
        assert_refuses(headers[i][0], text);
    }
}

static void control_characters_are_refused(void **state)
{
    assert_refuses_bytes("[a]\nk = \0", 9,
                         "f:2: the line has the control character 0x00 at "
                         "byte 5");
    assert_refuses("[a]\x1b", "f:1: the line has the control character 0x1b at "
                              "byte 4");
    assert_refuses("#\x7f", "f:1: the line has the control character 0x7f at "
                            "byte 2");
}

static void a_line_may_have_4096_bytes_and_no_more(void **state)
{
    char text[INI_LINE_MAX + 2];
    struct seen seen = {0};

    memset(text, '#', sizeof(text));
    text[INI_LINE_MAX] = '\n';
    assert_int_equal(ini_read(text, INI_LINE_MAX + 1, "f", &ops, &seen, NULL),
                     0);
    text[INI_LINE_MAX] = '#';
    assert_refuses_bytes(text, INI_LINE_MAX + 1,
                         "f:1: the line has 4097 bytes, at most 4096 are "
                         "possible");
}

static void what_a_callback_refuses_gets_its_place(void **state)
{
    static const char text[] = "[a]\nx = 1\nbad = 2\nz = 3\n";
    struct seen seen = {.refuse = "bad"};
    struct error err = ERROR_INIT;

    assert_int_equal(ini_read(text, strlen(text), "dir/f", &ops, &seen, &err),
                     -1);
    assert_string_equal(err.text, "dir/f:3: no 2");
    assert_int_equal(err.code, ERR_CONFIG);
    assert_string_equal(seen.text, "1[a]2x=1;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_and_values_are_read),
        cmocka_unit_test(blanks_around_do_not_count),
        cmocka_unit_test(comments_and_empty_lines_are_skipped),
        cmocka_unit_test(a_value_keeps_what_looks_like_a_comment),
        cmocka_unit_test(a_value_may_be_empty),
        cmocka_unit_test(malformed_lines_are_refused_with_their_place),
        cmocka_unit_test(control_characters_are_refused),
        cmocka_unit_test(a_line_may_have_4096_bytes_and_no_more),
        cmocka_unit_test(what_a_callback_refuses_gets_its_place),
    };
    return cmocka_run_group_tests_name("ini", tests, NULL, NULL);
}
