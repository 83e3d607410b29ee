// SPDX-License-Identifier: BSD-3-Clause
/* The loop: calls from other threads, deferred calls, timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <string.h>

#include <cmocka.h>

#include "util/clock.h"
#include "util/loop.h"

#define POSTS 1000
#define THREADS 4

/* What should have happened by then is lost. */
#define DEADLINE (20 * MP_SECOND)

/* A loop that fails the test rather than hang. */
struct fixture {
    struct loop *loop;
    struct loop_timer deadline;
    int count;
    char log[32];
};

static void deadline_cb(void *arg)
{
    fail_msg("nothing has ended the loop within its deadline");
}

static int set_up(void **state)
{
    static struct fixture fixture;
    struct error err = ERROR_INIT;

    memset(&fixture, 0, sizeof(fixture));
    fixture.loop = loop_new("test", &err);
    assert_non_null(fixture.loop);
    loop_timer_init(&fixture.deadline, fixture.loop, deadline_cb, NULL);
    loop_timer_start(&fixture.deadline, DEADLINE);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    loop_timer_done(&f->deadline);
    loop_free(f->loop);
    return 0;
}

static void note(struct fixture *f, char c)
{
    f->log[strlen(f->log)] = c;
}

static void note_a(void *arg)
{
    note(arg, 'a');
}

static void note_b(void *arg)
{
    note(arg, 'b');
}

static void stop(void *arg)
{
    struct fixture *f = arg;
    note(f, '.');
    loop_stop(f->loop);
}

static void a_loop_has_its_name(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct loop *loop = loop_new("a-name-of-more-than-15-bytes", &err);

    assert_string_equal(loop_name(f->loop), "test");
    assert_non_null(loop_base(f->loop));
    assert_string_equal(loop_name(loop), "a-name-of-more-");
    loop_free(loop);
    loop_free(NULL);
}

static void posted_calls_are_made_in_order(void **state)
{
    struct fixture *f = *state;

    loop_post(f->loop, note_a, f);
    loop_post(f->loop, note_b, f);
    loop_post(f->loop, stop, f);
    loop_run(f->loop);
    assert_string_equal(f->log, "ab.");
}

static void count_cb(void *arg)
{
    struct fixture *f = arg;
    if (++f->count == THREADS * POSTS) {
        loop_stop(f->loop);
    }
}

static void *post_many(void *arg)
{
    struct fixture *f = arg;
    for (int i = 0; i < POSTS; i++) {
        loop_post(f->loop, count_cb, f);
    }
    return NULL;
}

static void no_call_of_several_threads_is_lost(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, f), 0);
    }
    loop_run(f->loop);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(f->count, THREADS * POSTS);
}

struct ping {
    struct loop *other;
    struct fixture *f;
    pthread_t thread;
};

static void pong_cb(void *arg)
{
    struct ping *ping = arg;
    ping->f->count++;
    loop_stop(ping->f->loop);
}

static void ping_cb(void *arg)
{
    struct ping *ping = arg;
    ping->thread = pthread_self();
    loop_post(ping->f->loop, pong_cb, ping);
}

static void a_thread_runs_its_own_loop_until_stopped(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct ping ping = {.f = f, .other = loop_new("other", &err)};

    assert_int_equal(loop_start_thread(ping.other, &err), 0);
    loop_post(ping.other, ping_cb, &ping);
    loop_run(f->loop);
    assert_int_equal(f->count, 1);
    assert_false(pthread_equal(ping.thread, pthread_self()));
    loop_stop(ping.other);
    loop_join_thread(ping.other);
    loop_join_thread(ping.other); /* harmless */
    loop_free(ping.other);
}

static void defer_two(void *arg)
{
    struct fixture *f = arg;
    loop_defer(f->loop, note_b, f);
    loop_defer(f->loop, stop, f);
    note(f, 'a'); /* before the deferred ones */
}

static void deferred_calls_wait_for_the_callback_to_return(void **state)
{
    struct fixture *f = *state;

    loop_post(f->loop, defer_two, f);
    loop_run(f->loop);
    assert_string_equal(f->log, "ab.");
}

static void defer_again(void *arg)
{
    struct fixture *f = arg;
    note(f, 'a');
    loop_defer(f->loop, f->count++ < 3 ? defer_again : stop, f);
}

static void a_deferred_call_may_defer(void **state)
{
    struct fixture *f = *state;

    loop_defer(f->loop, defer_again, f);
    loop_run(f->loop);
    assert_string_equal(f->log, "aaaa.");
}

static void freeing_makes_the_calls_that_are_left(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct loop *loop = loop_new("left", &err);
    struct fixture left = {.loop = loop};

    loop_post(loop, defer_again, &left); /* posts and defers on */
    loop_defer(loop, note_b, &left);
    left.count = 3;
    loop_free(loop);
    assert_int_equal(strlen(left.log), 3);
    assert_non_null(strchr(left.log, 'a'));
    assert_non_null(strchr(left.log, 'b'));
    assert_non_null(strchr(left.log, '.'));
    assert_int_equal(f->count, 0);
}

static void timers_fire_once_in_the_order_of_their_times(void **state)
{
    struct fixture *f = *state;
    struct loop_timer a, b, end;
    mp_time start = loop_now(f->loop);

    loop_timer_init(&a, f->loop, note_a, f);
    loop_timer_init(&b, f->loop, note_b, f);
    loop_timer_init(&end, f->loop, stop, f);
    loop_timer_start(&end, 30 * MP_MS);
    loop_timer_start(&a, 10 * MP_MS);
    loop_timer_start(&b, -5); /* now */
    assert_true(loop_timer_is_running(&a));
    loop_run(f->loop);
    assert_string_equal(f->log, "ba.");
    assert_false(loop_timer_is_running(&a));
    assert_true(loop_now(f->loop) - start >= 30 * MP_MS);
    loop_timer_done(&a);
    loop_timer_done(&b);
    loop_timer_done(&end);
}

static void a_stopped_timer_does_not_fire(void **state)
{
    struct fixture *f = *state;
    struct loop_timer a, b, end;

    loop_timer_init(&a, f->loop, note_a, f);
    loop_timer_init(&b, f->loop, note_b, f);
    loop_timer_init(&end, f->loop, stop, f);
    loop_timer_start(&a, 5 * MP_MS);
    loop_timer_start(&b, 1 * MP_MS);
    loop_timer_start(&b, 10 * MP_MS); /* once, at the later time */
    loop_timer_start(&end, 30 * MP_MS);
    loop_timer_stop(&a);
    assert_false(loop_timer_is_running(&a));
    loop_run(f->loop);
    assert_string_equal(f->log, "b.");
    loop_timer_done(&a);
    loop_timer_done(&a); /* harmless */
    loop_timer_done(&b);
    loop_timer_done(&end);
}

static void a_zeroed_timer_is_harmless(void **state)
{
    struct loop_timer timer = {0};

    loop_timer_stop(&timer);
    assert_false(loop_timer_is_running(&timer));
    loop_timer_done(&timer);
}

/* A callback that takes long, as one that writes a record does, and only then
 * starts a timer; something else wakes the loop at once. */
struct late {
    struct fixture *f;
    struct loop_timer timer;
    mp_time started, fired;
};

#define STALL (60 * MP_MS)

static void late_cb(void *arg)
{
    struct late *late = arg;

    late->fired = clock_now();
    loop_stop(late->f->loop);
}

static void stall_cb(void *arg)
{
    struct late *late = arg;
    mp_time until = clock_now() + STALL;

    while (clock_now() < until) {
    }
    late->started = clock_now();
    loop_timer_start(&late->timer, STALL / 2);
    loop_post(late->f->loop, note_a, late->f);
}

static void a_timer_counts_from_its_start(void **state)
{
    struct fixture *f = *state;
    struct late late = {.f = f};

    loop_timer_init(&late.timer, f->loop, late_cb, &late);
    loop_defer(f->loop, stall_cb, &late);
    loop_run(f->loop);
    assert_string_equal(f->log, "a");
    /* libevent rounds to milliseconds */
    assert_true(late.fired - late.started >= STALL / 2 - MP_MS);
    loop_timer_done(&late.timer);
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_loop_has_its_name),
        LOOP_TEST(posted_calls_are_made_in_order),
        LOOP_TEST(no_call_of_several_threads_is_lost),
        LOOP_TEST(a_thread_runs_its_own_loop_until_stopped),
        LOOP_TEST(deferred_calls_wait_for_the_callback_to_return),
        LOOP_TEST(a_deferred_call_may_defer),
        LOOP_TEST(freeing_makes_the_calls_that_are_left),
        LOOP_TEST(timers_fire_once_in_the_order_of_their_times),
        LOOP_TEST(a_stopped_timer_does_not_fire),
        LOOP_TEST(a_timer_counts_from_its_start),
        cmocka_unit_test(a_zeroed_timer_is_harmless),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
