// SPDX-License-Identifier: BSD-3-Clause
/* HELLO: who is there, which versions and features, what this lane is for.
 * Pure. TLVs: u16 tag, u16 length, value; unknown tags are skipped, a tag with
 * bit 15 set that is not known is refused. */
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

#define HELLO_MAGIC 0x4d505859u /* "MPXY", the first TLV's value */

struct hello {
    uint16_t version_min;
    uint16_t version_max;
    uint64_t features; /* bit mask; none defined in version 1 */
    enum wire_lane lane;
    char name[HELLO_NAME_BYTES]; /* the daemon's, for messages only: identity
                                  * comes from the certificate */
    uint8_t instance[HELLO_INSTANCE_BYTES];
    bool has_token;
    uint8_t token[HELLO_TOKEN_BYTES]; /* express and bulk lanes */
};

/* Encodes into out (WIRE_HELLO_MAX_BYTES). Returns the length. */
size_t hello_encode(const struct hello *h, uint8_t *out);

/* ERR_PROTOCOL names the tag, its length and the limit. */
int hello_decode(const uint8_t *in, size_t len_bytes, struct hello *ret_hello,
                 struct error *err);

/* The highest common version, or ERR_UNSUPPORTED naming both ranges. */
int hello_negotiate(const struct hello *mine, const struct hello *theirs,
                    uint16_t *ret_version, uint64_t *ret_features,
                    struct error *err);

#endif
