// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for the head parser: however the bytes are cut, it must say
 * the same, and what it accepts must hold together. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stream/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_done(const struct stream_head *head)
{
    uint64_t sum = 0;

    require(head->blocks_count > 0);
    for (size_t i = 0; i < head->blocks_count; i++) {
        require(head->blocks[i].name[0] != '\0');
        require(head->blocks[i].page_size_offset_bytes + 8 <=
                head->offset_bytes);
        sum += head->blocks[i].length_bytes;
    }
    require(sum == head->ram_total_bytes);
    require(strcmp(head->ram.name, "ram") == 0);
}

/* Cuts of pseudo-random length, from the data itself. */
static size_t feed_in_pieces(struct stream_head_parser *parser,
                             const uint8_t *data, size_t size)
{
    size_t at = 0;
    uint32_t cut = (uint32_t)size * 2654435761u;

    while (at < size) {
        size_t n = 1 + (cut >> 24) % 37;
        n = n < size - at ? n : size - at;
        size_t taken = stream_head_feed(parser, data + at, n);
        at += taken;
        if (taken < n) {
            break;
        }
        cut = cut * 1664525u + 1013904223u;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct stream_head_parser *whole;
    static struct stream_head_parser *pieces;

    if (!whole) {
        whole = stream_head_new(4096);
        pieces = stream_head_new(4096);
        require(whole && pieces);
    }
    stream_head_reset(whole);
    stream_head_reset(pieces);
    size_t taken = stream_head_feed(whole, data, size);
    require(feed_in_pieces(pieces, data, size) == taken);

    const struct stream_head *head = stream_head_get(whole);
    require(memcmp(head, stream_head_get(pieces), sizeof *head) == 0);
    require(head->offset_bytes == taken);
    require(stream_head_feed(whole, data, 0) == 0);
    switch (head->state) {
    case STREAM_HEAD_NEED_MORE:
        require(taken == size);
        break;
    case STREAM_HEAD_DONE:
        check_done(head);
        break;
    case STREAM_HEAD_OPAQUE:
        require(head->reason[0] != '\0' && head->blocks_count == 0);
        break;
    }
    return 0;
}
