// SPDX-License-Identifier: BSD-3-Clause
/* The order of delivery of one direction of a channel. */
#include "transport/merge.h"

#include <assert.h>
#include <inttypes.h>

#include "transport/wire.h"

void merge_init(struct merge *m)
{
    *m = (struct merge){.at_merge = true, .last_merge = true};
    list_init(&m->bulk);
    list_init(&m->urgent);
}

void merge_clear(struct merge *m, struct piece_pool *pool)
{
    piece_list_clear(pool, &m->bulk);
    piece_list_clear(pool, &m->urgent);
}

/* Receiving. */

int merge_start_bulk(struct merge *m, uint64_t count, uint8_t flags,
                     struct error *err)
{
    if (m->ended) {
        return error_set(err, ERR_PROTOCOL, "DATA behind the end");
    }
    if (count > m->last_count) {
        if (!m->last_merge) {
            return error_set(err, ERR_PROTOCOL,
                             "DATA waits for urgent frame %" PRIu64
                             " where none may be put: the frame before it has "
                             "no MERGE flag",
                             count);
        }
        m->last_count = count;
    }
    m->last_merge = flags & WIRE_FLAG_MERGE;
    return 0;
}

int merge_start_urgent(struct merge *m, struct error *err)
{
    if (m->ended && m->urgent_started >= m->end_urgent) {
        return error_set(err, ERR_PROTOCOL,
                         "urgent frame %" PRIu64 " behind the end, which told "
                         "of %" PRIu64,
                         m->urgent_started + 1, m->end_urgent);
    }
    m->urgent_started++;
    return 0;
}

void merge_add_bulk(struct merge *m, struct piece *piece)
{
    list_append(&m->bulk, &piece->link);
    m->bulk_received += piece->len_bytes;
}

void merge_add_urgent(struct merge *m, struct piece *piece)
{
    list_append(&m->urgent, &piece->link);
    if (piece->last) {
        m->urgent_complete++;
    }
}

int merge_end(struct merge *m, uint64_t bulk_bytes, uint64_t urgent_frames,
              struct error *err)
{
    if (m->ended) {
        return error_set(err, ERR_PROTOCOL, "END twice");
    }
    if (bulk_bytes != m->bulk_received) {
        return error_set(err, ERR_PROTOCOL,
                         "END at offset %" PRIu64 ", but %" PRIu64
                         " bytes came",
                         bulk_bytes, m->bulk_received);
    }
    if (urgent_frames < m->urgent_started || urgent_frames < m->last_count) {
        return error_set(err, ERR_PROTOCOL,
                         "END tells of %" PRIu64 " urgent frames, but %" PRIu64
                         " came and DATA waits "
                         "for %" PRIu64,
                         urgent_frames, m->urgent_started, m->last_count);
    }
    if (urgent_frames > m->last_count && !m->last_merge) {
        return error_set(err, ERR_PROTOCOL,
                         "END waits for urgent frame %" PRIu64
                         " where none may be put: the frame before it has no "
                         "MERGE flag",
                         urgent_frames);
    }
    m->ended = true;
    m->end_urgent = urgent_frames;
    return 0;
}

/* Delivering: one walk, used for looking, for counting and for passing over. */

struct walk {
    const struct list *bulk_head, *urgent_head;
    struct list *bulk, *urgent; /* next of each */
    uint64_t offset;            /* bulk, behind what was walked over */
    uint64_t frames;            /* urgent, the same */
    uint64_t visible;
    bool at_merge, in_bulk, in_urgent;
};

static struct walk walk_start(const struct merge *m, uint64_t visible)
{
    return (struct walk){
        .bulk_head = &m->bulk,
        .urgent_head = &m->urgent,
        .bulk = m->bulk.next,
        .urgent = m->urgent.next,
        .offset = m->bulk_offset,
        .frames = m->urgent_frames,
        .visible = visible,
        .at_merge = m->at_merge,
        .in_bulk = m->in_bulk,
        .in_urgent = m->in_urgent,
    };
}

static bool urgent_is_next(const struct walk *w)
{
    if (w->in_urgent) {
        return true;
    }
    return !w->in_bulk && w->at_merge && w->frames < w->visible &&
           piece_of(w->urgent)->after <= w->offset;
}

/* The piece to deliver next, or NULL: nothing came, or it has to wait. */
static struct piece *walk_peek(const struct walk *w)
{
    if (urgent_is_next(w)) {
        return piece_of(w->urgent);
    }
    if (w->bulk == w->bulk_head) {
        return NULL;
    }
    struct piece *piece = piece_of(w->bulk);
    return !w->in_bulk && piece->after > w->frames ? NULL : piece;
}

/* Goes over a piece that walk_peek() gave. */
static void walk_pass(struct walk *w, const struct piece *piece)
{
    if (urgent_is_next(w)) {
        w->urgent = w->urgent->next;
        w->in_urgent = !piece->last;
        w->frames += piece->last;
        return;
    }
    w->bulk = w->bulk->next;
    w->offset += piece->len_bytes;
    w->in_bulk = !piece->last;
    w->at_merge = piece->last && (piece->flags & WIRE_FLAG_MERGE);
}

int merge_peek(struct merge *m, struct iovec *iov, int max_iov)
{
    m->urgent_visible = m->urgent_complete;
    struct walk w = walk_start(m, m->urgent_visible);
    int n = 0;
    while (n < max_iov) {
        struct piece *piece = walk_peek(&w);
        if (!piece) {
            break;
        }
        iov[n].iov_base = (void *)(uintptr_t)piece->data;
        iov[n].iov_len = piece->len_bytes;
        n++;
        walk_pass(&w, piece);
    }
    return n;
}

bool merge_can_deliver(const struct merge *m)
{
    struct walk w = walk_start(m, m->urgent_complete);
    return walk_peek(&w) != NULL;
}

uint64_t merge_deliverable_bytes(const struct merge *m)
{
    if (list_is_empty(&m->urgent) && m->last_count <= m->urgent_frames) {
        return m->bulk_received - m->bulk_offset; /* nothing waits */
    }
    struct walk w = walk_start(m, m->urgent_complete);
    uint64_t bytes = 0;
    for (;;) {
        struct piece *piece = walk_peek(&w);
        if (!piece) {
            return bytes;
        }
        bytes += piece->len_bytes;
        walk_pass(&w, piece);
    }
}

/* The first n bytes of a piece are written, and it has more. */
static void cut_front(struct merge *m, struct piece *piece, bool urgent,
                      size_t n, struct merge_passed *passed)
{
    piece->data += n;
    piece->len_bytes -= n;
    if (urgent) {
        m->in_urgent = true;
        passed->urgent_bytes += n;
    } else {
        m->in_bulk = true;
        m->at_merge = false;
        m->bulk_offset += n;
        passed->bulk_bytes += n;
    }
}

static void count_passed(const struct piece *piece, bool urgent,
                         struct merge_passed *passed)
{
    if (urgent) {
        passed->urgent_bytes += piece->len_bytes;
        passed->urgent_frames += piece->last;
        passed->urgent_ack |= piece->ack;
        return;
    }
    passed->bulk_bytes += piece->len_bytes;
    passed->bulk_ack |= piece->ack;
    passed->bulk_marked +=
        piece->last && (piece->after > 0 || (piece->flags & WIRE_FLAG_MERGE));
}

void merge_delivered(struct merge *m, struct piece_pool *pool, size_t len_bytes,
                     struct merge_passed *ret_passed)
{
    struct walk w = walk_start(m, m->urgent_visible);
    *ret_passed = (struct merge_passed){0};
    while (len_bytes > 0) {
        struct piece *piece = walk_peek(&w);
        assert(piece); /* the caller wrote more than was offered */
        bool urgent = urgent_is_next(&w);
        if (len_bytes < piece->len_bytes) {
            cut_front(m, piece, urgent, len_bytes, ret_passed);
            return;
        }
        len_bytes -= piece->len_bytes;
        count_passed(piece, urgent, ret_passed);
        walk_pass(&w, piece);
        m->bulk_offset = w.offset;
        m->urgent_frames = w.frames;
        m->at_merge = w.at_merge;
        m->in_bulk = w.in_bulk;
        m->in_urgent = w.in_urgent;
        piece_free(pool, piece);
    }
}

bool merge_is_finished(const struct merge *m)
{
    return m->ended && m->bulk_offset == m->bulk_received &&
           m->urgent_frames == m->end_urgent;
}

/* The count of urgent frames that the first bulk frame, or the end, waits for;
 * 0 when nothing waits for any. */
static uint64_t waits_for(const struct merge *m)
{
    const struct piece *piece = piece_first(&m->bulk);
    uint64_t count = 0;
    if (m->in_bulk || m->in_urgent) {
        return 0;
    }
    if (piece) {
        count = piece->after;
    } else if (m->ended) {
        count = m->end_urgent;
    }
    return count > m->urgent_frames ? count : 0;
}

int merge_check(const struct merge *m, bool lanes_ended, struct error *err)
{
    uint64_t count = waits_for(m);
    const struct piece *urgent = piece_first(&m->urgent);
    if (count > 0 && !m->at_merge) {
        return error_set(err, ERR_PROTOCOL,
                         "urgent frame %" PRIu64 " is waited for at offset "
                         "%" PRIu64 ", where none may be put",
                         m->urgent_frames + 1, m->bulk_offset);
    }
    if (count > 0 && urgent && urgent->after > m->bulk_offset) {
        return error_set(err, ERR_PROTOCOL,
                         "urgent frame %" PRIu64 " waits for offset %" PRIu64
                         " and is itself waited for at offset %" PRIu64,
                         m->urgent_frames + 1, urgent->after, m->bulk_offset);
    }
    if (count > 0 && m->ended && count > m->end_urgent) {
        return error_set(err, ERR_PROTOCOL,
                         "DATA waits for %" PRIu64
                         " urgent frames, the end told of %" PRIu64,
                         count, m->end_urgent);
    }
    if (!lanes_ended || merge_is_finished(m)) {
        return 0;
    }
    if (count > 0 && m->urgent_complete < count) {
        return error_set(err, ERR_PROTOCOL,
                         "the lanes have ended, but %" PRIu64
                         " urgent frames are waited for and %" PRIu64 " came",
                         count, m->urgent_complete);
    }
    return 0;
}
