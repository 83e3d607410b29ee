// SPDX-License-Identifier: BSD-3-Clause
/* The page pool: queues, requests, room; and a long random life beside a plain
 * model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stream/pool.h"

enum { PAGE = 64, MAX = 8 };

static const struct pool_block blocks[] = {{1000}, {300}};

static struct pool *make(void)
{
    struct pool *pool = pool_new(blocks, 2, PAGE, MAX);
    assert_non_null(pool);
    return pool;
}

static int put(struct pool *pool, unsigned block, uint64_t page)
{
    uint8_t *into = NULL;
    uint32_t handle;
    if (pool_begin(pool, block, page, false, &handle, &into) < 0) {
        return -1;
    }
    memset(into, (int)(page + block), PAGE);
    pool_end(pool, handle, false);
    return 0;
}

static void assert_next(struct pool *pool, enum pool_queue queue,
                        unsigned block, uint64_t page, enum pool_cause cause)
{
    struct pool_page got;
    assert_true(pool_peek(pool, queue, &got));
    assert_int_equal(got.block, block);
    assert_int_equal(got.page, page);
    assert_int_equal(got.cause, cause);
    if (got.is_zero) {
        assert_null(got.data);
    } else {
        assert_int_equal(got.data[0], (uint8_t)(page + block));
        assert_int_equal(got.data[PAGE - 1], (uint8_t)(page + block));
    }
    pool_take(pool, queue);
}

static void pages_leave_as_they_came(void **state)
{
    struct pool *pool = make();
    struct pool_page got;

    assert_int_equal(put(pool, 0, 5), 0);
    assert_int_equal(put(pool, 1, 5), 0);
    assert_int_equal(put(pool, 0, 4), 0);
    assert_int_equal(pool_total(pool), 3);
    assert_int_equal(pool_bytes(pool), 3 * PAGE);
    assert_next(pool, POOL_BULK, 0, 5, POOL_NOT_ASKED);
    assert_next(pool, POOL_BULK, 1, 5, POOL_NOT_ASKED);
    assert_next(pool, POOL_BULK, 0, 4, POOL_NOT_ASKED);
    assert_false(pool_peek(pool, POOL_BULK, &got));
    assert_int_equal(pool_bytes(pool), 0);
    pool_free(pool);
}

static void a_request_moves_a_page_and_its_neighbours(void **state)
{
    struct pool *pool = make();

    put(pool, 0, 100);
    put(pool, 0, 13); /* behind 12 */
    put(pool, 0, 12);
    put(pool, 1, 13); /* of another block */
    put(pool, 0, 12 + POOL_NEAR_PAGES);
    put(pool, 0, 13 + POOL_NEAR_PAGES);
    assert_int_equal(pool_request(pool, 0, 12), POOL_PROMOTED);
    assert_int_equal(pool_request(pool, 0, 12), POOL_URGENT_ONCE);
    put(pool, 0, 14); /* comes later */
    assert_next(pool, POOL_URGENT, 0, 12, POOL_FOUND);
    assert_int_equal(pool_count(pool, POOL_NEAR), 3);
    assert_next(pool, POOL_NEAR, 0, 13, POOL_NOT_ASKED);
    assert_next(pool, POOL_NEAR, 0, 12 + POOL_NEAR_PAGES, POOL_NOT_ASKED);
    assert_next(pool, POOL_NEAR, 0, 14, POOL_NOT_ASKED);
    assert_next(pool, POOL_BULK, 0, 100, POOL_NOT_ASKED);
    assert_next(pool, POOL_BULK, 1, 13, POOL_NOT_ASKED);
    assert_int_equal(pool_request(pool, 0, 12), POOL_GONE);
    pool_free(pool);
}

static void what_is_awaited_is_urgent_when_it_comes(void **state)
{
    struct pool *pool = make();
    uint8_t *into;
    uint32_t handle;

    assert_int_equal(pool_request(pool, 0, 7), POOL_WANTED);
    assert_int_equal(pool_request(pool, 0, 7), POOL_WANTED);
    assert_int_equal(pool_wanted(pool), 1);
    put(pool, 0, 3);
    assert_int_equal(pool_count(pool, POOL_URGENT), 0);
    put(pool, 0, 7);
    assert_int_equal(pool_wanted(pool), 0);
    assert_next(pool, POOL_URGENT, 0, 7, POOL_AWAITED);
    /* asked for while its bytes are still coming */
    assert_int_equal(pool_begin(pool, 0, 8, false, &handle, &into), 0);
    assert_int_equal(pool_request(pool, 0, 8), POOL_WANTED);
    memset(into, 8, PAGE);
    pool_end(pool, handle, false);
    assert_next(pool, POOL_URGENT, 0, 8, POOL_AWAITED);
    /* QEMU itself says that it is urgent */
    assert_int_equal(pool_begin(pool, 0, 9, true, &handle, &into), 0);
    pool_end(pool, handle, true);
    assert_next(pool, POOL_URGENT, 0, 9, POOL_NOT_ASKED);
    pool_free(pool);
}

static void no_page_comes_twice(void **state)
{
    struct pool *pool = make();
    uint8_t *into;
    uint32_t handle;

    put(pool, 0, 1);
    assert_int_equal(put(pool, 0, 1), -1);
    assert_next(pool, POOL_BULK, 0, 1, POOL_NOT_ASKED);
    assert_int_equal(put(pool, 0, 1), -1);
    assert_int_equal(put(pool, 1, 1), 0);
    assert_int_equal(put(pool, 1, 300), -1);
    assert_int_equal(put(pool, 2, 0), -1);
    assert_int_equal(pool_begin(pool, 0, 1000, true, &handle, &into), -1);
    assert_int_equal(pool_request(pool, 1, 300), POOL_UNKNOWN);
    assert_int_equal(pool_request(pool, 2, 0), POOL_UNKNOWN);
    pool_free(pool);
}

static void room_is_what_fits(void **state)
{
    struct pool *pool = make();
    uint8_t *into;
    uint32_t handle;

    assert_int_equal(pool_room(pool, UINT64_MAX), MAX * PAGE);
    assert_int_equal(pool_room(pool, 2 * PAGE), 2 * PAGE);
    assert_int_equal(pool_room(pool, PAGE - 1), 0);
    for (uint64_t i = 0; i < MAX; i++) {
        assert_int_equal(put(pool, 0, i), 0);
    }
    assert_int_equal(pool_room(pool, UINT64_MAX), 0);
    assert_int_equal(put(pool, 0, MAX), -1);
    /* zeros have places of their own */
    assert_int_equal(pool_begin(pool, 0, MAX, true, &handle, &into), 0);
    pool_end(pool, handle, false);
    assert_next(pool, POOL_BULK, 0, 0, POOL_NOT_ASKED);
    assert_int_equal(pool_room(pool, UINT64_MAX), PAGE);
    assert_int_equal(pool_room(pool, (MAX - 1) * PAGE), 0);
    /* so few places for zeros are left that these are the limit */
    for (uint64_t i = 0; i < 8 * MAX - 4; i++) {
        assert_int_equal(pool_begin(pool, 0, 100 + i, true, &handle, &into), 0);
        pool_end(pool, handle, false);
    }
    assert_int_equal(pool_room(pool, UINT64_MAX), 3 * 9);
    pool_free(pool);
}

/* As main and preempt do. */
static void two_pages_may_come_at_once(void **state)
{
    struct pool *pool = make();
    uint8_t *into[2];
    uint32_t handle[2];

    assert_int_equal(pool_begin(pool, 0, 1, false, &handle[0], &into[0]), 0);
    assert_int_equal(pool_begin(pool, 0, 2, false, &handle[1], &into[1]), 0);
    assert_int_equal(pool_begin(pool, 0, 1, false, &handle[1], &into[1]), -1);
    memset(into[0], 1, PAGE);
    memset(into[1], 2, PAGE);
    pool_end(pool, handle[1], true);
    assert_int_equal(pool_request(pool, 0, 1), POOL_WANTED);
    pool_end(pool, handle[0], false);
    assert_next(pool, POOL_URGENT, 0, 2, POOL_NOT_ASKED);
    assert_next(pool, POOL_URGENT, 0, 1, POOL_AWAITED);
    pool_free(pool);
}

/* ---- a long life ---- */

enum where { ABSENT, HERE, LEFT };

struct model {
    enum where where[2][1000];
    bool wanted[2][1000];
    size_t here, waiting;
};

static uint32_t seed = 1;

static uint32_t dice(uint32_t sides)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % sides;
}

static void step_in(struct pool *pool, struct model *m, unsigned b, uint64_t p)
{
    bool full = m->here == MAX;
    int expected = m->where[b][p] == ABSENT && !full ? 0 : -1;

    assert_int_equal(put(pool, b, p), expected);
    if (expected == 0) {
        m->where[b][p] = HERE;
        m->here++;
        m->waiting -= m->wanted[b][p];
        m->wanted[b][p] = false;
    }
}

static void step_out(struct pool *pool, struct model *m)
{
    struct pool_page got;
    for (enum pool_queue q = POOL_URGENT; q < POOL_QUEUES; q++) {
        if (pool_peek(pool, q, &got)) {
            assert_int_equal(m->where[got.block][got.page], HERE);
            assert_int_equal(got.data[1], (uint8_t)(got.page + got.block));
            m->where[got.block][got.page] = LEFT;
            m->here--;
            pool_take(pool, q);
            return;
        }
    }
    assert_int_equal(m->here, 0);
}

static void step_ask(struct pool *pool, struct model *m, unsigned b, uint64_t p)
{
    enum pool_answer answer = pool_request(pool, b, p);
    switch (m->where[b][p]) {
    case ABSENT:
        assert_int_equal(answer, POOL_WANTED);
        m->waiting += !m->wanted[b][p];
        m->wanted[b][p] = true;
        break;
    case HERE:
        assert_true(answer == POOL_PROMOTED || answer == POOL_URGENT_ONCE);
        break;
    case LEFT:
        assert_int_equal(answer, POOL_GONE);
        break;
    }
}

static void a_long_random_life(void **state)
{
    struct pool *pool = make();
    struct model *m = calloc(1, sizeof(*m));

    for (int i = 0; i < 200000; i++) {
        unsigned b = dice(2);
        uint64_t p = dice((uint32_t)blocks[b].pages);
        switch (dice(3)) {
        case 0:
            step_in(pool, m, b, p);
            break;
        case 1:
            step_out(pool, m);
            break;
        default:
            step_ask(pool, m, b, p);
            break;
        }
        assert_int_equal(pool_total(pool), m->here);
        assert_int_equal(pool_wanted(pool), m->waiting);
        if (i % 20000 == 0) { /* a new guest */
            pool_free(pool);
            pool = make();
            memset(m, 0, sizeof(*m));
        }
    }
    pool_free(pool);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_leave_as_they_came),
        cmocka_unit_test(a_request_moves_a_page_and_its_neighbours),
        cmocka_unit_test(what_is_awaited_is_urgent_when_it_comes),
        cmocka_unit_test(no_page_comes_twice),
        cmocka_unit_test(room_is_what_fits),
        cmocka_unit_test(two_pages_may_come_at_once),
        cmocka_unit_test(a_long_random_life),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
