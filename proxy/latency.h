// SPDX-License-Identifier: BSD-3-Clause
/* A histogram of times. Pure; plain data, may be copied. */
#ifndef PROXY_LATENCY_H
#define PROXY_LATENCY_H

#include <stdint.h>

#include "util/clock.h"

/* Four buckets for each power of two of microseconds: a percentile is right
 * within a fifth. The last one has all from 2^24 us (16.8 s) on. */
#define LATENCY_BUCKETS 98

struct latency {
    uint64_t count;
    mp_time sum, max;
    uint32_t buckets[LATENCY_BUCKETS];
};

void latency_add(struct latency *latency, mp_time time);

/* Adds what other has. */
void latency_merge(struct latency *latency, const struct latency *other);

/* 0 where nothing was counted. */
mp_time latency_mean(const struct latency *latency);

/* How many times are not above limit, by whole buckets: at most a fifth of what
 * lies next to it is missing. Grows with limit. */
uint64_t latency_count_below(const struct latency *latency, mp_time limit);

/* The time that percent (0 to 100) of all do not exceed: the upper end of its
 * bucket, but not more than the largest. */
mp_time latency_percentile(const struct latency *latency, double percent);

#endif
