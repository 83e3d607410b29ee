// SPDX-License-Identifier: BSD-3-Clause
/* What one QEMU says of itself before a migration. */
#include "proxy/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"

/* Of memory that is none of huge pages, on x86. */
#define ORDINARY_PAGE_BYTES 4096u

/* A gathering under way: freed when the last answer is in. */
struct gather {
    struct facts facts;
    struct error err; /* the first */
    int pending;
    facts_cb cb;
    void *arg;
};

void facts_done(struct facts *facts)
{
    qmp_caps_free(facts->caps);
    free(facts->blocks);
    memset(facts, 0, sizeof(*facts));
}

static void one_done(struct gather *gather, const struct error *err)
{
    if (err && !error_is_set(&gather->err)) {
        gather->err = *err;
    }
    if (--gather->pending) {
        return;
    }
    if (error_is_set(&gather->err)) {
        facts_done(&gather->facts);
        gather->cb(gather->arg, NULL, &gather->err);
    } else {
        gather->cb(gather->arg, &gather->facts, NULL);
    }
    free(gather);
}

static void name_cb(void *arg, const char *text, const struct error *err)
{
    struct gather *gather = arg;
    json_value_copy_text(gather->facts.name, sizeof(gather->facts.name),
                         text ? text : "");
    one_done(gather, err);
}

static void uuid_cb(void *arg, const char *text, const struct error *err)
{
    struct gather *gather = arg;
    json_value_copy_text(gather->facts.uuid, sizeof(gather->facts.uuid),
                         text ? text : "");
    one_done(gather, err);
}

static void machine_cb(void *arg, const char *text, const struct error *err)
{
    struct gather *gather = arg;
    json_value_copy_text(gather->facts.machine, sizeof(gather->facts.machine),
                         text ? text : "");
    one_done(gather, err);
}

static void status_cb(void *arg, const struct qmp_run_status *status,
                      const struct error *err)
{
    struct gather *gather = arg;
    if (status) {
        gather->facts.status = *status;
    }
    one_done(gather, err);
}

static void migrate_cb(void *arg, const struct qmp_migrate_info *info,
                       const struct error *err)
{
    struct gather *gather = arg;
    if (info) {
        gather->facts.migrate = *info;
    }
    one_done(gather, err);
}

static void probe_cb(void *arg, const struct qmp_probe *probe,
                     const struct error *err)
{
    struct gather *gather = arg;
    if (probe) {
        gather->facts.probe = *probe;
    }
    one_done(gather, err);
}

static void caps_cb(void *arg, struct qmp_caps *caps, const struct error *err)
{
    struct gather *gather = arg;
    gather->facts.caps = caps;
    one_done(gather, err);
}

static void blocks_cb(void *arg, const struct qmp_ram_block *blocks,
                      size_t count, const struct error *err)
{
    struct gather *gather = arg;
    struct error why = ERROR_INIT;

    if (!err && count > FACTS_BLOCKS_MAX) {
        error_set(&why, ERR_LIMIT, "QEMU has %zu RAM blocks, the limit is %d",
                  count, FACTS_BLOCKS_MAX);
        err = &why;
    } else if (!err && count) {
        gather->facts.blocks = malloc(count * sizeof(*blocks));
        if (gather->facts.blocks) {
            memcpy(gather->facts.blocks, blocks, count * sizeof(*blocks));
            gather->facts.block_count = count;
        } else {
            error_set(&why, ERR_NO_MEMORY, "RAM blocks: out of memory");
            err = &why;
        }
    }
    one_done(gather, err);
}

void facts_gather(struct qmp *qmp, mp_time timeout, facts_cb cb, void *arg)
{
    struct gather *gather = calloc(1, sizeof(*gather));

    if (!gather) {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_NO_MEMORY, "asking QEMU: out of memory");
        cb(arg, NULL, &err);
        return;
    }
    gather->cb = cb;
    gather->arg = arg;
    gather->pending = 8;
    json_value_copy_text(gather->facts.version, sizeof(gather->facts.version),
                         qmp_version(qmp));
    qmp_migrate_query_name(qmp, timeout, name_cb, gather);
    qmp_migrate_query_uuid(qmp, timeout, uuid_cb, gather);
    qmp_migrate_query_machine_type(qmp, timeout, machine_cb, gather);
    qmp_migrate_query_status(qmp, timeout, status_cb, gather);
    qmp_migrate_query(qmp, timeout, migrate_cb, gather);
    qmp_probe_read(qmp, timeout, probe_cb, gather);
    qmp_caps_read(qmp, timeout, caps_cb, gather);
    qmp_migrate_query_ram_blocks(qmp, timeout, blocks_cb, gather);
}

json_object *facts_blocks_to_json(const struct facts *facts)
{
    json_object *array = json_object_new_array();

    for (size_t i = 0; i < facts->block_count; i++) {
        const struct qmp_ram_block *block = &facts->blocks[i];
        json_object *object = json_object_new_object();
        json_object_object_add(object, "name",
                               json_object_new_string(block->name));
        json_object_object_add(object, "page_size_bytes",
                               json_object_new_uint64(block->page_size_bytes));
        json_object_object_add(object, "used_bytes",
                               json_object_new_uint64(block->used_bytes));
        json_object_object_add(object, "total_bytes",
                               json_object_new_uint64(block->total_bytes));
        json_object_array_add(array, object);
    }
    return array;
}

json_object *facts_to_json(const struct facts *facts)
{
    json_object *object = json_object_new_object();

    json_object_object_add(object, "name", json_object_new_string(facts->name));
    json_object_object_add(object, "uuid", json_object_new_string(facts->uuid));
    json_object_object_add(object, "machine",
                           json_object_new_string(facts->machine));
    json_object_object_add(object, "qemu",
                           json_object_new_string(facts->version));
    json_object_object_add(object, "status",
                           json_object_new_string(facts->status.text));
    json_object_object_add(object, "blocks", facts_blocks_to_json(facts));
    json_object_object_add(object, "behaviours",
                           qmp_probe_to_json(&facts->probe));
    return object;
}

static bool take_text(json_object *json, const char *name, char *buf,
                      size_t size)
{
    const char *text;
    return json_value_text(json, name, &text) &&
           json_value_copy_text(buf, size, text);
}

static int take_blocks(json_object *json, struct facts *facts,
                       struct error *err)
{
    json_object *array;

    if (!json_value_array(json, "blocks", &array)) {
        return error_set(err, ERR_PROTOCOL, "facts have no array \"blocks\"");
    }
    size_t count = json_object_array_length(array);
    if (count > FACTS_BLOCKS_MAX) {
        return error_set(err, ERR_PROTOCOL,
                         "facts have %zu RAM blocks, the limit is %d", count,
                         FACTS_BLOCKS_MAX);
    }
    facts->blocks = calloc(count + 1, sizeof(*facts->blocks));
    if (!facts->blocks) {
        return error_set(err, ERR_NO_MEMORY, "RAM blocks: out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        struct qmp_ram_block *block = &facts->blocks[i];
        json_object *object = json_object_array_get_idx(array, i);
        if (!take_text(object, "name", block->name, sizeof(block->name)) ||
            !json_value_uint(object, "page_size_bytes",
                             &block->page_size_bytes) ||
            !json_value_uint(object, "used_bytes", &block->used_bytes) ||
            !json_value_uint(object, "total_bytes", &block->total_bytes)) {
            return error_set(err, ERR_PROTOCOL,
                             "facts: RAM block %zu is not complete", i);
        }
        facts->block_count++;
    }
    return 0;
}

int facts_from_json(json_object *json, struct facts *ret_facts,
                    struct error *err)
{
    struct facts facts = {0};
    static const char *const names[] = {"name", "uuid", "machine", "qemu",
                                        "status"};
    char *const into[] = {facts.name, facts.uuid, facts.machine, facts.version,
                          facts.status.text};
    const size_t sizes[] = {sizeof(facts.name), sizeof(facts.uuid),
                            sizeof(facts.machine), sizeof(facts.version),
                            sizeof(facts.status.text)};
    json_object *behaviours;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!take_text(json, names[i], into[i], sizes[i])) {
            return error_set(err, ERR_PROTOCOL,
                             "facts: \"%s\" is missing or too long", names[i]);
        }
    }
    if (take_blocks(json, &facts, err)) {
        facts_done(&facts);
        return -1;
    }
    qmp_probe_init(&facts.probe);
    if (json_value_object(json, "behaviours", &behaviours)) {
        for (int i = 0; i < QMP_BEHAVIOURS; i++) {
            json_value_bool(behaviours, qmp_probe_name((enum qmp_behaviour)i),
                            &facts.probe.can[i]);
        }
    }
    *ret_facts = facts;
    return 0;
}

static const struct qmp_ram_block *find_block(const struct facts *facts,
                                              const char *name)
{
    for (size_t i = 0; i < facts->block_count; i++) {
        if (!strcmp(facts->blocks[i].name, name)) {
            return &facts->blocks[i];
        }
    }
    return NULL;
}

/* Blocks of ROMs and firmware tables may differ in size from one QEMU to the
 * next; QEMU resizes them as it loads. */
static bool is_resizable(const char *name)
{
    return strstr(name, "/rom@") || strstr(name, ".rom");
}

static int compare_blocks(const struct facts *source,
                          const struct facts *destination, bool postcopy,
                          struct error *err)
{
    for (size_t i = 0; i < source->block_count; i++) {
        const struct qmp_ram_block *ours = &source->blocks[i];
        const struct qmp_ram_block *theirs =
            find_block(destination, ours->name);
        if (!theirs) {
            return error_set(err, ERR_MISMATCH,
                             "RAM block %s (%" PRIu64
                             " bytes) of the source does not exist on the "
                             "destination",
                             ours->name, ours->total_bytes);
        }
        if (ours->total_bytes != theirs->total_bytes &&
            !is_resizable(ours->name)) {
            return error_set(
                err, ERR_MISMATCH,
                "RAM block %s has %" PRIu64 " bytes on the source and %" PRIu64
                " on the destination",
                ours->name, ours->total_bytes, theirs->total_bytes);
        }
        if (postcopy && ours->page_size_bytes != theirs->page_size_bytes &&
            theirs->page_size_bytes != ORDINARY_PAGE_BYTES) {
            return error_set(
                err, ERR_MISMATCH,
                "RAM block %s has pages of %" PRIu64
                " bytes on the source and %" PRIu64
                " on the destination; postcopy needs equal ones, or ordinary "
                "memory (%u) on the destination (use that, or --mode precopy)",
                ours->name, ours->page_size_bytes, theirs->page_size_bytes,
                ORDINARY_PAGE_BYTES);
        }
    }
    for (size_t i = 0; i < destination->block_count; i++) {
        const char *name = destination->blocks[i].name;
        if (!find_block(source, name) && !is_resizable(name)) {
            return error_set(err, ERR_MISMATCH,
                             "RAM block %s of the destination does not exist "
                             "on the source",
                             name);
        }
    }
    return 0;
}

/* For a postcopy of blocks that fit. *ret_sizes stays NULL where all page sizes
 * are equal. */
static int list_sizes(const struct facts *source,
                      const struct facts *destination,
                      struct small_pages **ret_sizes, struct error *err)
{
    struct small_pages *sizes = small_pages_new(source->block_count);
    bool differ = false;

    if (!sizes) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for page sizes");
    }
    for (size_t i = 0; i < source->block_count; i++) {
        const struct qmp_ram_block *ours = &source->blocks[i];
        struct small_pages_block *block = &sizes->blocks[i];

        snprintf(block->name, sizeof(block->name), "%s", ours->name);
        block->source_page_bytes = ours->page_size_bytes;
        block->destination_page_bytes =
            find_block(destination, ours->name)->page_size_bytes;
        differ |= block->source_page_bytes != block->destination_page_bytes;
    }
    if (differ) {
        *ret_sizes = sizes;
    } else {
        free(sizes);
    }
    return 0;
}

int facts_compare(const struct facts *source, const struct facts *destination,
                  bool postcopy, struct small_pages **ret_sizes,
                  struct error *err)
{
    *ret_sizes = NULL;
    if (strcmp(source->uuid, destination->uuid)) {
        return error_set(err, ERR_MISMATCH,
                         "the source's UUID is %s, the destination's %s",
                         source->uuid, destination->uuid);
    }
    if (strcmp(source->machine, destination->machine)) {
        return error_set(err, ERR_MISMATCH,
                         "the source's machine type is %s, the destination's "
                         "%s",
                         source->machine, destination->machine);
    }
    if (compare_blocks(source, destination, postcopy, err) < 0) {
        return -1;
    }
    return postcopy ? list_sizes(source, destination, ret_sizes, err) : 0;
}
