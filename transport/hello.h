// SPDX-License-Identifier: BSD-3-Clause
/* HELLO: who is there, which versions and features, what this lane is for.
 * Pure. TLVs: u16 tag, u16 length, value, big endian; the first is MAGIC. Tags
 * that are not known are skipped, unless bit 15 is set: then HELLO is refused.
 * A known tag may come once. MAGIC, VERSIONS, LANE, NAME and INSTANCE must be
 * there, TOKEN on express and bulk lanes and nowhere else. */
#ifndef TRANSPORT_HELLO_H
#define TRANSPORT_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire.h"
#include "util/error.h"

#define HELLO_NAME_BYTES 64     /* with the final NUL */
#define HELLO_INSTANCE_BYTES 16 /* random, new at each start of a daemon */
#define HELLO_TOKEN_BYTES 32    /* names a migration's session; secret */

#define HELLO_MAGIC 0x4d505859u /* "MPXY" */

#define HELLO_TAG_CRITICAL 0x8000u /* must be understood */
#define HELLO_TAG_MAGIC 0x8001u    /* u32 */
#define HELLO_TAG_VERSIONS 0x8002u /* u16 lowest, u16 highest */
#define HELLO_TAG_FEATURES 0x0003u /* u64 bit mask; absent: 0 */
#define HELLO_TAG_LANE 0x8004u     /* u8 enum wire_lane */
#define HELLO_TAG_NAME 0x0005u     /* 1 to 63 of [A-Za-z0-9._-] */
#define HELLO_TAG_INSTANCE 0x8006u /* 16 bytes */
#define HELLO_TAG_TOKEN 0x8007u    /* 32 bytes */

struct hello {
    uint16_t version_min;
    uint16_t version_max;
    uint64_t features; /* bit mask; none defined in version 1 */
    enum wire_lane lane;
    char name[HELLO_NAME_BYTES]; /* the daemon's, for messages only: identity
                                  * comes from the certificate */
    uint8_t instance[HELLO_INSTANCE_BYTES];
    bool has_token; /* on express and bulk lanes, and only there */
    uint8_t token[HELLO_TOKEN_BYTES];
};

/* Whether h is one that hello_decode() would accept. ERR_PROTOCOL names what is
 * wrong. */
int hello_check(const struct hello *h, struct error *err);

/* Encodes into out (WIRE_HELLO_MAX_BYTES). Returns the length. h must pass
 * hello_check(). */
size_t hello_encode(const struct hello *h, uint8_t *out);

/* ERR_PROTOCOL names the tag, its length and the limit. */
int hello_decode(const uint8_t *in, size_t len_bytes, struct hello *ret_hello,
                 struct error *err);

/* The highest common version and the common features, or ERR_UNSUPPORTED
 * naming both ranges of versions. */
int hello_negotiate(const struct hello *mine, const struct hello *theirs,
                    uint16_t *ret_version, uint64_t *ret_features,
                    struct error *err);

#endif
