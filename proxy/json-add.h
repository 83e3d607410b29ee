// SPDX-License-Identifier: BSD-3-Clause
/* Members added to a JSON object, for the API and the records. The object
 * owns what is added. */
#ifndef PROXY_JSON_ADD_H
#define PROXY_JSON_ADD_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

/* null for NULL and for an empty text. */
static inline void json_add_text(json_object *to, const char *name,
                                 const char *text)
{
    json_object_object_add(
        to, name, text && text[0] ? json_object_new_string(text) : NULL);
}

static inline void json_add_uint(json_object *to, const char *name,
                                 uint64_t value)
{
    json_object_object_add(to, name, json_object_new_uint64(value));
}

static inline void json_add_int(json_object *to, const char *name,
                                int64_t value)
{
    json_object_object_add(to, name, json_object_new_int64(value));
}

static inline void json_add_bool(json_object *to, const char *name, bool value)
{
    json_object_object_add(to, name, json_object_new_boolean(value));
}

#endif
