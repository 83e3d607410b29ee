// SPDX-License-Identifier: BSD-3-Clause
/* One TLS session over one non-blocking socket. */
#include "transport/io-tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/io-tls-text.h"

#define START_BYTES 4096 /* of both buffers: enough for most handshakes */
/* No caller queues more: lane.h's small queue, a frame and the overhead. */
#define OUT_MAX_BYTES ((size_t)8 << 20)

/* Bytes from head to tail are in the buffer. */
struct io_buffer {
    uint8_t *data;
    size_t size;
    size_t head;
    size_t tail;
};

struct io_tls {
    SSL *ssl;
    int fd;               /* the caller's */
    struct io_buffer in;  /* received, not yet decrypted */
    struct io_buffer out; /* encrypted, not yet sent */
    bool is_dry;          /* the last recv() was short */
    bool is_ended;        /* recv() has seen the end */
    bool no_memory;       /* the out buffer could not grow */
    uint64_t rekey_bytes;
    uint64_t since_rekey_bytes;
    uint64_t sent_bytes;
    uint64_t received_bytes;
    char refusal[IO_TLS_REFUSAL_BYTES]; /* why we refused the certificate */
};

static size_t used_of(const struct io_buffer *buffer)
{
    return buffer->tail - buffer->head;
}

static int set_size(struct io_buffer *buffer, size_t size)
{
    uint8_t *data = realloc(buffer->data, size);
    if (!data) {
        return -1;
    }
    buffer->data = data;
    buffer->size = size;
    return 0;
}

/* Makes room for len more bytes behind tail. */
static int make_room(struct io_buffer *buffer, size_t len)
{
    size_t used = used_of(buffer);

    if (buffer->size - buffer->tail >= len) {
        return 0;
    }
    if (buffer->head > 0) {
        memmove(buffer->data, buffer->data + buffer->head, used);
        buffer->head = 0;
        buffer->tail = used;
    }
    size_t size = buffer->size;
    while (size - used < len) {
        if (size >= OUT_MAX_BYTES) {
            return -1;
        }
        size *= 2;
    }
    return size == buffer->size ? 0 : set_size(buffer, size);
}

/* BIO: OpenSSL's side of the buffers. ---------------------------------------
 */

static int bio_write(BIO *bio, const char *data, int len)
{
    struct io_tls *io = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (len <= 0) {
        return 0;
    }
    if (make_room(&io->out, (size_t)len) < 0) {
        io->no_memory = true;
        return -1;
    }
    memcpy(io->out.data + io->out.tail, data, (size_t)len);
    io->out.tail += (size_t)len;
    return len;
}

static int bio_read(BIO *bio, char *data, int size)
{
    struct io_tls *io = BIO_get_data(bio);
    size_t n = used_of(&io->in);

    BIO_clear_retry_flags(bio);
    if (n == 0 || size <= 0) {
        BIO_set_retry_read(bio); /* the end is io_tls_read()'s to tell */
        return -1;
    }
    if (n > (size_t)size) {
        n = (size_t)size;
    }
    memcpy(data, io->in.data + io->in.head, n);
    io->in.head += n;
    return (int)n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *arg)
{
    return command == BIO_CTRL_FLUSH; /* done by io_tls_send() */
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

struct bio_method_st *io_tls_bio_method_new(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "lane buffers");

    if (method && (!BIO_meth_set_write(method, bio_write) ||
                   !BIO_meth_set_read(method, bio_read) ||
                   !BIO_meth_set_ctrl(method, bio_ctrl) ||
                   !BIO_meth_set_create(method, bio_create))) {
        BIO_meth_free(method);
        return NULL;
    }
    return method;
}

/* Certificates. -------------------------------------------------------------
 */

/* Called for each certificate of the chain; keeps the first cause as text,
 * because OpenSSL forgets the certificate it refuses. */
static int verify_cb(int ok, X509_STORE_CTX *verify)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(verify,
                                          SSL_get_ex_data_X509_STORE_CTX_idx());
    struct io_tls *io = SSL_get_app_data(ssl);

    if (!ok && !io->refusal[0]) {
        io_tls_text_refusal(verify, io->refusal, sizeof(io->refusal));
    }
    return ok;
}

void io_tls_set_verify(struct ssl_ctx_st *ctx)
{
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       verify_cb);
}

bool io_tls_has_refused(const struct io_tls *io)
{
    return io->refusal[0];
}

void io_tls_peer_names(const struct io_tls *io, struct tls_names *ret_names)
{
    const X509 *cert = SSL_get0_peer_certificate(io->ssl);

    if (cert) {
        tls_names_read(cert, ret_names);
    } else {
        ret_names->count = 0;
    }
}

void io_tls_format(const struct io_tls *io, char *buf, size_t size)
{
    snprintf(buf, size, "%s %s", SSL_get_version(io->ssl),
             SSL_get_cipher_name(io->ssl));
}

/* Life. ---------------------------------------------------------------------
 */

struct io_tls *io_tls_new(const struct tls *tls, int fd, bool server)
{
    struct io_tls *io = calloc(1, sizeof(*io));
    BIO *bio = BIO_new(tls_bio_method(tls));

    if (!io || !bio || set_size(&io->in, START_BYTES) < 0 ||
        set_size(&io->out, START_BYTES) < 0 ||
        !(io->ssl = SSL_new(tls_context(tls, server)))) {
        BIO_free(bio);
        io_tls_free(io);
        return NULL;
    }
    io->fd = fd;
    io->rekey_bytes = IO_TLS_REKEY_BYTES;
    BIO_set_data(bio, io);
    SSL_set_bio(io->ssl, bio, bio);
    SSL_set_app_data(io->ssl, io);
    if (server) {
        SSL_set_accept_state(io->ssl);
    } else {
        SSL_set_connect_state(io->ssl);
    }
    return io;
}

void io_tls_free(struct io_tls *io)
{
    if (io) {
        SSL_free(io->ssl);
        free(io->in.data);
        free(io->out.data);
        free(io);
    }
}

int io_tls_reserve(struct io_tls *io, size_t in_bytes, size_t out_bytes,
                   struct error *err)
{
    if ((io->in.size < in_bytes && set_size(&io->in, in_bytes) < 0) ||
        (io->out.size < out_bytes && set_size(&io->out, out_bytes) < 0)) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for %zu bytes",
                         in_bytes + out_bytes);
    }
    return 0;
}

void io_tls_set_rekey(struct io_tls *io, uint64_t rekey_bytes)
{
    io->rekey_bytes = rekey_bytes ? rekey_bytes : IO_TLS_REKEY_BYTES;
}

/* Receiving. ----------------------------------------------------------------
 */

void io_tls_wake(struct io_tls *io)
{
    io->is_dry = false;
}

/* Refills the empty in buffer from the socket. */
static enum io_tls_result refill(struct io_tls *io, struct error *err)
{
    if (io->is_ended) {
        return IO_TLS_CLOSED;
    }
    if (io->is_dry) {
        return IO_TLS_AGAIN;
    }
    ssize_t n;
    do {
        n = recv(io->fd, io->in.data, io->in.size, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        io->is_dry = true;
        return IO_TLS_AGAIN;
    }
    if (n < 0) {
        error_set_errno(err, ERR_LINK_LOST, errno, "the connection broke");
        return IO_TLS_FAILED;
    }
    if (n == 0) {
        io->is_ended = true;
        return IO_TLS_CLOSED;
    }
    io->in.head = 0;
    io->in.tail = (size_t)n;
    io->is_dry = (size_t)n < io->in.size;
    io->received_bytes += (uint64_t)n;
    return IO_TLS_DONE;
}

/* What OpenSSL's answer rc means for reading and handshaking. IO_TLS_DONE: go
 * on, there is new input. */
static enum io_tls_result after_call(struct io_tls *io, int rc,
                                     struct error *err)
{
    switch (SSL_get_error(io->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return refill(io, err);
    case SSL_ERROR_ZERO_RETURN:
        return IO_TLS_CLOSED;
    default:
        if (io->no_memory) {
            error_set(err, ERR_NO_MEMORY, "out of memory for encrypted data");
        } else if (io->refusal[0]) {
            error_set(err, ERR_TLS, "%s", io->refusal);
        } else {
            io_tls_text_failure(ERR_peek_error(), err);
        }
        ERR_clear_error();
        return IO_TLS_FAILED;
    }
}

enum io_tls_result io_tls_handshake(struct io_tls *io, struct error *err)
{
    enum io_tls_result result;

    for (;;) {
        ERR_clear_error();
        int rc = SSL_do_handshake(io->ssl);
        if (rc == 1) {
            return io_tls_send(io, err) == IO_TLS_FAILED ? IO_TLS_FAILED
                                                         : IO_TLS_DONE;
        }
        result = after_call(io, rc, err);
        if (result != IO_TLS_DONE) {
            break;
        }
    }
    struct error send_err;
    if (io_tls_send(io, &send_err) == IO_TLS_FAILED && result == IO_TLS_AGAIN) {
        error_copy(err, &send_err);
        return IO_TLS_FAILED;
    }
    return result;
}

enum io_tls_result io_tls_read(struct io_tls *io, uint8_t *buf, size_t size,
                               size_t *ret_bytes, struct error *err)
{
    for (;;) {
        ERR_clear_error();
        if (SSL_read_ex(io->ssl, buf, size, ret_bytes) == 1) {
            return IO_TLS_DONE;
        }
        enum io_tls_result result = after_call(io, 0, err);
        if (result != IO_TLS_DONE) {
            return result;
        }
    }
}

bool io_tls_has_input(const struct io_tls *io)
{
    return used_of(&io->in) > 0 || SSL_pending(io->ssl) > 0;
}

/* Sending. ------------------------------------------------------------------
 */

static int write_failed(struct io_tls *io, struct error *err)
{
    if (io->no_memory) {
        return error_set(err, ERR_NO_MEMORY,
                         "out of memory for encrypted data");
    }
    io_tls_text_failure(ERR_peek_error(), err);
    ERR_clear_error();
    return -1;
}

int io_tls_write(struct io_tls *io, const uint8_t *data, size_t len_bytes,
                 struct error *err)
{
    ERR_clear_error();
    if (io->since_rekey_bytes >= io->rekey_bytes) {
        if (SSL_key_update(io->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
            return write_failed(io, err);
        }
        io->since_rekey_bytes = 0;
    }
    io->since_rekey_bytes += len_bytes;
    while (len_bytes > 0) {
        size_t n;
        if (SSL_write_ex(io->ssl, data, len_bytes, &n) != 1) {
            return write_failed(io, err);
        }
        data += n;
        len_bytes -= n;
    }
    return 0;
}

enum io_tls_result io_tls_send(struct io_tls *io, struct error *err)
{
    size_t used = used_of(&io->out);
    ssize_t n;

    if (used == 0) {
        return IO_TLS_DONE;
    }
    do {
        n = send(io->fd, io->out.data + io->out.head, used, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return IO_TLS_AGAIN;
    }
    if (n < 0) {
        error_set_errno(err, ERR_LINK_LOST, errno, "the connection broke");
        return IO_TLS_FAILED;
    }
    io->sent_bytes += (uint64_t)n;
    io->out.head += (size_t)n;
    if (io->out.head < io->out.tail) {
        return IO_TLS_AGAIN;
    }
    io->out.head = io->out.tail = 0;
    return IO_TLS_DONE;
}

size_t io_tls_unsent(const struct io_tls *io)
{
    return used_of(&io->out);
}

void io_tls_end(struct io_tls *io)
{
    if (SSL_is_init_finished(io->ssl)) {
        ERR_clear_error();
        SSL_shutdown(io->ssl);
        ERR_clear_error();
    }
}

uint64_t io_tls_sent_bytes(const struct io_tls *io)
{
    return io->sent_bytes;
}

uint64_t io_tls_received_bytes(const struct io_tls *io)
{
    return io->received_bytes;
}
