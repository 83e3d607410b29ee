// SPDX-License-Identifier: BSD-3-Clause
/* The API: HTTP/1.1 and JSON on a unix socket. docs/openapi.yaml is its
 * contract, docs/api-errors.md lists the error classes.
 *
 * How it works
 *
 * It runs on the control loop and knows nothing of a migration's insides: it
 * checks requests and calls struct api_ops, whose members answer at once and
 * never block. A client that goes away changes nothing. The process must ignore
 * SIGPIPE. */
#ifndef PROXY_API_H
#define PROXY_API_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "proxy/api-member.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/parse.h"
#include "util/path.h"

struct json_object;
struct loop;

/* Limits, in bytes without the final NUL. */
#define API_MULTIFD_MAX 16
#define API_DOWNTIME_MS_MAX 60000
#define API_NOTE_MAX 500         /* of a person, about how it was settled */
#define API_SECONDS_MAX 604800   /* a week: timeout, postcopy after */
#define API_BODY_MAX (64 * 1024) /* of a request */
#define API_CONNECTIONS_MAX 256  /* further ones wait for one to end */

#define API_DOWNTIME_MS_DEFAULT 300

enum api_mode { API_MODE_AUTO, API_MODE_PRECOPY, API_MODE_POSTCOPY };
enum api_preempt { API_PREEMPT_AUTO, API_PREEMPT_ON, API_PREEMPT_OFF };
enum api_on_timeout {
    API_ON_TIMEOUT_ABORT,
    API_ON_TIMEOUT_POSTCOPY,
    API_ON_TIMEOUT_PAUSE
};

/* The words of the API for the three. */
const char *api_mode_name(enum api_mode mode);
const char *api_preempt_name(enum api_preempt preempt);
const char *api_on_timeout_name(enum api_on_timeout on_timeout);

/* What POST /v1/migrations asks for: checked, defaults filled in. Plain data,
 * copied by assignment. */
struct api_migrate {
    char id[ID_MAX + 1]; /* the client's, else made here; never empty */
    char vm[API_NAME_MAX + 1];
    char peer[API_NAME_MAX + 1];             /* "to" */
    char qmp_path[PATH_SOCKET_MAX + 1];      /* "": by template */
    char dest_qmp_path[PATH_SOCKET_MAX + 1]; /* "": by template there */
    enum api_mode mode;
    enum api_preempt preempt;
    unsigned multifd;              /* channels, 0: off */
    double postcopy_after_seconds; /* from the first pass's start; -1: none */
    uint64_t bandwidth_bytes_per_second; /* PARSE_UNLIMITED: no own cap */
    unsigned max_downtime_ms;
    double timeout_seconds; /* > 0, else -1: none */
    enum api_on_timeout on_timeout;
};

/* What PATCH /v1/migrations/ID changes. */
struct api_limits {
    bool has_bandwidth, has_max_downtime;
    uint64_t bandwidth_bytes_per_second; /* PARSE_UNLIMITED: no own cap */
    unsigned max_downtime_ms;
};

/* What POST /v1/migrations/ID/close says. */
struct api_close {
    char note[API_NOTE_MAX + 1]; /* "": none */
};

/* What POST /v1/incoming says: the QEMU at qmp_path waits for guest vm. */
struct api_incoming {
    char vm[API_NAME_MAX + 1];
    char uuid[API_UUID_SIZE + 1]; /* lower case; "": any */
    char qmp_path[PATH_SOCKET_MAX + 1];
};

/* True if both ask for the same (all members, the id too): a repeated request
 * with the same id is answered with the migration it began. */
bool api_migrate_is_equal(const struct api_migrate *a,
                          const struct api_migrate *b);

/* Each returns 0 and *ret_body (a reference the API puts), or -1 and *err,
 * which goes to the client as {"error":{"class","message","side"}} with
 * error_http_status(). All are called on the loop of api_params. id fits
 * ID_MAX and its characters. */
struct api_ops {
    /* POST /v1/migrations. *ret_created true: begun now (201, body: the
     * migration); false: this id was begun before by an equal request (200).
     * ERR_CONFLICT: the id with other parameters, or another migration of this
     * guest runs (the text names it). */
    int (*migrate)(void *arg, const struct api_migrate *migrate,
                   struct json_object **ret_body, bool *ret_created,
                   struct error *err);
    /* GET /v1/migrations: {"migrations":[...]} */
    int (*list)(void *arg, struct json_object **ret_body, struct error *err);
    /* GET /v1/migrations/ID, and the two orders on it, which answer with the
     * migration as it is after them. ERR_NOT_FOUND names the id; cancel of one
     * that has ended is a success, after the point of no return it is
     * ERR_TOO_LATE. */
    int (*show)(void *arg, const char *id, struct json_object **ret_body,
                struct error *err);
    int (*cancel)(void *arg, const char *id, struct json_object **ret_body,
                  struct error *err);
    int (*postcopy)(void *arg, const char *id, struct json_object **ret_body,
                    struct error *err);
    /* PATCH /v1/migrations/ID; the answer is the migration. ERR_TOO_LATE where
     * the limit has no effect any more, ERR_UNSUPPORTED at the destination. */
    int (*set)(void *arg, const char *id, const struct api_limits *limits,
               struct json_object **ret_body, struct error *err);
    /* POST /v1/migrations/ID/close: settled by a person; the answer is the
     * migration. ERR_CONFLICT where it is under way, ERR_TOO_LATE where it has
     * ended otherwise or was closed. */
    int (*close)(void *arg, const char *id, const struct api_close *close,
                 struct json_object **ret_body, struct error *err);
    /* POST /v1/incoming: takes the place of what was said of this guest before.
     * The answer has the id by which it is removed. */
    int (*add_incoming)(void *arg, const struct api_incoming *incoming,
                        struct json_object **ret_body, struct error *err);
    /* GET /v1/incoming: {"incoming":[...]} */
    int (*list_incoming)(void *arg, struct json_object **ret_body,
                         struct error *err);
    /* DELETE /v1/incoming/ID; the answer is what was removed. */
    int (*remove_incoming)(void *arg, const char *id,
                           struct json_object **ret_body, struct error *err);
    /* GET /v1/peers: {"peers":[...]} */
    int (*peers)(void *arg, struct json_object **ret_body, struct error *err);
    /* GET /v1/host: name, version, instance, limits */
    int (*host)(void *arg, struct json_object **ret_body, struct error *err);
    /* GET /metrics: the text into out. */
    int (*metrics)(void *arg, FILE *out, struct error *err);
};

struct api_params {
    struct loop *loop;
    const char *socket_path; /* see path_listen_socket() */
    unsigned socket_mode;    /* 0660 */
    gid_t socket_group;      /* (gid_t)-1: leave */
    /* A connection is closed (408) when a request is not complete this long
     * after its connection was made or the request before was answered, or when
     * an answer is not taken for as long. 0: the default, 10 s. */
    mp_time client_timeout;
    unsigned max_connections; /* 0: API_CONNECTIONS_MAX */
};

struct api;

/* Listens from now on. NULL and *err on failure. ops and arg must live until
 * api_free(). */
struct api *api_new(const struct api_params *params, const struct api_ops *ops,
                    void *arg, struct error *err);

/* Tells all who follow GET /v1/events, and keeps it for those who come back:
 * type is a word, object becomes its data (with "sequence" and "at" added; the
 * reference stays with the caller). */
void api_publish(struct api *api, const char *type, struct json_object *object);

/* The same, but only for those who follow now: it has no sequence number and is
 * not kept. For what is out of date a second later. */
void api_publish_passing(struct api *api, const char *type,
                         struct json_object *object);

/* Whether anybody follows the events. */
bool api_has_followers(const struct api *api);

/* Closes all connections and removes the socket. Not from within an op. NULL
 * is fine. */
void api_free(struct api *api);

#endif
