// SPDX-License-Identifier: BSD-3-Clause
/* Credit: what is allowed adds up, what is not is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/flow.h"
#include "transport/marks.h"

static void sender_stops_at_the_limit(void **state)
{
    struct flow_tx tx;
    uint64_t newly = 99;
    flow_tx_init(&tx, 100);
    assert_int_equal(flow_tx_room(&tx), 100);
    flow_tx_sent(&tx, 60);
    assert_int_equal(flow_tx_room(&tx), 40);
    flow_tx_sent(&tx, 40);
    assert_int_equal(flow_tx_room(&tx), 0);
    assert_int_equal(flow_tx_in_flight(&tx), 100);
    assert_int_equal(flow_tx_ack(&tx, 30, 130, &newly, NULL), 0);
    assert_int_equal(newly, 30);
    assert_int_equal(flow_tx_room(&tx), 30);
    assert_int_equal(flow_tx_in_flight(&tx), 70);
    assert_int_equal(flow_tx_credit(&tx), 100);
    assert_int_equal(flow_tx_ack(&tx, 30, 130, &newly, NULL), 0);
    assert_int_equal(newly, 0);
}

static void assert_ack_refused(struct flow_tx *tx, uint64_t offset,
                               uint64_t limit, const char *text)
{
    struct flow_tx before = *tx;
    struct error err = ERROR_INIT;
    uint64_t newly = 7;
    assert_int_equal(flow_tx_ack(tx, offset, limit, &newly, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_string_equal(err.text, text);
    assert_memory_equal(tx, &before, sizeof(before));
    assert_int_equal(newly, 7);
}

static void ack_that_cannot_be_is_refused(void **state)
{
    struct flow_tx tx;
    uint64_t newly;
    flow_tx_init(&tx, 100);
    flow_tx_sent(&tx, 50);
    assert_int_equal(flow_tx_ack(&tx, 20, 120, &newly, NULL), 0);
    assert_ack_refused(&tx, 51, 200, "ACK of offset 51, only 50 were sent");
    assert_ack_refused(&tx, 19, 200, "ACK goes back to offset 19 from 20");
    assert_ack_refused(&tx, 20, 119, "ACK takes credit back to 119 from 120");
    assert_ack_refused(&tx, UINT64_MAX, UINT64_MAX,
                       "ACK of offset 18446744073709551615, only 50 were sent");
}

static void receiver_grants_beyond_what_is_delivered(void **state)
{
    struct flow_rx rx;
    flow_rx_init(&rx, 100);
    assert_int_equal(flow_rx_data(&rx, 0, 100, NULL), 0);
    assert_int_equal(flow_rx_held(&rx), 100);
    flow_rx_delivered(&rx, 40);
    assert_int_equal(flow_rx_held(&rx), 60);
    assert_int_equal(flow_rx_unacked(&rx), 40);
    flow_rx_grant(&rx, 100);
    assert_int_equal(rx.granted, 140);
    assert_int_equal(flow_rx_unacked(&rx), 0);
    flow_rx_grant(&rx, 10);
    assert_int_equal(rx.granted, 140); /* never taken back */
}

static void assert_data_refused(struct flow_rx *rx, uint64_t offset,
                                uint64_t len, const char *text)
{
    struct flow_rx before = *rx;
    struct error err = ERROR_INIT;
    assert_int_equal(flow_rx_data(rx, offset, len, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_string_equal(err.text, text);
    assert_memory_equal(rx, &before, sizeof(before));
}

static void data_that_cannot_be_is_refused(void **state)
{
    struct flow_rx rx;
    flow_rx_init(&rx, 100);
    assert_int_equal(flow_rx_data(&rx, 0, 60, NULL), 0);
    assert_data_refused(&rx, 61, 1, "DATA at offset 61, expected 60");
    assert_data_refused(&rx, 59, 1, "DATA at offset 59, expected 60");
    assert_data_refused(&rx, 60, 41,
                        "DATA of 41 bytes at offset 60 exceeds the credit, "
                        "which ends at 100");
    assert_data_refused(&rx, 60, UINT64_MAX,
                        "DATA of 18446744073709551615 bytes at offset 60 "
                        "exceeds the credit, which ends at 100");
    assert_int_equal(flow_rx_data(&rx, 60, 40, NULL), 0);
}

static void marks_leave_as_they_are_acknowledged(void **state)
{
    struct marks m = {0};
    assert_true(marks_reserve(&m, 3));
    marks_push(&m, 10);
    marks_push(&m, 20);
    marks_push(&m, 30);
    marks_acked(&m, 9);
    assert_int_equal(m.count, 3);
    marks_acked(&m, 20);
    assert_int_equal(m.count, 1);
    marks_acked(&m, 30);
    assert_int_equal(m.count, 0);
    marks_clear(&m);
}

/* The ring turns and grows while it is turned: order and count survive. */
static void marks_grow_while_turned(void **state)
{
    struct marks m = {0};
    uint64_t pushed = 0, acked = 0;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 20; i++) {
            assert_true(marks_reserve(&m, m.count + 1));
            marks_push(&m, ++pushed);
        }
        acked += 13;
        marks_acked(&m, acked);
        assert_int_equal(m.count, pushed - acked);
    }
    assert_true(m.capacity < 2 * (pushed - acked) + 64);
    marks_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sender_stops_at_the_limit),
        cmocka_unit_test(ack_that_cannot_be_is_refused),
        cmocka_unit_test(receiver_grants_beyond_what_is_delivered),
        cmocka_unit_test(data_that_cannot_be_is_refused),
        cmocka_unit_test(marks_leave_as_they_are_acknowledged),
        cmocka_unit_test(marks_grow_while_turned),
    };
    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
