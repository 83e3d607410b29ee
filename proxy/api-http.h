// SPDX-License-Identifier: BSD-3-Clause
/* The head of an HTTP/1.1 request, read strictly. Pure.
 *
 * Why not evhttp (measured with libevent 2.1.12): it answers a request it
 * cannot read with an HTML page, takes two Content-Length headers, has no limit
 * on connections, and its timeout starts anew with each byte, so that a client
 * which sends one byte a second holds a connection for ever. */
#ifndef PROXY_API_HTTP_H
#define PROXY_API_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

#define API_HTTP_HEAD_MAX (16 * 1024) /* request line and headers */
#define API_HTTP_TARGET_MAX 1024
#define API_HTTP_QUERY_MAX 128
#define API_HTTP_HEADERS_MAX 64 /* their number */

enum api_http_method {
    API_HTTP_GET,
    API_HTTP_POST,
    API_HTTP_PATCH,
    API_HTTP_DELETE,
    API_HTTP_OTHER,
};

struct api_http_head {
    enum api_http_method method;
    char method_name[16];                 /* cut to fit */
    char target[API_HTTP_TARGET_MAX + 1]; /* without the query */
    bool has_query;
    char query[API_HTTP_QUERY_MAX + 1]; /* what followed "?" */
    char last_event_id[24]; /* the header Last-Event-ID, cut to fit; else "" */
    size_t size;            /* of the head, with its empty line */
    size_t body_bytes;      /* that follow it */
    bool keep_alive;
    bool expects_continue; /* waits for "100 Continue" */
    bool has_type;         /* Content-Type is there ... */
    bool is_json;          /* ... and is application/json */
};

/* Reads the head of a request from the start of size bytes. Returns 1 and
 * *ret_head; 0 if its end is not among them yet; or -1 with *ret_status (an
 * HTTP status) and *err: 400 form, 411 chunked, 413 a body above body_max, 414
 * target, 417 Expect, 431 head too large, 505 version. After -1 nothing that
 * follows on the connection can be believed. */
int api_http_parse(const char *bytes, size_t size, size_t body_max,
                   struct api_http_head *ret_head, int *ret_status,
                   struct error *err);

/* "GET"; "" for API_HTTP_OTHER. */
const char *api_http_method_name(enum api_http_method method);

/* "Not Found" for 404; "Unknown" for what the API does not use. */
const char *api_http_reason(int status);

#endif
