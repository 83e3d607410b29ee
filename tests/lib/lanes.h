// SPDX-License-Identifier: BSD-3-Clause
/* Lanes under test: two ends on loopback TCP with real certificates, a stream
 * of DATA frames whose payload tells where it belongs, and a loop that is run
 * until something is true. */
#ifndef TESTS_LIB_LANES_H
#define TESTS_LIB_LANES_H

#include "transport/lane.h"

/* One end and what it has seen. */
struct end {
    struct lane *lane;
    struct loop *loop;
    unsigned hellos, turns, rooms, closings;
    struct hello theirs;
    struct tls_names names;
    struct error err; /* of on_closed, or of an attempt to welcome */

    /* what an acceptor answers */
    struct hello mine;
    enum error_code refusal; /* not ERR_NONE: lane_refuse() with "refused" */
    bool is_slow;            /* leaves it to the test */

    /* the stream that is received */
    uint64_t received_bytes;
    struct frame frame; /* the current one */
    struct frame last;
    uint64_t frames;
    uint64_t payload_at; /* of the current frame */
    bool is_damaged;

    /* the stream that is sent by pull, until this many bytes */
    uint64_t to_send_bytes;
    uint64_t sent_bytes;
    uint32_t max_frame_bytes;
    unsigned random;

    void (*on_payload_hook)(struct end *end);
    void (*on_frame_hook)(struct end *end);
    void (*on_hello_hook)(struct end *end);
    void (*on_turn_hook)(struct end *end);
    void (*on_room_hook)(struct end *end);
};

extern const struct lane_ops end_ops;

/* Under valgrind everything takes thirty times as long. */
bool lanes_are_slow(void);

/* A hello for a lane of this kind. */
struct hello lanes_hello(enum wire_lane kind, const char *name);

/* A listening socket on a free port of 127.0.0.1. */
int lanes_listen(struct sock_address *ret_address);
/* Waits for one connection. */
int lanes_accept(int listen_fd, struct sock_address *ret_from);

/* Sends as much of the end's stream as there is room for. */
void end_pump(struct end *end);

/* Runs the loop until done(arg) or seconds have passed: then the process ends
 * with what was waited for. */
void lanes_run(struct loop *loop, bool (*done)(void *arg), void *arg,
               double seconds, const char *what);

/* Dials b from a over loopback and runs until both are ready. */
void lanes_pair(struct loop *loop, struct end *a, struct end *b,
                struct tls *tls_a, struct tls *tls_b, const char *identity,
                enum wire_lane kind, const struct lane_params *params);

#endif
