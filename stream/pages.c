// SPDX-License-Identifier: BSD-3-Clause
/* The pages of a postcopy, put in a better order. */
#include "stream/pages.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "stream/bytes.h"
#include "stream/records.h"

#define PAGE_BITS 12
#define PAGE_BYTES PAGES_PAGE_BYTES
/* Bytes that wait until all pages have left: a read of main at most, and the
 * record before it. */
#define RAW_BYTES_MAX (512u * 1024)
/* What may be held in any case: more than one read. */
#define LEAST_BYTES (256u * 1024)
#define SECTION_BYTES 5 /* type, id */
#define FOOTER_BYTES 5
#define WORD_BYTES 8

/* Bytes that are to be passed on as they are. */
struct raw {
    uint8_t *bytes;
    size_t len, sent;
};

struct block_name {
    char name[STREAM_HEAD_NAME_BYTES_MAX + 1];
    uint8_t len;
};

struct pages {
    struct pages_config config;
    uint32_t ram_id;
    size_t block_count;
    struct block_name *blocks;
    unsigned asked_block; /* the last one, most likely the next */

    enum pages_state state;
    struct records *main, *preempt;
    uint32_t coming[2]; /* the page that comes: on main, on preempt */
    struct pool *pool;

    /* what is made */
    uint64_t offset;       /* bytes of main's bulk so far */
    bool is_open;          /* a RAM section */
    uint64_t open_offset;  /* behind its begin */
    uint64_t urgent_count; /* urgent frames of main so far */

    /* what waits for the pages before it */
    struct raw before;    /* records between sections */
    bool end_due;         /* the END section */
    struct raw after;     /* what came behind it, or was not understood */
    bool preempt_end_due; /* the preempt channel's end mark */
    bool is_lost;         /* main was not understood: after is all that
                             follows the pages */

    struct pages_stats stats;
    char failure[RECORDS_REASON_BYTES]; /* in a callback */
};

/* Bytes that pass. ------------------------------------------------------- */

static int raw_add(struct raw *raw, const uint8_t *bytes, size_t len)
{
    if (raw->len + len > RAW_BYTES_MAX) {
        return -1;
    }
    uint8_t *all = realloc(raw->bytes, raw->len + len + 1);
    if (!all) {
        return -1;
    }
    memcpy(all + raw->len, bytes, len);
    raw->bytes = all;
    raw->len += len;
    return 0;
}

static void raw_done(struct raw *raw)
{
    free(raw->bytes);
    *raw = (struct raw){0};
}

static bool raw_is_there(const struct raw *raw)
{
    return raw->len > raw->sent;
}

/* Into buf of size; returns how much. */
static size_t raw_take(struct raw *raw, uint8_t *buf, size_t size)
{
    size_t n = raw->len - raw->sent;

    n = n < size ? n : size;
    if (n == 0) {
        return 0;
    }
    memcpy(buf, raw->bytes + raw->sent, n);
    raw->sent += n;
    if (raw->sent == raw->len) {
        raw_done(raw);
    }
    return n;
}

/* What the parsers tell. ------------------------------------------------- */

static int on_page(struct pages *p, unsigned block, uint64_t offset_bytes,
                   bool is_zero, uint32_t *ret_handle, uint8_t **ret_into)
{
    if (pool_begin(p->pool, block, offset_bytes >> PAGE_BITS, is_zero,
                   ret_handle, ret_into) < 0) {
        snprintf(p->failure, sizeof(p->failure),
                 "page %#llx of block %.100s came twice, or the pool is full",
                 (unsigned long long)offset_bytes, p->blocks[block].name);
        return -1;
    }
    return 0;
}

static int main_page(void *arg, unsigned block, uint64_t offset_bytes,
                     bool is_zero, uint8_t **ret_into)
{
    struct pages *p = arg;
    return on_page(p, block, offset_bytes, is_zero, &p->coming[0], ret_into);
}

static int preempt_page(void *arg, unsigned block, uint64_t offset_bytes,
                        bool is_zero, uint8_t **ret_into)
{
    struct pages *p = arg;
    return on_page(p, block, offset_bytes, is_zero, &p->coming[1], ret_into);
}

static void note_pool(struct pages *p)
{
    p->stats.pages++;
    if (pool_bytes(p->pool) > p->stats.pool_peak_bytes) {
        p->stats.pool_peak_bytes = pool_bytes(p->pool);
    }
}

static void main_page_end(void *arg)
{
    struct pages *p = arg;
    pool_end(p->pool, p->coming[0], false);
    note_pool(p);
}

static void main_section_end(void *arg, bool is_last)
{
    struct pages *p = arg;
    p->end_due |= is_last;
}

static void main_record(void *arg, const uint8_t *bytes, size_t len)
{
    struct pages *p = arg;
    struct raw *raw = p->end_due ? &p->after : &p->before;

    if (raw_add(raw, bytes, len) < 0) {
        snprintf(p->failure, sizeof(p->failure),
                 "more than %u bytes of "
                 "records that are none of RAM",
                 RAW_BYTES_MAX);
    }
}

static const struct records_ops main_ops = {
    .on_page = main_page,
    .on_page_end = main_page_end,
    .on_section_end = main_section_end,
    .on_record = main_record,
};

static void preempt_page_end(void *arg)
{
    struct pages *p = arg;
    pool_end(p->pool, p->coming[1], !p->config.sends_more_than_asked);
    note_pool(p);
}

static void preempt_end(void *arg, bool is_last)
{
    struct pages *p = arg;
    p->preempt_end_due = is_last;
}

static void preempt_record(void *arg, const uint8_t *bytes, size_t len)
{
}

static const struct records_ops preempt_ops = {
    .on_page = preempt_page,
    .on_page_end = preempt_page_end,
    .on_section_end = preempt_end,
    .on_record = preempt_record,
};

/* Life. ------------------------------------------------------------------ */

static int check_head(const struct stream_head *head, struct error *err)
{
    if (head->state != STREAM_HEAD_DONE) {
        return error_set(err, ERR_UNSUPPORTED, "main is not understood: %s",
                         head->reason);
    }
    if (!head->has_postcopy_ram) {
        return error_set(err, ERR_UNSUPPORTED, "postcopy was not announced");
    }
    if (head->advise_target_page_bytes != PAGE_BYTES) {
        return error_set(err, ERR_UNSUPPORTED, "target pages of %llu bytes",
                         (unsigned long long)head->advise_target_page_bytes);
    }
    for (size_t i = 0; i < head->blocks_count; i++) {
        if (head->blocks[i].page_size_bytes > PAGE_BYTES) {
            return error_set(
                err, ERR_UNSUPPORTED, "block %s has pages of %llu bytes",
                head->blocks[i].name,
                (unsigned long long)head->blocks[i].page_size_bytes);
        }
    }
    return 0;
}

static struct pool *make_pool(const struct stream_head *head,
                              const struct pages_config *config)
{
    struct pool_block blocks[STREAM_HEAD_BLOCKS_MAX];

    for (size_t i = 0; i < head->blocks_count; i++) {
        blocks[i].pages = head->blocks[i].length_bytes >> PAGE_BITS;
    }
    return pool_new(blocks, head->blocks_count, PAGE_BYTES,
                    (size_t)(config->ceiling_bytes >> PAGE_BITS) +
                        PAGES_RESERVE);
}

struct pages *pages_new(const struct stream_head *head,
                        const struct pages_config *config, struct error *err)
{
    if (check_head(head, err) < 0) {
        return NULL;
    }
    struct pages *p = calloc(1, sizeof(*p));
    if (p) {
        p->config = *config;
        p->offset = config->offset_bytes;
        p->ram_id = head->ram.id;
        p->block_count = head->blocks_count;
        p->blocks = calloc(head->blocks_count, sizeof(*p->blocks));
        p->main = records_new(head, false, &main_ops, p);
        p->preempt = records_new(head, true, &preempt_ops, p);
        p->pool = make_pool(head, config);
    }
    if (!p || !p->blocks || !p->main || !p->preempt || !p->pool) {
        pages_free(p);
        error_set(err, ERR_NO_MEMORY, "no memory for a pool of %llu MiB",
                  (unsigned long long)config->ceiling_bytes >> 20);
        return NULL;
    }
    for (size_t i = 0; i < head->blocks_count; i++) {
        memcpy(p->blocks[i].name, head->blocks[i].name,
               sizeof(p->blocks[i].name));
        p->blocks[i].len = (uint8_t)strlen(head->blocks[i].name);
    }
    return p;
}

void pages_free(struct pages *p)
{
    if (!p) {
        return;
    }
    raw_done(&p->before);
    raw_done(&p->after);
    records_free(p->main);
    records_free(p->preempt);
    pool_free(p->pool);
    free(p->blocks);
    free(p);
}

enum pages_state pages_state(const struct pages *p)
{
    return p->state;
}

/* In. -------------------------------------------------------------------- */

size_t pages_watch_main(struct pages *p, const uint8_t *bytes, size_t len)
{
    size_t taken = len;

    if (p->state == PAGES_WATCHING) {
        taken = records_feed(p->main, bytes, len);
        if (records_state(p->main) == RECORDS_SPLITTING) {
            p->state = PAGES_REORDER;
        } else if (records_state(p->main) == RECORDS_OPAQUE) {
            p->state =
                records_is_at_devices(p->main) ? PAGES_PASSED : PAGES_OPAQUE;
            snprintf(p->stats.reason, sizeof(p->stats.reason), "%s",
                     records_reason(p->main));
            taken = len;
        }
    }
    p->offset += taken;
    return taken;
}

static int fail(struct pages *p, const char *channel,
                const struct records *records, struct error *err)
{
    return error_set(err, ERR_PROTOCOL, "%s in postcopy: %s%s%s", channel,
                     records_reason(records), p->failure[0] ? ": " : "",
                     p->failure);
}

/* A record between sections that is not known: it and all behind it pass once
 * the pages have left. */
static int lose(struct pages *p, const uint8_t *rest, size_t len,
                struct error *err)
{
    const uint8_t *left;
    size_t left_len;

    if (!records_left(p->main, &left, &left_len) ||
        raw_add(&p->after, left, left_len) < 0 ||
        raw_add(&p->after, rest, len) < 0) {
        return fail(p, "main", p->main, err);
    }
    p->is_lost = true;
    snprintf(p->stats.reason, sizeof(p->stats.reason), "%s",
             records_reason(p->main));
    return 0;
}

int pages_split_main(struct pages *p, const uint8_t *bytes, size_t len,
                     struct error *err)
{
    assert(p->state == PAGES_REORDER);
    if (p->is_lost) {
        return raw_add(&p->after, bytes, len) < 0
                   ? fail(p, "main", p->main, err)
                   : 0;
    }
    size_t taken = records_feed(p->main, bytes, len);
    if (records_state(p->main) == RECORDS_OPAQUE) {
        return lose(p, bytes + taken, len - taken, err);
    }
    return p->failure[0] ? fail(p, "main", p->main, err) : 0;
}

int pages_split_preempt(struct pages *p, const uint8_t *bytes, size_t len,
                        struct error *err)
{
    records_feed(p->preempt, bytes, len);
    if (records_state(p->preempt) == RECORDS_OPAQUE || p->failure[0]) {
        return fail(p, "preempt", p->preempt, err);
    }
    return 0;
}

static bool has_raw(const struct pages *p)
{
    return raw_is_there(&p->before) || raw_is_there(&p->after);
}

/* Of pages that QEMU has still to send. */
static uint64_t to_come_bytes(const struct pages *p)
{
    uint64_t expected = records_expected_bytes(p->main);
    uint64_t came = p->stats.pages << PAGE_BITS;

    if (expected == 0) {
        return UINT64_MAX; /* it did not say */
    }
    return expected > came ? expected - came : 0;
}

size_t pages_room_main(const struct pages *p)
{
    bool awaits = pool_wanted(p->pool) > 0;
    uint64_t limit = awaits ? p->config.ceiling_bytes : p->config.soft_bytes;
    uint64_t most = to_come_bytes(p);

    if (p->end_due || p->is_lost || has_raw(p)) {
        return 0;
    }
    most = most > LEAST_BYTES ? most : LEAST_BYTES;
    return pool_room(p->pool, limit < most ? limit : most);
}

size_t pages_room_preempt(const struct pages *p)
{
    return pool_room(p->pool, UINT64_MAX);
}

static bool find_block(struct pages *p, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < p->block_count; i++) {
        size_t at = (p->asked_block + i) % p->block_count;
        if (p->blocks[at].len == len &&
            !memcmp(p->blocks[at].name, name, len)) {
            p->asked_block = (unsigned)at;
            return true;
        }
    }
    return false;
}

static void count_answer(struct pages *p, enum pool_answer answer)
{
    p->stats.requests += answer != POOL_UNKNOWN;
    p->stats.found += answer == POOL_PROMOTED || answer == POOL_URGENT_ONCE;
    p->stats.gone += answer == POOL_GONE;
    p->stats.awaited += answer == POOL_WANTED;
}

enum pool_answer pages_request(struct pages *p, const char *block,
                               uint64_t start_bytes, uint32_t length_bytes)
{
    enum pool_answer first = POOL_UNKNOWN;

    if (p->state != PAGES_REORDER || !find_block(p, block)) {
        return POOL_UNKNOWN;
    }
    for (uint32_t at = 0; at < length_bytes; at += PAGE_BYTES) {
        enum pool_answer answer = pool_request(p->pool, p->asked_block,
                                               (start_bytes + at) >> PAGE_BITS);
        count_answer(p, answer);
        first = at ? first : answer;
    }
    return first;
}

unsigned pages_last_block(const struct pages *p)
{
    return p->asked_block;
}

bool pages_awaits(const struct pages *p)
{
    return pool_wanted(p->pool) > 0;
}

/* Out. ------------------------------------------------------------------- */

static size_t put_word(uint8_t *at, uint64_t word)
{
    word = htobe64(word);
    memcpy(at, &word, sizeof(word));
    return sizeof(word);
}

static size_t put_section(const struct pages *p, uint8_t *at, uint8_t type)
{
    uint32_t id = htobe32(p->ram_id);

    at[0] = type;
    memcpy(at + 1, &id, sizeof(id));
    return SECTION_BYTES;
}

/* A record; block_before is that of the record in front of it in this piece,
 * -1: none. */
static size_t put_page(const struct pages *p, uint8_t *at,
                       const struct pool_page *page, int block_before)
{
    const struct block_name *name = &p->blocks[page->block];
    bool goes_on = block_before == (int)page->block;
    size_t n = put_word(at, page->page << PAGE_BITS |
                                (page->is_zero ? RECORDS_ZERO : RECORDS_PAGE) |
                                (goes_on ? RECORDS_CONTINUE : 0));

    if (!goes_on) {
        at[n++] = name->len;
        memcpy(at + n, name->name, name->len);
        n += name->len;
    }
    if (page->is_zero) {
        at[n++] = 0;
    } else {
        memcpy(at + n, page->data, PAGE_BYTES);
        n += PAGE_BYTES;
    }
    return n;
}

static void set_page(struct pages_out *out, const struct pool_page *page)
{
    out->has_page = true;
    out->block = page->block;
    out->page = page->page;
    out->cause = page->cause;
}

static bool is_empty(const struct pages *p)
{
    return pool_total(p->pool) == 0;
}

bool pages_is_preempt_over(const struct pages *p)
{
    return is_empty(p) && !p->preempt_end_due;
}

bool pages_next_urgent(struct pages *p, uint8_t *buf, struct pages_out *ret_out)
{
    bool has_preempt = p->config.has_preempt;
    struct pool_page page;

    *ret_out = (struct pages_out){.is_preempt = has_preempt,
                                  .is_urgent = !has_preempt};
    if ((has_preempt || p->is_open) && pool_peek(p->pool, POOL_URGENT, &page)) {
        ret_out->len = put_page(p, buf, &page, -1);
        ret_out->after = has_preempt ? 0 : p->open_offset;
        set_page(ret_out, &page);
        pool_take(p->pool, POOL_URGENT);
        p->urgent_count += !has_preempt;
        p->stats.urgent_pages++;
        return true;
    }
    /* no page can be asked for any more once all of main has come */
    if (p->preempt_end_due && is_empty(p) &&
        (p->end_due || p->state != PAGES_REORDER)) {
        p->preempt_end_due = false;
        ret_out->len = put_word(buf, RECORDS_EOS);
        return true;
    }
    return false;
}

/* Ends the open section, behind all urgent frames in it. */
static size_t put_close(struct pages *p, uint8_t *at)
{
    size_t n = put_word(at, RECORDS_EOS);

    n += put_section(p, at + n, RECORDS_TYPE_FOOTER);
    p->is_open = false;
    return n;
}

static size_t put_end(struct pages *p, uint8_t *at)
{
    size_t n = put_section(p, at, RECORDS_TYPE_END);

    n += put_word(at + n, RECORDS_EOS);
    return n + put_section(p, at + n, RECORDS_TYPE_FOOTER);
}

/* Pages, as many as have room. */
static size_t put_pages(struct pages *p, uint8_t *buf, size_t size,
                        struct pages_out *out)
{
    size_t n = 0;
    int before = -1;
    struct pool_page page;

    while (size - n >= PAGES_RECORD_BYTES_MAX) {
        enum pool_queue queue = POOL_NEAR;
        if (!pool_peek(p->pool, queue, &page)) {
            queue = POOL_BULK;
            if (!pool_peek(p->pool, queue, &page)) {
                break;
            }
        }
        n += put_page(p, buf + n, &page, before);
        before = (int)page.block;
        set_page(out, &page);
        pool_take(p->pool, queue);
    }
    out->is_merge = true;
    return n;
}

/* Records between sections. */
static size_t put_raw(struct pages *p, struct raw *raw, uint8_t *buf,
                      size_t size, struct pages_out *out)
{
    if (p->is_open) {
        out->after = p->urgent_count;
        return put_close(p, buf);
    }
    return raw_take(raw, buf, size);
}

/* Everything has left but the end. */
static size_t put_last(struct pages *p, uint8_t *buf, size_t size,
                       struct pages_out *out)
{
    size_t n = 0;

    if (p->is_open) {
        out->after = p->urgent_count;
        n = put_close(p, buf);
    }
    if (p->end_due) {
        n += put_end(p, buf + n);
    }
    p->end_due = false;
    n += raw_take(&p->after, buf + n, size - n);
    if (!raw_is_there(&p->after)) {
        p->state = p->is_lost ? PAGES_OPAQUE : PAGES_PASSED;
    }
    return n;
}

bool pages_next_bulk(struct pages *p, uint8_t *buf, size_t size,
                     bool is_delivered, struct pages_out *ret_out)
{
    struct pages_out out = {0};
    bool is_last = p->end_due || p->is_lost || raw_is_there(&p->after);

    assert(size >= PAGES_RECORD_BYTES_MAX);
    if (p->state != PAGES_REORDER) {
        return false;
    }
    if (raw_is_there(&p->before) && is_empty(p)) {
        out.len = put_raw(p, &p->before, buf, size, &out);
    } else if (!p->is_open && !is_empty(p)) {
        out.len = put_section(p, buf, RECORDS_TYPE_PART);
        out.is_merge = true;
        p->is_open = true;
        p->open_offset = p->offset + out.len;
    } else if (pool_count(p->pool, POOL_NEAR) + pool_count(p->pool, POOL_BULK) >
               0) {
        out.len = put_pages(p, buf, size, &out);
    } else if (is_last && is_empty(p) && is_delivered) {
        out.len = put_last(p, buf, size, &out);
    }
    p->offset += out.len;
    *ret_out = out;
    return out.len > 0;
}

void pages_get_stats(const struct pages *p, struct pages_stats *ret_stats)
{
    *ret_stats = p->stats;
    ret_stats->state = p->state;
    ret_stats->pool_bytes = pool_bytes(p->pool);
    ret_stats->pool_pages = pool_total(p->pool);
    ret_stats->waiting = pool_wanted(p->pool);
}
