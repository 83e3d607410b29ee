// SPDX-License-Identifier: BSD-3-Clause
/* The daemon's numbers for Prometheus: GET /metrics.
 *
 * One table names each metric; docs/metrics.md is tested against it. What
 * counts up is kept in struct metrics for migrations that have ended, and added
 * up with those under way when somebody asks, so that it never goes down. */
#ifndef PROXY_METRICS_H
#define PROXY_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proxy/latency.h"

enum metrics_result {
    METRICS_COMPLETED,
    METRICS_CANCELLED,
    METRICS_FAILED,
    METRICS_REFUSED,
    METRICS_ATTENTION,
    METRICS_RESULTS
};

enum metrics_where {
    METRICS_FOUND,
    METRICS_IN_FLIGHT,
    METRICS_FETCHED,
    METRICS_WHERES
};

/* What migrations have added up to. */
struct metrics {
    uint64_t ended[2][METRICS_RESULTS];  /* by role: destination, source */
    uint64_t postcopies;                 /* of the source's */
    uint64_t sent_bytes, received_bytes; /* on the wire */
    uint64_t page_requests;
    struct latency delivery[METRICS_WHERES];
    struct latency blackout; /* of the source's, in time as all latencies */
};

/* What is so just now. */
struct metrics_now {
    const char *version, *host;
    unsigned active[2]; /* by role */
    uint64_t pool_bytes, pool_limit_bytes;
    bool is_draining;
};

struct metrics_peer {
    const char *name;
    bool is_connected;
};

/* A row of the table. */
struct metrics_row {
    const char *name, *type, *help;
};

/* The table; ends with a NULL name. */
extern const struct metrics_row metrics_rows[];

/* Adds what other has. */
void metrics_add(struct metrics *metrics, const struct metrics *other);

/* Writes all of them in Prometheus' text format 0.0.4. */
void metrics_write(FILE *out, const struct metrics *metrics,
                   const struct metrics_now *now,
                   const struct metrics_peer *peers, size_t peer_count);

#endif
