// SPDX-License-Identifier: BSD-3-Clause
/* The source's end of a migration: life, deadlines, failures. */
#include "proxy/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/source-private.h"
#include "qmp/json-value.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/path.h"

mp_time source_qmp_timeout(const struct source *s)
{
    return s->m.env->conf->qmp_timeout;
}

struct migration *source_migration(struct source *source)
{
    return &source->m;
}

void source_drop_calls(struct source *s)
{
    peers_drop_calls(s->m.env->peers, s);
    peers_drop_calls(s->m.env->peers, &s->proof_seq);
}

static void deadline_cb(void *arg)
{
    struct source *s = arg;
    struct error err = ERROR_INIT;
    char limit[32];

    if (s->m.state == MIGRATION_POSTCOPY &&
        (s->source_completed || s->news.completed)) {
        source_commit_complete(s); /* see source_on_news() */
        return;
    }
    if (s->doubting) {
        source_attention(s);
        return;
    }
    error_set(&err, ERR_TIMEOUT, "%s was not over within %s", s->deadline_name,
              parse_format_duration(s->deadline_limit, limit, sizeof(limit)));
    source_fail(s, MIGRATION_SOURCE, &err);
}

void source_deadline(struct source *s, const char *name, mp_time limit)
{
    s->deadline_name = name;
    s->deadline_limit = limit;
    loop_timer_start(&s->deadline, limit);
}

void source_deadline_stop(struct source *s)
{
    loop_timer_stop(&s->deadline);
}

static struct source *source_new(const struct migration_env *env,
                                 const struct api_migrate *request,
                                 struct error *err)
{
    struct source *s = calloc(1, sizeof(*s));

    if (!s) {
        error_set(err, ERR_NO_MEMORY, "migration %s: out of memory",
                  request->id);
        return NULL;
    }
    migration_init(&s->m, env, true, request);
    loop_timer_init(&s->deadline, env->control, deadline_cb, s);
    loop_timer_init(&s->poll, env->control, source_poll_cb, s);
    loop_timer_init(&s->retry, env->control, source_retry_cb, s);
    migration_soft_init(&s->m, source_grace_cb, s);
    loop_timer_init(&s->proof_timer, env->control, source_proof_late, s);
    return s;
}

struct source *source_start(const struct migration_env *env,
                            const struct api_migrate *request,
                            struct error *err)
{
    struct source *s;
    CLEANUP_FREE char *path = NULL;

    const struct conf_peer *peer = conf_find_peer(env->conf, request->peer);
    if (!peer) {
        error_set(err, ERR_PEER_UNKNOWN,
                  "peer \"%s\": the configuration has no [peer \"%s\"]",
                  request->peer, request->peer);
        return NULL;
    }
    if (!(peer->allow & CONF_ALLOW_RECEIVE)) {
        error_set(err, ERR_FORBIDDEN,
                  "peer %s may not receive guests of this host: [peer \"%s\"] "
                  "has no \"receive\" in allow",
                  request->peer, request->peer);
        return NULL;
    }
    if (request->qmp_path[0]) {
        path = strdup(request->qmp_path);
    } else if (path_expand_vm(env->conf->qmp_path, request->vm, &path, err)) {
        return NULL;
    }
    s = source_new(env, request, err);
    if (!s) {
        return NULL;
    }
    snprintf(s->m.qmp_path, sizeof(s->m.qmp_path), "%s", path ? path : "");
    s->m.should_run = true;
    if (source_prepare(s, err)) {
        source_free(s);
        return NULL;
    }
    return s;
}

struct source *source_take_over(const struct migration_env *env,
                                const struct api_migrate *request,
                                json_object *record, struct error *err)
{
    struct source *s = source_new(env, request, err);
    struct error why = ERROR_INIT;

    if (!s) {
        return NULL;
    }
    if (migration_from_record(&s->m, record, err)) {
        source_free(s);
        return NULL;
    }
    s->taken_over = true;
    s->prepared_there = true;
    s->path_dead = true;
    s->migrate_sent = s->m.state >= MIGRATION_SETUP;
    migration_log(&s->m, LOG_LEVEL_WARNING, "taken over in state %s",
                  migration_state_name(s->m.state));
    bool gone = monitor_open(&s->monitor, env->control, env->conf,
                             s->m.qmp_path, &source_qmp_ops, s, &why);
    if (gone) {
        migration_log(&s->m, LOG_LEVEL_WARNING, "the source's QEMU: %s",
                      why.text);
    }
    error_set(&why, ERR_DAEMON_RESTARTED,
              "the source's daemon was restarted in the middle of the "
              "migration");
    migration_note_failure(&s->m, MIGRATION_SOURCE, &why);
    if (s->m.state == MIGRATION_COMMITTING ||
        s->m.state == MIGRATION_COMPLETING) {
        s->m.failure.is_set = false; /* it can still end well */
        source_commit_take_over(s);
    } else if (s->m.state == MIGRATION_CANCELLING ||
               migration_state_can_undo(s->m.state, s->m.postcopy)) {
        source_undo(s);
    } else if (s->m.state == MIGRATION_SWITCHOVER && !gone) {
        /* QEMU is asked as soon as it lets this process in */
        s->doubting = true;
        source_deadline(s, "doubt",
                        env->conf->qmp_greeting + env->conf->switchover_hold +
                            env->conf->qmp_timeout);
    } else {
        source_attention(s);
    }
    return s;
}

void source_free(struct source *s)
{
    if (!s) {
        return;
    }
    source_drop_calls(s);
    loop_timer_done(&s->deadline);
    loop_timer_done(&s->poll);
    loop_timer_done(&s->retry);
    migration_soft_done(&s->m);
    loop_timer_done(&s->proof_timer);
    source_drop_lanes(s);
    migration_drop_carrier(&s->m, NULL);
    monitor_close(&s->monitor);
    facts_done(&s->facts);
    free(s->small_pages);
    migration_done(&s->m);
    free(s);
}

void source_end(struct source *s, enum migration_state state)
{
    source_deadline_stop(s);
    loop_timer_stop(&s->poll);
    loop_timer_stop(&s->retry);
    migration_soft_drop(&s->m);
    loop_timer_stop(&s->proof_timer);
    source_drop_calls(s);
    source_drop_lanes(s);
    migration_drop_carrier(&s->m,
                           s->m.failure.is_set ? &s->m.failure.error : NULL);
    monitor_close(&s->monitor);
    if (state == MIGRATION_COMPLETED) {
        s->m.failure.is_set = false; /* what was said before it went well */
        s->m.unsettled = false;
    }
    migration_set_state(&s->m, state);
    s->m.env->on_end(s->m.env->arg, &s->m);
}

static void on_given_up(void *arg, json_object *result, const struct error *err)
{
    source_told(arg, result, err);
    source_end(arg, MIGRATION_ATTENTION);
}

static enum advice_kind advice_of(const struct source *s)
{
    bool gone = s->m.failure.error.code == ERR_QEMU_GONE;
    bool there = !strcmp(s->m.failure.side, MIGRATION_DESTINATION);

    /* sockets that are closed are not the end: migrate-pause does that */
    if (s->m.postcopy && gone && !there && !s->monitor.qmp) {
        return ADVICE_SOURCE_ENDED;
    }
    if (s->m.started && gone && there) {
        return s->m.postcopy ? ADVICE_DESTINATION_PERHAPS_ENDED
                             : ADVICE_DESTINATION_ENDED;
    }
    if (!s->m.committed) {
        return ADVICE_IN_DOUBT;
    }
    return s->m.postcopy ? ADVICE_SPREAD : ADVICE_NOT_ANSWERED;
}

/* The guest may be on either side, or nowhere whole: touch nothing more. The
 * destination hears why, and where no COMMIT was given that none comes. */
void source_attention(struct source *s)
{
    s->m.guest_is_on = s->m.started ? MIGRATION_DESTINATION : "unknown";
    if (!s->m.advice) {
        migration_advise(&s->m, advice_of(s), NULL);
    }
    if (!s->giving_up && !s->told_late && s->prepared_there) {
        s->giving_up = true;
        source_deadline_stop(s);
        source_tell_abort(s, true, on_given_up);
    } else {
        source_end(s, MIGRATION_ATTENTION);
    }
}

/* A postcopy that QEMU itself gave up before it was one: without COMMIT the
 * destination never runs, and the source's memory is whole. */
static bool qemu_took_back(const struct source *s)
{
    return s->m.state == MIGRATION_SWITCHOVER && !s->m.committed &&
           (s->status == QMP_MIGRATE_FAILED ||
            s->status == QMP_MIGRATE_CANCELLED);
}

/* A migration that completed as a precopy. A successor has not seen how QEMU
 * went there, but QEMU counts what it sent in postcopy. */
static bool is_whole_precopy(const struct source *s,
                             const struct qmp_migrate_info *info)
{
    return info->status == QMP_MIGRATE_COMPLETED &&
           (s->taken_over
                ? info->has_phase_bytes && info->ram_postcopy_bytes == 0
                : !qmp_migrate_status_is_postcopy(s->status));
}

/* ... or that never began. Only QEMU's answer from after the failure tells.
 * What an earlier daemon sent on its connection QEMU has done, or dropped, when
 * it lets the next one in. */
static bool never_left(const struct source *s,
                       const struct qmp_migrate_info *info)
{
    return !s->m.committed &&
           (((s->continue_refused || s->taken_over) &&
             info->status == QMP_MIGRATE_PRE_SWITCHOVER) ||
            is_whole_precopy(s, info) ||
            migration_state_can_undo(s->m.state, s->m.postcopy));
}

/* Did QEMU take the guest back, or has the package left? It may need a moment
 * itself to find out. */
static void on_doubt(void *arg, const struct qmp_migrate_info *info,
                     const struct error *err)
{
    struct source *s = arg;
    mp_time now = loop_now(s->m.env->control);

    if ((err && err->code == ERR_CANCELLED) ||
        s->m.state != MIGRATION_SWITCHOVER || s->giving_up) {
        return;
    }
    bool can_undo = !err && never_left(s, info);
    if (!err && info->status != QMP_MIGRATE_COMPLETED) {
        s->status = info->status;
    }
    if (can_undo || qemu_took_back(s)) {
        s->doubting = false;
        source_undo(s);
    } else if (!err && !qmp_migrate_status_is_postcopy(s->status) &&
               now - s->doubt_began < s->m.env->conf->switchover_hold) {
        loop_timer_start(&s->retry, SOURCE_PROVE_AGAIN);
    } else {
        source_attention(s);
    }
}

void source_ask_doubt(struct source *s)
{
    if (s->monitor.qmp) {
        qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s), on_doubt, s);
    } else {
        source_attention(s);
    }
}

/* The destination has heard of a failure in postcopy. It knows whether the
 * guest is whole there all the same; if not, both have the same cause now. */
static void on_told_late(void *arg, json_object *result,
                         const struct error *err)
{
    struct source *s = arg;
    bool completed = false;

    s->tells_late = false;
    source_told(s, result, err);
    if (err || s->m.state != MIGRATION_POSTCOPY) {
        return; /* its news may still come, or the deadline */
    }
    json_value_bool(result, "completed", &completed);
    if (completed) {
        s->news.completed = true;
        source_on_news(s);
    } else {
        source_attention(s);
    }
}

/* After the point of no return nothing can be undone; what still can happen is
 * that it was not passed, or that the destination ends well by itself. */
static void fail_late(struct source *s)
{
    if (s->m.state == MIGRATION_COMMITTING ||
        s->m.state == MIGRATION_COMPLETING) {
        return; /* these ask the destination until their own deadline */
    }
    if (s->doubting && s->m.state == MIGRATION_SWITCHOVER && !s->monitor.qmp) {
        source_attention(s); /* QEMU was asked, and is gone */
        return;
    }
    if (s->doubting ||
        (s->m.state == MIGRATION_POSTCOPY && s->source_completed)) {
        return; /* an answer comes; every page has left and was taken */
    }
    s->doubting = true;
    s->doubt_began = loop_now(s->m.env->control);
    if (s->m.state == MIGRATION_POSTCOPY) {
        source_deadline(s, "the destination's end of postcopy",
                        s->m.env->conf->switchover_hold);
        source_on_news(s);
        if (s->m.state == MIGRATION_POSTCOPY) {
            s->told_late = true;
            s->tells_late = true;
            source_tell_abort(s, true, on_told_late);
        }
    } else {
        source_deadline_stop(s);
        source_ask_doubt(s);
    }
}

/* Somebody has cancelled it on the destination: that is no failure either, and
 * both ends shall say so. */
static bool is_order_there(const struct source *s, const char *side,
                           const struct error *err)
{
    return err->code == ERR_CANCELLED && !strcmp(side, MIGRATION_DESTINATION) &&
           s->m.state != MIGRATION_CANCELLING;
}

void source_fail(struct source *s, const char *side, const struct error *err)
{
    if (migration_state_is_end(s->m.state)) {
        return;
    }
    if (s->giving_up) {
        return;
    }
    if (is_order_there(s, side, err)) {
        s->m.cancelled = true;
    }
    s->m.refused =
        s->m.refused || (s->m.state == MIGRATION_PREPARING && !s->m.cancelled);
    /* what was ordered is not a failure */
    if (!(s->m.cancelled && s->m.state == MIGRATION_CANCELLING)) {
        /* QEMU may fail of its path, but does not end of it */
        if (s->path_dead && s->monitor.qmp && !strcmp(side, MIGRATION_SOURCE)) {
            migration_note_effect(&s->m, side, err);
        } else {
            migration_note_failure(&s->m, side, err);
        }
    }
    if (s->m.state == MIGRATION_CANCELLING) {
        return; /* being undone already; its own steps see what is gone */
    }
    if (migration_state_can_undo(s->m.state, s->m.postcopy) ||
        qemu_took_back(s)) {
        source_undo(s);
    } else {
        fail_late(s);
    }
}

void source_grace_cb(void *arg)
{
    struct source *s = arg;
    struct error err;

    if (migration_soft_take(&s->m, &err)) {
        source_fail(s, migration_side_of(&err, MIGRATION_SOURCE), &err);
    }
}

/* QEMU fails, or pauses a postcopy, when its path does, and may be heard of
 * first. */
static bool may_be_the_paths(const struct source *s, const struct error *err)
{
    return (err->code == ERR_QEMU_FAILED || err->code == ERR_LINK_LOST) &&
           s->m.carrier && !s->path_dead;
}

void source_no_word(struct source *s)
{
    if (s->m.soft.is_set && !may_be_the_paths(s, &s->m.soft.error)) {
        source_grace_cb(s);
    }
}

void source_fail_softly(struct source *s, const struct error *err)
{
    bool is_waited_for = s->awaiting || may_be_the_paths(s, err);

    if (s->m.state == MIGRATION_CANCELLING || !is_waited_for) {
        source_fail(s, MIGRATION_SOURCE, err);
    } else {
        migration_soft_set(&s->m, err);
    }
}

void source_failf(struct source *s, const char *side, enum error_code code,
                  const char *format, ...)
{
    struct error err = ERROR_INIT;
    char text[sizeof(err.text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    error_set(&err, code, "%s", text);
    source_fail(s, side, &err);
}

int source_cancel(struct source *s, const struct error *why, struct error *err)
{
    if (migration_state_is_end(s->m.state) ||
        s->m.state == MIGRATION_CANCELLING) {
        return 0;
    }
    if (!migration_state_can_undo(s->m.state, s->m.postcopy)) {
        return error_set(err, ERR_TOO_LATE,
                         "migration %s is %s: past the point of no return, the "
                         "guest belongs to the destination",
                         s->m.request.id, migration_state_name(s->m.state));
    }
    s->m.cancelled = true;
    migration_note_failure(&s->m, MIGRATION_SOURCE, why);
    source_undo(s);
    return 0;
}

int source_postcopy(struct source *s, struct error *err)
{
    if (s->m.state > MIGRATION_PRECOPY) {
        return error_set(err, ERR_TOO_LATE,
                         "migration %s is %s; postcopy can be ordered until "
                         "the end of precopy",
                         s->m.request.id, migration_state_name(s->m.state));
    }
    if (!s->m.may_postcopy) {
        return error_set(err, ERR_UNSUPPORTED,
                         "migration %s was started with mode precopy: its "
                         "QEMUs are not set up for postcopy",
                         s->m.request.id);
    }
    s->m.policy.postcopy_asked = true;
    return 0;
}

void source_peer_restarted(struct source *s)
{
    if (s->m.state > MIGRATION_PREPARING && s->m.state < MIGRATION_COMMITTING) {
        source_failf(s, MIGRATION_DESTINATION, ERR_DAEMON_RESTARTED,
                     "the destination's daemon was restarted in the middle of "
                     "the migration");
    }
}
