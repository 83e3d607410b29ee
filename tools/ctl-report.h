// SPDX-License-Identifier: BSD-3-Clause
/* One migration, as the API shows it, in words for people. Members may be
 * missing or null: then what they would say is left out. */
#ifndef TOOLS_CTL_REPORT_H
#define TOOLS_CTL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/ctl.h"

struct json_object;

/* "precopy", or "unknown". */
const char *ctl_report_state(struct json_object *migration);

/* True once it has a result. */
bool ctl_report_is_over(struct json_object *migration);

/* The exit status of migrate for a migration that is over. */
enum ctl_exit ctl_report_exit(struct json_object *migration);

/* "precopy  42.1 %, 118.2 MiB/s, dirty 12.3 MiB/s, ETA 3 s" into buf. */
void ctl_report_progress(struct json_object *migration, char *buf, size_t size);

/* Several lines on stdout: what happened to the guest and in numbers. */
void ctl_report_print(struct json_object *migration);

/* Seconds since the epoch of "2026-11-30T17:51:05.123456Z"; false if it is no
 * such time. */
bool ctl_report_parse_time(const char *text, int64_t *ret_seconds);

#endif
