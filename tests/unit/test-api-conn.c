// SPDX-License-Identifier: BSD-3-Clause
/* The connections of the API: many, slow, broken, gone. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/api-fixture.h"
#include "util/log.h"

/* ---- connections ---- */

static void a_connection_serves_many_requests(void **state)
{
    struct api_fixture *f = *state;
    static const char request[] = "GET /v1/host HTTP/1.1\r\n" HOST "\r\n";
    int fd = api_fixture_dial(f);

    for (int i = 0; i < 50; i++) {
        api_fixture_send_text(fd, request, strlen(request));
        api_fixture_receive(f, fd, 1);
        assert_int_equal(api_fixture_get_status(f), 200);
        assert_null(strstr(f->answer, "Connection: close"));
    }
    close(fd);
    assert_int_equal(f->calls, 50);
}

static void requests_may_be_sent_ahead(void **state)
{
    struct api_fixture *f = *state;
    static const char requests[] =
        "POST /v1/migrations/a/cancel HTTP/1.1\r\n" JSON
        "Content-Length: 2\r\n\r\n{}"
        "GET /v1/peers HTTP/1.1\r\n" HOST "\r\n"
        "GET /v1/host HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
        "GET /v1/never HTTP/1.1\r\n" HOST "\r\n";
    int fd = api_fixture_dial(f);
    char *a, *b, *c;

    api_fixture_send_text(fd, requests, strlen(requests));
    api_fixture_receive(f, fd, 0);
    close(fd);
    a = strstr(f->answer, "{\"op\":\"cancel\"}\n");
    b = strstr(f->answer, "{\"op\":\"peers\"}\n");
    c = strstr(f->answer, "{\"op\":\"host\"}\n");
    assert_true(a && a < b && b < c);
    assert_int_equal(f->calls, 3);
}

static void a_request_may_come_byte_by_byte(void **state)
{
    struct api_fixture *f = *state;
    static const char request[] =
        "POST /v1/migrations/a/cancel HTTP/1.1\r\n" JSON
        "Content-Length: 2\r\n\r\n{}";
    int fd = api_fixture_dial(f);

    for (size_t i = 0; i < strlen(request); i++) {
        api_fixture_send_text(fd, request + i, 1);
    }
    api_fixture_receive(f, fd, 1);
    close(fd);
    assert_int_equal(api_fixture_get_status(f), 200);
}

static void http_1_0_is_answered_and_closed(void **state)
{
    struct api_fixture *f = *state;
    int fd = api_fixture_dial(f);

    api_fixture_send_text(fd, "GET /v1/host HTTP/1.0\r\n\r\n", 25);
    api_fixture_receive(f, fd, 0);
    close(fd);
    assert_int_equal(api_fixture_get_status(f), 200);
    api_fixture_assert_has(f, "Connection: close\r\n");
}

static void a_client_may_shut_its_end_after_the_request(void **state)
{
    struct api_fixture *f = *state;
    static const char request[] = "GET /v1/host HTTP/1.1\r\n" HOST "\r\n"
                                  "GET /v1/peers HTTP/1.1\r\n" HOST "\r\n";
    int fd = api_fixture_dial(f);

    api_fixture_send_text(fd, request, strlen(request));
    shutdown(fd, SHUT_WR);
    api_fixture_receive(f, fd, 0);
    close(fd);
    api_fixture_assert_has(f, "{\"op\":\"host\"}\n");
    api_fixture_assert_has(f, "{\"op\":\"peers\"}\n");
}

static void continue_is_sent_to_who_waits_for_it(void **state)
{
    struct api_fixture *f = *state;
    static const char head[] =
        "POST /v1/migrations HTTP/1.1\r\n" JSON "Content-Length: 19\r\n"
        "Expect: 100-continue\r\n\r\n";
    static const char expected[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char got[sizeof(expected)] = "";
    int fd = api_fixture_dial(f);

    api_fixture_send_text(fd, head, strlen(head));
    assert_int_equal(recv(fd, got, strlen(expected), MSG_WAITALL),
                     strlen(expected));
    assert_string_equal(got, expected);
    api_fixture_send_text(fd, "{\"vm\":\"v\",\"to\":\"h\"}", 19);
    api_fixture_receive(f, fd, 1);
    close(fd);
    assert_int_equal(api_fixture_get_status(f), 200);
}

static void clients_that_go_away_harm_nobody(void **state)
{
    struct api_fixture *f = *state;
    static const char half[] = "POST /v1/migrations HTTP/1.1\r\n" JSON
                               "Content-Length: 19\r\n\r\n{\"vm\"";
    static const char whole[] = "GET /v1/migrations HTTP/1.1\r\n" HOST "\r\n";

    f->body_bytes = 200 * 1024; /* more than the socket's buffer */
    for (size_t size = 0; size < strlen(half); size += 7) {
        int fd = api_fixture_dial(f);
        api_fixture_send_text(fd, half, size);
        close(fd);
        fd = api_fixture_dial(f);
        api_fixture_send_text(fd, whole, strlen(whole));
        close(fd);
    }
    f->calls = 0;
    assert_int_equal(api_fixture_get(f, "/v1/host"), 200);
}

static void two_hundred_clients_are_served_at_once(void **state)
{
    struct api_fixture *f = *state;
    static const char request[] = "GET /v1/host HTTP/1.1\r\n" HOST "\r\n";
    int fds[200];

    for (size_t i = 0; i < 200; i++) {
        fds[i] = api_fixture_dial(f);
        api_fixture_send_text(fds[i], request, 20);
    }
    for (size_t i = 0; i < 200; i++) {
        api_fixture_send_text(fds[i], request + 20, strlen(request) - 20);
    }
    for (size_t i = 0; i < 200; i++) {
        api_fixture_receive(f, fds[i], 1);
        assert_int_equal(api_fixture_get_status(f), 200);
    }
    for (size_t i = 0; i < 200; i++) {
        close(fds[i]);
    }
    assert_int_equal(f->calls, 200);
}

static void clients_above_the_limit_wait_for_others_to_end(void **state)
{
    struct api_fixture *f =
        *state; /* four at once, each idle for 0.4 s at most */
    static const char request[] = "GET /v1/host HTTP/1.1\r\n" HOST "\r\n";
    int fds[10];
    mp_time begin = clock_now();

    for (size_t i = 0; i < 10; i++) {
        fds[i] = api_fixture_dial(f);
        api_fixture_send_text(fds[i], request, strlen(request));
    }
    for (size_t i = 0; i < 10; i++) {
        api_fixture_receive(f, fds[i], 1);
        assert_int_equal(api_fixture_get_status(f), 200);
    }
    /* the fifth had to wait for the timeout of the first, the ninth again */
    assert_true(clock_now() - begin >= 700 * MP_MS);
    for (size_t i = 0; i < 10; i++) {
        close(fds[i]);
    }
    assert_int_equal(f->calls, 10);
}

/* ---- time ---- */

static void a_slow_request_is_ended_as_a_whole(void **state)
{
    struct api_fixture *f = *state; /* 0.4 s */
    static const char request[] = "GET /v1/migrations HTTP/1.1\r\n" HOST;
    int fd = api_fixture_dial(f);
    mp_time begin = clock_now();
    struct pollfd p = {.fd = fd, .events = POLLIN};

    /* a byte every 50 ms, so that only a timeout for the whole can end it */
    for (size_t i = 0; i < strlen(request) && poll(&p, 1, 50) == 0; i++) {
        send(fd, request + i, 1, MSG_NOSIGNAL);
    }
    api_fixture_receive(f, fd, 0);
    close(fd);
    assert_int_equal(api_fixture_get_status(f), 408);
    api_fixture_assert_has(
        f, "{\"error\":{\"class\":\"timeout\",\"message\":\"the "
           "request is not complete after client-timeout (0.4 "
           "s)\",\"side\":\"local\"}}\n");
    assert_true(clock_now() - begin >= 390 * MP_MS);
    assert_int_equal(f->calls, 0);
}

static void a_late_body_is_ended(void **state)
{
    struct api_fixture *f = *state;
    static const char request[] = "POST /v1/migrations HTTP/1.1\r\n" JSON
                                  "Content-Length: 19\r\n\r\n{\"vm\":\"v\"";
    int fd = api_fixture_dial(f);

    api_fixture_send_text(fd, request, strlen(request));
    api_fixture_receive(f, fd, 0);
    close(fd);
    assert_int_equal(api_fixture_get_status(f), 408);
    assert_int_equal(f->calls, 0);
}

static void an_idle_connection_is_closed_without_a_word(void **state)
{
    struct api_fixture *f = *state;
    static const char request[] = "GET /v1/host HTTP/1.1\r\n" HOST "\r\n";
    int fresh = api_fixture_dial(f);
    int used = api_fixture_dial(f);

    api_fixture_send_text(used, request, strlen(request));
    api_fixture_receive(f, used, 1);
    assert_true(api_fixture_is_closed(fresh));
    assert_true(api_fixture_is_closed(used));
    close(fresh);
    close(used);
}

static void a_client_that_takes_no_answer_is_dropped(void **state)
{
    struct api_fixture *f = *state;
    static const char request[] = "GET /v1/migrations HTTP/1.1\r\n" HOST "\r\n";
    int fd = api_fixture_dial(f);
    struct pollfd p = {.fd = fd};

    f->body_bytes = 8 * 1024 * 1024;
    api_fixture_send_text(fd, request, strlen(request));
    assert_int_equal(poll(&p, 1, TEST_TIMEOUT / MP_MS), 1); /* hung up */
    assert_true(p.revents & POLLHUP);
    assert_true(api_fixture_receive(f, fd, 0) < 8 * 1024 * 1024);
    close(fd);
}

static void a_client_that_sends_on_after_an_error_is_dropped(void **state)
{
    struct api_fixture *f = *state;
    static char rest[64 * 1024];
    int fd = api_fixture_dial(f);
    size_t sent = 0;
    ssize_t n;

    api_fixture_send_text(fd, "garbage\r\n\r\n", 11);
    while (sent < 64 << 20 &&
           (n = send(fd, rest, sizeof(rest), MSG_NOSIGNAL)) > 0) {
        sent += (size_t)n;
    }
    assert_true(sent < 4 << 20);
    close(fd);
}

/* ---- the socket ---- */

static void the_socket_has_the_mode_asked_for(void **state)
{
    struct api_fixture *f = *state;
    struct stat st;

    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_true(S_ISSOCK(st.st_mode));
}

static void a_second_daemon_on_the_socket_is_refused(void **state)
{
    struct api_fixture *f = *state;
    struct error err = ERROR_INIT;
    struct loop *loop = loop_new("second", &err);
    struct api_params params = {.loop = loop,
                                .socket_path = f->path,
                                .socket_mode = 0600,
                                .socket_group = (gid_t)-1};

    assert_non_null(loop);
    assert_null(api_new(&params, &api_fixture_ops, f, &err));
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_ptr_equal(strstr(err.text, "opening the API: "), err.text);
    loop_free(loop);
    assert_int_equal(api_fixture_get(f, "/v1/host"),
                     200); /* the first goes on */
}

static void open_connections_end_with_the_api(void **state)
{
    struct api_fixture *f = *state;
    /* api_fixture_stop() looks at descriptors and leaks */
    int idle = api_fixture_dial(f);
    int half = api_fixture_dial(f);

    api_fixture_send_text(half, "GET /", 5);
    assert_int_equal(api_fixture_get(f, "/v1/host"), 200);
    api_fixture_end_api(f);
    assert_true(api_fixture_is_closed(idle));
    assert_true(api_fixture_is_closed(half));
    close(idle);
    close(half);
}

#define TEST(name, setup)                                                      \
    cmocka_unit_test_setup_teardown(name, setup, api_fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_connection_serves_many_requests, api_fixture_start),
        TEST(requests_may_be_sent_ahead, api_fixture_start),
        TEST(a_request_may_come_byte_by_byte, api_fixture_start),
        TEST(http_1_0_is_answered_and_closed, api_fixture_start),
        TEST(a_client_may_shut_its_end_after_the_request, api_fixture_start),
        TEST(continue_is_sent_to_who_waits_for_it, api_fixture_start),
        TEST(clients_that_go_away_harm_nobody, api_fixture_start),
        TEST(two_hundred_clients_are_served_at_once, api_fixture_start),
        TEST(clients_above_the_limit_wait_for_others_to_end,
             api_fixture_start_narrow),
        TEST(a_slow_request_is_ended_as_a_whole, api_fixture_start_hasty),
        TEST(a_late_body_is_ended, api_fixture_start_hasty),
        TEST(an_idle_connection_is_closed_without_a_word,
             api_fixture_start_hasty),
        TEST(a_client_that_takes_no_answer_is_dropped, api_fixture_start_hasty),
        TEST(a_client_that_sends_on_after_an_error_is_dropped,
             api_fixture_start),
        TEST(the_socket_has_the_mode_asked_for, api_fixture_start),
        TEST(a_second_daemon_on_the_socket_is_refused, api_fixture_start),
        TEST(open_connections_end_with_the_api, api_fixture_start),
    };

    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("api-conn", tests, NULL, NULL);
}
