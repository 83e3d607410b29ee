// SPDX-License-Identifier: BSD-3-Clause
/* A QMP client on a scripted server, for tests. */
#include "tests/lib/qmp-diary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/loop.h"

/* One call, so that its callback knows its name. */
struct named {
    struct diary *d;
    const char *name;
};

static void write_down(struct diary *d, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void write_down(struct diary *d, const char *format, ...)
{
    char line[700];
    va_list args;
    size_t at = strlen(d->text);

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    snprintf(d->text + at, sizeof(d->text) - at, "%s\n", line);
    d->lines++;
    d->is_enough = d->lines >= d->wanted;
    if (d->close_on && !strncmp(line, d->close_on, strlen(d->close_on))) {
        d->close_on = NULL;
        qmp_close(d->qmp);
        d->qmp = NULL;
        write_down(d, "close returned");
    }
}

static void on_ready(void *arg)
{
    write_down(arg, "ready");
}

static void on_event(void *arg, const char *name, struct json_object *data,
                     int64_t timestamp_us, mp_time received)
{
    assert_true(received > 0);
    write_down(
        arg, "event %s %s %lld", name,
        data ? json_object_to_json_string_ext(data, JSON_C_TO_STRING_PLAIN)
             : "-",
        (long long)timestamp_us);
}

static void on_closed(void *arg, const struct error *err)
{
    write_down(arg, "closed %s: %s", error_class(err->code), err->text);
}

const struct qmp_ops diary_ops = {
    .on_ready = on_ready, .on_event = on_event, .on_closed = on_closed};

static void call_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    struct named *named = arg;
    struct diary *d = named->d;
    const char *name = named->name;

    free(named);
    if (err) {
        assert_null(result);
        write_down(d, "%s failed %s: %s", name, error_class(err->code),
                   err->text);
    } else {
        write_down(
            d, "%s %s", name,
            json_object_to_json_string_ext(result, JSON_C_TO_STRING_PLAIN));
    }
}

void diary_call_with(struct diary *d, const char *command, bool oob,
                     struct json_object *args, mp_time timeout)
{
    struct named *named = malloc(sizeof(*named));

    named->d = d;
    named->name = command;
    (oob ? qmp_execute_oob : qmp_execute)(d->qmp, command, args, timeout,
                                          call_cb, named);
}

void diary_call(struct diary *d, const char *command)
{
    diary_call_with(d, command, false, NULL, DIARY_TIMEOUT);
}

void diary_open(struct diary *d, const struct qmp_params *params,
                const char *script)
{
    struct error err;

    d->fake = fake_qemu_new(d->loop, script);
    d->qmp = qmp_open(d->loop, fake_qemu_take_fd(d->fake), params, &diary_ops,
                      d, &err);
    assert_non_null(d->qmp);
}

void diary_wait_lines(struct diary *d, int count)
{
    d->wanted = count;
    d->is_enough = d->lines >= count;
    if (!fake_qemu_run_until(d->loop, &d->is_enough)) {
        fail_msg("only this came:\n%s", d->text);
    }
}

/* Waits for as many lines as expected has and compares. */
void diary_expect(struct diary *d, const char *expected)
{
    int count = 0;

    for (const char *p = expected; *p; p++) {
        count += *p == '\n';
    }
    diary_wait_lines(d, count);
    fake_qemu_run_for(d->loop, 2 * MP_MS); /* nothing more comes */
    assert_string_equal(d->text, expected);
    if (fake_qemu_failure(d->fake)) {
        fail_msg("%s", fake_qemu_failure(d->fake));
    }
}

int diary_set_up(void **state)
{
    struct diary *d = calloc(1, sizeof(*d));

    d->loop = loop_new("test", NULL);
    *state = d;
    return 0;
}

int diary_tear_down(void **state)
{
    struct diary *d = *state;

    qmp_close(d->qmp);
    fake_qemu_free(d->fake);
    loop_free(d->loop);
    free(d);
    return 0;
}
