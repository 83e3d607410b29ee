// SPDX-License-Identifier: BSD-3-Clause
/* A peer that misbehaves: each thing it may not do is refused by name, each
 * thing it can make us hold has a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/mux-internal.h"

#define EXPRESS WIRE_LANE_EXPRESS
#define BULK WIRE_LANE_BULK

static uint8_t payload[WIRE_DATA_MAX_BYTES];

static struct mux *new_mux(bool opener)
{
    struct mux_config config;
    mux_config_default(&config, opener, 1 << 20);
    return mux_new(&config);
}

static int give(struct mux *mux, enum wire_lane lane, struct frame f,
                struct error *err)
{
    uint8_t header[WIRE_HEADER_BYTES];
    struct frame decoded;
    frame_encode(&f, header);
    if (frame_decode(header, lane, &decoded, err) < 0 ||
        mux_receive_header(mux, lane, &decoded, MP_SECOND, err) < 0) {
        return -1;
    }
    return mux_receive_payload(mux, lane, payload, f.length_bytes, NULL, err);
}

static void good(struct mux *mux, enum wire_lane lane, struct frame f)
{
    struct error err = ERROR_INIT;
    if (give(mux, lane, f, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void bad(struct mux *mux, enum wire_lane lane, struct frame f,
                const char *text)
{
    struct error err = ERROR_INIT;
    assert_int_equal(give(mux, lane, f, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_string_equal(err.text, text);
}

static struct frame open_frame(uint16_t channel, uint16_t epoch, uint64_t order,
                               enum wire_class class)
{
    return (struct frame){
        .type = WIRE_OPEN,
        .channel = channel,
        .epoch = epoch,
        .offset = order,
        .arg = class,
    };
}

static struct frame data_frame(uint16_t epoch, uint64_t offset, uint32_t len)
{
    return (struct frame){
        .type = WIRE_DATA,
        .epoch = epoch,
        .offset = offset,
        .length_bytes = len,
    };
}

static struct frame urgent_frame(uint16_t epoch, uint64_t offset, uint32_t len)
{
    struct frame f = data_frame(epoch, offset, len);
    f.substream = WIRE_SUB_URGENT;
    return f;
}

static struct frame channel_frame(enum wire_type type, uint16_t epoch,
                                  uint64_t offset, uint64_t arg)
{
    return (struct frame){
        .type = type,
        .epoch = epoch,
        .offset = offset,
        .arg = arg,
    };
}

/* A mux of the other end on which channel 0 is open as main, epoch 1. */
static struct mux *opened(void)
{
    struct mux *mux = new_mux(false);
    good(mux, BULK, open_frame(0, 1, 0, WIRE_CLASS_MAIN));
    return mux;
}

static unsigned take_events(struct mux *mux)
{
    struct mux_event ev;
    unsigned n = 0;
    while (mux_next_event(mux, &ev)) {
        n++;
    }
    return n;
}

static void take_all(struct mux *mux, enum wire_lane lane)
{
    struct mux_out out;
    while (mux_take(mux, lane, MP_SECOND, &out)) {
        chunk_unref(out.chunk);
    }
}

/* OPEN. ------------------------------------------------------------------- */

static void open_from_the_wrong_end_is_refused(void **state)
{
    struct mux *mux = new_mux(true);
    bad(mux, BULK, open_frame(0, 1, 0, WIRE_CLASS_MAIN),
        "channel 0, epoch 1, sub-stream 0: OPEN from the end that does not "
        "open channels");
    mux_free(mux);
}

static void open_on_the_wrong_lane_is_refused(void **state)
{
    struct mux *mux = new_mux(false);
    bad(mux, EXPRESS, open_frame(0, 1, 0, WIRE_CLASS_MAIN),
        "channel 0, epoch 1, sub-stream 0: OPEN of main on the express lane, "
        "belongs on bulk");
    bad(mux, BULK, open_frame(0, 1, 0, WIRE_CLASS_PREEMPT),
        "channel 0, epoch 1, sub-stream 0: OPEN of preempt on the bulk lane, "
        "belongs on express");
    mux_free(mux);
}

static void open_of_an_open_channel_is_refused(void **state)
{
    struct mux *mux = opened();
    bad(mux, BULK, open_frame(0, 2, 1, WIRE_CLASS_MAIN),
        "channel 0, epoch 2, sub-stream 0: OPEN while epoch 1 is open");
    bad(mux, BULK, open_frame(0, 1, 1, WIRE_CLASS_MAIN),
        "channel 0, epoch 1, sub-stream 0: OPEN with epoch 1, epoch 1 was "
        "there already");
    mux_free(mux);
}

static void open_as_another_class_is_refused(void **state)
{
    struct mux *mux = opened();
    good(mux, BULK, channel_frame(WIRE_RESET, 1, ERR_CANCELLED, 0));
    bad(mux, BULK, open_frame(0, 2, 1, WIRE_CLASS_DISK),
        "channel 0, epoch 2, sub-stream 0: OPEN as disk, it was main before");
    mux_free(mux);
}

static void opening_order_has_no_doubles_and_small_gaps(void **state)
{
    struct mux *mux = opened();
    bad(mux, BULK, open_frame(1, 1, 0, WIRE_CLASS_MULTIFD),
        "channel 1, epoch 1, sub-stream 0: OPEN with order 0, allowed 1 to 64, "
        "each once");
    good(mux, BULK, open_frame(1, 1, 2, WIRE_CLASS_MULTIFD));
    bad(mux, BULK, open_frame(2, 1, 2, WIRE_CLASS_MULTIFD),
        "channel 2, epoch 1, sub-stream 0: OPEN with order 2, allowed 1 to 64, "
        "each once");
    bad(mux, BULK, open_frame(2, 1, 65, WIRE_CLASS_MULTIFD),
        "channel 2, epoch 1, sub-stream 0: OPEN with order 65, allowed 1 to "
        "64, each once");
    assert_int_equal(take_events(mux), 1); /* 2 waits for 1 */
    mux_free(mux);
}

static void flood_of_open_and_reset_is_refused(void **state)
{
    struct mux *mux = new_mux(false);
    struct error err = ERROR_INIT;
    int result = 0;
    uint16_t epoch = 0;
    while (result == 0 && epoch < 1000) {
        epoch++;
        result =
            give(mux, EXPRESS,
                 open_frame(0, epoch, epoch - 1u, WIRE_CLASS_PREEMPT), &err);
        if (result == 0) {
            result =
                give(mux, EXPRESS,
                     channel_frame(WIRE_RESET, epoch, ERR_CANCELLED, 0), &err);
        }
    }
    assert_int_equal(result, -1);
    assert_int_equal(epoch, MUX_PEER_EVENTS_MAX / 2 + 1);
    assert_string_equal(err.text,
                        "the peer opened, ended and reset channels more than "
                        "256 times in one turn");
    mux_free(mux);
}

/* DATA and END. ----------------------------------------------------------- */

static void data_beyond_the_credit_is_refused(void **state)
{
    struct mux *mux = opened();
    good(mux, BULK, data_frame(1, 0, 131040));
    good(mux, BULK, data_frame(1, 131040, 131040));
    bad(mux, BULK, data_frame(1, 262080, 65),
        "channel 0, epoch 1, sub-stream 0: DATA of 65 bytes at offset 262080 "
        "exceeds the credit, which ends at 262144");
    mux_free(mux);
}

static void data_on_the_wrong_lane_is_refused(void **state)
{
    struct mux *mux = opened();
    bad(mux, EXPRESS, data_frame(1, 0, 10),
        "channel 0, epoch 1, sub-stream 0: DATA on the express lane, belongs "
        "on bulk");
    bad(mux, EXPRESS, channel_frame(WIRE_END, 1, 0, 0),
        "channel 0, epoch 1, sub-stream 0: END on the express lane, belongs on "
        "bulk");
    mux_free(mux);
}

static void data_of_a_channel_that_was_never_opened_is_refused(void **state)
{
    struct mux *mux = opened();
    struct frame f = data_frame(2, 0, 10);
    bad(mux, BULK, f,
        "channel 0, epoch 2, sub-stream 0: DATA of epoch 2, the newest opened "
        "is 1");
    f.channel = 9;
    bad(mux, BULK, f,
        "channel 9, epoch 2, sub-stream 0: DATA of epoch 2, the newest opened "
        "is 0");
    f = channel_frame(WIRE_END, 3, 0, 0);
    bad(mux, BULK, f,
        "channel 0, epoch 3, sub-stream 0: END of epoch 3, the newest opened "
        "is 1");
    mux_free(mux);
}

static void urgent_data_of_others_than_main_is_refused(void **state)
{
    struct mux *mux = new_mux(false);
    struct frame f = urgent_frame(1, 0, 10);
    good(mux, BULK, open_frame(0, 1, 0, WIRE_CLASS_MULTIFD));
    bad(mux, EXPRESS, f,
        "channel 0, epoch 1, sub-stream 1: urgent DATA is for main, from its "
        "opener");
    f.channel = 1;
    good(mux, EXPRESS, f); /* it may become main */
    bad(mux, BULK, open_frame(1, 1, 1, WIRE_CLASS_DISK),
        "channel 1, epoch 1, sub-stream 0: urgent DATA of a disk channel");
    mux_free(mux);

    mux = new_mux(true);
    assert_int_equal(mux_open(mux, 0, WIRE_CLASS_MAIN, NULL), 0);
    bad(mux, EXPRESS, urgent_frame(1, 0, 10),
        "channel 0, epoch 1, sub-stream 1: urgent DATA is for main, from its "
        "opener");
    bad(mux, EXPRESS, urgent_frame(2, 0, 10),
        "channel 0, epoch 2, sub-stream 1: DATA of epoch 2, the newest opened "
        "is 1");
    mux_free(mux);
}

static void urgent_data_before_its_open_is_bounded(void **state)
{
    struct mux *mux = new_mux(false);
    uint64_t offset = 0;
    for (int i = 0; i < 4; i++, offset += WIRE_URGENT_MAX_BYTES) {
        good(mux, EXPRESS, urgent_frame(1, offset, WIRE_URGENT_MAX_BYTES));
    }
    bad(mux, EXPRESS, urgent_frame(1, offset, 1),
        "channel 0, epoch 1, sub-stream 1: DATA of 1 bytes at offset 262144 "
        "exceeds the credit, which ends at 262144");
    mux_free(mux);

    mux = new_mux(false);
    for (offset = 0; offset < WIRE_URGENT_MAX_FRAMES; offset++) {
        good(mux, EXPRESS, urgent_frame(1, offset, 1));
    }
    bad(mux, EXPRESS, urgent_frame(1, offset, 1),
        "channel 0, epoch 1, sub-stream 1: 4096 urgent frames are held, none "
        "more is allowed");
    mux_free(mux);
}

static void newer_early_epoch_replaces_the_older(void **state)
{
    struct mux *mux = new_mux(false);
    struct mux_channel_stats stats;
    good(mux, EXPRESS, urgent_frame(1, 0, 100));
    good(mux, EXPRESS, urgent_frame(3, 0, 10));
    good(mux, EXPRESS, urgent_frame(2, 0, 10));
    good(mux, BULK, open_frame(0, 3, 0, WIRE_CLASS_MAIN));
    assert_int_equal(take_events(mux), 2);
    assert_int_equal(mux_deliver_bytes(mux, 0), 10);
    mux_get_channel_stats(mux, 0, &stats);
    assert_int_equal(stats.stale_frames, 2);
    mux_free(mux);
}

static void urgent_frames_held_are_bounded(void **state)
{
    struct mux *mux = opened();
    uint64_t offset = 0;
    while (offset < WIRE_URGENT_MAX_FRAMES) {
        struct frame f = urgent_frame(1, offset++, 1);
        f.arg = 1; /* waits for bulk that does not come */
        good(mux, EXPRESS, f);
    }
    bad(mux, EXPRESS, urgent_frame(1, offset, 1),
        "channel 0, epoch 1, sub-stream 1: 4096 urgent frames are held, none "
        "more is allowed");
    mux_free(mux);
}

static void frames_with_boundaries_held_are_bounded(void **state)
{
    struct mux *mux = opened();
    struct frame f = data_frame(1, 0, 1);
    f.flags = WIRE_FLAG_MERGE;
    for (; f.offset < WIRE_MARKED_MAX_FRAMES; f.offset++) {
        good(mux, BULK, f);
    }
    bad(mux, BULK, f,
        "channel 0, epoch 1, sub-stream 0: 16384 MERGE or waiting frames are "
        "held, none more is allowed");
    mux_free(mux);
}

static void end_that_lies_is_refused(void **state)
{
    struct mux *mux = opened();
    good(mux, BULK, data_frame(1, 0, 10));
    bad(mux, BULK, channel_frame(WIRE_END, 1, 11, 0),
        "channel 0, epoch 1, sub-stream 0: END at offset 11, but 10 bytes "
        "came");
    good(mux, BULK, channel_frame(WIRE_END, 1, 10, 0));
    bad(mux, BULK, data_frame(1, 10, 1),
        "channel 0, epoch 1, sub-stream 0: DATA behind the end");
    mux_free(mux);
}

/* Both wait for each other: found out as soon as the bulk is delivered. */
static void channel_that_can_never_go_on_fails(void **state)
{
    struct mux *mux = opened();
    struct error err = ERROR_INIT;
    struct iovec iov;
    struct frame f = urgent_frame(1, 0, 5);
    take_events(mux);
    f.arg = 20;
    good(mux, EXPRESS, f);
    f = data_frame(1, 0, 10);
    f.flags = WIRE_FLAG_MERGE;
    good(mux, BULK, f);
    f = data_frame(1, 10, 10);
    f.arg = 1;
    good(mux, BULK, f);
    assert_int_equal(mux_deliver_peek(mux, 0, &iov, 1), 1);
    mux_delivered(mux, 0, iov.iov_len);
    assert_int_equal(give(mux, BULK, (struct frame){.type = WIRE_PING}, &err),
                     -1);
    assert_string_equal(err.text,
                        "channel 0 (main): urgent frame 1 waits for offset 20 "
                        "and is itself waited for at offset 10");
    mux_free(mux);
}

static void missing_urgent_frame_shows_when_the_lanes_end(void **state)
{
    struct mux *mux = opened();
    struct error err = ERROR_INIT;
    good(mux, BULK, channel_frame(WIRE_END, 1, 0, 2));
    assert_int_equal(mux_check_lanes_ended(mux, &err), -1);
    assert_string_equal(err.text,
                        "channel 0 (main): the lanes have ended, but 2 urgent "
                        "frames are waited for and 0 came");
    good(mux, EXPRESS, urgent_frame(1, 0, 5));
    good(mux, EXPRESS, urgent_frame(1, 5, 5));
    assert_int_equal(mux_check_lanes_ended(mux, &err), 0);
    mux_free(mux);
}

/* ACK, RESET, PING, PONG. ------------------------------------------------- */

static void ack_of_what_was_not_sent_is_refused(void **state)
{
    struct mux *mux = new_mux(true);
    assert_int_equal(mux_open(mux, 0, WIRE_CLASS_MAIN, NULL), 0);
    bad(mux, EXPRESS, channel_frame(WIRE_ACK, 1, 1, 1 << 20),
        "channel 0, epoch 1, sub-stream 0: ACK of offset 1, only 0 were sent");
    bad(mux, EXPRESS, channel_frame(WIRE_ACK, 2, 0, 1 << 20),
        "channel 0, epoch 2, sub-stream 0: ACK of epoch 2, the newest opened "
        "is 1");
    good(mux, EXPRESS, channel_frame(WIRE_ACK, 1, 0, 1 << 20));
    bad(mux, EXPRESS, channel_frame(WIRE_ACK, 1, 0, 1 << 19),
        "channel 0, epoch 1, sub-stream 0: ACK takes credit back to 524288 "
        "from 1048576");
    mux_free(mux);
}

static void reset_of_what_was_not_opened_is_refused(void **state)
{
    struct mux *mux = opened();
    struct frame f = channel_frame(WIRE_RESET, 2, ERR_CANCELLED, 0);
    bad(mux, BULK, f,
        "channel 0, epoch 2, sub-stream 0: RESET of epoch 2, the newest opened "
        "is 1");
    f.channel = 7;
    bad(mux, BULK, f,
        "channel 7, epoch 2, sub-stream 0: RESET of epoch 2, the newest opened "
        "is 0");
    f = channel_frame(WIRE_RESET, 1, ERR_CANCELLED, 0);
    bad(mux, EXPRESS, f,
        "channel 0, epoch 1, sub-stream 0: RESET on the express lane, belongs "
        "on bulk");
    mux_free(mux);
}

static void repeated_reset_is_silent(void **state)
{
    struct mux *mux = opened();
    struct frame f = channel_frame(WIRE_RESET, 1, ERR_CANCELLED, 0);
    assert_int_equal(take_events(mux), 1);
    for (int i = 0; i < 1000; i++) {
        good(mux, BULK, f);
    }
    assert_int_equal(take_events(mux), 1);
    good(mux, EXPRESS, urgent_frame(1, 777, 5)); /* dropped, whatever it says */
    good(mux, BULK, data_frame(1, 4711, 5));
    assert_int_equal(take_events(mux), 0);
    mux_free(mux);
}

static void text_of_a_reset_is_made_printable(void **state)
{
    static const uint8_t text[] = "a\nb\x1b\xc3\xa4";
    struct mux *mux = opened();
    struct error err = ERROR_INIT;
    struct mux_event ev;
    struct frame f = channel_frame(WIRE_RESET, 1, 60000, 0);
    take_events(mux);
    f.length_bytes = 6;
    assert_int_equal(mux_receive_header(mux, BULK, &f, MP_SECOND, &err), 0);
    assert_int_equal(mux_receive_payload(mux, BULK, text, 1, NULL, &err), 0);
    assert_false(mux_next_event(mux, &ev)); /* the text is not whole */
    assert_int_equal(mux_receive_payload(mux, BULK, text + 1, 5, NULL, &err),
                     0);
    assert_true(mux_next_event(mux, &ev));
    assert_int_equal(ev.type, MUX_EVENT_RESET);
    assert_int_equal(ev.code, ERR_INTERNAL); /* of a newer peer */
    assert_string_equal(ev.text, "a?b???");
    mux_free(mux);
}

static void reset_in_the_middle_of_a_frame_drops_the_rest(void **state)
{
    struct mux *mux = opened();
    struct error err = ERROR_INIT;
    struct frame f = data_frame(1, 0, 1000);
    take_events(mux);
    assert_int_equal(mux_receive_header(mux, BULK, &f, MP_SECOND, &err), 0);
    assert_int_equal(mux_receive_payload(mux, BULK, payload, 500, NULL, &err),
                     0);
    assert_int_equal(mux_deliver_bytes(mux, 0), 500);
    mux_reset(mux, 0, ERR_QEMU_GONE, "gone");
    assert_int_equal(mux_receive_payload(mux, BULK, payload, 500, NULL, &err),
                     0);
    assert_int_equal(mux_deliver_bytes(mux, 0), 0);
    good(mux, BULK, open_frame(0, 2, 1, WIRE_CLASS_MAIN));
    good(mux, BULK, data_frame(2, 0, 10));
    take_events(mux);
    assert_int_equal(mux_deliver_bytes(mux, 0), 10);
    mux_free(mux);
}

static void flood_of_pings_is_refused(void **state)
{
    struct mux *mux = new_mux(false);
    struct frame ping = {.type = WIRE_PING, .arg = 5};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WIRE_PINGS_MAX; i++) {
            good(mux, BULK, ping);
        }
        take_all(mux, BULK);
    }
    for (int i = 0; i < WIRE_PINGS_MAX; i++) {
        good(mux, BULK, ping);
    }
    bad(mux, BULK, ping, "PING on the bulk lane while 16 are unanswered");
    mux_free(mux);
}

static void pong_that_answers_nothing_is_refused(void **state)
{
    struct mux *mux = new_mux(true);
    struct frame pong = {.type = WIRE_PONG, .arg = 0};
    bad(mux, EXPRESS, pong, "PONG 0 on the express lane answers no PING");
    mux_ping(mux, EXPRESS, MP_SECOND);
    bad(mux, EXPRESS, pong, "PONG 0 on the express lane answers no PING");
    take_all(mux, EXPRESS);
    bad(mux, BULK, pong, "PONG 0 on the bulk lane answers no PING");
    good(mux, EXPRESS, pong);
    bad(mux, EXPRESS, pong, "PONG 0 on the express lane answers no PING");
    mux_free(mux);
}

static void frames_of_the_lane_are_not_for_the_mux(void **state)
{
    struct mux *mux = new_mux(true);
    bad(mux, EXPRESS, (struct frame){.type = WIRE_GOAWAY},
        "GOAWAY frame is not allowed here");
    bad(mux, EXPRESS, (struct frame){.type = WIRE_HELLO, .length_bytes = 1},
        "HELLO frame is not allowed here");
    mux_free(mux);
}

/* Memory. ----------------------------------------------------------------- */

/* Bytes of the distinct chunks that a queue holds on to, and of its pieces. */
static size_t pinned_bytes(const struct list *queue)
{
    size_t bytes = 0;
    const struct chunk *last = NULL;
    LIST_EACH (link, queue) {
        const struct piece *piece = piece_of(link);
        if (piece->chunk != last) {
            bytes += piece->chunk->size_bytes + sizeof(struct chunk);
        }
        last = piece->chunk;
        bytes += sizeof(*piece);
    }
    return bytes;
}

/* One byte of each large chunk is what a peer would have us hold. */
static void held_bytes_cost_at_most_twice_their_size(void **state)
{
    static const uint32_t lens[] = {1, 100, 5000, 16000, 60000};
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct mux *mux = opened();
        struct frame f = data_frame(1, 0, lens[i]);
        struct error err = ERROR_INIT;
        while (f.offset + lens[i] <= WIRE_INITIAL_CREDIT_BYTES &&
               f.offset / lens[i] < 4000) {
            struct chunk *chunk = chunk_new(131072);
            assert_int_equal(mux_receive_header(mux, BULK, &f, 0, &err), 0);
            assert_int_equal(mux_receive_payload(mux, BULK, chunk->data,
                                                 lens[i], chunk, &err),
                             0);
            chunk_unref(chunk);
            mux_turn_end(mux, 0);
            f.offset += lens[i];
        }
        size_t pinned = pinned_bytes(&mux->channels[0]->merge.bulk);
        assert_true(pinned <= 2 * f.offset + 2 * 16384);
        mux_free(mux);
    }
}

static void early_bytes_cost_little(void **state)
{
    struct mux *mux = new_mux(false);
    struct error err = ERROR_INIT;
    for (uint64_t i = 0; i < 1000; i++) {
        struct frame f = urgent_frame(1, i, 1);
        struct chunk *chunk = chunk_new(131072);
        assert_int_equal(mux_receive_header(mux, EXPRESS, &f, 0, &err), 0);
        assert_int_equal(
            mux_receive_payload(mux, EXPRESS, chunk->data, 1, chunk, &err), 0);
        chunk_unref(chunk);
        mux_turn_end(mux, 0);
    }
    assert_true(pinned_bytes(&mux->channels[0]->early.pieces) <=
                1000 * sizeof(struct piece) + 2 * 16384);
    mux_free(mux);
}

/* A chunk that is mostly held is not copied. */
static void full_chunks_are_held_without_a_copy(void **state)
{
    struct mux *mux = opened();
    struct error err = ERROR_INIT;
    struct chunk *chunk = chunk_new(131072);
    struct frame f = data_frame(1, 0, 100000);
    assert_int_equal(mux_receive_header(mux, BULK, &f, 0, &err), 0);
    assert_int_equal(
        mux_receive_payload(mux, BULK, chunk->data, 100000, chunk, &err), 0);
    mux_turn_end(mux, 0);
    assert_ptr_equal(piece_first(&mux->channels[0]->merge.bulk)->chunk, chunk);
    chunk_unref(chunk);
    mux_free(mux);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_from_the_wrong_end_is_refused),
        cmocka_unit_test(open_on_the_wrong_lane_is_refused),
        cmocka_unit_test(open_of_an_open_channel_is_refused),
        cmocka_unit_test(open_as_another_class_is_refused),
        cmocka_unit_test(opening_order_has_no_doubles_and_small_gaps),
        cmocka_unit_test(flood_of_open_and_reset_is_refused),
        cmocka_unit_test(data_beyond_the_credit_is_refused),
        cmocka_unit_test(data_on_the_wrong_lane_is_refused),
        cmocka_unit_test(data_of_a_channel_that_was_never_opened_is_refused),
        cmocka_unit_test(urgent_data_of_others_than_main_is_refused),
        cmocka_unit_test(urgent_data_before_its_open_is_bounded),
        cmocka_unit_test(newer_early_epoch_replaces_the_older),
        cmocka_unit_test(urgent_frames_held_are_bounded),
        cmocka_unit_test(frames_with_boundaries_held_are_bounded),
        cmocka_unit_test(end_that_lies_is_refused),
        cmocka_unit_test(channel_that_can_never_go_on_fails),
        cmocka_unit_test(missing_urgent_frame_shows_when_the_lanes_end),
        cmocka_unit_test(ack_of_what_was_not_sent_is_refused),
        cmocka_unit_test(reset_of_what_was_not_opened_is_refused),
        cmocka_unit_test(repeated_reset_is_silent),
        cmocka_unit_test(text_of_a_reset_is_made_printable),
        cmocka_unit_test(reset_in_the_middle_of_a_frame_drops_the_rest),
        cmocka_unit_test(flood_of_pings_is_refused),
        cmocka_unit_test(pong_that_answers_nothing_is_refused),
        cmocka_unit_test(frames_of_the_lane_are_not_for_the_mux),
        cmocka_unit_test(held_bytes_cost_at_most_twice_their_size),
        cmocka_unit_test(early_bytes_cost_little),
        cmocka_unit_test(full_chunks_are_held_without_a_copy),
    };
    return cmocka_run_group_tests_name("mux-peer", tests, NULL, NULL);
}
