// SPDX-License-Identifier: BSD-3-Clause
/* A TCP relay on the test's loop, for what networks do: connections that are
 * cut, refused, or say nothing any more. */
#ifndef TESTS_LIB_RELAY_H
#define TESTS_LIB_RELAY_H

#include <stdbool.h>

#include "util/loop.h"

struct relay;

/* Passes connections to listen_text ("127.0.0.1:1") on to target_text. Ends
 * the process (abort) when that cannot be. */
struct relay *relay_new(struct loop *loop, const char *listen_text,
                        const char *target_text);
/* NULL is fine. */
void relay_free(struct relay *relay);

/* Connections so far; the first is number 0. */
unsigned relay_count(const struct relay *relay);
/* Connections that are open. */
unsigned relay_open(const struct relay *relay);

/* Cuts one connection, or all, with a reset at both ends. */
void relay_cut(struct relay *relay, unsigned number);
void relay_cut_all(struct relay *relay);

/* From now on connections are closed at once (true), or passed on again. */
void relay_refuse(struct relay *relay, bool refuse);

/* From now on nothing passes in either direction, new connections included,
 * and nobody is told; false: what was held back goes on. */
void relay_hold(struct relay *relay, bool hold);

#endif
