// SPDX-License-Identifier: BSD-3-Clause
/* The source's end: the poll, and who is silent for too long. */
#include "proxy/source-private.h"

/* No sign of life from the path between STOP and COMMIT: a precopy goes back to
 * the source, which is safe since COMMIT was not given. */
static void check_switchover_hold(struct source *s)
{
    struct carrier_stats stats;
    mp_time hold = s->m.env->conf->switchover_hold;

    if (s->m.state != MIGRATION_SWITCHOVER || !s->m.carrier || s->m.postcopy) {
        return;
    }
    carrier_get_stats(s->m.carrier, &stats);
    mp_time now = loop_now(s->m.env->control);
    if (stats.last_heard && now - stats.last_heard > hold) {
        source_failf(s, MIGRATION_SOURCE, ERR_LINK_LOST,
                     "peer %s was silent for %d ms during the switchover "
                     "([migration] switchover-hold)",
                     s->m.request.peer,
                     (int)((now - stats.last_heard) / MP_MS));
    }
}

/* In postcopy a path that is silent for hold-time is given up, even if TCP
 * thinks it well: the guest waits for pages. Seen several times in a row, since
 * this daemon may itself have stood still. */
static void check_postcopy_path(struct source *s)
{
    struct carrier_stats stats;
    mp_time hold = s->m.env->conf->hold_time;

    if (s->m.state != MIGRATION_POSTCOPY || !s->m.carrier ||
        s->source_completed) {
        return;
    }
    carrier_get_stats(s->m.carrier, &stats);
    mp_time silent = loop_now(s->m.env->control) - stats.last_heard;
    if (!stats.last_heard || silent <= hold) {
        s->silent_polls = 0;
    } else if (++s->silent_polls > MIGRATION_SILENT_POLLS) {
        source_failf(s, MIGRATION_SOURCE, ERR_LINK_LOST,
                     "peer %s was silent for %d s in postcopy ([migration] "
                     "hold-time)",
                     s->m.request.peer, (int)(silent / MP_SECOND));
    }
}

/* A QEMU that answers nothing is given hold-time in precopy, in which nothing
 * else would end the wait. */
static void check_silent(struct source *s)
{
    mp_time silent = loop_now(s->m.env->control) - s->heard_at;
    mp_time hold = s->m.env->conf->hold_time;

    if (s->m.state != MIGRATION_PRECOPY || !s->polling) {
        return;
    }
    /* several times in a row: this daemon may itself have stood still */
    s->mute_polls = silent > hold ? s->mute_polls + 1 : 0;
    if (s->mute_polls > MIGRATION_SILENT_POLLS) {
        source_failf(s, MIGRATION_SOURCE, ERR_TIMEOUT,
                     "source QEMU answered nothing for %d s ([migration] "
                     "hold-time)",
                     (int)(silent / MP_SECOND));
    } else {
        source_decide(s); /* --timeout does not wait for QEMU's numbers */
    }
}

/* In postcopy one that neither answers nor gives a byte is given hold-time:
 * the guest waits for its pages, and both QEMUs can be told to recover only
 * when this is over. */
static void check_postcopy_silent(struct source *s)
{
    struct carrier_stats stats;
    mp_time now = loop_now(s->m.env->control);
    mp_time hold = s->m.env->conf->hold_time;

    if (s->m.state != MIGRATION_POSTCOPY || !s->m.carrier || !s->polling ||
        s->source_completed) {
        return;
    }
    carrier_get_stats(s->m.carrier, &stats);
    if (migration_has_moved(&s->m, &stats)) {
        s->heard_at = now;
    }
    s->mute_polls = now - s->heard_at > hold ? s->mute_polls + 1 : 0;
    if (s->mute_polls > MIGRATION_SILENT_POLLS) {
        source_failf(s, MIGRATION_SOURCE, ERR_TIMEOUT,
                     "source QEMU neither answered nor sent anything for %d s "
                     "in postcopy ([migration] hold-time)",
                     (int)((now - s->heard_at) / MP_SECOND));
    }
}

/* A dead path in precopy is given hold-time. */
static void check_lost(struct source *s)
{
    mp_time hold = s->m.env->conf->hold_time;
    mp_time now = loop_now(s->m.env->control);

    if (s->lost_since && now - s->lost_since > hold &&
        s->m.state <= MIGRATION_PRECOPY) {
        source_failf(s, MIGRATION_SOURCE, ERR_LINK_LOST,
                     "peer %s did not answer for %d s ([migration] hold-time)",
                     s->m.request.peer, (int)(hold / MP_SECOND));
    }
}

void source_poll_cb(void *arg)
{
    struct source *s = arg;

    loop_timer_start(&s->poll, SOURCE_POLL);
    if (s->m.state == MIGRATION_CANCELLING) {
        source_undo_status(s);
        return;
    }
    if (s->monitor.qmp && !s->polling) {
        s->polling = true;
        qmp_migrate_query(s->monitor.qmp, source_qmp_timeout(s), source_on_info,
                          s);
    } else {
        check_silent(s);
    }
    check_switchover_hold(s);
    check_postcopy_path(s);
    check_postcopy_silent(s);
    if (!migration_state_is_end(s->m.state)) {
        check_lost(s);
    }
}
