// SPDX-License-Identifier: BSD-3-Clause
/* The exit status of each class of error, the same for every command. Pure. */
#ifndef TOOLS_CTL_EXIT_H
#define TOOLS_CTL_EXIT_H

#include "tools/ctl.h"
#include "util/error.h"

/* What a request that ended with this error makes of the program: usage, a
 * refusal (nothing was changed), or a failure (it may have been). */
enum ctl_exit ctl_exit_of(enum error_code code);

#endif
