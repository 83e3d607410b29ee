// SPDX-License-Identifier: BSD-3-Clause
/* A migration as the API shows it and as it stands on disk. */
#include <stdio.h>
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/migration.h"
#include "qmp/json-value.h"

static void add_text(json_object *to, const char *name, const char *text)
{
    json_object_object_add(
        to, name, text && text[0] ? json_object_new_string(text) : NULL);
}

static void add_uint(json_object *to, const char *name, uint64_t value)
{
    json_object_object_add(to, name, json_object_new_uint64(value));
}

static void add_bool(json_object *to, const char *name, bool value)
{
    json_object_object_add(to, name, json_object_new_boolean(value));
}

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
    add_text(to, name, wall_us ? text : NULL);
}

static const char *result_name(const struct migration *m)
{
    return migration_state_is_end(m->state) ? migration_state_name(m->state)
                                            : NULL;
}

static json_object *failure_to_json(const struct migration *m)
{
    if (!m->failure.is_set) {
        return NULL;
    }
    return error_json_new(&m->failure.error, m->failure.side);
}

/* What QEMU counts as sent and the page pool still holds. */
static uint64_t held_bytes(const struct migration *m)
{
    return m->is_source ? m->final_stats.pages.pages.pool_bytes : 0;
}

static uint64_t less_held(const struct migration *m, uint64_t bytes)
{
    uint64_t held = held_bytes(m);
    return bytes > held ? bytes - held : 0;
}

static json_object *progress_to_json(const struct migration *m)
{
    const struct qmp_migrate_info *info = &m->info;
    json_object *object = json_object_new_object();
    uint64_t total = info->ram_total_bytes;
    uint64_t left = info->ram_remaining_bytes + held_bytes(m);
    uint64_t rate = m->policy.rate_bytes_per_second;
    uint64_t dirty = m->policy.dirty_bytes_per_second;
    double percent = 0;

    if (m->state == MIGRATION_COMPLETED) {
        left = 0; /* the last poll was before the end */
        percent = 100;
    } else if (total && left <= total) {
        percent = 100.0 * (double)(total - left) / (double)total;
    }
    bool converging =
        m->state != MIGRATION_PRECOPY || policy_is_converging(&m->policy);
    json_object_object_add(object, "percent", json_object_new_double(percent));
    add_uint(object, "transferred_bytes",
             less_held(m, info->ram_transferred_bytes));
    add_uint(object, "remaining_bytes", left);
    add_uint(object, "total_bytes", total);
    add_uint(object, "rate_bytes_per_second", rate);
    add_uint(object, "dirty_rate_bytes_per_second", dirty);
    uint64_t net = m->state == MIGRATION_POSTCOPY ? rate
                   : rate > dirty                 ? rate - dirty
                                                  : 0;
    add_known(object, "eta_seconds",
              net && converging && !migration_state_is_end(m->state)
                  ? (int64_t)(left / net)
                  : -1);
    add_uint(object, "pass", info->ram_dirty_sync_count);
    add_bool(object, "converging", converging);
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
        add_text(object, "name", channel->name);
        add_bool(object, "open", channel->open);
        add_uint(object, "forward_bytes", channel->forward_bytes);
        add_uint(object, "reverse_bytes", channel->reverse_bytes);
        add_uint(object, "held_bytes", channel->held_bytes);
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

static json_object *totals_to_json(const struct migration *m,
                                   const struct carrier_stats *stats)
{
    json_object *object = json_object_new_object();
    uint64_t requests = m->page_requests > stats->page_requests
                            ? m->page_requests
                            : stats->page_requests;

    add_uint(object, "wire_sent_bytes", stats->wire_sent_bytes);
    add_uint(object, "wire_received_bytes", stats->wire_received_bytes);
    add_uint(object, "page_requests", requests);
    add_uint(object, "precopy_bytes", m->info.ram_precopy_bytes);
    add_uint(object, "postcopy_bytes",
             less_held(m, m->info.ram_postcopy_bytes));
    add_uint(object, "downtime_bytes", m->info.ram_downtime_bytes);
    add_known(object, "vcpu_blocktime_ms", m->vcpu_blocktime_ms);
    return object;
}

static json_object *path_to_json(const struct carrier_stats *stats)
{
    json_object *object = json_object_new_object();

    add_uint(object, "rtt_us", (uint64_t)(stats->express_rtt / MP_US));
    add_uint(object, "bulk_rtt_us", (uint64_t)(stats->bulk_rtt / MP_US));
    add_uint(object, "window_bytes", stats->window_bytes);
    add_uint(object, "rate_bytes_per_second",
             stats->path_rate_bytes_per_second);
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

    add_uint(object, "count", latency->count);
    add_uint(object, "mean_us", (uint64_t)latency_mean(latency) / MP_US);
    add_uint(object, "p50_us",
             (uint64_t)latency_percentile(latency, 50) / MP_US);
    add_uint(object, "p99_us",
             (uint64_t)latency_percentile(latency, 99) / MP_US);
    add_uint(object, "max_us", (uint64_t)latency->max / MP_US);
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
    add_uint(object, "pool_limit_bytes", m->pool_bytes);
    add_uint(object, "pool_bytes", stats->pages.pool_bytes);
    add_uint(object, "pool_peak_bytes", stats->pages.pool_peak_bytes);
    add_uint(object, "taken", stats->pages.pages);
    add_uint(object, "sent_first", stats->pages.urgent_pages);
    add_uint(object, "awaited", stats->pages.waiting);
    json_object_object_add(object, "delivery", latency_to_json(&all));
    json_object_object_add(object, "delivery_found",
                           latency_to_json(&stats->found));
    json_object_object_add(object, "delivery_in_flight",
                           latency_to_json(&stats->in_flight));
    json_object_object_add(object, "delivery_fetched",
                           latency_to_json(&stats->fetched));
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
    add_uint(limits, "max_downtime_ms", m->max_downtime_ms);
    return limits;
}

json_object *migration_to_json(struct migration *m)
{
    json_object *object = json_object_new_object();
    mp_time end = m->ended ? m->ended : loop_now(m->env->control);

    if (m->carrier) {
        carrier_get_stats(m->carrier, &m->final_stats);
    }
    const struct carrier_stats *stats = &m->final_stats;
    add_text(object, "id", m->request.id);
    add_text(object, "vm", m->request.vm);
    add_text(object, "uuid", m->uuid);
    add_text(object, "role",
             m->is_source ? MIGRATION_SOURCE : MIGRATION_DESTINATION);
    add_text(object, "peer", m->request.peer);
    add_text(object, "mode", api_mode_name(m->request.mode));
    add_bool(object, "preempt", m->preempt);
    add_uint(object, "multifd_channels", m->request.multifd);
    if (m->is_source) {
        json_object_object_add(object, "limits", limits_to_json(m));
    }
    add_text(object, "state", migration_shown_state(m));
    add_bool(object, "postcopy", m->postcopy);
    add_text(object, "result", result_name(m));
    add_bool(object, "refused", m->refused);
    add_text(object, "guest_is_on", m->guest_is_on);
    json_object_object_add(object, "error", failure_to_json(m));
    add_text(object, "advice", m->advice);
    add_wall(object, "started_at", m->started_wall_us);
    add_wall(object, "ended_at", m->ended_wall_us);
    add_uint(object, "elapsed_ms", (uint64_t)((end - m->began) / MP_MS));
    json_object_object_add(object, "progress", progress_to_json(m));
    json_object_object_add(object, "downtime", downtime_to_json(m));
    json_object_object_add(object, "totals", totals_to_json(m, stats));
    json_object_object_add(object, "path", path_to_json(stats));
    json_object_object_add(object, "channels", channels_to_json(stats));
    add_text(object, "stream", stats->stream_state);
    if (m->is_source) {
        json_object_object_add(object, "pages",
                               pages_to_json(m, &stats->pages));
    }
    add_text(object, "run_state_at_switchover", m->run_state);
    return object;
}

void migration_request_key(const struct api_migrate *request, char *buf,
                           size_t size)
{
    snprintf(buf, size,
             "vm=%s to=%s qmp=%s dest_qmp=%s mode=%s preempt=%s multifd=%u "
             "postcopy_after=%.3f bandwidth=%llu max_downtime=%u timeout=%.3f "
             "on_timeout=%s",
             request->vm, request->peer, request->qmp_path,
             request->dest_qmp_path, api_mode_name(request->mode),
             api_preempt_name(request->preempt), request->multifd,
             request->postcopy_after_seconds,
             (unsigned long long)request->bandwidth_bytes_per_second,
             request->max_downtime_ms, request->timeout_seconds,
             api_on_timeout_name(request->on_timeout));
}

json_object *migration_to_record(struct migration *m)
{
    json_object *record = migration_to_json(m);
    json_object *object = json_object_new_object();

    add_text(record, "state", migration_state_name(m->state));
    add_text(object, "request", m->request_key);
    add_bool(object, "committed", m->committed);
    add_bool(object, "started", m->started);
    add_bool(object, "will_not_start", m->will_not_start);
    add_bool(object, "should_run", m->should_run);
    add_bool(object, "cancelled", m->cancelled);
    add_text(object, "qmp_path", m->qmp_path);
    add_uint(object, "qemu_pid", (uint64_t)m->qemu_pid);
    add_uint(object, "qemu_start_ticks", m->qemu_start_ticks);
    add_text(object, "qemu_version", m->qemu_version);
    json_object_object_add(object, "started_wall_us",
                           json_object_new_int64(m->started_wall_us));
    add_bool(object, "capabilities_changed", m->caps_changed);
    json_object_object_add(object, "capabilities",
                           m->caps ? qmp_caps_to_json(m->caps) : NULL);
    json_object_object_add(object, "blocks", json_object_get(m->blocks));
    json_object_object_add(object, "sections", json_object_get(m->sections));
    json_object_object_add(record, "successor", object);
    return record;
}

static int missing(struct error *err, const char *name)
{
    return error_set(err, ERR_IO, "the record has no \"%s\"", name);
}

static int take_successor(struct migration *m, json_object *object,
                          struct error *err)
{
    json_object *caps;
    const char *text;
    uint64_t pid = 0;

    if (!json_value_bool(object, "committed", &m->committed) ||
        !json_value_bool(object, "started", &m->started) ||
        !json_value_bool(object, "will_not_start", &m->will_not_start) ||
        !json_value_bool(object, "should_run", &m->should_run)) {
        return missing(err, "successor: committed, started, will_not_start, "
                            "should_run");
    }
    json_value_int(object, "started_wall_us", &m->started_wall_us);
    m->guest_is_on = m->started     ? MIGRATION_DESTINATION
                     : m->committed ? "unknown"
                                    : MIGRATION_SOURCE;
    json_value_bool(object, "cancelled", &m->cancelled);
    json_value_bool(object, "capabilities_changed", &m->caps_changed);
    if (json_value_text(object, "request", &text)) {
        json_value_copy_text(m->request_key, sizeof(m->request_key), text);
    }
    if (json_value_text(object, "qmp_path", &text)) {
        json_value_copy_text(m->qmp_path, sizeof(m->qmp_path), text);
    }
    json_value_uint(object, "qemu_pid", &pid);
    m->qemu_pid = (pid_t)pid;
    json_value_uint(object, "qemu_start_ticks", &m->qemu_start_ticks);
    if (json_value_object(object, "capabilities", &caps)) {
        m->caps = qmp_caps_from_json(caps, err);
        if (!m->caps) {
            return -1;
        }
    }
    if (json_value_array(object, "blocks", &m->blocks)) {
        json_object_get(m->blocks);
    }
    if (json_value_array(object, "sections", &m->sections)) {
        json_object_get(m->sections);
    }
    return 0;
}

int migration_from_record(struct migration *m, json_object *record,
                          struct error *err)
{
    json_object *successor;
    const char *text;
    uint64_t multifd;

    if (!json_value_text(record, "state", &text) ||
        !migration_state_of_name(text, &m->state)) {
        return missing(err, "state");
    }
    json_object *failure;
    if (m->state == MIGRATION_CANCELLING &&
        json_value_object(record, "error", &failure)) {
        /* the first cause is of before this process */
        const char *side =
            error_json_read(failure, MIGRATION_SOURCE, &m->failure.error);
        m->failure.is_set = true;
        json_value_copy_text(m->failure.side, sizeof(m->failure.side), side);
    }
    if (json_value_text(record, "vm", &text)) {
        json_value_copy_text(m->request.vm, sizeof(m->request.vm), text);
    }
    if (!json_value_text(record, "peer", &text)) {
        return missing(err, "peer");
    }
    json_value_copy_text(m->request.peer, sizeof(m->request.peer), text);
    if (json_value_text(record, "uuid", &text)) {
        json_value_copy_text(m->uuid, sizeof(m->uuid), text);
    }
    if (json_value_text(record, "run_state_at_switchover", &text)) {
        json_value_copy_text(m->run_state, sizeof(m->run_state), text);
    }
    for (int i = API_MODE_AUTO;
         json_value_text(record, "mode", &text) && i <= API_MODE_POSTCOPY;
         i++) {
        if (!strcmp(text, api_mode_name((enum api_mode)i))) {
            m->request.mode = (enum api_mode)i;
        }
    }
    if (json_value_uint(record, "multifd_channels", &multifd)) {
        m->request.multifd = (unsigned)multifd;
    }
    json_value_bool(record, "postcopy", &m->postcopy);
    json_value_bool(record, "preempt", &m->preempt);
    if (!json_value_object(record, "successor", &successor)) {
        return missing(err, "successor");
    }
    return take_successor(m, successor, err);
}
