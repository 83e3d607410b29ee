// SPDX-License-Identifier: BSD-3-Clause
/* HELLO: the documented bytes, every cut, every limit, and what two ends agree
 * on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/hello.h"

static struct hello sample(enum wire_lane lane)
{
    struct hello h = {
        .version_min = 1,
        .version_max = 2,
        .features = 0x0102030405060708,
        .lane = lane,
        .name = "host-a.example",
        .has_token = lane != WIRE_LANE_CONTROL,
    };
    memset(h.instance, 0x11, sizeof(h.instance));
    if (h.has_token) {
        memset(h.token, 0x22, sizeof(h.token));
    }
    return h;
}

static void assert_refused(const uint8_t *in, size_t len, const char *text)
{
    struct error err = ERROR_INIT;
    struct hello untouched = {.version_min = 77};

    assert_int_equal(hello_decode(in, len, &untouched, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_non_null(strstr(err.text, text));
    assert_int_equal(untouched.version_min, 77);
}

static void encodes_the_documented_bytes(void **state)
{
    static const uint8_t expected[] = {
        0x80, 0x01, 0,    4,    'M',  'P',  'X',  'Y', /* MAGIC */
        0x80, 0x02, 0,    4,    0,    1,    0,    2,   /* VERSIONS */
        0x00, 0x03, 0,    8,    1,    2,    3,    4,
        5,    6,    7,    8,               /* FEATURES */
        0x80, 0x04, 0,    1,    1,         /* LANE */
        0x00, 0x05, 0,    2,    'h',  'b', /* NAME */
        0x80, 0x06, 0,    16,              /* INSTANCE */
        0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
        0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11};
    uint8_t out[WIRE_HELLO_MAX_BYTES];
    struct hello h = sample(WIRE_LANE_CONTROL);

    strcpy(h.name, "hb");
    assert_int_equal(hello_encode(&h, out), sizeof(expected));
    assert_memory_equal(out, expected, sizeof(expected));
}

static void every_lane_survives_a_round_trip(void **state)
{
    for (int lane = WIRE_LANE_CONTROL; lane <= WIRE_LANE_BULK; lane++) {
        uint8_t out[WIRE_HELLO_MAX_BYTES];
        struct error err = ERROR_INIT;
        struct hello h = sample((enum wire_lane)lane), back;
        size_t len = hello_encode(&h, out);

        assert_int_equal(hello_decode(out, len, &back, &err), 0);
        assert_memory_equal(&back, &h, sizeof(h));
    }
}

static void every_cut_is_refused(void **state)
{
    uint8_t out[WIRE_HELLO_MAX_BYTES];
    struct hello h = sample(WIRE_LANE_BULK);
    size_t len = hello_encode(&h, out);

    for (size_t cut = 0; cut < len; cut++) {
        /* a copy of exact size, so that a read beyond it is seen */
        uint8_t *piece = test_malloc(cut ? cut : 1);
        memcpy(piece, out, cut);
        assert_refused(piece, cut, "HELLO: ");
        test_free(piece);
    }
}

/* Encodes h, then adds one TLV of len bytes of value. */
static size_t with_tlv(const struct hello *h, uint8_t *out, unsigned tag,
                       size_t len, uint8_t value)
{
    size_t at = hello_encode(h, out);
    out[at] = (uint8_t)(tag >> 8);
    out[at + 1] = (uint8_t)tag;
    out[at + 2] = (uint8_t)(len >> 8);
    out[at + 3] = (uint8_t)len;
    memset(out + at + 4, value, len);
    return at + 4 + len;
}

static void unknown_tags_are_skipped_unless_critical(void **state)
{
    uint8_t out[WIRE_HELLO_MAX_BYTES + 8];
    struct hello h = sample(WIRE_LANE_CONTROL), back;

    size_t len = with_tlv(&h, out, 0x0444, 300, 9);
    assert_int_equal(hello_decode(out, len, &back, NULL), 0);
    assert_memory_equal(&back, &h, sizeof(h));
    len = with_tlv(&h, out, 0x8444, 0, 0);
    assert_refused(out, len, "tag 0x8444 must be understood");
}

static void sizes_have_limits(void **state)
{
    uint8_t out[WIRE_HELLO_MAX_BYTES + 8];
    struct hello h = sample(WIRE_LANE_CONTROL), back;
    size_t fixed = hello_encode(&h, out) + 4;

    size_t len = with_tlv(&h, out, 0x0444, WIRE_HELLO_MAX_BYTES - fixed, 1);
    assert_int_equal(len, WIRE_HELLO_MAX_BYTES);
    assert_int_equal(hello_decode(out, len, &back, NULL), 0);
    len = with_tlv(&h, out, 0x0444, WIRE_HELLO_MAX_BYTES - fixed + 1, 1);
    assert_refused(out, len, "4097 bytes, allowed at most 4096");
    len = with_tlv(&h, out, 0x0444, 5, 1);
    assert_refused(out, len - 1, "tag 0x0444 has 5 bytes, only 4 left");
    len = with_tlv(&h, out, HELLO_TAG_TOKEN, 31, 1);
    assert_refused(out, len, "TOKEN has 31 bytes, allowed 32 to 32");
    len = with_tlv(&h, out, HELLO_TAG_LANE, 1, 1);
    assert_refused(out, len, "LANE comes twice");
}

static void values_have_limits(void **state)
{
    static const struct {
        size_t at; /* in the encoding of a control HELLO */
        uint8_t value;
        const char *text;
    } cases[] = {
        {4, 'X', "magic is 0x58505859, expected 0x4d505859"},
        {13, 0, "versions 0 to 2"},
        {13, 3, "versions 3 to 2"},
        {32, 0, "lane is 0, allowed 1 to 3"},
        {32, 4, "lane is 4, allowed 1 to 3"},
        {32, 3, "no TOKEN, needed on lane 3"},
        {37, '\n', "name has byte 0x0a at 0"},
        {38, 0, "name has byte 0x00 at 1"},
        {0, 0x00, "first tag is 0x0001, expected MAGIC"},
        {9, 0x12, "tag 0x8012 must be understood"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t out[WIRE_HELLO_MAX_BYTES];
        struct hello h = sample(WIRE_LANE_CONTROL);
        size_t len = hello_encode(&h, out);
        out[cases[i].at] = cases[i].value;
        assert_refused(out, len, cases[i].text);
    }
}

static void what_is_required_must_be_there(void **state)
{
    static const uint8_t rest[] = {0x80, 0x01, 0, 4, 'M', 'P', 'X', 'Y',
                                   0x80, 0x02, 0, 4, 0,   1,   0,   2};
    uint8_t out[WIRE_HELLO_MAX_BYTES];
    struct hello h = sample(WIRE_LANE_CONTROL);

    assert_refused(rest, 8, "no VERSIONS");
    assert_refused(rest, 16, "no LANE");
    assert_refused(rest, 0, "no MAGIC");
    size_t len = with_tlv(&h, out, HELLO_TAG_TOKEN, HELLO_TOKEN_BYTES, 1);
    assert_refused(out, len, "TOKEN, not allowed on lane 1");
}

static void highest_common_version_wins(void **state)
{
    struct hello mine = sample(WIRE_LANE_CONTROL), theirs = mine;
    struct error err = ERROR_INIT;
    uint16_t version = 0;
    uint64_t features = 0;

    mine.version_min = 2, mine.version_max = 4, mine.features = 0x0f;
    theirs.version_min = 1, theirs.version_max = 3, theirs.features = 0x3c;
    assert_int_equal(hello_negotiate(&mine, &theirs, &version, &features, &err),
                     0);
    assert_int_equal(version, 3);
    assert_int_equal(features, 0x0c);
    assert_int_equal(hello_negotiate(&theirs, &mine, &version, &features, &err),
                     0);
    assert_int_equal(version, 3);
}

static void no_common_version_names_both_ranges(void **state)
{
    struct hello mine = sample(WIRE_LANE_CONTROL), theirs = mine;
    struct error err = ERROR_INIT;
    uint16_t version = 9;
    uint64_t features = 9;

    mine.version_min = mine.version_max = 1;
    theirs.version_min = 2, theirs.version_max = 3;
    assert_int_equal(hello_negotiate(&mine, &theirs, &version, &features, &err),
                     -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_string_equal(err.text, "no common protocol version: here 1 to 1, "
                                  "host-a.example has 2 to 3");
    assert_int_equal(hello_negotiate(&theirs, &mine, &version, &features, NULL),
                     -1);
    assert_int_equal(version, 9);
    assert_int_equal(features, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_the_documented_bytes),
        cmocka_unit_test(every_lane_survives_a_round_trip),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(unknown_tags_are_skipped_unless_critical),
        cmocka_unit_test(sizes_have_limits),
        cmocka_unit_test(values_have_limits),
        cmocka_unit_test(what_is_required_must_be_there),
        cmocka_unit_test(highest_common_version_wins),
        cmocka_unit_test(no_common_version_names_both_ranges),
    };
    return cmocka_run_group_tests_name("hello", tests, NULL, NULL);
}
