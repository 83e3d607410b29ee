// SPDX-License-Identifier: BSD-3-Clause
/* The configuration: defaults, values, errors, cross checks, the sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/conf.h"
#include "util/log.h"
#include "util/parse.h"

static struct conf *must_parse(const char *text)
{
    struct error err = ERROR_INIT;
    struct conf *conf = conf_parse_text(text, strlen(text), "f", &err);
    if (!conf) {
        fail_msg("%s", err.text);
    }
    return conf;
}

static void assert_refuses(const char *text, const char *message)
{
    struct error err = ERROR_INIT;
    assert_null(conf_parse_text(text, strlen(text), "f", &err));
    assert_int_equal(err.code, ERR_CONFIG);
    assert_string_equal(err.text, message);
    assert_null(conf_parse_text(text, strlen(text), "f", NULL));
}

static void assert_defaults(const struct conf *conf)
{
    assert_true(*conf->name);
    assert_string_equal(conf->run_dir, "/run/migproxy");
    assert_string_equal(conf->state_dir, "/var/lib/migproxy");
    assert_int_equal(conf->log_level, LOG_LEVEL_INFO);
    assert_int_equal(conf->listen.count, 1);
    assert_string_equal(conf->listen.items[0], "*:16515");
    assert_string_equal(conf->tls_dir, "/etc/pki/migproxy");
    assert_string_equal(conf->api_socket, "/run/migproxy/api.sock");
    assert_int_equal(conf->api_mode, 0600);
    assert_int_equal(conf->api_group, CONF_NO_GROUP);
    assert_true(conf->bandwidth_bytes_per_second == PARSE_UNLIMITED);
    assert_int_equal(conf->sessions, 16);
    assert_int_equal(conf->peer_connections, 256);
    assert_int_equal(conf->records, 1000);
    assert_int_equal(conf->socket_dirs.count, 1);
    assert_string_equal(conf->socket_dirs.items[0], "/run/migproxy/qemu");
    assert_string_equal(conf->qmp_path, "/run/migproxy/qemu/{vm}.qmp");
    assert_int_equal(conf->socket_group, CONF_NO_GROUP);
    assert_int_equal(conf->qemu_user, CONF_NO_USER);
    assert_int_equal(conf->hold_time, 60 * MP_SECOND);
    assert_int_equal(conf->switchover_hold, 2 * MP_SECOND);
    assert_int_equal(conf->switchover_buffer_bytes, 256 << 20);
    assert_int_equal(conf->connect_timeout, 10 * MP_SECOND);
    assert_int_equal(conf->qmp_timeout, 5 * MP_SECOND);
    assert_int_equal(conf->qmp_greeting, 3 * MP_SECOND);
    assert_int_equal(conf->setup_timeout, 30 * MP_SECOND);
    assert_int_equal(conf->switchover_timeout, 60 * MP_SECOND);
    assert_int_equal(conf->commit_timeout, 60 * MP_SECOND);
    assert_int_equal(conf->cancel_timeout, 30 * MP_SECOND);
    assert_string_equal(conf->congestion, "");
    assert_int_equal(conf->peer_count, 0);
}

static void an_empty_text_gives_the_defaults(void **state)
{
    struct conf *conf = must_parse("");
    assert_defaults(conf);
    conf_free(conf);
    conf_free(NULL);
}

static void each_value_reaches_its_field(void **state)
{
    struct conf *conf = must_parse(
        "[daemon]\nname = host-a\nrun-dir = /r/\nstate-dir = /s\n"
        "log-level = debug\n"
        "[listen]\naddress = 192.0.2.1, [2001:db8::1]:7  *\n"
        "[tls]\ndir = /t\n"
        "[api]\nsocket = /x/y.sock\nmode = 0660\ngroup = 7\n"
        "[limits]\nbandwidth = 1Gbit/s\nsessions = 256\npeer-connections = 8\n"
        "records = 50\n"
        "[qemu]\nsocket-dirs = /a/ /b\nqmp-path = /b/q-{vm}\n"
        "socket-group = root\nuser = root\n"
        "[migration]\nhold-time = 5min\nswitchover-hold = 500ms\n"
        "switchover-buffer = 64MiB\nconnect-timeout = 1\nqmp-timeout = 2\n"
        "qmp-greeting = 4\nsetup-timeout = 5\nswitchover-timeout = 6\n"
        "commit-timeout = 7\ncancel-timeout = 8\ncongestion = bbr\n");
    assert_string_equal(conf->name, "host-a");
    assert_string_equal(conf->run_dir, "/r");
    assert_string_equal(conf->state_dir, "/s");
    assert_int_equal(conf->log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(conf->listen.count, 3);
    assert_string_equal(conf->listen.items[0], "192.0.2.1");
    assert_string_equal(conf->listen.items[1], "[2001:db8::1]:7");
    assert_string_equal(conf->listen.items[2], "*");
    assert_string_equal(conf->tls_dir, "/t");
    assert_string_equal(conf->api_socket, "/x/y.sock");
    assert_int_equal(conf->api_mode, 0660);
    assert_int_equal(conf->api_group, 7);
    assert_int_equal(conf->bandwidth_bytes_per_second, 125000000);
    assert_int_equal(conf->sessions, 256);
    assert_int_equal(conf->peer_connections, 8);
    assert_int_equal(conf->records, 50);
    assert_int_equal(conf->socket_dirs.count, 2);
    assert_string_equal(conf->socket_dirs.items[0], "/a");
    assert_string_equal(conf->qmp_path, "/b/q-{vm}");
    assert_int_equal(conf->socket_group, 0);
    assert_int_equal(conf->qemu_user, 0);
    assert_int_equal(conf->hold_time, 300 * MP_SECOND);
    assert_int_equal(conf->switchover_hold, 500 * MP_MS);
    assert_int_equal(conf->switchover_buffer_bytes, 64 << 20);
    assert_int_equal(conf->connect_timeout, 1 * MP_SECOND);
    assert_int_equal(conf->qmp_timeout, 2 * MP_SECOND);
    assert_int_equal(conf->qmp_greeting, 4 * MP_SECOND);
    assert_int_equal(conf->setup_timeout, 5 * MP_SECOND);
    assert_int_equal(conf->switchover_timeout, 6 * MP_SECOND);
    assert_int_equal(conf->commit_timeout, 7 * MP_SECOND);
    assert_int_equal(conf->cancel_timeout, 8 * MP_SECOND);
    assert_string_equal(conf->congestion, "bbr");
    conf_free(conf);
}

static void what_depends_on_a_directory_follows_it(void **state)
{
    struct conf *conf = must_parse("[daemon]\nrun-dir = /r\n"
                                   "[qemu]\nsocket-dirs = /q /z\n");
    assert_string_equal(conf->api_socket, "/r/api.sock");
    assert_string_equal(conf->qmp_path, "/q/{vm}.qmp");
    conf_free(conf);
}

static void peers_are_read_and_found(void **state)
{
    struct conf *conf = must_parse(
        "[peer \"b\"]\n[peer \"c\"]\naddress = c.example:7\n"
        "identity = Host-C.example\nallow = send, name-paths\n"
        "[peer \"d\"]\nidentity = 2001:db8::1\nallow =\n"
        "[peer \"e\"]\nidentity = spiffe://x/E\nallow = libvirt-control "
        "receive\n");
    assert_int_equal(conf->peer_count, 4);

    const struct conf_peer *b = conf_find_peer(conf, "b");
    assert_string_equal(b->name, "b");
    assert_string_equal(b->address, "b");
    assert_string_equal(b->identity, "b");
    assert_int_equal(b->allow, CONF_ALLOW_SEND | CONF_ALLOW_RECEIVE);
    assert_int_equal(b->line, 1);

    const struct conf_peer *c = conf_find_identity(conf, "hOST-c.example");
    assert_string_equal(c->name, "c");
    assert_string_equal(c->address, "c.example:7");
    assert_int_equal(c->allow, CONF_ALLOW_SEND | CONF_ALLOW_NAME_PATHS);
    assert_int_equal(c->line, 2);

    const struct conf_peer *d = conf_find_identity(conf, "2001:DB8:0:0::0:1");
    assert_string_equal(d->name, "d");
    assert_int_equal(d->allow, 0);

    assert_string_equal(conf_find_identity(conf, "spiffe://x/E")->name, "e");
    assert_int_equal(conf_find_peer(conf, "e")->allow,
                     CONF_ALLOW_LIBVIRT_CONTROL | CONF_ALLOW_RECEIVE);
    assert_null(conf_find_identity(conf, "spiffe://x/e"));
    assert_null(conf_find_identity(conf, "2001:db8::2"));
    assert_null(conf_find_peer(conf, "B"));
    conf_free(conf);
}

static void identities_compare_by_kind(void **state)
{
    assert_true(conf_is_same_identity("a.Example", "A.example"));
    assert_true(conf_is_same_identity("192.0.2.1", "::ffff:192.0.2.1"));
    assert_true(conf_is_same_identity("::1", "0:0:0:0:0:0:0:1"));
    assert_false(conf_is_same_identity("192.0.2.1", "192.0.2.2"));
    assert_false(conf_is_same_identity("192.0.2.1", "a.example"));
    assert_false(conf_is_same_identity("urn:a", "urn:A"));
    assert_false(conf_is_same_identity("a", "ab"));
}

static void structure_is_refused_with_its_place(void **state)
{
    assert_refuses("[demon]\n", "f:1: there is no section [demon]");
    assert_refuses("\n[daemon]\nnmae = x\n",
                   "f:3: section [daemon] has no option nmae");
    assert_refuses("[daemon]\nname = x\n[tls]\n[daemon]\nname = y\n",
                   "f:5: daemon.name is set already, in line 2");
    assert_refuses("[daemon \"x\"]\n", "f:1: section [daemon] takes no name");
    assert_refuses("[peer]\n", "f:1: section [peer] needs the peer's name: "
                               "[peer \"NAME\"]");
    assert_refuses("[peer \"x\"]\nallow =\nallow =\n",
                   "f:3: peer.allow is set already, in line 2");
    assert_refuses("[peer \"x\"]\n\n[peer \"x\"]\n",
                   "f:3: peer \"x\" has a section already, in line 1");
    assert_refuses("[peer \"x y\"]\n",
                   "f:1: peer name \"x y\" is not 1 to 63 characters of A-Z "
                   "a-z 0-9 . _ - (no \".\" or \"-\" at the start)");
}

static void two_peers_may_each_have_an_option(void **state)
{
    conf_free(must_parse("[peer \"x\"]\nallow =\n[peer \"y\"]\nallow =\n"));
}

/* One wrong value for each type; the whole message. */
static void wrong_values_name_place_value_and_limit(void **state)
{
    static const char *const rows[][3] = {
        {"daemon", "name = a b",
         "daemon.name: \"a b\" is not a name of 1 to 63 characters of A-Z a-z "
         "0-9 . _ -"},
        {"daemon", "run-dir = run",
         "daemon.run-dir: \"run\" is not an absolute directory of at most 59 "
         "bytes"},
        {"daemon", "state-dir = /a/../b",
         "daemon.state-dir: \"/a/../b\" has an empty, \".\" or \"..\" "
         "component"},
        {"daemon", "state-dir = /a//b",
         "daemon.state-dir: \"/a//b\" has an empty, \".\" or \"..\" component"},
        {"daemon", "state-dir =",
         "daemon.state-dir: \"\" is not an absolute directory of at most 1024 "
         "bytes"},
        {"daemon", "log-level = loud",
         "daemon.log-level: \"loud\" is not error, warning, info or debug"},
        {"listen", "address = a:70000",
         "listen.address: \"a:70000\" is not an address (\"*\", HOST, "
         "HOST:PORT, [IPV6] or [IPV6]:PORT, ports from 1 to 65535)"},
        {"listen", "address = * 300.1.1.1:5",
         "listen.address: \"300.1.1.1:5\" is not an address (\"*\", HOST, "
         "HOST:PORT, [IPV6] or [IPV6]:PORT, ports from 1 to 65535)"},
        {"listen", "address = [fe80::1::2]",
         "listen.address: \"[fe80::1::2]\" is not an address (\"*\", HOST, "
         "HOST:PORT, [IPV6] or [IPV6]:PORT, ports from 1 to 65535)"},
        {"listen", "address = ,",
         "listen.address: \",\" is not a list of 1 to 16 addresses"},
        {"api", "socket = api.sock",
         "api.socket: socket path \"api.sock\" is not absolute"},
        {"api", "mode = 01777",
         "api.mode: \"01777\" is not an octal number from 0 to 0777"},
        {"api", "mode = 0668",
         "api.mode: \"0668\" is not an octal number from 0 to 0777"},
        {"api", "group = no such group",
         "api.group: \"no such group\" is not the name or number of a group of "
         "this system"},
        {"limits", "bandwidth = 0",
         "limits.bandwidth: \"0\" is not a rate of at least 1 B/s (units: B/s, "
         "KiB/s, MiB/s, GiB/s, kbit/s, Mbit/s, Gbit/s) or \"unlimited\""},
        {"limits", "sessions = 300",
         "limits.sessions: \"300\" is not a number from 1 to 256"},
        {"qemu", "qmp-path = /a/qmp",
         "qemu.qmp-path: \"/a/qmp\" is not the absolute path of a socket with "
         "{vm} in its last component"},
        {"qemu", "qmp-path = /{vm}/qmp",
         "qemu.qmp-path: \"/{vm}/qmp\" is not the absolute path of a socket "
         "with {vm} in its last component"},
        {"qemu", "qmp-path = /a/{uuid}-{vm}",
         "qemu.qmp-path: \"/a/{uuid}-{vm}\" has \"{uuid}-{vm}\": {vm} is the "
         "only thing in braces that can stand there"},
        {"qemu", "qmp-path = /a/{vm}}",
         "qemu.qmp-path: \"/a/{vm}}\" has \"}\": {vm} is the only thing in "
         "braces that can stand there"},
        {"qemu", "qmp-path = /other/{vm}",
         "qemu.qmp-path: \"/other/{vm}\" is not directly in one of "
         "qemu.socket-dirs"},
        {"qemu", "user = -1",
         "qemu.user: \"-1\" is not the name or number of a user of this "
         "system"},
        {"qemu", "socket-dirs = /a b",
         "qemu.socket-dirs: \"b\" is not an absolute directory of at most 105 "
         "bytes"},
        {"migration", "hold-time = 2h",
         "migration.hold-time: \"2h\" is not a time from 1 s to 1 h (units: "
         "us, ms, s, min, h)"},
        {"migration", "switchover-buffer = 5GiB",
         "migration.switchover-buffer: \"5GiB\" is not a size from 1 MiB to 4 "
         "GiB (units: B, KiB, MiB, GiB, TiB)"},
        {"peer \"x\"", "allow = send everything",
         "peer.allow: \"send everything\" is not a list of \"send\", "
         "\"receive\", \"name-paths\", \"libvirt-control\""},
        {"peer \"x\"", "identity = *.example",
         "peer.identity: \"*.example\" is not a DNS name without wildcards, an "
         "IP address or a URI"},
        {"peer \"x\"", "address = *",
         "peer.address: \"*\" is not an address (HOST, HOST:PORT, [IPV6] or "
         "[IPV6]:PORT, ports from 1 to 65535)"},
        {"peer \"x\"", "address = 10.0.0.256",
         "peer.address: \"10.0.0.256\" is not an address (HOST, HOST:PORT, "
         "[IPV6] or [IPV6]:PORT, ports from 1 to 65535)"},
        {"peer \"x\"", "address = x:0",
         "peer.address: \"x:0\" is not an address (HOST, HOST:PORT, [IPV6] or "
         "[IPV6]:PORT, ports from 1 to 65535)"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256], message[512];
        snprintf(text, sizeof(text), "[%s]\n%s\n", rows[i][0], rows[i][1]);
        snprintf(message, sizeof(message), "f:2: %s", rows[i][2]);
        assert_refuses(text, message);
    }
}

static void a_list_is_bounded(void **state)
{
    char text[256] = "[qemu]\nsocket-dirs =";
    struct error err = ERROR_INIT;

    for (int i = 0; i < CONF_LIST_MAX; i++) {
        strcat(text, " /d");
    }
    conf_free(must_parse(text));
    strcat(text, " /d");
    assert_null(conf_parse_text(text, strlen(text), "f", &err));
    assert_non_null(strstr(err.text, "is not a list of 1 to 16 absolute"));
}

static void paths_too_long_for_sockets_are_refused(void **state)
{
    char dir[128], text[256];
    struct error err = ERROR_INIT;

    memset(dir, 'd', sizeof(dir));
    dir[0] = '/';
    dir[105] = '\0';
    snprintf(text, sizeof(text), "[qemu]\nsocket-dirs = %s\n", dir);
    assert_null(conf_parse_text(text, strlen(text), "f", &err));
    assert_non_null(strstr(err.text, "f: qemu.qmp-path (default): "));
    assert_non_null(strstr(err.text, "107"));

    dir[60] = '\0';
    snprintf(text, sizeof(text), "[daemon]\nrun-dir = %s\n", dir);
    assert_null(conf_parse_text(text, strlen(text), "f", &err));
    assert_non_null(strstr(err.text, "at most 59 bytes"));
    dir[59] = '\0';
    snprintf(text, sizeof(text), "[daemon]\nrun-dir = %s\n", dir);
    conf_free(must_parse(text));
}

static void what_use_shows_names_the_place(void **state)
{
    struct conf *conf = must_parse("[daemon]\nname = x\n[tls]\n\ndir = /t\n"
                                   "[peer \"y\"]\naddress = z\n");
    struct error err = ERROR_INIT;

    error_set(&err, ERR_TLS, "/t/ca-cert.pem: No such file");
    assert_int_equal(conf_wrap(conf, "tls", "dir", &err), -1);
    assert_string_equal(err.text, "f:5: tls.dir: /t/ca-cert.pem: No such file");
    assert_int_equal(err.code, ERR_TLS);
    error_set(&err, ERR_IO, "no");
    conf_wrap(conf, "daemon", "state-dir", &err);
    assert_string_equal(err.text, "f: daemon.state-dir (default): no");
    conf_free(conf);
}

static void two_peers_of_one_identity_are_refused(void **state)
{
    assert_refuses("[peer \"b\"]\nidentity = 192.0.2.1\n"
                   "[peer \"c\"]\nidentity = ::ffff:c000:201\n",
                   "f:3: peer \"c\" has the identity \"::ffff:c000:201\" of "
                   "peer \"b\" (line 1)");
    assert_refuses("[peer \"b\"]\n[peer \"c\"]\nidentity = B\n",
                   "f:2: peer \"c\" has the identity \"B\" of peer \"b\" (line "
                   "1)");
}

static void more_than_1024_peers_are_refused(void **state)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < CONF_PEERS_MAX; i++) {
        fprintf(out, "[peer \"p%d\"]\n", i);
    }
    fflush(out);
    struct conf *conf = must_parse(text);
    assert_int_equal(conf->peer_count, CONF_PEERS_MAX);
    assert_string_equal(conf_find_identity(conf, "p1023")->name, "p1023");
    conf_free(conf);
    fprintf(out, "[peer \"last\"]\n");
    fclose(out);
    assert_refuses(text, "f:1025: more than 1024 peers");
    free(text);
}

static void until_a_restart_the_old_values_stay(void **state)
{
    static const char old_text[] =
        "[daemon]\nname = a\nrun-dir = /r\nstate-dir = /s\n"
        "log-level = error\n[listen]\naddress = 192.0.2.1 192.0.2.2\n"
        "[api]\nmode = 0660\ngroup = 7\n[limits]\nsessions = 1\n";
    char buf[256];
    struct conf *old = must_parse(old_text);
    struct conf *now =
        must_parse("[daemon]\nname = b\nrun-dir = /r2\nstate-dir = /s2\n"
                   "log-level = debug\n[listen]\naddress = 192.0.2.3\n"
                   "[api]\nmode = 0600\nsocket = /x/y\n[limits]\nsessions = 2\n"
                   "[peer \"x\"]\n");

    assert_int_equal(conf_needs_restart(old, now, buf, sizeof(buf)), 7);
    assert_int_equal(conf_keep_started(now, old, NULL), 0);
    assert_int_equal(conf_needs_restart(old, now, buf, sizeof(buf)), 0);
    conf_free(old); /* nothing of it is shared */
    assert_string_equal(now->name, "a");
    assert_string_equal(now->run_dir, "/r");
    assert_string_equal(now->state_dir, "/s");
    assert_string_equal(now->api_socket, "/r/api.sock");
    assert_int_equal(now->api_mode, 0660);
    assert_int_equal(now->api_group, 7);
    assert_int_equal(now->listen.count, 2);
    assert_string_equal(now->listen.items[1], "192.0.2.2");
    assert_int_equal(now->log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(now->sessions, 2);
    assert_int_equal(now->peer_count, 1);
    conf_free(now);
}

static void what_needs_a_restart_is_named(void **state)
{
    char buf[256], small[12];
    struct conf *a = must_parse("");
    struct conf *b = must_parse("[daemon]\nlog-level = debug\n"
                                "[migration]\nhold-time = 5\n[peer \"x\"]\n");
    struct conf *c = must_parse("[listen]\naddress = *:16515 *:17\n"
                                "[api]\nmode = 0660\n");
    assert_int_equal(conf_needs_restart(a, a, buf, sizeof(buf)), 0);
    assert_int_equal(conf_needs_restart(a, b, buf, sizeof(buf)), 0);
    assert_string_equal(buf, "");
    assert_int_equal(conf_needs_restart(a, c, buf, sizeof(buf)), 2);
    assert_string_equal(buf, "listen.address, api.mode");
    assert_int_equal(conf_needs_restart(c, a, small, sizeof(small)), 2);
    assert_string_equal(small, "listen.a...");
    conf_free(a);
    conf_free(b);
    conf_free(c);
}

/* --- files and the sample ----------------------------------------------- */

static void a_file_is_loaded(void **state)
{
    char path[] = "/tmp/test-conf-XXXXXX";
    struct error err = ERROR_INIT;
    int fd = mkstemp(path);
    char message[64];

    assert_int_equal(write(fd, "[daemon]\nname = x\n", 18), 18);
    struct conf *conf = conf_load(path, &err);
    assert_string_equal(conf->name, "x");
    conf_free(conf);

    assert_int_equal(write(fd, "what\n", 5), 5);
    assert_null(conf_load(path, &err));
    snprintf(message, sizeof(message), "%s:3: \"what\"", path);
    assert_memory_equal(err.text, message, strlen(message));

    assert_int_equal(ftruncate(fd, CONF_FILE_MAX + 1), 0);
    assert_null(conf_load(path, &err));
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.text, "has more than 1048576 bytes"));

    close(fd);
    unlink(path);
    assert_null(conf_load(path, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.text, path));
    assert_null(conf_load("/", &err)); /* a directory */
}

static char *make_text(void (*write_it)(FILE *))
{
    char *buf = NULL;
    size_t size;
    FILE *out = open_memstream(&buf, &size);
    write_it(out);
    fclose(out);
    char *text = strdup(buf);
    free(buf);
    return text;
}

static void the_sample_gives_the_defaults(void **state)
{
    char *text = make_text(conf_sample);
    struct conf *conf = must_parse(text);
    assert_defaults(conf);
    conf_free(conf);
    free(text);
}

/* Takes the "#" off each "#key = value" and "#[section]". */
static void uncomment(char *text)
{
    char *to = text;
    for (const char *p = text; *p; p++) {
        bool at_start = p == text || p[-1] == '\n';
        if (!(at_start && *p == '#' && p[1] != ' ' && p[1] != '\n')) {
            *to++ = *p;
        }
    }
    *to = '\0';
}

static void the_uncommented_sample_gives_the_defaults(void **state)
{
    char *text = make_text(conf_sample);
    char *peer = strstr(text, "#[peer \"NAME\"]");
    assert_non_null(peer);
    uncomment(peer);
    struct conf *conf = must_parse(text);
    assert_int_equal(conf->peer_count, 1);
    assert_string_equal(conf->peers[0].identity, "NAME");
    assert_string_equal(conf->peers[0].address, "NAME");
    conf_free(conf);

    *strstr(text, "[peer") = '\0';
    uncomment(text);
    conf = must_parse(text);
    assert_defaults(conf);
    conf_free(conf);
    free(text);
}

static void the_sample_in_the_tree_is_this_one(void **state)
{
    char path[512], *text = make_text(conf_sample);
    const char *top = getenv("srcdir");
    char *stored = calloc(1, CONF_FILE_MAX);

    snprintf(path, sizeof(path), "%s/contrib/migproxy.conf.sample",
             top ? top : ".");
    FILE *in = fopen(path, "r");
    if (!in) {
        fail_msg("%s cannot be opened; srcdir is the top of the tree", path);
    }
    assert_in_range(fread(stored, 1, CONF_FILE_MAX - 1, in), 1,
                    CONF_FILE_MAX - 2);
    fclose(in);
    if (strcmp(stored, text) != 0) {
        fail_msg("%s differs from the option table: make update-sample", path);
    }
    free(stored);
    free(text);
}

static void the_help_has_each_section_and_fits_a_terminal(void **state)
{
    char *text = make_text(conf_help);
    size_t column = 0;

    assert_non_null(strstr(text, "[daemon]\n  name\n"));
    assert_non_null(strstr(text, "\n[peer \"NAME\"]\n  address\n"));
    assert_non_null(strstr(text, "256MiB."));
    for (const char *p = text; *p; p++) {
        column = *p == '\n' ? 0 : column + 1;
        assert_in_range(column, 0, 80);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_text_gives_the_defaults),
        cmocka_unit_test(each_value_reaches_its_field),
        cmocka_unit_test(what_depends_on_a_directory_follows_it),
        cmocka_unit_test(peers_are_read_and_found),
        cmocka_unit_test(identities_compare_by_kind),
        cmocka_unit_test(structure_is_refused_with_its_place),
        cmocka_unit_test(two_peers_may_each_have_an_option),
        cmocka_unit_test(wrong_values_name_place_value_and_limit),
        cmocka_unit_test(a_list_is_bounded),
        cmocka_unit_test(paths_too_long_for_sockets_are_refused),
        cmocka_unit_test(what_use_shows_names_the_place),
        cmocka_unit_test(two_peers_of_one_identity_are_refused),
        cmocka_unit_test(more_than_1024_peers_are_refused),
        cmocka_unit_test(until_a_restart_the_old_values_stay),
        cmocka_unit_test(what_needs_a_restart_is_named),
        cmocka_unit_test(a_file_is_loaded),
        cmocka_unit_test(the_sample_gives_the_defaults),
        cmocka_unit_test(the_uncommented_sample_gives_the_defaults),
        cmocka_unit_test(the_sample_in_the_tree_is_this_one),
        cmocka_unit_test(the_help_has_each_section_and_fits_a_terminal),
    };
    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
