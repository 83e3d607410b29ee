// SPDX-License-Identifier: BSD-3-Clause
/* TCP addresses and sockets, over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/sock.h"

/* Loopback answers at once; what takes longer is lost. */
#define POLL_MS 10000

static struct sock_address must_parse(const char *text, unsigned port)
{
    struct sock_address address;
    struct error err = ERROR_INIT;
    if (sock_parse_address(text, port, &address, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return address;
}

/* A listener on a free port of 127.0.0.1 and that address. */
static int listen_loopback(struct sock_address *ret_address)
{
    struct error err = ERROR_INIT;
    struct sock_address address = must_parse("127.0.0.1", 0);
    int fd = sock_listen(&address, 8, &err);
    if (fd < 0 || sock_get_local(fd, ret_address, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return fd;
}

static void wait_for(int fd, short events)
{
    struct pollfd pollfd = {.fd = fd, .events = events};
    assert_int_equal(poll(&pollfd, 1, POLL_MS), 1);
}

static void addresses_are_parsed_and_shown(void **state)
{
    static const char *const rows[][2] = {
        {"192.0.2.1", "192.0.2.1:16515"},
        {"192.0.2.1:7", "192.0.2.1:7"},
        {"[::1]:7", "[::1]:7"},
        {"2001:DB8:0::1", "[2001:db8::1]:16515"},
        {"*", "[::]:16515"},
        {"*:7", "[::]:7"},
        {":7", "[::]:7"},
        {"[::ffff:192.0.2.1]:7", "192.0.2.1:7"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sock_address address = must_parse(rows[i][0], 16515);
        assert_string_equal(address.text, rows[i][1]);
    }
}

static void what_is_no_address_is_refused(void **state)
{
    static const char *const words[] = {"192.0.2.1:99999", "a b", "[::1",
                                        "1:2:3"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct sock_address address = {.text = "as it was"};
        struct error err = ERROR_INIT;
        assert_int_equal(sock_parse_address(words[i], 1, &address, &err), -1);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
        assert_non_null(strstr(err.text, words[i]));
        assert_string_equal(address.text, "as it was");
    }
}

static void other_families_are_shown(void **state)
{
    struct sock_address address = {.storage.ss_family = AF_UNIX};
    sock_format_address(&address);
    assert_string_equal(address.text, "unix");
    address.storage.ss_family = AF_UNSPEC;
    sock_format_address(&address);
    assert_string_equal(address.text, "?");
}

static void a_connection_is_made_and_accepted(void **state)
{
    struct sock_address address, peer, local;
    struct error err = ERROR_INIT;
    int listener = listen_loopback(&address);

    assert_int_equal(sock_accept(listener, &peer, &err), -1);
    assert_false(error_is_set(&err)); /* none waits */

    int fd = sock_connect_start(&address, &err);
    assert_true(fd >= 0);
    wait_for(fd, POLLOUT);
    assert_int_equal(sock_connect_result(fd, &address, &err), 0);
    wait_for(listener, POLLIN);
    int other = sock_accept(listener, &peer, &err);
    assert_true(other >= 0);
    assert_int_equal(sock_get_local(fd, &local, &err), 0);
    assert_string_equal(peer.text, local.text);

    int fds[] = {listener, fd, other};
    for (int i = 0; i < 3; i++) {
        assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
}

static void a_refused_connection_names_the_address(void **state)
{
    struct sock_address address;
    struct error err = ERROR_INIT;

    close(listen_loopback(&address)); /* nobody listens there now */
    int fd = sock_connect_start(&address, &err);
    if (fd >= 0) { /* the kernel may also refuse at once */
        wait_for(fd, POLLOUT);
        assert_int_equal(sock_connect_result(fd, &address, &err), -1);
        close(fd);
    }
    assert_int_equal(err.code, ERR_PEER_UNREACHABLE);
    assert_non_null(strstr(err.text, address.text));
    assert_non_null(strstr(err.text, "Connection refused"));
}

static void an_address_in_use_is_named(void **state)
{
    struct sock_address address;
    struct error err = ERROR_INIT;
    int listener = listen_loopback(&address);

    assert_int_equal(sock_listen(&address, 8, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.text, address.text));
    assert_non_null(strstr(err.text, "in use"));
    close(listener);
}

static void any_address_takes_ipv4_too(void **state)
{
    struct sock_address any = must_parse("*", 0), local, peer;
    struct error err = ERROR_INIT;
    int listener = sock_listen(&any, 8, &err);

    assert_true(listener >= 0);
    assert_int_equal(sock_get_local(listener, &local, &err), 0);
    const char *colon = strrchr(local.text, ':');
    char text[32] = "127.0.0.1";
    strcat(text, colon);
    struct sock_address address = must_parse(text, 0);
    int fd = sock_connect_start(&address, &err);
    wait_for(listener, POLLIN);
    int other = sock_accept(listener, &peer, &err);
    assert_true(other >= 0);
    assert_memory_equal(peer.text, "127.0.0.1:", 10); /* not ::ffff: */
    close(other);
    close(fd);
    close(listener);
}

static void accepting_on_what_does_not_listen_is_an_error(void **state)
{
    struct sock_address peer;
    struct error err = ERROR_INIT;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(sock_accept(fd, &peer, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    close(fd);
}

static int get_int(int fd, int level, int option)
{
    int value = -1;
    socklen_t length = sizeof(value);
    assert_int_equal(getsockopt(fd, level, option, &value, &length), 0);
    return value;
}

static void options_reach_the_socket(void **state)
{
    char name[16];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sock_set_nodelay(fd);
    assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    sock_set_priority(fd, 5);
    assert_int_equal(get_int(fd, SOL_SOCKET, SO_PRIORITY), 5);
    sock_set_send_buffer(fd, 64 * 1024);
    /* the kernel doubles it for its own needs: socket(7) */
    assert_int_equal(get_int(fd, SOL_SOCKET, SO_SNDBUF), 2 * 64 * 1024);
    sock_set_notsent_lowat(fd, 32768);
    assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 32768);
    sock_set_keepalive(fd, 11, 3, 4);
    assert_int_equal(get_int(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), 11);
    assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_KEEPINTVL), 3);
    assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_KEEPCNT), 4);
    sock_set_user_timeout(fd, 7000);
    assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 7000);
    assert_true(sock_set_congestion(fd, "reno")); /* always built in */
    sock_get_congestion(fd, name, sizeof(name));
    assert_string_equal(name, "reno");
    assert_false(sock_set_congestion(fd, "no-such-one"));
    close(fd);
}

static void what_listening_needs_can_be_asked(void **state)
{
    struct sock_address address, taken;
    struct error err = ERROR_INIT;

    assert_int_equal(sock_check_congestion("reno", &err), 0);
    assert_int_equal(sock_check_congestion("no-such-one", &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "reno")); /* what there is */
    assert_int_equal(sock_parse_address("127.0.0.1:0", 1, &address, &err), 0);
    int fd = sock_listen(&address, 1, &err);
    assert_true(fd >= 0);
    assert_int_equal(sock_get_local(fd, &taken, &err), 0);
    assert_int_equal(sock_check_listen(&taken, &err), 0); /* in use */
    assert_int_equal(sock_parse_address("192.0.2.77:5", 1, &address, &err), 0);
    assert_int_equal(sock_check_listen(&address, &err), -1);
    assert_non_null(strstr(err.text, "listening on 192.0.2.77:5: "));
    close(fd);
}

static void options_of_a_unix_socket_are_ignored(void **state)
{
    char name[16] = "x";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sock_set_nodelay(fd);
    sock_set_user_timeout(fd, 7000);
    assert_false(sock_set_congestion(fd, "reno"));
    sock_get_congestion(fd, name, sizeof(name));
    assert_string_equal(name, "");
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_parsed_and_shown),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(other_families_are_shown),
        cmocka_unit_test(a_connection_is_made_and_accepted),
        cmocka_unit_test(a_refused_connection_names_the_address),
        cmocka_unit_test(an_address_in_use_is_named),
        cmocka_unit_test(any_address_takes_ipv4_too),
        cmocka_unit_test(accepting_on_what_does_not_listen_is_an_error),
        cmocka_unit_test(options_reach_the_socket),
        cmocka_unit_test(what_listening_needs_can_be_asked),
        cmocka_unit_test(options_of_a_unix_socket_are_ignored),
    };
    return cmocka_run_group_tests_name("sock", tests, NULL, NULL);
}
