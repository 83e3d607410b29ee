// SPDX-License-Identifier: BSD-3-Clause
/* What to do next with a running precopy. Pure. */
#ifndef PROXY_POLICY_H
#define PROXY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/api.h"
#include "util/clock.h"

enum policy_action {
    POLICY_NOTHING,
    POLICY_POSTCOPY, /* switch to postcopy */
    POLICY_PAUSE,    /* stop the guest, so that precopy can end */
    POLICY_ABORT,
};

struct policy_input {
    enum api_mode mode;
    bool may_postcopy;      /* both ends are set up for it */
    bool postcopy_asked;    /* by the operator */
    mp_time postcopy_after; /* from the first pass's start, -1: not set */
    mp_time timeout;        /* -1: none */
    enum api_on_timeout on_timeout;

    mp_time elapsed; /* since the first pass began */
    uint64_t pass;   /* QEMU's dirty-sync-count: 1 in the first pass */
    uint64_t rate_bytes_per_second;
    uint64_t dirty_bytes_per_second;
};

/* In mode postcopy the switch comes after the first full pass, or at
 * postcopy_after if that is given. In mode auto at postcopy_after, or after
 * POLICY_AUTO_PASSES passes of a guest that dirties its memory nearly as fast
 * as it is carried. */
#define POLICY_AUTO_PASSES 3
enum policy_action policy_decide(const struct policy_input *in);

/* False if, after the first pass, the guest dirties memory faster than three
 * quarters of the rate at which it is carried: precopy will not end. */
bool policy_is_converging(const struct policy_input *in);

#endif
