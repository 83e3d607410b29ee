// SPDX-License-Identifier: BSD-3-Clause
/* The calls of a QMP client: sending, deadlines, answers. */
#include "qmp/qmp-internal.h"

#include <assert.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "qmp/utf8.h"

static void call_timed_out_cb(void *arg);

/* --- one call ----------------------------------------------------------- */

void qmp_call_end(struct qmp_call *call, struct json_object *result,
                  const struct error *err)
{
    qmp_cb cb = call->cb;
    void *arg = call->arg;

    call->qmp->calls--;
    list_remove(&call->node);
    loop_timer_done(&call->timer);
    free(call->text);
    free(call);
    if (cb) {
        cb(arg, result, err);
    }
}

int qmp_call_encode(struct qmp_call *call, struct json_object *args,
                    struct error *err)
{
    struct json_object *object = json_object_new_object();
    struct json_object *name = json_object_new_string(call->command);
    struct json_object *id = json_object_new_uint64(call->id);
    const char *text = NULL;
    int rc = -1;

    if (object && name && id) {
        json_object_object_add(object, call->is_oob ? "exec-oob" : "execute",
                               name);
        json_object_object_add(object, "id", id);
        if (args) {
            json_object_object_add(object, "arguments", json_object_get(args));
        }
        text = json_object_to_json_string_length(
            object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE,
            &call->text_size);
        call->text = text ? malloc(call->text_size + 1) : NULL;
    } else {
        json_object_put(name);
        json_object_put(id);
    }
    if (!call->text) {
        error_set(err, ERR_NO_MEMORY, "%s: out of memory", call->command);
    } else if (call->text_size > QMP_COMMAND_MAX) {
        error_set(err, ERR_LIMIT, "%s: a command of %zu bytes, the limit is %d",
                  call->command, call->text_size, QMP_COMMAND_MAX);
    } else if (!utf8_is_valid(text, call->text_size)) {
        /* QEMU would answer without an id, and the answer be nobody's */
        error_set(err, ERR_BAD_REQUEST, "%s: an argument is not UTF-8",
                  call->command);
    } else {
        memcpy(call->text, text, call->text_size);
        call->text[call->text_size++] = '\n';
        rc = 0;
    }
    json_object_put(object);
    return rc;
}

struct qmp_call *qmp_call_new(struct qmp *qmp, const char *command, bool is_oob,
                              mp_time timeout, qmp_cb cb, void *arg)
{
    struct qmp_call *call = calloc(1, sizeof(*call));
    if (!call) {
        return NULL;
    }
    list_init(&call->node);
    call->qmp = qmp;
    call->id = ++qmp->last_id;
    call->is_oob = is_oob;
    call->timeout = timeout;
    call->cb = cb;
    call->arg = arg;
    json_value_copy_text(call->command, sizeof(call->command), command);
    loop_timer_init(&call->timer, qmp->loop, call_timed_out_cb, call);
    return call;
}

/* --- calls that fail before they are sent ------------------------------- */

static void end_failed_cb(void *arg)
{
    struct qmp *qmp = arg;

    qmp->is_ending_failed = false;
    while (!list_is_empty(&qmp->failed)) {
        struct qmp_call *call =
            container_of(qmp->failed.next, struct qmp_call, node);
        struct error err = call->err;
        qmp_call_end(call, NULL, &err);
    }
}

/* Its callback comes from the loop, not from within the submit. */
static void call_fail_later(struct qmp_call *call, const struct error *err)
{
    struct qmp *qmp = call->qmp;

    error_copy(&call->err, err);
    loop_timer_stop(&call->timer);
    list_remove(&call->node);
    list_append(&qmp->failed, &call->node);
    if (!qmp->is_ending_failed) {
        qmp->is_ending_failed = true;
        loop_defer(qmp->loop, end_failed_cb, qmp);
    }
}

/* --- sending ------------------------------------------------------------ */

void qmp_call_send(struct qmp_call *call)
{
    struct qmp *qmp = call->qmp;

    list_remove(&call->node);
    list_append(&qmp->sent, &call->node);
    if (!call->is_oob) {
        qmp->in_band++;
    }
    qmp_wire_send(qmp, call->text, call->text_size);
    free(call->text);
    call->text = NULL;
}

void qmp_call_send_waiting(struct qmp *qmp)
{
    if (qmp->state != QMP_READY) {
        return;
    }
    LIST_EACH_SAFE (node, &qmp->waiting) {
        struct qmp_call *call = container_of(node, struct qmp_call, node);
        if (call->is_oob && !qmp->has_oob) {
            struct error err;
            error_set(&err, ERR_UNSUPPORTED,
                      "%s: this monitor runs nothing out of band",
                      call->command);
            call_fail_later(call, &err);
        } else if (call->is_oob || qmp->in_band < QMP_IN_BAND_MAX) {
            qmp_call_send(call);
        }
    }
}

static void submit(struct qmp *qmp, const char *command, bool is_oob,
                   struct json_object *args, mp_time timeout, qmp_cb cb,
                   void *arg)
{
    struct error err = ERROR_INIT;
    struct qmp_call *call = NULL;

    assert(timeout > 0);
    if (qmp->is_closing) {
        error_set(&err, ERR_CANCELLED, "%s: the monitor is being closed",
                  command);
    } else {
        call = qmp_call_new(qmp, command, is_oob, timeout, cb, arg);
        if (!call) {
            error_set(&err, ERR_NO_MEMORY, "%s: out of memory", command);
        }
    }
    if (!call) {
        json_object_put(args);
        if (cb) {
            cb(arg, NULL, &err);
        }
        return;
    }
    if (++qmp->calls > QMP_CALLS_MAX) {
        error_set(&err, ERR_LIMIT,
                  "%s: more than %d commands without an answer", command,
                  QMP_CALLS_MAX);
    } else if (qmp->state == QMP_CLOSED) {
        err = qmp->end;
        error_wrap(&err, "%s", command);
    } else {
        qmp_call_encode(call, args, &err);
    }
    json_object_put(args);
    if (error_is_set(&err)) {
        call_fail_later(call, &err);
        return;
    }
    list_append(&qmp->waiting, &call->node);
    loop_timer_start(&call->timer, timeout);
    qmp_call_send_waiting(qmp);
}

void qmp_execute(struct qmp *qmp, const char *command, struct json_object *args,
                 mp_time timeout, qmp_cb cb, void *arg)
{
    submit(qmp, command, false, args, timeout, cb, arg);
}

void qmp_execute_oob(struct qmp *qmp, const char *command,
                     struct json_object *args, mp_time timeout, qmp_cb cb,
                     void *arg)
{
    submit(qmp, command, true, args, timeout, cb, arg);
}

/* --- deadlines ---------------------------------------------------------- */

static void call_timed_out_cb(void *arg)
{
    struct qmp_call *call = arg;
    struct qmp *qmp = call->qmp;
    bool was_sent = !call->text;
    struct error err;

    if (was_sent) {
        /* QEMU still has it: it keeps its place until its late answer comes */
        qmp_cb cb = call->cb;
        void *cb_arg = call->arg;
        call->cb = NULL;
        error_set(&err, ERR_TIMEOUT, "%s: no answer in %g s", call->command,
                  (double)call->timeout / MP_SECOND);
        if (cb) {
            cb(cb_arg, NULL, &err);
        }
        return;
    }
    error_set(&err, ERR_TIMEOUT, "%s: not sent within %g s, %s", call->command,
              (double)call->timeout / MP_SECOND,
              qmp->state == QMP_READY ? "earlier commands are unanswered"
                                      : "the monitor is not ready");
    qmp_call_end(call, NULL, &err);
}

/* --- answers ------------------------------------------------------------ */

static void set_refusal(struct qmp *qmp, const char *command,
                        struct json_object *refusal, struct error *err)
{
    const char *class = "", *desc = "no reason given";

    json_value_text(refusal, "class", &class);
    json_value_text(refusal, "desc", &desc);
    json_value_copy_text(qmp->error_class, sizeof(qmp->error_class), class);
    error_set(err, ERR_QMP, "%s: %s (%s)", command, desc, class);
    for (char *p = err->text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = ' ';
        }
    }
}

static struct qmp_call *find_sent(struct qmp *qmp, uint64_t id)
{
    LIST_EACH (node, &qmp->sent) {
        struct qmp_call *call = container_of(node, struct qmp_call, node);
        if (call->id == id) {
            return call;
        }
    }
    return NULL;
}

void qmp_call_answered(struct qmp *qmp, uint64_t id, struct json_object *result,
                       struct json_object *refusal)
{
    struct error err = ERROR_INIT;
    struct qmp_call *call = find_sent(qmp, id);

    if (!call) {
        error_set(&err, ERR_PROTOCOL,
                  "QMP: an answer to command %llu, which was not sent",
                  (unsigned long long)id);
        qmp_fail(qmp, &err);
        return;
    }
    if (!call->is_oob) {
        qmp->in_band--;
    }
    if (refusal) {
        set_refusal(qmp, call->command, refusal, &err);
        qmp_call_end(call, NULL, &err);
    } else {
        qmp_call_end(call, result, NULL);
    }
    qmp->error_class[0] = '\0';
    qmp_call_send_waiting(qmp);
}

const char *qmp_error_class(const struct qmp *qmp)
{
    return qmp->error_class;
}

void qmp_call_end_all(struct list *calls, const struct error *err)
{
    while (!list_is_empty(calls)) {
        struct qmp_call *call =
            container_of(calls->next, struct qmp_call, node);
        struct error own = *err;
        error_wrap(&own, "%s", call->command);
        qmp_call_end(call, NULL, &own);
    }
}
