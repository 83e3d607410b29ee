// SPDX-License-Identifier: BSD-3-Clause
/* The pages of a postcopy, put in a better order: what a vCPU waits for leaves
 * next. Pure: bytes of the source QEMU's channels and page requests go in,
 * pieces of a main (and preempt) channel that the destination QEMU takes come
 * out.
 *
 * How it works
 *
 * It watches main (records.h) until postcopy begins; up to there, and for ever
 * where the stream is not understood, everything passes as it is. From there on
 * main is taken apart, its pages wait in a pool (pool.h), and a new main is
 * made when somebody has room for it: one RAM section that stays open, with the
 * pages in the order in which they are wanted, each record of a piece by itself
 * (the first names its block). A page that was asked for leaves as a piece that
 * may overtake: on the preempt channel where there is one, else as an urgent
 * piece of main, which may be put wherever a piece of main that allows it
 * (is_merge) ends, behind the section's begin. Each page leaves once. Records
 * that are none of RAM, and the END section, leave when all pages before them
 * have; the END also waits until the urgent pieces are there. Behind END
 * everything passes as it is again.
 *
 * The pool never holds more than what is still to come. A QEMU that has written
 * its last page waits for the end and can no longer recover if the connection
 * breaks; so the last page is taken from it when little else is left to send.
 *
 * Pages that QEMU sends on the preempt channel go through the pool, too, as
 * urgent ones: so the two channels never carry one twice. */
#ifndef STREAM_PAGES_H
#define STREAM_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/head.h"
#include "stream/pool.h"
#include "util/error.h"

#define PAGES_PAGE_BYTES 4096
/* Room for any record with its page (4 KiB pages). */
#define PAGES_RECORD_BYTES_MAX (8 + 1 + 255 + 4096)
/* Room for whatever pages_next_bulk() has to say at once; less will do, but no
 * less than PAGES_RECORD_BYTES_MAX. */
#define PAGES_BULK_BYTES (8 * PAGES_RECORD_BYTES_MAX)
/* Of the pool, beyond the limit: for what comes on the preempt channel while
 * main has filled it. */
#define PAGES_RESERVE 256

enum pages_state {
    PAGES_WATCHING, /* main passes as it is, postcopy may begin */
    PAGES_REORDER,  /* it has begun */
    PAGES_PASSED,   /* and all its pages have left, or a precopy has come to the
                     * devices: main passes as it is */
    PAGES_OPAQUE,   /* not understood: main passes as it is */
};

struct pages_config {
    bool has_preempt;
    /* the source QEMU answers with larger pages than are asked for: what comes
     * on preempt is not all urgent */
    bool sends_more_than_asked;
    uint64_t soft_bytes;    /* held in any case */
    uint64_t ceiling_bytes; /* held while a page is awaited */
    uint64_t offset_bytes;  /* of main passed so far: its head */
};

/* One piece to be sent. */
struct pages_out {
    size_t len; /* bytes written to the caller's buffer */
    bool is_preempt;
    bool is_urgent; /* a frame of its own that may overtake main's bulk ... */
    uint64_t after; /* ... behind this offset of it; else, for main's bulk: how
                       many urgent frames must go before it (0: no matter) */
    bool is_merge;  /* bulk: an urgent frame may be put behind it */
    /* of the (last) page in it */
    bool has_page;
    unsigned block;
    uint64_t page;
    enum pool_cause cause;
};

struct pages_stats {
    enum pages_state state;
    char reason[200]; /* OPAQUE: why */
    uint64_t pool_bytes, pool_pages, pool_peak_bytes;
    uint64_t pages;        /* taken from QEMU since postcopy began */
    uint64_t urgent_pages; /* sent ahead */
    uint64_t requests;     /* target pages asked for */
    uint64_t found;        /* ... in the pool */
    uint64_t gone;         /* ... that had left */
    uint64_t awaited;      /* ... that had to come from QEMU first */
    size_t waiting;        /* awaited now */
};

struct pages;

/* For a stream whose head is DONE (copied). NULL and *err: ERR_NO_MEMORY, or
 * ERR_UNSUPPORTED where it cannot be reordered: no postcopy, pages that are not
 * 4 KiB, host pages larger than that. */
struct pages *pages_new(const struct stream_head *head,
                        const struct pages_config *config, struct error *err);
void pages_free(struct pages *pages); /* NULL is fine */

enum pages_state pages_state(const struct pages *pages);

/* Bytes of main, in any state but REORDER: how many of them are to be passed on
 * as they are. Fewer than len: postcopy has begun, the rest is for
 * pages_split_main(). */
size_t pages_watch_main(struct pages *pages, const uint8_t *bytes, size_t len);

/* Bytes of main in REORDER, or of preempt (in any state): they are taken. -1
 * with ERR_PROTOCOL: what came can neither be understood nor passed on. */
int pages_split_main(struct pages *pages, const uint8_t *bytes, size_t len,
                     struct error *err);
int pages_split_preempt(struct pages *pages, const uint8_t *bytes, size_t len,
                        struct error *err);

/* How many bytes may be read from QEMU now. In REORDER. */
size_t pages_room_main(const struct pages *pages);
size_t pages_room_preempt(const struct pages *pages);

/* The destination QEMU asks for length bytes of a block from start on (it is to
 * be passed on to the source QEMU in any case). What became of the first page
 * of them. */
enum pool_answer pages_request(struct pages *pages, const char *block,
                               uint64_t start_bytes, uint32_t length_bytes);

/* The number of the block that was asked for last. */
unsigned pages_last_block(const struct pages *pages);

/* Whether a page is awaited that has not come from QEMU yet. */
bool pages_awaits(const struct pages *pages);

/* The next piece that overtakes, into buf of PAGES_RECORD_BYTES_MAX. False:
 * none just now. */
bool pages_next_urgent(struct pages *pages, uint8_t *buf,
                       struct pages_out *ret_out);

/* The next piece of main's bulk, into buf of size. is_delivered: everything
 * that was sent on the preempt channel has reached the destination QEMU. False:
 * none just now. */
bool pages_next_bulk(struct pages *pages, uint8_t *buf, size_t size,
                     bool is_delivered, struct pages_out *ret_out);

/* Nothing is left in the pool that the preempt channel would have to carry. */
bool pages_is_preempt_over(const struct pages *pages);

void pages_get_stats(const struct pages *pages, struct pages_stats *ret_stats);

#endif
