// SPDX-License-Identifier: BSD-3-Clause
/* What lane.c, lane-receive.c and lane-send.c share. */
#ifndef TRANSPORT_LANE_PRIV_H
#define TRANSPORT_LANE_PRIV_H

#include <event2/event_struct.h>

#include "transport/io-tls.h"
#include "transport/lane.h"

/* A wake reads, and a turn of the loop sends, about this much. */
#define LANE_TURN_BYTES ((size_t)262144)

/* Chunks hold eight records, which is the longest frame. */
#define LANE_CHUNK_BYTES 131072
#define LANE_CONTROL_CHUNK_BYTES 16384
#define LANE_CHUNKS_KEPT 8

enum lane_stage {
    LANE_STAGE_CONNECT,   /* dialler: TCP */
    LANE_STAGE_HANDSHAKE, /* TLS */
    LANE_STAGE_HELLO,     /* theirs is awaited */
    LANE_STAGE_ASKED,     /* acceptor: the owner decides */
    LANE_STAGE_READY,
    LANE_STAGE_LINGER, /* refused: the rest is sent, nobody is told */
};

struct lane {
    /* set once */
    bool is_dialler;
    struct sock_address address;
    char *identity; /* dialler: what the certificate must carry */
    mp_time handshake_timeout;
    struct tls *tls;
    int fd;
    struct io_tls *io;

    enum lane_stage stage;
    struct hello mine;
    struct hello theirs;
    uint16_t version;
    char peer_text[HELLO_NAME_BYTES + TLS_NAME_MAX_BYTES + 96];
    const char *last_word; /* the peer's, while on_closed is called */

    /* of the loop; NULL between detach and attach */
    struct loop *loop;
    const struct lane_ops *ops;
    void *arg;
    struct event read_event;
    struct event write_event;
    struct event kick_event; /* goes on with data in hand */
    struct loop_timer timer; /* handshake, linger */
    struct loop_exit exit;   /* linger */
    /* Inside a turn: set to true by whatever takes the lane out of its hands
     * (close, detach, refuse); the turn must then leave it alone. */
    bool *gone;

    /* Why the lane ends at the next turn; found where no callback may be made.
     * A broken socket may still hold the peer's GOAWAY. */
    struct error failure;
    bool is_broken; /* for sending; failure says why */

    /* receiving: chunk holds filled bytes, of which decoded were given up */
    struct chunk_pool *pool;
    struct chunk *chunk;
    size_t filled_bytes;
    size_t decoded_bytes;
    struct frame_decoder decoder;
    uint8_t own[WIRE_HELLO_MAX_BYTES]; /* payload of HELLO or GOAWAY */
    size_t own_bytes;
    bool is_paused;
    bool owes_turn; /* on_turn is due */

    /* sending */
    uint8_t staged[IO_TLS_RECORD_BYTES]; /* the start of the next record */
    size_t staged_bytes;
    size_t batch_bytes;
    size_t turn_bytes; /* taken since the last turn */
    bool awaits_write; /* write_event is added */
    bool wants_flush;  /* at the end of the turn */
    bool owes_room;    /* on_room is due once there is room */

    uint64_t sent_frames;
    uint64_t received_frames;
    mp_time last_received;
};

/* Nothing is given up to the owner now. */
static inline bool lane_is_stopped(const struct lane *lane)
{
    return lane->stage == LANE_STAGE_ASKED ||
           (lane->stage == LANE_STAGE_READY && lane->is_paused);
}

/* lane.c */

/* Runs a turn soon, after other events had theirs. */
void lane_kick(struct lane *lane);
/* Ends the lane with err, the peer's name put in front, at the next turn; the
 * first cause counts. */
void lane_fail_later(struct lane *lane, const struct error *err);
/* Ends the lane: on_closed, then it is freed. Only inside a turn. */
void lane_end(struct lane *lane, const struct error *err);
/* The same, and tells the peer first. err is without the peer's name. */
void lane_end_telling(struct lane *lane, struct error *err);
/* Puts the lane's events on a loop; none is added. */
void lane_join_loop(struct lane *lane, struct loop *loop);
/* Frees it without a word. */
void lane_free(struct lane *lane);

/* lane-open.c; false: the lane is gone */

/* The socket of a dialler is writable. */
bool lane_open_connected(struct lane *lane);
/* Goes on with TLS. */
bool lane_open_handshake(struct lane *lane);
/* The peer's HELLO is whole. */
bool lane_greet(struct lane *lane);

/* lane-receive.c */

/* Reads and gives up within the budget. False: the lane is gone. */
bool lane_receive(struct lane *lane);
/* A pool and a decoder for the lane's kind, once it is ready. */
int lane_receive_start(struct lane *lane, struct error *err);
/* Moves bytes in hand out of the pool, which is given up. */
void lane_receive_detach(struct lane *lane);

/* lane-send.c */

/* Encrypts and sends all there is. */
void lane_push(struct lane *lane);
/* Sends what is encrypted. */
void lane_send_out(struct lane *lane);
/* Queues one frame of the lane's own, whatever the room. */
void lane_put(struct lane *lane, const struct frame *frame,
              const void *payload);
void lane_put_goaway(struct lane *lane, enum error_code code, const char *text);
/* Whether there is enough room to bother the owner. */
bool lane_has_room(const struct lane *lane);

#endif
