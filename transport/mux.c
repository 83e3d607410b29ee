// SPDX-License-Identifier: BSD-3-Clause
/* The mux: its channels' lives, phases and status. mux-send.c queues,
 * mux-take.c decides what leaves, mux-receive.c takes what comes, mux-turn.c
 * tidies up and answers, mux-event.c tells the user. */
#include "transport/mux-internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RECEIVE_WINDOW_BYTES (4u << 20)
#define EXPRESS_WINDOW_BYTES (1u << 20)
#define RECEIVE_WINDOW_MAX_BYTES (256u << 20)
#define RECEIVE_TOTAL_MAX_BYTES (512u << 20)
#define HOLD_PRECOPY_BYTES (256u << 10)
#define HOLD_POSTCOPY_BYTES (64u << 10)

void mux_config_default(struct mux_config *config, bool opener,
                        uint64_t hold_switchover_bytes)
{
    *config = (struct mux_config){
        .opener = opener,
        .receive_window_bytes = RECEIVE_WINDOW_BYTES,
        .express_window_bytes = EXPRESS_WINDOW_BYTES,
        .receive_window_max_bytes = RECEIVE_WINDOW_MAX_BYTES,
        .receive_total_max_bytes = RECEIVE_TOTAL_MAX_BYTES,
        .hold_precopy_bytes = HOLD_PRECOPY_BYTES,
        .hold_postcopy_bytes = HOLD_POSTCOPY_BYTES,
        .hold_switchover_bytes = hold_switchover_bytes,
    };
}

static void lane_init(struct mux_lane *lane, enum wire_lane kind)
{
    lane->kind = kind;
    sched_init(&lane->sched);
    list_init(&lane->control);
}

static void lane_clear(struct mux_lane *lane)
{
    LIST_EACH_SAFE (link, &lane->control) {
        struct control *control = container_of(link, struct control, link);
        list_remove(link);
        chunk_unref(control->text);
        free(control);
    }
}

struct mux *mux_new(const struct mux_config *config)
{
    struct mux *mux = calloc(1, sizeof(*mux));
    if (!mux) {
        return NULL;
    }
    mux->config = *config;
    mux->phase = MUX_PHASE_SETUP;
    lane_init(&mux->lanes[0], WIRE_LANE_EXPRESS);
    lane_init(&mux->lanes[1], WIRE_LANE_BULK);
    piece_pool_init(&mux->pieces);
    window_init(&mux->window);
    return mux;
}

void mux_free(struct mux *mux)
{
    if (!mux) {
        return;
    }
    for (int i = 0; i < WIRE_CHANNELS; i++) {
        if (mux->channels[i]) {
            mux_channel_kill(mux, mux->channels[i]);
            mux_drop_early(mux, mux->channels[i]);
            free(mux->channels[i]);
        }
    }
    for (int i = 0; i < MUX_LANES; i++) {
        lane_clear(&mux->lanes[i]);
    }
    mux_clear_events(mux);
    piece_pool_clear(&mux->pieces);
    free(mux);
}

enum wire_lane mux_bulk_lane(enum wire_class class, bool forward)
{
    if (class == WIRE_CLASS_DISK) {
        return WIRE_LANE_BULK;
    }
    if (!forward || class == WIRE_CLASS_PREEMPT) {
        return WIRE_LANE_EXPRESS;
    }
    return WIRE_LANE_BULK;
}

const char *mux_class_name(enum wire_class class)
{
    switch (class) {
    case WIRE_CLASS_MAIN:
        return "main";
    case WIRE_CLASS_PREEMPT:
        return "preempt";
    case WIRE_CLASS_MULTIFD:
        return "multifd";
    case WIRE_CLASS_DISK:
        return "disk";
    }
    return "?";
}

/* Channels. */

struct mux_channel *mux_channel_make(struct mux *mux, uint16_t number)
{
    struct mux_channel *ch = mux->channels[number];
    if (ch) {
        return ch;
    }
    ch = calloc(1, sizeof(*ch));
    if (!ch) {
        return NULL;
    }
    ch->number = number;
    for (int sub = 0; sub < WIRE_SUBS; sub++) {
        list_init(&ch->out[sub].queue);
    }
    merge_init(&ch->merge);
    list_init(&ch->early.pieces);
    mux->channels[number] = ch;
    return ch;
}

static void start_sched(struct mux *mux, struct mux_channel *ch)
{
    enum wire_lane bulk = mux_bulk_lane(ch->class, mux->config.opener);
    unsigned weight =
        ch->class == WIRE_CLASS_MAIN ? MUX_WEIGHT_MAIN : MUX_WEIGHT_OTHER;
    enum sched_group_id express =
        mux->config.opener ? SCHED_URGENT : SCHED_REVERSE;
    sched_set_flow(&mux_lane_of(mux, WIRE_LANE_EXPRESS)->sched, ch->number,
                   express, MUX_WEIGHT_OTHER);
    if (bulk == WIRE_LANE_BULK) {
        sched_set_flow(&mux_lane_of(mux, WIRE_LANE_BULK)->sched, ch->number,
                       ch->class == WIRE_CLASS_DISK ? SCHED_DISK : SCHED_RAM,
                       weight);
    }
}

/* Whether a receiving window of the channel may grow: what carries guest
 * memory or disks may have to fill a long path. */
static bool may_grow(const struct mux *mux, const struct mux_channel *ch,
                     int sub)
{
    if (sub != WIRE_SUB_BULK) {
        return false;
    }
    return !mux->config.opener || ch->class == WIRE_CLASS_DISK;
}

static void start_in_flow(struct mux *mux, struct mux_channel *ch, int sub)
{
    struct in_flow *in = &ch->in[sub];
    bool bulk = sub == WIRE_SUB_BULK &&
                mux_bulk_lane(ch->class, !mux->config.opener) == WIRE_LANE_BULK;
    *in = (struct in_flow){0};
    flow_rx_init(&in->rx, WIRE_INITIAL_CREDIT_BYTES);
    in->window_bytes = bulk ? mux->config.receive_window_bytes
                            : mux->config.express_window_bytes;
    if (in->window_bytes < WIRE_INITIAL_CREDIT_BYTES) {
        in->window_bytes = WIRE_INITIAL_CREDIT_BYTES;
    }
    in->window_max_bytes = may_grow(mux, ch, sub)
                               ? mux->config.receive_window_max_bytes
                               : in->window_bytes;
    in->grow_from = in->rx.granted + 1;
    mux->windows_bytes += in->window_bytes;
}

void mux_channel_start(struct mux *mux, struct mux_channel *ch,
                       enum wire_class class, uint16_t epoch)
{
    mux_channel_kill(mux, ch);
    ch->class = class;
    ch->state = CHANNEL_OPEN;
    ch->epoch = epoch;
    ch->urgent_queued = 0;
    ch->urgent_sent = 0;
    ch->urgent_delivered = 0;
    ch->last_after = 0;
    ch->last_merge = true;
    ch->full = false;
    ch->end_queued = false;
    ch->end_sent = false;
    ch->readable = false;
    ch->ended = false;
    for (int sub = 0; sub < WIRE_SUBS; sub++) {
        flow_tx_init(&ch->out[sub].tx, WIRE_INITIAL_CREDIT_BYTES);
        start_in_flow(mux, ch, sub);
    }
    if (class == WIRE_CLASS_MAIN || class == WIRE_CLASS_MULTIFD) {
        mux->ram_channels |= channel_bit(ch);
    }
    merge_init(&ch->merge);
    start_sched(mux, ch);
}

static void kill_out_flow(struct mux *mux, struct mux_channel *ch, int sub)
{
    struct out_flow *out = &ch->out[sub];
    uint64_t in_flight = flow_tx_in_flight(&out->tx);
    if (sub == WIRE_SUB_BULK) {
        mux->held_bytes -= out->queued_bytes;
        if (mux_bulk_lane(ch->class, mux->config.opener) == WIRE_LANE_BULK) {
            window_forget(&mux->window, ch->number, in_flight);
            if (ch->class == WIRE_CLASS_DISK) {
                mux->disk_in_flight_bytes -= in_flight;
            }
        }
    }
    piece_list_clear(&mux->pieces, &out->queue);
    marks_clear(&out->marks);
    out->queued_bytes = 0;
    out->queued_marked = 0;
}

void mux_channel_kill(struct mux *mux, struct mux_channel *ch)
{
    for (int sub = 0; sub < WIRE_SUBS; sub++) {
        if (ch->state == CHANNEL_OPEN) {
            kill_out_flow(mux, ch, sub);
            mux->windows_bytes -= ch->in[sub].window_bytes;
        }
        chunk_unref(ch->in[sub].pack.chunk);
        ch->in[sub].pack.chunk = NULL;
        mux->acks[sub] &= ~channel_bit(ch);
    }
    merge_clear(&ch->merge, &mux->pieces);
    for (int i = 0; i < MUX_LANES; i++) {
        sched_set_ready(&mux->lanes[i].sched, ch->number, false);
    }
    mux->touched &= ~channel_bit(ch);
    mux->ram_channels &= ~channel_bit(ch);
    if (ch->state == CHANNEL_OPEN) {
        ch->state = CHANNEL_RESET;
    }
}

void mux_drop_early(struct mux *mux, struct mux_channel *ch)
{
    piece_list_clear(&mux->pieces, &ch->early.pieces);
    chunk_unref(ch->early.pack.chunk);
    ch->early = (struct early){.epoch = 0};
    list_init(&ch->early.pieces);
}

bool mux_channel_is_over(const struct mux_channel *ch)
{
    if (ch->state != CHANNEL_OPEN) {
        return true;
    }
    return ch->end_sent && mux_is_drained(ch) && merge_is_finished(&ch->merge);
}

static int check_open(const struct mux *mux, uint16_t channel,
                      enum wire_class class, struct error *err)
{
    if (channel >= WIRE_CHANNELS) {
        return error_set(err, ERR_LIMIT,
                         "channel %u: a migration has at most %d channels",
                         channel, WIRE_CHANNELS);
    }
    const struct mux_channel *ch = mux->channels[channel];
    if (!ch || ch->state == CHANNEL_NONE) {
        return 0;
    }
    if (!mux_channel_is_over(ch)) {
        return error_set(err, ERR_CONFLICT, "channel %u (%s) is open", channel,
                         mux_class_name(ch->class));
    }
    if (ch->class != class) {
        return error_set(err, ERR_CONFLICT, "channel %u is %s, not %s", channel,
                         mux_class_name(ch->class), mux_class_name(class));
    }
    if (ch->epoch == UINT16_MAX) {
        return error_set(err, ERR_LIMIT,
                         "channel %u was opened %d times, no epoch is left",
                         channel, UINT16_MAX);
    }
    return 0;
}

/* The epoch goes, but the other end waits to hear that all was delivered. */
static void send_owed_acks(struct mux *mux, struct mux_channel *ch)
{
    for (int sub = 0; sub < WIRE_SUBS && channel_is_open(ch); sub++) {
        if (flow_rx_unacked(&ch->in[sub].rx) > 0) {
            struct frame frame;
            mux_make_ack(mux, ch, sub, &frame);
            mux_queue_control(mux, WIRE_LANE_EXPRESS, &frame, NULL);
        }
    }
}

int mux_open(struct mux *mux, uint16_t channel, enum wire_class class,
             struct error *err)
{
    assert(mux->config.opener);
    if (check_open(mux, channel, class, err) < 0) {
        return -1;
    }
    struct mux_channel *ch = mux_channel_make(mux, channel);
    if (!ch) {
        return error_set(err, ERR_NO_MEMORY, "no memory for channel %u",
                         channel);
    }
    send_owed_acks(mux, ch);
    mux_channel_start(mux, ch, class, ch->epoch + 1);
    ch->announced_epoch = ch->epoch;
    struct frame frame = {
        .type = WIRE_OPEN,
        .channel = channel,
        .epoch = ch->epoch,
        .offset = mux->next_order++,
        .arg = class,
    };
    mux_queue_control(mux, mux_bulk_lane(class, true), &frame, NULL);
    return error_is_set(&mux->failure) ? error_copy(err, &mux->failure) : 0;
}

void mux_reset(struct mux *mux, uint16_t channel, enum error_code code,
               const char *text)
{
    struct mux_channel *ch =
        channel < WIRE_CHANNELS ? mux->channels[channel] : NULL;
    if (!channel_is_open(ch)) {
        return;
    }
    /* The opener's RESET stays behind its OPEN. */
    enum wire_lane lane =
        mux->config.opener ? mux_bulk_lane(ch->class, true) : WIRE_LANE_EXPRESS;
    struct frame frame = {
        .type = WIRE_RESET,
        .channel = channel,
        .epoch = ch->epoch,
        .offset = code,
    };
    ch->local_reset_epoch = ch->epoch;
    mux_channel_kill(mux, ch);
    mux_queue_control(mux, lane, &frame, text);
}

void mux_set_postcopy_target(struct mux *mux, mp_time target)
{
    mux->postcopy_target = target;
}

void mux_set_phase(struct mux *mux, enum mux_phase phase)
{
    bool postcopy = phase == MUX_PHASE_POSTCOPY;
    mux->phase = phase;
    if (postcopy && mux->postcopy_target > 0) {
        window_set_target(&mux->window, mux->postcopy_target,
                          WINDOW_TARGET_FLOOR_BYTES);
    } else {
        window_set_gain(&mux->window,
                        postcopy ? WINDOW_POSTCOPY_GAIN_PERCENT
                                 : WINDOW_PRECOPY_GAIN_PERCENT,
                        postcopy ? WINDOW_POSTCOPY_FLOOR_BYTES
                                 : WINDOW_PRECOPY_FLOOR_BYTES);
    }
    sched_set_disk_share(&mux_lane_of(mux, WIRE_LANE_BULK)->sched,
                         postcopy ? MUX_DISK_PARTS_POSTCOPY
                                  : MUX_DISK_PARTS_PRECOPY);
    for (int i = 0; i < WIRE_CHANNELS; i++) {
        if (channel_is_open(mux->channels[i])) {
            mux_update_room(mux, mux->channels[i]);
            mux_update_ready(mux, mux->channels[i]);
        }
    }
}

int mux_check_lanes_ended(const struct mux *mux, struct error *err)
{
    for (int i = 0; i < WIRE_CHANNELS; i++) {
        const struct mux_channel *ch = mux->channels[i];
        if (channel_is_open(ch) && merge_check(&ch->merge, true, err) < 0) {
            return error_wrap(err, "channel %u (%s)", ch->number,
                              mux_class_name(ch->class));
        }
    }
    return 0;
}

/* Status. */

void mux_get_channel_stats(const struct mux *mux, uint16_t channel,
                           struct mux_channel_stats *ret_stats)
{
    const struct mux_channel *ch =
        channel < WIRE_CHANNELS ? mux->channels[channel] : NULL;
    *ret_stats = (struct mux_channel_stats){0};
    if (!ch) {
        return;
    }
    const struct out_flow *bulk = &ch->out[WIRE_SUB_BULK];
    const struct out_flow *urgent = &ch->out[WIRE_SUB_URGENT];
    *ret_stats = (struct mux_channel_stats){
        .open = channel_is_open(ch) && !mux_channel_is_over(ch),
        .class = ch->class,
        .epoch = ch->epoch,
        .sent_bytes = bulk->tx.sent + urgent->tx.sent,
        .acked_bytes = bulk->tx.acked + urgent->tx.acked,
        .urgent_acked_bytes = urgent->tx.acked,
        .held_bytes = bulk->queued_bytes + urgent->queued_bytes,
        .urgent_sent_frames = ch->urgent_sent,
        .urgent_delivered_frames = ch->urgent_delivered,
        .stale_frames = ch->stale_frames,
        .blocked = channel_is_open(ch) ? mux_blocked(mux, ch) : 0,
    };
    for (int sub = 0; sub < WIRE_SUBS; sub++) {
        ret_stats->received_bytes += ch->in[sub].rx.received;
        ret_stats->delivered_bytes += ch->in[sub].rx.delivered;
    }
}

void mux_get_window(const struct mux *mux, uint64_t *ret_window_bytes,
                    uint64_t *ret_rate_bytes_per_second, mp_time *ret_min_rtt)
{
    *ret_window_bytes = window_bytes(&mux->window);
    *ret_rate_bytes_per_second = mux->window.rate;
    *ret_min_rtt = window_rtt(&mux->window);
}
