// SPDX-License-Identifier: BSD-3-Clause
/* A TCP relay on the test's loop. */
#include "tests/lib/relay.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/list.h"
#include "util/sock.h"

/* One connection: ends[0] was accepted, ends[1] dialled. */
struct pipe {
    struct list node;
    struct relay *relay;
    unsigned number;
    struct bufferevent *ends[2];
};

struct relay {
    struct loop *loop;
    struct sock_address target;
    int listen_fd;
    struct event *accept;
    struct list pipes;
    unsigned count;
    bool refuses, holds;
};

static void die(const char *what)
{
    fprintf(stderr, "relay: %s\n", what);
    abort();
}

static void pipe_free(struct pipe *pipe, bool with_reset)
{
    const struct linger reset = {.l_onoff = with_reset, .l_linger = 0};

    list_remove(&pipe->node);
    for (int i = 0; i < 2; i++) {
        setsockopt(bufferevent_getfd(pipe->ends[i]), SOL_SOCKET, SO_LINGER,
                   &reset, sizeof(reset));
        bufferevent_free(pipe->ends[i]);
    }
    free(pipe);
}

static void read_cb(struct bufferevent *bev, void *arg)
{
    struct pipe *pipe = arg;
    struct bufferevent *to =
        bev == pipe->ends[0] ? pipe->ends[1] : pipe->ends[0];

    bufferevent_write_buffer(to, bufferevent_get_input(bev));
}

/* One end has ended: the other gets what was said before, then its end. */
static void event_cb(struct bufferevent *bev, short what, void *arg)
{
    struct pipe *pipe = arg;
    struct bufferevent *to =
        bev == pipe->ends[0] ? pipe->ends[1] : pipe->ends[0];
    struct evbuffer *out = bufferevent_get_output(to);

    if (what & BEV_EVENT_CONNECTED) {
        return;
    }
    bufferevent_write_buffer(to, bufferevent_get_input(bev));
    evbuffer_unfreeze(out, 1);
    while (evbuffer_get_length(out) > 0 &&
           evbuffer_write(out, bufferevent_getfd(to)) > 0) {
    }
    pipe_free(pipe, false);
}

static void set_flow(struct pipe *pipe)
{
    for (int i = 0; i < 2; i++) {
        if (pipe->relay->holds) {
            bufferevent_disable(pipe->ends[i], EV_READ | EV_WRITE);
        } else {
            bufferevent_enable(pipe->ends[i], EV_READ | EV_WRITE);
        }
    }
}

static void take(struct relay *relay, int fd)
{
    struct error err = ERROR_INIT;
    int there = sock_connect_start(&relay->target, &err);
    struct pipe *pipe = calloc(1, sizeof(*pipe));
    struct event_base *base = loop_base(relay->loop);

    if (there < 0 || !pipe) {
        die(err.text);
    }
    pipe->relay = relay;
    pipe->number = relay->count++;
    list_init(&pipe->node);
    list_append(&relay->pipes, &pipe->node);
    pipe->ends[0] = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    pipe->ends[1] = bufferevent_socket_new(base, there, BEV_OPT_CLOSE_ON_FREE);
    for (int i = 0; i < 2; i++) {
        if (!pipe->ends[i]) {
            die("out of memory");
        }
        sock_set_nodelay(i ? there : fd);
        bufferevent_setcb(pipe->ends[i], read_cb, NULL, event_cb, pipe);
    }
    set_flow(pipe);
}

static void accept_cb(evutil_socket_t listen_fd, short what, void *arg)
{
    struct relay *relay = arg;
    struct sock_address from;
    struct error err = ERROR_INIT;
    int fd = sock_accept(listen_fd, &from, &err);

    if (fd < 0) {
        return;
    }
    if (relay->refuses) {
        close(fd);
        return;
    }
    take(relay, fd);
}

struct relay *relay_new(struct loop *loop, const char *listen_text,
                        const char *target_text)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    struct sock_address address;
    struct error err = ERROR_INIT;

    if (!relay || sock_parse_address(listen_text, 1, &address, &err) ||
        sock_parse_address(target_text, 1, &relay->target, &err)) {
        die(err.text);
    }
    relay->loop = loop;
    list_init(&relay->pipes);
    relay->listen_fd = sock_listen(&address, 64, &err);
    if (relay->listen_fd < 0) {
        die(err.text);
    }
    relay->accept = event_new(loop_base(loop), relay->listen_fd,
                              EV_READ | EV_PERSIST, accept_cb, relay);
    if (!relay->accept) {
        die("out of memory");
    }
    event_add(relay->accept, NULL);
    return relay;
}

void relay_free(struct relay *relay)
{
    if (!relay) {
        return;
    }
    relay_cut_all(relay);
    event_free(relay->accept);
    close(relay->listen_fd);
    free(relay);
}

unsigned relay_count(const struct relay *relay)
{
    return relay->count;
}

unsigned relay_open(const struct relay *relay)
{
    unsigned count = 0;

    LIST_EACH (node, &relay->pipes) {
        count++;
    }
    return count;
}

void relay_cut(struct relay *relay, unsigned number)
{
    LIST_EACH_SAFE (node, &relay->pipes) {
        struct pipe *pipe = container_of(node, struct pipe, node);
        if (pipe->number == number) {
            pipe_free(pipe, true);
        }
    }
}

void relay_cut_all(struct relay *relay)
{
    LIST_EACH_SAFE (node, &relay->pipes) {
        pipe_free(container_of(node, struct pipe, node), true);
    }
}

void relay_refuse(struct relay *relay, bool refuse)
{
    relay->refuses = refuse;
}

void relay_hold(struct relay *relay, bool hold)
{
    relay->holds = hold;
    LIST_EACH (node, &relay->pipes) {
        set_flow(container_of(node, struct pipe, node));
    }
}
