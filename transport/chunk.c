// SPDX-License-Identifier: BSD-3-Clause
/* Counted buffers and their pool. */
#include "transport/chunk.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

struct chunk_pool {
    size_t chunk_bytes;
    size_t keep_free;
    size_t used; /* chunks that somebody references */
    size_t free; /* chunks in first_free */
    struct chunk *first_free;
    bool closed; /* chunk_pool_free() was called while used > 0 */
};

struct chunk_pool *chunk_pool_new(size_t chunk_bytes, size_t keep_free)
{
    struct chunk_pool *pool = calloc(1, sizeof(*pool));
    if (!pool) {
        return NULL;
    }
    pool->chunk_bytes = chunk_bytes;
    pool->keep_free = keep_free;
    return pool;
}

void chunk_pool_free(struct chunk_pool *pool)
{
    if (!pool) {
        return;
    }
    while (pool->first_free) {
        struct chunk *chunk = pool->first_free;
        pool->first_free = chunk->next_free;
        free(chunk);
    }
    pool->free = 0;
    pool->closed = true;
    if (pool->used == 0) {
        free(pool);
    }
}

size_t chunk_pool_used_bytes(const struct chunk_pool *pool)
{
    return pool->used * pool->chunk_bytes;
}

struct chunk *chunk_new(size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - sizeof(struct chunk)) {
        return NULL;
    }
    struct chunk *chunk = malloc(sizeof(*chunk) + size_bytes);
    if (!chunk) {
        return NULL;
    }
    *chunk = (struct chunk){
        .refs = 1,
        .size_bytes = size_bytes,
        .data = (uint8_t *)(chunk + 1),
    };
    return chunk;
}

struct chunk *chunk_get(struct chunk_pool *pool)
{
    struct chunk *chunk = pool->first_free;
    if (chunk) {
        pool->first_free = chunk->next_free;
        pool->free--;
        chunk->next_free = NULL;
        chunk->refs = 1;
    } else {
        chunk = chunk_new(pool->chunk_bytes);
        if (!chunk) {
            return NULL;
        }
        chunk->pool = pool;
    }
    pool->used++;
    return chunk;
}

struct chunk *chunk_ref(struct chunk *chunk)
{
    assert(chunk->refs > 0);
    chunk->refs++;
    return chunk;
}

static void give_back(struct chunk_pool *pool, struct chunk *chunk)
{
    assert(pool->used > 0);
    pool->used--;
    if (!pool->closed && pool->free < pool->keep_free) {
        chunk->next_free = pool->first_free;
        pool->first_free = chunk;
        pool->free++;
        return;
    }
    free(chunk);
    if (pool->closed && pool->used == 0) {
        free(pool);
    }
}

void chunk_unref(struct chunk *chunk)
{
    if (!chunk) {
        return;
    }
    assert(chunk->refs > 0);
    if (--chunk->refs > 0) {
        return;
    }
    if (chunk->pool) {
        give_back(chunk->pool, chunk);
    } else {
        free(chunk);
    }
}
