// SPDX-License-Identifier: BSD-3-Clause
/* What both ends of a migration have in common. */
#include "proxy/migration.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"

#define LOG_PART_BYTES 800

void migration_init(struct migration *m, const struct migration_env *env,
                    bool is_source, const struct api_migrate *request)
{
    list_init(&m->node);
    m->env = env;
    m->is_source = is_source;
    m->request = *request;
    migration_request_key(request, m->request_key, sizeof(m->request_key));
    snprintf(m->context, sizeof(m->context), "mig=%s side=%s", request->id,
             is_source ? MIGRATION_SOURCE : MIGRATION_DESTINATION);
    m->bandwidth_bytes_per_second = request->bandwidth_bytes_per_second;
    m->max_downtime_ms = request->max_downtime_ms;
    json_value_copy_text(m->peer_qmp_path, sizeof(m->peer_qmp_path),
                         request->dest_qmp_path);
    m->state = MIGRATION_PREPARING;
    m->guest_is_on = MIGRATION_SOURCE;
    m->started_wall_us = clock_wall_us();
    m->began = loop_now(env->control);
    m->counts.wall_us = m->started_wall_us;
    m->counts.phase_began = m->began;
    m->blackout_us = -1;
    m->vcpu_blocktime_ms = -1;
}

void migration_done(struct migration *m)
{
    list_remove(&m->node);
    qmp_caps_free(m->caps);
    json_object_put(m->blocks);
    json_object_put(m->sections);
    json_object_put(m->counts.past);
    carrier_free(m->closed_carrier, NULL);
    m->closed_carrier = NULL;
    m->counts.past = NULL;
    free(m->advice);
    m->advice = NULL;
    m->caps = NULL;
    m->blocks = NULL;
    m->sections = NULL;
}

void migration_log(const struct migration *m, enum log_level level,
                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_writev(level, m->context, format, args);
    va_end(args);
}

static int save(struct migration *m, struct error *err)
{
    json_object *record = migration_to_record(m);
    int rc = store_save(m->env->store,
                        m->is_source ? MIGRATION_SOURCE : MIGRATION_DESTINATION,
                        m->request.id, record, err);
    json_object_put(record);
    return rc;
}

void migration_save(struct migration *m)
{
    struct error err = ERROR_INIT;
    if (save(m, &err)) {
        migration_log(m, LOG_LEVEL_ERROR,
                      "the record could not be written, going on: %s",
                      err.text);
    }
}

static void enter(struct migration *m, enum migration_state state)
{
    mp_time now = loop_now(m->env->control);

    m->counts.phases[m->state] += now - m->counts.phase_began;
    m->counts.phase_began = now;
    m->state = state;
    if (migration_state_is_end(state)) {
        m->ended = now;
        m->ended_wall_us = clock_wall_us();
    }
}

int migration_commit_state(struct migration *m, enum migration_state state,
                           struct error *err)
{
    enum migration_state before = m->state;
    struct migration_counts counts = m->counts;

    assert(migration_state_may(before, state));
    enter(m, state);
    if (save(m, err)) {
        m->state = before;
        m->counts = counts;
        m->ended = 0;
        m->ended_wall_us = 0;
        return error_wrap(err, "record of migration %s", m->request.id);
    }
    migration_log(m, LOG_LEVEL_INFO, "%s -> %s", migration_state_name(before),
                  migration_state_name(state));
    m->env->on_change(m->env->arg, m);
    return 0;
}

void migration_set_state(struct migration *m, enum migration_state state)
{
    struct error err = ERROR_INIT;
    enum migration_state before = m->state;

    if (migration_commit_state(m, state, &err)) {
        migration_log(m, LOG_LEVEL_ERROR, "%s; going on from %s to %s",
                      err.text, migration_state_name(before),
                      migration_state_name(state));
        enter(m, state);
        m->env->on_change(m->env->arg, m);
    }
}

const char *migration_shown_state(const struct migration *m)
{
    return m->state == MIGRATION_CANCELLING && !m->cancelled
               ? "undoing"
               : migration_state_name(m->state);
}

void migration_set_socket(struct migration *m, const uint8_t *token)
{
    snprintf(m->socket_path, sizeof(m->socket_path),
             "%s/mp-%02x%02x%02x%02x-%c", m->env->conf->socket_dirs.items[0],
             token[0], token[1], token[2], token[3], m->is_source ? 's' : 'd');
}

void migration_take_peer_qmp(struct migration *m, json_object *object,
                             const char *member)
{
    struct error err = ERROR_INIT;
    const char *path;

    if (json_value_text(object, member, &path) &&
        !path_check_socket(path, &err)) {
        json_value_copy_text(m->peer_qmp_path, sizeof(m->peer_qmp_path), path);
    }
}

void migration_log_advice(const char *context, const char *advice)
{
    while (*advice) {
        size_t size = strcspn(advice, "\n");
        if (size > LOG_PART_BYTES) { /* a log line has its limit */
            size = LOG_PART_BYTES;
            while (size > 1 && advice[size] != ' ') {
                size--;
            }
        }
        log_write(LOG_LEVEL_WARNING, context, "advice: %.*s", (int)size,
                  advice);
        advice += size;
        advice += *advice == '\n';
    }
}

void migration_advise(struct migration *m, enum advice_kind kind,
                      const char *detail)
{
    struct advice advice = {.kind = kind,
                            .is_source = m->is_source,
                            .is_unrecoverable = m->is_unrecoverable,
                            .id = m->request.id,
                            .vm = m->request.vm,
                            .uuid = m->uuid,
                            .here = m->env->conf->name,
                            .peer = m->request.peer,
                            .qmp_path = m->qmp_path,
                            .peer_qmp_path = m->peer_qmp_path,
                            .detail = detail ? detail : ""};
    char *text = advice_make(&advice);

    if (!text) {
        migration_log(m, LOG_LEVEL_ERROR,
                      "out of memory for advice: see recovery.md#%s",
                      advice_anchor(kind));
        return;
    }
    free(m->advice);
    m->advice = text;
    migration_log_advice(m->context, text);
}

bool migration_has_moved(struct migration *m, const struct carrier_stats *stats)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < stats->channel_count; i++) {
        bytes += stats->channel[i].forward_bytes;
        bytes += stats->channel[i].reverse_bytes;
    }
    bool has_moved = bytes != m->moved_bytes;
    m->moved_bytes = bytes;
    return has_moved;
}

bool migration_is_same_qemu(struct migration *m, struct qmp *qmp)
{
    struct error err = ERROR_INIT;
    uint64_t start_ticks = 0;
    pid_t pid = 0;

    if (qmp_peer(qmp, &pid, &start_ticks, &err)) {
        migration_log(m, LOG_LEVEL_DEBUG, "%s", err.text);
        return true;
    }
    if (m->qemu_pid &&
        (m->qemu_pid != pid || m->qemu_start_ticks != start_ticks)) {
        migration_log(m, LOG_LEVEL_WARNING,
                      "%s leads to another QEMU (pid %d) than the "
                      "migration's (pid %d): it is left alone",
                      m->qmp_path, (int)pid, (int)m->qemu_pid);
        return false;
    }
    m->qemu_pid = pid;
    m->qemu_start_ticks = start_ticks;
    return true;
}
