// SPDX-License-Identifier: BSD-3-Clause
/* A source QEMU's channels from a generator, and the other end of a migration:
 * the mux's receiver and a destination QEMU that takes nothing wrong. For tests
 * of stream/pages. */
#ifndef TESTS_LIB_RAM_STREAM_H
#define TESTS_LIB_RAM_STREAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stream/pages.h"
#include "stream/records.h"

#define PAGE 4096u
#define RAM_ID 3u
#define STREAM_MAX (4u << 20)

enum { BLOCKS = 3, BLOCK_PAGES_MAX = 300, FRAMES_MAX = 4096 };

extern const uint64_t block_pages[BLOCKS];
extern const char *const block_names[BLOCKS];

/* 0 to sides - 1, the same row each time. */
uint32_t dice(uint32_t sides);

/* Bytes of a channel, STREAM_MAX at most; the caller frees .bytes. */
struct text {
    uint8_t *bytes;
    size_t len;
};

struct text text_new(void);
void add(struct text *t, const void *bytes, size_t len);

/* Parts of a main channel. *before: the block of the page before, -1: none. */
void add_page(struct text *t, unsigned block, uint64_t number, int *before);
void begin_section(struct text *t, uint8_t type);
void end_section(struct text *t);
void add_package(struct text *t);

/* What a source QEMU writes: one or two channels. */
struct source {
    struct text main, preempt;
    size_t switch_at; /* main: where postcopy begins */
    unsigned pages;   /* behind that, both channels */
    bool is_there[BLOCKS][BLOCK_PAGES_MAX];
};

/* Fills the two texts by dice. Some pages come more than once in precopy, each
 * at most once in postcopy. */
void write_source(struct source *s, bool has_preempt);

/* The head in front of it; the caller frees it. */
struct stream_head *make_head(void);

struct piece {
    size_t at, len;
    uint64_t after;
    bool is_merge;
};

/* The mux's receiver, as transport/merge.h has it: urgent frames go wherever
 * they may, as soon or as late as dice want. */
struct receiver {
    struct text bulk_bytes, urgent_bytes, main, preempt;
    struct piece bulk[FRAMES_MAX], urgent[FRAMES_MAX];
    size_t bulk_count, urgent_count, bulk_done, urgent_done;
    uint64_t bulk_offset;
    bool at_merge;
};

struct receiver *receiver_new(void);
void receiver_free(struct receiver *r);
void put_verbatim(struct receiver *r, const uint8_t *bytes, size_t len);
void receive(struct receiver *r, const uint8_t *bytes,
             const struct pages_out *out);
void deliver_some(struct receiver *r, uint32_t chance);
void deliver_all(struct receiver *r);

/* Takes pieces out, about chance of them; UINT32_MAX: all there are. */
void take_pieces(struct pages *p, struct receiver *r, uint32_t chance);

/* Fails unless all of the source has arrived, and only that, in order. */
void assert_arrived(const struct source *s, const struct receiver *r,
                    const struct stream_head *head);

#endif
