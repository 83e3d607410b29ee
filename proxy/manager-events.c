// SPDX-License-Identifier: BSD-3-Clause
/* What those who follow GET /v1/events are told of the migrations. */
#include "proxy/manager-private.h"

#define PROGRESS_TIME MP_SECOND

static json_object *wrap(struct migration *m)
{
    json_object *object = json_object_new_object();

    json_object_object_add(object, "migration", migration_to_json(m));
    return object;
}

/* Kept also when nobody follows just now. */
void manager_on_change(void *arg, struct migration *m)
{
    struct manager *manager = arg;
    json_object *object;

    if (!manager->api) {
        return;
    }
    object = wrap(m);
    api_publish(manager->api, "migration", object);
    json_object_put(object);
}

void manager_publish_record(struct manager *manager, json_object *shown)
{
    json_object *object;

    if (!manager->api) {
        return;
    }
    object = json_object_new_object();
    json_object_object_add(object, "migration", json_object_get(shown));
    api_publish(manager->api, "migration", object);
    json_object_put(object);
}

/* How far each is, once a second as long as there is one. */
void manager_progress_cb(void *arg)
{
    struct manager *manager = arg;

    if (!manager->active_count) {
        return;
    }
    loop_timer_start(&manager->progress, PROGRESS_TIME);
    if (!manager->api || !api_has_followers(manager->api)) {
        return;
    }
    LIST_EACH (node, &manager->active) {
        json_object *object = wrap(container_of(node, struct migration, node));
        api_publish_passing(manager->api, "progress", object);
        json_object_put(object);
    }
}

void manager_set_api(struct manager *manager, struct api *api)
{
    manager->api = api;
}
