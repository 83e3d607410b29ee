// SPDX-License-Identifier: BSD-3-Clause
/* Commands held against the answer to query-qmp-schema (QEMU
 * qapi/introspect.json), for tests. */
#include "tests/lib/qmp-schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <json-c/json.h>
#include <string.h>

#include "qmp/json-value.h"

static struct json_object *find(struct json_object *list, const char *name)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        const char *text;
        if (json_value_text(entry, "name", &text) && !strcmp(text, name)) {
            return entry;
        }
    }
    return NULL;
}

static bool fits(struct json_object *schema, const char *type,
                 struct json_object *value);

static bool fits_object(struct json_object *schema, struct json_object *entry,
                        struct json_object *value)
{
    struct json_object *members;

    assert_true(json_value_array(entry, "members", &members));
    for (size_t i = 0; i < json_object_array_length(members); i++) {
        struct json_object *m = json_object_array_get_idx(members, i);
        const char *name = NULL, *type = NULL;
        assert_true(json_value_text(m, "name", &name) &&
                    json_value_text(m, "type", &type));
        struct json_object *member = NULL;
        if (json_object_object_get_ex(value, name, &member)) {
            if (!fits(schema, type, member)) {
                return false;
            }
        } else if (!json_object_object_get_ex(m, "default", NULL)) {
            print_error("member %s is missing\n", name);
            return false;
        }
    }
    if (value) {
        json_object_object_foreach(value, name, member)
        {
            (void)member;
            if (!find(members, name)) {
                print_error("member %s is not in the schema\n", name);
                return false;
            }
        }
    }
    return true;
}

static bool fits_builtin(const char *json_type, struct json_object *value)
{
    static const struct {
        const char *name;
        enum json_type type;
    } types[] = {{"string", json_type_string},
                 {"int", json_type_int},
                 {"boolean", json_type_boolean},
                 {"null", json_type_null}};

    for (int i = 0; i < 4; i++) {
        if (!strcmp(json_type, types[i].name)) {
            return json_object_is_type(value, types[i].type);
        }
    }
    return !strcmp(json_type, "value");
}

static bool fits_enum(struct json_object *entry, struct json_object *value)
{
    struct json_object *values;

    assert_true(json_value_array(entry, "values", &values));
    for (size_t i = 0; i < json_object_array_length(values); i++) {
        if (json_object_equal(json_object_array_get_idx(values, i), value)) {
            return true;
        }
    }
    print_error("%s is no value of the enum\n", json_object_get_string(value));
    return false;
}

static bool fits_any(struct json_object *schema, struct json_object *entry,
                     struct json_object *value)
{
    struct json_object *members;
    const char *type;

    assert_true(json_value_array(entry, "members", &members));
    for (size_t i = 0; i < json_object_array_length(members); i++) {
        if (json_value_text(json_object_array_get_idx(members, i), "type",
                            &type) &&
            fits(schema, type, value)) {
            return true;
        }
    }
    return false;
}

static bool fits(struct json_object *schema, const char *type,
                 struct json_object *value)
{
    struct json_object *entry = find(schema, type);
    const char *meta = "", *text;

    assert_non_null(entry);
    json_value_text(entry, "meta-type", &meta);
    if (!strcmp(meta, "object")) {
        return fits_object(schema, entry, value);
    }
    if (!strcmp(meta, "builtin") &&
        json_value_text(entry, "json-type", &text)) {
        return fits_builtin(text, value);
    }
    if (!strcmp(meta, "enum")) {
        return fits_enum(entry, value);
    }
    if (!strcmp(meta, "alternate")) {
        return fits_any(schema, entry, value);
    }
    assert_string_equal(meta, "array");
    assert_true(json_value_text(entry, "element-type", &text));
    for (size_t i = 0; i < json_object_array_length(value); i++) {
        if (!fits(schema, text, json_object_array_get_idx(value, i))) {
            return false;
        }
    }
    return true;
}

void schema_check_command(struct json_object *schema, const char *command,
                          struct json_object *args, bool is_oob)
{
    struct json_object *entry = find(schema, command);
    const char *type = "";
    bool allows_oob = false;

    if (!entry) {
        fail_msg("QEMU has no command %s", command);
    }
    json_value_bool(entry, "allow-oob", &allows_oob);
    if (is_oob && !allows_oob) {
        fail_msg("%s cannot run out of band", command);
    }
    assert_true(json_value_text(entry, "arg-type", &type));
    if (!fits(schema, type, args)) {
        fail_msg("%s: %s", command, json_object_to_json_string(args));
    }
}
