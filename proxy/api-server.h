// SPDX-License-Identifier: BSD-3-Clause
/* The connections of the API: bytes of clients in, one request at a time to
 * its user, the answer out.
 *
 * Limits. A request and the taking of an answer have the client timeout, as
 * a whole (not from byte to byte). Input held for a connection is at most a
 * head and a body; the next request of a connection is looked at when the
 * answer before it has gone. At max_connections no more are accepted until one
 * ends; the others wait in the kernel's backlog.
 *
 * A stream of events has no deadline: a comment is sent when it was silent for
 * 15 s, so that whoever follows can tell silence from a dead daemon. What its
 * client sends is dropped. */
#ifndef PROXY_API_SERVER_H
#define PROXY_API_SERVER_H

#include "proxy/api-http.h"
#include "proxy/api-reply.h"
#include "util/clock.h"
#include "util/loop.h"

struct api_server;

/* Followers: connections whose answer was a stream (reply->is_stream). */
#define API_FOLLOWERS_MAX 64
/* What may wait for a follower to read it; beyond, it is dropped. */
#define API_BACKLOG_MAX (4 * 1024 * 1024)

/* Answers one request; must set *reply (zeroed before). body has
 * head->body_bytes bytes and is not terminated. */
typedef void (*api_server_cb)(void *arg, const struct api_http_head *head,
                              const char *body, struct api_reply *reply);

struct api_server_params {
    struct loop *loop;
    int listen_fd; /* taken on success */
    size_t body_max;
    mp_time client_timeout;
    unsigned max_connections;
};

/* NULL and *err on failure. */
struct api_server *api_server_new(const struct api_server_params *params,
                                  api_server_cb cb, void *arg,
                                  struct error *err);

/* Sends text (one event) to each follower. One that has API_BACKLOG_MAX bytes
 * still to read gets an event "dropped" with the reason instead, after what
 * waits already, and its connection is closed. */
void api_server_publish(struct api_server *server, const char *text);

unsigned api_server_followers(const struct api_server *server);

/* Closes everything. Not from within the callback. NULL is fine. */
void api_server_free(struct api_server *server);

#endif
