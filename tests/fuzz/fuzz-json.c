// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for JSON streams and block tables: values must not depend on
 * where the stream is cut (the first byte says where). */
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-stream.h"
#include "qmp/qmp-migrate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUES_MAX 64

struct outcome {
    struct json_object *values[VALUES_MAX];
    size_t count;
    bool failed;
};

static void feed(struct json_stream *s, const char *bytes, size_t size,
                 struct outcome *o)
{
    struct error err = ERROR_INIT;

    while (size > 0 && !o->failed && o->count < VALUES_MAX) {
        struct json_object *value = NULL;
        size_t used = 0;
        int rc = json_stream_feed(s, bytes, size, &used, &value, &err);
        if (rc < 0) {
            o->failed = true;
            if (err.code != ERR_PROTOCOL || !err.text[0]) {
                abort();
            }
        } else if (rc > 0) {
            o->values[o->count++] = value;
        } else if (used != size) {
            abort();
        }
        bytes += used;
        size -= used;
    }
}

static void parse(const char *bytes, size_t size, size_t piece,
                  struct outcome *o)
{
    struct json_stream *s = json_stream_new(4096, 8, NULL);

    for (size_t at = 0; at < size; at += piece) {
        feed(s, bytes + at, size - at < piece ? size - at : piece, o);
    }
    json_stream_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = {.count = 0}, cut = {.count = 0};
    struct qmp_ram_block *blocks = NULL;
    size_t count;

    if (size < 1) {
        return 0;
    }
    parse((const char *)data + 1, size - 1, size, &whole);
    parse((const char *)data + 1, size - 1, 1 + data[0] % 7, &cut);
    /* an error in an unfinished value may be noticed sooner or later */
    if (whole.count != cut.count) {
        abort();
    }
    for (size_t i = 0; i < whole.count; i++) {
        if (!json_object_equal(whole.values[i], cut.values[i])) {
            abort();
        }
        json_object_put(whole.values[i]);
        json_object_put(cut.values[i]);
    }
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (qmp_migrate_parse_ram_blocks(text, &blocks, &count, NULL) == 0) {
        free(blocks);
    }
    free(text);
    return 0;
}
