// SPDX-License-Identifier: BSD-3-Clause
/* Requests to a daemon's API over its unix socket. */
#include "tools/ctl-http-private.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"

#define REQUEST_TIMEOUT_MS 10000L
#define CONNECT_TIMEOUT_MS 5000L
#define ANSWER_BYTES_MAX (16 * 1024 * 1024)

static size_t write_cb(char *bytes, size_t unit, size_t count, void *arg)
{
    struct ctl_http *http = arg;
    size_t size = unit * count;

    if (http->size + size > http->capacity) {
        size_t capacity = (http->size + size) * 2;
        char *bigger = http->size + size > ANSWER_BYTES_MAX
                           ? NULL
                           : realloc(http->answer, capacity);
        if (!bigger) {
            return 0; /* ends the transfer with an error */
        }
        http->answer = bigger;
        http->capacity = capacity;
    }
    memcpy(http->answer + http->size, bytes, size);
    http->size += size;
    return size;
}

void ctl_http_set_options(struct ctl_http *http)
{
    CURL *curl = http->curl;

    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, http->socket_path);
    /* a proxy from the environment is not for us */
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* an id may be ".." */
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, REQUEST_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, http->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write_cb);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, http);
}

struct ctl_http *ctl_http_new(const char *socket_path, struct error *err)
{
    struct ctl_http *http = calloc(1, sizeof(*http));

    if (http && (http->socket_path = strdup(socket_path)) &&
        (http->headers =
             curl_slist_append(NULL, "Content-Type: application/json")) &&
        (http->curl = curl_easy_init())) {
        ctl_http_set_options(http);
        return http;
    }
    error_set(err, ERR_NO_MEMORY, "out of memory for the API");
    ctl_http_free(http);
    return NULL;
}

void ctl_http_free(struct ctl_http *http)
{
    if (!http) {
        return;
    }
    if (http->curl) {
        curl_easy_cleanup(http->curl);
    }
    curl_slist_free_all(http->headers);
    free(http->socket_path);
    free(http->answer);
    free(http);
}

const char *ctl_http_socket_path(const struct ctl_http *http)
{
    return http->socket_path;
}

int ctl_http_set_curl_error(struct ctl_http *http, CURLcode code,
                            struct error *err)
{
    long errnum = 0;

    curl_easy_getinfo(http->curl, CURLINFO_OS_ERRNO, &errnum);
    if (code == CURLE_COULDNT_CONNECT && errnum) {
        return error_set_errno(err, ERR_DAEMON_UNREACHABLE, (int)errnum,
                               "no daemon answers at %s (is migproxy running?)",
                               http->socket_path);
    }
    if (code == CURLE_WRITE_ERROR) {
        return error_set(err, ERR_PROTOCOL,
                         "the answer at %s has more than %d bytes",
                         http->socket_path, ANSWER_BYTES_MAX);
    }
    return error_set(err,
                     code == CURLE_COULDNT_CONNECT ||
                             code == CURLE_COULDNT_RESOLVE_HOST
                         ? ERR_DAEMON_UNREACHABLE
                         : ERR_LINK_LOST,
                     "no answer from the daemon at %s: %s", http->socket_path,
                     curl_easy_strerror(code));
}

/* The answer's bytes as a JSON object; NULL if they are none. */
static struct json_object *parse_answer(const struct ctl_http *http)
{
    struct json_tokener *tok = json_tokener_new();
    struct json_object *answer = NULL;

    if (tok && http->size > 0 && http->size < INT_MAX) {
        answer = json_tokener_parse_ex(tok, http->answer, (int)http->size);
        if (!json_object_is_type(answer, json_type_object)) {
            json_object_put(answer);
            answer = NULL;
        }
    }
    if (tok) {
        json_tokener_free(tok);
    }
    return answer;
}

int ctl_http_request(struct ctl_http *http, const char *method,
                     const char *path, struct json_object *body,
                     struct json_object **ret_answer, struct error *err)
{
    const char *text = body ? json_object_to_json_string(body) : "";
    long status = 0;
    CLEANUP_FREE char *url = NULL;

    if (!text || asprintf(&url, "http://localhost%s", path) < 0) {
        url = NULL;
        return error_set(err, ERR_NO_MEMORY, "out of memory for a request");
    }
    if (!strcmp(method, "GET")) {
        curl_easy_setopt(http->curl, CURLOPT_HTTPGET, 1L);
    } else {
        curl_easy_setopt(http->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(text));
        curl_easy_setopt(http->curl, CURLOPT_COPYPOSTFIELDS, text);
    }
    curl_easy_setopt(http->curl, CURLOPT_CUSTOMREQUEST,
                     strcmp(method, "GET") ? method : NULL);
    curl_easy_setopt(http->curl, CURLOPT_URL, url);
    http->size = 0;
    CURLcode code = curl_easy_perform(http->curl);
    if (code != CURLE_OK) {
        return ctl_http_set_curl_error(http, code, err);
    }
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
    struct json_object *answer = parse_answer(http);
    if (!answer || status <= 0) {
        json_object_put(answer);
        return error_set(err, ERR_PROTOCOL,
                         "what answers at %s is no migproxy API (HTTP status "
                         "%ld)",
                         http->socket_path, status);
    }
    *ret_answer = answer;
    return (int)status;
}
