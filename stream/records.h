// SPDX-License-Identifier: BSD-3-Clause
/* The records of QEMU's main stream behind its head, and of the preempt
 * channel: where postcopy begins, and then each page of RAM by itself.
 *
 * How it works
 *
 * Bytes are fed in as they come, cut anywhere. A main parser begins WATCHING:
 * it goes over RAM sections and commands and alters nothing, up to the end of
 * the PACKAGED blob whose last record is POSTCOPY_RUN. There it stops taking
 * bytes, and is SPLITTING: what follows is taken apart into pages, ends of RAM
 * sections, and bytes of other records, told by struct records_ops in the order
 * in which they come. A preempt parser is SPLITTING from its first byte: that
 * channel has nothing but RAM records, and its end.
 *
 * What it does not know for certain makes it OPAQUE, with a reason, and it
 * takes no more bytes: while WATCHING that is no matter, everything passes as
 * it is. While SPLITTING, between two sections, the bytes of the record that it
 * did not understand are in records_left(); they and all that follow are to be
 * passed on as they are, behind everything that was told before. Inside a RAM
 * section, whose records lean on each other, nothing can be passed on.
 *
 * Format: QEMU migration/savevm.c (record types, commands) and migration/ram.c
 * ram_load_postcopy() (words of RAM records), 6.2 to 10.2. A page is a target
 * page; host pages are not looked at. Memory is fixed at records_new(). */
#ifndef STREAM_RECORDS_H
#define STREAM_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/head.h"

#define RECORDS_REASON_BYTES 200
/* of a command while SPLITTING; none that comes there has more than 12 */
#define RECORDS_COMMAND_BYTES_MAX 4096

/* Flags in a RAM record's word (QEMU migration/ram.h RAM_SAVE_FLAG_x). */
#define RECORDS_ZERO 0x02u
#define RECORDS_MEM_SIZE 0x04u
#define RECORDS_PAGE 0x08u
#define RECORDS_EOS 0x10u
#define RECORDS_CONTINUE 0x20u
#define RECORDS_MULTIFD_FLUSH 0x200u

/* Types of records (QEMU migration/savevm.h QEMU_VM_x). */
#define RECORDS_TYPE_EOF 0x00u
#define RECORDS_TYPE_START 0x01u
#define RECORDS_TYPE_PART 0x02u
#define RECORDS_TYPE_END 0x03u
#define RECORDS_TYPE_FULL 0x04u
#define RECORDS_TYPE_COMMAND 0x08u
#define RECORDS_TYPE_FOOTER 0x7eu

enum records_state {
    RECORDS_WATCHING,
    RECORDS_SPLITTING,
    RECORDS_OPAQUE,
};

struct records_ops { /* while SPLITTING only */
    /* A page begins: block is its number in the head's table. *ret_into is
     * where its bytes shall go (a target page); not set if is_zero. -1: there
     * is no place for it; then the parser is OPAQUE. */
    int (*on_page)(void *arg, unsigned block, uint64_t offset_bytes,
                   bool is_zero, uint8_t **ret_into);
    /* ... and is complete. */
    void (*on_page_end)(void *arg);
    /* A RAM section has ended. is_last: it was the END section (main), or the
     * channel's end mark (preempt). */
    void (*on_section_end)(void *arg, bool is_last);
    /* A record that is none of RAM, whole. */
    void (*on_record)(void *arg, const uint8_t *bytes, size_t len);
};

struct records;

/* A parser behind a head that is DONE (copied; it must have has_postcopy_ram).
 * is_preempt: of the preempt channel. NULL: no memory. */
struct records *records_new(const struct stream_head *head, bool is_preempt,
                            const struct records_ops *ops, void *arg);
void records_free(struct records *records); /* NULL is fine */

/* Looks at len bytes that follow those fed before. Returns how many it took:
 * fewer where it goes from WATCHING to SPLITTING (the next byte is the first
 * behind the blob), and where it becomes OPAQUE. */
size_t records_feed(struct records *records, const uint8_t *bytes, size_t len);

/* How many bytes of pages are to come in postcopy, as far as is known: the
 * source's QEMU tells the destination's to discard them before it begins. */
uint64_t records_expected_bytes(const struct records *records);

enum records_state records_state(const struct records *records);

/* OPAQUE, because the state of the devices follows: so ends every precopy. */
bool records_is_at_devices(const struct records *records);

/* OPAQUE: why, one line for people. */
const char *records_reason(const struct records *records);

/* OPAQUE, was SPLITTING: whether that was between two sections, and then the
 * bytes of the record that was not understood, as far as they were taken. */
bool records_left(const struct records *records, const uint8_t **ret_bytes,
                  size_t *ret_len);

#endif
