// SPDX-License-Identifier: BSD-3-Clause
/* A growing ring of offsets. */
#include "transport/marks.h"

#include <assert.h>
#include <stdlib.h>

#define MARKS_FIRST 64

void marks_clear(struct marks *m)
{
    free(m->ends);
    *m = (struct marks){0};
}

bool marks_reserve(struct marks *m, unsigned count)
{
    unsigned capacity = m->capacity ? m->capacity : MARKS_FIRST;
    if (count <= m->capacity) {
        return true;
    }
    while (capacity < count) {
        capacity *= 2;
    }
    uint64_t *ends = malloc(capacity * sizeof(*ends));
    if (!ends) {
        return false;
    }
    for (unsigned i = 0; i < m->count; i++) {
        ends[i] = m->ends[(m->head + i) % m->capacity];
    }
    free(m->ends);
    m->ends = ends;
    m->capacity = capacity;
    m->head = 0;
    return true;
}

void marks_push(struct marks *m, uint64_t end)
{
    assert(m->count < m->capacity);
    m->ends[(m->head + m->count) % m->capacity] = end;
    m->count++;
}

void marks_acked(struct marks *m, uint64_t offset)
{
    while (m->count > 0 && m->ends[m->head] <= offset) {
        m->head = (m->head + 1) % m->capacity;
        m->count--;
    }
}
