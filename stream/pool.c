// SPDX-License-Identifier: BSD-3-Clause
/* Pages on their way. */
#include "stream/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#define NONE UINT32_MAX
#define COMING POOL_QUEUES /* as a queue: in none yet */
/* The shortest record of a page of zeros: its word and the fill byte. */
#define ZERO_RECORD_BYTES 9

struct entry {
    uint64_t page;
    uint32_t block;
    uint32_t next, prev; /* in its queue, or the free list (next) */
    uint32_t slot;       /* of its bytes, NONE: zeros */
    uint8_t queue;
    uint8_t cause;
};

struct queue {
    uint32_t first, last;
    size_t count;
};

/* Pages that are near the one asked for, in one block. */
struct range {
    uint32_t block;
    uint64_t from, to;
};

struct block {
    uint64_t pages;
    uint64_t *left;   /* bit: it has left */
    uint64_t *wanted; /* bit: it was asked for and has not come */
};

struct pool {
    size_t page_bytes, max_pages;
    size_t block_count;
    struct block *blocks;

    struct entry *entries;
    uint32_t entry_max, entry_used; /* used: ever, the rest is untouched */
    uint32_t entry_free;            /* list */
    uint8_t *bytes;                 /* max_pages slots */
    uint32_t *slot_free;            /* stack */
    uint32_t slot_used, slot_free_count;
    size_t slots_taken;

    uint32_t *index; /* entry + 1, 0: empty; open addressing */
    uint32_t index_mask;

    struct queue queues[POOL_QUEUES];
    size_t total;
    size_t wanted;
    struct range ranges[POOL_NEAR_RANGES];
    unsigned range_at;
    uint32_t coming; /* entries that have begun */
};

/* Pages that follow each other are neighbours in the index, too: so many share
 * a line of the caches. They come in order, and a request asks for those behind
 * it. */
#define NEIGHBOUR_BITS 4
#define NEIGHBOURS (1u << NEIGHBOUR_BITS)

static uint32_t hash(uint32_t block, uint64_t page)
{
    uint64_t group = page >> NEIGHBOUR_BITS;
    uint64_t key = (group + ((uint64_t)block << 48)) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 32) * NEIGHBOURS + (uint32_t)(page % NEIGHBOURS);
}

static bool bit_is_set(const uint64_t *bits, uint64_t at)
{
    return bits[at / 64] >> (at % 64) & 1;
}

static void bit_set(uint64_t *bits, uint64_t at)
{
    bits[at / 64] |= UINT64_C(1) << (at % 64);
}

static void bit_clear(uint64_t *bits, uint64_t at)
{
    bits[at / 64] &= ~(UINT64_C(1) << (at % 64));
}

/* The index. ------------------------------------------------------------- */

/* Where the page is in the index, or the empty place where it would be. */
static uint32_t index_find(const struct pool *pool, uint32_t block,
                           uint64_t page)
{
    uint32_t at = hash(block, page) & pool->index_mask;

    while (pool->index[at]) {
        const struct entry *e = &pool->entries[pool->index[at] - 1];
        if (e->page == page && e->block == block) {
            return at;
        }
        at = (at + 1) & pool->index_mask;
    }
    return at;
}

/* Takes a place out and closes the gap, so that no search ends early. */
static void index_remove(struct pool *pool, uint32_t at)
{
    uint32_t gap = at;

    pool->index[gap] = 0;
    for (at = (at + 1) & pool->index_mask; pool->index[at];
         at = (at + 1) & pool->index_mask) {
        const struct entry *e = &pool->entries[pool->index[at] - 1];
        uint32_t home = hash(e->block, e->page) & pool->index_mask;
        /* may it stand in the gap? only if its home is not behind that */
        if (((at - home) & pool->index_mask) >=
            ((at - gap) & pool->index_mask)) {
            pool->index[gap] = pool->index[at];
            pool->index[at] = 0;
            gap = at;
        }
    }
}

/* Queues. ---------------------------------------------------------------- */

static void queue_append(struct pool *pool, enum pool_queue which, uint32_t i)
{
    struct queue *q = &pool->queues[which];
    struct entry *e = &pool->entries[i];

    e->queue = (uint8_t)which;
    e->next = NONE;
    e->prev = q->last;
    if (q->last == NONE) {
        q->first = i;
    } else {
        pool->entries[q->last].next = i;
    }
    q->last = i;
    q->count++;
}

static void queue_remove(struct pool *pool, uint32_t i)
{
    struct entry *e = &pool->entries[i];
    struct queue *q = &pool->queues[e->queue];

    if (e->prev == NONE) {
        q->first = e->next;
    } else {
        pool->entries[e->prev].next = e->next;
    }
    if (e->next == NONE) {
        q->last = e->prev;
    } else {
        pool->entries[e->next].prev = e->prev;
    }
    q->count--;
}

static void move_to(struct pool *pool, enum pool_queue queue, uint32_t i)
{
    queue_remove(pool, i);
    queue_append(pool, queue, i);
}

/* Memory. ---------------------------------------------------------------- */

static int blocks_new(struct pool *pool, const struct pool_block *blocks,
                      size_t count)
{
    pool->blocks = calloc(count ? count : 1, sizeof(*pool->blocks));
    if (!pool->blocks) {
        return -1;
    }
    pool->block_count = count;
    for (size_t i = 0; i < count; i++) {
        struct block *b = &pool->blocks[i];
        size_t words = blocks[i].pages / 64 + 1;
        b->pages = blocks[i].pages;
        b->left = calloc(words, sizeof(*b->left));
        b->wanted = calloc(words, sizeof(*b->wanted));
        if (!b->left || !b->wanted) {
            return -1;
        }
    }
    return 0;
}

static size_t index_bytes(const struct pool *pool)
{
    return ((size_t)pool->index_mask + 1) * sizeof(*pool->index);
}

struct pool *pool_new(const struct pool_block *blocks, size_t count,
                      size_t page_bytes, size_t max_pages)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    uint32_t places = 64;

    assert(max_pages > 0 && max_pages < UINT32_MAX / 8);
    if (!pool) {
        return NULL;
    }
    pool->page_bytes = page_bytes;
    pool->max_pages = max_pages;
    pool->entry_max = (uint32_t)(max_pages * (1 + POOL_ZEROS_PER_PAGE));
    pool->entry_free = NONE;
    while (places < 2 * pool->entry_max) {
        places *= 2;
    }
    pool->index_mask = places - 1;
    /* the kernel gives all this page by page, as it is used; calloc would not
     * leave it to the kernel to clear what the process had before */
    pool->index = mmap(NULL, index_bytes(pool), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool->entries = malloc(pool->entry_max * sizeof(*pool->entries));
    pool->bytes = malloc(max_pages * page_bytes);
    pool->slot_free = malloc(max_pages * sizeof(*pool->slot_free));
    for (int i = 0; i < POOL_QUEUES; i++) {
        pool->queues[i] = (struct queue){.first = NONE, .last = NONE};
    }
    if (blocks_new(pool, blocks, count) || pool->index == MAP_FAILED ||
        !pool->entries || !pool->bytes || !pool->slot_free) {
        pool_free(pool);
        return NULL;
    }
    return pool;
}

void pool_free(struct pool *pool)
{
    if (!pool) {
        return;
    }
    for (size_t i = 0; i < pool->block_count; i++) {
        free(pool->blocks[i].left);
        free(pool->blocks[i].wanted);
    }
    free(pool->blocks);
    if (pool->index != MAP_FAILED) {
        munmap(pool->index, index_bytes(pool));
    }
    free(pool->entries);
    free(pool->bytes);
    free(pool->slot_free);
    free(pool);
}

static uint32_t entry_get(struct pool *pool)
{
    uint32_t i = pool->entry_free;

    if (i != NONE) {
        pool->entry_free = pool->entries[i].next;
        return i;
    }
    return pool->entry_used < pool->entry_max ? pool->entry_used++ : NONE;
}

static void entry_put(struct pool *pool, uint32_t i)
{
    pool->entries[i].next = pool->entry_free;
    pool->entry_free = i;
}

/* The slot that was given back last is the one in the caches. */
static uint32_t slot_get(struct pool *pool)
{
    if (pool->slot_free_count > 0) {
        return pool->slot_free[--pool->slot_free_count];
    }
    return pool->slot_used < pool->max_pages ? pool->slot_used++ : NONE;
}

/* Coming and leaving. ---------------------------------------------------- */

static bool has_page(const struct pool *pool, unsigned block, uint64_t page)
{
    return block < pool->block_count && page < pool->blocks[block].pages;
}

int pool_begin(struct pool *pool, unsigned block, uint64_t page, bool is_zero,
               uint32_t *ret_handle, uint8_t **ret_into)
{
    if (!has_page(pool, block, page) ||
        bit_is_set(pool->blocks[block].left, page)) {
        return -1;
    }
    uint32_t at = index_find(pool, block, page);
    if (pool->index[at]) {
        return -1;
    }
    uint32_t i = entry_get(pool);
    if (i == NONE) {
        return -1;
    }
    uint32_t slot = is_zero ? NONE : slot_get(pool);
    if (!is_zero && slot == NONE) {
        entry_put(pool, i);
        return -1;
    }
    pool->entries[i] = (struct entry){
        .page = page,
        .block = block,
        .slot = slot,
        .queue = COMING,
        .cause = POOL_NOT_ASKED,
    };
    pool->index[at] = i + 1;
    pool->coming++;
    *ret_handle = i;
    if (!is_zero) {
        pool->slots_taken++;
        *ret_into = pool->bytes + (size_t)slot * pool->page_bytes;
    }
    return 0;
}

static bool is_near(const struct pool *pool, uint32_t block, uint64_t page)
{
    for (int i = 0; i < POOL_NEAR_RANGES; i++) {
        const struct range *r = &pool->ranges[i];
        if (block == r->block && page >= r->from && page < r->to) {
            return true;
        }
    }
    return false;
}

void pool_end(struct pool *pool, uint32_t handle, bool is_urgent)
{
    struct entry *e = &pool->entries[handle];
    struct block *b = &pool->blocks[e->block];

    pool->coming--;
    pool->total++;
    if (bit_is_set(b->wanted, e->page)) {
        bit_clear(b->wanted, e->page);
        pool->wanted--;
        e->cause = POOL_AWAITED;
        is_urgent = true;
    }
    queue_append(pool,
                 is_urgent                          ? POOL_URGENT
                 : is_near(pool, e->block, e->page) ? POOL_NEAR
                                                    : POOL_BULK,
                 handle);
}

/* Those behind the page that was asked for come next: guests walk. */
static void add_range(struct pool *pool, uint32_t block, uint64_t page)
{
    struct range r = {block, page + 1, page + 1 + POOL_NEAR_PAGES};

    pool->ranges[pool->range_at] = r;
    pool->range_at = (pool->range_at + 1) % POOL_NEAR_RANGES;
    for (uint64_t near = r.from;
         near < r.to && near < pool->blocks[block].pages; near++) {
        uint32_t at = index_find(pool, block, near);
        uint32_t i = pool->index[at] - 1;
        if (pool->index[at] && pool->entries[i].queue == POOL_BULK) {
            move_to(pool, POOL_NEAR, i);
        }
    }
}

enum pool_answer pool_request(struct pool *pool, unsigned block, uint64_t page)
{
    if (!has_page(pool, block, page)) {
        return POOL_UNKNOWN;
    }
    struct block *b = &pool->blocks[block];
    uint32_t at = index_find(pool, block, page);
    uint32_t i = pool->index[at] - 1;

    add_range(pool, block, page);
    if (!pool->index[at] || pool->entries[i].queue == COMING) {
        if (bit_is_set(b->left, page)) {
            return POOL_GONE;
        }
        if (!bit_is_set(b->wanted, page)) {
            bit_set(b->wanted, page);
            pool->wanted++;
        }
        return POOL_WANTED;
    }
    if (pool->entries[i].queue == POOL_URGENT) {
        return POOL_URGENT_ONCE;
    }
    pool->entries[i].cause = POOL_FOUND;
    move_to(pool, POOL_URGENT, i);
    return POOL_PROMOTED;
}

bool pool_peek(const struct pool *pool, enum pool_queue queue,
               struct pool_page *ret_page)
{
    uint32_t i = pool->queues[queue].first;

    if (i == NONE) {
        return false;
    }
    const struct entry *e = &pool->entries[i];
    *ret_page = (struct pool_page){
        .block = e->block,
        .page = e->page,
        .is_zero = e->slot == NONE,
        .cause = (enum pool_cause)e->cause,
        .data = e->slot == NONE
                    ? NULL
                    : pool->bytes + (size_t)e->slot * pool->page_bytes,
    };
    return true;
}

void pool_take(struct pool *pool, enum pool_queue queue)
{
    uint32_t i = pool->queues[queue].first;
    struct entry *e = &pool->entries[i];

    bit_set(pool->blocks[e->block].left, e->page);
    index_remove(pool, index_find(pool, e->block, e->page));
    queue_remove(pool, i);
    if (e->slot != NONE) {
        pool->slot_free[pool->slot_free_count++] = e->slot;
        pool->slots_taken--;
    }
    entry_put(pool, i);
    pool->total--;
}

size_t pool_count(const struct pool *pool, enum pool_queue queue)
{
    return pool->queues[queue].count;
}

size_t pool_total(const struct pool *pool)
{
    return pool->total;
}

size_t pool_wanted(const struct pool *pool)
{
    return pool->wanted;
}

uint64_t pool_bytes(const struct pool *pool)
{
    return (uint64_t)pool->slots_taken * pool->page_bytes;
}

size_t pool_room(const struct pool *pool, uint64_t limit_bytes)
{
    uint64_t held = pool_bytes(pool);
    uint64_t most = (uint64_t)pool->max_pages * pool->page_bytes;
    size_t entries = pool->entry_max - pool->total - pool->coming;

    /* pages that are coming have their place; one more may begin */
    limit_bytes = limit_bytes < most ? limit_bytes : most;
    if (held + pool->page_bytes > limit_bytes || entries < 2) {
        return 0;
    }
    uint64_t room = limit_bytes - held;
    uint64_t zeros = (uint64_t)(entries - 1) * ZERO_RECORD_BYTES;
    return (size_t)(room < zeros ? room : zeros);
}
