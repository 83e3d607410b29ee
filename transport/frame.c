// SPDX-License-Identifier: BSD-3-Clause
/* Frame headers: the codec and the one table of what is legal where. */
#include "transport/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LANE(kind) (1u << (kind))
#define LANES_ALL                                                              \
    (LANE(WIRE_LANE_CONTROL) | LANE(WIRE_LANE_EXPRESS) | LANE(WIRE_LANE_BULK))
#define LANES_MIGRATION (LANE(WIRE_LANE_EXPRESS) | LANE(WIRE_LANE_BULK))

#define DATA_FLAGS (WIRE_FLAG_MERGE | WIRE_FLAG_ACK | WIRE_FLAG_WANT)

/* What a frame of one type may look like. A field a type does not use must be
 * zero, so that a later version can give it a meaning. */
struct frame_rule {
    const char *name; /* NULL: there is no such type */
    unsigned lanes;
    uint8_t flags;      /* the ones that may be set */
    bool of_channel;    /* concerns a channel: channel and epoch are used */
    uint8_t subs;       /* sub-streams 0 .. subs-1 */
    uint32_t min_bytes; /* of the payload */
    uint32_t max_bytes;
    uint64_t min_arg;
    uint64_t max_offset;
    uint64_t max_arg;
};

static const struct frame_rule frame_rules[] = {
    [WIRE_HELLO] = {"HELLO", LANES_ALL, 0, false, 1, 1, WIRE_HELLO_MAX_BYTES, 0,
                    0, 0},
    [WIRE_GOAWAY] = {"GOAWAY", LANES_ALL, 0, false, 1, 0, WIRE_TEXT_MAX_BYTES,
                     0, UINT16_MAX, 0},
    [WIRE_PING] = {"PING", LANES_ALL, 0, false, 1, 0, 0, 0, 0, UINT64_MAX},
    [WIRE_PONG] = {"PONG", LANES_ALL, 0, false, 1, 0, 0, 0, UINT64_MAX,
                   UINT64_MAX},
    [WIRE_MESSAGE] = {"MESSAGE", LANE(WIRE_LANE_CONTROL), 0, false, 1, 1,
                      WIRE_MESSAGE_MAX_BYTES, 0, 0, 0},
    [WIRE_OPEN] = {"OPEN", LANES_MIGRATION, 0, true, 1, 0, 0, WIRE_CLASS_MAIN,
                   WIRE_OFFSET_MAX, WIRE_CLASS_DISK},
    [WIRE_DATA] = {"DATA", LANES_MIGRATION, DATA_FLAGS, true, WIRE_SUBS, 1,
                   WIRE_DATA_MAX_BYTES, 0, WIRE_OFFSET_MAX, WIRE_OFFSET_MAX},
    [WIRE_END] = {"END", LANES_MIGRATION, 0, true, 1, 0, 0, 0, WIRE_OFFSET_MAX,
                  WIRE_OFFSET_MAX},
    [WIRE_RESET] = {"RESET", LANES_MIGRATION, 0, true, 1, 0,
                    WIRE_TEXT_MAX_BYTES, 0, UINT16_MAX, 0},
    [WIRE_ACK] = {"ACK", LANE(WIRE_LANE_EXPRESS), 0, true, WIRE_SUBS, 0, 0, 0,
                  WIRE_OFFSET_MAX, WIRE_OFFSET_MAX},
};

#define FRAME_RULES (sizeof(frame_rules) / sizeof(frame_rules[0]))

static const struct frame_rule *find_rule(unsigned type)
{
    if (type >= FRAME_RULES || !frame_rules[type].name) {
        return NULL;
    }
    return &frame_rules[type];
}

static void put16(uint8_t *out, uint16_t v)
{
    out[0] = (uint8_t)(v >> 8);
    out[1] = (uint8_t)v;
}

static void put32(uint8_t *out, uint32_t v)
{
    put16(out, (uint16_t)(v >> 16));
    put16(out + 2, (uint16_t)v);
}

static void put64(uint8_t *out, uint64_t v)
{
    put32(out, (uint32_t)(v >> 32));
    put32(out + 4, (uint32_t)v);
}

static uint16_t get16(const uint8_t *in)
{
    return (uint16_t)((unsigned)in[0] << 8 | in[1]);
}

static uint32_t get32(const uint8_t *in)
{
    return (uint32_t)get16(in) << 16 | get16(in + 2);
}

static uint64_t get64(const uint8_t *in)
{
    return (uint64_t)get32(in) << 32 | get32(in + 4);
}

void frame_encode(const struct frame *f, uint8_t out[WIRE_HEADER_BYTES])
{
    out[0] = (uint8_t)f->type;
    out[1] = f->flags;
    put16(out + 2, f->channel);
    out[4] = f->substream;
    out[5] = 0;
    put16(out + 6, f->epoch);
    put32(out + 8, f->length_bytes);
    put32(out + 12, 0);
    put64(out + 16, f->offset);
    put64(out + 24, f->arg);
}

static int refuse(struct error *err, const struct frame_rule *rule,
                  const char *field, uint64_t value, uint64_t min, uint64_t max)
{
    return error_set(err, ERR_PROTOCOL,
                     "%s frame: %s is %" PRIu64 ", allowed %" PRIu64
                     " to %" PRIu64,
                     rule->name, field, value, min, max);
}

/* The fields that say which channel a frame is about. */
static int check_place(const struct frame *f, const struct frame_rule *rule,
                       struct error *err)
{
    uint64_t max_channel = rule->of_channel ? WIRE_CHANNELS - 1 : 0;
    uint64_t min_epoch = rule->of_channel ? WIRE_EPOCH_FIRST : 0;
    uint64_t max_epoch = rule->of_channel ? UINT16_MAX : 0;
    if (f->channel > max_channel) {
        return refuse(err, rule, "channel", f->channel, 0, max_channel);
    }
    if (f->epoch < min_epoch || f->epoch > max_epoch) {
        return refuse(err, rule, "epoch", f->epoch, min_epoch, max_epoch);
    }
    if (f->substream >= rule->subs) {
        return refuse(err, rule, "sub-stream", f->substream, 0,
                      rule->subs - 1u);
    }
    return 0;
}

static int check_sizes(const struct frame *f, const struct frame_rule *rule,
                       struct error *err)
{
    if (f->length_bytes < rule->min_bytes ||
        f->length_bytes > rule->max_bytes) {
        return refuse(err, rule, "payload length", f->length_bytes,
                      rule->min_bytes, rule->max_bytes);
    }
    if (f->offset > rule->max_offset) {
        return refuse(err, rule, "offset", f->offset, 0, rule->max_offset);
    }
    if (f->arg < rule->min_arg || f->arg > rule->max_arg) {
        return refuse(err, rule, "arg", f->arg, rule->min_arg, rule->max_arg);
    }
    return 0;
}

/* Urgent DATA: travels on the express lane only, is held whole and is itself a
 * merge point. */
static int check_urgent(const struct frame *f, const struct frame_rule *rule,
                        enum wire_lane lane, struct error *err)
{
    if (f->type != WIRE_DATA || f->substream != WIRE_SUB_URGENT) {
        return 0;
    }
    if (lane != WIRE_LANE_EXPRESS) {
        return error_set(err, ERR_PROTOCOL,
                         "urgent DATA frame on the %s lane, allowed on the "
                         "express lane only",
                         frame_lane_name(lane));
    }
    if (f->length_bytes > WIRE_URGENT_MAX_BYTES) {
        return refuse(err, rule, "urgent payload length", f->length_bytes, 1,
                      WIRE_URGENT_MAX_BYTES);
    }
    if (f->flags & WIRE_FLAG_MERGE) {
        return error_set(err, ERR_PROTOCOL,
                         "urgent DATA frame: flag MERGE is for bulk only");
    }
    return 0;
}

static int check(const struct frame *f, const uint8_t *in, enum wire_lane lane,
                 struct error *err)
{
    const struct frame_rule *rule = find_rule(in[0]);
    if (!rule) {
        return error_set(err, ERR_PROTOCOL, "frame type %u is not known",
                         in[0]);
    }
    if (!(rule->lanes & LANE(lane))) {
        return error_set(err, ERR_PROTOCOL,
                         "%s frame is not allowed on the %s lane", rule->name,
                         frame_lane_name(lane));
    }
    if (f->flags & ~rule->flags) {
        return error_set(err, ERR_PROTOCOL,
                         "%s frame: flags are 0x%02x, allowed 0x%02x",
                         rule->name, f->flags, rule->flags);
    }
    if (in[5] != 0 || get32(in + 12) != 0) {
        return error_set(err, ERR_PROTOCOL,
                         "%s frame: reserved bytes are not zero", rule->name);
    }
    if (check_place(f, rule, err) < 0 || check_sizes(f, rule, err) < 0) {
        return -1;
    }
    return check_urgent(f, rule, lane, err);
}

int frame_decode(const uint8_t in[WIRE_HEADER_BYTES], enum wire_lane lane,
                 struct frame *ret_frame, struct error *err)
{
    struct frame f = {
        .type = in[0],
        .flags = in[1],
        .channel = get16(in + 2),
        .substream = in[4],
        .epoch = get16(in + 6),
        .length_bytes = get32(in + 8),
        .offset = get64(in + 16),
        .arg = get64(in + 24),
    };
    if (check(&f, in, lane, err) < 0) {
        return -1;
    }
    *ret_frame = f;
    return 0;
}

enum error_code frame_error_code(const struct frame *f)
{
    return f->offset < ERROR_CODES ? (enum error_code)f->offset : ERR_INTERNAL;
}

const char *frame_type_name(enum wire_type type)
{
    const struct frame_rule *rule = find_rule(type);
    return rule ? rule->name : NULL;
}

const char *frame_lane_name(enum wire_lane lane)
{
    switch (lane) {
    case WIRE_LANE_CONTROL:
        return "control";
    case WIRE_LANE_EXPRESS:
        return "express";
    case WIRE_LANE_BULK:
        return "bulk";
    }
    return "?";
}

void frame_format(const struct frame *f, char *buf, size_t size)
{
    static const char *const flag_names[] = {
        "",
        " flags=MERGE",
        " flags=ACK",
        " flags=MERGE|ACK",
        " flags=WANT",
        " flags=MERGE|WANT",
        " flags=ACK|WANT",
        " flags=MERGE|ACK|WANT",
    };
    const char *name = frame_type_name(f->type);
    snprintf(buf, size,
             "%s ch=%u sub=%u ep=%u off=%" PRIu64 " arg=%" PRIu64 " len=%u%s",
             name ? name : "?", f->channel, f->substream, f->epoch, f->offset,
             f->arg, f->length_bytes, flag_names[f->flags & DATA_FLAGS]);
}

void frame_decoder_init(struct frame_decoder *d, enum wire_lane lane)
{
    memset(d, 0, sizeof(*d));
    d->lane = lane;
}

static enum frame_step take_payload(struct frame_decoder *d,
                                    const uint8_t **data, size_t *len,
                                    const uint8_t **ret_payload,
                                    size_t *ret_bytes)
{
    size_t n = *len < d->left_bytes ? *len : d->left_bytes;
    *ret_payload = *data;
    *ret_bytes = n;
    *data += n;
    *len -= n;
    d->left_bytes -= (uint32_t)n;
    return FRAME_STEP_PAYLOAD;
}

enum frame_step frame_decoder_next(struct frame_decoder *d,
                                   const uint8_t **data, size_t *len,
                                   const uint8_t **ret_payload,
                                   size_t *ret_bytes, struct error *err)
{
    if (d->left_bytes > 0 && *len > 0) {
        return take_payload(d, data, len, ret_payload, ret_bytes);
    }
    if (d->left_bytes > 0) {
        return FRAME_STEP_MORE;
    }

    size_t want = WIRE_HEADER_BYTES - d->header_bytes;
    size_t n = *len < want ? *len : want;
    if (n > 0) {
        memcpy(d->header + d->header_bytes, *data, n);
    }
    d->header_bytes += n;
    *data += n;
    *len -= n;
    if (d->header_bytes < WIRE_HEADER_BYTES) {
        return FRAME_STEP_MORE;
    }
    /* On an error the header stays complete: each further call fails again. */
    if (frame_decode(d->header, d->lane, &d->frame, err) < 0) {
        return FRAME_STEP_ERROR;
    }
    d->header_bytes = 0;
    d->left_bytes = d->frame.length_bytes;
    return FRAME_STEP_HEADER;
}
