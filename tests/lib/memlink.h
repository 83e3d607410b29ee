// SPDX-License-Identifier: BSD-3-Clause
/* Two muxes back to back in memory, on a virtual clock. Between them stand two
 * lanes, which share a link with a rate and a delay for each direction. What
 * arrives is cut at any byte. */
#ifndef TESTS_LIB_MEMLINK_H
#define TESTS_LIB_MEMLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/mux.h"

#define MEMLINK_OPENER 0
#define MEMLINK_OTHER 1

struct memlink;

struct memlink_config {
    struct mux_config mux[2];       /* of the opener and the other end */
    uint64_t rate_bytes_per_second; /* each direction; 0: endless */
    mp_time delay;                  /* one way */
    uint64_t batch_bytes; /* taken from a mux and not yet on the link, each
                           * lane: what can no longer be overtaken */
    size_t cut_bytes;     /* pieces that arrive: 1 to this many bytes, random;
                           * 0: as they were sent */
    unsigned seed;
};

/* Endless rate, no delay, no cuts, default muxes. */
void memlink_config_default(struct memlink_config *config);

struct memlink *memlink_new(const struct memlink_config *config);
void memlink_free(struct memlink *link);

struct mux *memlink_mux(struct memlink *link, int end);
mp_time memlink_now(const struct memlink *link);

/* Called for each end whenever something may have changed there; it takes
 * events, delivers and sends. */
typedef void memlink_user(struct memlink *link, int end, void *arg);
void memlink_set_user(struct memlink *link, memlink_user *user, void *arg);

/* Lets things happen until time until, or until nothing is left to happen.
 * Returns false when nothing is left. The first error of a mux stops it all. */
bool memlink_run(struct memlink *link, mp_time until);

/* The error that stopped it; code ERR_NONE if there was none. */
const struct error *memlink_error(const struct memlink *link);

/* Bytes on the way to this end (taken from the other mux, not arrived), all
 * lanes. */
uint64_t memlink_under_way(const struct memlink *link, int to_end);

/* Every frame taken from now on is noted as a line "> bulk DATA ..." (from the
 * opener) or "< express ACK ...". */
void memlink_trace(struct memlink *link);
const char *memlink_trace_text(const struct memlink *link);
void memlink_trace_clear(struct memlink *link);

/* A small generator for tests: the same numbers for the same seed. */
uint32_t memlink_random(uint32_t *state);

#endif
