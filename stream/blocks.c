// SPDX-License-Identifier: BSD-3-Clause
/* The RAM block list of the "ram" section's START, read in one layout. */
#include "stream/blocks.h"

#include <stdarg.h>
#include <stdio.h>

#include "stream/bytes.h"
#include "stream/head.h"

/* QEMU migration/ram.c RAM_SAVE_FLAG_x and savevm.h QEMU_VM_SECTION_FOOTER */
#define WORD_EOS 0x10u
#define WORD_MULTIFD_FLUSH 0x200u
#define SECTION_FOOTER 0x7e
#define FOOTER_BYTES 5

/* QEMU sends at most one in a setup section. */
#define FLUSHES_MAX 4

static size_t __attribute__((format(printf, 2, 3)))
fail(struct stream_blocks *list, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(list->reason, sizeof list->reason, format, args);
    va_end(args);
    list->state = STREAM_BLOCKS_FAILED;
    return 0;
}

void stream_blocks_init(struct stream_blocks *list,
                        const struct stream_blocks_layout *layout)
{
    memset(list, 0, sizeof *list);
    list->layout = *layout;
    list->left_bytes = layout->total_bytes;
    list->state = STREAM_BLOCKS_NEED_MORE;
}

/* Whether what stands where a page size may stand is one. */
static bool is_page_size(const struct stream_blocks_layout *layout,
                         uint64_t value)
{
    return value >= layout->target_page_bytes && (value & (value - 1)) == 0 &&
           value != layout->host_page_bytes &&
           (value & layout->page_sizes_bytes) == value;
}

static bool has_block(const struct stream_head_block *table, size_t count,
                      const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Checks the block and enters it, optional fields excepted. */
static bool take_block(struct stream_blocks *list, const uint8_t *item,
                       size_t name_len, struct stream_head_block *block)
{
    const struct stream_blocks_layout *layout = &list->layout;

    if (list->count == STREAM_HEAD_BLOCKS_MAX) {
        fail(list, "more than %d RAM blocks", STREAM_HEAD_BLOCKS_MAX);
        return false;
    }
    memcpy(block->name, item + 1, name_len);
    block->name[name_len] = '\0';
    block->length_bytes = bytes_get_be64(item + 1 + name_len);
    if (block->length_bytes == 0 || block->length_bytes > list->left_bytes ||
        block->length_bytes % layout->target_page_bytes != 0) {
        fail(list, "RAM block %zu has an impossible length %#llx (%#llx left)",
             list->count, (unsigned long long)block->length_bytes,
             (unsigned long long)list->left_bytes);
        return false;
    }
    return true;
}

/* One block. Returns how many bytes are missing; 0: taken, or failed. */
static size_t read_block(struct stream_blocks *list, const uint8_t *buf,
                         size_t len, struct stream_head_block *table)
{
    const struct stream_blocks_layout *layout = &list->layout;
    const uint8_t *item = buf + list->at_bytes;
    size_t have = len - list->at_bytes;

    if (have < 1) {
        return 1;
    }
    size_t name_len = item[0];
    if (name_len == 0) {
        return fail(list, "RAM block %zu has no name", list->count);
    }
    /* What is there of it: a wrong layout must fail before the list's end. */
    if (!bytes_is_text(item + 1, have - 1 < name_len ? have - 1 : name_len)) {
        return fail(list, "the name of RAM block %zu is not text", list->count);
    }
    size_t need = 1 + name_len + 8;
    size_t optional = need;
    if (layout->page_sizes_bytes != 0) {
        need += 8; /* a page size, or what follows: a block or the end */
    }
    if (layout->has_addresses) {
        need += 8;
    }
    if (have < need) {
        return need - have;
    }

    struct stream_head_block block = {0};
    if (!take_block(list, item, name_len, &block)) {
        return 0;
    }
    if (layout->page_sizes_bytes != 0) {
        uint64_t value = bytes_get_be64(item + optional);
        block.page_size_bytes = layout->host_page_bytes;
        if (is_page_size(layout, value)) {
            block.page_size_bytes = value;
            block.page_size_offset_bytes = list->at_bytes + optional;
            optional += 8;
        }
        list->seen_page_sizes_bytes |= block.page_size_bytes;
    }
    if (layout->has_addresses) {
        block.guest_address = bytes_get_be64(item + optional);
        optional += 8;
    }
    if (table) {
        if (has_block(table, list->count, block.name)) {
            return fail(list, "RAM block %zu has the name of another",
                        list->count);
        }
        table[list->count] = block;
    }
    list->count++;
    list->left_bytes -= block.length_bytes;
    list->at_bytes += optional;
    return 0;
}

/* After the last block: words up to the end mark, then the footer. Returns how
 * many bytes are missing; 0: a word was taken, or all is done, or failed. */
static size_t read_end(struct stream_blocks *list, const uint8_t *buf,
                       size_t len)
{
    const struct stream_blocks_layout *layout = &list->layout;
    const uint8_t *item = buf + list->at_bytes;
    size_t have = len - list->at_bytes;

    if (have < 1) {
        return 1;
    }
    if (item[0] != 0) { /* of both words; early, as with names */
        return fail(list, "the RAM block list is followed by byte %#x",
                    item[0]);
    }
    if (have < 8) {
        return 8 - have;
    }
    uint64_t word = bytes_get_be64(item);
    if (word == WORD_MULTIFD_FLUSH && list->flushes < FLUSHES_MAX) {
        list->flushes++;
        list->at_bytes += 8;
        return 0;
    }
    if (word != WORD_EOS) {
        return fail(list, "the RAM block list is followed by word %#llx",
                    (unsigned long long)word);
    }
    if (list->seen_page_sizes_bytes != layout->page_sizes_bytes) {
        return fail(list,
                    "page sizes of the RAM blocks are %#llx, "
                    "but %#llx was announced",
                    (unsigned long long)list->seen_page_sizes_bytes,
                    (unsigned long long)layout->page_sizes_bytes);
    }
    if (have < 8 + 1) {
        return 1;
    }
    if (item[8] != SECTION_FOOTER) {
        return fail(list, "section \"ram\" has no footer (machine types "
                          "older than 2.4 send none)");
    }
    if (have < 8 + FOOTER_BYTES) {
        return 8 + FOOTER_BYTES - have;
    }
    if (bytes_get_be32(item + 9) != layout->section_id) {
        return fail(list, "section \"ram\" has the footer of section %u",
                    bytes_get_be32(item + 9));
    }
    list->at_bytes += 8 + FOOTER_BYTES;
    list->state = STREAM_BLOCKS_DONE;
    return 0;
}

size_t stream_blocks_read(struct stream_blocks *list, const uint8_t *buf,
                          size_t len, struct stream_head_block *table)
{
    while (list->state == STREAM_BLOCKS_NEED_MORE) {
        size_t missing = list->left_bytes > 0
                             ? read_block(list, buf, len, table)
                             : read_end(list, buf, len);
        if (missing > 0) {
            return missing;
        }
    }
    return 0;
}
