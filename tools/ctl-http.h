// SPDX-License-Identifier: BSD-3-Clause
/* Requests to a daemon's API over its unix socket, one at a time. */
#ifndef TOOLS_CTL_HTTP_H
#define TOOLS_CTL_HTTP_H

#include <stdbool.h>

#include "util/error.h"

struct json_object;
struct ctl_http;

/* socket_path is copied. NULL and *err on failure. */
struct ctl_http *ctl_http_new(const char *socket_path, struct error *err);
void ctl_http_free(struct ctl_http *http);

const char *ctl_http_socket_path(const struct ctl_http *http);

/* Sends a request (body NULL: none) and waits for the answer, 10 s at most.
 * Returns the HTTP status with the answer's JSON in *ret_answer (the caller's
 * to put), or -1 with *err: ERR_DAEMON_UNREACHABLE where nobody could be
 * asked,
 * ERR_LINK_LOST where the answer did not come (the daemon may have acted),
 * ERR_PROTOCOL where it is none of this API. */
int ctl_http_request(struct ctl_http *http, const char *method,
                     const char *path, struct json_object *body,
                     struct json_object **ret_answer, struct error *err);

/* One line of an endless answer, without its end. False ends it. */
typedef bool (*ctl_http_line_cb)(void *arg, const char *line);

/* Sends a GET whose answer has no end, with Last-Event-ID if that is not empty,
 * and gives its lines to cb. Returns 0 once cb has ended it, or -1 with *err:
 * as ctl_http_request(), ERR_LINK_LOST also where the daemon ends the answer or
 * is silent for 45 s. Any status but 200 is ERR_PROTOCOL with its number. */
int ctl_http_stream(struct ctl_http *http, const char *path,
                    const char *last_event_id, ctl_http_line_cb cb, void *arg,
                    struct error *err);

#endif
