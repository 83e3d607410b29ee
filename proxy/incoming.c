// SPDX-License-Identifier: BSD-3-Clause
/* Which QEMU of this host waits for which guest. */
#include "proxy/incoming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void incoming_init(struct incoming *incoming)
{
    list_init(&incoming->entries);
    incoming->count = 0;
}

void incoming_done(struct incoming *incoming)
{
    LIST_EACH_SAFE (node, &incoming->entries) {
        incoming_remove(incoming,
                        container_of(node, struct incoming_entry, node));
    }
}

const struct incoming_entry *incoming_add(struct incoming *incoming,
                                          const char *id,
                                          const struct api_incoming *said,
                                          int64_t wall_us, struct error *err)
{
    struct incoming_entry *old = incoming_find_vm(incoming, said->vm);
    struct incoming_entry *entry;

    if (!old && incoming->count >= INCOMING_MAX) {
        error_set(err, ERR_LIMIT,
                  "%u guests are waited for already, the limit is %d",
                  incoming->count, INCOMING_MAX);
        return NULL;
    }
    entry = calloc(1, sizeof(*entry));
    if (!entry) {
        error_set(err, ERR_NO_MEMORY, "out of memory for guest %s", said->vm);
        return NULL;
    }
    if (old) {
        incoming_remove(incoming, old);
    }
    snprintf(entry->id, sizeof(entry->id), "%s", id);
    entry->said = *said;
    entry->since_wall_us = wall_us;
    list_append(&incoming->entries, &entry->node);
    incoming->count++;
    return entry;
}

/* The entry with that text in the member that get returns. */
static struct incoming_entry *
find(struct incoming *incoming,
     const char *(*get)(const struct incoming_entry *entry), const char *text)
{
    LIST_EACH (node, &incoming->entries) {
        struct incoming_entry *entry =
            container_of(node, struct incoming_entry, node);
        if (!strcmp(get(entry), text)) {
            return entry;
        }
    }
    return NULL;
}

static const char *get_vm(const struct incoming_entry *entry)
{
    return entry->said.vm;
}

static const char *get_id(const struct incoming_entry *entry)
{
    return entry->id;
}

static const char *get_migration(const struct incoming_entry *entry)
{
    return entry->migration;
}

struct incoming_entry *incoming_find_vm(struct incoming *incoming,
                                        const char *vm)
{
    return find(incoming, get_vm, vm);
}

struct incoming_entry *incoming_find(struct incoming *incoming, const char *id)
{
    return find(incoming, get_id, id);
}

struct incoming_entry *incoming_find_migration(struct incoming *incoming,
                                               const char *migration)
{
    return find(incoming, get_migration, migration);
}

void incoming_remove(struct incoming *incoming, struct incoming_entry *entry)
{
    list_remove(&entry->node);
    incoming->count--;
    free(entry);
}

json_object *incoming_entry_to_json(const struct incoming_entry *entry)
{
    json_object *object = json_object_new_object();
    char since[40];

    clock_format_wall(entry->since_wall_us, since, sizeof(since));
    json_object_object_add(object, "id", json_object_new_string(entry->id));
    json_object_object_add(object, "vm",
                           json_object_new_string(entry->said.vm));
    json_object_object_add(
        object, "uuid",
        entry->said.uuid[0] ? json_object_new_string(entry->said.uuid) : NULL);
    json_object_object_add(object, "qmp",
                           json_object_new_string(entry->said.qmp_path));
    json_object_object_add(object, "since", json_object_new_string(since));
    json_object_object_add(
        object, "migration",
        entry->migration[0] ? json_object_new_string(entry->migration) : NULL);
    return object;
}
