// SPDX-License-Identifier: BSD-3-Clause
/* Requests to and from the other daemons. */
#include "proxy/peer.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/peer-private.h"
#include "qmp/json-value.h"
#include "util/log.h"
#include "util/parse.h"

#define PEER_JSON_DEPTH 16

struct peer_request {
    struct peers *peers;
    uint64_t link_serial;
    uint64_t id;
    char peer[CONF_PEER_NAME_MAX + 1];
    char method[64];
    json_object *params;
};

static void call_free(struct peer_call *call)
{
    list_remove(&call->node);
    loop_timer_done(&call->deadline);
    free(call->text);
    free(call);
}

/* Ends a call. The callback may do anything, so the call is gone before. */
static void call_end(struct peer_call *call, json_object *result,
                     const struct error *err)
{
    peer_cb cb = call->cb;
    void *arg = call->arg;
    call_free(call);
    cb(arg, result, err);
}

/* A call that cannot be answered any more ends from the loop: whoever fails it
 * may be deep inside something, and its owner may still drop it. */
static void fail_call(struct peer_call *call, const struct error *err)
{
    call->failure = *err;
    loop_timer_stop(&call->deadline);
    list_remove(&call->node);
    list_append(&call->peers->failed, &call->node);
    loop_timer_start(&call->peers->failing, 0);
}

void peer_fail_calls(struct list *calls, const char *peer,
                     const struct error *err)
{
    LIST_EACH_SAFE (node, calls) {
        struct peer_call *call = container_of(node, struct peer_call, node);
        if (!peer || !strcmp(call->peer, peer)) {
            fail_call(call, err);
        }
    }
}

static void failing_cb(void *arg)
{
    struct peers *peers = arg;

    while (!list_is_empty(&peers->failed)) {
        struct peer_call *call =
            container_of(peers->failed.next, struct peer_call, node);
        struct error err = call->failure;
        call_end(call, NULL, &err);
    }
}

static void call_deadline(void *arg)
{
    struct peer_call *call = arg;
    struct error err = ERROR_INIT;
    char limit[32];

    error_set(&err, ERR_TIMEOUT, "%s: no answer from peer %s in %s",
              call->method, call->peer,
              parse_format_duration(call->timeout, limit, sizeof(limit)));
    call_end(call, NULL, &err);
}

static void send_call(struct peer_link *link, struct peer_call *call)
{
    char *text = call->text;

    call->text = NULL;
    list_remove(&call->node);
    list_append(&link->calls, &call->node);
    peer_link_send(link, text); /* on failure the call has failed with it */
    free(text);
}

void peer_send_waiting(struct peers *peers, struct peer_link *link)
{
    uint64_t serial = link->serial;
    char peer[CONF_PEER_NAME_MAX + 1];
    bool again = true;

    strcpy(peer, link->peer);
    while (again) {
        again = false;
        LIST_EACH_SAFE (node, &peers->waiting) {
            struct peer_call *call = container_of(node, struct peer_call, node);
            if (!strcmp(call->peer, peer)) {
                send_call(link, call);
                again = true;
                break;
            }
        }
        if (again && !peer_link_find_serial(peers, serial)) {
            return;
        }
    }
}

/* What cannot be said in one message is not said at all: only this fails, and
 * the connection stays. */
static bool is_too_long(const char *text, const char *method, const char *what,
                        const char *peer, struct error *ret_err)
{
    size_t length = strlen(text);

    if (length <= WIRE_MESSAGE_MAX_BYTES) {
        return false;
    }
    error_set(
        ret_err, ERR_LIMIT,
        "%s: the %s for peer %s is %zu bytes long, the limit of a control "
        "message is %d",
        method, what, peer, length, WIRE_MESSAGE_MAX_BYTES);
    log_warning("%s", ret_err->text);
    return true;
}

void peers_call(struct peers *peers, const char *peer, const char *method,
                json_object *params, mp_time timeout, const void *owner,
                peer_cb cb, void *arg)
{
    struct error err = ERROR_INIT;
    struct peer_call *call = calloc(1, sizeof(*call));
    json_object *request = json_object_new_object();

    if (!call || !request) {
        free(call);
        json_object_put(params);
        json_object_put(request);
        error_set(&err, ERR_NO_MEMORY, "%s: out of memory", method);
        cb(arg, NULL, &err);
        return;
    }
    call->peers = peers;
    call->id = ++peers->last_call_id;
    call->owner = owner;
    call->cb = cb;
    call->arg = arg;
    call->timeout = timeout;
    json_value_copy_text(call->peer, sizeof(call->peer), peer);
    json_value_copy_text(call->method, sizeof(call->method), method);
    list_init(&call->node);
    list_append(&peers->waiting, &call->node);
    loop_timer_init(&call->deadline, peers->loop, call_deadline, call);
    loop_timer_start(&call->deadline, timeout);

    json_object_object_add(request, "id",
                           json_object_new_int64((int64_t)call->id));
    json_object_object_add(request, "method", json_object_new_string(method));
    json_object_object_add(request, "params",
                           params ? params : json_object_new_object());
    call->text =
        strdup(json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN));
    json_object_put(request);

    if (peers->is_closing) {
        error_set(&err, ERR_SHUTTING_DOWN, "%s: this daemon is ending", method);
        fail_call(call, &err);
        return;
    }
    if (!call->text) {
        error_set(&err, ERR_NO_MEMORY, "%s: out of memory", method);
        fail_call(call, &err);
        return;
    }
    if (is_too_long(call->text, call->method, "request", peer, &err)) {
        fail_call(call, &err);
        return;
    }
    struct peer_link *link = peer_link_get(peers, peer, &err);
    if (!link) {
        fail_call(call, &err);
    } else if (link->ready) {
        send_call(link, call);
    }
}

static void drop_from(struct list *calls, const void *owner)
{
    LIST_EACH_SAFE (node, calls) {
        struct peer_call *call = container_of(node, struct peer_call, node);
        if (call->owner == owner) {
            call_free(call);
        }
    }
}

bool peers_is_unheard(const struct error *err)
{
    return err->code == ERR_LINK_LOST || err->code == ERR_TIMEOUT ||
           err->code == ERR_PEER_UNREACHABLE || err->code == ERR_TLS ||
           err->code == ERR_PEER_UNKNOWN || err->code == ERR_SHUTTING_DOWN ||
           err->code == ERR_PEER_REFUSED;
}

void peers_drop_calls(struct peers *peers, const void *owner)
{
    drop_from(&peers->waiting, owner);
    drop_from(&peers->failed, owner);
    LIST_EACH (node, &peers->links) {
        drop_from(&container_of(node, struct peer_link, node)->calls, owner);
    }
}

static void on_answer(struct peer_link *link, uint64_t id, json_object *message)
{
    struct error err = ERROR_INIT;
    json_object *result = NULL, *error_object = NULL;

    LIST_EACH (node, &link->calls) {
        struct peer_call *call = container_of(node, struct peer_call, node);
        if (call->id != id) {
            continue;
        }
        if (json_value_object(message, "error", &error_object)) {
            error_json_read(error_object, NULL, &err);
            call_end(call, NULL, &err);
        } else if (json_value_object(message, "result", &result)) {
            call_end(call, result, NULL);
        } else {
            error_set(&err, ERR_PROTOCOL,
                      "%s: peer %s answered without result or error",
                      call->method, call->peer);
            call_end(call, NULL, &err);
        }
        return;
    }
    /* dropped or timed out here: the answer is late, not wrong */
}

static void on_request(struct peer_link *link, uint64_t id, const char *method,
                       json_object *params)
{
    struct peers *peers = link->peers;
    struct peer_request *request = calloc(1, sizeof(*request));
    struct error err = ERROR_INIT;

    if (!request) {
        return;
    }
    request->peers = peers;
    request->link_serial = link->serial;
    request->id = id;
    request->params = json_object_get(params);
    strcpy(request->peer, link->peer);
    json_value_copy_text(request->method, sizeof(request->method), method);
    link->requests++;
    link->idle_pongs = 0;
    if (link->requests > PEER_REQUESTS_MAX) {
        error_set(&err, ERR_LIMIT,
                  "%s: %u requests of peer %s are open, the limit is %d",
                  request->method, link->requests - 1, link->peer,
                  PEER_REQUESTS_MAX);
        peer_request_fail(request, &err);
        return;
    }
    peers->ops->on_request(peers->arg, request);
}

void peer_on_message(struct peer_link *link, const char *text, size_t length)
{
    json_tokener *tokener = json_tokener_new_ex(PEER_JSON_DEPTH);
    json_object *message = NULL, *params = NULL;
    const char *method;
    uint64_t id;

    if (!tokener) {
        return;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    message = json_tokener_parse_ex(tokener, text, (int)length);
    if (!message && json_tokener_get_error(tokener) == json_tokener_continue) {
        message = json_tokener_parse_ex(tokener, "\0", 1);
    }
    json_tokener_free(tokener);
    if (!json_object_is_type(message, json_type_object) ||
        !json_value_uint(message, "id", &id)) {
        log_write(LOG_LEVEL_WARNING, link->peer,
                  "a control message of %zu bytes is no request and no answer; "
                  "it is ignored",
                  length);
    } else if (json_value_text(message, "method", &method)) {
        json_value_object(message, "params", &params);
        on_request(link, id, method, params);
    } else {
        on_answer(link, id, message);
    }
    json_object_put(message);
}

const char *peer_request_peer(const struct peer_request *request)
{
    return request->peer;
}

const char *peer_request_method(const struct peer_request *request)
{
    return request->method;
}

json_object *peer_request_params(const struct peer_request *request)
{
    return request->params;
}

/* Sends {"id":..., member: value} if the link still is there; value is taken.
 */
static void request_end(struct peer_request *request, const char *member,
                        json_object *value)
{
    struct peer_link *link =
        peer_link_find_serial(request->peers, request->link_serial);
    json_object *answer = json_object_new_object();
    struct error err = ERROR_INIT;

    json_object_object_add(answer, "id",
                           json_object_new_int64((int64_t)request->id));
    json_object_object_add(answer, member, value);
    const char *text =
        json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN);
    if (is_too_long(text, request->method, "answer", request->peer, &err)) {
        json_object_object_del(answer, member);
        json_object_object_add(answer, "error", error_json_new(&err, NULL));
        text = json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN);
    }
    if (link) {
        link->requests--;
        peer_link_send(link, text);
    }
    json_object_put(answer);
    json_object_put(request->params);
    free(request);
}

void peer_request_reply(struct peer_request *request, json_object *result)
{
    request_end(request, "result", result ? result : json_object_new_object());
}

void peer_request_fail(struct peer_request *request, const struct error *err)
{
    request_end(request, "error", error_json_new(err, NULL));
}

struct peers *peers_new(struct loop *loop, const struct conf *conf,
                        struct tls *tls, const struct peers_ops *ops, void *arg,
                        struct error *err)
{
    struct peers *peers = calloc(1, sizeof(*peers));

    if (!peers) {
        error_set(err, ERR_NO_MEMORY, "peers: out of memory");
        return NULL;
    }
    peers->loop = loop;
    peers->conf = conf;
    peers->tls = tls_ref(tls);
    peers->ops = ops;
    peers->arg = arg;
    list_init(&peers->links);
    list_init(&peers->incoming);
    list_init(&peers->waiting);
    list_init(&peers->failed);
    loop_timer_init(&peers->failing, loop, failing_cb, peers);
    peers->last_errors = calloc(conf->peer_count + 1, sizeof(struct error));
    peers->last_instances =
        calloc(conf->peer_count + 1, sizeof(peers->last_instances[0]));
    peers->lost_at = calloc(conf->peer_count + 1, sizeof(*peers->lost_at));
    if (!peers->last_errors || !peers->last_instances || !peers->lost_at) {
        error_set(err, ERR_NO_MEMORY, "peers: out of memory");
        peers_free(peers);
        return NULL;
    }
    if (!tls_random(peers->instance, sizeof(peers->instance))) {
        error_set(err, ERR_INTERNAL, "no random numbers for the instance id");
        peers_free(peers);
        return NULL;
    }
    if (peer_link_listen(peers, err)) {
        peers_free(peers);
        return NULL;
    }
    return peers;
}

void peers_free(struct peers *peers)
{
    struct error err = ERROR_INIT;

    if (!peers) {
        return;
    }
    error_set(&err, ERR_SHUTTING_DOWN, "this daemon is ending");
    peers->is_closing = true;
    peer_fail_calls(&peers->waiting, NULL, &err);
    peer_link_close_all(peers);
    failing_cb(peers);
    loop_timer_done(&peers->failing);
    tls_unref(peers->tls);
    free(peers->last_errors);
    free(peers->lost_at);
    free(peers->last_instances);
    free(peers);
}

void peers_reload(struct peers *peers, const struct conf *conf, struct tls *tls)
{
    struct error *errors = calloc(conf->peer_count + 1, sizeof(*errors));
    mp_time *lost_at = calloc(conf->peer_count + 1, sizeof(*lost_at));
    uint8_t(*instances)[HELLO_INSTANCE_BYTES] =
        calloc(conf->peer_count + 1, sizeof(*instances));

    if (!errors || !instances || !lost_at) {
        free(errors);
        free(lost_at);
        free(instances);
        log_error("reload: out of memory, the old peers stay");
        return;
    }
    for (size_t i = 0; i < conf->peer_count; i++) {
        int old = peer_index(peers, conf->peers[i].name);
        if (old >= 0) {
            errors[i] = peers->last_errors[old];
            lost_at[i] = peers->lost_at[old];
            memcpy(instances[i], peers->last_instances[old],
                   HELLO_INSTANCE_BYTES);
        }
    }
    free(peers->last_errors);
    free(peers->lost_at);
    free(peers->last_instances);
    peers->last_errors = errors;
    peers->lost_at = lost_at;
    peers->last_instances = instances;
    peers->conf = conf;
    tls_ref(tls);
    tls_unref(peers->tls);
    peers->tls = tls;
}

struct hello peers_hello(const struct peers *peers, enum wire_lane kind,
                         const uint8_t *token)
{
    struct hello hello = {.version_min = WIRE_VERSION_MIN,
                          .version_max = WIRE_VERSION_MAX,
                          .lane = kind,
                          .has_token = token != NULL};

    json_value_copy_text(hello.name, sizeof(hello.name), peers->conf->name);
    memcpy(hello.instance, peers->instance, sizeof(hello.instance));
    if (token) {
        memcpy(hello.token, token, sizeof(hello.token));
    }
    return hello;
}

void peers_instance_text(const struct peers *peers, char buf[33])
{
    for (int i = 0; i < HELLO_INSTANCE_BYTES; i++) {
        snprintf(buf + 2 * i, 3, "%02x", peers->instance[i]);
    }
}

bool peers_clock(const struct peers *peers, const char *peer,
                 mp_time *ret_offset, mp_time *ret_rtt)
{
    struct peer_link *link = peer_link_find(peers, peer);

    if (!link || !link->rtt) {
        return false;
    }
    *ret_offset = link->clock_offset;
    *ret_rtt = link->rtt;
    return true;
}

static json_object *allow_to_json(unsigned allow)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{CONF_ALLOW_SEND, "send"},
                 {CONF_ALLOW_RECEIVE, "receive"},
                 {CONF_ALLOW_NAME_PATHS, "name-paths"},
                 {CONF_ALLOW_LIBVIRT_CONTROL, "libvirt-control"}};
    json_object *array = json_object_new_array();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (allow & names[i].bit) {
            json_object_array_add(array, json_object_new_string(names[i].name));
        }
    }
    return array;
}

static json_object *peer_to_json(const struct peers *peers, size_t index)
{
    const struct conf_peer *conf = &peers->conf->peers[index];
    const struct error *err = &peers->last_errors[index];
    mp_time lost_at = peers->lost_at[index];
    struct peer_link *link = peer_link_find(peers, conf->name);
    json_object *object = json_object_new_object();
    json_object *error_object = NULL;

    json_object_object_add(object, "name", json_object_new_string(conf->name));
    json_object_object_add(object, "address",
                           json_object_new_string(conf->address));
    json_object_object_add(object, "identity",
                           json_object_new_string(conf->identity));
    json_object_object_add(object, "allow", allow_to_json(conf->allow));
    json_object_object_add(object, "connected",
                           json_object_new_boolean(link != NULL));
    json_object_object_add(
        object, "lost_ms",
        lost_at && !link
            ? json_object_new_int64((loop_now(peers->loop) - lost_at) / MP_MS)
            : NULL);
    json_object_object_add(
        object, "rtt_us",
        link && link->rtt ? json_object_new_int64(link->rtt / MP_US) : NULL);
    json_object_object_add(
        object, "version",
        link ? json_object_new_int((int)lane_version(link->lane)) : NULL);
    if (error_is_set(err) && !link) {
        error_object = error_json_new(err, NULL);
    }
    json_object_object_add(object, "error", error_object);
    return object;
}

json_object *peers_to_json(const struct peers *peers)
{
    json_object *array = json_object_new_array();

    for (size_t i = 0; i < peers->conf->peer_count; i++) {
        json_object_array_add(array, peer_to_json(peers, i));
    }
    return array;
}
