// SPDX-License-Identifier: BSD-3-Clause
/* The mux, telling its user: a bounded queue of events. */
#include "transport/mux-internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static struct event *push(struct mux *mux)
{
    assert(mux->event_count < MUX_EVENTS);
    unsigned at = (mux->event_head + mux->event_count++) % MUX_EVENTS;
    mux->events[at] = (struct event){0};
    return &mux->events[at];
}

void mux_push_soft(struct mux *mux, struct mux_channel *ch,
                   enum mux_event_type type)
{
    if (ch->events & 1u << type) {
        return;
    }
    ch->events |= 1u << type;
    struct event *event = push(mux);
    event->type = type;
    event->channel = ch->number;
}

int mux_push_hard(struct mux *mux, const struct event *event, struct error *err)
{
    if (mux->peer_events >= MUX_PEER_EVENTS_MAX) {
        free(event->text);
        return error_set(err, ERR_PROTOCOL,
                         "the peer opened, ended and reset channels more than "
                         "%d times in one turn",
                         MUX_PEER_EVENTS_MAX);
    }
    mux->peer_events++;
    *push(mux) = *event;
    return 0;
}

void mux_push_pong(struct mux *mux, enum wire_lane lane, mp_time rtt)
{
    if (mux->pong_events >= MUX_PONG_EVENTS_MAX) {
        return; /* the user takes none: it does not miss this one */
    }
    mux->pong_events++;
    struct event *event = push(mux);
    event->type = MUX_EVENT_PONG;
    event->lane = lane;
    event->rtt = rtt;
}

void mux_clear_events(struct mux *mux)
{
    while (mux->event_count > 0) {
        free(mux->events[mux->event_head].text);
        mux->event_head = (mux->event_head + 1) % MUX_EVENTS;
        mux->event_count--;
    }
}

/* Soft events: whether it is still so. */
static bool is_true(const struct mux *mux, const struct mux_channel *ch,
                    enum mux_event_type type)
{
    if (ch->state != CHANNEL_OPEN || ch->announced_epoch != ch->epoch) {
        return false;
    }
    if (type == MUX_EVENT_READABLE) {
        return ch->readable;
    }
    if (type == MUX_EVENT_ROOM) {
        return mux_send_room(mux, ch->number) > 0;
    }
    return mux_is_drained(ch);
}

/* Hard events: whether the user is to hear of it. A channel that is gone again
 * before the user heard of it is not told as opened, nor is its end; but that
 * the peer reset it is, since its reason may be all there is to say about why
 * nothing comes. What the user itself has reset is over for it. */
static bool is_wanted(const struct mux_channel *ch, const struct event *event)
{
    if (event->type == MUX_EVENT_OPENED) {
        return ch->state == CHANNEL_OPEN && ch->epoch == event->epoch;
    }
    if (ch->local_reset_epoch == event->epoch) {
        return false;
    }
    /* The user may have opened the next epoch already; it hears of the end of
     * the one before all the same. */
    return event->type == MUX_EVENT_RESET ||
           ch->announced_epoch >= event->epoch;
}

/* Takes the first event out of the queue into ret_event; false if it is no
 * longer worth telling. */
static bool pop(struct mux *mux, struct mux_event *ret_event)
{
    struct event *event = &mux->events[mux->event_head];
    struct mux_channel *ch = mux->channels[event->channel];
    bool tell = true;
    mux->event_head = (mux->event_head + 1) % MUX_EVENTS;
    mux->event_count--;
    *ret_event = (struct mux_event){
        .type = event->type,
        .channel = event->channel,
        .epoch = event->epoch,
        .class = event->class,
        .lane = event->lane,
        .rtt = event->rtt,
        .code = event->code,
    };
    switch (event->type) {
    case MUX_EVENT_READABLE:
    case MUX_EVENT_ROOM:
    case MUX_EVENT_DRAINED:
        ch->events &= ~(1u << event->type);
        ret_event->epoch = ch->epoch;
        ret_event->class = ch->class;
        tell = is_true(mux, ch, event->type);
        break;
    case MUX_EVENT_OPENED:
    case MUX_EVENT_ENDED:
    case MUX_EVENT_RESET:
        mux->peer_events--;
        ret_event->class = ch->class;
        tell = is_wanted(ch, event);
        break;
    case MUX_EVENT_PONG:
        mux->pong_events--;
        break;
    }
    if (event->text) {
        snprintf(ret_event->text, sizeof(ret_event->text), "%s", event->text);
        free(event->text);
        event->text = NULL;
    }
    return tell;
}

bool mux_next_event(struct mux *mux, struct mux_event *ret_event)
{
    while (mux->event_count > 0) {
        if (!pop(mux, ret_event)) {
            continue;
        }
        if (ret_event->type == MUX_EVENT_OPENED) {
            struct mux_channel *ch = mux->channels[ret_event->channel];
            ch->announced_epoch = ret_event->epoch;
            mux_update_readable(mux, ch);
        }
        return true;
    }
    return false;
}
