// SPDX-License-Identifier: BSD-3-Clause
/* A counted buffer that payload is read into and sent from without copies.
 * Chunks belong to one thread (their pool's); no function is thread-safe. */
#ifndef TRANSPORT_CHUNK_H
#define TRANSPORT_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct chunk_pool;

struct chunk {
    struct chunk_pool *pool; /* NULL: from malloc */
    struct chunk *next_free; /* the pool's */
    unsigned refs;
    size_t size_bytes;
    uint8_t *data;
};

/* A pool of chunks of chunk_bytes each that keeps at most keep_free unused
 * ones. NULL when out of memory. chunk_pool_free() may be called while chunks
 * are still referenced: the last chunk_unref() then frees. */
struct chunk_pool *chunk_pool_new(size_t chunk_bytes, size_t keep_free);
void chunk_pool_free(struct chunk_pool *pool);

/* Bytes of all chunks of the pool that are referenced. */
size_t chunk_pool_used_bytes(const struct chunk_pool *pool);

/* A chunk with one reference; NULL when out of memory. */
struct chunk *chunk_get(struct chunk_pool *pool);

/* A chunk of size_bytes outside any pool; NULL when out of memory. */
struct chunk *chunk_new(size_t size_bytes);

struct chunk *chunk_ref(struct chunk *chunk);
void chunk_unref(struct chunk *chunk); /* NULL is fine */

#endif
