// SPDX-License-Identifier: BSD-3-Clause
/* Telling a service manager how things are, by systemd's documented protocol
 * (sd_notify(3), "Notes"): no library needed. */
#ifndef UTIL_SD_H
#define UTIL_SD_H

/* Sends state ("READY=1") to $NOTIFY_SOCKET; nothing happens without it. */
void sd_notify(const char *state);

#endif
