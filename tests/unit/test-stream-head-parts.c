// SPDX-License-Identifier: BSD-3-Clause
/* The head of QEMU's main stream, part by part: what no QEMU at hand sends,
 * every refusal, every limit. The streams are made here from the format in
 * stream/head.h. */
#include "tests/unit/test-stream-input.h"

/* A head that ends with the last byte of in. expected is without the line that
 * says so. */
static void check_whole(const struct input *in, const char *expected)
{
    char text[1024];

    snprintf(text, sizeof text, "done %zu\n%s", in->len, expected);
    check(in, text);
}

static void streams_of_others_are_opaque(void **state)
{
    struct input in = {0};

    add(&in, "\x16\x03\x01\x02\x00", 5);
    check_opaque(&in, "QEMU encrypts the stream itself (TLS)");
    in.len = 0;
    add(&in, "\x11\x22\x33\x44", 4);
    check_opaque(&in, "not a QEMU stream: its first byte is 0x11");
    in.len = 0;
    add(&in, "QFI\xfb\0\0\0\3", 8);
    check_opaque(&in, "not a QEMU stream: it begins with 0x514649fb");
    in.len = 0;
    add(&in, "QEVM\0\0\0\2", 8);
    check_opaque(&in, "QEMU stream of version 2, only 3 is known");
    input_done(&in);
}

static void target_page_bits_are_used(void **state)
{
    struct input in = {0};

    add_configuration(&in, "virt-8.2");
    add_subsection(&in, "configuration/target-page-bits");
    add_be(&in, 16, 4);
    add_ram(&in, 0x30000);
    add_block(&in, "mach-virt.ram", 0x20000);
    add_block(&in, "rom", 0x10000);
    add_end(&in);
    check_whole(&in, "machine \"virt-8.2\" bits=16\n"
                     "section \"ram\" 2/0/4\n"
                     "total 0x30000\n"
                     "mach-virt.ram 0x20000\n"
                     "rom 0x10000\n");
    in.len = 8 + 1 + 4 + 8;
    add_subsection(&in, "configuration/target-page-bits");
    add_be(&in, 12, 4);
    add_advise(&in, 0x1000, 0x10000);
    check_opaque(&in, "two target page sizes: 12 and 16 bits");
    input_done(&in);
}

static void every_subsection_is_taken(void **state)
{
    struct input in = {0};

    add_configuration(&in, "pc");
    add_subsection(&in, "configuration/target-page-bits");
    add_be(&in, 12, 4);
    add_subsection(&in, "configuration/capabilities");
    add_be(&in, 1, 4);
    add_name(&in, "x-ignore-shared");
    add_subsection(&in, "configuration/uuid");
    add(&in, "0123456789abcdef", 16);
    add_ram(&in, 0x1000);
    add_block(&in, "a", 0x1000);
    add_be(&in, 0x100000000, 8);
    add_end(&in);
    check_whole(&in, "machine \"pc\" ignore-shared bits=12 uuid=30..66\n"
                     "section \"ram\" 2/0/4\n"
                     "total 0x1000\n"
                     "a 0x1000 at=0x100000000\n");
    input_done(&in);
}

static void unknown_configuration_is_opaque(void **state)
{
    struct input in = {0};

    add_configuration(&in, "pc");
    size_t start = in.len;
    add_subsection(&in, "configuration/new");
    check_opaque(&in, "unknown subsection \"configuration/new\" (version 1) "
                      "of the configuration");
    in.len = start;
    add_subsection(&in, "configuration/capabilities");
    add_be(&in, 1, 4);
    add_name(&in, "mapped-ram");
    check_opaque(&in, "capability \"mapped-ram\" changes the stream in an "
                      "unknown way");
    in.len = start;
    add_subsection(&in, "configuration/capabilities");
    add_be(&in, STREAM_HEAD_CAPABILITIES_MAX + 1, 4);
    check_opaque(&in, "17 capabilities, more than 16");
    in.len = start;
    add_subsection(&in, "configuration/capabilities");
    add_be(&in, 1, 4);
    add_name(&in, "");
    check_opaque(&in, "a capability has no name");
    in.len = start;
    add_subsection(&in, "configuration/target-page-bits");
    add_be(&in, 32, 4);
    check_opaque(&in, "target pages of 32 bits are impossible");
    in.len = start;
    add_be(&in, 7, 1);
    check_opaque(&in, "record of type 0x7 before section \"ram\"");
    in.len = start;
    add_command(&in, 1, 0);
    add_be(&in, 5, 1);
    check_opaque(&in, "record of type 0x5 before section \"ram\"");
    in.len = 0;
    add_header(&in);
    add_be(&in, 7, 1);
    add_be(&in, 256, 4);
    check_opaque(&in, "the machine type's name has length 256, not 1 to 255");
    input_done(&in);
}

static void commands_are_passed_or_refused(void **state)
{
    struct input in = {0};

    add_header(&in);
    size_t start = in.len;
    add_command(&in, 1, 0);
    add_command(&in, 2, 4);
    add_be(&in, 1, 4);
    add_command(&in, 3, 0);
    add_command(&in, 10, 3);
    add(&in, "\2ab", 3);
    check(&in, "more 35\nmachine \"\" return-path advise\n");
    in.len = start;
    add_command(&in, 12, 0);
    check_opaque(&in, "unknown command 12");
    in.len = start;
    add_command(&in, 7, 4);
    check_opaque(&in, "command 7 before section \"ram\"");
    in.len = start;
    add_command(&in, 3, 8);
    check_opaque(&in, "command 3 has length 8");
    in.len = start;
    add_command(&in, 2, 0);
    check_opaque(&in, "command 2 has length 0");
    in.len = start;
    add_advise(&in, 0x1000, 0x1000);
    add_advise(&in, 0x1000, 0x1000);
    check_opaque(&in, "POSTCOPY_ADVISE comes twice");
    in.len = start;
    add_advise(&in, 0, 0x1000);
    check_opaque(&in, "POSTCOPY_ADVISE names no page size");
    in.len = start;
    add_advise(&in, 0x1000, 0x1800);
    check_opaque(&in, "the target page size 0x1800 is impossible");
    in.len = start;
    add_advise(&in, 0x200000, 0x200000);
    check_opaque(&in, "the target page size 0x200000 is impossible");
    in.len = start;
    for (int i = 0; i <= STREAM_HEAD_COMMANDS_MAX; i++) {
        add_command(&in, 1, 0);
    }
    check_opaque(&in, "more than 64 commands before section \"ram\"");
    input_done(&in);
}

static void sections_before_ram_are_named(void **state)
{
    struct input in = {0};

    add_header(&in);
    size_t start = in.len;
    add_section(&in, 4, "0000:00:02.0/virtio-mem-device-early", 1);
    check(&in, "opaque section \"0000:00:02.0/virtio-mem-device-early\" (id 2) "
               "comes before section \"ram\", and where it ends is not known\n"
               "machine \"\"\n"
               "other \"0000:00:02.0/virtio-mem-device-early\" 2/0/1\n");
    in.len = start;
    add_section(&in, 4, "ram", 4);
    check_opaque(&in, "section \"ram\" (id 2) comes before section \"ram\", "
                      "and where it ends is not known");
    in.len = start;
    add_section(&in, 1, "r\nm", 4);
    check_opaque(&in, "the name of a section is not text");
    in.len = start;
    add_section(&in, 1, "block", 1);
    add_be(&in, 1, 8);
    add_be(&in, 0, 5);
    check_opaque(&in, "section \"block\" has data before section \"ram\"");
    in.len = start;
    for (int i = 0; i <= STREAM_HEAD_OTHERS_MAX; i++) {
        add_section(&in, 1, "block", 1);
        add_be(&in, 2, 8);
        add_be(&in, 0x7e, 1);
        add_be(&in, 2, 4);
    }
    check_opaque(&in, "more than 4 sections before section \"ram\"");
    in.len = start;
    add_section(&in, 1, "ram", 5);
    check_opaque(&in, "section \"ram\" has version 5, only 4 is known");
    in.len = start;
    add_be(&in, 2, 1);
    check_opaque(&in, "record of type 0x2 before section \"ram\"");
    input_done(&in);
}

/* --- the block list --- */

static void begin_postcopy(struct input *in, uint64_t page_sizes)
{
    in->len = 0;
    add_configuration(in, "pc");
    add_advise(in, page_sizes, 0x1000);
}

static void huge_blocks_of_two_sizes_are_read(void **state)
{
    struct input in = {0};

    begin_postcopy(&in, 0x40201000);
    add_ram(&in, 0xc0401000);
    add_block(&in, "node0", 0x80000000);
    add_be(&in, 0x40000000, 8);
    add_block(&in, "rom", 0x1000);
    add_block(&in, "node1", 0x40000000);
    add_be(&in, 0x40000000, 8);
    add_block(&in, "nvdimm", 0x400000);
    add_be(&in, 0x200000, 8); /* the last block has the field */
    add_end(&in);
    check_whole(&in, "machine \"pc\" bits=12 advise=0x40201000/0x1000@20\n"
                     "section \"ram\" 2/0/4\n"
                     "total 0xc0401000\n"
                     "node0 0x80000000 page=0x40000000@75\n"
                     "rom 0x1000 page=0x1000\n"
                     "node1 0x40000000 page=0x40000000@109\n"
                     "nvdimm 0x400000 page=0x200000@132\n");
    input_done(&in);
}

static void page_sizes_must_be_those_announced(void **state)
{
    struct input in = {0};

    /* a source host with larger pages: none of the blocks has the field */
    begin_postcopy(&in, 0x10000);
    add_ram(&in, 0x10000);
    add_block(&in, "a", 0x10000);
    add_end(&in);
    check_opaque(&in, "page sizes of the RAM blocks are 0x1000, "
                      "but 0x10000 was announced");
    /* a summary with a bit that is like the end mark */
    begin_postcopy(&in, 0x1010);
    add_ram(&in, 0x1000);
    add_block(&in, "a", 0x1000);
    add_end(&in);
    check_opaque(&in, "page sizes of the RAM blocks are 0x1000, "
                      "but 0x1010 was announced");
    /* fields that are no page size: not announced, not a power of two, the
     * host's (which has no field) */
    static const uint64_t fields[] = {0x40000000, 0x300000, 0x1000};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        begin_postcopy(&in, 0x301000);
        add_ram(&in, 0x40001000);
        add_block(&in, "a", 0x40000000);
        add_be(&in, fields[i], 8);
        add_block(&in, "b", 0x1000);
        add_end(&in);
        check_opaque(&in, "RAM block 1 has no name");
    }
    input_done(&in);
}

static void a_flush_may_end_the_list(void **state)
{
    struct input in = {0};

    add_configuration(&in, "pc");
    add_ram(&in, 0x1000);
    add_block(&in, "a", 0x1000);
    add_be(&in, 0x200, 8);
    add_end(&in);
    check_whole(&in, "machine \"pc\"\n"
                     "section \"ram\" 2/0/4\n"
                     "total 0x1000\n"
                     "a 0x1000\n");
    in.len -= 13;
    for (int i = 0; i < 4; i++) {
        add_be(&in, 0x200, 8);
    }
    add_end(&in);
    check_opaque(&in, "the RAM block list is followed by word 0x200");
    /* without a configuration, the flush may be the block's address */
    in.len = 0;
    add_header(&in);
    add_ram(&in, 0x1000);
    add_block(&in, "a", 0x1000);
    add_be(&in, 0x200, 8);
    add_end(&in);
    check_opaque(&in, "the RAM block list can be read in two ways");
    input_done(&in);
}

static void impossible_lists_are_opaque(void **state)
{
    struct input in = {0};

    add_configuration(&in, "pc");
    size_t start = in.len;
    add_ram(&in, 0);
    check_opaque(&in, "section \"ram\" has no RAM");
    in.len = start;
    add_ram(&in, 0x1008);
    check_opaque(&in, "section \"ram\" begins with word 0x100c, "
                      "not with the RAM size");
    in.len = start;
    add_ram(&in, 0x3000);
    size_t list = in.len;
    add_block(&in, "a", 0x4000);
    check_opaque(&in, "RAM block 0 has an impossible length 0x4000 "
                      "(0x3000 left)");
    in.len = list;
    add_block(&in, "a", 0x800);
    check_opaque(&in,
                 "RAM block 0 has an impossible length 0x800 (0x3000 left)");
    in.len = list;
    add_block(&in, "a", 0);
    check_opaque(&in, "RAM block 0 has an impossible length 0 (0x3000 left)");
    in.len = list;
    add_block(&in, "a\tb", 0x1000);
    check_opaque(&in, "the name of RAM block 0 is not text");
    in.len = list;
    add_block(&in, "a", 0x1000);
    add_block(&in, "b", 0x1000);
    add_block(&in, "a", 0x1000);
    add_end(&in);
    check_opaque(&in, "RAM block 2 has the name of another");
    in.len = list;
    add_block(&in, "a", 0x3000);
    size_t end = in.len;
    add_be(&in, 0x80, 8);
    check_opaque(&in, "the RAM block list is followed by word 0x80");
    in.len = end;
    add_be(&in, 0x10, 8);
    add_be(&in, 0x7e, 1);
    add_be(&in, 3, 4);
    check_opaque(&in, "section \"ram\" has the footer of section 3");
    input_done(&in);
}

static void postcopy_excludes_ignore_shared(void **state)
{
    struct input in = {0};

    add_configuration(&in, "pc");
    add_subsection(&in, "configuration/capabilities");
    add_be(&in, 1, 4);
    add_name(&in, "x-ignore-shared");
    add_advise(&in, 0x1000, 0x1000);
    add_section(&in, 1, "ram", 4);
    check_opaque(&in, "postcopy-ram together with x-ignore-shared");
    input_done(&in);
}

/* Without a configuration both layouts are tried. One block is the hardest
 * case: the end mark may be its address, and an address may be like the end
 * mark. */
static void two_possible_layouts_are_told_apart(void **state)
{
    struct input in = {0};

    add_header(&in);
    add_ram(&in, 0x1000);
    add_block(&in, "a", 0x1000);
    size_t block = in.len;
    add_be(&in, 0x10, 8); /* an address like the end mark */
    add_end(&in);
    check_whole(&in, "machine \"\" ignore-shared\n"
                     "section \"ram\" 2/0/4\n"
                     "total 0x1000\n"
                     "a 0x1000 at=0x10\n");
    in.len = block;
    add_end(&in);
    check_whole(&in, "machine \"\"\n"
                     "section \"ram\" 2/0/4\n"
                     "total 0x1000\n"
                     "a 0x1000\n");
    /* names that are blocks of the other layout as far as they go */
    in.len = 0;
    add_header(&in);
    add_ram(&in, 0x3000);
    add_block(&in, "a", 0x1000);
    add_block(&in, "1234567 0123456789abcdef0123456789abcdef", 0x2000);
    add_end(&in);
    check_whole(&in, "machine \"\"\n"
                     "section \"ram\" 2/0/4\n"
                     "total 0x3000\n"
                     "a 0x1000\n"
                     "1234567 0123456789abcdef0123456789abcdef 0x2000\n");
    input_done(&in);
}

/* --- limits --- */

static void add_blocks(struct input *in, unsigned count, int name_bytes)
{
    add_configuration(in, "pc");
    add_ram(in, count * 0x1000ull);
    for (unsigned i = 0; i < count; i++) {
        char name[256];
        snprintf(name, sizeof name, "%0*u", name_bytes, i);
        add_block(in, name, 0x1000);
    }
    add_end(in);
}

static void blocks_are_limited(void **state)
{
    struct input in = {0};
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);

    add_blocks(&in, STREAM_HEAD_BLOCKS_MAX, 240);
    stream_head_feed(parser, in.bytes, in.len);
    assert_int_equal(stream_head_state(parser), STREAM_HEAD_DONE);
    assert_int_equal(stream_head_get(parser)->blocks_count, 256);
    in.len = 0;
    add_blocks(&in, STREAM_HEAD_BLOCKS_MAX + 1, 8);
    check_opaque(&in, "more than 256 RAM blocks");
    in.len = 0;
    add_blocks(&in, STREAM_HEAD_BLOCKS_MAX, 255);
    check_opaque(&in, "the RAM block list is longer than 65536 bytes");
    input_done(&in);
    stream_head_free(parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_others_are_opaque),
        cmocka_unit_test(target_page_bits_are_used),
        cmocka_unit_test(every_subsection_is_taken),
        cmocka_unit_test(unknown_configuration_is_opaque),
        cmocka_unit_test(commands_are_passed_or_refused),
        cmocka_unit_test(sections_before_ram_are_named),
        cmocka_unit_test(huge_blocks_of_two_sizes_are_read),
        cmocka_unit_test(page_sizes_must_be_those_announced),
        cmocka_unit_test(a_flush_may_end_the_list),
        cmocka_unit_test(impossible_lists_are_opaque),
        cmocka_unit_test(postcopy_excludes_ignore_shared),
        cmocka_unit_test(two_possible_layouts_are_told_apart),
        cmocka_unit_test(blocks_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
