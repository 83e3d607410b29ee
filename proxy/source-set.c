// SPDX-License-Identifier: BSD-3-Clause
/* The source's end: other limits on the way. */
#include "proxy/source-private.h"

static int check(const struct source *s, const struct api_limits *limits,
                 struct error *err)
{
    enum migration_state state = s->m.state;

    if (limits->has_max_downtime && state > MIGRATION_PRECOPY) {
        return error_set(
            err, ERR_TOO_LATE,
            "migration %s is %s; \"max_downtime_ms\" can be changed "
            "until the end of precopy",
            s->m.request.id, migration_state_name(state));
    }
    if (limits->has_bandwidth && state > MIGRATION_POSTCOPY) {
        return error_set(err, ERR_TOO_LATE,
                         "migration %s is %s; nothing more is sent that a "
                         "bandwidth could limit",
                         s->m.request.id, migration_state_name(state));
    }
    return 0;
}

static void set_bandwidth(struct source *s, uint64_t bytes_per_second)
{
    uint64_t cap = s->m.env->conf->bandwidth_bytes_per_second;

    s->m.bandwidth_bytes_per_second = bytes_per_second;
    if (s->m.carrier) {
        carrier_set_bandwidth(s->m.carrier,
                              bytes_per_second < cap ? bytes_per_second : cap);
    }
}

static void tell_downtime(struct source *s);

/* Until QEMU has answered one, the next one waits. */
static void on_downtime(void *arg, const struct error *err)
{
    struct source *s = arg;

    s->setting_downtime = false;
    if (err && err->code == ERR_CANCELLED) {
        return;
    }
    if (!err) {
        s->downtime_ms = s->asked_downtime_ms;
        migration_log(&s->m, LOG_LEVEL_INFO, "max_downtime_ms is %u now",
                      s->downtime_ms);
    } else if (s->asked_downtime_ms == s->m.max_downtime_ms) {
        migration_log(&s->m, LOG_LEVEL_WARNING, "max_downtime_ms stays %u: %s",
                      s->downtime_ms, err->text);
        s->m.max_downtime_ms = s->downtime_ms;
        migration_save(&s->m);
        s->m.env->on_change(s->m.env->arg, &s->m);
    }
    tell_downtime(s);
}

static void tell_downtime(struct source *s)
{
    if (s->monitor.qmp && !s->setting_downtime &&
        s->m.state <= MIGRATION_PRECOPY &&
        s->m.max_downtime_ms != s->downtime_ms) {
        s->setting_downtime = true;
        s->asked_downtime_ms = s->m.max_downtime_ms;
        qmp_migrate_set_downtime(s->monitor.qmp, s->asked_downtime_ms,
                                 source_qmp_timeout(s), on_downtime, s);
    }
}

/* What is shown is what was ordered last, at once; only a QEMU that refuses it
 * takes it back. Before setup QEMU is told together with everything else. */
static void set_downtime(struct source *s, unsigned max_downtime_ms)
{
    if (s->m.state >= MIGRATION_SETUP && !s->downtime_ms) {
        s->downtime_ms = s->m.max_downtime_ms;
    }
    s->m.max_downtime_ms = max_downtime_ms;
    if (s->m.state >= MIGRATION_SETUP) {
        tell_downtime(s);
    }
}

int source_set_limits(struct source *s, const struct api_limits *limits,
                      struct error *err)
{
    if (check(s, limits, err)) {
        return -1;
    }
    if (limits->has_bandwidth) {
        set_bandwidth(s, limits->bandwidth_bytes_per_second);
    }
    if (limits->has_max_downtime) {
        set_downtime(s, limits->max_downtime_ms);
    }
    migration_save(&s->m);
    s->m.env->on_change(s->m.env->arg, &s->m);
    return 0;
}
