// SPDX-License-Identifier: BSD-3-Clause
/* Options of a command to members of a request's body. */
#include "tools/ctl-body.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "util/parse.h"

void ctl_body_add_text(const struct ctl_call *call,
                       const struct ctl_option *options, int option,
                       struct json_object *body, const char *name)
{
    if (call->value[option]) {
        json_object_object_add(body, name,
                               json_object_new_string(call->value[option]));
    }
}

static int wrap(const struct ctl_option *option, struct error *err)
{
    return error_wrap(err, "--%s", option->name);
}

int ctl_body_add_count(const struct ctl_call *call,
                       const struct ctl_option *options, int option,
                       struct json_object *body, const char *name,
                       struct error *err)
{
    uint64_t count;

    if (!call->value[option]) {
        return 0;
    }
    const struct ctl_option *row = &options[option];
    if (parse_uint(call->value[option], row->min, row->max, &count, NULL) < 0) {
        return error_set(err, ERR_BAD_REQUEST,
                         "--%s: \"%.80s\" is not a whole number from %" PRIu32
                         " to %" PRIu32,
                         row->name, call->value[option], row->min, row->max);
    }
    json_object_object_add(body, name, json_object_new_uint64(count));
    return 0;
}

/* A number alone is of milliseconds, and whole: "1.5" would be seconds to
 * parse_duration(). */
static int parse_ms(const char *text, const struct ctl_option *row,
                    uint64_t *ret_ms)
{
    mp_time time;

    if (!text[strspn(text, "0123456789.")]) {
        return parse_uint(text, row->min, row->max, ret_ms, NULL);
    }
    if (parse_duration(text, row->min * MP_MS, row->max * MP_MS, &time, NULL) <
            0 ||
        time % MP_MS) {
        return -1;
    }
    *ret_ms = (uint64_t)(time / MP_MS);
    return 0;
}

int ctl_body_add_ms(const struct ctl_call *call,
                    const struct ctl_option *options, int option,
                    struct json_object *body, const char *name,
                    struct error *err)
{
    const struct ctl_option *row = &options[option];
    uint64_t ms;

    if (!call->value[option]) {
        return 0;
    }
    if (parse_ms(call->value[option], row, &ms) < 0) {
        return error_set(err, ERR_BAD_REQUEST,
                         "--%s: \"%.80s\" is not a whole number from %" PRIu32
                         " to %" PRIu32 " ms, nor such a time with its unit "
                         "(units: " PARSE_TIME_UNITS ")",
                         row->name, call->value[option], row->min, row->max);
    }
    json_object_object_add(body, name, json_object_new_uint64(ms));
    return 0;
}

int ctl_body_add_seconds(const struct ctl_call *call,
                         const struct ctl_option *options, int option,
                         struct json_object *body, const char *name,
                         struct error *err)
{
    mp_time time;

    if (!call->value[option]) {
        return 0;
    }
    if (parse_duration(call->value[option], options[option].min * MP_SECOND,
                       options[option].max * MP_SECOND, &time, err) < 0) {
        return wrap(&options[option], err);
    }
    json_object_object_add(body, name,
                           json_object_new_double((double)time / MP_SECOND));
    return 0;
}

int ctl_body_add_rate(const struct ctl_call *call,
                      const struct ctl_option *options, int option,
                      struct json_object *body, const char *name,
                      struct error *err)
{
    uint64_t rate;

    if (!call->value[option]) {
        return 0;
    }
    if (parse_rate(call->value[option], &rate, err) < 0) {
        return wrap(&options[option], err);
    }
    json_object_object_add(body, name,
                           rate == PARSE_UNLIMITED
                               ? json_object_new_string("unlimited")
                               : json_object_new_uint64(rate));
    return 0;
}
