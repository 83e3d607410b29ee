// SPDX-License-Identifier: BSD-3-Clause
/* Typed commands for migrations: what is asked and how answers are read. */
#include "qmp/qmp-migrate.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "qmp/qmp-caps.h"

/* One command under way. */
struct request {
    struct qmp *qmp;
    const char *command;
    union {
        qmp_done_cb done;
        qmp_text_cb text;
        qmp_run_status_cb run_status;
        qmp_migrate_info_cb info;
        qmp_ram_blocks_cb blocks;
    } cb;
    void *arg;
};

static struct request *request_new(struct qmp *qmp, const char *command,
                                   void *arg, struct error *err)
{
    struct request *request = calloc(1, sizeof(*request));
    if (!request) {
        error_set(err, ERR_NO_MEMORY, "%s: out of memory", command);
        return NULL;
    }
    request->qmp = qmp;
    request->command = command;
    request->arg = arg;
    return request;
}

/* Takes the request apart: what is needed for the callback stays on the
 * caller's stack, so that the callback may do anything. */
static struct request request_end(struct request *request)
{
    struct request copy = *request;
    free(request);
    return copy;
}

static int bad_answer(struct error *err, const char *command, const char *what)
{
    return error_set(err, ERR_PROTOCOL, "%s: QEMU's answer has no %s", command,
                     what);
}

/* --- arguments ---------------------------------------------------------- */

/* Adds value under key; on failure puts *args and leaves NULL. */
static void add(struct json_object **args, const char *key,
                struct json_object *value)
{
    if (*args && value && json_object_object_add(*args, key, value) == 0) {
        return;
    }
    json_object_put(value);
    json_object_put(*args);
    *args = NULL;
}

static void add_text(struct json_object **args, const char *key,
                     const char *value)
{
    add(args, key, json_object_new_string(value));
}

static void add_bool(struct json_object **args, const char *key, bool value)
{
    add(args, key, json_object_new_boolean(value));
}

/* --- commands without a result ------------------------------------------ */

static void done_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    struct request r = request_end(arg);
    r.cb.done(r.arg, err);
}

enum how { IN_BAND, OUT_OF_BAND_IF_POSSIBLE };

/* Takes args. has_args: the command has some, so NULL means no memory. */
static void submit_done(struct qmp *qmp, const char *command, enum how how,
                        struct json_object *args, bool has_args,
                        mp_time timeout, qmp_cb answer, qmp_done_cb cb,
                        void *arg)
{
    struct error err;
    struct request *r = request_new(qmp, command, arg, &err);

    if (r && has_args && !args) {
        free(r);
        r = NULL;
        error_set(&err, ERR_NO_MEMORY, "%s: out of memory", command);
    }
    if (!r) {
        json_object_put(args);
        cb(arg, &err);
        return;
    }
    r->cb.done = cb;
    if (how == OUT_OF_BAND_IF_POSSIBLE && qmp_has_oob(qmp)) {
        qmp_execute_oob(qmp, command, args, timeout, answer, r);
    } else {
        qmp_execute(qmp, command, args, timeout, answer, r);
    }
}

static void submit_plain(struct qmp *qmp, const char *command, mp_time timeout,
                         qmp_done_cb cb, void *arg)
{
    submit_done(qmp, command, IN_BAND, NULL, false, timeout, done_cb, cb, arg);
}

void qmp_migrate_start(struct qmp *qmp, const char *uri, bool resume,
                       mp_time timeout, qmp_done_cb cb, void *arg)
{
    struct json_object *args = json_object_new_object();

    add_text(&args, "uri", uri);
    if (resume) {
        add_bool(&args, "resume", true);
    }
    submit_done(qmp, "migrate", IN_BAND, args, true, timeout, done_cb, cb, arg);
}

void qmp_migrate_incoming(struct qmp *qmp, const char *uri, bool stay,
                          mp_time timeout, qmp_done_cb cb, void *arg)
{
    struct json_object *args = json_object_new_object();

    add_text(&args, "uri", uri);
    if (stay) {
        add_bool(&args, "exit-on-error", false);
    }
    submit_done(qmp, "migrate-incoming", IN_BAND, args, true, timeout, done_cb,
                cb, arg);
}

void qmp_migrate_start_postcopy(struct qmp *qmp, mp_time timeout,
                                qmp_done_cb cb, void *arg)
{
    submit_plain(qmp, "migrate-start-postcopy", timeout, cb, arg);
}

static void go_on(struct qmp *qmp, enum qmp_migrate_status from,
                  mp_time timeout, qmp_done_cb cb, void *arg)
{
    struct json_object *args = json_object_new_object();

    add_text(&args, "state", qmp_migrate_status_name(from));
    submit_done(qmp, "migrate-continue", IN_BAND, args, true, timeout, done_cb,
                cb, arg);
}

void qmp_migrate_continue(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                          void *arg)
{
    go_on(qmp, QMP_MIGRATE_PRE_SWITCHOVER, timeout, cb, arg);
}

void qmp_migrate_continue_cancelled(struct qmp *qmp, mp_time timeout,
                                    qmp_done_cb cb, void *arg)
{
    go_on(qmp, QMP_MIGRATE_CANCELLING, timeout, cb, arg);
}

void qmp_migrate_cancel(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                        void *arg)
{
    submit_plain(qmp, "migrate_cancel", timeout, cb, arg);
}

void qmp_migrate_pause(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                       void *arg)
{
    submit_done(qmp, "migrate-pause", OUT_OF_BAND_IF_POSSIBLE, NULL, false,
                timeout, done_cb, cb, arg);
}

void qmp_migrate_recover(struct qmp *qmp, const char *uri, mp_time timeout,
                         qmp_done_cb cb, void *arg)
{
    struct json_object *args = json_object_new_object();

    add_text(&args, "uri", uri);
    submit_done(qmp, "migrate-recover", OUT_OF_BAND_IF_POSSIBLE, args, true,
                timeout, done_cb, cb, arg);
}

static void yank_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    struct request r = request_end(arg);

    /* no migration, no sockets: what was wanted is so */
    if (err && err->code == ERR_QMP &&
        !strcmp(qmp_error_class(r.qmp), "DeviceNotFound")) {
        err = NULL;
    }
    r.cb.done(r.arg, err);
}

void qmp_migrate_yank(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg)
{
    struct json_object *args = json_object_new_object();
    struct json_object *list = json_object_new_array();
    struct json_object *instance = json_object_new_object();

    add_text(&instance, "type", "migration");
    if (list && instance && json_object_array_add(list, instance) == 0) {
        add(&args, "instances", list);
    } else {
        json_object_put(instance);
        json_object_put(list);
        json_object_put(args);
        args = NULL;
    }
    submit_done(qmp, "yank", OUT_OF_BAND_IF_POSSIBLE, args, true, timeout,
                yank_cb, cb, arg);
}

void qmp_migrate_stop(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg)
{
    submit_plain(qmp, "stop", timeout, cb, arg);
}

void qmp_migrate_cont(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg)
{
    submit_plain(qmp, "cont", timeout, cb, arg);
}

void qmp_migrate_quit(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg)
{
    submit_plain(qmp, "quit", timeout, cb, arg);
}

void qmp_migrate_set_bandwidth(struct qmp *qmp, uint64_t bytes_per_second,
                               mp_time timeout, qmp_done_cb cb, void *arg)
{
    struct json_object *args;
    struct error err;
    uint64_t sent_rate = 0;

    if (qmp_caps_bandwidth(bytes_per_second, &sent_rate, &err) < 0) {
        cb(arg, &err);
        return;
    }
    args = json_object_new_object();
    add(&args, "max-bandwidth", json_object_new_uint64(sent_rate));
    submit_done(qmp, "migrate-set-parameters", IN_BAND, args, true, timeout,
                done_cb, cb, arg);
}

void qmp_migrate_set_downtime(struct qmp *qmp, unsigned max_downtime_ms,
                              mp_time timeout, qmp_done_cb cb, void *arg)
{
    struct json_object *args = json_object_new_object();

    add(&args, "downtime-limit", json_object_new_uint64(max_downtime_ms));
    submit_done(qmp, "migrate-set-parameters", IN_BAND, args, true, timeout,
                done_cb, cb, arg);
}

/* --- texts -------------------------------------------------------------- */

#define TEXT_MAX 255

static void end_text(struct request r, const char *text, const char *what,
                     const struct error *err)
{
    struct error own;

    if (!err && !text) {
        bad_answer(&own, r.command, what);
        err = &own;
    } else if (!err && strlen(text) > TEXT_MAX) {
        error_set(&own, ERR_PROTOCOL, "%s: %s longer than %d bytes", r.command,
                  what, TEXT_MAX);
        err = &own;
    }
    r.cb.text(r.arg, err ? NULL : text, err);
}

static void name_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    const char *text = "";

    json_value_text(result, "name", &text);
    end_text(request_end(arg), text, "name", err);
}

static void uuid_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    const char *text = NULL;

    json_value_text(result, "UUID", &text);
    end_text(request_end(arg), text, "UUID", err);
}

static void machine_type_cb(void *arg, struct json_object *result,
                            const struct error *err)
{
    static const char suffix[] = "-machine";
    char text[TEXT_MAX + 1] = "";
    bool is_text = json_object_is_type(result, json_type_string) &&
                   json_value_copy_text(text, sizeof(text),
                                        json_object_get_string(result));
    size_t length = strlen(text), cut = sizeof(suffix) - 1;

    if (length > cut && !strcmp(text + length - cut, suffix)) {
        text[length - cut] = '\0';
    }
    end_text(request_end(arg), is_text ? text : NULL, "machine type", err);
}

/* Takes args. */
static void submit_text(struct qmp *qmp, const char *command,
                        struct json_object *args, mp_time timeout,
                        qmp_cb answer, qmp_text_cb cb, void *arg)
{
    struct error err;
    struct request *r = request_new(qmp, command, arg, &err);

    if (!r) {
        json_object_put(args);
        cb(arg, NULL, &err);
        return;
    }
    r->cb.text = cb;
    qmp_execute(qmp, command, args, timeout, answer, r);
}

void qmp_migrate_query_name(struct qmp *qmp, mp_time timeout, qmp_text_cb cb,
                            void *arg)
{
    submit_text(qmp, "query-name", NULL, timeout, name_cb, cb, arg);
}

void qmp_migrate_query_uuid(struct qmp *qmp, mp_time timeout, qmp_text_cb cb,
                            void *arg)
{
    submit_text(qmp, "query-uuid", NULL, timeout, uuid_cb, cb, arg);
}

void qmp_migrate_query_machine_type(struct qmp *qmp, mp_time timeout,
                                    qmp_text_cb cb, void *arg)
{
    struct json_object *args = json_object_new_object();

    add_text(&args, "path", "/machine");
    add_text(&args, "property", "type");
    submit_text(qmp, "qom-get", args, timeout, machine_type_cb, cb, arg);
}

/* --- query-status ------------------------------------------------------- */

static void run_status_cb(void *arg, struct json_object *result,
                          const struct error *err)
{
    struct request r = request_end(arg);
    struct qmp_run_status status = {.running = false};
    struct error own;
    const char *text;

    if (!err &&
        (!json_value_text(result, "status", &text) ||
         !json_value_copy_text(status.text, sizeof(status.text), text) ||
         !json_value_bool(result, "running", &status.running))) {
        bad_answer(&own, r.command, "status and running");
        err = &own;
    }
    r.cb.run_status(r.arg, err ? NULL : &status, err);
}

void qmp_migrate_query_status(struct qmp *qmp, mp_time timeout,
                              qmp_run_status_cb cb, void *arg)
{
    struct error err;
    struct request *r = request_new(qmp, "query-status", arg, &err);

    if (!r) {
        cb(arg, NULL, &err);
        return;
    }
    r->cb.run_status = cb;
    qmp_execute(qmp, r->command, NULL, timeout, run_status_cb, r);
}

/* --- query-migrate ------------------------------------------------------ */

static void info_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    struct request r = request_end(arg);
    struct qmp_migrate_info info;
    struct error own;

    if (!err && qmp_migrate_parse_info(result, &info, &own) < 0) {
        err = &own;
    }
    r.cb.info(r.arg, err ? NULL : &info, err);
}

void qmp_migrate_query(struct qmp *qmp, mp_time timeout, qmp_migrate_info_cb cb,
                       void *arg)
{
    struct error err;
    struct request *r = request_new(qmp, "query-migrate", arg, &err);

    if (!r) {
        cb(arg, NULL, &err);
        return;
    }
    r->cb.info = cb;
    qmp_execute(qmp, r->command, NULL, timeout, info_cb, r);
}

/* --- info ramblock ------------------------------------------------------ */

static void blocks_cb(void *arg, struct json_object *result,
                      const struct error *err)
{
    struct request r = request_end(arg);
    struct qmp_ram_block *blocks = NULL;
    size_t count = 0;
    struct error own;

    if (!err && !json_object_is_type(result, json_type_string)) {
        bad_answer(&own, "info ramblock", "text");
        err = &own;
    } else if (!err &&
               qmp_migrate_parse_ram_blocks(json_object_get_string(result),
                                            &blocks, &count, &own) < 0) {
        err = &own;
    }
    r.cb.blocks(r.arg, err ? NULL : blocks, err ? 0 : count, err);
    free(blocks);
}

void qmp_migrate_query_ram_blocks(struct qmp *qmp, mp_time timeout,
                                  qmp_ram_blocks_cb cb, void *arg)
{
    struct error err = ERROR_INIT;
    struct request *r = request_new(qmp, "human-monitor-command", arg, &err);
    struct json_object *args = json_object_new_object();

    add_text(&args, "command-line", "info ramblock");
    if (!r || !args) {
        free(r);
        json_object_put(args);
        error_set(&err, ERR_NO_MEMORY, "info ramblock: out of memory");
        cb(arg, NULL, 0, &err);
        return;
    }
    r->cb.blocks = cb;
    qmp_execute(qmp, r->command, args, timeout, blocks_cb, r);
}

void qmp_migrate_query_schema(struct qmp *qmp, mp_time timeout, qmp_cb cb,
                              void *arg)
{
    qmp_execute(qmp, "query-qmp-schema", NULL, timeout, cb, arg);
}
