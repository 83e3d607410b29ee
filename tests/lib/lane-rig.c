// SPDX-License-Identifier: BSD-3-Clause
/* What the tests of lanes share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/lane-rig.h"
#include "tests/lib/pki.h"

struct lane_rig rig;

int rig_set_up(void **state)
{
    struct error err = ERROR_INIT;

    rig.params = (struct lane_params){.handshake_timeout = 20 * MP_SECOND,
                                      .rekey_bytes = 1000 * 1000};
    rig.dir = pki_new();
    pki_make(rig.dir, "", "host-a host-b");
    rig.tls_a = tls_load(pki_path(rig.dir, "host-a"), &err);
    rig.tls_b = tls_load(pki_path(rig.dir, "host-b"), &err);
    rig.loop = loop_new("test", &err);
    return rig.tls_a && rig.tls_b && rig.loop ? 0 : -1;
}

int rig_tear_down(void **state)
{
    loop_free(rig.loop);
    tls_unref(rig.tls_a);
    tls_unref(rig.tls_b);
    pki_free(rig.dir);
    return 0;
}

void rig_pair(struct end *a, struct end *b, enum wire_lane kind)
{
    lanes_pair(rig.loop, a, b, rig.tls_a, rig.tls_b, "host-b", kind,
               &rig.params);
    assert_non_null(a->lane);
    assert_non_null(b->lane);
}

void rig_close(struct end *a, struct end *b)
{
    lane_close(a->lane);
    lane_close(b->lane);
}

void rig_start_sending(struct end *end, uint64_t bytes, uint32_t max_frame)
{
    end->to_send_bytes = bytes;
    end->max_frame_bytes = max_frame;
    end_pump(end);
}

bool rig_all_received(void *arg)
{
    struct end **ends = arg;
    return (ends[0]->received_bytes == ends[1]->to_send_bytes &&
            ends[1]->received_bytes == ends[0]->to_send_bytes) ||
           ends[0]->closings || ends[1]->closings;
}

void rig_assert_whole(const struct end *end)
{
    if (end->closings) {
        fail_msg("closed: %s", end->err.text);
    }
    assert_false(end->is_damaged);
}

static bool never(void *arg)
{
    return clock_now() > *(mp_time *)arg;
}

void rig_run_for(mp_time time)
{
    mp_time until = clock_now() + time;
    lanes_run(rig.loop, never, &until, 30, "time");
}

void rig_run_until_stuck(const struct end *end)
{
    uint64_t before;

    do {
        before = end->sent_bytes;
        rig_run_for(lanes_are_slow() ? 2 * MP_SECOND : 100 * MP_MS);
    } while (end->sent_bytes != before);
    /* less than half a batch is not worth a call */
    assert_true(lane_room(end->lane) < 65536);
}
