// SPDX-License-Identifier: BSD-3-Clause
/* Who sends next on a lane. Pure.
 *
 * How it works
 *
 * Flows are in groups, groups are on levels. The lowest level with a ready flow
 * is served first, strictly. Among the groups of a level, and among the flows
 * of a group, the one with the smallest virtual time is next; sending n bytes
 * moves the virtual times of flow and group on by n / weight. So shares are
 * kept by bytes whatever the sizes of frames, and whoever is ready waits for at
 * most one frame of each other flow. Who becomes ready after idling starts at
 * the virtual time of who is served now: idling earns nothing. */
#ifndef TRANSPORT_SCHED_H
#define TRANSPORT_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire.h"

/* A flow is named by its channel: an end sends at most one sub-stream of a
 * channel on a lane. */
#define SCHED_FLOWS WIRE_CHANNELS

enum sched_group_id {
    SCHED_REVERSE, /* return path and page requests */
    SCHED_URGENT,  /* preempt, urgent frames of main */
    SCHED_RAM,     /* main and multifd */
    SCHED_DISK,
    SCHED_GROUPS
};

struct sched_group {
    unsigned level;
    unsigned weight;
    uint64_t vtime; /* of the group among the groups of its level */
    uint64_t vnow;  /* virtual time of the flow served last */
    uint64_t ready; /* mask of flows */
};

struct sched_flow {
    enum sched_group_id group;
    unsigned weight;
    uint64_t vtime;
};

struct sched {
    struct sched_group groups[SCHED_GROUPS];
    struct sched_flow flows[SCHED_FLOWS];
    uint64_t vnow[SCHED_GROUPS]; /* by level */
};

/* All groups on their usual levels (REVERSE, URGENT, then RAM and DISK
 * together), shares as in sched_set_disk_share(5), no flow ready. */
void sched_init(struct sched *s);

/* DISK gets one part of parts when both RAM and DISK have something to send. */
void sched_set_disk_share(struct sched *s, unsigned parts);

/* Says where a flow belongs; it must not be ready. weight: its share within
 * the group, 1..SCHED_WEIGHT_MAX. */
#define SCHED_WEIGHT_MAX 16
void sched_set_flow(struct sched *s, unsigned flow, enum sched_group_id group,
                    unsigned weight);

/* Whether the flow has something it may send. */
void sched_set_ready(struct sched *s, unsigned flow, bool ready);
bool sched_is_ready(const struct sched *s, unsigned flow);

#define SCHED_BIT(group) (1u << (group))
#define SCHED_ALL (SCHED_BIT(SCHED_GROUPS) - 1)

/* The flow to serve among the groups of the mask, or -1. Changes nothing. */
int sched_next(const struct sched *s, unsigned groups);

/* The flow sent len_bytes (header included, so that empty frames cost too). */
void sched_charge(struct sched *s, unsigned flow, uint64_t len_bytes);

#endif
