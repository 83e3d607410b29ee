// SPDX-License-Identifier: BSD-3-Clause
/* Typed commands for migrations on top of qmp.h (QEMU qapi/migration.json,
 * 6.2 to 10.2).
 *
 * Each function submits and ends in exactly one callback, with the errors of
 * qmp_execute() and ERR_PROTOCOL where an answer has not the promised form.
 * What callbacks are given by pointer is valid until they return; a result is
 * NULL when err is not, and the other way round. cb must not be NULL. */
#ifndef QMP_QMP_MIGRATE_H
#define QMP_QMP_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qmp/qmp.h"

/* symbol, name in QMP (MigrationStatus) */
#define QMP_MIGRATE_STATUS_TABLE(X)                                            \
    X(QMP_MIGRATE_NONE, "none")                                                \
    X(QMP_MIGRATE_SETUP, "setup")                                              \
    X(QMP_MIGRATE_ACTIVE, "active")                                            \
    X(QMP_MIGRATE_POSTCOPY_ACTIVE, "postcopy-active")                          \
    X(QMP_MIGRATE_POSTCOPY_PAUSED, "postcopy-paused")                          \
    X(QMP_MIGRATE_POSTCOPY_RECOVER_SETUP, "postcopy-recover-setup")            \
    X(QMP_MIGRATE_POSTCOPY_RECOVER, "postcopy-recover")                        \
    X(QMP_MIGRATE_POSTCOPY_DEVICE, "postcopy-device")                          \
    X(QMP_MIGRATE_PRE_SWITCHOVER, "pre-switchover")                            \
    X(QMP_MIGRATE_DEVICE, "device")                                            \
    X(QMP_MIGRATE_COMPLETED, "completed")                                      \
    X(QMP_MIGRATE_FAILED, "failed")                                            \
    X(QMP_MIGRATE_FAILING, "failing")                                          \
    X(QMP_MIGRATE_CANCELLING, "cancelling")                                    \
    X(QMP_MIGRATE_CANCELLED, "cancelled")                                      \
    X(QMP_MIGRATE_COLO, "colo")                                                \
    X(QMP_MIGRATE_WAIT_UNPLUG, "wait-unplug")                                  \
    X(QMP_MIGRATE_UNKNOWN, "unknown")

#define QMP_MIGRATE_STATUS_ENUM(symbol, name) symbol,
enum qmp_migrate_status {
    QMP_MIGRATE_STATUS_TABLE(QMP_MIGRATE_STATUS_ENUM) QMP_MIGRATE_STATUSES
};
#undef QMP_MIGRATE_STATUS_ENUM

const char *qmp_migrate_status_name(enum qmp_migrate_status status);
/* QMP_MIGRATE_UNKNOWN for a name a newer QEMU made up. */
enum qmp_migrate_status qmp_migrate_status_parse(const char *name);
/* From the point where the guest may run on the destination until completed:
 * postcopy-active, -paused, -recover, -recover-setup, -device. No cancel. */
bool qmp_migrate_status_is_postcopy(enum qmp_migrate_status status);
/* completed, failed, cancelled: nothing will follow by itself. */
bool qmp_migrate_status_is_final(enum qmp_migrate_status status);
/* If the event is MIGRATION: true and its status. */
bool qmp_migrate_status_of_event(const char *event_name,
                                 struct json_object *data,
                                 enum qmp_migrate_status *ret_status);

/* query-migrate. A number QEMU did not send is 0; has_* tells where 0 has a
 * meaning of its own. */
struct qmp_migrate_info {
    enum qmp_migrate_status status;
    char status_text[32]; /* as sent; "none" where QEMU sends no status */
    char error_desc[256];

    bool has_ram;         /* not of what has failed or was cancelled */
    bool has_phase_bytes; /* precopy, postcopy, downtime: 7.0 */
    uint64_t ram_transferred_bytes;
    uint64_t ram_remaining_bytes;
    uint64_t ram_total_bytes;
    uint64_t ram_page_size_bytes; /* the target's page size */
    uint64_t ram_zero_pages;
    uint64_t ram_normal_pages;
    uint64_t ram_dirty_pages_per_second;
    uint64_t ram_dirty_sync_count;
    uint64_t ram_postcopy_requests;
    uint64_t ram_precopy_bytes; /* while the guest ran, without multifd's */
    uint64_t ram_postcopy_bytes;
    uint64_t ram_downtime_bytes; /* while it stood still, likewise */
    uint64_t ram_multifd_bytes;
    uint64_t ram_pages_per_second;
    double ram_megabits_per_second;

    uint64_t setup_time_ms;
    uint64_t total_time_ms;
    uint64_t expected_downtime_ms;
    bool has_downtime; /* once the switchover is over */
    uint64_t downtime_ms;

    bool has_postcopy_blocktime; /* destination, with postcopy-blocktime */
    uint64_t postcopy_blocktime_ms;
    bool has_postcopy_latency; /* destination, 10.1 */
    uint64_t postcopy_latency_ns;
};

/* query-status */
struct qmp_run_status {
    char text[32]; /* RunState: "running", "paused", "inmigrate", ... */
    bool running;
};

/* One RAM block, of "info ramblock" (QEMU system/physmem.c, ram_block_format;
 * softmmu/physmem.c up to 8.2). */
struct qmp_ram_block {
    char name[256];
    uint64_t page_size_bytes; /* of the backing: 4096, 2 MiB, 1 GiB, ... */
    uint64_t used_bytes;
    uint64_t total_bytes;
};
#define QMP_RAM_BLOCKS_MAX 4096

typedef void (*qmp_done_cb)(void *arg, const struct error *err);
typedef void (*qmp_text_cb)(void *arg, const char *text,
                            const struct error *err);
typedef void (*qmp_run_status_cb)(void *arg,
                                  const struct qmp_run_status *status,
                                  const struct error *err);
typedef void (*qmp_migrate_info_cb)(void *arg,
                                    const struct qmp_migrate_info *info,
                                    const struct error *err);
typedef void (*qmp_ram_blocks_cb)(void *arg, const struct qmp_ram_block *blocks,
                                  size_t count, const struct error *err);

/* query-name, at most 255 bytes; "" for a guest without -name. */
void qmp_migrate_query_name(struct qmp *qmp, mp_time timeout, qmp_text_cb cb,
                            void *arg);
/* query-uuid; all zeros for a guest without -uuid. */
void qmp_migrate_query_uuid(struct qmp *qmp, mp_time timeout, qmp_text_cb cb,
                            void *arg);
/* The machine type with its version, "pc-q35-7.2": aliases ("q35") are
 * resolved by QEMU. From qom-get /machine type. */
void qmp_migrate_query_machine_type(struct qmp *qmp, mp_time timeout,
                                    qmp_text_cb cb, void *arg);
/* query-status */
void qmp_migrate_query_status(struct qmp *qmp, mp_time timeout,
                              qmp_run_status_cb cb, void *arg);
/* query-migrate */
void qmp_migrate_query(struct qmp *qmp, mp_time timeout, qmp_migrate_info_cb cb,
                       void *arg);
/* human-monitor-command "info ramblock", at most QMP_RAM_BLOCKS_MAX. */
void qmp_migrate_query_ram_blocks(struct qmp *qmp, mp_time timeout,
                                  qmp_ram_blocks_cb cb, void *arg);
/* query-qmp-schema, for qmp-probe.h and tests. */
void qmp_migrate_query_schema(struct qmp *qmp, mp_time timeout, qmp_cb cb,
                              void *arg);

/* migrate (source). resume: the second connection of a paused postcopy. */
void qmp_migrate_start(struct qmp *qmp, const char *uri, bool resume,
                       mp_time timeout, qmp_done_cb cb, void *arg);
/* migrate-incoming (destination, started with -incoming defer). stay: QEMU
 * shall not exit when loading fails; only where QMP_CAN_STAY_ON_ERROR is
 * probed (9.1). */
void qmp_migrate_incoming(struct qmp *qmp, const char *uri, bool stay,
                          mp_time timeout, qmp_done_cb cb, void *arg);
/* migrate-start-postcopy (source): a wish, acted on within about 100 ms. */
void qmp_migrate_start_postcopy(struct qmp *qmp, mp_time timeout,
                                qmp_done_cb cb, void *arg);
/* migrate-continue out of pre-switchover (source). */
void qmp_migrate_continue(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                          void *arg);
/* migrate-continue out of cancelling (source). A migrate_cancel that comes
 * between QEMU's stop of the guest and its pre-switchover leaves its thread
 * waiting for just this, the guest stopped, and nothing else ends it (QEMU 7.2,
 * migration/migration.c, migration_maybe_pause(); seen under load). */
void qmp_migrate_continue_cancelled(struct qmp *qmp, mp_time timeout,
                                    qmp_done_cb cb, void *arg);
/* migrate_cancel (source), never in postcopy. */
void qmp_migrate_cancel(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                        void *arg);
/* migrate-pause: postcopy-active -> postcopy-paused. Out of band where the
 * monitor can, as are the next and yank. */
void qmp_migrate_pause(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                       void *arg);
/* migrate-recover (destination, postcopy-paused): listen again. */
void qmp_migrate_recover(struct qmp *qmp, const char *uri, mp_time timeout,
                         qmp_done_cb cb, void *arg);
/* yank of the migration: shuts all its sockets down, whatever QEMU is blocked
 * in. "Instance not found" (no migration runs) is success. */
void qmp_migrate_yank(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg);
/* stop, cont, quit */
void qmp_migrate_stop(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg);
void qmp_migrate_cont(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg);
/* The connection ends soon after: ERR_QEMU_GONE is also the end of this. */
void qmp_migrate_quit(struct qmp *qmp, mp_time timeout, qmp_done_cb cb,
                      void *arg);
/* max-bandwidth, also during a migration. UINT64_MAX is unlimited; see
 * qmp_caps_bandwidth() in qmp-caps.h for what is refused (within the call). */
void qmp_migrate_set_bandwidth(struct qmp *qmp, uint64_t bytes_per_second,
                               mp_time timeout, qmp_done_cb cb, void *arg);

/* downtime-limit, also during a migration; at most QMP_CAPS_DOWNTIME_MAX_MS. */
void qmp_migrate_set_downtime(struct qmp *qmp, unsigned max_downtime_ms,
                              mp_time timeout, qmp_done_cb cb, void *arg);

/* The pure part of qmp_migrate_query(). -1 and ERR_PROTOCOL if result is no
 * object. */
int qmp_migrate_parse_info(struct json_object *result,
                           struct qmp_migrate_info *ret_info,
                           struct error *err);
/* The pure part of qmp_migrate_query_ram_blocks(). On success *ret_blocks (the
 * caller's to free) has *ret_count entries. */
int qmp_migrate_parse_ram_blocks(const char *text,
                                 struct qmp_ram_block **ret_blocks,
                                 size_t *ret_count, struct error *err);

#endif
