// SPDX-License-Identifier: BSD-3-Clause
/* Chunks: counting, reuse, and pools that end before their chunks do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/chunk.h"

#define CHUNK_BYTES 4096

static void pool_counts_what_is_referenced(void **state)
{
    struct chunk_pool *pool = chunk_pool_new(CHUNK_BYTES, 2);
    struct chunk *a = chunk_get(pool);
    struct chunk *b = chunk_get(pool);
    assert_int_equal(chunk_pool_used_bytes(pool), 2 * CHUNK_BYTES);
    assert_int_equal(a->size_bytes, CHUNK_BYTES);
    assert_ptr_equal(chunk_ref(a), a);
    chunk_unref(a);
    assert_int_equal(chunk_pool_used_bytes(pool), 2 * CHUNK_BYTES);
    chunk_unref(a);
    assert_int_equal(chunk_pool_used_bytes(pool), CHUNK_BYTES);
    chunk_unref(b);
    assert_int_equal(chunk_pool_used_bytes(pool), 0);
    chunk_pool_free(pool);
}

static void unused_chunk_is_used_again(void **state)
{
    struct chunk_pool *pool = chunk_pool_new(CHUNK_BYTES, 1);
    struct chunk *a = chunk_get(pool);
    chunk_unref(a);
    struct chunk *b = chunk_get(pool);
    assert_ptr_equal(a, b);
    assert_int_equal(b->refs, 1);
    chunk_unref(b);
    chunk_pool_free(pool);
}

/* More unused chunks than keep_free are freed: the leak checkers see the rest,
 * this sees that only one comes back. */
static void pool_keeps_no_more_than_told(void **state)
{
    struct chunk_pool *pool = chunk_pool_new(CHUNK_BYTES, 1);
    struct chunk *chunks[3];
    for (int i = 0; i < 3; i++) {
        chunks[i] = chunk_get(pool);
        memset(chunks[i]->data, i, CHUNK_BYTES);
    }
    for (int i = 0; i < 3; i++) {
        chunk_unref(chunks[i]);
    }
    assert_int_equal(chunk_pool_used_bytes(pool), 0);
    struct chunk *again = chunk_get(pool);
    assert_ptr_equal(again, chunks[0]);
    chunk_unref(again);
    chunk_pool_free(pool);
}

static void chunk_outlives_its_pool(void **state)
{
    struct chunk_pool *pool = chunk_pool_new(CHUNK_BYTES, 4);
    struct chunk *a = chunk_get(pool);
    struct chunk *b = chunk_get(pool);
    chunk_pool_free(pool);
    memset(a->data, 1, CHUNK_BYTES);
    chunk_unref(a);
    memset(b->data, 2, CHUNK_BYTES);
    assert_int_equal(b->data[CHUNK_BYTES - 1], 2);
    chunk_unref(b);
}

static void chunk_without_pool_has_its_own_size(void **state)
{
    struct chunk *a = chunk_new(10);
    assert_null(a->pool);
    assert_int_equal(a->size_bytes, 10);
    memset(a->data, 0, 10);
    chunk_unref(a);
    assert_null(chunk_new(SIZE_MAX));
    chunk_unref(NULL);
    chunk_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_counts_what_is_referenced),
        cmocka_unit_test(unused_chunk_is_used_again),
        cmocka_unit_test(pool_keeps_no_more_than_told),
        cmocka_unit_test(chunk_outlives_its_pool),
        cmocka_unit_test(chunk_without_pool_has_its_own_size),
    };
    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
