// SPDX-License-Identifier: BSD-3-Clause
/* The mux: the channels of one migration over its two lanes. Pure: frames and
 * times go in, frames and events come out.
 *
 * How it works
 *
 * A mux has up to WIRE_CHANNELS channels. A channel is one socket of QEMU's:
 * two directions, the forward one with a bulk and (main only) an urgent
 * sub-stream. The source's end opens channels (mux_open), the other end learns
 * of them by an event, in the order in which they were opened. For each
 * (channel, sub-stream, direction) the mux counts offsets, keeps credit and
 * acknowledges what its user has delivered.
 *
 * Sending. The user reads from QEMU as much as mux_send_room() allows and hands
 * the bytes over with mux_send(); the mux queues them by reference. When a
 * lane has room, the user asks mux_take() for the next frame of that lane. What
 * that is, is decided only then (late): strictly ACK/PING/OPEN/RESET >
 * reverse direction (return path) > preempt and urgent > bulk; bulk shares by
 * weight (sched.h) and stays below the window (window.h) of bytes that have
 * left and are not acknowledged.
 *
 * Receiving. mux_receive_header()/mux_receive_payload() take what the lanes
 * decoded. Payload is kept by reference to its chunk and is offered by
 * mux_deliver_peek() in the order in which it must be written to QEMU (urgent
 * frames merged in, merge.h); the user says what it wrote with
 * mux_delivered(), which is what acknowledgements mean.
 *
 * Epochs. Each channel has the epoch of the QEMU connection behind it. A
 * channel that has ended or was reset may be opened again with a higher epoch;
 * frames of an older epoch are dropped and counted.
 *
 * Phases (source's end) say how much of a channel may be held and in flight:
 * see enum mux_phase. */
#ifndef TRANSPORT_MUX_H
#define TRANSPORT_MUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "transport/chunk.h"
#include "transport/frame.h"
#include "transport/wire.h"
#include "util/clock.h"
#include "util/error.h"

struct mux;

enum mux_phase {
    MUX_PHASE_SETUP,      /* QEMU writes under its lock: take all it has */
    MUX_PHASE_PRECOPY,    /* in flight near the path's BDP, little held */
    MUX_PHASE_SWITCHOVER, /* take all, up to hold_switchover_bytes */
    MUX_PHASE_POSTCOPY,   /* hold at most hold_postcopy_bytes, small frames */
};

struct mux_config {
    bool opener;                       /* this end opens the channels */
    uint64_t receive_window_bytes;     /* credit beyond what is delivered, each
                                        * bulk sub-stream (main, multifd, disk) */
    uint64_t express_window_bytes;     /* the same for everything else */
    uint64_t receive_window_max_bytes; /* a window grows up to this, where the
                                        * path is long and QEMU keeps up */
    uint64_t receive_total_max_bytes;  /* all windows together: none grows
                                        * beyond it */
    uint64_t hold_precopy_bytes;       /* unsent bytes of a channel, by phase */
    uint64_t hold_postcopy_bytes;      /* design: 65536 */
    uint64_t hold_switchover_bytes;    /* SETUP and SWITCHOVER, all channels
                                        * (but hold_postcopy_bytes each) */
};

/* The values the daemon uses, hold_switchover_bytes from its configuration. */
void mux_config_default(struct mux_config *config, bool opener,
                        uint64_t hold_switchover_bytes);

/* NULL when out of memory. mux_free(NULL) is fine. Neither touches lanes. */
struct mux *mux_new(const struct mux_config *config);
void mux_free(struct mux *mux);

void mux_set_phase(struct mux *mux, enum mux_phase phase);

/* How long the queue on the path may be in MUX_PHASE_POSTCOPY: what is in
 * flight delays an urgent page where both share the link. 0 (the default): by
 * the gain of window.h. From the next mux_set_phase() on. */
void mux_set_postcopy_target(struct mux *mux, mp_time target);

/* Opens (or re-opens with the next epoch) a channel. Opener only.
 * ERR_CONFLICT if it is open (ended both ways but not all acknowledged counts
 * as open; after a reset it is not), ERR_LIMIT if channel >= WIRE_CHANNELS. */
int mux_open(struct mux *mux, uint16_t channel, enum wire_class class,
             struct error *err);

/* Sending. --------------------------------------------------------------- */

/* How many more bytes the user may take from QEMU for this channel now; 0
 * means: stop reading. When it grows again after having been 0, a
 * MUX_EVENT_ROOM follows. */
size_t mux_send_room(const struct mux *mux, uint16_t channel);

/* Whether len_bytes of bulk that mux_send() got now would leave at once, as far
 * as credit and the window go: for a user who decides as late as possible what
 * comes next. */
bool mux_could_leave(const struct mux *mux, uint16_t channel, size_t len_bytes);

/* Queues len_bytes at data, inside chunk, for this end's direction of the
 * channel. Takes a reference to chunk of its own. What is queued beyond room
 * is still taken (the user has the bytes in hand). flags: WIRE_FLAG_MERGE if an
 * urgent frame may be put behind these bytes; they then are one frame (at most
 * WIRE_DATA_MAX_BYTES). after_urgent: number of urgent frames that must be
 * delivered before these bytes (0: none); it may rise only behind bytes with
 * WIRE_FLAG_MERGE, because only there urgent frames can be put. Bytes with
 * flags 0 and after_urgent 0 may be cut and joined freely. ERR_CONFLICT: not
 * open, or ended. ERR_BAD_REQUEST, ERR_LIMIT: breaks these rules. */
int mux_send(struct mux *mux, uint16_t channel, struct chunk *chunk,
             const uint8_t *data, size_t len_bytes, uint8_t flags,
             uint64_t after_urgent, struct error *err);

/* Queues one urgent frame (whole records, at most WIRE_URGENT_MAX_BYTES) that
 * may be delivered once the bulk sub-stream is delivered up to after_offset and
 * stands at a merge point. MAIN channels, opener's end only. */
int mux_send_urgent(struct mux *mux, uint16_t channel, struct chunk *chunk,
                    const uint8_t *data, size_t len_bytes,
                    uint64_t after_offset, struct error *err);

/* Ends this end's direction after everything queued (with the count of urgent
 * frames queued so far). If urgent frames are queued that no bytes with
 * after_urgent waited for, the last bytes must have had WIRE_FLAG_MERGE: the
 * end waits for them there. Otherwise the order cannot be told to the other
 * end and the channel is reset instead. */
void mux_end(struct mux *mux, uint16_t channel);

/* The channel is dead, both ways; drops what is queued and held, no further
 * event of this epoch comes. Reason is an error code; text (may be NULL) is cut
 * to WIRE_TEXT_MAX_BYTES. Nothing happens if it is not open. */
void mux_reset(struct mux *mux, uint16_t channel, enum error_code code,
               const char *text);

/* Queues a PING on a lane; MUX_EVENT_PONG brings its round-trip time. Nothing
 * happens while WIRE_PINGS_MAX are unanswered. */
void mux_ping(struct mux *mux, enum wire_lane lane, mp_time now);

struct mux_out {
    uint8_t header[WIRE_HEADER_BYTES];
    const uint8_t *payload; /* NULL if there is none */
    size_t payload_bytes;
    struct chunk *chunk; /* a reference for the user to give up once the
                          * payload was copied or encrypted; may be NULL */
};

/* The next frame for lane (EXPRESS or BULK), or false. It counts as sent. */
bool mux_take(struct mux *mux, enum wire_lane lane, mp_time now,
              struct mux_out *ret_out);

/* Whether mux_take() on this lane would return a frame. Ask again, for both
 * lanes, after frames came in, after bytes were sent or delivered (and
 * mux_turn_end()), after a ping, an end, a reset or a change of phase. */
bool mux_has_output(struct mux *mux, enum wire_lane lane, mp_time now);

/* Receiving. ------------------------------------------------------------- */

/* A frame header from a lane. ERR_PROTOCOL (named, with limits) ends the
 * migration's lanes, ERR_NO_MEMORY too. HELLO, GOAWAY and MESSAGE are not the
 * mux's. */
int mux_receive_header(struct mux *mux, enum wire_lane lane,
                       const struct frame *frame, mp_time now,
                       struct error *err);

/* A piece of the payload of the last header on this lane. Payload of DATA is
 * kept by reference to owner (which holds data); owner may be NULL, then it
 * is copied. */
int mux_receive_payload(struct mux *mux, enum wire_lane lane,
                        const uint8_t *data, size_t len_bytes,
                        struct chunk *owner, struct error *err);

/* To be called at the end of a batch of received frames and deliveries: copies
 * what would pin mostly empty chunks, so that held memory stays within twice
 * the granted credit, and decides on acknowledgements. */
void mux_turn_end(struct mux *mux, mp_time now);

/* Up to max_iov pieces that may be written to QEMU now, in order. Returns how
 * many were filled. They stay valid until mux_delivered() or mux_turn_end(). */
int mux_deliver_peek(struct mux *mux, uint16_t channel, struct iovec *iov,
                     int max_iov);

/* Bytes a mux_deliver_peek() with endless iov would offer. */
size_t mux_deliver_bytes(const struct mux *mux, uint16_t channel);

/* The user wrote the first len_bytes of what was offered. */
void mux_delivered(struct mux *mux, uint16_t channel, size_t len_bytes);

/* Both lanes have ended and all that came was given to the mux. ERR_PROTOCOL if
 * a channel waits for what the peer never sent, naming it. */
int mux_check_lanes_ended(const struct mux *mux, struct error *err);

/* Events. ---------------------------------------------------------------- */

enum mux_event_type {
    MUX_EVENT_OPENED,   /* the peer opened channel (class, epoch); events come
                         * in the opener's order across channels */
    MUX_EVENT_READABLE, /* something can be delivered (edge: was nothing) */
    MUX_EVENT_ENDED,    /* the peer's direction ended and all is delivered */
    MUX_EVENT_RESET,    /* the peer reset the channel: code, text. Comes without
                         * OPENED before it if the channel was gone before the
                         * user asked */
    MUX_EVENT_ROOM,     /* mux_send_room() is no longer 0 */
    MUX_EVENT_DRAINED,  /* this end's direction: everything sent and, if it was
                         * ended, acknowledged as delivered. Comes each time
                         * the queue has run empty */
    MUX_EVENT_PONG,     /* lane, rtt */
};

struct mux_event {
    enum mux_event_type type;
    uint16_t channel;
    uint16_t epoch;
    enum wire_class class;
    enum wire_lane lane;
    mp_time rtt;
    enum error_code code;
    char text[WIRE_TEXT_MAX_BYTES + 1];
};

/* The next event, or false. Its epoch says which life of the channel it is
 * about: ENDED and RESET of the one before may come after mux_open(). */
bool mux_next_event(struct mux *mux, struct mux_event *ret_event);

/* Status. ---------------------------------------------------------------- */

#define MUX_BLOCKED_CREDIT 0x1 /* the peer's QEMU is slow */
#define MUX_BLOCKED_WINDOW 0x2 /* the path is full */
#define MUX_BLOCKED_LANE 0x4   /* has data, waits for its turn */

struct mux_channel_stats {
    bool open;
    enum wire_class class;
    uint16_t epoch;
    uint64_t sent_bytes, acked_bytes, held_bytes; /* this end's direction */
    uint64_t urgent_acked_bytes;                  /* of them, main's urgent */
    uint64_t received_bytes, delivered_bytes;     /* the peer's direction */
    uint64_t urgent_sent_frames, urgent_delivered_frames;
    uint64_t stale_frames; /* dropped: of an older epoch */
    unsigned blocked;      /* MUX_BLOCKED_* */
};

void mux_get_channel_stats(const struct mux *mux, uint16_t channel,
                           struct mux_channel_stats *ret_stats);

/* The window on bulk in flight and what it is made from. */
void mux_get_window(const struct mux *mux, uint64_t *ret_window_bytes,
                    uint64_t *ret_rate_bytes_per_second, mp_time *ret_min_rtt);

#endif
