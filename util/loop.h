// SPDX-License-Identifier: BSD-3-Clause
/* One event loop: an event_base, its thread's view of time, deferred calls
 * and a mailbox for calls from other threads.
 *
 * Every object with I/O belongs to exactly one loop and is told which; there
 * is no current or global loop. Everything but loop_post() and loop_stop()
 * may be called only from the loop's own thread (or before it runs). */
#ifndef UTIL_LOOP_H
#define UTIL_LOOP_H

#include <event2/event.h>
#include <stdbool.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

struct loop;
typedef void (*loop_fn)(void *arg);

/* Priorities of events, for event_priority_set(). */
enum { LOOP_URGENT, LOOP_NORMAL, LOOP_IDLE, LOOP_PRIORITIES };

/* A new loop; name is copied and shows in logs and as thread name.
 * NULL and *err on failure. Free with loop_free(). */
struct loop *loop_new(const char *name, struct error *err);

/* The same for a loop that wakes very often: its timers are right within some
 * 5 ms only, which saves a system call at each wake. */
struct loop *loop_new_busy(const char *name, struct error *err);

/* Frees the loop after it has ended. Calls posted but not yet made are made
 * now (they may own memory). NULL is fine. */
void loop_free(struct loop *loop);

/* Runs until loop_stop(). */
void loop_run(struct loop *loop);

/* Ends loop_run() after the current batch. Any thread. */
void loop_stop(struct loop *loop);

/* Starts a thread that runs the loop, with all signals blocked; join ends it
 * (loop_stop() first). */
int loop_start_thread(struct loop *loop, struct error *err);
void loop_join_thread(struct loop *loop);

struct event_base *loop_base(struct loop *loop);
const char *loop_name(const struct loop *loop);

/* Time at the start of the current batch of events; cheap. */
mp_time loop_now(struct loop *loop);

/* Calls fn(arg) on the loop's thread, in the order posted. Any thread. Aborts
 * the process when out of memory: a lost message between loops could lose a
 * guest, a dead daemon leaves the records. */
void loop_post(struct loop *loop, loop_fn fn, void *arg);

/* Calls fn(arg) once the current callback has returned to the loop: the way to
 * free an object from inside its own callback. Same thread only. */
void loop_defer(struct loop *loop, loop_fn fn, void *arg);

/* Something that nobody owns but the loop itself (a connection that says its
 * last words): fn(arg) is called by loop_free() to release it, unless it was
 * removed before. Embedded in the object. */
struct loop_exit {
    struct list node;
    loop_fn fn;
    void *arg;
};

void loop_add_exit(struct loop *loop, struct loop_exit *exit, loop_fn fn,
                   void *arg);
void loop_remove_exit(struct loop_exit *exit);

/* A one-shot timer, embedded in its owner. */
struct loop_timer {
    struct event *event;
    loop_fn fn;
    void *arg;
};

/* Prepares a timer (not running). Aborts when out of memory. */
void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_fn fn,
                     void *arg);
/* (Re)starts it to fire once after delay. */
void loop_timer_start(struct loop_timer *timer, mp_time delay);
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_running(const struct loop_timer *timer);
/* Stops and releases; may be called again, and on a zeroed timer. */
void loop_timer_done(struct loop_timer *timer);

#endif
