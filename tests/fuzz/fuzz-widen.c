// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for the widening of page requests: however the bytes come and
 * are cut, the same leaves, as long as what came and no further than it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stream/widen.h"

#define PIECES 16
#define OUTPUT_BYTES_MAX (1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct told {
    uint64_t requests;
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

    told->requests++;
    told->mix = (told->mix ^ start_bytes ^ length_bytes) * 0x100000001b3u +
                strlen(block);
}

/* Shows what came of bytes, step more each time, and takes what is released.
 * Returns how many bytes; *ret_failed: it was refused. */
static size_t run(uint8_t *bytes, size_t size, size_t step, struct told *told,
                  int *ret_failed)
{
    static const struct widen_ops ops = {.on_request = on_request};
    struct small_pages *sizes = small_pages_new(2);
    struct error err = ERROR_INIT;
    size_t written = 0;

    require(sizes != NULL);
    sizes->blocks[0] = (struct small_pages_block){"pc.ram", 2u << 20, 4096};
    sizes->blocks[1] = (struct small_pages_block){"vga.vram", 4096, 4096};
    struct widen *widen = widen_new(sizes, &ops, told);
    require(widen != NULL);
    *ret_failed = 0;
    for (size_t here = step; !*ret_failed; here += step) {
        size_t until = here < size ? here : size;
        struct iovec iov[PIECES];
        size_t len = 0, from = written;
        int count = 0;

        for (; from < until && count < PIECES; count++) {
            size_t n =
                count < PIECES - 1 ? 1 + (until - from) / 2 : until - from;
            iov[count] = (struct iovec){bytes + from, n};
            from += n;
        }
        *ret_failed = widen_look(widen, iov, count, &len, &err) < 0;
        require(!*ret_failed == (err.text[0] == '\0'));
        if (!*ret_failed) {
            require(len <= until - written);
            widen_written(widen, len);
            written += len;
            if (until == size && len == 0) {
                break;
            }
        }
    }
    widen_free(widen);
    free(sizes);
    return written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t whole[OUTPUT_BYTES_MAX], pieces[OUTPUT_BYTES_MAX];
    struct told by_whole = {0}, by_pieces = {0};
    int whole_failed, pieces_failed;

    size = size < OUTPUT_BYTES_MAX ? size : OUTPUT_BYTES_MAX;
    memcpy(whole, data, size);
    memcpy(pieces, data, size);
    size_t all = run(whole, size, size + 1, &by_whole, &whole_failed);
    size_t some = run(pieces, size, 1 + size % 13, &by_pieces, &pieces_failed);
    require(whole_failed == pieces_failed);
    require(memcmp(&by_whole, &by_pieces, sizeof(by_whole)) == 0);
    if (!whole_failed) {
        require(all == some);
        require(memcmp(whole, pieces, size) == 0);
    }
    return 0;
}
