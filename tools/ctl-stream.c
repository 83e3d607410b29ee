// SPDX-License-Identifier: BSD-3-Clause
/* An endless answer of the API, line by line. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ctl-http-private.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define SILENCE_TIME                                                           \
    (45 * MP_SECOND) /* the daemon says something every 15 s                   \
                      */
#define LINE_BYTES_MAX (4 * 1024 * 1024)

struct stream {
    ctl_http_line_cb cb;
    void *arg;
    char *line; /* what has come of it */
    size_t size;
    mp_time heard_at;
    bool is_over; /* cb has said so */
    bool is_too_long;
};

/* Gives on the line that is complete. False ends the transfer. */
static bool end_line(struct stream *stream)
{
    if (stream->size > 0 && stream->line[stream->size - 1] == '\r') {
        stream->size--;
    }
    stream->line[stream->size] = '\0';
    stream->size = 0;
    stream->is_over = !stream->cb(stream->arg, stream->line);
    return !stream->is_over;
}

static size_t write_cb(char *bytes, size_t unit, size_t count, void *arg)
{
    struct stream *stream = arg;
    size_t size = unit * count;

    stream->heard_at = clock_now();
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') {
            if (!end_line(stream)) {
                return 0;
            }
        } else if (stream->size + 1 < LINE_BYTES_MAX) {
            stream->line[stream->size++] = bytes[i];
        } else {
            stream->is_too_long = true;
            return 0;
        }
    }
    return size;
}

static int silence_cb(void *arg, curl_off_t a, curl_off_t b, curl_off_t c,
                      curl_off_t d)
{
    struct stream *stream = arg;
    return clock_now() - stream->heard_at > SILENCE_TIME;
}

static void set_options(CURL *curl, const char *url, struct curl_slist *headers,
                        struct stream *stream)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, NULL);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 0L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write_cb);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, stream);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, silence_cb);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, stream);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

static int set_error(struct ctl_http *http, const struct stream *stream,
                     CURLcode code, struct error *err)
{
    long status = 0;

    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
    if (stream->is_too_long) {
        return error_set(err, ERR_PROTOCOL, "a line of more than %d bytes",
                         LINE_BYTES_MAX);
    }
    if (code == CURLE_HTTP_RETURNED_ERROR) {
        return error_set(err, ERR_PROTOCOL,
                         "the daemon at %s refuses to tell events (HTTP status "
                         "%ld)",
                         http->socket_path, status);
    }
    if (code == CURLE_OK) {
        return error_set(err, ERR_LINK_LOST,
                         "the daemon at %s ended the stream of events",
                         http->socket_path);
    }
    return ctl_http_set_curl_error(http, code, err);
}

int ctl_http_stream(struct ctl_http *http, const char *path,
                    const char *last_event_id, ctl_http_line_cb cb, void *arg,
                    struct error *err)
{
    struct stream stream = {.cb = cb, .arg = arg, .heard_at = clock_now()};
    struct curl_slist *headers = NULL;
    CLEANUP_FREE char *url = NULL;
    CLEANUP_FREE char *line = malloc(LINE_BYTES_MAX);
    char header[64];

    if (!line || asprintf(&url, "http://localhost%s", path) < 0) {
        url = NULL;
        return error_set(err, ERR_NO_MEMORY, "out of memory for events");
    }
    stream.line = line;
    snprintf(header, sizeof(header), "Last-Event-ID: %.24s", last_event_id);
    if (*last_event_id) {
        headers = curl_slist_append(NULL, header);
    }
    set_options(http->curl, url, headers, &stream);
    CURLcode code = curl_easy_perform(http->curl);
    int n = stream.is_over ? 0 : set_error(http, &stream, code, err);
    curl_easy_setopt(http->curl, CURLOPT_FAILONERROR, 0L);
    curl_easy_setopt(http->curl, CURLOPT_NOPROGRESS, 1L);
    ctl_http_set_options(http);
    curl_slist_free_all(headers);
    return n;
}
