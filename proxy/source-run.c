// SPDX-License-Identifier: BSD-3-Clause
/* The source's end: following QEMU, the switch, pre-switchover. */
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/source-private.h"
#include "qmp/json-value.h"

/* The run state -----------------------------------------------------------
 *
 * What is to be restored on the destination is whether the guest ran at
 * switchover, so every STOP is looked at: the migration's own one shows as
 * finish-migrate, an operator's, an I/O error or a suspend as something else.
 */

static void on_stop_status(void *arg, const struct qmp_run_status *status,
                           const struct error *err)
{
    struct source *s = arg;

    if (err || status->running || s->m.state >= MIGRATION_COMMITTING) {
        return;
    }
    if (!strcmp(status->text, "finish-migrate") &&
        s->m.state == MIGRATION_PRECOPY) {
        source_deadline(s, "the guest's stop",
                        s->m.env->conf->switchover_timeout);
    }
    if (strcmp(status->text, "finish-migrate") &&
        strcmp(status->text, "postmigrate") && !s->pausing) {
        migration_log(&s->m, LOG_LEVEL_INFO,
                      "the guest was stopped (%s); it will arrive so",
                      status->text);
        s->m.should_run = false;
        json_value_copy_text(s->m.run_state, sizeof(s->m.run_state),
                             status->text);
        migration_save(&s->m); /* a successor must not resume it */
    }
}

/* QEMU does not say how much of multifd's bytes it sent while the guest stood
 * still, so they are read when it stops. */
static void on_stop_info(void *arg, const struct qmp_migrate_info *info,
                         const struct error *err)
{
    struct source *s = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    s->counting_stop = false;
    if (!err && !migration_state_is_end(s->m.state)) {
        migration_take_info(&s->m, info, true);
    }
}

static void on_run_event(struct source *s, const char *name, mp_time received)
{
    if (s->m.state >= MIGRATION_COMMITTING) {
        return;
    }
    if (!strcmp(name, "STOP")) {
        s->stopped_at = received;
        qmp_migrate_query_status(s->monitor.qmp, source_qmp_timeout(s),
                                 on_stop_status, s);
        if (s->m.request.multifd && s->migrate_sent) {
            s->counting_stop = true;
            qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s),
                              on_stop_info, s);
        }
    } else if (!strcmp(name, "RESUME")) {
        s->stopped_at = 0;
        s->m.should_run = true;
        if (s->m.state == MIGRATION_PRECOPY) {
            source_deadline_stop(s);
        }
        json_value_copy_text(s->m.run_state, sizeof(s->m.run_state), "running");
    }
}

/* Proving the path ------------------------------------------------------- */

static void proof_part(struct source *s, const struct error *err)
{
    void (*then)(struct source *, const struct error *) = s->proof_then;

    if (!s->proving) {
        return;
    }
    if (!err && --s->proof_parts) {
        s->proof_first = loop_now(s->m.env->control);
        return;
    }
    s->proving = false;
    loop_timer_stop(&s->proof_timer);
    then(s, err);
}

void source_on_path(void *arg, uint64_t seq, mp_time rtt)
{
    struct source *s = arg;
    if (seq == s->proof_seq) {
        proof_part(s, NULL);
    }
}

static void on_proved_there(void *arg, json_object *result,
                            const struct error *err)
{
    proof_part(arg, err);
}

void source_proof_late(void *arg)
{
    struct source *s = arg;
    struct error err = ERROR_INIT;

    error_set(&err, ERR_LINK_LOST,
              "the path to peer %s and its QEMU did not answer within 1 s",
              s->m.request.peer);
    proof_part(s, &err);
}

/* Pings both lanes and has the destination ask its QEMU, together; then is told
 * the outcome, once. */
static void prove(struct source *s,
                  void (*then)(struct source *, const struct error *))
{
    s->proving = true;
    s->proof_parts = 2;
    s->proof_then = then;
    s->proof_seq++;
    loop_timer_start(&s->proof_timer, SOURCE_PROVE);
    carrier_prove_path(s->m.carrier, s->proof_seq);
    /* the answer to an earlier proof must not count for this one */
    peers_drop_calls(s->m.env->peers, &s->proof_seq);
    peers_call(s->m.env->peers, s->m.request.peer, "migration.prove",
               source_params(s), SOURCE_PROVE, &s->proof_seq, on_proved_there,
               s);
}

/* The switch to postcopy -------------------------------------------------- */

static void on_start_postcopy(void *arg, const struct error *err);

static void on_least_downtime(void *arg, const struct error *err)
{
    struct source *s = arg;

    if (err && err->code != ERR_CANCELLED) {
        migration_log(&s->m, LOG_LEVEL_DEBUG, "downtime-limit: %s", err->text);
    }
}

/* Postcopy, too, QEMU ends as it ends a precopy: once what is left could be
 * sent within downtime-limit at the speed at which its socket takes it, it
 * writes all of that under its lock, and a connection that breaks meanwhile
 * cannot be recovered (QEMU migration/migration.c
 * migration_iteration_run(), 7.2, 10.0). With the smallest limit that is only
 * the very last. */
static void start_postcopy(struct source *s)
{
    qmp_migrate_set_downtime(s->monitor.qmp, 1, source_qmp_timeout(s),
                             on_least_downtime, s);
    qmp_migrate_start_postcopy(s->monitor.qmp, source_qmp_timeout(s),
                               on_start_postcopy, s);
}

static void on_start_postcopy(void *arg, const struct error *err)
{
    struct source *s = arg;
    struct error why;

    if (!err || err->code == ERR_CANCELLED) {
        return;
    }
    if (err->code != ERR_TIMEOUT) {
        why = *err;
        error_wrap(&why, "source QEMU");
        source_fail(s, MIGRATION_SOURCE, &why);
    } else if (s->m.state == MIGRATION_PRECOPY) {
        start_postcopy(s); /* QEMU takes it twice */
    }
}

static void switch_proved(struct source *s, const struct error *err)
{
    if (s->m.state != MIGRATION_PRECOPY || s->m.postcopy) {
        return;
    }
    if (err) {
        migration_log(&s->m, LOG_LEVEL_WARNING,
                      "not switching to postcopy yet: %s", err->text);
        return; /* the next poll tries again */
    }
    s->m.postcopy = true;
    migration_save(&s->m);
    migration_log(&s->m, LOG_LEVEL_INFO, "switching to postcopy");
    start_postcopy(s);
}

/* Precopy ------------------------------------------------------------------ */

static void on_pause(void *arg, const struct error *err)
{
    struct source *s = arg;
    struct error why;

    if (!err || err->code == ERR_CANCELLED) {
        return;
    }
    if (err->code == ERR_TIMEOUT) {
        s->pausing = false; /* the next decision is the same */
        return;
    }
    why = *err;
    error_wrap(&why, "source QEMU");
    source_fail(s, MIGRATION_SOURCE, &why);
}

void source_decide(struct source *s)
{
    struct policy_input *in = &s->m.policy;
    const struct api_migrate *request = &s->m.request;
    const struct qmp_migrate_info *info = &s->m.info;
    uint64_t page = info->ram_page_size_bytes;

    in->mode = request->mode;
    in->may_postcopy = s->m.may_postcopy && !s->m.postcopy;
    in->postcopy_after =
        request->postcopy_after_seconds < 0
            ? -1
            : (mp_time)(request->postcopy_after_seconds * (double)MP_SECOND);
    in->timeout = request->timeout_seconds < 0
                      ? -1
                      : (mp_time)(request->timeout_seconds * (double)MP_SECOND);
    in->on_timeout = request->on_timeout;
    in->elapsed = loop_now(s->m.env->control) - s->m.active_at;
    in->pass = info->ram_dirty_sync_count;
    in->rate_bytes_per_second =
        (uint64_t)(info->ram_megabits_per_second * 125000.0);
    in->dirty_bytes_per_second = info->ram_dirty_pages_per_second * page;
    if (s->m.state != MIGRATION_PRECOPY || s->proving) {
        return;
    }
    switch (policy_decide(in)) {
    case POLICY_NOTHING:
        break;
    case POLICY_POSTCOPY:
        prove(s, switch_proved);
        break;
    case POLICY_PAUSE:
        if (!s->pausing) {
            migration_log(&s->m, LOG_LEVEL_WARNING,
                          "precopy did not end in time: the guest is paused so "
                          "that it can");
            s->pausing = true;
            qmp_migrate_stop(s->monitor.qmp, source_qmp_timeout(s), on_pause,
                             s);
        }
        break;
    case POLICY_ABORT:
        source_failf(s, MIGRATION_SOURCE, ERR_TIMEOUT,
                     "precopy was not over after %.1f s (--timeout)",
                     request->timeout_seconds);
        break;
    }
}

static void on_status(struct source *s, enum qmp_migrate_status status);

void source_on_info(void *arg, const struct qmp_migrate_info *info,
                    const struct error *err)
{
    struct source *s = arg;

    s->polling = false;
    if (err || migration_state_is_end(s->m.state)) {
        return;
    }
    s->heard_at = loop_now(s->m.env->control);
    migration_take_info(&s->m, info, !s->stopped_at || s->counting_stop);
    on_status(s, info->status);
    if (!migration_state_is_end(s->m.state) && s->m.active_at) {
        source_decide(s);
    }
}

/* Pre-switchover ------------------------------------------------------------
 */

static void on_continue(void *arg, const struct error *err)
{
    struct source *s = arg;
    struct error why;

    if (err && err->code != ERR_CANCELLED && err->code != ERR_TIMEOUT) {
        why = *err;
        error_wrap(&why, "source QEMU");
        s->continue_refused = err->code == ERR_QMP;
        source_fail(s, MIGRATION_SOURCE, &why);
    }
}

static void switchover_proved(struct source *s, const struct error *err)
{
    mp_time now = loop_now(s->m.env->control);
    struct error why = ERROR_INIT;

    if (s->m.state != MIGRATION_PRE_SWITCHOVER || s->continue_sent ||
        s->m.soft
            .is_set) { /* the path broke meanwhile: its cause is waited for */
        return;
    }
    if (err && err->code == ERR_CONFLICT) {
        loop_timer_start(&s->retry, SOURCE_PROVE_AGAIN); /* not yet */
        return;
    }
    if (err) {
        why = *err;
        error_wrap(&why, "before the switchover");
        source_fail(s, MIGRATION_SOURCE, &why);
        return;
    }
    if (now - s->proof_first > SOURCE_PROOF_AGE) {
        prove(s, switchover_proved); /* under the switchover-hold deadline */
        return;
    }
    /* From here on QEMU writes under its lock. */
    carrier_set_phase(s->m.carrier, MUX_PHASE_SWITCHOVER);
    if (migration_commit_state(&s->m, MIGRATION_SWITCHOVER, &why)) {
        source_fail(s, MIGRATION_SOURCE, &why);
        return;
    }
    source_deadline(s, "switchover", s->m.env->conf->switchover_timeout);
    s->continue_sent = true;
    qmp_migrate_continue(s->monitor.qmp, source_qmp_timeout(s), on_continue, s);
}

static void enter_pre_switchover(struct source *s)
{
    if (s->m.state >= MIGRATION_PRE_SWITCHOVER) {
        return;
    }
    s->proving = false; /* one that is out for the switch is void now */
    migration_set_state(&s->m, MIGRATION_PRE_SWITCHOVER);
    source_deadline(s, "pre-switchover", s->m.env->conf->switchover_hold);
    prove(s, switchover_proved);
}

static void on_active_told(void *arg, json_object *result,
                           const struct error *err)
{
    struct source *s = arg;

    if (err) { /* it only counts by it */
        migration_log(&s->m, LOG_LEVEL_DEBUG, "migration.active: %s",
                      err->text);
    }
}

static void enter_precopy(struct source *s)
{
    if (s->m.state != MIGRATION_SETUP) {
        return;
    }
    source_call(s, "migration.active", source_params(s), SOURCE_AWAIT,
                on_active_told);
    source_deadline_stop(s);
    s->m.active_at = loop_now(s->m.env->control);
    carrier_set_phase(s->m.carrier, MUX_PHASE_PRECOPY);
    migration_set_state(&s->m, MIGRATION_PRECOPY);
}

/* In postcopy-active the source may still be running (QEMU announces it before
 * it stops the guest), so COMMIT waits until it is seen stopped. */
static void on_postcopy_status(void *arg, const struct qmp_run_status *status,
                               const struct error *err)
{
    struct source *s = arg;

    if (err || s->m.state != MIGRATION_SWITCHOVER) {
        return; /* the next event or poll asks again */
    }
    if (!status->running) {
        s->seen_stopped = true;
        source_check_commit(s);
    }
}

static void enter_postcopy(struct source *s)
{
    if (s->m.state == MIGRATION_PRE_SWITCHOVER) {
        migration_set_state(&s->m, MIGRATION_SWITCHOVER);
    }
    if (s->m.state == MIGRATION_SWITCHOVER) {
        s->m.postcopy = true;
        carrier_set_phase(s->m.carrier, MUX_PHASE_POSTCOPY);
        qmp_migrate_query_status(s->monitor.qmp, source_qmp_timeout(s),
                                 on_postcopy_status, s);
    }
}

static void enter_completed(struct source *s)
{
    if (s->source_completed) {
        return;
    }
    s->source_completed = true;
    if (s->m.state == MIGRATION_SWITCHOVER) {
        /* the order to go over to postcopy came too late for QEMU */
        if (s->status != QMP_MIGRATE_POSTCOPY_ACTIVE) {
            s->m.postcopy = false;
        }
        source_check_commit(s);
    } else if (s->m.state == MIGRATION_POSTCOPY) {
        source_on_news(s);
    }
}

/* How a source QEMU says that the other one ended the return path with an error
 * (migration/migration.c, source_return_path_thread()). */
#define REFUSED_THERE "Sibling indicated error"

static void on_kept_stopped(void *arg, const struct error *err)
{
    struct source *s = arg;

    if (err && err->code != ERR_CANCELLED) {
        migration_log(&s->m, LOG_LEVEL_ERROR,
                      "the guest may run here too, it could not be stopped: %s",
                      err->text);
    }
}

/* A QEMU 10.0 whose path breaks when it has sent its last page, in postcopy,
 * resumes the guest, which runs on the destination. It can only be told to stop
 * it again, as soon as it says that it failed. */
static void keep_stopped(struct source *s)
{
    if (s->m.postcopy && s->m.committed && s->monitor.qmp) {
        migration_log(&s->m, LOG_LEVEL_WARNING,
                      "source QEMU failed in postcopy and may resume the "
                      "guest: stopping it");
        qmp_migrate_stop(s->monitor.qmp, source_qmp_timeout(s), on_kept_stopped,
                         s);
    }
}

static void enter_failed(struct source *s, enum qmp_migrate_status status)
{
    const char *why = s->m.info.error_desc;

    struct error err = ERROR_INIT;

    if (strstr(why, REFUSED_THERE)) {
        error_set(&err, ERR_QEMU_FAILED,
                  "destination QEMU could not load the guest, its own output "
                  "says why (source QEMU: %s)",
                  why);
    } else {
        error_set(&err, ERR_QEMU_FAILED,
                  "source QEMU ended the migration: %s%s%s",
                  qmp_migrate_status_name(status), why[0] ? ": " : "", why);
    }
    source_fail_softly(s, &err);
}

/* Acts on the state of QEMU's migration, heard of by event or by poll. */
static void on_status(struct source *s, enum qmp_migrate_status status)
{
    struct error err = ERROR_INIT;

    if (!s->migrate_sent || s->m.state < MIGRATION_SETUP ||
        migration_state_is_end(s->m.state)) {
        return;
    }
    if (s->m.state == MIGRATION_CANCELLING) {
        s->status = status;
        source_undo_status(s);
        return;
    }
    switch (status) {
    case QMP_MIGRATE_ACTIVE:
        s->status = status;
        enter_precopy(s);
        break;
    case QMP_MIGRATE_PRE_SWITCHOVER:
        s->status = status;
        enter_precopy(s);
        enter_pre_switchover(s);
        break;
    case QMP_MIGRATE_POSTCOPY_ACTIVE:
        s->status = status;
        enter_postcopy(s);
        break;
    case QMP_MIGRATE_COMPLETED:
        enter_completed(s);
        s->status = status;
        break;
    case QMP_MIGRATE_POSTCOPY_PAUSED:
        if (s->status == status || s->m.soft.is_set) {
            s->status = status;
            break; /* told already, or what it comes from is */
        }
        s->status = status;
        error_set(&err, ERR_LINK_LOST,
                  "source QEMU lost its connection in postcopy "
                  "(postcopy-paused)");
        source_fail_softly(s, &err);
        break;
    case QMP_MIGRATE_FAILED:
    case QMP_MIGRATE_FAILING:
    case QMP_MIGRATE_CANCELLED:
    case QMP_MIGRATE_CANCELLING:
        if (s->status != status && status == QMP_MIGRATE_FAILED) {
            keep_stopped(s);
        }
        s->status = status;
        enter_failed(s, status);
        break;
    case QMP_MIGRATE_NONE:
    case QMP_MIGRATE_SETUP:
    case QMP_MIGRATE_POSTCOPY_RECOVER_SETUP:
    case QMP_MIGRATE_POSTCOPY_RECOVER:
    case QMP_MIGRATE_POSTCOPY_DEVICE:
    case QMP_MIGRATE_DEVICE:
    case QMP_MIGRATE_COLO:
    case QMP_MIGRATE_WAIT_UNPLUG:
    case QMP_MIGRATE_UNKNOWN:
    case QMP_MIGRATE_STATUSES:
        s->status = status;
        break;
    }
}

/* QEMU says why only in query-migrate, so a failure is told from there. */
static bool is_failure(enum qmp_migrate_status status)
{
    return status == QMP_MIGRATE_FAILED || status == QMP_MIGRATE_CANCELLED ||
           status == QMP_MIGRATE_FAILING || status == QMP_MIGRATE_CANCELLING;
}

void source_on_event(void *arg, const char *name, json_object *data,
                     int64_t timestamp_us, mp_time received)
{
    struct source *s = arg;
    enum qmp_migrate_status status;

    if (migration_state_is_end(s->m.state)) {
        return;
    }
    s->heard_at = received;
    if (qmp_migrate_status_of_event(name, data, &status)) {
        migration_log(&s->m, LOG_LEVEL_DEBUG, "source QEMU: %s",
                      qmp_migrate_status_name(status));
        if (is_failure(status) && s->m.state != MIGRATION_CANCELLING) {
            qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s),
                              source_on_info, s);
        } else {
            on_status(s, status);
        }
    } else if (!strcmp(name, "MIGRATION_PASS")) {
        if (!s->polling && s->m.state == MIGRATION_PRECOPY) {
            s->polling = true;
            qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s),
                              source_on_info, s);
        }
    } else {
        on_run_event(s, name, received);
    }
}

/* News of the destination ------------------------------------------------- */

static void on_await(void *arg, json_object *result, const struct error *err)
{
    struct source *s = arg;
    json_object *failure = NULL;
    int64_t resumed_at = 0;
    bool is_last;

    s->awaiting = false;
    if (err) {
        if (err->code == ERR_NOT_FOUND) {
            source_peer_restarted(s);
        }
        if (err->code != ERR_TIMEOUT && !s->lost_since) {
            s->lost_since = loop_now(s->m.env->control);
        }
        loop_timer_start(&s->retry, SOURCE_RETRY);
        source_no_word(s);
        return;
    }
    s->lost_since = 0;
    json_value_uint(result, "seq", &s->news.seq);
    json_value_bool(result, "prepared", &s->news.prepared);
    json_value_bool(result, "started", &s->news.started);
    json_value_bool(result, "completed", &s->news.completed);
    json_value_bool(result, "failed", &s->news.failed);
    if (json_value_int(result, "resumed_at_ns", &resumed_at)) {
        s->news.resumed_at = resumed_at;
    }
    is_last = !json_object_object_get_ex(result, "seq", NULL);
    if (s->news.failed && json_value_object(result, "error", &failure)) {
        struct error why = ERROR_INIT;
        const char *side =
            error_json_read(failure, MIGRATION_DESTINATION, &why);
        source_fail(s, side, &why);
        if (s->m.state == MIGRATION_POSTCOPY && !s->tells_late) {
            source_attention(s); /* no page is missing here, but there */
        }
        return;
    }
    source_on_news(s);
    if (!is_last) { /* else: it has ended there, its record has answered */
        source_await(s);
    }
}

void source_await(struct source *s)
{
    if (s->awaiting || migration_state_is_end(s->m.state) ||
        s->m.state == MIGRATION_CANCELLING) {
        return;
    }
    json_object *params = source_params(s);
    json_object_object_add(params, "seen", json_object_new_uint64(s->news.seq));
    s->awaiting = true;
    source_call(s, "migration.await", params, SOURCE_AWAIT, on_await);
}

void source_retry_cb(void *arg)
{
    struct source *s = arg;

    source_await(s);
    if (s->doubting && s->m.state == MIGRATION_SWITCHOVER && !s->giving_up) {
        source_ask_doubt(s);
        return;
    }
    source_commit_again(s);
    if (s->m.state == MIGRATION_PRE_SWITCHOVER && !s->proving &&
        !s->continue_sent && s->m.carrier) {
        prove(s, switchover_proved); /* under the switchover-hold deadline */
    }
}

/* All that COMMIT needs? */
void source_check_commit(struct source *s)
{
    /* one that is completed is stopped too */
    bool source_done =
        s->source_completed || (s->m.postcopy && s->seen_stopped);

    if (s->m.state == MIGRATION_SWITCHOVER && source_done && s->news.prepared &&
        !s->giving_up && !s->doubting) {
        source_commit(s);
    }
}
