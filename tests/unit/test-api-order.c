// SPDX-License-Identifier: BSD-3-Clause
/* The bodies of the smaller requests, and who waits for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/api-json.h"
#include "proxy/api-order.h"
#include "proxy/incoming.h"
#include "util/parse.h"

static struct json_object *json(const char *text)
{
    struct error err = ERROR_INIT;
    struct json_object *object = NULL;
    if (api_json_parse(text, strlen(text), &object, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return object;
}

static int parse_limits(const char *text, struct api_limits *limits,
                        struct error *err)
{
    struct json_object *body = json(text);
    int n = api_limits_parse(body, limits, err);
    json_object_put(body);
    return n;
}

static int parse_incoming(const char *text, struct api_incoming *incoming,
                          struct error *err)
{
    struct json_object *body = json(text);
    int n = api_incoming_parse(body, incoming, err);
    json_object_put(body);
    return n;
}

static void limits_say_which_are_given(void **state)
{
    struct error err = ERROR_INIT;
    struct api_limits limits;

    assert_int_equal(
        parse_limits("{\"bandwidth_bytes_per_second\":1000}", &limits, &err),
        0);
    assert_true(limits.has_bandwidth && !limits.has_max_downtime);
    assert_int_equal(limits.bandwidth_bytes_per_second, 1000);
    assert_int_equal(
        parse_limits("{\"max_downtime_ms\":5,"
                     "\"bandwidth_bytes_per_second\":\"unlimited\"}",
                     &limits, &err),
        0);
    assert_true(limits.has_bandwidth && limits.has_max_downtime);
    assert_true(limits.bandwidth_bytes_per_second == PARSE_UNLIMITED);
    assert_int_equal(limits.max_downtime_ms, 5);
}

static void bad_limits_are_named(void **state)
{
    static const struct {
        const char *body, *text;
    } rows[] = {
        {"{}", "no limit is given: there are \"bandwidth_bytes_per_second\" "
               "and \"max_downtime_ms\""},
        {"{\"bandwidth_bytes_per_second\":0}",
         "member \"bandwidth_bytes_per_second\": 0 is not a whole number of "
         "bytes per second from 1 to 9223372036854775807, or \"unlimited\" (0 "
         "is neither)"},
        {"{\"max_downtime_ms\":60001}",
         "member \"max_downtime_ms\": 60001 is not a whole number from 1 to "
         "60000 ms"},
        {"{\"speed\":1}",
         "unknown member \"speed\" in PATCH /v1/migrations/{id}; known are "
         "bandwidth_bytes_per_second, max_downtime_ms"},
    };
    struct api_limits limits;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(parse_limits(rows[i].body, &limits, &err), -1);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
        assert_string_equal(err.text, rows[i].text);
    }
}

static void a_note_is_text_of_a_person(void **state)
{
    char body[API_NOTE_MAX + 32], note[API_NOTE_MAX + 2];
    struct error err = ERROR_INIT;
    struct api_close close;

    memset(note, 'n', sizeof(note));
    for (int extra = 0; extra <= 1; extra++) {
        note[API_NOTE_MAX + extra] = '\0';
        snprintf(body, sizeof(body), "{\"note\":\"%s\"}", note);
        struct json_object *object = json(body);
        assert_int_equal(api_close_parse(object, &close, &err), -extra);
        json_object_put(object);
        note[API_NOTE_MAX] = 'n';
    }
    assert_int_equal(strlen(close.note), API_NOTE_MAX);
    assert_int_equal(err.code, ERR_BAD_REQUEST);
    assert_non_null(strstr(err.text, "has 501 bytes, it must have 1 to 500"));
    assert_true(strlen(err.text) < 200); /* the note is cut */
    struct json_object *object = json("{\"note\":\"a\\nb\"}");
    assert_int_equal(api_close_parse(object, &close, &err), -1);
    assert_non_null(strstr(err.text, "control characters"));
    json_object_put(object);
    object = json("{}");
    assert_int_equal(api_close_parse(object, &close, &err), 0);
    assert_string_equal(close.note, "");
    json_object_put(object);
}

#define UUID "7D6F2A52-4c0e-4c57-9d0e-6d6967707278"

static void incoming_has_a_guest_and_a_path(void **state)
{
    struct error err = ERROR_INIT;
    struct api_incoming incoming;

    assert_int_equal(parse_incoming("{\"vm\":\"web\",\"qmp\":\"/run/q/web\"}",
                                    &incoming, &err),
                     0);
    assert_string_equal(incoming.vm, "web");
    assert_string_equal(incoming.qmp_path, "/run/q/web");
    assert_string_equal(incoming.uuid, "");
    assert_int_equal(parse_incoming("{\"vm\":\"w\",\"uuid\":\"" UUID
                                    "\",\"qmp\":\"/q\"}",
                                    &incoming, &err),
                     0);
    assert_string_equal(incoming.uuid, "7d6f2a52-4c0e-4c57-9d0e-6d6967707278");
}

static void bad_incoming_is_named(void **state)
{
    static const struct {
        const char *body, *text;
    } rows[] = {
        {"{\"qmp\":\"/q\"}", "member \"vm\" is missing in POST /v1/incoming"},
        {"{\"vm\":\"v\"}", "member \"qmp\" is missing in POST /v1/incoming"},
        {"{\"vm\":\"v\",\"qmp\":\"/q\",\"uuid\":\"7d6f2a52\"}",
         "member \"uuid\": \"7d6f2a52\" is not a UUID of 8-4-4-4-12 "
         "hexadecimal digits"},
        {"{\"vm\":\"v\",\"qmp\":\"/q\",\"uuid\":"
         "\"7d6f2a52-4c0e-4c57-9d0e_6d6967707278\"}",
         "member \"uuid\": \"7d6f2a52-4c0e-4c57-9d0e_6d6967707278\" is not a "
         "UUID of 8-4-4-4-12 hexadecimal digits"},
        {"{\"vm\":\"v\",\"qmp\":\"/q\",\"uuid\":7}",
         "member \"uuid\": 7 is not a UUID of 8-4-4-4-12 hexadecimal digits"},
        {"{\"vm\":\"v\",\"qmp\":\"relative\"}", "member \"qmp\": "},
    };
    struct api_incoming incoming;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(parse_incoming(rows[i].body, &incoming, &err), -1);
        assert_memory_equal(err.text, rows[i].text, strlen(rows[i].text));
    }
}

/* ---- who waits for whom ---- */

static const struct incoming_entry *say(struct incoming *incoming,
                                        const char *id, const char *vm,
                                        const char *path, struct error *err)
{
    struct api_incoming said = {.uuid = ""};
    snprintf(said.vm, sizeof(said.vm), "%s", vm);
    snprintf(said.qmp_path, sizeof(said.qmp_path), "%s", path);
    return incoming_add(incoming, id, &said, 0, err);
}

static void the_last_word_counts(void **state)
{
    struct incoming incoming;
    struct error err = ERROR_INIT;

    incoming_init(&incoming);
    assert_non_null(say(&incoming, "i1", "web", "/q/1", &err));
    assert_non_null(say(&incoming, "i2", "db", "/q/2", &err));
    assert_non_null(say(&incoming, "i3", "web", "/q/3", &err));
    assert_int_equal(incoming.count, 2);
    assert_null(incoming_find(&incoming, "i1"));
    assert_string_equal(incoming_find_vm(&incoming, "web")->said.qmp_path,
                        "/q/3");
    assert_null(incoming_find_vm(&incoming, "we"));
    incoming_remove(&incoming, incoming_find(&incoming, "i3"));
    assert_null(incoming_find_vm(&incoming, "web"));
    struct json_object *object =
        incoming_entry_to_json(incoming_find(&incoming, "i2"));
    assert_string_equal(
        json_object_to_json_string_ext(
            object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
        "{\"id\":\"i2\",\"vm\":\"db\",\"uuid\":null,\"qmp\":\"/q/2\","
        "\"since\":\"1970-01-01T00:00:00.000000Z\",\"migration\":null}");
    json_object_put(object);
    incoming_done(&incoming);
}

static void guests_are_limited(void **state)
{
    struct incoming incoming;
    struct error err = ERROR_INIT;
    char vm[16];

    incoming_init(&incoming);
    for (int i = 0; i < INCOMING_MAX; i++) {
        snprintf(vm, sizeof(vm), "vm%d", i);
        assert_non_null(say(&incoming, vm, vm, "/q/x", &err));
    }
    assert_null(say(&incoming, "more", "more", "/q/x", &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(
        err.text, "1024 guests are waited for already, the limit is 1024");
    /* saying one anew is possible all the same */
    assert_non_null(say(&incoming, "again", "vm7", "/q/y", &err));
    assert_int_equal(incoming.count, INCOMING_MAX);
    incoming_done(&incoming);
    assert_int_equal(incoming.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_say_which_are_given),
        cmocka_unit_test(bad_limits_are_named),
        cmocka_unit_test(a_note_is_text_of_a_person),
        cmocka_unit_test(incoming_has_a_guest_and_a_path),
        cmocka_unit_test(bad_incoming_is_named),
        cmocka_unit_test(the_last_word_counts),
        cmocka_unit_test(guests_are_limited),
    };
    return cmocka_run_group_tests_name("api-order", tests, NULL, NULL);
}
