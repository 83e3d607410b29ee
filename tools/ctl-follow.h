// SPDX-License-Identifier: BSD-3-Clause
/* Follows a migration to its end.
 *
 * It asks the daemon five times a second. On a terminal one line is written
 * over and over; elsewhere there is a line when the state changes, and one a
 * second at most. The first Ctrl-C asks the daemon to cancel, the second stops
 * following, which changes nothing for the migration. A daemon that does not
 * answer is tried for 10 s, since it may just be restarting. */
#ifndef TOOLS_CTL_FOLLOW_H
#define TOOLS_CTL_FOLLOW_H

#include "tools/ctl.h"

/* From now on Ctrl-C is ours. */
void ctl_follow_catch_interrupts(void);

/* Follows migration id and prints the report (call->json: the last object).
 * Returns the exit status. */
enum ctl_exit ctl_follow(const struct ctl_call *call, const char *id);

#endif
