// SPDX-License-Identifier: BSD-3-Clause
/* Frames in flight that the other end has to remember one by one: where each
 * ends, so that an acknowledged offset says how many are left. Pure. */
#ifndef TRANSPORT_MARKS_H
#define TRANSPORT_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct marks {
    uint64_t *ends; /* ring of offsets, rising */
    unsigned capacity;
    unsigned head;
    unsigned count;
};

void marks_clear(struct marks *m);

/* Makes sure that count marks fit; false when out of memory. */
bool marks_reserve(struct marks *m, unsigned count);

/* A frame left that ends at offset end. Room was reserved. */
void marks_push(struct marks *m, uint64_t end);

/* Everything up to offset is acknowledged. */
void marks_acked(struct marks *m, uint64_t offset);

#endif
