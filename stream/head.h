// SPDX-License-Identifier: BSD-3-Clause
/* The first part of QEMU's main stream, read while it passes.
 *
 * How it works: bytes are fed in as they are carried, cut anywhere; they are
 * never altered or held back. The parser goes over the header, the
 * CONFIGURATION record, the COMMANDs and the SECTION_STARTs up to the end of
 * the one named "ram", and then is DONE: it says who migrates (machine type,
 * UUID), whether postcopy was announced, and which RAM blocks there are.
 * Anything that it does not know for certain ends it as OPAQUE with a reason;
 * the bytes go on all the same. In DONE and OPAQUE it takes no more bytes.
 *
 * Format: QEMU migration/savevm.c (records, commands, configuration) and
 * migration/ram.c ram_save_setup() (block list), 6.2 to 10.2. Memory is fixed
 * at stream_head_new(), and everything is limited by the names below.
 *
 * The block list does not say which optional fields it has:
 * - a be64 page size follows a block's length if postcopy-ram is on (ADVISE
 *   with 16 bytes) and the block's pages are not the host's. What stands there
 *   otherwise begins with a name's length (never 0) or is the word that ends
 *   the list, so 8 bytes decide. They must be a power of two that is part of
 *   ADVISE's summary, and all page sizes together must be that summary.
 * - a be64 guest address follows if x-ignore-shared is on. The configuration
 *   names this capability (since both exist, 4.0); only in a stream without a
 *   CONFIGURATION record both layouts are tried. QEMU refuses it together with
 *   postcopy-ram, so the two fields never meet.
 * A layout is accepted if all names are text, all lengths are multiples of the
 * target page and add up to the announced total, the end of the list and the
 * section's footer follow, and no other layout is still possible there. */
#ifndef STREAM_HEAD_H
#define STREAM_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_HEAD_NAME_BYTES_MAX 255         /* machine, section, block */
#define STREAM_HEAD_BLOCKS_MAX 256             /* a large guest has about 40 */
#define STREAM_HEAD_LIST_BYTES_MAX (64 * 1024) /* block list with its end */
#define STREAM_HEAD_COMMANDS_MAX 64            /* QEMU sends 3 */
#define STREAM_HEAD_CAPABILITIES_MAX 16        /* QEMU names at most 2 */
#define STREAM_HEAD_OTHERS_MAX 4               /* QEMU has 1, "block" */
#define STREAM_HEAD_REASON_BYTES 320

enum stream_head_state {
    STREAM_HEAD_NEED_MORE, /* all is well so far */
    STREAM_HEAD_DONE,      /* the ram section's START has ended */
    STREAM_HEAD_OPAQUE,    /* not understood, for a reason */
};

struct stream_head_section {
    uint32_t id; /* what PART and END records say */
    uint32_t instance;
    uint32_t version;
    char name[STREAM_HEAD_NAME_BYTES_MAX + 1];
};

struct stream_head_block {
    char name[STREAM_HEAD_NAME_BYTES_MAX + 1];
    uint64_t length_bytes;
    uint64_t page_size_bytes; /* of the host memory; 0: the stream is silent
                                 about it, as it is without postcopy-ram */
    uint64_t page_size_offset_bytes; /* where in the stream its be64 page size
                                        is; 0: it has none */
    uint64_t guest_address;          /* with ignore_shared */
};

/* What is known so far; plain data, may be copied. Complete in DONE; in the
 * other states every field that is set is true, and the block table is empty.
 */
struct stream_head {
    enum stream_head_state state;
    char
        reason[STREAM_HEAD_REASON_BYTES]; /* OPAQUE: why, one line for people */
    uint64_t offset_bytes; /* how many bytes were taken: in DONE, the length of
                              the head */
    char machine[STREAM_HEAD_NAME_BYTES_MAX + 1]; /* "": not said */
    bool has_uuid;                                /* validate-uuid is on */
    uint8_t uuid[16];
    unsigned target_page_bits; /* of the configuration or ADVISE; 0: not said,
                                  so it is the target's only one (12 on x86) */
    bool ignore_shared;        /* x-ignore-shared is on */
    bool has_return_path;      /* OPEN_RETURN_PATH was seen */
    bool has_advise;           /* POSTCOPY_ADVISE was seen */
    bool has_postcopy_ram;     /* ... and announced postcopy of RAM: */
    uint64_t advise_page_sizes_bytes; /* OR of all blocks' page sizes */
    uint64_t advise_target_page_bytes;
    uint64_t advise_offset_bytes;   /* where in the stream these two are */
    struct stream_head_section ram; /* name "" until it was met */
    uint64_t ram_total_bytes;
    size_t blocks_count;
    struct stream_head_block blocks[STREAM_HEAD_BLOCKS_MAX];
    size_t others_count; /* sections met before ram; the last may be the one
                            that made the stream opaque */
    struct stream_head_section others[STREAM_HEAD_OTHERS_MAX];
};

struct stream_head_parser;

/* A parser at the beginning of a stream, for a source host with pages of
 * host_page_size_bytes (a power of two). The caller owns it. NULL: no memory.
 */
struct stream_head_parser *stream_head_new(uint32_t host_page_size_bytes);

/* Accepts NULL. */
void stream_head_free(struct stream_head_parser *parser);

/* Back to the beginning, for another stream. */
void stream_head_reset(struct stream_head_parser *parser);

/* Looks at len bytes that follow those fed before. Returns how many belong to
 * the head: less than len only if the head ended (DONE or OPAQUE); the byte
 * after them is the first of the record that follows it. */
size_t stream_head_feed(struct stream_head_parser *parser, const void *bytes,
                        size_t len);

enum stream_head_state
stream_head_state(const struct stream_head_parser *parser);

/* What is known; valid until the parser is fed, reset or freed. */
const struct stream_head *
stream_head_get(const struct stream_head_parser *parser);

#endif
