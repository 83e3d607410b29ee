// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: sending. Small frames and the heads of large ones are staged, so that
 * records are full where there is enough to send. */
#include <assert.h>
#include <string.h>

#include "transport/lane-priv.h"

#define BATCH_MIN_BYTES 4096
#define BATCH_MAX_BYTES ((size_t)1 << 20)

static void await_write(struct lane *lane, bool awaits)
{
    if (awaits && !lane->awaits_write) {
        event_add(&lane->write_event, NULL);
    } else if (!awaits && lane->awaits_write) {
        event_del(&lane->write_event);
    }
    lane->awaits_write = awaits;
}

static void write_failed(struct lane *lane, const struct error *err)
{
    lane->is_broken = true;
    io_tls_wake(lane->io); /* the peer's reason may be waiting unread */
    await_write(lane, false);
    lane_fail_later(lane, err);
}

static size_t outstanding_bytes(const struct lane *lane)
{
    return lane->staged_bytes + io_tls_unsent(lane->io);
}

void lane_send_out(struct lane *lane)
{
    struct error err = ERROR_INIT;

    if (lane->is_broken) {
        return;
    }
    switch (io_tls_send(lane->io, &err)) {
    case IO_TLS_DONE:
        await_write(lane, false);
        break;
    case IO_TLS_AGAIN:
        await_write(lane, true);
        break;
    default:
        write_failed(lane, &err);
        break;
    }
}

static void encrypt(struct lane *lane, const uint8_t *data, size_t len_bytes)
{
    struct error err = ERROR_INIT;

    if (!lane->is_broken && io_tls_write(lane->io, data, len_bytes, &err) < 0) {
        write_failed(lane, &err);
    }
}

static void encrypt_staged(struct lane *lane)
{
    size_t len = lane->staged_bytes;

    lane->staged_bytes = 0;
    if (len > 0) {
        encrypt(lane, lane->staged, len);
    }
}

size_t lane_room(const struct lane *lane)
{
    size_t used = outstanding_bytes(lane) + WIRE_HEADER_BYTES;

    if (lane->stage != LANE_STAGE_READY || error_is_set(&lane->failure) ||
        lane->turn_bytes >= LANE_TURN_BYTES || used >= lane->batch_bytes) {
        return 0;
    }
    return lane->batch_bytes - used;
}

bool lane_has_room(const struct lane *lane)
{
    return lane_room(lane) >= lane->batch_bytes / 2;
}

/* Whoever may have seen no room is owed a call when there is some again. To be
 * called wherever room can end (encrypting adds to what waits, too) or come
 * back without an event. */
static void note_room(struct lane *lane)
{
    bool is_over = lane->turn_bytes >= LANE_TURN_BYTES;

    if (lane->stage != LANE_STAGE_READY) {
        return;
    }
    if (lane_room(lane) == 0) {
        lane->owes_room = true;
    }
    if (lane->owes_room && (is_over || lane_has_room(lane))) {
        lane_kick(lane);
    }
}

void lane_push(struct lane *lane)
{
    lane->wants_flush = false;
    encrypt_staged(lane);
    lane_send_out(lane);
    note_room(lane);
}

static void stage(struct lane *lane, const uint8_t *data, size_t len_bytes)
{
    memcpy(lane->staged + lane->staged_bytes, data, len_bytes);
    lane->staged_bytes += len_bytes;
}

/* Adds bytes to the stream: fills the staged record, encrypts whole records
 * from where they are, stages the rest. */
static void add_bytes(struct lane *lane, const uint8_t *data, size_t len_bytes)
{
    size_t space = IO_TLS_RECORD_BYTES - lane->staged_bytes;

    if (lane->staged_bytes > 0 && len_bytes >= space) {
        stage(lane, data, space);
        encrypt_staged(lane);
        data += space;
        len_bytes -= space;
    }
    if (len_bytes >= IO_TLS_RECORD_BYTES) {
        size_t whole = len_bytes / IO_TLS_RECORD_BYTES * IO_TLS_RECORD_BYTES;
        encrypt(lane, data, whole);
        data += whole;
        len_bytes -= whole;
    }
    if (len_bytes > 0) {
        stage(lane, data, len_bytes);
    }
}

static void add_frame(struct lane *lane,
                      const uint8_t header[WIRE_HEADER_BYTES],
                      const uint8_t *payload, size_t payload_bytes)
{
    if (lane->is_broken || error_is_set(&lane->failure)) {
        return; /* on_closed is on its way */
    }
    add_bytes(lane, header, WIRE_HEADER_BYTES);
    if (payload_bytes > 0) {
        add_bytes(lane, payload, payload_bytes);
    }
    lane->sent_frames++;
}

void lane_put(struct lane *lane, const struct frame *frame, const void *payload)
{
    uint8_t header[WIRE_HEADER_BYTES];

    frame_encode(frame, header);
    add_frame(lane, header, payload, frame->length_bytes);
}

void lane_put_goaway(struct lane *lane, enum error_code code, const char *text)
{
    size_t len = strnlen(text, WIRE_TEXT_MAX_BYTES);
    struct frame frame = {
        .type = WIRE_GOAWAY, .offset = code, .length_bytes = (uint32_t)len};

    lane->failure.code = ERR_NONE; /* it is what the peer is told */
    lane_put(lane, &frame, text);
    lane_push(lane);
}

/* Keeps to one batch and to the turn's budget. */
static void after_add(struct lane *lane)
{
    if (io_tls_unsent(lane->io) >= lane->batch_bytes) {
        lane_send_out(lane);
    } else if (outstanding_bytes(lane) + WIRE_HEADER_BYTES >=
               lane->batch_bytes) {
        lane_push(lane);
    }
    note_room(lane);
}

void lane_send(struct lane *lane, const uint8_t header[WIRE_HEADER_BYTES],
               const uint8_t *payload, size_t payload_bytes)
{
    assert(lane->stage == LANE_STAGE_READY && lane->loop);
    add_frame(lane, header, payload, payload_bytes);
    lane->turn_bytes += WIRE_HEADER_BYTES + payload_bytes;
    after_add(lane);
}

void lane_flush(struct lane *lane)
{
    if (lane->gone) {
        lane->wants_flush = true; /* at the end of the turn, with the rest */
    } else {
        lane_push(lane);
    }
}

bool lane_send_frame(struct lane *lane, const struct frame *frame,
                     const void *payload)
{
    if (outstanding_bytes(lane) + WIRE_HEADER_BYTES + frame->length_bytes >
        LANE_SMALL_QUEUE_BYTES) {
        return false;
    }
    assert(lane->stage == LANE_STAGE_READY && lane->loop);
    lane_put(lane, frame, payload);
    lane->turn_bytes += WIRE_HEADER_BYTES + frame->length_bytes;
    after_add(lane);
    lane_flush(lane);
    return true;
}

void lane_set_batch(struct lane *lane, size_t batch_bytes)
{
    if (batch_bytes < BATCH_MIN_BYTES) {
        batch_bytes = BATCH_MIN_BYTES;
    }
    if (batch_bytes > BATCH_MAX_BYTES) {
        batch_bytes = BATCH_MAX_BYTES;
    }
    lane->batch_bytes = batch_bytes;
    note_room(lane);
}

void lane_set_send_buffer(struct lane *lane, int size_bytes)
{
    if (size_bytes > 0) {
        sock_set_send_buffer(lane->fd, size_bytes);
    }
}
