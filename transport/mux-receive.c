// SPDX-License-Identifier: BSD-3-Clause
/* The mux, receiving: frames that come, what is delivered of them, and what
 * the other end is told about it. */
#include "transport/mux-internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* An error that names the channel in front. */
static int channel_error(const struct frame *f, struct error *err)
{
    return error_wrap(err, "channel %u, epoch %u, sub-stream %u", f->channel,
                      f->epoch, f->substream);
}

static int wrong_lane(const struct mux_lane *lane, const struct frame *f,
                      enum wire_lane right, struct error *err)
{
    return error_set(err, ERR_PROTOCOL, "%s on the %s lane, belongs on %s",
                     frame_type_name(f->type), frame_lane_name(lane->kind),
                     frame_lane_name(right));
}

/* Telling the user. */

static bool is_announced(const struct mux_channel *ch)
{
    return ch->state == CHANNEL_OPEN && ch->announced_epoch == ch->epoch;
}

void mux_update_readable(struct mux *mux, struct mux_channel *ch)
{
    if (!is_announced(ch)) {
        return;
    }
    bool can_deliver = merge_can_deliver(&ch->merge);
    if (can_deliver && !ch->readable) {
        mux_push_soft(mux, ch, MUX_EVENT_READABLE);
    }
    ch->readable = can_deliver;
    if (!ch->ended && merge_is_finished(&ch->merge)) {
        struct event event = {
            .type = MUX_EVENT_ENDED,
            .channel = ch->number,
            .epoch = ch->epoch,
        };
        ch->ended = true;
        mux_push_hard(mux, &event, &mux->failure);
    }
}

/* OPEN. */

/* Says all opens whose turn it is. */
static int announce_opens(struct mux *mux, struct error *err)
{
    for (;;) {
        struct parked_open *slot =
            &mux->parked[mux->next_order % MUX_OPENS_PARKED];
        if (!slot->used) {
            return 0;
        }
        struct event event = {
            .type = MUX_EVENT_OPENED,
            .channel = slot->channel,
            .epoch = slot->epoch,
            .class = mux->channels[slot->channel]->class,
        };
        slot->used = false;
        mux->next_order++;
        if (mux_push_hard(mux, &event, err) < 0) {
            return -1;
        }
    }
}

static int park_open(struct mux *mux, const struct frame *f, struct error *err)
{
    struct parked_open *slot = &mux->parked[f->offset % MUX_OPENS_PARKED];
    if (f->offset < mux->next_order ||
        f->offset - mux->next_order >= MUX_OPENS_PARKED || slot->used) {
        return error_set(
            err, ERR_PROTOCOL,
            "OPEN with order %llu, allowed %llu to %llu, each "
            "once",
            (unsigned long long)f->offset, (unsigned long long)mux->next_order,
            (unsigned long long)mux->next_order + MUX_OPENS_PARKED - 1);
    }
    *slot = (struct parked_open){
        .used = true,
        .channel = f->channel,
        .epoch = f->epoch,
    };
    return 0;
}

static int check_open(const struct mux *mux, const struct mux_lane *lane,
                      const struct frame *f, struct error *err)
{
    const struct mux_channel *ch = mux->channels[f->channel];
    enum wire_lane right = mux_bulk_lane(f->arg, true);
    if (mux->config.opener) {
        return error_set(err, ERR_PROTOCOL,
                         "OPEN from the end that does not open channels");
    }
    if (lane->kind != right) {
        return error_set(err, ERR_PROTOCOL,
                         "OPEN of %s on the %s lane, belongs on %s",
                         mux_class_name(f->arg), frame_lane_name(lane->kind),
                         frame_lane_name(right));
    }
    if (!ch || ch->state == CHANNEL_NONE) {
        return 0;
    }
    if (f->epoch <= ch->epoch) {
        return error_set(err, ERR_PROTOCOL,
                         "OPEN with epoch %u, epoch %u was there already",
                         f->epoch, ch->epoch);
    }
    /* That the opener opens again tells that it has delivered all of ours; its
     * ACK may still be on its way on the other lane. */
    bool over = ch->state == CHANNEL_RESET ||
                (ch->end_sent && merge_is_finished(&ch->merge));
    if (!over) {
        return error_set(err, ERR_PROTOCOL, "OPEN while epoch %u is open",
                         ch->epoch);
    }
    if (f->arg != ch->class) {
        return error_set(err, ERR_PROTOCOL, "OPEN as %s, it was %s before",
                         mux_class_name(f->arg), mux_class_name(ch->class));
    }
    return 0;
}

/* Urgent frames that overtook OPEN become the channel's. */
static int adopt_early(struct mux *mux, struct mux_channel *ch,
                       struct error *err)
{
    struct early *early = &ch->early;
    if (early->epoch == 0 || early->epoch > ch->epoch) {
        return 0; /* none, or of an epoch whose OPEN is still to come */
    }
    if (early->epoch < ch->epoch) {
        ch->stale_frames += early->frames;
        mux_drop_early(mux, ch);
        return 0;
    }
    if (ch->class != WIRE_CLASS_MAIN) {
        return error_set(err, ERR_PROTOCOL, "urgent DATA of a %s channel",
                         mux_class_name(ch->class));
    }
    ch->in[WIRE_SUB_URGENT].rx = early->rx;
    LIST_EACH_SAFE (link, &early->pieces) {
        struct piece *piece = piece_of(link);
        list_remove(link);
        if (piece->first && merge_start_urgent(&ch->merge, err) < 0) {
            piece_free(&mux->pieces, piece);
            return -1;
        }
        merge_add_urgent(&ch->merge, piece);
    }
    ch->in[WIRE_SUB_URGENT].marked_held = early->frames;
    mux_drop_early(mux, ch);
    mux->touched |= channel_bit(ch);
    return 0;
}

static int receive_open(struct mux *mux, const struct mux_lane *lane,
                        const struct frame *f, struct error *err)
{
    if (check_open(mux, lane, f, err) < 0 || park_open(mux, f, err) < 0) {
        return channel_error(f, err);
    }
    struct mux_channel *ch = mux_channel_make(mux, f->channel);
    if (!ch) {
        return error_set(err, ERR_NO_MEMORY, "no memory for channel %u",
                         f->channel);
    }
    mux_channel_start(mux, ch, f->arg, f->epoch);
    if (adopt_early(mux, ch, err) < 0) {
        return channel_error(f, err);
    }
    /* The initial credit is small; say at once what there is. */
    mux->acks[WIRE_SUB_BULK] |= channel_bit(ch);
    if (ch->class == WIRE_CLASS_MAIN) {
        mux->acks[WIRE_SUB_URGENT] |= channel_bit(ch);
    }
    return announce_opens(mux, err);
}

/* DATA. */

static bool dropped(const struct mux_channel *ch, const struct frame *f)
{
    return f->epoch < ch->epoch ||
           (f->epoch == ch->epoch && ch->state == CHANNEL_RESET);
}

static int count_frame(unsigned *held, unsigned max, const char *what,
                       struct error *err)
{
    if (*held >= max) {
        return error_set(err, ERR_PROTOCOL,
                         "%u %s frames are held, none more is allowed", max,
                         what);
    }
    (*held)++;
    return 0;
}

/* DATA that overtook its channel's OPEN: urgent frames can, on express. */
static int receive_early(struct mux *mux, struct mux_channel *ch,
                         const struct frame *f, struct error *err)
{
    struct early *early = &ch->early;
    if (mux->config.opener || f->substream != WIRE_SUB_URGENT) {
        return error_set(err, ERR_PROTOCOL,
                         "DATA of epoch %u, the newest opened is %u", f->epoch,
                         ch->epoch);
    }
    if (f->epoch < early->epoch) {
        ch->stale_frames++;
        return 0;
    }
    if (f->epoch > early->epoch) {
        ch->stale_frames += early->epoch ? early->frames : 0;
        mux_drop_early(mux, ch);
        early->epoch = f->epoch;
        flow_rx_init(&early->rx, WIRE_INITIAL_CREDIT_BYTES);
    }
    if (flow_rx_data(&early->rx, f->offset, f->length_bytes, err) < 0) {
        return -1;
    }
    mux->touched |= channel_bit(ch);
    return count_frame(&early->frames, WIRE_URGENT_MAX_FRAMES, "urgent", err);
}

static int start_bulk(struct mux_channel *ch, const struct frame *f,
                      struct error *err)
{
    struct in_flow *in = &ch->in[WIRE_SUB_BULK];
    if (merge_start_bulk(&ch->merge, f->arg, f->flags, err) < 0) {
        return -1;
    }
    if (f->arg == 0 && !(f->flags & WIRE_FLAG_MERGE)) {
        return 0;
    }
    return count_frame(&in->marked_held, WIRE_MARKED_MAX_FRAMES,
                       "MERGE or waiting", err);
}

static int start_urgent(const struct mux *mux, struct mux_channel *ch,
                        struct error *err)
{
    struct in_flow *in = &ch->in[WIRE_SUB_URGENT];
    if (mux->config.opener || ch->class != WIRE_CLASS_MAIN) {
        return error_set(err, ERR_PROTOCOL,
                         "urgent DATA is for main, from its opener");
    }
    if (merge_start_urgent(&ch->merge, err) < 0) {
        return -1;
    }
    return count_frame(&in->marked_held, WIRE_URGENT_MAX_FRAMES, "urgent", err);
}

static int receive_data(struct mux *mux, const struct mux_lane *lane,
                        struct mux_channel *ch, const struct frame *f,
                        struct error *err)
{
    if (dropped(ch, f)) {
        ch->stale_frames++;
        return 0;
    }
    if (f->epoch > ch->epoch) {
        return receive_early(mux, ch, f, err);
    }
    struct in_flow *in = &ch->in[f->substream];
    bool urgent = f->substream == WIRE_SUB_URGENT;
    enum wire_lane right = mux_bulk_lane(ch->class, !mux->config.opener);
    if (!urgent && lane->kind != right) {
        return wrong_lane(lane, f, right, err);
    }
    if (flow_rx_data(&in->rx, f->offset, f->length_bytes, err) < 0 ||
        (urgent ? start_urgent(mux, ch, err) : start_bulk(ch, f, err)) < 0) {
        return -1;
    }
    if ((f->flags & WIRE_FLAG_WANT) &&
        f->offset + f->length_bytes >= in->grow_from) {
        in->wants_more = true;
    }
    mux->touched |= channel_bit(ch);
    return 0;
}

/* END, RESET, ACK, PING, PONG. */

static int receive_end(struct mux *mux, const struct mux_lane *lane,
                       struct mux_channel *ch, const struct frame *f,
                       struct error *err)
{
    enum wire_lane right = mux_bulk_lane(ch->class, !mux->config.opener);
    if (dropped(ch, f)) {
        ch->stale_frames++;
        return 0;
    }
    if (f->epoch > ch->epoch) {
        return error_set(err, ERR_PROTOCOL,
                         "END of epoch %u, the newest opened is %u", f->epoch,
                         ch->epoch);
    }
    if (lane->kind != right) {
        return wrong_lane(lane, f, right, err);
    }
    if (merge_end(&ch->merge, f->offset, f->arg, err) < 0 ||
        merge_check(&ch->merge, false, err) < 0) {
        return -1;
    }
    mux->touched |= channel_bit(ch);
    mux_update_readable(mux, ch);
    return 0;
}

/* The whole frame is in, text included. */
static int receive_reset(struct mux *mux, struct mux_lane *lane,
                         struct error *err)
{
    const struct frame *f = &lane->frame;
    struct mux_channel *ch = mux->channels[f->channel];
    if (!ch || dropped(ch, f)) {
        return 0;
    }
    struct event event = {
        .type = MUX_EVENT_RESET,
        .channel = ch->number,
        .epoch = ch->epoch,
        .code = frame_error_code(f),
        .text = strdup(lane->text),
    };
    bool over = mux_channel_is_over(ch);
    mux_channel_kill(mux, ch);
    if (over) {
        free(event.text); /* it ended before, nothing is lost */
        return 0;
    }
    return mux_push_hard(mux, &event, err);
}

static int check_reset(const struct mux *mux, const struct mux_lane *lane,
                       const struct frame *f, struct error *err)
{
    const struct mux_channel *ch = mux->channels[f->channel];
    if (!ch || ch->state == CHANNEL_NONE || f->epoch > ch->epoch) {
        return error_set(err, ERR_PROTOCOL,
                         "RESET of epoch %u, the newest opened is %u", f->epoch,
                         ch ? ch->epoch : 0);
    }
    enum wire_lane right =
        mux->config.opener ? WIRE_LANE_EXPRESS : mux_bulk_lane(ch->class, true);
    return lane->kind == right ? 0 : wrong_lane(lane, f, right, err);
}

static int receive_ack(struct mux *mux, struct mux_channel *ch,
                       const struct frame *f, mp_time now, struct error *err)
{
    uint64_t newly;
    if (dropped(ch, f)) {
        return 0; /* crossed our RESET, or came late: nothing was lost */
    }
    if (f->epoch > ch->epoch) {
        return error_set(err, ERR_PROTOCOL,
                         "ACK of epoch %u, the newest opened is %u", f->epoch,
                         ch->epoch);
    }
    struct out_flow *out = &ch->out[f->substream];
    if (flow_tx_ack(&out->tx, f->offset, f->arg, &newly, err) < 0) {
        return -1;
    }
    marks_acked(&out->marks, f->offset);
    if (f->substream == WIRE_SUB_BULK &&
        mux_bulk_lane(ch->class, mux->config.opener) == WIRE_LANE_BULK) {
        window_acked(&mux->window, ch->number, f->offset, newly, now);
        if (ch->class == WIRE_CLASS_DISK) {
            mux->disk_in_flight_bytes -= newly;
        }
    } else {
        window_beside(&mux->window, newly);
    }
    mux_update_ready(mux, ch);
    if (newly > 0 && ch->end_sent) {
        mux_update_drained(mux, ch);
    }
    return 0;
}

static int receive_ping(struct mux_lane *lane, const struct frame *f,
                        struct error *err)
{
    if (lane->pong_count == WIRE_PINGS_MAX) {
        return error_set(err, ERR_PROTOCOL,
                         "PING on the %s lane while %d are unanswered",
                         frame_lane_name(lane->kind), WIRE_PINGS_MAX);
    }
    lane->pongs[lane->pong_count++] = f->arg;
    return 0;
}

static int receive_pong(struct mux *mux, struct mux_lane *lane,
                        const struct frame *f, mp_time now, struct error *err)
{
    if (lane->ping_count == 0 || lane->pings[0].arg != f->arg) {
        return error_set(
            err, ERR_PROTOCOL, "PONG %llu on the %s lane answers no PING",
            (unsigned long long)f->arg, frame_lane_name(lane->kind));
    }
    mp_time rtt = now - lane->pings[0].sent_at;
    lane->ping_count--;
    memmove(lane->pings, lane->pings + 1,
            lane->ping_count * sizeof(lane->pings[0]));
    window_pong(&mux->window, rtt);
    mux_push_pong(mux, lane->kind, rtt);
    return 0;
}

/* Frames of a channel that may not have been opened (DATA only: early). */
static int receive_channel_frame(struct mux *mux, struct mux_lane *lane,
                                 const struct frame *f, mp_time now,
                                 struct error *err)
{
    struct mux_channel *ch = mux_channel_make(mux, f->channel);
    int result = -1;
    if (!ch) {
        return error_set(err, ERR_NO_MEMORY, "no memory for channel %u",
                         f->channel);
    }
    if (f->type == WIRE_DATA) {
        result = receive_data(mux, lane, ch, f, err);
    } else if (f->type == WIRE_END) {
        result = receive_end(mux, lane, ch, f, err);
    } else if (f->type == WIRE_RESET) {
        result = check_reset(mux, lane, f, err);
    } else {
        result = receive_ack(mux, ch, f, now, err);
    }
    return result < 0 ? channel_error(f, err) : 0;
}

int mux_receive_header(struct mux *mux, enum wire_lane lane_kind,
                       const struct frame *frame, mp_time now,
                       struct error *err)
{
    struct mux_lane *lane = mux_lane_of(mux, lane_kind);
    int result = 0;
    if (error_is_set(&mux->failure)) {
        return error_copy(err, &mux->failure);
    }
    lane->frame = *frame;
    lane->left_bytes = frame->length_bytes;
    lane->text_bytes = 0;
    lane->text[0] = '\0';
    switch (frame->type) {
    case WIRE_OPEN:
        return receive_open(mux, lane, frame, err);
    case WIRE_DATA:
    case WIRE_END:
    case WIRE_ACK:
        return receive_channel_frame(mux, lane, frame, now, err);
    case WIRE_RESET:
        result = receive_channel_frame(mux, lane, frame, now, err);
        return result < 0 || frame->length_bytes > 0
                   ? result
                   : receive_reset(mux, lane, err);
    case WIRE_PING:
        return receive_ping(lane, frame, err);
    case WIRE_PONG:
        return receive_pong(mux, lane, frame, now, err);
    case WIRE_HELLO:
    case WIRE_GOAWAY:
    case WIRE_MESSAGE:
        break;
    }
    return error_set(err, ERR_PROTOCOL, "%s frame is not allowed here",
                     frame_type_name(frame->type));
}

/* Payload. */

/* Where DATA of the lane's current frame goes. */
enum sink { SINK_NONE, SINK_CHANNEL, SINK_EARLY };

static enum sink find_sink(const struct mux_channel *ch, const struct frame *f)
{
    if (ch->state == CHANNEL_OPEN && ch->epoch == f->epoch) {
        return SINK_CHANNEL;
    }
    if (ch->early.epoch == f->epoch && f->epoch > ch->epoch) {
        return SINK_EARLY;
    }
    return SINK_NONE;
}

static struct piece *make_piece(struct mux *mux, const uint8_t *data,
                                size_t len_bytes, struct chunk *owner,
                                struct error *err)
{
    struct chunk *copy = NULL;
    if (!owner) {
        copy = chunk_new(len_bytes);
        if (!copy) {
            error_set(err, ERR_NO_MEMORY, "no memory for %zu bytes", len_bytes);
            return NULL;
        }
        memcpy(copy->data, data, len_bytes);
        data = copy->data;
        owner = copy;
    }
    struct piece *piece = piece_new(&mux->pieces, owner, data, len_bytes);
    chunk_unref(copy);
    if (!piece) {
        error_set(err, ERR_NO_MEMORY, "no memory for a piece");
    }
    return piece;
}

static int receive_data_payload(struct mux *mux, struct mux_lane *lane,
                                const uint8_t *data, size_t len_bytes,
                                struct chunk *owner, struct error *err)
{
    const struct frame *f = &lane->frame;
    struct mux_channel *ch = mux->channels[f->channel];
    enum sink sink = find_sink(ch, f);
    if (sink == SINK_NONE) {
        return 0;
    }
    struct piece *piece = make_piece(mux, data, len_bytes, owner, err);
    if (!piece) {
        return -1;
    }
    piece->first = lane->left_bytes + len_bytes == f->length_bytes;
    piece->last = lane->left_bytes == 0;
    piece->ack = piece->last && (f->flags & WIRE_FLAG_ACK);
    piece->flags = f->flags;
    piece->after = f->arg;
    if (sink == SINK_EARLY) {
        list_append(&ch->early.pieces, &piece->link);
        return 0;
    }
    if (f->substream == WIRE_SUB_URGENT) {
        merge_add_urgent(&ch->merge, piece);
    } else {
        merge_add_bulk(&ch->merge, piece);
    }
    mux->touched |= channel_bit(ch);
    if (merge_check(&ch->merge, false, err) < 0) {
        return channel_error(f, err);
    }
    mux_update_readable(mux, ch);
    return 0;
}

/* Text of the peer's goes into messages and logs: nothing but plain characters
 * may. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~') {
            *text = '?';
        }
    }
}

static int receive_text(struct mux *mux, struct mux_lane *lane,
                        const uint8_t *data, size_t len_bytes,
                        struct error *err)
{
    memcpy(lane->text + lane->text_bytes, data, len_bytes);
    lane->text_bytes += len_bytes;
    lane->text[lane->text_bytes] = '\0';
    if (lane->left_bytes > 0) {
        return 0;
    }
    make_printable(lane->text);
    return receive_reset(mux, lane, err);
}

int mux_receive_payload(struct mux *mux, enum wire_lane lane_kind,
                        const uint8_t *data, size_t len_bytes,
                        struct chunk *owner, struct error *err)
{
    struct mux_lane *lane = mux_lane_of(mux, lane_kind);
    assert(len_bytes <= lane->left_bytes);
    if (len_bytes == 0) {
        return 0;
    }
    lane->left_bytes -= (uint32_t)len_bytes;
    if (lane->frame.type == WIRE_DATA) {
        return receive_data_payload(mux, lane, data, len_bytes, owner, err);
    }
    return receive_text(mux, lane, data, len_bytes, err);
}

/* Delivering. */

static struct mux_channel *delivering(const struct mux *mux, uint16_t channel)
{
    struct mux_channel *ch =
        channel < WIRE_CHANNELS ? mux->channels[channel] : NULL;
    return ch && is_announced(ch) ? ch : NULL;
}

int mux_deliver_peek(struct mux *mux, uint16_t channel, struct iovec *iov,
                     int max_iov)
{
    struct mux_channel *ch = delivering(mux, channel);
    return ch ? merge_peek(&ch->merge, iov, max_iov) : 0;
}

size_t mux_deliver_bytes(const struct mux *mux, uint16_t channel)
{
    const struct mux_channel *ch = delivering(mux, channel);
    return ch ? merge_deliverable_bytes(&ch->merge) : 0;
}

static void count_delivered(struct in_flow *in, uint64_t bytes, uint64_t frames,
                            bool ack)
{
    flow_rx_delivered(&in->rx, bytes);
    in->marked_held -= (unsigned)frames;
    in->marked_passed += (unsigned)frames;
    in->ack_asked |= ack;
}

void mux_delivered(struct mux *mux, uint16_t channel, size_t len_bytes)
{
    struct mux_channel *ch = delivering(mux, channel);
    struct merge_passed passed;
    if (!ch || len_bytes == 0) {
        return;
    }
    merge_delivered(&ch->merge, &mux->pieces, len_bytes, &passed);
    count_delivered(&ch->in[WIRE_SUB_BULK], passed.bulk_bytes,
                    passed.bulk_marked, passed.bulk_ack);
    count_delivered(&ch->in[WIRE_SUB_URGENT], passed.urgent_bytes,
                    passed.urgent_frames, passed.urgent_ack);
    ch->urgent_delivered += passed.urgent_frames;
    mux->touched |= channel_bit(ch);
    if (merge_check(&ch->merge, false, &mux->failure) < 0) {
        error_wrap(&mux->failure, "channel %u (%s)", channel,
                   mux_class_name(ch->class));
    }
    mux_update_readable(mux, ch);
}
