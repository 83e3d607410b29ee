// SPDX-License-Identifier: BSD-3-Clause
/* Page sizes translated for a destination QEMU with ordinary memory. */
#include "stream/small-pages.h"

#include <assert.h>
#include <stdlib.h>

#include "stream/bytes.h"

#define FIELD_BYTES 8 /* be64 */

static size_t size_of(size_t count)
{
    return sizeof(struct small_pages) +
           count * sizeof(struct small_pages_block);
}

struct small_pages *small_pages_new(size_t count)
{
    struct small_pages *sizes = calloc(1, size_of(count));

    if (sizes) {
        sizes->count = count;
    }
    return sizes;
}

struct small_pages *small_pages_copy(const struct small_pages *sizes)
{
    struct small_pages *copy = sizes ? malloc(size_of(sizes->count)) : NULL;

    if (copy) {
        memcpy(copy, sizes, size_of(sizes->count));
    }
    return copy;
}

const struct small_pages_block *
small_pages_find(const struct small_pages *sizes, const char *name)
{
    for (size_t i = 0; i < sizes->count; i++) {
        if (!strcmp(sizes->blocks[i].name, name)) {
            return &sizes->blocks[i];
        }
    }
    return NULL;
}

static int check_head(const struct small_pages *sizes,
                      const struct stream_head *head, struct error *err)
{
    if (head->state != STREAM_HEAD_DONE) {
        return error_set(err, ERR_UNSUPPORTED,
                         "page sizes cannot be translated, main is not "
                         "understood: %s",
                         head->reason);
    }
    if (!head->has_postcopy_ram) {
        return error_set(err, ERR_UNSUPPORTED,
                         "page sizes cannot be translated, postcopy was not "
                         "announced in main");
    }
    for (size_t i = 0; i < head->blocks_count; i++) {
        const struct stream_head_block *block = &head->blocks[i];
        const struct small_pages_block *size =
            small_pages_find(sizes, block->name);

        if (!size || size->source_page_bytes != block->page_size_bytes) {
            return error_set(
                err, ERR_UNSUPPORTED,
                "main names RAM block %s with pages of %llu bytes, "
                "QEMU's monitor said %llu",
                block->name, (unsigned long long)block->page_size_bytes,
                (unsigned long long)(size ? size->source_page_bytes : 0));
        }
    }
    return 0;
}

/* Takes a block's page size out. */
static void remove_field(struct stream_head *head, uint8_t *bytes, size_t block)
{
    size_t at = (size_t)head->blocks[block].page_size_offset_bytes;
    size_t behind = (size_t)head->offset_bytes - at - FIELD_BYTES;

    memmove(bytes + at, bytes + at + FIELD_BYTES, behind);
    head->blocks[block].page_size_offset_bytes = 0;
    head->offset_bytes -= FIELD_BYTES;
    for (size_t i = block + 1; i < head->blocks_count; i++) {
        if (head->blocks[i].page_size_offset_bytes != 0) {
            head->blocks[i].page_size_offset_bytes -= FIELD_BYTES;
        }
    }
}

int small_pages_translate_head(const struct small_pages *sizes,
                               struct stream_head *head, uint8_t *bytes,
                               struct error *err)
{
    uint64_t summary = 0;

    if (check_head(sizes, head, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < sizes->count; i++) {
        summary |= sizes->blocks[i].destination_page_bytes;
    }
    head->advise_page_sizes_bytes = summary;
    uint64_t word = htobe64(summary);
    memcpy(bytes + head->advise_offset_bytes, &word, sizeof(word));
    for (size_t i = 0; i < head->blocks_count; i++) {
        struct stream_head_block *block = &head->blocks[i];
        uint64_t theirs =
            small_pages_find(sizes, block->name)->destination_page_bytes;

        if (block->page_size_bytes != theirs) {
            block->page_size_bytes = theirs;
            if (block->page_size_offset_bytes != 0) {
                remove_field(head, bytes, i);
            }
        }
    }
    return 0;
}

bool small_pages_widen(uint64_t host_page_bytes, uint64_t *start_bytes,
                       uint32_t *length_bytes)
{
    uint64_t mask = host_page_bytes - 1;
    uint64_t start = *start_bytes & ~mask;
    uint64_t end;

    assert(host_page_bytes != 0 && (host_page_bytes & mask) == 0);
    if (__builtin_add_overflow(*start_bytes, *length_bytes, &end) ||
        __builtin_add_overflow(end, mask, &end)) {
        return false;
    }
    end &= ~mask;
    if (end - start > UINT32_MAX) {
        return false;
    }
    *start_bytes = start;
    *length_bytes = (uint32_t)(end - start);
    return true;
}
