// SPDX-License-Identifier: BSD-3-Clause
/* Two users on a memlink who deliver at once what comes and note what they are
 * told. For tests that look at one property. */
#ifndef TESTS_LIB_MUXPAIR_H
#define TESTS_LIB_MUXPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/memlink.h"

/* Channel numbers the tests use. */
#define MAIN 0
#define PREEMPT 1
#define MULTIFD 2
#define DISK 10

#define MUXPAIR_TEXT_BYTES 256

struct muxpair_end {
    char events[8192]; /* OPENED, ENDED, RESET as text, in order */
    uint64_t got_bytes[WIRE_CHANNELS];
    char text[WIRE_CHANNELS][MUXPAIR_TEXT_BYTES]; /* the first bytes of them */
    uint64_t deaf;    /* mask: channels nothing is delivered of */
    uint64_t drained; /* mask: DRAINED was told */
    uint64_t rooms;   /* mask: ROOM was told */
    mp_time rtt[4];   /* by lane */
    uint64_t greedy;  /* mask: channels that send whenever there is room */
    uint64_t sent_bytes[WIRE_CHANNELS]; /* of the greedy ones */
    uint8_t greedy_flags;
    size_t greedy_bytes; /* handed over at a time */
};

struct muxpair {
    struct memlink *link;
    struct muxpair_end end[2];
    struct chunk *zeros; /* what greedy channels send */
};

/* config NULL: the default. */
struct muxpair *muxpair_new(const struct memlink_config *config);
void muxpair_free(struct muxpair *pair);

/* Lets things happen for at most time; fails the test on an error. */
void muxpair_run_for(struct muxpair *pair, mp_time time);
/* The same, until nothing is left to happen. */
void muxpair_run(struct muxpair *pair);

struct mux *muxpair_mux(struct muxpair *pair, int end);
struct mux_channel_stats muxpair_stats(struct muxpair *pair, int end,
                                       uint16_t channel);

/* These fail the test on an error. */
void muxpair_open(struct muxpair *pair, uint16_t channel,
                  enum wire_class class);
void muxpair_send(struct muxpair *pair, int end, uint16_t channel,
                  const char *text);
void muxpair_send_flags(struct muxpair *pair, int end, uint16_t channel,
                        const char *text, uint8_t flags, uint64_t after);
void muxpair_send_urgent(struct muxpair *pair, const char *text,
                         uint64_t after);
/* Hands over bytes of zeros, in pieces that may be cut. */
void muxpair_send_bytes(struct muxpair *pair, int end, uint16_t channel,
                        uint64_t bytes);

#endif
