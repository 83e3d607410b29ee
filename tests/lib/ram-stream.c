// SPDX-License-Identifier: BSD-3-Clause
/* A source QEMU's channels from a generator, and the other end of a migration.
 */
#include "tests/lib/ram-stream.h"

#include "stream/bytes.h"

const uint64_t block_pages[BLOCKS] = {300, 40, 70};
const char *const block_names[BLOCKS] = {"pc.ram", "vga.vram", "/rom@etc"};

static uint32_t seed = 1;

uint32_t dice(uint32_t sides)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % sides;
}

/* ---- a stream ---- */

void add(struct text *t, const void *bytes, size_t len)
{
    assert_true(t->len + len <= STREAM_MAX);
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
}

static void add_byte(struct text *t, uint8_t byte)
{
    add(t, &byte, 1);
}

static void add_be(struct text *t, uint64_t value, size_t bytes)
{
    for (size_t i = bytes; i-- > 0;) {
        add_byte(t, (uint8_t)(value >> (8 * i)));
    }
}

static void add_command(struct text *t, unsigned command, const void *payload,
                        size_t len)
{
    add_byte(t, RECORDS_TYPE_COMMAND);
    add_be(t, command, 2);
    add_be(t, len, 2);
    add(t, payload, len);
}

static void fill_page(uint8_t *page, unsigned block, uint64_t number)
{
    uint64_t x = number * 0x9e3779b97f4a7c15u + block;
    for (size_t i = 0; i < PAGE; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(page + i, &x, 8);
    }
}

static bool is_zero_page(unsigned block, uint64_t number)
{
    return (number * 7 + block) % 5 == 0;
}

void add_page(struct text *t, unsigned block, uint64_t number, int *before)
{
    bool zero = is_zero_page(block, number);
    bool goes_on = *before == (int)block && dice(10) > 0;

    add_be(t, number << 12 | (zero ? 2 : 8) | (goes_on ? 0x20 : 0), 8);
    if (!goes_on) {
        add_byte(t, (uint8_t)strlen(block_names[block]));
        add(t, block_names[block], strlen(block_names[block]));
    }
    if (zero) {
        add_byte(t, 0);
    } else {
        uint8_t page[PAGE];
        fill_page(page, block, number);
        add(t, page, PAGE);
    }
    *before = (int)block;
}

void begin_section(struct text *t, uint8_t type)
{
    add_byte(t, type);
    add_be(t, RAM_ID, 4);
}

void end_section(struct text *t)
{
    add_be(t, 0x10, 8);
    add_byte(t, RECORDS_TYPE_FOOTER);
    add_be(t, RAM_ID, 4);
}

void add_package(struct text *t)
{
    uint8_t blob[600];
    size_t len = 5 + dice(500);

    for (size_t i = 0; i < len; i++) {
        blob[i] = (uint8_t)dice(256);
    }
    memcpy(blob + len - 5, "\x08\0\5\0\0", 5);
    add_byte(t, RECORDS_TYPE_COMMAND);
    add_be(t, 7, 2);
    add_be(t, 4, 2);
    add_be(t, len, 4);
    add(t, blob, len);
}

/* Some pages more than once in precopy; each at most once in postcopy. */
void write_source(struct source *s, bool has_preempt)
{
    int before = -1, before_preempt = -1;

    for (int part = 0; part < 3; part++) {
        begin_section(&s->main, RECORDS_TYPE_PART);
        for (uint32_t i = dice(20); i > 0; i--) {
            unsigned block = dice(BLOCKS);
            add_page(&s->main, block, dice((uint32_t)block_pages[block]),
                     &before);
        }
        if (dice(2)) {
            add_be(&s->main, RECORDS_MULTIFD_FLUSH, 8);
        }
        end_section(&s->main);
        before = -1;
    }
    add_command(&s->main, 6, "\0\6pc.ram\0AAAAAAAABBBBBBBB", 25);
    add_command(&s->main, 2, "\0\0\0\2", 4);
    add_package(&s->main);
    s->switch_at = s->main.len;
    if (dice(4) > 0) {
        add_command(&s->main, 2, "\0\0\0\4", 4);
    }
    begin_section(&s->main, RECORDS_TYPE_PART);
    for (uint32_t i = dice(500); i > 0; i--) {
        unsigned block = dice(3) ? 0 : dice(BLOCKS);
        uint64_t number = dice((uint32_t)block_pages[block]);
        if (s->is_there[block][number]) {
            continue;
        }
        s->is_there[block][number] = true;
        s->pages++;
        if (has_preempt && dice(8) == 0) {
            add_page(&s->preempt, block, number, &before_preempt);
            continue;
        }
        add_page(&s->main, block, number, &before);
        if (dice(30) == 0) {
            end_section(&s->main);
            begin_section(&s->main, RECORDS_TYPE_PART);
            before = -1;
        }
    }
    end_section(&s->main);
    if (dice(2)) {
        begin_section(&s->main, RECORDS_TYPE_END);
        end_section(&s->main);
    } else { /* with pages in it */
        begin_section(&s->main, RECORDS_TYPE_END);
        before = -1;
        for (uint64_t i = 0; i < 40; i++) {
            if (!s->is_there[1][i]) {
                s->is_there[1][i] = true;
                s->pages++;
                add_page(&s->main, 1, i, &before);
            }
        }
        end_section(&s->main);
    }
    add_byte(&s->main, RECORDS_TYPE_EOF);
    if (has_preempt && dice(2)) {
        add_be(&s->preempt, RECORDS_EOS, 8);
    }
}

struct stream_head *make_head(void)
{
    struct stream_head *head = calloc(1, sizeof(*head));

    head->state = STREAM_HEAD_DONE;
    head->has_advise = head->has_postcopy_ram = true;
    head->advise_target_page_bytes = PAGE;
    head->advise_page_sizes_bytes = PAGE;
    head->ram.id = RAM_ID;
    head->blocks_count = BLOCKS;
    for (int i = 0; i < BLOCKS; i++) {
        strcpy(head->blocks[i].name, block_names[i]);
        head->blocks[i].length_bytes = block_pages[i] * PAGE;
    }
    return head;
}

/* ---- the other end ---- */

void put_verbatim(struct receiver *r, const uint8_t *bytes, size_t len)
{
    assert_true(r->bulk_count < FRAMES_MAX);
    r->bulk[r->bulk_count++] =
        (struct piece){.at = r->bulk_bytes.len, .len = len};
    add(&r->bulk_bytes, bytes, len);
}

void receive(struct receiver *r, const uint8_t *bytes,
             const struct pages_out *out)
{
    if (out->is_preempt) {
        add(&r->preempt, bytes, out->len);
        return;
    }
    struct text *text = out->is_urgent ? &r->urgent_bytes : &r->bulk_bytes;
    struct piece *piece = out->is_urgent ? &r->urgent[r->urgent_count++]
                                         : &r->bulk[r->bulk_count++];
    assert_true(r->urgent_count < FRAMES_MAX && r->bulk_count < FRAMES_MAX);
    *piece = (struct piece){text->len, out->len, out->after, out->is_merge};
    add(text, bytes, out->len);
}

static bool deliver_urgent(struct receiver *r)
{
    if (r->urgent_done == r->urgent_count || !r->at_merge ||
        r->urgent[r->urgent_done].after > r->bulk_offset) {
        return false;
    }
    const struct piece *u = &r->urgent[r->urgent_done++];
    add(&r->main, r->urgent_bytes.bytes + u->at, u->len);
    return true;
}

static bool deliver_bulk(struct receiver *r)
{
    if (r->bulk_done == r->bulk_count ||
        r->bulk[r->bulk_done].after > r->urgent_done) {
        return false;
    }
    const struct piece *b = &r->bulk[r->bulk_done++];
    add(&r->main, r->bulk_bytes.bytes + b->at, b->len);
    r->bulk_offset += b->len;
    r->at_merge = b->is_merge;
    return true;
}

void deliver_some(struct receiver *r, uint32_t chance)
{
    while (dice(chance) > 0 &&
           (dice(2) ? deliver_urgent(r) || deliver_bulk(r)
                    : deliver_bulk(r) || deliver_urgent(r))) {
    }
}

void deliver_all(struct receiver *r)
{
    while (deliver_urgent(r) || deliver_bulk(r)) {
    }
    assert_int_equal(r->urgent_done, r->urgent_count);
    assert_int_equal(r->bulk_done, r->bulk_count);
}

/* ---- the destination QEMU, strict ---- */

struct strict {
    bool has[BLOCKS][300];
    unsigned pages;
    unsigned ends;
    struct text records;
    unsigned block;
    uint64_t number;
    bool zero;
    uint8_t page[PAGE];
};

static int strict_page(void *arg, unsigned block, uint64_t offset, bool zero,
                       uint8_t **ret_into)
{
    struct strict *s = arg;
    s->block = block;
    s->number = offset / PAGE;
    s->zero = zero;
    assert_int_equal(s->ends, 0);
    *ret_into = s->page;
    return 0;
}

static void strict_page_end(void *arg)
{
    struct strict *s = arg;
    uint8_t expected[PAGE];

    assert_false(s->has[s->block][s->number]);
    s->has[s->block][s->number] = true;
    s->pages++;
    assert_int_equal(s->zero, is_zero_page(s->block, s->number));
    if (!s->zero) {
        fill_page(expected, s->block, s->number);
        assert_memory_equal(s->page, expected, PAGE);
    }
}

static void strict_section_end(void *arg, bool is_last)
{
    struct strict *s = arg;
    s->ends += is_last;
}

static void strict_record(void *arg, const uint8_t *bytes, size_t len)
{
    struct strict *s = arg;
    add(&s->records, bytes, len);
}

static const struct records_ops strict_ops = {
    strict_page, strict_page_end, strict_section_end, strict_record};

static void strict_feed(struct records *parser, const struct text *text)
{
    size_t at = 0;
    while (at < text->len) {
        size_t n = records_feed(parser, text->bytes + at, text->len - at);
        if (records_state(parser) == RECORDS_OPAQUE) {
            fail_msg("at %zu: %s", at + n, records_reason(parser));
        }
        at += n;
    }
}

struct text text_new(void)
{
    return (struct text){malloc(STREAM_MAX), 0};
}

void assert_arrived(const struct source *s, const struct receiver *r,
                    const struct stream_head *head)
{
    struct strict *strict = calloc(1, sizeof(*strict));
    struct records *main = records_new(head, false, &strict_ops, strict);
    struct records *preempt = records_new(head, true, &strict_ops, strict);
    unsigned preempt_ends;

    strict->records = text_new();
    /* up to the switch nothing has changed */
    assert_true(r->main.len >= s->switch_at);
    assert_memory_equal(r->main.bytes, s->main.bytes, s->switch_at);
    strict_feed(preempt, &r->preempt);
    preempt_ends = strict->ends;
    strict->ends = 0;
    strict_feed(main, &r->main);
    assert_int_equal(strict->ends, 1);
    assert_int_equal(strict->pages, s->pages);
    for (int b = 0; b < BLOCKS; b++) {
        assert_memory_equal(strict->has[b], s->is_there[b], 300);
    }
    /* the last is EOF, what is before it the PING, if there was one */
    assert_int_equal(strict->records.bytes[strict->records.len - 1],
                     RECORDS_TYPE_EOF);
    assert_true(strict->records.len == 1 || strict->records.len == 10);
    /* an end mark of preempt is there if it was */
    size_t end = s->preempt.len;
    bool had =
        end >= 8 && bytes_get_be64(s->preempt.bytes + end - 8) == RECORDS_EOS;
    assert_int_equal(preempt_ends, had);
    records_free(main);
    records_free(preempt);
    free(strict->records.bytes);
    free(strict);
}

/* ---- from one to the other ---- */

void take_pieces(struct pages *p, struct receiver *r, uint32_t chance)
{
    static uint8_t buf[PAGES_BULK_BYTES];
    struct pages_out out;

    while (dice(chance) > 0) {
        size_t size = PAGES_RECORD_BYTES_MAX * (1 + dice(8));
        if (dice(3) && pages_next_urgent(p, buf, &out)) {
            receive(r, buf, &out);
        } else if (pages_next_bulk(p, buf, size, true, &out)) {
            receive(r, buf, &out);
        } else if (!pages_next_urgent(p, buf, &out)) {
            return;
        } else {
            receive(r, buf, &out);
        }
    }
}

struct receiver *receiver_new(void)
{
    struct receiver *r = calloc(1, sizeof(*r));
    r->bulk_bytes = text_new();
    r->urgent_bytes = text_new();
    r->main = text_new();
    r->preempt = text_new();
    return r;
}

void receiver_free(struct receiver *r)
{
    free(r->bulk_bytes.bytes);
    free(r->urgent_bytes.bytes);
    free(r->main.bytes);
    free(r->preempt.bytes);
    free(r);
}
