// SPDX-License-Identifier: BSD-3-Clause
/* Big-endian integers, the only kind QEMU's stream has in its framing. */
#ifndef STREAM_BYTES_H
#define STREAM_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t bytes_get_be16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return be16toh(value);
}

static inline uint32_t bytes_get_be32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return be32toh(value);
}

static inline uint64_t bytes_get_be64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return be64toh(value);
}

/* Whether n bytes are printable ASCII, as all names in the stream are. */
static inline bool bytes_is_text(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (at[i] < 0x20 || at[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

#endif
