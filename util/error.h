// SPDX-License-Identifier: BSD-3-Clause
/* Errors: a class that programs branch on and a text that people read.
 *
 * A function that can fail returns -1, NULL or false and fills the last
 * argument, a caller's struct error. The message is made where the cause is
 * known; callers put context in front with error_wrap(). err may be NULL. */
#ifndef UTIL_ERROR_H
#define UTIL_ERROR_H

#include <stdbool.h>

/* symbol, class as the API shows it (stable, documented), HTTP status */
#define ERROR_TABLE(X)                                                         \
    X(ERR_NONE, "none", 200)                                                   \
    X(ERR_INTERNAL, "internal", 500)                                           \
    X(ERR_NO_MEMORY, "no-memory", 503)                                         \
    X(ERR_IO, "io", 500)                                                       \
    X(ERR_CONFIG, "config", 500)                                               \
    X(ERR_BAD_REQUEST, "bad-request", 400)                                     \
    X(ERR_NOT_FOUND, "not-found", 404)                                         \
    X(ERR_CONFLICT, "conflict", 409)                                           \
    X(ERR_LIMIT, "limit", 429)                                                 \
    X(ERR_FORBIDDEN, "forbidden", 403)                                         \
    X(ERR_PATH_REFUSED, "path-refused", 422)                                   \
    X(ERR_TOO_LATE, "too-late", 409)                                           \
    X(ERR_UNSUPPORTED, "unsupported", 422)                                     \
    X(ERR_MISMATCH, "mismatch", 422)                                           \
    X(ERR_GUEST_STATE, "guest-state", 409)                                     \
    X(ERR_PEER_UNKNOWN, "peer-unknown", 422)                                   \
    X(ERR_PEER_UNREACHABLE, "peer-unreachable", 502)                           \
    X(ERR_PEER_REFUSED, "peer-refused", 502)                                   \
    X(ERR_TLS, "tls", 502)                                                     \
    X(ERR_PROTOCOL, "protocol", 502)                                           \
    X(ERR_LINK_LOST, "link-lost", 502)                                         \
    X(ERR_QMP, "qmp", 502)                                                     \
    X(ERR_QMP_UNREACHABLE, "qmp-unreachable", 502)                             \
    X(ERR_MONITOR_BUSY, "monitor-busy", 502)                                   \
    X(ERR_QEMU_FAILED, "qemu-failed", 502)                                     \
    X(ERR_QEMU_GONE, "qemu-gone", 502)                                         \
    X(ERR_TIMEOUT, "timeout", 504)                                             \
    X(ERR_CANCELLED, "cancelled", 409)                                         \
    X(ERR_SHUTTING_DOWN, "shutting-down", 503)                                 \
    X(ERR_DAEMON_RESTARTED, "daemon-restarted", 500)                           \
    X(ERR_DAEMON_UNREACHABLE, "daemon-unreachable", 502)

#define ERROR_ENUM(symbol, name, http) symbol,
enum error_code { ERROR_TABLE(ERROR_ENUM) ERROR_CODES };
#undef ERROR_ENUM

struct error {
    enum error_code code;
    char text[512]; /* always terminated; one line, no final full stop */
};

/* A struct error that holds nothing yet. */
#define ERROR_INIT                                                             \
    {                                                                          \
        .code = ERR_NONE                                                       \
    }

/* Sets code and text. Returns -1, so that "return error_set(...)" reads. */
int error_set(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set(), with ": strerror(errnum)" added to the text. */
int error_set_errno(struct error *err, enum error_code code, int errnum,
                    const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts context in front of the text: "CONTEXT: TEXT". Returns -1. */
int error_wrap(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Copies from into into (which may be NULL). Returns -1. */
int error_copy(struct error *into, const struct error *from);

static inline bool error_is_set(const struct error *err)
{
    return err->code != ERR_NONE;
}

/* The stable class name of a code, for instance "peer-unreachable". */
const char *error_class(enum error_code code);

/* The code of a class name; ERR_INTERNAL where the name is not known (a newer
 * peer may use classes this version does not have). */
enum error_code error_code_of_class(const char *name);

/* The HTTP status the API answers with for a code. */
int error_http_status(enum error_code code);

#endif
