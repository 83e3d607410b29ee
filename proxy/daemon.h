// SPDX-License-Identifier: BSD-3-Clause
/* The daemon: everything put together, in order, and taken apart again. */
#ifndef PROXY_DAEMON_H
#define PROXY_DAEMON_H

#include "conf/conf.h"
#include "util/error.h"

/* Runs until it is told to end (TERM or INT). conf is taken. config_path is
 * read again on HUP; fixed_log_level: but for its log level. 0 after an orderly
 * end; -1 with *err if it cannot start.
 *
 * TERM takes no new migrations, waits [migration] cancel-timeout for those
 * under way, then cancels what can be undone and waits for the rest: a
 * postcopy is never abandoned. A second TERM ends at once; the records are
 * written. */
int daemon_run(struct conf *conf, const char *config_path, bool fixed_log_level,
               struct error *err);

#endif
