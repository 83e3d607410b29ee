// SPDX-License-Identifier: BSD-3-Clause
/* The source's carrier, page by page: main and preempt go through stream/pages
 * as soon as postcopy has begun. Data loop only. Private to carrier*.c.
 *
 * How it works
 *
 * What QEMU writes on main comes here first (the endpoint's intake). The head
 * is read (stream/head), then pages_watch_main() says where postcopy begins;
 * all of that goes straight into the mux. Behind it the mux is given only what
 * it can send at once: urgent pieces whenever there is one, and one piece of
 * bulk of few pages when credit and window allow it, so that the order is
 * decided as late as possible. From the stream itself the carrier knows that it
 * is in postcopy, whoever drives QEMU.
 *
 * Where page sizes are translated (stream/small-pages), the head is held back
 * until all of it is there, and leaves rewritten.
 *
 * A page that was asked for is timed from its request (seen on the return path)
 * to the acknowledgement that it was written to the destination QEMU. */
#ifndef PROXY_CARRIER_PAGES_H
#define PROXY_CARRIER_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/carrier-pages-stats.h"
#include "proxy/endpoint.h"
#include "stream/small-pages.h"

#define CARRIER_PAGES_SOFT_BYTES (32u << 20)

struct carrier_core;
struct carrier_pages;

extern const struct endpoint_intake carrier_pages_intake;

/* ceiling_bytes of the pool; sizes to be translated (copied), NULL: none. NULL:
 * no memory. */
struct carrier_pages *carrier_pages_new(uint64_t ceiling_bytes,
                                        const struct small_pages *sizes);
void carrier_pages_free(struct carrier_pages *pages); /* NULL is fine */

/* A request passed on the return path. */
void carrier_pages_asked(struct carrier_core *core, const char *block,
                         uint64_t start_bytes, uint32_t length_bytes);

/* Gives the mux what it can send now, and lets QEMU be read on where there is
 * room. May break the path. */
void carrier_pages_fill(struct carrier_core *core);

/* What was acknowledged meanwhile. */
void carrier_pages_acked(struct carrier_core *core);

/* True once for each phase that follows from the stream: precopy behind the
 * head, postcopy where it begins. */
bool carrier_pages_take_phase(struct carrier_core *core,
                              enum mux_phase *ret_phase);

/* The state of the stream behind its head, for people. */
void carrier_pages_format_state(const struct carrier_core *core, char *buf,
                                size_t size);

void carrier_pages_get_stats(const struct carrier_core *core,
                             struct carrier_pages_stats *ret_stats);

#endif
