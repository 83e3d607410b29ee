// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for the return path parser: however the bytes are cut, it
 * must say the same and tell the same requests. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stream/return-path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct told {
    uint64_t requests;
    uint64_t bytes;
    uint64_t mix; /* of all that was told, in order */
};

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void on_request(void *arg, const char *block, uint64_t start_bytes,
                       uint32_t length_bytes)
{
    struct told *told = arg;

    require(block[0] != '\0' && length_bytes > 0);
    told->requests++;
    told->bytes += length_bytes;
    told->mix = (told->mix ^ start_bytes) * 0x100000001b3u + strlen(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct stream_return_path_ops ops = {.on_request = on_request};
    static struct stream_return_path_parser *whole, *pieces;
    static struct told by_whole, by_pieces;

    if (!whole) {
        whole = stream_return_path_new(&ops, &by_whole);
        pieces = stream_return_path_new(&ops, &by_pieces);
        require(whole && pieces);
    }
    memset(&by_whole, 0, sizeof by_whole);
    memset(&by_pieces, 0, sizeof by_pieces);
    stream_return_path_reset(whole);
    stream_return_path_reset(pieces);
    size_t taken = stream_return_path_feed(whole, data, size);
    size_t at = 0;
    while (at < size) {
        size_t n = 1 + at % 23;
        n = n < size - at ? n : size - at;
        size_t used = stream_return_path_feed(pieces, data + at, n);
        at += used;
        if (used < n) {
            break;
        }
    }

    const struct stream_return_path *path = stream_return_path_get(whole);
    require(at == taken && path->offset_bytes == taken);
    require(memcmp(path, stream_return_path_get(pieces), sizeof *path) == 0);
    require(memcmp(&by_whole, &by_pieces, sizeof by_whole) == 0);
    require(by_whole.requests == path->requests);
    require(by_whole.bytes == path->requested_bytes);
    require(path->state != STREAM_RETURN_PATH_OPEN || taken == size);
    require((path->state == STREAM_RETURN_PATH_OPAQUE) ==
            (path->reason[0] != '\0'));
    return 0;
}
