// SPDX-License-Identifier: BSD-3-Clause
/* Intrusive doubly linked list. A node that is in no list points to itself,
 * so that removing it again is harmless. */
#ifndef UTIL_LIST_H
#define UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define container_of(ptr, type, member)                                        \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_insert_before(struct list *at, struct list *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}

/* Adds node at the end of the list with head l. */
static inline void list_append(struct list *l, struct list *node)
{
    list_insert_before(l, node);
}

static inline void list_prepend(struct list *l, struct list *node)
{
    list_insert_before(l->next, node);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

static inline struct list *list_first(const struct list *l)
{
    return list_is_empty(l) ? NULL : l->next;
}

/* for each node; the body must not remove it */
#define LIST_EACH(node, head)                                                  \
    for (struct list *node = (head)->next; node != (head); node = node->next)

/* for each node; the body may remove (and free) it */
#define LIST_EACH_SAFE(node, head)                                             \
    for (struct list *node = (head)->next, *node##_next = node->next;          \
         node != (head); node = node##_next, node##_next = node->next)

#endif
