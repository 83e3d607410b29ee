// SPDX-License-Identifier: BSD-3-Clause
/* Typed, range-checked reading of JSON objects. */
#include "qmp/json-value.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool get(struct json_object *object, const char *name,
                enum json_type type, struct json_object **ret_member)
{
    struct json_object *member;
    if (!json_object_is_type(object, json_type_object) ||
        !json_object_object_get_ex(object, name, &member) ||
        !json_object_is_type(member, type)) {
        return false;
    }
    *ret_member = member;
    return true;
}

bool json_value_object(struct json_object *object, const char *name,
                       struct json_object **ret_member)
{
    return get(object, name, json_type_object, ret_member);
}

bool json_value_array(struct json_object *object, const char *name,
                      struct json_object **ret_member)
{
    return get(object, name, json_type_array, ret_member);
}

bool json_value_text(struct json_object *object, const char *name,
                     const char **ret_text)
{
    struct json_object *member;
    if (!get(object, name, json_type_string, &member)) {
        return false;
    }
    *ret_text = json_object_get_string(member);
    return true;
}

bool json_value_bool(struct json_object *object, const char *name,
                     bool *ret_value)
{
    struct json_object *member;
    if (!get(object, name, json_type_boolean, &member)) {
        return false;
    }
    *ret_value = json_object_get_boolean(member);
    return true;
}

bool json_value_uint(struct json_object *object, const char *name,
                     uint64_t *ret_value)
{
    struct json_object *member;
    if (!get(object, name, json_type_int, &member)) {
        return false;
    }
    /* one reading clamps at zero, the other at INT64_MAX */
    if (json_object_get_int64(member) < 0) {
        return false;
    }
    uint64_t value = json_object_get_uint64(member);
    if (value == UINT64_MAX) {
        return false;
    }
    *ret_value = value;
    return true;
}

bool json_value_int(struct json_object *object, const char *name,
                    int64_t *ret_value)
{
    struct json_object *member;
    if (!get(object, name, json_type_int, &member)) {
        return false;
    }
    int64_t value = json_object_get_int64(member);
    if (value == INT64_MAX || value == INT64_MIN) {
        return false; /* clamped, or as good as that */
    }
    *ret_value = value;
    return true;
}

bool json_value_double(struct json_object *object, const char *name,
                       double *ret_value)
{
    struct json_object *member;
    if (!get(object, name, json_type_double, &member) &&
        !get(object, name, json_type_int, &member)) {
        return false;
    }
    double value = json_object_get_double(member);
    if (!isfinite(value)) {
        return false;
    }
    *ret_value = value;
    return true;
}

bool json_value_copy_text(char *buf, size_t size, const char *text)
{
    int n = snprintf(buf, size, "%s", text);
    return n >= 0 && (size_t)n < size;
}

void json_value_put(struct json_object **object)
{
    json_object_put(*object);
}
