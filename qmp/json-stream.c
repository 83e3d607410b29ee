// SPDX-License-Identifier: BSD-3-Clause
/* Cuts a byte stream into JSON values. */
#include "qmp/json-stream.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/utf8.h"

struct json_stream {
    struct json_tokener *tokener;
    size_t max_bytes;
    int max_depth;

    uint64_t offset; /* of the next byte, in the stream */
    bool failed;

    /* of the value being read */
    bool in_value;
    size_t value_bytes;
    size_t value_nodes;
    bool in_string;
    bool escaped; /* the last byte was a backslash in a string */
    char last;    /* byte */
    struct utf8_state utf8;
};

struct json_stream *json_stream_new(size_t max_bytes, int max_depth,
                                    struct error *err)
{
    struct json_stream *stream = calloc(1, sizeof(*stream));
    if (stream) {
        stream->max_bytes = max_bytes;
        stream->max_depth = max_depth;
        stream->tokener = json_tokener_new_ex(max_depth);
    }
    if (!stream || !stream->tokener) {
        error_set(err, ERR_NO_MEMORY, "JSON stream: out of memory");
        json_stream_free(stream);
        return NULL;
    }
    json_tokener_set_flags(stream->tokener,
                           JSON_TOKENER_STRICT |
                               JSON_TOKENER_ALLOW_TRAILING_CHARS);
    return stream;
}

void json_stream_free(struct json_stream *stream)
{
    if (!stream) {
        return;
    }
    if (stream->tokener) {
        json_tokener_free(stream->tokener);
    }
    free(stream);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int start_value(struct json_stream *s, char first, struct error *err)
{
    if (first != '{' && first != '[') {
        return error_set(err, ERR_PROTOCOL,
                         "JSON at byte %llu: byte 0x%02x where an object or an "
                         "array should start",
                         (unsigned long long)s->offset, (unsigned char)first);
    }
    json_tokener_reset(s->tokener);
    s->in_value = true;
    s->value_bytes = 0;
    s->value_nodes = 0;
    s->in_string = false;
    s->escaped = false;
    s->last = '\0';
    s->utf8 = (struct utf8_state){0};
    return 0;
}

/* What strict mode lets through all the same: names in single quotes, NaN and
 * Infinity, control characters in texts, and, where the stream happens to be
 * cut there, signs inside of numbers. */
static bool is_allowed(const struct json_stream *s, char c)
{
    if (s->in_string) {
        return (unsigned char)c >= 0x20;
    }
    if (c == '-' || c == '+') {
        return !(s->last >= '0' && s->last <= '9') && s->last != '.' &&
               s->last != '-' && s->last != '+';
    }
    return c != '\'' && c != 'N' && c != 'I';
}

static void count_node(struct json_stream *s, char c)
{
    if (s->in_string) {
        if (s->escaped) {
            s->escaped = false;
        } else if (c == '\\') {
            s->escaped = true;
        } else if (c == '"') {
            s->in_string = false;
        }
    } else if (c == '"') {
        s->in_string = true;
    } else if (c == '{' || c == '[' || c == ',') {
        s->value_nodes++;
    }
}

/* What the tokener does not look at, over the bytes it has taken. */
static int check_bytes(struct json_stream *s, const char *bytes, size_t size,
                       struct error *err)
{
    for (size_t i = 0; i < size; i++) {
        unsigned long long at = s->offset + i;
        if (!is_allowed(s, bytes[i])) {
            return error_set(err, ERR_PROTOCOL,
                             "JSON at byte %llu: byte 0x%02x is not allowed "
                             "here",
                             at, (unsigned char)bytes[i]);
        }
        if (!utf8_feed(&s->utf8, (unsigned char)bytes[i])) {
            return error_set(err, ERR_PROTOCOL, "JSON at byte %llu: not UTF-8",
                             at);
        }
        count_node(s, bytes[i]);
        s->last = bytes[i];
        if (s->value_nodes > JSON_STREAM_MAX_NODES) {
            return error_set(err, ERR_PROTOCOL,
                             "JSON at byte %llu: a value of more than %d parts",
                             at, JSON_STREAM_MAX_NODES);
        }
    }
    return 0;
}

static int tokener_error(const struct json_stream *s, size_t at,
                         struct error *err)
{
    enum json_tokener_error e = json_tokener_get_error(s->tokener);
    if (e == json_tokener_error_depth) {
        return error_set(err, ERR_PROTOCOL,
                         "JSON at byte %llu: nested deeper than %d",
                         (unsigned long long)(s->offset + at), s->max_depth);
    }
    return error_set(err, ERR_PROTOCOL, "JSON at byte %llu: %s",
                     (unsigned long long)(s->offset + at),
                     json_tokener_error_desc(e));
}

/* Gives the tokener one run of bytes (at most RUN_BYTES) of a value that has
 * begun. */
static int feed_value(struct json_stream *s, const char *bytes, size_t size,
                      size_t *ret_used, struct json_object **ret_value,
                      struct error *err)
{
    size_t room = s->max_bytes - s->value_bytes;
    size_t run = size < room ? size : room;

    if (run == 0) {
        return error_set(err, ERR_PROTOCOL,
                         "JSON at byte %llu: a value longer than %zu bytes",
                         (unsigned long long)s->offset, s->max_bytes);
    }
    const char *nul =
        memchr(bytes, '\0', run); /* would end the tokener's run */
    if (nul == bytes) {
        return error_set(err, ERR_PROTOCOL, "JSON at byte %llu: NUL",
                         (unsigned long long)s->offset);
    }
    if (nul) {
        run = (size_t)(nul - bytes);
    }
    struct json_object *value =
        json_tokener_parse_ex(s->tokener, bytes, (int)run);
    enum json_tokener_error e = json_tokener_get_error(s->tokener);
    size_t used = json_tokener_get_parse_end(s->tokener);

    if (e != json_tokener_success && e != json_tokener_continue) {
        return tokener_error(s, used, err);
    }
    if (e == json_tokener_continue) {
        used = run;
    }
    if (check_bytes(s, bytes, used, err) < 0) {
        json_object_put(value);
        return -1;
    }
    s->value_bytes += used;
    s->offset += used;
    *ret_used = used;
    if (e == json_tokener_continue) {
        return 0;
    }
    s->in_value = false;
    *ret_value = value;
    return 1;
}

/* The memory a value takes is bounded by its parts, and they are counted only
 * after the tokener has made them: so it gets small runs. */
#define RUN_BYTES ((size_t)64 << 10)

int json_stream_feed(struct json_stream *s, const char *bytes, size_t size,
                     size_t *ret_used, struct json_object **ret_value,
                     struct error *err)
{
    size_t at = 0;
    int rc = 0;

    if (s->failed) {
        return error_set(err, ERR_PROTOCOL, "JSON stream has failed before");
    }
    while (rc == 0 && at < size) {
        size_t used = 0;
        if (!s->in_value && is_space(bytes[at])) {
            at++;
            s->offset++;
            continue;
        }
        if (!s->in_value) {
            rc = start_value(s, bytes[at], err);
        }
        if (rc == 0) {
            size_t run = size - at < RUN_BYTES ? size - at : RUN_BYTES;
            rc = feed_value(s, bytes + at, run, &used, ret_value, err);
        }
        at += used;
    }
    if (rc < 0) {
        s->failed = true;
        return -1;
    }
    *ret_used = at;
    return rc;
}
