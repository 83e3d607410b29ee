// SPDX-License-Identifier: BSD-3-Clause
/* Time. Pure modules never read a clock: they are handed an mp_time. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>
#include <stddef.h>

/* Nanoseconds of the monotonic clock. 0 means "never" or "not yet". */
typedef int64_t mp_time;

#define MP_US ((mp_time)1000)
#define MP_MS ((mp_time)1000000)
#define MP_SECOND ((mp_time)1000000000)

/* The monotonic clock now. */
mp_time clock_now(void);

/* Wall clock, microseconds since the epoch, for records and people only. */
int64_t clock_wall_us(void);

/* Writes "2026-11-30T17:51:05.123456Z" for wall clock wall_us into buf. */
void clock_format_wall(int64_t wall_us, char *buf, size_t size);

#endif
