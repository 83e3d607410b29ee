// SPDX-License-Identifier: BSD-3-Clause
/* Page sizes translated for a destination QEMU whose RAM is ordinary memory
 * while the source's is huge pages: postcopied in pages of 4 KiB. Pure.
 *
 * How it works: a stream tells the page sizes of its blocks twice in its first
 * bytes, and nowhere else. They are replaced by those of the destination, whose
 * QEMU then places each page of 4 KiB by itself. The source's QEMU sends whole
 * host pages all the same, so their order is what counts then (pages.h). With
 * postcopy-preempt it aborts on a request for less than a host page (10.0), so
 * requests are widened (widen.h).
 *
 * Format: QEMU migration/savevm.c loadvm_postcopy_handle_advise() (the summary
 * must be the destination's own), ram.c ram_save_setup() (a block's page size
 * is said where it is not the host's), 6.2 to 10.2. */
#ifndef STREAM_SMALL_PAGES_H
#define STREAM_SMALL_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/head.h"
#include "util/error.h"

struct small_pages_block {
    char name[STREAM_HEAD_NAME_BYTES_MAX + 1];
    uint64_t source_page_bytes;
    uint64_t destination_page_bytes;
};

struct small_pages {
    size_t count;
    struct small_pages_block blocks[]; /* every block of the guest */
};

/* NULL: no memory. Freed with free(). */
struct small_pages *small_pages_new(size_t count);

/* A copy; NULL for NULL, or when there is no memory. */
struct small_pages *small_pages_copy(const struct small_pages *sizes);

/* The block of a name; NULL: none. */
const struct small_pages_block *
small_pages_find(const struct small_pages *sizes, const char *name);

/* Rewrites a head (DONE; bytes has head->offset_bytes) in place for the
 * destination, and head to what the destination then reads. -1 with
 * ERR_UNSUPPORTED, nothing changed: it is not a head of these blocks with
 * these page sizes, or without postcopy. */
int small_pages_translate_head(const struct small_pages *sizes,
                               struct stream_head *head, uint8_t *bytes,
                               struct error *err);

/* Widens a request to whole host pages of host_page_bytes (a power of two).
 * false: the request overflows, or needs more bytes than a request can say;
 * it is unchanged. */
bool small_pages_widen(uint64_t host_page_bytes, uint64_t *start_bytes,
                       uint32_t *length_bytes);

#endif
