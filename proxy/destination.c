// SPDX-License-Identifier: BSD-3-Clause
/* The destination's end of a migration: life, failures, news, requests. */
#include "proxy/destination.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/value.h"
#include "proxy/destination-private.h"
#include "proxy/error-json.h"
#include "qmp/json-value.h"
#include "util/path.h"
#include "util/parse.h"

mp_time destination_qmp_timeout(const struct destination *d)
{
    return d->m.env->conf->qmp_timeout;
}

static void grace_cb(void *arg);

struct migration *destination_migration(struct destination *destination)
{
    return &destination->m;
}

static void deadline_cb(void *arg)
{
    struct destination *d = arg;
    struct error err = ERROR_INIT;
    char limit[32];

    if (d->m.state == MIGRATION_CANCELLING) {
        destination_undo_late(d);
        return;
    }
    error_set(&err, ERR_TIMEOUT, "%s was not over within %s", d->deadline_name,
              parse_format_duration(d->deadline_limit, limit, sizeof(limit)));
    if (d->m.state == MIGRATION_COMMITTING) {
        destination_qemu_unknown(d, &err); /* its cont was not answered */
    } else {
        destination_fail(d, &err);
    }
}

void destination_deadline(struct destination *d, const char *name,
                          mp_time limit)
{
    d->deadline_name = name;
    d->deadline_limit = limit;
    loop_timer_start(&d->deadline, limit);
}

/* In postcopy a path that is silent for hold-time is given up, see the source's
 * end. */
static void check_postcopy_path(struct destination *d)
{
    struct carrier_stats stats;
    mp_time hold = d->m.env->conf->hold_time;

    if (d->m.state != MIGRATION_POSTCOPY || !d->m.carrier || d->completed) {
        return;
    }
    carrier_get_stats(d->m.carrier, &stats);
    mp_time silent = loop_now(d->m.env->control) - stats.last_heard;
    if (!stats.last_heard || silent <= hold) {
        d->silent_ticks = 0;
    } else if (++d->silent_ticks > MIGRATION_SILENT_POLLS) {
        destination_failf(d, ERR_LINK_LOST,
                          "peer %s was silent for %d s in postcopy "
                          "([migration] hold-time)",
                          d->m.request.peer, (int)(silent / MP_SECOND));
    }
}

/* The source always has an await open. When nothing was heard for hold-time,
 * it or the path is gone: an uncommitted migration is given up (the source
 * alone may go on), a committed one ends here when it can. */
static void tick_cb(void *arg)
{
    struct destination *d = arg;
    mp_time silent = loop_now(d->m.env->control) - d->heard_at;
    mp_time hold = d->m.env->conf->hold_time;

    loop_timer_start(&d->tick, DESTINATION_TICK);
    check_postcopy_path(d);
    migration_measure_rate(&d->m);
    destination_ask_qemu(d);
    if (migration_state_is_end(d->m.state)) {
        return; /* the tick is stopped */
    }
    if (silent < hold + 15 * MP_SECOND) { /* an await lasts 10 s */
        return;
    }
    if (!d->m.started) {
        destination_failf(d, ERR_LINK_LOST,
                          "the daemon of peer %s was silent for %d s",
                          d->m.request.peer, (int)(silent / MP_SECOND));
    } else if (d->m.state == MIGRATION_COMMITTING) {
        destination_failf(d, ERR_TIMEOUT,
                          "destination QEMU did not say that it runs the guest "
                          "(committing), and the source no longer asks");
        migration_advise(&d->m, ADVICE_STARTED_SILENT, NULL);
        destination_end(d, MIGRATION_ATTENTION);
    } else if (!d->m.postcopy || d->completed) {
        migration_log(&d->m, LOG_LEVEL_WARNING,
                      "the source does not say that it is done; the guest is "
                      "whole here, so this end is");
        destination_finish(d, NULL);
    }
}

static struct destination *destination_new(const struct migration_env *env,
                                           const struct api_migrate *wish)
{
    struct destination *d = calloc(1, sizeof(*d));

    if (!d) {
        return NULL;
    }
    migration_init(&d->m, env, false, wish);
    d->heard_at = d->m.began;
    d->qemu_heard_at = d->m.began;
    loop_timer_init(&d->deadline, env->control, deadline_cb, d);
    migration_soft_init(&d->m, grace_cb, d);
    loop_timer_init(&d->tick, env->control, tick_cb, d);
    loop_timer_init(&d->loaded, env->control, destination_loaded_cb, d);
    loop_timer_start(&d->tick, DESTINATION_TICK);
    return d;
}

bool destination_has_used_qemu(const struct destination *d)
{
    return d->incoming_sent;
}

static void refuse_request(struct peer_request *request, enum error_code code,
                           const char *text)
{
    struct error err = ERROR_INIT;
    error_set(&err, code, "%s", text);
    peer_request_fail(request, &err);
}

/* The QEMU that waits for the guest: as the peer names it, as was said here, or
 * by template. What was said here needs no right of the peer's to be named. */
static int choose_path(struct destination *d, json_object *params,
                       const struct api_incoming *incoming, struct error *err)
{
    const struct conf *conf = d->m.env->conf;
    const struct conf_peer *peer = conf_find_peer(conf, d->m.request.peer);
    char *path = NULL;
    const char *named = NULL;

    json_value_text(params, "qmp", &named);
    if (incoming && (!named || !strcmp(named, incoming->qmp_path))) {
        json_value_copy_text(d->m.qmp_path, sizeof(d->m.qmp_path),
                             incoming->qmp_path);
        json_value_copy_text(d->expected_uuid, sizeof(d->expected_uuid),
                             incoming->uuid);
        return 0;
    }
    if (!named) {
        if (path_expand_vm(conf->qmp_path, d->m.request.vm, &path, err)) {
            return -1;
        }
        json_value_copy_text(d->m.qmp_path, sizeof(d->m.qmp_path), path);
        free(path);
        return 0;
    }
    if (!peer || !(peer->allow & CONF_ALLOW_NAME_PATHS)) {
        return error_set(err, ERR_FORBIDDEN,
                         "peer %s may not name QMP paths on %s (%s): [peer "
                         "\"%s\"] has no \"name-paths\" in allow",
                         d->m.request.peer, conf->name, named,
                         d->m.request.peer);
    }
    if (path_check_socket(named, err)) {
        return -1;
    }
    json_value_copy_text(d->m.qmp_path, sizeof(d->m.qmp_path), named);
    return 0;
}

/* What the source calls a host, for messages that both ends have alike. */
static void take_host(json_object *params, const char *member,
                      char host[MIGRATION_HOST_BYTES])
{
    const char *name;

    if (json_value_text(params, member, &name) &&
        value_is_name(name, MIGRATION_HOST_BYTES - 1)) {
        json_value_copy_text(host, MIGRATION_HOST_BYTES, name);
    }
}

struct destination *destination_start(const struct migration_env *env,
                                      struct peer_request *request,
                                      const struct api_migrate *wish,
                                      const struct api_incoming *incoming)
{
    json_object *params = peer_request_params(request), *facts;
    struct destination *d = destination_new(env, wish);
    struct error err = ERROR_INIT;

    if (!d) {
        refuse_request(request, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    migration_take_peer_qmp(&d->m, params, "source_qmp");
    take_host(params, "source_host", d->m.hosts.source);
    take_host(params, "destination_host", d->m.hosts.destination);
    json_value_bool(params, "postcopy", &d->m.may_postcopy);
    json_value_bool(params, "preempt", &d->m.preempt);
    json_value_bool(params, "preempt_needed", &d->preempt_needed);
    if (!json_value_object(params, "facts", &facts)) {
        error_set(&err, ERR_PROTOCOL, "migration.prepare: no \"facts\"");
    } else if (!choose_path(d, params, incoming, &err)) {
        d->source_facts = json_object_get(facts);
        d->prepare = request;
        if (!destination_prepare(d, &err)) {
            return d;
        }
        d->prepare = NULL;
        error_wrap(&err, "destination QEMU");
    }
    log_write(LOG_LEVEL_WARNING, d->m.context, "refused: %s", err.text);
    peer_request_fail(request, &err);
    destination_free(d);
    return NULL;
}

void destination_qemu_unknown(struct destination *d, const struct error *err)
{
    migration_note_failure(&d->m, MIGRATION_DESTINATION, err);
    migration_advise(&d->m, ADVICE_STARTED_SILENT, NULL);
    destination_end(d, MIGRATION_ATTENTION);
}

struct destination *destination_take_over(const struct migration_env *env,
                                          const struct api_migrate *wish,
                                          json_object *record,
                                          struct error *err)
{
    struct destination *d = destination_new(env, wish);
    struct error why = ERROR_INIT;

    if (!d) {
        error_set(err, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    if (migration_from_record(&d->m, record, err)) {
        destination_free(d);
        return NULL;
    }
    migration_log(&d->m, LOG_LEVEL_WARNING, "taken over in state %s",
                  migration_state_name(d->m.state));
    d->path_dead = true;
    d->restarted = true;
    d->incoming_sent = d->m.told_to_listen || d->m.state >= MIGRATION_SETUP;
    bool gone = monitor_open(&d->monitor, env->control, env->conf,
                             d->m.qmp_path, &destination_qmp_ops, d, &why);
    if (gone) {
        migration_log(&d->m, LOG_LEVEL_WARNING, "the destination's QEMU: %s",
                      why.text);
    }
    error_set(&why, ERR_DAEMON_RESTARTED,
              "the destination's daemon was restarted in the middle of the "
              "migration");
    if (!d->m.started || d->m.postcopy) { /* else: the guest is whole here */
        migration_note_failure(&d->m, MIGRATION_DESTINATION, &why);
    }
    if (!d->m.started) {
        destination_undo(d, false);
    } else if (gone) {
        destination_qemu_unknown(d, &why);
    } else if (d->m.state == MIGRATION_COMMITTING) {
        destination_deadline(d, "committing", 2 * env->conf->commit_timeout);
    }
    return d;
}

void destination_refuse(struct destination *d, struct peer_request **request)
{
    if (*request) {
        peer_request_fail(*request, &d->m.failure.error);
        *request = NULL;
    }
}

/* Requests that can no longer be answered any other way. */
static void refuse_all(struct destination *d)
{
    if (!d->m.failure.is_set) {
        error_set(&d->m.failure.error, ERR_NOT_FOUND,
                  "migration %s has ended on the destination", d->m.request.id);
    }
    destination_refuse(d, &d->prepare);
    destination_refuse(d, &d->listen);
    if (d->await) {
        peer_request_reply(d->await, destination_news_to_json(d));
        d->await = NULL;
    }
    destination_refuse(d, &d->commit);
    destination_refuse(d, &d->finish);
    destination_refuse(d, &d->abort);
}

void destination_free(struct destination *d)
{
    if (!d) {
        return;
    }
    loop_timer_done(&d->deadline);
    loop_timer_done(&d->tick);
    migration_soft_done(&d->m);
    loop_timer_done(&d->loaded);
    refuse_all(d);
    migration_drop_carrier(&d->m, NULL);
    monitor_close(&d->monitor);
    facts_done(&d->facts);
    json_object_put(d->source_facts);
    json_object_put(d->late_abort);
    migration_done(&d->m);
    free(d);
}

/* A QEMU that was ended leaves the socket it listened on, and one that still
 * listens has nothing to wait for: migrate-recover makes another one. */
static void remove_socket(const struct destination *d)
{
    if (d->incoming_sent && d->m.socket_path[0]) {
        path_remove_socket(d->m.socket_path);
    }
}

void destination_end(struct destination *d, enum migration_state state)
{
    loop_timer_stop(&d->deadline);
    loop_timer_stop(&d->tick);
    migration_soft_drop(&d->m);
    loop_timer_stop(&d->loaded);
    if (state == MIGRATION_ATTENTION) {
        destination_take_late_cause(d);
    }
    destination_answer_abort(d);
    migration_set_state(&d->m, state);
    refuse_all(d); /* before the path closes: the cause goes first */
    migration_drop_carrier(&d->m,
                           d->m.failure.is_set ? &d->m.failure.error : NULL);
    remove_socket(d);
    monitor_close(&d->monitor);
    d->m.env->on_end(d->m.env->arg, &d->m);
}

json_object *destination_failure_to_json(struct destination *d)
{
    return error_json_new(&d->m.failure.error, d->m.failure.side);
}

json_object *destination_news_to_json(struct destination *d)
{
    json_object *object = json_object_new_object();
    bool failed = d->m.failure.is_set &&
                  (!d->m.started || d->m.state == MIGRATION_ATTENTION);

    json_object_object_add(object, "seq", json_object_new_uint64(d->seq));
    json_object_object_add(
        object, "state",
        json_object_new_string(migration_state_name(d->m.state)));
    json_object_object_add(object, "prepared",
                           json_object_new_boolean(d->prepared));
    json_object_object_add(object, "started",
                           json_object_new_boolean(d->m.started));
    json_object_object_add(object, "completed",
                           json_object_new_boolean(d->completed));
    json_object_object_add(object, "failed", json_object_new_boolean(failed));
    json_object_object_add(object, "resumed_at_ns",
                           json_object_new_int64(d->resumed_at));
    if (failed) {
        json_object_object_add(object, "error", destination_failure_to_json(d));
    }
    return object;
}

void destination_news(struct destination *d)
{
    d->seq++;
    if (d->await) {
        peer_request_reply(d->await, destination_news_to_json(d));
        d->await = NULL;
    }
}

static void await_news(struct destination *d, struct peer_request *request)
{
    uint64_t seen = 0;

    if (d->await) { /* the source asks anew after its deadline */
        peer_request_reply(d->await, destination_news_to_json(d));
        d->await = NULL;
    }
    json_value_uint(peer_request_params(request), "seen", &seen);
    if (seen != d->seq) {
        peer_request_reply(request, destination_news_to_json(d));
    } else {
        d->await = request;
    }
}

/* A path that this QEMU did not break itself, and all that follows on a
 * failure, is the effect of something. */
static void note(struct destination *d, const struct error *err)
{
    const char *side = migration_side_of(err, MIGRATION_SOURCE);
    bool is_own = !strcmp(side, MIGRATION_DESTINATION);

    if (d->m.state == MIGRATION_CANCELLING || (d->path_dead && !is_own)) {
        migration_note_effect(
            &d->m, migration_side_of(err, MIGRATION_DESTINATION), err);
    } else {
        migration_note_failure(
            &d->m, migration_side_of(err, MIGRATION_DESTINATION), err);
    }
}

/* A QEMU that has closed its sockets has not ended for sure: migrate-pause does
 * that, too, and such a guest can be recovered. */
static void advise_postcopy(struct destination *d)
{
    bool is_gone = d->m.failure.error.code == ERR_QEMU_GONE;
    enum advice_kind kind = ADVICE_SPREAD;

    if (is_gone && !strcmp(d->m.failure.side, MIGRATION_SOURCE)) {
        kind = ADVICE_SOURCE_PERHAPS_ENDED;
    } else if (is_gone && !d->monitor.qmp) {
        kind = ADVICE_DESTINATION_ENDED;
    }
    migration_advise(&d->m, kind, NULL);
}

void destination_fail(struct destination *d, const struct error *err)
{
    if (migration_state_is_end(d->m.state)) {
        return;
    }
    /* as the source, whose prepare ends with this */
    d->m.refused = d->m.refused || (d->m.state == MIGRATION_PREPARING &&
                                    err->code != ERR_CANCELLED);
    if (!d->ended_by_source) {
        note(d, err);
    }
    if (d->m.state == MIGRATION_CANCELLING) {
        return;
    }
    if (!d->m.started) {
        destination_undo(d, false);
        return;
    }
    if (d->m.state == MIGRATION_POSTCOPY && !d->completed) {
        advise_postcopy(d);
        destination_end(d, MIGRATION_ATTENTION);
    }
    /* else: cont is answered first, see now_runs(); or the guest is whole here
     * and finish or the tick ends it */
}

static void grace_cb(void *arg)
{
    struct destination *d = arg;
    struct error err;

    if (migration_soft_take(&d->m, &err)) {
        destination_fail(d, &err);
    }
    if (d->m.state == MIGRATION_CANCELLING && !d->monitor.qmp) {
        destination_undo(d, false);
    }
}

void destination_fail_softly(struct destination *d, const struct error *err)
{
    if (d->m.state == MIGRATION_CANCELLING) {
        destination_fail(d, err);
    } else {
        migration_soft_set(&d->m, err);
    }
}

void destination_failf(struct destination *d, enum error_code code,
                       const char *format, ...)
{
    struct error err = ERROR_INIT;
    char text[sizeof(err.text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    error_set(&err, code, "%s", text);
    destination_fail(d, &err);
}

int destination_cancel(struct destination *d, const struct error *why,
                       struct error *err)
{
    if (d->m.started) {
        return error_set(err, ERR_TOO_LATE,
                         "migration %s is %s: the guest belongs to this host",
                         d->m.request.id, migration_state_name(d->m.state));
    }
    destination_fail(d, why);
    return 0;
}

void destination_supersede(struct destination *d, const char *by)
{
    struct error err = ERROR_INIT;

    if (d->m.started || migration_state_is_end(d->m.state)) {
        return;
    }
    error_set(&err, ERR_CANCELLED,
              "the source has given it up and sends the guest anew, as "
              "migration %s",
              by);
    if (!d->m.failure.is_set) {
        migration_note_failure(&d->m, MIGRATION_SOURCE, &err);
    }
    d->ended_by_source = true;
    destination_undo(d, true);
}

static void listen_asked(struct destination *d, struct peer_request *request)
{
    if (d->listen || d->incoming_sent || d->m.state != MIGRATION_CONNECTING) {
        refuse_request(request, ERR_CONFLICT,
                       "migration.listen: not now, or asked twice");
        return;
    }
    d->listen = request;
    destination_listen(d);
}

void destination_on_request(struct destination *d, struct peer_request *request)
{
    const char *method = peer_request_method(request);

    d->heard_at = loop_now(d->m.env->control);
    if (!strcmp(method, "migration.await")) {
        await_news(d, request);
    } else if (!strcmp(method, "migration.abort")) {
        destination_abort(d, request);
    } else if (!strcmp(method, "migration.commit")) {
        destination_commit(d, request);
    } else if (!strcmp(method, "migration.finish")) {
        destination_finish(d, request);
    } else if (!strcmp(method, "migration.listen")) {
        listen_asked(d, request);
    } else if (!strcmp(method, "migration.active")) {
        destination_source_active(d);
        peer_request_reply(request, NULL);
    } else if (!strcmp(method, "migration.prove")) {
        destination_prove(d, request);
    } else {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_UNSUPPORTED, "%s: no such request", method);
        peer_request_fail(request, &err);
    }
}
