// SPDX-License-Identifier: BSD-3-Clause
/* The configuration: what migproxy.conf says, as typed values.
 *
 * Everything about an option (default, limits, help) stands in the table in
 * conf/options.c. A struct conf is built once and then only read; a reload
 * builds another one. Names are not looked up here (except users and groups):
 * addresses stay text for whoever opens sockets. */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "util/clock.h"
#include "util/error.h"

#define CONF_DEFAULT_FILE "/etc/migproxy/migproxy.conf"
#define CONF_DEFAULT_PORT 16515

/* Limits. A file above CONF_FILE_MAX bytes is refused. */
#define CONF_FILE_MAX (1024 * 1024)
#define CONF_PEERS_MAX 1024
#define CONF_PEER_NAME_MAX 63
#define CONF_LIST_MAX 16
/* More options than there are. */
#define CONF_OPTIONS_MAX 64
/* Room that [daemon] run-dir leaves for "/NAME" of a socket made in it. */
#define CONF_RUN_NAME_MAX 48

/* Options that name nobody. */
#define CONF_NO_GROUP ((gid_t)-1)
#define CONF_NO_USER ((uid_t)-1)

/* What a peer may do with this host. */
enum conf_allow {
    CONF_ALLOW_SEND = 1 << 0,            /* send guests to us */
    CONF_ALLOW_RECEIVE = 1 << 1,         /* receive guests from us */
    CONF_ALLOW_NAME_PATHS = 1 << 2,      /* name QMP paths of this host */
    CONF_ALLOW_LIBVIRT_CONTROL = 1 << 3, /* reach libvirt's control socket */
};

struct conf_list {
    char **items;
    size_t count;
};

/* [peer "NAME"] */
struct conf_peer {
    char *name;
    char *address;  /* "HOST", "HOST:PORT", ...: see parse_host_port() */
    char *identity; /* DNS name, IP address or URI in its certificate */
    unsigned allow; /* of enum conf_allow */
    unsigned line;  /* where its section starts, for messages */
};

struct conf {
    /* [daemon] */
    char *name; /* this host's, never empty */
    char *run_dir;
    char *state_dir;
    int log_level; /* enum log_level of util/log.h */

    /* [listen] */
    struct conf_list listen; /* at least one address, as in conf_peer */

    /* [tls] */
    char *tls_dir;

    /* [api] */
    char *api_socket; /* never empty */
    unsigned api_mode;
    gid_t api_group; /* or CONF_NO_GROUP */

    /* [limits] */
    uint64_t bandwidth_bytes_per_second; /* or PARSE_UNLIMITED */
    uint64_t pool_bytes;                 /* 0: pages are not reordered */
    unsigned sessions;
    unsigned peer_connections;
    unsigned records;

    /* [qemu] */
    struct conf_list socket_dirs; /* without "/" at the end */
    char *qmp_path;               /* a template with {vm} */
    gid_t socket_group;           /* or CONF_NO_GROUP */
    uid_t qemu_user; /* or CONF_NO_USER = PATH_OWNER_ROOT_OR_SELF */

    /* [migration] */
    mp_time hold_time;
    mp_time switchover_hold;
    uint64_t switchover_buffer_bytes;
    mp_time connect_timeout;
    mp_time qmp_timeout;
    mp_time qmp_greeting;
    mp_time setup_timeout;
    mp_time switchover_timeout;
    mp_time commit_timeout;
    mp_time cancel_timeout;
    char *congestion; /* "" = the system's */

    /* [peer "NAME"], in the file's order */
    struct conf_peer *peers;
    size_t peer_count;

    /* for messages, see conf_wrap() */
    char *file;
    unsigned lines[CONF_OPTIONS_MAX]; /* by options_index(); 0: not set */
};

/* Reads and checks the file at path. NULL and *err on failure: ERR_CONFIG with
 * "FILE:LINE: SECTION.KEY: "VALUE" is not ...", or ERR_IO if it cannot be
 * read. Free with conf_free(). Asks the system's user data base, so one thread
 * at a time. */
struct conf *conf_load(const char *path, struct error *err);

/* As conf_load() for length bytes of text; file is what errors call it. An
 * empty text gives the defaults. */
struct conf *conf_parse_text(const char *text, size_t length, const char *file,
                             struct error *err);

/* NULL is fine. */
void conf_free(struct conf *conf);

/* Puts the option's place in front of *err, whose code stays: "FILE:LINE:
 * SECTION.KEY: ", or "FILE: SECTION.KEY (default): " where it is not set. For
 * what is wrong with a value that only its use shows. Not for options of peers.
 * Returns -1. */
int conf_wrap(const struct conf *conf, const char *section, const char *key,
              struct error *err);

/* The peer of that name, or NULL. */
const struct conf_peer *conf_find_peer(const struct conf *conf,
                                       const char *name);

/* The peer whose certificate carries identity (one subject alternative name as
 * text), or NULL. DNS names compare without case, IP addresses as numbers, URIs
 * byte by byte. */
const struct conf_peer *conf_find_identity(const struct conf *conf,
                                           const char *identity);

/* Whether two identities are the same, compared as above. */
bool conf_is_same_identity(const char *a, const char *b);

/* Whether going from one configuration to another needs a restart: writes
 * the options that differ and cannot be reloaded into buf ("daemon.run-dir,
 * api.mode"; cut with "..." if it does not fit) and returns their number. */
size_t conf_needs_restart(const struct conf *from, const struct conf *to,
                          char *buf, size_t size);

/* Makes to hold what from does in each option that cannot be reloaded, so that
 * what has begun with from goes on with it; to->lines stay those of its file.
 * -1 without memory: then to is good for nothing but conf_free(). */
int conf_keep_started(struct conf *to, const struct conf *from,
                      struct error *err);

/* The commented sample file, made from the option table. */
void conf_sample(FILE *out);

/* The options for people at a terminal, made from the option table. */
void conf_help(FILE *out);

#endif
