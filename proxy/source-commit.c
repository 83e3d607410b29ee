// SPDX-License-Identifier: BSD-3-Clause
/* The source's end: COMMIT and everything after it.
 *
 *     PREPARED (destination) -> COMMIT (here, on disk) -> STARTED (destination,
 *     on disk, then cont)
 *
 * After COMMIT the source never runs again unless the destination answers from
 * its record that it has not started and will not. */
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/source-private.h"
#include "qmp/json-value.h"
#include "util/parse.h"

#define COMMIT_CALL (5 * MP_SECOND)
#define FINISH_CALL (5 * MP_SECOND)

/* The destination's time of its RESUME, by our clock. */
static void note_blackout(struct source *s, mp_time resumed_at)
{
    struct migration *m = &s->m;
    mp_time offset, rtt;

    if (!resumed_at || !s->stopped_at || !m->should_run ||
        !peers_clock(m->env->peers, m->request.peer, &offset, &rtt)) {
        return;
    }
    mp_time blackout = resumed_at - offset - s->stopped_at;
    m->blackout_us = blackout > 0 ? blackout / MP_US : 0;
    m->blackout_uncertainty_us = rtt / 2 / MP_US + 1;
}

static void finish(struct source *s);

static void on_restored(void *arg, const struct error *err)
{
    struct source *s = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (err) {
        migration_log(&s->m, LOG_LEVEL_WARNING, "source QEMU: %s", err->text);
    } else {
        s->m.caps_changed = false;
    }
    source_end(s, MIGRATION_COMPLETED);
}

/* The last poll was before the end, and what QEMU sent last is not in it. */
static void on_last_info(void *arg, const struct qmp_migrate_info *info,
                         const struct error *err)
{
    struct source *s = arg;

    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (!err) {
        migration_take_info(&s->m, info, false);
    }
    if (s->monitor.qmp) {
        qmp_caps_restore(s->monitor.qmp, s->m.caps, source_qmp_timeout(s),
                         on_restored, s);
    } else {
        source_end(s, MIGRATION_COMPLETED);
    }
}

/* The destination had the guest and has lost it since. */
static void ended_badly(struct source *s, json_object *result)
{
    json_object *failure = NULL;
    struct error why = ERROR_INIT;

    json_value_object(result, "error", &failure);
    const char *side = error_json_read(failure, MIGRATION_DESTINATION, &why);
    migration_note_failure(&s->m, side, &why);
    source_attention(s);
}

static void on_finished(void *arg, json_object *result, const struct error *err)
{
    struct source *s = arg;
    bool completed;
    uint64_t value;

    if (err && err->code != ERR_NOT_FOUND &&
        loop_timer_is_running(&s->deadline)) {
        loop_timer_start(&s->retry, SOURCE_RETRY);
        return;
    }
    if (json_value_bool(result, "completed", &completed) && !completed) {
        ended_badly(s, result);
        return;
    }
    if (json_value_uint(result, "vcpu_blocktime_ms", &value)) {
        s->m.vcpu_blocktime_ms = (int64_t)value;
    }
    source_deadline_stop(s);
    migration_drop_carrier(&s->m, NULL);
    if (!s->monitor.qmp) {
        source_end(s, MIGRATION_COMPLETED);
        return;
    }
    qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s), on_last_info, s);
}

/* Everything has arrived; both ends put back what they changed. */
static void finish(struct source *s)
{
    source_call(s, "migration.finish", source_params(s), FINISH_CALL,
                on_finished);
}

void source_commit_complete(struct source *s)
{
    if (s->m.state == MIGRATION_COMPLETING) {
        return;
    }
    loop_timer_stop(&s->poll);
    migration_set_state(&s->m, MIGRATION_COMPLETING);
    /* the guest is safe: the destination ends by itself if it must */
    source_deadline(s, "completing", s->m.env->conf->hold_time);
    finish(s);
}

/* A running destination's news, in any order with QEMU's own. */
void source_on_news(struct source *s)
{
    if (s->m.state == MIGRATION_SWITCHOVER) {
        source_check_commit(s);
    } else if (s->m.state == MIGRATION_POSTCOPY) {
        bool there = s->news.completed, here = s->source_completed;
        if (there && (here || s->doubting)) {
            source_commit_complete(s);
        } else if ((there || here) && !loop_timer_is_running(&s->deadline)) {
            /* each alone means that every page has arrived; the other's word
             * is not waited for without end */
            source_deadline(s, "postcopy's end", s->m.env->conf->hold_time);
        }
    }
}

static void started(struct source *s, json_object *result)
{
    int64_t resumed_at = 0;

    json_value_int(result, "resumed_at_ns", &resumed_at);
    s->m.started = true;
    s->m.guest_is_on = MIGRATION_DESTINATION;
    note_blackout(s, resumed_at);
    source_deadline_stop(s);
    if (s->m.postcopy) {
        migration_set_state(&s->m, MIGRATION_POSTCOPY);
        source_on_news(s);
        if (s->m.state == MIGRATION_POSTCOPY && s->path_dead &&
            !s->source_completed && !s->m.soft.is_set) {
            source_attention(s);
        }
    } else {
        source_commit_complete(s);
    }
}

/* The destination has bound itself, on disk, not to start: the only answer
 * that lets a committed source run again, and only when all of the guest still
 * is here. */
static void will_not_start(struct source *s, json_object *result)
{
    json_object *failure = NULL;
    struct error why = ERROR_INIT;

    json_value_object(result, "error", &failure);
    const char *side = error_json_read(failure, MIGRATION_DESTINATION, &why);
    error_wrap(&why, "the destination did not start the guest");
    migration_note_failure(&s->m, side, &why);
    if (s->m.postcopy) {
        source_attention(s);
        return;
    }
    s->m.committed = false;
    s->m.will_not_start = true;
    source_undo(s);
}

static void on_commit(void *arg, json_object *result, const struct error *err)
{
    struct source *s = arg;
    bool has_started = false, will_start = true, failed = false;

    s->commit_sent = false;
    if (s->m.state != MIGRATION_COMMITTING) {
        return;
    }
    if (!err && json_value_bool(result, "started", &has_started) &&
        has_started) {
        json_value_bool(result, "failed", &failed);
        if (failed) {
            ended_badly(s, result);
        } else {
            started(s, result);
        }
        return;
    }
    if (!err && json_value_bool(result, "will_start", &will_start) &&
        !will_start) {
        will_not_start(s, result);
        return;
    }
    migration_log(&s->m, LOG_LEVEL_WARNING,
                  "COMMIT is not answered yet, asking again: %s",
                  err ? err->text : "the answer says neither");
    loop_timer_start(&s->retry, SOURCE_RETRY);
}

static void send_commit(struct source *s)
{
    json_object *params = source_params(s);

    json_object_object_add(params, "run",
                           json_object_new_boolean(s->m.should_run));
    json_object_object_add(params, "postcopy",
                           json_object_new_boolean(s->m.postcopy));
    s->commit_sent = true;
    source_call(s, "migration.commit", params, COMMIT_CALL, on_commit);
}

/* On the retry timer: what is still owed to the destination. */
void source_commit_again(struct source *s)
{
    if (s->m.state == MIGRATION_SWITCHOVER) {
        source_check_commit(s);
    } else if (s->m.state == MIGRATION_COMMITTING && !s->commit_sent) {
        if (loop_timer_is_running(&s->deadline)) {
            send_commit(s);
        } else {
            source_attention(s);
        }
    } else if (s->m.state == MIGRATION_COMPLETING) {
        finish(s);
    }
}

void source_commit(struct source *s)
{
    struct error err = ERROR_INIT;

    s->m.committed = true;
    if (migration_commit_state(&s->m, MIGRATION_COMMITTING, &err)) {
        s->m.committed = false;
        if (!s->m.postcopy) {
            migration_save(&s->m); /* in case COMMIT half got there */
            source_fail(s, MIGRATION_SOURCE, &err);
            return;
        }
        /* no way back: without a record no COMMIT, so try until it can be
         * written or the switchover's deadline names it */
        migration_log(&s->m, LOG_LEVEL_ERROR, "COMMIT waits: %s", err.text);
        loop_timer_start(&s->retry, SOURCE_RETRY);
        return;
    }
    s->m.guest_is_on = "unknown";
    source_deadline(s, "committing", s->m.env->conf->commit_timeout);
    send_commit(s);
}

void source_commit_take_over(struct source *s)
{
    s->source_completed = !s->m.postcopy;
    if (s->m.state == MIGRATION_COMMITTING) {
        source_deadline(s, "committing", s->m.env->conf->commit_timeout);
        send_commit(s);
    } else {
        source_deadline(s, "completing", s->m.env->conf->hold_time);
        finish(s);
    }
}
