// SPDX-License-Identifier: BSD-3-Clause
/* TCP addresses and sockets; all descriptors are non-blocking and
 * close-on-exec. */
#ifndef UTIL_SOCK_H
#define UTIL_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "util/error.h"

struct sock_address {
    struct sockaddr_storage storage;
    socklen_t length;
    char text[80]; /* "192.0.2.1:16515" or "[::1]:16515" */
};

/* Parses what parse_host_port() takes ("HOST", "HOST:PORT", "[V6]:PORT", ...);
 * HOST may be a name, which is looked up now and may block for as long as
 * the resolver does (start-up and reload only). "*" and an empty host mean any
 * address (v6 and v4). default_port is used where none is given. */
int sock_parse_address(const char *text, unsigned default_port,
                       struct sock_address *ret_address, struct error *err);

/* Fills text from storage. An IPv4 address inside IPv6 is shown as IPv4; what
 * is not TCP as "unix" or "?". */
void sock_format_address(struct sock_address *address);

/* A listening TCP socket. "Any address" listens for v6 and v4, and for v4
 * alone on a host without IPv6. */
int sock_listen(const struct sock_address *address, int backlog,
                struct error *err);

/* Whether sock_listen() could: binds a socket and closes it. An address that is
 * in use passes, since its user may be the one to make way. */
int sock_check_listen(const struct sock_address *address, struct error *err);

/* Whether a host cannot listen on both: the same port, and the same address or
 * one that is any address of its kind ("any address" of IPv6 takes IPv4 too,
 * see sock_listen()). */
bool sock_is_same_listen(const struct sock_address *a,
                         const struct sock_address *b);

/* The address fd is bound to (for the port, after binding port 0). */
int sock_get_local(int fd, struct sock_address *ret_address, struct error *err);

/* Starts a TCP connect; the descriptor becomes writable when it is done (see
 * sock_connect_result()). */
int sock_connect_start(const struct sock_address *address, struct error *err);

/* The outcome of a connect that was started: 0, or -1 with
 * ERR_PEER_UNREACHABLE naming the address. */
int sock_connect_result(int fd, const struct sock_address *address,
                        struct error *err);

/* Accepts one connection. Returns -1 with err untouched if none waits (or the
 * one that waited is gone); ERR_LIMIT when out of descriptors or memory: stop
 * accepting for a while then, or the loop will spin. */
int sock_accept(int listen_fd, struct sock_address *ret_peer,
                struct error *err);

/* Options that are wishes, not needs: a failure is ignored. */
void sock_set_nodelay(int fd);
void sock_set_priority(int fd, int priority);        /* SO_PRIORITY */
void sock_set_send_buffer(int fd, int size_bytes);   /* SO_SNDBUF */
void sock_set_notsent_lowat(int fd, int size_bytes); /* TCP_NOTSENT_LOWAT */
void sock_set_keepalive(int fd, int idle_seconds, int interval_seconds,
                        int count);
/* TCP_USER_TIMEOUT: unacknowledged data older than this breaks the socket. */
void sock_set_user_timeout(int fd, unsigned timeout_ms);
/* TCP_CONGESTION; false if the kernel has no algorithm of that name. */
bool sock_set_congestion(int fd, const char *name);

/* Whether sock_set_congestion() will work, found out by doing it once. The
 * kernel loads a module for that if the process has CAP_NET_ADMIN, as root has;
 * others get what is loaded and in net.ipv4.tcp_allowed_congestion_control.
 * ERR_UNSUPPORTED names what there is. */
int sock_check_congestion(const char *name, struct error *err);

/* "" where it cannot be told. */
void sock_get_congestion(int fd, char *buf, size_t size);

#endif
