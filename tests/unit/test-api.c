// SPDX-License-Identifier: BSD-3-Clause
/* Requests to the API over its socket, and their answers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/api-fixture.h"
#include "util/log.h"

/* ---- requests and answers ---- */

/* The one answer that is no JSON: its end is the connection's. */
static int get_metrics(struct api_fixture *f)
{
    static const char request[] =
        "GET /metrics HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    int fd = api_fixture_dial(f);

    api_fixture_send_text(fd, request, strlen(request));
    api_fixture_receive(f, fd, 0);
    close(fd);
    return api_fixture_get_status(f);
}

static void each_path_reaches_its_op(void **state)
{
    struct api_fixture *f = *state;

    assert_int_equal(api_fixture_get(f, "/v1/migrations"), 200);
    assert_string_equal(f->called, "list");
    api_fixture_assert_has(f, "\r\n\r\n{\"op\":\"list\"}\n");
    api_fixture_assert_has(f, "Content-Type: application/json\r\n");
    assert_int_equal(api_fixture_get(f, "/v1/migrations/a.B-9_"), 200);
    assert_string_equal(f->called, "show");
    assert_string_equal(f->id, "a.B-9_");
    assert_int_equal(api_fixture_post(f, "/v1/migrations/x1/cancel", ""), 200);
    assert_string_equal(f->called, "cancel");
    assert_string_equal(f->id, "x1");
    assert_int_equal(api_fixture_post(f, "/v1/migrations/x2/postcopy", "{}"),
                     200);
    assert_string_equal(f->called, "postcopy");
    assert_string_equal(f->id, "x2");
    assert_int_equal(api_fixture_send(f, "PATCH", "/v1/migrations/x3",
                                      "{\"max_downtime_ms\":7}"),
                     200);
    assert_string_equal(f->called, "set");
    assert_string_equal(f->id, "x3");
    assert_int_equal(f->limits.max_downtime_ms, 7);
    assert_int_equal(api_fixture_post(f, "/v1/migrations/x5/close",
                                      "{\"note\":\"by hand\"}"),
                     200);
    assert_string_equal(f->called, "close");
    assert_string_equal(f->id, "x5");
    assert_string_equal(f->close.note, "by hand");
    assert_int_equal(api_fixture_post(f, "/v1/migrations/x5/close", ""), 200);
    assert_string_equal(f->close.note, "");
    assert_int_equal(
        api_fixture_post(f, "/v1/incoming", "{\"vm\":\"v\",\"qmp\":\"/q\"}"),
        201);
    assert_string_equal(f->called, "add_incoming");
    assert_string_equal(f->incoming.qmp_path, "/q");
    assert_int_equal(api_fixture_get(f, "/v1/incoming"), 200);
    assert_string_equal(f->called, "list_incoming");
    assert_int_equal(api_fixture_send(f, "DELETE", "/v1/incoming/i4", ""), 200);
    assert_string_equal(f->called, "remove_incoming");
    assert_string_equal(f->id, "i4");
    assert_int_equal(api_fixture_get(f, "/v1/peers"), 200);
    assert_string_equal(f->called, "peers");
    assert_int_equal(api_fixture_get(f, "/v1/host"), 200);
    assert_string_equal(f->called, "host");
    assert_int_equal(get_metrics(f), 200);
    api_fixture_assert_has(f, "Content-Type: text/plain; version=0.0.4; "
                              "charset=utf-8\r\n");
    api_fixture_assert_has(f, "\r\n\r\nmetric{x=\"1\"} 2\n");
    f->fail_with = ERR_IO;
    assert_int_equal(get_metrics(f), 500);
    api_fixture_assert_has(f, "\"no metrics today\"");
    f->fail_with = ERR_NONE;
    assert_int_equal(f->calls, 14);
}

static void a_migration_is_made(void **state)
{
    struct api_fixture *f = *state;

    f->created = true;
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations",
                         "{\"id\":\"mine\",\"vm\":\"v\",\"to\":\"h\"}"),
        201);
    api_fixture_assert_has(f, "HTTP/1.1 201 Created\r\n");
    api_fixture_assert_has(f, "Location: /v1/migrations/mine\r\n");
    assert_string_equal(f->migrate.id, "mine");
    assert_string_equal(f->migrate.vm, "v");
    assert_string_equal(f->migrate.peer, "h");
    f->created = false;
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations",
                         "{\"id\":\"mine\",\"vm\":\"v\",\"to\":\"h\"}"),
        200);
    assert_null(strstr(f->answer, "Location"));
}

static void an_id_is_made_where_none_is_given(void **state)
{
    struct api_fixture *f = *state;
    char location[120];

    f->created = true;
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations", "{\"vm\":\"v\",\"to\":\"h\"}"),
        201);
    assert_int_equal(strlen(f->migrate.id), 13);
    snprintf(location, sizeof(location), "Location: /v1/migrations/%s\r\n",
             f->migrate.id);
    api_fixture_assert_has(f, location);
}

static void each_error_class_has_its_status(void **state)
{
    struct api_fixture *f = *state;
    char expected[200];

    for (int code = ERR_NONE + 1; code < ERROR_CODES; code++) {
        f->fail_with = (enum error_code)code;
        assert_int_equal(api_fixture_get(f, "/v1/host"),
                         error_http_status(f->fail_with));
        snprintf(expected, sizeof(expected),
                 "\r\n\r\n{\"error\":{\"class\":\"%s\",\"message\":\"no host "
                 "today\",\"side\":\"local\"}}\n",
                 error_class(f->fail_with));
        api_fixture_assert_has(f, expected);
    }
}

static void a_conflict_is_told_from_the_source(void **state)
{
    struct api_fixture *f = *state;

    f->fail_with = ERR_CONFLICT;
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations", "{\"vm\":\"v\",\"to\":\"h\"}"),
        409);
    api_fixture_assert_has(
        f, "{\"error\":{\"class\":\"conflict\",\"message\":\"no "
           "migrate today\",\"side\":\"source\"}}\n");
}

static void bad_bodies_do_not_reach_the_daemon(void **state)
{
    struct api_fixture *f = *state;

    assert_int_equal(api_fixture_post(f, "/v1/migrations", ""), 400);
    assert_int_equal(api_fixture_post(f, "/v1/migrations", "{"), 400);
    api_fixture_assert_has(f, "the body is not JSON: it ends in the middle");
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations", "{\"vm\":NaN,\"to\":\"h\"}"),
        400);
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations",
                         "{\"vm\":\"v\",\"vm\":\"w\",\"to\":\"h\"}"),
        400);
    api_fixture_assert_has(f, "member \\\"vm\\\" twice");
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations",
                         "{\"vm\":\"v\",\"to\":\"h\",\"speed\":1}"),
        400);
    api_fixture_assert_has(f,
                           "{\"error\":{\"class\":\"bad-request\",\"message\":"
                           "\"unknown member \\\"speed\\\" in POST "
                           "/v1/migrations; known are id, vm,");
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations",
                         "{\"vm\":\"v\",\"to\":\"h\",\"qmp\":\"/a/../b\"}"),
        422);
    api_fixture_assert_has(f, "\"path-refused\"");
    assert_int_equal(
        api_fixture_post(f, "/v1/migrations/a/cancel", "{\"force\":true}"),
        400);
    api_fixture_assert_has(f, "unknown member \\\"force\\\" in "
                              "/v1/migrations/{id}/cancel, which takes none");
    assert_int_equal(f->calls, 0);
}

static void the_content_type_is_checked(void **state)
{
    struct api_fixture *f = *state;
    static const char body[] = "{\"vm\":\"v\",\"to\":\"h\"}";
    static const char *const types[] = {
        "", "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/jsonp\r\n"};
    char request[400];

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        snprintf(request, sizeof(request),
                 "POST /v1/migrations HTTP/1.1\r\n" HOST
                 "%sContent-Length: %zu\r\n\r\n%s",
                 types[i], strlen(body), body);
        assert_int_equal(api_fixture_ask(f, request), 415);
        api_fixture_assert_has(f, "Content-Type: application/json\"");
    }
    assert_int_equal(f->calls, 0);
}

static void wrong_paths_and_methods_have_their_status(void **state)
{
    struct api_fixture *f = *state;

    assert_int_equal(api_fixture_get(f, "/"), 404);
    api_fixture_assert_has(f,
                           "{\"error\":{\"class\":\"not-found\",\"message\":"
                           "\"there is nothing at /\",\"side\":\"local\"}}\n");
    assert_int_equal(api_fixture_get(f, "/v1/migrations/a/cancel"), 405);
    api_fixture_assert_has(f, "Allow: POST\r\n");
    assert_int_equal(api_fixture_post(f, "/v1/peers", "{}"), 405);
    api_fixture_assert_has(f, "Allow: GET\r\n");
    api_fixture_assert_has(f, "\"unsupported\"");
    assert_int_equal(
        api_fixture_ask(f, "DELETE /v1/migrations HTTP/1.1\r\n" HOST "\r\n"),
        405);
    api_fixture_assert_has(f, "Allow: GET, POST\r\n");
    assert_int_equal(
        api_fixture_ask(f, "BREW /v1/pot HTTP/1.1\r\n" HOST "\r\n"), 404);
    assert_int_equal(f->calls, 0);
}

static void what_is_no_http_is_answered_and_closed(void **state)
{
    struct api_fixture *f = *state;
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {"garbage\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/3.0\r\n" HOST "\r\n", 505},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 411},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 65537\r\n\r\n", 413},
        {"POST / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", 417},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = api_fixture_dial(f);
        api_fixture_send_text(fd, rows[i].request, strlen(rows[i].request));
        api_fixture_receive(f, fd, 0); /* to the end: it closes */
        close(fd);
        assert_int_equal(api_fixture_get_status(f), rows[i].status);
        api_fixture_assert_has(f, "Connection: close\r\n");
        api_fixture_assert_has(f, "\r\n\r\n{\"error\":{\"class\":\"");
    }
    assert_int_equal(f->calls, 0);
}

/* ---- sizes ---- */

/* A request whose body has size bytes, all of it sent before the answer is
 * read. */
static int post_big(struct api_fixture *f, size_t size)
{
    char head[200];
    char *body = malloc(size);
    int fd = api_fixture_dial(f);

    assert_non_null(body);
    memset(body, ' ', size);
    memcpy(body, "{\"vm\":\"v\",\"to\":\"h\"}", 19);
    snprintf(head, sizeof(head),
             "POST /v1/migrations HTTP/1.1\r\n" JSON
             "Content-Length: %zu\r\n\r\n",
             size);
    api_fixture_send_text(fd, head, strlen(head));
    api_fixture_send_text(fd, body, size);
    api_fixture_receive(f, fd, 1);
    close(fd);
    free(body);
    return api_fixture_get_status(f);
}

static void bodies_are_limited(void **state)
{
    struct api_fixture *f = *state;

    assert_int_equal(post_big(f, API_BODY_MAX), 200);
    assert_int_equal(f->calls, 1);
    assert_int_equal(post_big(f, API_BODY_MAX + 1), 413);
    api_fixture_assert_has(f, "the body has 65537 bytes, the limit is 65536");
    /* the answer reaches a client that is still sending */
    assert_int_equal(post_big(f, 1000 * 1000), 413);
    assert_int_equal(f->calls, 1);
}

static void headers_and_paths_are_limited(void **state)
{
    struct api_fixture *f = *state;
    char *request = malloc(40000);

    assert_non_null(request);
    memset(request, 'a', 39000);
    memcpy(request, "GET / HTTP/1.1\r\nX: ", 19);
    strcpy(request + 39000, "\r\n\r\n");
    assert_int_equal(api_fixture_ask(f, request), 431);
    api_fixture_assert_has(f, "16384 bytes");
    memcpy(request, "GET /aaaaaaaaaaaaaaaaa", 19);
    strcpy(request + 2000, " HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(api_fixture_ask(f, request), 414);
    api_fixture_assert_has(f, "1024 bytes");
    free(request);
}

static void a_big_answer_arrives_whole(void **state)
{
    struct api_fixture *f = *state;
    char length[64];

    f->body_bytes = 200 * 1024;
    assert_int_equal(api_fixture_get(f, "/v1/migrations"), 200);
    snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
             f->body_bytes + strlen("{\"op\":\"list\",\"pad\":\"\"}\n"));
    api_fixture_assert_has(f, length);
    assert_int_equal(strspn(strstr(f->answer, "xxx"), "x"), f->body_bytes);
}

#define TEST(name, setup)                                                      \
    cmocka_unit_test_setup_teardown(name, setup, api_fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_path_reaches_its_op, api_fixture_start),
        TEST(a_migration_is_made, api_fixture_start),
        TEST(an_id_is_made_where_none_is_given, api_fixture_start),
        TEST(each_error_class_has_its_status, api_fixture_start),
        TEST(a_conflict_is_told_from_the_source, api_fixture_start),
        TEST(bad_bodies_do_not_reach_the_daemon, api_fixture_start),
        TEST(the_content_type_is_checked, api_fixture_start),
        TEST(wrong_paths_and_methods_have_their_status, api_fixture_start),
        TEST(what_is_no_http_is_answered_and_closed, api_fixture_start),
        TEST(bodies_are_limited, api_fixture_start),
        TEST(headers_and_paths_are_limited, api_fixture_start),
        TEST(a_big_answer_arrives_whole, api_fixture_start),
    };

    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
