// SPDX-License-Identifier: BSD-3-Clause
/* The QMP client against a scripted server: negotiation, answers, deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/qmp.h"
#include "tests/lib/qmp-diary.h"

/* --- greeting and negotiation ------------------------------------------- */

static void oob_is_enabled_where_it_is_offered(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "greeting\n"
               "expect qmp_capabilities {\"enable\": [\"oob\"]}\n"
               "reply qmp_capabilities {}\nstay");
    assert_false(qmp_is_ready(d->qmp));
    assert_string_equal(qmp_version(d->qmp), "");
    diary_expect(d, "ready\n");
    assert_true(qmp_is_ready(d->qmp));
    assert_true(qmp_has_oob(d->qmp));
    assert_string_equal(qmp_version(d->qmp), "7.2.22");
}

static void without_oob_such_calls_fail_and_others_work(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "greeting no-oob\nexpect qmp_capabilities {}\n"
               "reply qmp_capabilities {}\n"
               "expect query-name\nreply query-name {}\nstay");
    diary_call_with(d, "migrate-pause", true, NULL, DIARY_TIMEOUT);
    diary_call(d, "query-name");
    diary_expect(d, "ready\n"
                    "migrate-pause failed unsupported: migrate-pause: this "
                    "monitor runs nothing out of band\n"
                    "query-name {}\n");
    assert_false(qmp_has_oob(d->qmp));
}

static void no_greeting_means_a_busy_monitor(void **state)
{
    struct diary *d = *state;
    struct qmp_params params = {.greeting_timeout = 30 * MP_MS};

    diary_open(d, &params, "stay\nwait 5000");
    diary_call(d, "query-name");
    diary_expect(
        d, "query-name failed monitor-busy: query-name: the monitor gave no "
           "greeting in 0.03 s: another client is probably on it; give this "
           "QEMU a second -qmp\n"
           "closed monitor-busy: the monitor gave no greeting in 0.03 s: "
           "another client is probably on it; give this QEMU a second -qmp\n");
}

static void silence_after_the_greeting_names_the_deadline(void **state)
{
    struct diary *d = *state;
    struct qmp_params params = {.negotiation_timeout = 30 * MP_MS};

    diary_open(d, &params,
               "stay\ngreeting\nexpect qmp_capabilities\nwait 5000");
    diary_expect(d, "closed timeout: qmp_capabilities: no answer in 0.03 s\n");
}

static void refused_negotiation_ends_the_connection(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "greeting\nexpect qmp_capabilities\n"
               "error qmp_capabilities GenericError no such thing\nstay");
    diary_expect(
        d, "closed qmp: qmp_capabilities: no such thing (GenericError)\n");
}

static void another_greeting_is_refused(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL, "raw {\"SPICE\": 1}\nstay");
    diary_expect(d, "closed protocol: QMP: this is not a QMP greeting: "
                    "{\"SPICE\":1}\n");
}

static void calls_before_the_greeting_are_sent_after_it(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "wait 10\nhandshake\nexpect query-name {}\n"
               "reply query-name {\"name\": \"vm1\"}\nstay");
    diary_call(d, "query-name");
    diary_expect(d, "ready\nquery-name {\"name\":\"vm1\"}\n");
}

/* --- answers and events ------------------------------------------------- */

static void refusals_carry_description_and_class(void **state)
{
    struct diary *d = *state;

    diary_open(
        d, NULL,
        "handshake\nexpect migrate\n"
        "error migrate GenericError State blocked by non-migratable device\n"
        "expect cont\nraw {\"error\": {}, \"id\": 2}\nstay");
    diary_call(d, "migrate");
    diary_call(d, "cont");
    diary_expect(d, "ready\n"
                    "migrate failed qmp: migrate: State blocked by "
                    "non-migratable device (GenericError)\n"
                    "cont failed qmp: cont: no reason given ()\n");
}

static void events_come_between_answers(void **state)
{
    struct diary *d = *state;

    diary_open(
        d, NULL,
        "greeting\nexpect qmp_capabilities\nevent EARLY\n"
        "reply qmp_capabilities {}\nexpect migrate\nexpect query-migrate\n"
        "event MIGRATION {\"status\": \"setup\"}\nreply migrate {}\n"
        "raw {\"event\": \"STOP\", \"timestamp\": {\"seconds\": -1, "
        "\"microseconds\": -1}}\n"
        "reply query-migrate {\"status\": \"active\"}\nevent RESUME\nstay");
    diary_call(d, "migrate");
    diary_call(d, "query-migrate");
    diary_expect(d, "event EARLY - 1796061857828283\nready\n"
                    "event MIGRATION {\"status\":\"setup\"} 1796061857828283\n"
                    "migrate {}\nevent STOP - -1\n"
                    "query-migrate {\"status\":\"active\"}\n"
                    "event RESUME - 1796061857828283\n");
}

static void a_conversation_survives_any_cut(void **state)
{
    struct diary *d = *state;

    for (int cut = 1; cut <= 9; cut += 2) {
        char script[600];
        snprintf(script, sizeof(script),
                 "cut %d\nhandshake\nexpect stop {}\nevent STOP\nreply stop {}"
                 "\nexpect cont\nerror cont GenericError \xc3\xa4 no\nclose",
                 cut);
        diary_open(d, NULL, script);
        diary_call(d, "stop");
        diary_call(d, "cont");
        diary_expect(d, "ready\nevent STOP - 1796061857828283\nstop {}\n"
                        "cont failed qmp: cont: \xc3\xa4 no (GenericError)\n"
                        "closed qemu-gone: QEMU has closed the monitor\n");
        qmp_close(d->qmp);
        d->qmp = NULL;
        fake_qemu_free(d->fake);
        d->fake = NULL;
        d->text[0] = '\0';
        d->lines = 0;
    }
}

/* --- not QMP ------------------------------------------------------------ */

static void expect_protocol_error(struct diary *d, const char *line,
                                  const char *text)
{
    char script[300];

    snprintf(script, sizeof(script), "handshake\nexpect query-name\n%s\nstay",
             line);
    diary_open(d, NULL, script);
    diary_call(d, "query-name");
    diary_wait_lines(d, 3);
    if (!strstr(d->text, text)) {
        fail_msg("\"%s\" says nothing of \"%s\"", d->text, text);
    }
    assert_non_null(strstr(d->text, "query-name failed protocol: query-name:"));
    assert_non_null(strstr(d->text, "closed protocol: QMP: "));
}

static void garbage_ends_the_connection(void **state)
{
    expect_protocol_error(*state, "raw hello", "byte 0x68 where an object");
}

static void a_strange_object_ends_the_connection(void **state)
{
    expect_protocol_error(*state, "raw {\"a\": \"\xc3\xa4\"}",
                          "neither an event nor an answer to us: "
                          "{\"a\":\"??\"}");
}

static void an_error_without_id_ends_the_connection(void **state)
{
    expect_protocol_error(
        *state,
        "raw {\"error\": {\"class\": \"GenericError\", \"desc\": \"x\"}}",
        "neither an event nor an answer to us: {\"error\"");
}

static void an_answer_to_nothing_ends_the_connection(void **state)
{
    expect_protocol_error(*state, "raw {\"return\": {}, \"id\": 77}",
                          "an answer to command 77, which was not sent");
}

static void an_answer_without_result_ends_the_connection(void **state)
{
    expect_protocol_error(*state, "raw {\"id\": 2}",
                          "neither a result nor an error");
}

static void an_over_large_answer_ends_the_connection(void **state)
{
    expect_protocol_error(*state, "bytes 7b22\nfill 4194304",
                          "a value longer than 4194304 bytes");
}

/* --- in band, out of band ----------------------------------------------- */

static void at_most_four_commands_wait_in_qemu(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "handshake\nexpect a\nexpect b\nexpect c\nexpect q\n"
               "wait 20\nexpect-oob o\nreply o {}\n"
               "reply b {}\nexpect e\nreply a {}\nexpect g\n"
               "reply c {}\nreply q {}\nreply e {}\nreply g {}\nstay");
    const char *names[] = {"a", "b", "c", "q", "e", "g"};
    for (int i = 0; i < 6; i++) {
        diary_call(d, names[i]);
    }
    diary_call_with(d, "o", true, NULL, DIARY_TIMEOUT); /* overtakes e and g */
    diary_expect(d, "ready\no {}\nb {}\na {}\nc {}\nq {}\ne {}\ng {}\n");
}

static void oob_overtakes_a_blocked_command(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "handshake\nexpect query-status\n"
               "expect-oob yank {\"instances\": [{\"type\": \"migration\"}]}"
               "\nreply yank {}\nwait 20\n"
               "reply query-status {\"running\": true}\nstay");
    diary_call(d, "query-status");
    diary_call_with(
        d, "yank", true,
        json_tokener_parse("{\"instances\": [{\"type\": \"migration\"}]}"),
        DIARY_TIMEOUT);
    diary_expect(d, "ready\nyank {}\nquery-status {\"running\":true}\n");
}

/* --- deadlines ---------------------------------------------------------- */

static void a_late_answer_is_dropped_and_the_next_call_works(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "handshake\nexpect slow\nwait 60\nreply slow {}\n"
               "expect quick\nreply quick {}\nstay");
    diary_wait_lines(d, 1);
    diary_call_with(d, "slow", false, NULL, 20 * MP_MS);
    diary_wait_lines(d, 2);
    diary_call(d, "quick");
    diary_expect(d, "ready\nslow failed timeout: slow: no answer in 0.02 s\n"
                    "quick {}\n");
}

static void a_command_that_could_not_be_sent_never_is(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "handshake\nexpect a\nexpect b\nexpect c\nexpect d\n"
               "wait 60\nreply a {}\nreply b {}\nreply c {}\nreply d {}\n"
               "expect last\nreply last {}\nstay");
    diary_wait_lines(d, 1);
    const char *names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        diary_call_with(d, names[i], false, NULL, 10 * MP_MS);
    }
    diary_call_with(d, "cont", false, NULL, 20 * MP_MS);
    diary_call(d, "last");
    diary_expect(d, "ready\na failed timeout: a: no answer in 0.01 s\n"
                    "b failed timeout: b: no answer in 0.01 s\n"
                    "c failed timeout: c: no answer in 0.01 s\n"
                    "d failed timeout: d: no answer in 0.01 s\n"
                    "cont failed timeout: cont: not sent within 0.02 s, "
                    "earlier commands are unanswered\nlast {}\n");
}

static void a_deadline_may_pass_before_the_greeting(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL, "wait 60\nhandshake\nstay");
    diary_call_with(d, "cont", false, NULL, 10 * MP_MS);
    diary_expect(d, "cont failed timeout: cont: not sent within 0.01 s, the "
                    "monitor is not ready\nready\n");
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, diary_set_up, diary_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(oob_is_enabled_where_it_is_offered),
        TEST(without_oob_such_calls_fail_and_others_work),
        TEST(no_greeting_means_a_busy_monitor),
        TEST(silence_after_the_greeting_names_the_deadline),
        TEST(refused_negotiation_ends_the_connection),
        TEST(another_greeting_is_refused),
        TEST(calls_before_the_greeting_are_sent_after_it),
        TEST(refusals_carry_description_and_class),
        TEST(events_come_between_answers),
        TEST(a_conversation_survives_any_cut),
        TEST(garbage_ends_the_connection),
        TEST(a_strange_object_ends_the_connection),
        TEST(an_error_without_id_ends_the_connection),
        TEST(an_answer_to_nothing_ends_the_connection),
        TEST(an_answer_without_result_ends_the_connection),
        TEST(an_over_large_answer_ends_the_connection),
        TEST(at_most_four_commands_wait_in_qemu),
        TEST(oob_overtakes_a_blocked_command),
        TEST(a_late_answer_is_dropped_and_the_next_call_works),
        TEST(a_command_that_could_not_be_sent_never_is),
        TEST(a_deadline_may_pass_before_the_greeting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
