// SPDX-License-Identifier: BSD-3-Clause
/* What this QEMU can do and how it behaves, told from query-qmp-schema and the
 * properties of its migration object, never from a version string:
 * distributions carry fixes and features back. */
#ifndef QMP_QMP_PROBE_H
#define QMP_QMP_PROBE_H

#include <stdbool.h>

#include "qmp/qmp.h"

/* symbol, name in records and reports. The probe of each and what is believed
 * when it cannot tell are in one table in qmp-probe.c. */
#define QMP_BEHAVIOUR_TABLE(X)                                                 \
    /* the capability postcopy-ram exists */                                   \
    X(QMP_CAN_POSTCOPY, "postcopy")                                            \
    /* the capability postcopy-preempt exists (7.1) */                         \
    X(QMP_CAN_PREEMPT, "postcopy-preempt")                                     \
    /* preempt as of 8.0: a thread of its own answers requests even while main \
     * is blocked, and preempt is dialled when postcopy starts, unless the     \
     * machine type is 7.2 or older */                                         \
    X(QMP_CAN_PREEMPT_WHILE_BLOCKED, "preempt-while-blocked")                  \
    /* a connection may break inside postcopy-recover without wedging the      \
     * source or crashing the destination (8.2) */                             \
    X(QMP_CAN_RECOVER_SAFELY, "recover-safe")                                  \
    /* multifd exists */                                                       \
    X(QMP_CAN_MULTIFD, "multifd")                                              \
    /* multifd and postcopy together; before, QEMU may accept the pair and     \
     * lose the guest (10.1) */                                                \
    X(QMP_CAN_MULTIFD_POSTCOPY, "multifd-with-postcopy")                       \
    /* migrate-incoming takes exit-on-error (9.1) */                           \
    X(QMP_CAN_STAY_ON_ERROR, "exit-on-error")                                  \
    /* main stays silent until all multifd channels are connected (9.0) */     \
    X(QMP_HAS_SILENT_MAIN, "multifd-before-main")                              \
    /* the destination tells channels apart by their first bytes, in any case  \
     * of multifd and postcopy (10.1) */                                       \
    X(QMP_CAN_PEEK_CHANNELS, "peeks-channels")                                 \
    /* the source can take the guest back until the destination has loaded its \
     * devices (postcopy-device, 10.2) */                                      \
    X(QMP_CAN_ROLL_BACK_POSTCOPY, "postcopy-rollback")                         \
    /* the capability late-block-activate exists */                            \
    X(QMP_CAN_ACTIVATE_BLOCKS_LATE, "late-block-activate")                     \
    /* the command yank exists */                                              \
    X(QMP_CAN_YANK, "yank")

#define QMP_BEHAVIOUR_ENUM(symbol, name) symbol,
enum qmp_behaviour { QMP_BEHAVIOUR_TABLE(QMP_BEHAVIOUR_ENUM) QMP_BEHAVIOURS };
#undef QMP_BEHAVIOUR_ENUM

struct qmp_probe {
    bool can[QMP_BEHAVIOURS];
    bool is_sure; /* false: the schema could not be read, can[] is the careful
                     guess */
};

struct json_object;

const char *qmp_probe_name(enum qmp_behaviour behaviour);

/* The careful guess for a QEMU that tells nothing. */
void qmp_probe_init(struct qmp_probe *probe);

/* Reads the answers to query-qmp-schema and to qom-list-properties of the type
 * "migration" (NULL where QEMU gave none: what it would tell is guessed).
 * ERR_PROTOCOL, with *ret_probe the careful guess, if schema is no schema.
 * Pure. */
int qmp_probe_parse(struct json_object *schema, struct json_object *properties,
                    struct qmp_probe *ret_probe, struct error *err);

/* Asks QEMU. One without query-qmp-schema gives the careful guess; errors are
 * those of qmp_execute(). probe is valid within the callback. */
typedef void (*qmp_probe_cb)(void *arg, const struct qmp_probe *probe,
                             const struct error *err);
void qmp_probe_read(struct qmp *qmp, mp_time timeout, qmp_probe_cb cb,
                    void *arg);

/* {"postcopy":true,...}, the caller's to put; NULL when out of memory. */
struct json_object *qmp_probe_to_json(const struct qmp_probe *probe);

#endif
