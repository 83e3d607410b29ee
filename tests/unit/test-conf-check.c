// SPDX-License-Identifier: BSD-3-Clause
/* What only this host tells about a configuration, with its place in it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/conf-check.h"
#include "util/cleanup.h"

static char dir[] = "/tmp/test-conf-check-XXXXXX"; /* of all cases */

/* format: a configuration that has DIR where %1$s stands. */
static struct conf *must_parse(const char *format)
{
    struct error err = ERROR_INIT;
    char text[1024];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof(text), format, dir);
#pragma GCC diagnostic pop
    struct conf *conf = conf_parse_text(text, strlen(text), "f", &err);
    if (!conf) {
        fail_msg("%s", err.text);
    }
    return conf;
}

#define GOOD                                                                   \
    "[daemon]\nname = a\nrun-dir = %1$s/run\nstate-dir = %1$s/state\n"         \
    "[qemu]\nsocket-dirs = %1$s\n"
#define HERE "[listen]\naddress = 127.0.0.1:31999\n"

static void assert_start_fails(const char *format, const char *start,
                               const char *end)
{
    struct error err = ERROR_INIT;
    struct conf *conf = must_parse(format);

    assert_int_equal(conf_check_start(conf, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    if (strncmp(err.text, start, strlen(start)) || !strstr(err.text, end)) {
        fail_msg("%s: not %s ... %s", err.text, start, end);
    }
    assert_int_equal(conf_check_start(conf, NULL), -1);
    conf_free(conf);
}

static void a_good_one_passes_and_nothing_is_made(void **state)
{
    struct error err = ERROR_INIT;
    struct conf *conf = must_parse(GOOD HERE "[migration]\ncongestion = reno");
    char path[128];

    if (conf_check_start(conf, &err)) {
        fail_msg("%s", err.text);
    }
    snprintf(path, sizeof(path), "%s/run", dir);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/state", dir);
    assert_int_equal(access(path, F_OK), -1);
    conf_free(conf);
}

static void directories_must_be_possible(void **state)
{
    assert_start_fails(
        "[daemon]\nstate-dir = %1$s/none/state\nrun-dir = %1$s\n",
        "f:2: daemon.state-dir: making ", ": No such file or directory");
    assert_start_fails("[daemon]\nstate-dir = %1$s\n\nrun-dir = %1$s/file\n",
                       "f:4: daemon.run-dir: ", "/file\" is not a directory");
    assert_start_fails("[daemon]\nstate-dir = %1$s/file/state\n",
                       "f:2: daemon.state-dir: ", "Not a directory");
    assert_start_fails("[daemon]\nstate-dir = %1$s\nrun-dir = %1$s\n"
                       "[api]\nsocket = %1$s/file\n",
                       "f:5: api.socket: cannot listen on ",
                       "it exists and is not a socket");
    assert_start_fails("[daemon]\nstate-dir = %1$s\nrun-dir = %1$s\n"
                       "[api]\nsocket = %1$s/none/s\n",
                       "f:5: api.socket: ", "No such file or directory");
}

static void the_kernels_file_systems_are_no_place(void **state)
{
    static const char *const places[][2] = {
        {"/proc/x", "\"/proc\" is the kernel's own (proc): "},
        {"/proc", "\"/proc\" is the kernel's own (proc): "},
        {"/sys/x", "\"/sys\" is the kernel's own (sysfs): "},
    };
    char text[256];

    if (geteuid()) {
        skip(); /* others may not write there in any case */
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(text, sizeof(text),
                 "[daemon]\nname = a\nrun-dir = %s\nstate-dir = %%1$s\n",
                 places[i][0]);
        assert_start_fails(text, "f:3: daemon.run-dir: ", places[i][1]);
        snprintf(text, sizeof(text), "[daemon]\nname = a\nstate-dir = %s\n",
                 places[i][0]);
        assert_start_fails(text, "f:3: daemon.state-dir: ", places[i][1]);
    }
}

static void addresses_to_listen_on_do_not_overlap(void **state)
{
    assert_start_fails(GOOD "[listen]\naddress = 127.0.0.1:31999, "
                            "127.0.0.2:31999 127.0.0.1:31999\n",
                       "f:8: listen.address: \"127.0.0.1:31999\" "
                       "(127.0.0.1:31999) and \"127.0.0.1:31999\" ",
                       "each other's way");
    assert_start_fails(GOOD "[listen]\naddress = *:31999 127.0.0.1:31999\n",
                       "f:8: listen.address: \"*:31999\" ([::]:31999) and "
                       "\"127.0.0.1:31999\"",
                       "");
    assert_start_fails(GOOD
                       "[listen]\naddress = 127.0.0.1:31999 0.0.0.0:31999\n",
                       "f:8: listen.address: \"127.0.0.1:31999\" ", "");
    struct conf *conf = must_parse(
        GOOD "[listen]\naddress = 127.0.0.1:31999 127.0.0.2:31999 *:31998\n");
    assert_int_equal(conf_check_start(conf, NULL), 0);
    conf_free(conf);
}

static void addresses_must_be_those_of_the_host(void **state)
{
    assert_start_fails(
        GOOD "[listen]\naddress = 127.0.0.1:31999 192.0.2.77:31999\n",
        "f:8: listen.address: listening on 192.0.2.77:31999: ", "");
}

static void congestion_control_is_the_kernels(void **state)
{
    assert_start_fails(
        GOOD HERE "[migration]\ncongestion = no-such-one\n",
        "f:10: migration.congestion: \"no-such-one\" is not known to this "
        "kernel, and no module tcp_no-such-one was loaded for it "
        "(net.ipv4.tcp_available_congestion_control: ",
        ")");
    struct error err = ERROR_INIT;
    struct conf *conf = must_parse("[migration]\ncongestion = no-such-one\n");
    assert_int_equal(conf_check_reload(conf, &err), -1);
    assert_memory_equal(err.text, "f:2: migration.congestion: ", 27);
    conf_free(conf);
}

/* Of a user that is in no group 12345. */
static void groups_must_be_those_of_the_user(void **state)
{
    struct conf *api = must_parse(GOOD HERE "[api]\ngroup = 12345\n");
    struct conf *qemu = must_parse("[qemu]\nsocket-group = 12345\n");
    struct error err_api = ERROR_INIT, err_qemu = ERROR_INIT;
    bool is_root = geteuid() == 0;

    assert_int_equal(chmod(dir, 0777), 0);
    if (is_root) {
        assert_int_equal(seteuid(65534), 0);
    }
    int of_api = conf_check_start(api, &err_api);
    int of_qemu = conf_check_reload(qemu, &err_qemu);
    if (is_root) {
        assert_int_equal(seteuid(0), 0);
    }
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(of_api, -1);
    assert_memory_equal(err_api.text,
                        "f:10: api.group: giving a socket to "
                        "group 12345, ",
                        49);
    assert_int_equal(of_qemu, -1);
    assert_memory_equal(err_qemu.text, "f:2: qemu.socket-group: giving ", 31);
    conf_free(api);
    conf_free(qemu);
}

static void certificates_are_named_with_their_option(void **state)
{
    struct error err = ERROR_INIT;
    struct conf *conf = must_parse("[tls]\ndir = %1$s\n");
    char text[256];

    assert_null(conf_check_tls(conf, &err));
    snprintf(text, sizeof(text),
             "f:2: tls.dir: %s/ca-cert.pem: No such file or directory", dir);
    assert_string_equal(err.text, text);
    conf_free(conf);
}

static char said[2048];

static void say_cb(const char *text)
{
    size_t used = strlen(said);
    snprintf(said + used, sizeof(said) - used, "%s\n", text);
}

static void what_stops_guests_is_a_warning(void **state)
{
    struct conf *conf =
        must_parse("[qemu]\nsocket-dirs = %1$s %1$s/none\n"
                   "[peer \"b\"]\naddress = 127.0.0.1\n"
                   "[peer \"c\"]\naddress = fe80::1%%nosuchif\n");
    char start[256];

    said[0] = '\0';
    conf_check_warn(conf, say_cb);
    snprintf(start, sizeof(start),
             "f:2: qemu.socket-dirs: directory \"%s/none\": No such", dir);
    assert_memory_equal(said, start, strlen(start));
    assert_null(strstr(strchr(said, '\n') + 1, "\n"));
    said[0] = '\0';
    conf_check_warn_peers(conf, say_cb);
    assert_memory_equal(said, "f:5: peer \"c\": address \"fe80::1%", 32);
    assert_null(strstr(strchr(said, '\n') + 1, "\n"));
    conf_free(conf);
}

static void assert_says(const char *format, const char *expected)
{
    struct conf *conf = must_parse(format);

    said[0] = '\0';
    conf_check_warn(conf, say_cb);
    if (*expected ? !strstr(said, expected) : *said) {
        fail_msg("\"%s\" lacks \"%s\"", said, expected);
    }
    conf_free(conf);
}

static void what_looks_like_a_mistake_is_a_warning(void **state)
{
    static const char tls[] = "[tls]\ndir = %1$s\n[qemu]\nsocket-dirs = %1$s\n";
    char path[128];

    assert_says(tls, "");
    assert_int_equal(chmod(dir, 0770), 0);
    assert_says(tls, "is open to its group (mode 0770): ");
    assert_int_equal(chmod(dir, 01777), 0);
    assert_says(tls, "is open to everyone (mode 1777): ");
    assert_int_equal(chmod(dir, 0700), 0);
    assert_says("[daemon]\nname = b\n[qemu]\nsocket-dirs = %1$s\n\n"
                "[peer \"c\"]\n[peer \"b\"]\n",
                "f:7: peer \"b\" has the name of this host (daemon.name)");
    snprintf(path, sizeof(path), "%s/client-key.pem", dir);
    CLEANUP_FD int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_says(tls, "");
    if (geteuid() == 0) {
        assert_int_equal(fchown(fd, 65534, (gid_t)-1), 0);
        assert_says(tls, "/client-key.pem\" belongs to user 65534, neither ");
    }
    unlink(path);
}

static int make_dir(void **state)
{
    char path[128];

    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/file", dir);
    CLEANUP_FD int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : 0;
}

static int remove_dir(void **state)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/file", dir);
    unlink(path);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_one_passes_and_nothing_is_made),
        cmocka_unit_test(directories_must_be_possible),
        cmocka_unit_test(the_kernels_file_systems_are_no_place),
        cmocka_unit_test(addresses_to_listen_on_do_not_overlap),
        cmocka_unit_test(addresses_must_be_those_of_the_host),
        cmocka_unit_test(congestion_control_is_the_kernels),
        cmocka_unit_test(groups_must_be_those_of_the_user),
        cmocka_unit_test(certificates_are_named_with_their_option),
        cmocka_unit_test(what_stops_guests_is_a_warning),
        cmocka_unit_test(what_looks_like_a_mistake_is_a_warning),
    };
    return cmocka_run_group_tests_name("conf-check", tests, make_dir,
                                       remove_dir);
}
