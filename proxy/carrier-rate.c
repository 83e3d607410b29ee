// SPDX-License-Identifier: BSD-3-Clause
/* A token bucket: how much may leave now so that a rate is kept. */
#include "proxy/carrier-rate.h"

#include "util/parse.h"

void carrier_rate_init(struct carrier_rate *rate, uint64_t bytes_per_second)
{
    *rate = (struct carrier_rate){.bytes_per_second = bytes_per_second};
}

static double bytes_in(const struct carrier_rate *rate, mp_time time)
{
    return (double)rate->bytes_per_second * (double)time / MP_SECOND;
}

mp_time carrier_rate_wait(struct carrier_rate *rate, mp_time now)
{
    if (rate->bytes_per_second == PARSE_UNLIMITED) {
        return 0;
    }
    if (rate->at && now > rate->at) {
        rate->tokens += bytes_in(rate, now - rate->at);
        double burst = bytes_in(rate, CARRIER_RATE_BURST);
        if (rate->tokens > burst) {
            rate->tokens = burst;
        }
    }
    rate->at = now;
    if (rate->tokens >= 0) {
        return 0;
    }
    return (mp_time)(-rate->tokens * MP_SECOND /
                     (double)rate->bytes_per_second) +
           1;
}

void carrier_rate_count(struct carrier_rate *rate, size_t len_bytes)
{
    if (rate->bytes_per_second == PARSE_UNLIMITED) {
        return;
    }
    /* Beyond the debt allowed nothing is added to what is owed, but nothing is
     * forgiven either: a bulk frame may alone be larger than that. */
    double least = -bytes_in(rate, CARRIER_RATE_DEBT);
    if (rate->tokens > least) {
        rate->tokens -= (double)len_bytes;
    }
}
