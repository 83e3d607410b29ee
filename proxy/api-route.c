// SPDX-License-Identifier: BSD-3-Clause
/* Which request means what. */
#include "proxy/api-route.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "proxy/api-member.h"

#define ID_MARK "{id}"

const struct api_route api_routes[] = {
    {API_HTTP_POST, "/v1/migrations", API_ACTION_MIGRATE, "source"},
    {API_HTTP_GET, "/v1/migrations", API_ACTION_LIST, "local"},
    {API_HTTP_GET, "/v1/migrations/{id}", API_ACTION_SHOW, "local"},
    {API_HTTP_PATCH, "/v1/migrations/{id}", API_ACTION_SET, "local"},
    {API_HTTP_POST, "/v1/migrations/{id}/cancel", API_ACTION_CANCEL, "local"},
    {API_HTTP_POST, "/v1/migrations/{id}/postcopy", API_ACTION_POSTCOPY,
     "local"},
    {API_HTTP_POST, "/v1/migrations/{id}/close", API_ACTION_CLOSE, "local"},
    {API_HTTP_POST, "/v1/incoming", API_ACTION_ADD_INCOMING, "destination"},
    {API_HTTP_GET, "/v1/incoming", API_ACTION_LIST_INCOMING, "local"},
    {API_HTTP_DELETE, "/v1/incoming/{id}", API_ACTION_REMOVE_INCOMING, "local"},
    {API_HTTP_GET, "/v1/events", API_ACTION_EVENTS, "local"},
    {API_HTTP_GET, "/v1/peers", API_ACTION_PEERS, "local"},
    {API_HTTP_GET, "/v1/host", API_ACTION_HOST, "local"},
    {API_HTTP_GET, "/metrics", API_ACTION_METRICS, "local"},
    {.path = NULL},
};

/* Compares a path with a route's; where that has {id}, takes an id. */
static bool is_match(const char *path, const char *target, char id[ID_MAX + 1])
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
    if (size == 0 || size > ID_MAX ||
        strcmp(target + before + size, mark + strlen(ID_MARK))) {
        return false;
    }
    memcpy(id, target + before, size);
    id[size] = '\0';
    return id_is_valid(id);
}

/* Of a set of methods, one bit each. */
static const char *allow_text(unsigned methods)
{
    static const struct {
        unsigned methods;
        const char *text;
    } rows[] = {
        {1u << API_HTTP_GET, "GET"},
        {1u << API_HTTP_POST, "POST"},
        {1u << API_HTTP_DELETE, "DELETE"},
        {1u << API_HTTP_GET | 1u << API_HTTP_POST, "GET, POST"},
        {1u << API_HTTP_GET | 1u << API_HTTP_PATCH, "GET, PATCH"},
    };
    size_t i = 0;

    while (rows[i].methods != methods) {
        i++;
        assert(i < sizeof(rows) / sizeof(rows[0]));
    }
    return rows[i].text;
}

const struct api_route *api_route_find(enum api_http_method method,
                                       const char *target,
                                       char ret_id[ID_MAX + 1],
                                       const char **ret_allow,
                                       struct error *err)
{
    unsigned methods = 0; /* bits: those of this path */

    *ret_allow = NULL;
    for (const struct api_route *route = api_routes; route->path; route++) {
        if (!is_match(route->path, target, ret_id)) {
            continue;
        }
        if (route->method == method) {
            return route;
        }
        methods |= 1u << route->method;
    }
    if (!methods) {
        error_set(err, ERR_NOT_FOUND, "there is nothing at %.200s", target);
        return NULL;
    }
    *ret_allow = allow_text(methods);
    error_set(err, ERR_UNSUPPORTED, "%.200s takes %s only", target, *ret_allow);
    return NULL;
}
