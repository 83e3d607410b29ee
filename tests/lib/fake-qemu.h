// SPDX-License-Identifier: BSD-3-Clause
/* A QMP server that plays a script, on the test's own loop.
 *
 * The script has one item a line; empty lines and lines with # are skipped:
 *   handshake [no-oob]        greeting, expect qmp_capabilities, reply {}
 *   greeting [no-oob]         the greeting alone
 *   expect COMMAND [ARGS]     wait for the next command, in band; with ARGS
 *                             (JSON, "{}" for none) its arguments must be equal
 *   expect-oob COMMAND [ARGS] the same, out of band
 *   reply COMMAND VALUE       answer the oldest expected COMMAND
 *   error COMMAND CLASS TEXT  likewise, with an error
 *   always COMMAND VALUE      from now on answer each COMMAND by itself, at
 *                             once; it never meets an expect
 *   event NAME [DATA]
 *   raw TEXT                  TEXT and a line end, whatever it is
 *   bytes HEX                 bytes, without a line end
 *   fill N                    N times "x"
 *   cut N                     from now on at most N bytes leave per loop turn
 *   wait MS                   once all is sent
 *   shutdown                  once all is sent: no more from us (SHUT_WR)
 *   deaf                      from now on read nothing (SHUT_RD)
 *   close                     once all is sent
 *   stay                      keep the connection open at the script's end,
 *                             and let the client go before it
 * At the script's end the connection is closed, unless it says stay. */
#ifndef TESTS_LIB_FAKE_QEMU_H
#define TESTS_LIB_FAKE_QEMU_H

#include <stdbool.h>

#include "util/loop.h"

struct fake_qemu;
struct json_object;

/* A server on one end of a socket pair. Fails the process (abort) on a broken
 * script or no memory: this is a test. */
struct fake_qemu *fake_qemu_new(struct loop *loop, const char *script);

/* The other end of the pair, non-blocking; the caller's from now on. Once. */
int fake_qemu_take_fd(struct fake_qemu *fake);

/* A server on a unix socket at path, for one client. */
struct fake_qemu *fake_qemu_listen(struct loop *loop, const char *path,
                                   const char *script);

/* Also removes the socket that fake_qemu_listen() made. NULL is fine. */
void fake_qemu_free(struct fake_qemu *fake);

/* True when the script is played to its end. */
bool fake_qemu_is_done(const struct fake_qemu *fake);

/* What did not go by the script ("line 3: expected ..."), or NULL. On the
 * first such thing the connection is closed. */
const char *fake_qemu_failure(const struct fake_qemu *fake);

/* Sees each command as it comes in, before it is looked at. */
typedef void (*fake_qemu_command_fn)(void *arg, const char *command,
                                     struct json_object *args, bool is_oob);
void fake_qemu_watch(struct fake_qemu *fake, fake_qemu_command_fn fn,
                     void *arg);

/* Runs the loop until *done, at most 60 s (valgrind, busy machines). Returns
 * *done. */
bool fake_qemu_run_until(struct loop *loop, const bool *done);

/* Runs the loop for a while. */
void fake_qemu_run_for(struct loop *loop, mp_time time);

#endif
