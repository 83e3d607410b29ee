// SPDX-License-Identifier: BSD-3-Clause
/* The source's end: other limits on the way. */
#include "proxy/source-private.h"

static int check(const struct source *s, const struct api_limits *limits,
                 struct error *err)
{
    enum migration_state state = s->m.state;

    if (limits->has_max_downtime && state > MIGRATION_PRECOPY) {
        return error_set(err, ERR_TOO_LATE,
                         "migration %s is %s; max_downtime_ms can be changed "
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

static void on_downtime(void *arg, const struct error *err)
{
    struct source *s = arg;

    if (err) {
        migration_log(&s->m, LOG_LEVEL_WARNING, "max_downtime_ms stays %u: %s",
                      s->m.max_downtime_ms, err->text);
        return;
    }
    s->m.max_downtime_ms = s->wanted_downtime_ms;
    migration_log(&s->m, LOG_LEVEL_INFO, "max_downtime_ms is %u now",
                  s->m.max_downtime_ms);
    s->m.env->on_change(s->m.env->arg, &s->m);
}

/* Before setup QEMU is told together with everything else. */
static void set_downtime(struct source *s, unsigned max_downtime_ms)
{
    if (s->m.state < MIGRATION_SETUP) {
        s->m.max_downtime_ms = max_downtime_ms;
        return;
    }
    s->wanted_downtime_ms = max_downtime_ms;
    if (s->monitor.qmp) {
        qmp_migrate_set_downtime(s->monitor.qmp, max_downtime_ms,
                                 source_qmp_timeout(s), on_downtime, s);
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
