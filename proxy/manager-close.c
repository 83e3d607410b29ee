// SPDX-License-Identifier: BSD-3-Clause
/* Closing what needed a person: who has settled it says so, and the record is
 * like those of other migrations from then on. It is this host's own record;
 * the other host has its own. Nothing is held any more (sockets, monitors and
 * lanes go with the end of a migration), and no QEMU is touched. */
#include <string.h>

#include "proxy/manager-private.h"
#include "qmp/json-value.h"

static const char *state_of(const struct ended *ended)
{
    const char *state = "";
    json_value_text(ended->record, "state", &state);
    return state;
}

static bool is_attention(const struct ended *ended)
{
    return !strcmp(state_of(ended), migration_state_name(MIGRATION_ATTENTION));
}

static bool is_closed(const struct ended *ended)
{
    json_object *closed;
    return json_value_object(ended->record, "closed", &closed);
}

bool manager_needs_attention(const struct ended *ended)
{
    return is_attention(ended) && !is_closed(ended);
}

/* The migration under way, or one that has ended and is about to be freed: then
 * its record is there. */
static struct ended *find(struct manager *manager, const char *id,
                          bool is_source, struct migration **ret_running)
{
    struct migration *m = manager_find_active(manager, id, is_source, NULL);

    if (m && migration_state_is_end(m->state)) {
        return manager_keep_record(manager, m);
    }
    if (m) {
        *ret_running = m;
        return NULL;
    }
    return manager_find_ended(manager, id, is_source);
}

/* Of a host that was both ends the one that needs it. */
static struct ended *find_to_close(struct manager *manager, const char *id,
                                   struct error *err)
{
    struct migration *running = NULL;
    struct ended *source = find(manager, id, true, &running);
    struct ended *ended = find(manager, id, false, &running);
    json_object *closed = NULL;
    const char *at = "?";

    if (source && (!ended || manager_needs_attention(source))) {
        ended = source;
    }
    if (ended && manager_needs_attention(ended)) {
        return ended;
    }
    if (running) {
        error_set(err, ERR_CONFLICT,
                  "migration %s is under way (%s) and needs nobody: only one "
                  "in attention can be closed",
                  id, migration_shown_state(running));
    } else if (!ended) {
        error_set(err, ERR_NOT_FOUND, "no migration \"%s\" on %s", id,
                  manager->env.conf->name);
    } else if (is_closed(ended)) {
        json_value_object(ended->record, "closed", &closed);
        json_value_text(closed, "at", &at);
        error_set(err, ERR_TOO_LATE, "migration %s was closed already, at %s",
                  id, at);
    } else {
        error_set(err, ERR_TOO_LATE,
                  "migration %s has ended (%s) and needs nobody: only one in "
                  "attention can be closed",
                  id, state_of(ended));
    }
    return NULL;
}

static json_object *closed_to_json(const struct api_close *close)
{
    json_object *object = json_object_new_object();
    char at[40];

    clock_format_wall(clock_wall_us(), at, sizeof(at));
    json_object_object_add(object, "at", json_object_new_string(at));
    json_object_object_add(object, "note",
                           close->note[0] ? json_object_new_string(close->note)
                                          : NULL);
    return object;
}

int manager_close(void *arg, const char *id, const struct api_close *close,
                  json_object **ret_body, struct error *err)
{
    struct manager *manager = arg;
    struct ended *ended = find_to_close(manager, id, err);

    if (!ended) {
        return -1;
    }
    json_object_object_add(ended->record, "closed", closed_to_json(close));
    if (store_save(manager->env.store,
                   ended->is_source ? MIGRATION_SOURCE : MIGRATION_DESTINATION,
                   ended->id, ended->record, err)) {
        json_object_object_add(ended->record, "closed", NULL);
        return error_wrap(err, "record of migration %s", id);
    }
    log_info("migration %s was closed%s%s", id, close->note[0] ? ": " : "",
             close->note);
    *ret_body = manager_strip_record(ended->record);
    manager_publish_record(manager, *ret_body);
    return 0;
}
