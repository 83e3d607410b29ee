// SPDX-License-Identifier: BSD-3-Clause
/* A model of QEMU in a migration: its monitor, its guest, its capabilities. */
#include "tests/lib/model-qemu.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "qmp/json-stream.h"
#include "qmp/json-value.h"
#include "tests/lib/model-qemu-private.h"
#include "util/cleanup.h"

#define UUID "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

void *model_check(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

void model_break(struct model_qemu *q, const char *what)
{
    if (!q->violation[0]) {
        snprintf(q->violation, sizeof(q->violation), "%s QEMU: %s",
                 q->params.is_source ? "source" : "destination", what);
    }
}

/* --- what it says ------------------------------------------------------- */

static void say(struct model_qemu *q, json_object *message)
{
    const char *text =
        json_object_to_json_string_ext(message, JSON_C_TO_STRING_PLAIN);

    if (q->client && !q->is_hung) {
        bufferevent_write(q->client, text, strlen(text));
        bufferevent_write(q->client, "\r\n", 2);
    }
    json_object_put(message);
}

void model_event(struct model_qemu *q, const char *name, json_object *data)
{
    json_object *message = json_object_new_object();
    int64_t now_us = clock_wall_us();
    json_object *stamp = json_object_new_object();

    json_object_object_add(stamp, "seconds",
                           json_object_new_int64(now_us / 1000000));
    json_object_object_add(stamp, "microseconds",
                           json_object_new_int64(now_us % 1000000));
    json_object_object_add(message, "timestamp", stamp);
    json_object_object_add(message, "event", json_object_new_string(name));
    if (data) {
        json_object_object_add(message, "data", data);
    }
    say(q, message);
}

static void status_event(struct model_qemu *q, const char *status)
{
    json_object *data;

    if (!model_has_capability(q, "events") || q->params.hides_events) {
        return;
    }
    data = json_object_new_object();
    json_object_object_add(data, "status", json_object_new_string(status));
    model_event(q, "MIGRATION", data);
}

static void late_cb(void *arg)
{
    struct model_qemu *q = arg;
    status_event(q, q->late_status);
}

void model_set_status(struct model_qemu *q, const char *status)
{
    q->status = status;
    if (!strcmp(status, "completed") && q->params.late_time) {
        snprintf(q->late_status, sizeof(q->late_status), "%s", status);
        loop_timer_start(&q->late, q->params.late_time);
    } else {
        status_event(q, status);
    }
}

void model_set_run(struct model_qemu *q, const char *run_state, bool runs)
{
    bool ran = q->runs;

    snprintf(q->run_state, sizeof(q->run_state), "%s", run_state);
    q->runs = runs;
    q->ever_ran = q->ever_ran || runs;
    if (ran == runs) {
        return;
    }
    model_event(q, runs ? "RESUME" : "STOP", NULL);
    if (q->ops && q->ops->on_run) {
        q->ops->on_run(q->arg, q, runs);
    }
}

/* --- moving on ---------------------------------------------------------- */

static void step_cb(void *arg)
{
    struct model_qemu *q = arg;
    void (*next)(struct model_qemu *) = q->next;

    q->next = NULL;
    if (next) {
        next(q);
    }
}

void model_then(struct model_qemu *q, mp_time delay,
                void (*next)(struct model_qemu *q))
{
    q->next = next;
    loop_timer_start(&q->step, delay);
}

void model_hang(struct model_qemu *q)
{
    q->is_hung = true;
    loop_timer_stop(&q->step);
    loop_timer_stop(&q->late);
    if (q->main) {
        bufferevent_disable(q->main, EV_READ | EV_WRITE);
    }
    if (q->client) {
        bufferevent_disable(q->client, EV_READ);
    }
}

bool model_enter(struct model_qemu *q, enum model_stage stage,
                 const char *status)
{
    enum model_fault fault = q->stage_faults[stage];

    if (fault != MODEL_IGNORE) {
        q->stage_faults[stage] = MODEL_OK;
    }
    switch (fault) {
    case MODEL_REFUSE:
        snprintf(q->error_desc, sizeof(q->error_desc), "the model broke at %s",
                 model_stage_name(stage));
        model_stream_break(q, q->error_desc);
        return false;
    case MODEL_IGNORE:
        return false;
    case MODEL_HANG:
        model_hang(q);
        return false;
    case MODEL_EXIT:
        model_exit(q);
        return false;
    case MODEL_MUTE:
        q->status = status;
        break;
    case MODEL_OK:
    case MODEL_LATE_EXIT:
        model_set_status(q, status);
        break;
    }
    q->stages |= 1u << stage;
    if (q->ops && q->ops->on_stage) {
        q->ops->on_stage(q->arg, q, stage);
    }
    if (fault == MODEL_LATE_EXIT) {
        model_exit(q);
    }
    return q->is_alive;
}

/* --- commands ----------------------------------------------------------- */

static json_object *text_object(const char *name, const char *text)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, name, json_object_new_string(text));
    return object;
}

static json_object *run_info(const struct model_qemu *q)
{
    json_object *info = text_object("status", q->run_state);
    json_object_object_add(info, "running", json_object_new_boolean(q->runs));
    return info;
}

static const char *cont(struct model_qemu *q)
{
    if (!strcmp(q->run_state, "inmigrate")) {
        model_break(q, "cont while inmigrate");
        q->autostart = true; /* as QEMU does, and says {} */
        return NULL;
    }
    model_set_run(q, "running", true);
    return NULL;
}

static const char *stop(struct model_qemu *q)
{
    if (!strcmp(q->run_state, "inmigrate")) {
        q->autostart = false;
    } else {
        model_set_run(q, "paused", false);
    }
    return NULL;
}

static const char *cancel(struct model_qemu *q)
{
    if (!strncmp(q->status, "postcopy", 8)) {
        model_break(q, "migrate_cancel in postcopy");
    }
    model_stream_cancel(q);
    return NULL;
}

static const char *start_postcopy(struct model_qemu *q)
{
    if (!model_has_capability(q, "postcopy-ram")) {
        return "Enable postcopy with migrate_set_capability before the start "
               "of migration";
    }
    q->wants_postcopy = true;
    return NULL;
}

static const char *go_on(struct model_qemu *q, json_object *args)
{
    const char *state = "";

    if (!json_value_text(args, "state", &state) || strcmp(q->status, state)) {
        return "Migration not in expected state";
    }
    if (q->is_stuck) {
        model_stream_cancel_on(q);
    } else if (!strcmp(state, "pre-switchover")) {
        model_stream_continue(q);
    }
    return NULL;
}

static const char *yank(struct model_qemu *q)
{
    model_stream_break(q, "yanked");
    return NULL;
}

static const char *uri_of(json_object *args)
{
    const char *uri = "";
    json_value_text(args, "uri", &uri);
    return uri;
}

/* Carries out a command: NULL, or QEMU's reason against it. */
static const char *carry_out(struct model_qemu *q, const char *command,
                             json_object *args, json_object **ret)
{
    static const struct {
        const char *command;
        const char *(*fn)(struct model_qemu *q);
    } plain[] = {{"cont", cont},
                 {"stop", stop},
                 {"migrate_cancel", cancel},
                 {"migrate-start-postcopy", start_postcopy},
                 {"yank", yank}};

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (!strcmp(command, plain[i].command)) {
            return plain[i].fn(q);
        }
    }
    if (!strcmp(command, "migrate-continue")) {
        return go_on(q, args);
    }
    if (!strcmp(command, "query-name")) {
        *ret = text_object("name", q->name);
    } else if (!strcmp(command, "query-uuid")) {
        *ret = text_object("UUID", UUID);
    } else if (!strcmp(command, "qom-get")) {
        *ret = json_object_new_string("pc-q35-7.2-machine");
    } else if (!strcmp(command, "query-status")) {
        *ret = run_info(q);
    } else if (!strcmp(command, "query-migrate")) {
        *ret = model_migrate_info(q);
    } else if (!strcmp(command, "query-qmp-schema")) {
        *ret = model_schema();
    } else if (!strcmp(command, "qom-list-properties")) {
        *ret = json_object_new_array();
    } else if (!strcmp(command, "query-migrate-capabilities")) {
        *ret = model_capability_list(q);
    } else if (!strcmp(command, "query-migrate-parameters")) {
        *ret = json_object_get(q->parameters);
    } else if (!strcmp(command, "human-monitor-command")) {
        *ret = json_object_new_string(
            "  Block Name  PSize  Offset  Used  Total\r\n"
            "  pc.ram  4 KiB  0x0 0x100000 0x100000\r\n");
    } else if (!strcmp(command, "migrate-set-capabilities")) {
        return model_set_capabilities(q, args);
    } else if (!strcmp(command, "migrate-set-parameters")) {
        return model_set_parameters(q, args);
    } else if (!strcmp(command, "migrate")) {
        return model_is_migrating(q) ? "There's a migration process in progress"
                                     : model_stream_start(q, uri_of(args));
    } else if (!strcmp(command, "migrate-incoming")) {
        return model_stream_listen(q, uri_of(args));
    } else if (strcmp(command, "qmp_capabilities") && strcmp(command, "quit")) {
        return "The command has not been found";
    }
    return NULL;
}

static void answer(struct model_qemu *q, json_object *id, const char *refusal,
                   json_object *result)
{
    json_object *message = json_object_new_object();
    json_object *error;

    if (refusal) {
        error = text_object("class", "GenericError");
        json_object_object_add(error, "desc", json_object_new_string(refusal));
        json_object_object_add(message, "error", error);
        json_object_put(result);
    } else {
        json_object_object_add(message, "return",
                               result ? result : json_object_new_object());
    }
    json_object_object_add(message, "id", json_object_get(id));
    say(q, message);
}

static unsigned count(struct model_qemu *q, const char *command)
{
    for (size_t i = 0; i < MODEL_COMMANDS_MAX; i++) {
        if (!q->counts[i].command[0]) {
            snprintf(q->counts[i].command, sizeof(q->counts[i].command), "%s",
                     command);
        }
        if (!strcmp(q->counts[i].command, command)) {
            return ++q->counts[i].count;
        }
    }
    abort();
}

unsigned model_count(const struct model_qemu *q, const char *command)
{
    for (size_t i = 0; i < MODEL_COMMANDS_MAX; i++) {
        if (!strcmp(q->counts[i].command, command)) {
            return q->counts[i].count;
        }
    }
    return 0;
}

static enum model_fault find_fault(struct model_qemu *q, const char *command)
{
    enum model_fault fault = MODEL_OK;

    for (size_t i = 0; i < MODEL_FAULTS_MAX; i++) {
        if (!strcmp(q->faults[i].command, command) &&
            (q->stages >> q->faults[i].after & 1)) {
            q->faults[i].seen++;
            if (!q->faults[i].nth || q->faults[i].nth == q->faults[i].seen) {
                fault = q->faults[i].fault;
            }
        }
    }
    return fault;
}

static void take_command(struct model_qemu *q, json_object *whole)
{
    json_object *args = NULL, *id = NULL, *result = NULL;
    const char *command = "nothing", *refusal;
    unsigned nth;

    if (!json_value_text(whole, "execute", &command)) {
        json_value_text(whole, "exec-oob", &command);
    }
    json_object_object_get_ex(whole, "arguments", &args);
    json_object_object_get_ex(whole, "id", &id);
    nth = count(q, command);
    if (q->ops && q->ops->on_command) {
        q->ops->on_command(q->arg, q, command, nth);
    }
    if (!q->is_alive || q->is_hung || !q->client) {
        return; /* the test did that just now */
    }
    enum model_fault fault = find_fault(q, command);
    if (fault == MODEL_REFUSE) {
        answer(q, id, "the model refuses", NULL);
        return;
    }
    if (fault == MODEL_HANG) {
        model_hang(q);
        return;
    }
    if (fault == MODEL_IGNORE) {
        return;
    }
    if (fault == MODEL_EXIT) {
        model_exit(q);
        return;
    }
    refusal = carry_out(q, command, args, &result);
    if (fault == MODEL_MUTE || fault == MODEL_LATE_EXIT) {
        json_object_put(result);
        if (fault == MODEL_LATE_EXIT) {
            model_exit(q);
        }
        return;
    }
    answer(q, id, refusal, result);
    if (q->ops && q->ops->on_done) {
        q->ops->on_done(q->arg, q, command);
    }
    if (!strcmp(command, "quit")) {
        model_exit(q);
    }
}

/* --- the monitor -------------------------------------------------------- */

static void read_cb(struct bufferevent *bev, void *arg)
{
    struct model_qemu *q = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    char bytes[4096];
    int n;

    while (q->client == bev && !q->is_hung &&
           (n = evbuffer_remove(in, bytes, sizeof(bytes))) > 0) {
        for (size_t at = 0; at < (size_t)n && q->client == bev;) {
            json_object *value = NULL;
            struct error err = ERROR_INIT;
            size_t used = 0;
            int rc = json_stream_feed(q->json, bytes + at, (size_t)n - at,
                                      &used, &value, &err);
            if (rc < 0) {
                model_break(q, "no JSON");
                model_drop_client(q);
                return;
            }
            at += used;
            if (rc > 0) {
                take_command(q, value);
                json_object_put(value);
            }
        }
    }
}

static void event_cb(struct bufferevent *bev, short what, void *arg)
{
    model_drop_client(arg);
}

void model_drop_client(struct model_qemu *q)
{
    if (q->client) {
        bufferevent_free(q->client);
        q->client = NULL;
        json_stream_free(q->json);
        q->json = NULL;
    }
    if (q->accept) {
        event_add(q->accept, NULL);
    }
}

static void accept_cb(evutil_socket_t listen_fd, short what, void *arg)
{
    struct model_qemu *q = arg;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0 || q->is_hung) {
        return;
    }
    event_del(q->accept); /* one client at a time */
    q->client = model_check(bufferevent_socket_new(loop_base(q->params.loop),
                                                   fd, BEV_OPT_CLOSE_ON_FREE));
    q->json = model_check(
        json_stream_new(JSON_STREAM_MAX_BYTES, JSON_STREAM_MAX_DEPTH, NULL));
    bufferevent_setcb(q->client, read_cb, NULL, event_cb, q);
    bufferevent_enable(q->client, EV_READ | EV_WRITE);
    say(q, json_tokener_parse(
               "{\"QMP\":{\"version\":{\"qemu\":{\"micro\":22,\"minor\":2,"
               "\"major\":7},\"package\":\"model\"},\"capabilities\":"
               "[\"oob\"]}}"));
}

/* --- life --------------------------------------------------------------- */

struct model_qemu *model_new(const struct model_params *params,
                             const struct model_ops *ops, void *arg)
{
    struct model_qemu *q = model_check(calloc(1, sizeof(*q)));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *run_state = params->run_state ? params->run_state : "running";

    q->params = *params;
    q->ops = ops;
    q->arg = arg;
    q->is_alive = true;
    q->status = "none";
    q->autostart = true;
    q->stages = 1u << MODEL_NEW;
    q->incoming_fd = -1;
    snprintf(q->path, sizeof(q->path), "%s", params->path);
    snprintf(q->name, sizeof(q->name), "%s", params->name);
    model_caps_init(q);
    loop_timer_init(&q->step, params->loop, step_cb, q);
    loop_timer_init(&q->late, params->loop, late_cb, q);
    q->runs = params->is_source && !strcmp(run_state, "running");
    q->ever_ran = q->runs;
    snprintf(q->run_state, sizeof(q->run_state), "%s",
             params->is_source ? run_state : "inmigrate");

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", q->path);
    q->listen_fd =
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (q->listen_fd < 0 ||
        bind(q->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(q->listen_fd, 1) < 0) {
        perror(q->path);
        abort();
    }
    q->accept = model_check(event_new(loop_base(params->loop), q->listen_fd,
                                      EV_READ | EV_PERSIST, accept_cb, q));
    event_add(q->accept, NULL);
    return q;
}

void model_exit(struct model_qemu *q)
{
    if (!q->is_alive) {
        return;
    }
    q->is_alive = false;
    loop_timer_stop(&q->step);
    loop_timer_stop(&q->late);
    event_free(q->accept);
    q->accept = NULL;
    close(q->listen_fd);
    unlink(q->path);
    model_stream_close(q);
    /* what was said last is on its way when a process ends */
    if (q->client) {
        struct evbuffer *out = bufferevent_get_output(q->client);
        evbuffer_unfreeze(out, 1);
        evbuffer_write(out, bufferevent_getfd(q->client));
    }
    model_drop_client(q);
    if (q->runs) {
        q->runs = false;
        if (q->ops && q->ops->on_run) {
            q->ops->on_run(q->arg, q, false);
        }
    }
}

void model_free(struct model_qemu *q)
{
    if (!q) {
        return;
    }
    q->ops = NULL;
    model_exit(q);
    loop_timer_done(&q->step);
    loop_timer_done(&q->late);
    json_object_put(q->capabilities);
    json_object_put(q->first_capabilities);
    json_object_put(q->parameters);
    json_object_put(q->first_parameters);
    free(q);
}

void model_fail_command(struct model_qemu *q, enum model_stage after,
                        const char *command, unsigned nth,
                        enum model_fault fault)
{
    for (size_t i = 0; i < MODEL_FAULTS_MAX; i++) {
        if (!q->faults[i].command[0]) {
            snprintf(q->faults[i].command, sizeof(q->faults[i].command), "%s",
                     command);
            q->faults[i].after = after;
            q->faults[i].nth = nth;
            q->faults[i].fault = fault;
            return;
        }
    }
    abort();
}

void model_fail_stage(struct model_qemu *q, enum model_stage stage,
                      enum model_fault fault)
{
    q->stage_faults[stage] = fault;
}

void model_stop(struct model_qemu *q, const char *run_state)
{
    model_set_run(q, run_state, false);
}

void model_resume(struct model_qemu *q)
{
    model_set_run(q, "running", true);
}

bool model_is_source(const struct model_qemu *q)
{
    return q->params.is_source;
}

bool model_is_alive(const struct model_qemu *q)
{
    return q->is_alive;
}

bool model_is_hung(const struct model_qemu *q)
{
    return q->is_hung;
}

bool model_runs(const struct model_qemu *q)
{
    return q->runs;
}

bool model_ever_ran(const struct model_qemu *q)
{
    return q->ever_ran;
}

const char *model_run_state(const struct model_qemu *q)
{
    return q->run_state;
}

const char *model_status(const struct model_qemu *q)
{
    return q->status;
}

const char *model_violation(const struct model_qemu *q)
{
    return q->violation[0] ? q->violation : NULL;
}
