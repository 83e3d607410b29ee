// SPDX-License-Identifier: BSD-3-Clause
/* One event loop. */
#include "util/loop.h"

#include <event2/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/list.h"
#include "util/log.h"

struct loop_call {
    struct list node;
    loop_fn fn;
    void *arg;
};

struct loop {
    /* set once */
    struct event_base *base;
    struct event *wake;  /* the mailbox has something */
    struct event *defer; /* the deferred list has something */
    int wake_fd;
    char name[16];
    pthread_t thread;
    bool has_thread;

    /* under lock */
    pthread_mutex_t lock;
    struct list posted;
    bool stopping;

    /* of the loop's thread */
    struct list deferred;
    struct list exits;
};

static void run_calls(struct list *calls)
{
    while (!list_is_empty(calls)) {
        struct loop_call *call =
            container_of(calls->next, struct loop_call, node);
        list_remove(&call->node);
        loop_fn fn = call->fn;
        void *arg = call->arg;
        free(call);
        fn(arg);
    }
}

/* Moves all of from to the end of to. */
static void move_all(struct list *to, struct list *from)
{
    while (!list_is_empty(from)) {
        struct list *node = from->next;
        list_remove(node);
        list_append(to, node);
    }
}

static bool take_posted(struct loop *loop, struct list *calls)
{
    pthread_mutex_lock(&loop->lock);
    move_all(calls, &loop->posted);
    bool stopping = loop->stopping;
    pthread_mutex_unlock(&loop->lock);
    return stopping;
}

static void wake_cb(evutil_socket_t fd, short what, void *arg)
{
    struct loop *loop = arg;
    struct list calls;
    uint64_t count;

    if (read(fd, &count, sizeof(count)) < 0) {
        /* EAGAIN: an earlier turn has taken it all */
    }
    list_init(&calls);
    bool stopping = take_posted(loop, &calls);
    run_calls(&calls);
    if (stopping) {
        event_base_loopbreak(loop->base);
    }
}

static void defer_cb(evutil_socket_t fd, short what, void *arg)
{
    struct loop *loop = arg;
    struct list calls;

    list_init(&calls);
    move_all(&calls, &loop->deferred);
    run_calls(&calls);
}

static void libevent_log_cb(int severity, const char *message)
{
    log_write(severity >= EVENT_LOG_WARN ? LOG_LEVEL_WARNING : LOG_LEVEL_DEBUG,
              "libevent", "%s", message);
}

static void set_up_libevent(void)
{
    event_set_log_callback(libevent_log_cb);
    evthread_use_pthreads();
}

static struct loop *make(const char *name, bool is_precise, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_libevent);

    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop) {
        error_set(err, ERR_NO_MEMORY, "loop %s: out of memory", name);
        return NULL;
    }
    strncpy(loop->name, name, sizeof(loop->name) - 1);
    pthread_mutex_init(&loop->lock, NULL);
    list_init(&loop->posted);
    list_init(&loop->deferred);
    list_init(&loop->exits);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    struct event_config *config = event_config_new();
    if (config) {
        if (is_precise) {
            event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
        }
        loop->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (loop->base && loop->wake_fd >= 0) {
        event_base_priority_init(loop->base, LOOP_PRIORITIES);
        loop->wake = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST,
                               wake_cb, loop);
        loop->defer = event_new(loop->base, -1, 0, defer_cb, loop);
    }
    if (!loop->wake || !loop->defer) {
        error_set(err, ERR_INTERNAL, "loop %s: cannot be set up", name);
        loop_free(loop);
        return NULL;
    }
    event_priority_set(loop->wake, LOOP_URGENT);
    event_priority_set(loop->defer, LOOP_URGENT);
    event_add(loop->wake, NULL);
    return loop;
}

struct loop *loop_new(const char *name, struct error *err)
{
    return make(name, true, err);
}

struct loop *loop_new_busy(const char *name, struct error *err)
{
    return make(name, false, err);
}

void loop_free(struct loop *loop)
{
    if (!loop) {
        return;
    }
    struct list calls;
    list_init(&calls);
    do {
        take_posted(loop, &calls);
        move_all(&calls, &loop->deferred);
        run_calls(&calls);
        take_posted(loop, &calls);
        move_all(&calls, &loop->deferred);
    } while (!list_is_empty(&calls));
    while (!list_is_empty(&loop->exits)) {
        struct loop_exit *exit =
            container_of(loop->exits.next, struct loop_exit, node);
        list_remove(&exit->node);
        exit->fn(exit->arg);
    }
    if (loop->wake) {
        event_free(loop->wake);
    }
    if (loop->defer) {
        event_free(loop->defer);
    }
    if (loop->base) {
        event_base_free(loop->base);
    }
    if (loop->wake_fd >= 0) {
        close(loop->wake_fd);
    }
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

void loop_run(struct loop *loop)
{
    event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY);
}

static void wake_up(struct loop *loop)
{
    uint64_t one = 1;
    if (write(loop->wake_fd, &one, sizeof(one)) < 0) {
        /* EAGAIN: the counter is full, so the loop is awake anyway */
    }
}

void loop_stop(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->lock);
    wake_up(loop);
}

static void *thread_main(void *arg)
{
    struct loop *loop = arg;
    loop_run(loop);
    return NULL;
}

int loop_start_thread(struct loop *loop, struct error *err)
{
    sigset_t all, before;

    /* signals belong to the control loop's thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&loop->thread, NULL, thread_main, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        return error_set_errno(err, ERR_INTERNAL, rc, "thread %s", loop->name);
    }
    pthread_setname_np(loop->thread, loop->name);
    loop->has_thread = true;
    return 0;
}

void loop_join_thread(struct loop *loop)
{
    if (loop->has_thread) {
        pthread_join(loop->thread, NULL);
        loop->has_thread = false;
    }
}

struct event_base *loop_base(struct loop *loop)
{
    return loop->base;
}

const char *loop_name(const struct loop *loop)
{
    return loop->name;
}

mp_time loop_now(struct loop *loop)
{
    /* libevent caches wall clock time only; the vDSO call costs 20 ns */
    return clock_now();
}

static struct loop_call *call_new(loop_fn fn, void *arg)
{
    struct loop_call *call = malloc(sizeof(*call));
    if (!call) {
        log_error("out of memory for a message between loops, ending here: "
                  "the records on disk say how far each migration was");
        abort();
    }
    call->fn = fn;
    call->arg = arg;
    return call;
}

void loop_post(struct loop *loop, loop_fn fn, void *arg)
{
    struct loop_call *call = call_new(fn, arg);
    pthread_mutex_lock(&loop->lock);
    list_append(&loop->posted, &call->node);
    pthread_mutex_unlock(&loop->lock);
    wake_up(loop);
}

void loop_defer(struct loop *loop, loop_fn fn, void *arg)
{
    struct loop_call *call = call_new(fn, arg);
    list_append(&loop->deferred, &call->node);
    event_active(loop->defer, 0, 0);
}

void loop_add_exit(struct loop *loop, struct loop_exit *exit, loop_fn fn,
                   void *arg)
{
    exit->fn = fn;
    exit->arg = arg;
    list_append(&loop->exits, &exit->node);
}

void loop_remove_exit(struct loop_exit *exit)
{
    list_remove(&exit->node);
}

static void timer_cb(evutil_socket_t fd, short what, void *arg)
{
    struct loop_timer *timer = arg;
    timer->fn(timer->arg);
}

void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_fn fn,
                     void *arg)
{
    timer->fn = fn;
    timer->arg = arg;
    timer->event = event_new(loop->base, -1, 0, timer_cb, timer);
    if (!timer->event) {
        log_error("out of memory for a timer, ending here");
        abort();
    }
}

void loop_timer_start(struct loop_timer *timer, mp_time delay)
{
    if (delay < 0) {
        delay = 0;
    }
    struct timeval tv = {.tv_sec = delay / MP_SECOND,
                         .tv_usec = delay % MP_SECOND / 1000};
    /* libevent counts from the begin of this turn, which may have been long: a
     * record's fsync on a busy disk takes seconds */
    event_base_update_cache_time(event_get_base(timer->event));
    event_add(timer->event, &tv);
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (timer->event) {
        event_del(timer->event);
    }
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
    return timer->event && event_pending(timer->event, EV_TIMEOUT, NULL);
}

void loop_timer_done(struct loop_timer *timer)
{
    if (timer->event) {
        event_free(timer->event);
        timer->event = NULL;
    }
}
