// SPDX-License-Identifier: BSD-3-Clause
/* The return path: recordings of real QEMUs (tests/data/stream, made by
 * tests/data/record-stream), cut anywhere and damaged, and messages made by
 * hand for what they do not hold. */
#include "tests/unit/test-stream-input.h"

#include "stream/return-path.h"

struct listener {
    struct stream_return_path_parser *parser;
    char text[4096]; /* the requests, then what is known */
};

static void on_request(void *arg, const char *block, uint64_t start_bytes,
                       uint32_t length_bytes)
{
    struct listener *listener = arg;

    say(listener->text, "%s %#" PRIx64 "+%#x\n", block, start_bytes,
        length_bytes);
}

static void listener_init(struct listener *listener)
{
    static const struct stream_return_path_ops ops = {.on_request = on_request};

    listener->text[0] = '\0';
    listener->parser = stream_return_path_new(&ops, listener);
    assert_non_null(listener->parser);
}

static void listener_reset(struct listener *listener)
{
    listener->text[0] = '\0';
    stream_return_path_reset(listener->parser);
}

static void listener_done(struct listener *listener)
{
    stream_return_path_free(listener->parser);
}

static enum stream_return_path_state
listener_state(const struct listener *listener)
{
    return stream_return_path_get(listener->parser)->state;
}

/* Adds to the requests what the parser knows. */
static const char *listener_finish(struct listener *listener)
{
    const struct stream_return_path *path =
        stream_return_path_get(listener->parser);
    char *text = listener->text;

    say(text, "requests %" PRIu64 "/%#" PRIx64 " pongs %" PRIu64 "/%#x",
        path->requests, path->requested_bytes, path->pongs, path->last_pong);
    if (path->bitmaps) {
        say(text, " bitmaps %" PRIu64, path->bitmaps);
    }
    say(text, "%s%s\n", path->has_resume_ack ? " resume-ack" : "",
        path->has_switchover_ack ? " switchover-ack" : "");
    if (path->state == STREAM_RETURN_PATH_SHUT) {
        say(text, "shut %u at %" PRIu64 "\n", path->shut_status,
            path->offset_bytes);
    } else if (path->state == STREAM_RETURN_PATH_OPAQUE) {
        say(text, "opaque %s\n", path->reason);
    }
    return text;
}

static void check_path(const struct input *in, const char *expected)
{
    struct listener listener;

    listener_init(&listener);
    size_t taken = stream_return_path_feed(listener.parser, in->bytes, in->len);
    assert_int_equal(taken,
                     stream_return_path_get(listener.parser)->offset_bytes);
    assert_string_equal(listener_finish(&listener), expected);
    listener_done(&listener);
}

/* --- recordings --- */

static const struct recording {
    const char *name;
    const char *expected;
} recordings[] = {
    {"precopy", "requests 0/0 pongs 1/0x1\n"
                "shut 0 at 16\n"},
    {"postcopy", "requests 0/0 pongs 4/0x3\n"
                 "shut 0 at 40\n"},
    {"postcopy-preempt", "requests 0/0 pongs 4/0x4\n"
                         "shut 0 at 40\n"},
    {"postcopy-running", "pc.ram 0xc0000+0x1000\n"
                         "pc.ram 0+0x1000\n"
                         "pc.ram 0xff000+0x1000\n"
                         "pc.ram 0xfd000+0x1000\n"
                         "pc.ram 0xf6000+0x1000\n"
                         "pc.ram 0xfc000+0x1000\n"
                         "pc.ram 0xfb000+0x1000\n"
                         "pc.ram 0xeb000+0x1000\n"
                         "pc.ram 0xee000+0x1000\n"
                         "pc.ram 0xf5000+0x1000\n"
                         "requests 10/0xa000 pongs 4/0x3\n"
                         "shut 0 at 207\n"},
    {"postcopy-recover", "pc.ram 0xfc000+0x1000\n"
                         "pc.ram 0xfb000+0x1000\n"
                         "pc.ram 0xeb000+0x1000\n"
                         "pc.ram 0xee000+0x1000\n"
                         "pc.ram 0xf5000+0x1000\n"
                         "requests 5/0x5000 pongs 0/0 bitmaps 6 resume-ack\n"
                         "shut 0 at 2395\n"},
};

#define RECORDINGS (sizeof recordings / sizeof *recordings)

static struct input load_return(size_t i)
{
    return load_file(recordings[i].name, "return");
}

static void recordings_are_read(void **state)
{
    for (size_t i = 0; i < RECORDINGS; i++) {
        struct input in = load_return(i);
        check_path(&in, recordings[i].expected);
        input_done(&in);
    }
}

static void a_message_may_be_cut_anywhere(void **state)
{
    struct listener listener;

    listener_init(&listener);
    for (size_t i = 0; i < RECORDINGS; i++) {
        struct input in = load_return(i);

        for (size_t cut = 0; cut <= in.len; cut++) {
            listener_reset(&listener);
            assert_int_equal(
                stream_return_path_feed(listener.parser, in.bytes, cut), cut);
            assert_int_equal(listener_state(&listener) ==
                                 STREAM_RETURN_PATH_SHUT,
                             cut == in.len);
            stream_return_path_feed(listener.parser, in.bytes + cut,
                                    in.len - cut);
            assert_string_equal(listener_finish(&listener),
                                recordings[i].expected);
        }
        input_done(&in);
    }
    listener_done(&listener);
}

/* Fed whole or in single bytes, from copies of just their size. */
static void feed_whole(struct listener *listener, const struct input *in)
{
    uint8_t *copy = malloc(in->len);

    assert_non_null(copy);
    memcpy(copy, in->bytes, in->len);
    stream_return_path_feed(listener->parser, copy, in->len);
    free(copy);
}

static void feed_singly(struct listener *listener, const struct input *in)
{
    for (size_t at = 0; at < in->len; at++) {
        uint8_t *copy = malloc(1);

        assert_non_null(copy);
        *copy = in->bytes[at];
        bool is_open = listener_state(listener) == STREAM_RETURN_PATH_OPEN;
        assert_int_equal(stream_return_path_feed(listener->parser, copy, 1),
                         is_open);
        free(copy);
    }
}

static void single_bytes_are_enough(void **state)
{
    struct listener listener;

    listener_init(&listener);
    for (size_t i = 0; i < RECORDINGS; i++) {
        struct input in = load_return(i);

        listener_reset(&listener);
        feed_singly(&listener, &in);
        assert_string_equal(listener_finish(&listener), recordings[i].expected);
        input_done(&in);
    }
    listener_done(&listener);
}

static void damaged_recordings_are_read_alike(void **state)
{
    static const uint8_t flips[] = {0x01, 0x04, 0x20, 0xff};
    struct listener whole, single;

    listener_init(&whole);
    listener_init(&single);
    for (size_t i = 0; i < RECORDINGS; i++) {
        struct input in = load_return(i);

        in.len = in.len < 256 ? in.len : 256;
        for (size_t at = 0; at < in.len * sizeof flips; at++) {
            uint8_t flip = flips[at % sizeof flips];

            in.bytes[at / sizeof flips] ^= flip;
            listener_reset(&whole);
            listener_reset(&single);
            feed_whole(&whole, &in);
            feed_singly(&single, &in);
            assert_string_equal(listener_finish(&whole),
                                listener_finish(&single));
            in.bytes[at / sizeof flips] ^= flip;
        }
        input_done(&in);
    }
    listener_done(&whole);
    listener_done(&single);
}

/* --- messages made by hand --- */

static void add_message(struct input *in, unsigned type, unsigned length)
{
    add_be(in, type, 2);
    add_be(in, length, 2);
}

static void add_value(struct input *in, unsigned type, uint32_t value)
{
    add_message(in, type, 4);
    add_be(in, value, 4);
}

static void add_request(struct input *in, uint64_t start, uint32_t length,
                        const char *block)
{
    add_message(in, block ? 3 : 4,
                12 + (block ? 1 + (unsigned)strlen(block) : 0));
    add_be(in, start, 8);
    add_be(in, length, 4);
    if (block) {
        add_name(in, block);
    }
}

static void every_message_is_taken(void **state)
{
    struct input in = {0};

    add_message(&in, 7, 0);
    add_value(&in, 2, 0x42);
    add_request(&in, 0x40000000, 0x200000, "mem0");
    add_request(&in, 0, 0x200000, NULL);
    add_request(&in, 0x3000, 0x1000, "vga.vram");
    add_request(&in, 0x4000, 0x1000, NULL);
    add_message(&in, 5, 5);
    add_name(&in, "mem0");
    add_be(&in, 16, 8);
    add(&in, "\0\1\0\4\0\0\0\0\0\1\0\4\0\0\0\0", 16); /* like a SHUT */
    add_be(&in, 0x0123456789abcdef, 8);
    add_value(&in, 6, 1);
    add_value(&in, 1, 5);
    size_t end = in.len;
    add_value(&in, 1, 0);
    char expected[512];
    snprintf(expected, sizeof expected,
             "mem0 0x40000000+0x200000\n"
             "mem0 0+0x200000\n"
             "vga.vram 0x3000+0x1000\n"
             "vga.vram 0x4000+0x1000\n"
             "requests 4/0x402000 pongs 1/0x42 bitmaps 1 resume-ack "
             "switchover-ack\n"
             "shut 5 at %zu\n",
             end);
    check_path(&in, expected);
    input_done(&in);
}

static void check_refused(struct input *in, const char *reason)
{
    char expected[512];

    snprintf(expected, sizeof expected, "requests 0/0 pongs 0/0\nopaque %s\n",
             reason);
    check_path(in, expected);
    in->len = 0;
}

static void unknown_messages_are_opaque(void **state)
{
    struct input in = {0};

    add_message(&in, 0, 0);
    check_refused(&in, "message of unknown type 0");
    add_message(&in, 8, 0);
    check_refused(&in, "message of unknown type 8");
    add_message(&in, 1, 5);
    check_refused(&in, "message 1 has length 5");
    add_message(&in, 3, 12 + 257);
    check_refused(&in, "message 3 has length 269");
    add_message(&in, 7, 1);
    check_refused(&in, "message 7 has length 1");
    add_value(&in, 6, 2);
    check_refused(&in, "RESUME_ACK with value 2");
    input_done(&in);
}

static void impossible_requests_are_opaque(void **state)
{
    struct input in = {0};

    add_request(&in, 0, 0x1000, NULL);
    check_refused(&in,
                  "a page request names no RAM block, and none did before");
    add_request(&in, 0x1000, 0, "a");
    check_refused(&in, "a page request for 0 bytes from 0x1000 on");
    add_request(&in, UINT64_MAX, 0x1000, "a");
    check_refused(&in,
                  "a page request for 4096 bytes from 0xffffffffffffffff on");
    add_request(&in, 0, 0x1000, "a\nb");
    check_refused(&in, "message 3 names no RAM block");
    add_request(&in, 0, 0x1000, "ab");
    in.bytes[4 + 12] = 1; /* a name that is shorter than the message */
    check_refused(&in, "message 3 names no RAM block");
    input_done(&in);
}

static void impossible_bitmaps_are_opaque(void **state)
{
    static const uint64_t sizes[] = {0, 12, (1ull << 30) + 8};
    struct input in = {0};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char reason[128];

        add_message(&in, 5, 2);
        add_name(&in, "a");
        add_be(&in, sizes[i], 8);
        snprintf(reason, sizeof reason,
                 "a bitmap of received pages has %" PRIu64 " bytes", sizes[i]);
        check_refused(&in, reason);
    }
    add_message(&in, 5, 2);
    add_name(&in, "a");
    add_be(&in, 8, 8);
    add_be(&in, 0, 8);
    add_be(&in, 0x0123456789abcdee, 8);
    check_refused(&in, "a bitmap of received pages has no end mark");
    input_done(&in);
}

static void reset_forgets_the_block(void **state)
{
    struct input in = {0};
    struct listener listener;

    listener_init(&listener);
    add_request(&in, 0, 0x1000, "a");
    stream_return_path_feed(listener.parser, in.bytes, in.len);
    listener_reset(&listener);
    in.len = 0;
    add_request(&in, 0, 0x1000, NULL);
    stream_return_path_feed(listener.parser, in.bytes, in.len);
    assert_int_equal(listener_state(&listener), STREAM_RETURN_PATH_OPAQUE);
    assert_int_equal(stream_return_path_get(listener.parser)->requests, 0);
    input_done(&in);
    listener_done(&listener);
    stream_return_path_free(NULL);
}

static void reset_forgets_a_bitmap(void **state)
{
    struct input in = {0};
    struct listener listener;

    listener_init(&listener);
    add_message(&in, 5, 2);
    add_name(&in, "a");
    add_be(&in, 64, 8);
    stream_return_path_feed(listener.parser, in.bytes, in.len);
    listener_reset(&listener);
    in.len = 0;
    add_value(&in, 1, 0);
    stream_return_path_feed(listener.parser, in.bytes, in.len);
    assert_int_equal(listener_state(&listener), STREAM_RETURN_PATH_SHUT);
    input_done(&in);
    listener_done(&listener);
}

static void requests_are_counted_without_ops(void **state)
{
    struct stream_return_path_parser *parser =
        stream_return_path_new(NULL, NULL);
    struct input in = {0};

    add_request(&in, 0, 0x1000, "a");
    stream_return_path_feed(parser, in.bytes, in.len);
    assert_int_equal(stream_return_path_get(parser)->requests, 1);
    input_done(&in);
    stream_return_path_free(parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_are_read),
        cmocka_unit_test(a_message_may_be_cut_anywhere),
        cmocka_unit_test(single_bytes_are_enough),
        cmocka_unit_test(damaged_recordings_are_read_alike),
        cmocka_unit_test(every_message_is_taken),
        cmocka_unit_test(unknown_messages_are_opaque),
        cmocka_unit_test(impossible_requests_are_opaque),
        cmocka_unit_test(impossible_bitmaps_are_opaque),
        cmocka_unit_test(reset_forgets_the_block),
        cmocka_unit_test(reset_forgets_a_bitmap),
        cmocka_unit_test(requests_are_counted_without_ops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
