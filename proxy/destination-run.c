// SPDX-License-Identifier: BSD-3-Clause
/* The destination's end: following QEMU, commit, finish. */
#include <string.h>

#include "proxy/destination-private.h"
#include "qmp/json-value.h"

#define PROVE_QMP (500 * MP_MS)

/* Loading ------------------------------------------------------------------ */

/* The guest is loaded when QEMU no longer says inmigrate. cont before that is
 * accepted by QEMU and starts the guest later by itself, so it is never sent.
 * In postcopy QEMU's main loop may wait for a page just now: an answer that is
 * late is no failure. */
static void on_loaded_status(void *arg, const struct qmp_run_status *status,
                             const struct error *err)
{
    struct destination *d = arg;

    d->asking_loaded = false;
    if (d->m.state != MIGRATION_SWITCHOVER || d->prepared) {
        return;
    }
    if (err && (err->code == ERR_CANCELLED || err->code == ERR_QEMU_GONE)) {
        return;
    }
    if (err || !strcmp(status->text, "inmigrate")) {
        loop_timer_start(&d->loaded, DESTINATION_LOADED_POLL);
        return;
    }
    if (status->running) {
        /* somebody else has resumed it: never ours to commit */
        destination_failf(d, ERR_GUEST_STATE,
                          "the destination QEMU runs the guest although it was "
                          "not told to: another client of its monitor did it. "
                          "Stop one of the two QEMUs now");
        return;
    }
    d->prepared = true;
    migration_save(&d->m);
    destination_news(d);
}

void destination_loaded_cb(void *arg)
{
    struct destination *d = arg;

    if (d->m.state == MIGRATION_CANCELLING) {
        destination_look(d);
        return;
    }
    if (d->monitor.qmp && !d->asking_loaded && !d->prepared &&
        d->m.state == MIGRATION_SWITCHOVER) {
        d->asking_loaded = true;
        qmp_migrate_query_status(d->monitor.qmp, destination_qmp_timeout(d),
                                 on_loaded_status, d);
    }
}

static void enter_switchover(struct destination *d)
{
    if (d->m.state == MIGRATION_SETUP) {
        migration_set_state(&d->m, MIGRATION_PRECOPY);
    }
    if (d->m.state == MIGRATION_PRECOPY) {
        migration_set_state(&d->m, MIGRATION_SWITCHOVER);
    }
    destination_loaded_cb(d);
}

static void on_failed_info(void *arg, const struct qmp_migrate_info *info,
                           const struct error *err)
{
    struct destination *d = arg;
    struct error why = ERROR_INIT;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    /* it fails too when the source's end was closed, and then says nothing */
    error_set(&why, ERR_QEMU_FAILED,
              "destination QEMU ended the migration: failed%s%s",
              info && info->error_desc[0] ? ": " : "",
              info ? info->error_desc : "");
    destination_fail_softly(d, &why);
}

/* QEMU has noticed that its path broke, and may be heard of before the path
 * is: that one tells more. */
static void on_paused(struct destination *d)
{
    struct error why = ERROR_INIT;

    error_set(&why, ERR_LINK_LOST,
              "destination QEMU lost its connection in postcopy "
              "(postcopy-paused)");
    if (d->m.carrier && !d->path_dead) {
        migration_soft_set(&d->m, &why);
    } else {
        destination_fail(d, &why);
    }
}

/* This QEMU is active with the first bytes, while the source's still sets its
 * migration up: precopy begins with what is the later. */
static void enter_precopy(struct destination *d)
{
    if (d->m.state == MIGRATION_SETUP && d->source_active &&
        d->status == QMP_MIGRATE_ACTIVE) {
        migration_set_state(&d->m, MIGRATION_PRECOPY);
    }
}

void destination_source_active(struct destination *d)
{
    d->source_active = true;
    enter_precopy(d);
}

static void on_migration_event(struct destination *d,
                               enum qmp_migrate_status status)
{
    d->status = status;
    migration_log(&d->m, LOG_LEVEL_DEBUG, "destination QEMU: %s",
                  qmp_migrate_status_name(status));
    if (d->m.state == MIGRATION_CANCELLING) {
        d->completed = d->completed || status == QMP_MIGRATE_COMPLETED;
    } else if (status == QMP_MIGRATE_ACTIVE && d->m.state == MIGRATION_SETUP) {
        carrier_set_phase(d->m.carrier, MUX_PHASE_PRECOPY);
        enter_precopy(d);
    } else if (status == QMP_MIGRATE_POSTCOPY_ACTIVE && !d->m.started) {
        d->m.postcopy = true;
        carrier_set_phase(d->m.carrier, MUX_PHASE_POSTCOPY);
        enter_switchover(d);
    } else if (status == QMP_MIGRATE_COMPLETED) {
        d->completed = true;
        if (!d->m.started) {
            enter_switchover(d);
        } else {
            destination_answer_abort(d);
            destination_news(d);
        }
    } else if (status == QMP_MIGRATE_POSTCOPY_PAUSED) {
        on_paused(d);
    } else if (status == QMP_MIGRATE_FAILED && d->monitor.qmp) {
        qmp_migrate_query(d->monitor.qmp, PROVE_QMP, on_failed_info, d);
    }
}

/* What events would tell too --------------------------------------------- */

static void on_tick_info(void *arg, const struct qmp_migrate_info *info,
                         const struct error *err)
{
    struct destination *d = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    d->asking_qemu = false;
    if (err || migration_state_is_end(d->m.state)) {
        return;
    }
    d->qemu_heard_at = loop_now(d->m.env->control);
    if (info->status == QMP_MIGRATE_COMPLETED && d->m.started &&
        !d->completed) {
        on_migration_event(d, info->status);
    }
}

void destination_ask_qemu(struct destination *d)
{
    struct carrier_stats stats;
    mp_time now = loop_now(d->m.env->control);
    mp_time hold = d->m.env->conf->hold_time;
    bool is_precopy =
        d->m.state == MIGRATION_SETUP || d->m.state == MIGRATION_PRECOPY;
    bool is_postcopy = d->m.state == MIGRATION_POSTCOPY && !d->completed;

    if (!is_precopy && !is_postcopy) {
        d->qemu_heard_at = now;
        return;
    }
    if (is_postcopy && d->m.carrier) {
        carrier_get_stats(d->m.carrier, &stats);
        if (migration_has_moved(&d->m, &stats)) {
            d->qemu_heard_at = now;
        }
    }
    mp_time silent = now - d->qemu_heard_at;
    /* several times in a row: this daemon may itself have stood still */
    d->mute_ticks = silent > hold ? d->mute_ticks + 1 : 0;
    if (d->mute_ticks > MIGRATION_SILENT_POLLS) {
        destination_failf(d, ERR_TIMEOUT,
                          "destination QEMU answered nothing%s for %d s "
                          "([migration] hold-time)",
                          is_postcopy ? " and took nothing" : "",
                          (int)(silent / MP_SECOND));
        return;
    }
    bool shall_ask = is_precopy || d->finished || silent > hold / 2;
    if (shall_ask && d->monitor.qmp && !d->asking_qemu) {
        d->asking_qemu = true;
        qmp_migrate_query(d->monitor.qmp, destination_qmp_timeout(d),
                          on_tick_info, d);
    }
}

/* Commit ------------------------------------------------------------------- */

static void answer_started(struct destination *d)
{
    json_object *result;

    if (!d->commit) {
        return;
    }
    result = json_object_new_object();
    json_object_object_add(result, "started", json_object_new_boolean(true));
    json_object_object_add(result, "resumed_at_ns",
                           json_object_new_int64(d->resumed_at));
    peer_request_reply(d->commit, result);
    d->commit = NULL;
}

/* The guest runs here (or is here, paused as it was). */
static void now_runs(struct destination *d)
{
    if (d->m.state == MIGRATION_COMMITTING) {
        loop_timer_stop(&d->deadline);
        migration_set_state(&d->m, d->m.postcopy && !d->completed
                                       ? MIGRATION_POSTCOPY
                                       : MIGRATION_COMPLETING);
    }
    answer_started(d);
    destination_news(d);
    if (d->m.state == MIGRATION_POSTCOPY && d->m.failure.is_set) {
        /* what broke while QEMU was being asked to run the guest */
        struct error why = d->m.failure.error;
        destination_fail(d, &why);
    }
}

static json_object *will_not_start_to_json(struct destination *d)
{
    json_object *result = json_object_new_object();

    json_object_object_add(result, "started", json_object_new_boolean(false));
    json_object_object_add(result, "will_start",
                           json_object_new_boolean(false));
    json_object_object_add(result, "error", destination_failure_to_json(d));
    return result;
}

/* cont was refused: the guest did not run here, not for an instant. A precopy
 * goes back to the source, once that is on disk. */
static void start_failed(struct destination *d, const struct error *err)
{
    struct error why = *err, save = ERROR_INIT;

    error_wrap(&why, "destination QEMU did not start the guest");
    migration_note_failure(&d->m, MIGRATION_DESTINATION, &why);
    if (d->m.postcopy) {
        migration_advise(&d->m, ADVICE_NOT_STARTED, NULL);
        destination_end(d, MIGRATION_ATTENTION);
        return;
    }
    d->m.started = false;
    d->m.will_not_start = true;
    if (migration_commit_state(&d->m, MIGRATION_CANCELLING, &save)) {
        migration_advise(&d->m, ADVICE_NOWHERE, NULL);
        d->m.started = true;
        destination_end(d, MIGRATION_ATTENTION);
        return;
    }
    if (d->commit) {
        peer_request_reply(d->commit, will_not_start_to_json(d));
        d->commit = NULL;
    }
    destination_undo(d, false);
}

static void on_resume_status(void *arg, const struct qmp_run_status *status,
                             const struct error *err);

static void on_cont(void *arg, const struct error *err)
{
    struct destination *d = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (!err) {
        if (d->m.state == MIGRATION_COMMITTING) {
            if (!d->resumed_at) {
                d->resumed_at = clock_now();
            }
            now_runs(d);
        }
    } else if (err->code == ERR_QMP && d->m.state == MIGRATION_COMMITTING) {
        start_failed(d, err);
    } else if (err->code == ERR_TIMEOUT && d->monitor.qmp &&
               d->m.state == MIGRATION_COMMITTING) {
        qmp_migrate_query_status(d->monitor.qmp, destination_qmp_timeout(d),
                                 on_resume_status, d);
    }
}

static void start_guest(struct destination *d)
{
    if (!d->m.should_run) {
        now_runs(d);
        return;
    }
    if (!d->cont_sent) {
        destination_deadline(d, "committing",
                             2 * d->m.env->conf->commit_timeout);
    }
    d->cont_sent = true;
    qmp_migrate_cont(d->monitor.qmp, destination_qmp_timeout(d), on_cont, d);
}

void destination_commit(struct destination *d, struct peer_request *request)
{
    struct error err = ERROR_INIT;
    json_object *params = peer_request_params(request);

    if (d->m.started) { /* asked again: the answer got lost, or is not yet due
                         */
        if (d->commit) {
            peer_request_fail(
                d->commit,
                &(struct error){.code = ERR_CONFLICT, .text = "asked again"});
        }
        d->commit = request;
        if (d->m.state != MIGRATION_COMMITTING) {
            answer_started(d);
        }
        return;
    }
    if (d->m.will_not_start || d->m.state == MIGRATION_CANCELLING) {
        peer_request_reply(request, will_not_start_to_json(d));
        return;
    }
    if (!d->prepared || !d->monitor.qmp) {
        error_set(&err, ERR_CONFLICT,
                  "migration.commit: the guest is not loaded yet");
        peer_request_fail(request, &err);
        return;
    }
    json_value_bool(params, "run", &d->m.should_run);
    json_value_bool(params, "postcopy", &d->m.postcopy);
    d->m.committed = true;
    d->m.started = true;
    if (migration_commit_state(&d->m, MIGRATION_COMMITTING, &err)) {
        d->m.committed = false;
        d->m.started = false;
        if (d->m.postcopy) { /* no way back: the source asks again */
            peer_request_fail(request, &err);
            return;
        }
        /* the record says "not started", here and to any successor, which
         * would bind itself too: the guest can go home */
        migration_note_failure(&d->m, MIGRATION_DESTINATION, &err);
        d->m.will_not_start = true;
        peer_request_reply(request, will_not_start_to_json(d));
        destination_undo(d, false);
        return;
    }
    d->m.guest_is_on = MIGRATION_DESTINATION;
    d->commit = request;
    start_guest(d);
}

/* STARTED is on disk; cont was not answered in time, or not by this daemon's
 * predecessor. QEMU takes it twice. */
static void on_resume_status(void *arg, const struct qmp_run_status *status,
                             const struct error *err)
{
    struct destination *d = arg;

    if (err && err->code == ERR_TIMEOUT && d->monitor.qmp &&
        d->m.state == MIGRATION_COMMITTING) {
        qmp_migrate_query_status(d->monitor.qmp, destination_qmp_timeout(d),
                                 on_resume_status, d);
    }
    if (err || migration_state_is_end(d->m.state)) {
        return;
    }
    if (!status->running && d->m.should_run &&
        d->m.state == MIGRATION_COMMITTING) {
        start_guest(d);
    } else {
        now_runs(d);
    }
}

static void on_resume_info(void *arg, const struct qmp_migrate_info *info,
                           const struct error *err)
{
    struct destination *d = arg;

    if (err && err->code == ERR_TIMEOUT && d->monitor.qmp) {
        destination_resume_again(d);
    }
    if (err || migration_state_is_end(d->m.state)) {
        return;
    }
    migration_take_info(&d->m, info, false);
    d->restarted = false;
    d->completed = info->status == QMP_MIGRATE_COMPLETED;
    if (d->m.postcopy && !d->completed) {
        destination_failf(d, ERR_DAEMON_RESTARTED,
                          "the destination's daemon was restarted in the "
                          "middle of postcopy (QEMU: %s)",
                          info->status_text);
        if (d->m.state != MIGRATION_COMMITTING) {
            return;
        } /* else: the guest belongs here, so it is to run before this ends */
    }
    qmp_migrate_query_status(d->monitor.qmp, destination_qmp_timeout(d),
                             on_resume_status, d);
}

void destination_resume_again(struct destination *d)
{
    if (d->m.started) {
        qmp_migrate_query(d->monitor.qmp, destination_qmp_timeout(d),
                          on_resume_info, d);
    } else if (d->m.state == MIGRATION_CANCELLING) {
        destination_undo(d, false);
    }
}

void destination_on_event(void *arg, const char *name, json_object *data,
                          int64_t timestamp_us, mp_time received)
{
    struct destination *d = arg;
    enum qmp_migrate_status status;

    if (migration_state_is_end(d->m.state)) {
        return;
    }
    if (qmp_migrate_status_of_event(name, data, &status)) {
        on_migration_event(d, status);
    } else if (!strcmp(name, "SHUTDOWN")) {
        const char *reason = "";
        json_value_text(data, "reason", &reason);
        d->shutdown_seen = strcmp(reason, "guest-panic") != 0;
    } else if (!strcmp(name, "RESUME") && d->cont_sent && !d->resumed_at) {
        d->resumed_at = received;
        if (d->m.state == MIGRATION_COMMITTING) {
            now_runs(d);
        }
    }
}

/* Prove -------------------------------------------------------------------- */

static void on_prove(void *arg, const struct qmp_migrate_info *info,
                     const struct error *err)
{
    struct peer_request *request = arg;
    struct error why = ERROR_INIT;

    if (err) {
        why = *err;
        error_wrap(&why, "destination QEMU");
        peer_request_fail(request, &why);
    } else if (info->status == QMP_MIGRATE_NONE ||
               info->status == QMP_MIGRATE_SETUP) {
        /* the first bytes of a small guest are still on their way */
        error_set(&why, ERR_CONFLICT,
                  "destination QEMU has not begun to load (%s)",
                  info->status_text);
        peer_request_fail(request, &why);
    } else if (info->status != QMP_MIGRATE_ACTIVE) {
        error_set(&why, ERR_QEMU_FAILED,
                  "destination QEMU is %s, it should be active",
                  info->status_text);
        peer_request_fail(request, &why);
    } else {
        peer_request_reply(request, NULL);
    }
}

void destination_prove(struct destination *d, struct peer_request *request)
{
    struct error err = ERROR_INIT;

    if (!d->monitor.qmp || d->path_dead || d->m.state == MIGRATION_CANCELLING) {
        error_set(&err, ERR_QEMU_GONE,
                  "destination QEMU or the path to it is gone");
        peer_request_fail(request, &err);
        return;
    }
    qmp_migrate_query(d->monitor.qmp, PROVE_QMP, on_prove, request);
}

/* Finish ------------------------------------------------------------------- */

static void on_finish_restored(void *arg, const struct error *err)
{
    struct destination *d = arg;
    json_object *result;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (err) {
        migration_log(&d->m, LOG_LEVEL_WARNING,
                      "destination QEMU, putting capabilities back: %s",
                      err->text);
    } else {
        d->m.caps_changed = false;
    }
    if (d->finish) {
        result = json_object_new_object();
        json_object_object_add(result, "completed",
                               json_object_new_boolean(true));
        if (d->m.vcpu_blocktime_ms >= 0) {
            json_object_object_add(
                result, "vcpu_blocktime_ms",
                json_object_new_int64(d->m.vcpu_blocktime_ms));
        }
        peer_request_reply(d->finish, result);
        d->finish = NULL;
    }
    d->m.failure.is_set = false; /* what was said before the guest ran on */
    destination_end(d, MIGRATION_COMPLETED);
}

void destination_guest_left(struct destination *d)
{
    if (d->m.state == MIGRATION_COMMITTING) {
        now_runs(d);
    }
    if (d->finish) {
        on_finish_restored(d, NULL);
    } /* else: it will be asked for */
}

static void on_finish_info(void *arg, const struct qmp_migrate_info *info,
                           const struct error *err)
{
    struct destination *d = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (info) {
        migration_take_info(&d->m, info, false);
        if (info->has_postcopy_blocktime && d->m.postcopy) {
            d->m.vcpu_blocktime_ms = (int64_t)info->postcopy_blocktime_ms;
        }
    }
    if (d->monitor.qmp) {
        qmp_caps_restore(d->monitor.qmp, d->m.caps, destination_qmp_timeout(d),
                         on_finish_restored, d);
    } else {
        on_finish_restored(d, NULL);
    }
}

void destination_finish(struct destination *d, struct peer_request *request)
{
    struct error err = ERROR_INIT;

    if (!d->m.started || (d->m.postcopy && !d->completed) || d->finish ||
        d->m.state == MIGRATION_COMMITTING) {
        error_set(&err, ERR_CONFLICT, "migration.finish: not yet, or twice");
        if (request) {
            peer_request_fail(request, &err);
        }
        return;
    }
    d->finish = request;
    if (d->m.state == MIGRATION_POSTCOPY) {
        migration_set_state(&d->m, MIGRATION_COMPLETING);
    }
    migration_drop_carrier(&d->m, NULL);
    if (d->monitor.qmp) {
        qmp_migrate_query(d->monitor.qmp, destination_qmp_timeout(d),
                          on_finish_info, d);
    } else {
        on_finish_restored(d, NULL);
    }
}
