// SPDX-License-Identifier: BSD-3-Clause
/* The configuration: reading, defaults, cross checks, look-ups. */
#include "conf/conf.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdarg.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "conf/ini.h"
#include "conf/options.h"
#include "conf/value.h"
#include "util/cleanup.h"
#include "util/path.h"

struct reader {
    struct conf *conf;
    const char *file;
    const char *section;    /* of the option table */
    struct conf_peer *peer; /* in a [peer] section */
    size_t peers_allocated;
    unsigned
        lines[CONF_OPTIONS_MAX]; /* where each option was set; 0 = not yet */
};

static bool is_peer_option(const struct option_row *option)
{
    return !strcmp(option->section, OPTIONS_PEER_SECTION);
}

/* Sets all options of base, a peer or the rest, to their defaults. */
static int set_defaults(void *base, bool of_peer, struct error *err)
{
    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        if (is_peer_option(option) == of_peer &&
            value_set(option, base, option->default_text, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static void free_values(void *base, bool of_peer)
{
    for (size_t i = 0; i < options_count; i++) {
        if (is_peer_option(&options_table[i]) == of_peer) {
            value_free(&options_table[i], base);
        }
    }
}

void conf_free(struct conf *conf)
{
    if (!conf) {
        return;
    }
    for (size_t i = 0; i < conf->peer_count; i++) {
        free_values(&conf->peers[i], true);
        free(conf->peers[i].name);
    }
    free(conf->peers);
    free_values(conf, false);
    free(conf->file);
    free(conf);
}

static void free_conf_ptr(struct conf **conf)
{
    conf_free(*conf);
}

/* --- reading ------------------------------------------------------------ */

static int grow_peers(struct reader *reader, struct error *err)
{
    struct conf *conf = reader->conf;

    if (conf->peer_count == CONF_PEERS_MAX) {
        return error_set(err, ERR_CONFIG, "more than %d peers", CONF_PEERS_MAX);
    }
    if (conf->peer_count == reader->peers_allocated) {
        size_t wanted =
            reader->peers_allocated ? 2 * reader->peers_allocated : 8;
        struct conf_peer *peers =
            reallocarray(conf->peers, wanted, sizeof(*peers));
        if (!peers) {
            return error_set(err, ERR_NO_MEMORY, "out of memory");
        }
        conf->peers = peers;
        reader->peers_allocated = wanted;
    }
    return 0;
}

static int start_peer(struct reader *reader, const char *name, unsigned line,
                      struct error *err)
{
    struct conf *conf = reader->conf;

    if (!value_is_name(name, CONF_PEER_NAME_MAX)) {
        return error_set(err, ERR_CONFIG,
                         "peer name \"%.80s\" is not 1 to %d characters of A-Z "
                         "a-z 0-9 . _ - (no \".\" or \"-\" at the start)",
                         name, CONF_PEER_NAME_MAX);
    }
    const struct conf_peer *other = conf_find_peer(conf, name);
    if (other) {
        return error_set(err, ERR_CONFIG,
                         "peer \"%s\" has a section already, in line %u", name,
                         other->line);
    }
    if (grow_peers(reader, err) < 0) {
        return -1;
    }
    struct conf_peer *peer = &conf->peers[conf->peer_count];
    *peer = (struct conf_peer){.name = strdup(name), .line = line};
    conf->peer_count++; /* from here on conf_free() releases it */
    if (!peer->name) {
        return error_set(err, ERR_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < options_count; i++) {
        if (is_peer_option(&options_table[i])) {
            reader->lines[i] = 0;
        }
    }
    reader->peer = peer;
    return set_defaults(peer, true, err);
}

static int on_section(void *arg, const char *section, const char *name,
                      unsigned line, struct error *err)
{
    struct reader *reader = arg;
    bool is_peer = !strcmp(section, OPTIONS_PEER_SECTION);

    reader->section = NULL;
    reader->peer = NULL;
    for (size_t i = 0; i < options_count; i++) {
        if (!strcmp(options_table[i].section, section)) {
            reader->section = options_table[i].section;
        }
    }
    if (!reader->section) {
        return error_set(err, ERR_CONFIG, "there is no section [%.80s]",
                         section);
    }
    if (is_peer != (name != NULL)) {
        return error_set(err, ERR_CONFIG, "section [%s] %s", section,
                         is_peer ? "needs the peer's name: [peer \"NAME\"]"
                                 : "takes no name");
    }
    return is_peer ? start_peer(reader, name, line, err) : 0;
}

static int on_value(void *arg, const char *key, const char *value,
                    unsigned line, struct error *err)
{
    struct reader *reader = arg;
    const struct option_row *option = options_find(reader->section, key);

    if (!option) {
        return error_set(err, ERR_CONFIG, "section [%s] has no option %.80s",
                         reader->section, key);
    }
    unsigned *set_in = &reader->lines[options_index(option)];
    if (*set_in) {
        return error_set(err, ERR_CONFIG, "%s.%s is set already, in line %u",
                         option->section, key, *set_in);
    }
    *set_in = line;
    return value_set(option, reader->peer ? (void *)reader->peer : reader->conf,
                     value, err);
}

/* --- what needs all of the file ----------------------------------------- */

int conf_wrap(const struct conf *conf, const char *section, const char *key,
              struct error *err)
{
    unsigned line = conf->lines[options_index(options_find(section, key))];

    return line ? error_wrap(err, "%.200s:%u: %s.%s", conf->file, line, section,
                             key)
                : error_wrap(err, "%.200s: %s.%s (default)", conf->file,
                             section, key);
}

/* As conf_wrap(), for what is found while reading. */
static int wrap_option(const struct conf *conf, const char *section,
                       const char *key, struct error *err)
{
    if (err && err->code != ERR_NO_MEMORY) {
        err->code = ERR_CONFIG;
    }
    return conf_wrap(conf, section, key, err);
}

/* Replaces an empty text. */
static int fill_text(char **text, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fill_text(char **text, struct error *err, const char *format, ...)
{
    va_list args;
    char *filled;

    if (**text) {
        return 0;
    }
    va_start(args, format);
    int n = vasprintf(&filled, format, args);
    va_end(args);
    if (n < 0) {
        return error_set(err, ERR_NO_MEMORY, "out of memory");
    }
    free(*text);
    *text = filled;
    return 0;
}

static int fill_name(struct conf *conf, struct error *err)
{
    char host[256] = "";

    if (*conf->name) {
        return 0;
    }
    gethostname(host, sizeof(host) - 1);
    if (!value_is_name(host, CONF_PEER_NAME_MAX)) {
        error_set(err, ERR_CONFIG,
                  "the host's name \"%s\" cannot be used (1 to %d characters "
                  "of A-Z a-z 0-9 . _ -): set one",
                  host, CONF_PEER_NAME_MAX);
        return wrap_option(conf, "daemon", "name", err);
    }
    return fill_text(&conf->name, err, "%s", host);
}

/* Whether path lies directly in dir. */
static bool is_in_dir(const char *path, const char *dir)
{
    size_t length = (size_t)(strrchr(path, '/') - path);
    return strlen(dir) == length && !memcmp(path, dir, length);
}

static int check_paths(struct conf *conf, struct error *err)
{
    CLEANUP_FREE char *example = NULL; /* the shortest there can be */

    if (fill_text(&conf->api_socket, err, "%s/api.sock", conf->run_dir) < 0 ||
        fill_text(&conf->qmp_path, err, "%s/{vm}.qmp",
                  conf->socket_dirs.items[0]) < 0) {
        return -1;
    }
    if (path_expand_vm(conf->qmp_path, "x", &example, err) < 0) {
        return wrap_option(conf, "qemu", "qmp-path", err);
    }
    for (size_t i = 0; i < conf->socket_dirs.count; i++) {
        if (is_in_dir(conf->qmp_path, conf->socket_dirs.items[i])) {
            return 0;
        }
    }
    error_set(err, ERR_CONFIG,
              "\"%s\" is not directly in one of qemu.socket-dirs",
              conf->qmp_path);
    return wrap_option(conf, "qemu", "qmp-path", err);
}

/* A name that cannot stand for what was not set. */
static int refuse_default(const struct reader *reader,
                          const struct conf_peer *peer, const char *key,
                          struct error *err)
{
    return error_set(err, ERR_CONFIG,
                     "%.200s:%u: peer \"%s\" needs %s: its name cannot stand "
                     "for it",
                     reader->file, peer->line, peer->name, key);
}

static int check_peer(const struct reader *reader, struct conf_peer *peer,
                      struct error *err)
{
    const struct conf *conf = reader->conf;

    if (!*peer->identity && !value_is_identity(peer->name)) {
        return refuse_default(reader, peer, "identity", err);
    }
    if (fill_text(&peer->address, err, "%s", peer->name) < 0 ||
        fill_text(&peer->identity, err, "%s", peer->name) < 0) {
        return -1;
    }
    for (const struct conf_peer *other = conf->peers; other < peer; other++) {
        if (conf_is_same_identity(other->identity, peer->identity)) {
            return error_set(err, ERR_CONFIG,
                             "%.200s:%u: peer \"%s\" has the identity \"%s\" "
                             "of peer \"%s\" (line %u)",
                             reader->file, peer->line, peer->name,
                             peer->identity, other->name, other->line);
        }
    }
    return 0;
}

static int finish(const struct reader *reader, struct error *err)
{
    struct conf *conf = reader->conf;

    memcpy(conf->lines, reader->lines, sizeof(conf->lines));
    if (fill_name(conf, err) < 0 || check_paths(conf, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < conf->peer_count; i++) {
        if (check_peer(reader, &conf->peers[i], err) < 0) {
            return -1;
        }
    }
    return 0;
}

struct conf *conf_parse_text(const char *text, size_t length, const char *file,
                             struct error *err)
{
    static const struct ini_ops ops = {.on_section = on_section,
                                       .on_value = on_value};
    CLEANUP(free_conf_ptr) struct conf *conf = calloc(1, sizeof(*conf));
    struct reader reader = {.conf = conf, .file = file};

    assert(options_count <= CONF_OPTIONS_MAX);
    if (!conf || !(conf->file = strdup(file))) {
        error_set(err, ERR_NO_MEMORY, "%.200s: out of memory", file);
        return NULL;
    }
    if (set_defaults(conf, false, err) < 0 ||
        ini_read(text, length, file, &ops, &reader, err) < 0 ||
        finish(&reader, err) < 0) {
        return NULL;
    }
    return steal_ptr(&conf);
}

/* --- files -------------------------------------------------------------- */

/* Reads up to size bytes. -1 and errno. */
static ssize_t read_all(int fd, char *buf, size_t size)
{
    size_t used = 0;

    while (used < size) {
        ssize_t n = read(fd, buf + used, size - used);
        if (n == 0) {
            break;
        }
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        used += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)used;
}

struct conf *conf_load(const char *path, struct error *err)
{
    CLEANUP_FREE char *text = malloc(CONF_FILE_MAX + 1);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (!text) {
        error_set(err, ERR_NO_MEMORY, "%.200s: out of memory", path);
        return NULL;
    }
    ssize_t length = fd < 0 ? -1 : read_all(fd, text, CONF_FILE_MAX + 1);
    if (length < 0) {
        error_set_errno(err, ERR_IO, errno, "reading the configuration %.200s",
                        path);
        return NULL;
    }
    if (length > CONF_FILE_MAX) {
        error_set(err, ERR_CONFIG, "%.200s: the file has more than %d bytes",
                  path, CONF_FILE_MAX);
        return NULL;
    }
    return conf_parse_text(text, (size_t)length, path, err);
}

/* --- look-ups ----------------------------------------------------------- */

const struct conf_peer *conf_find_peer(const struct conf *conf,
                                       const char *name)
{
    for (size_t i = 0; i < conf->peer_count; i++) {
        if (!strcmp(conf->peers[i].name, name)) {
            return &conf->peers[i];
        }
    }
    return NULL;
}

const struct conf_peer *conf_find_identity(const struct conf *conf,
                                           const char *identity)
{
    for (size_t i = 0; i < conf->peer_count; i++) {
        if (conf_is_same_identity(conf->peers[i].identity, identity)) {
            return &conf->peers[i];
        }
    }
    return NULL;
}

/* The address as IPv6, IPv4 mapped into it. False if text is none. */
static bool read_ip(const char *text, struct in6_addr *ret_ip)
{
    struct in_addr v4;

    if (inet_pton(AF_INET, text, &v4) == 1) {
        *ret_ip = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(ret_ip->s6_addr + 12, &v4, sizeof(v4));
        return true;
    }
    return inet_pton(AF_INET6, text, ret_ip) == 1;
}

bool conf_is_same_identity(const char *a, const char *b)
{
    struct in6_addr ip_a, ip_b;
    bool is_ip_a = read_ip(a, &ip_a), is_ip_b = read_ip(b, &ip_b);

    if (is_ip_a || is_ip_b) {
        return is_ip_a && is_ip_b && !memcmp(&ip_a, &ip_b, sizeof(ip_a));
    }
    /* what has a colon and is no address is a URI: its path has case */
    return strchr(a, ':') ? !strcmp(a, b) : !strcasecmp(a, b);
}

size_t conf_needs_restart(const struct conf *from, const struct conf *to,
                          char *buf, size_t size)
{
    size_t count = 0, used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        if (option->reloadable || value_is_equal(option, from, to)) {
            continue;
        }
        if (used < size) {
            used += (size_t)snprintf(buf + used, size - used, "%s%s.%s",
                                     count ? ", " : "", option->section,
                                     option->key);
        }
        count++;
    }
    if (used >= size && size > 3) {
        memcpy(buf + size - 4, "...", 4);
    }
    return count;
}

int conf_keep_started(struct conf *to, const struct conf *from,
                      struct error *err)
{
    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        if (!option->reloadable && !is_peer_option(option) &&
            value_copy(option, to, from, err) < 0) {
            return -1;
        }
    }
    return 0;
}
