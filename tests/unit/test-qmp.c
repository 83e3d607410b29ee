// SPDX-License-Identifier: BSD-3-Clause
/* The QMP client against a scripted server. What the client's owner is told is
 * written down line by line and compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qmp/qmp.h"
#include "tests/lib/fake-qemu.h"
#include "util/loop.h"

#define T (5 * MP_SECOND)

struct fixture {
    struct loop *loop;
    struct fake_qemu *fake;
    struct qmp *qmp;
    char diary[8192];
    int lines;
    int wanted; /* lines to wait for */
    bool is_enough;
    const char *close_on; /* close when a line starts with this */
};

/* One call, so that its callback knows its name. */
struct named {
    struct fixture *f;
    const char *name;
};

static void write_down(struct fixture *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void write_down(struct fixture *f, const char *format, ...)
{
    char line[700];
    va_list args;
    size_t at = strlen(f->diary);

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    snprintf(f->diary + at, sizeof(f->diary) - at, "%s\n", line);
    f->lines++;
    f->is_enough = f->lines >= f->wanted;
    if (f->close_on && !strncmp(line, f->close_on, strlen(f->close_on))) {
        f->close_on = NULL;
        qmp_close(f->qmp);
        f->qmp = NULL;
        write_down(f, "close returned");
    }
}

static void on_ready(void *arg)
{
    write_down(arg, "ready");
}

static void on_event(void *arg, const char *name, struct json_object *data,
                     int64_t timestamp_us, mp_time received)
{
    assert_true(received > 0);
    write_down(
        arg, "event %s %s %lld", name,
        data ? json_object_to_json_string_ext(data, JSON_C_TO_STRING_PLAIN)
             : "-",
        (long long)timestamp_us);
}

static void on_closed(void *arg, const struct error *err)
{
    write_down(arg, "closed %s: %s", error_class(err->code), err->text);
}

static const struct qmp_ops ops = {
    .on_ready = on_ready, .on_event = on_event, .on_closed = on_closed};

static void call_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    struct named *named = arg;
    struct fixture *f = named->f;
    const char *name = named->name;

    free(named);
    if (err) {
        assert_null(result);
        write_down(f, "%s failed %s: %s", name, error_class(err->code),
                   err->text);
    } else {
        write_down(
            f, "%s %s", name,
            json_object_to_json_string_ext(result, JSON_C_TO_STRING_PLAIN));
    }
}

static void call_with(struct fixture *f, const char *command, bool oob,
                      struct json_object *args, mp_time timeout)
{
    struct named *named = malloc(sizeof(*named));

    named->f = f;
    named->name = command;
    (oob ? qmp_execute_oob : qmp_execute)(f->qmp, command, args, timeout,
                                          call_cb, named);
}

static void call(struct fixture *f, const char *command)
{
    call_with(f, command, false, NULL, T);
}

static void open_with(struct fixture *f, const struct qmp_params *params,
                      const char *script)
{
    struct error err;

    f->fake = fake_qemu_new(f->loop, script);
    f->qmp =
        qmp_open(f->loop, fake_qemu_take_fd(f->fake), params, &ops, f, &err);
    assert_non_null(f->qmp);
}

static void open_client(struct fixture *f, const char *script)
{
    open_with(f, NULL, script);
}

static void wait_lines(struct fixture *f, int count)
{
    f->wanted = count;
    f->is_enough = f->lines >= count;
    if (!fake_qemu_run_until(f->loop, &f->is_enough)) {
        fail_msg("only this came:\n%s", f->diary);
    }
}

/* Waits for as many lines as expected has and compares. */
static void expect_diary(struct fixture *f, const char *expected)
{
    int count = 0;

    for (const char *p = expected; *p; p++) {
        count += *p == '\n';
    }
    wait_lines(f, count);
    fake_qemu_run_for(f->loop, 2 * MP_MS); /* nothing more comes */
    assert_string_equal(f->diary, expected);
    if (fake_qemu_failure(f->fake)) {
        fail_msg("%s", fake_qemu_failure(f->fake));
    }
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->loop = loop_new("test", NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    qmp_close(f->qmp);
    fake_qemu_free(f->fake);
    loop_free(f->loop);
    free(f);
    return 0;
}

/* --- greeting and negotiation ------------------------------------------- */

static void oob_is_enabled_where_it_is_offered(void **state)
{
    struct fixture *f = *state;

    open_client(f, "greeting\n"
                   "expect qmp_capabilities {\"enable\": [\"oob\"]}\n"
                   "reply qmp_capabilities {}\nstay");
    assert_false(qmp_is_ready(f->qmp));
    assert_string_equal(qmp_version(f->qmp), "");
    expect_diary(f, "ready\n");
    assert_true(qmp_is_ready(f->qmp));
    assert_true(qmp_has_oob(f->qmp));
    assert_string_equal(qmp_version(f->qmp), "7.2.22");
}

static void without_oob_such_calls_fail_and_others_work(void **state)
{
    struct fixture *f = *state;

    open_client(f, "greeting no-oob\nexpect qmp_capabilities {}\n"
                   "reply qmp_capabilities {}\n"
                   "expect query-name\nreply query-name {}\nstay");
    call_with(f, "migrate-pause", true, NULL, T);
    call(f, "query-name");
    expect_diary(f, "ready\n"
                    "migrate-pause failed unsupported: migrate-pause: this "
                    "monitor runs nothing out of band\n"
                    "query-name {}\n");
    assert_false(qmp_has_oob(f->qmp));
}

static void no_greeting_means_a_busy_monitor(void **state)
{
    struct fixture *f = *state;
    struct qmp_params params = {.greeting_timeout = 30 * MP_MS};

    open_with(f, &params, "stay\nwait 5000");
    call(f, "query-name");
    expect_diary(
        f, "query-name failed monitor-busy: query-name: the monitor gave no "
           "greeting in 0.03 s: another client is probably on it; give this "
           "QEMU a second -qmp\n"
           "closed monitor-busy: the monitor gave no greeting in 0.03 s: "
           "another client is probably on it; give this QEMU a second -qmp\n");
}

static void silence_after_the_greeting_names_the_deadline(void **state)
{
    struct fixture *f = *state;
    struct qmp_params params = {.negotiation_timeout = 30 * MP_MS};

    open_with(f, &params, "stay\ngreeting\nexpect qmp_capabilities\nwait 5000");
    expect_diary(f, "closed timeout: qmp_capabilities: no answer in 0.03 s\n");
}

static void refused_negotiation_ends_the_connection(void **state)
{
    struct fixture *f = *state;

    open_client(f, "greeting\nexpect qmp_capabilities\n"
                   "error qmp_capabilities GenericError no such thing\nstay");
    expect_diary(
        f, "closed qmp: qmp_capabilities: no such thing (GenericError)\n");
}

static void another_greeting_is_refused(void **state)
{
    struct fixture *f = *state;

    open_client(f, "raw {\"SPICE\": 1}\nstay");
    expect_diary(f, "closed protocol: QMP: this is not a QMP greeting: "
                    "{\"SPICE\":1}\n");
}

static void calls_before_the_greeting_are_sent_after_it(void **state)
{
    struct fixture *f = *state;

    open_client(f, "wait 10\nhandshake\nexpect query-name {}\n"
                   "reply query-name {\"name\": \"vm1\"}\nstay");
    call(f, "query-name");
    expect_diary(f, "ready\nquery-name {\"name\":\"vm1\"}\n");
}

/* --- answers and events ------------------------------------------------- */

static void refusals_carry_description_and_class(void **state)
{
    struct fixture *f = *state;

    open_client(
        f, "handshake\nexpect migrate\n"
           "error migrate GenericError State blocked by non-migratable device\n"
           "expect cont\nraw {\"error\": {}, \"id\": 2}\nstay");
    call(f, "migrate");
    call(f, "cont");
    expect_diary(f, "ready\n"
                    "migrate failed qmp: migrate: State blocked by "
                    "non-migratable device (GenericError)\n"
                    "cont failed qmp: cont: no reason given ()\n");
}

static void events_come_between_answers(void **state)
{
    struct fixture *f = *state;

    open_client(
        f, "greeting\nexpect qmp_capabilities\nevent EARLY\n"
           "reply qmp_capabilities {}\nexpect migrate\nexpect query-migrate\n"
           "event MIGRATION {\"status\": \"setup\"}\nreply migrate {}\n"
           "raw {\"event\": \"STOP\", \"timestamp\": {\"seconds\": -1, "
           "\"microseconds\": -1}}\n"
           "reply query-migrate {\"status\": \"active\"}\nevent RESUME\nstay");
    call(f, "migrate");
    call(f, "query-migrate");
    expect_diary(f, "event EARLY - 1796061857828283\nready\n"
                    "event MIGRATION {\"status\":\"setup\"} 1796061857828283\n"
                    "migrate {}\nevent STOP - -1\n"
                    "query-migrate {\"status\":\"active\"}\n"
                    "event RESUME - 1796061857828283\n");
}

static void a_conversation_survives_any_cut(void **state)
{
    struct fixture *f = *state;

    for (int cut = 1; cut <= 9; cut += 2) {
        char script[600];
        snprintf(script, sizeof(script),
                 "cut %d\nhandshake\nexpect stop {}\nevent STOP\nreply stop {}"
                 "\nexpect cont\nerror cont GenericError \xc3\xa4 no\nclose",
                 cut);
        open_client(f, script);
        call(f, "stop");
        call(f, "cont");
        expect_diary(f, "ready\nevent STOP - 1796061857828283\nstop {}\n"
                        "cont failed qmp: cont: \xc3\xa4 no (GenericError)\n"
                        "closed qemu-gone: QEMU has closed the monitor\n");
        qmp_close(f->qmp);
        f->qmp = NULL;
        fake_qemu_free(f->fake);
        f->fake = NULL;
        f->diary[0] = '\0';
        f->lines = 0;
    }
}

/* --- not QMP ------------------------------------------------------------ */

static void expect_protocol_error(struct fixture *f, const char *line,
                                  const char *text)
{
    char script[300];

    snprintf(script, sizeof(script), "handshake\nexpect query-name\n%s\nstay",
             line);
    open_client(f, script);
    call(f, "query-name");
    wait_lines(f, 3);
    if (!strstr(f->diary, text)) {
        fail_msg("\"%s\" says nothing of \"%s\"", f->diary, text);
    }
    assert_non_null(
        strstr(f->diary, "query-name failed protocol: query-name:"));
    assert_non_null(strstr(f->diary, "closed protocol: QMP: "));
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
    struct fixture *f = *state;

    open_client(f, "handshake\nexpect a\nexpect b\nexpect c\nexpect d\n"
                   "wait 20\nexpect-oob o\nreply o {}\n"
                   "reply b {}\nexpect e\nreply a {}\nexpect g\n"
                   "reply c {}\nreply d {}\nreply e {}\nreply g {}\nstay");
    const char *names[] = {"a", "b", "c", "d", "e", "g"};
    for (int i = 0; i < 6; i++) {
        call(f, names[i]);
    }
    call_with(f, "o", true, NULL, T); /* overtakes e and g */
    expect_diary(f, "ready\no {}\nb {}\na {}\nc {}\nd {}\ne {}\ng {}\n");
}

static void oob_overtakes_a_blocked_command(void **state)
{
    struct fixture *f = *state;

    open_client(f,
                "handshake\nexpect query-status\n"
                "expect-oob yank {\"instances\": [{\"type\": \"migration\"}]}"
                "\nreply yank {}\nwait 20\n"
                "reply query-status {\"running\": true}\nstay");
    call(f, "query-status");
    call_with(
        f, "yank", true,
        json_tokener_parse("{\"instances\": [{\"type\": \"migration\"}]}"), T);
    expect_diary(f, "ready\nyank {}\nquery-status {\"running\":true}\n");
}

/* --- deadlines ---------------------------------------------------------- */

static void a_late_answer_is_dropped_and_the_next_call_works(void **state)
{
    struct fixture *f = *state;

    open_client(f, "handshake\nexpect slow\nwait 60\nreply slow {}\n"
                   "expect quick\nreply quick {}\nstay");
    wait_lines(f, 1);
    call_with(f, "slow", false, NULL, 20 * MP_MS);
    wait_lines(f, 2);
    call(f, "quick");
    expect_diary(f, "ready\nslow failed timeout: slow: no answer in 0.02 s\n"
                    "quick {}\n");
}

static void a_command_that_could_not_be_sent_never_is(void **state)
{
    struct fixture *f = *state;

    open_client(f, "handshake\nexpect a\nexpect b\nexpect c\nexpect d\n"
                   "wait 60\nreply a {}\nreply b {}\nreply c {}\nreply d {}\n"
                   "expect last\nreply last {}\nstay");
    wait_lines(f, 1);
    const char *names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        call_with(f, names[i], false, NULL, 10 * MP_MS);
    }
    call_with(f, "cont", false, NULL, 20 * MP_MS);
    call(f, "last");
    expect_diary(f, "ready\na failed timeout: a: no answer in 0.01 s\n"
                    "b failed timeout: b: no answer in 0.01 s\n"
                    "c failed timeout: c: no answer in 0.01 s\n"
                    "d failed timeout: d: no answer in 0.01 s\n"
                    "cont failed timeout: cont: not sent within 0.02 s, "
                    "earlier commands are unanswered\nlast {}\n");
}

static void a_deadline_may_pass_before_the_greeting(void **state)
{
    struct fixture *f = *state;

    open_client(f, "wait 60\nhandshake\nstay");
    call_with(f, "cont", false, NULL, 10 * MP_MS);
    expect_diary(f, "cont failed timeout: cont: not sent within 0.01 s, the "
                    "monitor is not ready\nready\n");
}

/* --- the end ------------------------------------------------------------ */

static void the_end_of_qemu_fails_calls_then_the_connection(void **state)
{
    struct fixture *f = *state;

    open_client(f, "handshake\nexpect a\nexpect b\nexpect c\nexpect d\nclose");
    const char *names[] = {"a", "b", "c", "d", "unsent"};
    for (int i = 0; i < 5; i++) {
        call(f, names[i]);
    }
    expect_diary(
        f, "ready\n"
           "a failed qemu-gone: a: QEMU has closed the monitor\n"
           "b failed qemu-gone: b: QEMU has closed the monitor\n"
           "c failed qemu-gone: c: QEMU has closed the monitor\n"
           "d failed qemu-gone: d: QEMU has closed the monitor\n"
           "unsent failed qemu-gone: unsent: QEMU has closed the monitor\n"
           "closed qemu-gone: QEMU has closed the monitor\n");
    assert_false(qmp_is_ready(f->qmp));
    call(f, "late");
    assert_int_equal(f->lines, 7); /* not from within the submit */
    wait_lines(f, 8);
    assert_non_null(strstr(
        f->diary, "late failed qemu-gone: late: QEMU has closed the monitor"));
}

static void the_end_before_the_greeting_says_so(void **state)
{
    struct fixture *f = *state;

    open_client(f, "close");
    expect_diary(f, "closed qemu-gone: QEMU has closed the monitor before its "
                    "greeting\n");
}

static void the_last_answers_are_read_before_the_end(void **state)
{
    struct fixture *f = *state;

    open_client(f, "handshake\nexpect quit\nevent SHUTDOWN\nreply quit {}\n"
                   "close");
    call(f, "quit");
    expect_diary(f, "ready\nevent SHUTDOWN - 1796061857828283\nquit {}\n"
                    "closed qemu-gone: QEMU has closed the monitor\n");
}

/* QEMU still talks but reads no more: only the send tells. */
static void a_failed_send_ends_the_connection(void **state)
{
    struct fixture *f = *state;

    open_client(f, "stay\nhandshake\ndeaf\nevent STOP\nwait 5000");
    wait_lines(f, 2);
    call(f, "a");
    assert_int_equal(f->lines, 2); /* not from within the submit */
    expect_diary(f, "ready\nevent STOP - 1796061857828283\n"
                    "a failed qemu-gone: a: QEMU has closed the monitor\n"
                    "closed qemu-gone: QEMU has closed the monitor\n");
}

static void expect_close_from(struct fixture *f, const char *close_on,
                              const char *script, const char *expected)
{
    f->close_on = close_on;
    open_client(f, script);
    call(f, "a");
    call(f, "b");
    expect_diary(f, expected);
    assert_null(f->qmp);
}

#define A_CANCELLED "a failed cancelled: a: the monitor was closed\n"
#define B_CANCELLED "b failed cancelled: b: the monitor was closed\n"

static void close_from_ready(void **state)
{
    expect_close_from(*state, "ready", "handshake\nstay",
                      "ready\n" A_CANCELLED B_CANCELLED "close returned\n");
}

static void close_from_an_answer(void **state)
{
    expect_close_from(
        *state, "a ",
        "handshake\nexpect a\nexpect b\nreply a {}\nreply b {}\nstay",
        "ready\na {}\n" B_CANCELLED "close returned\n");
}

static void close_from_an_event(void **state)
{
    expect_close_from(
        *state, "event",
        "handshake\nexpect a\nevent STOP\nevent RESUME\nreply a {}\nstay",
        "ready\nevent STOP - 1796061857828283\n" A_CANCELLED B_CANCELLED
        "close returned\n");
}

static void close_from_a_failing_call(void **state)
{
    expect_close_from(*state, "a failed",
                      "handshake\nexpect a\nexpect b\nclose",
                      "ready\na failed qemu-gone: a: QEMU has closed the "
                      "monitor\n" B_CANCELLED "close returned\n");
}

static void close_from_closed(void **state)
{
    expect_close_from(
        *state, "closed", "handshake\nexpect a\nexpect b\nclose",
        "ready\na failed qemu-gone: a: QEMU has closed the monitor\n"
        "b failed qemu-gone: b: QEMU has closed the monitor\n"
        "closed qemu-gone: QEMU has closed the monitor\nclose returned\n");
}

static void close_from_a_timeout(void **state)
{
    struct fixture *f = *state;

    f->close_on = "slow failed";
    open_client(f, "stay\nhandshake\nexpect slow\nexpect b\nwait 100");
    call_with(f, "slow", false, NULL, 10 * MP_MS);
    call(f, "b");
    expect_diary(f, "ready\nslow failed timeout: slow: no answer in 0.01 s\n"
                    "b failed cancelled: b: the monitor was closed\n"
                    "close returned\n");
}

static void a_call_made_while_closing_is_cancelled_at_once(void **state)
{
    struct fixture *f = *state;
    struct qmp *qmp;

    open_client(f, "handshake\nexpect a\nstay");
    wait_lines(f, 1);
    call(f, "a");
    qmp = f->qmp;
    qmp_close(qmp);
    call(f, "again"); /* the client is freed only by the loop */
    f->qmp = NULL;
    expect_diary(f, "ready\na failed cancelled: a: the monitor was closed\n"
                    "again failed cancelled: again: the monitor is being "
                    "closed\n");
}

/* --- limits ------------------------------------------------------------- */

static void too_many_calls_are_refused(void **state)
{
    struct fixture *f = *state;

    open_client(f, "handshake\nstay");
    wait_lines(f, 1);
    for (int i = 0; i < QMP_CALLS_MAX; i++) {
        qmp_execute(f->qmp, "a", NULL, T, NULL, NULL);
    }
    call(f, "many");
    assert_int_equal(f->lines, 1);
    wait_lines(f, 2);
    assert_non_null(strstr(f->diary, "many failed limit: many: more than 256 "
                                     "commands without an answer"));
}

static void bad_arguments_never_reach_qemu(void **state)
{
    struct fixture *f = *state;
    struct json_object *args = json_object_new_object();
    char *text = malloc(QMP_COMMAND_MAX);

    open_client(f, "handshake\nexpect last {\"uri\": \"unix:/a/b\"}\n"
                   "reply last {}\nstay");
    wait_lines(f, 1);
    json_object_object_add(args, "uri", json_object_new_string("unix:/\xff"));
    call_with(f, "migrate", false, args, T);
    args = json_object_new_object();
    memset(text, 'x', QMP_COMMAND_MAX);
    json_object_object_add(args, "uri",
                           json_object_new_string_len(text, QMP_COMMAND_MAX));
    free(text);
    call_with(f, "long", false, args, T);
    args = json_object_new_object();
    json_object_object_add(args, "uri", json_object_new_string("unix:/a/b"));
    call_with(f, "last", false, args, T);
    expect_diary(f, "ready\nmigrate failed bad-request: migrate: an argument "
                    "is not UTF-8\n"
                    "long failed limit: long: a command of 65584 bytes, the "
                    "limit is 65536\nlast {}\n");
}

/* --- the peer ----------------------------------------------------------- */

static void the_peer_is_known_by_pid_and_start_time(void **state)
{
    struct fixture *f = *state;
    unsigned long long expected = 0;
    uint64_t start = 0;
    pid_t pid = 0;
    FILE *stat = fopen("/proc/self/stat", "r");

    assert_int_equal(fscanf(stat,
                            "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u "
                            "%*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                            &expected),
                     1);
    fclose(stat);
    open_client(f, "handshake\nstay");
    assert_int_equal(qmp_peer(f->qmp, &pid, &start, NULL), 0);
    assert_int_equal(pid, getpid());
    assert_int_equal(start, expected);
}

static void a_socket_without_peer_is_an_error_not_a_guess(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    int fds[2];
    uint64_t start = 7;
    pid_t pid = 7;

    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    f->qmp = qmp_open(f->loop, fds[0], NULL, &ops, f, NULL);
    assert_non_null(f->qmp);
    assert_int_equal(qmp_peer(f->qmp, &pid, &start, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_int_equal(pid, 7);
    close(fds[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
        TEST(the_end_of_qemu_fails_calls_then_the_connection),
        TEST(the_end_before_the_greeting_says_so),
        TEST(the_last_answers_are_read_before_the_end),
        TEST(a_failed_send_ends_the_connection),
        TEST(close_from_ready),
        TEST(close_from_an_answer),
        TEST(close_from_an_event),
        TEST(close_from_a_failing_call),
        TEST(close_from_closed),
        TEST(close_from_a_timeout),
        TEST(a_call_made_while_closing_is_cancelled_at_once),
        TEST(too_many_calls_are_refused),
        TEST(bad_arguments_never_reach_qemu),
        TEST(the_peer_is_known_by_pid_and_start_time),
        TEST(a_socket_without_peer_is_an_error_not_a_guess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
