// SPDX-License-Identifier: BSD-3-Clause
/* The table of every option. */
#include "conf/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "util/parse.h"
#include "util/path.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MINUTE (60 * MP_SECOND)

#define OF(field) offsetof(struct conf, field)
#define OF_PEER(field) offsetof(struct conf_peer, field)

const struct option_row options_table[] = {
    {"daemon", "name", OPTION_NAME, "", "the host's name", 1,
     CONF_PEER_NAME_MAX, false, OF(name),
     "What this host is called in messages and records."},
    {"daemon", "run-dir", OPTION_DIRECTORY, "/run/migproxy", NULL, 1,
     PATH_SOCKET_MAX - CONF_RUN_NAME_MAX, false, OF(run_dir),
     "Where sockets are made. Its length is limited because the path of a "
     "unix socket is."},
    {"daemon", "state-dir", OPTION_DIRECTORY, "/var/lib/migproxy", NULL, 1,
     1024, false, OF(state_dir),
     "Where the records of migrations are kept. They must survive a reboot: "
     "they say which host owns a guest."},
    {"daemon", "log-level", OPTION_LOG_LEVEL, "info", NULL, 0, 0, true,
     OF(log_level), "The most verbose kind of line that is logged."},

    {"listen", "address", OPTION_ADDRESS_LIST, "*:16515", NULL, 1,
     CONF_LIST_MAX, false, OF(listen),
     "Where peers connect to: addresses separated by blanks or commas. \"*\" "
     "is every address of the host, IPv6 and IPv4; the port is 16515 unless "
     "one is given."},

    {"tls", "dir", OPTION_DIRECTORY, "/etc/pki/migproxy", NULL, 1, 1024, true,
     OF(tls_dir),
     "Where the certificates are, under the names that QEMU uses: "
     "ca-cert.pem, ca-crl.pem (optional), server-cert.pem, server-key.pem, "
     "client-cert.pem, client-key.pem. The files are read again at a reload."},

    {"api", "socket", OPTION_SOCKET, "", "api.sock in run-dir", 0,
     PATH_SOCKET_MAX, false, OF(api_socket),
     "The unix socket of the API, which migproxyctl uses."},
    {"api", "mode", OPTION_MODE, "0600", NULL, 0, 0777, false, OF(api_mode),
     "Its mode. Whoever may write to it may move guests."},
    {"api", "group", OPTION_GROUP, "", "left as it is", 0, 0, false,
     OF(api_group), "The group it is given to."},

    {"limits", "bandwidth", OPTION_RATE, "unlimited", NULL, 0, 0, true,
     OF(bandwidth_bytes_per_second),
     "What one migration of this host may send, unless it is started with "
     "less. "
     "It binds bulk data; pages that a guest is waiting for are never held "
     "back "
     "by it."},
    {"limits", "pool", OPTION_SIZE, "1GiB", NULL, 0, 1024 * GIB, true,
     OF(pool_bytes),
     "Memory for pages of guests in postcopy that wait to be sent, so that one "
     "that a guest asks for can be sent first; all migrations of this host "
     "together, of which each that begins gets half of what is left, and never "
     "more than a quarter of the memory that is free. What "
     "is not needed is not used. More makes page faults cheaper, most of all "
     "with QEMU up to 7.2 or without preempt. 0: pages are sent in QEMU's "
     "order."},
    {"limits", "sessions", OPTION_UINT, "16", NULL, 1, 256, true, OF(sessions),
     "Migrations at a time, both directions together. Another one is refused "
     "with the class \"limit\"."},
    {"limits", "peer-connections", OPTION_UINT, "256", NULL, 4, 4096, true,
     OF(peer_connections),
     "Connections of peers at a time. A migration has two or more."},
    {"limits", "records", OPTION_UINT, "1000", NULL, 10, 100000, true,
     OF(records),
     "Records of ended migrations that are kept in state-dir. The oldest go "
     "first."},

    {"qemu", "socket-dirs", OPTION_DIRECTORY_LIST, "/run/migproxy/qemu", NULL,
     1, CONF_LIST_MAX, true, OF(socket_dirs),
     "The only directories in which QMP and migration sockets are opened or "
     "made, separated by blanks or commas. Symbolic links are not "
     "followed: name the real directories."},
    {"qemu", "qmp-path", OPTION_SOCKET_TEMPLATE, "",
     "{vm}.qmp in the first of socket-dirs", 0, PATH_SOCKET_MAX, true,
     OF(qmp_path),
     "Where the QMP socket of a guest is; {vm} stands for the guest's name."},
    {"qemu", "socket-group", OPTION_GROUP, "", "left as it is", 0, 0, true,
     OF(socket_group),
     "The group that the migration sockets made for QEMU are given to, so "
     "that a QEMU of another user can connect."},
    {"qemu", "user", OPTION_USER, "", "root or the daemon's own user", 0, 0,
     true, OF(qemu_user), "Who must own QEMU's sockets."},

    {"migration", "hold-time", OPTION_DURATION, "60s", NULL, 1 * MP_SECOND,
     60 * MINUTE, true, OF(hold_time),
     "How long a peer's daemon may be silent before a migration that can still "
     "be undone is given up, and before an end that is only told late is taken "
     "for granted."},
    {"migration", "switchover-hold", OPTION_DURATION, "2s", NULL, 100 * MP_MS,
     60 * MP_SECOND, true, OF(switchover_hold),
     "How long the path may be silent while the guest stands still; then it "
     "goes "
     "back to the source."},
    {"migration", "switchover-buffer", OPTION_SIZE, "256MiB", NULL, 1 * MIB,
     4 * GIB, true, OF(switchover_buffer_bytes),
     "What is taken from QEMU while it writes under its lock, at most. It is "
     "reserved for each migration when that starts."},
    {"migration", "connect-timeout", OPTION_DURATION, "10s", NULL, 100 * MP_MS,
     5 * MINUTE, true, OF(connect_timeout),
     "For one attempt to connect to a peer, TLS included."},
    {"migration", "qmp-timeout", OPTION_DURATION, "5s", NULL, 100 * MP_MS,
     5 * MINUTE, true, OF(qmp_timeout),
     "For the answer to a QMP command. QEMU answers late while it is busy, so "
     "a missing answer alone does not fail a migration."},
    {"migration", "qmp-greeting", OPTION_DURATION, "3s", NULL, 100 * MP_MS,
     1 * MINUTE, true, OF(qmp_greeting),
     "For QEMU's greeting. A monitor that another client holds gives none."},
    {"migration", "setup-timeout", OPTION_DURATION, "30s", NULL, 1 * MP_SECOND,
     10 * MINUTE, true, OF(setup_timeout),
     "For the steps on both hosts before the first page is sent."},
    {"migration", "switchover-timeout", OPTION_DURATION, "60s", NULL,
     1 * MP_SECOND, 10 * MINUTE, true, OF(switchover_timeout),
     "From the stop of the guest on the source to its state being loaded on "
     "the destination."},
    {"migration", "commit-timeout", OPTION_DURATION, "60s", NULL, 1 * MP_SECOND,
     10 * MINUTE, true, OF(commit_timeout),
     "For the destination's answer that the guest runs there."},
    {"migration", "cancel-timeout", OPTION_DURATION, "30s", NULL, 1 * MP_SECOND,
     10 * MINUTE, true, OF(cancel_timeout),
     "For QEMU to end a cancelled migration."},
    {"migration", "congestion", OPTION_NAME, "", "the system's", 0, 15, true,
     OF(congestion),
     "TCP congestion control of the connections between hosts, one of "
     "net.ipv4.tcp_available_congestion_control, or one whose module a daemon "
     "that runs as root has the kernel load. What the kernel does not take is "
     "refused."},

    {OPTIONS_PEER_SECTION, "address", OPTION_ADDRESS, "", "NAME", 0, 0, true,
     OF_PEER(address),
     "Where the peer listens; the port is 16515 unless one is given."},
    {OPTIONS_PEER_SECTION, "identity", OPTION_IDENTITY, "", "NAME", 1, 255,
     true, OF_PEER(identity),
     "What its certificate must carry as subject alternative name: a DNS name, "
     "an IP address or a URI."},
    {OPTIONS_PEER_SECTION, "allow", OPTION_ALLOW, "send receive", NULL, 0, 0,
     true, OF_PEER(allow),
     "What it may do with this host: send guests to it (send), receive guests "
     "from it (receive), name the paths of QMP sockets on it (name-paths), "
     "reach its libvirt (libvirt-control; not used yet). Nothing, if it is "
     "empty."},
};

const size_t options_count = sizeof(options_table) / sizeof(options_table[0]);

struct section_row {
    const char *name;
    const char *help;
};

static const struct section_row sections[] = {
    {"daemon", "The daemon itself."},
    {"listen", "The port for other hosts' daemons."},
    {"tls", "Certificates. Connections between hosts are always mutual TLS."},
    {"api", "The local API."},
    {"limits", "What this host's migrations may use."},
    {"qemu", "The QEMUs of this host."},
    {"migration", "Deadlines and buffers of a migration."},
    {OPTIONS_PEER_SECTION, "Another host, one section for each. Hosts that are "
                           "not named here cannot connect."},
};

const struct option_row *options_find(const char *section, const char *key)
{
    for (size_t i = 0; i < options_count; i++) {
        if (!strcmp(options_table[i].section, section) &&
            !strcmp(options_table[i].key, key)) {
            return &options_table[i];
        }
    }
    return NULL;
}

const char *options_section_help(const char *section)
{
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (!strcmp(sections[i].name, section)) {
            return sections[i].help;
        }
    }
    return NULL;
}

bool options_has_section(const char *section)
{
    return options_section_help(section) != NULL;
}

size_t options_index(const struct option_row *option)
{
    return (size_t)(option - options_table);
}

bool options_may_be_empty(const struct option_row *option)
{
    return !*option->default_text;
}

#define TEXT_OF(number) TEXT(number)
#define TEXT(number) #number
#define MAX_TEXT TEXT_OF(PATH_SOCKET_MAX)

/* Types whose words are always the same. */
static const char *const fixed_descriptions[OPTION_TYPES] = {
    [OPTION_RATE] = "a rate of at least 1 B/s (units: " PARSE_RATE_UNITS
                    ") or \"unlimited\"",
    [OPTION_SOCKET] =
        "the absolute path of a socket, at most " MAX_TEXT " bytes",
    [OPTION_SOCKET_TEMPLATE] =
        "the absolute path of a socket with {vm} in its last component",
    [OPTION_ADDRESS] = "an address (HOST, HOST:PORT, [IPV6] or [IPV6]:PORT, "
                       "ports from 1 to 65535)",
    [OPTION_IDENTITY] = "a DNS name without wildcards, an IP address or a URI",
    [OPTION_ALLOW] =
        "a list of \"send\", \"receive\", \"name-paths\", \"libvirt-control\"",
    [OPTION_LOG_LEVEL] = "error, warning, info or debug",
    [OPTION_USER] = "the name or number of a user of this system",
    [OPTION_GROUP] = "the name or number of a group of this system",
};

const char *options_describe(const struct option_row *option, char *buf,
                             size_t size)
{
    char low[32], high[32];

    switch (option->type) {
    case OPTION_NAME:
        snprintf(buf, size,
                 "a name of %s%" PRIu64 " characters of A-Z a-z 0-9 . _ -",
                 option->min ? "1 to " : "at most ", option->max);
        break;
    case OPTION_UINT:
        snprintf(buf, size, "a number from %" PRIu64 " to %" PRIu64,
                 option->min, option->max);
        break;
    case OPTION_MODE:
        snprintf(buf, size, "an octal number from 0 to 0%" PRIo64, option->max);
        break;
    case OPTION_SIZE:
        snprintf(buf, size,
                 "a size from %s to %s (units: " PARSE_SIZE_UNITS ")",
                 parse_format_size(option->min, low, sizeof(low)),
                 parse_format_size(option->max, high, sizeof(high)));
        break;
    case OPTION_DURATION:
        snprintf(
            buf, size, "a time from %s to %s (units: " PARSE_TIME_UNITS ")",
            parse_format_duration((mp_time)option->min, low, sizeof(low)),
            parse_format_duration((mp_time)option->max, high, sizeof(high)));
        break;
    case OPTION_DIRECTORY:
        snprintf(buf, size,
                 "an absolute directory of at most %" PRIu64 " bytes",
                 option->max);
        break;
    case OPTION_DIRECTORY_LIST:
    case OPTION_ADDRESS_LIST:
        snprintf(buf, size, "a list of %" PRIu64 " to %" PRIu64 " %s",
                 option->min, option->max,
                 option->type == OPTION_ADDRESS_LIST ? "addresses"
                                                     : "absolute directories");
        break;
    default:
        snprintf(buf, size, "%s", fixed_descriptions[option->type]);
    }
    return buf;
}
