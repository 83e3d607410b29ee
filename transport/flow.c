// SPDX-License-Identifier: BSD-3-Clause
/* Credit arithmetic. */
#include "transport/flow.h"

#include <assert.h>
#include <inttypes.h>

void flow_tx_init(struct flow_tx *tx, uint64_t initial_credit_bytes)
{
    *tx = (struct flow_tx){.limit = initial_credit_bytes};
}

void flow_tx_sent(struct flow_tx *tx, uint64_t len_bytes)
{
    assert(len_bytes <= flow_tx_room(tx));
    tx->sent += len_bytes;
}

int flow_tx_ack(struct flow_tx *tx, uint64_t offset, uint64_t limit,
                uint64_t *ret_newly_bytes, struct error *err)
{
    if (offset > tx->sent) {
        return error_set(err, ERR_PROTOCOL,
                         "ACK of offset %" PRIu64 ", only %" PRIu64
                         " were sent",
                         offset, tx->sent);
    }
    if (offset < tx->acked) {
        return error_set(err, ERR_PROTOCOL,
                         "ACK goes back to offset %" PRIu64 " from %" PRIu64,
                         offset, tx->acked);
    }
    if (limit < tx->limit) {
        return error_set(err, ERR_PROTOCOL,
                         "ACK takes credit back to %" PRIu64 " from %" PRIu64,
                         limit, tx->limit);
    }
    *ret_newly_bytes = offset - tx->acked;
    tx->acked = offset;
    tx->limit = limit;
    return 0;
}

void flow_rx_init(struct flow_rx *rx, uint64_t initial_credit_bytes)
{
    *rx = (struct flow_rx){.granted = initial_credit_bytes};
}

int flow_rx_data(struct flow_rx *rx, uint64_t offset, uint64_t len_bytes,
                 struct error *err)
{
    if (offset != rx->received) {
        return error_set(err, ERR_PROTOCOL,
                         "DATA at offset %" PRIu64 ", expected %" PRIu64,
                         offset, rx->received);
    }
    if (len_bytes > rx->granted - rx->received) {
        return error_set(err, ERR_PROTOCOL,
                         "DATA of %" PRIu64 " bytes at offset %" PRIu64
                         " exceeds the credit, which ends at %" PRIu64,
                         len_bytes, offset, rx->granted);
    }
    rx->received += len_bytes;
    return 0;
}

void flow_rx_delivered(struct flow_rx *rx, uint64_t len_bytes)
{
    assert(len_bytes <= flow_rx_held(rx));
    rx->delivered += len_bytes;
}

void flow_rx_grant(struct flow_rx *rx, uint64_t window_bytes)
{
    uint64_t limit = rx->delivered + window_bytes;
    if (limit > rx->granted) {
        rx->granted = limit;
    }
    rx->acked = rx->delivered;
}
