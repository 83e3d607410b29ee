// SPDX-License-Identifier: BSD-3-Clause
/* JSON of requests, read strictly. */
#include "proxy/api-json.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "util/cleanup.h"

/* Walks text that json-c has found to be right, and looks at the keys only. The
 * keys seen in each open object are kept in an object of its own; arrays have
 * none (NULL). */
struct key_walk {
    struct json_object *seen[API_JSON_DEPTH_MAX + 1];
    size_t depth;
};

static void free_tokener(struct json_tokener **tok)
{
    if (*tok) {
        json_tokener_free(*tok);
    }
}

static void put_object(struct json_object **object)
{
    json_object_put(*object);
}

static void done_walk(struct key_walk *walk)
{
    while (walk->depth > 0) {
        json_object_put(walk->seen[--walk->depth]);
    }
}

/* Sets *at, where a string literal starts, to the byte behind it. Control
 * characters pass json-c. */
static int skip_string(const char *text, size_t size, size_t *at,
                       struct error *err)
{
    size_t i = *at + 1;

    for (; i < size && text[i] != '"'; i++) {
        if ((unsigned char)text[i] < ' ') {
            return error_set(err, ERR_BAD_REQUEST,
                             "the body is not JSON: control character at byte "
                             "%zu",
                             i);
        }
        if (text[i] == '\\') {
            i++;
        }
    }
    *at = i + 1;
    return 0;
}

static size_t skip_space(const char *text, size_t size, size_t at)
{
    while (at < size && memchr(" \t\r\n", text[at], 4)) {
        at++;
    }
    return at;
}

static bool is_key(const char *text, size_t size, size_t at)
{
    at = skip_space(text, size, at);
    return at < size && text[at] == ':';
}

/* Notes the key whose literal is text[start..end): escapes are resolved by
 * json-c, so that "\u0061" and "a" are the same key. */
static int add_key(struct key_walk *walk, const char *text, size_t start,
                   size_t end, struct error *err)
{
    struct json_object *seen = walk->seen[walk->depth - 1];
    CLEANUP(free_tokener) struct json_tokener *tok = json_tokener_new();
    if (!tok) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for the body");
    }
    CLEANUP(put_object)
    struct json_object *key =
        json_tokener_parse_ex(tok, text + start, (int)(end - start));
    const char *name = key ? json_object_get_string(key) : NULL;

    if (!name) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for the body");
    }
    if (strlen(name) != (size_t)json_object_get_string_len(key)) {
        return error_set(err, ERR_BAD_REQUEST,
                         "the body has a NUL in a name at byte %zu", start);
    }
    if (json_object_object_get_ex(seen, name, NULL)) {
        return error_set(err, ERR_BAD_REQUEST,
                         "the body has member \"%s\" twice, again at byte %zu",
                         name, start);
    }
    if (json_object_object_add(seen, name, NULL) < 0) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for the body");
    }
    return 0;
}

static int open_value(struct key_walk *walk, bool is_object, struct error *err)
{
    struct json_object *seen = NULL;

    if (is_object && !(seen = json_object_new_object())) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for the body");
    }
    walk->seen[walk->depth++] = seen;
    return 0;
}

static int skip_key_or_text(struct key_walk *walk, const char *text,
                            size_t size, size_t *at, struct error *err)
{
    size_t start = *at;

    if (skip_string(text, size, at, err) < 0) {
        return -1;
    }
    return is_key(text, size, *at) ? add_key(walk, text, start, *at, err) : 0;
}

static int check_keys(const char *text, size_t size, struct error *err)
{
    CLEANUP(done_walk) struct key_walk walk = {.depth = 0};
    size_t at = 0;

    while (at < size) {
        switch (text[at]) {
        case '"':
            if (skip_key_or_text(&walk, text, size, &at, err) < 0) {
                return -1;
            }
            continue;
        case '{':
        case '[':
            if (open_value(&walk, text[at] == '{', err) < 0) {
                return -1;
            }
            break;
        case '}':
        case ']':
            json_object_put(walk.seen[--walk.depth]);
            break;
        case '\'': /* json-c takes such strings */
        case 'N':  /* and NaN */
        case 'I':  /* and Infinity */
            return error_set(err, ERR_BAD_REQUEST,
                             "the body is not JSON: unexpected \"%c\" at byte "
                             "%zu",
                             text[at], at);
        default:
            break;
        }
        at++;
    }
    return 0;
}

/* What json-c has to say about text, which it did not take. */
static int set_syntax_error(struct json_tokener *tok, struct error *err)
{
    enum json_tokener_error reason = json_tokener_get_error(tok);
    size_t at = json_tokener_get_parse_end(tok);

    if (reason == json_tokener_continue) {
        return error_set(err, ERR_BAD_REQUEST,
                         "the body is not JSON: it ends in the middle");
    }
    if (reason == json_tokener_error_depth) {
        return error_set(err, ERR_BAD_REQUEST,
                         "the body is nested deeper than %d at byte %zu",
                         API_JSON_DEPTH_MAX, at);
    }
    return error_set(err, ERR_BAD_REQUEST,
                     "the body is not JSON: %s at byte %zu",
                     json_tokener_error_desc(reason), at);
}

int api_json_parse(const char *text, size_t size,
                   struct json_object **ret_object, struct error *err)
{
    /* json-c counts the values inside the innermost object as a level */
    CLEANUP(free_tokener)
    struct json_tokener *tok = json_tokener_new_ex(API_JSON_DEPTH_MAX + 1);
    if (!tok) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for the body");
    }
    if (size > INT_MAX) {
        return error_set(err, ERR_LIMIT, "the body has more than %d bytes",
                         INT_MAX);
    }
    size_t start = skip_space(text, size, 0);
    if (start == size || text[start] != '{') {
        return error_set(err, ERR_BAD_REQUEST, "the body is not a JSON object");
    }
    json_tokener_set_flags(tok,
                           JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    CLEANUP(put_object)
    struct json_object *object = json_tokener_parse_ex(tok, text, (int)size);

    if (json_tokener_get_error(tok) != json_tokener_success) {
        return set_syntax_error(tok, err);
    }
    /* a NUL ends the text for json-c */
    if (json_tokener_get_parse_end(tok) != size) {
        return error_set(err, ERR_BAD_REQUEST,
                         "the body is not JSON: more behind the value at byte "
                         "%zu",
                         json_tokener_get_parse_end(tok));
    }
    if (check_keys(text, size, err) < 0) {
        return -1;
    }
    *ret_object = steal_ptr(&object);
    return 0;
}
