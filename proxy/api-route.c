// SPDX-License-Identifier: BSD-3-Clause
/* Which request means what. */
#include "proxy/api-route.h"

#include <stdio.h>
#include <string.h>

#include "proxy/api-migrate.h"

#define ID_MARK "{id}"

const struct api_route api_routes[] = {
    {API_HTTP_POST, "/v1/migrations", API_ACTION_MIGRATE, "source"},
    {API_HTTP_GET, "/v1/migrations", API_ACTION_LIST, "local"},
    {API_HTTP_GET, "/v1/migrations/{id}", API_ACTION_SHOW, "local"},
    {API_HTTP_POST, "/v1/migrations/{id}/cancel", API_ACTION_CANCEL, "local"},
    {API_HTTP_POST, "/v1/migrations/{id}/postcopy", API_ACTION_POSTCOPY,
     "local"},
    {API_HTTP_GET, "/v1/peers", API_ACTION_PEERS, "local"},
    {API_HTTP_GET, "/v1/host", API_ACTION_HOST, "local"},
    {.path = NULL},
};

/* Compares a path with a route's; where that has {id}, takes an id. */
static bool is_match(const char *path, const char *target,
                     char id[API_ID_MAX + 1])
{
    const char *mark = strstr(path, ID_MARK);
    size_t before = mark ? (size_t)(mark - path) : strlen(path);

    id[0] = '\0';
    if (!mark) {
        return !strcmp(path, target);
    }
    if (strncmp(path, target, before)) {
        return false;
    }
    size_t size = strcspn(target + before, "/");
    if (size == 0 || size > API_ID_MAX ||
        strcmp(target + before + size, mark + strlen(ID_MARK))) {
        return false;
    }
    memcpy(id, target + before, size);
    id[size] = '\0';
    return api_migrate_is_id(id);
}

const struct api_route *api_route_find(enum api_http_method method,
                                       const char *target,
                                       char ret_id[API_ID_MAX + 1],
                                       const char **ret_allow,
                                       struct error *err)
{
    bool has_get = false;
    bool has_post = false;

    *ret_allow = NULL;
    for (const struct api_route *route = api_routes; route->path; route++) {
        if (!is_match(route->path, target, ret_id)) {
            continue;
        }
        if (route->method == method) {
            return route;
        }
        has_get |= route->method == API_HTTP_GET;
        has_post |= route->method == API_HTTP_POST;
    }
    if (!has_get && !has_post) {
        error_set(err, ERR_NOT_FOUND, "there is nothing at %.200s", target);
        return NULL;
    }
    *ret_allow = has_get && has_post ? "GET, POST" : has_get ? "GET" : "POST";
    error_set(err, ERR_UNSUPPORTED, "%.200s takes %s only", target, *ret_allow);
    return NULL;
}
