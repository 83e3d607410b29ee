// SPDX-License-Identifier: BSD-3-Clause
/* TCP addresses and sockets. */
#include "util/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/parse.h"

int sock_parse_address(const char *text, unsigned default_port,
                       struct sock_address *ret_address, struct error *err)
{
    char host[PARSE_HOST_SIZE], service[8];
    unsigned port;
    struct addrinfo *found;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};

    if (parse_host_port(text, default_port, host, &port, err) < 0) {
        return -1;
    }
    if (!host[0]) {
        strcpy(host, "::");
    }
    if (strchr(host, ':')) {
        hints.ai_flags |= AI_NUMERICHOST; /* no name has a colon */
    }
    snprintf(service, sizeof(service), "%u", port);
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc) {
        return error_set(err, ERR_BAD_REQUEST, "address \"%.80s\": %s", text,
                         rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    }
    struct sock_address address = {.length = found->ai_addrlen};
    memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    sock_format_address(&address);
    *ret_address = address;
    return 0;
}

void sock_format_address(struct sock_address *address)
{
    const struct sockaddr_storage *storage = &address->storage;
    char host[INET6_ADDRSTRLEN] = "?";

    if (storage->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)storage;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(address->text, sizeof(address->text), "%s:%u", host,
                 ntohs(in->sin_port));
    } else if (storage->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)storage;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
        if (mapped) {
            inet_ntop(AF_INET, in6->sin6_addr.s6_addr + 12, host, sizeof(host));
        } else {
            inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        }
        snprintf(address->text, sizeof(address->text),
                 mapped ? "%s:%u" : "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        snprintf(address->text, sizeof(address->text), "%s",
                 storage->ss_family == AF_UNIX ? "unix" : "?");
    }
}

static int new_socket(const struct sock_address *address)
{
    return socket(address->storage.ss_family,
                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static bool is_any_v6(const struct sock_address *address)
{
    const struct sockaddr_in6 *in6 = (const void *)&address->storage;
    return address->storage.ss_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

/* The IPv4 form of "any address", same port. */
static struct sock_address any_v4_of(const struct sock_address *any_v6)
{
    const struct sockaddr_in6 *in6 = (const void *)&any_v6->storage;
    struct sock_address address = {.length = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (void *)&address.storage;

    in->sin_family = AF_INET;
    in->sin_port = in6->sin6_port;
    sock_format_address(&address);
    return address;
}

int sock_listen(const struct sock_address *address, int backlog,
                struct error *err)
{
    int one = 1, v6_only = !is_any_v6(address);
    CLEANUP_FD int fd = new_socket(address);

    if (fd < 0 && errno == EAFNOSUPPORT && is_any_v6(address)) {
        struct sock_address any_v4 = any_v4_of(address);
        return sock_listen(&any_v4, backlog, err);
    }
    if (fd < 0) {
        return error_set_errno(err, ERR_IO, errno, "listening on %s",
                               address->text);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (address->storage.ss_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
    }
    if (bind(fd, (const struct sockaddr *)&address->storage, address->length) <
            0 ||
        listen(fd, backlog) < 0) {
        return error_set_errno(err, ERR_IO, errno, "listening on %s",
                               address->text);
    }
    return steal_fd(&fd);
}

int sock_check_listen(const struct sock_address *address, struct error *err)
{
    int one = 1;
    CLEANUP_FD int fd = new_socket(address);

    if (fd < 0 && errno == EAFNOSUPPORT && is_any_v6(address)) {
        return 0; /* sock_listen() takes IPv4 then */
    }
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if (fd < 0 || (bind(fd, (const struct sockaddr *)&address->storage,
                        address->length) < 0 &&
                   errno != EADDRINUSE)) {
        return error_set_errno(err, ERR_IO, errno, "listening on %s",
                               address->text);
    }
    return 0;
}

static const struct sockaddr_in *get_v4(const struct sock_address *address)
{
    return (const void *)&address->storage;
}

static const struct sockaddr_in6 *get_v6(const struct sock_address *address)
{
    return (const void *)&address->storage;
}

/* 0: neither IPv4 nor IPv6. */
static unsigned port_of(const struct sock_address *address)
{
    switch (address->storage.ss_family) {
    case AF_INET:
        return ntohs(get_v4(address)->sin_port);
    case AF_INET6:
        return ntohs(get_v6(address)->sin6_port);
    default:
        return 0;
    }
}

bool sock_is_same_listen(const struct sock_address *a,
                         const struct sock_address *b)
{
    if (port_of(a) != port_of(b)) {
        return false;
    }
    if (is_any_v6(a) || is_any_v6(b)) {
        return true;
    }
    if (a->storage.ss_family != b->storage.ss_family) {
        return false;
    }
    if (a->storage.ss_family == AF_INET) {
        in_addr_t of_a = get_v4(a)->sin_addr.s_addr,
                  of_b = get_v4(b)->sin_addr.s_addr;
        return of_a == of_b || of_a == INADDR_ANY || of_b == INADDR_ANY;
    }
    return a->storage.ss_family == AF_INET6 &&
           IN6_ARE_ADDR_EQUAL(&get_v6(a)->sin6_addr, &get_v6(b)->sin6_addr) &&
           get_v6(a)->sin6_scope_id == get_v6(b)->sin6_scope_id;
}

int sock_get_local(int fd, struct sock_address *ret_address, struct error *err)
{
    struct sock_address address = {.length = sizeof(address.storage)};

    if (getsockname(fd, (struct sockaddr *)&address.storage, &address.length) <
        0) {
        return error_set_errno(err, ERR_IO, errno, "address of a socket");
    }
    sock_format_address(&address);
    *ret_address = address;
    return 0;
}

int sock_connect_start(const struct sock_address *address, struct error *err)
{
    CLEANUP_FD int fd = new_socket(address);

    if (fd < 0 || (connect(fd, (const struct sockaddr *)&address->storage,
                           address->length) < 0 &&
                   errno != EINPROGRESS)) {
        return error_set_errno(err, ERR_PEER_UNREACHABLE, errno,
                               "connecting to %s", address->text);
    }
    return steal_fd(&fd);
}

int sock_connect_result(int fd, const struct sock_address *address,
                        struct error *err)
{
    int result = 0;
    socklen_t length = sizeof(result);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &length) < 0) {
        result = errno;
    }
    if (result) {
        return error_set_errno(err, ERR_PEER_UNREACHABLE, result,
                               "connecting to %s", address->text);
    }
    return 0;
}

/* What accept() reports of the listening side; all else is the fate of the
 * connection that waited, and the next one may be well. */
static bool is_listener_error(int errnum)
{
    return errnum == EBADF || errnum == EINVAL || errnum == ENOTSOCK ||
           errnum == EMFILE || errnum == ENFILE || errnum == ENOBUFS ||
           errnum == ENOMEM;
}

int sock_accept(int listen_fd, struct sock_address *ret_peer, struct error *err)
{
    struct sock_address peer = {.length = sizeof(peer.storage)};
    int fd = accept4(listen_fd, (struct sockaddr *)&peer.storage, &peer.length,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        if (is_listener_error(errno)) {
            bool misuse =
                errno == EBADF || errno == EINVAL || errno == ENOTSOCK;
            error_set_errno(err, misuse ? ERR_INTERNAL : ERR_LIMIT, errno,
                            "accepting a connection");
        }
        return -1;
    }
    sock_format_address(&peer);
    *ret_peer = peer;
    return fd;
}

static void set_int(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value));
}

void sock_set_nodelay(int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

void sock_set_priority(int fd, int priority)
{
    set_int(fd, SOL_SOCKET, SO_PRIORITY, priority);
}

void sock_set_send_buffer(int fd, int size_bytes)
{
    set_int(fd, SOL_SOCKET, SO_SNDBUF, size_bytes);
}

void sock_set_notsent_lowat(int fd, int size_bytes)
{
    set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, size_bytes);
}

void sock_set_keepalive(int fd, int idle_seconds, int interval_seconds,
                        int count)
{
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_seconds);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
}

void sock_set_user_timeout(int fd, unsigned timeout_ms)
{
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
               sizeof(timeout_ms));
}

bool sock_set_congestion(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name,
                      (socklen_t)strlen(name)) == 0;
}

/* The first line of a file of the kernel's, "?" if it cannot be read. */
static void read_line(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "re");

    if (!file || !fgets(buf, (int)size, file)) {
        snprintf(buf, size, "?");
    }
    buf[strcspn(buf, "\n")] = '\0';
    if (file) {
        fclose(file);
    }
}

int sock_check_congestion(const char *name, struct error *err)
{
    char names[256];
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && sock_set_congestion(fd, name)) {
        return 0;
    }
    int errnum = errno;
    if (fd >= 0 && errnum == EPERM) {
        read_line("/proc/sys/net/ipv4/tcp_allowed_congestion_control", names,
                  sizeof(names));
        return error_set(err, ERR_UNSUPPORTED,
                         "\"%s\" is not allowed to this user "
                         "(net.ipv4.tcp_allowed_congestion_control: %s)",
                         name, names);
    }
    if (fd >= 0 && errnum == ENOENT) {
        read_line("/proc/sys/net/ipv4/tcp_available_congestion_control", names,
                  sizeof(names));
        return error_set(err, ERR_UNSUPPORTED,
                         "\"%s\" is not known to this kernel, and no module "
                         "tcp_%s was loaded for it "
                         "(net.ipv4.tcp_available_congestion_control: %s)",
                         name, name, names);
    }
    return error_set_errno(err, ERR_IO, errnum,
                           "setting congestion control "
                           "\"%s\"",
                           name);
}

void sock_get_congestion(int fd, char *buf, size_t size)
{
    socklen_t length = size ? (socklen_t)(size - 1) : 0;

    if (size == 0) {
        return;
    }
    memset(buf, 0, size);
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, buf, &length) < 0) {
        buf[0] = '\0';
    }
}
