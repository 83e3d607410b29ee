// SPDX-License-Identifier: BSD-3-Clause
/* Takes a migration recorded between two real QEMUs apart and puts it together
 * again, as a source's daemon and a mux do, and compares.
 *
 *   stream-replay [--preempt FILE] [--return FILE] [--ceiling MIB] [--seed N]
 *                 [--expect pages|passes|opaque] MAIN
 *
 * The recording is cut anywhere, pages are asked for as the destination did and
 * at random besides, pieces leave at random times, urgent ones overtake. What
 * arrives must be a stream that is parsed to its end, with each page of the
 * recording once and with its bytes. One line says what was seen; the exit
 * status is 0 if all is as expected, 1 if not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/head.h"
#include "stream/pages.h"
#include "stream/records.h"
#include "stream/return-path.h"

#define PAGE PAGES_PAGE_BYTES
#define SLICE_MAX 40000
/* Asked for at random, at most, beside each slice. */
#define ASKS_MAX 4

struct text {
    uint8_t *bytes;
    size_t len, size;
};

struct piece {
    size_t at, len;
    uint64_t after;
    bool is_merge;
};

struct queue {
    struct text text;
    struct piece *piece;
    size_t count, done, size;
};

/* What a page is: of both sides, compared at the end. */
struct ram {
    const struct stream_head *head;
    uint64_t *digest[STREAM_HEAD_BLOCKS_MAX]; /* 0: not there */
    uint64_t pages;
    unsigned ends;
    struct text records; /* what is none of RAM */
    /* the page that comes */
    unsigned block;
    uint64_t number;
    bool is_zero;
    uint8_t page[PAGE];
};

struct asked {
    char block[STREAM_HEAD_NAME_BYTES_MAX + 1];
    uint64_t start;
};

struct replay {
    struct text main, preempt;
    struct asked *asked;
    size_t asked_count, asked_size, asked_done;
    struct stream_head_parser *head_parser;
    const struct stream_head *head;
    size_t switch_at; /* of main; 0: postcopy never begins */
    struct pages *pages;
    struct queue bulk, urgent;
    uint64_t bulk_offset;
    bool at_merge;
    struct text out_main, out_preempt;
};

static uint32_t seed = 1;

static uint32_t dice(uint32_t sides)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % sides;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "stream-replay: %s%s%s\n", what, why ? ": " : "",
            why ? why : "");
    exit(1);
}

static void *grow(void *old, size_t bytes)
{
    void *now = realloc(old, bytes);
    if (!now) {
        die("out of memory", NULL);
    }
    return now;
}

static void add(struct text *t, const void *bytes, size_t len)
{
    if (t->size - t->len < len) {
        t->size = 2 * (t->len + len);
        t->bytes = grow(t->bytes, t->size);
    }
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
}

static void read_file(struct text *t, const char *path)
{
    uint8_t buf[65536];
    size_t n;
    FILE *file = fopen(path, "rb");

    if (!file) {
        die("cannot read", path);
    }
    while ((n = fread(buf, 1, sizeof(buf), file)) > 0) {
        add(t, buf, n);
    }
    fclose(file);
}

/* ---- what RAM a stream carries ---- */

static struct ram *ram_new(const struct stream_head *head)
{
    struct ram *ram = calloc(1, sizeof(*ram));

    if (!ram) {
        die("out of memory", NULL);
    }
    ram->head = head;
    for (size_t i = 0; i < head->blocks_count; i++) {
        ram->digest[i] =
            calloc(head->blocks[i].length_bytes / PAGE + 1, sizeof(uint64_t));
        if (!ram->digest[i]) {
            die("out of memory", NULL);
        }
    }
    return ram;
}

static void ram_free(struct ram *ram)
{
    for (size_t i = 0; i < ram->head->blocks_count; i++) {
        free(ram->digest[i]);
    }
    free(ram->records.bytes);
    free(ram);
}

static uint64_t digest_of(const uint8_t *bytes, size_t len)
{
    uint64_t x = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        x = (x ^ word) * 0x100000001b3u;
        x ^= x >> 29;
    }
    return x | 1;
}

static int on_page(void *arg, unsigned block, uint64_t offset_bytes,
                   bool is_zero, uint8_t **ret_into)
{
    struct ram *ram = arg;

    ram->block = block;
    ram->number = offset_bytes / PAGE;
    ram->is_zero = is_zero;
    if (!is_zero) {
        *ret_into = ram->page;
    }
    return 0;
}

static void on_page_end(void *arg)
{
    struct ram *ram = arg;
    uint64_t *digest = &ram->digest[ram->block][ram->number];

    if (*digest) {
        die("a page comes twice in postcopy",
            ram->head->blocks[ram->block].name);
    }
    *digest = ram->is_zero ? 2 : digest_of(ram->page, PAGE);
    ram->pages++;
}

static void on_section_end(void *arg, bool is_last)
{
    struct ram *ram = arg;
    ram->ends += is_last;
}

static void on_record(void *arg, const uint8_t *bytes, size_t len)
{
    struct ram *ram = arg;
    add(&ram->records, bytes, len);
}

static const struct records_ops ram_ops = {on_page, on_page_end, on_section_end,
                                           on_record};

/* Parses what is behind the head. Returns where postcopy begins, 0: it does
 * not. */
static size_t ram_read(struct ram *ram, const struct text *text, size_t at,
                       bool is_preempt, const char *what)
{
    struct records *parser = records_new(ram->head, is_preempt, &ram_ops, ram);
    size_t switch_at = 0;

    if (!parser) {
        die("out of memory", NULL);
    }
    while (at < text->len) {
        enum records_state before = records_state(parser);
        size_t n = text->len - at;
        n = records_feed(parser, text->bytes + at, n < 977 ? n : 977);
        at += n;
        if (records_state(parser) == RECORDS_OPAQUE) {
            if (before == RECORDS_SPLITTING) {
                die(what, records_reason(parser));
            }
            break;
        }
        if (before == RECORDS_WATCHING &&
            records_state(parser) == RECORDS_SPLITTING) {
            switch_at = at;
        }
    }
    records_free(parser);
    return switch_at;
}

/* ---- the mux, and what comes out of it ---- */

static void queue_add(struct queue *q, const uint8_t *bytes, size_t len,
                      uint64_t after, bool is_merge)
{
    if (q->count == q->size) {
        q->size = q->size ? 2 * q->size : 1024;
        q->piece = grow(q->piece, q->size * sizeof(*q->piece));
    }
    q->piece[q->count++] = (struct piece){q->text.len, len, after, is_merge};
    add(&q->text, bytes, len);
}

static bool deliver_urgent(struct replay *r)
{
    if (r->urgent.done == r->urgent.count || !r->at_merge ||
        r->urgent.piece[r->urgent.done].after > r->bulk_offset) {
        return false;
    }
    const struct piece *p = &r->urgent.piece[r->urgent.done++];
    add(&r->out_main, r->urgent.text.bytes + p->at, p->len);
    return true;
}

static bool deliver_bulk(struct replay *r)
{
    if (r->bulk.done == r->bulk.count ||
        r->bulk.piece[r->bulk.done].after > r->urgent.done) {
        return false;
    }
    const struct piece *p = &r->bulk.piece[r->bulk.done++];
    add(&r->out_main, r->bulk.text.bytes + p->at, p->len);
    r->bulk_offset += p->len;
    r->at_merge = p->is_merge;
    return true;
}

static void deliver(struct replay *r, uint32_t chance)
{
    while (dice(chance) > 0 &&
           (dice(2) ? deliver_urgent(r) || deliver_bulk(r)
                    : deliver_bulk(r) || deliver_urgent(r))) {
    }
}

static void take_pieces(struct replay *r, uint32_t chance)
{
    static uint8_t buf[PAGES_BULK_BYTES];
    struct pages_out out;

    while (dice(chance) > 0) {
        size_t size = PAGES_RECORD_BYTES_MAX * (1 + dice(8));
        if (!pages_next_urgent(r->pages, buf, &out) &&
            !pages_next_bulk(r->pages, buf, size, true, &out)) {
            return;
        }
        if (out.is_preempt) {
            add(&r->out_preempt, buf, out.len);
        } else {
            queue_add(out.is_urgent ? &r->urgent : &r->bulk, buf, out.len,
                      out.after, out.is_merge);
        }
    }
}

/* ---- the recording ---- */

static void on_request(void *arg, const char *block, uint64_t start_bytes,
                       uint32_t length_bytes)
{
    struct replay *r = arg;

    if (r->asked_count == r->asked_size) {
        r->asked_size = r->asked_size ? 2 * r->asked_size : 1024;
        r->asked = grow(r->asked, r->asked_size * sizeof(*r->asked));
    }
    struct asked *asked = &r->asked[r->asked_count++];
    snprintf(asked->block, sizeof(asked->block), "%s", block);
    asked->start = start_bytes;
}

static void read_return_path(struct replay *r, const char *path)
{
    static const struct stream_return_path_ops ops = {on_request};
    struct stream_return_path_parser *parser = stream_return_path_new(&ops, r);
    struct text text = {0};

    read_file(&text, path);
    for (size_t at = 0; at < text.len;) {
        size_t len = 1 + dice(400);
        len = len < text.len - at ? len : text.len - at;
        size_t n = stream_return_path_feed(parser, text.bytes + at, len);
        at += len;
        const struct stream_return_path *known = stream_return_path_get(parser);
        if (known->state == STREAM_RETURN_PATH_OPAQUE) {
            die("return path", known->reason);
        }
        if (n < len) {
            break;
        }
    }
    stream_return_path_free(parser);
    free(text.bytes);
}

static size_t read_head(struct replay *r)
{
    size_t at = 0;

    r->head_parser = stream_head_new(PAGE);
    while (at < r->main.len &&
           stream_head_state(r->head_parser) == STREAM_HEAD_NEED_MORE) {
        size_t len = 1 + dice(300);
        len = len < r->main.len - at ? len : r->main.len - at;
        at += stream_head_feed(r->head_parser, r->main.bytes + at, len);
    }
    r->head = stream_head_get(r->head_parser);
    return at;
}

/* ---- the daemon ---- */

static void ask(struct replay *r, size_t at)
{
    /* as the destination did, about when it did */
    size_t due = (size_t)((double)r->asked_count * (double)(at - r->switch_at) /
                          (double)(r->main.len - r->switch_at));
    while (r->asked_done < due) {
        const struct asked *asked = &r->asked[r->asked_done++];
        pages_request(r->pages, asked->block, asked->start, PAGE);
    }
    for (uint32_t i = dice(ASKS_MAX); i > 0; i--) {
        const struct stream_head_block *block =
            &r->head->blocks[dice((uint32_t)r->head->blocks_count)];
        uint32_t pages = (uint32_t)(block->length_bytes / PAGE);
        pages_request(r->pages, block->name,
                      (uint64_t)dice(pages ? pages : 1) * PAGE, PAGE);
    }
}

static size_t feed_main(struct replay *r, size_t at, size_t len)
{
    struct error err = ERROR_INIT;

    if (pages_state(r->pages) != PAGES_REORDER) {
        size_t n = pages_watch_main(r->pages, r->main.bytes + at, len);
        queue_add(&r->bulk, r->main.bytes + at, n, 0, false);
        return n;
    }
    size_t room = pages_room_main(r->pages);
    len = len < room ? len : room;
    if (len > 0 &&
        pages_split_main(r->pages, r->main.bytes + at, len, &err) < 0) {
        die("main", err.text);
    }
    return len;
}

static size_t feed_preempt(struct replay *r, size_t at)
{
    struct error err = ERROR_INIT;
    size_t room = pages_room_preempt(r->pages), len = 1 + dice(SLICE_MAX / 4);

    len = len < r->preempt.len - at ? len : r->preempt.len - at;
    len = len < room ? len : room;
    if (pages_split_preempt(r->pages, r->preempt.bytes + at, len, &err) < 0) {
        die("preempt", err.text);
    }
    return len;
}

static void run(struct replay *r, size_t at)
{
    size_t preempt_at = 0;

    queue_add(&r->bulk, r->main.bytes, at, 0, false);
    while (at < r->main.len || preempt_at < r->preempt.len) {
        size_t len = 1 + dice(SLICE_MAX);
        len = len < r->main.len - at ? len : r->main.len - at;
        at += feed_main(r, at, len);
        if (r->switch_at > 0 && at > r->switch_at) {
            if (preempt_at < r->preempt.len) {
                preempt_at += feed_preempt(r, preempt_at);
            }
            ask(r, at);
        } else if (r->switch_at == 0 && at == r->main.len) {
            break;
        }
        take_pieces(r, 2 + dice(30));
        deliver(r, 2 + dice(10));
    }
    take_pieces(r, UINT32_MAX);
    while (deliver_urgent(r) || deliver_bulk(r)) {
    }
    if (r->urgent.done < r->urgent.count || r->bulk.done < r->bulk.count) {
        die("some pieces can never be delivered", NULL);
    }
}

static void compare(const struct ram *in, const struct ram *out)
{
    for (size_t i = 0; i < in->head->blocks_count; i++) {
        uint64_t pages = in->head->blocks[i].length_bytes / PAGE;
        if (memcmp(in->digest[i], out->digest[i], pages * sizeof(uint64_t))) {
            die("pages are missing or wrong in", in->head->blocks[i].name);
        }
    }
    if (in->pages != out->pages) {
        die("another number of pages arrived", NULL);
    }
    if (in->ends != out->ends) {
        die("another number of ends arrived", NULL);
    }
    if (in->records.len != out->records.len ||
        memcmp(in->records.bytes, out->records.bytes, in->records.len)) {
        die("other records than those of RAM are not the same", NULL);
    }
}

/* ---- all of it ---- */

struct options {
    const char *main, *preempt, *back, *expect;
    uint64_t ceiling_mib;
};

static struct options parse(int argc, char **argv)
{
    struct options o = {.expect = "pages", .ceiling_mib = 64};

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-') {
            o.main = argv[i];
            continue;
        }
        if (!value) {
            die("no value for", argv[i]);
        }
        if (!strcmp(argv[i], "--preempt")) {
            o.preempt = value;
        } else if (!strcmp(argv[i], "--return")) {
            o.back = value;
        } else if (!strcmp(argv[i], "--expect")) {
            o.expect = value;
        } else if (!strcmp(argv[i], "--ceiling")) {
            o.ceiling_mib = strtoull(value, NULL, 10);
        } else if (!strcmp(argv[i], "--seed")) {
            seed = (uint32_t)strtoul(value, NULL, 10);
        } else {
            die("unknown option", argv[i]);
        }
        i++;
    }
    if (!o.main) {
        die("which recording", NULL);
    }
    return o;
}

static void expect(const struct options *o, const char *seen, const char *why)
{
    printf("%s%s%s\n", seen, why ? ": " : "", why ? why : "");
    if (strcmp(o->expect, seen) != 0) {
        die("that was not expected, but", o->expect);
    }
}

static void replay_pages(struct replay *r, const struct options *o, size_t at)
{
    struct ram *in = ram_new(r->head), *out = ram_new(r->head);
    struct pages_config config = {
        .has_preempt = o->preempt != NULL,
        .soft_bytes = o->ceiling_mib << 19,
        .ceiling_bytes = o->ceiling_mib << 20,
        .offset_bytes = at,
    };
    struct error err = ERROR_INIT;
    struct pages_stats stats;

    r->switch_at = ram_read(in, &r->main, at, false, "main, as recorded");
    if (o->preempt && r->switch_at > 0) {
        ram_read(in, &r->preempt, 0, true, "preempt, as recorded");
    }
    r->pages = pages_new(r->head, &config, &err);
    if (!r->pages) {
        die("pages", err.text);
    }
    run(r, at);
    pages_get_stats(r->pages, &stats);
    if (r->switch_at == 0) {
        if (r->out_main.len != r->main.len ||
            memcmp(r->out_main.bytes, r->main.bytes, r->main.len)) {
            die("what passes is not the same", NULL);
        }
        expect(o, "passes", stats.reason);
    } else {
        if (stats.state != PAGES_PASSED || stats.pool_pages > 0) {
            die("it was not taken to its end", stats.reason);
        }
        if (memcmp(r->out_main.bytes, r->main.bytes, r->switch_at)) {
            die("what comes before postcopy is not the same", NULL);
        }
        ram_read(out, &r->out_main, at, false, "main, as it arrives");
        if (o->preempt) {
            ram_read(out, &r->out_preempt, 0, true, "preempt, as it arrives");
        }
        compare(in, out);
        char text[200];
        snprintf(text, sizeof(text),
                 "%zu blocks, %llu pages, %zu requests recorded, %llu found, "
                 "%llu gone, %llu awaited, %llu ahead",
                 r->head->blocks_count, (unsigned long long)stats.pages,
                 r->asked_count, (unsigned long long)stats.found,
                 (unsigned long long)stats.gone,
                 (unsigned long long)stats.awaited,
                 (unsigned long long)stats.urgent_pages);
        expect(o, "pages", text);
    }
    pages_free(r->pages);
    ram_free(in);
    ram_free(out);
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    struct replay *r = calloc(1, sizeof(*r));

    if (!r) {
        die("out of memory", NULL);
    }
    read_file(&r->main, o.main);
    if (o.preempt) {
        read_file(&r->preempt, o.preempt);
    }
    if (o.back) {
        read_return_path(r, o.back);
    }
    size_t at = read_head(r);
    if (r->head->state != STREAM_HEAD_DONE) {
        expect(&o, "opaque",
               r->head->state == STREAM_HEAD_OPAQUE ? r->head->reason
                                                    : "the head has no end");
    } else if (!r->head->has_postcopy_ram) {
        expect(&o, "passes", "postcopy is not announced");
    } else {
        replay_pages(r, &o, at);
    }
    stream_head_free(r->head_parser);
    free(r->main.bytes);
    free(r->preempt.bytes);
    free(r->asked);
    free(r->bulk.text.bytes);
    free(r->bulk.piece);
    free(r->urgent.text.bytes);
    free(r->urgent.piece);
    free(r->out_main.bytes);
    free(r->out_preempt.bytes);
    free(r);
    return 0;
}
