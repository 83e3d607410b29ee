// SPDX-License-Identifier: BSD-3-Clause
/* Whether this host is as its configuration says. */
#include "proxy/conf-check.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "transport/tls.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/path.h"
#include "util/sock.h"

static int refuse(const struct conf *conf, const char *section, const char *key,
                  struct error *err)
{
    err->code = ERR_CONFIG;
    return conf_wrap(conf, section, key, err);
}

struct tls *conf_check_tls(const struct conf *conf, struct error *err)
{
    struct tls *tls = tls_load(conf->tls_dir, err);

    if (!tls) {
        conf_wrap(conf, "tls", "dir", err);
    }
    return tls;
}

/* Root may write to all directories of these, and still make nothing there. */
static int check_file_system(const char *dir, struct error *err)
{
    struct statfs fs;

    if (statfs(dir, &fs)) {
        return error_set_errno(err, ERR_CONFIG, errno, "directory \"%s\"", dir);
    }
    if (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC) {
        return error_set(err, ERR_CONFIG,
                         "\"%s\" is the kernel's own (%s): nothing can be made "
                         "in it",
                         dir, fs.f_type == SYSFS_MAGIC ? "sysfs" : "proc");
    }
    return 0;
}

/* A directory that is there, or whose parent is. *ret_exists says which. */
static int check_directory(const char *path, bool *ret_exists,
                           struct error *err)
{
    struct stat st;
    CLEANUP_FREE char *parent = strdup(path);

    if (!parent) {
        return error_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *ret_exists = !stat(path, &st);
    if (!*ret_exists && errno == ENOENT) {
        char *slash = strrchr(parent, '/');
        slash[slash == parent] = '\0'; /* "/" stays */
        if (access(parent, W_OK | X_OK)) {
            return error_set_errno(err, ERR_CONFIG, errno,
                                   "making \"%s\" in \"%s\"", path, parent);
        }
        return check_file_system(parent, err);
    }
    if (*ret_exists && !S_ISDIR(st.st_mode)) {
        return error_set(err, ERR_CONFIG, "\"%s\" is not a directory", path);
    }
    if (!*ret_exists || access(path, R_OK | W_OK | X_OK)) {
        return error_set_errno(err, ERR_CONFIG, errno, "directory \"%s\"",
                               path);
    }
    return check_file_system(path, err);
}

static bool is_in_dir(const char *path, const char *dir)
{
    size_t length = (size_t)(strrchr(path, '/') - path);
    return strlen(dir) == length && !memcmp(path, dir, length);
}

static int check_listen(const struct conf *conf, struct error *err)
{
    struct sock_address addresses[CONF_LIST_MAX];

    for (size_t i = 0; i < conf->listen.count; i++) {
        if (sock_parse_address(conf->listen.items[i], CONF_DEFAULT_PORT,
                               &addresses[i], err) ||
            sock_check_listen(&addresses[i], err)) {
            return -1;
        }
        for (size_t j = 0; j < i; j++) {
            if (sock_is_same_listen(&addresses[j], &addresses[i])) {
                return error_set(err, ERR_CONFIG,
                                 "\"%.80s\" (%s) and \"%.80s\" (%s) are in "
                                 "each other's way: one takes what the other "
                                 "would listen on",
                                 conf->listen.items[j], addresses[j].text,
                                 conf->listen.items[i], addresses[i].text);
            }
        }
    }
    return 0;
}

/* Whether this process may give a socket of its own to the group, found out by
 * giving it a file that has no name. */
static int check_group(gid_t group, struct error *err)
{
    CLEANUP_FD int fd = group == CONF_NO_GROUP
                            ? -1
                            : memfd_create("migproxy-group", MFD_CLOEXEC);

    if (fd >= 0 && fchown(fd, (uid_t)-1, group)) {
        return error_set_errno(err, ERR_CONFIG, errno,
                               "giving a socket to group %u, of which user %u "
                               "is no member",
                               (unsigned)group, (unsigned)geteuid());
    }
    return 0;
}

int conf_check_start(const struct conf *conf, struct error *err)
{
    struct error why = ERROR_INIT;
    bool exists;

    if (check_directory(conf->state_dir, &exists, &why)) {
        refuse(conf, "daemon", "state-dir", &why);
    } else if (check_directory(conf->run_dir, &exists, &why)) {
        refuse(conf, "daemon", "run-dir", &why);
    } else if ((exists || !is_in_dir(conf->api_socket, conf->run_dir)) &&
               path_check_listen(conf->api_socket, &why)) {
        refuse(conf, "api", "socket", &why);
    } else if (check_group(conf->api_group, &why)) {
        refuse(conf, "api", "group", &why);
    } else if (check_listen(conf, &why)) {
        refuse(conf, "listen", "address", &why);
    } else {
        return conf_check_reload(conf, err);
    }
    return error_copy(err, &why);
}

int conf_check_reload(const struct conf *conf, struct error *err)
{
    struct error why = ERROR_INIT;

    if (*conf->congestion && sock_check_congestion(conf->congestion, &why)) {
        refuse(conf, "migration", "congestion", &why);
    } else if (check_group(conf->socket_group, &why)) {
        refuse(conf, "qemu", "socket-group", &why);
    } else {
        return 0;
    }
    return error_copy(err, &why);
}

static void warn_of_buffer(const struct conf *conf, conf_check_cb cb)
{
    uint64_t memory_bytes =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct error err = ERROR_INIT;
    char buffer[32], memory[32];

    if (conf->switchover_buffer_bytes < memory_bytes) {
        return;
    }
    error_set(&err, ERR_CONFIG,
              "%s are not less than the memory of this host, %s; until that is "
              "put right no guest can be moved",
              parse_format_size(conf->switchover_buffer_bytes, buffer,
                                sizeof(buffer)),
              parse_format_size(memory_bytes, memory, sizeof(memory)));
    conf_wrap(conf, "migration", "switchover-buffer", &err);
    cb(err.text);
}

static bool is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

static void warn_of_tls(const struct conf *conf, conf_check_cb cb)
{
    static const char *const keys[] = {"server-key.pem", "client-key.pem"};
    struct error err = ERROR_INIT;
    struct stat st;

    if (!stat(conf->tls_dir, &st) && (st.st_mode & (S_IWGRP | S_IWOTH))) {
        error_set(&err, ERR_CONFIG,
                  "\"%.200s\" is open to %s (mode %04o): whoever may write to "
                  "it says whom this host trusts",
                  conf->tls_dir,
                  st.st_mode & S_IWOTH ? "everyone" : "its group",
                  (unsigned)st.st_mode & 07777);
        conf_wrap(conf, "tls", "dir", &err);
        cb(err.text);
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char path[1200]; /* the option's limit is 1024 */
        snprintf(path, sizeof(path), "%s/%s", conf->tls_dir, keys[i]);
        if (!stat(path, &st) && !is_ours(&st)) {
            error_set(&err, ERR_CONFIG,
                      "private key \"%.200s\" belongs to user %u, neither "
                      "root nor user %u that reads it",
                      path, (unsigned)st.st_uid, (unsigned)geteuid());
            conf_wrap(conf, "tls", "dir", &err);
            cb(err.text);
        }
    }
}

static void warn_of_self(const struct conf *conf, conf_check_cb cb)
{
    const struct conf_peer *self = conf_find_peer(conf, conf->name);
    struct error err = ERROR_INIT;

    if (self) {
        error_set(&err, ERR_CONFIG,
                  "%.200s:%u: peer \"%s\" has the name of this host "
                  "(daemon.name): what is sent to it would come back here",
                  conf->file, self->line, self->name);
        cb(err.text);
    }
}

void conf_check_warn(const struct conf *conf, conf_check_cb cb)
{
    warn_of_tls(conf, cb);
    warn_of_self(conf, cb);
    for (size_t i = 0; i < conf->socket_dirs.count; i++) {
        struct error err = ERROR_INIT;
        char text[sizeof(err.text) + 80];
        if (path_check_directory(conf->socket_dirs.items[i], &err)) {
            conf_wrap(conf, "qemu", "socket-dirs", &err);
            snprintf(text, sizeof(text),
                     "%s; until that is put right no guest in it can be moved",
                     err.text);
            cb(text);
        }
    }
    warn_of_buffer(conf, cb);
}

void conf_check_warn_peers(const struct conf *conf, conf_check_cb cb)
{
    mp_time began = clock_now();

    for (size_t i = 0; i < conf->peer_count; i++) {
        const struct conf_peer *peer = &conf->peers[i];
        struct sock_address address;
        struct error err = ERROR_INIT;
        if (sock_parse_address(peer->address, CONF_DEFAULT_PORT, &address,
                               &err)) {
            error_wrap(&err, "%.200s:%u: peer \"%s\"", conf->file, peer->line,
                       peer->name);
            cb(err.text);
        }
        if (clock_now() - began > CONF_CHECK_RESOLVE_TIME &&
            i + 1 < conf->peer_count) {
            error_set(&err, ERR_TIMEOUT,
                      "%.200s: names are looked up too slowly, the addresses "
                      "of the peers from \"%s\" on were not",
                      conf->file, conf->peers[i + 1].name);
            cb(err.text);
            return;
        }
    }
}
