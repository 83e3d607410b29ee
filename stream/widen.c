// SPDX-License-Identifier: BSD-3-Clause
/* Page requests of a return path, widened to the source's host pages. */
#include "stream/widen.h"

#include <assert.h>
#include <stdlib.h>

#include "stream/bytes.h"
#include "stream/return-path.h"

/* QEMU migration/migration.h MIG_RP_MSG_x */
#define MESSAGE_REQ_PAGES_ID 3
#define MESSAGE_REQ_PAGES 4
#define MESSAGE_RECV_BITMAP 5
#define MESSAGE_LAST 7

#define HEADER_BYTES 4     /* be16 type, be16 length */
#define REQUEST_BYTES 12   /* be64 start, be32 length */
#define BITMAP_BYTES 8     /* be64 size in front of it ... */
#define BITMAP_END_BYTES 8 /* ... and a mark behind */
#define MESSAGE_BYTES_MAX (HEADER_BYTES + STREAM_RETURN_PATH_PAYLOAD_BYTES_MAX)

struct widen {
    struct small_pages *sizes;
    struct widen_ops ops;
    void *arg;
    const struct small_pages_block *block; /* named last; NULL: none */
    size_t released;                       /* looked at, not written */
    uint64_t skip_bytes;  /* of a bitmap, before the next message */
    bool bitmap_size_due; /* the next 8 bytes are a bitmap's size */
};

struct widen *widen_new(const struct small_pages *sizes,
                        const struct widen_ops *ops, void *arg)
{
    struct widen *w = calloc(1, sizeof(*w));

    if (w) {
        w->ops = *ops;
        w->arg = arg;
        w->sizes = small_pages_copy(sizes);
    }
    if (w && !w->sizes) {
        widen_free(w);
        return NULL;
    }
    return w;
}

void widen_free(struct widen *w)
{
    if (w) {
        free(w->sizes);
        free(w);
    }
}

/* What waits, as one array of bytes. */
struct waiting {
    const struct iovec *iov;
    int count;
    size_t len;
};

/* Copies n bytes at an offset out, or (back) in. */
static void move(const struct waiting *in, size_t at, uint8_t *bytes, size_t n,
                 bool back)
{
    for (int i = 0; i < in->count && n > 0; i++) {
        size_t len = in->iov[i].iov_len;

        if (at >= len) {
            at -= len;
            continue;
        }
        size_t part = len - at < n ? len - at : n;
        uint8_t *here = (uint8_t *)in->iov[i].iov_base + at;
        if (back) {
            memcpy(here, bytes, part);
        } else {
            memcpy(bytes, here, part);
        }
        bytes += part;
        n -= part;
        at = 0;
    }
    assert(n == 0);
}

static int name_block(struct widen *w, const uint8_t *payload, size_t len,
                      struct error *err)
{
    char name[STREAM_HEAD_NAME_BYTES_MAX + 1];
    size_t name_len = len > REQUEST_BYTES ? payload[REQUEST_BYTES] : 0;

    if (name_len == 0 || len != REQUEST_BYTES + 1 + name_len) {
        return error_set(err, ERR_PROTOCOL,
                         "a page request of %zu bytes names no RAM block", len);
    }
    memcpy(name, payload + REQUEST_BYTES + 1, name_len);
    name[name_len] = '\0';
    w->block = small_pages_find(w->sizes, name);
    if (!w->block) {
        return error_set(err, ERR_PROTOCOL,
                         "a page request for RAM block \"%.100s\", which the "
                         "guest does not have",
                         name);
    }
    return 0;
}

static int widen_request(struct widen *w, unsigned type, uint8_t *payload,
                         size_t len, struct error *err)
{
    if (type == MESSAGE_REQ_PAGES_ID && name_block(w, payload, len, err) < 0) {
        return -1;
    }
    if (!w->block || len < REQUEST_BYTES) {
        return error_set(err, ERR_PROTOCOL,
                         "a page request of %zu bytes names no RAM block, and "
                         "none did before",
                         len);
    }
    uint64_t start = bytes_get_be64(payload);
    uint32_t length = bytes_get_be32(payload + 8);
    w->ops.on_request(w->arg, w->block->name, start, length);
    if (!small_pages_widen(w->block->source_page_bytes, &start, &length)) {
        return error_set(err, ERR_PROTOCOL,
                         "a page request for %u bytes from %#llx on of RAM "
                         "block %s cannot be widened to pages of %llu bytes",
                         length, (unsigned long long)start, w->block->name,
                         (unsigned long long)w->block->source_page_bytes);
    }
    start = htobe64(start);
    length = htobe32(length);
    memcpy(payload, &start, sizeof(start));
    memcpy(payload + 8, &length, sizeof(length));
    return 0;
}

/* The message at what was released so far. 1: released, 0: it is not all there.
 */
static int look_at_message(struct widen *w, const struct waiting *in,
                           struct error *err)
{
    uint8_t bytes[MESSAGE_BYTES_MAX];

    if (in->len - w->released < HEADER_BYTES) {
        return 0;
    }
    move(in, w->released, bytes, HEADER_BYTES, false);
    unsigned type = bytes_get_be16(bytes);
    size_t len = bytes_get_be16(bytes + 2);
    if (type == 0 || type > MESSAGE_LAST ||
        len > STREAM_RETURN_PATH_PAYLOAD_BYTES_MAX) {
        return error_set(err, ERR_PROTOCOL,
                         "the return path has a message of type %u with %zu "
                         "bytes",
                         type, len);
    }
    if (in->len - w->released < HEADER_BYTES + len) {
        return 0;
    }
    if (type == MESSAGE_REQ_PAGES || type == MESSAGE_REQ_PAGES_ID) {
        uint8_t *payload = bytes + HEADER_BYTES;
        move(in, w->released + HEADER_BYTES, payload, len, false);
        if (widen_request(w, type, payload, len, err) < 0) {
            return -1;
        }
        move(in, w->released + HEADER_BYTES, payload, len, true);
    }
    w->bitmap_size_due = type == MESSAGE_RECV_BITMAP;
    w->released += HEADER_BYTES + len;
    return 1;
}

static int look_at_bitmap_size(struct widen *w, const struct waiting *in,
                               struct error *err)
{
    uint8_t bytes[BITMAP_BYTES];

    if (in->len - w->released < BITMAP_BYTES) {
        return 0;
    }
    move(in, w->released, bytes, BITMAP_BYTES, false);
    uint64_t size = bytes_get_be64(bytes);
    if (size > STREAM_RETURN_PATH_BITMAP_BYTES_MAX) {
        return error_set(err, ERR_PROTOCOL,
                         "a bitmap of received pages has %llu bytes",
                         (unsigned long long)size);
    }
    w->bitmap_size_due = false;
    w->skip_bytes = size + BITMAP_END_BYTES;
    w->released += BITMAP_BYTES;
    return 1;
}

static int look_on(struct widen *w, const struct waiting *in, struct error *err)
{
    if (w->skip_bytes > 0) {
        size_t here = in->len - w->released;
        here = w->skip_bytes < here ? (size_t)w->skip_bytes : here;
        w->skip_bytes -= here;
        w->released += here;
        return here > 0;
    }
    return w->bitmap_size_due ? look_at_bitmap_size(w, in, err)
                              : look_at_message(w, in, err);
}

int widen_look(struct widen *w, const struct iovec *iov, int count,
               size_t *ret_len, struct error *err)
{
    struct waiting in = {.iov = iov, .count = count};
    int released;

    for (int i = 0; i < count; i++) {
        in.len += iov[i].iov_len;
    }
    /* fewer pieces may be shown than before */
    do {
        released = w->released < in.len ? look_on(w, &in, err) : 0;
    } while (released > 0);
    *ret_len = w->released < in.len ? w->released : in.len;
    return released;
}

void widen_written(struct widen *w, size_t len)
{
    assert(len <= w->released);
    w->released -= len;
}
