// SPDX-License-Identifier: BSD-3-Clause
/* The body of POST /v1/migrations. */
#include "proxy/api-migrate.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const char *const mode_words[] = {"auto", "precopy", "postcopy", NULL};
static const char *const preempt_words[] = {"auto", "on", "off", NULL};
static const char *const on_timeout_words[] = {"abort", "postcopy", "pause",
                                               NULL};

_Static_assert(API_MODE_POSTCOPY == 2 && API_PREEMPT_OFF == 2 &&
                   API_ON_TIMEOUT_PAUSE == 2,
               "the words stand in the order of their enums");
_Static_assert(sizeof(enum api_mode) == sizeof(int) &&
                   sizeof(enum api_preempt) == sizeof(int) &&
                   sizeof(enum api_on_timeout) == sizeof(int),
               "words are stored as int");

#define AT(member) offsetof(struct api_migrate, member)

const struct api_member api_migrate_members[] = {
    {"id", API_MEMBER_ID, false, AT(id), NULL, 1, API_ID_MAX},
    {"vm", API_MEMBER_NAME, true, AT(vm), NULL, 1, API_NAME_MAX},
    {"to", API_MEMBER_NAME, true, AT(peer), NULL, 1, API_NAME_MAX},
    {"qmp", API_MEMBER_PATH, false, AT(qmp_path), NULL, 2, PATH_SOCKET_MAX},
    {"dest_qmp", API_MEMBER_PATH, false, AT(dest_qmp_path), NULL, 2,
     PATH_SOCKET_MAX},
    {"mode", API_MEMBER_WORD, false, AT(mode), mode_words, 0, 0},
    {"preempt", API_MEMBER_WORD, false, AT(preempt), preempt_words, 0, 0},
    {"multifd_channels", API_MEMBER_COUNT, false, AT(multifd), NULL, 0,
     API_MULTIFD_MAX},
    {"postcopy_after_seconds", API_MEMBER_SECONDS, false,
     AT(postcopy_after_seconds), NULL, 0, API_SECONDS_MAX},
    {"bandwidth_bytes_per_second", API_MEMBER_RATE, false,
     AT(bandwidth_bytes_per_second), NULL, 1, INT64_MAX},
    {"max_downtime_ms", API_MEMBER_COUNT, false, AT(max_downtime_ms), NULL, 1,
     API_DOWNTIME_MS_MAX},
    {"timeout_seconds", API_MEMBER_SECONDS, false, AT(timeout_seconds), NULL, 1,
     API_SECONDS_MAX},
    {"on_timeout", API_MEMBER_WORD, false, AT(on_timeout), on_timeout_words, 0,
     0},
    {.name = NULL},
};

const char *api_mode_name(enum api_mode mode)
{
    return mode_words[mode];
}

const char *api_preempt_name(enum api_preempt preempt)
{
    return preempt_words[preempt];
}

const char *api_on_timeout_name(enum api_on_timeout on_timeout)
{
    return on_timeout_words[on_timeout];
}

static int refuse(const struct api_member *member, struct error *err,
                  const char *what)
{
    return error_set(err, ERR_BAD_REQUEST, "member \"%s\" must be %s",
                     member->name, what);
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
        refuse(member, err, "a text");
        return NULL;
    }
    if (size < member->min || size > member->max) {
        error_set(err, ERR_BAD_REQUEST,
                  "member \"%s\" has %zu bytes, it must have %" PRIu64
                  " to %" PRIu64,
                  member->name, size, member->min, member->max);
        return NULL;
    }
    return text;
}

bool api_migrate_is_id(const char *id)
{
    size_t size = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                             "wxyz0123456789._-");

    return size > 0 && size <= API_ID_MAX && id[size] == '\0' &&
           strcmp(id, ".") && strcmp(id, "..");
}

void api_migrate_make_id(char id[API_ID_MAX + 1])
{
    unsigned char random[6];

    /* fails only before the kernel has gathered randomness once, and does not
     * block for more after that */
    while (getrandom(random, sizeof(random), 0) != sizeof(random)) {
    }
    snprintf(id, API_ID_MAX + 1, "m%02x%02x%02x%02x%02x%02x", random[0],
             random[1], random[2], random[3], random[4], random[5]);
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
    if (member->type == API_MEMBER_ID && !api_migrate_is_id(text)) {
        return refuse(member, err, "made of A-Z a-z 0-9 . _ -");
    }
    if (member->type == API_MEMBER_NAME && has_control_chars(text)) {
        return refuse(member, err, "free of control characters");
    }
    if (member->type == API_MEMBER_PATH && path_check_socket(text, err) < 0) {
        return error_wrap(err, "member \"%s\"", member->name);
    }
    memcpy(field, text, strlen(text) + 1);
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
    return refuse(member, err, list);
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
                 "a whole number from %" PRIu64 " to %" PRIu64, member->min,
                 member->max);
        return refuse(member, err, what);
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
        snprintf(what, sizeof(what), "a number from %" PRIu64 " to %" PRIu64,
                 member->min, member->max);
        return refuse(member, err, what);
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
        return refuse(member, err,
                      "a whole number of bytes per second from 1 to "
                      "9223372036854775807, or \"unlimited\" (0 is neither)");
    }
    *field = number;
    return 0;
}

static int set_member(const struct api_member *member,
                      struct json_object *value, struct api_migrate *migrate,
                      struct error *err)
{
    void *field = (char *)migrate + member->offset;

    switch (member->type) {
    case API_MEMBER_ID:
    case API_MEMBER_NAME:
    case API_MEMBER_PATH:
        return set_text(member, value, field, err);
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

static int check_known(struct json_object *body, struct error *err)
{
    json_object_object_foreach(body, name, value)
    {
        const struct api_member *member = api_migrate_members;
        (void)value;
        while (member->name && strcmp(member->name, name)) {
            member++;
        }
        if (!member->name) {
            return error_set(err, ERR_BAD_REQUEST, "unknown member \"%s\"",
                             name);
        }
    }
    return 0;
}

/* What the members say together. */
static int check_whole(const struct api_migrate *migrate, bool has_on_timeout,
                       struct error *err)
{
    if (migrate->mode == API_MODE_PRECOPY &&
        migrate->postcopy_after_seconds >= 0) {
        return error_set(err, ERR_BAD_REQUEST,
                         "member \"postcopy_after_seconds\" does not go with "
                         "mode precopy");
    }
    if (migrate->mode == API_MODE_PRECOPY &&
        migrate->on_timeout == API_ON_TIMEOUT_POSTCOPY) {
        return error_set(
            err, ERR_BAD_REQUEST,
            "member \"on_timeout\": postcopy does not go with mode "
            "precopy");
    }
    if (has_on_timeout && migrate->timeout_seconds < 0) {
        return error_set(err, ERR_BAD_REQUEST,
                         "member \"on_timeout\" needs \"timeout_seconds\"");
    }
    return 0;
}

int api_migrate_parse(struct json_object *body, struct api_migrate *ret_migrate,
                      struct error *err)
{
    struct api_migrate migrate = {
        .mode = API_MODE_AUTO,
        .preempt = API_PREEMPT_AUTO,
        .postcopy_after_seconds = -1,
        .bandwidth_bytes_per_second = PARSE_UNLIMITED,
        .max_downtime_ms = API_DOWNTIME_MS_DEFAULT,
        .timeout_seconds = -1,
        .on_timeout = API_ON_TIMEOUT_ABORT,
    };
    struct json_object *value;

    if (check_known(body, err) < 0) {
        return -1;
    }
    for (const struct api_member *m = api_migrate_members; m->name; m++) {
        if (!json_object_object_get_ex(body, m->name, &value)) {
            if (m->is_required) {
                return error_set(err, ERR_BAD_REQUEST,
                                 "member \"%s\" is missing", m->name);
            }
        } else if (set_member(m, value, &migrate, err) < 0) {
            return -1;
        }
    }
    if (check_whole(&migrate,
                    json_object_object_get_ex(body, "on_timeout", &value),
                    err) < 0) {
        return -1;
    }
    *ret_migrate = migrate;
    return 0;
}

bool api_migrate_is_equal(const struct api_migrate *a,
                          const struct api_migrate *b)
{
    return !strcmp(a->id, b->id) && !strcmp(a->vm, b->vm) &&
           !strcmp(a->peer, b->peer) && !strcmp(a->qmp_path, b->qmp_path) &&
           !strcmp(a->dest_qmp_path, b->dest_qmp_path) && a->mode == b->mode &&
           a->preempt == b->preempt && a->multifd == b->multifd &&
           a->postcopy_after_seconds == b->postcopy_after_seconds &&
           a->bandwidth_bytes_per_second == b->bandwidth_bytes_per_second &&
           a->max_downtime_ms == b->max_downtime_ms &&
           a->timeout_seconds == b->timeout_seconds &&
           a->on_timeout == b->on_timeout;
}
