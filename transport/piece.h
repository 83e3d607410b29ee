// SPDX-License-Identifier: BSD-3-Clause
/* A piece: bytes inside a chunk that wait to be sent or delivered. Pieces are
 * taken from a pool, so that the data path allocates nothing once warm. */
#ifndef TRANSPORT_PIECE_H
#define TRANSPORT_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/chunk.h"
#include "util/list.h"

/* Unused pieces a pool keeps: about what one window of small frames needs. */
#define PIECE_POOL_KEEP 1024

struct piece {
    struct list link;
    struct chunk *chunk; /* a reference */
    const uint8_t *data;
    size_t len_bytes;
    uint64_t after; /* arg of the frame: what must have been delivered before */
    uint8_t flags;  /* WIRE_FLAG_* of the frame */
    bool ack;       /* receiving: acknowledge once this is delivered */
    bool first;     /* starts a frame */
    bool last;      /* ends a frame */
    bool settled;   /* receiving: mux_turn_end() has looked at it */
};

struct piece_pool {
    struct list free;
    size_t free_count;
};

void piece_pool_init(struct piece_pool *pool);
void piece_pool_clear(struct piece_pool *pool);

/* A piece over len_bytes at data inside chunk; takes a reference of its own to
 * chunk. NULL when out of memory. */
struct piece *piece_new(struct piece_pool *pool, struct chunk *chunk,
                        const uint8_t *data, size_t len_bytes);

/* Unlinks the piece, gives up its chunk and returns it to the pool. */
void piece_free(struct piece_pool *pool, struct piece *piece);

/* Frees all pieces of a list. */
void piece_list_clear(struct piece_pool *pool, struct list *list);

static inline struct piece *piece_of(struct list *link)
{
    return container_of(link, struct piece, link);
}

/* The first of the list, or NULL. */
static inline struct piece *piece_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : piece_of(list->next);
}

/* The last of the list, or NULL. */
static inline struct piece *piece_last(const struct list *list)
{
    return list_is_empty(list) ? NULL : piece_of(list->prev);
}

#endif
