// SPDX-License-Identifier: BSD-3-Clause
/* The return path of QEMU's main stream, read while it passes. */
#include "stream/return-path.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "stream/bytes.h"

/* QEMU migration/migration.h MIG_RP_MSG_x */
enum message {
    MESSAGE_SHUT = 1,
    MESSAGE_PONG = 2,
    MESSAGE_REQ_PAGES_ID = 3,
    MESSAGE_REQ_PAGES = 4,
    MESSAGE_RECV_BITMAP = 5,
    MESSAGE_RESUME_ACK = 6,
    MESSAGE_SWITCHOVER_ACK = 7,
};

#define REQUEST_BYTES 12 /* be64 start, be32 length */
#define RESUME_ACK_VALUE 1
#define BITMAP_END 0x0123456789abcdefull /* RAMBLOCK_RECV_BITMAP_ENDING */

/* Looks at the bytes it has waited for: buf, have. */
typedef void (*take_fn)(struct stream_return_path_parser *p);

struct stream_return_path_parser {
    struct stream_return_path_ops ops;
    void *arg;
    struct stream_return_path path; /* the result */
    take_fn take;                   /* called when buf has need bytes */
    size_t need;
    size_t have;
    uint64_t skip_bytes; /* of a bitmap, before need counts */
    enum message message;
    uint8_t buf[STREAM_RETURN_PATH_PAYLOAD_BYTES_MAX];
};

static void __attribute__((format(printf, 2, 3)))
stop(struct stream_return_path_parser *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->path.reason, sizeof p->path.reason, format, args);
    va_end(args);
    p->path.state = STREAM_RETURN_PATH_OPAQUE;
}

static void expect(struct stream_return_path_parser *p, size_t need,
                   take_fn take)
{
    assert(need > 0 && need <= sizeof p->buf);
    p->have = 0;
    p->need = need;
    p->take = take;
}

static void take_header(struct stream_return_path_parser *p);

static void expect_message(struct stream_return_path_parser *p)
{
    expect(p, 4, take_header);
}

/* The block's name in a payload: u8 length, name, at its end. false: stopped,
 * it is not one. */
static bool get_name(struct stream_return_path_parser *p, size_t at,
                     char *ret_name)
{
    size_t len = p->have - at - 1;

    if (len == 0 || p->buf[at] != len || !bytes_is_text(p->buf + at + 1, len)) {
        stop(p, "message %d names no RAM block", p->message);
        return false;
    }
    memcpy(ret_name, p->buf + at + 1, len);
    ret_name[len] = '\0';
    return true;
}

static void take_request(struct stream_return_path_parser *p)
{
    struct stream_return_path *path = &p->path;
    uint64_t start_bytes = bytes_get_be64(p->buf);
    uint32_t length_bytes = bytes_get_be32(p->buf + 8);

    if (p->message == MESSAGE_REQ_PAGES_ID &&
        !get_name(p, REQUEST_BYTES, path->block)) {
        return;
    }
    if (path->block[0] == '\0') {
        stop(p, "a page request names no RAM block, and none did before");
        return;
    }
    if (length_bytes == 0 || start_bytes + length_bytes < start_bytes) {
        stop(p, "a page request for %u bytes from %#llx on", length_bytes,
             (unsigned long long)start_bytes);
        return;
    }
    path->requests++;
    path->requested_bytes += length_bytes;
    expect_message(p);
    if (p->ops.on_request) {
        p->ops.on_request(p->arg, path->block, start_bytes, length_bytes);
    }
}

static void take_bitmap_end(struct stream_return_path_parser *p)
{
    if (bytes_get_be64(p->buf) != BITMAP_END) {
        stop(p, "a bitmap of received pages has no end mark");
        return;
    }
    p->path.bitmaps++;
    expect_message(p);
}

static void take_bitmap_size(struct stream_return_path_parser *p)
{
    uint64_t size_bytes = bytes_get_be64(p->buf);

    if (size_bytes == 0 || size_bytes % 8 != 0 ||
        size_bytes > STREAM_RETURN_PATH_BITMAP_BYTES_MAX) {
        stop(p, "a bitmap of received pages has %llu bytes",
             (unsigned long long)size_bytes);
        return;
    }
    expect(p, 8, take_bitmap_end);
    p->skip_bytes = size_bytes;
}

/* The bitmap comes behind the message, its length does not count it. */
static void take_bitmap_name(struct stream_return_path_parser *p)
{
    char name[STREAM_RETURN_PATH_NAME_BYTES_MAX + 1];

    if (get_name(p, 0, name)) {
        expect(p, 8, take_bitmap_size);
    }
}

static void take_value(struct stream_return_path_parser *p)
{
    uint32_t value = bytes_get_be32(p->buf);

    if (p->message == MESSAGE_PONG) {
        p->path.pongs++;
        p->path.last_pong = value;
    } else if (p->message == MESSAGE_SHUT) {
        p->path.shut_status = value;
        p->path.state = STREAM_RETURN_PATH_SHUT;
    } else if (value == RESUME_ACK_VALUE) {
        p->path.has_resume_ack = true;
    } else {
        stop(p, "RESUME_ACK with value %u", value);
    }
    expect_message(p);
}

static void take_nothing(struct stream_return_path_parser *p)
{
    p->path.has_switchover_ack = true;
    expect_message(p);
}

static const struct {
    unsigned min_bytes; /* of the payload */
    unsigned max_bytes;
    take_fn take;
} messages[] = {
    [MESSAGE_SHUT] = {4, 4, take_value},
    [MESSAGE_PONG] = {4, 4, take_value},
    [MESSAGE_REQ_PAGES_ID] = {REQUEST_BYTES + 2, REQUEST_BYTES + 256,
                              take_request},
    [MESSAGE_REQ_PAGES] = {REQUEST_BYTES, REQUEST_BYTES, take_request},
    [MESSAGE_RECV_BITMAP] = {2, 256, take_bitmap_name},
    [MESSAGE_RESUME_ACK] = {4, 4, take_value},
    [MESSAGE_SWITCHOVER_ACK] = {0, 0, take_nothing},
};

static void take_header(struct stream_return_path_parser *p)
{
    unsigned type = bytes_get_be16(p->buf);
    unsigned len = bytes_get_be16(p->buf + 2);

    if (type == 0 || type >= sizeof messages / sizeof *messages) {
        stop(p, "message of unknown type %u", type);
        return;
    }
    if (len < messages[type].min_bytes || len > messages[type].max_bytes) {
        stop(p, "message %u has length %u", type, len);
        return;
    }
    p->message = type;
    if (len == 0) {
        messages[type].take(p);
    } else {
        expect(p, len, messages[type].take);
    }
}

struct stream_return_path_parser *
stream_return_path_new(const struct stream_return_path_ops *ops, void *arg)
{
    struct stream_return_path_parser *p = calloc(1, sizeof *p);
    if (p) {
        if (ops) {
            p->ops = *ops;
        }
        p->arg = arg;
        stream_return_path_reset(p);
    }
    return p;
}

void stream_return_path_free(struct stream_return_path_parser *parser)
{
    free(parser);
}

void stream_return_path_reset(struct stream_return_path_parser *parser)
{
    memset(&parser->path, 0, sizeof parser->path);
    parser->skip_bytes = 0;
    expect_message(parser);
}

/* Passes over what is left of a bitmap. Returns how many bytes it took. */
static size_t skip(struct stream_return_path_parser *p, size_t len)
{
    size_t n = p->skip_bytes < len ? (size_t)p->skip_bytes : len;

    p->skip_bytes -= n;
    return n;
}

/* Collects bytes that are looked at. Returns how many it took. */
static size_t collect(struct stream_return_path_parser *p, const uint8_t *from,
                      size_t len)
{
    size_t n = p->need - p->have < len ? p->need - p->have : len;

    memcpy(p->buf + p->have, from, n);
    p->have += n;
    return n;
}

size_t stream_return_path_feed(struct stream_return_path_parser *parser,
                               const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    size_t used = 0;

    while (parser->path.state == STREAM_RETURN_PATH_OPEN && used < len) {
        size_t n = parser->skip_bytes > 0
                       ? skip(parser, len - used)
                       : collect(parser, from + used, len - used);
        used += n;
        parser->path.offset_bytes += n;
        if (parser->have == parser->need) {
            parser->take(parser);
        }
    }
    return used;
}

const struct stream_return_path *
stream_return_path_get(const struct stream_return_path_parser *parser)
{
    return &parser->path;
}
