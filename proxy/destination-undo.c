// SPDX-License-Identifier: BSD-3-Clause
/* The destination's end: bound never to start, and everything back. */
#include "proxy/destination-private.h"
#include "proxy/error-json.h"
#include "qmp/json-value.h"

#define LOOK_INTERVAL (20 * MP_MS)
#define LOOK_LIMIT (1 * MP_SECOND) /* the source waits for the answer */

/* Whether QEMU holds more than a part of the guest. */
static bool is_loaded(const struct destination *d)
{
    return d->prepared || d->completed || d->m.postcopy;
}

static void advise_copy(struct destination *d)
{
    bool is_whole = d->completed || (d->prepared && !d->m.postcopy);

    migration_advise(&d->m,
                     is_whole        ? ADVICE_COPY
                     : d->m.postcopy ? ADVICE_IN_DOUBT
                                     : ADVICE_COPY_PERHAPS,
                     NULL);
}

void destination_answer_abort(struct destination *d)
{
    json_object *result;

    if (!d->abort) {
        return;
    }
    result = json_object_new_object();
    json_object_object_add(result, "kept", json_object_new_boolean(d->kept));
    if (d->m.started) {
        json_object_object_add(
            result, "completed",
            json_object_new_boolean(d->completed || !d->m.postcopy));
    }
    if (d->own_cause) {
        json_object_object_add(result, "error", destination_failure_to_json(d));
    }
    peer_request_reply(d->abort, result);
    d->abort = NULL;
}

static void end_undo(struct destination *d)
{
    destination_answer_abort(d);
    if (migration_state_is_end(d->m.state)) {
        return;
    }
    if (d->attention) {
        d->m.guest_is_on = "unknown"; /* only the source knows what it has */
    }
    if (d->attention && !d->m.advice) {
        migration_advise(&d->m, ADVICE_OTHER_HOST, NULL);
    }
    destination_end(d, d->attention     ? MIGRATION_ATTENTION
                       : d->m.cancelled ? MIGRATION_CANCELLED
                                        : MIGRATION_FAILED);
}

/* Nothing is left to do for QEMU. A source that knows this end tells what
 * became of the migration, so that both ends say the same. */
static void undo_done(struct destination *d)
{
    d->undone = true;
    if (d->ended_by_source || !d->awaits_abort) {
        end_undo(d);
    }
}

static void on_undo_restored(void *arg, const struct error *err)
{
    struct destination *d = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (err && err->code != ERR_QEMU_GONE) {
        migration_log(&d->m, LOG_LEVEL_WARNING,
                      "destination QEMU, putting capabilities back: %s",
                      err->text);
    }
    undo_done(d);
}

/* A copy that nobody else may have ----------------------------------------
 *
 * Where the source has lost its QEMU, or did not say what it has, this QEMU is
 * not ended before it has said that it does not hold all of the guest. It may
 * be reading the last of it just now, and its news may be on their way.
 */

static void keep_copy(struct destination *d)
{
    d->kept = true;
    advise_copy(d);
    end_undo(d);
}

static void on_quit(void *arg, const struct error *err)
{
    struct destination *d = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (err && err->code != ERR_QEMU_GONE) {
        migration_advise(&d->m, ADVICE_NO_QUIT, err->text);
    }
    undo_done(d);
}

static void quit(struct destination *d)
{
    /* this QEMU holds at most a copy that must never run */
    d->quit_sent = true;
    qmp_migrate_quit(d->monitor.qmp, destination_qmp_timeout(d), on_quit, d);
    destination_answer_abort(d);
}

static void on_look(void *arg, const struct qmp_migrate_info *info,
                    const struct error *err)
{
    struct destination *d = arg;

    if ((err && (err->code == ERR_CANCELLED || err->code == ERR_QEMU_GONE)) ||
        d->m.state != MIGRATION_CANCELLING || !d->monitor.qmp) {
        return; /* over, or QEMU is gone: that ends it too */
    }
    if (!err) {
        d->completed = d->completed || info->status == QMP_MIGRATE_COMPLETED;
        d->m.postcopy =
            d->m.postcopy || qmp_migrate_status_is_postcopy(info->status);
    }
    bool is_loading = !err && (info->status == QMP_MIGRATE_ACTIVE ||
                               info->status == QMP_MIGRATE_DEVICE);
    if (is_loaded(d) || err) {
        keep_copy(d);
    } else if (is_loading && loop_now(d->m.env->control) < d->look_until) {
        loop_timer_start(&d->loaded, LOOK_INTERVAL); /* its path is closed */
    } else if (is_loading) {
        keep_copy(d);
    } else {
        quit(d);
    }
}

void destination_look(struct destination *d)
{
    if (d->monitor.qmp) {
        qmp_migrate_query(d->monitor.qmp, LOOK_LIMIT, on_look, d);
    }
}

static void begin_look(struct destination *d)
{
    if (!d->look_until) {
        d->look_until = loop_now(d->m.env->control) + LOOK_LIMIT;
        destination_look(d);
    }
}

void destination_undo_late(struct destination *d)
{
    bool was_told = d->ended_by_source;

    d->awaits_abort = false;
    if (!was_told && !d->look_until && !is_loaded(d) && d->incoming_sent &&
        d->monitor.qmp && qmp_is_ready(d->monitor.qmp)) {
        destination_deadline(d, "undoing",
                             2 * LOOK_LIMIT + destination_qmp_timeout(d));
        d->must_look = true;
        destination_undo(d, true);
        return;
    }
    if (is_loaded(d)) {
        advise_copy(d);
    }
    /* a copy that may be all there is of the guest is for a person to see */
    d->attention = d->attention || d->m.postcopy;
    end_undo(d);
}

/* Bound not to start, on disk if that is possible at all. */
static void begin_undo(struct destination *d)
{
    d->undoing = true;
    d->awaits_abort = d->m.state != MIGRATION_PREPARING;
    if (d->m.state == MIGRATION_CANCELLING) { /* taken over, or cont failed */
        migration_save(&d->m);
    } else {
        migration_set_state(&d->m, MIGRATION_CANCELLING);
    }
    loop_timer_stop(&d->loaded);
    /* the source may need its own cancel-timeout before it tells */
    destination_deadline(d, "undoing", 2 * d->m.env->conf->cancel_timeout);
    destination_refuse(d, &d->prepare);
    destination_refuse(d, &d->listen);
    destination_news(d); /* the cause, before its effects */
    migration_drop_carrier(&d->m, &d->m.failure.error);
}

void destination_undo(struct destination *d, bool may_quit)
{
    d->m.will_not_start = true;
    d->m.guest_is_on = MIGRATION_SOURCE;
    if (!d->undoing) {
        begin_undo(d);
    }
    d->may_quit = d->may_quit || may_quit;
    if (d->undone ||
        (!d->monitor.qmp && !loop_timer_is_running(&d->monitor.again)) ||
        (!d->incoming_sent && !d->m.caps_changed)) {
        undo_done(d); /* nothing is there, or nothing was changed */
    } else if (!d->monitor.qmp || !qmp_is_ready(d->monitor.qmp) ||
               d->quit_sent || d->restoring) {
        return; /* on_ready or on_closed comes, or the answer */
    } else if (d->incoming_sent && d->may_quit) {
        if (!d->must_look) {
            quit(d);
        } else if (is_loaded(d)) {
            keep_copy(d);
        } else {
            begin_look(d);
        }
    } else if (d->incoming_sent) {
        return; /* the source's abort comes, or QEMU ends, or the deadline */
    } else {
        d->restoring = true;
        qmp_caps_restore(d->monitor.qmp, d->m.caps, destination_qmp_timeout(d),
                         on_undo_restored, d);
    }
}

/* What was seen here first may be an effect; the source knows better. */
static void take_cause(struct destination *d, json_object *params)
{
    struct error err = ERROR_INIT;
    bool effect = false;
    const char *side = error_json_read(params, MIGRATION_SOURCE, &err);

    json_value_bool(params, "effect", &effect);
    d->own_cause = effect && d->m.failure.is_set && !d->m.failure.is_effect;
    if (!d->own_cause) {
        migration_take_failure(&d->m, side, &err, effect);
    }
}

void destination_take_late_cause(struct destination *d)
{
    if (d->late_abort) {
        take_cause(d, d->late_abort);
    }
}

/* Is the guest whole here? An event may be on its way, or was lost. */
static void on_whole(void *arg, const struct qmp_migrate_info *info,
                     const struct error *err)
{
    struct destination *d = arg;

    if ((err && err->code == ERR_CANCELLED) ||
        d->m.state != MIGRATION_POSTCOPY) {
        return;
    }
    if (!err && info->status == QMP_MIGRATE_COMPLETED) {
        d->completed = true;
        destination_answer_abort(d);
        destination_news(d);
    } else { /* it has a moment to say that it is */
        migration_soft_set(&d->m, &d->m.failure.error);
    }
}

/* The guest was started here, and no more of it comes. */
static void abort_late(struct destination *d, struct peer_request *request)
{
    json_object *params = peer_request_params(request);
    struct error err = ERROR_INIT;
    bool attention = false;

    json_value_bool(params, "attention", &attention);
    if (!attention) {
        error_set(&err, ERR_TOO_LATE,
                  "migration.abort: the guest was started here");
        peer_request_fail(request, &err);
        return;
    }
    destination_answer_abort(d); /* one that is asked again */
    d->abort = request;
    if (!d->m.postcopy || d->completed) {
        /* QEMU may yet say that the guest runs; if it does not, this is why */
        json_object_put(d->late_abort);
        d->late_abort = json_object_get(params);
        destination_answer_abort(d);
        return;
    }
    take_cause(d, params);
    if (d->m.state == MIGRATION_POSTCOPY && d->monitor.qmp && !d->restarted) {
        qmp_migrate_query(d->monitor.qmp, destination_qmp_timeout(d), on_whole,
                          d);
    } /* else: it is answered at this end's own end, which is near */
}

void destination_abort(struct destination *d, struct peer_request *request)
{
    json_object *params = peer_request_params(request);

    if (d->m.started) {
        abort_late(d, request);
        return;
    }
    json_value_bool(params, "cancelled", &d->m.cancelled);
    json_value_bool(params, "refused", &d->m.refused);
    json_value_bool(params, "attention", &d->attention);
    take_cause(d, params);
    d->ended_by_source = true;
    d->must_look = d->attention;
    destination_answer_abort(d); /* one that is asked again */
    d->abort = request;
    destination_undo(d, true);
    if (!d->must_look || !d->incoming_sent) {
        destination_answer_abort(d); /* what is left is no news to the source */
    }
}
