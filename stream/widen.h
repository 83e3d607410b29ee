// SPDX-License-Identifier: BSD-3-Clause
/* Page requests of a return path, widened to the source's host pages on their
 * way to the source QEMU (small-pages.h says why). Pure.
 *
 * How it works: it looks at what waits to be written, in place. A message is
 * released when all of it is there and a request in it is rewritten; its length
 * stays the same, so nothing is copied and nothing else changes. What is
 * released is to be written; the rest is shown to it again, with more behind.
 * The bitmaps of a recovery pass.
 *
 * Format: as return-path.h. */
#ifndef STREAM_WIDEN_H
#define STREAM_WIDEN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "stream/small-pages.h"
#include "util/error.h"

struct widen_ops {
    /* A request, as the destination made it. block is valid during the call. */
    void (*on_request)(void *arg, const char *block, uint64_t start_bytes,
                       uint32_t length_bytes);
};

struct widen;

/* At the beginning of a return path. sizes and ops are copied. NULL: no memory.
 */
struct widen *widen_new(const struct small_pages *sizes,
                        const struct widen_ops *ops, void *arg);
void widen_free(struct widen *widen); /* NULL is fine */

/* What waits, from the first byte that was not written on. *ret_len: how many
 * bytes from there may be written. -1 with ERR_PROTOCOL: a message that is not
 * known (QEMU might read it otherwise), or a request for what there is not. */
int widen_look(struct widen *widen, const struct iovec *iov, int count,
               size_t *ret_len, struct error *err);

/* So many of them were written. */
void widen_written(struct widen *widen, size_t len);

#endif
