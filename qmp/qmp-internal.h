// SPDX-License-Identifier: BSD-3-Clause
/* What qmp.c (life), qmp-call.c (calls) and qmp-wire.c (socket) share; nobody
 * else includes it. */
#ifndef QMP_QMP_INTERNAL_H
#define QMP_QMP_INTERNAL_H

#include <event2/event.h>

#include "qmp/json-stream.h"
#include "qmp/qmp.h"
#include "util/list.h"
#include "util/loop.h"

struct evbuffer;

/* GREETING -> NEGOTIATING -> READY; every state -> CLOSED. */
enum qmp_state {
    QMP_GREETING,    /* connected, QEMU has said nothing; greeting_timer runs */
    QMP_NEGOTIATING, /* qmp_capabilities is sent; its call's timer runs */
    QMP_READY,       /* commands go out */
    QMP_CLOSED       /* no socket any more; end says why, unless closed by us */
};

/* One call: in exactly one of waiting, sent, failed. */
struct qmp_call {
    struct list node;
    struct qmp *qmp;
    uint64_t id;
    bool is_oob;
    char command[64];
    char *text; /* until it is sent */
    size_t text_size;
    mp_time timeout;
    struct loop_timer timer;
    qmp_cb cb; /* NULL: nobody waits (any more) */
    void *arg;
    struct error err; /* in failed */
};

struct qmp {
    /* set once */
    struct loop *loop;
    const struct qmp_ops *ops;
    void *arg;
    struct qmp_params params;
    struct error peer_err; /* why the peer is not known */
    pid_t peer_pid;
    uint64_t peer_start_time_ticks;

    enum qmp_state state;
    bool has_oob;
    bool is_closing;
    bool is_ending_failed; /* end_failed_cb() is deferred */
    char version[72];
    struct error end;
    struct loop_timer greeting_timer;
    char error_class[64]; /* of the refusal being called back */

    uint64_t last_id;
    unsigned calls;   /* in all lists */
    unsigned in_band; /* sent in-band, timed-out ones included */
    struct list waiting;
    struct list sent;
    struct list failed;

    /* qmp-wire.c */
    int fd;
    int send_errno; /* of a send that failed */
    struct event *read_event;
    struct event *write_event;
    struct evbuffer *out;
    struct json_stream *stream;
};

/* A call in no list yet; its deadline is not running. NULL: no memory. */
struct qmp_call *qmp_call_new(struct qmp *qmp, const char *command, bool is_oob,
                              mp_time timeout, qmp_cb cb, void *arg);
/* Makes the call's text; args may be NULL and stay the caller's. */
int qmp_call_encode(struct qmp_call *call, struct json_object *args,
                    struct error *err);
/* Hands a call with text to the socket. */
void qmp_call_send(struct qmp_call *call);
/* Sends what may be sent now. */
void qmp_call_send_waiting(struct qmp *qmp);
/* Ends a call: out of the books first, then its one callback. */
void qmp_call_end(struct qmp_call *call, struct json_object *result,
                  const struct error *err);
/* Ends all calls of a list with err, each named. */
void qmp_call_end_all(struct list *calls, const struct error *err);

/* Takes ownership of fd on success. */
int qmp_wire_init(struct qmp *qmp, int fd, struct error *err);
/* Closes the socket and its events; what is being read stays. */
void qmp_wire_done(struct qmp *qmp);
void qmp_wire_free(struct qmp *qmp);
/* Sends text now or as soon as the socket takes it. Errors come from the loop
 * as qmp_fail(). */
void qmp_wire_send(struct qmp *qmp, const char *text, size_t size);

/* Upwards, from the socket. Each may end in qmp_close(): look at state. */
void qmp_greeted(struct qmp *qmp, struct json_object *greeting);
void qmp_call_answered(struct qmp *qmp, uint64_t id, struct json_object *result,
                       struct json_object *refusal);
void qmp_fail(struct qmp *qmp, const struct error *err);

#endif
