// SPDX-License-Identifier: BSD-3-Clause
/* Merging: urgent frames go only where they may, nothing waits for ever, and
 * what could is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/memlink.h"
#include "transport/merge.h"
#include "transport/wire.h"

struct bench {
    struct merge merge;
    struct piece_pool pool;
    char out[4096];
};

static int setup(void **state)
{
    static struct bench bench;
    memset(&bench, 0, sizeof(bench));
    merge_init(&bench.merge);
    piece_pool_init(&bench.pool);
    *state = &bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    merge_clear(&b->merge, &b->pool);
    piece_pool_clear(&b->pool);
    return 0;
}

static struct piece *make_piece(struct bench *b, const char *text, size_t len,
                                uint64_t after, uint8_t flags)
{
    struct chunk *chunk = chunk_new(len);
    memcpy(chunk->data, text, len);
    struct piece *piece = piece_new(&b->pool, chunk, chunk->data, len);
    chunk_unref(chunk);
    piece->after = after;
    piece->flags = flags;
    piece->ack = flags & WIRE_FLAG_ACK;
    return piece;
}

static int try_bulk(struct bench *b, const char *text, uint8_t flags,
                    uint64_t count, struct error *err)
{
    if (merge_start_bulk(&b->merge, count, flags, err) < 0) {
        return -1;
    }
    struct piece *piece = make_piece(b, text, strlen(text), count, flags);
    piece->first = piece->last = true;
    merge_add_bulk(&b->merge, piece);
    return merge_check(&b->merge, false, err);
}

static int try_urgent(struct bench *b, const char *text, uint64_t after,
                      struct error *err)
{
    if (merge_start_urgent(&b->merge, err) < 0) {
        return -1;
    }
    struct piece *piece = make_piece(b, text, strlen(text), after, 0);
    piece->first = piece->last = true;
    merge_add_urgent(&b->merge, piece);
    return merge_check(&b->merge, false, err);
}

static void bulk(struct bench *b, const char *text, uint8_t flags,
                 uint64_t count)
{
    struct error err = ERROR_INIT;
    if (try_bulk(b, text, flags, count, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void urgent(struct bench *b, const char *text, uint64_t after)
{
    struct error err = ERROR_INIT;
    if (try_urgent(b, text, after, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

/* Delivers at most max bytes of what is offered now. */
static size_t deliver(struct bench *b, size_t max)
{
    struct iovec iov[16];
    struct merge_passed passed;
    size_t bytes = 0, used = strlen(b->out);
    int n = merge_peek(&b->merge, iov, 16);
    for (int i = 0; i < n && bytes < max; i++) {
        size_t len =
            iov[i].iov_len < max - bytes ? iov[i].iov_len : max - bytes;
        memcpy(b->out + used + bytes, iov[i].iov_base, len);
        bytes += len;
    }
    b->out[used + bytes] = '\0';
    merge_delivered(&b->merge, &b->pool, bytes, &passed);
    assert_int_equal(passed.bulk_bytes + passed.urgent_bytes, bytes);
    return bytes;
}

static void deliver_all(struct bench *b)
{
    while (merge_can_deliver(&b->merge)) {
        uint64_t can = merge_deliverable_bytes(&b->merge);
        assert_true(can > 0);
        assert_true(deliver(b, SIZE_MAX) <= can);
    }
    assert_true(merge_deliverable_bytes(&b->merge) == 0);
}

#define M WIRE_FLAG_MERGE

static void urgent_overtakes_bulk_at_a_merge_point(void **state)
{
    struct bench *b = *state;
    bulk(b, "aaaa", M, 0);
    bulk(b, "bbbb", M, 0);
    assert_int_equal(deliver(b, 4), 4);
    urgent(b, "U", 4);
    deliver_all(b);
    assert_string_equal(b->out, "aaaaUbbbb");
}

static void urgent_waits_inside_a_frame(void **state)
{
    struct bench *b = *state;
    bulk(b, "aaaa", M, 0);
    bulk(b, "bbbb", M, 0);
    assert_int_equal(deliver(b, 6), 6);
    urgent(b, "U", 0);
    deliver_all(b);
    assert_string_equal(b->out, "aaaabbbbU");
}

static void urgent_waits_behind_a_frame_without_merge(void **state)
{
    struct bench *b = *state;
    bulk(b, "aaaa", 0, 0);
    urgent(b, "U", 0);
    assert_int_equal(deliver(b, 1), 1); /* at offset 0: U goes first */
    deliver_all(b);
    assert_string_equal(b->out, "Uaaaa");
    urgent(b, "V", 0);
    deliver_all(b);
    assert_string_equal(b->out, "Uaaaa");
    bulk(b, "bbbb", M, 0);
    deliver_all(b);
    assert_string_equal(b->out, "UaaaabbbbV");
}

static void urgent_waits_for_the_offset_it_names(void **state)
{
    struct bench *b = *state;
    urgent(b, "U", 8);
    bulk(b, "aaaa", M, 0);
    bulk(b, "bbbb", M, 0);
    bulk(b, "cccc", M, 0);
    deliver_all(b);
    assert_string_equal(b->out, "aaaabbbbUcccc");
}

static void start_is_no_merge_point_for_a_later_offset(void **state)
{
    struct bench *b = *state;
    urgent(b, "U", 4);
    assert_false(merge_can_deliver(&b->merge));
    bulk(b, "aaaa", 0, 0);
    deliver_all(b);
    assert_string_equal(b->out, "aaaa"); /* no MERGE there */
}

static void urgent_frames_keep_their_order(void **state)
{
    struct bench *b = *state;
    urgent(b, "U", 4);
    urgent(b, "V", 0); /* could go at once, but not before U */
    bulk(b, "aaaa", M, 0);
    deliver_all(b);
    assert_string_equal(b->out, "aaaaUV");
}

static void bulk_waits_for_the_urgent_frames_it_counts(void **state)
{
    struct bench *b = *state;
    bulk(b, "aaaa", M, 0);
    bulk(b, "bbbb", 0, 2);
    deliver_all(b);
    assert_string_equal(b->out, "aaaa");
    urgent(b, "U", 0);
    deliver_all(b);
    assert_string_equal(b->out, "aaaaU");
    urgent(b, "V", 4);
    deliver_all(b);
    assert_string_equal(b->out, "aaaaUVbbbb");
}

static void incomplete_urgent_frame_is_not_offered(void **state)
{
    struct bench *b = *state;
    struct piece *piece = make_piece(b, "UU", 2, 0, 0);
    bulk(b, "aaaa", M, 0);
    assert_int_equal(merge_start_urgent(&b->merge, NULL), 0);
    piece->first = true;
    merge_add_urgent(&b->merge, piece);
    deliver_all(b);
    assert_string_equal(b->out, "aaaa");
    piece = make_piece(b, "VV", 2, 0, 0);
    piece->last = true;
    merge_add_urgent(&b->merge, piece);
    deliver_all(b);
    assert_string_equal(b->out, "aaaaUUVV");
}

static void end_waits_for_its_urgent_frames(void **state)
{
    struct bench *b = *state;
    bulk(b, "aaaa", M, 0);
    assert_int_equal(merge_end(&b->merge, 4, 1, NULL), 0);
    deliver_all(b);
    assert_false(merge_is_finished(&b->merge));
    urgent(b, "U", 4);
    assert_false(merge_is_finished(&b->merge));
    deliver_all(b);
    assert_string_equal(b->out, "aaaaU");
    assert_true(merge_is_finished(&b->merge));
}

/* What completes between peek and delivered must not change the order. */
static void order_offered_is_the_order_counted(void **state)
{
    struct bench *b = *state;
    struct iovec iov[4];
    struct merge_passed passed;
    bulk(b, "aaaa", M, 0);
    bulk(b, "bbbb", M, 0);
    assert_int_equal(deliver(b, 4), 4);
    assert_int_equal(merge_peek(&b->merge, iov, 4), 1);
    urgent(b, "U", 0);
    merge_delivered(&b->merge, &b->pool, 4, &passed);
    assert_int_equal(passed.bulk_bytes, 4);
    assert_int_equal(passed.urgent_bytes, 0);
    deliver_all(b);
    assert_string_equal(b->out, "aaaaU");
}

static void passed_frames_are_counted(void **state)
{
    struct bench *b = *state;
    struct iovec iov[8];
    struct merge_passed passed;
    bulk(b, "aaaa", M | WIRE_FLAG_ACK, 0);
    urgent(b, "UU", 4);
    bulk(b, "bb", 0, 1);
    bulk(b, "cc", 0, 0);
    assert_int_equal(merge_peek(&b->merge, iov, 8), 4);
    merge_delivered(&b->merge, &b->pool, 3, &passed);
    assert_false(passed.bulk_ack);
    assert_int_equal(passed.bulk_marked, 0);
    merge_delivered(&b->merge, &b->pool, 7, &passed);
    assert_int_equal(passed.bulk_bytes, 5);
    assert_int_equal(passed.urgent_bytes, 2);
    assert_int_equal(passed.urgent_frames, 1);
    assert_int_equal(passed.bulk_marked, 2);
    assert_true(passed.bulk_ack);
    assert_false(passed.urgent_ack);
}

/* Refusals. */

static void assert_refused(int result, const struct error *err,
                           const char *text)
{
    assert_int_equal(result, -1);
    assert_int_equal(err->code, ERR_PROTOCOL);
    assert_string_equal(err->text, text);
}

static void count_that_rises_without_merge_is_refused(void **state)
{
    struct bench *b = *state;
    struct error err = ERROR_INIT;
    bulk(b, "aaaa", 0, 0);
    assert_refused(try_bulk(b, "bbbb", 0, 1, &err), &err,
                   "DATA waits for urgent frame 1 where none may be put: the "
                   "frame before it has no MERGE flag");
}

static void end_that_waits_without_merge_is_refused(void **state)
{
    struct bench *b = *state;
    struct error err = ERROR_INIT;
    bulk(b, "aaaa", 0, 0);
    assert_refused(merge_end(&b->merge, 4, 1, &err), &err,
                   "END waits for urgent frame 1 where none may be put: the "
                   "frame before it has no MERGE flag");
}

static void urgent_and_bulk_that_wait_for_each_other_are_refused(void **state)
{
    struct bench *b = *state;
    struct error err = ERROR_INIT;
    urgent(b, "U", 8);
    bulk(b, "aaaa", M, 0);
    assert_int_equal(try_bulk(b, "bbbb", 0, 1, NULL), 0);
    deliver_all(b);
    assert_refused(merge_check(&b->merge, false, &err), &err,
                   "urgent frame 1 waits for offset 8 and is itself waited for "
                   "at offset 4");
}

static void end_with_other_lengths_is_refused(void **state)
{
    struct bench *b = *state;
    struct error err = ERROR_INIT;
    bulk(b, "aaaa", M, 0);
    urgent(b, "U", 0);
    assert_refused(merge_end(&b->merge, 5, 1, &err), &err,
                   "END at offset 5, but 4 bytes came");
    assert_refused(merge_end(&b->merge, 4, 0, &err), &err,
                   "END tells of 0 urgent frames, but 1 came and DATA waits "
                   "for 0");
    assert_int_equal(merge_end(&b->merge, 4, 1, &err), 0);
    assert_refused(merge_end(&b->merge, 4, 1, &err), &err, "END twice");
}

static void anything_behind_the_end_is_refused(void **state)
{
    struct bench *b = *state;
    struct error err = ERROR_INIT;
    bulk(b, "aaaa", M, 0);
    assert_int_equal(merge_end(&b->merge, 4, 1, NULL), 0);
    urgent(b, "U", 0);
    assert_refused(try_urgent(b, "V", 0, &err), &err,
                   "urgent frame 2 behind the end, which told of 1");
    assert_refused(try_bulk(b, "bbbb", 0, 0, &err), &err,
                   "DATA behind the end");
}

static void missing_urgent_frame_shows_when_the_lanes_end(void **state)
{
    struct bench *b = *state;
    struct error err = ERROR_INIT;
    bulk(b, "aaaa", M, 0);
    assert_int_equal(merge_end(&b->merge, 4, 2, NULL), 0);
    urgent(b, "U", 0);
    deliver_all(b);
    assert_int_equal(merge_check(&b->merge, false, &err), 0);
    assert_refused(merge_check(&b->merge, true, &err), &err,
                   "the lanes have ended, but 2 urgent frames are waited for "
                   "and 1 came");
}

/* Random. ----------------------------------------------------------------- */

#define FRAMES 40

struct plan {
    int bulk_count, urgent_count;
    struct {
        char text[9];
        uint8_t flags;
        uint64_t count;
        uint64_t start; /* offset */
    } bulk[FRAMES];
    struct {
        size_t len;
        uint64_t after;
    } urgent[FRAMES];
    uint64_t bulk_bytes;
};

/* What a legal sender may do, in the order in which it queues. */
static void make_plan(struct plan *plan, uint32_t *random)
{
    bool merge = true;
    uint64_t count = 0;
    memset(plan, 0, sizeof(*plan));
    while (plan->bulk_count < FRAMES && plan->urgent_count < FRAMES) {
        if (memlink_random(random) % 2) {
            int i = plan->urgent_count++;
            plan->urgent[i].len = 1 + memlink_random(random) % 5;
            plan->urgent[i].after =
                memlink_random(random) % (plan->bulk_bytes + 1);
            continue;
        }
        int i = plan->bulk_count++;
        size_t len = 1 + memlink_random(random) % 8;
        memset(plan->bulk[i].text, 'a' + i % 26, len);
        plan->bulk[i].start = plan->bulk_bytes;
        if (merge && memlink_random(random) % 2) {
            count = (uint64_t)plan->urgent_count;
            plan->bulk[i].count = count;
        }
        merge = memlink_random(random) % 3 > 0;
        plan->bulk[i].flags = merge ? M : 0;
        plan->bulk_bytes += len;
    }
    if (!merge && count < (uint64_t)plan->urgent_count) {
        plan->urgent_count = (int)count; /* the end could not be told */
    }
}

/* Walks over what was delivered and checks every rule. */
static void check_order(const struct plan *plan, const char *out)
{
    uint64_t offset = 0, urgents = 0;
    int frame = 0;
    size_t in_frame = 0;
    while (*out) {
        if (*out >= 'A' && *out <= 'Z') {
            assert_true(urgents < (uint64_t)plan->urgent_count);
            assert_int_equal(in_frame, 0);
            assert_true(frame == 0 || (plan->bulk[frame - 1].flags & M));
            assert_true(offset >= plan->urgent[urgents].after);
            for (size_t i = 0; i < plan->urgent[urgents].len; i++) {
                assert_int_equal(*out++, 'A' + (int)(urgents % 26));
            }
            urgents++;
            continue;
        }
        assert_true(frame < plan->bulk_count);
        if (in_frame == 0) {
            assert_true(urgents >= plan->bulk[frame].count);
        }
        assert_int_equal(*out++, plan->bulk[frame].text[in_frame++]);
        offset++;
        if (in_frame == strlen(plan->bulk[frame].text)) {
            frame++;
            in_frame = 0;
        }
    }
    assert_int_equal(frame, plan->bulk_count);
    assert_int_equal(urgents, plan->urgent_count);
}

static void feed_bulk(struct bench *b, const struct plan *plan, int i,
                      uint32_t *random)
{
    const char *text = plan->bulk[i].text;
    size_t len = strlen(text), at = 0;
    assert_int_equal(merge_start_bulk(&b->merge, plan->bulk[i].count,
                                      plan->bulk[i].flags, NULL),
                     0);
    while (at < len) {
        size_t n = 1 + memlink_random(random) % (len - at);
        struct piece *piece = make_piece(b, text + at, n, plan->bulk[i].count,
                                         plan->bulk[i].flags);
        piece->first = at == 0;
        at += n;
        piece->last = at == len;
        merge_add_bulk(&b->merge, piece);
    }
}

static void feed_urgent(struct bench *b, const struct plan *plan, int i)
{
    char text[8] = "";
    memset(text, 'A' + i % 26, plan->urgent[i].len);
    urgent(b, text, plan->urgent[i].after);
}

static void every_interleaving_of_the_lanes_gives_a_legal_order(void **state)
{
    struct bench *b = *state;
    uint32_t random = 42;
    for (int round = 0; round < 3000; round++) {
        struct plan plan;
        int bulks = 0, urgents = 0;
        bool ended = false;
        make_plan(&plan, &random);
        merge_init(&b->merge);
        b->out[0] = '\0';
        while (!ended || urgents < plan.urgent_count) {
            struct error err = ERROR_INIT;
            uint32_t what = memlink_random(&random) % 3;
            if (what == 0 && urgents < plan.urgent_count) {
                feed_urgent(b, &plan, urgents++);
            } else if (what == 1 && bulks < plan.bulk_count) {
                feed_bulk(b, &plan, bulks++, &random);
            } else if (what == 1 && !ended) {
                ended = true;
                if (merge_end(&b->merge, plan.bulk_bytes,
                              (uint64_t)plan.urgent_count, &err) < 0) {
                    fail_msg("round %d: %s", round, err.text);
                }
            } else {
                deliver(b, memlink_random(&random) % 6);
            }
            if (merge_check(&b->merge, false, &err) < 0) {
                fail_msg("round %d: %s", round, err.text);
            }
        }
        deliver_all(b);
        assert_true(merge_is_finished(&b->merge));
        assert_int_equal(merge_check(&b->merge, true, NULL), 0);
        check_order(&plan, b->out);
        merge_clear(&b->merge, &b->pool);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(urgent_overtakes_bulk_at_a_merge_point),
        TEST(urgent_waits_inside_a_frame),
        TEST(urgent_waits_behind_a_frame_without_merge),
        TEST(urgent_waits_for_the_offset_it_names),
        TEST(start_is_no_merge_point_for_a_later_offset),
        TEST(urgent_frames_keep_their_order),
        TEST(bulk_waits_for_the_urgent_frames_it_counts),
        TEST(incomplete_urgent_frame_is_not_offered),
        TEST(end_waits_for_its_urgent_frames),
        TEST(order_offered_is_the_order_counted),
        TEST(passed_frames_are_counted),
        TEST(count_that_rises_without_merge_is_refused),
        TEST(end_that_waits_without_merge_is_refused),
        TEST(urgent_and_bulk_that_wait_for_each_other_are_refused),
        TEST(end_with_other_lengths_is_refused),
        TEST(anything_behind_the_end_is_refused),
        TEST(missing_urgent_frame_shows_when_the_lanes_end),
        TEST(every_interleaving_of_the_lanes_gives_a_legal_order),
    };
    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
