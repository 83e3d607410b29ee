// SPDX-License-Identifier: BSD-3-Clause
/* A scenario with a mux pair, again and again, each time with the next
 * allocation failing: an error or a loss of comfort, never a crash or a leak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/mux.h"

/* -Wl,--wrap: allocations of the code under test come here. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long fail_at; /* 0: none */
static long allocations;

static bool fails(void)
{
    return fail_at > 0 && ++allocations == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

struct scene {
    struct mux *mux[2];
    struct chunk *chunk;
    struct error err;
};

/* Everything that one end has to say goes to the other. */
static int pass(struct scene *s, int from)
{
    static const enum wire_lane lanes[] = {WIRE_LANE_EXPRESS, WIRE_LANE_BULK};
    for (int i = 0; i < 2; i++) {
        struct mux_out out;
        while (mux_take(s->mux[from], lanes[i], MP_SECOND, &out)) {
            struct frame frame;
            int result = frame_decode(out.header, lanes[i], &frame, &s->err);
            if (result == 0) {
                result = mux_receive_header(s->mux[1 - from], lanes[i], &frame,
                                            MP_SECOND, &s->err);
            }
            if (result == 0) {
                result = mux_receive_payload(
                    s->mux[1 - from], lanes[i], out.payload, out.payload_bytes,
                    out.payload_bytes % 2 ? out.chunk : NULL, &s->err);
            }
            chunk_unref(out.chunk);
            if (result < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* Delivers all but the last byte of each channel, so that something is held
 * and packed. */
static void deliver(struct mux *mux, size_t keep)
{
    struct mux_event ev;
    while (mux_next_event(mux, &ev)) {
    }
    for (uint16_t c = 0; c < 3; c++) {
        struct iovec iov;
        size_t bytes = mux_deliver_bytes(mux, c);
        while (bytes > keep && mux_deliver_peek(mux, c, &iov, 1) == 1) {
            size_t n = iov.iov_len < bytes - keep ? iov.iov_len : bytes - keep;
            mux_delivered(mux, c, n);
            bytes -= n;
        }
    }
    mux_turn_end(mux, MP_SECOND);
}

static int exchange(struct scene *s)
{
    for (int round = 0; round < 4; round++) {
        if (pass(s, 0) < 0) {
            return -1;
        }
        deliver(s->mux[1], round < 2 ? 1 : 0);
        if (pass(s, 1) < 0) {
            return -1;
        }
        deliver(s->mux[0], 0);
    }
    return 0;
}

static int send_some(struct scene *s)
{
    const uint8_t *data = s->chunk->data;
    if (mux_send(s->mux[0], 1, s->chunk, data, 777, 0, 0, &s->err) < 0) {
        return -1;
    }
    for (int i = 0; i < 100; i++) {
        if (mux_send(s->mux[0], 0, s->chunk, data + 2 * i, 11, WIRE_FLAG_MERGE,
                     0, &s->err) < 0 ||
            mux_send_urgent(s->mux[0], 0, s->chunk, data, 7, 0, &s->err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int play(struct scene *s)
{
    struct mux_config config;
    for (int end = 0; end < 2; end++) {
        mux_config_default(&config, end == 0, 1 << 20);
        s->mux[end] = mux_new(&config);
        if (!s->mux[end]) {
            return error_set(&s->err, ERR_NO_MEMORY, "no mux");
        }
    }
    if (mux_open(s->mux[0], 0, WIRE_CLASS_MAIN, &s->err) < 0 ||
        mux_open(s->mux[0], 1, WIRE_CLASS_PREEMPT, &s->err) < 0 ||
        send_some(s) < 0 || exchange(s) < 0) {
        return -1;
    }
    mux_end(s->mux[0], 1);
    mux_reset(s->mux[1], 0, ERR_QEMU_GONE, "gone");
    mux_end(s->mux[1], 1);
    if (exchange(s) < 0 ||
        mux_open(s->mux[0], 0, WIRE_CLASS_MAIN, &s->err) < 0 ||
        mux_open(s->mux[0], 1, WIRE_CLASS_PREEMPT, &s->err) < 0) {
        return -1;
    }
    return send_some(s) < 0 ? -1 : exchange(s);
}

static void each_allocation_may_fail(void **state)
{
    struct chunk *chunk = chunk_new(4096);
    memset(chunk->data, 'x', chunk->size_bytes);
    int errors = 0;
    for (long n = 1;; n++) {
        struct scene s = {.chunk = chunk};
        allocations = 0;
        fail_at = n;
        int result = play(&s);
        bool reached = allocations >= n;
        fail_at = 0;
        if (result < 0) {
            assert_int_equal(s.err.code, ERR_NO_MEMORY);
            assert_true(s.err.text[0] != '\0');
            errors++;
        }
        mux_free(s.mux[0]);
        mux_free(s.mux[1]);
        assert_int_equal(chunk->refs, 1);
        if (!reached) {
            assert_int_equal(result, 0);
            break;
        }
    }
    assert_true(errors > 20);
    chunk_unref(chunk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("mux-memory", tests, NULL, NULL);
}
