// SPDX-License-Identifier: BSD-3-Clause
/* All migrations of this host. */
#include "proxy/manager.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/api-migrate.h"
#include "proxy/manager-private.h"
#include "qmp/json-value.h"

#define POOL_PART_OF_FREE 4 /* of the memory that is free: a quarter */
#define POOL_SHARE_MIN_BYTES (1u << 20)

struct source *manager_source(struct migration *m)
{
    /* a migration is the first member of what it is embedded in */
    return (struct source *)(void *)m;
}

struct destination *manager_destination(struct migration *m)
{
    return (struct destination *)(void *)m;
}

struct migration *manager_find_active(struct manager *manager, const char *id,
                                      bool is_source, const char *peer)
{
    LIST_EACH (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        if (m->is_source == is_source && !strcmp(m->request.id, id) &&
            (!peer || !strcmp(m->request.peer, peer))) {
            return m;
        }
    }
    return NULL;
}

struct ended *manager_find_ended(struct manager *manager, const char *id,
                                 bool is_source)
{
    LIST_EACH (node, &manager->ended) {
        struct ended *ended = container_of(node, struct ended, node);
        if (ended->is_source == is_source && !strcmp(ended->id, id)) {
            return ended;
        }
    }
    return NULL;
}

static void ended_free(struct manager *manager, struct ended *ended)
{
    list_remove(&ended->node);
    json_object_put(ended->record);
    free(ended);
    manager->ended_count--;
}

static const char *role_name(bool is_source)
{
    return is_source ? MIGRATION_SOURCE : MIGRATION_DESTINATION;
}

/* Old records go, the oldest first; those that need a person stay longer. */
static void prune(struct manager *manager)
{
    LIST_EACH_SAFE (node, &manager->ended) {
        struct ended *ended = container_of(node, struct ended, node);
        if (manager->ended_count <= manager->env.conf->records) {
            return;
        }
        bool keep = manager_needs_attention(ended) &&
                    manager->ended_count <= 2 * manager->env.conf->records;
        if (!ended->unfinished && !keep &&
            !manager_find_active(manager, ended->id, ended->is_source, NULL)) {
            store_remove(manager->env.store, role_name(ended->is_source),
                         ended->id);
            ended_free(manager, ended);
        }
    }
}

/* Keeps record (its reference is taken), in order of its beginning. */
static struct ended *keep_record(struct manager *manager, const char *id,
                                 bool is_source, json_object *record)
{
    struct ended *old = manager_find_ended(manager, id, is_source);
    struct ended *ended = calloc(1, sizeof(*ended));

    if (!ended) {
        json_object_put(record);
        return NULL;
    }
    if (old) {
        ended_free(manager, old);
    }
    json_value_copy_text(ended->id, sizeof(ended->id), id);
    ended->is_source = is_source;
    ended->record = record;
    ended->started_at = "";
    json_value_text(record, "started_at", &ended->started_at);
    struct list *at = manager->ended.prev;
    while (at != &manager->ended &&
           strcmp(container_of(at, struct ended, node)->started_at,
                  ended->started_at) > 0) {
        at = at->prev;
    }
    list_insert_before(at->next, &ended->node);
    manager->ended_count++;
    return ended;
}

struct ended *manager_keep_record(struct manager *manager, struct migration *m)
{
    if (m->is_kept) {
        return manager_find_ended(manager, m->request.id, m->is_source);
    }
    m->is_kept = true;
    return keep_record(manager, m->request.id, m->is_source,
                       migration_to_record(m));
}

/* The QEMU that was said to wait has its guest, or was used in vain. One that
 * was only looked at waits on. */
static void forget_incoming(struct manager *manager, struct migration *m)
{
    struct incoming_entry *entry =
        m->is_source
            ? NULL
            : incoming_find_migration(&manager->incoming, m->request.id);

    if (entry && destination_has_used_qemu(manager_destination(m))) {
        incoming_remove(&manager->incoming, entry);
    } else if (entry) {
        entry->migration[0] = '\0';
    }
}

static void reap_now(struct manager *manager, struct migration *m)
{
    forget_incoming(manager, m);
    manager_count_ended(manager, m);
    struct ended *ended = manager_keep_record(manager, m);
    if (ended) {
        manager_settle(manager, ended);
    }
    manager->active_count--;
    if (m->is_source) {
        source_free(manager_source(m));
    } else {
        destination_free(manager_destination(m));
    }
    prune(manager);
    if (manager->draining && !manager->active_count && manager->on_idle) {
        manager->on_idle(manager->idle_arg);
    }
}

static void reap_cb(void *arg)
{
    struct manager *manager = arg;

    LIST_EACH_SAFE (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        if (migration_state_is_end(m->state)) {
            reap_now(manager, m);
        }
    }
}

/* It may end within its own callback, so it is freed at the next turn. */
static void on_end(void *arg, struct migration *m)
{
    struct manager *manager = arg;
    loop_timer_start(&manager->reap, 0);
}

static const char *arrived_stopped(void *arg, const struct migration *m)
{
    struct manager *manager = arg;

    LIST_EACH (node, &manager->ended) {
        struct ended *ended = container_of(node, struct ended, node);
        json_object *successor = NULL;
        uint64_t pid = 0, start_ticks = 0;
        bool should_run = true, started = false;
        json_value_object(ended->record, "successor", &successor);
        json_value_uint(successor, "qemu_pid", &pid);
        json_value_uint(successor, "qemu_start_ticks", &start_ticks);
        json_value_bool(successor, "should_run", &should_run);
        json_value_bool(successor, "started", &started);
        if (!ended->is_source && started && !should_run && m->qemu_pid &&
            (pid_t)pid == m->qemu_pid && start_ticks == m->qemu_start_ticks) {
            return ended->id;
        }
    }
    return NULL;
}

/* Memory the kernel could give now, or 0 if it does not say. */
static uint64_t available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    uint64_t kib = 0;

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kib * 1024;
}

/* Half of what is left: another migration may begin. All shares together never
 * are more than the limit, nor is one so small that it is of no use. */
static uint64_t pool_share(void *arg)
{
    struct manager *manager = arg;
    uint64_t limit = manager->env.conf->pool_bytes;
    uint64_t available = available_bytes() / POOL_PART_OF_FREE;
    uint64_t taken = 0;

    if (available && available < limit) {
        limit = available;
    }
    LIST_EACH (node, &manager->active) {
        taken += container_of(node, struct migration, node)->pool_bytes;
    }
    uint64_t share = taken < limit ? (limit - taken) / 2 : 0;
    return share >= POOL_SHARE_MIN_BYTES ? share : 0;
}

void manager_add(struct manager *manager, struct migration *m)
{
    list_append(&manager->active, &m->node);
    manager->active_count++;
    manager_on_change(manager, m);
    manager_progress_cb(manager);
}

int manager_admit(struct manager *manager, const char *vm, struct error *err)
{
    const struct conf *conf = manager->env.conf;
    uint64_t needed =
        conf->switchover_buffer_bytes * (manager->active_count + 1);
    uint64_t available = available_bytes();

    if (manager->draining) {
        return error_set(err, ERR_SHUTTING_DOWN,
                         "the daemon %s is ending and takes no new migrations",
                         conf->name);
    }
    if (manager->active_count >= conf->sessions) {
        return error_set(err, ERR_LIMIT,
                         "%u migration%s under way on %s, the limit is %u "
                         "([limits] sessions)",
                         manager->active_count,
                         manager->active_count == 1 ? " is" : "s are",
                         conf->name, conf->sessions);
    }
    if (available && available < needed) {
        return error_set(err, ERR_LIMIT,
                         "%s has %" PRIu64 " MiB of memory available; %u "
                         "migration%s may need %" PRIu64
                         " MiB ([migration] switchover-buffer)",
                         conf->name, available >> 20, manager->active_count + 1,
                         manager->active_count ? "s" : "", needed >> 20);
    }
    LIST_EACH (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        if (!strcmp(m->request.vm, vm) &&
            (m->is_source || !m->will_not_start)) {
            return error_set(err, ERR_CONFLICT,
                             "guest %s is being migrated on %s already: "
                             "migration %s (%s)",
                             vm, conf->name, m->request.id,
                             migration_state_name(m->state));
        }
    }
    return 0;
}

json_object *manager_strip_record(json_object *record)
{
    json_object *object = json_object_new_object();

    json_object_object_foreach(record, key, value)
    {
        if (strcmp(key, "successor")) {
            json_object_object_add(object, key, json_object_get(value));
        }
    }
    return object;
}

static void on_record(void *arg, const char *role, const char *id,
                      json_object *record)
{
    struct manager *manager = arg;
    bool is_source = !strcmp(role, MIGRATION_SOURCE);
    enum migration_state state;
    const char *name;
    struct ended *ended;

    if (!is_source && strcmp(role, MIGRATION_DESTINATION)) {
        return;
    }
    ended = keep_record(manager, id, is_source, json_object_get(record));
    if (ended && json_value_text(record, "state", &name) &&
        migration_state_of_name(name, &state)) {
        ended->unfinished = !migration_state_is_end(state);
    }
}

static void on_bad_record(void *arg, const char *name, const struct error *err)
{
    log_warning("record %s is left alone: %s", name, err->text);
}

struct manager *manager_new(struct loop *control, struct loop *data,
                            const struct conf *conf, struct store *store,
                            struct error *err)
{
    struct manager *manager = calloc(1, sizeof(*manager));

    if (!manager) {
        error_set(err, ERR_NO_MEMORY, "manager: out of memory");
        return NULL;
    }
    manager->env = (struct migration_env){.control = control,
                                          .data = data,
                                          .conf = conf,
                                          .store = store,
                                          .pool_share = pool_share,
                                          .on_change = manager_on_change,
                                          .on_end = on_end,
                                          .arrived_stopped = arrived_stopped,
                                          .arg = manager};
    list_init(&manager->active);
    list_init(&manager->ended);
    incoming_init(&manager->incoming);
    loop_timer_init(&manager->progress, control, manager_progress_cb, manager);
    loop_timer_init(&manager->reap, control, reap_cb, manager);
    manager_settle_init(manager);
    if (store_each(store, on_record, on_bad_record, manager, err)) {
        manager_free(manager);
        return NULL;
    }
    return manager;
}

void manager_free(struct manager *manager)
{
    if (!manager) {
        return;
    }
    manager->on_idle = NULL;
    manager->api = NULL;
    loop_timer_done(&manager->progress);
    manager_settle_done(manager);
    incoming_done(&manager->incoming);
    loop_timer_done(&manager->reap);
    while (!list_is_empty(&manager->active)) {
        struct migration *m =
            container_of(manager->active.next, struct migration, node);
        migration_save(m);
        if (m->is_source) {
            source_free(manager_source(m));
        } else {
            destination_free(manager_destination(m));
        }
    }
    while (!list_is_empty(&manager->ended)) {
        ended_free(manager,
                   container_of(manager->ended.next, struct ended, node));
    }
    free(manager);
}

void manager_set_peers(struct manager *manager, struct peers *peers)
{
    manager->env.peers = peers;
}

void manager_set_conf(struct manager *manager, const struct conf *conf)
{
    manager->env.conf = conf;
}

static void take_over(struct manager *manager, struct ended *ended)
{
    struct api_migrate request = api_migrate_default;
    struct error err = ERROR_INIT;
    struct migration *m = NULL;

    json_value_copy_text(request.id, sizeof(request.id), ended->id);
    if (ended->is_source) {
        struct source *source =
            source_take_over(&manager->env, &request, ended->record, &err);
        m = source ? source_migration(source) : NULL;
    } else {
        struct destination *destination =
            destination_take_over(&manager->env, &request, ended->record, &err);
        m = destination ? destination_migration(destination) : NULL;
    }
    if (!m) {
        log_error("migration %s cannot be taken over, its record is left "
                  "alone: %s",
                  ended->id, err.text);
        return;
    }
    manager_add(manager, m);
}

/* An earlier daemon, or a QEMU, that was killed has left its socket. */
static void remove_old_socket(struct manager *manager, struct ended *ended)
{
    const struct conf *conf = manager->env.conf;
    json_object *successor = NULL;
    const char *path;

    json_value_object(ended->record, "successor", &successor);
    if (json_value_text(successor, "socket_path", &path) &&
        !path_check_allowed(path, conf->socket_dirs.items,
                            conf->socket_dirs.count, NULL) &&
        path_remove_dead_socket(path, conf->qemu_user)) {
        log_info("removed %s, left behind by migration %s", path, ended->id);
    }
}

void manager_take_over(struct manager *manager)
{
    LIST_EACH_SAFE (node, &manager->ended) {
        struct ended *ended = container_of(node, struct ended, node);
        remove_old_socket(manager, ended);
        if (ended->unfinished) {
            ended->unfinished = false;
            take_over(manager, ended);
        } else {
            manager_settle(manager, ended);
        }
    }
}

void manager_drain(struct manager *manager, loop_fn on_idle, void *arg)
{
    manager->draining = true;
    manager->on_idle = on_idle;
    manager->idle_arg = arg;
    if (!manager->active_count) {
        loop_defer(manager->env.control, on_idle, arg);
    }
}

void manager_cancel_all(struct manager *manager)
{
    struct error why = ERROR_INIT, err = ERROR_INIT;

    error_set(&why, ERR_SHUTTING_DOWN, "the daemon %s is ending",
              manager->env.conf->name);
    LIST_EACH_SAFE (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        int rc = m->is_source
                     ? source_cancel(manager_source(m), &why, &err)
                     : destination_cancel(manager_destination(m), &why, &err);
        if (rc) {
            migration_log(m, LOG_LEVEL_WARNING, "it is waited for: %s",
                          err.text);
        }
    }
}

unsigned manager_count(const struct manager *manager)
{
    return manager->active_count;
}
