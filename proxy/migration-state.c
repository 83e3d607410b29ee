// SPDX-License-Identifier: BSD-3-Clause
/* The states of a migration, as both daemons go through them. */
#include "proxy/migration-state.h"

#include <string.h>

#define BIT(state) (1u << MIGRATION_##state)

struct state_row {
    const char *name;
    unsigned may; /* bit mask of the states that may follow */
};

/* What may follow: always the next step, an undoing while that is possible,
 * and attention from wherever the guest may need a person. Steps can be jumped
 * over where QEMU does: a small guest may be at its switchover when the first
 * answer to "how far are you" comes. */
static const struct state_row rows[] = {
    [MIGRATION_PREPARING] = {"preparing", BIT(CONNECTING) | BIT(CANCELLING) |
                                              BIT(FAILED) | BIT(CANCELLED)},
    [MIGRATION_CONNECTING] = {"connecting",
                              BIT(SETUP) | BIT(CANCELLING) | BIT(ATTENTION)},
    [MIGRATION_SETUP] = {"setup", BIT(PRECOPY) | BIT(PRE_SWITCHOVER) |
                                      BIT(SWITCHOVER) | BIT(CANCELLING) |
                                      BIT(ATTENTION)},
    [MIGRATION_PRECOPY] = {"precopy", BIT(PRE_SWITCHOVER) | BIT(SWITCHOVER) |
                                          BIT(CANCELLING) | BIT(ATTENTION)},
    [MIGRATION_PRE_SWITCHOVER] = {"pre-switchover", BIT(SWITCHOVER) |
                                                        BIT(CANCELLING) |
                                                        BIT(ATTENTION)},
    [MIGRATION_SWITCHOVER] = {"switchover", BIT(COMMITTING) | BIT(CANCELLING) |
                                                BIT(ATTENTION)},
    [MIGRATION_COMMITTING] = {"committing", BIT(POSTCOPY) | BIT(COMPLETING) |
                                                BIT(CANCELLING) |
                                                BIT(ATTENTION)},
    [MIGRATION_POSTCOPY] = {"postcopy", BIT(COMPLETING) | BIT(ATTENTION)},
    [MIGRATION_COMPLETING] = {"completing", BIT(COMPLETED) | BIT(ATTENTION)},
    [MIGRATION_CANCELLING] = {"cancelling",
                              BIT(CANCELLED) | BIT(FAILED) | BIT(ATTENTION)},
    [MIGRATION_COMPLETED] = {"completed", 0},
    [MIGRATION_CANCELLED] = {"cancelled", 0},
    [MIGRATION_FAILED] = {"failed", 0},
    [MIGRATION_ATTENTION] = {"attention", 0},
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) == MIGRATION_STATES,
               "each state has a row");

const char *migration_state_name(enum migration_state state)
{
    return (unsigned)state < MIGRATION_STATES ? rows[state].name : "?";
}

bool migration_state_of_name(const char *name, enum migration_state *ret_state)
{
    for (int i = 0; i < MIGRATION_STATES; i++) {
        if (!strcmp(rows[i].name, name)) {
            *ret_state = (enum migration_state)i;
            return true;
        }
    }
    return false;
}

bool migration_state_may(enum migration_state from, enum migration_state to)
{
    return (unsigned)from < MIGRATION_STATES &&
           (unsigned)to < MIGRATION_STATES && (rows[from].may >> to & 1);
}

bool migration_state_is_end(enum migration_state state)
{
    return (unsigned)state < MIGRATION_STATES && rows[state].may == 0;
}

bool migration_state_can_undo(enum migration_state state, bool postcopy)
{
    switch (state) {
    case MIGRATION_PREPARING:
    case MIGRATION_CONNECTING:
    case MIGRATION_SETUP:
    case MIGRATION_PRECOPY:
    case MIGRATION_PRE_SWITCHOVER:
        return true;
    case MIGRATION_SWITCHOVER:
        return !postcopy;
    case MIGRATION_COMMITTING:
    case MIGRATION_POSTCOPY:
    case MIGRATION_COMPLETING:
    case MIGRATION_CANCELLING:
    case MIGRATION_COMPLETED:
    case MIGRATION_CANCELLED:
    case MIGRATION_FAILED:
    case MIGRATION_ATTENTION:
    case MIGRATION_STATES:
        break;
    }
    return false;
}
