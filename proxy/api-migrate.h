// SPDX-License-Identifier: BSD-3-Clause
/* The body of POST /v1/migrations: one table of its members, from which it is
 * checked and which docs/openapi.yaml is tested against. Pure. */
#ifndef PROXY_API_MIGRATE_H
#define PROXY_API_MIGRATE_H

#include "proxy/api.h"

enum api_member_type {
    API_MEMBER_ID,      /* text, API_ID_MAX */
    API_MEMBER_NAME,    /* text, API_NAME_MAX */
    API_MEMBER_PATH,    /* text, a socket's path */
    API_MEMBER_WORD,    /* one of words */
    API_MEMBER_COUNT,   /* whole number from min to max */
    API_MEMBER_SECONDS, /* number from min to max, may have decimals */
    API_MEMBER_RATE     /* whole number from min to max, or "unlimited" */
};

struct api_member {
    const char *name;
    enum api_member_type type;
    bool is_required;
    size_t offset;            /* in struct api_migrate */
    const char *const *words; /* NULL-terminated, in the order of the enum */
    uint64_t min, max;        /* of a number; length of a text */
};

/* The table; ends with a NULL name. */
extern const struct api_member api_migrate_members[];

/* Fills *ret_migrate from a request's body, defaults included. id stays empty
 * where none is given. ERR_BAD_REQUEST or ERR_PATH_REFUSED names the member and
 * its limit. */
int api_migrate_parse(struct json_object *body, struct api_migrate *ret_migrate,
                      struct error *err);

/* True for a text that can be a migration's id. */
bool api_migrate_is_id(const char *id);

/* Makes an id that no other migration has (48 random bits). */
void api_migrate_make_id(char id[API_ID_MAX + 1]);

#endif
