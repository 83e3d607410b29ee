// SPDX-License-Identifier: BSD-3-Clause
/* Two carriers with real lanes between them, and fake QEMUs to talk to.
 *
 * The control loop of both runs in the test's own thread, inside
 * rig_step(); each carrier has a data loop with a thread. Every wait has
 * RIG_DEADLINE and fails the test by its name. */
#ifndef TESTS_LIB_CARRIER_RIG_H
#define TESTS_LIB_CARRIER_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/carrier.h"
#include "transport/tls.h"

#define RIG_DEADLINE (30 * MP_SECOND)

enum { SRC, DST };

struct rig_side {
    struct loop *data;
    struct carrier *carrier;
    struct lane *pending[2]; /* welcomed, not yet handed over */
    /* what its ops said */
    bool ready, broken, finished;
    int broken_count, finished_count, head_count, channel_count;
    uint16_t channels[WIRE_CHANNELS];
    struct error why;
    uint64_t path_seq;
    mp_time path_rtt;
    struct stream_head *head;
};

struct rig {
    struct loop *control;
    struct tls *tls[2];
    struct rig_side side[2];
    char dir[64];
    char src_path[96], dst_path[96];
    int dst_listen_fd; /* the fake destination QEMU's */
    int lane_fd[2];    /* dialler's descriptors: express, bulk; not owned */
    char *pki;
};

struct rig_params {
    bool preempt;
    unsigned multifd;
    uint64_t bandwidth_bytes_per_second; /* 0: unlimited */
    uint64_t switchover_buffer_bytes;    /* 0: 8 MiB */
    mp_time connect_timeout;             /* 0: 5 s */
    pid_t qemu_pid;
    const struct small_pages *small_pages; /* of the source's carrier */
    bool no_lanes;      /* rig_connect_lanes() is called by the test */
    bool no_dst_listen; /* rig_listen_dst() is called by the test */
    int dst_backlog;    /* 0: 8 */
};

/* Both carriers, ready (unless no_lanes). */
struct rig *rig_new(const struct rig_params *params);
/* Frees what is left; checks that no descriptor is left over. */
void rig_free(struct rig *rig);

void rig_connect_lanes(struct rig *rig);
void rig_listen_dst(struct rig *rig, int backlog);
void rig_free_carrier(struct rig *rig, int side, const char *why);

/* Runs the control loop for a moment; fails at deadline, naming what. */
void rig_step(struct rig *rig, mp_time deadline, const char *what);

#define UNTIL(rig, condition)                                                  \
    for (mp_time until_deadline = clock_now() + RIG_DEADLINE; !(condition);) { \
        rig_step(rig, until_deadline, #condition);                             \
    }

/* Runs it for so long, whatever happens. */
void rig_run(struct rig *rig, mp_time time);

/* Fake QEMUs: non-blocking descriptors of the test's. */
int qemu_connect(struct rig *rig);         /* to the source's carrier */
int qemu_accept(struct rig *rig);          /* from the destination's carrier */
bool qemu_has_connection(struct rig *rig); /* one waits to be accepted */
void qemu_send(struct rig *rig, int fd, const void *data, size_t len_bytes);
void qemu_recv(struct rig *rig, int fd, void *data, size_t len_bytes);
/* Waits for the end: true if a FIN, false if a reset. */
bool qemu_recv_end(struct rig *rig, int fd);
/* "QEVM" and version 3: what main begins with. */
void qemu_send_main_header(struct rig *rig, int fd);
void qemu_send_multifd_header(struct rig *rig, int fd, uint8_t id);
void qemu_send_pong(struct rig *rig, int fd, uint32_t value);
void qemu_send_shut(struct rig *rig, int fd, uint32_t status);

/* Bytes of a pattern from one end to the other. */
struct rig_flow {
    int from, to;
    uint64_t total_bytes;
    uint32_t seed;
    uint64_t read_bytes_per_step; /* 0: all there is; else a slow reader */
    uint64_t sent_bytes, received_bytes;
};
void rig_flow(struct rig *rig, struct rig_flow *flows, size_t count);

/* Both QEMUs' ends of a channel. */
struct main_ends {
    int src, dst;
};

/* Main, connected, its header passed; the second form with a PONG back. */
struct main_ends connect_main(struct rig *rig);
struct main_ends connect_main_with_return_path(struct rig *rig);
/* A second channel (preempt). */
struct main_ends connect_next(struct rig *rig);
void close_both(struct main_ends m);

/* Stats of a side, fresh. */
void rig_get_stats(struct rig *rig, int side, struct carrier_stats *stats);

/* Both ends broke, once and with the same text, which holds text. */
void assert_broken_alike(struct rig *rig, const char *text);
/* Both ends finished, once. */
void assert_finished(struct rig *rig);

unsigned rig_count_descriptors(void);

#endif
