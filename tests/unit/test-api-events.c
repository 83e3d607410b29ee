// SPDX-License-Identifier: BSD-3-Clause
/* Events: what is kept, what a follower gets, how one that does not read ends.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <json-c/json.h>

#include "proxy/api-events.h"
#include "proxy/api-server.h"
#include "tests/unit/api-fixture.h"
#include "util/log.h"

/* ---- the ring ---- */

static void assert_replay(const struct api_events *events, uint64_t after,
                          const char *expected)
{
    char *text = api_events_replay(events, after);
    assert_string_equal(text, expected);
    free(text);
}

static void followers_get_what_they_have_not_seen(void **state)
{
    struct api_events *events = api_events_new(100);

    assert_int_equal(api_events_last(events), 100);
    assert_replay(events, UINT64_MAX,
                  "id: 100\nevent: hello\ndata: {\"sequence\":100}\n\n");
    assert_string_equal(api_events_add(events, "a", "{1}"),
                        "id: 101\nevent: a\ndata: {1}\n\n");
    assert_string_equal(api_events_add(events, "b", "{2}"),
                        "id: 102\nevent: b\ndata: {2}\n\n");
    assert_replay(events, UINT64_MAX,
                  "id: 102\nevent: hello\ndata: {\"sequence\":102}\n\n");
    assert_replay(events, 102,
                  "id: 102\nevent: hello\ndata: {\"sequence\":102}\n\n");
    assert_replay(events, 101,
                  "id: 101\nevent: hello\ndata: {\"sequence\":101}\n\n"
                  "id: 102\nevent: b\ndata: {2}\n\n");
    assert_replay(events, 100,
                  "id: 100\nevent: hello\ndata: {\"sequence\":100}\n\n"
                  "id: 101\nevent: a\ndata: {1}\n\n"
                  "id: 102\nevent: b\ndata: {2}\n\n");
    api_events_free(events);
}

static void what_is_missing_is_said(void **state)
{
    struct api_events *events = api_events_new(100);

    api_events_add(events, "a", "{1}");
    /* of a daemon before */
    assert_replay(events, 7,
                  "id: 100\nevent: hello\ndata: {\"sequence\":100}\n\n"
                  "event: gap\ndata: {\"after\":7,\"next\":101}\n\n"
                  "id: 101\nevent: a\ndata: {1}\n\n");
    /* of no daemon: all that there is */
    assert_replay(events, 500,
                  "id: 100\nevent: hello\ndata: {\"sequence\":100}\n\n"
                  "event: gap\ndata: {\"after\":500,\"next\":101}\n\n"
                  "id: 101\nevent: a\ndata: {1}\n\n");
    api_events_free(events);
}

static void the_oldest_are_forgotten(void **state)
{
    struct api_events *events = api_events_new(0);
    char line[64];

    for (int i = 0; i < API_EVENTS_KEPT_MAX + 5; i++) {
        assert_non_null(api_events_add(events, "e", "{}"));
    }
    char *text = api_events_replay(events, 0);
    assert_non_null(strstr(text, "event: gap\ndata: {\"after\":0,\"next\":6}"));
    assert_null(strstr(text, "id: 4\n"));
    snprintf(line, sizeof(line), "id: %d\n", API_EVENTS_KEPT_MAX + 5);
    assert_non_null(strstr(text, line));
    free(text);
    api_events_free(events);
}

static void large_ones_are_kept_within_bytes(void **state)
{
    enum { SIZE = API_EVENTS_KEPT_BYTES_MAX / 4 };
    struct api_events *events = api_events_new(0);
    char *data = malloc(2 * API_EVENTS_KEPT_BYTES_MAX + 1);

    memset(data, 'x', SIZE);
    data[SIZE] = '\0';
    for (int i = 0; i < 6; i++) {
        api_events_add(events, "e", data);
    }
    char *text = api_events_replay(events, 0);
    assert_non_null(strstr(text, "\"next\":4}")); /* 4, 5, 6 with their lines */
    assert_in_range(strlen(text), 3 * SIZE, API_EVENTS_KEPT_BYTES_MAX + 200);
    free(text);
    /* one alone is larger than all may be: it is kept */
    memset(data, 'y', (size_t)2 * API_EVENTS_KEPT_BYTES_MAX);
    data[(size_t)2 * API_EVENTS_KEPT_BYTES_MAX] = '\0';
    api_events_add(events, "e", data);
    text = api_events_replay(events, 6);
    assert_null(strstr(text, "gap"));
    assert_true(strlen(text) > (size_t)2 * API_EVENTS_KEPT_BYTES_MAX);
    free(text);
    free(data);
    api_events_free(events);
}

static void numbers_are_read_strictly(void **state)
{
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1x", "9007199254740992", "99999999999999999999"};
    struct error err = ERROR_INIT;
    uint64_t number;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(api_events_parse_sequence(bad[i], &number, &err), -1);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
    }
    assert_string_equal(err.text,
                        "\"99999999999999999999\" is not the number of an "
                        "event");
    assert_int_equal(
        api_events_parse_sequence("9007199254740991", &number, &err), 0);
    assert_int_equal(number, API_EVENTS_SEQUENCE_MAX);
}

/* ---- the stream ---- */

struct published {
    struct api *api;
    const char *type;
    size_t pad_bytes;
    bool is_passing;
};

static void publish_cb(void *arg)
{
    struct published *p = arg;
    struct json_object *object = json_object_new_object();

    if (p->pad_bytes) {
        char *pad = calloc(1, p->pad_bytes + 1);
        memset(pad, 'x', p->pad_bytes);
        json_object_object_add(object, "pad", json_object_new_string(pad));
        free(pad);
    }
    if (p->is_passing) {
        api_publish_passing(p->api, p->type, object);
    } else {
        api_publish(p->api, p->type, object);
    }
    json_object_put(object);
    free(p);
}

static void publish(struct api_fixture *f, const char *type, size_t pad_bytes,
                    bool is_passing)
{
    struct published *p = malloc(sizeof(*p));
    *p = (struct published){f->api, type, pad_bytes, is_passing};
    loop_post(f->loop, publish_cb, p);
}

static int follow(struct api_fixture *f, const char *path, const char *header)
{
    int fd = api_fixture_dial(f);
    char request[512];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HOST "%s\r\n",
             path, header);
    api_fixture_send_text(fd, request, strlen(request));
    return fd;
}

/* The number behind "id: " of the first event in the answer. */
static uint64_t first_id(const struct api_fixture *f)
{
    const char *at = strstr(f->answer, "\nid: ");
    assert_non_null(at);
    return strtoull(at + 5, NULL, 10);
}

static void events_are_told_to_followers(void **state)
{
    struct api_fixture *f = *state;
    int fd = follow(f, "/v1/events", "");
    char expected[120];

    api_fixture_receive(f, fd, 1);
    api_fixture_assert_has(f, "HTTP/1.1 200 OK\r\n");
    api_fixture_assert_has(f, "Content-Type: text/event-stream\r\n");
    assert_null(strstr(f->answer, "Content-Length"));
    uint64_t at = first_id(f);
    publish(f, "migration", 0, false);
    publish(f, "progress", 0, true);
    api_fixture_receive(f, fd, 2);
    snprintf(expected, sizeof(expected), "id: %" PRIu64 "\nevent: migration\n",
             at + 1);
    api_fixture_assert_has(f, expected);
    snprintf(expected, sizeof(expected), "\"sequence\":%" PRIu64 "}\n\n",
             at + 1);
    api_fixture_assert_has(f, expected);
    api_fixture_assert_has(f, "\n\nevent: progress\ndata: {\"at\":\"20");
    close(fd);
}

static void a_follower_goes_on_where_it_was(void **state)
{
    struct api_fixture *f = *state;
    int fd = follow(f, "/v1/events", "");
    char text[80], expected[80];

    api_fixture_receive(f, fd, 1);
    uint64_t at = first_id(f);
    publish(f, "one", 0, false);
    publish(f, "passing", 0, true);
    publish(f, "two", 0, false);
    api_fixture_receive(f, fd, 3);
    close(fd);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text),
                 i ? "Last-Event-ID: %" PRIu64 "\r\n"
                   : "/v1/events?after=%" PRIu64,
                 at + 1);
        fd = i ? follow(f, "/v1/events", text) : follow(f, text, "");
        api_fixture_receive(f, fd, 2);
        snprintf(expected, sizeof(expected), "id: %" PRIu64 "\nevent: two\n",
                 at + 2);
        api_fixture_assert_has(f, expected);
        assert_null(strstr(f->answer, "event: one"));
        assert_null(strstr(f->answer, "event: passing"));
        assert_null(strstr(f->answer, "event: gap"));
        close(fd);
    }
}

static void bad_numbers_are_refused(void **state)
{
    struct api_fixture *f = *state;

    assert_int_equal(api_fixture_get(f, "/v1/events?after=x"), 400);
    api_fixture_assert_has(f, "\\\"x\\\" is not the number of an event");
    assert_int_equal(api_fixture_get(f, "/v1/events?since=1"), 400);
    api_fixture_assert_has(f, "\\\"since=1\\\" is not after=NUMBER");
    assert_int_equal(api_fixture_ask(f, "GET /v1/events HTTP/1.1\r\n" HOST
                                        "Last-Event-ID: yesterday\r\n\r\n"),
                     400);
    assert_int_equal(api_fixture_get(f, "/v1/host?after=1"), 400);
    api_fixture_assert_has(f, "/v1/host takes no query (?after=1)");
    assert_int_equal(api_fixture_post(f, "/v1/events", ""), 405);
    api_fixture_assert_has(f, "Allow: GET\r\n");
}

static void one_that_does_not_read_is_dropped(void **state)
{
    struct api_fixture *f = *state;
    int slow = follow(f, "/v1/events", "");
    int quick = follow(f, "/v1/events", "");
    size_t got = 0;
    char *bytes = malloc(2 * API_BACKLOG_MAX);
    struct pollfd p = {.fd = slow, .events = POLLIN};

    api_fixture_receive(f, quick, 1);
    for (unsigned sent = 0; sent < 2u * API_BACKLOG_MAX; sent += 100000) {
        publish(f, "large", 100000, true);
        api_fixture_receive(f, quick, 1);
    }
    while (got < 2 * API_BACKLOG_MAX - 1) {
        ssize_t n =
            poll(&p, 1, TEST_TIMEOUT / MP_MS) == 1
                ? recv(slow, bytes + got, 2 * API_BACKLOG_MAX - 1 - got, 0)
                : -1;
        if (n <= 0) {
            assert_int_equal(n, 0);
            break;
        }
        got += (size_t)n;
    }
    bytes[got] = '\0';
    /* what was waiting, whole, then why, then nothing more */
    const char *dropped = strstr(bytes, "\n\nevent: dropped\ndata: ");
    assert_non_null(dropped);
    assert_non_null(strstr(dropped, "4194304 bytes were waiting"));
    assert_string_equal(dropped + strlen(dropped) - 3, "}\n\n");
    close(slow);
    publish(f, "still-here", 0, false);
    api_fixture_receive(f, quick, 1);
    api_fixture_assert_has(f, "event: still-here");
    close(quick);
    free(bytes);
}

static void followers_are_limited(void **state)
{
    struct api_fixture *f = *state;
    int fds[API_FOLLOWERS_MAX];

    for (int i = 0; i < API_FOLLOWERS_MAX; i++) {
        fds[i] = follow(f, "/v1/events", "");
        api_fixture_receive(f, fds[i], 1);
    }
    assert_int_equal(api_fixture_get(f, "/v1/events"), 429);
    api_fixture_assert_has(f, "64 clients follow the events, the limit");
    assert_int_equal(api_fixture_get(f, "/v1/host"), 200);
    for (int i = 0; i < API_FOLLOWERS_MAX; i++) {
        close(fds[i]);
    }
}

/* The client timeout (0.4 s here) is for requests and answers. */
static void following_has_no_deadline(void **state)
{
    struct api_fixture *f = *state;
    int fd = follow(f, "/v1/events", "");
    struct pollfd p = {.fd = fd, .events = POLLIN};

    api_fixture_receive(f, fd, 1);
    api_fixture_send_text(fd, "noise", 5);
    assert_int_equal(poll(&p, 1, 1200), 0);
    publish(f, "late", 0, false);
    api_fixture_receive(f, fd, 1);
    api_fixture_assert_has(f, "event: late");
    close(fd);
}

int main(void)
{
#define WITH_API(test)                                                         \
    cmocka_unit_test_setup_teardown(test, api_fixture_start, api_fixture_stop)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(followers_get_what_they_have_not_seen),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(the_oldest_are_forgotten),
        cmocka_unit_test(large_ones_are_kept_within_bytes),
        cmocka_unit_test(numbers_are_read_strictly),
        WITH_API(events_are_told_to_followers),
        WITH_API(a_follower_goes_on_where_it_was),
        WITH_API(bad_numbers_are_refused),
        WITH_API(one_that_does_not_read_is_dropped),
        WITH_API(followers_are_limited),
        cmocka_unit_test_setup_teardown(following_has_no_deadline,
                                        api_fixture_start_hasty,
                                        api_fixture_stop),
    };
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("api-events", tests, NULL, NULL);
}
