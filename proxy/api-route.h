// SPDX-License-Identifier: BSD-3-Clause
/* Which request means what: one table, which docs/openapi.yaml is tested
 * against. Pure. */
#ifndef PROXY_API_ROUTE_H
#define PROXY_API_ROUTE_H

#include "proxy/api-http.h"
#include "proxy/api.h"

enum api_action {
    API_ACTION_MIGRATE,
    API_ACTION_LIST,
    API_ACTION_SHOW,
    API_ACTION_CANCEL,
    API_ACTION_SET,
    API_ACTION_POSTCOPY,
    API_ACTION_CLOSE,
    API_ACTION_ADD_INCOMING,
    API_ACTION_LIST_INCOMING,
    API_ACTION_REMOVE_INCOMING,
    API_ACTION_EVENTS,
    API_ACTION_PEERS,
    API_ACTION_HOST,
    API_ACTION_METRICS
};

struct api_route {
    enum api_http_method method;
    const char *path; /* "{id}" stands for an id */
    enum api_action action;
    const char *side; /* whose error a refusal is: "source" or "local" */
};

/* The table; ends with a NULL path. */
extern const struct api_route api_routes[];

/* The route of a request, and the id its path has ("" for none). NULL and *err
 * where there is none: ERR_NOT_FOUND, or ERR_UNSUPPORTED with *ret_allow (the
 * methods of this path, a static text; else NULL). */
const struct api_route *api_route_find(enum api_http_method method,
                                       const char *target,
                                       char ret_id[ID_MAX + 1],
                                       const char **ret_allow,
                                       struct error *err);

#endif
