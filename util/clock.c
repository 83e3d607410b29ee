// SPDX-License-Identifier: BSD-3-Clause
/* Time. */
#include "util/clock.h"

#include <stdio.h>
#include <time.h>

mp_time clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * MP_SECOND + ts.tv_nsec;
}

int64_t clock_wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void clock_format_wall(int64_t wall_us, char *buf, size_t size)
{
    time_t seconds = wall_us / 1000000;
    struct tm tm;
    char date[32];

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf, size, "%s.%06dZ", date, (int)(wall_us % 1000000));
}
