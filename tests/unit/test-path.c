// SPDX-License-Identifier: BSD-3-Clause
/* Socket paths: form, allowed directories, links, owners, modes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/path.h"

/* A directory of its own, with "in" (allowed) and "out" in it. */
struct fixture {
    char top[64];
    char in[80];
    char out[80];
    char path[100]; /* in/s */
    char *dirs[1];
    struct error err;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char real[64] = "/tmp/test-path-XXXXXX";

    assert_non_null(mkdtemp(real));
    strcpy(f->top, real);
    snprintf(f->in, sizeof(f->in), "%s/in", f->top);
    snprintf(f->out, sizeof(f->out), "%s/out", f->top);
    snprintf(f->path, sizeof(f->path), "%s/s", f->in);
    assert_int_equal(mkdir(f->in, 0700), 0);
    assert_int_equal(mkdir(f->out, 0700), 0);
    f->dirs[0] = f->in;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[100];

    snprintf(command, sizeof(command), "rm -rf %s", f->top);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static int connect_path(struct fixture *f, const char *path)
{
    memset(&f->err, 0, sizeof(f->err));
    return path_connect_socket(path, f->dirs, 1, &f->err);
}

static void assert_refused(struct fixture *f, const char *path,
                           const char *words)
{
    assert_int_equal(connect_path(f, path), -1);
    assert_int_not_equal(errno, EAGAIN);
    assert_int_equal(f->err.code, ERR_PATH_REFUSED);
    if (!strstr(f->err.text, words)) {
        fail_msg("\"%s\" does not say \"%s\"", f->err.text, words);
    }
}

static int listen_path(struct fixture *f, const char *path)
{
    int fd = path_listen_socket(path, 0600, (gid_t)-1, 8, &f->err);
    if (fd < 0) {
        fail_msg("%s", f->err.text);
    }
    return fd;
}

/* --- form --------------------------------------------------------------- */

static void well_formed_paths_pass(void **state)
{
    char path[PATH_SOCKET_MAX + 2];
    struct error err = ERROR_INIT;

    assert_int_equal(path_check_socket("/a", &err), 0);
    assert_int_equal(path_check_socket("/a/..b/c.", &err), 0);
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[PATH_SOCKET_MAX] = '\0';
    assert_int_equal(path_check_socket(path, &err), 0);
    path[PATH_SOCKET_MAX] = 'x';
    path[PATH_SOCKET_MAX + 1] = '\0';
    assert_int_equal(path_check_socket(path, &err), -1);
    assert_int_equal(err.code, ERR_PATH_REFUSED);
    assert_non_null(strstr(err.text, "has 108 bytes, 1 to 107"));
}

static void malformed_paths_are_refused(void **state)
{
    static const char *const paths[] = {
        "",     "a",    "./a",   "/",     "//a",  "/a//b", "/a/",
        "/./a", "/a/.", "/../a", "/a/..", "/a\n", "/\x7f", "/a/../b"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(path_check_socket(paths[i], &err), -1);
        assert_int_equal(err.code, ERR_PATH_REFUSED);
        assert_null(strchr(err.text, '\n'));
    }
}

static void a_guest_name_fills_the_template(void **state)
{
    char *path = NULL;
    struct error err = ERROR_INIT;

    assert_int_equal(path_expand_vm("/r/{vm}.qmp", "web-1", &path, &err), 0);
    assert_string_equal(path, "/r/web-1.qmp");
    free(path);
    assert_int_equal(path_expand_vm("/r/{vm}-{vm}", "a+b@c", &path, &err), 0);
    assert_string_equal(path, "/r/a+b@c-a+b@c");
    free(path);
    assert_int_equal(path_expand_vm("/r/{v}", "x", &path, &err), 0);
    assert_string_equal(path, "/r/{v}");
    free(path);
}

static void hostile_guest_names_are_refused(void **state)
{
    static const char *const names[] = {
        "",
        ".",
        "..",
        ".x",
        "a/b",
        "../x",
        "a b",
        "a\n",
        "a{vm}",
        "\xc3\xa4",
        "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff12345"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *path = NULL;
        struct error err = ERROR_INIT;
        assert_int_equal(path_expand_vm("/r/{vm}", names[i], &path, &err), -1);
        assert_int_equal(err.code, ERR_PATH_REFUSED);
        assert_null(path);
    }
}

static void an_expansion_that_is_too_long_is_refused(void **state)
{
    char template[200], *path = NULL;
    struct error err = ERROR_INIT;

    memset(template, 'x', sizeof(template));
    template[0] = '/';
    strcpy(template + PATH_SOCKET_MAX - 3, "{vm}");
    assert_int_equal(path_expand_vm(template, "abc", &path, &err), 0);
    assert_int_equal(strlen(path), PATH_SOCKET_MAX);
    free(path);
    path = NULL;
    assert_int_equal(path_expand_vm(template, "abcd", &path, &err), -1);
    assert_int_equal(err.code, ERR_PATH_REFUSED);
    assert_non_null(strstr(err.text, "107"));
    assert_null(path);
    assert_int_equal(path_expand_vm("relative/{vm}", "a", &path, &err), -1);
}

/* --- connecting --------------------------------------------------------- */

static void a_socket_in_its_directory_is_reached(void **state)
{
    struct fixture *f = *state;
    int listener = listen_path(f, f->path);
    int fd = connect_path(f, f->path);
    char c;

    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    int other = accept(listener, NULL, NULL);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(other, &c, 1), 1);
    assert_int_equal(c, 'x');
    close(other);
    close(fd);

    /* slashes behind the allowed directory do not matter */
    strcat(f->in, "//");
    fd = connect_path(f, f->path);
    assert_true(fd >= 0);
    close(fd);
    close(listener);
}

static void sockets_elsewhere_are_refused(void **state)
{
    struct fixture *f = *state;
    char path[120];

    snprintf(path, sizeof(path), "%s/s", f->out);
    close(listen_path(f, path));
    assert_refused(f, path, "does not lie directly in one of the allowed");
    assert_refused(f, path, f->in); /* names what is allowed */

    snprintf(path, sizeof(path), "%s/sub", f->in);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/s");
    close(listen_path(f, path));
    assert_refused(f, path, "does not lie directly");

    snprintf(path, sizeof(path), "%s/../out/s", f->in);
    assert_refused(f, path, "\"..\" component");
    assert_refused(f, "relative", "not absolute");

    assert_int_equal(path_connect_socket(f->path, NULL, 0, &f->err), -1);
    assert_non_null(strstr(f->err.text, "there are none"));
}

static void a_link_to_a_socket_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[120];

    snprintf(path, sizeof(path), "%s/s", f->out);
    int listener = listen_path(f, path);
    assert_int_equal(symlink(path, f->path), 0);
    assert_refused(f, f->path, "is a symbolic link");
    close(listener);
}

static void a_directory_behind_a_link_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[120];

    snprintf(path, sizeof(path), "%s/s", f->out);
    int listener = listen_path(f, path);
    /* the allowed directory itself is swapped for a link */
    assert_int_equal(rmdir(f->in), 0);
    assert_int_equal(symlink(f->out, f->in), 0);
    assert_refused(f, f->path, "is a symbolic link");
    assert_refused(f, f->path, f->in);

    /* and so is what lies above it */
    snprintf(path, sizeof(path), "%s/link", f->top);
    assert_int_equal(symlink(f->top, path), 0);
    char deep[100], *dirs[1] = {deep};
    snprintf(deep, sizeof(deep), "%s/link/out", f->top);
    snprintf(path, sizeof(path), "%s/s", deep);
    assert_int_equal(path_connect_socket(path, dirs, 1, &f->err), -1);
    assert_int_equal(f->err.code, ERR_PATH_REFUSED);
    assert_non_null(strstr(f->err.text, "/link\" is a symbolic link"));
    close(listener);
}

static void what_is_no_socket_is_refused(void **state)
{
    struct fixture *f = *state;

    close(open(f->path, O_CREAT | O_WRONLY, 0600));
    assert_refused(f, f->path, "is not a socket");
    unlink(f->path);
    assert_int_equal(mkfifo(f->path, 0600), 0); /* must not block */
    assert_refused(f, f->path, "is not a socket");
    unlink(f->path);
    assert_int_equal(mkdir(f->path, 0700), 0);
    assert_refused(f, f->path, "is not a socket");
}

static void a_missing_or_dead_socket_is_unreachable(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(connect_path(f, f->path), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(f->err.code, ERR_QMP_UNREACHABLE);
    assert_non_null(strstr(f->err.text, "No such file"));

    close(listen_path(f, f->path));
    assert_int_equal(connect_path(f, f->path), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(f->err.code, ERR_QMP_UNREACHABLE);

    unlink(f->path);
    assert_int_equal(rmdir(f->in), 0);
    assert_int_equal(connect_path(f, f->path), -1);
    assert_int_equal(f->err.code, ERR_QMP_UNREACHABLE);
    assert_non_null(strstr(f->err.text, "directory"));
}

static void a_full_backlog_is_eagain(void **state)
{
    struct fixture *f = *state;
    int listener = path_listen_socket(f->path, 0600, (gid_t)-1, 0, &f->err);
    int fds[8], count = 0;

    do {
        fds[count] = connect_path(f, f->path);
    } while (fds[count] >= 0 && ++count < 8);
    assert_in_range(count, 1, 7);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(f->err.code, ERR_QMP_UNREACHABLE);
    while (count > 0) {
        close(fds[--count]);
    }
    close(listener);
}

static void the_owner_must_be_the_right_one(void **state)
{
    struct fixture *f = *state;
    int listener = listen_path(f, f->path);
    uid_t self = geteuid();

    assert_int_equal(
        path_connect_socket_of(f->path, f->dirs, 1, self + 1, &f->err), -1);
    assert_int_equal(f->err.code, ERR_PATH_REFUSED);
    assert_non_null(strstr(f->err.text, "belongs to user"));
    int fd = path_connect_socket_of(f->path, f->dirs, 1, self, &f->err);
    assert_true(fd >= 0);
    close(fd);
    if (self == 0) {
        /* only root can give a file away */
        assert_int_equal(chown(f->path, 12345, (gid_t)-1), 0);
        assert_refused(f, f->path, "belongs to user 12345, not to root or");
        fd = path_connect_socket_of(f->path, f->dirs, 1, 12345, &f->err);
        assert_true(fd >= 0);
        close(fd);
    }
    close(listener);
}

static void a_socket_for_everyone_is_refused_unless_out_of_reach(void **state)
{
    struct fixture *f = *state;
    int listener = listen_path(f, f->path);

    assert_int_equal(chmod(f->path, 0666), 0);
    int fd = connect_path(f, f->path); /* the directory is 0700 */
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(chmod(f->in, 0755), 0);
    assert_refused(f, f->path, "anyone may connect");
    assert_int_equal(chmod(f->path, 0660), 0);
    fd = connect_path(f, f->path);
    assert_true(fd >= 0);
    close(fd);

    assert_int_equal(chmod(f->in, 0777), 0);
    assert_refused(f, f->path, "anyone may replace files (mode 0777)");
    assert_int_equal(chmod(f->in, 01777), 0);
    fd = connect_path(f, f->path);
    assert_true(fd >= 0);
    close(fd);
    close(listener);
}

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void a_directory_is_judged_as_its_sockets_would_be(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char path[PATH_SOCKET_MAX + 1];

    assert_int_equal(path_check_directory(f->in, &err), 0);
    assert_int_equal(path_check_directory("/", &err), 0);
    assert_int_equal(chmod(f->in, 0777), 0);
    assert_int_equal(path_check_directory(f->in, &err), -1);
    assert_non_null(strstr(err.text, "anyone may replace files"));
    assert_non_null(strstr(err.text, "(mode 0777)"));
    assert_int_equal(chmod(f->in, 01777), 0);
    assert_int_equal(path_check_directory(f->in, &err), 0);

    snprintf(path, sizeof(path), "%.80s/none/deeper", f->in);
    assert_int_equal(path_check_directory(path, &err), -1);
    assert_non_null(strstr(err.text, "/none\": No such file or directory"));
    snprintf(path, sizeof(path), "%.80s/link", f->in);
    assert_int_equal(symlink("/", path), 0);
    assert_int_equal(path_check_directory(path, &err), -1);
    assert_non_null(strstr(err.text, "is a symbolic link"));
    assert_int_equal(unlink(path), 0);
    memset(path, 'x', PATH_SOCKET_MAX);
    path[0] = '/';
    path[PATH_SOCKET_MAX] = '\0';
    assert_int_equal(path_check_directory(path, &err), -1);
    assert_non_null(strstr(err.text, "107 bytes"));
}

static void nothing_stays_open(void **state)
{
    struct fixture *f = *state;
    int before = count_fds();

    assert_int_equal(connect_path(f, f->path), -1);
    assert_int_equal(connect_path(f, "/nowhere/s"), -1);
    int listener = listen_path(f, f->path);
    int fd = connect_path(f, f->path);
    assert_int_equal(count_fds(), before + 2);
    close(fd);
    close(listener);
    close(listen_path(f, f->path)); /* with the check for a stale one */
    assert_int_equal(count_fds(), before);
}

/* --- listening ---------------------------------------------------------- */

static void a_listener_has_its_mode_whatever_the_umask(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    mode_t before = umask(0);
    int fd = path_listen_socket(f->path, 0660, getegid(), 8, &f->err);

    assert_true(fd >= 0);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_int_equal(st.st_gid, getegid());
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);

    umask(0777);
    fd = path_listen_socket(f->path, 0640, (gid_t)-1, 8, &f->err);
    umask(before);
    assert_true(fd >= 0);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    close(fd);
}

static void a_stale_socket_makes_room(void **state)
{
    struct fixture *f = *state;

    close(listen_path(f, f->path));
    int listener = listen_path(f, f->path);
    int fd = connect_path(f, f->path);
    assert_true(fd >= 0);
    close(fd);
    close(listener);
}

static void a_live_socket_is_left_alone(void **state)
{
    struct fixture *f = *state;
    int listener = listen_path(f, f->path);

    assert_int_equal(path_listen_socket(f->path, 0600, (gid_t)-1, 8, &f->err),
                     -1);
    assert_int_equal(f->err.code, ERR_CONFLICT);
    int fd = connect_path(f, f->path);
    assert_true(fd >= 0);
    close(fd);
    close(listener);

    /* also one that speaks datagrams */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unlink(f->path);
    strcpy(address.sun_path, f->path);
    int datagram = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(
        bind(datagram, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(path_listen_socket(f->path, 0600, (gid_t)-1, 8, &f->err),
                     -1);
    assert_int_equal(f->err.code, ERR_CONFLICT);
    assert_int_equal(access(f->path, F_OK), 0);
    close(datagram);
}

static void other_files_are_left_alone(void **state)
{
    struct fixture *f = *state;
    struct stat st;

    close(open(f->path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(path_listen_socket(f->path, 0600, (gid_t)-1, 8, &f->err),
                     -1);
    assert_int_equal(f->err.code, ERR_PATH_REFUSED);
    path_remove_socket(f->path);
    assert_int_equal(stat(f->path, &st), 0);
    assert_true(S_ISREG(st.st_mode));

    unlink(f->path);
    assert_int_equal(symlink("target", f->path), 0);
    assert_int_equal(path_listen_socket(f->path, 0600, (gid_t)-1, 8, &f->err),
                     -1);
    assert_int_equal(f->err.code, ERR_PATH_REFUSED);
    path_remove_socket(f->path);
    assert_int_equal(lstat(f->path, &st), 0);
}

static void listening_in_no_directory_is_an_error(void **state)
{
    struct fixture *f = *state;
    char path[120];

    snprintf(path, sizeof(path), "%s/none/s", f->in);
    assert_int_equal(path_listen_socket(path, 0600, (gid_t)-1, 8, &f->err), -1);
    assert_int_equal(f->err.code, ERR_IO);
    assert_non_null(strstr(f->err.text, "/none\""));
}

static void removing_removes_sockets(void **state)
{
    struct fixture *f = *state;

    close(listen_path(f, f->path));
    path_remove_socket(f->path);
    assert_int_equal(access(f->path, F_OK), -1);
    path_remove_socket(f->path); /* harmless */
    path_remove_socket("relative");
}

static void only_a_dead_socket_is_removed_as_one(void **state)
{
    struct fixture *f = *state;
    uid_t self = geteuid();
    int listener = listen_path(f, f->path);

    assert_false(path_remove_dead_socket(f->path, self));
    assert_int_equal(access(f->path, F_OK), 0);
    assert_int_equal(accept(listener, NULL, NULL), -1); /* it saw nobody */
    assert_int_equal(errno, EAGAIN);
    close(listener);
    assert_int_equal(access(f->path, F_OK), 0);
    if (self == 0) {
        assert_int_equal(chown(f->path, 1, (gid_t)-1), 0);
        assert_false(path_remove_dead_socket(f->path, self));
    }
    assert_true(path_remove_dead_socket(f->path, self == 0 ? 1 : self));
    assert_int_equal(access(f->path, F_OK), -1);
    assert_false(path_remove_dead_socket(f->path, self));
    assert_false(path_remove_dead_socket("relative", self));
    assert_int_equal(close(creat(f->path, 0600)), 0);
    assert_false(path_remove_dead_socket(f->path, self));
    assert_int_equal(unlink(f->path), 0);
}

#define PATH_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_paths_pass),
        cmocka_unit_test(malformed_paths_are_refused),
        cmocka_unit_test(a_guest_name_fills_the_template),
        cmocka_unit_test(hostile_guest_names_are_refused),
        cmocka_unit_test(an_expansion_that_is_too_long_is_refused),
        PATH_TEST(a_socket_in_its_directory_is_reached),
        PATH_TEST(sockets_elsewhere_are_refused),
        PATH_TEST(a_link_to_a_socket_is_refused),
        PATH_TEST(a_directory_behind_a_link_is_refused),
        PATH_TEST(what_is_no_socket_is_refused),
        PATH_TEST(a_missing_or_dead_socket_is_unreachable),
        PATH_TEST(a_full_backlog_is_eagain),
        PATH_TEST(the_owner_must_be_the_right_one),
        PATH_TEST(a_socket_for_everyone_is_refused_unless_out_of_reach),
        PATH_TEST(a_directory_is_judged_as_its_sockets_would_be),
        PATH_TEST(nothing_stays_open),
        PATH_TEST(a_listener_has_its_mode_whatever_the_umask),
        PATH_TEST(a_stale_socket_makes_room),
        PATH_TEST(only_a_dead_socket_is_removed_as_one),
        PATH_TEST(a_live_socket_is_left_alone),
        PATH_TEST(other_files_are_left_alone),
        PATH_TEST(listening_in_no_directory_is_an_error),
        PATH_TEST(removing_removes_sockets),
    };
    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
