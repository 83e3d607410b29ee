// SPDX-License-Identifier: BSD-3-Clause
/* Migration capabilities and parameters: read all, set every one we depend on
 * to true or false, put all back afterwards (QEMU qapi/migration.json, 6.2 to
 * 10.2).
 *
 * How it works: qmp_caps_read() takes a snapshot, which goes into the record
 * on disk before anything is set. qmp_caps_apply() sends one
 * migrate-set-capabilities (QEMU checks the resulting set, so one call has no
 * order problem) and one migrate-set-parameters. qmp_caps_restore() reads
 * again, compares with the snapshot and sets what differs among those we
 * manage, so it may be called after any failure, by a successor, and twice. */
#ifndef QMP_QMP_CAPS_H
#define QMP_QMP_CAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "qmp/qmp-migrate.h"
#include "qmp/qmp-probe.h"
#include "qmp/qmp.h"

/* QEMU divides max-bandwidth by ten and takes 0 for "no limit": a rate below
 * this would mean unlimited, so it is refused. */
#define QMP_CAPS_BANDWIDTH_MIN 10
/* What "unlimited" (UINT64_MAX) is sent as: 1 PiB/s. */
#define QMP_CAPS_BANDWIDTH_UNLIMITED (UINT64_C(1) << 50)
/* QEMU's limit of downtime-limit. */
#define QMP_CAPS_DOWNTIME_MAX_MS UINT64_C(2000000)

/* The value of max-bandwidth for a rate: UINT64_MAX (unlimited) and all above
 * QMP_CAPS_BANDWIDTH_UNLIMITED become that; below QMP_CAPS_BANDWIDTH_MIN is
 * ERR_BAD_REQUEST. */
int qmp_caps_bandwidth(uint64_t bytes_per_second, uint64_t *ret_value,
                       struct error *err);

enum qmp_role { QMP_ROLE_SOURCE, QMP_ROLE_DESTINATION };

/* What a migration wants of one QEMU. */
struct qmp_caps_wish {
    enum qmp_role role;
    bool postcopy;                           /* may end as postcopy */
    bool preempt;                            /* with postcopy only */
    bool pause_before_switchover;            /* source */
    unsigned multifd_channels;               /* 0: no multifd; at most 255 */
    uint64_t max_bandwidth_bytes_per_second; /* UINT64_MAX: unlimited */
    uint64_t max_downtime_ms; /* UINT64_MAX: leave the parameter alone */
};

/* A snapshot. Free with qmp_caps_free(). */
struct qmp_caps;

void qmp_caps_free(struct qmp_caps *caps);
bool qmp_caps_has(const struct qmp_caps *caps, const char *capability);
bool qmp_caps_is_on(const struct qmp_caps *caps, const char *capability);

/* The snapshot as JSON, the caller's to put; NULL when out of memory. */
struct json_object *qmp_caps_to_json(const struct qmp_caps *caps);
/* Back from JSON. NULL and ERR_PROTOCOL naming the member that is wrong. */
struct qmp_caps *qmp_caps_from_json(struct json_object *json,
                                    struct error *err);

/* Takes a snapshot. The callback owns caps (NULL on error). */
typedef void (*qmp_caps_cb)(void *arg, struct qmp_caps *caps,
                            const struct error *err);
void qmp_caps_read(struct qmp *qmp, mp_time timeout, qmp_caps_cb cb, void *arg);

/* What qmp_caps_apply() would send, for tests and preflight: the arguments of
 * migrate-set-capabilities and migrate-set-parameters, the caller's to put.
 * Nothing is half done on failure:
 *   ERR_UNSUPPORTED  QEMU lacks a capability that is needed (named), or accepts
 *                    a combination it breaks (multifd with postcopy, by probe)
 *   ERR_BAD_REQUEST  the wish contradicts itself or is out of range
 * Pure. */
int qmp_caps_plan(const struct qmp_caps *before, const struct qmp_probe *probe,
                  const struct qmp_caps_wish *wish,
                  struct json_object **ret_capabilities,
                  struct json_object **ret_parameters, struct error *err);

/* Sets what the wish needs; on the destination before migrate-incoming. before
 * and wish are used within the call only; timeout is for each of the two
 * commands. After an error call qmp_caps_restore(). Errors of qmp_caps_plan()
 * too; when the destination refuses postcopy, ERR_UNSUPPORTED says how to
 * permit userfaultfd. */
void qmp_caps_apply(struct qmp *qmp, const struct qmp_caps *before,
                    const struct qmp_probe *probe,
                    const struct qmp_caps_wish *wish, mp_time timeout,
                    qmp_done_cb cb, void *arg);

/* Puts back what the snapshot says. before is copied. timeout is for each
 * command. The error names each capability and parameter that could not be put
 * back and QEMU's reason. */
void qmp_caps_restore(struct qmp *qmp, const struct qmp_caps *before,
                      mp_time timeout, qmp_done_cb cb, void *arg);

#endif
