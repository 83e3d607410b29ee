// SPDX-License-Identifier: BSD-3-Clause
/* What the API reads and writes: heads of requests, JSON, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "proxy/api-http.h"
#include "proxy/api-json.h"
#include "proxy/api-reply.h"
#include "proxy/api-route.h"

#define BODY_MAX 1000

/* ---- heads ---- */

static int parse_head(const char *text, size_t size, struct api_http_head *head,
                      int *status, struct error *err)
{
    /* exactly sized, so that a sanitizer sees each byte too far */
    char *bytes = malloc(size ? size : 1);
    assert_non_null(bytes);
    memcpy(bytes, text, size);
    int n = api_http_parse(bytes, size, BODY_MAX, head, status, err);
    free(bytes);
    return n;
}

static void assert_head_fails(const char *text, int status, const char *message)
{
    struct api_http_head head;
    struct error err = ERROR_INIT;
    int got = 0;

    assert_int_equal(parse_head(text, strlen(text), &head, &got, &err), -1);
    assert_string_equal(err.text, message);
    assert_int_equal(got, status);
}

static void a_head_is_read_once_it_is_whole(void **state)
{
    static const char text[] =
        "POST /v1/migrations HTTP/1.1\r\nhost: localhost\r\n"
        "Content-LENGTH:  12 \r\nContent-Type: Application/JSON; charset=x\r\n"
        "Expect: 100-continue\r\nX-Empty:\r\n\r\n{\"a\": 1}....";
    size_t whole = strlen(text) - 12;
    struct api_http_head head = {.size = 0};
    struct error err = ERROR_INIT;
    int status = 0;

    for (size_t size = 0; size < whole; size++) {
        assert_int_equal(parse_head(text, size, &head, &status, &err), 0);
    }
    for (size_t size = whole; size <= strlen(text); size++) {
        assert_int_equal(parse_head(text, size, &head, &status, &err), 1);
        assert_int_equal(head.size, whole);
    }
    assert_int_equal(head.method, API_HTTP_POST);
    assert_string_equal(head.method_name, "POST");
    assert_string_equal(head.target, "/v1/migrations");
    assert_int_equal(head.body_bytes, 12);
    assert_true(head.keep_alive && head.expects_continue);
    assert_true(head.has_type && head.is_json);
}

static void a_connection_is_kept_as_http_says(void **state)
{
    static const struct {
        const char *text;
        bool keep_alive;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct api_http_head head = {.size = 0};
        int status = 0;
        assert_int_equal(parse_head(rows[i].text, strlen(rows[i].text), &head,
                                    &status, NULL),
                         1);
        assert_int_equal(head.keep_alive, rows[i].keep_alive);
    }
}

static void other_methods_have_their_name(void **state)
{
    static const char text[] =
        "PROPFINDPROPFINDPROPFIND /x HTTP/1.1\r\nHost: a\r\n\r\n";
    struct api_http_head head = {.size = 0};
    int status = 0;

    assert_int_equal(parse_head(text, strlen(text), &head, &status, NULL), 1);
    assert_int_equal(head.method, API_HTTP_OTHER);
    assert_string_equal(head.method_name, "PROPFINDPROPFIN");
}

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

static void malformed_heads_are_refused(void **state)
{
    static const char not_http[] = "the request line is not HTTP";
    static const char not_crlf[] = "a header line does not end in CR LF";
    static const char not_header[] = "a header line is not NAME: VALUE";
    static const char not_number[] = "Content-Length is not a number";

    assert_head_fails("\r\n", 400, not_http);
    assert_head_fails("garbage\r\n\r\n", 400, "the request line names no path");
    assert_head_fails("G@T / HTTP/1.1\r\n\r\n", 400, not_http);
    assert_head_fails("GET  / HTTP/1.1\r\n\r\n", 400,
                      "the request line names no path");
    assert_head_fails("GET http://a/ HTTP/1.1\r\n\r\n", 400,
                      "the request line names no path");
    assert_head_fails("GET /\x01 HTTP/1.1\r\n\r\n", 400,
                      "the path has a forbidden character");
    assert_head_fails("GET /\xc3\xa4 HTTP/1.1\r\n\r\n", 400,
                      "the path has a forbidden character");
    assert_head_fails("GET /\r\n\r\n", 400, not_http);
    assert_head_fails("GET / HTTP/1.1 \r\n\r\n", 400, not_http);
    assert_head_fails("GET / HTTP/2.0\r\n\r\n", 505,
                      "only HTTP/1.1 and HTTP/1.0 are spoken here");
    assert_head_fails("GET / HTTP/1.1\n", 400, not_crlf);
    assert_head_fails("\n", 400, not_crlf);
    assert_head_fails(GET HOST "\n", 400, not_crlf);
    assert_head_fails(GET "Host : a\r\n\r\n", 400, not_header);
    assert_head_fails(GET " folded: a\r\n\r\n", 400, not_header);
    assert_head_fails(GET "Host\r\n\r\n", 400, not_header);
    assert_head_fails(GET ": a\r\n\r\n", 400, not_header);
    assert_head_fails(GET "\r\n", 400, "the header Host is missing");
    assert_head_fails(GET HOST HOST "\r\n", 400, "Host is given twice");
    assert_head_fails(GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
                      400, "Content-Length is given twice");
    assert_head_fails(GET HOST "Content-Length:\r\n\r\n", 400, not_number);
    assert_head_fails(GET HOST "Content-Length: -1\r\n\r\n", 400, not_number);
    assert_head_fails(GET HOST "Content-Length: +1\r\n\r\n", 400, not_number);
    assert_head_fails(GET HOST "Content-Length: 1, 1\r\n\r\n", 400, not_number);
    assert_head_fails(GET HOST "Content-Length: 99999999999999999999\r\n\r\n",
                      400, not_number);
    assert_head_fails(GET HOST "Content-Length: 1001\r\n\r\n", 413,
                      "the body has 1001 bytes, the limit is 1000");
    assert_head_fails(GET HOST "Content-Type: a\r\nContent-Type: a\r\n\r\n",
                      400, "Content-Type is given twice");
    assert_head_fails(GET HOST "Transfer-Encoding: chunked\r\n\r\n", 411,
                      "Transfer-Encoding is not taken, send Content-Length");
    assert_head_fails(GET HOST "Expect: wonders\r\n\r\n", 417,
                      "only Expect: 100-continue is understood");
}

static void a_nul_in_the_head_is_refused(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nX: \0\r\n\r\n";
    struct api_http_head head;
    int status = 0;

    assert_int_equal(parse_head(text, sizeof(text) - 1, &head, &status, NULL),
                     -1);
    assert_int_equal(status, 400);
}

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

static void heads_are_limited(void **state)
{
    struct api_http_head head = {.size = 0};
    int status = 0;
    char *text = make_text("GET /", "a", API_HTTP_TARGET_MAX - 1,
                           " HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(parse_head(text, strlen(text), &head, &status, NULL), 1);
    assert_int_equal(strlen(head.target), API_HTTP_TARGET_MAX);
    free(text);

    text = make_text("GET /", "a", API_HTTP_TARGET_MAX,
                     " HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_head_fails(text, 414, "the path is longer than 1024 bytes");
    free(text);

    text = make_text(GET HOST, "X: y\r\n", API_HTTP_HEADERS_MAX - 1, "\r\n");
    assert_int_equal(parse_head(text, strlen(text), &head, &status, NULL), 1);
    free(text);

    text = make_text(GET HOST, "X: y\r\n", API_HTTP_HEADERS_MAX, "\r\n");
    assert_head_fails(text, 431, "there are more than 64 headers");
    free(text);

    text = make_text(GET HOST "X: ", "y", API_HTTP_HEAD_MAX, "\r\n\r\n");
    assert_head_fails(text, 431, "the headers are longer than 16384 bytes");
    assert_int_equal(
        parse_head(text, API_HTTP_HEAD_MAX - 1, &head, &status, NULL), 0);
    free(text);
}

static void each_status_in_use_has_a_reason(void **state)
{
    for (int code = 0; code < ERROR_CODES; code++) {
        int status = error_http_status((enum error_code)code);
        assert_string_not_equal(api_http_reason(status), "Unknown");
    }
    assert_string_equal(api_http_reason(404), "Not Found");
    assert_string_equal(api_http_reason(299), "Unknown");
}

/* ---- routes ---- */

static void routes_are_found_by_method_and_path(void **state)
{
    char id[ID_MAX + 1];
    const char *allow;
    const struct api_route *route;

    route = api_route_find(API_HTTP_GET, "/v1/migrations/a.b-C_9", id, &allow,
                           NULL);
    assert_non_null(route);
    assert_int_equal(route->action, API_ACTION_SHOW);
    assert_string_equal(id, "a.b-C_9");
    route = api_route_find(API_HTTP_POST, "/v1/migrations/cancel/cancel", id,
                           &allow, NULL);
    assert_non_null(route);
    assert_int_equal(route->action, API_ACTION_CANCEL);
    assert_string_equal(id, "cancel");
    route = api_route_find(API_HTTP_POST, "/v1/migrations", id, &allow, NULL);
    assert_non_null(route);
    assert_int_equal(route->action, API_ACTION_MIGRATE);
    assert_string_equal(id, "");
}

static void assert_no_route(enum api_http_method method, const char *target,
                            enum error_code code, const char *allow)
{
    char id[ID_MAX + 1];
    const char *got;
    struct error err = ERROR_INIT;

    assert_null(api_route_find(method, target, id, &got, &err));
    assert_int_equal(err.code, code);
    if (allow) {
        assert_string_equal(got, allow);
    } else {
        assert_null(got);
    }
}

static void what_is_no_route_is_refused(void **state)
{
    char long_id[100] = "/v1/migrations/";

    memset(long_id + 15, 'a', ID_MAX + 1);
    assert_no_route(API_HTTP_GET, "/", ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_GET, "/v1/migrations/", ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_GET, "/v1/migrations/..", ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_GET, "/v1/migrations/a%2e", ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_GET, "/v1/migrations/a/b", ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_GET, "/v1/migrations?x=1", ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_GET, long_id, ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_OTHER, "/v1/nothing", ERR_NOT_FOUND, NULL);
    assert_no_route(API_HTTP_OTHER, "/v1/migrations", ERR_UNSUPPORTED,
                    "GET, POST");
    assert_no_route(API_HTTP_POST, "/v1/peers", ERR_UNSUPPORTED, "GET");
    assert_no_route(API_HTTP_GET, "/v1/migrations/a/cancel", ERR_UNSUPPORTED,
                    "POST");
}

/* ---- JSON ---- */

static void assert_json_fails(const char *text, size_t size,
                              const char *message)
{
    struct json_object *object = NULL;
    struct error err = ERROR_INIT;
    char *bytes = malloc(size ? size : 1);

    assert_non_null(bytes);
    memcpy(bytes, text, size);
    assert_int_equal(api_json_parse(bytes, size, &object, &err), -1);
    assert_int_equal(err.code, ERR_BAD_REQUEST);
    assert_string_equal(err.text, message);
    assert_null(object);
    free(bytes);
}

#define JSON_FAILS(text, message)                                              \
    assert_json_fails(text, sizeof(text) - 1, message)

static void what_is_no_json_is_refused(void **state)
{
    JSON_FAILS("", "the body is not a JSON object");
    JSON_FAILS(" \n", "the body is not a JSON object");
    JSON_FAILS("[1]", "the body is not a JSON object");
    JSON_FAILS("null", "the body is not a JSON object");
    JSON_FAILS("{\"a\"", "the body is not JSON: it ends in the middle");
    JSON_FAILS("{} x", "the body is not JSON: unexpected character at byte 3");
    JSON_FAILS("{}\0", "the body is not JSON: more behind the value at byte 2");
    JSON_FAILS("{\"a\":1,}",
               "the body is not JSON: unexpected character at byte 7");
    JSON_FAILS("{\"a\":01}", "the body is not JSON: number expected at byte 7");
    JSON_FAILS("{\"a\":\"\xff\"}",
               "the body is not JSON: invalid utf-8 string at byte 6");
    JSON_FAILS("{/**/}", "the body is not JSON: quoted object property name "
                         "expected at byte 1");
    JSON_FAILS("{\"a\":NaN}",
               "the body is not JSON: unexpected \"N\" at byte 5");
    JSON_FAILS("{\"a\":-Infinity}",
               "the body is not JSON: unexpected \"I\" at byte 6");
    JSON_FAILS("{'a\"':1}", "the body is not JSON: unexpected \"'\" at byte 1");
    JSON_FAILS("{\"a\":\"x\ny\"}",
               "the body is not JSON: control character at byte 7");
    JSON_FAILS("{\"a\\u0000b\":1}", "the body has a NUL in a name at byte 1");
}

static void a_member_given_twice_is_refused(void **state)
{
    JSON_FAILS("{\"a\":1,\"a\":1}",
               "the body has member \"a\" twice, again at byte 7");
    JSON_FAILS("{\"a\" : 1, \"\\u0061\"\t: 2}",
               "the body has member \"a\" twice, again at byte 10");
    JSON_FAILS("{\"x\":[{\"b\":1,\"c\":2,\"b\":3}]}",
               "the body has member \"b\" twice, again at byte 19");
}

static void depth_is_limited(void **state)
{
    struct json_object *object = NULL;
    static const char deep[] = "{\"a\":[[[[[[[1]]]]]]]}";

    assert_int_equal(api_json_parse(deep, strlen(deep), &object, NULL), 0);
    json_object_put(object);
    JSON_FAILS("{\"a\":[[[[[[[[1]]]]]]]]}",
               "the body is nested deeper than 8 at byte 13");
}

static void the_same_name_may_stand_in_two_objects(void **state)
{
    struct json_object *object = NULL;
    static const char text[] =
        " {\"a\":{\"a\":\"a\"},\"b\":[{\"a\":\"}\\\"{\"},{\"a\":\"\"}]} \r\n";

    assert_int_equal(api_json_parse(text, strlen(text), &object, NULL), 0);
    assert_int_equal(json_object_object_length(object), 2);
    json_object_put(object);
}

/* ---- replies ---- */

static void assert_message(const char *text, const char *expected)
{
    struct api_reply reply = {0};
    struct error err = {.code = ERR_QMP};

    snprintf(err.text, sizeof(err.text), "%s", text);
    api_reply_set_error(&reply, 0, "local", &err);
    assert_int_equal(reply.status, 502);
    assert_string_equal(reply.body, expected);
    api_reply_done(&reply);
}

static void messages_are_made_valid_utf8(void **state)
{
    assert_message("a \"b\" /c",
                   "{\"error\":{\"class\":\"qmp\",\"message\":\"a "
                   "\\\"b\\\" /c\",\"side\":\"local\"}}\n");
    assert_message("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                   "{\"error\":{\"class\":\"qmp\",\"message\":\""
                   "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"
                   "\",\"side\":\"local\"}}\n");
    /* a stray byte, overlong forms, a surrogate, too large, cut, control */
    assert_message("\x80_\xc0\xaf_\xe0\x80\xaf_\xed\xa0\x80_\xf4\x90\x80\x80_"
                   "\xe2\x82_\x1b\x7f",
                   "{\"error\":{\"class\":\"qmp\",\"message\":\""
                   "?_??_???_???_????_??_??"
                   "\",\"side\":\"local\"}}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_read_once_it_is_whole),
        cmocka_unit_test(a_connection_is_kept_as_http_says),
        cmocka_unit_test(other_methods_have_their_name),
        cmocka_unit_test(malformed_heads_are_refused),
        cmocka_unit_test(a_nul_in_the_head_is_refused),
        cmocka_unit_test(heads_are_limited),
        cmocka_unit_test(each_status_in_use_has_a_reason),
        cmocka_unit_test(routes_are_found_by_method_and_path),
        cmocka_unit_test(what_is_no_route_is_refused),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(a_member_given_twice_is_refused),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(the_same_name_may_stand_in_two_objects),
        cmocka_unit_test(messages_are_made_valid_utf8),
    };
    return cmocka_run_group_tests_name("api-parse", tests, NULL, NULL);
}
