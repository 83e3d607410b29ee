// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for HELLO: what is accepted must survive encoding again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t out[WIRE_HELLO_MAX_BYTES];
    struct error err = ERROR_INIT;
    struct hello h, again;

    if (hello_decode(data, size, &h, &err) < 0) {
        if (err.code != ERR_PROTOCOL || !err.text[0]) {
            abort();
        }
        return 0;
    }
    size_t len = hello_encode(&h, out);
    if (hello_decode(out, len, &again, &err) < 0 ||
        memcmp(&h, &again, sizeof(h)) != 0) {
        abort();
    }
    return 0;
}
