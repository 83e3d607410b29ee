// SPDX-License-Identifier: BSD-3-Clause
/* What the other daemons ask of the migrations. */
#include <string.h>

#include "proxy/api-member.h"
#include "proxy/api-migrate.h"
#include "proxy/error-json.h"
#include "proxy/manager-private.h"
#include "qmp/json-value.h"

static void refuse(struct peer_request *request, enum error_code code,
                   const char *format, const char *a, const char *b)
{
    struct error err = ERROR_INIT;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    error_set(&err, code, format, a, b);
#pragma GCC diagnostic pop
    peer_request_fail(request, &err);
}

/* "migration.prepare": a guest wants to come here. */
static void on_prepare(struct manager *manager, struct peer_request *request,
                       const char *id)
{
    json_object *params = peer_request_params(request);
    const char *peer = peer_request_peer(request), *vm, *mode = "auto";
    const struct conf_peer *conf = conf_find_peer(manager->env.conf, peer);
    struct api_migrate wish = api_migrate_default;
    struct error err = ERROR_INIT;
    uint64_t multifd = 0;

    if (!conf || !(conf->allow & CONF_ALLOW_SEND)) {
        refuse(request, ERR_FORBIDDEN,
               "%s takes no guests from %s: its [peer] has no \"send\" in "
               "allow",
               manager->env.conf->name, peer);
        return;
    }
    if (!json_value_text(params, "vm", &vm) || strlen(vm) > API_NAME_MAX) {
        refuse(request, ERR_PROTOCOL, "migration.prepare: no good \"vm\"%s%s",
               "", "");
        return;
    }
    json_value_uint(params, "multifd_channels", &multifd);
    if (multifd > API_MULTIFD_MAX) {
        refuse(request, ERR_PROTOCOL,
               "migration.prepare: too many multifd_channels%s%s", "", "");
        return;
    }
    if (manager_find_active(manager, id, false, NULL) ||
        manager_find_ended(manager, id, false)) {
        refuse(request, ERR_CONFLICT,
               "migration id %s was used on %s already: choose another one", id,
               manager->env.conf->name);
        return;
    }
    LIST_EACH_SAFE (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        if (!m->is_source && !strcmp(m->request.vm, vm) &&
            !strcmp(m->request.peer, peer)) {
            destination_supersede(manager_destination(m), id);
        }
    }
    if (manager_admit(manager, vm, &err)) {
        peer_request_fail(request, &err);
        return;
    }
    json_value_copy_text(wish.id, sizeof(wish.id), id);
    json_value_copy_text(wish.vm, sizeof(wish.vm), vm);
    json_value_copy_text(wish.peer, sizeof(wish.peer), peer);
    wish.multifd = (unsigned)multifd;
    if (json_value_text(params, "mode", &mode)) {
        for (int i = API_MODE_AUTO; i <= API_MODE_POSTCOPY; i++) {
            if (!strcmp(mode, api_mode_name((enum api_mode)i))) {
                wish.mode = (enum api_mode)i;
            }
        }
    }
    struct incoming_entry *waiting = incoming_find_vm(&manager->incoming, vm);
    struct destination *destination = destination_start(
        &manager->env, request, &wish, waiting ? &waiting->said : NULL);
    if (!destination) {
        return;
    }
    struct migration *m = destination_migration(destination);
    if (waiting && !strcmp(waiting->said.qmp_path, m->qmp_path)) {
        json_value_copy_text(waiting->migration, sizeof(waiting->migration),
                             id);
    }
    manager_add(manager, m);
}

/* Answers from the record of a migration that has ended here: what it says is
 * binding. */
static void answer_from_record(struct manager *manager, struct ended *ended,
                               struct peer_request *request)
{
    const char *method = peer_request_method(request), *state = "";
    json_object *successor = NULL, *failure = NULL;
    json_object *result = json_object_new_object();
    bool started = false, attention = false, completed;
    bool is_abort = !strcmp(method, "migration.abort");

    json_value_object(ended->record, "successor", &successor);
    json_value_bool(successor, "started", &started);
    json_value_text(ended->record, "state", &state);
    completed = !strcmp(state, "completed");
    json_value_bool(peer_request_params(request), "attention", &attention);
    if (is_abort && started && !attention) {
        json_object_put(result);
        refuse(request, ERR_TOO_LATE,
               "migration.abort: guest of migration %s was started here (%s)",
               ended->id, state);
        return;
    }
    if (is_abort && (!started || !strcmp(state, "attention"))) {
        manager_amend_record(manager, ended, peer_request_params(request));
    }
    json_object_object_add(result, "started", json_object_new_boolean(started));
    json_object_object_add(result, "will_start",
                           json_object_new_boolean(started));
    json_object_object_add(result, "completed",
                           json_object_new_boolean(completed));
    json_object_object_add(result, "prepared", json_object_new_boolean(true));
    json_object_object_add(
        result, "failed",
        json_object_new_boolean(!started || !strcmp(state, "attention")));
    if (json_value_object(ended->record, "error", &failure)) {
        json_object_object_add(result, "error", json_object_get(failure));
    }
    peer_request_reply(request, result);
}

static void on_request(void *arg, struct peer_request *request)
{
    struct manager *manager = arg;
    const char *id = NULL, *peer = peer_request_peer(request);
    struct migration *m;
    struct ended *ended;

    if (!json_value_text(peer_request_params(request), "migration", &id) ||
        !id_is_valid(id)) {
        refuse(request, ERR_PROTOCOL, "%s: no good \"migration\" id%s",
               peer_request_method(request), "");
        return;
    }
    if (!strcmp(peer_request_method(request), "migration.prepare")) {
        on_prepare(manager, request, id);
        return;
    }
    m = manager_find_active(manager, id, false, peer);
    if (m && migration_state_is_end(m->state)) { /* not yet freed */
        ended = manager_keep_record(manager, m);
        m = NULL; /* ended NULL: out of memory, as if it were not known */
    } else {
        ended = m ? NULL : manager_find_ended(manager, id, false);
    }
    if (m) {
        destination_on_request(manager_destination(m), request);
    } else if (ended && json_object_object_get(ended->record, "peer") &&
               !strcmp(json_object_get_string(
                           json_object_object_get(ended->record, "peer")),
                       peer)) {
        answer_from_record(manager, ended, request);
    } else {
        refuse(request, ERR_NOT_FOUND, "migration %s is not known on %s", id,
               manager->env.conf->name);
    }
}

static void on_lane(void *arg, const char *peer, struct lane *lane,
                    const struct hello *theirs)
{
    struct manager *manager = arg;

    LIST_EACH (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        if (!m->is_source && !strcmp(m->request.peer, peer) &&
            destination_take_lane(manager_destination(m), lane, theirs)) {
            return;
        }
    }
    log_warning("a lane of peer %s names no migration of this host: refused",
                peer);
    lane_refuse(lane, ERR_NOT_FOUND, "the lane's token names no migration");
}

static void on_new_instance(void *arg, const char *peer)
{
    struct manager *manager = arg;

    LIST_EACH_SAFE (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        if (m->is_source && !strcmp(m->request.peer, peer)) {
            source_peer_restarted(manager_source(m));
        }
    }
}

const struct peers_ops manager_peers_ops = {
    .on_request = on_request,
    .on_lane = on_lane,
    .on_new_instance = on_new_instance,
};
