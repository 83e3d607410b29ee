// SPDX-License-Identifier: BSD-3-Clause
/* The socket of a QMP client: bytes to values, values to calls and events. */
#include "qmp/qmp-internal.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "qmp/json-value.h"
#include "util/cleanup.h"

#define READ_BYTES 65536
#define READS_PER_WAKE 4 /* then others get their turn */

/* --- the process at the other end --------------------------------------- */

/* Field 22 of /proc/PID/stat; the second may hold anything, brackets too. */
static int read_start_time(pid_t pid, uint64_t *ret_ticks)
{
    char path[64], text[1024];
    unsigned long long ticks;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    if (n <= 0) {
        return -1;
    }
    text[n] = '\0';
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p + 1, ' ');
    }
    if (!p || sscanf(p, " %llu", &ticks) != 1) {
        return -1;
    }
    *ret_ticks = ticks;
    return 0;
}

static void learn_peer(struct qmp *qmp)
{
    struct ucred cred = {.pid = 0};
    socklen_t size = sizeof(cred);

    if (getsockopt(qmp->fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0) {
        error_set_errno(&qmp->peer_err, ERR_UNSUPPORTED, errno,
                        "the process behind the monitor is not known");
    } else if (cred.pid <= 0) {
        error_set(&qmp->peer_err, ERR_UNSUPPORTED,
                  "the process behind the monitor is not known: it is in "
                  "another pid namespace");
    } else if (read_start_time(cred.pid, &qmp->peer_start_time_ticks) < 0) {
        error_set(&qmp->peer_err, ERR_UNSUPPORTED,
                  "the process behind the monitor is not known: process %d "
                  "cannot be looked at",
                  (int)cred.pid);
    } else {
        qmp->peer_pid = cred.pid;
    }
}

int qmp_peer(const struct qmp *qmp, pid_t *ret_pid,
             uint64_t *ret_start_time_ticks, struct error *err)
{
    if (error_is_set(&qmp->peer_err)) {
        return error_copy(err, &qmp->peer_err);
    }
    *ret_pid = qmp->peer_pid;
    *ret_start_time_ticks = qmp->peer_start_time_ticks;
    return 0;
}

/* --- values ------------------------------------------------------------- */

static void fail_with_value(struct qmp *qmp, const char *what,
                            struct json_object *value)
{
    struct error err;

    error_set(&err, ERR_PROTOCOL, "QMP: %s: %.100s", what,
              json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    for (char *p = err.text; *p; p++) {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e) {
            *p = '?'; /* a character may have been cut in two */
        }
    }
    qmp_fail(qmp, &err);
}

static int64_t timestamp_us(struct json_object *value)
{
    struct json_object *timestamp;
    uint64_t seconds, microseconds;

    if (!json_value_object(value, "timestamp", &timestamp) ||
        !json_value_uint(timestamp, "seconds", &seconds) ||
        !json_value_uint(timestamp, "microseconds", &microseconds) ||
        seconds > INT32_MAX * INT64_C(1000) || microseconds > 999999) {
        return -1;
    }
    return (int64_t)(seconds * 1000000 + microseconds);
}

static void handle_value(struct qmp *qmp, struct json_object *value,
                         mp_time received)
{
    struct json_object *member, *refusal = NULL;
    const char *name;
    uint64_t id;

    if (qmp->state == QMP_GREETING) {
        if (json_value_object(value, "QMP", &member)) {
            qmp_greeted(qmp, member);
        } else {
            fail_with_value(qmp, "this is not a QMP greeting", value);
        }
    } else if (json_value_text(value, "event", &name)) {
        member = NULL;
        json_value_object(value, "data", &member);
        if (qmp->ops->on_event) {
            qmp->ops->on_event(qmp->arg, name, member, timestamp_us(value),
                               received);
        }
    } else if (!json_value_uint(value, "id", &id)) {
        fail_with_value(qmp, "neither an event nor an answer to us", value);
    } else if (json_value_object(value, "error", &refusal) ||
               json_object_object_get_ex(value, "return", &member)) {
        qmp_call_answered(qmp, id, refusal ? NULL : member, refusal);
    } else {
        fail_with_value(qmp, "neither a result nor an error", value);
    }
}

/* --- reading ------------------------------------------------------------ */

static void take_bytes(struct qmp *qmp, const char *bytes, size_t size)
{
    mp_time received = loop_now(qmp->loop);

    while (size > 0 && qmp->state != QMP_CLOSED) {
        struct json_object *value = NULL;
        struct error err = ERROR_INIT;
        size_t used = 0;
        int rc =
            json_stream_feed(qmp->stream, bytes, size, &used, &value, &err);
        if (rc < 0) {
            error_wrap(&err, "QMP");
            qmp_fail(qmp, &err);
            return;
        }
        bytes += used;
        size -= used;
        if (rc > 0) {
            handle_value(qmp, value, received);
            json_object_put(value);
        }
    }
}

static void fail_gone(struct qmp *qmp, int errnum)
{
    struct error err;
    const char *when = qmp->state == QMP_GREETING ? " before its greeting" : "";

    if (errnum == 0 || errnum == ECONNRESET || errnum == EPIPE) {
        error_set(&err, ERR_QEMU_GONE, "QEMU has closed the monitor%s", when);
    } else {
        error_set_errno(&err, ERR_QEMU_GONE, errnum, "the monitor broke%s",
                        when);
    }
    qmp_fail(qmp, &err);
}

static void read_cb(evutil_socket_t fd, short what, void *arg)
{
    struct qmp *qmp = arg;
    char bytes[READ_BYTES];

    for (int i = 0; i < READS_PER_WAKE && qmp->state != QMP_CLOSED; i++) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0) {
            take_bytes(qmp, bytes, (size_t)n);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == EAGAIN) {
            if (qmp->send_errno) {
                fail_gone(qmp, qmp->send_errno);
            }
            return;
        } else {
            fail_gone(qmp, n < 0 ? errno : 0);
        }
    }
}

/* --- writing ------------------------------------------------------------ */

/* What could not be sent: the read side says so once all that QEMU still had
 * to say is read. */
static void send_failed(struct qmp *qmp, int errnum)
{
    qmp->send_errno = errnum;
    event_del(qmp->write_event);
    event_active(qmp->read_event, EV_READ, 0);
}

static void flush(struct qmp *qmp)
{
    while (evbuffer_get_length(qmp->out) > 0 && !qmp->send_errno) {
        size_t size = evbuffer_get_contiguous_space(qmp->out);
        ssize_t n = send(qmp->fd, evbuffer_pullup(qmp->out, (ev_ssize_t)size),
                         size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            evbuffer_drain(qmp->out, (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            event_add(qmp->write_event, NULL);
            return;
        } else if (n < 0 && errno != EINTR) {
            send_failed(qmp, errno);
        }
    }
}

static void write_cb(evutil_socket_t fd, short what, void *arg)
{
    flush(arg);
}

void qmp_wire_send(struct qmp *qmp, const char *text, size_t size)
{
    if (qmp->send_errno) {
        return;
    }
    if (evbuffer_add(qmp->out, text, size) < 0) {
        send_failed(qmp, ENOMEM);
        return;
    }
    flush(qmp);
}

/* --- life --------------------------------------------------------------- */

int qmp_wire_init(struct qmp *qmp, int fd, struct error *err)
{
    struct event_base *base = loop_base(qmp->loop);

    qmp->fd = fd;
    qmp->stream =
        json_stream_new(JSON_STREAM_MAX_BYTES, JSON_STREAM_MAX_DEPTH, err);
    if (!qmp->stream) {
        return -1;
    }
    qmp->out = evbuffer_new();
    qmp->read_event = event_new(base, fd, EV_READ | EV_PERSIST, read_cb, qmp);
    qmp->write_event = event_new(base, fd, EV_WRITE, write_cb, qmp);
    if (!qmp->out || !qmp->read_event || !qmp->write_event ||
        event_add(qmp->read_event, NULL) < 0) {
        qmp->fd = -1; /* remains the caller's */
        qmp_wire_free(qmp);
        return error_set(err, ERR_NO_MEMORY, "QMP client: out of memory");
    }
    learn_peer(qmp);
    return 0;
}

void qmp_wire_done(struct qmp *qmp)
{
    if (qmp->read_event) {
        event_free(qmp->read_event);
        qmp->read_event = NULL;
    }
    if (qmp->write_event) {
        event_free(qmp->write_event);
        qmp->write_event = NULL;
    }
    if (qmp->fd >= 0) {
        close(qmp->fd);
        qmp->fd = -1;
    }
}

void qmp_wire_free(struct qmp *qmp)
{
    qmp_wire_done(qmp);
    if (qmp->out) {
        evbuffer_free(qmp->out);
    }
    json_stream_free(qmp->stream);
}
