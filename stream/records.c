// SPDX-License-Identifier: BSD-3-Clause
/* The records of QEMU's main stream behind its head, and of the preempt
 * channel. */
#include "stream/records.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "stream/bytes.h"

/* Commands (QEMU migration/savevm.c enum qemu_vm_cmd). */
#define COMMAND_DISCARD 6u /* POSTCOPY_RAM_DISCARD */
#define COMMAND_PACKAGED 7u
#define COMMAND_LAST 11u

#define RUN_BYTES 5 /* a POSTCOPY_RUN command */
#define KNOWN_FLAGS                                                            \
    (RECORDS_ZERO | RECORDS_PAGE | RECORDS_EOS | RECORDS_CONTINUE |            \
     RECORDS_MULTIFD_FLUSH)
#define BUF_BYTES (RECORDS_COMMAND_BYTES_MAX + 8)

/* Looks at the bytes it has waited for: buf, have. */
typedef void (*take_fn)(struct records *r);

struct records {
    struct records_ops ops;
    void *arg;
    bool is_preempt;
    unsigned page_bits;
    uint32_t ram_id;
    size_t blocks_count;
    struct {
        char name[STREAM_HEAD_NAME_BYTES_MAX + 1];
        size_t name_len;
        uint64_t length_bytes;
    } blocks[STREAM_HEAD_BLOCKS_MAX];

    enum records_state state;
    char reason[RECORDS_REASON_BYTES];

    /* bytes that are waited for, then take() */
    take_fn take;
    size_t need, have;
    /* bytes that pass: page data or a blob, then after_body() */
    uint64_t body_left;
    uint8_t *body_into; /* NULL: they are not kept */
    take_fn after_body;
    uint8_t tail[RUN_BYTES]; /* the last of a blob */

    int block; /* of the record before, on this channel; -1: none */
    uint64_t word;
    bool in_section; /* of RAM, so also all of a preempt channel */
    bool in_end;     /* the section is an END section */
    bool at_devices;
    uint64_t expected_bytes;
    uint8_t buf[BUF_BYTES];
};

static void take_type(struct records *r);
static void take_word(struct records *r);

static void __attribute__((format(printf, 2, 3)))
stop(struct records *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(r->reason, sizeof(r->reason), format, args);
    va_end(args);
    r->state = RECORDS_OPAQUE;
}

/* Waits for need bytes, of a record that begins with them. */
static void expect(struct records *r, size_t need, take_fn take)
{
    r->have = 0;
    r->need = need;
    r->take = take;
}

/* Waits until there are need bytes of the record that has begun. */
static void expect_more(struct records *r, size_t need, take_fn take)
{
    assert(need > r->have && need <= sizeof(r->buf));
    r->need = need;
    r->take = take;
}

static void expect_type(struct records *r)
{
    expect(r, 1, take_type);
}

static void expect_word(struct records *r)
{
    expect(r, 8, take_word);
}

static void expect_body(struct records *r, uint64_t bytes, uint8_t *into,
                        take_fn after)
{
    r->body_left = bytes;
    r->body_into = into;
    r->after_body = after;
}

static bool is_splitting(const struct records *r)
{
    return r->state == RECORDS_SPLITTING;
}

/* Commands. -------------------------------------------------------------- */

static void after_blob(struct records *r)
{
    static const uint8_t run[RUN_BYTES] = {RECORDS_TYPE_COMMAND, 0, 5, 0, 0};

    if (memcmp(r->tail, run, RUN_BYTES) != 0) {
        stop(r, "the package does not end with POSTCOPY_RUN");
        return;
    }
    r->state = RECORDS_SPLITTING;
    expect_type(r);
}

static void take_package(struct records *r)
{
    uint32_t size_bytes = bytes_get_be32(r->buf + 5);

    if (is_splitting(r)) {
        stop(r, "a second package");
        return;
    }
    expect_body(r, size_bytes, NULL, after_blob);
    if (size_bytes < RUN_BYTES) {
        stop(r, "a package of %u bytes", size_bytes);
    }
}

/* u8 version, u8 length, name, u8 0, then be64 start and be64 length of each
 * range (QEMU migration/savevm.c qemu_savevm_send_postcopy_ram_discard()). */
static void count_discard(struct records *r)
{
    size_t at = 5 + 3 + (size_t)r->buf[6];

    for (; r->buf[5] == 0 && at + 16 <= r->have; at += 16) {
        uint64_t bytes = bytes_get_be64(r->buf + at + 8);
        r->expected_bytes = r->expected_bytes + bytes < bytes
                                ? UINT64_MAX
                                : r->expected_bytes + bytes;
    }
}

static void end_command(struct records *r)
{
    if (bytes_get_be16(r->buf + 1) == COMMAND_DISCARD && r->have > 6) {
        count_discard(r);
    }
    if (is_splitting(r)) {
        r->ops.on_record(r->arg, r->buf, r->have);
    }
    expect_type(r);
}

static void take_command(struct records *r)
{
    unsigned command = bytes_get_be16(r->buf + 1);
    size_t len = bytes_get_be16(r->buf + 3);

    if (command == 0 || command > COMMAND_LAST) {
        stop(r, "command %u is not known", command);
    } else if (command == COMMAND_PACKAGED) {
        if (len != 4) {
            stop(r, "a PACKAGED command of %zu bytes", len);
            return;
        }
        expect_more(r, 9, take_package);
    } else if (len > RECORDS_COMMAND_BYTES_MAX) {
        stop(r, "command %u has %zu bytes", command, len);
    } else if (len == 0) {
        end_command(r);
    } else {
        expect_more(r, 5 + len, end_command);
    }
}

/* RAM records. ----------------------------------------------------------- */

static void take_footer(struct records *r)
{
    if (r->buf[0] != RECORDS_TYPE_FOOTER ||
        bytes_get_be32(r->buf + 1) != r->ram_id) {
        stop(r, "no footer behind a RAM section");
        return;
    }
    r->in_section = false;
    if (is_splitting(r)) {
        r->ops.on_section_end(r->arg, r->in_end);
    }
    expect_type(r);
}

static void end_page(struct records *r)
{
    if (is_splitting(r)) {
        r->ops.on_page_end(r->arg);
    }
    expect_word(r);
}

/* The record's block is known, and its word. Its own bytes are gone from buf
 * once this has begun. */
static void begin_page(struct records *r)
{
    uint64_t page_bytes = UINT64_C(1) << r->page_bits;
    uint64_t offset = r->word & ~(page_bytes - 1);
    bool is_zero = r->word & RECORDS_ZERO;
    uint8_t *into = NULL;

    if (r->block < 0) {
        stop(r, "a page goes on with a block, and none was named before");
        return;
    }
    if (offset >= r->blocks[r->block].length_bytes) {
        stop(r, "a page at %#llx of block %s, which has %llu bytes",
             (unsigned long long)offset, r->blocks[r->block].name,
             (unsigned long long)r->blocks[r->block].length_bytes);
        return;
    }
    if (is_splitting(r)) {
        if (r->ops.on_page(r->arg, (unsigned)r->block, offset, is_zero,
                           &into)) {
            stop(r, "no place for a page");
            return;
        }
    }
    if (is_zero) {
        end_page(r);
    } else {
        expect_body(r, page_bytes, into, end_page);
    }
}

static void take_fill(struct records *r)
{
    if (r->buf[r->have - 1] != 0) {
        stop(r, "a page filled with %#x", r->buf[r->have - 1]);
        return;
    }
    begin_page(r);
}

/* What follows the block's name. */
static void take_rest(struct records *r)
{
    if (r->word & RECORDS_ZERO) {
        expect_more(r, r->have + 1, take_fill);
    } else {
        begin_page(r);
    }
}

static void take_name(struct records *r)
{
    const uint8_t *name = r->buf + 9;
    size_t len = r->buf[8];

    for (size_t i = 0; i < r->blocks_count; i++) {
        if (r->blocks[i].name_len == len &&
            memcmp(r->blocks[i].name, name, len) == 0) {
            r->block = (int)i;
            take_rest(r);
            return;
        }
    }
    stop(r, "a page of a block that the head did not list");
}

static void take_name_len(struct records *r)
{
    if (r->buf[8] == 0) {
        stop(r, "a page of a block without a name");
        return;
    }
    expect_more(r, 9 + (size_t)r->buf[8], take_name);
}

static void take_eos(struct records *r)
{
    if (!r->is_preempt) {
        expect(r, 5, take_footer);
        return;
    }
    r->ops.on_section_end(r->arg, true);
    expect_word(r);
}

static void take_word(struct records *r)
{
    uint64_t word = bytes_get_be64(r->buf);
    uint64_t flags = word & ((UINT64_C(1) << r->page_bits) - 1);

    r->word = word;
    if (flags & ~(uint64_t)KNOWN_FLAGS) {
        stop(r, "a RAM record with flags %#llx", (unsigned long long)flags);
    } else if (word == RECORDS_EOS) {
        take_eos(r);
    } else if (word == RECORDS_MULTIFD_FLUSH && !is_splitting(r)) {
        expect_word(r);
    } else if (flags == RECORDS_PAGE || flags == RECORDS_ZERO) {
        expect_more(r, 9, take_name_len);
    } else if (flags == (RECORDS_PAGE | RECORDS_CONTINUE) ||
               flags == (RECORDS_ZERO | RECORDS_CONTINUE)) {
        take_rest(r);
    } else {
        stop(r, "a RAM record with flags %#llx", (unsigned long long)flags);
    }
}

/* Records of main. ------------------------------------------------------- */

static void take_section(struct records *r)
{
    uint32_t id = bytes_get_be32(r->buf + 1);

    if (id != r->ram_id) {
        stop(r, "section %u is none of RAM (%u)", id, r->ram_id);
        return;
    }
    r->in_end = r->buf[0] == RECORDS_TYPE_END;
    r->in_section = true;
    expect_word(r);
}

static void take_type(struct records *r)
{
    switch (r->buf[0]) {
    case RECORDS_TYPE_PART:
    case RECORDS_TYPE_END:
        expect_more(r, 5, take_section);
        return;
    case RECORDS_TYPE_COMMAND:
        expect_more(r, 5, take_command);
        return;
    case RECORDS_TYPE_EOF:
        if (is_splitting(r)) {
            r->ops.on_record(r->arg, r->buf, 1);
            expect_type(r);
            return;
        }
        break;
    case RECORDS_TYPE_START:
    case RECORDS_TYPE_FULL:
        r->at_devices = !is_splitting(r);
        break;
    default:
        break;
    }
    stop(r, "a record of type %#x", r->buf[0]);
}

/* Feeding. --------------------------------------------------------------- */

/* Keeps the last bytes of a blob. */
static void keep_tail(struct records *r, const uint8_t *bytes, size_t len)
{
    if (len >= RUN_BYTES) {
        memcpy(r->tail, bytes + len - RUN_BYTES, RUN_BYTES);
    } else {
        memmove(r->tail, r->tail + len, RUN_BYTES - len);
        memcpy(r->tail + RUN_BYTES - len, bytes, len);
    }
}

static size_t feed_body(struct records *r, const uint8_t *bytes, size_t len)
{
    size_t n = len < r->body_left ? len : (size_t)r->body_left;

    if (r->body_into) {
        memcpy(r->body_into, bytes, n);
        r->body_into += n;
    } else if (r->after_body == after_blob) {
        keep_tail(r, bytes, n);
    }
    r->body_left -= n;
    if (r->body_left == 0) {
        r->after_body(r);
    }
    return n;
}

static size_t feed_buf(struct records *r, const uint8_t *bytes, size_t len)
{
    size_t n = r->need - r->have;

    n = len < n ? len : n;
    memcpy(r->buf + r->have, bytes, n);
    r->have += n;
    if (r->have == r->need) {
        r->take(r);
    }
    return n;
}

size_t records_feed(struct records *r, const uint8_t *bytes, size_t len)
{
    enum records_state began = r->state;
    size_t at = 0;

    if (began == RECORDS_OPAQUE) {
        return 0;
    }
    while (at < len && r->state == began) {
        at += r->body_left > 0 ? feed_body(r, bytes + at, len - at)
                               : feed_buf(r, bytes + at, len - at);
    }
    return at;
}

struct records *records_new(const struct stream_head *head, bool is_preempt,
                            const struct records_ops *ops, void *arg)
{
    struct records *r = calloc(1, sizeof(*r));

    assert(head->state == STREAM_HEAD_DONE && head->has_postcopy_ram);
    if (!r) {
        return NULL;
    }
    r->ops = *ops;
    r->arg = arg;
    r->is_preempt = is_preempt;
    while (UINT64_C(1) << r->page_bits < head->advise_target_page_bytes) {
        r->page_bits++;
    }
    r->ram_id = head->ram.id;
    r->blocks_count = head->blocks_count;
    for (size_t i = 0; i < head->blocks_count; i++) {
        memcpy(r->blocks[i].name, head->blocks[i].name,
               sizeof(r->blocks[i].name));
        r->blocks[i].name_len = strlen(head->blocks[i].name);
        r->blocks[i].length_bytes = head->blocks[i].length_bytes;
    }
    r->block = -1;
    r->in_section = is_preempt;
    r->state = is_preempt ? RECORDS_SPLITTING : RECORDS_WATCHING;
    if (is_preempt) {
        expect_word(r);
    } else {
        expect_type(r);
    }
    return r;
}

void records_free(struct records *r)
{
    free(r);
}

uint64_t records_expected_bytes(const struct records *r)
{
    return r->expected_bytes;
}

enum records_state records_state(const struct records *r)
{
    return r->state;
}

bool records_is_at_devices(const struct records *r)
{
    return r->at_devices;
}

const char *records_reason(const struct records *r)
{
    return r->reason;
}

bool records_left(const struct records *r, const uint8_t **ret_bytes,
                  size_t *ret_len)
{
    *ret_bytes = r->buf;
    *ret_len = r->have;
    return r->state == RECORDS_OPAQUE && !r->in_section;
}
