// SPDX-License-Identifier: BSD-3-Clause
/* HELLO's TLVs, and what two ends have in common. */
#include "transport/hello.h"

#include <assert.h>
#include <string.h>

#define TLV_HEADER_BYTES 4

/* One row for each known tag; the row's number is its bit in a mask of tags
 * seen. */
struct tag_rule {
    uint16_t tag;
    uint16_t min_bytes;
    uint16_t max_bytes;
    bool required;
    const char *name;
};

enum {
    ROW_MAGIC,
    ROW_VERSIONS,
    ROW_FEATURES,
    ROW_LANE,
    ROW_NAME,
    ROW_INSTANCE,
    ROW_TOKEN,
    ROWS
};

static const struct tag_rule tag_rules[ROWS] = {
    [ROW_MAGIC] = {HELLO_TAG_MAGIC, 4, 4, true, "MAGIC"},
    [ROW_VERSIONS] = {HELLO_TAG_VERSIONS, 4, 4, true, "VERSIONS"},
    [ROW_FEATURES] = {HELLO_TAG_FEATURES, 8, 8, false, "FEATURES"},
    [ROW_LANE] = {HELLO_TAG_LANE, 1, 1, true, "LANE"},
    [ROW_NAME] = {HELLO_TAG_NAME, 1, HELLO_NAME_BYTES - 1, true, "NAME"},
    [ROW_INSTANCE] = {HELLO_TAG_INSTANCE, HELLO_INSTANCE_BYTES,
                      HELLO_INSTANCE_BYTES, true, "INSTANCE"},
    [ROW_TOKEN] = {HELLO_TAG_TOKEN, HELLO_TOKEN_BYTES, HELLO_TOKEN_BYTES, false,
                   "TOKEN"},
};

static uint64_t get_uint(const uint8_t *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | in[i];
    }
    return value;
}

static uint8_t *put_uint(uint8_t *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    }
    return out + bytes;
}

static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/* Names go into logs and messages as they are, hence the small alphabet. */
static int check_name(const char *name, size_t len, struct error *err)
{
    if (len == 0 || len >= HELLO_NAME_BYTES) {
        return error_set(err, ERR_PROTOCOL,
                         "HELLO: name has %zu bytes, allowed 1 to %d", len,
                         HELLO_NAME_BYTES - 1);
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(name[i])) {
            return error_set(err, ERR_PROTOCOL,
                             "HELLO: name has byte 0x%02x at %zu, allowed "
                             "A-Z a-z 0-9 . _ -",
                             (unsigned char)name[i], i);
        }
    }
    return 0;
}

int hello_check(const struct hello *h, struct error *err)
{
    bool of_migration =
        h->lane == WIRE_LANE_EXPRESS || h->lane == WIRE_LANE_BULK;

    if (h->version_min == 0 || h->version_min > h->version_max) {
        return error_set(err, ERR_PROTOCOL,
                         "HELLO: versions %u to %u are no range that starts "
                         "at 1 or above",
                         h->version_min, h->version_max);
    }
    if (!of_migration && h->lane != WIRE_LANE_CONTROL) {
        return error_set(err, ERR_PROTOCOL,
                         "HELLO: lane is %d, allowed %d to %d", (int)h->lane,
                         WIRE_LANE_CONTROL, WIRE_LANE_BULK);
    }
    if (h->has_token != of_migration) {
        return error_set(err, ERR_PROTOCOL,
                         of_migration
                             ? "HELLO: no TOKEN, needed on lane %d"
                             : "HELLO: has a TOKEN, not allowed on lane %d",
                         (int)h->lane);
    }
    return check_name(h->name, strnlen(h->name, sizeof(h->name)), err);
}

static uint8_t *put_tlv_header(uint8_t *out, const struct tag_rule *rule,
                               size_t len)
{
    assert(len >= rule->min_bytes && len <= rule->max_bytes);
    out = put_uint(out, rule->tag, 2);
    return put_uint(out, len, 2);
}

static uint8_t *put_uint_tlv(uint8_t *out, int row, uint64_t value)
{
    out = put_tlv_header(out, &tag_rules[row], tag_rules[row].max_bytes);
    return put_uint(out, value, tag_rules[row].max_bytes);
}

static uint8_t *put_bytes_tlv(uint8_t *out, int row, const void *value,
                              size_t len)
{
    out = put_tlv_header(out, &tag_rules[row], len);
    memcpy(out, value, len);
    return out + len;
}

size_t hello_encode(const struct hello *h, uint8_t *out)
{
    uint8_t *at = out;

    assert(hello_check(h, NULL) == 0);
    at = put_uint_tlv(at, ROW_MAGIC, HELLO_MAGIC);
    at = put_uint_tlv(at, ROW_VERSIONS,
                      (uint64_t)h->version_min << 16 | h->version_max);
    at = put_uint_tlv(at, ROW_FEATURES, h->features);
    at = put_uint_tlv(at, ROW_LANE, h->lane);
    at = put_bytes_tlv(at, ROW_NAME, h->name, strlen(h->name));
    at = put_bytes_tlv(at, ROW_INSTANCE, h->instance, sizeof(h->instance));
    if (h->has_token) {
        at = put_bytes_tlv(at, ROW_TOKEN, h->token, sizeof(h->token));
    }
    return (size_t)(at - out);
}

/* The row of a tag, or -1. */
static int find_row(uint16_t tag)
{
    for (int row = 0; row < ROWS; row++) {
        if (tag_rules[row].tag == tag) {
            return row;
        }
    }
    return -1;
}

static int take_value(struct hello *h, int row, const uint8_t *value,
                      size_t len, struct error *err)
{
    switch (row) {
    case ROW_MAGIC:
        if (get_uint(value, len) != HELLO_MAGIC) {
            return error_set(
                err, ERR_PROTOCOL, "HELLO: magic is 0x%08llx, expected 0x%08x",
                (unsigned long long)get_uint(value, len), HELLO_MAGIC);
        }
        return 0;
    case ROW_VERSIONS:
        h->version_min = (uint16_t)get_uint(value, 2);
        h->version_max = (uint16_t)get_uint(value + 2, 2);
        return 0;
    case ROW_FEATURES:
        h->features = get_uint(value, len);
        return 0;
    case ROW_LANE:
        h->lane = (enum wire_lane)value[0];
        return 0;
    case ROW_NAME:
        if (check_name((const char *)value, len, err) < 0) {
            return -1;
        }
        memcpy(h->name, value, len);
        return 0;
    case ROW_INSTANCE:
        memcpy(h->instance, value, len);
        return 0;
    default: /* ROW_TOKEN */
        memcpy(h->token, value, len);
        h->has_token = true;
        return 0;
    }
}

/* One TLV whose value is whole; *seen is the mask of rows so far. */
static int take_tlv(struct hello *h, uint16_t tag, const uint8_t *value,
                    size_t len, unsigned *seen, struct error *err)
{
    int row = find_row(tag);

    if (*seen == 0 && row != ROW_MAGIC) {
        return error_set(err, ERR_PROTOCOL,
                         "HELLO: first tag is 0x%04x, expected MAGIC (0x%04x)",
                         tag, HELLO_TAG_MAGIC);
    }
    if (row < 0) {
        if (tag & HELLO_TAG_CRITICAL) {
            return error_set(err, ERR_PROTOCOL,
                             "HELLO: tag 0x%04x must be understood and is not "
                             "known here",
                             tag);
        }
        return 0;
    }
    const struct tag_rule *rule = &tag_rules[row];
    if (*seen & 1u << row) {
        return error_set(err, ERR_PROTOCOL, "HELLO: %s comes twice",
                         rule->name);
    }
    if (len < rule->min_bytes || len > rule->max_bytes) {
        return error_set(err, ERR_PROTOCOL,
                         "HELLO: %s has %zu bytes, allowed %u to %u",
                         rule->name, len, rule->min_bytes, rule->max_bytes);
    }
    *seen |= 1u << row;
    return take_value(h, row, value, len, err);
}

static int check_seen(unsigned seen, struct error *err)
{
    for (int row = 0; row < ROWS; row++) {
        if (tag_rules[row].required && !(seen & 1u << row)) {
            return error_set(err, ERR_PROTOCOL, "HELLO: no %s",
                             tag_rules[row].name);
        }
    }
    return 0;
}

int hello_decode(const uint8_t *in, size_t len_bytes, struct hello *ret_hello,
                 struct error *err)
{
    struct hello h = {0};
    unsigned seen = 0;
    size_t at = 0;

    if (len_bytes > WIRE_HELLO_MAX_BYTES) {
        return error_set(err, ERR_PROTOCOL,
                         "HELLO: %zu bytes, allowed at most %d", len_bytes,
                         WIRE_HELLO_MAX_BYTES);
    }
    while (at < len_bytes) {
        size_t left = len_bytes - at;
        if (left < TLV_HEADER_BYTES) {
            return error_set(err, ERR_PROTOCOL,
                             "HELLO: %zu bytes left at %zu, a tag and its "
                             "length need %d",
                             left, at, TLV_HEADER_BYTES);
        }
        uint16_t tag = (uint16_t)get_uint(in + at, 2);
        size_t len = (size_t)get_uint(in + at + 2, 2);
        at += TLV_HEADER_BYTES;
        left -= TLV_HEADER_BYTES;
        if (len > left) {
            return error_set(err, ERR_PROTOCOL,
                             "HELLO: tag 0x%04x has %zu bytes, only %zu left",
                             tag, len, left);
        }
        if (take_tlv(&h, tag, in + at, len, &seen, err) < 0) {
            return -1;
        }
        at += len;
    }
    if (check_seen(seen, err) < 0 || hello_check(&h, err) < 0) {
        return -1;
    }
    *ret_hello = h;
    return 0;
}

int hello_negotiate(const struct hello *mine, const struct hello *theirs,
                    uint16_t *ret_version, uint64_t *ret_features,
                    struct error *err)
{
    uint16_t highest = mine->version_max < theirs->version_max
                           ? mine->version_max
                           : theirs->version_max;

    if (highest < mine->version_min || highest < theirs->version_min) {
        return error_set(err, ERR_UNSUPPORTED,
                         "no common protocol version: here %u to %u, %s has "
                         "%u to %u",
                         mine->version_min, mine->version_max,
                         theirs->name[0] ? theirs->name : "the peer",
                         theirs->version_min, theirs->version_max);
    }
    *ret_version = highest;
    *ret_features = mine->features & theirs->features;
    return 0;
}
