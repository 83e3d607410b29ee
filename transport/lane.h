// SPDX-License-Identifier: BSD-3-Clause
/* A lane: one TLS connection to a peer, cut into frames.
 *
 * How it works
 *
 * A lane is dialled or accepted on the control loop, which runs the TLS
 * handshake, checks who is there and exchanges HELLO. A lane of a migration
 * then moves to that migration's data loop (lane_detach, lane_attach); nothing
 * that was received meanwhile is lost. Before HELLO a peer gets little memory,
 * one deadline for everything, and may send nothing but HELLO or GOAWAY.
 *
 * Sending is by pull: on_room says that the lane can take frames; the owner
 * calls lane_send() while lane_room() is not 0. Whoever saw 0 gets an on_room
 * once half a batch is free. At most one batch (lane_set_batch()) is encrypted
 * and unsent, because what is encrypted can no longer be overtaken; and a turn
 * of the loop takes about 256 KiB, so that others have theirs. Small frames
 * share a TLS record, records are full where there is enough to send, one
 * send() takes a batch (measured: naive SSL_write/SSL_read on the socket costs
 * a quarter to a half more).
 *
 * Receiving: records are decrypted into chunks from the lane's pool and given
 * up as frame headers and payload pieces, within 256 KiB for each wake; then
 * on_turn. lane_pause() stops reading (back-pressure to the peer's TCP); bytes
 * in hand are given up when it goes on, in the same order.
 *
 * Ends: GOAWAY carries an error's code and text to the other end, whose
 * on_closed gets them with the peer's name in front. A peer that breaks the
 * protocol is told by GOAWAY what it did. TLS itself tells the other end one
 * word about a certificate; it is turned into a text ("refused our certificate:
 * expired"). Without GOAWAY the end of a connection is ERR_LINK_LOST.
 *
 * Every callback but on_closed may call lane_close(), lane_refuse() or
 * lane_detach(), after which the lane is no longer its business. on_closed
 * comes exactly once, unless the owner ended the lane first. No function
 * calls back. */
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
     * lane is ready. Acceptor: look at the names, then call lane_welcome() or
     * lane_refuse() (now or later; nothing more is read until then, and no
     * deadline runs). Both are valid during the call. */
    void (*on_hello)(void *arg, const struct hello *theirs,
                     const struct tls_names *names);
    void (*on_frame)(void *arg, const struct frame *frame);
    /* A piece of the last frame's payload; none comes for a frame without.
     * owner holds data; keep a reference to keep the bytes. Chunks belong to
     * the loop they came on. */
    void (*on_payload)(void *arg, const uint8_t *data, size_t len_bytes,
                       struct chunk *owner, bool last);
    void (*on_turn)(void *arg); /* end of a batch of frames */
    /* There is room: once the lane is ready or attached, and after it had
     * none. */
    void (*on_room)(void *arg);
    /* The lane has ended; err says why and which peer. The peer's GOAWAY gives
     * its code and text. The lane is freed after this. */
    void (*on_closed)(void *arg, const struct error *err);
};

struct lane_params {
    struct tls *tls;           /* a reference is taken */
    const char *congestion;    /* TCP_CONGESTION, "" or NULL: the system's */
    mp_time handshake_timeout; /* connect, TLS and HELLO together */
    uint64_t rekey_bytes;      /* TLS keys change after this much sent; 0: the
                                * default, far below what AES-GCM allows */
};

/* Dials address; the peer's certificate must carry identity. mine says what
 * this lane is for (it must pass hello_check()). on_hello (theirs) or on_closed
 * follows, within the handshake timeout. NULL and *err if connecting cannot
 * even start. ops must outlive the lane. */
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
 * between the two (0, or -1 with *err: then lane_refuse()). Kind and token of
 * the answer are those of the question. */
int lane_welcome(struct lane *lane, const struct hello *mine,
                 struct error *err);

/* Sends GOAWAY with code and text, then closes; no further callback. What the
 * socket does not take at once is sent within two seconds as long as the loop
 * runs; a loop that is freed earlier drops it, so move a lane that ends
 * together with its loop to one that stays. After HELLO only. */
void lane_refuse(struct lane *lane, enum error_code code, const char *text);

/* Closes at once and frees; no further callback. What the socket took still
 * arrives. A detached lane may be closed too. NULL is fine. */
void lane_close(struct lane *lane);

/* Leaves its loop (a lane that is ready): no callbacks until lane_attach() on
 * the thread of the new loop. Chunks that were kept stay with the old loop. */
void lane_detach(struct lane *lane);
void lane_attach(struct lane *lane, struct loop *loop,
                 const struct lane_ops *ops, void *arg);

enum wire_lane lane_kind(const struct lane *lane);
uint16_t lane_version(const struct lane *lane);
const char *lane_peer_text(const struct lane *lane); /* "name (address)" */

/* Within on_closed: what the peer itself said was wrong, in its GOAWAY and
 * printable; NULL if it did not (the lane broke, or this end ended it). */
const char *lane_last_word(const struct lane *lane);
const struct hello *lane_peer_hello(const struct lane *lane);

/* Payload bytes the lane takes now without exceeding its batch; 0: wait for
 * on_room. */
size_t lane_room(const struct lane *lane);

/* Hands over one frame: header and payload are copied or encrypted before this
 * returns. Call only with lane_room() > 0 (a frame may be longer than the
 * room). What was handed over leaves when the batch is full or at lane_flush(),
 * which inside a callback of this lane means at the end of its turn. */
void lane_send(struct lane *lane, const uint8_t header[WIRE_HEADER_BYTES],
               const uint8_t *payload, size_t payload_bytes);
void lane_flush(struct lane *lane);

/* Convenience for small frames: encode, send, flush. False if there is no
 * room even after queueing up to LANE_SMALL_QUEUE_BYTES: then the lane is
 * closed by the caller (the peer does not read). */
#define LANE_SMALL_QUEUE_BYTES (4u << 20)
bool lane_send_frame(struct lane *lane, const struct frame *frame,
                     const void *payload);

/* Stops or goes on reading; also before the lane is ready (HELLO still comes)
 * or while it is detached. Not for long: a peer that has data to send and sees
 * a shut window takes the connection for dead after 30 s. Credit is what holds
 * a peer back for good. */
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
