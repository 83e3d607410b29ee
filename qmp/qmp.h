// SPDX-License-Identifier: BSD-3-Clause
/* An asynchronous QMP client (QEMU docs/interop/qmp-spec.txt, 6.2 to 10.2).
 *
 * How it works: greeting -> qmp_capabilities (with oob where it is offered) ->
 * ready. Commands may be submitted at once; they leave when the monitor is
 * ready. In-band commands are answered by QEMU in order, one at a time; at
 * most QMP_IN_BAND_MAX are with QEMU at any time (its own queue holds 8, and a
 * full one stops it from reading, out-of-band commands included), the others
 * wait here. Out-of-band commands leave at once and overtake.
 *
 * Each submit ends in exactly one callback. The owner is told of the end of
 * the connection once (on_closed) and then calls qmp_close(); it may call
 * qmp_close() from within any callback and at any time. */
#ifndef QMP_QMP_H
#define QMP_QMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/clock.h"
#include "util/error.h"

struct json_object;
struct loop;
struct qmp;

#define QMP_IN_BAND_MAX 4 /* in-band commands handed to QEMU, not answered */
#define QMP_CALLS_MAX 256 /* unanswered calls of all kinds */
#define QMP_COMMAND_MAX 65536 /* bytes of one command */

#define QMP_GREETING_TIMEOUT (3 * MP_SECOND)
#define QMP_NEGOTIATION_TIMEOUT (10 * MP_SECOND)

/* Deadlines until the monitor is ready; 0 means the default above. */
struct qmp_params {
    mp_time greeting_timeout;
    mp_time negotiation_timeout;
};

/* Called upwards with the arg of qmp_open(). Any may be NULL. */
struct qmp_ops {
    /* the monitor is ready; qmp_has_oob() is known from here on */
    void (*on_ready)(void *arg);
    /* data may be NULL and belongs to the client (json_object_get() to keep
     * it). timestamp_us is QEMU's wall clock, microseconds since the epoch,
     * -1 where QEMU had none. */
    void (*on_event)(void *arg, const char *name, struct json_object *data,
                     int64_t timestamp_us, mp_time received);
    /* The connection has ended: ERR_MONITOR_BUSY (no greeting), ERR_TIMEOUT
     * (no answer to qmp_capabilities), ERR_QEMU_GONE (end of file, reset),
     * ERR_PROTOCOL (not QMP, or beyond a limit), ERR_QMP (QEMU refused
     * qmp_capabilities). All calls have been called back before. Once, never
     * after qmp_close(). */
    void (*on_closed)(void *arg, const struct error *err);
};

/* The end of a call: result (QEMU's "return", the client's, json_object_get()
 * to keep it) and err NULL, or result NULL and err. */
typedef void (*qmp_cb)(void *arg, struct json_object *result,
                       const struct error *err);

/* A client on a connected, non-blocking socket. Takes ownership of fd on
 * success only. params may be NULL. ops must live as long as the client. */
struct qmp *qmp_open(struct loop *loop, int fd, const struct qmp_params *params,
                     const struct qmp_ops *ops, void *arg, struct error *err);

/* Calls back all open calls with ERR_CANCELLED, before it returns, and closes
 * the socket. After it nothing is called. From within callbacks too. NULL is
 * fine. */
void qmp_close(struct qmp *qmp);

/* Submits a command. args (an object or NULL) is taken in every case. cb (may
 * be NULL) is called later, never from within this function, except when there
 * is no memory or qmp_close() is under way. Errors of the call:
 *   ERR_QMP        QEMU's refusal: "COMMAND: DESC (CLASS)"
 *   ERR_TIMEOUT    no answer within timeout, "COMMAND: no answer in 5 s"; the
 *                  text says if the command was never sent. One that was sent
 *                  may still be carried out. The late answer is dropped and the
 *                  connection stays usable.
 *   ERR_CANCELLED  qmp_close() came first
 *   ERR_LIMIT      more than QMP_CALLS_MAX, or a command too long
 *   else           what on_closed() will say or has said */
void qmp_execute(struct qmp *qmp, const char *command, struct json_object *args,
                 mp_time timeout, qmp_cb cb, void *arg);

/* As qmp_execute(), out of band: it overtakes, and QEMU answers even while its
 * main loop is blocked. ERR_UNSUPPORTED when the monitor has no oob. */
void qmp_execute_oob(struct qmp *qmp, const char *command,
                     struct json_object *args, mp_time timeout, qmp_cb cb,
                     void *arg);

/* QEMU's class of the ERR_QMP error that is being called back ("GenericError",
 * "CommandNotFound", ...); valid within that callback only. */
const char *qmp_error_class(const struct qmp *qmp);

/* True once the monitor is ready and until the connection ends. */
bool qmp_is_ready(const struct qmp *qmp);

/* True if the monitor runs commands out of band. Known once ready. */
bool qmp_has_oob(const struct qmp *qmp);

/* "7.2.22", for people only: behaviours are probed (qmp-probe.h). "" until the
 * greeting is in. */
const char *qmp_version(const struct qmp *qmp);

/* The process that listens on the monitor: pid and start time (field 22 of
 * /proc/PID/stat, clock ticks since boot), as they were at qmp_open(). Where a
 * manager opened the listening socket and handed it to QEMU, this is the
 * manager. ERR_UNSUPPORTED if it is not known (another pid namespace, gone). */
int qmp_peer(const struct qmp *qmp, pid_t *ret_pid,
             uint64_t *ret_start_time_ticks, struct error *err);

#endif
