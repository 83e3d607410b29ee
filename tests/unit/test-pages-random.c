// SPDX-License-Identifier: BSD-3-Clause
/* Reordering: whatever the cuts, the requests and the moments at which pieces
 * are taken, the destination gets each page once, with its bytes, in a stream
 * that a strict parser accepts, and everything else as it was. */
#include "tests/lib/ram-stream.h"

static void ask(struct pages *p)
{
    unsigned block = dice(BLOCKS);
    pages_request(p, block_names[block],
                  (uint64_t)dice((uint32_t)block_pages[block]) * PAGE, PAGE);
}

static size_t feed_main(struct pages *p, struct receiver *r,
                        const uint8_t *bytes, size_t len)
{
    struct error err = ERROR_INIT;

    if (pages_state(p) != PAGES_REORDER) {
        size_t n = pages_watch_main(p, bytes, len);
        put_verbatim(r, bytes, n);
        return n;
    }
    size_t room = pages_room_main(p);
    len = len < room ? len : room;
    if (len > 0 && pages_split_main(p, bytes, len, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return len;
}

static void run(bool has_preempt, uint64_t soft_pages, uint64_t ceiling_pages)
{
    struct stream_head *head = make_head();
    struct source s = {.main = text_new(), .preempt = text_new()};
    struct receiver *r = receiver_new();
    struct pages_config config = {.has_preempt = has_preempt,
                                  .soft_bytes = soft_pages * PAGE,
                                  .ceiling_bytes = ceiling_pages * PAGE};
    struct error err = ERROR_INIT;
    size_t at = 0, preempt_at = 0;
    struct pages *p = pages_new(head, &config, &err);
    uint32_t greed = 2 + dice(6);

    assert_non_null(p);
    write_source(&s, has_preempt);
    while (at < s.main.len || preempt_at < s.preempt.len) {
        size_t n = 1 + dice(dice(2) ? 20 : 20000);
        n = n < s.main.len - at ? n : s.main.len - at;
        at += feed_main(p, r, s.main.bytes + at, n);
        if (at > s.switch_at && preempt_at < s.preempt.len) {
            size_t room = pages_room_preempt(p);
            n = 1 + dice(5000);
            n = n < s.preempt.len - preempt_at ? n : s.preempt.len - preempt_at;
            n = n < room ? n : room;
            assert_int_equal(
                pages_split_preempt(p, s.preempt.bytes + preempt_at, n, &err),
                0);
            preempt_at += n;
        }
        for (uint32_t i = dice(4); i > 0; i--) {
            ask(p);
        }
        take_pieces(p, r, greed);
        deliver_some(r, 3);
    }
    take_pieces(p, r, UINT32_MAX);
    assert_int_equal(pages_state(p), PAGES_PASSED);
    assert_true(pages_is_preempt_over(p));
    deliver_all(r);
    assert_arrived(&s, r, head);
    struct pages_stats stats;
    pages_get_stats(p, &stats);
    assert_int_equal(stats.pages, s.pages);
    assert_int_equal(stats.pool_pages, 0);
    assert_in_range(stats.pool_peak_bytes, 0,
                    (ceiling_pages + PAGES_RESERVE) * PAGE);
    pages_free(p);
    free(s.main.bytes);
    free(s.preempt.bytes);
    receiver_free(r);
    free(head);
}

static void nothing_is_lost_or_doubled(void **state)
{
    for (int i = 0; i < 150; i++) {
        run(false, 1 + dice(60), 60 + dice(200));
        run(true, 1 + dice(60), 60 + dice(200));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_doubled),
    };
    return cmocka_run_group_tests_name("pages-random", tests, NULL, NULL);
}
