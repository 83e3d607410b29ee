// SPDX-License-Identifier: BSD-3-Clause
/* libFuzzer entry for the pages of a postcopy. The first byte says which
 * channels there are; then come turns: a byte that says what is done (bytes of
 * main, bytes of preempt, a request, a piece taken), and what it needs.
 * Whatever comes, nothing that is made may be longer than its room, nothing is
 * held beyond the pool, and before postcopy all bytes pass. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stream/pages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGE 4096u
#define CEILING_PAGES 64u

struct input {
    const uint8_t *at;
    size_t left;
};

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static const struct stream_head *get_head(void)
{
    static struct stream_head *head;

    if (!head) {
        head = calloc(1, sizeof(*head));
        require(head != NULL);
        head->state = STREAM_HEAD_DONE;
        head->has_postcopy_ram = true;
        head->advise_target_page_bytes = PAGE;
        head->ram.id = 3;
        head->blocks_count = 2;
        strcpy(head->blocks[0].name, "pc.ram");
        head->blocks[0].length_bytes = 256 * PAGE;
        strcpy(head->blocks[1].name, "rom");
        head->blocks[1].length_bytes = 16 * PAGE;
    }
    return head;
}

static uint8_t take_byte(struct input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

/* Up to max bytes; what the input lacks are zeros. */
static size_t take_bytes(struct input *in, uint8_t *buf, size_t max)
{
    size_t n = in->left < max ? in->left : max;

    memset(buf, 0, max);
    memcpy(buf, in->at, n);
    in->at += n;
    in->left -= n;
    return max;
}

/* False: the migration is over. */
static bool give_main(struct pages *pages, struct input *in)
{
    static uint8_t buf[32 * 256];
    size_t len = take_bytes(in, buf, 32u * take_byte(in));
    size_t at = 0;

    if (pages_state(pages) != PAGES_REORDER) {
        at = pages_watch_main(pages, buf, len);
        require(at <= len);
        require(at == len || pages_state(pages) == PAGES_REORDER);
    }
    if (at < len) {
        size_t room = pages_room_main(pages);
        len = len - at < room ? len : at + room;
    }
    return at == len || pages_split_main(pages, buf + at, len - at, NULL) == 0;
}

static bool give_preempt(struct pages *pages, struct input *in)
{
    static uint8_t buf[32 * 256];
    size_t len = take_bytes(in, buf, 32u * take_byte(in));
    size_t room = pages_room_preempt(pages);

    return pages_split_preempt(pages, buf, len < room ? len : room, NULL) == 0;
}

static void take_piece(struct pages *pages, uint8_t how)
{
    static uint8_t buf[PAGES_BULK_BYTES];
    size_t size = PAGES_RECORD_BYTES_MAX * (1 + how % 8u);
    struct pages_out out;

    if (how & 0x80) {
        if (pages_next_urgent(pages, buf, &out)) {
            require(out.len > 0 && out.len <= PAGES_RECORD_BYTES_MAX);
        }
    } else if (pages_next_bulk(pages, buf, size, how & 0x40, &out)) {
        require(out.len > 0 && out.len <= size && !out.is_urgent);
    }
}

static bool turn(struct pages *pages, struct input *in)
{
    switch (take_byte(in) % 4) {
    case 0:
        return give_main(pages, in);
    case 1:
        return give_preempt(pages, in);
    case 2:
        pages_request(pages, take_byte(in) & 1 ? "rom" : "pc.ram",
                      (uint64_t)take_byte(in) * PAGE, PAGE);
        return true;
    default:
        take_piece(pages, take_byte(in));
        return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct pages_config config = {.has_preempt = take_byte(&in) & 1,
                                  .soft_bytes = 8 * PAGE,
                                  .ceiling_bytes = CEILING_PAGES * PAGE};
    struct pages *pages = pages_new(get_head(), &config, NULL);
    struct pages_stats stats;

    require(pages != NULL);
    while (in.left > 0 && turn(pages, &in)) {
        pages_get_stats(pages, &stats);
        require(stats.pool_bytes <= (CEILING_PAGES + PAGES_RESERVE) * PAGE);
    }
    pages_free(pages);
    return 0;
}
