// SPDX-License-Identifier: BSD-3-Clause
/* One TLS session over one non-blocking socket, with its own buffers on both
 * sides of OpenSSL: what is encrypted is collected and leaves by one send(),
 * what comes in is read by one recv() into a linear buffer that is refilled
 * only when it is empty (read-ahead inside OpenSSL moves the rest of its buffer
 * for each record).
 *
 * Error texts say what the peer did ("presented no certificate"); the caller
 * puts in front who the peer is. */
#ifndef TRANSPORT_IO_TLS_H
#define TRANSPORT_IO_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/tls.h"
#include "util/error.h"

#define IO_TLS_RECORD_BYTES 16384 /* plaintext of a full record */

/* AES-GCM keys are changed after this much by default: RFC 8446 section 5.5
 * allows 2^24.5 records, about 362 GiB. */
#define IO_TLS_REKEY_BYTES ((uint64_t)64 << 30)

struct io_tls;

enum io_tls_result {
    IO_TLS_DONE,
    IO_TLS_AGAIN,  /* the socket has no more data, or takes no more */
    IO_TLS_CLOSED, /* the peer ended its direction; err is untouched */
    IO_TLS_FAILED, /* err says why; ERR_LINK_LOST if the connection broke */
};

/* A session over fd, which stays the caller's. NULL when out of memory. */
struct io_tls *io_tls_new(const struct tls *tls, int fd, bool server);
void io_tls_free(struct io_tls *io); /* NULL is fine */

/* Makes room for in_bytes received and out_bytes encrypted and unsent, so that
 * nothing is allocated later as long as the caller keeps to it. */
int io_tls_reserve(struct io_tls *io, size_t in_bytes, size_t out_bytes,
                   struct error *err);

/* Changes keys each rekey_bytes of plaintext sent (0: IO_TLS_REKEY_BYTES). */
void io_tls_set_rekey(struct io_tls *io, uint64_t rekey_bytes);

/* To be called when the socket is readable: a short recv() means "dry" until
 * then, which saves the one that would say EAGAIN. */
void io_tls_wake(struct io_tls *io);

/* Goes on with the handshake as far as the data in hand allows, and sends. On
 * failure the alert that tells the peer has been sent. */
enum io_tls_result io_tls_handshake(struct io_tls *io, struct error *err);

/* Decrypts at most one record into buf. *ret_bytes > 0 on IO_TLS_DONE. May
 * leave a key update to be sent: see io_tls_unsent(). */
enum io_tls_result io_tls_read(struct io_tls *io, uint8_t *buf, size_t size,
                               size_t *ret_bytes, struct error *err);

/* Whether io_tls_read() can return data without a readable socket. */
bool io_tls_has_input(const struct io_tls *io);

/* Encrypts all of data; nothing is sent. */
int io_tls_write(struct io_tls *io, const uint8_t *data, size_t len_bytes,
                 struct error *err);

/* Hands what is encrypted to the socket by one send(). */
enum io_tls_result io_tls_send(struct io_tls *io, struct error *err);

/* Encrypted bytes that were not handed to the socket. */
size_t io_tls_unsent(const struct io_tls *io);

/* Encrypts TLS's own end of this direction (close_notify). */
void io_tls_end(struct io_tls *io);

/* Whether the handshake failed because this end refused the peer's
 * certificate. */
bool io_tls_has_refused(const struct io_tls *io);

/* The names in the peer's certificate; after the handshake. */
void io_tls_peer_names(const struct io_tls *io, struct tls_names *ret_names);

/* What was negotiated: "TLSv1.3 TLS_AES_128_GCM_SHA256"; after the handshake.
 */
void io_tls_format(const struct io_tls *io, char *buf, size_t size);

/* On the wire. */
uint64_t io_tls_sent_bytes(const struct io_tls *io);
uint64_t io_tls_received_bytes(const struct io_tls *io);

/* For tls.c. */
void io_tls_set_verify(struct ssl_ctx_st *ctx);
struct bio_method_st *io_tls_bio_method_new(void);

#endif
