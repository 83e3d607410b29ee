// SPDX-License-Identifier: BSD-3-Clause
/* What the API asks of the migrations. */
#include <string.h>

#include "config.h"
#include "proxy/api-migrate.h"
#include "proxy/manager-private.h"
#include "qmp/json-value.h"

static bool text_is(json_object *record, const char *name, const char *value)
{
    const char *text;
    return json_value_text(record, name, &text) && !strcmp(text, value);
}

/* A request whose id is known: 1 if it is answered with *ret_body, 0 if the id
 * is new. */
static int known_id(struct manager *manager, const struct api_migrate *request,
                    json_object **ret_body, struct error *err)
{
    struct migration *m = manager_find_active(manager, request->id, true, NULL);
    struct ended *ended = manager_find_ended(manager, request->id, true);
    json_object *successor = NULL;
    char key[MIGRATION_REQUEST_KEY_BYTES];

    if (m && api_migrate_is_equal(&m->request, request)) {
        *ret_body = migration_to_json(m);
        return 1;
    }
    if (m) {
        return error_set(err, ERR_CONFLICT,
                         "migration %s exists with other parameters (guest %s "
                         "to %s, %s)",
                         request->id, m->request.vm, m->request.peer,
                         migration_state_name(m->state));
    }
    if (!ended) {
        return 0;
    }
    migration_request_key(request, key, sizeof(key));
    json_value_object(ended->record, "successor", &successor);
    if (text_is(successor, "request", key)) {
        *ret_body = manager_strip_record(ended->record);
        return 1;
    }
    return error_set(err, ERR_CONFLICT,
                     "migration %s has ended and was another one; choose "
                     "another id",
                     request->id);
}

static int op_migrate(void *arg, const struct api_migrate *request,
                      json_object **ret_body, bool *ret_created,
                      struct error *err)
{
    struct manager *manager = arg;
    int known = known_id(manager, request, ret_body, err);

    if (known) {
        *ret_created = false;
        return known > 0 ? 0 : -1;
    }
    if (manager_admit(manager, request->vm, err)) {
        return -1;
    }
    struct source *source = source_start(&manager->env, request, err);
    if (!source) {
        return -1;
    }
    manager_add(manager, source_migration(source));
    *ret_body = migration_to_json(source_migration(source));
    *ret_created = true;
    return 0;
}

static int op_list(void *arg, json_object **ret_body, struct error *err)
{
    struct manager *manager = arg;
    json_object *body = json_object_new_object();
    json_object *array = json_object_new_array();

    LIST_EACH (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        json_object_array_add(array, migration_to_json(m));
    }
    for (struct list *node = manager->ended.prev; node != &manager->ended;
         node = node->prev) {
        struct ended *ended = container_of(node, struct ended, node);
        if (!manager_find_active(manager, ended->id, ended->is_source, NULL)) {
            json_object_array_add(array, manager_strip_record(ended->record));
        }
    }
    json_object_object_add(body, "migrations", array);
    *ret_body = body;
    return 0;
}

static struct migration *find_any(struct manager *manager, const char *id)
{
    struct migration *m = manager_find_active(manager, id, true, NULL);
    return m ? m : manager_find_active(manager, id, false, NULL);
}

/* Of two records with one id (a host that was both ends, at different times)
 * the younger one is meant. */
static struct ended *find_any_ended(struct manager *manager, const char *id)
{
    struct ended *a = manager_find_ended(manager, id, true);
    struct ended *b = manager_find_ended(manager, id, false);

    if (!a || !b) {
        return a ? a : b;
    }
    return strcmp(a->started_at, b->started_at) >= 0 ? a : b;
}

static int op_show(void *arg, const char *id, json_object **ret_body,
                   struct error *err)
{
    struct manager *manager = arg;
    struct migration *m = find_any(manager, id);
    struct ended *ended = m ? NULL : find_any_ended(manager, id);

    if (m) {
        *ret_body = migration_to_json(m);
    } else if (ended) {
        *ret_body = manager_strip_record(ended->record);
    } else {
        return error_set(err, ERR_NOT_FOUND, "no migration \"%s\" on %s", id,
                         manager->env.conf->name);
    }
    return 0;
}

static int op_cancel(void *arg, const char *id, json_object **ret_body,
                     struct error *err)
{
    struct manager *manager = arg;
    struct migration *m = find_any(manager, id);
    struct error why = ERROR_INIT;

    error_set(&why, ERR_CANCELLED, "cancelled by the operator on %s",
              manager->env.conf->name);
    if (m && m->is_source) {
        if (source_cancel(manager_source(m), &why, err)) {
            return -1;
        }
    } else if (m) {
        /* one that is being undone has its cause */
        m->cancelled =
            m->cancelled || (!m->started && m->state != MIGRATION_CANCELLING);
        if (destination_cancel(manager_destination(m), &why, err)) {
            return -1;
        }
    }
    return op_show(arg, id, ret_body, err);
}

static int op_postcopy(void *arg, const char *id, json_object **ret_body,
                       struct error *err)
{
    struct manager *manager = arg;
    struct migration *m = find_any(manager, id);
    struct ended *ended = m ? NULL : find_any_ended(manager, id);

    if (ended) {
        return error_set(err, ERR_TOO_LATE, "migration %s has ended", id);
    }
    if (m && !m->is_source) {
        return error_set(err, ERR_UNSUPPORTED,
                         "migration %s comes from %s: order postcopy there", id,
                         m->request.peer);
    }
    if (m && source_postcopy(manager_source(m), err)) {
        return -1;
    }
    return op_show(arg, id, ret_body, err);
}

static int op_set(void *arg, const char *id, const struct api_limits *limits,
                  json_object **ret_body, struct error *err)
{
    struct manager *manager = arg;
    struct migration *m = find_any(manager, id);

    if (!m && find_any_ended(manager, id)) {
        return error_set(err, ERR_TOO_LATE, "migration %s has ended", id);
    }
    if (m && !m->is_source) {
        return error_set(err, ERR_UNSUPPORTED,
                         "migration %s comes from %s: its limits are set there",
                         id, m->request.peer);
    }
    if (m && source_set_limits(manager_source(m), limits, err)) {
        return -1;
    }
    return op_show(arg, id, ret_body, err);
}

static int op_add_incoming(void *arg, const struct api_incoming *said,
                           json_object **ret_body, struct error *err)
{
    struct manager *manager = arg;
    const struct conf *conf = manager->env.conf;
    char id[ID_MAX + 1];

    if (path_check_allowed(said->qmp_path, conf->socket_dirs.items,
                           conf->socket_dirs.count, err)) {
        return error_wrap(err, "member \"qmp\"");
    }
    id_make(id);
    const struct incoming_entry *entry =
        incoming_add(&manager->incoming, id, said, clock_wall_us(), err);
    if (!entry) {
        return -1;
    }
    *ret_body = incoming_entry_to_json(entry);
    return 0;
}

static int op_list_incoming(void *arg, json_object **ret_body,
                            struct error *err)
{
    struct manager *manager = arg;
    json_object *body = json_object_new_object();
    json_object *array = json_object_new_array();

    LIST_EACH (node, &manager->incoming.entries) {
        json_object_array_add(array, incoming_entry_to_json(container_of(
                                         node, struct incoming_entry, node)));
    }
    json_object_object_add(body, "incoming", array);
    *ret_body = body;
    return 0;
}

static int op_remove_incoming(void *arg, const char *id, json_object **ret_body,
                              struct error *err)
{
    struct manager *manager = arg;
    struct incoming_entry *entry = incoming_find(&manager->incoming, id);

    if (!entry) {
        return error_set(err, ERR_NOT_FOUND,
                         "no guest is waited for under \"%s\" on %s", id,
                         manager->env.conf->name);
    }
    *ret_body = incoming_entry_to_json(entry);
    incoming_remove(&manager->incoming, entry);
    return 0;
}

static int op_peers(void *arg, json_object **ret_body, struct error *err)
{
    struct manager *manager = arg;
    json_object *body = json_object_new_object();

    json_object_object_add(body, "peers", peers_to_json(manager->env.peers));
    *ret_body = body;
    return 0;
}

static int op_host(void *arg, json_object **ret_body, struct error *err)
{
    struct manager *manager = arg;
    const struct conf *conf = manager->env.conf;
    json_object *body = json_object_new_object();
    json_object *limits = json_object_new_object();
    char instance[33];

    peers_instance_text(manager->env.peers, instance);
    json_object_object_add(body, "name", json_object_new_string(conf->name));
    json_object_object_add(body, "version",
                           json_object_new_string(PACKAGE_VERSION));
    json_object_object_add(body, "instance", json_object_new_string(instance));
    json_object_object_add(body, "draining",
                           json_object_new_boolean(manager->draining));
    json_object_object_add(limits, "sessions",
                           json_object_new_int((int)conf->sessions));
    json_object_object_add(
        limits, "bandwidth_bytes_per_second",
        conf->bandwidth_bytes_per_second == PARSE_UNLIMITED
            ? json_object_new_string("unlimited")
            : json_object_new_uint64(conf->bandwidth_bytes_per_second));
    json_object_object_add(limits, "pool_bytes",
                           json_object_new_uint64(conf->pool_bytes));
    json_object_object_add(limits, "peer_connections",
                           json_object_new_int((int)conf->peer_connections));
    json_object_object_add(limits, "records",
                           json_object_new_int((int)conf->records));
    json_object_object_add(
        limits, "switchover_buffer_bytes",
        json_object_new_uint64(conf->switchover_buffer_bytes));
    json_object_object_add(body, "limits", limits);
    *ret_body = body;
    return 0;
}

const struct api_ops manager_api_ops = {
    .migrate = op_migrate,
    .list = op_list,
    .show = op_show,
    .cancel = op_cancel,
    .postcopy = op_postcopy,
    .set = op_set,
    .close = manager_close,
    .add_incoming = op_add_incoming,
    .list_incoming = op_list_incoming,
    .remove_incoming = op_remove_incoming,
    .peers = op_peers,
    .host = op_host,
    .metrics = manager_write_metrics,
};
