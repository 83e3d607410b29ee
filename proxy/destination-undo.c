// SPDX-License-Identifier: BSD-3-Clause
/* The destination's end: bound never to start, and everything back. */
#include "proxy/destination-private.h"
#include "qmp/json-value.h"

/* Whether QEMU holds more than a part of the guest. */
static bool is_loaded(const struct destination *d)
{
    return d->prepared || d->completed || d->m.postcopy;
}

static void advise_copy(struct destination *d)
{
    migration_advise(&d->m, "a loaded, paused copy of the guest is in this "
                            "QEMU: never resume it unless the source's QEMU is "
                            "surely gone");
}

static void end_undo(struct destination *d)
{
    if (migration_state_is_end(d->m.state)) {
        return;
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

void destination_undo_late(struct destination *d)
{
    d->awaits_abort = false;
    if (!is_loaded(d) && d->incoming_sent && !d->quit_sent && d->monitor.qmp &&
        qmp_is_ready(d->monitor.qmp)) {
        destination_deadline(d, "undoing", destination_qmp_timeout(d));
        destination_undo(d, true); /* nothing is in this QEMU */
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
    struct error err = ERROR_INIT;

    d->undoing = true;
    d->awaits_abort = d->m.state != MIGRATION_PREPARING;
    if (d->m.state == MIGRATION_CANCELLING) { /* taken over, or cont failed */
        migration_save(&d->m);
    } else if (migration_commit_state(&d->m, MIGRATION_CANCELLING, &err)) {
        migration_log(&d->m, LOG_LEVEL_ERROR, "%s", err.text);
        d->m.state = MIGRATION_CANCELLING;
    }
    loop_timer_stop(&d->loaded);
    /* the source may need its own cancel-timeout before it tells */
    destination_deadline(d, "undoing", 2 * d->m.env->conf->cancel_timeout);
    destination_refuse(d, &d->prepare);
    destination_refuse(d, &d->listen);
    destination_news(d); /* the cause, before its effects */
    migration_drop_carrier(&d->m, d->m.failure.error.text);
}

void destination_undo(struct destination *d, bool quit)
{
    d->m.will_not_start = true;
    d->m.guest_is_on = MIGRATION_SOURCE;
    if (!d->undoing) {
        begin_undo(d);
    }
    if (d->undone ||
        (!d->monitor.qmp && !loop_timer_is_running(&d->monitor.again)) ||
        (!d->incoming_sent && !d->m.caps_changed)) {
        undo_done(d); /* nothing is there, or nothing was changed */
    } else if (!d->monitor.qmp || !qmp_is_ready(d->monitor.qmp)) {
        return; /* on_ready or on_closed comes */
    } else if (d->incoming_sent && quit) {
        /* this QEMU holds at most a copy that must never run */
        d->quit_sent = true;
        qmp_migrate_quit(d->monitor.qmp, destination_qmp_timeout(d),
                         on_undo_restored, d);
    } else if (d->incoming_sent) {
        return; /* the source's abort comes, or QEMU ends, or the deadline */
    } else {
        qmp_caps_restore(d->monitor.qmp, d->m.caps, destination_qmp_timeout(d),
                         on_undo_restored, d);
    }
}

void destination_abort(struct destination *d, struct peer_request *request)
{
    json_object *params = peer_request_params(request);
    const char *class = "cancelled", *text = "the source gave up",
               *side = MIGRATION_SOURCE;
    struct error err = ERROR_INIT;
    bool effect = false, keep = false;

    if (d->m.started) {
        error_set(&err, ERR_TOO_LATE,
                  "migration.abort: the guest was started here");
        peer_request_fail(request, &err);
        return;
    }
    json_value_text(params, "class", &class);
    json_value_text(params, "message", &text);
    json_value_text(params, "side", &side);
    json_value_bool(params, "cancelled", &d->m.cancelled);
    json_value_bool(params, "attention", &d->attention);
    json_value_bool(params, "effect", &effect);
    error_set(&err, error_code_of_class(class), "%s", text);
    keep = d->attention && is_loaded(d) && d->monitor.qmp;
    json_object *result = json_object_new_object();
    json_object_object_add(result, "kept", json_object_new_boolean(keep));
    if (effect && d->m.failure.is_set && !d->m.failure.is_effect) {
        json_object_object_add(result, "error", destination_failure_to_json(d));
    } else {
        /* what was seen here first may be an effect; the source knows */
        d->m.failure.is_set = false;
        migration_note_failure(&d->m, side, &err);
    }
    d->ended_by_source = true;
    peer_request_reply(request, result);
    if (keep) {
        d->m.will_not_start = true;
        begin_undo(d);
        advise_copy(d);
        end_undo(d);
    } else {
        destination_undo(d, true);
    }
}
