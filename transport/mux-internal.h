// SPDX-License-Identifier: BSD-3-Clause
/* What the files of the mux share: mux.c (life, status), mux-send.c,
 * mux-take.c, mux-receive.c, mux-turn.c, mux-event.c. Nobody else includes
 * this. */
#ifndef TRANSPORT_MUX_INTERNAL_H
#define TRANSPORT_MUX_INTERNAL_H

#include "transport/flow.h"
#include "transport/marks.h"
#include "transport/merge.h"
#include "transport/mux.h"
#include "transport/piece.h"
#include "transport/sched.h"
#include "transport/window.h"

/* Frames stay whole TLS records: 2 of them where latency counts. */
#define MUX_FRAME_POSTCOPY_BYTES 32736
#define MUX_FRAME_EXPRESS_BYTES MUX_FRAME_POSTCOPY_BYTES

/* Parts of which DISK gets one while RAM has something to send, too. */
#define MUX_DISK_PARTS_PRECOPY 5
#define MUX_DISK_PARTS_POSTCOPY 10

/* Shares within RAM: with multifd, main carries the packets that all other
 * channels are waited for at. */
#define MUX_WEIGHT_MAIN 4
#define MUX_WEIGHT_OTHER 1

/* OPENs that wait for an earlier one from the other lane. */
#define MUX_OPENS_PARKED WIRE_CHANNELS

/* Events that a peer's frames can make before the user takes any: stops floods
 * of OPEN and RESET. */
#define MUX_PEER_EVENTS_MAX 256
/* PONGs the user has not taken; more are not told. */
#define MUX_PONG_EVENTS_MAX (2 * WIRE_PINGS_MAX)
/* Room for those and for each soft kind, which is never there twice. */
#define MUX_SOFT_KINDS 3
#define MUX_EVENTS                                                             \
    (MUX_PEER_EVENTS_MAX + MUX_PONG_EVENTS_MAX + MUX_SOFT_KINDS * WIRE_CHANNELS)

#define MUX_LANES 2 /* express, bulk: see lane_index() */

enum channel_state {
    CHANNEL_NONE, /* not opened yet; stale frames and early ones are possible */
    CHANNEL_OPEN, /* frames of epoch are taken; stays so after both ends */
    CHANNEL_RESET, /* dead; frames of epoch are dropped */
};

/* This end's direction of one sub-stream. */
struct out_flow {
    struct flow_tx tx;
    struct list queue; /* pieces that have not left */
    uint64_t queued_bytes;
    unsigned queued_marked; /* frames among them that will be marked */
    struct marks marks;
};

/* Where small pieces are copied to, one behind the other. */
struct pack {
    struct chunk *chunk; /* NULL: none yet */
    size_t used_bytes;
};

/* The peer's direction of one sub-stream. */
struct in_flow {
    struct flow_rx rx;
    uint64_t window_bytes; /* credit beyond what is delivered */
    uint64_t window_max_bytes;
    uint64_t grow_from; /* offset from which WANT counts: frames before it
                         * left before the last growth was known */
    bool wants_more;
    bool ack_asked; /* a frame with WIRE_FLAG_ACK was delivered */
    unsigned marked_held;
    unsigned marked_passed; /* delivered since the last ACK */
    struct pack pack;
};

/* Urgent frames that overtook the OPEN of their channel. Their credit is the
 * initial one, so they are bounded. */
struct early {
    uint16_t epoch; /* 0: none */
    struct flow_rx rx;
    unsigned frames;
    struct list pieces;
    struct pack pack;
};

struct mux_channel {
    uint16_t number;
    enum wire_class class;
    enum channel_state state;
    uint16_t epoch;
    uint16_t announced_epoch;   /* the user knows of it */
    uint16_t local_reset_epoch; /* the user reset it: hears no more of it */

    struct out_flow out[WIRE_SUBS];
    uint64_t urgent_queued; /* frames given to mux_send_urgent() */
    uint64_t urgent_sent;
    uint64_t last_after; /* largest after_urgent of mux_send() */
    bool last_merge;     /* what was queued last is a merge point */
    bool full;           /* mux_send_room() is 0, ROOM will follow */
    bool end_queued;
    bool end_sent;

    struct in_flow in[WIRE_SUBS];
    struct merge merge;
    bool readable; /* READABLE was said and not all is delivered */
    bool ended;    /* ENDED was said */
    struct early early;

    uint64_t stale_frames;
    uint64_t urgent_delivered;
    unsigned events; /* soft events in the queue, 1 << type */
};

/* A frame that waits for its lane, ahead of data. */
struct control {
    struct list link;
    struct frame frame;
    struct chunk *text; /* of RESET, or NULL */
};

struct ping {
    uint64_t arg;
    mp_time sent_at;
};

struct mux_lane {
    enum wire_lane kind;
    struct sched sched;
    struct list control; /* of struct control */

    uint64_t pongs[WIRE_PINGS_MAX]; /* owed, oldest first */
    unsigned pong_count;
    struct ping pings[WIRE_PINGS_MAX]; /* unanswered, oldest first */
    unsigned ping_count;
    unsigned pings_queued; /* not sent yet */

    /* receiving: the frame whose payload comes */
    struct frame frame;
    uint32_t left_bytes;
    char text[WIRE_TEXT_MAX_BYTES + 1];
    size_t text_bytes;
};

struct event {
    enum mux_event_type type;
    uint16_t channel;
    uint16_t epoch;
    enum wire_class class;
    enum wire_lane lane;
    mp_time rtt;
    enum error_code code;
    char *text; /* owned, or NULL */
};

struct parked_open {
    bool used;
    uint16_t channel;
    uint16_t epoch;
};

struct mux {
    struct mux_config config;
    enum mux_phase phase;
    mp_time postcopy_target;
    struct mux_lane lanes[MUX_LANES];
    struct mux_channel *channels[WIRE_CHANNELS]; /* NULL: never used */
    struct piece_pool pieces;
    struct window window;
    uint64_t disk_in_flight_bytes;
    uint64_t ram_channels; /* mask: open, main or multifd */
    uint64_t held_bytes;   /* unsent bulk, all channels */
    uint64_t next_ping_arg;
    uint64_t next_order; /* opener: of the next OPEN; else: the one to say */
    struct parked_open parked[MUX_OPENS_PARKED];
    uint64_t windows_bytes; /* sum of all in_flow windows */

    uint64_t acks[WIRE_SUBS]; /* masks of channels that owe an ACK */
    uint64_t touched;         /* mask: mux_turn_end() has to look at them */

    struct event events[MUX_EVENTS];
    unsigned event_head, event_count, peer_events, pong_events;

    struct error failure; /* found where none could be returned: nothing leaves
                           * any more, the next mux_receive_header() fails */
};

static inline unsigned lane_index(enum wire_lane kind)
{
    return kind == WIRE_LANE_EXPRESS ? 0 : 1;
}

static inline struct mux_lane *mux_lane_of(struct mux *mux, enum wire_lane kind)
{
    return &mux->lanes[lane_index(kind)];
}

static inline uint64_t channel_bit(const struct mux_channel *ch)
{
    return (uint64_t)1 << ch->number;
}

static inline bool channel_is_open(const struct mux_channel *ch)
{
    return ch && ch->state == CHANNEL_OPEN;
}

/* Whether the receiver has to remember the frame's end (see marks.h). */
static inline bool mux_is_marked(const struct piece *piece, int sub)
{
    return sub == WIRE_SUB_URGENT || piece->after > 0 ||
           (piece->flags & WIRE_FLAG_MERGE);
}

/* How many such frames of a sub-stream may be unacknowledged. */
static inline unsigned mux_marks_max(int sub)
{
    return sub == WIRE_SUB_URGENT ? WIRE_URGENT_MAX_FRAMES
                                  : WIRE_MARKED_MAX_FRAMES;
}

/* The lane of a class's bulk sub-stream, by direction. */
enum wire_lane mux_bulk_lane(enum wire_class class, bool forward);

/* "main", "preempt"... for messages. */
const char *mux_class_name(enum wire_class class);

/* mux.c: channels */

/* The channel, made if it was never used; NULL when out of memory. */
struct mux_channel *mux_channel_make(struct mux *mux, uint16_t number);

/* Starts an epoch: everything fresh, credit at its initial value. */
void mux_channel_start(struct mux *mux, struct mux_channel *ch,
                       enum wire_class class, uint16_t epoch);

/* Ends the epoch both ways: drops what is queued and held. */
void mux_channel_kill(struct mux *mux, struct mux_channel *ch);

/* Forgets urgent frames that overtook an OPEN. */
void mux_drop_early(struct mux *mux, struct mux_channel *ch);

/* Whether both directions have ended and nothing is left to do or to hear. */
bool mux_channel_is_over(const struct mux_channel *ch);

/* mux-send.c */

/* After anything changed mux_send_room(): says ROOM where there is some again.
 */
void mux_update_room(struct mux *mux, struct mux_channel *ch);

/* Whether all of this end's direction was sent and, if ended, acknowledged. */
bool mux_is_drained(const struct mux_channel *ch);

/* Says DRAINED if it is. */
void mux_update_drained(struct mux *mux, struct mux_channel *ch);

/* Queues a frame ahead of data: OPEN, RESET, the last ACK of an epoch; text may
 * be NULL. A failure is kept in mux->failure. */
void mux_queue_control(struct mux *mux, enum wire_lane lane,
                       const struct frame *frame, const char *text);

/* mux-take.c */

/* The ACK that is owed for a sub-stream; it counts as sent. */
void mux_make_ack(struct mux *mux, struct mux_channel *ch, int sub,
                  struct frame *ret_frame);

/* Whether the flows of the channel may send, after anything changed that. */
void mux_update_ready(struct mux *mux, struct mux_channel *ch);

/* Why this end's direction does not move: MUX_BLOCKED_*. */
unsigned mux_blocked(const struct mux *mux, const struct mux_channel *ch);

/* mux-receive.c */

/* Says READABLE and ENDED where they are due. */
void mux_update_readable(struct mux *mux, struct mux_channel *ch);

/* mux-event.c */

/* A soft event: at most one of a kind and channel is queued, and it is dropped
 * when it is no longer true by the time the user takes it. */
void mux_push_soft(struct mux *mux, struct mux_channel *ch,
                   enum mux_event_type type);

/* A hard one, made by the peer. ERR_PROTOCOL when there are too many. text is
 * taken (may be NULL). */
int mux_push_hard(struct mux *mux, const struct event *event,
                  struct error *err);

void mux_push_pong(struct mux *mux, enum wire_lane lane, mp_time rtt);
void mux_clear_events(struct mux *mux);

#endif
