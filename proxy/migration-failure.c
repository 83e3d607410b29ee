// SPDX-License-Identifier: BSD-3-Clause
/* The first cause of a migration's failure: the same class, words and side at
 * both ends.
 *
 * What one end saw of a path that broke is no cause: the other end sees another
 * connection break, at another moment, or only silence. So of each path that
 * broke both say the same sentence, on the side "path", and what was seen is
 * kept beside it as detail. It gives way to a cause that either end knows. */
#include <stdio.h>
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/migration.h"
#include "qmp/json-value.h"

static const char *host(const struct migration *m, bool is_source)
{
    const char *said = is_source ? m->hosts.source : m->hosts.destination;

    if (said[0]) {
        return said;
    }
    return is_source == m->is_source ? m->env->conf->name : m->request.peer;
}

const char *migration_source_host(const struct migration *m)
{
    return host(m, true);
}

const char *migration_destination_host(const struct migration *m)
{
    return host(m, false);
}

static void keep_detail(struct migration_failure *failure, const char *text)
{
    if (strcmp(text, failure->error.text) != 0) {
        json_value_copy_text(failure->detail, sizeof(failure->detail), text);
    }
}

static void note(struct migration *m, const char *side, const struct error *err,
                 bool is_effect)
{
    struct migration_failure *failure = &m->failure;
    bool is_path = err->code == ERR_LINK_LOST;
    char seen[sizeof(err->text)];

    is_effect = is_effect || is_path;
    side = is_path ? MIGRATION_PATH : side;
    bool is_later = failure->is_set && (is_effect || !failure->is_effect);
    migration_log(m, is_later ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR,
                  "%s%s (%s, on the %s)", is_later ? "then: " : "", err->text,
                  error_class(err->code), side);
    if (is_later) {
        return;
    }
    /* what gives way now was what this end saw, as is a path that broke */
    json_value_copy_text(seen, sizeof(seen),
                         is_path              ? err->text
                         : !failure->is_set   ? ""
                         : failure->detail[0] ? failure->detail
                                              : failure->error.text);
    failure->is_set = true;
    failure->is_effect = is_effect;
    failure->detail[0] = '\0';
    error_copy(&failure->error, err);
    if (is_path) {
        error_set(&failure->error, ERR_LINK_LOST,
                  "the path between the hosts %s and %s broke",
                  migration_source_host(m), migration_destination_host(m));
    }
    keep_detail(failure, seen);
    snprintf(failure->side, sizeof(failure->side), "%s", side);
}

void migration_note_failure(struct migration *m, const char *side,
                            const struct error *err)
{
    note(m, side, err, false);
}

void migration_note_effect(struct migration *m, const char *side,
                           const struct error *err)
{
    note(m, side, err, true);
}

void migration_take_failure(struct migration *m, const char *side,
                            const struct error *err, bool is_effect)
{
    char seen[sizeof(m->failure.detail)] = "";

    if (m->failure.is_set) {
        json_value_copy_text(seen, sizeof(seen),
                             m->failure.detail[0] ? m->failure.detail
                                                  : m->failure.error.text);
    }
    m->failure.is_set = false;
    note(m, side, err, is_effect);
    if (!m->failure.detail[0]) {
        keep_detail(&m->failure, seen);
    }
}

json_object *migration_failure_to_json(const struct migration *m)
{
    json_object *object;

    if (!m->failure.is_set) {
        return NULL;
    }
    object = error_json_new(&m->failure.error, m->failure.side);
    if (m->failure.detail[0]) {
        json_object_object_add(object, "detail",
                               json_object_new_string(m->failure.detail));
    }
    return object;
}

void migration_failure_from_json(struct migration *m, json_object *object)
{
    struct migration_failure *failure = &m->failure;
    const char *detail = "";
    const char *side =
        error_json_read(object, MIGRATION_SOURCE, &failure->error);

    failure->is_set = true;
    json_value_copy_text(failure->side, sizeof(failure->side), side);
    json_value_text(object, "detail", &detail);
    json_value_copy_text(failure->detail, sizeof(failure->detail), detail);
}

void migration_soft_init(struct migration *m, loop_fn late, void *arg)
{
    loop_timer_init(&m->soft.grace, m->env->control, late, arg);
}

void migration_soft_set(struct migration *m, const struct error *err)
{
    struct migration_soft *soft = &m->soft;

    if (!soft->is_set) {
        soft->is_set = true;
        soft->error = *err;
        /* in postcopy the source asks its own QEMU's word first */
        loop_timer_start(&soft->grace, m->is_source || !m->started
                                           ? MIGRATION_GRACE
                                           : 2 * MIGRATION_GRACE);
    } else if ((soft->error.code == ERR_QEMU_FAILED ||
                soft->error.code == ERR_LINK_LOST) &&
               err->code != ERR_QEMU_FAILED) {
        soft->error = *err;
    }
}

bool migration_soft_take(struct migration *m, struct error *ret_err)
{
    bool is_set = m->soft.is_set;

    *ret_err = m->soft.error;
    migration_soft_drop(m);
    return is_set;
}

void migration_soft_drop(struct migration *m)
{
    m->soft.is_set = false;
    loop_timer_stop(&m->soft.grace);
}

void migration_soft_done(struct migration *m)
{
    loop_timer_done(&m->soft.grace);
}

const char *migration_side_of(const struct error *err, const char *fallback)
{
    if (strstr(err->text, "destination QEMU")) {
        return MIGRATION_DESTINATION;
    }
    return strstr(err->text, "source QEMU") ? MIGRATION_SOURCE : fallback;
}
