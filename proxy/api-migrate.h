// SPDX-License-Identifier: BSD-3-Clause
/* The body of POST /v1/migrations: one table of its members, from which it is
 * checked and which docs/openapi.yaml is tested against. Pure. */
#ifndef PROXY_API_MIGRATE_H
#define PROXY_API_MIGRATE_H

#include "proxy/api-member.h"
#include "proxy/api.h"

/* The table; ends with a NULL name. */
extern const struct api_member api_migrate_members[];

/* What is meant where a request does not say: the one place of its defaults.
 * Texts are empty. */
extern const struct api_migrate api_migrate_default;

/* Fills *ret_migrate from a request's body, defaults included. id stays empty
 * where none is given. ERR_BAD_REQUEST or ERR_PATH_REFUSED names the member and
 * its limit. */
int api_migrate_parse(struct json_object *body, struct api_migrate *ret_migrate,
                      struct error *err);

#endif
