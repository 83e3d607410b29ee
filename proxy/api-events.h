// SPDX-License-Identifier: BSD-3-Clause
/* The events that GET /v1/events tells, as text of Server-Sent Events, and the
 * last of them for those who come back. Pure.
 *
 * Numbers. Each kept event has the number after the one before. The first
 * number is the caller's: one that grows from one daemon's start to the next
 * (the wall clock in microseconds) makes numbers of an earlier daemon smaller
 * than all of this one, so that whoever comes back with one learns that
 * something is missing instead of missing it. */
#ifndef PROXY_API_EVENTS_H
#define PROXY_API_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* Kept events: as many as these allow, at least the last one. */
#define API_EVENTS_KEPT_MAX 1024
#define API_EVENTS_KEPT_BYTES_MAX (2 * 1024 * 1024)
/* Numbers fit what every JSON reader holds exactly. */
#define API_EVENTS_SEQUENCE_MAX ((UINT64_C(1) << 53) - 1)

struct api_events;

/* first: the number before that of the first event. NULL when out of memory. */
struct api_events *api_events_new(uint64_t first);
void api_events_free(struct api_events *events); /* NULL is fine */

/* The number of the last event. */
uint64_t api_events_last(const struct api_events *events);

/* Keeps an event: type is a word, data one line of JSON. Returns its text,
 * which is the ring's and valid until the next event; NULL when out of memory:
 * the number is used up all the same, so that its lack shows. */
const char *api_events_add(struct api_events *events, const char *type,
                           const char *data);

/* The text of an event without a number, which is not kept; the caller's to
 * free. NULL when out of memory. */
char *api_events_make_passing(const char *type, const char *data);

/* What a follower gets first, the caller's to free; NULL when out of memory.
 * after: the number of the last event it has seen, or UINT64_MAX for none.
 * First an event "hello" with the number after which all follow; if something
 * behind after is no longer kept (or after is no number of ours) an event "gap"
 * says so; then the kept ones. */
char *api_events_replay(const struct api_events *events, uint64_t after);

/* Reads a number as clients give it back. ERR_BAD_REQUEST. */
int api_events_parse_sequence(const char *text, uint64_t *ret_sequence,
                              struct error *err);

#endif
