// SPDX-License-Identifier: BSD-3-Clause
/* Typed, range-checked reading of JSON objects. json-c converts silently
 * (text to 0, too large numbers to the limit); here a wrong type is "absent" or
 * an error, never a guess. Pure. */
#ifndef QMP_JSON_VALUE_H
#define QMP_JSON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/cleanup.h"
#include "util/error.h"

struct json_object;

/* Member name of object, which may be NULL or of any type. False if there is
 * no such member of the right type (and range); *ret is untouched then. What
 * is returned by pointer belongs to the object. */
bool json_value_object(struct json_object *object, const char *name,
                       struct json_object **ret_member);
bool json_value_array(struct json_object *object, const char *name,
                      struct json_object **ret_member);
bool json_value_text(struct json_object *object, const char *name,
                     const char **ret_text);
bool json_value_bool(struct json_object *object, const char *name,
                     bool *ret_value);
/* A whole number from 0 to UINT64_MAX - 1 (json-c turns everything above into
 * UINT64_MAX, so that value is not believed). */
bool json_value_uint(struct json_object *object, const char *name,
                     uint64_t *ret_value);
/* A whole number with sign, strictly between INT64_MIN and INT64_MAX. */
bool json_value_int(struct json_object *object, const char *name,
                    int64_t *ret_value);
/* Any finite number. */
bool json_value_double(struct json_object *object, const char *name,
                       double *ret_value);

/* Copies text into buf, cut at size; true if it was whole. */
bool json_value_copy_text(char *buf, size_t size, const char *text);

/* Gives *object up, which may be NULL: CLEANUP_JSON puts a local variable when
 * it goes out of scope. */
void json_value_put(struct json_object **object);
#define CLEANUP_JSON CLEANUP(json_value_put)

#endif
