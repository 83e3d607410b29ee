// SPDX-License-Identifier: BSD-3-Clause
/* Reordering, case by case. */
#include "tests/lib/ram-stream.h"

static void a_requested_page_is_next(void **state)
{
    struct stream_head *head = make_head();
    struct pages_config config = {.soft_bytes = 100 * PAGE,
                                  .ceiling_bytes = 200 * PAGE,
                                  .offset_bytes = 1000};
    struct error err = ERROR_INIT;
    struct pages *p = pages_new(head, &config, &err);
    struct text t = text_new();
    static uint8_t buf[PAGES_BULK_BYTES];
    struct pages_out out;
    int before = -1;

    add_package(&t);
    size_t switch_at = t.len;
    begin_section(&t, RECORDS_TYPE_PART);
    for (uint64_t i = 1; i < 10; i++) {
        add_page(&t, 0, i, &before);
    }
    assert_int_equal(pages_watch_main(p, t.bytes, t.len), switch_at);
    assert_int_equal(pages_state(p), PAGES_REORDER);
    assert_int_equal(
        pages_split_main(p, t.bytes + switch_at, t.len - switch_at, &err), 0);
    assert_int_equal(pages_request(p, "pc.ram", 7 * PAGE, PAGE), POOL_PROMOTED);
    assert_int_equal(pages_request(p, "pc.ram", 50 * PAGE, PAGE), POOL_WANTED);
    assert_int_equal(pages_request(p, "no.ram", 0, PAGE), POOL_UNKNOWN);
    /* no section is open: nothing may overtake its begin */
    assert_false(pages_next_urgent(p, buf, &out));
    assert_true(pages_next_bulk(p, buf, sizeof(buf), true, &out));
    assert_true(out.len == 5 && out.is_merge && buf[0] == RECORDS_TYPE_PART);
    assert_true(pages_next_urgent(p, buf, &out));
    assert_true(out.is_urgent && out.page == 7 && out.cause == POOL_FOUND);
    assert_int_equal(out.after, 1000 + switch_at + 5);
    assert_false(pages_next_urgent(p, buf, &out));
    /* its neighbours, then the rest */
    assert_true(pages_next_bulk(p, buf, PAGES_RECORD_BYTES_MAX, true, &out));
    assert_int_equal(out.page, 8);
    assert_true(pages_next_bulk(p, buf, PAGES_RECORD_BYTES_MAX, true, &out));
    assert_int_equal(out.page, 9);
    assert_true(pages_next_bulk(p, buf, PAGES_RECORD_BYTES_MAX, true, &out));
    assert_int_equal(out.page, 1);
    pages_free(p);
    free(t.bytes);
    free(head);
}

static void more_is_read_while_a_page_is_awaited(void **state)
{
    struct stream_head *head = make_head();
    struct pages_config config = {.soft_bytes = 2 * PAGE,
                                  .ceiling_bytes = 50 * PAGE};
    struct error err = ERROR_INIT;
    struct pages *p = pages_new(head, &config, &err);
    struct text t = text_new();
    int before = -1;

    add_package(&t);
    assert_int_equal(pages_watch_main(p, t.bytes, t.len), t.len);
    assert_int_equal(pages_state(p), PAGES_REORDER);
    assert_int_equal(pages_room_main(p), 2 * PAGE);
    pages_request(p, "pc.ram", 299 * PAGE, PAGE);
    size_t more = pages_room_main(p);
    assert_in_range(more, 5 * PAGE, 50 * PAGE); /* zeros need places, too */
    t.len = 0;
    begin_section(&t, RECORDS_TYPE_PART);
    add_page(&t, 0, 1, &before);
    add_page(&t, 0, 2, &before);
    assert_int_equal(pages_split_main(p, t.bytes, t.len, &err), 0);
    assert_in_range(pages_room_main(p), 4 * PAGE, more - 1);
    t.len = 0;
    add_page(&t, 0, 299, &before);
    assert_int_equal(pages_split_main(p, t.bytes, t.len, &err), 0);
    assert_int_equal(pages_room_main(p), 0);
    pages_free(p);
    free(t.bytes);
    free(head);
}

/* Else QEMU would be done long before the destination has all. */
static void no_more_is_held_than_is_still_to_come(void **state)
{
    enum { ALL = 200 };
    struct stream_head *head = make_head();
    struct pages_config config = {.soft_bytes = ALL * PAGE,
                                  .ceiling_bytes = ALL * PAGE};
    struct error err = ERROR_INIT;
    struct pages *p = pages_new(head, &config, &err);
    struct text t = text_new();
    static uint8_t buf[PAGES_BULK_BYTES];
    struct pages_stats stats = {.pool_bytes = 0};
    struct pages_out out;
    int before = -1;

    /* discard pages 1 to 200 of pc.ram, in two ranges of 100 */
    add(&t,
        "\x08\0\6\0\x29\0\6pc.ram\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\6\x40\0"
        "\0\0\0\0\0\6\x50\0\0\0\0\0\0\6\x40\0",
        46);
    add_package(&t);
    assert_int_equal(pages_watch_main(p, t.bytes, t.len), t.len);
    assert_int_equal(pages_state(p), PAGES_REORDER);
    t.len = 0;
    begin_section(&t, RECORDS_TYPE_PART);
    assert_int_equal(pages_split_main(p, t.bytes, t.len, &err), 0);
    for (uint64_t i = 1; i <= ALL;) {
        uint64_t held = stats.pool_bytes / PAGE, to_come = ALL + 1 - i;
        if (pages_room_main(p) < PAGES_RECORD_BYTES_MAX) {
            assert_true(held + 2 >= to_come || held + 2 >= 64);
            assert_true(pages_next_bulk(p, buf, sizeof(buf), true, &out));
        } else {
            assert_true(held <= to_come || held <= 64);
            t.len = 0;
            add_page(&t, 0, i++, &before);
            assert_int_equal(pages_split_main(p, t.bytes, t.len, &err), 0);
        }
        pages_get_stats(p, &stats);
    }
    assert_in_range(stats.pool_bytes / PAGE, 32, 64);
    pages_free(p);
    free(t.bytes);
    free(head);
}

/* ---- what is not understood ---- */

static void what_is_not_understood_before_passes(void **state)
{
    static const char *const streams[] = {
        "\x05\0\0\0\1",                      /* a SUBSECTION */
        "\x02\0\0\0\7",                      /* of no RAM */
        "\x08\0\x63\0\0",                    /* command 99 */
        "\x08\0\7\0\4\0\0\0\6RUNRUN",        /* a package without RUN */
        "\x02\0\0\0\3\0\0\0\0\0\0\0\x48",    /* xbzrle */
        "\x02\0\0\0\3\0\0\0\0\0\0\0\x28",    /* goes on with no block */
        "\x02\0\0\0\3\0\0\0\0\0\0\0\x08\1x", /* a block that is not there */
        "\x02\0\0\0\3\0\0\0\0\xff\0\0\x08\6pc.ram", /* beyond it */
    };
    static const size_t lengths[] = {5, 5, 5, 15, 13, 13, 15, 20};
    struct stream_head *head = make_head();

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct pages_config config = {.soft_bytes = PAGE,
                                      .ceiling_bytes = PAGE};
        struct error err = ERROR_INIT;
        struct pages *p = pages_new(head, &config, &err);
        struct pages_stats stats;
        uint8_t more[100] = {0};
        const uint8_t *bytes = (const uint8_t *)streams[i];

        for (size_t k = 0; k < lengths[i]; k++) {
            assert_int_equal(pages_watch_main(p, bytes + k, 1), 1);
        }
        assert_int_equal(pages_state(p), PAGES_OPAQUE);
        pages_get_stats(p, &stats);
        assert_true(strlen(stats.reason) > 10);
        assert_int_equal(pages_watch_main(p, more, 100), 100);
        pages_free(p);
    }
    free(head);
}

static void a_precopy_comes_to_the_devices(void **state)
{
    struct stream_head *head = make_head();
    struct pages_config config = {.soft_bytes = PAGE, .ceiling_bytes = PAGE};
    struct error err = ERROR_INIT;
    struct pages *p = pages_new(head, &config, &err);
    const uint8_t bytes[] = {RECORDS_TYPE_FULL, 'd', 'e', 'v', 'i', 'c', 'e'};

    assert_int_equal(pages_watch_main(p, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(pages_state(p), PAGES_PASSED);
    assert_int_equal(pages_watch_main(p, bytes, 4), 4);
    pages_free(p);
    free(head);
}

static void
an_unknown_record_between_sections_passes_behind_the_pages(void **state)
{
    struct stream_head *head = make_head();
    struct pages_config config = {.soft_bytes = 100 * PAGE,
                                  .ceiling_bytes = 200 * PAGE};
    struct error err = ERROR_INIT;
    struct pages *p = pages_new(head, &config, &err);
    struct receiver *r = receiver_new();
    struct source s = {.main = text_new()};
    int before = -1;

    add_package(&s.main);
    s.switch_at = s.main.len;
    begin_section(&s.main, RECORDS_TYPE_PART);
    add_page(&s.main, 0, 4, &before);
    add_page(&s.main, 0, 6, &before);
    end_section(&s.main);
    add(&s.main, "\x04new kind of section", 20);
    size_t at = pages_watch_main(p, s.main.bytes, s.main.len);
    put_verbatim(r, s.main.bytes, at);
    pages_request(p, "pc.ram", 6 * PAGE, PAGE);
    assert_int_equal(
        pages_split_main(p, s.main.bytes + at, s.main.len - at, &err), 0);
    assert_int_equal(pages_room_main(p), 0);
    take_pieces(p, r, UINT32_MAX);
    assert_int_equal(pages_state(p), PAGES_OPAQUE);
    put_verbatim(r, (const uint8_t *)" and more", 9);
    deliver_all(r);
    assert_memory_equal(r->main.bytes + r->main.len - 29,
                        "\x04new kind of section and more", 29);
    /* in front of it the section was closed */
    assert_memory_equal(r->main.bytes + r->main.len - 29 - 13,
                        "\0\0\0\0\0\0\0\x10\x7e\0\0\0\3", 13);
    pages_free(p);
    free(s.main.bytes);
    receiver_free(r);
    free(head);
}

static void what_breaks_inside_a_section_is_an_error(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *text;
    } rows[] = {
        {"\x02\0\0\0\3\0\0\0\0\0\0\1\0", 13,
         "main in postcopy: a RAM record with flags 0x100"},
        {"\x02\0\0\0\3\0\0\0\0\0\0\0\x10\x7e\0\0\0\4", 18,
         "main in postcopy: no footer behind a RAM section"},
        {"\x02\0\0\0\3\0\0\0\0\0\0\x10\x02\6pc.ram\0"
         "\0\0\0\0\0\0\x10\x22\0",
         30,
         "main in postcopy: no place for a page: page 0x1000 of block pc.ram "
         "came twice, or the pool is full"},
    };
    struct stream_head *head = make_head();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pages_config config = {.soft_bytes = 100 * PAGE,
                                      .ceiling_bytes = 100 * PAGE};
        struct error err = ERROR_INIT;
        struct pages *p = pages_new(head, &config, &err);
        struct text t = text_new();
        add_package(&t);
        assert_int_equal(pages_watch_main(p, t.bytes, t.len), t.len);
        assert_int_equal(pages_split_main(p, (const uint8_t *)rows[i].bytes,
                                          rows[i].len, &err),
                         -1);
        assert_int_equal(err.code, ERR_PROTOCOL);
        assert_string_equal(err.text, rows[i].text);
        pages_free(p);
        free(t.bytes);
    }
    free(head);
}

static void heads_that_cannot_be_reordered_are_named(void **state)
{
    struct stream_head *head = make_head();
    struct pages_config config = {.soft_bytes = PAGE, .ceiling_bytes = PAGE};
    struct error err = ERROR_INIT;

    head->blocks[1].page_size_bytes = 2 << 20;
    assert_null(pages_new(head, &config, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_string_equal(err.text, "block vga.vram has pages of 2097152 bytes");
    head->advise_target_page_bytes = 65536;
    assert_null(pages_new(head, &config, &err));
    assert_string_equal(err.text, "target pages of 65536 bytes");
    head->has_postcopy_ram = false;
    assert_null(pages_new(head, &config, &err));
    assert_string_equal(err.text, "postcopy was not announced");
    free(head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_requested_page_is_next),
        cmocka_unit_test(more_is_read_while_a_page_is_awaited),
        cmocka_unit_test(no_more_is_held_than_is_still_to_come),
        cmocka_unit_test(what_is_not_understood_before_passes),
        cmocka_unit_test(a_precopy_comes_to_the_devices),
        cmocka_unit_test(
            an_unknown_record_between_sections_passes_behind_the_pages),
        cmocka_unit_test(what_breaks_inside_a_section_is_an_error),
        cmocka_unit_test(heads_that_cannot_be_reordered_are_named),
    };
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
