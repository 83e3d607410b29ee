// SPDX-License-Identifier: BSD-3-Clause
/* The receive order of one direction of a channel: bulk bytes in order, whole
 * urgent frames put between them where that is allowed. Pure.
 *
 * How it works
 *
 * Bulk bytes are delivered as they come, urgent frames once they are complete.
 * The boundary behind a bulk frame with WIRE_FLAG_MERGE is a merge point, and
 * so is the start of the stream. At a merge point the next urgent frame goes
 * first if the bulk delivered so far reaches its `after`. A bulk frame whose
 * `after` counts more urgent frames than were delivered waits for them, and so
 * does the end.
 *
 * So that waiting always ends, a count may rise only behind a merge point, and
 * no urgent frame that a bulk frame waits for may wait for bulk behind it. A
 * peer that breaks this is refused (merge_check). */
#ifndef TRANSPORT_MERGE_H
#define TRANSPORT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "transport/piece.h"
#include "util/error.h"

struct merge {
    struct list bulk;   /* pieces that are not delivered */
    struct list urgent; /* the same */

    /* delivered so far */
    uint64_t bulk_offset;
    uint64_t urgent_frames;
    bool at_merge;  /* the last bulk frame allows an urgent one behind it */
    bool in_bulk;   /* the first bulk piece goes on in the middle of a frame */
    bool in_urgent; /* the same for the first urgent piece */

    /* received so far */
    uint64_t bulk_received; /* bytes */
    uint64_t urgent_started;
    uint64_t urgent_complete;
    uint64_t last_count; /* largest count a bulk frame waits for */
    bool last_merge;     /* the last bulk frame received is a merge point */

    /* urgent frames that merge_peek() knew: what completes between it and
     * merge_delivered() must not change the order that was offered */
    uint64_t urgent_visible;

    bool ended;
    uint64_t end_urgent; /* urgent frames that go before the end */
};

/* What merge_delivered() passed over. */
struct merge_passed {
    uint64_t bulk_bytes, urgent_bytes;
    uint64_t bulk_marked; /* whole bulk frames that were merge points or had a
                           * count */
    uint64_t urgent_frames;
    bool bulk_ack, urgent_ack; /* a piece with ack was among them */
};

void merge_init(struct merge *m);
void merge_clear(struct merge *m, struct piece_pool *pool);

/* A frame starts: bulk with its count of urgent frames, or urgent. flags are
 * the frame's. ERR_PROTOCOL: the count rises where no urgent frame may go, or
 * more urgent frames than the end told of, or anything behind the end. */
int merge_start_bulk(struct merge *m, uint64_t count, uint8_t flags,
                     struct error *err);
int merge_start_urgent(struct merge *m, struct error *err);

/* A piece of the frame that was started (ownership). piece->first, last, ack,
 * flags and after are set. */
void merge_add_bulk(struct merge *m, struct piece *piece);
void merge_add_urgent(struct merge *m, struct piece *piece);

/* The end: bulk length and count of urgent frames. ERR_PROTOCOL when they do
 * not fit what came. */
int merge_end(struct merge *m, uint64_t bulk_bytes, uint64_t urgent_frames,
              struct error *err);

/* Fills up to max_iov pieces in the order of delivery; returns how many. */
int merge_peek(struct merge *m, struct iovec *iov, int max_iov);

/* Whether there is something to deliver. */
bool merge_can_deliver(const struct merge *m);

/* All bytes that could be delivered now. */
uint64_t merge_deliverable_bytes(const struct merge *m);

/* The first len_bytes of what merge_peek() offered are written. */
void merge_delivered(struct merge *m, struct piece_pool *pool, size_t len_bytes,
                     struct merge_passed *ret_passed);

/* Everything up to the end is delivered. */
bool merge_is_finished(const struct merge *m);

/* Whether what is held can still get on its way. ERR_PROTOCOL when it waits for
 * what can never come; lanes_ended: nothing more comes at all. */
int merge_check(const struct merge *m, bool lanes_ended, struct error *err);

#endif
