// SPDX-License-Identifier: BSD-3-Clause
/* The connections of the API. */
#include "proxy/api-server.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "util/cleanup.h"
#include "util/list.h"
#include "util/log.h"

#define ACCEPT_BUDGET 16 /* connections a wake */
/* How long accepting pauses when the process has no more descriptors. */
#define ACCEPT_RETRY_TIME MP_SECOND
/* A client is read this far after a final answer: closing a socket with unread
 * bytes would take the answer from one that is still sending. */
#define LINGER_BYTES_MAX (1024 * 1024)
#define KEEP_ALIVE_TIME (15 * MP_SECOND)

enum conn_state {
    CONN_READING,   /* a request; the deadline counts from its begin */
    CONN_WRITING,   /* an answer; input waits */
    CONN_LINGERING, /* our end is shut, what still comes is dropped */
    CONN_STREAMING  /* a follower of events; input is dropped */
};

struct conn {
    struct list node; /* in server->conns */
    struct api_server *server;
    struct bufferevent *bev;
    struct loop_timer deadline;
    enum conn_state state;
    struct ucred peer;
    struct api_http_head head;
    bool has_head;  /* head is read, its body is awaited */
    bool peer_done; /* no more bytes will come */
    bool keep_alive;
    size_t lingered_bytes;
};

struct api_server {
    struct loop *loop;
    int listen_fd;
    size_t body_max;
    mp_time client_timeout;
    unsigned max_connections;
    api_server_cb cb;
    void *arg;
    struct event *accept_event;
    struct loop_timer accept_retry;
    struct list conns;
    unsigned count;
    unsigned followers;
    bool told_full; /* logged, until less than half are left */
};

static void conn_close(struct conn *conn)
{
    struct api_server *server = conn->server;

    server->followers -= conn->state == CONN_STREAMING;
    list_remove(&conn->node);
    loop_timer_done(&conn->deadline);
    bufferevent_free(conn->bev);
    free(conn);
    server->count--;
    if (server->count < server->max_connections / 2) {
        server->told_full = false;
    }
    if (!loop_timer_is_running(&server->accept_retry)) {
        event_add(server->accept_event, NULL);
    }
}

/* What was done for whom: orders in the log, questions only for debugging. */
static void log_reply(const struct conn *conn, const struct api_reply *reply)
{
    enum log_level level = conn->has_head && conn->head.method != API_HTTP_GET
                               ? LOG_LEVEL_INFO
                               : LOG_LEVEL_DEBUG;
    log_write(level, "api", "%s %.100s by uid %u pid %d: %d",
              conn->has_head ? conn->head.method_name : "unreadable request",
              conn->has_head ? conn->head.target : "", (unsigned)conn->peer.uid,
              (int)conn->peer.pid, reply->status);
}

/* The answer has no end: it ends with the connection. */
static void conn_stream(struct conn *conn, const struct api_reply *reply)
{
    struct evbuffer *out = bufferevent_get_output(conn->bev);

    log_reply(conn, reply);
    evbuffer_add_printf(out, "HTTP/1.1 200 OK\r\n"
                             "Content-Type: text/event-stream\r\n"
                             "Cache-Control: no-store\r\n"
                             "Connection: close\r\n\r\n");
    evbuffer_add(out, reply->body, strlen(reply->body));
    conn->state = CONN_STREAMING;
    conn->keep_alive = false;
    conn->server->followers++;
    loop_timer_start(&conn->deadline, KEEP_ALIVE_TIME);
}

static void conn_send(struct conn *conn, const struct api_reply *reply)
{
    static const char no_memory[] =
        "{\"error\":{\"class\":\"no-memory\",\"message\":\"out of memory for "
        "the answer\",\"side\":\"local\"}}\n";
    struct evbuffer *out = bufferevent_get_output(conn->bev);
    const char *body = reply->body ? reply->body : no_memory;
    char date[64];

    log_reply(conn, reply);
    evutil_date_rfc1123(date, sizeof(date), NULL);
    evbuffer_add_printf(out,
                        "HTTP/1.1 %d %s\r\nDate: %s\r\n"
                        "Content-Type: %s\r\n"
                        "Content-Length: %zu\r\nCache-Control: no-store\r\n",
                        reply->status, api_http_reason(reply->status), date,
                        reply->type ? reply->type : "application/json",
                        strlen(body));
    if (reply->allow) {
        evbuffer_add_printf(out, "Allow: %s\r\n", reply->allow);
    }
    if (reply->location[0]) {
        evbuffer_add_printf(out, "Location: %s\r\n", reply->location);
    }
    if (!conn->keep_alive) {
        evbuffer_add_printf(out, "Connection: close\r\n");
    }
    evbuffer_add_printf(out, "\r\n");
    evbuffer_add(out, body, strlen(body));
    conn->state = CONN_WRITING;
    loop_timer_start(&conn->deadline, conn->server->client_timeout);
}

/* The last answer on this connection: what follows cannot be understood. */
static void conn_send_error(struct conn *conn, int status,
                            const struct error *err)
{
    struct api_reply reply = {0};

    api_reply_set_error(&reply, status, "local", err);
    conn->keep_alive = false;
    conn_send(conn, &reply);
    api_reply_done(&reply);
}

/* Reads the head if it is there whole. False if there is nothing more to do
 * for now. */
static bool conn_read_head(struct conn *conn)
{
    struct evbuffer *in = bufferevent_get_input(conn->bev);
    size_t size = evbuffer_get_length(in);
    struct error err = ERROR_INIT;
    int status = 0;

    if (size > API_HTTP_HEAD_MAX) {
        size = API_HTTP_HEAD_MAX;
    }
    const char *bytes = (const char *)evbuffer_pullup(in, (ev_ssize_t)size);
    int n = bytes ? api_http_parse(bytes, size, conn->server->body_max,
                                   &conn->head, &status, &err)
                  : 0;
    if (n < 0) {
        conn_send_error(conn, status, &err);
        return false;
    }
    if (n == 0) {
        return false;
    }
    conn->has_head = true;
    evbuffer_drain(in, conn->head.size);
    if (conn->head.expects_continue &&
        evbuffer_get_length(in) < conn->head.body_bytes) {
        bufferevent_write(conn->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    }
    return true;
}

static void conn_answer(struct conn *conn)
{
    struct evbuffer *in = bufferevent_get_input(conn->bev);
    size_t size = conn->head.body_bytes;
    struct api_reply reply = {0};
    const char *body =
        size ? (const char *)evbuffer_pullup(in, (ev_ssize_t)size) : "";

    conn->keep_alive = conn->head.keep_alive;
    if (body) {
        conn->server->cb(conn->server->arg, &conn->head, body, &reply);
    } else {
        reply.status = 503;
    }
    evbuffer_drain(in, size);
    if (reply.is_stream && reply.body) {
        conn_stream(conn, &reply);
    } else {
        conn_send(conn, &reply);
    }
    api_reply_done(&reply);
    conn->has_head = false;
}

/* Takes a step with what has come. May free conn. */
static void conn_read(struct conn *conn)
{
    struct evbuffer *in = bufferevent_get_input(conn->bev);

    if (!conn->has_head && !conn_read_head(conn)) {
        if (conn->state == CONN_READING && conn->peer_done) {
            conn_close(conn);
        }
        return;
    }
    if (evbuffer_get_length(in) >= conn->head.body_bytes) {
        conn_answer(conn);
    } else if (conn->peer_done) {
        conn_close(conn);
    }
}

static void conn_linger(struct conn *conn)
{
    struct evbuffer *in = bufferevent_get_input(conn->bev);

    conn->lingered_bytes += evbuffer_get_length(in);
    evbuffer_drain(in, evbuffer_get_length(in));
    if (conn->lingered_bytes > LINGER_BYTES_MAX) {
        conn_close(conn);
    }
}

static void read_cb(struct bufferevent *bev, void *arg)
{
    struct conn *conn = arg;

    if (conn->state == CONN_READING) {
        conn_read(conn);
    } else if (conn->state == CONN_LINGERING) {
        conn_linger(conn);
    } else if (conn->state == CONN_STREAMING) {
        evbuffer_drain(bufferevent_get_input(bev),
                       evbuffer_get_length(bufferevent_get_input(bev)));
    }
}

/* All output has gone to the kernel. */
static void write_cb(struct bufferevent *bev, void *arg)
{
    struct conn *conn = arg;

    if (conn->state != CONN_WRITING) {
        return;
    }
    if (conn->keep_alive) {
        conn->state = CONN_READING;
        loop_timer_start(&conn->deadline, conn->server->client_timeout);
        conn_read(conn);
    } else if (conn->peer_done) {
        conn_close(conn);
    } else {
        shutdown(bufferevent_getfd(bev), SHUT_WR);
        conn->state = CONN_LINGERING;
        conn_linger(conn);
    }
}

static void event_cb(struct bufferevent *bev, short what, void *arg)
{
    struct conn *conn = arg;

    conn->peer_done = true;
    if (!(what & BEV_EVENT_EOF) || conn->state != CONN_WRITING) {
        conn_close(conn);
    }
}

static void deadline_cb(void *arg)
{
    struct conn *conn = arg;
    struct error err = ERROR_INIT;

    if (conn->state == CONN_STREAMING) {
        bufferevent_write(conn->bev, ":\n\n", 3);
        loop_timer_start(&conn->deadline, KEEP_ALIVE_TIME);
        return;
    }
    bool has_begun = conn->has_head ||
                     evbuffer_get_length(bufferevent_get_input(conn->bev)) > 0;

    if (conn->state != CONN_READING || !has_begun) {
        conn_close(conn);
        return;
    }
    error_set(&err, ERR_TIMEOUT,
              "the request is not complete after client-timeout (%.1f s)",
              (double)conn->server->client_timeout / MP_SECOND);
    conn_send_error(conn, 408, &err);
}

/* It does not read: what it misses it can ask for again, by number. */
static void conn_drop_follower(struct conn *conn)
{
    log_write(
        LOG_LEVEL_WARNING, "api",
        "uid %u pid %d follows the events but does not read them: dropped "
        "with %zu bytes waiting",
        (unsigned)conn->peer.uid, (int)conn->peer.pid,
        evbuffer_get_length(bufferevent_get_output(conn->bev)));
    evbuffer_add_printf(bufferevent_get_output(conn->bev),
                        "event: dropped\ndata: {\"class\":\"limit\","
                        "\"message\":\"more than %d bytes were waiting to be "
                        "read; come back with Last-Event-ID\"}\n\n",
                        API_BACKLOG_MAX);
    conn->server->followers--;
    conn->state = CONN_WRITING;
    loop_timer_start(&conn->deadline, conn->server->client_timeout);
}

void api_server_publish(struct api_server *server, const char *text)
{
    size_t size = strlen(text);

    LIST_EACH (node, &server->conns) {
        struct conn *conn = container_of(node, struct conn, node);
        if (conn->state != CONN_STREAMING) {
            continue;
        }
        if (evbuffer_get_length(bufferevent_get_output(conn->bev)) + size >
            API_BACKLOG_MAX) {
            conn_drop_follower(conn);
        } else {
            bufferevent_write(conn->bev, text, size);
            loop_timer_start(&conn->deadline, KEEP_ALIVE_TIME);
        }
    }
}

unsigned api_server_followers(const struct api_server *server)
{
    return server->followers;
}

static void add_conn(struct api_server *server, int fd)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    socklen_t size = sizeof(conn->peer);

    if (!conn || !(conn->bev = bufferevent_socket_new(
                       loop_base(server->loop), fd, BEV_OPT_CLOSE_ON_FREE))) {
        log_write(LOG_LEVEL_ERROR, "api",
                  "out of memory for a connection, closing it");
        close(fd);
        free(conn);
        return;
    }
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &conn->peer, &size);
    conn->server = server;
    list_append(&server->conns, &conn->node);
    server->count++;
    loop_timer_init(&conn->deadline, server->loop, deadline_cb, conn);
    loop_timer_start(&conn->deadline, server->client_timeout);
    bufferevent_priority_set(conn->bev, LOOP_NORMAL);
    bufferevent_setwatermark(conn->bev, EV_READ, 0,
                             API_HTTP_HEAD_MAX + server->body_max);
    bufferevent_setcb(conn->bev, read_cb, write_cb, event_cb, conn);
    bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
}

static void accept_retry_cb(void *arg)
{
    struct api_server *server = arg;
    event_add(server->accept_event, NULL);
}

static void pause_accepting(struct api_server *server)
{
    log_write(LOG_LEVEL_WARNING, "api",
              "accepting a connection failed, again in 1 s: %s",
              strerror(errno));
    event_del(server->accept_event);
    loop_timer_start(&server->accept_retry, ACCEPT_RETRY_TIME);
}

/* conn_close() goes on with it. */
static void stop_accepting(struct api_server *server)
{
    event_del(server->accept_event);
    if (!server->told_full) {
        log_write(LOG_LEVEL_WARNING, "api",
                  "%u connections, the limit: further ones wait",
                  server->max_connections);
        server->told_full = true;
    }
}

static bool is_passing_error(int errnum)
{
    return errnum == EAGAIN || errnum == EINTR || errnum == ECONNABORTED;
}

static void accept_cb(evutil_socket_t listen_fd, short what, void *arg)
{
    struct api_server *server = arg;

    for (int i = 0; i < ACCEPT_BUDGET; i++) {
        if (server->count >= server->max_connections) {
            stop_accepting(server);
            return;
        }
        int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (!is_passing_error(errno)) {
                pause_accepting(server);
            }
            return;
        }
        add_conn(server, fd);
    }
}

struct api_server *api_server_new(const struct api_server_params *params,
                                  api_server_cb cb, void *arg,
                                  struct error *err)
{
    struct api_server *server = calloc(1, sizeof(*server));

    if (!server) {
        error_set(err, ERR_NO_MEMORY, "out of memory for the API");
        return NULL;
    }
    server->loop = params->loop;
    server->body_max = params->body_max;
    server->client_timeout = params->client_timeout;
    server->max_connections = params->max_connections;
    server->cb = cb;
    server->arg = arg;
    server->listen_fd = -1;
    list_init(&server->conns);
    server->accept_event = event_new(loop_base(server->loop), params->listen_fd,
                                     EV_READ | EV_PERSIST, accept_cb, server);
    if (!server->accept_event || event_add(server->accept_event, NULL) < 0) {
        error_set(err, ERR_NO_MEMORY, "out of memory for the API's socket");
        api_server_free(server);
        return NULL;
    }
    loop_timer_init(&server->accept_retry, server->loop, accept_retry_cb,
                    server);
    server->listen_fd = params->listen_fd;
    return server;
}

void api_server_free(struct api_server *server)
{
    if (!server) {
        return;
    }
    LIST_EACH_SAFE (node, &server->conns) {
        conn_close(container_of(node, struct conn, node));
    }
    loop_timer_done(&server->accept_retry);
    if (server->accept_event) {
        event_free(server->accept_event);
    }
    if (server->listen_fd >= 0) {
        close(server->listen_fd);
    }
    free(server);
}
