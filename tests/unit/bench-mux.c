// SPDX-License-Identifier: BSD-3-Clause
/* What a frame costs in the mux, both ends together: queued, taken, received,
 * delivered, acknowledged. Without lanes, TLS and copies of payload.
 *
 * usage: bench-mux [FRAMES] */
#include <stdio.h>
#include <stdlib.h>

#include "transport/mux.h"

struct bench {
    struct mux *mux[2];
    struct chunk *chunk;
    uint64_t frames;
};

static void check(int result, const struct error *err)
{
    if (result < 0) {
        fprintf(stderr, "bench-mux: %s\n", err->text);
        exit(1);
    }
}

static void pass(struct bench *b, int from, mp_time now)
{
    static const enum wire_lane lanes[] = {WIRE_LANE_EXPRESS, WIRE_LANE_BULK};
    for (int i = 0; i < 2; i++) {
        struct mux_out out;
        while (mux_take(b->mux[from], lanes[i], now, &out)) {
            struct error err = ERROR_INIT;
            struct frame f;
            check(frame_decode(out.header, lanes[i], &f, &err), &err);
            check(mux_receive_header(b->mux[1 - from], lanes[i], &f, now, &err),
                  &err);
            check(mux_receive_payload(b->mux[1 - from], lanes[i], out.payload,
                                      out.payload_bytes, out.chunk, &err),
                  &err);
            b->frames += f.type == WIRE_DATA;
            chunk_unref(out.chunk);
        }
    }
}

static void deliver(struct bench *b, mp_time now)
{
    struct mux_event ev;
    struct iovec iov[16];
    int n;
    while (mux_next_event(b->mux[1], &ev)) {
    }
    while ((n = mux_deliver_peek(b->mux[1], 0, iov, 16)) > 0) {
        size_t bytes = 0;
        for (int i = 0; i < n; i++) {
            bytes += iov[i].iov_len;
        }
        mux_delivered(b->mux[1], 0, bytes);
    }
    mux_turn_end(b->mux[1], now);
}

static void run(const char *what, uint64_t frames, size_t frame_bytes,
                uint8_t flags)
{
    struct bench b = {.chunk = chunk_new(131072)};
    struct error err = ERROR_INIT;
    struct mux_config config;
    for (int end = 0; end < 2; end++) {
        mux_config_default(&config, end == 0, 1 << 20);
        b.mux[end] = mux_new(&config);
    }
    check(mux_open(b.mux[0], 0, WIRE_CLASS_MAIN, &err), &err);
    mp_time start = clock_now();
    while (b.frames < frames) {
        mp_time now = clock_now();
        while (mux_send_room(b.mux[0], 0) >= frame_bytes) {
            check(mux_send(b.mux[0], 0, b.chunk, b.chunk->data, frame_bytes,
                           flags, 0, &err),
                  &err);
        }
        pass(&b, 0, now);
        deliver(&b, now);
        pass(&b, 1, now);
    }
    double ns = (double)(clock_now() - start) / (double)b.frames;
    printf("%-28s %8.0f ns/frame %8.3f s/GB\n", what, ns,
           ns / (double)frame_bytes);
    mux_free(b.mux[0]);
    mux_free(b.mux[1]);
    chunk_unref(b.chunk);
}

int main(int argc, char **argv)
{
    uint64_t frames = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    run("128 KiB, cut freely", frames, WIRE_DATA_MAX_BYTES, 0);
    run("32 KiB, cut freely", frames, 32736, 0);
    run("4 KiB records with MERGE", frames, 4105, WIRE_FLAG_MERGE);
    return 0;
}
