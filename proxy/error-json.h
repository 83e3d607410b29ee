// SPDX-License-Identifier: BSD-3-Clause
/* An error as JSON, the same in control messages, records and the API:
 * {"class","message"[,"side"]}. The classes are those of util/error.h. */
#ifndef PROXY_ERROR_JSON_H
#define PROXY_ERROR_JSON_H

#include <json-c/json.h>

#include "util/error.h"

/* A new object. side is "source", "destination" or "path"; NULL: left out. */
json_object *error_json_new(const struct error *err, const char *side);

/* The same members, added to an object that has others too. */
void error_json_add(json_object *object, const struct error *err,
                    const char *side);

/* Reads class and message of object into *ret_err; what is missing, of another
 * type or not known (also with object NULL) becomes "internal" and "no cause
 * given". Returns the side, in a static string; fallback (may be NULL) where
 * object names none of the three. */
const char *error_json_read(json_object *object, const char *fallback,
                            struct error *ret_err);

#endif
