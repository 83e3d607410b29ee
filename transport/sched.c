// SPDX-License-Identifier: BSD-3-Clause
/* Strict levels, weighted virtual time inside a level. */
#include "transport/sched.h"

#include <assert.h>
#include <stddef.h>

/* Virtual times are in bytes / weight; the scale keeps the division exact
 * enough for small frames. */
#define VTIME_SCALE 1024

#define DISK_SHARE_DEFAULT 5

void sched_init(struct sched *s)
{
    *s = (struct sched){0};
    s->groups[SCHED_REVERSE].level = 0;
    s->groups[SCHED_URGENT].level = 1;
    s->groups[SCHED_RAM].level = 2;
    s->groups[SCHED_DISK].level = 2;
    for (int g = 0; g < SCHED_GROUPS; g++) {
        s->groups[g].weight = 1;
    }
    for (int f = 0; f < SCHED_FLOWS; f++) {
        s->flows[f].weight = 1;
    }
    sched_set_disk_share(s, DISK_SHARE_DEFAULT);
}

void sched_set_disk_share(struct sched *s, unsigned parts)
{
    assert(parts >= 2);
    s->groups[SCHED_RAM].weight = parts - 1;
    s->groups[SCHED_DISK].weight = 1;
}

void sched_set_flow(struct sched *s, unsigned flow, enum sched_group_id group,
                    unsigned weight)
{
    assert(flow < SCHED_FLOWS && weight >= 1 && weight <= SCHED_WEIGHT_MAX);
    assert(!sched_is_ready(s, flow));
    s->flows[flow] = (struct sched_flow){
        .group = group,
        .weight = weight,
    };
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void sched_set_ready(struct sched *s, unsigned flow, bool ready)
{
    struct sched_flow *f = &s->flows[flow];
    struct sched_group *g = &s->groups[f->group];
    uint64_t bit = (uint64_t)1 << flow;
    if (!ready) {
        g->ready &= ~bit;
        return;
    }
    if (g->ready & bit) {
        return;
    }
    if (g->ready == 0) {
        g->vtime = later(g->vtime, s->vnow[g->level]);
    }
    f->vtime = later(f->vtime, g->vnow);
    g->ready |= bit;
}

bool sched_is_ready(const struct sched *s, unsigned flow)
{
    return s->groups[s->flows[flow].group].ready & (uint64_t)1 << flow;
}

static const struct sched_group *next_group(const struct sched *s,
                                            unsigned groups)
{
    const struct sched_group *best = NULL;
    for (int i = 0; i < SCHED_GROUPS; i++) {
        const struct sched_group *g = &s->groups[i];
        if (g->ready == 0 || !(groups & SCHED_BIT(i))) {
            continue;
        }
        if (!best || g->level < best->level ||
            (g->level == best->level && g->vtime < best->vtime)) {
            best = g;
        }
    }
    return best;
}

int sched_next(const struct sched *s, unsigned groups)
{
    const struct sched_group *g = next_group(s, groups);
    int best = -1;
    if (!g) {
        return -1;
    }
    for (uint64_t left = g->ready; left != 0; left &= left - 1) {
        int flow = __builtin_ctzll(left);
        if (best < 0 || s->flows[flow].vtime < s->flows[best].vtime) {
            best = flow;
        }
    }
    return best;
}

void sched_charge(struct sched *s, unsigned flow, uint64_t len_bytes)
{
    struct sched_flow *f = &s->flows[flow];
    struct sched_group *g = &s->groups[f->group];
    g->vnow = later(g->vnow, f->vtime);
    s->vnow[g->level] = later(s->vnow[g->level], g->vtime);
    f->vtime += len_bytes * VTIME_SCALE / f->weight;
    g->vtime += len_bytes * VTIME_SCALE / g->weight;
}
