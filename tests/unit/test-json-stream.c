// SPDX-License-Identifier: BSD-3-Clause
/* Cutting a byte stream into JSON values, and reading them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-stream.h"
#include "qmp/json-value.h"
#include "qmp/utf8.h"

/* Feeds text in pieces that end at the given cuts; what comes out is written
 * one value a line into out. Returns 0, or -1 with the error. */
struct outcome {
    char text[4096];
    int values;
    struct error err;
};

static int feed_all(struct json_stream *s, const char *bytes, size_t size,
                    struct outcome *o)
{
    while (size > 0) {
        struct json_object *value = NULL;
        size_t used = 0;
        int rc = json_stream_feed(s, bytes, size, &used, &value, &o->err);
        if (rc < 0) {
            return -1;
        }
        assert_true(used <= size);
        assert_true(rc == 1 || used == size);
        bytes += used;
        size -= used;
        if (rc == 1) {
            size_t at = strlen(o->text);
            snprintf(
                o->text + at, sizeof(o->text) - at, "%s\n",
                json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
            o->values++;
            json_object_put(value);
        }
    }
    return 0;
}

static int parse_limited(const char *bytes, size_t size, size_t max_bytes,
                         int depth, struct outcome *o)
{
    struct json_stream *s = json_stream_new(max_bytes, depth, NULL);
    assert_non_null(s);
    memset(o, 0, sizeof(*o));
    int rc = feed_all(s, bytes, size, o);
    json_stream_free(s);
    return rc;
}

static int parse(const char *text, struct outcome *o)
{
    return parse_limited(text, strlen(text), 1 << 20, 16, o);
}

static const char sample[] =
    "{\"a\": [1, -2.5, true, null, \"x\\\"y\\\\\"], \"\xc3\xa4\xe2\x82\xac"
    "\xf0\x9f\x98\x80\": {}}\r\n  [] {\"s\":\"{[,\"}{\"u\":\"\\u20ac\"}\t\n";
static const char sample_out[] =
    "{\"a\":[1,-2.5,true,null,\"x\\\"y\\\\\"],\"\xc3\xa4\xe2\x82\xac"
    "\xf0\x9f\x98\x80\":{}}\n[]\n{\"s\":\"{[,\"}\n{\"u\":\"\xe2\x82\xac\"}\n";

static void values_come_out_wherever_the_stream_is_cut(void **state)
{
    size_t size = sizeof(sample) - 1;
    struct outcome o;

    for (size_t cut = 0; cut <= size; cut++) {
        struct json_stream *s = json_stream_new(1 << 20, 16, NULL);
        memset(&o, 0, sizeof(o));
        assert_int_equal(feed_all(s, sample, cut, &o), 0);
        assert_int_equal(feed_all(s, sample + cut, size - cut, &o), 0);
        assert_string_equal(o.text, sample_out);
        json_stream_free(s);
    }
}

static void values_come_out_byte_by_byte(void **state)
{
    struct json_stream *s = json_stream_new(1 << 20, 16, NULL);
    struct outcome o;

    memset(&o, 0, sizeof(o));
    for (size_t i = 0; i < sizeof(sample) - 1; i++) {
        assert_int_equal(feed_all(s, sample + i, 1, &o), 0);
    }
    assert_string_equal(o.text, sample_out);
    json_stream_free(s);
}

static void a_half_value_asks_for_more(void **state)
{
    struct outcome o;
    assert_int_equal(parse("{\"a\": [1, 2", &o), 0);
    assert_int_equal(o.values, 0);
    assert_int_equal(parse("  \r\n\t ", &o), 0);
    assert_int_equal(o.values, 0);
}

static void expect_error(const char *bytes, size_t size, const char *text)
{
    struct outcome o;

    /* whole, and byte by byte */
    assert_int_equal(parse_limited(bytes, size, 1 << 20, 4, &o), -1);
    assert_int_equal(o.err.code, ERR_PROTOCOL);
    if (!strstr(o.err.text, text)) {
        fail_msg("\"%s\" says nothing of \"%s\"", o.err.text, text);
    }
    struct json_stream *s = json_stream_new(1 << 20, 4, NULL);
    int rc = 0;
    memset(&o, 0, sizeof(o));
    for (size_t i = 0; i < size && rc == 0; i++) {
        rc = feed_all(s, bytes + i, 1, &o);
    }
    assert_int_equal(rc, -1);
    assert_non_null(strstr(o.err.text, text));
    /* and from then on it only fails */
    assert_int_equal(feed_all(s, "{}", 2, &o), -1);
    json_stream_free(s);
}

#define EXPECT_ERROR(literal, text)                                            \
    expect_error(literal, sizeof(literal) - 1, text)

static void broken_json_is_refused_with_its_place(void **state)
{
    EXPECT_ERROR("{} xyz", "byte 3: byte 0x78");
    EXPECT_ERROR("5 ", "byte 0: byte 0x35");
    EXPECT_ERROR("\"text\"", "byte 0: byte 0x22");
    EXPECT_ERROR("{'a': 1}", "byte 1");
    EXPECT_ERROR("{\"a\" 1}", "byte 5");
    EXPECT_ERROR("[1 /* no */]", "byte 3");
    EXPECT_ERROR("[1,]", "byte 3");
    EXPECT_ERROR("[01x]", "byte");
    EXPECT_ERROR("]", "byte 0");
    EXPECT_ERROR("[NaN]", "byte 1: byte 0x4e");
    EXPECT_ERROR("[1, -Infinity]", "byte 5");
    EXPECT_ERROR("[55-55]", "byte 3");
    EXPECT_ERROR("[\"a\nb\"]", "byte 3: byte 0x0a");
}

static void nesting_beyond_the_limit_is_refused(void **state)
{
    struct outcome o;
    assert_int_equal(parse_limited("[[[]]]", 6, 100, 4, &o), 0);
    EXPECT_ERROR("[[[[[]]]]]", "nested deeper than 4");
}

static void nul_and_bad_utf8_are_refused(void **state)
{
    EXPECT_ERROR("{\"a\0\": 1}", "byte 3: NUL");
    EXPECT_ERROR("[\"\xff\"]", "byte 2: not UTF-8");
    EXPECT_ERROR("[\"\xc0\x80\"]", "byte 2: not UTF-8");         /* overlong */
    EXPECT_ERROR("[\"\xe0\x80\x80\"]", "byte 3: not UTF-8");     /* overlong */
    EXPECT_ERROR("[\"\xed\xa0\x80\"]", "byte 3: not UTF-8");     /* surrogate */
    EXPECT_ERROR("[\"\xf4\x90\x80\x80\"]", "byte 3: not UTF-8"); /* too high */
    EXPECT_ERROR("[\"\xe2\x82\"]", "byte 4: not UTF-8");         /* cut off */
}

static void a_value_may_be_as_long_as_the_limit_and_no_longer(void **state)
{
    char text[65];
    struct outcome o;

    memset(text, 'x', sizeof(text));
    memcpy(text, "[\"", 2);
    memcpy(text + 62, "\"]", 2);
    assert_int_equal(parse_limited(text, 64, 64, 4, &o), 0);
    assert_int_equal(o.values, 1);
    assert_int_equal(parse_limited(text, 64, 63, 4, &o), -1);
    assert_int_equal(o.err.code, ERR_PROTOCOL);
    assert_string_equal(o.err.text,
                        "JSON at byte 63: a value longer than 63 bytes");
    /* blanks between values do not count */
    assert_int_equal(parse_limited("[]          []         []", 25, 4, 4, &o),
                     0);
    assert_int_equal(o.values, 3);
}

static void many_small_parts_are_refused_before_they_fill_memory(void **state)
{
    size_t count = JSON_STREAM_MAX_NODES + 10, size = 1 + 3 * count;
    char *text = malloc(size);
    struct outcome o;

    text[0] = '[';
    for (size_t i = 0; i < count; i++) {
        memcpy(text + 1 + 3 * i, "{},", 3);
    }
    assert_int_equal(parse_limited(text, size, JSON_STREAM_MAX_BYTES, 4, &o),
                     -1);
    assert_non_null(strstr(o.err.text, "more than 131072 parts"));
    /* the same characters in a text are no parts */
    text[1] = '"';
    memset(text + 2, '{', size - 4);
    memcpy(text + size - 2, "\"]", 2);
    struct json_stream *s = json_stream_new(JSON_STREAM_MAX_BYTES, 4, NULL);
    struct json_object *value = NULL;
    size_t used = 0;
    assert_int_equal(json_stream_feed(s, text, size, &used, &value, NULL), 1);
    assert_int_equal(used, size);
    json_object_put(value);
    json_stream_free(s);
    free(text);
}

static void numbers_are_believed_only_in_range(void **state)
{
    struct json_object *o = json_tokener_parse(
        "{\"n\": -1, \"z\": 0, \"m\": 18446744073709551614, "
        "\"o\": 18446744073709551615, \"p\": 99999999999999999999, "
        "\"t\": \"5\", \"d\": 1.5, \"b\": true, \"nan\": NaN, "
        "\"low\": -99999999999999999999}");
    uint64_t u = 7;
    int64_t i = 7;
    double d = 7;

    assert_non_null(o);
    assert_false(json_value_uint(o, "n", &u));
    assert_true(json_value_uint(o, "z", &u) && u == 0);
    assert_true(json_value_uint(o, "m", &u) && u == UINT64_MAX - 1);
    u = 7;
    assert_false(json_value_uint(o, "o", &u));
    assert_false(json_value_uint(o, "p", &u));
    assert_false(json_value_uint(o, "t", &u));
    assert_false(json_value_uint(o, "d", &u));
    assert_false(json_value_uint(o, "b", &u));
    assert_false(json_value_uint(o, "absent", &u));
    assert_false(json_value_uint(NULL, "z", &u));
    assert_int_equal(u, 7);
    assert_true(json_value_int(o, "n", &i) && i == -1);
    i = 7;
    assert_false(json_value_int(o, "low", &i));
    assert_false(json_value_int(o, "p", &i));
    assert_int_equal(i, 7);
    assert_true(json_value_double(o, "d", &d) && d == 1.5);
    assert_true(json_value_double(o, "z", &d) && d == 0);
    d = 7;
    assert_false(json_value_double(o, "nan", &d));
    assert_true(d == 7);
    json_object_put(o);
}

static void members_are_found_only_with_their_type(void **state)
{
    struct json_object *o = json_tokener_parse(
        "{\"o\": {}, \"a\": [], \"t\": \"x\", \"b\": true, \"n\": null}");
    struct json_object *member = NULL;
    const char *text = NULL;
    bool value = false;
    char buf[4];

    assert_true(json_value_object(o, "o", &member));
    assert_false(json_value_object(o, "a", &member));
    assert_true(json_value_array(o, "a", &member));
    assert_false(json_value_array(o, "n", &member));
    assert_true(json_value_text(o, "t", &text));
    assert_string_equal(text, "x");
    assert_false(json_value_text(o, "n", &text));
    assert_true(json_value_bool(o, "b", &value) && value);
    assert_false(json_value_bool(o, "t", &value));
    assert_true(json_value_copy_text(buf, sizeof(buf), "abc"));
    assert_false(json_value_copy_text(buf, sizeof(buf), "abcd"));
    assert_string_equal(buf, "abc");
    assert_true(utf8_is_valid("a\xe2\x82\xac", 4));
    assert_false(utf8_is_valid("a\xe2\x82", 3));
    json_object_put(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_out_wherever_the_stream_is_cut),
        cmocka_unit_test(values_come_out_byte_by_byte),
        cmocka_unit_test(a_half_value_asks_for_more),
        cmocka_unit_test(broken_json_is_refused_with_its_place),
        cmocka_unit_test(nesting_beyond_the_limit_is_refused),
        cmocka_unit_test(nul_and_bad_utf8_are_refused),
        cmocka_unit_test(a_value_may_be_as_long_as_the_limit_and_no_longer),
        cmocka_unit_test(many_small_parts_are_refused_before_they_fill_memory),
        cmocka_unit_test(numbers_are_believed_only_in_range),
        cmocka_unit_test(members_are_found_only_with_their_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
