// SPDX-License-Identifier: BSD-3-Clause
/* Migration capabilities and parameters: what we depend on, and which commands
 * lead there and back. */
#include "qmp/qmp-caps.h"

#include <json-c/json.h>
#include <string.h>

#include "qmp/json-value.h"
#include "qmp/qmp-caps-internal.h"
#include "util/cleanup.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- what we depend on -------------------------------------------------- */

enum when {
    NEVER,
    ALWAYS,
    WITH_POSTCOPY,
    WITH_PREEMPT,
    WITH_MULTIFD,
    WITH_PAUSE,
    ON_DESTINATION,
    ON_POSTCOPY_DESTINATION
};

struct cap_row {
    const char *name;
    enum when when;      /* true then, false otherwise */
    bool is_dispensable; /* a QEMU without it is good enough */
};

/* Order: what another one needs comes first (QEMU, migration/options.c,
 * migrate_caps_check(); migration.c up to 8.0), so that going forward each can
 * be turned on, and going backward each can be turned off, by itself. */
static const struct cap_row cap_rows[] = {
    {"events", ALWAYS, false},
    {"return-path", ALWAYS, false},
    {"switchover-ack", NEVER, false}, /* needs return-path */
    {"postcopy-ram", WITH_POSTCOPY, false},
    {"postcopy-preempt", WITH_PREEMPT, false}, /* needs postcopy-ram */
    {"postcopy-blocktime", ON_POSTCOPY_DESTINATION, true},
    {"pause-before-switchover", WITH_PAUSE, false},
    {"late-block-activate", ON_DESTINATION, true},
    {"multifd", WITH_MULTIFD, false},
    {"zero-copy-send", NEVER, false}, /* needs multifd */
    {"release-ram", NEVER, false},    /* forbids recovery */
    {"auto-converge", NEVER, false},  /* its throttle outlives a stall */
    {"dirty-limit", NEVER, false},    /* likewise */
    {"compress", NEVER, false},       /* ours is the only encoding, and the */
    {"xbzrle", NEVER, false},         /* stream has to be parsed */
    {"x-colo", NEVER, false},
    {"background-snapshot", NEVER, false},
    {"x-ignore-shared", NEVER, false}, /* refuses postcopy */
    {"validate-uuid", NEVER, false},   /* preflight compares UUIDs */
    {"mapped-ram", NEVER, false},      /* for files */
    {"rdma-pin-all", NEVER, false},
    {"block", NEVER, false}, /* disks go over NBD */
    {"zero-blocks", NEVER, false},
    {"dirty-bitmaps", NEVER, false}, /* cannot be parsed */
};

static bool is_wanted(enum when when, const struct qmp_caps_wish *wish)
{
    bool is_destination = wish->role == QMP_ROLE_DESTINATION;

    switch (when) {
    case NEVER:
        return false;
    case ALWAYS:
        return true;
    case WITH_POSTCOPY:
        return wish->postcopy;
    case WITH_PREEMPT:
        return wish->preempt;
    case WITH_MULTIFD:
        return wish->multifd_channels > 0;
    case WITH_PAUSE:
        return !is_destination && wish->pause_before_switchover;
    case ON_DESTINATION:
        return is_destination;
    case ON_POSTCOPY_DESTINATION:
        return is_destination && wish->postcopy;
    }
    return false;
}

/* --- plans -------------------------------------------------------------- */

int qmp_caps_bandwidth(uint64_t bytes_per_second, uint64_t *ret_value,
                       struct error *err)
{
    if (bytes_per_second < QMP_CAPS_BANDWIDTH_MIN) {
        return error_set(err, ERR_BAD_REQUEST,
                         "a bandwidth of %llu bytes/s: QEMU would take it for "
                         "unlimited, the least is %d",
                         (unsigned long long)bytes_per_second,
                         QMP_CAPS_BANDWIDTH_MIN);
    }
    *ret_value = bytes_per_second < QMP_CAPS_BANDWIDTH_UNLIMITED
                     ? bytes_per_second
                     : QMP_CAPS_BANDWIDTH_UNLIMITED;
    return 0;
}

static int check_wish(const struct qmp_probe *probe,
                      const struct qmp_caps_wish *wish, struct error *err)
{
    if (wish->preempt && !wish->postcopy) {
        return error_set(err, ERR_BAD_REQUEST,
                         "postcopy-preempt without postcopy");
    }
    if (wish->multifd_channels > 255) {
        return error_set(err, ERR_BAD_REQUEST,
                         "%u multifd channels, QEMU's limit is 255",
                         wish->multifd_channels);
    }
    if (wish->role == QMP_ROLE_SOURCE && wish->max_downtime_ms != UINT64_MAX &&
        wish->max_downtime_ms > QMP_CAPS_DOWNTIME_MAX_MS) {
        return error_set(err, ERR_BAD_REQUEST,
                         "a max-downtime of %llu ms, QEMU's limit is %llu",
                         (unsigned long long)wish->max_downtime_ms,
                         (unsigned long long)QMP_CAPS_DOWNTIME_MAX_MS);
    }
    if (wish->postcopy && wish->multifd_channels > 0 &&
        !probe->can[QMP_CAN_MULTIFD_POSTCOPY]) {
        return error_set(err, ERR_UNSUPPORTED,
                         "multifd together with postcopy: this QEMU may accept "
                         "the pair and lose the guest (QEMU 10.1 can)");
    }
    return 0;
}

/* {"capability": name, "state": state} at the end of list. */
static int append_capability(struct json_object *list, const char *name,
                             bool state, struct error *err)
{
    struct json_object *entry = json_object_new_object();

    if (!entry ||
        !qmp_caps_add(entry, "capability", json_object_new_string(name)) ||
        !qmp_caps_add(entry, "state", json_object_new_boolean(state)) ||
        json_object_array_add(list, entry) < 0) {
        json_object_put(entry);
        return qmp_caps_out_of_memory(err);
    }
    return 0;
}

static int plan_capabilities(const struct qmp_caps *before,
                             const struct qmp_caps_wish *wish,
                             struct json_object *list, struct error *err)
{
    for (size_t i = 0; i < COUNT(cap_rows); i++) {
        const struct cap_row *row = &cap_rows[i];
        bool state = is_wanted(row->when, wish);
        if (!qmp_caps_has(before, row->name)) {
            if (state && !row->is_dispensable) {
                return error_set(err, ERR_UNSUPPORTED,
                                 "the %s QEMU lacks the migration capability "
                                 "%s",
                                 wish->role == QMP_ROLE_SOURCE ? "source"
                                                               : "destination",
                                 row->name);
            }
        } else if (append_capability(list, row->name, state, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int plan_number(struct json_object *parameters, const char *name,
                       uint64_t value, struct error *err)
{
    return qmp_caps_add(parameters, name, json_object_new_uint64(value))
               ? 0
               : qmp_caps_out_of_memory(err);
}

/* Sets name to text where QEMU has it and it is something else. */
static int plan_text(const struct qmp_caps *before,
                     struct json_object *parameters, const char *name,
                     const char *text, struct error *err)
{
    const char *now;

    if (!json_value_text(before->parameters, name, &now) ||
        !strcmp(now, text)) {
        return 0;
    }
    return qmp_caps_add(parameters, name, json_object_new_string(text))
               ? 0
               : qmp_caps_out_of_memory(err);
}

static int plan_source_parameters(const struct qmp_caps_wish *wish,
                                  struct json_object *parameters,
                                  struct error *err)
{
    uint64_t rate = 0;

    if (qmp_caps_bandwidth(wish->max_bandwidth_bytes_per_second, &rate, err) <
            0 ||
        plan_number(parameters, "max-bandwidth", rate, err) < 0 ||
        plan_number(parameters, "max-postcopy-bandwidth", 0, err) < 0) {
        return -1;
    }
    if (wish->max_downtime_ms == UINT64_MAX) {
        return 0;
    }
    return plan_number(parameters, "downtime-limit", wish->max_downtime_ms,
                       err);
}

static int plan_parameters(const struct qmp_caps *before,
                           const struct qmp_caps_wish *wish,
                           struct json_object *parameters, struct error *err)
{
    if (wish->role == QMP_ROLE_SOURCE &&
        plan_source_parameters(wish, parameters, err) < 0) {
        return -1;
    }
    if (wish->multifd_channels > 0 &&
        (plan_number(parameters, "multifd-channels", wish->multifd_channels,
                     err) < 0 ||
         plan_text(before, parameters, "multifd-compression", "none", err) <
             0)) {
        return -1;
    }
    /* TLS is between the daemons; QEMU talks to its own daemon only */
    if (plan_text(before, parameters, "tls-creds", "", err) < 0 ||
        plan_text(before, parameters, "tls-hostname", "", err) < 0 ||
        plan_text(before, parameters, "tls-authz", "", err) < 0) {
        return -1;
    }
    return plan_text(before, parameters, "mode", "normal", err);
}

int qmp_caps_plan(const struct qmp_caps *before, const struct qmp_probe *probe,
                  const struct qmp_caps_wish *wish,
                  struct json_object **ret_capabilities,
                  struct json_object **ret_parameters, struct error *err)
{
    CLEANUP(qmp_caps_put_ptr)
    struct json_object *capabilities = json_object_new_object();
    CLEANUP(qmp_caps_put_ptr)
    struct json_object *parameters = json_object_new_object();
    struct json_object *list = json_object_new_array();

    if (!capabilities || !parameters ||
        !qmp_caps_add(capabilities, "capabilities", list)) {
        return qmp_caps_out_of_memory(err);
    }
    if (check_wish(probe, wish, err) < 0 ||
        plan_capabilities(before, wish, list, err) < 0 ||
        plan_parameters(before, wish, parameters, err) < 0) {
        return -1;
    }
    *ret_capabilities = steal_ptr(&capabilities);
    *ret_parameters = steal_ptr(&parameters);
    return 0;
}

/* --- the way back ------------------------------------------------------- */

static int diff_capability(const struct qmp_caps *now,
                           const struct qmp_caps *before, size_t row,
                           bool wanted, struct json_object *list,
                           struct error *err)
{
    const char *name = cap_rows[row].name;

    if (!qmp_caps_has(before, name) || !qmp_caps_has(now, name) ||
        qmp_caps_is_on(before, name) != wanted ||
        qmp_caps_is_on(now, name) == wanted) {
        return 0;
    }
    return append_capability(list, name, wanted, err);
}

static int diff_parameter(const struct qmp_caps *now,
                          const struct qmp_caps *before, const char *name,
                          struct json_object *parameters, struct error *err)
{
    struct json_object *was, *is;

    if (!json_object_object_get_ex(before->parameters, name, &was) ||
        !json_object_object_get_ex(now->parameters, name, &is) ||
        json_object_equal(was, is)) {
        return 0;
    }
    return qmp_caps_add_copy(parameters, name, was)
               ? 0
               : qmp_caps_out_of_memory(err);
}

int qmp_caps_diff(const struct qmp_caps *now, const struct qmp_caps *before,
                  struct json_object **ret_capabilities,
                  struct json_object **ret_parameters, struct error *err)
{
    CLEANUP(qmp_caps_put_ptr)
    struct json_object *list = json_object_new_array();
    CLEANUP(qmp_caps_put_ptr)
    struct json_object *parameters = json_object_new_object();

    if (!list || !parameters) {
        return qmp_caps_out_of_memory(err);
    }
    for (size_t i = COUNT(cap_rows); i-- > 0;) {
        if (diff_capability(now, before, i, false, list, err) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < COUNT(cap_rows); i++) {
        if (diff_capability(now, before, i, true, list, err) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < QMP_CAPS_PARAMETERS; i++) {
        if (diff_parameter(now, before, qmp_caps_parameters[i], parameters,
                           err) < 0) {
            return -1;
        }
    }
    *ret_capabilities = steal_ptr(&list);
    *ret_parameters = steal_ptr(&parameters);
    return 0;
}
