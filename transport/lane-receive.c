// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: receiving. Records are decrypted into a chunk until it is full, the
 * socket is dry or the budget is used up; then the chunk is cut into frames. */
#include <string.h>

#include "transport/lane-priv.h"

/* Before a lane is ready its peer is a stranger: HELLO and its header. */
#define HELLO_CHUNK_BYTES 8192

static size_t chunk_bytes_of(const struct lane *lane)
{
    return lane_kind(lane) == WIRE_LANE_CONTROL ? LANE_CONTROL_CHUNK_BYTES
                                                : LANE_CHUNK_BYTES;
}

int lane_receive_start(struct lane *lane, struct error *err)
{
    size_t bytes = chunk_bytes_of(lane);

    lane->decoder.lane = lane_kind(lane);
    lane->pool = chunk_pool_new(bytes, LANE_CHUNKS_KEPT);
    if (!lane->pool) {
        return error_set(err, ERR_NO_MEMORY, "out of memory");
    }
    return io_tls_reserve(lane->io, bytes, 2 * bytes, err);
}

void lane_receive_detach(struct lane *lane)
{
    size_t left = lane->filled_bytes - lane->decoded_bytes;
    struct chunk *rest = NULL;

    if (left > 0) {
        rest = chunk_new(left);
        if (rest) {
            memcpy(rest->data, lane->chunk->data + lane->decoded_bytes, left);
        } else {
            error_set(&lane->failure, ERR_NO_MEMORY, "%s: out of memory",
                      lane->peer_text);
            left = 0;
        }
    }
    chunk_unref(lane->chunk);
    lane->chunk = rest;
    lane->filled_bytes = left;
    lane->decoded_bytes = 0;
    chunk_pool_free(lane->pool);
    lane->pool = NULL;
}

/* HELLO and GOAWAY are the lane's own. ------------------------------------ */

static bool is_own(enum wire_type type)
{
    return type == WIRE_HELLO || type == WIRE_GOAWAY;
}

/* Texts of a peer go into logs and to people as they are. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~') {
            *text = '?';
        }
    }
}

/* GOAWAY is whole: the lane ends. */
static void take_goaway(struct lane *lane)
{
    struct error err = ERROR_INIT;
    enum error_code code = frame_error_code(&lane->decoder.frame);
    char text[WIRE_TEXT_MAX_BYTES + 1];

    memcpy(text, lane->own, lane->own_bytes);
    text[lane->own_bytes] = '\0';
    make_printable(text);
    error_set(&err, code == ERR_NONE ? ERR_LINK_LOST : code, "%s: %s",
              lane->peer_text, text[0] ? text : "ended the connection");
    if (code != ERR_NONE && text[0]) {
        lane->last_word = text;
    }
    lane_end(lane, &err);
}

/* An own frame is whole. False: the lane is gone. */
static bool take_own(struct lane *lane)
{
    struct error err = ERROR_INIT;

    if (lane->decoder.frame.type == WIRE_GOAWAY) {
        take_goaway(lane);
        return false;
    }
    if (hello_decode(lane->own, lane->own_bytes, &lane->theirs, &err) < 0) {
        lane_end_telling(lane, &err);
        return false;
    }
    return lane_greet(lane);
}

static bool take_own_header(struct lane *lane)
{
    const struct frame *frame = &lane->decoder.frame;
    struct error err = ERROR_INIT;

    lane->own_bytes = 0;
    if (frame->type == WIRE_HELLO && lane->stage != LANE_STAGE_HELLO) {
        error_set(&err, ERR_PROTOCOL, "HELLO frame: this lane had one");
        lane_end_telling(lane, &err);
        return false;
    }
    return frame->length_bytes > 0 || take_own(lane);
}

/* The frame table limits the length of own frames to the size of own. */
static bool take_own_payload(struct lane *lane, const uint8_t *data, size_t len)
{
    memcpy(lane->own + lane->own_bytes, data, len);
    lane->own_bytes += len;
    return lane->decoder.left_bytes > 0 || take_own(lane);
}

/* Frames. ------------------------------------------------------------------
 */

static bool take_header(struct lane *lane)
{
    bool *gone = lane->gone;
    struct frame *frame = &lane->decoder.frame;
    struct error err = ERROR_INIT;

    lane->received_frames++;
    if (is_own(frame->type)) {
        return take_own_header(lane);
    }
    if (lane->stage != LANE_STAGE_READY) {
        error_set(&err, ERR_PROTOCOL, "%s frame before HELLO",
                  frame_type_name(frame->type));
        lane_end_telling(lane, &err);
        return false;
    }
    lane->owes_turn = true;
    struct frame copy = *frame; /* the callback may free the lane */
    lane->ops->on_frame(lane->arg, &copy);
    return !*gone;
}

static bool take_payload(struct lane *lane, struct chunk *chunk,
                         const uint8_t *data, size_t len)
{
    bool *gone = lane->gone;

    if (is_own(lane->decoder.frame.type)) {
        return take_own_payload(lane, data, len);
    }
    lane->owes_turn = true;
    lane->ops->on_payload(lane->arg, data, len, chunk,
                          lane->decoder.left_bytes == 0);
    return !*gone;
}

/* Cuts what is in the chunk into frames until the owner stops it. */
static bool decode(struct lane *lane, struct chunk *chunk)
{
    while (!lane_is_stopped(lane)) {
        const uint8_t *data = chunk->data + lane->decoded_bytes, *piece;
        size_t len = lane->filled_bytes - lane->decoded_bytes, piece_len;
        struct error err = ERROR_INIT;
        enum frame_step step = frame_decoder_next(&lane->decoder, &data, &len,
                                                  &piece, &piece_len, &err);

        lane->decoded_bytes = lane->filled_bytes - len;
        switch (step) {
        case FRAME_STEP_MORE:
            return true;
        case FRAME_STEP_HEADER:
            if (!take_header(lane)) {
                return false;
            }
            break;
        case FRAME_STEP_PAYLOAD:
            if (!take_payload(lane, chunk, piece, piece_len)) {
                return false;
            }
            break;
        case FRAME_STEP_ERROR:
            lane_end_telling(lane, &err);
            return false;
        }
    }
    return true;
}

static bool decode_all(struct lane *lane)
{
    struct chunk *chunk = lane->chunk;

    if (!chunk || lane->decoded_bytes == lane->filled_bytes) {
        return true;
    }
    chunk_ref(chunk); /* the callbacks' data outlives the lane */
    bool alive = decode(lane, chunk);
    chunk_unref(chunk);
    return alive;
}

/* Records. -----------------------------------------------------------------
 */

/* Space to decrypt into; everything in the chunk has been decoded. */
static int make_space(struct lane *lane, struct error *err)
{
    if (lane->chunk && lane->chunk->refs == 1) {
        /* the one that came along from another loop may be of any size */
        if (lane->chunk->pool == lane->pool) {
            lane->filled_bytes = lane->decoded_bytes = 0;
            return 0;
        }
    } else if (lane->chunk && lane->filled_bytes < lane->chunk->size_bytes) {
        return 0;
    }
    chunk_unref(lane->chunk);
    lane->filled_bytes = lane->decoded_bytes = 0;
    lane->chunk =
        lane->pool ? chunk_get(lane->pool) : chunk_new(HELLO_CHUNK_BYTES);
    if (!lane->chunk) {
        return error_set(err, ERR_NO_MEMORY, "out of memory");
    }
    return 0;
}

/* Decrypts until the chunk is full or something says to stop. */
static enum io_tls_result fill(struct lane *lane, size_t *budget_bytes,
                               struct error *err)
{
    if (make_space(lane, err) < 0) {
        return IO_TLS_FAILED;
    }
    struct chunk *chunk = lane->chunk;
    while (lane->filled_bytes<chunk->size_bytes && * budget_bytes> 0) {
        size_t n;
        enum io_tls_result result =
            io_tls_read(lane->io, chunk->data + lane->filled_bytes,
                        chunk->size_bytes - lane->filled_bytes, &n, err);
        if (result != IO_TLS_DONE) {
            return result;
        }
        lane->filled_bytes += n;
        *budget_bytes -= n < *budget_bytes ? n : *budget_bytes;
    }
    return IO_TLS_DONE;
}

/* The peer's direction has ended, and what came before it is given up. That
 * sending failed before says less than an alert, and more than an end. */
static void end_of_input(struct lane *lane, enum io_tls_result result,
                         struct error *err)
{
    if (error_is_set(&lane->failure) &&
        (result == IO_TLS_CLOSED || err->code == ERR_LINK_LOST)) {
        lane_end(lane, &lane->failure);
        return;
    }
    if (result == IO_TLS_CLOSED) {
        error_set(err, ERR_LINK_LOST, "closed the connection%s",
                  lane->stage == LANE_STAGE_READY ? "" : " before HELLO");
    }
    error_wrap(err, "%s", lane->peer_text);
    lane_end(lane, err);
}

static bool turn_is_over(struct lane *lane, enum io_tls_result result,
                         size_t budget_bytes, bool *ret_alive)
{
    *ret_alive = true;
    if (lane_is_stopped(lane)) {
        return true;
    }
    if (result == IO_TLS_AGAIN && lane->is_broken) {
        /* nothing more from the peer: why sending failed is the cause */
        lane_end(lane, &lane->failure);
        *ret_alive = false;
        return true;
    }
    if (result == IO_TLS_DONE && budget_bytes == 0) {
        if (io_tls_has_input(lane->io) || lane->is_broken) {
            lane_kick(lane);
        }
        return true;
    }
    return result == IO_TLS_AGAIN;
}

bool lane_receive(struct lane *lane)
{
    bool *gone = lane->gone, alive;
    size_t budget_bytes = LANE_TURN_BYTES;
    struct error err = ERROR_INIT;
    enum io_tls_result result = IO_TLS_DONE;

    for (;;) {
        if (!decode_all(lane)) {
            return false;
        }
        if (lane_is_stopped(lane) && result == IO_TLS_FAILED) {
            lane_fail_later(lane, &err);
        }
        if (turn_is_over(lane, result, budget_bytes, &alive)) {
            break;
        }
        if (result == IO_TLS_CLOSED || result == IO_TLS_FAILED) {
            end_of_input(lane, result, &err);
            return false;
        }
        size_t before = budget_bytes;
        result = fill(lane, &budget_bytes, &err);
        if (budget_bytes < before) {
            lane->last_received = loop_now(lane->loop);
        }
    }
    if (alive && lane->owes_turn) {
        lane->owes_turn = false;
        lane->ops->on_turn(lane->arg);
        return !*gone;
    }
    return alive;
}
