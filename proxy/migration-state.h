// SPDX-License-Identifier: BSD-3-Clause
// clang-format off
/* The states of a migration, as both daemons go through them. Pure.
 *
 * preparing       monitors are opened, the two QEMUs are compared; nothing was
 *                 changed yet. Left by: source, destination.
 * connecting      the destination is stopped and set up, the lanes are being
 *                 opened. Left by: source.
 * setup           capabilities are set, the QEMUs are connecting. Left by:
 *                 source QEMU (active).
 * precopy         the guest runs on the source. Left by: source QEMU
 *                 (pre-switchover).
 * pre-switchover  the guest is stopped on the source; the path is being proved.
 *                 Left by: source, when path and destination are proved.
 * switchover      migrate-continue was sent, device state moves. Postcopy:
 *                 nothing can roll back from here. Left by: both QEMUs (loaded).
 * committing      COMMIT is on the source's disk: the source never runs again
 *                 unless the destination says from its record that it will not
 *                 start. Left by: destination (started, or will not start).
 * postcopy        the guest runs on the destination, pages follow. Left by: both
 *                 QEMUs (completed).
 * completing      all of the guest has moved; capabilities are put back, lanes
 *                 close. Left by: source, destination.
 * cancelling      being undone, on request or after a failure. Left by: source,
 *                 destination.
 *
 * completed, cancelled, failed, attention are ends. After cancelled and failed
 * the guest is where it was. attention: a person must look; advice says how. */
// clang-format on
#ifndef PROXY_MIGRATION_STATE_H
#define PROXY_MIGRATION_STATE_H

#include <stdbool.h>

enum migration_state {
    MIGRATION_PREPARING,
    MIGRATION_CONNECTING,
    MIGRATION_SETUP,
    MIGRATION_PRECOPY,
    MIGRATION_PRE_SWITCHOVER,
    MIGRATION_SWITCHOVER,
    MIGRATION_COMMITTING,
    MIGRATION_POSTCOPY,
    MIGRATION_COMPLETING,
    MIGRATION_CANCELLING,
    MIGRATION_COMPLETED,
    MIGRATION_CANCELLED,
    MIGRATION_FAILED,
    MIGRATION_ATTENTION,
    MIGRATION_STATES
};

/* "pre-switchover" and so on, as in the API. */
const char *migration_state_name(enum migration_state state);

/* False if no state has that name. */
bool migration_state_of_name(const char *name, enum migration_state *ret_state);

/* Whether the table has from -> to. */
bool migration_state_may(enum migration_state from, enum migration_state to);

/* completed, cancelled, failed, attention */
bool migration_state_is_end(enum migration_state state);

/* Whether the source may still go back in this state: before the point of no
 * return, which lies earlier in postcopy (the package leaves the source's
 * QEMU) than in precopy (COMMIT). */
bool migration_state_can_undo(enum migration_state state, bool postcopy);

#endif
