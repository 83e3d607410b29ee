// SPDX-License-Identifier: BSD-3-Clause
/* A token bucket: how much may leave now so that a rate is kept. Pure.
 *
 * Bytes that must not wait are counted too and make the others wait longer,
 * but never owe more than CARRIER_RATE_DEBT. */
#ifndef PROXY_CARRIER_RATE_H
#define PROXY_CARRIER_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/clock.h"

#define CARRIER_RATE_BURST (20 * MP_MS) /* what an idle time saves up */
#define CARRIER_RATE_DEBT (200 * MP_MS) /* what others can use up ahead */

struct carrier_rate {
    uint64_t bytes_per_second; /* PARSE_UNLIMITED: no limit */
    double tokens;             /* bytes; below 0: owed */
    mp_time at;                /* when tokens was true */
};

void carrier_rate_init(struct carrier_rate *rate, uint64_t bytes_per_second);

/* How long until something may leave; 0: now. */
mp_time carrier_rate_wait(struct carrier_rate *rate, mp_time now);

/* This much has left. */
void carrier_rate_count(struct carrier_rate *rate, size_t len_bytes);

#endif
