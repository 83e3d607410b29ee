// SPDX-License-Identifier: BSD-3-Clause
/* Pages on their way: taken from QEMU, not yet handed on. Pure.
 *
 * How it works
 *
 * A page is in one of three queues: urgent (a vCPU waits for it), near (close
 * to one that was asked for) or bulk (in the order in which they came), and in
 * an index by which a request finds it. A page that has left is remembered, as
 * one bit; so is one that was asked for before it came, which makes it urgent
 * when it comes. Everything is allocated at pool_new(); the kernel gives memory
 * to what is used. A page of zeros takes a place, but no memory for its bytes.
 */
#ifndef STREAM_POOL_H
#define STREAM_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_NEAR_PAGES 64 /* behind one that was asked for */
#define POOL_NEAR_RANGES 8 /* of the last requests */
/* Places for pages of zeros, for each page with bytes. */
#define POOL_ZEROS_PER_PAGE 8

struct pool_block {
    uint64_t pages;
};

enum pool_queue { POOL_URGENT, POOL_NEAR, POOL_BULK, POOL_QUEUES };

/* How a page came to be urgent, for the statistics. */
enum pool_cause {
    POOL_NOT_ASKED, /* it is not, or QEMU itself sent it as urgent */
    POOL_FOUND,     /* it was asked for while it was in the pool */
    POOL_AWAITED,   /* it was asked for before it came */
};

struct pool_page {
    unsigned block;
    uint64_t page; /* number in its block */
    bool is_zero;
    enum pool_cause cause;
    const uint8_t *data; /* NULL if is_zero */
};

enum pool_answer {
    POOL_PROMOTED,    /* it was here and is urgent now */
    POOL_URGENT_ONCE, /* it was here and urgent already */
    POOL_GONE,        /* it has left */
    POOL_WANTED,      /* it has not come yet */
    POOL_UNKNOWN,     /* no such block or page */
};

struct pool;

/* A pool for up to max_pages pages of page_bytes each, of count blocks
 * (copied). NULL: no memory. */
struct pool *pool_new(const struct pool_block *blocks, size_t count,
                      size_t page_bytes, size_t max_pages);
void pool_free(struct pool *pool); /* NULL is fine */

/* A page begins to come. *ret_handle is for pool_end(); *ret_into is where its
 * bytes shall go, unless is_zero. -1: there is no room, or it is here already
 * or has left (it must not reach the destination twice), or there is no such
 * page.
 */
int pool_begin(struct pool *pool, unsigned block, uint64_t page, bool is_zero,
               uint32_t *ret_handle, uint8_t **ret_into);
/* ... and has come: it goes into its queue, urgent if it was wanted or
 * is_urgent. */
void pool_end(struct pool *pool, uint32_t handle, bool is_urgent);

/* A page is asked for. */
enum pool_answer pool_request(struct pool *pool, unsigned block, uint64_t page);

/* The first page of a queue, false if there is none. It stays until
 * pool_take(), and the data until the next pool_begin() after that. */
bool pool_peek(const struct pool *pool, enum pool_queue queue,
               struct pool_page *ret_page);
/* It leaves. */
void pool_take(struct pool *pool, enum pool_queue queue);

/* Pages in a queue; in all; wanted and not come. */
size_t pool_count(const struct pool *pool, enum pool_queue queue);
size_t pool_total(const struct pool *pool);
size_t pool_wanted(const struct pool *pool);

/* Bytes of pages that are here (zeros not counted). */
uint64_t pool_bytes(const struct pool *pool);

/* How many bytes of a stream may be taken, so that all pages in them have room,
 * while no more than limit_bytes are held. */
size_t pool_room(const struct pool *pool, uint64_t limit_bytes);

#endif
