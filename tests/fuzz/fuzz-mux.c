// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for a mux: the input is a program for its peer and its user,
 * op by op. Whatever they do: no assertion, no leak, named
 * errors, what is held stays within the credit. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/mux.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHANNELS 4
#define HELD_MAX_BYTES (8u << 20) /* the default windows of one channel */

struct machine {
    const uint8_t *data;
    size_t size;
    struct mux *mux;
    struct chunk *chunk; /* payload to send and to receive from */
    mp_time now;
    bool failed;
};

static uint8_t next_byte(struct machine *m)
{
    if (m->size == 0) {
        return 0;
    }
    m->size--;
    return *m->data++;
}

/* Numbers of all magnitudes from two bytes: small ones, and ones near a power
 * of two. */
static uint64_t next_number(struct machine *m)
{
    uint8_t a = next_byte(m);
    uint8_t b = next_byte(m);
    if (a < 128) {
        return (uint64_t)a << 8 | b;
    }
    return ((uint64_t)1 << (a & 63)) + b - 128;
}

static void check_error(struct machine *m, const struct error *err)
{
    if (err->code == ERR_NONE || !err->text[0]) {
        abort();
    }
    m->failed = true;
}

/* A frame as the decoder would give it. */
static void receive(struct machine *m, const struct frame *f,
                    enum wire_lane lane)
{
    uint8_t header[WIRE_HEADER_BYTES];
    struct frame frame;
    struct error err = ERROR_INIT;
    frame_encode(f, header);
    if (frame_decode(header, lane, &frame, &err) < 0) {
        return; /* the lane would have ended; the mux never sees it */
    }
    if (mux_receive_header(m->mux, lane, &frame, m->now, &err) < 0) {
        check_error(m, &err);
        return;
    }
    size_t left = frame.length_bytes;
    size_t piece = 1 + next_byte(m) * 600u;
    bool owned = next_byte(m) & 1;
    while (left > 0 && !m->failed) {
        size_t n = left < piece ? left : piece;
        if (mux_receive_payload(m->mux, lane, m->chunk->data, n,
                                owned ? m->chunk : NULL, &err) < 0) {
            check_error(m, &err);
        }
        left -= n;
    }
}

static void receive_frame(struct machine *m, uint8_t op)
{
    static const enum wire_type types[] = {
        WIRE_DATA, WIRE_DATA, WIRE_ACK,  WIRE_END,
        WIRE_OPEN, WIRE_PING, WIRE_PONG, WIRE_RESET,
    };
    uint8_t place = next_byte(m);
    struct frame f = {.type = types[op & 7]};
    enum wire_lane lane = op & 8 ? WIRE_LANE_BULK : WIRE_LANE_EXPRESS;
    if (f.type != WIRE_PING && f.type != WIRE_PONG) {
        f.channel = place % CHANNELS;
        f.epoch = 1 + (place >> 2 & 3);
    }
    if (f.type != WIRE_PING && f.type != WIRE_PONG && f.type != WIRE_END) {
        f.offset = next_number(m);
    }
    if (f.type != WIRE_RESET) {
        f.arg = next_number(m);
    }
    if (f.type == WIRE_DATA) {
        f.flags = place >> 4 & 7;
        f.length_bytes = (uint32_t)next_number(m);
    }
    if (f.type == WIRE_DATA || f.type == WIRE_ACK) {
        f.substream = place >> 7;
    }
    if (f.type == WIRE_END) {
        f.offset = next_number(m);
    }
    if (f.type == WIRE_RESET) {
        f.length_bytes = next_byte(m);
    }
    receive(m, &f, lane);
}

static void take(struct machine *m, enum wire_lane lane, int frames)
{
    struct mux_out out;
    while (frames-- > 0) {
        bool has = mux_has_output(m->mux, lane, m->now);
        if (mux_take(m->mux, lane, m->now, &out) != has) {
            abort();
        }
        if (!has) {
            return;
        }
        struct frame f;
        if (frame_decode(out.header, lane, &f, NULL) < 0 ||
            f.length_bytes != out.payload_bytes) {
            abort(); /* what we send must be legal */
        }
        chunk_unref(out.chunk);
    }
}

static void deliver(struct machine *m, uint16_t channel, size_t max)
{
    struct iovec iov[3];
    size_t offered = mux_deliver_bytes(m->mux, channel);
    if (offered > HELD_MAX_BYTES) {
        abort();
    }
    int n = mux_deliver_peek(m->mux, channel, iov, 3);
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += iov[i].iov_len;
    }
    mux_delivered(m->mux, channel, bytes < max ? bytes : max);
}

static void take_events(struct machine *m)
{
    struct mux_event ev;
    while (mux_next_event(m->mux, &ev)) {
        if (ev.channel >= WIRE_CHANNELS) {
            abort();
        }
    }
}

static void use(struct machine *m, uint8_t op)
{
    uint16_t channel = op >> 4 & 3;
    size_t len = 0;
    switch (op & 15) {
    case 0: /* the opener's, unless it is not one */
        mux_send(m->mux, channel, m->chunk, m->chunk->data,
                 next_number(m) % m->chunk->size_bytes, next_byte(m) & 1,
                 next_byte(m) & 3, NULL);
        break;
    case 1:
        len = next_number(m) % m->chunk->size_bytes;
        mux_send_urgent(m->mux, channel, m->chunk, m->chunk->data, len,
                        next_number(m), NULL);
        break;
    case 2:
        mux_end(m->mux, channel);
        break;
    case 3:
        mux_reset(m->mux, channel, ERR_CANCELLED, op & 128 ? "why" : NULL);
        break;
    case 4:
        mux_set_phase(m->mux, (enum mux_phase)channel);
        break;
    case 5:
        mux_ping(m->mux, op & 16 ? WIRE_LANE_BULK : WIRE_LANE_EXPRESS, m->now);
        break;
    case 6:
        deliver(m, channel, next_number(m));
        break;
    case 7:
        take_events(m);
        break;
    case 8:
        take(m, op & 16 ? WIRE_LANE_BULK : WIRE_LANE_EXPRESS, next_byte(m));
        break;
    case 9:
        mux_turn_end(m->mux, m->now);
        break;
    case 10:
        m->now += (mp_time)(next_number(m) % MP_SECOND);
        break;
    default:
        if (mux_send_room(m->mux, channel) > HELD_MAX_BYTES) {
            abort();
        }
        break;
    }
}

static void open_channels(struct machine *m, uint8_t which)
{
    for (uint16_t c = 0; c < CHANNELS; c++) {
        if (which >> c & 1) {
            mux_open(m->mux, c, (enum wire_class)(c + 1), NULL);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct machine m = {.data = data, .size = size, .now = MP_SECOND};
    struct mux_config config;
    uint8_t first = next_byte(&m);
    mux_config_default(&config, first & 1, 1 << 20);
    m.mux = mux_new(&config);
    m.chunk = chunk_new(160000);
    if (!m.mux || !m.chunk) {
        abort();
    }
    memset(m.chunk->data, 0x5a, m.chunk->size_bytes);
    while (m.size > 0 && !m.failed) {
        uint8_t op = next_byte(&m);
        if (op >= 0xf0 && config.opener) {
            open_channels(&m, op);
        } else if (op & 0x40) {
            use(&m, op);
        } else {
            receive_frame(&m, op);
        }
    }
    take_events(&m);
    mux_check_lanes_ended(m.mux, NULL);
    mux_free(m.mux);
    if (m.chunk->refs != 1) {
        abort();
    }
    chunk_unref(m.chunk);
    return 0;
}
