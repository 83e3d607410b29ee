// SPDX-License-Identifier: BSD-3-Clause
/* Carriers: what follows from main's head. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/carrier-rig.h"
#include "tests/unit/test-stream-input.h"

#include "util/log.h"

#define SMALL 0x1000u
#define HUGE 0x200000u
#define BLOCK_BYTES 0x400000u

/* The head of a postcopy of one block. */
static struct input make_head(uint64_t page_bytes)
{
    struct input in = {0};

    add_configuration(&in, "pc");
    add_advise(&in, page_bytes, SMALL);
    add_ram(&in, BLOCK_BYTES);
    add_block(&in, "pc.ram", BLOCK_BYTES);
    if (page_bytes != SMALL) {
        add_be(&in, page_bytes, 8);
    }
    add_end(&in);
    return in;
}

/* Sends until nothing is taken for a while. */
static void send_until_stuck(struct rig *rig, int fd)
{
    static const char zeros[65536];
    mp_time quiet_since = clock_now();

    while (clock_now() - quiet_since < 300 * MP_MS) {
        if (send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL) > 0) {
            quiet_since = clock_now();
        }
        rig_step(rig, quiet_since + RIG_DEADLINE, "the sender");
    }
}

/* Nobody reads at the destination, and nobody says that setup is over. */
static uint64_t held_after(const void *bytes, size_t len)
{
    struct rig_params params = {.switchover_buffer_bytes = 4 << 20};
    struct rig *rig = rig_new(&params);
    int src = qemu_connect(rig);
    struct carrier_stats stats;

    qemu_send(rig, src, bytes, len);
    int dst = qemu_accept(rig);
    send_until_stuck(rig, src);
    rig_get_stats(rig, SRC, &stats);
    close(src);
    close(dst);
    rig_free(rig);
    return stats.channel[0].held_bytes;
}

static void setup_ends_behind_the_head(void **state)
{
    struct input head = make_head(SMALL);

    assert_true(held_after(head.bytes, head.len) <= 512 << 10);
    /* where it is not known what comes, all is taken that setup may take */
    assert_true(held_after("not a migration stream", 22) >= 3 << 20);
    input_done(&head);
}

static struct small_pages *make_sizes(void)
{
    struct small_pages *sizes = small_pages_new(1);

    assert_non_null(sizes);
    sizes->blocks[0] = (struct small_pages_block){"pc.ram", HUGE, SMALL};
    return sizes;
}

static void page_sizes_are_translated(void **state)
{
    struct small_pages *sizes = make_sizes();
    struct rig_params params = {.preempt = true, .small_pages = sizes};
    struct rig *rig = rig_new(&params);
    struct input head = make_head(HUGE), wanted = make_head(SMALL);
    uint8_t got[512];
    int src = qemu_connect(rig);

    for (size_t at = 0; at < head.len; at++) { /* however it comes */
        qemu_send(rig, src, head.bytes + at, 1);
        rig_run(rig, MP_MS / 10);
    }
    qemu_send(rig, src, "more", 4);
    int dst = qemu_accept(rig);
    assert_true(wanted.len + 4 <= sizeof(got));
    qemu_recv(rig, dst, got, wanted.len + 4);
    assert_memory_equal(got, wanted.bytes, wanted.len);
    assert_memory_equal(got + wanted.len, "more", 4);

    /* and what is asked for is widened */
    static const uint8_t asked[] = {0, 3,    0,    19,  0,   0,   0,    0,
                                    0, 0x3f, 0xf0, 0,   0,   0,   0x10, 0,
                                    6, 'p',  'c',  '.', 'r', 'a', 'm'};
    static const uint8_t widened[] = {0, 3,    0,   19,  0,   0,    0,  0,
                                      0, 0x20, 0,   0,   0,   0x20, 0,  0,
                                      6, 'p',  'c', '.', 'r', 'a',  'm'};
    qemu_send(rig, dst, asked, sizeof(asked) - 1);
    rig_run(rig, 20 * MP_MS);
    qemu_send(rig, dst, asked + sizeof(asked) - 1, 1);
    qemu_recv(rig, src, got, sizeof(widened));
    assert_memory_equal(got, widened, sizeof(widened));
    close(src);
    close(dst);
    rig_free(rig);
    free(sizes);
    input_done(&head);
    input_done(&wanted);
}

/* The destination's QEMU must see nothing of it. */
static void check_broken(const void *bytes, size_t len, const char *text)
{
    struct small_pages *sizes = make_sizes();
    struct rig_params params = {.small_pages = sizes};
    struct rig *rig = rig_new(&params);
    int src = qemu_connect(rig);

    qemu_send(rig, src, bytes, len);
    UNTIL(rig, rig->side[SRC].broken && rig->side[DST].broken);
    if (!strstr(rig->side[SRC].why.text, text) ||
        !strstr(rig->side[DST].why.text, text)) {
        fail_msg("\"%s\", \"%s\"", rig->side[SRC].why.text,
                 rig->side[DST].why.text);
    }
    qemu_recv_end(rig, src);
    close(src);
    rig_free(rig);
    free(sizes);
}

static void what_cannot_be_translated_breaks_the_path(void **state)
{
    struct input other = make_head(0x40000000);

    check_broken(other.bytes, other.len, "1073741824");
    check_broken("not a migration stream", 22, "not understood");
    input_done(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup_ends_behind_the_head),
        cmocka_unit_test(page_sizes_are_translated),
        cmocka_unit_test(what_cannot_be_translated_breaks_the_path),
    };
    /* a failing path is what is tested: its warnings would hide the results */
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
