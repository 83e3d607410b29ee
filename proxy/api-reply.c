// SPDX-License-Identifier: BSD-3-Clause
/* One answer of the API: a status and a JSON text. */
#include "proxy/api-reply.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"

static void put_object(struct json_object **object)
{
    json_object_put(*object);
}

/* Bytes of the UTF-8 character at text, 0 if it is none. */
static size_t utf8_size(const unsigned char *text)
{
    size_t size = text[0] < 0x80                      ? 1
                  : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                  : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                  : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                      : 0;
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((text[0] == 0xe0 && text[1] < 0xa0) || /* longer than need be */
        (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xed && text[1] > 0x9f) || /* surrogates */
        (text[0] == 0xf4 && text[1] > 0x8f)) { /* above U+10FFFF */
        return 0;
    }
    return size;
}

static void make_printable(char *text)
{
    unsigned char *p = (unsigned char *)text;

    while (*p) {
        size_t size = utf8_size(p);
        if (size == 0 || *p < ' ' || *p == 0x7f) {
            *p = '?';
            size = 1;
        }
        p += size;
    }
}

/* Adds a member; false when out of memory. Takes value in any case. */
static bool add(struct json_object *object, const char *name,
                struct json_object *value)
{
    if (!value || json_object_object_add(object, name, value) < 0) {
        json_object_put(value);
        return false;
    }
    return true;
}

void api_reply_set_json(struct api_reply *reply, int status,
                        struct json_object *object)
{
    const char *text = json_object_to_json_string_ext(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);

    free(reply->body);
    reply->body = NULL;
    reply->status = status;
    if (!text || asprintf(&reply->body, "%s\n", text) < 0) {
        reply->body = NULL;
        reply->status = 503;
    }
}

void api_reply_set_error(struct api_reply *reply, int status, const char *side,
                         const struct error *err)
{
    CLEANUP(put_object) struct json_object *outer = json_object_new_object();
    CLEANUP(put_object) struct json_object *inner = json_object_new_object();
    struct error clean = *err;

    make_printable(clean.text);
    if (outer && inner &&
        add(inner, "class", json_object_new_string(error_class(err->code))) &&
        add(inner, "message", json_object_new_string(clean.text)) &&
        add(inner, "side", json_object_new_string(side)) &&
        add(outer, "error", json_object_get(inner))) {
        api_reply_set_json(
            reply, status ? status : error_http_status(err->code), outer);
    } else {
        api_reply_done(reply);
        reply->status = 503;
    }
}

void api_reply_done(struct api_reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}
