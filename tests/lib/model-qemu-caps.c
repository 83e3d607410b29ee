// SPDX-License-Identifier: BSD-3-Clause
/* A model of QEMU in a migration: its capabilities, its parameters and as much
 * of its schema as is probed. */
#include <string.h>

#include "qmp/json-value.h"
#include "tests/lib/model-qemu-private.h"

static const char *const capability_names[] = {
    "xbzrle",
    "rdma-pin-all",
    "auto-converge",
    "zero-blocks",
    "compress",
    "events",
    "postcopy-ram",
    "x-colo",
    "release-ram",
    "block",
    "return-path",
    "pause-before-switchover",
    "multifd",
    "dirty-bitmaps",
    "postcopy-blocktime",
    "late-block-activate",
    "x-ignore-shared",
    "validate-uuid",
    "background-snapshot",
    "zero-copy-send",
    "postcopy-preempt",
};
#define CAPABILITIES (sizeof(capability_names) / sizeof(capability_names[0]))

static const char first_parameters[] =
    "{\"max-bandwidth\":134217728,\"max-postcopy-bandwidth\":0,"
    "\"downtime-limit\":300,\"multifd-channels\":2,"
    "\"multifd-compression\":\"none\",\"tls-creds\":\"\","
    "\"tls-hostname\":\"\",\"tls-authz\":\"\"}";

/* One is on, so that "all off" is not "as they were". */
static json_object *first_capabilities(void)
{
    json_object *object = json_object_new_object();

    for (size_t i = 0; i < CAPABILITIES; i++) {
        json_object_object_add(
            object, capability_names[i],
            json_object_new_boolean(!strcmp(capability_names[i], "xbzrle")));
    }
    return object;
}

bool model_has_capability(const struct model_qemu *q, const char *name)
{
    bool value = false;
    json_value_bool(q->capabilities, name, &value);
    return value;
}

bool model_is_restored(const struct model_qemu *q)
{
    return json_object_equal(q->capabilities, q->first_capabilities) &&
           json_object_equal(q->parameters, q->first_parameters);
}

bool model_is_migrating(const struct model_qemu *q)
{
    static const char *const quiet[] = {"none", "completed", "failed",
                                        "cancelled"};

    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        if (!strcmp(q->status, quiet[i])) {
            return false;
        }
    }
    return true;
}

json_object *model_capability_list(const struct model_qemu *q)
{
    json_object *list = json_object_new_array();

    for (size_t i = 0; i < CAPABILITIES; i++) {
        json_object *entry = json_object_new_object();
        json_object_object_add(entry, "capability",
                               json_object_new_string(capability_names[i]));
        json_object_object_add(entry, "state",
                               json_object_new_boolean(model_has_capability(
                                   q, capability_names[i])));
        json_object_array_add(list, entry);
    }
    return list;
}

const char *model_set_capabilities(struct model_qemu *q, json_object *args)
{
    json_object *list;

    if (model_is_migrating(q)) {
        return "There's a migration process in progress";
    }
    if (!json_value_array(args, "capabilities", &list)) {
        return "no capabilities";
    }
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i);
        const char *name;
        bool state;
        if (!json_value_text(entry, "capability", &name) ||
            !json_value_bool(entry, "state", &state) ||
            !json_object_object_get_ex(q->capabilities, name, NULL)) {
            return "Parameter 'capability' does not accept this value";
        }
        json_object_object_add(q->capabilities, name,
                               json_object_new_boolean(state));
    }
    return NULL;
}

const char *model_set_parameters(struct model_qemu *q, json_object *args)
{
    json_object_object_foreach(args, name, value)
    {
        if (!json_object_object_get_ex(q->parameters, name, NULL)) {
            return "Parameter is unexpected";
        }
        json_object_object_add(q->parameters, name, json_object_get(value));
    }
    return NULL;
}

/* As much of the schema as is probed: types 0 to 4. */
json_object *model_schema(void)
{
    json_object *list = json_tokener_parse(
        "[{\"name\":\"migrate-set-capabilities\",\"meta-type\":\"command\","
        "\"arg-type\":\"0\",\"ret-type\":\"9\"},"
        "{\"name\":\"0\",\"meta-type\":\"object\",\"members\":[{\"name\":"
        "\"capabilities\",\"type\":\"[1]\"}]},"
        "{\"name\":\"[1]\",\"meta-type\":\"array\",\"element-type\":\"1\"},"
        "{\"name\":\"1\",\"meta-type\":\"object\",\"members\":[{\"name\":"
        "\"capability\",\"type\":\"2\"},{\"name\":\"state\",\"type\":"
        "\"bool\"}]},"
        "{\"name\":\"query-migrate\",\"meta-type\":\"command\",\"arg-type\":"
        "\"9\",\"ret-type\":\"3\"},"
        "{\"name\":\"3\",\"meta-type\":\"object\",\"members\":[{\"name\":"
        "\"status\",\"type\":\"4\"}]},"
        "{\"name\":\"4\",\"meta-type\":\"enum\",\"members\":[{\"name\":"
        "\"none\"},{\"name\":\"postcopy-paused\"}],\"values\":[\"none\"]},"
        "{\"name\":\"yank\",\"meta-type\":\"command\",\"arg-type\":\"9\","
        "\"ret-type\":\"9\"},"
        "{\"name\":\"9\",\"meta-type\":\"object\",\"members\":[]}]");
    json_object *entry = json_object_new_object();
    json_object *members = json_object_new_array();

    for (size_t i = 0; i < CAPABILITIES; i++) {
        json_object *member = json_object_new_object();
        json_object_object_add(member, "name",
                               json_object_new_string(capability_names[i]));
        json_object_array_add(members, member);
    }
    json_object_object_add(entry, "name", json_object_new_string("2"));
    json_object_object_add(entry, "meta-type", json_object_new_string("enum"));
    json_object_object_add(entry, "members", members);
    json_object_array_add(model_check(list), entry);
    return list;
}

void model_caps_init(struct model_qemu *q)
{
    q->capabilities = first_capabilities();
    q->first_capabilities = first_capabilities();
    q->parameters = json_tokener_parse(first_parameters);
    q->first_parameters = json_tokener_parse(first_parameters);
}

const char *model_stage_name(enum model_stage stage)
{
    static const char *const names[] = {"new",    "active",   "pre-switchover",
                                        "device", "postcopy", "completed"};
    return names[stage];
}

const char *model_fault_name(enum model_fault fault)
{
    static const char *const names[] = {"nothing",    "refuses",  "ignores",
                                        "is mute at", "hangs at", "exits at",
                                        "exits after"};
    return names[fault];
}
