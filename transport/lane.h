// SPDX-License-Identifier: BSD-3-Clause
/* A lane: one TLS connection to a peer, cut into frames.
 *
 * How it works
 *
 * A lane is dialled or accepted on the control loop, which runs the TLS
 * handshake, checks who is there and exchanges HELLO. A lane of a migration
 * then moves to that migration's data loop (lane_detach, lane_attach); nothing
 * that was received meanwhile is lost.
 *
 * Sending is by pull: on_room says that the lane can take frames; the owner
 * calls lane_send() while lane_room() is not 0. At most one batch
 * (lane_set_batch()) is encrypted and unsent, because what is encrypted can no
 * longer be overtaken. Small frames share a TLS record, records are full where
 * there is enough to send, one send() takes a batch (data-path measurements:
 * this halves the cost of naive SSL_write/SSL_read on the socket).
 *
 * Receiving: records are decrypted into chunks from the lane's pool and given
 * up as frame headers and payload pieces, within a budget for each wake; then
 * on_turn. lane_pause() stops reading (back-pressure to the peer's TCP).
 *
 * Every callback but on_closed may call lane_close(); the lane is freed when
 * the callback has returned. on_closed comes exactly once, unless the owner
 * called lane_close() first. */
#ifndef TRANSPORT_LANE_H
#define TRANSPORT_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/chunk.h"
#include "transport/frame.h"
#include "transport/hello.h"
#include "transport/tls.h"
#include "transport/wire.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/loop.h"
#include "util/sock.h"

struct lane;

struct lane_ops {
    /* The peer's certificate is verified and its HELLO has come. Dialler: the
     * lane is ready. Acceptor: call lane_welcome() or lane_refuse() (now or
     * later; nothing more is read until then). */
    void (*on_hello)(void *arg, const struct hello *theirs,
                     const struct tls_names *names);
    void (*on_frame)(void *arg, const struct frame *frame);
    /* owner holds data; keep a reference to keep the bytes */
    void (*on_payload)(void *arg, const uint8_t *data, size_t len_bytes,
                       struct chunk *owner, bool last);
    void (*on_turn)(void *arg); /* end of a batch of frames */
    void (*on_room)(void *arg);
    /* The lane is gone; err says why and which peer. A clean close by the
     * peer's GOAWAY carries its code and text. The lane is freed after this. */
    void (*on_closed)(void *arg, const struct error *err);
};

struct lane_params {
    struct tls *tls;           /* a reference is taken */
    const char *congestion;    /* TCP_CONGESTION, "" or NULL: the system's */
    mp_time handshake_timeout; /* connect, TLS and HELLO together */
    uint64_t rekey_bytes;      /* TLS keys change after this much sent; 0: the
                                * default, far below what AES-GCM allows */
};

/* Dials address; the peer's certificate must carry identity. hello says what
 * this lane is for. on_hello (theirs) or on_closed follows. */
struct lane *lane_connect(struct loop *loop, const struct sock_address *address,
                          const char *identity, const struct hello *mine,
                          const struct lane_params *params,
                          const struct lane_ops *ops, void *arg,
                          struct error *err);

/* Takes an accepted TCP socket (always, also on failure). */
struct lane *lane_accept(struct loop *loop, int fd,
                         const struct sock_address *from,
                         const struct lane_params *params,
                         const struct lane_ops *ops, void *arg,
                         struct error *err);

/* Acceptor: answers HELLO, the lane is ready. The version is negotiated
 * between the two (0, or -1 with *err: then lane_refuse()). */
int lane_welcome(struct lane *lane, const struct hello *mine,
                 struct error *err);

/* Sends GOAWAY with code and text, then closes (flushing within a deadline);
 * no further callback. */
void lane_refuse(struct lane *lane, enum error_code code, const char *text);

/* Closes at once and frees; no further callback. NULL is fine. */
void lane_close(struct lane *lane);

/* Leaves its loop: no callbacks until lane_attach(), from any thread that owns
 * the lane then. */
void lane_detach(struct lane *lane);
void lane_attach(struct lane *lane, struct loop *loop,
                 const struct lane_ops *ops, void *arg);

enum wire_lane lane_kind(const struct lane *lane);
uint16_t lane_version(const struct lane *lane);
const char *lane_peer_text(const struct lane *lane); /* "name (address)" */
const struct hello *lane_peer_hello(const struct lane *lane);

/* Payload bytes the lane takes now without exceeding its batch; 0: wait for
 * on_room. */
size_t lane_room(const struct lane *lane);

/* Hands over one frame: header and payload are copied or encrypted before this
 * returns. Call only with lane_room() > 0. What was handed over leaves when the
 * batch is full or at lane_flush(). */
void lane_send(struct lane *lane, const uint8_t header[WIRE_HEADER_BYTES],
               const uint8_t *payload, size_t payload_bytes);
void lane_flush(struct lane *lane);

/* Convenience for small frames: encode, send, flush. False if there is no
 * room even after queueing up to LANE_SMALL_QUEUE_BYTES: then the lane is
 * closed by the caller (the peer does not read). */
#define LANE_SMALL_QUEUE_BYTES (4u << 20)
bool lane_send_frame(struct lane *lane, const struct frame *frame,
                     const void *payload);

/* Stops or goes on reading. */
void lane_pause(struct lane *lane, bool paused);

/* Bytes of a batch: 131072 in bulk phases, less where latency counts. */
void lane_set_batch(struct lane *lane, size_t batch_bytes);
/* Send buffer of the socket, 0: leave to autotuning (cannot be taken back). */
void lane_set_send_buffer(struct lane *lane, int size_bytes);

struct lane_stats {
    uint64_t sent_bytes, received_bytes; /* on the wire, TLS included */
    uint64_t sent_frames, received_frames;
    mp_time last_received; /* when any byte came in */
    char congestion[16];
    char security[64]; /* "TLSv1.3 TLS_AES_128_GCM_SHA256", as negotiated */
};
void lane_get_stats(const struct lane *lane, struct lane_stats *ret_stats);

#endif
