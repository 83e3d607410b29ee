// SPDX-License-Identifier: BSD-3-Clause
/* Pieces and their pool. */
#include "transport/piece.h"

#include <stdlib.h>

void piece_pool_init(struct piece_pool *pool)
{
    list_init(&pool->free);
    pool->free_count = 0;
}

void piece_pool_clear(struct piece_pool *pool)
{
    LIST_EACH_SAFE (link, &pool->free) {
        list_remove(link);
        free(piece_of(link));
    }
    pool->free_count = 0;
}

struct piece *piece_new(struct piece_pool *pool, struct chunk *chunk,
                        const uint8_t *data, size_t len_bytes)
{
    struct piece *piece = piece_first(&pool->free);
    if (piece) {
        list_remove(&piece->link);
        pool->free_count--;
    } else {
        piece = malloc(sizeof(*piece));
        if (!piece) {
            return NULL;
        }
    }
    *piece = (struct piece){
        .chunk = chunk_ref(chunk),
        .data = data,
        .len_bytes = len_bytes,
    };
    list_init(&piece->link);
    return piece;
}

void piece_free(struct piece_pool *pool, struct piece *piece)
{
    list_remove(&piece->link);
    chunk_unref(piece->chunk);
    if (pool->free_count >= PIECE_POOL_KEEP) {
        free(piece);
        return;
    }
    list_prepend(&pool->free, &piece->link);
    pool->free_count++;
}

void piece_list_clear(struct piece_pool *pool, struct list *list)
{
    LIST_EACH_SAFE (link, list) {
        piece_free(pool, piece_of(link));
    }
}
