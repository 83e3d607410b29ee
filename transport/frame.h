// SPDX-License-Identifier: BSD-3-Clause
/* One frame header: encode, decode, and the table of what is legal where.
 * Pure. */
#ifndef TRANSPORT_FRAME_H
#define TRANSPORT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire.h"
#include "util/error.h"

struct frame {
    enum wire_type type;
    uint8_t flags;
    uint8_t substream;
    uint16_t channel;
    uint16_t epoch;
    uint32_t length_bytes; /* payload */
    uint64_t offset;
    uint64_t arg;
};

/* Writes the header of f into out. */
void frame_encode(const struct frame *f, uint8_t out[WIRE_HEADER_BYTES]);

/* Reads a header and checks it against the table: type known, flags, channel,
 * sub-stream, epoch, offset, arg and length legal for the type on a lane of
 * this kind, reserved bytes zero. ERR_PROTOCOL names the field, its value and
 * the limit. */
int frame_decode(const uint8_t in[WIRE_HEADER_BYTES], enum wire_lane lane,
                 struct frame *ret_frame, struct error *err);

/* The error code that GOAWAY and RESET carry in offset; ERR_INTERNAL where it
 * is not known (a newer peer may use codes this version does not have). */
enum error_code frame_error_code(const struct frame *f);

/* "DATA", "END"...; "type N" texts are made by the caller for unknown ones,
 * for which this is NULL. */
const char *frame_type_name(enum wire_type type);

/* "express", "bulk", "control"; "?" for anything else. */
const char *frame_lane_name(enum wire_lane lane);

/* One line for traces and conversation tests:
 * "DATA ch=0 sub=0 ep=1 off=0 arg=0 len=4096 flags=MERGE". */
void frame_format(const struct frame *f, char *buf, size_t size);

/* Cuts a byte stream into headers and pieces of payload; may stop after any
 * byte. */
struct frame_decoder {
    enum wire_lane lane;
    uint8_t header[WIRE_HEADER_BYTES];
    size_t header_bytes; /* of header, in hand */
    uint32_t left_bytes; /* of the current frame's payload */
    struct frame frame;  /* the current one */
};

enum frame_step {
    FRAME_STEP_MORE,    /* all input taken, nothing complete */
    FRAME_STEP_HEADER,  /* decoder->frame is new; payload follows, if any */
    FRAME_STEP_PAYLOAD, /* *ret_payload, *ret_bytes: a piece; left_bytes == 0
                         * after it says it was the last */
    FRAME_STEP_ERROR,   /* the lane is unusable; the step repeats itself */
};

void frame_decoder_init(struct frame_decoder *d, enum wire_lane lane);

/* Takes bytes from *data (*len is lowered by what was taken) up to the next
 * step. Payload pieces point into the input. */
enum frame_step frame_decoder_next(struct frame_decoder *d,
                                   const uint8_t **data, size_t *len,
                                   const uint8_t **ret_payload,
                                   size_t *ret_bytes, struct error *err);

#endif
