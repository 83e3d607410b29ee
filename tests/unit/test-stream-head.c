// SPDX-License-Identifier: BSD-3-Clause
/* The head of QEMU's main stream: recordings of real QEMUs (tests/data/stream,
 * made by tests/data/record-stream), cut anywhere and damaged. */
#include "tests/unit/test-stream-input.h"

/* --- recordings --- */

#define SECTION_TOTAL                                                          \
    "section \"ram\" 2/0/4\n"                                                  \
    "total 0x4082000\n"

#define BLOCKS(first)                                                          \
    SECTION_TOTAL first " 0x4000000\n"                                         \
                        "/rom@etc/acpi/tables 0x20000\n"                       \
                        "pc.bios 0x40000\n"                                    \
                        "pc.rom 0x20000\n"                                     \
                        "/rom@etc/table-loader 0x1000\n"                       \
                        "/rom@etc/acpi/rsdp 0x1000\n"

#define BLOCKS_PAGED(first, page)                                              \
    SECTION_TOTAL first " 0x4000000 page=" page "\n"                           \
                        "/rom@etc/acpi/tables 0x20000 page=0x1000\n"           \
                        "pc.bios 0x40000 page=0x1000\n"                        \
                        "pc.rom 0x20000 page=0x1000\n"                         \
                        "/rom@etc/table-loader 0x1000 page=0x1000\n"           \
                        "/rom@etc/acpi/rsdp 0x1000 page=0x1000\n"

#define BLOCKS_SHARED                                                          \
    SECTION_TOTAL "mem0 0x4000000 at=0\n"                                      \
                  "/rom@etc/acpi/tables 0x20000 at=0\n"                        \
                  "pc.bios 0x40000 at=0xfffc0000\n"                            \
                  "pc.rom 0x20000 at=0xc0000\n"                                \
                  "/rom@etc/table-loader 0x1000 at=0\n"                        \
                  "/rom@etc/acpi/rsdp 0x1000 at=0\n"

static const struct recording {
    const char *name;
    const char *expected;
} recordings[] = {
    {"precopy", "done 210\n"
                "machine \"pc-i440fx-7.2\" return-path\n" BLOCKS("pc.ram")},
    {"precopy-one-way", "done 193\n"
                        "machine \"pc-q35-7.2\"\n" BLOCKS("pc.ram")},
    {"precopy-uuid",
     "done 250\n"
     "machine \"pc-i440fx-7.2\" return-path uuid=00..ff\n" BLOCKS("pc.ram")},
    {"precopy-multifd",
     "done 207\n"
     "machine \"pc-q35-7.2\" return-path\n" BLOCKS("pc.ram")},
    {"precopy-memfd", "done 205\n"
                      "machine \"pc-q35-7.2\" return-path\n" BLOCKS("mem0")},
    {"precopy-ignore-shared",
     "done 308\n"
     "machine \"pc-i440fx-7.2\" return-path ignore-shared\n" BLOCKS_SHARED},
    {"precopy-block", "done 242\n"
                      "machine \"pc-i440fx-7.2\" return-path\n"
                      "other \"block\" 1/0/1\n" BLOCKS("pc.ram")},
    {"precopy-old-machine",
     "opaque section \"ram\" has no footer (machine types older than 2.4 send "
     "none)\n"
     "machine \"\" return-path\n" SECTION_TOTAL},
    {"precopy-no-configuration", "done 192\n"
                                 "machine \"\" return-path\n" BLOCKS("pc.ram")},
    {"precopy-no-configuration-ignore-shared",
     "done 238\n"
     "machine \"\" return-path ignore-shared\n" BLOCKS_SHARED},
    {"postcopy", "done 231\n"
                 "machine \"pc-i440fx-7.2\" return-path bits=12 "
                 "advise=0x1000/0x1000@45\n" BLOCKS_PAGED("pc.ram", "0x1000")},
    {"postcopy-unused",
     "done 228\n"
     "machine \"pc-q35-7.2\" return-path bits=12 "
     "advise=0x1000/0x1000@42\n" BLOCKS_PAGED("pc.ram", "0x1000")},
    {"postcopy-preempt",
     "done 228\n"
     "machine \"pc-q35-7.2\" return-path bits=12 "
     "advise=0x1000/0x1000@42\n" BLOCKS_PAGED("pc.ram", "0x1000")},
    {"postcopy-memfd",
     "done 226\n"
     "machine \"pc-q35-7.2\" return-path bits=12 "
     "advise=0x1000/0x1000@42\n" BLOCKS_PAGED("mem0", "0x1000")},
    {"postcopy-hugetlbfs",
     "done 237\n"
     "machine \"pc-i440fx-7.2\" return-path bits=12 "
     "advise=0x201000/0x1000@45\n" BLOCKS_PAGED("mem0", "0x200000@99")},
    {"postcopy-recover", "opaque continues an earlier stream (recovery)\n"
                         "machine \"\"\n"},
};

#define RECORDINGS (sizeof recordings / sizeof *recordings)

/* Feeds from..to out of a copy of just that size: a memory checker sees any
 * byte that is read outside. */
static size_t feed_copy(struct stream_head_parser *parser,
                        const struct input *in, size_t from, size_t to)
{
    uint8_t *copy = malloc(to - from + (to == from));

    assert_non_null(copy);
    memcpy(copy, in->bytes + from, to - from);
    size_t taken = stream_head_feed(parser, copy, to - from);
    free(copy);
    return taken;
}

static void recordings_are_read(void **state)
{
    for (size_t i = 0; i < RECORDINGS; i++) {
        struct input in = load(recordings[i].name);
        check(&in, recordings[i].expected);
        input_done(&in);
    }
}

static void a_head_may_be_cut_anywhere(void **state)
{
    CLEANUP_FREE char *text = calloc(1, TEXT_BYTES);
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);

    for (size_t i = 0; i < RECORDINGS; i++) {
        struct input in = load(recordings[i].name);
        size_t end = check(&in, recordings[i].expected);

        for (size_t cut = 0; cut <= end + 16 && cut <= in.len; cut++) {
            stream_head_reset(parser);
            size_t taken = feed_copy(parser, &in, 0, cut);
            assert_int_equal(taken, cut < end ? cut : end);
            assert_int_equal(stream_head_state(parser) == STREAM_HEAD_NEED_MORE,
                             cut < end);
            taken += feed_copy(parser, &in, cut, in.len);
            assert_int_equal(taken, end);
            describe(stream_head_get(parser), text);
            assert_string_equal(text, recordings[i].expected);
        }
        input_done(&in);
    }
    stream_head_free(parser);
}

static void single_bytes_are_enough(void **state)
{
    CLEANUP_FREE char *text = calloc(1, TEXT_BYTES);

    for (size_t i = 0; i < RECORDINGS; i++) {
        struct stream_head_parser *parser = stream_head_new(HOST_PAGE);
        struct input in = load(recordings[i].name);
        size_t end = check(&in, recordings[i].expected);

        for (size_t at = 0; at < end + 16 && at < in.len; at++) {
            assert_int_equal(stream_head_state(parser) == STREAM_HEAD_NEED_MORE,
                             at < end);
            assert_int_equal(feed_copy(parser, &in, at, at + 1), at < end);
        }
        describe(stream_head_get(parser), text);
        assert_string_equal(text, recordings[i].expected);
        input_done(&in);
        stream_head_free(parser);
    }
}

/* --- damaged streams --- */

/* Feeds a damaged stream whole and in single bytes: both must say the same,
 * and it must have ended after the longest thing that can be skipped. */
static void check_damaged(struct stream_head_parser *whole,
                          struct stream_head_parser *single,
                          const struct input *in)
{
    static const uint8_t zeros[STREAM_HEAD_LIST_BYTES_MAX + 16];

    stream_head_reset(whole);
    stream_head_reset(single);
    size_t taken = stream_head_feed(whole, in->bytes, in->len);
    for (size_t at = 0; at < taken; at++) {
        assert_int_equal(stream_head_state(single), STREAM_HEAD_NEED_MORE);
        assert_int_equal(stream_head_feed(single, in->bytes + at, 1), 1);
    }
    assert_memory_equal(stream_head_get(whole), stream_head_get(single),
                        sizeof(struct stream_head));
    stream_head_feed(whole, zeros, sizeof zeros);
    assert_int_not_equal(stream_head_state(whole), STREAM_HEAD_NEED_MORE);
    if (stream_head_state(whole) == STREAM_HEAD_OPAQUE) {
        assert_int_not_equal(strlen(stream_head_get(whole)->reason), 0);
        assert_int_equal(stream_head_get(whole)->blocks_count, 0);
    }
}

static void damaged_recordings_end_in_a_state(void **state)
{
    static const uint8_t flips[] = {0x01, 0x20, 0xff};
    struct stream_head_parser *whole = stream_head_new(HOST_PAGE);
    struct stream_head_parser *single = stream_head_new(HOST_PAGE);

    for (size_t i = 0; i < RECORDINGS; i++) {
        struct input in = load(recordings[i].name);
        size_t end = check(&in, recordings[i].expected);

        in.len = in.len < 512 ? in.len : 512;
        for (size_t at = 0; at < end && at < in.len; at++) {
            for (size_t f = 0; f < sizeof flips; f++) {
                in.bytes[at] ^= flips[f];
                check_damaged(whole, single, &in);
                in.bytes[at] ^= flips[f];
            }
        }
        input_done(&in);
    }
    stream_head_free(whole);
    stream_head_free(single);
}

/* Left out or doubled: what follows is at the wrong place. */
static void shifted_recordings_are_not_done(void **state)
{
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);
    struct input in = load("postcopy-hugetlbfs");
    size_t list = 81; /* first byte of the block list */

    for (size_t at = list; at < 232; at++) {
        stream_head_reset(parser);
        stream_head_feed(parser, in.bytes, at);
        stream_head_feed(parser, in.bytes + at + 1, in.len - at - 1);
        assert_int_not_equal(stream_head_state(parser), STREAM_HEAD_DONE);

        stream_head_reset(parser);
        stream_head_feed(parser, in.bytes, at + 1);
        stream_head_feed(parser, in.bytes + at, in.len - at);
        assert_int_not_equal(stream_head_state(parser), STREAM_HEAD_DONE);
    }
    input_done(&in);
    stream_head_free(parser);
}

static void reset_begins_again(void **state)
{
    CLEANUP_FREE char *text = calloc(1, TEXT_BYTES);
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);
    struct input first = load("precopy-ignore-shared");
    struct input second = load("postcopy");

    stream_head_feed(parser, first.bytes, 200);
    stream_head_reset(parser);
    stream_head_feed(parser, second.bytes, second.len);
    describe(stream_head_get(parser), text);
    assert_non_null(strstr(text, "done 231\nmachine \"pc-i440fx-7.2\" return"));
    assert_null(strstr(text, "ignore-shared"));
    input_done(&first);
    input_done(&second);
    stream_head_free(parser);
    stream_head_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_are_read),
        cmocka_unit_test(a_head_may_be_cut_anywhere),
        cmocka_unit_test(single_bytes_are_enough),
        cmocka_unit_test(damaged_recordings_end_in_a_state),
        cmocka_unit_test(shifted_recordings_are_not_done),
        cmocka_unit_test(reset_begins_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
