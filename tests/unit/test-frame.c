// SPDX-License-Identifier: BSD-3-Clause
/* The frame codec: every legal shape survives a round trip, everything else is
 * refused by name, and the decoder may stop after any byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transport/frame.h"

static const struct frame plain_data = {
    .type = WIRE_DATA,
    .flags = WIRE_FLAG_MERGE | WIRE_FLAG_ACK,
    .channel = 63,
    .epoch = 0x0102,
    .length_bytes = WIRE_DATA_MAX_BYTES,
    .offset = 0x0102030405060708,
    .arg = 0x1112131415161718,
};

static void header_has_the_documented_layout(void **state)
{
    static const uint8_t expected[WIRE_HEADER_BYTES] = {
        7,    3,    0,    63,   0,    0,    0x01, 0x02, 0,    0x01, 0xff,
        0xe0, 0,    0,    0,    0,    0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
        0x07, 0x08, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
    uint8_t out[WIRE_HEADER_BYTES];
    frame_encode(&plain_data, out);
    assert_memory_equal(out, expected, sizeof(out));
}

/* One legal frame of each type, with the lane it may travel on. */
struct sample {
    enum wire_lane lane;
    struct frame frame;
    const char *text;
};

static const struct sample samples[] = {
    {WIRE_LANE_CONTROL,
     {.type = WIRE_HELLO, .length_bytes = 100},
     "HELLO ch=0 sub=0 ep=0 off=0 arg=0 len=100"},
    {WIRE_LANE_CONTROL,
     {.type = WIRE_GOAWAY, .offset = ERR_LIMIT, .length_bytes = 5},
     "GOAWAY ch=0 sub=0 ep=0 off=8 arg=0 len=5"},
    {WIRE_LANE_BULK,
     {.type = WIRE_PING, .arg = UINT64_MAX},
     "PING ch=0 sub=0 ep=0 off=0 arg=18446744073709551615 len=0"},
    {WIRE_LANE_EXPRESS,
     {.type = WIRE_PONG, .arg = 7},
     "PONG ch=0 sub=0 ep=0 off=0 arg=7 len=0"},
    {WIRE_LANE_CONTROL,
     {.type = WIRE_MESSAGE, .length_bytes = WIRE_MESSAGE_MAX_BYTES},
     "MESSAGE ch=0 sub=0 ep=0 off=0 arg=0 len=262144"},
    {WIRE_LANE_BULK,
     {.type = WIRE_OPEN, .channel = 3, .epoch = 1, .offset = 2, .arg = 4},
     "OPEN ch=3 sub=0 ep=1 off=2 arg=4 len=0"},
    {WIRE_LANE_EXPRESS,
     {.type = WIRE_DATA,
      .substream = WIRE_SUB_URGENT,
      .epoch = 1,
      .length_bytes = 4096,
      .flags = WIRE_FLAG_ACK,
      .arg = 9},
     "DATA ch=0 sub=1 ep=1 off=0 arg=9 len=4096 flags=ACK"},
    {WIRE_LANE_BULK,
     {.type = WIRE_END, .epoch = 1, .offset = 10, .arg = 3},
     "END ch=0 sub=0 ep=1 off=10 arg=3 len=0"},
    {WIRE_LANE_EXPRESS,
     {.type = WIRE_RESET, .epoch = 65535, .offset = ERR_QEMU_GONE},
     "RESET ch=0 sub=0 ep=65535 off=25 arg=0 len=0"},
    {WIRE_LANE_EXPRESS,
     {.type = WIRE_ACK,
      .substream = 1,
      .epoch = 1,
      .offset = WIRE_OFFSET_MAX,
      .arg = WIRE_OFFSET_MAX},
     "ACK ch=0 sub=1 ep=1 off=4611686018427387904 arg=4611686018427387904 "
     "len=0"},
};

#define SAMPLES (sizeof(samples) / sizeof(samples[0]))

static void assert_frame_equal(const struct frame *a, const struct frame *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->substream, b->substream);
    assert_int_equal(a->channel, b->channel);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->length_bytes, b->length_bytes);
    assert_true(a->offset == b->offset);
    assert_true(a->arg == b->arg);
}

static void each_type_survives_a_round_trip(void **state)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        uint8_t header[WIRE_HEADER_BYTES];
        struct frame back;
        struct error err = ERROR_INIT;
        char text[160];
        frame_encode(&samples[i].frame, header);
        if (frame_decode(header, samples[i].lane, &back, &err) < 0) {
            fail_msg("%s: %s", samples[i].text, err.text);
        }
        assert_frame_equal(&samples[i].frame, &back);
        frame_format(&back, text, sizeof(text));
        assert_string_equal(text, samples[i].text);
    }
}

/* f is refused on lane with this text, and nothing is handed out. */
static void assert_refused(const struct frame *f, enum wire_lane lane,
                           const char *expected)
{
    uint8_t header[WIRE_HEADER_BYTES];
    struct frame back = {.channel = 1234};
    struct error err = ERROR_INIT;
    frame_encode(f, header);
    assert_int_equal(frame_decode(header, lane, &back, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_string_equal(err.text, expected);
    assert_int_equal(back.channel, 1234);
}

static void unknown_type_is_refused(void **state)
{
    struct frame f = {.type = (enum wire_type)0};
    assert_refused(&f, WIRE_LANE_BULK, "frame type 0 is not known");
    f.type = (enum wire_type)11;
    assert_refused(&f, WIRE_LANE_BULK, "frame type 11 is not known");
    f.type = (enum wire_type)255;
    assert_refused(&f, WIRE_LANE_BULK, "frame type 255 is not known");
}

static void frame_on_the_wrong_lane_is_refused(void **state)
{
    struct frame f = {.type = WIRE_MESSAGE, .length_bytes = 1};
    assert_refused(&f, WIRE_LANE_EXPRESS,
                   "MESSAGE frame is not allowed on the express lane");
    f = plain_data;
    assert_refused(&f, WIRE_LANE_CONTROL,
                   "DATA frame is not allowed on the control lane");
    f = (struct frame){.type = WIRE_ACK, .epoch = 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "ACK frame is not allowed on the bulk lane");
    f = (struct frame){
        .type = WIRE_DATA, .substream = 1, .epoch = 1, .length_bytes = 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "urgent DATA frame on the bulk lane, allowed on the express "
                   "lane only");
    f = (struct frame){.type = WIRE_PING};
    assert_refused(&f, (enum wire_lane)0,
                   "PING frame is not allowed on the ? lane");
}

static void flag_without_meaning_is_refused(void **state)
{
    struct frame f = plain_data;
    f.flags = 0x08;
    assert_refused(&f, WIRE_LANE_BULK,
                   "DATA frame: flags are 0x08, allowed 0x07");
    f = (struct frame){.type = WIRE_END, .epoch = 1, .flags = 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "END frame: flags are 0x01, allowed 0x00");
    f = (struct frame){.type = WIRE_DATA,
                       .substream = 1,
                       .epoch = 1,
                       .length_bytes = 1,
                       .flags = WIRE_FLAG_MERGE};
    assert_refused(&f, WIRE_LANE_EXPRESS,
                   "urgent DATA frame: flag MERGE is for bulk only");
}

static void place_out_of_range_is_refused(void **state)
{
    struct frame f = plain_data;
    f.channel = WIRE_CHANNELS;
    assert_refused(&f, WIRE_LANE_BULK,
                   "DATA frame: channel is 64, allowed 0 to 63");
    f = plain_data;
    f.substream = 2;
    assert_refused(&f, WIRE_LANE_BULK,
                   "DATA frame: sub-stream is 2, allowed 0 to 1");
    f = plain_data;
    f.epoch = 0;
    assert_refused(&f, WIRE_LANE_BULK,
                   "DATA frame: epoch is 0, allowed 1 to 65535");
    f = (struct frame){.type = WIRE_PING, .channel = 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "PING frame: channel is 1, allowed 0 to 0");
    f = (struct frame){.type = WIRE_PONG, .epoch = 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "PONG frame: epoch is 1, allowed 0 to 0");
    f = (struct frame){.type = WIRE_END, .epoch = 1, .substream = 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "END frame: sub-stream is 1, allowed 0 to 0");
}

static void length_beyond_the_limit_is_refused(void **state)
{
    struct frame f = plain_data;
    f.length_bytes = WIRE_DATA_MAX_BYTES + 1;
    assert_refused(&f, WIRE_LANE_BULK,
                   "DATA frame: payload length is 131041, allowed 1 to 131040");
    f.length_bytes = 0;
    assert_refused(&f, WIRE_LANE_BULK,
                   "DATA frame: payload length is 0, allowed 1 to 131040");
    f = (struct frame){.type = WIRE_DATA,
                       .substream = 1,
                       .epoch = 1,
                       .length_bytes = WIRE_URGENT_MAX_BYTES + 1};
    assert_refused(
        &f, WIRE_LANE_EXPRESS,
        "DATA frame: urgent payload length is 65537, allowed 1 to 65536");
    f = (struct frame){.type = WIRE_RESET,
                       .epoch = 1,
                       .length_bytes = WIRE_TEXT_MAX_BYTES + 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "RESET frame: payload length is 513, allowed 0 to 512");
    f = (struct frame){.type = WIRE_HELLO, .length_bytes = UINT32_MAX};
    assert_refused(
        &f, WIRE_LANE_BULK,
        "HELLO frame: payload length is 4294967295, allowed 1 to 4096");
}

static void offset_and_arg_out_of_range_are_refused(void **state)
{
    struct frame f = plain_data;
    f.offset = WIRE_OFFSET_MAX + 1;
    assert_refused(&f, WIRE_LANE_BULK,
                   "DATA frame: offset is 4611686018427387905, allowed 0 to "
                   "4611686018427387904");
    f = (struct frame){.type = WIRE_PING, .offset = 1};
    assert_refused(&f, WIRE_LANE_BULK,
                   "PING frame: offset is 1, allowed 0 to 0");
    f = (struct frame){.type = WIRE_OPEN, .epoch = 1};
    assert_refused(&f, WIRE_LANE_BULK, "OPEN frame: arg is 0, allowed 1 to 4");
    f.arg = 5;
    assert_refused(&f, WIRE_LANE_BULK, "OPEN frame: arg is 5, allowed 1 to 4");
}

static void reserved_bytes_must_be_zero(void **state)
{
    for (int at = 0; at < WIRE_HEADER_BYTES; at++) {
        bool reserved = at == 5 || (at >= 12 && at <= 15);
        uint8_t header[WIRE_HEADER_BYTES];
        struct frame back;
        struct error err = ERROR_INIT;
        if (!reserved) {
            continue;
        }
        frame_encode(&plain_data, header);
        header[at] = 0x80;
        assert_int_equal(frame_decode(header, WIRE_LANE_BULK, &back, &err), -1);
        assert_string_equal(err.text,
                            "DATA frame: reserved bytes are not zero");
    }
}

static void error_code_of_a_newer_peer_is_internal(void **state)
{
    struct frame f = {.type = WIRE_GOAWAY, .offset = ERR_SHUTTING_DOWN};
    assert_int_equal(frame_error_code(&f), ERR_SHUTTING_DOWN);
    f.offset = ERROR_CODES;
    assert_int_equal(frame_error_code(&f), ERR_INTERNAL);
    f.offset = UINT64_MAX;
    assert_int_equal(frame_error_code(&f), ERR_INTERNAL);
}

/* Three frames as they stand on a lane: payloads of 5, 0 and 3 bytes. */
#define STREAM_BYTES (3 * WIRE_HEADER_BYTES + 8)

static void make_stream(uint8_t out[STREAM_BYTES])
{
    struct frame f = {.type = WIRE_DATA, .epoch = 1, .length_bytes = 5};
    frame_encode(&f, out);
    memcpy(out + 32, "abcde", 5);
    f = (struct frame){.type = WIRE_PING, .arg = 1};
    frame_encode(&f, out + 37);
    f = (struct frame){
        .type = WIRE_DATA, .epoch = 1, .length_bytes = 3, .offset = 5};
    frame_encode(&f, out + 69);
    memcpy(out + 101, "fgh", 3);
}

/* Feeds one piece and writes what comes out as text behind log. */
static void feed(struct frame_decoder *d, const uint8_t *data, size_t len,
                 char *log, size_t size)
{
    for (;;) {
        const uint8_t *payload = NULL;
        size_t bytes = 0;
        struct error err = ERROR_INIT;
        size_t used = strlen(log);
        switch (frame_decoder_next(d, &data, &len, &payload, &bytes, &err)) {
        case FRAME_STEP_MORE:
            assert_int_equal(len, 0);
            return;
        case FRAME_STEP_HEADER:
            snprintf(log + used, size - used, "[%s %u]",
                     frame_type_name(d->frame.type), d->frame.length_bytes);
            break;
        case FRAME_STEP_PAYLOAD:
            assert_true(bytes > 0);
            snprintf(log + used, size - used, "%.*s%s", (int)bytes,
                     (const char *)payload, d->left_bytes ? "" : ".");
            break;
        case FRAME_STEP_ERROR:
            fail_msg("%s", err.text);
        }
    }
}

static const char whole[] = "[DATA 5]abcde.[PING 0][DATA 3]fgh.";

static void decoder_may_stop_at_every_pair_of_cuts(void **state)
{
    uint8_t stream[STREAM_BYTES];
    make_stream(stream);
    for (size_t a = 0; a <= STREAM_BYTES; a++) {
        for (size_t b = a; b <= STREAM_BYTES; b++) {
            struct frame_decoder d;
            char log[200] = "";
            frame_decoder_init(&d, WIRE_LANE_BULK);
            feed(&d, stream, a, log, sizeof(log));
            feed(&d, stream + a, b - a, log, sizeof(log));
            feed(&d, stream + b, STREAM_BYTES - b, log, sizeof(log));
            assert_string_equal(log, whole);
        }
    }
}

static void decoder_takes_single_bytes(void **state)
{
    uint8_t stream[STREAM_BYTES];
    struct frame_decoder d;
    char log[200] = "";
    make_stream(stream);
    frame_decoder_init(&d, WIRE_LANE_BULK);
    for (size_t i = 0; i < STREAM_BYTES; i++) {
        feed(&d, stream + i, 1, log, sizeof(log));
    }
    assert_string_equal(log, whole);
}

static void decoder_stays_in_error(void **state)
{
    uint8_t header[2 * WIRE_HEADER_BYTES] = {99};
    const uint8_t *data = header;
    size_t len = sizeof(header);
    const uint8_t *payload;
    size_t bytes;
    struct frame_decoder d;
    frame_decoder_init(&d, WIRE_LANE_EXPRESS);
    for (int i = 0; i < 3; i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(
            frame_decoder_next(&d, &data, &len, &payload, &bytes, &err),
            FRAME_STEP_ERROR);
        assert_string_equal(err.text, "frame type 99 is not known");
        assert_int_equal(len, WIRE_HEADER_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_the_documented_layout),
        cmocka_unit_test(each_type_survives_a_round_trip),
        cmocka_unit_test(unknown_type_is_refused),
        cmocka_unit_test(frame_on_the_wrong_lane_is_refused),
        cmocka_unit_test(flag_without_meaning_is_refused),
        cmocka_unit_test(place_out_of_range_is_refused),
        cmocka_unit_test(length_beyond_the_limit_is_refused),
        cmocka_unit_test(offset_and_arg_out_of_range_are_refused),
        cmocka_unit_test(reserved_bytes_must_be_zero),
        cmocka_unit_test(error_code_of_a_newer_peer_is_internal),
        cmocka_unit_test(decoder_may_stop_at_every_pair_of_cuts),
        cmocka_unit_test(decoder_takes_single_bytes),
        cmocka_unit_test(decoder_stays_in_error),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
