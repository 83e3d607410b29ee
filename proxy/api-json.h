// SPDX-License-Identifier: BSD-3-Clause
/* JSON of requests, read strictly: json-c 0.16 in strict mode accepts a
 * key that is given twice (the last wins), NaN and Infinity, single quotes,
 * control characters in texts and NUL in names. Pure. */
#ifndef PROXY_API_JSON_H
#define PROXY_API_JSON_H

#include <stddef.h>

#include "util/error.h"

struct json_object;

#define API_JSON_DEPTH_MAX 8

/* Parses size bytes that must be one JSON object: UTF-8, at most
 * API_JSON_DEPTH_MAX deep, no key twice in one object. ERR_BAD_REQUEST says
 * what is wrong and at which byte. The caller puts *ret_object. */
int api_json_parse(const char *text, size_t size,
                   struct json_object **ret_object, struct error *err);

#endif
