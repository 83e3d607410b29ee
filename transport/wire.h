// SPDX-License-Identifier: BSD-3-Clause
/* The peer protocol's numbers. docs/protocol.md says what they mean; a third
 * party can write the other end from it. All integers are big endian. */
#ifndef TRANSPORT_WIRE_H
#define TRANSPORT_WIRE_H

#include <stdint.h>

#define WIRE_VERSION_MIN 1
#define WIRE_VERSION_MAX 1
#define WIRE_DEFAULT_PORT 16515

/* A frame: this header, then `length` bytes of payload.
 *
 *   0  u8   type
 *   1  u8   flags
 *   2  u16  channel     0 for frames that concern the lane
 *   4  u8   substream   0 bulk, 1 urgent
 *   5  u8   reserved, 0
 *   6  u16  epoch       of the QEMU connection behind the channel
 *   8  u32  length      of the payload, bytes
 *  12  u32  reserved, 0
 *  16  u64  offset
 *  24  u64  arg
 */
#define WIRE_HEADER_BYTES 32

enum wire_type {
    WIRE_HELLO = 1,  /* first frame each way on each lane; TLVs (hello.h) */
    WIRE_GOAWAY = 2, /* last frame: offset = error code, payload = text */
    WIRE_PING = 3,   /* arg: opaque, echoed */
    WIRE_PONG = 4,   /* arg: as in the PING; offset: control lane: the monotonic
                      * clock of who answers, ns; other lanes: 0 */
    WIRE_MESSAGE = 5, /* control lane: one JSON text */
    WIRE_OPEN = 6,    /* offset: order of opening; arg: class; no payload */
    WIRE_DATA = 7,    /* offset: of the first payload byte in its sub-stream.
                       * bulk: arg = urgent frames that must have been delivered
                       * before this one; urgent: arg = bulk offset that must
                       * have been delivered before this one */
    WIRE_END = 8,     /* end of the sender's direction of a channel: offset =
                       * length of the bulk sub-stream; arg = urgent frames that
                       * must have been delivered before */
    WIRE_RESET = 9,   /* the channel is dead both ways: offset = reason code,
                       * payload = text */
    WIRE_ACK = 10,    /* offset: bytes delivered to QEMU; arg: credit limit,
                       * the offset up to which the other end may send */
};

/* flags of DATA */
#define WIRE_FLAG_MERGE 0x01 /* an urgent frame may be put behind this one */
#define WIRE_FLAG_ACK 0x02   /* acknowledge as soon as this is delivered */
#define WIRE_FLAG_WANT 0x04  /* the sender could use more credit than it has */

#define WIRE_SUB_BULK 0
#define WIRE_SUB_URGENT 1
#define WIRE_SUBS 2

/* The first epoch of a channel; 0 stands in frames that concern the lane. */
#define WIRE_EPOCH_FIRST 1
/* Offsets end here, so that adding a length to one cannot overflow. */
#define WIRE_OFFSET_MAX ((uint64_t)1 << 62)

/* Kinds of lane, as HELLO says them. */
enum wire_lane {
    WIRE_LANE_CONTROL = 1, /* one for each pair of hosts: messages */
    WIRE_LANE_EXPRESS =
        2,              /* per migration: what is urgent, acks, return path */
    WIRE_LANE_BULK = 3, /* per migration: the rest */
};

/* Classes of channel, as OPEN says them. */
enum wire_class {
    WIRE_CLASS_MAIN = 1,
    WIRE_CLASS_PREEMPT = 2,
    WIRE_CLASS_MULTIFD = 3,
    WIRE_CLASS_DISK = 4,
};

/* Limits: what a peer can make the other end hold. */
#define WIRE_CHANNELS 64 /* channels of one migration */
#define WIRE_DATA_MAX_BYTES                                                    \
    131040 /* payload of DATA: 8 TLS records less                              \
            * the header */
#define WIRE_URGENT_MAX_BYTES                                                  \
    65536                           /* payload of an urgent DATA: it is held   \
                                     * whole until it may be delivered */
#define WIRE_URGENT_MAX_FRAMES 4096 /* urgent frames held for one channel */
#define WIRE_MARKED_MAX_FRAMES                                                 \
    16384 /* bulk DATA with MERGE or arg != 0 of one channel that are not      \
           * acknowledged: their boundaries are remembered */
#define WIRE_PINGS_MAX 16             /* unanswered PINGs of a lane */
#define WIRE_MESSAGE_MAX_BYTES 262144 /* one control message */
#define WIRE_HELLO_MAX_BYTES 4096
#define WIRE_TEXT_MAX_BYTES 512 /* text of GOAWAY and RESET, UTF-8 */
#define WIRE_INITIAL_CREDIT_BYTES                                              \
    262144 /* before the first ACK, each                                       \
            * sub-stream */

#endif
