// SPDX-License-Identifier: BSD-3-Clause
/* The API: requests to calls of struct api_ops. */
#include "proxy/api.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/api-events.h"
#include "proxy/api-json.h"
#include "proxy/api-migrate.h"
#include "proxy/api-order.h"
#include "proxy/api-route.h"
#include "proxy/api-server.h"
#include "util/cleanup.h"

#define CLIENT_TIMEOUT_DEFAULT (10 * MP_SECOND)
#define LISTEN_BACKLOG 128

struct api {
    struct api_server *server;
    struct api_events *events;
    const struct api_ops *ops;
    void *arg;
    char *socket_path;
};

/* A request on its way to an op. */
struct api_call {
    struct api *api;
    const struct api_route *route;
    char id[ID_MAX + 1]; /* from the path */
    const struct api_http_head *head;
    const char *body;
    int status;        /* of success */
    int refuse_status; /* of an error; 0: the one of its class */
};

static void put_object(struct json_object **object)
{
    json_object_put(*object);
}

static int parse_body(struct api_call *call, struct json_object **ret_body,
                      struct error *err)
{
    if (!call->head->has_type || !call->head->is_json) {
        call->refuse_status = 415;
        return error_set(err, ERR_UNSUPPORTED,
                         "the body needs Content-Type: application/json");
    }
    return api_json_parse(call->body, call->head->body_bytes, ret_body, err);
}

/* Where a request has no parameters, its body is empty or {}. */
static int check_no_body(struct api_call *call, struct error *err)
{
    CLEANUP(put_object) struct json_object *body = NULL;

    if (call->head->body_bytes == 0) {
        return 0;
    }
    if (parse_body(call, &body, err) < 0) {
        return -1;
    }
    json_object_object_foreach(body, name, value)
    {
        (void)value;
        return error_set(err, ERR_BAD_REQUEST,
                         "unknown member \"%.80s\" in %s, which takes none",
                         name, call->route->path);
    }
    return 0;
}

static int call_migrate(struct api_call *call, struct api_reply *reply,
                        struct json_object **ret_object, struct error *err)
{
    CLEANUP(put_object) struct json_object *body = NULL;
    struct api_migrate migrate;
    bool created = false;

    if (parse_body(call, &body, err) < 0 ||
        api_migrate_parse(body, &migrate, err) < 0) {
        return -1;
    }
    if (!migrate.id[0]) {
        id_make(migrate.id);
    }
    if (call->api->ops->migrate(call->api->arg, &migrate, ret_object, &created,
                                err) < 0) {
        return -1;
    }
    if (created) {
        call->status = 201;
        snprintf(reply->location, sizeof(reply->location), "%s/%s",
                 call->route->path, migrate.id);
    }
    return 0;
}

static int call_set(struct api_call *call, struct json_object **ret_object,
                    struct error *err)
{
    CLEANUP(put_object) struct json_object *body = NULL;
    struct api_limits limits;

    if (parse_body(call, &body, err) < 0 ||
        api_limits_parse(body, &limits, err) < 0) {
        return -1;
    }
    return call->api->ops->set(call->api->arg, call->id, &limits, ret_object,
                               err);
}

/* The note may be left out, and the body with it. */
static int call_close(struct api_call *call, struct json_object **ret_object,
                      struct error *err)
{
    CLEANUP(put_object) struct json_object *body = NULL;
    struct api_close close = {.note = ""};

    if (call->head->body_bytes > 0 &&
        (parse_body(call, &body, err) < 0 ||
         api_close_parse(body, &close, err) < 0)) {
        return -1;
    }
    return call->api->ops->close(call->api->arg, call->id, &close, ret_object,
                                 err);
}

static int call_add_incoming(struct api_call *call,
                             struct json_object **ret_object, struct error *err)
{
    CLEANUP(put_object) struct json_object *body = NULL;
    struct api_incoming incoming;

    if (parse_body(call, &body, err) < 0 ||
        api_incoming_parse(body, &incoming, err) < 0) {
        return -1;
    }
    call->status = 201;
    return call->api->ops->add_incoming(call->api->arg, &incoming, ret_object,
                                        err);
}

/* Where the client left off: the header that browsers send, or ?after=N. */
static int find_after(const struct api_http_head *head, uint64_t *ret_after,
                      struct error *err)
{
    static const char name[] = "after=";

    *ret_after = UINT64_MAX;
    if (head->last_event_id[0]) {
        return api_events_parse_sequence(head->last_event_id, ret_after, err);
    }
    if (!head->has_query) {
        return 0;
    }
    if (strncmp(head->query, name, strlen(name))) {
        return error_set(err, ERR_BAD_REQUEST,
                         "the query \"%s\" is not after=NUMBER", head->query);
    }
    return api_events_parse_sequence(head->query + strlen(name), ret_after,
                                     err);
}

static int call_events(struct api_call *call, struct api_reply *reply,
                       struct error *err)
{
    struct api *api = call->api;
    uint64_t after;

    if (find_after(call->head, &after, err) < 0) {
        return -1;
    }
    if (api_server_followers(api->server) >= API_FOLLOWERS_MAX) {
        return error_set(err, ERR_LIMIT,
                         "%d clients follow the events, the limit",
                         API_FOLLOWERS_MAX);
    }
    reply->body = api_events_replay(api->events, after);
    if (!reply->body) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for the events");
    }
    reply->status = 200;
    reply->is_stream = true;
    return 0;
}

static int call_metrics(struct api_call *call, struct api_reply *reply,
                        struct error *err)
{
    size_t size = 0;
    FILE *out = open_memstream(&reply->body, &size);
    int n = out ? call->api->ops->metrics(call->api->arg, out, err) : -1;
    bool failed = !out || ferror(out);

    if (out && fclose(out)) {
        failed = true;
    }
    if (failed || n < 0) {
        return n < 0 && out
                   ? -1
                   : error_set(err, ERR_NO_MEMORY, "out of memory for metrics");
    }
    reply->status = 200;
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    return 0;
}

static int call_op(struct api_call *call, struct api_reply *reply,
                   struct json_object **ret_object, struct error *err)
{
    const struct api_ops *ops = call->api->ops;
    void *arg = call->api->arg;

    if (call->route->action == API_ACTION_MIGRATE) {
        return call_migrate(call, reply, ret_object, err);
    }
    if (call->route->action == API_ACTION_SET) {
        return call_set(call, ret_object, err);
    }
    if (call->route->action == API_ACTION_CLOSE) {
        return call_close(call, ret_object, err);
    }
    if (call->route->action == API_ACTION_ADD_INCOMING) {
        return call_add_incoming(call, ret_object, err);
    }
    if (check_no_body(call, err) < 0) {
        return -1;
    }
    switch (call->route->action) {
    case API_ACTION_MIGRATE:
    case API_ACTION_SET:
    case API_ACTION_CLOSE:
    case API_ACTION_ADD_INCOMING:
        break;
    case API_ACTION_LIST:
        return ops->list(arg, ret_object, err);
    case API_ACTION_SHOW:
        return ops->show(arg, call->id, ret_object, err);
    case API_ACTION_CANCEL:
        return ops->cancel(arg, call->id, ret_object, err);
    case API_ACTION_POSTCOPY:
        return ops->postcopy(arg, call->id, ret_object, err);
    case API_ACTION_LIST_INCOMING:
        return ops->list_incoming(arg, ret_object, err);
    case API_ACTION_REMOVE_INCOMING:
        return ops->remove_incoming(arg, call->id, ret_object, err);
    case API_ACTION_EVENTS:
        return call_events(call, reply, err);
    case API_ACTION_PEERS:
        return ops->peers(arg, ret_object, err);
    case API_ACTION_HOST:
        return ops->host(arg, ret_object, err);
    case API_ACTION_METRICS:
        return call_metrics(call, reply, err);
    }
    return -1;
}

static void answer_cb(void *arg, const struct api_http_head *head,
                      const char *body, struct api_reply *reply)
{
    struct api_call call = {
        .api = arg, .head = head, .body = body, .status = 200};
    struct error err = ERROR_INIT;
    CLEANUP(put_object) struct json_object *object = NULL;

    call.route = api_route_find(head->method, head->target, call.id,
                                &reply->allow, &err);
    if (!call.route) {
        api_reply_set_error(reply, reply->allow ? 405 : 0, "local", &err);
        return;
    }
    if (head->has_query && call.route->action != API_ACTION_EVENTS) {
        error_set(&err, ERR_BAD_REQUEST, "%.200s takes no query (?%s)",
                  head->target, head->query);
        api_reply_set_error(reply, 0, "local", &err);
        return;
    }
    if (call_op(&call, reply, &object, &err) < 0) {
        if (!error_is_set(&err)) {
            error_set(&err, ERR_INTERNAL, "refused without a reason");
        }
        api_reply_set_error(reply, call.refuse_status, call.route->side, &err);
        return;
    }
    if (!reply->is_stream && !reply->type) {
        api_reply_set_json(reply, call.status, object);
    }
}

static struct api_server *open_server(const struct api_params *params,
                                      struct api *api, struct error *err)
{
    struct api_server_params server = {
        .loop = params->loop,
        .body_max = API_BODY_MAX,
        .client_timeout = params->client_timeout ? params->client_timeout
                                                 : CLIENT_TIMEOUT_DEFAULT,
        .max_connections = params->max_connections ? params->max_connections
                                                   : API_CONNECTIONS_MAX,
    };
    CLEANUP_FD int fd =
        path_listen_socket(params->socket_path, params->socket_mode,
                           params->socket_group, LISTEN_BACKLOG, err);

    if (fd < 0) {
        return NULL;
    }
    server.listen_fd = fd;
    struct api_server *opened = api_server_new(&server, answer_cb, api, err);
    if (!opened) {
        path_remove_socket(params->socket_path);
        return NULL;
    }
    steal_fd(&fd);
    return opened;
}

struct api *api_new(const struct api_params *params, const struct api_ops *ops,
                    void *arg, struct error *err)
{
    struct api *api = calloc(1, sizeof(*api));

    if (!api || !(api->socket_path = strdup(params->socket_path))) {
        error_set(err, ERR_NO_MEMORY, "out of memory for the API");
        free(api);
        return NULL;
    }
    api->ops = ops;
    api->arg = arg;
    api->events = api_events_new((uint64_t)clock_wall_us());
    if (!api->events) {
        error_set(err, ERR_NO_MEMORY, "out of memory for the API's events");
    } else {
        api->server = open_server(params, api, err);
    }
    if (!api->server) {
        error_wrap(err, "opening the API");
        api_events_free(api->events);
        free(api->socket_path);
        free(api);
        return NULL;
    }
    return api;
}

static const char *text_of(struct json_object *object)
{
    const char *text = json_object_to_json_string_ext(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    return text ? text : "{}";
}

static void add_at(struct json_object *object)
{
    char at[40];

    clock_format_wall(clock_wall_us(), at, sizeof(at));
    json_object_object_add(object, "at", json_object_new_string(at));
}

void api_publish(struct api *api, const char *type, struct json_object *object)
{
    add_at(object);
    json_object_object_add(
        object, "sequence",
        json_object_new_uint64(api_events_last(api->events) + 1));
    const char *text = api_events_add(api->events, type, text_of(object));
    if (text) {
        api_server_publish(api->server, text);
    }
}

void api_publish_passing(struct api *api, const char *type,
                         struct json_object *object)
{
    add_at(object);
    char *text = api_events_make_passing(type, text_of(object));
    if (text) {
        api_server_publish(api->server, text);
    }
    free(text);
}

bool api_has_followers(const struct api *api)
{
    return api_server_followers(api->server) > 0;
}

void api_free(struct api *api)
{
    if (!api) {
        return;
    }
    api_server_free(api->server);
    api_events_free(api->events);
    path_remove_socket(api->socket_path);
    free(api->socket_path);
    free(api);
}
