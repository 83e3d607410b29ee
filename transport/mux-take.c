// SPDX-License-Identifier: BSD-3-Clause
/* The mux, what leaves: which frame is next on a lane, and what it says. */
#include "transport/mux-internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"

/* Control frames. */

static void fill(struct mux_out *out, const struct frame *frame)
{
    *out = (struct mux_out){0};
    frame_encode(frame, out->header);
}

static void take_control(struct mux_lane *lane, struct mux_out *ret_out)
{
    struct list *link = list_first(&lane->control);
    struct control *control = container_of(link, struct control, link);
    list_remove(link);
    fill(ret_out, &control->frame);
    if (control->text) {
        ret_out->payload = control->text->data;
        ret_out->payload_bytes = control->frame.length_bytes;
        ret_out->chunk = steal_ptr(&control->text);
    }
    free(control);
}

void mux_make_ack(struct mux *mux, struct mux_channel *ch, int sub,
                  struct frame *ret_frame)
{
    struct in_flow *in = &ch->in[sub];
    mux->acks[sub] &= ~channel_bit(ch);
    flow_rx_grant(&in->rx, in->window_bytes);
    in->marked_passed = 0;
    *ret_frame = (struct frame){
        .type = WIRE_ACK,
        .channel = ch->number,
        .substream = (uint8_t)sub,
        .epoch = ch->epoch,
        .offset = in->rx.delivered,
        .arg = in->rx.granted,
    };
}

static void take_ack(struct mux *mux, int sub, struct mux_out *ret_out)
{
    struct mux_channel *ch = mux->channels[__builtin_ctzll(mux->acks[sub])];
    struct frame frame;
    mux_make_ack(mux, ch, sub, &frame);
    fill(ret_out, &frame);
}

static void take_pong(struct mux_lane *lane, struct mux_out *ret_out)
{
    struct frame frame = {.type = WIRE_PONG, .arg = lane->pongs[0]};
    lane->pong_count--;
    memmove(lane->pongs, lane->pongs + 1,
            lane->pong_count * sizeof(lane->pongs[0]));
    fill(ret_out, &frame);
}

static void take_ping(struct mux *mux, struct mux_lane *lane, mp_time now,
                      struct mux_out *ret_out)
{
    struct frame frame = {.type = WIRE_PING, .arg = mux->next_ping_arg++};
    lane->pings_queued--;
    lane->pings[lane->ping_count++] = (struct ping){
        .arg = frame.arg,
        .sent_at = now,
    };
    fill(ret_out, &frame);
}

/* Data. */

/* The sub-stream of the channel that this end sends on the lane, or -1. */
static int sub_on_lane(const struct mux *mux, const struct mux_channel *ch,
                       enum wire_lane lane)
{
    if (mux_bulk_lane(ch->class, mux->config.opener) == lane) {
        return WIRE_SUB_BULK;
    }
    return lane == WIRE_LANE_EXPRESS ? WIRE_SUB_URGENT : -1;
}

/* The part of the window that each channel of RAM may fill whatever the others
 * do, bytes. QEMU's multifd channels wait for each other at the end of a pass:
 * those that are through are not read on before the last one is, so that one
 * must get on although what is in flight for them fills the window. */
static uint64_t share_of_window(const struct mux *mux)
{
    int count = __builtin_popcountll(mux->ram_channels);
    return window_bytes(&mux->window) / (unsigned)(count > 1 ? count : 1);
}

static uint64_t frame_max(const struct mux *mux, enum wire_lane lane)
{
    if (lane == WIRE_LANE_EXPRESS) {
        return MUX_FRAME_EXPRESS_BYTES;
    }
    if (mux->phase == MUX_PHASE_POSTCOPY) {
        return MUX_FRAME_POSTCOPY_BYTES;
    }
    /* many channels, and one frame of each may always be in flight */
    return share_of_window(mux) < WIRE_DATA_MAX_BYTES ? MUX_FRAME_POSTCOPY_BYTES
                                                      : WIRE_DATA_MAX_BYTES;
}

/* Payload of the next DATA frame of a flow; 0: nothing, or no credit. A frame
 * that may be cut waits for credit for all of it as long as an ACK can come, so
 * that the credit's steps do not make small frames. */
static uint64_t next_len(const struct mux *mux, const struct out_flow *out,
                         int sub, enum wire_lane lane)
{
    const struct piece *piece = piece_first(&out->queue);
    uint64_t credit = flow_tx_room(&out->tx);
    if (!piece) {
        return 0;
    }
    if (mux_is_marked(piece, sub) && out->marks.count >= mux_marks_max(sub)) {
        return 0;
    }
    bool whole = sub == WIRE_SUB_URGENT || (piece->flags & WIRE_FLAG_MERGE);
    uint64_t max = whole ? piece->len_bytes : frame_max(mux, lane);
    uint64_t len = piece->len_bytes < max ? piece->len_bytes : max;
    if (credit >= len) {
        return len;
    }
    return whole || flow_tx_in_flight(&out->tx) > 0 ? 0 : credit;
}

static bool end_is_next(const struct mux_channel *ch, int sub)
{
    return sub == WIRE_SUB_BULK && ch->end_queued && !ch->end_sent &&
           list_is_empty(&ch->out[sub].queue);
}

void mux_update_ready(struct mux *mux, struct mux_channel *ch)
{
    for (int i = 0; i < MUX_LANES; i++) {
        struct mux_lane *lane = &mux->lanes[i];
        int sub = sub_on_lane(mux, ch, lane->kind);
        bool ready = false;
        if (sub >= 0 && ch->state == CHANNEL_OPEN) {
            ready = next_len(mux, &ch->out[sub], sub, lane->kind) > 0 ||
                    end_is_next(ch, sub);
        }
        if (sub >= 0) {
            sched_set_ready(&lane->sched, ch->number, ready);
        }
    }
}

static bool keeps_share(const struct mux *mux, const struct mux_channel *ch,
                        uint64_t len)
{
    uint64_t own = flow_tx_in_flight(&ch->out[WIRE_SUB_BULK].tx);
    return ch->class != WIRE_CLASS_DISK &&
           (own == 0 || own + len <= share_of_window(mux));
}

/* Bulk in flight. Disks may have half of the window while RAM wants to send;
 * half of it is RAM's and a share is the disks' even where the other has filled
 * it: a destination that is slow on one of the two must not stop the other. */
static bool window_allows(const struct mux *mux, const struct mux_channel *ch,
                          uint64_t len)
{
    uint64_t window = window_bytes(&mux->window);
    uint64_t disk = mux->disk_in_flight_bytes;
    const struct sched *sched = &mux->lanes[1].sched;
    unsigned parts = mux->phase == MUX_PHASE_POSTCOPY ? MUX_DISK_PARTS_POSTCOPY
                                                      : MUX_DISK_PARTS_PRECOPY;
    if (ch->class != WIRE_CLASS_DISK) {
        uint64_t ram = mux->window.in_flight - disk;
        return ram + len <= window / 2 || keeps_share(mux, ch, len) ||
               window_has_room(&mux->window, len);
    }
    if (disk == 0 || disk + len <= window / parts) {
        return true;
    }
    if (sched->groups[SCHED_RAM].ready && disk + len > window / 2) {
        return false;
    }
    return window_has_room(&mux->window, len);
}

static bool may_leave(const struct mux *mux, int flow)
{
    const struct mux_channel *ch = mux->channels[flow];
    uint64_t len =
        next_len(mux, &ch->out[WIRE_SUB_BULK], WIRE_SUB_BULK, WIRE_LANE_BULK);
    if (len == 0) {
        return true; /* it is an END */
    }
    return window_must_ask(&mux->window, ch->number) ||
           window_allows(mux, ch, len);
}

bool mux_could_leave(const struct mux *mux, uint16_t channel, size_t len_bytes)
{
    const struct mux_channel *ch =
        channel < WIRE_CHANNELS ? mux->channels[channel] : NULL;
    return channel_is_open(ch) && !ch->end_queued &&
           list_is_empty(&ch->out[WIRE_SUB_BULK].queue) &&
           flow_tx_room(&ch->out[WIRE_SUB_BULK].tx) >= len_bytes &&
           window_allows(mux, ch, len_bytes);
}

/* Whether a flow may leave although another one's turn came first and that one
 * waits for room in the window. */
static bool may_pass(const struct mux *mux, unsigned flow)
{
    const struct mux_channel *ch = mux->channels[flow];
    uint64_t len =
        next_len(mux, &ch->out[WIRE_SUB_BULK], WIRE_SUB_BULK, WIRE_LANE_BULK);
    return window_must_ask(&mux->window, flow) || keeps_share(mux, ch, len);
}

/* The flow of a group that may send on the bulk lane, or -1: the one whose turn
 * it is. Others do not pass it when it waits for room in the window, or a large
 * frame would never find any; but who must ask for an acknowledgement may, and
 * who stays within its share: that leaves the large frame its own. */
static int next_of_group(const struct mux *mux, const struct sched *sched,
                         enum sched_group_id group)
{
    int flow = sched_next(sched, SCHED_BIT(group));
    if (flow < 0 || may_leave(mux, flow)) {
        return flow;
    }
    uint64_t left = sched->groups[group].ready;
    for (; left != 0; left &= left - 1) {
        flow = __builtin_ctzll(left);
        if (may_pass(mux, (unsigned)flow)) {
            return flow;
        }
    }
    return -1;
}

/* The channel whose frame leaves next on the lane, or -1. */
static int next_channel(const struct mux *mux, const struct mux_lane *lane)
{
    if (lane->kind == WIRE_LANE_EXPRESS) {
        return sched_next(&lane->sched, SCHED_ALL);
    }
    int ram = next_of_group(mux, &lane->sched, SCHED_RAM);
    int disk = next_of_group(mux, &lane->sched, SCHED_DISK);
    if (ram < 0 || disk < 0) {
        return ram < 0 ? disk : ram;
    }
    int flow = sched_next(&lane->sched, SCHED_ALL);
    return lane->sched.flows[flow].group == SCHED_DISK ? disk : ram;
}

/* Flags of a DATA frame of len bytes that is about to leave. */
static uint8_t data_flags(const struct mux *mux, const struct mux_channel *ch,
                          int sub, enum wire_lane lane, uint64_t len)
{
    const struct out_flow *out = &ch->out[sub];
    const struct piece *piece = piece_first(&out->queue);
    uint8_t flags = piece->flags;
    uint64_t credit = flow_tx_credit(&out->tx);
    bool low = flow_tx_room(&out->tx) - len < credit / 2;
    bool last = len == piece->len_bytes && piece->link.next == &out->queue;
    if (low || out->marks.count + 1 >= mux_marks_max(sub) / 2) {
        flags |= WIRE_FLAG_ACK;
    }
    if (lane == WIRE_LANE_BULK &&
        (last || window_wants_ack(&mux->window, ch->number, len))) {
        flags |= WIRE_FLAG_ACK;
    }
    if (lane == WIRE_LANE_EXPRESS && last && mux->config.opener &&
        mux->phase == MUX_PHASE_POSTCOPY) {
        /* the user wants to know when a page is there */
        flags |= WIRE_FLAG_ACK;
    }
    if (low &&
        (lane != WIRE_LANE_BULK || credit < window_bytes(&mux->window))) {
        flags |= WIRE_FLAG_WANT;
    }
    return flags;
}

/* len bytes of the first piece leave: the piece goes, or loses them. */
static void pass_piece(struct mux *mux, struct out_flow *out, int sub,
                       struct piece *piece, uint64_t len)
{
    if (mux_is_marked(piece, sub)) {
        marks_push(&out->marks, out->tx.sent);
        out->queued_marked--;
    }
    out->queued_bytes -= len;
    if (len == piece->len_bytes) {
        piece_free(&mux->pieces, piece);
        return;
    }
    piece->data += len;
    piece->len_bytes -= len;
    piece->after = 0; /* the frame that left has waited */
}

static void take_data(struct mux *mux, struct mux_lane *lane,
                      struct mux_channel *ch, int sub, mp_time now,
                      struct mux_out *ret_out)
{
    struct out_flow *out = &ch->out[sub];
    struct piece *piece = piece_first(&out->queue);
    uint64_t len = next_len(mux, out, sub, lane->kind);
    struct frame frame = {
        .type = WIRE_DATA,
        .flags = data_flags(mux, ch, sub, lane->kind, len),
        .substream = (uint8_t)sub,
        .channel = ch->number,
        .epoch = ch->epoch,
        .length_bytes = (uint32_t)len,
        .offset = out->tx.sent,
        .arg = piece->after,
    };
    fill(ret_out, &frame);
    ret_out->payload = piece->data;
    ret_out->payload_bytes = len;
    ret_out->chunk = chunk_ref(piece->chunk);

    flow_tx_sent(&out->tx, len);
    pass_piece(mux, out, sub, piece, len);
    if (sub == WIRE_SUB_URGENT) {
        ch->urgent_sent++;
    } else {
        mux->held_bytes -= len;
    }
    if (lane->kind == WIRE_LANE_BULK) {
        window_sent(&mux->window, ch->number, out->tx.sent, len,
                    frame.flags & WIRE_FLAG_ACK, now);
        if (ch->class == WIRE_CLASS_DISK) {
            mux->disk_in_flight_bytes += len;
        }
    }
    sched_charge(&lane->sched, ch->number, len + WIRE_HEADER_BYTES);
}

static void take_end(struct mux_lane *lane, struct mux_channel *ch,
                     struct mux_out *ret_out)
{
    struct frame frame = {
        .type = WIRE_END,
        .channel = ch->number,
        .epoch = ch->epoch,
        .offset = ch->out[WIRE_SUB_BULK].tx.sent,
        .arg = ch->urgent_queued,
    };
    ch->end_sent = true;
    fill(ret_out, &frame);
    sched_charge(&lane->sched, ch->number, WIRE_HEADER_BYTES);
}

static void take_flow(struct mux *mux, struct mux_lane *lane,
                      struct mux_channel *ch, mp_time now,
                      struct mux_out *ret_out)
{
    int sub = sub_on_lane(mux, ch, lane->kind);
    if (end_is_next(ch, sub)) {
        take_end(lane, ch, ret_out);
    } else {
        take_data(mux, lane, ch, sub, now, ret_out);
    }
    mux_update_ready(mux, ch);
    mux_update_room(mux, ch);
    mux_update_drained(mux, ch);
}

static bool bulk_is_idle(const struct mux_lane *lane)
{
    return lane->sched.groups[SCHED_RAM].ready == 0 &&
           lane->sched.groups[SCHED_DISK].ready == 0;
}

bool mux_take(struct mux *mux, enum wire_lane lane_kind, mp_time now,
              struct mux_out *ret_out)
{
    struct mux_lane *lane = mux_lane_of(mux, lane_kind);
    bool express = lane_kind == WIRE_LANE_EXPRESS;
    if (error_is_set(&mux->failure)) {
        return false;
    }
    if (!list_is_empty(&lane->control)) {
        take_control(lane, ret_out);
        return true;
    }
    for (int sub = 0; sub < WIRE_SUBS && express; sub++) {
        if (mux->acks[sub]) {
            take_ack(mux, sub, ret_out);
            return true;
        }
    }
    if (lane->pong_count > 0) {
        take_pong(lane, ret_out);
        return true;
    }
    if (lane->pings_queued > 0) {
        take_ping(mux, lane, now, ret_out);
        return true;
    }
    int flow = next_channel(mux, lane);
    if (flow >= 0) {
        take_flow(mux, lane, mux->channels[flow], now, ret_out);
        return true;
    }
    if (!express && bulk_is_idle(lane)) {
        window_idle(&mux->window);
    }
    return false;
}

bool mux_has_output(struct mux *mux, enum wire_lane lane_kind, mp_time now)
{
    const struct mux_lane *lane = mux_lane_of(mux, lane_kind);
    if (error_is_set(&mux->failure)) {
        return false;
    }
    if (!list_is_empty(&lane->control) || lane->pong_count > 0 ||
        lane->pings_queued > 0) {
        return true;
    }
    if (lane_kind == WIRE_LANE_EXPRESS &&
        (mux->acks[WIRE_SUB_BULK] || mux->acks[WIRE_SUB_URGENT])) {
        return true;
    }
    return next_channel(mux, lane) >= 0;
}

unsigned mux_blocked(const struct mux *mux, const struct mux_channel *ch)
{
    unsigned blocked = 0;
    for (int i = 0; i < MUX_LANES; i++) {
        const struct mux_lane *lane = &mux->lanes[i];
        int sub = sub_on_lane(mux, ch, lane->kind);
        if (sub < 0 || list_is_empty(&ch->out[sub].queue)) {
            continue;
        }
        uint64_t len = next_len(mux, &ch->out[sub], sub, lane->kind);
        if (len == 0) {
            blocked |= MUX_BLOCKED_CREDIT;
        } else if (lane->kind == WIRE_LANE_BULK &&
                   !window_allows(mux, ch, len)) {
            blocked |= MUX_BLOCKED_WINDOW;
        } else {
            blocked |= MUX_BLOCKED_LANE;
        }
    }
    return blocked;
}
