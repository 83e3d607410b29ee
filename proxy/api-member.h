// SPDX-License-Identifier: BSD-3-Clause
/* Members of a request's body: each request has one table of them, from which
 * it is checked and which docs/openapi.yaml is tested against. Pure. */
#ifndef PROXY_API_MEMBER_H
#define PROXY_API_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"
#include "util/id.h"

struct json_object;

/* Limits, in bytes without the final NUL. */
#define API_NAME_MAX 128 /* names of guests and peers */
#define API_UUID_SIZE 36

/* How a member is written, and the field it is stored in. */
enum api_member_type {
    API_MEMBER_ID,      /* text: char[ID_MAX + 1] */
    API_MEMBER_NAME,    /* text: char[API_NAME_MAX + 1] */
    API_MEMBER_UUID,    /* text, 8-4-4-4-12 hex digits: char[...SIZE + 1],
                         * lower case */
    API_MEMBER_TEXT,    /* text of max bytes: char[max + 1] */
    API_MEMBER_PATH,    /* text, a socket's: char[PATH_SOCKET_MAX + 1] */
    API_MEMBER_WORD,    /* one of words: int, its place among them */
    API_MEMBER_COUNT,   /* whole number from min to max: unsigned */
    API_MEMBER_SECONDS, /* number from min to max, may have decimals: double */
    API_MEMBER_RATE     /* whole number from min to max, or "unlimited"
                         * (PARSE_UNLIMITED): uint64_t */
};

struct api_member {
    const char *name;
    enum api_member_type type;
    bool is_required;
    size_t offset;            /* of its field, in what the request becomes */
    const char *const *words; /* NULL-terminated, in the order of the enum */
    uint64_t min, max;        /* of a number; length of a text */
};

/* Stores the members of body in *into, as the table (at most 32 rows, ended by
 * a NULL name) says; what is not given stays as it was. *ret_given has bit i
 * where row i was given. ERR_BAD_REQUEST or ERR_PATH_REFUSED names the member
 * that is unknown or missing, with request ("POST /v1/migrations"), or wrong,
 * with its value and its limit. */
int api_members_parse(const struct api_member *members, const char *request,
                      struct json_object *body, void *into, uint32_t *ret_given,
                      struct error *err);

#endif
