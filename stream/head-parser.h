// SPDX-License-Identifier: BSD-3-Clause
/* What the files of the head parser share; for stream/head*.c only.
 *
 * The parser waits for a number of bytes in buf and then calls take, which
 * looks at them and says what is waited for next: with head_expect(), or by
 * raising need if it wants to see more behind the same bytes. */
#ifndef STREAM_HEAD_PARSER_H
#define STREAM_HEAD_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/blocks.h"
#include "stream/head.h"

/* QEMU exec/cpu-all.h and its targets */
#define TARGET_PAGE_BITS_MIN 10
#define TARGET_PAGE_BITS_MAX 20
#define LAYOUTS_MAX 2

/* QEMU migration/savevm.h QEMU_VM_x */
enum record {
    RECORD_SECTION_START = 0x01,
    RECORD_SECTION_FULL = 0x04,
    RECORD_SUBSECTION = 0x05,
    RECORD_CONFIGURATION = 0x07,
    RECORD_COMMAND = 0x08,
    RECORD_FOOTER = 0x7e,
};

/* Looks at the bytes it has waited for: parser->buf, parser->have. */
typedef void (*take_fn)(struct stream_head_parser *parser);

struct stream_head_parser {
    uint32_t host_page_size_bytes;
    take_fn take; /* called when buf has need bytes */
    size_t need;
    size_t have;

    bool has_records;            /* one at least: no CONFIGURATION any more */
    bool has_configuration;      /* there was one */
    bool is_after_configuration; /* subsections may follow */
    enum record section_type;
    unsigned capabilities_left;
    unsigned commands;
    uint64_t list_offset_bytes; /* where buf begins when it has the list */
    size_t lists_count;
    struct stream_blocks lists[LAYOUTS_MAX];

    struct stream_head head;                 /* the result */
    uint8_t buf[STREAM_HEAD_LIST_BYTES_MAX]; /* last: not cleared by reset */
};

/* Ends the parsing as OPAQUE with a reason. */
void head_stop(struct stream_head_parser *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Calls take when need (> 0) bytes more are there. */
void head_expect(struct stream_head_parser *p, size_t need, take_fn take);

/* Copies a name out of the stream into ret_name, which has room for
 * STREAM_HEAD_NAME_BYTES_MAX + 1. false: stopped, it is not text. */
bool head_get_name(struct stream_head_parser *p, const uint8_t *at, size_t len,
                   const char *what, char *ret_name);

/* Enters the target's page size. false: stopped, it cannot be. */
bool head_set_target_page(struct stream_head_parser *p, uint64_t bytes);

/* take functions that are called across files */
void head_take_type(struct stream_head_parser *p);
void head_take_machine_length(struct stream_head_parser *p);
void head_take_subsection_name_length(struct stream_head_parser *p);

#endif
