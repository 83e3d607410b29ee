// SPDX-License-Identifier: BSD-3-Clause
/* Migration capabilities and parameters: snapshots of them. */
#include "qmp/qmp-caps.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "qmp/qmp-caps-internal.h"
#include "util/cleanup.h"

/* Members of a snapshot and bytes of a text in it, when it comes from a record:
 * QEMU 10.2 has 22 capabilities. */
#define SNAPSHOT_MEMBERS_MAX 256
#define SNAPSHOT_TEXT_MAX 4096

const char *const qmp_caps_parameters[QMP_CAPS_PARAMETERS] = {
    "max-bandwidth",
    "max-postcopy-bandwidth",
    "downtime-limit",
    "multifd-channels",
    "multifd-compression",
    "tls-creds",
    "tls-hostname",
    "tls-authz",
    "mode",
};

int qmp_caps_out_of_memory(struct error *err)
{
    return error_set(err, ERR_NO_MEMORY,
                     "migration capabilities: out of memory");
}

void qmp_caps_put_ptr(struct json_object **json)
{
    json_object_put(*json);
}

void qmp_caps_free(struct qmp_caps *caps)
{
    if (!caps) {
        return;
    }
    json_object_put(caps->capabilities);
    json_object_put(caps->parameters);
    free(caps);
}

static void free_caps_ptr(struct qmp_caps **caps)
{
    qmp_caps_free(*caps);
}

static struct qmp_caps *caps_new(struct error *err)
{
    struct qmp_caps *caps = calloc(1, sizeof(*caps));

    if (caps) {
        caps->capabilities = json_object_new_object();
        caps->parameters = json_object_new_object();
    }
    if (!caps || !caps->capabilities || !caps->parameters) {
        qmp_caps_free(caps);
        qmp_caps_out_of_memory(err);
        return NULL;
    }
    return caps;
}

bool qmp_caps_has(const struct qmp_caps *caps, const char *capability)
{
    bool value;
    return json_value_bool(caps->capabilities, capability, &value);
}

bool qmp_caps_is_on(const struct qmp_caps *caps, const char *capability)
{
    bool value = false;
    json_value_bool(caps->capabilities, capability, &value);
    return value;
}

bool qmp_caps_add(struct json_object *object, const char *name,
                  struct json_object *value)
{
    if (!value || json_object_object_add(object, name, value) < 0) {
        json_object_put(value);
        return false;
    }
    return true;
}

bool qmp_caps_add_copy(struct json_object *object, const char *name,
                       struct json_object *value)
{
    struct json_object *copy = NULL;

    if (!value) { /* JSON's null */
        return json_object_object_add(object, name, NULL) == 0;
    }
    if (json_object_deep_copy(value, &copy, NULL) < 0) {
        return false;
    }
    return qmp_caps_add(object, name, copy);
}

static int take_capabilities(struct qmp_caps *caps, struct json_object *list,
                             struct error *err)
{
    size_t count = json_object_is_type(list, json_type_array)
                       ? json_object_array_length(list)
                       : 0;

    for (size_t i = 0; i < count && i < SNAPSHOT_MEMBERS_MAX; i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        const char *name;
        bool state;
        if (json_value_text(entry, "capability", &name) &&
            json_value_bool(entry, "state", &state) &&
            !qmp_caps_add(caps->capabilities, name,
                          json_object_new_boolean(state))) {
            return qmp_caps_out_of_memory(err);
        }
    }
    if (json_object_object_length(caps->capabilities) == 0) {
        return error_set(err, ERR_PROTOCOL,
                         "query-migrate-capabilities: QEMU names none");
    }
    return 0;
}

static int take_parameters(struct qmp_caps *caps, struct json_object *object,
                           struct error *err)
{
    if (!json_object_is_type(object, json_type_object)) {
        return error_set(err, ERR_PROTOCOL,
                         "query-migrate-parameters: QEMU's answer is no "
                         "object");
    }
    for (size_t i = 0; i < QMP_CAPS_PARAMETERS; i++) {
        struct json_object *value;
        if (json_object_object_get_ex(object, qmp_caps_parameters[i], &value) &&
            !qmp_caps_add_copy(caps->parameters, qmp_caps_parameters[i],
                               value)) {
            return qmp_caps_out_of_memory(err);
        }
    }
    return 0;
}

struct qmp_caps *qmp_caps_of_answers(struct json_object *capabilities,
                                     struct json_object *parameters,
                                     struct error *err)
{
    CLEANUP(free_caps_ptr) struct qmp_caps *caps = caps_new(err);

    if (!caps || take_capabilities(caps, capabilities, err) < 0 ||
        take_parameters(caps, parameters, err) < 0) {
        return NULL;
    }
    return steal_ptr(&caps);
}

struct json_object *qmp_caps_to_json(const struct qmp_caps *caps)
{
    CLEANUP(qmp_caps_put_ptr)
    struct json_object *json = json_object_new_object();

    if (!json || !qmp_caps_add_copy(json, "capabilities", caps->capabilities) ||
        !qmp_caps_add_copy(json, "parameters", caps->parameters)) {
        return NULL;
    }
    return steal_ptr(&json);
}

static bool is_legal_value(struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
    case json_type_boolean:
    case json_type_int:
        return true;
    case json_type_string:
        return json_object_get_string_len(value) <= SNAPSHOT_TEXT_MAX;
    case json_type_double:
    case json_type_object:
    case json_type_array:
        return false;
    }
    return false;
}

static int check_members(struct json_object *object, const char *what,
                         bool only_booleans, struct error *err)
{
    if (json_object_object_length(object) > SNAPSHOT_MEMBERS_MAX) {
        return error_set(err, ERR_PROTOCOL,
                         "capability record: more than %d %s",
                         SNAPSHOT_MEMBERS_MAX, what);
    }
    json_object_object_foreach(object, name, value)
    {
        if (only_booleans ? !json_object_is_type(value, json_type_boolean)
                          : !is_legal_value(value)) {
            return error_set(err, ERR_PROTOCOL,
                             "capability record: %s: \"%.64s\" has a value of "
                             "the wrong form",
                             what, name);
        }
    }
    return 0;
}

struct qmp_caps *qmp_caps_from_json(struct json_object *json, struct error *err)
{
    struct json_object *capabilities, *parameters;

    if (!json_value_object(json, "capabilities", &capabilities) ||
        !json_value_object(json, "parameters", &parameters)) {
        error_set(err, ERR_PROTOCOL,
                  "capability record: capabilities or parameters missing");
        return NULL;
    }
    if (check_members(capabilities, "capabilities", true, err) < 0 ||
        check_members(parameters, "parameters", false, err) < 0) {
        return NULL;
    }
    CLEANUP(free_caps_ptr) struct qmp_caps *caps = caps_new(err);
    if (!caps || take_parameters(caps, parameters, err) < 0) {
        return NULL;
    }
    json_object_object_foreach(capabilities, name, value)
    {
        if (!qmp_caps_add_copy(caps->capabilities, name, value)) {
            qmp_caps_out_of_memory(err);
            return NULL;
        }
    }
    return steal_ptr(&caps);
}

struct qmp_caps *qmp_caps_copy(const struct qmp_caps *caps)
{
    CLEANUP(qmp_caps_put_ptr) struct json_object *json = qmp_caps_to_json(caps);
    return json ? qmp_caps_from_json(json, NULL) : NULL;
}
