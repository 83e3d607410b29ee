// SPDX-License-Identifier: BSD-3-Clause
/* Page sizes translated for a destination with ordinary memory. */
#include "tests/unit/test-stream-input.h"

#include "stream/small-pages.h"

#define SMALL 0x1000u
#define HUGE 0x200000u
#define GIANT 0x40000000u

static const char *const names[] = {"pc.ram", "vga.vram", "mem1"};

/* The sizes of three blocks; 0: the host's, about which a stream is silent. */
static void make(struct input *in, uint64_t summary, const uint64_t *sizes)
{
    add_configuration(in, "pc");
    add_advise(in, summary, SMALL);
    add_ram(in, 0xc00000);
    for (int i = 0; i < 3; i++) {
        add_block(in, names[i], 0x400000);
        if (sizes[i]) {
            add_be(in, sizes[i], 8);
        }
    }
    add_end(in);
}

static struct small_pages *make_sizes(const uint64_t *here,
                                      const uint64_t *there)
{
    struct small_pages *sizes = small_pages_new(3);

    assert_non_null(sizes);
    for (int i = 0; i < 3; i++) {
        strcpy(sizes->blocks[i].name, names[i]);
        sizes->blocks[i].source_page_bytes = here[i] ? here[i] : SMALL;
        sizes->blocks[i].destination_page_bytes = there[i] ? there[i] : SMALL;
    }
    return sizes;
}

static void check_head(uint64_t summary_here, const uint64_t *here,
                       uint64_t summary_there, const uint64_t *there)
{
    struct input in = {0}, wanted = {0};
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);
    struct stream_head_parser *again = stream_head_new(HOST_PAGE);
    struct stream_head *head = malloc(sizeof(*head));
    struct small_pages *sizes = make_sizes(here, there);
    struct error err = ERROR_INIT;

    make(&in, summary_here, here);
    make(&wanted, summary_there, there);
    stream_head_feed(parser, in.bytes, in.len);
    assert_int_equal(stream_head_state(parser), STREAM_HEAD_DONE);
    *head = *stream_head_get(parser);
    assert_int_equal(small_pages_translate_head(sizes, head, in.bytes, &err),
                     0);
    assert_int_equal(head->offset_bytes, wanted.len);
    assert_memory_equal(in.bytes, wanted.bytes, wanted.len);
    /* and it says of itself what a reader of it would find */
    stream_head_feed(again, in.bytes, wanted.len);
    assert_int_equal(stream_head_state(again), STREAM_HEAD_DONE);
    assert_memory_equal(head, stream_head_get(again), sizeof(*head));
    free(sizes);
    free(head);
    stream_head_free(parser);
    stream_head_free(again);
    input_done(&in);
    input_done(&wanted);
}

static void a_head_becomes_that_of_ordinary_memory(void **state)
{
    check_head(GIANT | HUGE | SMALL, (uint64_t[]){HUGE, 0, GIANT}, SMALL,
               (uint64_t[]){0, 0, 0});
    check_head(HUGE | SMALL, (uint64_t[]){HUGE, 0, 0}, SMALL,
               (uint64_t[]){0, 0, 0});
    check_head(HUGE, (uint64_t[]){HUGE, HUGE, HUGE}, SMALL,
               (uint64_t[]){0, 0, 0});
}

/* A block that has huge pages on both hosts keeps them. */
static void some_blocks_stay_huge(void **state)
{
    check_head(GIANT | HUGE | SMALL, (uint64_t[]){HUGE, 0, GIANT},
               GIANT | SMALL, (uint64_t[]){0, 0, GIANT});
    check_head(HUGE | SMALL, (uint64_t[]){HUGE, HUGE, 0}, HUGE | SMALL,
               (uint64_t[]){0, HUGE, 0});
}

/* What the monitor said and what the stream says must be the same. */
static void other_sizes_than_announced_are_refused(void **state)
{
    static const uint64_t here[] = {HUGE, 0, 0}, other[] = {0, 0, GIANT},
                          there[] = {0, 0, 0};
    struct input in = {0};
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);
    struct stream_head *head = malloc(sizeof(*head));
    struct small_pages *sizes = make_sizes(other, there);
    struct error err = ERROR_INIT;

    make(&in, HUGE | SMALL, here);
    uint8_t *before = malloc(in.len);
    memcpy(before, in.bytes, in.len);
    stream_head_feed(parser, in.bytes, in.len);
    *head = *stream_head_get(parser);
    assert_int_equal(small_pages_translate_head(sizes, head, in.bytes, &err),
                     -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "pc.ram"));
    assert_non_null(strstr(err.text, "2097152"));
    assert_memory_equal(in.bytes, before, in.len);
    strcpy(sizes->blocks[0].name, "other");
    assert_int_equal(small_pages_translate_head(sizes, head, in.bytes, &err),
                     -1);
    head->has_postcopy_ram = false;
    assert_int_equal(small_pages_translate_head(sizes, head, in.bytes, &err),
                     -1);
    assert_non_null(strstr(err.text, "postcopy"));
    head->state = STREAM_HEAD_OPAQUE;
    assert_int_equal(small_pages_translate_head(sizes, head, in.bytes, &err),
                     -1);
    assert_non_null(strstr(err.text, "not understood"));
    free(before);
    free(head);
    free(sizes);
    stream_head_free(parser);
    input_done(&in);
}

static void check_widen(uint64_t page, uint64_t start, uint32_t length,
                        bool can, uint64_t start_then, uint32_t length_then)
{
    assert_int_equal(small_pages_widen(page, &start, &length), can);
    assert_int_equal(start, start_then);
    assert_int_equal(length, length_then);
}

static void requests_become_whole_host_pages(void **state)
{
    check_widen(SMALL, 0x5000, SMALL, true, 0x5000, SMALL);
    check_widen(HUGE, 0x5000, SMALL, true, 0, HUGE);
    check_widen(HUGE, 0x3ff000, SMALL, true, HUGE, HUGE);
    check_widen(HUGE, 0x3ff000, 2 * SMALL, true, HUGE, 2 * HUGE);
    check_widen(GIANT, 0x7ffff000, SMALL, true, GIANT, GIANT);
    check_widen(GIANT, 0, 0xfffff000, false, 0, 0xfffff000);
    check_widen(HUGE, UINT64_MAX, 1, false, UINT64_MAX, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_becomes_that_of_ordinary_memory),
        cmocka_unit_test(some_blocks_stay_huge),
        cmocka_unit_test(other_sizes_than_announced_are_refused),
        cmocka_unit_test(requests_become_whole_host_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
