// SPDX-License-Identifier: BSD-3-Clause
/* What this QEMU can do: behaviour -> probe -> what we believe when unsure. */
#include "qmp/qmp-probe.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"

enum probe_kind {
    PROBE_COMMAND,    /* command a exists */
    PROBE_ARGUMENT,   /* command a takes b */
    PROBE_ANSWER,     /* the answer of command a may have b */
    PROBE_CAPABILITY, /* migration capability a exists */
    PROBE_STATUS,     /* migration status a exists */
    PROBE_PROPERTY    /* the migration object has property a */
};

struct probe_row {
    enum probe_kind kind;
    const char *a, *b;
    bool when_unsure;
};

/* Unsure means: act as with the QEMU that has the fewest virtues. A thing that
 * is no virtue (a silent main channel) is then believed to be there. */
static const struct probe_row rows[QMP_BEHAVIOURS] = {
    [QMP_CAN_POSTCOPY] = {PROBE_CAPABILITY, "postcopy-ram", NULL, false},
    [QMP_CAN_PREEMPT] = {PROBE_CAPABILITY, "postcopy-preempt", NULL, false},
    [QMP_CAN_PREEMPT_WHILE_BLOCKED] = {PROBE_PROPERTY, "x-preempt-pre-7-2",
                                       NULL, false},
    [QMP_CAN_RECOVER_SAFELY] = {PROBE_ARGUMENT, "migrate", "channels", false},
    [QMP_CAN_MULTIFD] = {PROBE_CAPABILITY, "multifd", NULL, false},
    [QMP_CAN_MULTIFD_POSTCOPY] = {PROBE_ANSWER, "query-migrate",
                                  "postcopy-latency", false},
    [QMP_CAN_STAY_ON_ERROR] = {PROBE_ARGUMENT, "migrate-incoming",
                               "exit-on-error", false},
    [QMP_HAS_SILENT_MAIN] = {PROBE_CAPABILITY, "mapped-ram", NULL, true},
    [QMP_CAN_PEEK_CHANNELS] = {PROBE_ANSWER, "query-migrate",
                               "postcopy-latency", false},
    [QMP_CAN_ROLL_BACK_POSTCOPY] = {PROBE_STATUS, "postcopy-device", NULL,
                                    false},
    [QMP_CAN_ACTIVATE_BLOCKS_LATE] = {PROBE_CAPABILITY, "late-block-activate",
                                      NULL, false},
    [QMP_CAN_YANK] = {PROBE_COMMAND, "yank", NULL, false},
};

#define BEHAVIOUR_NAME(symbol, name) [symbol] = name,
static const char *const names[QMP_BEHAVIOURS] = {
    QMP_BEHAVIOUR_TABLE(BEHAVIOUR_NAME)};
#undef BEHAVIOUR_NAME

const char *qmp_probe_name(enum qmp_behaviour behaviour)
{
    return (unsigned)behaviour < QMP_BEHAVIOURS ? names[behaviour] : "unknown";
}

void qmp_probe_init(struct qmp_probe *probe)
{
    probe->is_sure = false;
    for (int i = 0; i < QMP_BEHAVIOURS; i++) {
        probe->can[i] = rows[i].when_unsure;
    }
}

/* --- walking the schema (docs/devel/qapi-code-gen, introspection) ------- */

/* The entry of this name and meta-type, or NULL. */
static struct json_object *find_entry(struct json_object *schema,
                                      const char *name, const char *meta)
{
    size_t count = json_object_array_length(schema);

    for (size_t i = 0; i < count; i++) {
        struct json_object *entry = json_object_array_get_idx(schema, i);
        const char *text;
        if (json_value_text(entry, "name", &text) && !strcmp(text, name) &&
            json_value_text(entry, "meta-type", &text) && !strcmp(text, meta)) {
            return entry;
        }
    }
    return NULL;
}

/* The member of this name of an object type's entry, or NULL. */
static struct json_object *find_member(struct json_object *object,
                                       const char *name)
{
    struct json_object *members;

    if (!json_value_array(object, "members", &members)) {
        return NULL;
    }
    for (size_t i = 0; i < json_object_array_length(members); i++) {
        struct json_object *member = json_object_array_get_idx(members, i);
        const char *text;
        if (json_value_text(member, "name", &text) && !strcmp(text, name)) {
            return member;
        }
    }
    return NULL;
}

/* The object type a command takes ("arg-type") or answers ("ret-type"). */
static struct json_object *find_command_type(struct json_object *schema,
                                             const char *command,
                                             const char *which)
{
    const char *type;

    if (!json_value_text(find_entry(schema, command, "command"), which,
                         &type)) {
        return NULL;
    }
    return find_entry(schema, type, "object");
}

/* The type of a member of an object, as an enum. */
static struct json_object *find_member_enum(struct json_object *schema,
                                            struct json_object *object,
                                            const char *name)
{
    const char *type;

    if (!json_value_text(find_member(object, name), "type", &type)) {
        return NULL;
    }
    return find_entry(schema, type, "enum");
}

static bool enum_has(struct json_object *entry, const char *value)
{
    struct json_object *values;

    if (find_member(entry, value)) { /* "members" since 6.2 */
        return true;
    }
    if (!json_value_array(entry, "values", &values)) {
        return false;
    }
    for (size_t i = 0; i < json_object_array_length(values); i++) {
        struct json_object *v = json_object_array_get_idx(values, i);
        if (json_object_is_type(v, json_type_string) &&
            !strcmp(json_object_get_string(v), value)) {
            return true;
        }
    }
    return false;
}

/* MigrationCapability: migrate-set-capabilities takes a list of objects whose
 * member capability has that type. */
static struct json_object *find_capabilities(struct json_object *schema)
{
    const char *type;
    struct json_object *args =
        find_command_type(schema, "migrate-set-capabilities", "arg-type");

    if (!json_value_text(find_member(args, "capabilities"), "type", &type) ||
        !json_value_text(find_entry(schema, type, "array"), "element-type",
                         &type)) {
        return NULL;
    }
    return find_member_enum(schema, find_entry(schema, type, "object"),
                            "capability");
}

static bool has_property(struct json_object *properties, const char *name)
{
    for (size_t i = 0; i < json_object_array_length(properties); i++) {
        const char *text;
        if (json_value_text(json_object_array_get_idx(properties, i), "name",
                            &text) &&
            !strcmp(text, name)) {
            return true;
        }
    }
    return false;
}

/* --- probes ------------------------------------------------------------- */

struct sources {
    struct json_object *schema;
    struct json_object *properties; /* NULL: not known */
    struct json_object *capabilities;
    struct json_object *status;
};

static bool probe_one(const struct sources *s, const struct probe_row *row)
{
    switch (row->kind) {
    case PROBE_COMMAND:
        return find_entry(s->schema, row->a, "command") != NULL;
    case PROBE_ARGUMENT:
        return find_member(find_command_type(s->schema, row->a, "arg-type"),
                           row->b) != NULL;
    case PROBE_ANSWER:
        return find_member(find_command_type(s->schema, row->a, "ret-type"),
                           row->b) != NULL;
    case PROBE_CAPABILITY:
        return enum_has(s->capabilities, row->a);
    case PROBE_STATUS:
        return enum_has(s->status, row->a);
    case PROBE_PROPERTY:
        return s->properties ? has_property(s->properties, row->a)
                             : row->when_unsure;
    }
    return row->when_unsure;
}

int qmp_probe_parse(struct json_object *schema, struct json_object *properties,
                    struct qmp_probe *ret_probe, struct error *err)
{
    struct sources s = {.schema = schema};

    qmp_probe_init(ret_probe);
    if (!json_object_is_type(schema, json_type_array)) {
        return error_set(err, ERR_PROTOCOL,
                         "query-qmp-schema: QEMU's answer is no list");
    }
    if (json_object_is_type(properties, json_type_array)) {
        s.properties = properties;
    }
    s.capabilities = find_capabilities(schema);
    s.status = find_member_enum(
        schema, find_command_type(schema, "query-migrate", "ret-type"),
        "status");
    if (!s.capabilities || !s.status) {
        return error_set(err, ERR_PROTOCOL,
                         "query-qmp-schema: no migration capabilities or no "
                         "migration status in it");
    }
    for (int i = 0; i < QMP_BEHAVIOURS; i++) {
        ret_probe->can[i] = probe_one(&s, &rows[i]);
    }
    ret_probe->is_sure = s.properties != NULL;
    return 0;
}

/* --- asking QEMU -------------------------------------------------------- */

struct probing {
    struct qmp *qmp;
    mp_time timeout;
    struct json_object *schema;
    qmp_probe_cb cb;
    void *arg;
};

static void end(struct probing *p, const struct qmp_probe *probe,
                const struct error *err)
{
    qmp_probe_cb cb = p->cb;
    void *arg = p->arg;

    json_object_put(p->schema);
    free(p);
    cb(arg, err ? NULL : probe, err);
}

static bool is_missing_command(struct qmp *qmp, const struct error *err)
{
    return err->code == ERR_QMP &&
           !strcmp(qmp_error_class(qmp), "CommandNotFound");
}

static void properties_cb(void *arg, struct json_object *result,
                          const struct error *err)
{
    struct probing *p = arg;
    struct qmp_probe probe;
    struct error own;

    /* whatever QEMU has against this question, the schema is there */
    if (err && err->code == ERR_QMP) {
        err = NULL;
        result = NULL;
    }
    if (!err && qmp_probe_parse(p->schema, result, &probe, &own) < 0) {
        err = &own;
    }
    end(p, &probe, err);
}

static void schema_cb(void *arg, struct json_object *result,
                      const struct error *err)
{
    struct probing *p = arg;
    struct json_object *args = json_object_new_object();
    struct json_object *name = json_object_new_string("migration");
    struct qmp_probe probe;

    if (err || !args || !name) {
        json_object_put(args);
        json_object_put(name);
        qmp_probe_init(&probe);
        end(p, &probe, err && is_missing_command(p->qmp, err) ? NULL : err);
        return;
    }
    p->schema = json_object_get(result);
    json_object_object_add(args, "typename", name);
    qmp_execute(p->qmp, "qom-list-properties", args, p->timeout, properties_cb,
                p);
}

void qmp_probe_read(struct qmp *qmp, mp_time timeout, qmp_probe_cb cb,
                    void *arg)
{
    struct probing *p = calloc(1, sizeof(*p));

    if (!p) {
        struct error err;
        error_set(&err, ERR_NO_MEMORY, "query-qmp-schema: out of memory");
        cb(arg, NULL, &err);
        return;
    }
    p->qmp = qmp;
    p->timeout = timeout;
    p->cb = cb;
    p->arg = arg;
    qmp_execute(qmp, "query-qmp-schema", NULL, timeout, schema_cb, p);
}

struct json_object *qmp_probe_to_json(const struct qmp_probe *probe)
{
    struct json_object *json = json_object_new_object();

    for (int i = 0; json && i < QMP_BEHAVIOURS; i++) {
        json_object_object_add(json, names[i],
                               json_object_new_boolean(probe->can[i]));
    }
    return json;
}
