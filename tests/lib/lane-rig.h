// SPDX-License-Identifier: BSD-3-Clause
/* What the tests of lanes share: certificates of host-a and host-b, a loop, and
 * pairs of lanes that meet at once. */
#ifndef TESTS_LIB_LANE_RIG_H
#define TESTS_LIB_LANE_RIG_H

#include "tests/lib/lanes.h"

struct lane_rig {
    char *dir; /* of the certificates */
    struct tls *tls_a, *tls_b;
    struct loop *loop;
    struct lane_params params; /* keys change every megabyte */
};

extern struct lane_rig rig;

/* A group's set-up and tear-down. */
int rig_set_up(void **state);
int rig_tear_down(void **state);

/* a dials b; both are ready after it. */
void rig_pair(struct end *a, struct end *b, enum wire_lane kind);
void rig_close(struct end *a, struct end *b);

void rig_start_sending(struct end *end, uint64_t bytes, uint32_t max_frame);
/* For lanes_run(), of an array of two ends: all was received, or one closed. */
bool rig_all_received(void *ends);
/* It is open, and what it received is what was sent. */
void rig_assert_whole(const struct end *end);
void rig_run_for(mp_time time);
/* Until nothing has left for a while: the kernel's buffers are full. */
void rig_run_until_stuck(const struct end *end);

#endif
