// SPDX-License-Identifier: BSD-3-Clause
/* Members of a request's body, read by a table. */
#include "proxy/api-member.h"

#include <ctype.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "util/id.h"
#include "util/parse.h"
#include "util/path.h"

/* A wrong value is shown up to here: a body may be full of it. */
#define SHOWN_BYTES 80

/* How many bytes of text are shown: what is cut is cut between characters. */
static int shown_bytes(const char *text)
{
    size_t size = strlen(text);

    if (size > SHOWN_BYTES) {
        size = SHOWN_BYTES;
        while (((unsigned char)text[size] & 0xc0) == 0x80) {
            size--;
        }
    }
    return (int)size;
}

/* The value as it stood in the body (a number that json-c cannot hold as the
 * nearest that it can). */
static int refuse(const struct api_member *member, struct json_object *value,
                  struct error *err, const char *what)
{
    const char *text = value ? json_object_to_json_string_ext(
                                   value, JSON_C_TO_STRING_PLAIN |
                                              JSON_C_TO_STRING_NOSLASHESCAPE)
                             : "null";
    int shown = text ? shown_bytes(text) : 0;

    return error_set(err, ERR_BAD_REQUEST, "member \"%s\": %.*s%s is not %s",
                     member->name, shown, text ? text : "",
                     text && text[shown] ? "..." : "", what);
}

static bool ends_in(const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);
    return size >= end_size && !strcmp(name + size - end_size, end);
}

/* The unit of a member's limits, which its name ends in. */
static const char *unit_of(const struct api_member *member)
{
    return ends_in(member->name, "_ms")        ? " ms"
           : ends_in(member->name, "_seconds") ? " seconds"
                                               : "";
}

/* A text without NUL inside and of the member's length, or NULL. */
static const char *get_text(const struct api_member *member,
                            struct json_object *value, struct error *err)
{
    const char *text = json_object_is_type(value, json_type_string)
                           ? json_object_get_string(value)
                           : NULL;
    size_t size = text ? strlen(text) : 0;

    if (!text || size != (size_t)json_object_get_string_len(value)) {
        refuse(member, value, err, "a text");
        return NULL;
    }
    if (size < member->min || size > member->max) {
        error_set(err, ERR_BAD_REQUEST,
                  "member \"%s\" has %zu bytes, it must have %" PRIu64
                  " to %" PRIu64 ": \"%.*s%s\"",
                  member->name, size, member->min, member->max,
                  shown_bytes(text), text, size > SHOWN_BYTES ? "..." : "");
        return NULL;
    }
    return text;
}

static bool has_control_chars(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

static int set_text(const struct api_member *member, struct json_object *value,
                    char *field, struct error *err)
{
    const char *text = get_text(member, value, err);

    if (!text) {
        return -1;
    }
    if (member->type == API_MEMBER_ID && !id_is_valid(text)) {
        return refuse(
            member, value, err,
            "a name of A-Z a-z 0-9 . _ - other than \".\" and \"..\"");
    }
    if ((member->type == API_MEMBER_NAME || member->type == API_MEMBER_TEXT) &&
        has_control_chars(text)) {
        return refuse(member, value, err, "free of control characters");
    }
    if (member->type == API_MEMBER_PATH && path_check_socket(text, err) < 0) {
        return error_wrap(err, "member \"%s\"", member->name);
    }
    memcpy(field, text, strlen(text) + 1);
    return 0;
}

/* As QEMU writes it: lower case. */
static int set_uuid(const struct api_member *member, struct json_object *value,
                    char *field, struct error *err)
{
    const char *text = json_object_is_type(value, json_type_string)
                           ? json_object_get_string(value)
                           : "";
    bool is_uuid = strlen(text) == API_UUID_SIZE;

    for (int i = 0; is_uuid && i < API_UUID_SIZE; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        is_uuid = is_dash ? text[i] == '-' : isxdigit((unsigned char)text[i]);
    }
    if (!is_uuid) {
        return refuse(member, value, err,
                      "a UUID of 8-4-4-4-12 hexadecimal digits");
    }
    for (int i = 0; i <= API_UUID_SIZE; i++) {
        field[i] = (char)tolower((unsigned char)text[i]);
    }
    return 0;
}

static int set_word(const struct api_member *member, struct json_object *value,
                    int *field, struct error *err)
{
    char list[64] = "";

    for (int i = 0; member->words[i]; i++) {
        if (json_object_is_type(value, json_type_string) &&
            !strcmp(json_object_get_string(value), member->words[i])) {
            *field = i;
            return 0;
        }
        strncat(list, i ? ", " : "one of ", sizeof(list) - strlen(list) - 1);
        strncat(list, member->words[i], sizeof(list) - strlen(list) - 1);
    }
    return refuse(member, value, err, list);
}

/* A whole number within the member's limits. json-c gives the nearest value it
 * has for what is larger, which is beyond max. */
static bool get_whole(const struct api_member *member,
                      struct json_object *value, uint64_t *ret_number)
{
    if (!json_object_is_type(value, json_type_int) ||
        json_object_get_int64(value) < 0) {
        return false;
    }
    *ret_number = json_object_get_uint64(value);
    return *ret_number >= member->min && *ret_number <= member->max;
}

static int set_count(const struct api_member *member, struct json_object *value,
                     unsigned *field, struct error *err)
{
    char what[80];
    uint64_t number;

    if (!get_whole(member, value, &number)) {
        snprintf(what, sizeof(what),
                 "a whole number from %" PRIu64 " to %" PRIu64 "%s",
                 member->min, member->max, unit_of(member));
        return refuse(member, value, err, what);
    }
    *field = (unsigned)number;
    return 0;
}

static int set_seconds(const struct api_member *member,
                       struct json_object *value, double *field,
                       struct error *err)
{
    char what[80];
    double number = json_object_is_type(value, json_type_double) ||
                            json_object_is_type(value, json_type_int)
                        ? json_object_get_double(value)
                        : NAN;

    if (!(number >= (double)member->min && number <= (double)member->max)) {
        snprintf(what, sizeof(what),
                 "a number from %" PRIu64 " to %" PRIu64 "%s", member->min,
                 member->max, unit_of(member));
        return refuse(member, value, err, what);
    }
    *field = number;
    return 0;
}

static int set_rate(const struct api_member *member, struct json_object *value,
                    uint64_t *field, struct error *err)
{
    uint64_t number;

    if (json_object_is_type(value, json_type_string) &&
        !strcmp(json_object_get_string(value), "unlimited")) {
        *field = PARSE_UNLIMITED;
        return 0;
    }
    if (!get_whole(member, value, &number)) {
        return refuse(member, value, err,
                      "a whole number of bytes per second from 1 to "
                      "9223372036854775807, or \"unlimited\" (0 is neither)");
    }
    *field = number;
    return 0;
}

static int set_member(const struct api_member *member,
                      struct json_object *value, void *into, struct error *err)
{
    void *field = (char *)into + member->offset;

    switch (member->type) {
    case API_MEMBER_ID:
    case API_MEMBER_NAME:
    case API_MEMBER_TEXT:
    case API_MEMBER_PATH:
        return set_text(member, value, field, err);
    case API_MEMBER_UUID:
        return set_uuid(member, value, field, err);
    case API_MEMBER_WORD:
        return set_word(member, value, field, err);
    case API_MEMBER_COUNT:
        return set_count(member, value, field, err);
    case API_MEMBER_SECONDS:
        return set_seconds(member, value, field, err);
    case API_MEMBER_RATE:
        return set_rate(member, value, field, err);
    }
    return -1;
}

static const struct api_member *find(const struct api_member *members,
                                     const char *name)
{
    while (members->name && strcmp(members->name, name)) {
        members++;
    }
    return members->name ? members : NULL;
}

/* unknown member "speed" in POST /v1/x; known are "a", "b" */
static int refuse_name(const struct api_member *members, const char *request,
                       const char *name, struct error *err)
{
    char known[400] = "";
    int shown = shown_bytes(name);

    for (const struct api_member *m = members; m->name; m++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "",
                 m->name);
    }
    return error_set(err, ERR_BAD_REQUEST,
                     "unknown member \"%.*s%s\" in %s; known are %s", shown,
                     name, name[shown] ? "..." : "", request, known);
}

int api_members_parse(const struct api_member *members, const char *request,
                      struct json_object *body, void *into, uint32_t *ret_given,
                      struct error *err)
{
    uint32_t given = 0;

    json_object_object_foreach(body, name, value)
    {
        const struct api_member *member = find(members, name);
        if (!member) {
            return refuse_name(members, request, name, err);
        }
        if (!value && !member->is_required) {
            continue; /* as answers show what is not there */
        }
        if (set_member(member, value, into, err) < 0) {
            return -1;
        }
        given |= UINT32_C(1) << (member - members);
    }
    for (const struct api_member *m = members; m->name; m++) {
        if (m->is_required && !(given & UINT32_C(1) << (m - members))) {
            return error_set(err, ERR_BAD_REQUEST,
                             "member \"%s\" is missing in %s", m->name,
                             request);
        }
    }
    *ret_given = given;
    return 0;
}
