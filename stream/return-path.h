// SPDX-License-Identifier: BSD-3-Clause
/* The return path of QEMU's main stream, read while it passes: what the
 * destination QEMU says to the source.
 *
 * How it works: bytes are fed in as they are carried, cut anywhere; they are
 * never altered or held back. Page requests are counted and, if wanted, told
 * one by one; the rest is noted. SHUT is the last message: after it, and after
 * anything that is not known for certain (OPAQUE), the parser takes no more
 * bytes. A connection that recovers a postcopy is a new stream: reset.
 *
 * Format: QEMU migration/migration.c source_return_path_thread(), ram.c
 * ramblock_recv_bitmap_send(), 6.2 to 10.2. Memory is fixed. */
#ifndef STREAM_RETURN_PATH_H
#define STREAM_RETURN_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_RETURN_PATH_PAYLOAD_BYTES_MAX 512 /* as QEMU's own limit */
#define STREAM_RETURN_PATH_NAME_BYTES_MAX 255
/* of one block: 32 TiB of RAM in pages of 4 KiB; it is skipped, not kept */
#define STREAM_RETURN_PATH_BITMAP_BYTES_MAX (1ull << 30)
#define STREAM_RETURN_PATH_REASON_BYTES 160

enum stream_return_path_state {
    STREAM_RETURN_PATH_OPEN,   /* messages come */
    STREAM_RETURN_PATH_SHUT,   /* the last one has passed */
    STREAM_RETURN_PATH_OPAQUE, /* not understood, for a reason */
};

struct stream_return_path {
    enum stream_return_path_state state;
    char reason[STREAM_RETURN_PATH_REASON_BYTES]; /* OPAQUE: for people */
    uint64_t offset_bytes;                        /* taken so far */
    uint64_t requests;        /* of pages: REQ_PAGES_ID and REQ_PAGES */
    uint64_t requested_bytes; /* their lengths together */
    char block[STREAM_RETURN_PATH_NAME_BYTES_MAX + 1]; /* requested from last */
    uint64_t pongs;
    uint32_t last_pong;
    uint64_t bitmaps; /* RECV_BITMAP with the bitmap behind it */
    bool has_resume_ack;
    bool has_switchover_ack;
    uint32_t shut_status; /* SHUT: 0 is success */
};

struct stream_return_path_ops {
    /* The destination needs length_bytes of the RAM block from start_bytes on.
     * block is valid during the call. */
    void (*on_request)(void *arg, const char *block, uint64_t start_bytes,
                       uint32_t length_bytes);
};

struct stream_return_path_parser;

/* A parser at the beginning of a return path. ops (copied) is called with arg
 * from within feed; NULL: nobody wants the requests. The caller owns it. NULL:
 * no memory. */
struct stream_return_path_parser *
stream_return_path_new(const struct stream_return_path_ops *ops, void *arg);

/* Accepts NULL. */
void stream_return_path_free(struct stream_return_path_parser *parser);

/* Back to the beginning, with all counters at 0. */
void stream_return_path_reset(struct stream_return_path_parser *parser);

/* Looks at len bytes that follow those fed before. Returns how many were
 * taken: less than len only in SHUT and OPAQUE. */
size_t stream_return_path_feed(struct stream_return_path_parser *parser,
                               const void *bytes, size_t len);

/* What is known; valid until the parser is freed, changes when it is fed. */
const struct stream_return_path *
stream_return_path_get(const struct stream_return_path_parser *parser);

#endif
