// SPDX-License-Identifier: BSD-3-Clause
/* The body of POST /v1/migrations: members, limits, defaults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "proxy/api-json.h"
#include "proxy/api-migrate.h"

/* text, then count times part, then tail */
static char *make_text(const char *text, const char *part, unsigned count,
                       const char *tail)
{
    char *made = malloc(strlen(text) + strlen(part) * count + strlen(tail) + 1);
    assert_non_null(made);
    char *end = stpcpy(made, text);
    for (unsigned i = 0; i < count; i++) {
        end = stpcpy(end, part);
    }
    strcpy(end, tail);
    return made;
}

static int parse_migrate(const char *text, struct api_migrate *migrate,
                         struct error *err)
{
    struct json_object *object = NULL;

    if (api_json_parse(text, strlen(text), &object, err) < 0) {
        fail_msg("%s: %s", text, err->text);
    }
    int n = api_migrate_parse(object, migrate, err);
    json_object_put(object);
    return n;
}

/* members behind the two that must be there */
static void assert_migrate_fails(const char *members, const char *message)
{
    struct api_migrate migrate;
    struct error err = ERROR_INIT;
    char *text = make_text("{\"vm\":\"a\",\"to\":\"b\",", members, 1, "}");

    assert_int_equal(parse_migrate(text, &migrate, &err), -1);
    assert_string_equal(err.text, message);
    free(text);
}

static void each_member_reaches_its_field(void **state)
{
    struct api_migrate m;
    struct error err = ERROR_INIT;

    assert_int_equal(
        parse_migrate("{\"id\":\"my.id-1_\",\"vm\":\"guest one\",\"to\":\"b\","
                      "\"qmp\":\"/q/a\",\"dest_qmp\":\"/q/b\","
                      "\"mode\":\"postcopy\",\"preempt\":\"off\","
                      "\"multifd_channels\":16,\"postcopy_after_seconds\":0,"
                      "\"bandwidth_bytes_per_second\":9223372036854775807,"
                      "\"max_downtime_ms\":60000,\"timeout_seconds\":1.5,"
                      "\"on_timeout\":\"pause\"}",
                      &m, &err),
        0);
    assert_string_equal(m.id, "my.id-1_");
    assert_string_equal(m.vm, "guest one");
    assert_string_equal(m.peer, "b");
    assert_string_equal(m.qmp_path, "/q/a");
    assert_string_equal(m.dest_qmp_path, "/q/b");
    assert_int_equal(m.mode, API_MODE_POSTCOPY);
    assert_int_equal(m.preempt, API_PREEMPT_OFF);
    assert_int_equal(m.multifd, 16);
    assert_true(m.postcopy_after_seconds == 0);
    assert_true(m.bandwidth_bytes_per_second == INT64_MAX);
    assert_int_equal(m.max_downtime_ms, 60000);
    assert_true(m.timeout_seconds == 1.5);
    assert_int_equal(m.on_timeout, API_ON_TIMEOUT_PAUSE);
    assert_string_equal(api_mode_name(m.mode), "postcopy");
    assert_string_equal(api_preempt_name(m.preempt), "off");
    assert_string_equal(api_on_timeout_name(m.on_timeout), "pause");
}

static void members_have_defaults(void **state)
{
    struct api_migrate m;
    struct error err = ERROR_INIT;

    assert_int_equal(parse_migrate("{\"vm\":\"a\",\"to\":\"b\"}", &m, &err), 0);
    assert_string_equal(m.id, "");
    assert_string_equal(m.qmp_path, "");
    assert_string_equal(m.dest_qmp_path, "");
    assert_int_equal(m.mode, API_MODE_AUTO);
    assert_int_equal(m.preempt, API_PREEMPT_AUTO);
    assert_int_equal(m.multifd, 0);
    assert_true(m.postcopy_after_seconds == -1);
    assert_true(m.bandwidth_bytes_per_second == PARSE_UNLIMITED);
    assert_int_equal(m.max_downtime_ms, 300);
    assert_true(m.timeout_seconds == -1);
    assert_int_equal(m.on_timeout, API_ON_TIMEOUT_ABORT);
}

#define KNOWN                                                                  \
    "id, vm, to, qmp, dest_qmp, mode, preempt, multifd_channels, "             \
    "postcopy_after_seconds, bandwidth_bytes_per_second, max_downtime_ms, "    \
    "timeout_seconds, on_timeout"
#define UMLAUTS_13                                                             \
    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"                 \
    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
#define UMLAUTS_39 UMLAUTS_13 UMLAUTS_13 UMLAUTS_13

static void missing_and_unknown_members_are_named(void **state)
{
    struct api_migrate m;
    struct error err = ERROR_INIT;

    assert_int_equal(parse_migrate("{\"to\":\"b\"}", &m, &err), -1);
    assert_string_equal(err.text,
                        "member \"vm\" is missing in POST /v1/migrations");
    assert_int_equal(parse_migrate("{\"vm\":\"b\"}", &m, &err), -1);
    assert_string_equal(err.text,
                        "member \"to\" is missing in POST /v1/migrations");
    assert_migrate_fails("\"speed\":1",
                         "unknown member \"speed\" in POST /v1/migrations; "
                         "known are " KNOWN);
    assert_migrate_fails("\"\":1", "unknown member \"\" in POST "
                                   "/v1/migrations; known are " KNOWN);
    /* cut between characters */
    char *text = make_text("\"a", "\xc3\xa4", 40, "b\":1");
    assert_migrate_fails(text, "unknown member \"a" UMLAUTS_39 "...\" in POST "
                               "/v1/migrations; known are " KNOWN);
    free(text);
}

/* of a text that is too long 80 bytes are shown */
#define A80_LESS_15                                                            \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void texts_are_checked(void **state)
{
    char *text;

    assert_migrate_fails("\"id\":1", "member \"id\": 1 is not a text");
    assert_migrate_fails("\"id\":\"a\\u0000\"",
                         "member \"id\": \"a\\u0000\" is not a text");
    assert_migrate_fails(
        "\"id\":\"\"", "member \"id\" has 0 bytes, it must have 1 to 64: \"\"");
    assert_migrate_fails("\"id\":\"a/b\"",
                         "member \"id\": \"a/b\" is not a name of A-Z a-z 0-9 "
                         ". _ - other than \".\" and \"..\"");
    assert_migrate_fails("\"id\":\"..\"",
                         "member \"id\": \"..\" is not a name of A-Z a-z 0-9 . "
                         "_ - other than \".\" and \"..\"");
    text = make_text("\"id\":\"", "a", ID_MAX + 1, "\"");
    assert_migrate_fails(text,
                         "member \"id\" has 65 bytes, it must have 1 to 64: "
                         "\"" A80_LESS_15 "\"");
    free(text);
    text = make_text("\"qmp\":\"/", "a", PATH_SOCKET_MAX, "\"");
    assert_migrate_fails(text,
                         "member \"qmp\" has 108 bytes, it must have 2 to 107: "
                         "\"/" A80_LESS_15 "aaaaaaaaaaaaaa...\"");
    free(text);
}

static void names_are_checked(void **state)
{
    struct api_migrate m;
    struct error err = ERROR_INIT;
    char *text = make_text("{\"to\":\"b\",\"vm\":\"", "a", API_NAME_MAX, "\"}");

    assert_int_equal(parse_migrate(text, &m, &err), 0);
    assert_int_equal(strlen(m.vm), API_NAME_MAX);
    free(text);
    text = make_text("{\"to\":\"b\",\"vm\":\"", "a", API_NAME_MAX + 1, "\"}");
    assert_int_equal(parse_migrate(text, &m, &err), -1);
    assert_string_equal(err.text,
                        "member \"vm\" has 129 bytes, it must have 1 to 128: "
                        "\"" A80_LESS_15 "aaaaaaaaaaaaaaa...\"");
    free(text);
    assert_int_equal(
        parse_migrate("{\"vm\":\"a\\u001b[m\",\"to\":\"b\"}", &m, &err), -1);
    assert_string_equal(
        err.text,
        "member \"vm\": \"a\\u001b[m\" is not free of control characters");
}

static void paths_are_checked(void **state)
{
    struct api_migrate m;
    struct error err = ERROR_INIT;

    assert_int_equal(
        parse_migrate("{\"vm\":\"a\",\"to\":\"b\",\"qmp\":\"a/b\"}", &m, &err),
        -1);
    assert_int_equal(err.code, ERR_PATH_REFUSED);
    assert_ptr_equal(strstr(err.text, "member \"qmp\": "), err.text);
    assert_int_equal(
        parse_migrate("{\"vm\":\"a\",\"to\":\"b\",\"dest_qmp\":\"/a/../b\"}",
                      &m, &err),
        -1);
    assert_int_equal(err.code, ERR_PATH_REFUSED);
    assert_ptr_equal(strstr(err.text, "member \"dest_qmp\": "), err.text);
}

static void words_are_checked(void **state)
{
    assert_migrate_fails(
        "\"mode\":\"Auto\"",
        "member \"mode\": \"Auto\" is not one of auto, precopy, postcopy");
    assert_migrate_fails("\"mode\":0", "member \"mode\": 0 is not one of auto, "
                                       "precopy, postcopy");
    assert_migrate_fails(
        "\"preempt\":true",
        "member \"preempt\": true is not one of auto, on, off");
    assert_migrate_fails(
        "\"timeout_seconds\":1,\"on_timeout\":\"\"",
        "member \"on_timeout\": \"\" is not one of abort, postcopy, pause");
}

static void numbers_are_checked(void **state)
{
    static const char *const multifd[] = {
        "17",  "-1",  "1.0",  "\"1\"",
        "1e0", "[1]", "true", "99999999999999999999999"};
    static const char *const rate[] = {
        "0", "-1", "1.5", "\"1\"", "\"Unlimited\"", "9223372036854775808"};
    static const char *const seconds[] = {"0.5", "604800.5", "\"1\"", "1e999",
                                          "-1"};
    char members[100], message[200];

    for (size_t i = 0; i < sizeof(multifd) / sizeof(multifd[0]); i++) {
        snprintf(members, sizeof(members), "\"multifd_channels\":%s",
                 multifd[i]);
        snprintf(message, sizeof(message),
                 "member \"multifd_channels\": %s is not a whole number from "
                 "0 to 16",
                 /* the largest that json-c knows */
                 strlen(multifd[i]) > 20 ? "18446744073709551615" : multifd[i]);
        assert_migrate_fails(members, message);
    }
    for (size_t i = 0; i < sizeof(rate) / sizeof(rate[0]); i++) {
        snprintf(members, sizeof(members), "\"bandwidth_bytes_per_second\":%s",
                 rate[i]);
        snprintf(message, sizeof(message),
                 "member \"bandwidth_bytes_per_second\": %s is not a whole "
                 "number of bytes per second from 1 to 9223372036854775807, "
                 "or \"unlimited\" (0 is neither)",
                 rate[i]);
        assert_migrate_fails(members, message);
    }
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        snprintf(members, sizeof(members), "\"timeout_seconds\":%s",
                 seconds[i]);
        snprintf(message, sizeof(message),
                 "member \"timeout_seconds\": %s is not a number from 1 to "
                 "604800 seconds",
                 seconds[i]);
        assert_migrate_fails(members, message);
    }
    assert_migrate_fails("\"max_downtime_ms\":0",
                         "member \"max_downtime_ms\": 0 is not a whole number "
                         "from 1 to 60000 ms");
    assert_migrate_fails("\"max_downtime_ms\":60001",
                         "member \"max_downtime_ms\": 60001 is not a whole "
                         "number from 1 to 60000 ms");
    assert_migrate_fails("\"max_downtime_ms\":{\"a\": [1]}",
                         "member \"max_downtime_ms\": {\"a\":[1]} is not a "
                         "whole number from 1 to 60000 ms");
}

static void members_that_exclude_each_other_are_refused(void **state)
{
    assert_migrate_fails("\"mode\":\"precopy\",\"postcopy_after_seconds\":1",
                         "member \"postcopy_after_seconds\" does not go with "
                         "mode precopy");
    assert_migrate_fails("\"mode\":\"precopy\",\"timeout_seconds\":9,"
                         "\"on_timeout\":\"postcopy\"",
                         "member \"on_timeout\": postcopy does not go with "
                         "mode precopy");
    assert_migrate_fails("\"mode\":\"precopy\",\"preempt\":\"on\"",
                         "member \"preempt\": on does not go with mode "
                         "precopy");
    assert_migrate_fails("\"on_timeout\":\"pause\"",
                         "member \"on_timeout\" needs \"timeout_seconds\"");
}

static void unlimited_is_a_word_for_no_cap(void **state)
{
    struct api_migrate m;
    struct error err = ERROR_INIT;

    assert_int_equal(parse_migrate("{\"vm\":\"a\",\"to\":\"b\",\"bandwidth_"
                                   "bytes_per_second\":\"unlimited\"}",
                                   &m, &err),
                     0);
    assert_true(m.bandwidth_bytes_per_second == PARSE_UNLIMITED);
}

static void equal_means_all_members(void **state)
{
    static const char *const others[] = {
        "{\"vm\":\"a\",\"to\":\"b\",\"id\":\"i\"}",
        "{\"vm\":\"x\",\"to\":\"b\"}",
        "{\"vm\":\"a\",\"to\":\"x\"}",
        "{\"vm\":\"a\",\"to\":\"b\",\"qmp\":\"/x\"}",
        "{\"vm\":\"a\",\"to\":\"b\",\"dest_qmp\":\"/x\"}",
        "{\"vm\":\"a\",\"to\":\"b\",\"mode\":\"precopy\"}",
        "{\"vm\":\"a\",\"to\":\"b\",\"preempt\":\"on\"}",
        "{\"vm\":\"a\",\"to\":\"b\",\"multifd_channels\":1}",
        "{\"vm\":\"a\",\"to\":\"b\",\"postcopy_after_seconds\":1}",
        "{\"vm\":\"a\",\"to\":\"b\",\"bandwidth_bytes_per_second\":1}",
        "{\"vm\":\"a\",\"to\":\"b\",\"max_downtime_ms\":1}",
        "{\"vm\":\"a\",\"to\":\"b\",\"timeout_seconds\":1}",
    };
    struct api_migrate a, b;
    struct error err = ERROR_INIT;

    parse_migrate("{\"vm\":\"a\",\"to\":\"b\"}", &a, &err);
    parse_migrate("{\"to\":\"b\",\"vm\":\"a\",\"mode\":\"auto\"}", &b, &err);
    assert_true(api_migrate_is_equal(&a, &b));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(parse_migrate(others[i], &b, &err), 0);
        assert_false(api_migrate_is_equal(&a, &b));
    }
    b = a;
    b.on_timeout = API_ON_TIMEOUT_PAUSE;
    assert_false(api_migrate_is_equal(&a, &b));
}

static void made_ids_are_valid_and_differ(void **state)
{
    char a[ID_MAX + 1], b[ID_MAX + 1];

    id_make(a);
    id_make(b);
    assert_true(id_is_valid(a));
    assert_int_equal(strlen(a), 13);
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_reaches_its_field),
        cmocka_unit_test(members_have_defaults),
        cmocka_unit_test(missing_and_unknown_members_are_named),
        cmocka_unit_test(texts_are_checked),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(paths_are_checked),
        cmocka_unit_test(words_are_checked),
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(members_that_exclude_each_other_are_refused),
        cmocka_unit_test(unlimited_is_a_word_for_no_cap),
        cmocka_unit_test(equal_means_all_members),
        cmocka_unit_test(made_ids_are_valid_and_differ),
    };
    return cmocka_run_group_tests_name("api-migrate", tests, NULL, NULL);
}
