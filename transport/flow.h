// SPDX-License-Identifier: BSD-3-Clause
/* Credit: how far each direction of a sub-stream may go. Pure arithmetic on
 * byte offsets; what a peer may not do is refused here, by name. */
#ifndef TRANSPORT_FLOW_H
#define TRANSPORT_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

/* The sender's end: acked <= sent <= limit, always. */
struct flow_tx {
    uint64_t sent;  /* offset of the next byte to send */
    uint64_t acked; /* delivered at the other end, as it says */
    uint64_t limit; /* credit: offset up to which may be sent */
};

/* The receiver's end: acked <= delivered <= received <= granted, always. */
struct flow_rx {
    uint64_t received;
    uint64_t delivered;
    uint64_t acked;   /* delivered, as the other end was last told */
    uint64_t granted; /* credit the other end was last told */
};

void flow_tx_init(struct flow_tx *tx, uint64_t initial_credit_bytes);

static inline uint64_t flow_tx_room(const struct flow_tx *tx)
{
    return tx->limit - tx->sent;
}

static inline uint64_t flow_tx_in_flight(const struct flow_tx *tx)
{
    return tx->sent - tx->acked;
}

/* Credit as it stands: what may be sent and not yet acknowledged. */
static inline uint64_t flow_tx_credit(const struct flow_tx *tx)
{
    return tx->limit - tx->acked;
}

/* len_bytes were sent; the caller has looked at flow_tx_room(). */
void flow_tx_sent(struct flow_tx *tx, uint64_t len_bytes);

/* An ACK came. *ret_newly_bytes: what it acknowledges that was not before.
 * ERR_PROTOCOL: beyond what was sent, going back, credit below what it
 * acknowledges. */
int flow_tx_ack(struct flow_tx *tx, uint64_t offset, uint64_t limit,
                uint64_t *ret_newly_bytes, struct error *err);

void flow_rx_init(struct flow_rx *rx, uint64_t initial_credit_bytes);

/* A DATA frame came. ERR_PROTOCOL: a gap or overlap, more than the credit. */
int flow_rx_data(struct flow_rx *rx, uint64_t offset, uint64_t len_bytes,
                 struct error *err);

static inline uint64_t flow_rx_held(const struct flow_rx *rx)
{
    return rx->received - rx->delivered;
}

static inline uint64_t flow_rx_unacked(const struct flow_rx *rx)
{
    return rx->delivered - rx->acked;
}

void flow_rx_delivered(struct flow_rx *rx, uint64_t len_bytes);

/* An ACK is being sent: grants window_bytes beyond what is delivered (never
 * less than before). */
void flow_rx_grant(struct flow_rx *rx, uint64_t window_bytes);

#endif
