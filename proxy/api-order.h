// SPDX-License-Identifier: BSD-3-Clause
/* The bodies of the smaller requests: what may be changed while a migration
 * runs, and which QEMU waits for a guest. Tables that docs/openapi.yaml is
 * tested against. Pure. */
#ifndef PROXY_API_ORDER_H
#define PROXY_API_ORDER_H

#include "proxy/api-member.h"
#include "proxy/api.h"

/* PATCH /v1/migrations/ID, POST /v1/incoming, POST /v1/migrations/ID/close;
 * each ends with a NULL name. */
extern const struct api_member api_limits_members[];
extern const struct api_member api_incoming_members[];
extern const struct api_member api_close_members[];

/* ERR_BAD_REQUEST also where no limit is given. */
int api_limits_parse(struct json_object *body, struct api_limits *ret_limits,
                     struct error *err);
int api_incoming_parse(struct json_object *body,
                       struct api_incoming *ret_incoming, struct error *err);
int api_close_parse(struct json_object *body, struct api_close *ret_close,
                    struct error *err);

#endif
