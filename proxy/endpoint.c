// SPDX-License-Identifier: BSD-3-Clause
/* An endpoint: one socket of QEMU's and the channel of the mux it belongs to.
 */
#include "proxy/endpoint.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/sock.h"

/* A chunk is filled by several reads until less than this is left of it: so
 * what a queued byte pins is at most twice its share. */
#define CHUNK_LEFT_MIN_BYTES (ENDPOINT_CHUNK_BYTES / 2)

#define IOV_MAX_PIECES 64

static const struct endpoint_limits default_limits = {
    .read_bytes = WIRE_DATA_MAX_BYTES,
    .write_bytes = ENDPOINT_BUDGET_BYTES,
    .budget_bytes = ENDPOINT_BUDGET_BYTES,
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

void endpoint_format_name(enum wire_class class, uint16_t channel, char *buf,
                          size_t size)
{
    switch (class) {
    case WIRE_CLASS_MAIN:
        snprintf(buf, size, "main");
        return;
    case WIRE_CLASS_PREEMPT:
        snprintf(buf, size, "preempt");
        return;
    case WIRE_CLASS_MULTIFD:
        snprintf(buf, size, "multifd-%u", channel - 2u);
        return;
    case WIRE_CLASS_DISK:
        snprintf(buf, size, "disk-%u", channel);
        return;
    }
    snprintf(buf, size, "channel-%u", channel);
}

void endpoint_init(struct endpoint *ep, struct loop *loop, struct mux *mux,
                   struct chunk_pool *pool, uint16_t channel,
                   enum wire_class class, bool source,
                   const struct endpoint_ops *ops, void *arg)
{
    memset(ep, 0, sizeof(*ep));
    ep->loop = loop;
    ep->mux = mux;
    ep->pool = pool;
    ep->ops = ops;
    ep->arg = arg;
    ep->channel = channel;
    ep->class = class;
    ep->source = source;
    ep->who = source ? "source QEMU" : "destination QEMU";
    ep->limits = default_limits;
    ep->fd = -1;
    endpoint_format_name(class, channel, ep->name, sizeof(ep->name));
}

static void want_write(struct endpoint *ep, bool wanted)
{
    if (wanted == ep->write_wanted || !ep->write_event) {
        return;
    }
    ep->write_wanted = wanted;
    if (wanted) {
        event_add(ep->write_event, NULL);
    } else {
        event_del(ep->write_event);
    }
}

int endpoint_release(struct endpoint *ep)
{
    int fd = ep->fd;

    ep->fd = -1;
    endpoint_close(ep);
    return fd;
}

void endpoint_close(struct endpoint *ep)
{
    if (ep->read_event) {
        event_free(ep->read_event);
        ep->read_event = NULL;
    }
    if (ep->write_event) {
        event_free(ep->write_event);
        ep->write_event = NULL;
    }
    ep->write_wanted = false;
    if (ep->fd >= 0) {
        close(ep->fd);
        ep->fd = -1;
    }
    chunk_unref(ep->chunk);
    ep->chunk = NULL;
}

/* Once nothing can pass either way, the socket has no use. */
static void close_if_done(struct endpoint *ep)
{
    if (ep->input_ended && (ep->output_ended || ep->output_dead)) {
        endpoint_close(ep);
    }
}

static void end_input(struct endpoint *ep)
{
    if (ep->input_ended) {
        return;
    }
    ep->input_ended = true;
    if (ep->read_event) {
        event_del(ep->read_event);
    }
    mux_end(ep->mux, ep->channel);
}

/* Room for a read of up to want bytes, or 0 when out of memory. */
static size_t get_space(struct endpoint *ep, size_t want)
{
    if (ep->chunk) {
        size_t left = ep->chunk->size_bytes - ep->chunk_used_bytes;
        if (left >= min_size(want, CHUNK_LEFT_MIN_BYTES)) {
            return min_size(left, want);
        }
        chunk_unref(ep->chunk);
    }
    ep->chunk = chunk_get(ep->pool);
    ep->chunk_used_bytes = 0;
    return ep->chunk ? min_size(ep->chunk->size_bytes, want) : 0;
}

static int give_input(struct endpoint *ep, const uint8_t *data,
                      size_t len_bytes, struct error *err)
{
    if (ep->intake) {
        return ep->intake->take(ep->arg, ep, ep->chunk, data, len_bytes, err);
    }
    return mux_send(ep->mux, ep->channel, ep->chunk, data, len_bytes, 0, 0,
                    err);
}

static size_t input_room(struct endpoint *ep)
{
    return ep->intake ? ep->intake->room(ep->arg, ep)
                      : mux_send_room(ep->mux, ep->channel);
}

/* One recv() of up to *want bytes (lowered to what was asked of the kernel),
 * queued. Returns what recv() does; failures of ours close the endpoint and
 * give -1 with errno EBADF. */
static ssize_t take_input(struct endpoint *ep, size_t *want)
{
    struct error err = ERROR_INIT;

    *want = get_space(ep, *want);
    if (*want == 0) {
        error_set(&err, ERR_NO_MEMORY, "%s: out of memory for what %s sends",
                  ep->name, ep->who);
        ep->ops->on_failed(ep->arg, ep, &err);
        errno = EBADF;
        return -1;
    }
    uint8_t *data = ep->chunk->data + ep->chunk_used_bytes;
    ssize_t n;
    do {
        n = recv(ep->fd, data, *want, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n;
    }
    if (give_input(ep, data, n, &err) < 0) {
        error_wrap(&err, "%s from %s", ep->name, ep->who);
        ep->ops->on_failed(ep->arg, ep, &err);
        errno = EBADF;
        return -1;
    }
    ep->chunk_used_bytes += n;
    ep->input_bytes += n;
    ep->ops->on_input(ep->arg, ep, data, n);
    return n;
}

/* Whether QEMU closed the socket, rather than one half of it. */
static bool is_hung_up(const struct endpoint *ep)
{
    struct pollfd pfd = {.fd = ep->fd};
    return poll(&pfd, 1, 0) == 1 && (pfd.revents & (POLLHUP | POLLERR));
}

/* QEMU takes no more bytes. */
static void go_dead(struct endpoint *ep, const struct error *err)
{
    ep->output_dead = true;
    want_write(ep, false);
    ep->ops->on_gone(ep->arg, ep, err);
    if (!endpoint_is_open(ep)) {
        return;
    }
    end_input(ep);
    close_if_done(ep);
}

/* recv() returned 0, or -1 with errnum. */
static void input_stopped(struct endpoint *ep, int errnum)
{
    struct error err = ERROR_INIT;

    if (errnum) {
        error_set_errno(&err, ERR_QEMU_GONE, errnum,
                        "%s closed its %s channel after writing %llu bytes to "
                        "it",
                        ep->who, ep->name, (unsigned long long)ep->input_bytes);
    } else {
        error_set(&err, ERR_QEMU_GONE,
                  "%s closed its %s channel after writing %llu bytes to it",
                  ep->who, ep->name, (unsigned long long)ep->input_bytes);
    }
    if (!ep->output_ended && !ep->output_dead && (errnum || is_hung_up(ep))) {
        go_dead(ep, &err);
        return;
    }
    ep->ops->on_input_end(ep->arg, ep);
    if (endpoint_is_open(ep)) {
        end_input(ep);
        close_if_done(ep);
    }
}

static void read_cb(evutil_socket_t fd, short what, void *arg)
{
    struct endpoint *ep = arg;
    size_t budget = ep->limits.budget_bytes;

    while (budget > 0) {
        size_t want =
            min_size(input_room(ep), min_size(ep->limits.read_bytes, budget));
        if (want == 0) {
            ep->read_paused = true;
            event_del(ep->read_event); /* until endpoint_room() */
            break;
        }
        ssize_t n = take_input(ep, &want);
        if (!endpoint_is_open(ep)) {
            break;
        }
        if (n <= 0) {
            if (n == 0 || (errno != EAGAIN && errno != EBADF)) {
                input_stopped(ep, n == 0 ? 0 : errno);
            }
            break;
        }
        budget -= n;
        if ((size_t)n < want) {
            break; /* dry: the next read would say EAGAIN */
        }
        if (budget > 0) {
            ep->ops->on_progress(ep->arg, ep, true);
            if (!endpoint_is_open(ep)) {
                return;
            }
        }
    }
    ep->ops->on_progress(ep->arg, ep, false);
}

/* A write failed: QEMU has closed. What it wrote before (a return path's last
 * message) waits in the socket and must not be lost: all of it is taken, room
 * or not. It is bounded by the socket's buffer, as QEMU adds nothing now. */
static void write_broke(struct endpoint *ep, int errnum)
{
    struct error err = ERROR_INIT;
    ssize_t n = 0;

    if (!ep->input_ended) {
        do {
            size_t want = ep->limits.read_bytes;
            n = take_input(ep, &want);
            if (!endpoint_is_open(ep)) {
                return;
            }
        } while (n > 0);
    }
    error_set_errno(&err, ERR_QEMU_GONE, errnum,
                    "%s closed its %s channel, to which it was sent %llu bytes",
                    ep->who, ep->name, (unsigned long long)ep->output_bytes);
    go_dead(ep, &err);
}

/* Lowers iov[0..count) to at most max bytes. Returns the new count. */
static int trim(struct iovec *iov, int count, size_t max)
{
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len >= max) {
            iov[i].iov_len = max;
            return i + 1;
        }
        max -= iov[i].iov_len;
    }
    return count;
}

/* Reports what was written of iov before mux_delivered() lets go of it. */
static void report_output(struct endpoint *ep, const struct iovec *iov,
                          size_t written)
{
    for (int i = 0; written > 0; i++) {
        size_t len = min_size(iov[i].iov_len, written);
        ep->ops->on_output(ep->arg, ep, iov[i].iov_base, len);
        written -= len;
    }
}

/* How much of iov may be written; 0: not now, or the endpoint has failed. */
static size_t ask_outlet(struct endpoint *ep, const struct iovec *iov,
                         int count)
{
    struct error err = ERROR_INIT;
    size_t len = SIZE_MAX;

    if (!ep->outlet) {
        return len;
    }
    if (ep->outlet->look(ep->arg, ep, iov, count, &len, &err) < 0) {
        error_wrap(&err, "%s to %s", ep->name, ep->who);
        ep->ops->on_failed(ep->arg, ep, &err);
        return 0;
    }
    if (len == 0 && count == IOV_MAX_PIECES) {
        /* it could not be shown more, so it would wait for ever */
        error_set(&err, ERR_PROTOCOL,
                  "%s to %s: a message comes in more than %d pieces", ep->name,
                  ep->who, count);
        ep->ops->on_failed(ep->arg, ep, &err);
    }
    return len;
}

static void drop_output(struct endpoint *ep)
{
    size_t waiting;
    while ((waiting = mux_deliver_bytes(ep->mux, ep->channel)) > 0) {
        mux_delivered(ep->mux, ep->channel, waiting);
    }
}

void endpoint_deliver(struct endpoint *ep)
{
    struct iovec iov[IOV_MAX_PIECES];
    size_t budget = ep->limits.budget_bytes;

    if (ep->discarding) {
        drop_output(ep);
        return;
    }
    if (!endpoint_is_open(ep) || ep->output_dead || ep->output_ended ||
        ep->write_wanted) {
        return;
    }
    while (budget > 0) {
        int count = mux_deliver_peek(ep->mux, ep->channel, iov, IOV_MAX_PIECES);
        if (count == 0) {
            return;
        }
        size_t most = min_size(ask_outlet(ep, iov, count), budget);
        if (most == 0) {
            return;
        }
        struct msghdr msg = {
            .msg_iov = iov,
            .msg_iovlen =
                trim(iov, count, min_size(most, ep->limits.write_bytes)),
        };
        ssize_t n = sendmsg(ep->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) {
                want_write(ep, true);
            } else {
                write_broke(ep, errno);
            }
            return;
        }
        ep->output_bytes += n;
        if (ep->outlet) {
            ep->outlet->written(ep->arg, ep, n);
        }
        report_output(ep, iov, n);
        mux_delivered(ep->mux, ep->channel, n);
        if (!endpoint_is_open(ep)) {
            return;
        }
        budget -= n;
    }
    if (mux_deliver_bytes(ep->mux, ep->channel) > 0) {
        want_write(ep, true); /* goes on in the next turn */
    }
}

static void write_cb(evutil_socket_t fd, short what, void *arg)
{
    struct endpoint *ep = arg;

    want_write(ep, false);
    endpoint_deliver(ep);
    ep->ops->on_progress(ep->arg, ep, false);
}

/* What a vCPU may be waiting for comes first: pages on preempt, and the small
 * return path (page requests). */
static int direction_priority(const struct endpoint *ep, bool forward)
{
    return ep->class == WIRE_CLASS_PREEMPT || !forward ? LOOP_URGENT
                                                       : LOOP_NORMAL;
}

int endpoint_open(struct endpoint *ep, int fd, struct error *err)
{
    struct event_base *base = loop_base(ep->loop);

    ep->fd = fd;
    ep->opened = true;
    ep->read_event = event_new(base, fd, EV_READ | EV_PERSIST, read_cb, ep);
    ep->write_event = event_new(base, fd, EV_WRITE | EV_PERSIST, write_cb, ep);
    if (!ep->read_event || !ep->write_event) {
        endpoint_close(ep);
        return error_set(err, ERR_NO_MEMORY, "%s: out of memory for its events",
                         ep->name);
    }
    event_priority_set(ep->read_event, direction_priority(ep, ep->source));
    event_priority_set(ep->write_event, direction_priority(ep, !ep->source));
    event_add(ep->read_event, NULL);
    return 0;
}

void endpoint_set_limits(struct endpoint *ep,
                         const struct endpoint_limits *limits)
{
    ep->limits = *limits;
}

void endpoint_set_send_buffer(struct endpoint *ep, int size_bytes)
{
    if (endpoint_is_open(ep) && size_bytes > 0) {
        sock_set_send_buffer(ep->fd, size_bytes);
    }
}

void endpoint_set_outlet(struct endpoint *ep,
                         const struct endpoint_outlet *outlet)
{
    ep->outlet = outlet;
}

void endpoint_set_intake(struct endpoint *ep,
                         const struct endpoint_intake *intake)
{
    ep->intake = intake;
}

void endpoint_room(struct endpoint *ep)
{
    ep->read_paused = false;
    if (endpoint_is_open(ep) && !ep->input_ended) {
        event_add(ep->read_event, NULL);
    }
}

void endpoint_peer_ended(struct endpoint *ep)
{
    if (ep->output_ended) {
        return;
    }
    ep->output_ended = true;
    if (endpoint_is_open(ep)) {
        want_write(ep, false);
        shutdown(ep->fd, SHUT_WR);
        close_if_done(ep);
    }
}

void endpoint_discard(struct endpoint *ep)
{
    ep->discarding = true;
    drop_output(ep);
}
