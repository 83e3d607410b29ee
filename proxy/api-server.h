// SPDX-License-Identifier: BSD-3-Clause
/* The connections of the API: bytes of clients in, one request at a time to
 * its user, the answer out.
 *
 * Limits. A request and the taking of an answer have the client timeout, as
 * a whole (not from byte to byte). Input held for a connection is at most a
 * head and a body; the next request of a connection is looked at when the
 * answer before it has gone. At max_connections no more are accepted until one
 * ends; the others wait in the kernel's backlog. */
#ifndef PROXY_API_SERVER_H
#define PROXY_API_SERVER_H

#include "proxy/api-http.h"
#include "proxy/api-reply.h"
#include "util/clock.h"
#include "util/loop.h"

struct api_server;

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

/* Closes everything. Not from within the callback. NULL is fine. */
void api_server_free(struct api_server *server);

#endif
