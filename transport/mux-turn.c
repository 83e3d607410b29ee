// SPDX-License-Identifier: BSD-3-Clause
/* The mux, at the end of a turn: what is still held is made small, and it is
 * decided what the other end is told. */
#include "transport/mux-internal.h"

#include <string.h>

/* Small pieces are copied into chunks of this size. */
#define PACK_BYTES 16384

/* Acknowledge on our own when this part of the credit was delivered. */
#define ACK_PARTS 4

/* Packing. A piece pins its whole chunk. What is left undelivered in a chunk
 * when a turn ends is copied if it is less than half of it, so that what is
 * held costs at most twice its size, and pieces that need no boundary between
 * them become one. */

/* Whether b can become the tail of a, which stands right before it in memory
 * and in its queue. */
static bool may_join(const struct piece *a, const struct piece *b, bool urgent)
{
    if (!a->last && !b->first) {
        return true; /* the same frame */
    }
    return !urgent && a->after == 0 && !(a->flags & WIRE_FLAG_MERGE) &&
           b->after == 0;
}

static bool pack_make_room(struct pack *pack, size_t len_bytes)
{
    size_t left = pack->chunk ? pack->chunk->size_bytes - pack->used_bytes : 0;
    if (left >= len_bytes) {
        return true;
    }
    struct chunk *chunk =
        chunk_new(len_bytes > PACK_BYTES ? len_bytes : PACK_BYTES);
    if (!chunk) {
        return false;
    }
    chunk_unref(pack->chunk);
    pack->chunk = chunk;
    pack->used_bytes = 0;
    return true;
}

/* Copies one piece; without memory it stays where it is. It may be joined to
 * the one before it and be freed. */
static void pack_piece(struct mux *mux, struct list *queue, struct pack *pack,
                       struct piece *piece, bool urgent)
{
    if (!pack_make_room(pack, piece->len_bytes)) {
        return;
    }
    uint8_t *to = pack->chunk->data + pack->used_bytes;
    memcpy(to, piece->data, piece->len_bytes);
    pack->used_bytes += piece->len_bytes;

    if (piece->link.prev != queue) {
        struct piece *before = piece_of(piece->link.prev);
        if (before->chunk == pack->chunk &&
            before->data + before->len_bytes == to &&
            may_join(before, piece, urgent)) {
            before->len_bytes += piece->len_bytes;
            before->last = piece->last;
            before->flags = piece->flags;
            before->ack |= piece->ack;
            piece_free(&mux->pieces, piece);
            return;
        }
    }
    chunk_unref(piece->chunk);
    piece->chunk = chunk_ref(pack->chunk);
    piece->data = to;
}

static struct list *first_unsettled(struct list *queue)
{
    struct list *link = queue;
    while (link->prev != queue && !piece_of(link->prev)->settled) {
        link = link->prev;
    }
    return link;
}

/* Settles the pieces from link on that lie in the same chunk; returns the next
 * behind them. */
static struct list *settle_run(struct mux *mux, struct list *queue,
                               struct pack *pack, struct list *link,
                               bool urgent)
{
    struct chunk *chunk = piece_of(link)->chunk;
    size_t held = 0;
    struct list *end = link;
    while (end != queue && piece_of(end)->chunk == chunk) {
        held += piece_of(end)->len_bytes;
        piece_of(end)->settled = true;
        end = end->next;
    }
    if (held >= chunk->size_bytes / 2) {
        return end;
    }
    while (link != end) {
        struct list *next = link->next;
        pack_piece(mux, queue, pack, piece_of(link), urgent);
        link = next;
    }
    return end;
}

static void settle(struct mux *mux, struct list *queue, struct pack *pack,
                   bool urgent)
{
    struct list *link = first_unsettled(queue);
    while (link != queue) {
        link = settle_run(mux, queue, pack, link, urgent);
    }
}

/* Credit. */

/* The sender could use more, and its QEMU keeps up: the path is longer than the
 * window. Returns whether there is more now. */
static bool grow(struct mux *mux, struct in_flow *in)
{
    uint64_t window = in->window_bytes;
    uint64_t more = window;
    if (!in->wants_more || flow_rx_held(&in->rx) > window / 4) {
        return false;
    }
    in->wants_more = false;
    if (window + more > in->window_max_bytes) {
        more = in->window_max_bytes - window;
    }
    if (mux->windows_bytes + more > mux->config.receive_total_max_bytes) {
        return false;
    }
    in->window_bytes += more;
    mux->windows_bytes += more;
    in->grow_from = in->rx.granted + 1;
    return more > 0;
}

static bool ack_is_due(const struct mux_channel *ch, const struct in_flow *in,
                       int sub)
{
    uint64_t unacked = flow_rx_unacked(&in->rx);
    if (unacked == 0) {
        return false;
    }
    return in->ack_asked || merge_is_finished(&ch->merge) ||
           unacked >= (in->rx.granted - in->rx.acked) / ACK_PARTS ||
           in->marked_passed >= mux_marks_max(sub) / ACK_PARTS;
}

static void decide_acks(struct mux *mux, struct mux_channel *ch)
{
    for (int sub = 0; sub < WIRE_SUBS; sub++) {
        struct in_flow *in = &ch->in[sub];
        bool due = ack_is_due(ch, in, sub);
        if (grow(mux, in) || due) {
            mux->acks[sub] |= channel_bit(ch);
            in->ack_asked = false;
        }
    }
}

void mux_turn_end(struct mux *mux, mp_time now)
{
    for (uint64_t left = mux->touched; left != 0; left &= left - 1) {
        struct mux_channel *ch = mux->channels[__builtin_ctzll(left)];
        settle(mux, &ch->early.pieces, &ch->early.pack, true);
        if (ch->state != CHANNEL_OPEN) {
            continue;
        }
        settle(mux, &ch->merge.bulk, &ch->in[WIRE_SUB_BULK].pack, false);
        settle(mux, &ch->merge.urgent, &ch->in[WIRE_SUB_URGENT].pack, true);
        decide_acks(mux, ch);
    }
    mux->touched = 0;
}
