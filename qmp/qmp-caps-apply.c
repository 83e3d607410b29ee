// SPDX-License-Identifier: BSD-3-Clause
/* Migration capabilities and parameters: reading, setting, putting back. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "qmp/qmp-caps-internal.h"
#include "util/cleanup.h"

/* --- reading ------------------------------------------------------------ */

struct reading {
    struct qmp *qmp;
    mp_time timeout;
    struct json_object *capabilities;
    qmp_caps_cb cb;
    void *arg;
};

static void reading_end(struct reading *r, struct qmp_caps *caps,
                        const struct error *err)
{
    qmp_caps_cb cb = r->cb;
    void *arg = r->arg;

    json_object_put(r->capabilities);
    free(r);
    cb(arg, caps, err);
}

static void parameters_read_cb(void *arg, struct json_object *result,
                               const struct error *err)
{
    struct reading *r = arg;
    struct qmp_caps *caps = NULL;
    struct error own;

    if (!err) {
        caps = qmp_caps_of_answers(r->capabilities, result, &own);
        err = caps ? NULL : &own;
    }
    reading_end(r, caps, err);
}

static void capabilities_read_cb(void *arg, struct json_object *result,
                                 const struct error *err)
{
    struct reading *r = arg;

    if (err) {
        reading_end(r, NULL, err);
        return;
    }
    r->capabilities = json_object_get(result);
    qmp_execute(r->qmp, "query-migrate-parameters", NULL, r->timeout,
                parameters_read_cb, r);
}

void qmp_caps_read(struct qmp *qmp, mp_time timeout, qmp_caps_cb cb, void *arg)
{
    struct reading *r = calloc(1, sizeof(*r));
    struct error err;

    if (!r) {
        qmp_caps_out_of_memory(&err);
        cb(arg, NULL, &err);
        return;
    }
    r->qmp = qmp;
    r->timeout = timeout;
    r->cb = cb;
    r->arg = arg;
    qmp_execute(qmp, "query-migrate-capabilities", NULL, timeout,
                capabilities_read_cb, r);
}

/* --- setting ------------------------------------------------------------ */

struct applying {
    struct qmp *qmp;
    mp_time timeout;
    bool is_postcopy_destination;
    struct json_object *parameters;
    qmp_done_cb cb;
    void *arg;
};

static void applying_end(struct applying *a, const struct error *err)
{
    qmp_done_cb cb = a->cb;
    void *arg = a->arg;

    json_object_put(a->parameters);
    free(a);
    cb(arg, err);
}

static void parameters_set_cb(void *arg, struct json_object *result,
                              const struct error *err)
{
    applying_end(arg, err);
}

/* QEMU looks for userfaultfd when postcopy-ram is set on a destination, and
 * says "Postcopy is not supported", in 7.2 without the reason, in 8.2 with
 * it (migration/postcopy-ram.c, postcopy_ram_supported_by_host()). From 8.0 on
 * it takes /dev/userfaultfd if it may open it (util/userfaultfd.c,
 * uffd_open()); the system call wants CAP_SYS_PTRACE or that sysctl. */
static void explain_userfaultfd(const struct error *from, struct error *own)
{
    static const char refusal[] = "Postcopy is not supported";
    const char *reason = strstr(from->text, refusal);

    *own = *from;
    if (from->code != ERR_QMP || !reason) {
        return;
    }
    own->code = ERR_UNSUPPORTED;
    reason += sizeof(refusal) - 1;
    if (*reason == ':' && !strcasestr(reason, "userfault")) {
        return; /* QEMU gives a reason, and it is another one */
    }
    error_set(own, ERR_UNSUPPORTED,
              "%.300s: set vm.unprivileged_userfaultfd=1, or give QEMU "
              "CAP_SYS_PTRACE or (8.0 and later) access to /dev/userfaultfd",
              from->text);
}

static void capabilities_set_cb(void *arg, struct json_object *result,
                                const struct error *err)
{
    struct applying *a = arg;
    struct error own;

    if (err && a->is_postcopy_destination) {
        explain_userfaultfd(err, &own);
        err = &own;
    }
    if (err || json_object_object_length(a->parameters) == 0) {
        applying_end(a, err);
        return;
    }
    struct json_object *parameters = steal_ptr(&a->parameters);
    qmp_execute(a->qmp, "migrate-set-parameters", parameters, a->timeout,
                parameters_set_cb, a);
}

void qmp_caps_apply(struct qmp *qmp, const struct qmp_caps *before,
                    const struct qmp_probe *probe,
                    const struct qmp_caps_wish *wish, mp_time timeout,
                    qmp_done_cb cb, void *arg)
{
    struct json_object *capabilities = NULL, *parameters = NULL;
    struct error err;

    if (qmp_caps_plan(before, probe, wish, &capabilities, &parameters, &err) <
        0) {
        cb(arg, &err);
        return;
    }
    struct applying *a = calloc(1, sizeof(*a));
    if (!a) {
        json_object_put(capabilities);
        json_object_put(parameters);
        qmp_caps_out_of_memory(&err);
        cb(arg, &err);
        return;
    }
    a->qmp = qmp;
    a->timeout = timeout;
    a->is_postcopy_destination =
        wish->role == QMP_ROLE_DESTINATION && wish->postcopy;
    a->parameters = parameters;
    a->cb = cb;
    a->arg = arg;
    qmp_execute(qmp, "migrate-set-capabilities", capabilities, timeout,
                capabilities_set_cb, a);
}

/* --- putting back ------------------------------------------------------- */

/* READ -> CAPABILITIES (all at once; if QEMU refuses, one by one) ->
 * PARAMETERS (likewise) -> the end. */
struct restoring {
    struct qmp *qmp;
    mp_time timeout;
    struct qmp_caps *before;
    struct json_object *capabilities; /* a list */
    struct json_object *parameters;   /* an object */
    struct json_object *names;        /* its keys, for one by one */
    struct json_object *one_by_one;   /* capabilities or names, borrowed */
    size_t next;                      /* which of them */
    struct error failed;              /* what could not be put back, and why */
    qmp_done_cb cb;
    void *arg;
};

static void restore_parameters(struct restoring *r);
static void restore_next(struct restoring *r);

static void restoring_end(struct restoring *r, const struct error *err)
{
    qmp_done_cb cb = r->cb;
    void *arg = r->arg;
    struct error failed = r->failed;

    qmp_caps_free(r->before);
    json_object_put(r->capabilities);
    json_object_put(r->parameters);
    json_object_put(r->names);
    free(r);
    if (err && error_is_set(&failed)) {
        char also[200];
        snprintf(also, sizeof(also), "%.199s", failed.text);
        failed = *err;
        error_wrap(&failed, "%s; then", also);
        err = &failed;
    } else if (!err && error_is_set(&failed)) {
        err = &failed;
    }
    cb(arg, err);
}

static void note_failure(struct restoring *r, const char *name,
                         const struct error *err)
{
    struct error all = r->failed;

    if (!error_is_set(&all)) {
        error_set(&r->failed, ERR_QMP, "not put back: %s (%.200s)", name,
                  err->text);
    } else {
        /* QEMU's reason once, it is the same for most */
        error_set(&r->failed, ERR_QMP, "%s, %s", all.text, name);
    }
}

/* A refusal leads to the next step, everything else ends it. */
static bool is_end(const struct error *err)
{
    return err && err->code != ERR_QMP;
}

/* --- one by one */

static const char *name_at(struct json_object *list, size_t i)
{
    struct json_object *entry = json_object_array_get_idx(list, i);
    const char *name = "?";

    if (json_object_is_type(entry, json_type_string)) {
        return json_object_get_string(entry);
    }
    json_value_text(entry, "capability", &name);
    return name;
}

static void one_cb(void *arg, struct json_object *result,
                   const struct error *err)
{
    struct restoring *r = arg;

    if (is_end(err)) {
        restoring_end(r, err);
        return;
    }
    if (err) {
        note_failure(r, name_at(r->one_by_one, r->next), err);
    }
    r->next++;
    restore_next(r);
}

static struct json_object *capability_args(struct restoring *r)
{
    struct json_object *args = json_object_new_object();
    struct json_object *list = json_object_new_array();
    struct json_object *entry =
        json_object_array_get_idx(r->capabilities, r->next);

    if (!args || !list ||
        json_object_array_add(list, json_object_get(entry)) < 0 ||
        json_object_object_add(args, "capabilities", list) < 0) {
        json_object_put(list);
        json_object_put(args);
        return NULL;
    }
    return args;
}

static struct json_object *parameter_args(struct restoring *r)
{
    struct json_object *args = json_object_new_object(), *value = NULL;
    const char *name = name_at(r->names, r->next);

    json_object_object_get_ex(r->parameters, name, &value);
    if (!args ||
        json_object_object_add(args, name, json_object_get(value)) < 0) {
        json_object_put(args);
        return NULL;
    }
    return args;
}

static void restore_next(struct restoring *r)
{
    bool are_parameters = r->one_by_one == r->names;
    struct json_object *args;
    struct error err;

    if (r->next >= json_object_array_length(r->one_by_one)) {
        if (are_parameters) {
            restoring_end(r, NULL);
        } else {
            restore_parameters(r);
        }
        return;
    }
    args = are_parameters ? parameter_args(r) : capability_args(r);
    if (!args) {
        qmp_caps_out_of_memory(&err);
        restoring_end(r, &err);
        return;
    }
    qmp_execute(r->qmp,
                are_parameters ? "migrate-set-parameters"
                               : "migrate-set-capabilities",
                args, r->timeout, one_cb, r);
}

static void restore_one_by_one(struct restoring *r, struct json_object *list)
{
    r->one_by_one = list;
    r->next = 0;
    restore_next(r);
}

/* --- all at once */

static int list_names(struct restoring *r, struct error *err)
{
    r->names = json_object_new_array();
    if (!r->names) {
        return qmp_caps_out_of_memory(err);
    }
    json_object_object_foreach(r->parameters, name, value)
    {
        struct json_object *text = json_object_new_string(name);
        (void)value;
        if (!text || json_object_array_add(r->names, text) < 0) {
            json_object_put(text);
            return qmp_caps_out_of_memory(err);
        }
    }
    return 0;
}

static void all_parameters_cb(void *arg, struct json_object *result,
                              const struct error *err)
{
    struct restoring *r = arg;
    struct error own;

    if (!err || is_end(err)) {
        restoring_end(r, err);
    } else if (list_names(r, &own) < 0) {
        restoring_end(r, &own);
    } else {
        restore_one_by_one(r, r->names);
    }
}

static void restore_parameters(struct restoring *r)
{
    if (json_object_object_length(r->parameters) == 0) {
        restoring_end(r, NULL);
        return;
    }
    qmp_execute(r->qmp, "migrate-set-parameters",
                json_object_get(r->parameters), r->timeout, all_parameters_cb,
                r);
}

static void all_capabilities_cb(void *arg, struct json_object *result,
                                const struct error *err)
{
    struct restoring *r = arg;

    if (is_end(err)) {
        restoring_end(r, err);
    } else if (err) {
        restore_one_by_one(r, r->capabilities);
    } else {
        restore_parameters(r);
    }
}

static void restore_capabilities(struct restoring *r)
{
    struct json_object *args;
    struct error err;

    if (json_object_array_length(r->capabilities) == 0) {
        restore_parameters(r);
        return;
    }
    args = json_object_new_object();
    if (!args || json_object_object_add(args, "capabilities",
                                        json_object_get(r->capabilities)) < 0) {
        json_object_put(args);
        qmp_caps_out_of_memory(&err);
        restoring_end(r, &err);
        return;
    }
    qmp_execute(r->qmp, "migrate-set-capabilities", args, r->timeout,
                all_capabilities_cb, r);
}

static void now_read_cb(void *arg, struct qmp_caps *now,
                        const struct error *err)
{
    struct restoring *r = arg;
    struct error own;

    if (!err && qmp_caps_diff(now, r->before, &r->capabilities, &r->parameters,
                              &own) < 0) {
        err = &own;
    }
    qmp_caps_free(now);
    if (err) {
        restoring_end(r, err);
        return;
    }
    restore_capabilities(r);
}

void qmp_caps_restore(struct qmp *qmp, const struct qmp_caps *before,
                      mp_time timeout, qmp_done_cb cb, void *arg)
{
    struct restoring *r = calloc(1, sizeof(*r));
    struct error err;

    if (r) {
        r->before = qmp_caps_copy(before);
    }
    if (!r || !r->before) {
        free(r);
        qmp_caps_out_of_memory(&err);
        cb(arg, &err);
        return;
    }
    r->qmp = qmp;
    r->timeout = timeout;
    r->cb = cb;
    r->arg = arg;
    qmp_caps_read(qmp, timeout, now_read_cb, r);
}
