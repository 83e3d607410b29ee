// SPDX-License-Identifier: BSD-3-Clause
/* A migration as the API shows it. */
#include <stdio.h>
#include <string.h>

#include "proxy/json-add.h"
#include "proxy/migration.h"
#include "qmp/json-value.h"

/* A number, or null for a negative one: not known. */
static void add_known(json_object *to, const char *name, int64_t value)
{
    json_object_object_add(to, name,
                           value < 0 ? NULL : json_object_new_int64(value));
}

static void add_wall(json_object *to, const char *name, int64_t wall_us)
{
    char text[40];
    if (wall_us) {
        clock_format_wall(wall_us, text, sizeof(text));
    }
    json_add_text(to, name, wall_us ? text : NULL);
}

static const char *result_name(const struct migration *m)
{
    return migration_state_is_end(m->state) ? migration_state_name(m->state)
                                            : NULL;
}

static uint64_t less_held(const struct migration *m, uint64_t bytes)
{
    uint64_t held = migration_held_bytes(m);
    return bytes > held ? bytes - held : 0;
}

/* A number, or null where it is not known. */
static void add_if(json_object *to, const char *name, bool is_known,
                   uint64_t value)
{
    json_object_object_add(to, name,
                           is_known ? json_object_new_uint64(value) : NULL);
}

/* One that is 0 until it is measured. */
static void add_measured(json_object *to, const char *name, uint64_t value)
{
    add_if(to, name, value > 0, value);
}

/* Of the record by which it was taken over, a reference; NULL: there is none.
 */
static json_object *from_past(const struct migration *m, const char *group,
                              const char *name)
{
    json_object *object = m->counts.past;
    json_object *member = NULL;

    if (group && !json_value_object(object, group, &object)) {
        return NULL;
    }
    json_object_object_get_ex(object, name, &member);
    return json_object_get(member);
}

/* Whether QEMU's numbers are known: none is sent before the first pass. */
static bool is_counted(const struct migration *m)
{
    return m->info.has_ram || (!m->counts.past && !m->active_at);
}

/* With one decimal, and 100 only where nothing is left. */
static json_object *percent_to_json(const struct migration *m)
{
    char text[16];

    if (m->state == MIGRATION_COMPLETED) {
        return json_object_new_double_s(100, "100.0");
    }
    if (!m->is_source || (!m->info.has_ram && m->counts.past)) {
        return NULL;
    }
    double percent =
        (double)(uint64_t)(m->counts.percent * 10 + 1e-6) / 10; /* down */
    snprintf(text, sizeof(text), "%.1f", percent);
    return json_object_new_double_s(percent, text);
}

/* Whether memory moves now, so that there are rates. */
static bool is_moving(const struct migration *m)
{
    return m->state >= MIGRATION_PRECOPY && m->state <= MIGRATION_POSTCOPY;
}

static void add_outlook(json_object *object, const struct migration *m,
                        uint64_t left)
{
    uint64_t rate = m->policy.rate_bytes_per_second;
    uint64_t dirty = m->policy.dirty_bytes_per_second;
    bool converging =
        m->state != MIGRATION_PRECOPY || policy_is_converging(&m->policy);
    uint64_t net = m->state == MIGRATION_POSTCOPY ? rate
                   : rate > dirty                 ? rate - dirty
                                                  : 0;

    add_known(object, "eta_seconds",
              net && converging && is_moving(m) ? (int64_t)(left / net) : -1);
    json_add_bool(object, "converging", converging);
}

static json_object *source_progress_to_json(const struct migration *m)
{
    const struct qmp_migrate_info *info = &m->info;
    json_object *object = json_object_new_object();
    uint64_t left = m->state == MIGRATION_COMPLETED
                        ? 0
                        : info->ram_remaining_bytes + migration_held_bytes(m);
    bool is_precopy = m->state == MIGRATION_PRECOPY;

    json_object_object_add(object, "percent", percent_to_json(m));
    add_if(object, "transferred_bytes", is_counted(m),
           less_held(m, info->ram_transferred_bytes));
    add_if(object, "remaining_bytes", info->has_ram, left);
    add_if(object, "total_bytes", info->has_ram, info->ram_total_bytes);
    /* QEMU measures it after 100 ms */
    add_if(object, "rate_bytes_per_second",
           is_moving(m) &&
               (m->policy.rate_bytes_per_second || info->total_time_ms >= 1000),
           m->policy.rate_bytes_per_second);
    /* ... and this at the end of a pass; in postcopy it stays as it was */
    add_measured(object, "dirty_rate_bytes_per_second",
                 is_precopy ? m->policy.dirty_bytes_per_second : 0);
    add_outlook(object, m, left);
    add_if(object, "pass", is_counted(m), info->ram_dirty_sync_count);
    return object;
}

/* It knows what has come, and not what is still to come. */
static json_object *destination_progress_to_json(const struct migration *m)
{
    json_object *object = json_object_new_object();
    json_object *past = from_past(m, "progress", "transferred_bytes");

    json_object_object_add(object, "percent", percent_to_json(m));
    if (m->counts.past) {
        json_object_object_add(object, "transferred_bytes", past);
    } else {
        json_add_uint(object, "transferred_bytes", migration_forward_bytes(m));
    }
    add_if(object, "rate_bytes_per_second",
           is_moving(m) && m->carrier && m->counts.has_received_rate,
           m->counts.received_bytes_per_second);
    return object;
}

static json_object *channels_to_json(const struct carrier_stats *stats)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{MUX_BLOCKED_CREDIT, "credit"},
                 {MUX_BLOCKED_WINDOW, "window"},
                 {MUX_BLOCKED_LANE, "lane"}};
    json_object *array = json_object_new_array();

    for (unsigned i = 0; i < stats->channel_count; i++) {
        const struct carrier_channel_stats *channel = &stats->channel[i];
        json_object *object = json_object_new_object();
        json_object *blocked = json_object_new_array();
        json_add_text(object, "name", channel->name);
        json_add_bool(object, "open", channel->open);
        json_add_uint(object, "forward_bytes", channel->forward_bytes);
        json_add_uint(object, "reverse_bytes", channel->reverse_bytes);
        json_add_uint(object, "held_bytes", channel->held_bytes);
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            if (channel->blocked & names[k].bit) {
                json_object_array_add(blocked,
                                      json_object_new_string(names[k].name));
            }
        }
        json_object_object_add(object, "blocked", blocked);
        json_object_array_add(array, object);
    }
    return array;
}

static void add_wire(json_object *object, const char *name,
                     const struct migration *m, uint64_t bytes)
{
    if (m->counts.past) {
        json_object_object_add(object, name, from_past(m, "totals", name));
    } else {
        json_add_uint(object, name, bytes);
    }
}

/* Those by phase are of the source's QEMU, since 7.0. What went by multifd it
 * counts apart. */
static void add_phase_bytes(json_object *object, const struct migration *m)
{
    const struct qmp_migrate_info *info = &m->info;
    bool has_them = m->is_source && is_counted(m) &&
                    (info->has_phase_bytes || !info->has_ram);

    add_if(object, "precopy_bytes", has_them,
           info->ram_precopy_bytes + m->counts.multifd_bytes[true]);
    add_if(object, "downtime_bytes", has_them,
           info->ram_downtime_bytes + m->counts.multifd_bytes[false]);
    add_if(object, "postcopy_bytes", has_them,
           less_held(m, info->ram_postcopy_bytes));
}

static json_object *totals_to_json(const struct migration *m,
                                   const struct carrier_stats *stats)
{
    json_object *object = json_object_new_object();
    uint64_t requests = m->page_requests > stats->page_requests
                            ? m->page_requests
                            : stats->page_requests;

    add_wire(object, "wire_sent_bytes", m, stats->wire_sent_bytes);
    add_wire(object, "wire_received_bytes", m, stats->wire_received_bytes);
    json_add_uint(object, "page_requests", requests);
    add_phase_bytes(object, m);
    add_known(object, "vcpu_blocktime_ms", m->vcpu_blocktime_ms);
    return object;
}

/* Of the way on which pages go, so not all of it is known at their end. */
static json_object *path_to_json(const struct migration *m,
                                 const struct carrier_stats *stats)
{
    json_object *object = json_object_new_object();

    bool is_heard = m->carrier && stats->ready && stats->last_heard &&
                    !migration_state_is_end(m->state);
    mp_time silent = loop_now(m->env->control) - stats->last_heard;

    add_if(object, "silent_ms", is_heard,
           silent > 0 ? (uint64_t)(silent / MP_MS) : 0); /* another loop's */
    add_measured(object, "rtt_us", (uint64_t)(stats->express_rtt / MP_US));
    add_measured(object, "bulk_rtt_us", (uint64_t)(stats->bulk_rtt / MP_US));
    add_measured(object, "window_bytes",
                 m->is_source ? stats->window_bytes : 0);
    add_measured(object, "rate_bytes_per_second",
                 m->is_source ? stats->path_rate_bytes_per_second : 0);
    return object;
}

static json_object *downtime_to_json(const struct migration *m)
{
    json_object *object = json_object_new_object();

    add_known(object, "blackout_us", m->blackout_us);
    add_known(object, "uncertainty_us",
              m->blackout_us < 0 ? -1 : m->blackout_uncertainty_us);
    return object;
}

static json_object *latency_to_json(const struct latency *latency)
{
    json_object *object = json_object_new_object();

    json_add_uint(object, "count", latency->count);
    json_add_uint(object, "mean_us", (uint64_t)latency_mean(latency) / MP_US);
    json_add_uint(object, "p50_us",
                  (uint64_t)latency_percentile(latency, 50) / MP_US);
    json_add_uint(object, "p99_us",
                  (uint64_t)latency_percentile(latency, 99) / MP_US);
    json_add_uint(object, "max_us", (uint64_t)latency->max / MP_US);
    return object;
}

/* The pages of a postcopy; null where they are not seen one by one. */
static json_object *pages_to_json(const struct migration *m,
                                  const struct carrier_pages_stats *stats)
{
    struct latency all = stats->found;
    json_object *object;

    if (!stats->is_there || !m->postcopy) {
        return NULL;
    }
    object = json_object_new_object();
    latency_merge(&all, &stats->in_flight);
    latency_merge(&all, &stats->fetched);
    json_add_uint(object, "pool_limit_bytes", m->pool_bytes);
    json_add_uint(object, "pool_bytes", stats->pages.pool_bytes);
    json_add_uint(object, "pool_peak_bytes", stats->pages.pool_peak_bytes);
    json_add_uint(object, "taken", stats->pages.pages);
    json_add_uint(object, "sent_first", stats->pages.urgent_pages);
    json_add_uint(object, "awaited", stats->pages.waiting);
    json_object_object_add(object, "delivery", latency_to_json(&all));
    json_object_object_add(object, "delivery_found",
                           latency_to_json(&stats->found));
    json_object_object_add(object, "delivery_in_flight",
                           latency_to_json(&stats->in_flight));
    json_object_object_add(object, "delivery_fetched",
                           latency_to_json(&stats->fetched));
    return object;
}

/* Until now, in the order in which they come. */
static json_object *phases_to_json(const struct migration *m)
{
    json_object *object = json_object_new_object();
    mp_time now = loop_now(m->env->control) - m->counts.phase_began;

    for (int i = 0; i < MIGRATION_STATES; i++) {
        enum migration_state state = (enum migration_state)i;
        bool is_now = state == m->state;
        mp_time time = m->counts.phases[i] + (is_now ? now : 0);
        if (!migration_state_is_end(state) && (is_now || m->counts.phases[i])) {
            json_object_object_add(object, migration_state_name(state),
                                   json_object_new_int64(time / MP_MS));
        }
    }
    return object;
}

static json_object *limits_to_json(const struct migration *m)
{
    json_object *limits = json_object_new_object();

    json_object_object_add(
        limits, "bandwidth_bytes_per_second",
        m->bandwidth_bytes_per_second == PARSE_UNLIMITED
            ? json_object_new_string("unlimited")
            : json_object_new_uint64(m->bandwidth_bytes_per_second));
    json_add_uint(limits, "max_downtime_ms", m->max_downtime_ms);
    return limits;
}

/* The data path, as it is or, of an earlier daemon's, as it was. */
static void add_data_path(json_object *object, const struct migration *m,
                          const struct carrier_stats *stats)
{
    if (m->counts.past) {
        static const char *const names[] = {"path", "channels", "stream",
                                            "pages"};
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            json_object *member = from_past(m, NULL, names[i]);
            if (m->is_source || strcmp(names[i], "pages")) {
                json_object_object_add(object, names[i], member);
            }
        }
        return;
    }
    json_object_object_add(object, "path", path_to_json(m, stats));
    json_object_object_add(object, "channels", channels_to_json(stats));
    json_add_text(object, "stream", stats->stream_state);
    if (m->is_source) {
        json_object_object_add(object, "pages",
                               pages_to_json(m, &stats->pages));
    }
}

static void add_times(json_object *object, const struct migration *m)
{
    mp_time end = m->ended ? m->ended : loop_now(m->env->control);

    add_wall(object, "started_at", m->started_wall_us);
    add_wall(object, "ended_at", m->ended_wall_us);
    json_add_uint(object, "elapsed_ms", (uint64_t)((end - m->began) / MP_MS));
    json_object_object_add(object, "phases_ms", phases_to_json(m));
    add_wall(object, "counted_at", m->counts.wall_us);
}

json_object *migration_to_json(struct migration *m)
{
    json_object *object = json_object_new_object();
    const struct carrier_stats *stats = &m->final_stats;

    migration_refresh(m);
    json_add_text(object, "id", m->request.id);
    json_add_text(object, "vm", m->request.vm);
    json_add_text(object, "uuid", m->uuid);
    json_add_text(object, "role",
                  m->is_source ? MIGRATION_SOURCE : MIGRATION_DESTINATION);
    json_add_text(object, "peer", m->request.peer);
    json_add_text(object, "mode", api_mode_name(m->request.mode));
    json_add_bool(object, "preempt", m->preempt);
    json_add_bool(object, "small_pages", m->small_pages);
    json_add_uint(object, "multifd_channels", m->request.multifd);
    if (m->is_source) {
        json_object_object_add(object, "limits", limits_to_json(m));
    }
    json_add_text(object, "state", migration_shown_state(m));
    json_add_bool(object, "postcopy", m->postcopy);
    json_add_text(object, "result", result_name(m));
    json_add_bool(object, "refused", m->refused);
    json_add_text(object, "guest_is_on", m->guest_is_on);
    json_object_object_add(object, "error", migration_failure_to_json(m));
    json_add_text(object, "advice", m->advice);
    json_object_object_add(object, "closed", NULL); /* manager-close.c */
    add_times(object, m);
    json_object_object_add(object, "progress",
                           m->is_source ? source_progress_to_json(m)
                                        : destination_progress_to_json(m));
    json_object_object_add(object, "downtime", downtime_to_json(m));
    json_object_object_add(object, "totals", totals_to_json(m, stats));
    add_data_path(object, m, stats);
    json_add_text(object, "run_state_at_switchover",
                  m->is_source ? m->run_state : NULL);
    return object;
}
