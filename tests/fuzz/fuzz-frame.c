// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for the frame decoder: the first byte says the lane and where
 * the rest is cut. What is accepted must encode to the same bytes again, and a
 * cut must change nothing. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checksum and count of what came out. */
struct outcome {
    uint64_t sum;
    unsigned headers;
    bool failed;
};

static void add(struct outcome *o, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        o->sum = o->sum * 31 + bytes[i];
    }
}

static void check_header(const struct frame_decoder *d, struct outcome *o)
{
    uint8_t header[WIRE_HEADER_BYTES];
    char text[160];
    frame_encode(&d->frame, header);
    if (memcmp(header, d->header, sizeof(header)) != 0) {
        abort();
    }
    frame_format(&d->frame, text, sizeof(text));
    if (!frame_type_name(d->frame.type) ||
        d->left_bytes != d->frame.length_bytes) {
        abort();
    }
    add(o, header, sizeof(header));
    o->headers++;
}

static void feed(struct frame_decoder *d, const uint8_t *data, size_t len,
                 struct outcome *o)
{
    const uint8_t *payload;
    size_t bytes;
    while (!o->failed) {
        struct error err = ERROR_INIT;
        switch (frame_decoder_next(d, &data, &len, &payload, &bytes, &err)) {
        case FRAME_STEP_MORE:
            if (len > 0) {
                abort();
            }
            return;
        case FRAME_STEP_HEADER:
            check_header(d, o);
            break;
        case FRAME_STEP_PAYLOAD:
            if (bytes == 0) {
                abort();
            }
            add(o, payload, bytes);
            break;
        case FRAME_STEP_ERROR:
            if (err.code != ERR_PROTOCOL || !err.text[0]) {
                abort();
            }
            o->failed = true;
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_decoder d;
    struct outcome whole = {0}, cut = {0};
    if (size == 0) {
        return 0;
    }
    enum wire_lane lane = data[0] % 3 + WIRE_LANE_CONTROL;
    size_t step = 1 + data[0] / 3;
    data++;
    size--;
    frame_decoder_init(&d, lane);
    feed(&d, data, size, &whole);
    frame_decoder_init(&d, lane);
    for (size_t at = 0; at < size; at += step) {
        feed(&d, data + at, size - at < step ? size - at : step, &cut);
    }
    if (memcmp(&whole, &cut, sizeof(whole)) != 0) {
        abort();
    }
    return 0;
}
