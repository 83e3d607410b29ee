// SPDX-License-Identifier: BSD-3-Clause
/* Cuts a byte stream into JSON values (RFC 8259 objects and arrays, as QMP
 * and the guest agent send them), wherever it is cut. Pure.
 *
 * How it works: bytes go to json-c's tokener in strict mode, which holds the
 * half-read value. What the tokener lets through or does not bound is checked
 * here: NUL bytes, control characters, UTF-8 across cuts, single quotes, NaN,
 * values other than objects and arrays at the top, size. Numbers are
 * range-checked by those who read them (json-value.h). */
#ifndef QMP_JSON_STREAM_H
#define QMP_JSON_STREAM_H

#include <stddef.h>

#include "util/error.h"

struct json_object;
struct json_stream;

/* What QMP and the agent may make us keep: query-qmp-schema is about 0.3 MB,
 * an honest value nests about ten deep. */
#define JSON_STREAM_MAX_BYTES ((size_t)4 << 20)
#define JSON_STREAM_MAX_DEPTH 64
/* Objects, arrays and commas of one value: 3 bytes of text ("{},") become 700
 * of memory, so length alone bounds nothing. query-qmp-schema of 7.2 has about
 * 16 000. */
#define JSON_STREAM_MAX_NODES 131072

/* A new stream. A value longer than max_bytes or nested deeper than max_depth
 * is an error. NULL and *err (ERR_NO_MEMORY) on failure. */
struct json_stream *json_stream_new(size_t max_bytes, int max_depth,
                                    struct error *err);
void json_stream_free(struct json_stream *stream);

/* Reads from bytes until a value is whole or the bytes are used up.
 * *ret_used is how many were taken. Returns 1 with *ret_value (the caller's to
 * put with json_object_put()): call again with the rest; 0 when all bytes are
 * taken and more are needed; -1 with *err (ERR_PROTOCOL, naming the offset in
 * the stream and the limit that was broken). After an error the stream only
 * fails. */
int json_stream_feed(struct json_stream *stream, const char *bytes, size_t size,
                     size_t *ret_used, struct json_object **ret_value,
                     struct error *err);

#endif
