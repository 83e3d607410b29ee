// SPDX-License-Identifier: BSD-3-Clause
/* The QMP client against a scripted server: how it ends, limits, the peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qmp/qmp.h"
#include "tests/lib/qmp-diary.h"

/* --- the end ------------------------------------------------------------ */

static void the_end_of_qemu_fails_calls_then_the_connection(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "handshake\nexpect a\nexpect b\nexpect c\nexpect d\nclose");
    const char *names[] = {"a", "b", "c", "d", "unsent"};
    for (int i = 0; i < 5; i++) {
        diary_call(d, names[i]);
    }
    diary_expect(
        d, "ready\n"
           "a failed qemu-gone: a: QEMU has closed the monitor\n"
           "b failed qemu-gone: b: QEMU has closed the monitor\n"
           "c failed qemu-gone: c: QEMU has closed the monitor\n"
           "d failed qemu-gone: d: QEMU has closed the monitor\n"
           "unsent failed qemu-gone: unsent: QEMU has closed the monitor\n"
           "closed qemu-gone: QEMU has closed the monitor\n");
    assert_false(qmp_is_ready(d->qmp));
    diary_call(d, "late");
    assert_int_equal(d->lines, 7); /* not from within the submit */
    diary_wait_lines(d, 8);
    assert_non_null(strstr(
        d->text, "late failed qemu-gone: late: QEMU has closed the monitor"));
}

static void the_end_before_the_greeting_says_so(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL, "close");
    diary_expect(d, "closed qemu-gone: QEMU has closed the monitor before its "
                    "greeting\n");
}

static void the_last_answers_are_read_before_the_end(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL,
               "handshake\nexpect quit\nevent SHUTDOWN\nreply quit {}\n"
               "close");
    diary_call(d, "quit");
    diary_expect(d, "ready\nevent SHUTDOWN - 1796061857828283\nquit {}\n"
                    "closed qemu-gone: QEMU has closed the monitor\n");
}

/* QEMU still talks but reads no more: only the send tells. */
static void a_failed_send_ends_the_connection(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL, "stay\nhandshake\ndeaf\nevent STOP\nwait 5000");
    diary_wait_lines(d, 2);
    diary_call(d, "a");
    assert_int_equal(d->lines, 2); /* not from within the submit */
    diary_expect(d, "ready\nevent STOP - 1796061857828283\n"
                    "a failed qemu-gone: a: QEMU has closed the monitor\n"
                    "closed qemu-gone: QEMU has closed the monitor\n");
}

static void expect_close_from(struct diary *d, const char *close_on,
                              const char *script, const char *expected)
{
    d->close_on = close_on;
    diary_open(d, NULL, script);
    diary_call(d, "a");
    diary_call(d, "b");
    diary_expect(d, expected);
    assert_null(d->qmp);
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
    struct diary *d = *state;

    d->close_on = "slow failed";
    diary_open(d, NULL, "stay\nhandshake\nexpect slow\nexpect b\nwait 100");
    diary_wait_lines(d, 1); /* or it might never be sent */
    diary_call_with(d, "slow", false, NULL, 10 * MP_MS);
    diary_call(d, "b");
    diary_expect(d, "ready\nslow failed timeout: slow: no answer in 0.01 s\n"
                    "b failed cancelled: b: the monitor was closed\n"
                    "close returned\n");
}

static void a_call_made_while_closing_is_cancelled_at_once(void **state)
{
    struct diary *d = *state;
    struct qmp *qmp;

    diary_open(d, NULL, "handshake\nexpect a\nstay");
    diary_wait_lines(d, 1);
    diary_call(d, "a");
    qmp = d->qmp;
    qmp_close(qmp);
    diary_call(d, "again"); /* the client is freed only by the loop */
    d->qmp = NULL;
    diary_expect(d, "ready\na failed cancelled: a: the monitor was closed\n"
                    "again failed cancelled: again: the monitor is being "
                    "closed\n");
}

/* --- limits ------------------------------------------------------------- */

static void too_many_calls_are_refused(void **state)
{
    struct diary *d = *state;

    diary_open(d, NULL, "handshake\nstay");
    diary_wait_lines(d, 1);
    for (int i = 0; i < QMP_CALLS_MAX; i++) {
        qmp_execute(d->qmp, "a", NULL, DIARY_TIMEOUT, NULL, NULL);
    }
    diary_call(d, "many");
    assert_int_equal(d->lines, 1);
    diary_wait_lines(d, 2);
    assert_non_null(strstr(d->text, "many failed limit: many: more than 256 "
                                    "commands without an answer"));
}

static void bad_arguments_never_reach_qemu(void **state)
{
    struct diary *d = *state;
    struct json_object *args = json_object_new_object();
    char *text = malloc(QMP_COMMAND_MAX);

    diary_open(d, NULL,
               "handshake\nexpect last {\"uri\": \"unix:/a/b\"}\n"
               "reply last {}\nstay");
    diary_wait_lines(d, 1);
    json_object_object_add(args, "uri", json_object_new_string("unix:/\xff"));
    diary_call_with(d, "migrate", false, args, DIARY_TIMEOUT);
    args = json_object_new_object();
    memset(text, 'x', QMP_COMMAND_MAX);
    json_object_object_add(args, "uri",
                           json_object_new_string_len(text, QMP_COMMAND_MAX));
    free(text);
    diary_call_with(d, "long", false, args, DIARY_TIMEOUT);
    args = json_object_new_object();
    json_object_object_add(args, "uri", json_object_new_string("unix:/a/b"));
    diary_call_with(d, "last", false, args, DIARY_TIMEOUT);
    diary_expect(d, "ready\nmigrate failed bad-request: migrate: an argument "
                    "is not UTF-8\n"
                    "long failed limit: long: a command of 65584 bytes, the "
                    "limit is 65536\nlast {}\n");
}

/* --- the peer ----------------------------------------------------------- */

static void the_peer_is_known_by_pid_and_start_time(void **state)
{
    struct diary *d = *state;
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
    diary_open(d, NULL, "handshake\nstay");
    assert_int_equal(qmp_peer(d->qmp, &pid, &start, NULL), 0);
    assert_int_equal(pid, getpid());
    assert_int_equal(start, expected);
}

static void a_socket_without_peer_is_an_error_not_a_guess(void **state)
{
    struct diary *d = *state;
    struct error err = ERROR_INIT;
    int fds[2];
    uint64_t start = 7;
    pid_t pid = 7;

    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    d->qmp = qmp_open(d->loop, fds[0], NULL, &diary_ops, d, NULL);
    assert_non_null(d->qmp);
    assert_int_equal(qmp_peer(d->qmp, &pid, &start, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_int_equal(pid, 7);
    close(fds[1]);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, diary_set_up, diary_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
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
