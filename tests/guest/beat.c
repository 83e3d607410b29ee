// SPDX-License-Identifier: BSD-3-Clause
// A ticker of high priority: the guest's own worst gap, and a byte per tick.
//
// The guest's clock stands still while QEMU has the guest paused, so the
// guest cannot see its own blackout. Therefore each tick also puts a byte on
// QEMU's debug port (isa-debugcon, 0xe9): a counter, whose bytes the host
// stamps with its own clock. Bytes of two QEMUs put in order of arrival must
// count up without a step back: the guest ran in one place at a time.
#include "work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/io.h>

enum { BEAT_PORT = 0xe9 };

static _Atomic uint64_t worst_gap_us;

static void *tick(void *arg)
{
    uint64_t period_us = (uint64_t)(uintptr_t)arg * 1000;
    uint64_t last_us = now_us(), next_us = last_us;
    unsigned char count = 0;

    if (ioperm(BEAT_PORT, 1, 1))
        die("what=ioperm");
    for (;;) {
        uint64_t now;

        next_us += period_us;
        sleep_until_us(next_us);
        outb(count++, BEAT_PORT);
        now = now_us();
        if (now - last_us > atomic_load(&worst_gap_us))
            atomic_store(&worst_gap_us, now - last_us);
        last_us = now;
        if (next_us < now)
            next_us = now; // no burst after a stall
    }
    return NULL;
}

void beat_start(const struct work_options *options)
{
    struct sched_param priority = {.sched_priority = 50};
    pthread_attr_t attr;
    pthread_t thread;

    if (!options->beat_ms)
        return;
    pthread_attr_init(&attr);
    pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
    pthread_attr_setschedparam(&attr, &priority);
    if (pthread_create(&thread, &attr, tick,
                       (void *)(uintptr_t)options->beat_ms))
        die("what=pthread_create thread=beat");
    pthread_attr_destroy(&attr);
}

uint64_t beat_collect_gap_us(void)
{
    return atomic_exchange(&worst_gap_us, 0);
}
