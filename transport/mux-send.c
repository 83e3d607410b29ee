// SPDX-License-Identifier: BSD-3-Clause
/* The mux, sending: what the user hands over, and how much it may. */
#include "transport/mux-internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Room. */

static uint64_t hold_limit(const struct mux *mux, const struct mux_channel *ch)
{
    const struct mux_config *config = &mux->config;
    uint64_t others, limit;
    if (!config->opener) {
        return config->hold_precopy_bytes;
    }
    switch (mux->phase) {
    case MUX_PHASE_SETUP:
    case MUX_PHASE_SWITCHOVER:
        others = mux->held_bytes - ch->out[WIRE_SUB_BULK].queued_bytes;
        limit = others < config->hold_switchover_bytes
                    ? config->hold_switchover_bytes - others
                    : 0;
        /* what fills it may be waiting, at the destination, for what comes on
         * this channel */
        return limit > config->hold_postcopy_bytes
                   ? limit
                   : config->hold_postcopy_bytes;
    case MUX_PHASE_POSTCOPY:
        if (ch->class == WIRE_CLASS_MAIN || ch->class == WIRE_CLASS_MULTIFD) {
            return config->hold_postcopy_bytes;
        }
        break;
    case MUX_PHASE_PRECOPY:
        break;
    }
    return config->hold_precopy_bytes;
}

static uint64_t room(const struct mux *mux, const struct mux_channel *ch)
{
    uint64_t held = ch->out[WIRE_SUB_BULK].queued_bytes;
    uint64_t limit = hold_limit(mux, ch);
    return held < limit ? limit - held : 0;
}

size_t mux_send_room(const struct mux *mux, uint16_t channel)
{
    const struct mux_channel *ch =
        channel < WIRE_CHANNELS ? mux->channels[channel] : NULL;
    if (!channel_is_open(ch) || ch->end_queued || ch->full) {
        return 0;
    }
    return room(mux, ch);
}

/* Once full, a channel has room again only when a quarter of its limit is
 * free: reads of a few bytes are not worth a wake. */
static void update_full(struct mux *mux, struct mux_channel *ch)
{
    uint64_t free_bytes = room(mux, ch);
    if (!ch->full) {
        ch->full = free_bytes == 0;
        return;
    }
    if (free_bytes > 0 && free_bytes >= hold_limit(mux, ch) / 4) {
        ch->full = false;
        mux_push_soft(mux, ch, MUX_EVENT_ROOM);
    }
}

void mux_update_room(struct mux *mux, struct mux_channel *ch)
{
    bool shared = mux->config.opener && (mux->phase == MUX_PHASE_SETUP ||
                                         mux->phase == MUX_PHASE_SWITCHOVER);
    if (!shared) {
        update_full(mux, ch);
        return;
    }
    for (int i = 0; i < WIRE_CHANNELS; i++) {
        if (channel_is_open(mux->channels[i])) {
            update_full(mux, mux->channels[i]);
        }
    }
}

/* Queueing. */

/* Bytes that may be cut and joined are joined where they lie in a row. */
static bool join(struct out_flow *out, const struct chunk *chunk,
                 const uint8_t *data, size_t len_bytes)
{
    struct piece *tail = piece_last(&out->queue);
    if (!tail || tail->flags || tail->chunk != chunk ||
        tail->data + tail->len_bytes != data) {
        return false;
    }
    tail->len_bytes += len_bytes;
    return true;
}

static int queue_piece(struct mux *mux, struct out_flow *out, int sub,
                       const struct piece *model, struct error *err)
{
    bool marked = mux_is_marked(model, sub);
    struct piece *piece;
    if (marked) {
        unsigned want = out->marks.count + out->queued_marked + 1;
        want = want < mux_marks_max(sub) ? want : mux_marks_max(sub);
        if (!marks_reserve(&out->marks, want)) {
            return error_set(err, ERR_NO_MEMORY, "no memory for %u marks",
                             want);
        }
    }
    piece =
        piece_new(&mux->pieces, model->chunk, model->data, model->len_bytes);
    if (!piece) {
        return error_set(err, ERR_NO_MEMORY, "no memory for a piece");
    }
    piece->flags = model->flags;
    piece->after = model->after;
    list_append(&out->queue, &piece->link);
    out->queued_marked += marked;
    return 0;
}

static struct mux_channel *sending_channel(struct mux *mux, uint16_t channel,
                                           struct error *err)
{
    struct mux_channel *ch =
        channel < WIRE_CHANNELS ? mux->channels[channel] : NULL;
    if (!channel_is_open(ch)) {
        error_set(err, ERR_CONFLICT, "channel %u is not open", channel);
        return NULL;
    }
    if (ch->end_queued) {
        error_set(err, ERR_CONFLICT, "channel %u (%s) was ended", channel,
                  mux_class_name(ch->class));
        return NULL;
    }
    return ch;
}

static int check_send(const struct mux_channel *ch, size_t len_bytes,
                      uint8_t flags, uint64_t after_urgent, struct error *err)
{
    if (flags & ~WIRE_FLAG_MERGE) {
        return error_set(err, ERR_BAD_REQUEST, "flags 0x%02x: only MERGE",
                         flags);
    }
    if ((flags & WIRE_FLAG_MERGE) && len_bytes > WIRE_DATA_MAX_BYTES) {
        return error_set(err, ERR_LIMIT,
                         "a frame of %zu bytes with MERGE, at most %d fit",
                         len_bytes, WIRE_DATA_MAX_BYTES);
    }
    if (after_urgent > ch->urgent_queued) {
        return error_set(err, ERR_BAD_REQUEST,
                         "bytes wait for %llu urgent frames, only %llu were "
                         "sent",
                         (unsigned long long)after_urgent,
                         (unsigned long long)ch->urgent_queued);
    }
    if (after_urgent > ch->last_after && !ch->last_merge) {
        return error_set(err, ERR_BAD_REQUEST,
                         "bytes wait for %llu urgent frames where none may be "
                         "put: the frame before them has no MERGE",
                         (unsigned long long)after_urgent);
    }
    return 0;
}

int mux_send(struct mux *mux, uint16_t channel, struct chunk *chunk,
             const uint8_t *data, size_t len_bytes, uint8_t flags,
             uint64_t after_urgent, struct error *err)
{
    struct mux_channel *ch = sending_channel(mux, channel, err);
    if (!ch || check_send(ch, len_bytes, flags, after_urgent, err) < 0) {
        return -1;
    }
    if (len_bytes == 0) {
        return 0;
    }
    struct out_flow *out = &ch->out[WIRE_SUB_BULK];
    if (flags || after_urgent || !join(out, chunk, data, len_bytes)) {
        struct piece model = {
            .chunk = chunk,
            .data = data,
            .len_bytes = len_bytes,
            .flags = flags,
            .after = after_urgent,
        };
        if (queue_piece(mux, out, WIRE_SUB_BULK, &model, err) < 0) {
            return -1;
        }
    }
    out->queued_bytes += len_bytes;
    mux->held_bytes += len_bytes;
    ch->last_merge = flags & WIRE_FLAG_MERGE;
    if (after_urgent > ch->last_after) {
        ch->last_after = after_urgent;
    }
    mux_update_room(mux, ch);
    mux_update_ready(mux, ch);
    return 0;
}

int mux_send_urgent(struct mux *mux, uint16_t channel, struct chunk *chunk,
                    const uint8_t *data, size_t len_bytes,
                    uint64_t after_offset, struct error *err)
{
    struct mux_channel *ch = sending_channel(mux, channel, err);
    if (!ch) {
        return -1;
    }
    struct out_flow *bulk = &ch->out[WIRE_SUB_BULK];
    uint64_t bulk_end = bulk->tx.sent + bulk->queued_bytes;
    if (!mux->config.opener || ch->class != WIRE_CLASS_MAIN) {
        return error_set(err, ERR_BAD_REQUEST,
                         "urgent frames are for main, from its opener; channel "
                         "%u is %s",
                         channel, mux_class_name(ch->class));
    }
    if (len_bytes == 0 || len_bytes > WIRE_URGENT_MAX_BYTES) {
        return error_set(err, ERR_LIMIT,
                         "an urgent frame of %zu bytes, allowed 1 to %d",
                         len_bytes, WIRE_URGENT_MAX_BYTES);
    }
    if (after_offset > bulk_end) {
        return error_set(err, ERR_BAD_REQUEST,
                         "an urgent frame waits for offset %llu, only %llu "
                         "were sent",
                         (unsigned long long)after_offset,
                         (unsigned long long)bulk_end);
    }
    struct out_flow *out = &ch->out[WIRE_SUB_URGENT];
    struct piece model = {
        .chunk = chunk,
        .data = data,
        .len_bytes = len_bytes,
        .after = after_offset,
    };
    if (queue_piece(mux, out, WIRE_SUB_URGENT, &model, err) < 0) {
        return -1;
    }
    out->queued_bytes += len_bytes;
    ch->urgent_queued++;
    mux_update_ready(mux, ch);
    return 0;
}

void mux_end(struct mux *mux, uint16_t channel)
{
    struct mux_channel *ch = sending_channel(mux, channel, NULL);
    if (!ch) {
        return;
    }
    if (ch->urgent_queued > ch->last_after && !ch->last_merge) {
        mux_reset(mux, channel, ERR_INTERNAL,
                  "ended inside a record, with urgent frames on their way");
        return;
    }
    ch->end_queued = true;
    mux_update_ready(mux, ch);
}

bool mux_is_drained(const struct mux_channel *ch)
{
    const struct out_flow *bulk = &ch->out[WIRE_SUB_BULK];
    const struct out_flow *urgent = &ch->out[WIRE_SUB_URGENT];
    if (!list_is_empty(&bulk->queue) || !list_is_empty(&urgent->queue)) {
        return false;
    }
    return !ch->end_queued ||
           (ch->end_sent && flow_tx_in_flight(&bulk->tx) == 0 &&
            flow_tx_in_flight(&urgent->tx) == 0);
}

void mux_update_drained(struct mux *mux, struct mux_channel *ch)
{
    if (mux_is_drained(ch)) {
        mux_push_soft(mux, ch, MUX_EVENT_DRAINED);
    }
}

/* Control frames. */

void mux_queue_control(struct mux *mux, enum wire_lane lane,
                       const struct frame *frame, const char *text)
{
    struct control *control = calloc(1, sizeof(*control));
    size_t len = text ? strnlen(text, WIRE_TEXT_MAX_BYTES) : 0;
    if (control && len > 0) {
        control->text = chunk_new(len);
    }
    if (!control || (len > 0 && !control->text)) {
        free(control);
        error_set(&mux->failure, ERR_NO_MEMORY, "no memory for a %s frame",
                  frame_type_name(frame->type));
        return;
    }
    control->frame = *frame;
    control->frame.length_bytes = (uint32_t)len;
    if (len > 0) {
        memcpy(control->text->data, text, len);
    }
    list_append(&mux_lane_of(mux, lane)->control, &control->link);
}

void mux_ping(struct mux *mux, enum wire_lane lane, mp_time now)
{
    struct mux_lane *l = mux_lane_of(mux, lane);
    if (l->ping_count + l->pings_queued < WIRE_PINGS_MAX) {
        l->pings_queued++;
    }
}
