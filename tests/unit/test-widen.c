// SPDX-License-Identifier: BSD-3-Clause
/* Page requests widened on their way, however the bytes are cut. */
#include "tests/unit/test-stream-input.h"

#include "stream/widen.h"

#define SMALL 0x1000u
#define HUGE 0x200000u
#define PIECES 64

struct rig {
    struct small_pages *sizes;
    struct widen *widen;
    struct input in;     /* a return path */
    struct input wanted; /* what the source QEMU is to read */
    char asked[4096];    /* requests as they were made */
};

static void on_request(void *arg, const char *block, uint64_t start_bytes,
                       uint32_t length_bytes)
{
    struct rig *rig = arg;
    size_t at = strlen(rig->asked);

    snprintf(rig->asked + at, sizeof(rig->asked) - at, "%s %llx %x\n", block,
             (unsigned long long)start_bytes, length_bytes);
}

static const struct widen_ops ops = {.on_request = on_request};

static void begin(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    rig->sizes = small_pages_new(2);
    assert_non_null(rig->sizes);
    rig->sizes->blocks[0] = (struct small_pages_block){"pc.ram", HUGE, SMALL};
    rig->sizes->blocks[1] = (struct small_pages_block){"vram", SMALL, SMALL};
    rig->widen = widen_new(rig->sizes, &ops, rig);
    assert_non_null(rig->widen);
}

static void end(struct rig *rig)
{
    widen_free(rig->widen);
    free(rig->sizes);
    input_done(&rig->in);
    input_done(&rig->wanted);
}

static void add_request(struct input *in, const char *block, uint64_t start,
                        uint32_t length)
{
    add_be(in, block ? 3 : 4, 2);
    add_be(in, block ? 13 + strlen(block) : 12, 2);
    add_be(in, start, 8);
    add_be(in, length, 4);
    if (block) {
        add_name(in, block);
    }
}

/* One with a length that is not widened. */
static void add_value(struct input *in, unsigned type, uint32_t value)
{
    add_be(in, type, 2);
    add_be(in, 4, 2);
    add_be(in, value, 4);
}

static void add_bitmap(struct input *in, const char *block)
{
    add_be(in, 5, 2);
    add_be(in, 1 + strlen(block), 2);
    add_name(in, block);
    add_be(in, 64, 8);
    for (int i = 0; i < 8; i++) {
        add_be(in, UINT64_C(0x0004000c00000000) | (unsigned)i, 8);
    }
    add_be(in, UINT64_C(0x0123456789abcdef), 8);
}

static void make_return_path(struct rig *rig)
{
    for (int i = 0; i < 2; i++) {
        struct input *in = i ? &rig->wanted : &rig->in;
        bool wide = i;
        add_value(in, 2, 1);
        add_bitmap(in, "pc.ram");
        add_value(in, 6, 1);
        add_request(in, "pc.ram", wide ? 0 : 0x5000, wide ? HUGE : SMALL);
        add_request(in, NULL, wide ? HUGE : 0x3ff000, wide ? HUGE : SMALL);
        add_request(in, "vram", 0x7000, SMALL);
        add_request(in, NULL, 0x8000, 2 * SMALL);
        add_value(in, 2, 3);
        add_request(in, "pc.ram", HUGE, wide ? HUGE : SMALL);
        add_be(in, 7, 2);
        add_be(in, 0, 2);
        add_value(in, 1, 0);
    }
}

static const char *asked_in_all(void)
{
    return "pc.ram 5000 1000\npc.ram 3ff000 1000\nvram 7000 1000\n"
           "vram 8000 2000\npc.ram 200000 1000\n";
}

/* Shows bytes [from, until) in pieces of piece bytes, PIECES at most. */
static int look(struct rig *rig, size_t from, size_t until, size_t piece,
                size_t *ret_len, struct error *err)
{
    struct iovec iov[PIECES];
    int count = 0;

    for (; from < until && count < PIECES; count++) {
        size_t n = until - from < piece ? until - from : piece;
        iov[count] = (struct iovec){rig->in.bytes + from, n};
        from += n;
    }
    return widen_look(rig->widen, iov, count, ret_len, err);
}

/* Comes step bytes at a time, in pieces, and of what is released at most most
 * bytes are written at once. */
static void pass(struct rig *rig, size_t step, size_t piece, size_t most)
{
    struct error err = ERROR_INIT;
    size_t written = 0;

    for (size_t here = step; written < rig->in.len; here += step) {
        size_t until = here < rig->in.len ? here : rig->in.len;
        size_t len = 0;
        assert_true(here / step < 4 * rig->in.len);
        assert_int_equal(look(rig, written, until, piece, &len, &err), 0);
        assert_true(len <= until - written);
        len = len < most ? len : most;
        assert_memory_equal(rig->in.bytes + written,
                            rig->wanted.bytes + written, len);
        widen_written(rig->widen, len);
        written += len;
    }
    assert_string_equal(rig->asked, asked_in_all());
}

static void requests_are_widened_however_they_are_cut(void **state)
{
    for (size_t step = 1; step < 80; step += step < 20 ? 1 : 13) {
        for (size_t piece = 5; piece < 80; piece += 11) {
            for (size_t most = 7; most < 200; most += 64) {
                struct rig rig;
                begin(&rig);
                make_return_path(&rig);
                pass(&rig, step, piece, most);
                end(&rig);
            }
        }
    }
}

/* What has no end cannot be released. */
static void a_part_of_a_message_waits(void **state)
{
    struct rig rig;
    struct error err = ERROR_INIT;
    size_t len;

    begin(&rig);
    add_request(&rig.in, "pc.ram", 0x5000, SMALL);
    for (size_t until = 0; until < rig.in.len; until++) {
        assert_int_equal(look(&rig, 0, until, 512, &len, &err), 0);
        assert_int_equal(len, 0);
    }
    assert_string_equal(rig.asked, "");
    assert_int_equal(look(&rig, 0, rig.in.len, 512, &len, &err), 0);
    assert_int_equal(len, rig.in.len);
    end(&rig);
}

static void check_refused(struct rig *rig, const char *text)
{
    struct error err = ERROR_INIT;
    size_t len;

    assert_int_equal(look(rig, 0, rig->in.len, 512, &len, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    if (!strstr(err.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    }
    end(rig);
}

static void what_is_not_known_is_refused(void **state)
{
    struct rig rig;

    begin(&rig);
    add_value(&rig.in, 8, 0);
    check_refused(&rig, "type 8");
    begin(&rig);
    add_value(&rig.in, 0, 0);
    check_refused(&rig, "type 0");
    begin(&rig);
    add_be(&rig.in, 2, 2);
    add_be(&rig.in, 513, 2);
    check_refused(&rig, "513 bytes");
    begin(&rig);
    add_request(&rig.in, "other", 0, SMALL);
    check_refused(&rig, "\"other\"");
    begin(&rig);
    add_request(&rig.in, NULL, 0, SMALL);
    check_refused(&rig, "none did before");
    begin(&rig);
    add_be(&rig.in, 4, 2);
    add_be(&rig.in, 4, 2);
    add_be(&rig.in, 0, 4);
    check_refused(&rig, "none did before");
    begin(&rig);
    add_be(&rig.in, 3, 2);
    add_be(&rig.in, 12, 2);
    add_be(&rig.in, 0, 8);
    add_be(&rig.in, 0, 4);
    check_refused(&rig, "names no RAM block");
    begin(&rig);
    add_request(&rig.in, "pc.ram", UINT64_MAX - 0xfff, SMALL);
    check_refused(&rig, "cannot be widened");
    begin(&rig);
    add_be(&rig.in, 5, 2);
    add_be(&rig.in, 2, 2);
    add_name(&rig.in, "m");
    add_be(&rig.in, UINT64_C(1) << 31, 8);
    check_refused(&rig, "bitmap");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_widened_however_they_are_cut),
        cmocka_unit_test(a_part_of_a_message_waits),
        cmocka_unit_test(what_is_not_known_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
