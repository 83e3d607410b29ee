// SPDX-License-Identifier: BSD-3-Clause
/* Ends that the other end has not heard of.
 *
 * A source whose migration ended while nobody answered at the destination tells
 * it later: when the path or the daemon is back, both records say the same
 * cause and the same result, and a destination that waits for the word no
 * longer does. What is asked is "migration.abort", which starts nothing. */
#include <stdio.h>
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/manager-private.h"
#include "qmp/json-value.h"
#include "util/cleanup.h"

#define SETTLE_CALL (3 * MP_SECOND)
#define SETTLE_FIRST (1 * MP_SECOND)
#define SETTLE_INTERVAL_MAX (60 * MP_SECOND)
#define SETTLE_LIMIT (3600 * MP_SECOND) /* then it is left as it is */

static void save(struct manager *manager, struct ended *ended)
{
    struct error err = ERROR_INIT;

    if (store_save(manager->env.store,
                   ended->is_source ? MIGRATION_SOURCE : MIGRATION_DESTINATION,
                   ended->id, ended->record, &err)) {
        log_error("record of migration %s: %s", ended->id, err.text);
    }
}

static bool successor_flag(const struct ended *ended, const char *name)
{
    json_object *successor = NULL;
    bool value = false;

    json_value_object(ended->record, "successor", &successor);
    json_value_bool(successor, name, &value);
    return value;
}

static void set_flag(struct ended *ended, const char *name, bool value)
{
    json_object *successor = NULL;

    if (json_value_object(ended->record, "successor", &successor)) {
        json_object_object_add(successor, name, json_object_new_boolean(value));
    }
}

/* Puts error (class, message, side) into the record; what it said before stays
 * as the detail. */
static void replace_error(struct ended *ended, json_object *error,
                          const char *fallback, bool is_effect)
{
    json_object *old = NULL, *object;
    struct error why = ERROR_INIT;
    const char *seen = "";
    const char *side = error_json_read(error, fallback, &why);

    if (json_value_object(ended->record, "error", &old) &&
        !json_value_text(old, "detail", &seen)) {
        json_value_text(old, "message", &seen);
    }
    object = error_json_new(&why, side);
    if (seen[0] && strcmp(seen, why.text) != 0) {
        json_object_object_add(object, "detail", json_object_new_string(seen));
    }
    json_object_object_add(ended->record, "error", object);
    set_flag(ended, "effect", is_effect);
}

/* The destination's ------------------------------------------------------- */

static const char *text_of(json_object *object, const char *name)
{
    const char *text = "";
    json_value_text(object, name, &text);
    return text;
}

/* Where the source says that a person is needed. */
static void advise_of_record(struct manager *manager, struct ended *ended)
{
    json_object *record = ended->record, *successor = NULL;
    char context[96];

    json_value_object(record, "successor", &successor);
    struct advice advice = {.kind = ADVICE_OTHER_HOST,
                            .id = ended->id,
                            .vm = text_of(record, "vm"),
                            .uuid = text_of(record, "uuid"),
                            .here = manager->env.conf->name,
                            .peer = text_of(record, "peer"),
                            .qmp_path = text_of(successor, "qmp_path"),
                            .peer_qmp_path =
                                text_of(successor, "peer_qmp_path"),
                            .detail = ""};
    CLEANUP_FREE char *text = advice_make(&advice);
    if (text) {
        snprintf(context, sizeof(context), "mig=%s side=%s", ended->id,
                 MIGRATION_DESTINATION);
        migration_log_advice(context, text);
        json_object_object_add(record, "advice", json_object_new_string(text));
    }
}

void manager_amend_record(struct manager *manager, struct ended *ended,
                          json_object *params)
{
    json_object *failure;
    bool cancelled = false, attention = false, effect = false;
    bool refused = false;
    bool started = successor_flag(ended, "started");
    const char *state, *advice;

    json_value_bool(params, "cancelled", &cancelled);
    json_value_bool(params, "attention", &attention);
    json_value_bool(params, "effect", &effect);
    if (!effect || !json_value_object(ended->record, "error", &failure)) {
        replace_error(ended, params, MIGRATION_SOURCE, effect);
    }
    if (json_value_bool(params, "refused", &refused)) {
        json_object_object_add(ended->record, "refused",
                               json_object_new_boolean(refused));
    }
    if (!started) {
        state = migration_state_name(attention   ? MIGRATION_ATTENTION
                                     : cancelled ? MIGRATION_CANCELLED
                                                 : MIGRATION_FAILED);
        json_object_object_add(ended->record, "state",
                               json_object_new_string(state));
        json_object_object_add(ended->record, "result",
                               json_object_new_string(state));
    }
    if (attention && !json_value_text(ended->record, "advice", &advice)) {
        advise_of_record(manager, ended);
        json_object_object_add(ended->record, "guest_is_on",
                               json_object_new_string("unknown"));
    }
    save(manager, ended);
}

/* The source's ------------------------------------------------------------- */

static struct ended *find_asked(struct manager *manager)
{
    LIST_EACH (node, &manager->ended) {
        struct ended *ended = container_of(node, struct ended, node);
        if (ended->is_asked) {
            return ended;
        }
    }
    return NULL;
}

static void on_settled(void *arg, json_object *result, const struct error *err)
{
    struct manager *manager = arg;
    struct ended *ended = find_asked(manager);
    json_object *failure;

    if (!ended) {
        return;
    }
    ended->is_asked = false;
    if (err && peers_is_unheard(err)) {
        return; /* the timer asks again */
    }
    log_info("migration %s: the destination has heard how it ended%s%s",
             ended->id, err ? ": " : "", err ? err->text : "");
    if (!err && successor_flag(ended, "effect") &&
        json_value_object(result, "error", &failure)) {
        replace_error(ended, failure, MIGRATION_DESTINATION, false);
    }
    ended->unsettled = false;
    set_flag(ended, "unsettled", false);
    save(manager, ended);
}

static json_object *make_params(const struct ended *ended)
{
    json_object *params = json_object_new_object(), *failure = NULL;
    struct error why = ERROR_INIT;
    const char *state = "";
    bool refused = false;

    json_value_object(ended->record, "error", &failure);
    json_value_text(ended->record, "state", &state);
    const char *side = error_json_read(failure, MIGRATION_SOURCE, &why);
    json_object_object_add(params, "migration",
                           json_object_new_string(ended->id));
    error_json_add(params, &why, side);
    json_object_object_add(
        params, "cancelled",
        json_object_new_boolean(!strcmp(state, "cancelled")));
    json_value_bool(ended->record, "refused", &refused);
    json_object_object_add(params, "refused", json_object_new_boolean(refused));
    json_object_object_add(
        params, "attention",
        json_object_new_boolean(!strcmp(state, "attention")));
    json_object_object_add(
        params, "effect",
        json_object_new_boolean(successor_flag(ended, "effect")));
    return params;
}

/* One at a time, each in its turn: the one that was asked least often. */
static struct ended *find_next(struct manager *manager)
{
    struct ended *next = NULL;

    LIST_EACH (node, &manager->ended) {
        struct ended *ended = container_of(node, struct ended, node);
        if (ended->unsettled && (!next || ended->asked < next->asked)) {
            next = ended;
        }
    }
    return next;
}

static void settle_cb(void *arg)
{
    struct manager *manager = arg;
    struct ended *ended = find_next(manager);
    const char *peer;

    if (!ended || manager->draining) {
        return;
    }
    loop_timer_start(&manager->settle, manager->settle_interval);
    if (ended->is_asked || find_asked(manager)) {
        return;
    }
    if (loop_now(manager->env.control) - ended->unsettled_at > SETTLE_LIMIT ||
        !json_value_text(ended->record, "peer", &peer)) {
        ended->unsettled = false;
        return;
    }
    if (manager->settle_interval < SETTLE_INTERVAL_MAX) {
        manager->settle_interval += manager->settle_interval;
    }
    ended->asked++;
    ended->is_asked = true;
    peers_call(manager->env.peers, peer, "migration.abort", make_params(ended),
               SETTLE_CALL, manager, on_settled, manager);
}

void manager_settle(struct manager *manager, struct ended *ended)
{
    if (!ended->is_source || !successor_flag(ended, "unsettled")) {
        return;
    }
    ended->unsettled = true;
    ended->unsettled_at = loop_now(manager->env.control);
    manager->settle_interval = SETTLE_FIRST;
    loop_timer_start(&manager->settle, SETTLE_FIRST);
}

void manager_settle_init(struct manager *manager)
{
    loop_timer_init(&manager->settle, manager->env.control, settle_cb, manager);
}

void manager_settle_done(struct manager *manager)
{
    loop_timer_done(&manager->settle);
    if (manager->env.peers) {
        peers_drop_calls(manager->env.peers, manager);
    }
}
