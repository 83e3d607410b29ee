// SPDX-License-Identifier: BSD-3-Clause
/* The source's end: everything back to where it was.
 *
 * Only before COMMIT (or after the destination's binding no), so the
 * destination never runs whatever happens here. In order: QEMU's migration is
 * ended, the guest runs again if it ran, capabilities are put back, the
 * destination is told, the lanes close. */
#include <stdio.h>
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/source-private.h"
#include "qmp/json-value.h"

#define ABORT_CALL (3 * MP_SECOND)
#define CANCEL_PATIENCE (2 * MP_SECOND) /* before the sockets are closed */
/* of that, before a multifd migration is cancelled in setup */
#define SETUP_PATIENCE (1 * MP_SECOND)

static void ignore_cb(void *arg, const struct error *err)
{
}

/* Without a QEMU here nobody has the guest, unless a whole copy of it has
 * arrived there. */
static void guest_lost(struct source *s)
{
    s->m.guest_is_on = "unknown";
    migration_advise(
        &s->m, s->copy_there ? ADVICE_COPY_PERHAPS : ADVICE_SOURCE_LOST, NULL);
    source_end(s, MIGRATION_ATTENTION);
}

static bool is_qemu_lost(const struct source *s)
{
    return s->unsure || (!s->monitor.qmp && (s->migrate_sent || s->m.qemu_pid));
}

static void undo_end(struct source *s)
{
    if (s->lost_here) {
        guest_lost(s);
        return;
    }
    s->m.postcopy = false; /* ordered perhaps, but it did not come to it */
    if (s->untouched && is_qemu_lost(s)) { /* it ended with its guest */
        s->m.guest_is_on = "unknown";
    } else if (!s->m.refused) { /* preflight may have found it elsewhere */
        s->m.guest_is_on = MIGRATION_SOURCE;
    }
    source_end(s, s->m.cancelled ? MIGRATION_CANCELLED : MIGRATION_FAILED);
}

void source_told(struct source *s, json_object *result, const struct error *err)
{
    json_object *failure;
    struct error why = ERROR_INIT;

    s->m.unsettled = err && peers_is_unheard(err);
    if (!err && s->m.failure.is_effect &&
        json_value_object(result, "error", &failure)) {
        const char *side =
            error_json_read(failure, MIGRATION_DESTINATION, &why);
        migration_note_failure(&s->m, side, &why);
    }
}

static void on_aborted(void *arg, json_object *result, const struct error *err)
{
    struct source *s = arg;

    source_told(s, result, err);
    if (err) {
        migration_log(&s->m, LOG_LEVEL_WARNING,
                      "the destination could not be told (it never starts "
                      "without COMMIT): %s",
                      err->text);
    } else {
        json_value_bool(result, "kept", &s->copy_there);
    }
    undo_end(s);
}

static void tell_destination(struct source *s)
{
    if (s->telling) {
        return;
    }
    s->telling = true;
    /* what comes later is another story, and so is a QEMU that ended before
     * anything was asked of it: nobody else has anything of its guest */
    s->lost_here = is_qemu_lost(s) && !s->untouched;
    loop_timer_stop(&s->poll);
    if (s->prepared_there) {
        source_tell_abort(s, s->lost_here, on_aborted);
    } else {
        undo_end(s);
    }
}

void source_tell_abort(struct source *s, bool attention, peer_cb cb)
{
    json_object *params = source_params(s);
    error_json_add(params, &s->m.failure.error, s->m.failure.side);
    json_object_object_add(params, "cancelled",
                           json_object_new_boolean(s->m.cancelled));
    json_object_object_add(params, "refused",
                           json_object_new_boolean(s->m.refused));
    json_object_object_add(params, "attention",
                           json_object_new_boolean(attention));
    json_object_object_add(params, "effect",
                           json_object_new_boolean(s->m.failure.is_effect));
    s->m.unsettled = true; /* until it has answered */
    source_call(s, "migration.abort", params, ABORT_CALL, cb);
}

static void on_restored(void *arg, const struct error *err)
{
    struct source *s = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (err) {
        migration_log(&s->m, LOG_LEVEL_WARNING,
                      "source QEMU, putting capabilities back: %s", err->text);
    } else {
        s->m.caps_changed = false;
    }
    tell_destination(s);
}

static void restore(struct source *s)
{
    if (s->restoring) {
        return;
    }
    s->restoring = true;
    loop_timer_stop(&s->poll);
    if (s->monitor.qmp && s->m.caps && s->m.caps_changed) {
        qmp_caps_restore(s->monitor.qmp, s->m.caps, source_qmp_timeout(s),
                         on_restored, s);
    } else {
        tell_destination(s);
    }
}

static void on_cont(void *arg, const struct error *err)
{
    struct source *s = arg;

    if (err && err->code != ERR_CANCELLED) {
        struct error why = *err;
        error_wrap(&why, "source QEMU, resuming the guest");
        migration_note_failure(&s->m, MIGRATION_SOURCE, &why);
        migration_advise(&s->m, ADVICE_SOURCE_STOPPED, NULL);
    }
    if (!err || err->code != ERR_CANCELLED) {
        restore(s);
    }
}

/* QEMU's migration is over; is the guest as it was? */
static void on_run_status(void *arg, const struct qmp_run_status *status,
                          const struct error *err)
{
    struct source *s = arg;

    if (err) {
        if (err->code != ERR_CANCELLED) {
            struct error why = *err;
            error_wrap(&why, "source QEMU");
            migration_note_failure(&s->m, MIGRATION_SOURCE, &why);
            s->unsure = true;
            restore(s);
        }
        return;
    }
    if (status->running || !s->m.should_run) {
        restore(s);
        return;
    }
    if (!strcmp(status->text, "finish-migrate") &&
        loop_now(s->m.env->control) - s->undo_began <
            s->m.env->conf->cancel_timeout) {
        return; /* QEMU is about to resume it; the poll timer asks again */
    }
    migration_log(&s->m, LOG_LEVEL_INFO, "the guest is %s: resuming it",
                  status->text);
    s->cont_sent = true;
    qmp_migrate_cont(s->monitor.qmp, source_qmp_timeout(s), on_cont, s);
}

static void ask_run_status(struct source *s);

/* A path that broke because this QEMU gave up: its own reason is better. */
static void on_reason(void *arg, const struct qmp_migrate_info *info,
                      const struct error *err)
{
    struct source *s = arg;
    struct migration_failure *failure = &s->m.failure;

    if (!err && failure->is_effect && info->status == QMP_MIGRATE_FAILED &&
        info->error_desc[0] &&
        !strcmp(migration_side_of(&failure->error, MIGRATION_DESTINATION),
                MIGRATION_SOURCE)) { /* it is named as who broke it */
        error_set(&failure->error, ERR_QEMU_FAILED,
                  "source QEMU ended the migration: failed: %s",
                  info->error_desc);
    }
}

static void settle(struct source *s)
{
    if (s->settled) {
        return;
    }
    s->settled = true;
    source_deadline_stop(s);
    migration_drop_carrier(&s->m, &s->m.failure.error);
    if (!s->monitor.qmp) {
        tell_destination(s);
    } else if (!s->migrate_sent) {
        restore(s); /* if the guest stands still, not because of us */
    } else {
        if (s->m.failure.is_effect) {
            qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s), on_reason,
                              s);
        }
        ask_run_status(s);
    }
}

static void ask_run_status(struct source *s)
{
    if (!s->cont_sent && !s->restoring) {
        qmp_migrate_query_status(s->monitor.qmp, source_qmp_timeout(s),
                                 on_run_status, s);
    }
}

static bool is_setting_up_multifd(const struct source *s)
{
    return s->m.request.multifd &&
           (s->status == QMP_MIGRATE_NONE || s->status == QMP_MIGRATE_SETUP);
}

/* QEMU 7.2's migration thread waits for each channel in setup, without end for
 * one that was told to quit (multifd_send_sync_main(); migration/multifd.c of
 * 7.2): cancelled there it is "cancelling" for ever, and can never migrate
 * again. So it is let through setup first, if that takes but a moment. */
static void cancel(struct source *s)
{
    mp_time now = loop_now(s->m.env->control);

    if (s->cancel_sent ||
        (is_setting_up_multifd(s) && now - s->undo_began < SETUP_PATIENCE)) {
        return;
    }
    s->cancel_sent = true;
    qmp_migrate_cancel(s->monitor.qmp, source_qmp_timeout(s), ignore_cb, s);
}

static void on_undo_info(void *arg, const struct qmp_migrate_info *info,
                         const struct error *err)
{
    struct source *s = arg;

    s->polling = false;
    if (err || s->m.state != MIGRATION_CANCELLING) {
        return;
    }
    s->status = info->status;
    if (info->status == QMP_MIGRATE_NONE ||
        qmp_migrate_status_is_final(info->status)) {
        settle(s);
    } else {
        cancel(s);
    }
}

/* QEMU does not end its migration: it is blocked in a write, or its answer is
 * late. Closing its sockets and yank are the ways out that always work. */
static void force(struct source *s)
{
    migration_log(&s->m, LOG_LEVEL_WARNING,
                  "source QEMU does not end its migration: closing its "
                  "sockets");
    s->path_dead = true;
    migration_drop_carrier(&s->m, &s->m.failure.error);
    if (s->facts.probe.can[QMP_CAN_YANK]) {
        qmp_migrate_yank(s->monitor.qmp, source_qmp_timeout(s), ignore_cb, s);
    }
}

/* Called with every sign of life while cancelling, and by the poll timer. */
void source_undo_status(struct source *s)
{
    mp_time now = loop_now(s->m.env->control);

    if (s->settled) {
        if (s->monitor.qmp) {
            ask_run_status(s);
        } else {
            tell_destination(s); /* nothing more can be done for QEMU */
        }
        return;
    }
    if (!s->monitor.qmp) {
        if (!loop_timer_is_running(&s->monitor.again)) {
            settle(s);
        }
        return;
    }
    if (!s->migrate_sent && !s->m.caps_changed) {
        tell_destination(s); /* nothing was changed here */
        return;
    }
    if (!qmp_is_ready(s->monitor.qmp)) {
        return; /* taken over: on_ready or on_closed comes */
    }
    if (!s->migrate_sent || qmp_migrate_status_is_final(s->status)) {
        settle(s);
        return;
    }
    if (now - s->undo_began > s->m.env->conf->cancel_timeout) {
        migration_advise(&s->m, ADVICE_SOURCE_BUSY, NULL);
        settle(s);
        return;
    }
    if (now - s->undo_began > CANCEL_PATIENCE) {
        if (s->m.carrier) {
            force(s);
        }
        if (s->status == QMP_MIGRATE_CANCELLING) {
            qmp_migrate_continue_cancelled(s->monitor.qmp,
                                           source_qmp_timeout(s), ignore_cb, s);
        }
    }
    if (!s->polling) {
        s->polling = true;
        qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s), on_undo_info,
                          s);
    }
}

void source_undo(struct source *s)
{
    s->undo_began = loop_now(s->m.env->control);
    s->untouched = s->m.state == MIGRATION_PREPARING;
    s->proving = false;
    s->polling = false;
    source_deadline_stop(s);
    source_drop_lanes(s);
    source_drop_calls(s);
    s->awaiting = false;
    migration_soft_drop(&s->m);               /* its cause is known */
    if (s->m.state != MIGRATION_CANCELLING) { /* else: taken over in it */
        migration_set_state(&s->m, MIGRATION_CANCELLING);
    }
    if (s->monitor.qmp && s->migrate_sent && qmp_is_ready(s->monitor.qmp) &&
        !qmp_migrate_status_is_final(s->status)) {
        cancel(s);
    }
    loop_timer_start(&s->poll, SOURCE_POLL);
    source_undo_status(s);
}
