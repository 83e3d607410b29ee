// SPDX-License-Identifier: BSD-3-Clause
/* A migration as it stands on disk. */
#include <stdio.h>
#include <string.h>

#include "proxy/json-add.h"
#include "proxy/migration.h"
#include "qmp/json-value.h"

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

/* A time of this process as one that the next one understands, and back. A
 * clock that was set meanwhile makes no time negative. */
static int64_t wall_of(const struct migration *m, mp_time time)
{
    return clock_wall_us() - (loop_now(m->env->control) - time) / MP_US;
}

static mp_time time_of(const struct migration *m, int64_t wall_us)
{
    int64_t age_us = clock_wall_us() - wall_us;
    return loop_now(m->env->control) - (age_us > 0 ? age_us : 0) * MP_US;
}

json_object *migration_to_record(struct migration *m)
{
    json_object *record = migration_to_json(m);
    json_object *object = json_object_new_object();

    json_add_text(record, "state", migration_state_name(m->state));
    json_add_text(object, "request", m->request_key);
    json_add_bool(object, "committed", m->committed);
    json_add_bool(object, "started", m->started);
    json_add_bool(object, "will_not_start", m->will_not_start);
    json_add_bool(object, "should_run", m->should_run);
    json_add_bool(object, "cancelled", m->cancelled);
    json_add_bool(object, "effect", m->failure.is_set && m->failure.is_effect);
    json_add_bool(object, "unsettled", m->unsettled);
    json_add_bool(object, "unrecoverable", m->is_unrecoverable);
    json_add_bool(object, "told_to_listen", m->told_to_listen);
    json_add_text(object, "source_host", m->hosts.source);
    json_add_text(object, "destination_host", m->hosts.destination);
    json_add_text(object, "qmp_path", m->qmp_path);
    json_add_text(object, "peer_qmp_path", m->peer_qmp_path);
    json_add_text(object, "socket_path", m->socket_path);
    json_add_uint(object, "qemu_pid", (uint64_t)m->qemu_pid);
    json_add_uint(object, "qemu_start_ticks", m->qemu_start_ticks);
    json_add_text(object, "qemu_version", m->qemu_version);
    json_add_int(object, "started_wall_us", m->started_wall_us);
    json_add_int(object, "phase_began_wall_us",
                 wall_of(m, m->counts.phase_began));
    json_add_int(object, "counted_wall_us", m->counts.wall_us);
    json_add_uint(object, "multifd_running_bytes",
                  m->counts.multifd_bytes[true]);
    json_add_uint(object, "multifd_stopped_bytes",
                  m->counts.multifd_bytes[false]);
    json_add_bool(object, "capabilities_changed", m->caps_changed);
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
    if (json_value_int(object, "started_wall_us", &m->started_wall_us)) {
        m->began = time_of(m, m->started_wall_us);
    }
    m->guest_is_on = m->started     ? MIGRATION_DESTINATION
                     : m->committed ? "unknown"
                                    : MIGRATION_SOURCE;
    json_value_bool(object, "cancelled", &m->cancelled);
    if (m->failure.is_set) {
        json_value_bool(object, "effect", &m->failure.is_effect);
    }
    if (json_value_text(object, "source_host", &text)) {
        json_value_copy_text(m->hosts.source, sizeof(m->hosts.source), text);
    }
    if (json_value_text(object, "destination_host", &text)) {
        json_value_copy_text(m->hosts.destination, sizeof(m->hosts.destination),
                             text);
    }
    json_value_bool(object, "unrecoverable", &m->is_unrecoverable);
    json_value_bool(object, "told_to_listen", &m->told_to_listen);
    migration_take_peer_qmp(m, object, "peer_qmp_path");
    json_value_bool(object, "capabilities_changed", &m->caps_changed);
    if (json_value_text(object, "request", &text)) {
        json_value_copy_text(m->request_key, sizeof(m->request_key), text);
    }
    if (json_value_text(object, "qmp_path", &text)) {
        json_value_copy_text(m->qmp_path, sizeof(m->qmp_path), text);
    }
    if (json_value_text(object, "socket_path", &text)) {
        json_value_copy_text(m->socket_path, sizeof(m->socket_path), text);
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

/* What was counted -------------------------------------------------------- */

static void take_progress(struct migration *m, json_object *record)
{
    struct qmp_migrate_info *info = &m->info;
    json_object *progress = NULL;

    json_value_object(record, "progress", &progress);
    info->has_ram =
        json_value_uint(progress, "total_bytes", &info->ram_total_bytes);
    json_value_uint(progress, "remaining_bytes", &info->ram_remaining_bytes);
    json_value_uint(progress, "transferred_bytes",
                    &info->ram_transferred_bytes);
    json_value_uint(progress, "pass", &info->ram_dirty_sync_count);
    json_value_double(progress, "percent", &m->counts.percent);
}

/* QEMU's part of a sum. */
static bool take_rest(json_object *totals, const char *name, uint64_t less,
                      uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    bool is_there = json_value_uint(totals, name, &bytes);

    *ret_bytes = bytes > less ? bytes - less : 0;
    return is_there;
}

static void take_totals(struct migration *m, json_object *record,
                        json_object *successor)
{
    struct qmp_migrate_info *info = &m->info;
    uint64_t *multifd = m->counts.multifd_bytes;
    json_object *totals = NULL, *downtime = NULL;
    uint64_t value;

    json_value_object(record, "totals", &totals);
    json_value_object(record, "downtime", &downtime);
    json_value_uint(successor, "multifd_running_bytes", &multifd[true]);
    json_value_uint(successor, "multifd_stopped_bytes", &multifd[false]);
    info->ram_multifd_bytes = multifd[true] + multifd[false];
    info->has_phase_bytes = take_rest(totals, "precopy_bytes", multifd[true],
                                      &info->ram_precopy_bytes);
    take_rest(totals, "downtime_bytes", multifd[false],
              &info->ram_downtime_bytes);
    json_value_uint(totals, "postcopy_bytes", &info->ram_postcopy_bytes);
    json_value_uint(totals, "page_requests", &m->page_requests);
    if (json_value_uint(totals, "vcpu_blocktime_ms", &value)) {
        m->vcpu_blocktime_ms = (int64_t)value;
    }
    if (json_value_uint(downtime, "blackout_us", &value)) {
        m->blackout_us = (int64_t)value;
    }
    if (json_value_uint(downtime, "uncertainty_us", &value)) {
        m->blackout_uncertainty_us = (int64_t)value;
    }
}

static void take_phases(struct migration *m, json_object *record,
                        json_object *successor)
{
    json_object *phases = NULL;
    uint64_t time_ms;
    int64_t wall_us;

    json_value_object(record, "phases_ms", &phases);
    for (int i = 0; i < MIGRATION_STATES; i++) {
        enum migration_state state = (enum migration_state)i;
        if (state != m->state &&
            json_value_uint(phases, migration_state_name(state), &time_ms)) {
            m->counts.phases[i] = (mp_time)time_ms * MP_MS;
        }
    }
    if (json_value_int(successor, "phase_began_wall_us", &wall_us)) {
        m->counts.phase_began = time_of(m, wall_us);
    }
    json_value_int(successor, "counted_wall_us", &m->counts.wall_us);
}

static void take_limits(struct migration *m, json_object *record)
{
    json_object *limits = NULL;
    uint64_t value;

    json_value_object(record, "limits", &limits);
    if (json_value_uint(limits, "bandwidth_bytes_per_second", &value)) {
        m->bandwidth_bytes_per_second = value;
    }
    if (json_value_uint(limits, "max_downtime_ms", &value)) {
        m->max_downtime_ms = (unsigned)value;
    }
}

/* The data path ended with the daemon it was of. */
static void close_past(json_object *past)
{
    json_object *channels = NULL, *pages = NULL;

    json_value_array(past, "channels", &channels);
    for (size_t i = 0; channels && i < json_object_array_length(channels);
         i++) {
        json_object *object = json_object_array_get_idx(channels, i);
        if (json_object_is_type(object, json_type_object)) {
            json_add_bool(object, "open", false);
            json_add_uint(object, "held_bytes", 0);
            json_object_object_add(object, "blocked", json_object_new_array());
        }
    }
    if (json_value_object(past, "pages", &pages)) {
        json_add_uint(pages, "pool_bytes", 0);
    }
}

static int take_counts(struct migration *m, json_object *record,
                       json_object *successor, struct error *err)
{
    take_progress(m, record);
    take_totals(m, record, successor);
    take_phases(m, record, successor);
    take_limits(m, record);
    if (json_object_deep_copy(record, &m->counts.past, NULL)) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for the record");
    }
    close_past(m->counts.past);
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
        migration_failure_from_json(m, failure);
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
    json_value_bool(record, "refused", &m->refused);
    json_value_bool(record, "postcopy", &m->postcopy);
    json_value_bool(record, "preempt", &m->preempt);
    json_value_bool(record, "small_pages", &m->small_pages);
    if (!json_value_object(record, "successor", &successor)) {
        return missing(err, "successor");
    }
    if (take_successor(m, successor, err)) {
        return -1;
    }
    return take_counts(m, record, successor, err);
}
