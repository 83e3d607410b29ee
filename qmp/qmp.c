// SPDX-License-Identifier: BSD-3-Clause
/* An asynchronous QMP client: greeting, negotiation, end. Calls are in
 * qmp-call.c, what goes over the socket is in qmp-wire.c. */
#include "qmp/qmp.h"

#include <assert.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "qmp/qmp-internal.h"

static void stop(struct qmp *qmp)
{
    qmp->state = QMP_CLOSED;
    loop_timer_stop(&qmp->greeting_timer);
    qmp_wire_done(qmp);
}

void qmp_fail(struct qmp *qmp, const struct error *err)
{
    if (qmp->state == QMP_CLOSED) {
        return;
    }
    qmp->end = *err;
    stop(qmp);
    qmp_call_end_all(&qmp->sent, &qmp->end);
    qmp_call_end_all(&qmp->waiting, &qmp->end);
    if (!qmp->is_closing && qmp->ops->on_closed) {
        qmp->ops->on_closed(qmp->arg, &qmp->end);
    }
}

static void no_greeting_cb(void *arg)
{
    struct qmp *qmp = arg;
    struct error err;

    error_set(&err, ERR_MONITOR_BUSY,
              "the monitor gave no greeting in %g s: another client is "
              "probably on it; give this QEMU a second -qmp",
              (double)qmp->params.greeting_timeout / MP_SECOND);
    qmp_fail(qmp, &err);
}

/* qmp_capabilities has ended. */
static void negotiated_cb(void *arg, struct json_object *result,
                          const struct error *err)
{
    struct qmp *qmp = arg;

    if (qmp->state == QMP_CLOSED) {
        return;
    }
    if (err) {
        qmp_fail(qmp, err);
        return;
    }
    qmp->state = QMP_READY;
    if (qmp->ops->on_ready) {
        qmp->ops->on_ready(qmp->arg);
    }
    qmp_call_send_waiting(qmp);
}

static bool offers_oob(struct json_object *greeting)
{
    struct json_object *list;

    if (!json_value_array(greeting, "capabilities", &list)) {
        return false;
    }
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        if (json_object_is_type(entry, json_type_string) &&
            !strcmp(json_object_get_string(entry), "oob")) {
            return true;
        }
    }
    return false;
}

static void take_version(struct qmp *qmp, struct json_object *greeting)
{
    struct json_object *version, *numbers;
    uint64_t major = 0, minor = 0, micro = 0;

    if (json_value_object(greeting, "version", &version) &&
        json_value_object(version, "qemu", &numbers) &&
        json_value_uint(numbers, "major", &major) &&
        json_value_uint(numbers, "minor", &minor) &&
        json_value_uint(numbers, "micro", &micro)) {
        snprintf(qmp->version, sizeof(qmp->version), "%llu.%llu.%llu",
                 (unsigned long long)major, (unsigned long long)minor,
                 (unsigned long long)micro);
    }
}

/* {"enable": ["oob"]} */
static struct json_object *enable_oob(void)
{
    struct json_object *args = json_object_new_object();
    struct json_object *list = json_object_new_array();

    if (args && list) {
        json_object_array_add(list, json_object_new_string("oob"));
        json_object_object_add(args, "enable", list);
        return args;
    }
    json_object_put(args);
    json_object_put(list);
    return NULL;
}

void qmp_greeted(struct qmp *qmp, struct json_object *greeting)
{
    struct error err = ERROR_INIT;
    struct json_object *args = NULL;

    loop_timer_stop(&qmp->greeting_timer);
    take_version(qmp, greeting);
    if (offers_oob(greeting)) {
        args = enable_oob();
        qmp->has_oob = args != NULL;
    }
    struct qmp_call *call =
        qmp_call_new(qmp, "qmp_capabilities", false,
                     qmp->params.negotiation_timeout, negotiated_cb, qmp);
    if (!call) {
        json_object_put(args);
        error_set(&err, ERR_NO_MEMORY, "qmp_capabilities: out of memory");
        qmp_fail(qmp, &err);
        return;
    }
    qmp->calls++;
    qmp->state = QMP_NEGOTIATING;
    int rc = qmp_call_encode(call, args, &err);
    json_object_put(args);
    if (rc < 0) {
        qmp_call_end(call, NULL, &err);
        return;
    }
    loop_timer_start(&call->timer, call->timeout);
    qmp_call_send(call);
}

struct qmp *qmp_open(struct loop *loop, int fd, const struct qmp_params *params,
                     const struct qmp_ops *ops, void *arg, struct error *err)
{
    struct qmp *qmp = calloc(1, sizeof(*qmp));
    if (!qmp) {
        error_set(err, ERR_NO_MEMORY, "QMP client: out of memory");
        return NULL;
    }
    qmp->loop = loop;
    qmp->ops = ops;
    qmp->arg = arg;
    if (params) {
        qmp->params = *params;
    }
    if (qmp->params.greeting_timeout == 0) {
        qmp->params.greeting_timeout = QMP_GREETING_TIMEOUT;
    }
    if (qmp->params.negotiation_timeout == 0) {
        qmp->params.negotiation_timeout = QMP_NEGOTIATION_TIMEOUT;
    }
    list_init(&qmp->waiting);
    list_init(&qmp->sent);
    list_init(&qmp->failed);
    if (qmp_wire_init(qmp, fd, err) < 0) {
        free(qmp);
        return NULL;
    }
    loop_timer_init(&qmp->greeting_timer, loop, no_greeting_cb, qmp);
    loop_timer_start(&qmp->greeting_timer, qmp->params.greeting_timeout);
    return qmp;
}

static void free_cb(void *arg)
{
    struct qmp *qmp = arg;

    assert(qmp->calls == 0);
    loop_timer_done(&qmp->greeting_timer);
    qmp_wire_free(qmp);
    free(qmp);
}

void qmp_close(struct qmp *qmp)
{
    struct error err;

    if (!qmp || qmp->is_closing) {
        return;
    }
    qmp->is_closing = true;
    if (qmp->state != QMP_CLOSED) {
        stop(qmp);
    }
    error_set(&err, ERR_CANCELLED, "the monitor was closed");
    qmp_call_end_all(&qmp->sent, &err);
    qmp_call_end_all(&qmp->waiting, &err);
    qmp_call_end_all(&qmp->failed, &err);
    /* a callback of ours may be on the stack */
    loop_defer(qmp->loop, free_cb, qmp);
}

bool qmp_is_ready(const struct qmp *qmp)
{
    return qmp->state == QMP_READY;
}

bool qmp_has_oob(const struct qmp *qmp)
{
    return qmp->has_oob;
}

const char *qmp_version(const struct qmp *qmp)
{
    return qmp->version;
}
