// SPDX-License-Identifier: BSD-3-Clause
/* A histogram of times. */
#include "proxy/latency.h"

/* Bucket 0: below 1 us; then four for each power of two. */
static unsigned bucket_of(uint64_t us)
{
    unsigned power = 0;

    if (us == 0) {
        return 0;
    }
    while (us >> power > 1) {
        power++;
    }
    uint64_t quarter =
        power >= 2 ? (us >> (power - 2)) & 3 : (us << (2 - power)) & 3;
    unsigned bucket = 1 + 4 * power + (unsigned)quarter;
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

/* The first microsecond behind a bucket. */
static double upper_us(unsigned bucket)
{
    if (bucket == 0) {
        return 1;
    }
    unsigned power = (bucket - 1) / 4;
    unsigned quarter = (bucket - 1) % 4;
    return (double)(UINT64_C(1) << power) * (1.25 + 0.25 * quarter);
}

void latency_add(struct latency *latency, mp_time time)
{
    if (time < 0) {
        time = 0;
    }
    latency->count++;
    latency->sum += time;
    latency->max = time > latency->max ? time : latency->max;
    latency->buckets[bucket_of((uint64_t)(time / MP_US))]++;
}

void latency_merge(struct latency *latency, const struct latency *other)
{
    latency->count += other->count;
    latency->sum += other->sum;
    latency->max = other->max > latency->max ? other->max : latency->max;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        latency->buckets[i] += other->buckets[i];
    }
}

mp_time latency_mean(const struct latency *latency)
{
    return latency->count ? latency->sum / (mp_time)latency->count : 0;
}

uint64_t latency_count_below(const struct latency *latency, mp_time limit)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < LATENCY_BUCKETS - 1; i++) {
        if (upper_us(i) * MP_US > (double)limit) {
            break;
        }
        count += latency->buckets[i];
    }
    return count;
}

mp_time latency_percentile(const struct latency *latency, double percent)
{
    double wanted = (double)latency->count * percent / 100;
    uint64_t seen = 0;

    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += latency->buckets[i];
        if (seen > 0 && (double)seen >= wanted && i < LATENCY_BUCKETS - 1) {
            double time = upper_us(i) * MP_US;
            return time < (double)latency->max ? (mp_time)time : latency->max;
        }
    }
    return latency->max;
}
