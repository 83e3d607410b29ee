// SPDX-License-Identifier: BSD-3-Clause
/* The RAM block list of the "ram" section's START, read in one given layout.
 *
 * A reader goes over a buffer that grows at its end: stream/head.c keeps the
 * list in one buffer and runs one reader for each layout that is possible.
 * Format: QEMU migration/ram.c ram_save_setup(), 6.2 to 10.2. */
#ifndef STREAM_BLOCKS_H
#define STREAM_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream_head_block;

struct stream_blocks_layout {
    uint64_t total_bytes; /* sum of all lengths */
    uint64_t target_page_bytes;
    uint64_t host_page_bytes;
    uint64_t page_sizes_bytes; /* ADVISE's OR of the page sizes; 0: postcopy is
                                  off, no block has the field */
    bool has_addresses;        /* each block has a guest address */
    uint32_t section_id;       /* which the footer must repeat */
};

enum stream_blocks_state {
    STREAM_BLOCKS_NEED_MORE,
    STREAM_BLOCKS_DONE, /* after the footer */
    STREAM_BLOCKS_FAILED,
};

struct stream_blocks {
    struct stream_blocks_layout layout;
    enum stream_blocks_state state;
    size_t at_bytes; /* how far the buffer was understood */
    uint64_t left_bytes;
    uint64_t seen_page_sizes_bytes;
    size_t count;
    unsigned flushes;
    char reason[128]; /* FAILED: why */
};

/* Starts at the byte after the MEM_SIZE word. */
void stream_blocks_init(struct stream_blocks *list,
                        const struct stream_blocks_layout *layout);

/* Goes on in buf, which holds the len bytes of the list that are there so far
 * (those given before are still the same). Returns how many bytes more are
 * needed at least before it is worth calling again: 0 in DONE and FAILED. The
 * list's last byte is never passed by what it asks for. table, unless NULL, has
 * room for STREAM_HEAD_BLOCKS_MAX and is filled up to count; its
 * page_size_offset_bytes are relative to buf. */
size_t stream_blocks_read(struct stream_blocks *list, const uint8_t *buf,
                          size_t len, struct stream_head_block *table);

#endif
