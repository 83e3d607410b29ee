// SPDX-License-Identifier: BSD-3-Clause
/* The first part of QEMU's main stream, read while it passes. */
#include "stream/head.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "stream/bytes.h"
#include "stream/head-parser.h"

/* QEMU migration/savevm.h and savevm.c */
#define FILE_MAGIC 0x5145564du
#define FILE_VERSION 3
#define FIRST_OF_TLS 0x16 /* a TLS handshake record */

enum command {
    COMMAND_OPEN_RETURN_PATH = 1,
    COMMAND_PING = 2,
    COMMAND_POSTCOPY_ADVISE = 3,
    COMMAND_PACKAGED = 7,
    COMMAND_ENABLE_COLO = 8,
    COMMAND_LAST = 11,
};

#define RAM_VERSION 4
#define WORD_MEM_SIZE 0x04u         /* ram.c RAM_SAVE_FLAG_MEM_SIZE */
#define BLOCK_WORD_EOS 0x02u        /* block.c BLK_MIG_FLAG_EOS, until 9.0 */
#define DEFAULT_TARGET_PAGE_BITS 12 /* of targets that have only one */

static_assert(STREAM_HEAD_LIST_BYTES_MAX > UINT16_MAX,
              "the longest command fits into buf");

void head_stop(struct stream_head_parser *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->head.reason, sizeof p->head.reason, format, args);
    va_end(args);
    p->head.state = STREAM_HEAD_OPAQUE;
}

/* Calls take when need (> 0) bytes more are there. */
void head_expect(struct stream_head_parser *p, size_t need, take_fn take)
{
    assert(need > 0 && need <= sizeof p->buf);
    p->have = 0;
    p->need = need;
    p->take = take;
}

static void expect_record(struct stream_head_parser *p)
{
    head_expect(p, 1, head_take_type);
}

/* Copies a name out of the stream. false: stopped, it is not text. */
bool head_get_name(struct stream_head_parser *p, const uint8_t *at, size_t len,
                   const char *what, char *ret_name)
{
    if (!bytes_is_text(at, len)) {
        head_stop(p, "the name of a %s is not text", what);
        return false;
    }
    memcpy(ret_name, at, len);
    ret_name[len] = '\0';
    return true;
}

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Enters the target's page size. false: stopped, it cannot be. */
bool head_set_target_page(struct stream_head_parser *p, uint64_t bytes)
{
    struct stream_head *head = &p->head;

    if (!is_power_of_two(bytes) || bytes < 1u << TARGET_PAGE_BITS_MIN ||
        bytes > 1u << TARGET_PAGE_BITS_MAX) {
        head_stop(p, "the target page size %#llx is impossible",
                  (unsigned long long)bytes);
        return false;
    }
    unsigned bits = (unsigned)__builtin_ctzll(bytes);
    if (head->target_page_bits != 0 && head->target_page_bits != bits) {
        head_stop(p, "two target page sizes: %u and %u bits",
                  head->target_page_bits, bits);
        return false;
    }
    head->target_page_bits = bits;
    return true;
}

/* --- the RAM block list --- */

static void finish_list(struct stream_head_parser *p,
                        const struct stream_blocks_layout *layout)
{
    struct stream_head *head = &p->head;
    struct stream_blocks list;

    stream_blocks_init(&list, layout);
    stream_blocks_read(&list, p->buf, p->have, head->blocks);
    if (list.state != STREAM_BLOCKS_DONE) {
        head_stop(p, "%s", list.reason);
        return;
    }
    head->blocks_count = list.count;
    head->ignore_shared = layout->has_addresses;
    for (size_t i = 0; i < list.count; i++) {
        if (head->blocks[i].page_size_offset_bytes != 0) {
            head->blocks[i].page_size_offset_bytes += p->list_offset_bytes;
        }
    }
    p->head.state = STREAM_HEAD_DONE;
}

/* Lets each layout that is left read what is there. */
static void take_list(struct stream_head_parser *p)
{
    const struct stream_blocks *done = NULL;
    size_t missing = SIZE_MAX;
    size_t possible = 0;

    for (size_t i = 0; i < p->lists_count; i++) {
        struct stream_blocks *list = &p->lists[i];
        size_t more = stream_blocks_read(list, p->buf, p->have, NULL);

        if (list->state == STREAM_BLOCKS_FAILED) {
            continue;
        }
        possible++;
        if (list->state == STREAM_BLOCKS_DONE) {
            done = list;
        } else if (more < missing) {
            missing = more;
        }
    }
    if (possible == 0) {
        head_stop(p, "%s", p->lists[0].reason);
    } else if (done && possible > 1) {
        head_stop(p, "the RAM block list can be read in two ways");
    } else if (done) {
        finish_list(p, &done->layout);
    } else if (missing > sizeof p->buf - p->have) {
        head_stop(p, "the RAM block list is longer than %d bytes",
                  STREAM_HEAD_LIST_BYTES_MAX);
    } else {
        p->need = p->have + missing;
    }
}

static void take_mem_size(struct stream_head_parser *p)
{
    struct stream_head *head = &p->head;
    unsigned bits = head->target_page_bits ? head->target_page_bits
                                           : DEFAULT_TARGET_PAGE_BITS;
    uint64_t page_bytes = 1ull << bits;
    uint64_t word = bytes_get_be64(p->buf);

    if ((word & (page_bytes - 1)) != WORD_MEM_SIZE) {
        head_stop(
            p, "section \"ram\" begins with word %#llx, not with the RAM size",
            (unsigned long long)word);
        return;
    }
    head->ram_total_bytes = word & ~(page_bytes - 1);
    if (head->ram_total_bytes == 0) {
        head_stop(p, "section \"ram\" has no RAM");
        return;
    }

    struct stream_blocks_layout layout = {
        .total_bytes = head->ram_total_bytes,
        .target_page_bytes = page_bytes,
        .host_page_bytes = p->host_page_size_bytes,
        .page_sizes_bytes = head->advise_page_sizes_bytes,
        .has_addresses = head->ignore_shared,
        .section_id = head->ram.id,
    };
    stream_blocks_init(&p->lists[0], &layout);
    p->lists_count = 1;
    if (!p->has_configuration && !head->has_postcopy_ram) {
        layout.has_addresses = true;
        stream_blocks_init(&p->lists[1], &layout);
        p->lists_count = 2;
    }
    p->list_offset_bytes = p->head.offset_bytes;
    head_expect(p, 1, take_list);
}

/* --- sections --- */

/* START of "block" (block migration, until 9.0) is the one payload besides
 * ram's that can come first: nothing was sent yet, so it is just the end mark.
 * QEMU migration/block.c block_save_setup(). */
static void take_block_section(struct stream_head_parser *p)
{
    uint32_t id = p->head.others[p->head.others_count - 1].id;

    if (bytes_get_be64(p->buf) != BLOCK_WORD_EOS ||
        p->buf[8] != RECORD_FOOTER || bytes_get_be32(p->buf + 9) != id) {
        head_stop(p, "section \"block\" has data before section \"ram\"");
        return;
    }
    expect_record(p);
}

static void enter_ram(struct stream_head_parser *p,
                      const struct stream_head_section *section)
{
    p->head.ram = *section;
    if (section->version != RAM_VERSION) {
        head_stop(p, "section \"ram\" has version %u, only %d is known",
                  section->version, RAM_VERSION);
        return;
    }
    if (p->head.has_postcopy_ram && p->head.ignore_shared) {
        head_stop(p, "postcopy-ram together with x-ignore-shared");
        return;
    }
    head_expect(p, 8, take_mem_size);
}

static void enter_other(struct stream_head_parser *p,
                        const struct stream_head_section *section)
{
    struct stream_head *head = &p->head;

    if (head->others_count == STREAM_HEAD_OTHERS_MAX) {
        head_stop(p, "more than %d sections before section \"ram\"",
                  STREAM_HEAD_OTHERS_MAX);
        return;
    }
    head->others[head->others_count++] = *section;
    if (p->section_type == RECORD_SECTION_START &&
        strcmp(section->name, "block") == 0) {
        head_expect(p, 8 + 5, take_block_section);
        return;
    }
    head_stop(
        p,
        "section \"%.128s\" (id %u) comes before section \"ram\", and where "
        "it ends is not known",
        section->name, section->id);
}

/* be32 id, u8 length, name, be32 instance, be32 version */
static void take_section(struct stream_head_parser *p)
{
    size_t name_len = p->buf[4];
    struct stream_head_section section = {
        .id = bytes_get_be32(p->buf),
        .instance = bytes_get_be32(p->buf + 5 + name_len),
        .version = bytes_get_be32(p->buf + 5 + name_len + 4),
    };

    if (!head_get_name(p, p->buf + 5, name_len, "section", section.name)) {
        return;
    }
    if (p->section_type == RECORD_SECTION_START &&
        strcmp(section.name, "ram") == 0) {
        enter_ram(p, &section);
    } else {
        enter_other(p, &section);
    }
}

static void take_section_name_length(struct stream_head_parser *p)
{
    p->need += p->buf[4] + 8u;
    p->take = take_section;
}

/* --- commands --- */

static void take_advise(struct stream_head_parser *p)
{
    struct stream_head *head = &p->head;
    uint64_t page_sizes = bytes_get_be64(p->buf);
    uint64_t target_page = bytes_get_be64(p->buf + 8);

    if (page_sizes == 0) {
        head_stop(p, "POSTCOPY_ADVISE names no page size");
        return;
    }
    if (!head_set_target_page(p, target_page)) {
        return;
    }
    head->has_postcopy_ram = true;
    head->advise_page_sizes_bytes = page_sizes;
    head->advise_target_page_bytes = target_page;
    head->advise_offset_bytes = p->head.offset_bytes - 16;
    expect_record(p);
}

/* The last byte of a command whose payload says nothing that is needed. */
static void take_ignored(struct stream_head_parser *p)
{
    expect_record(p);
}

/* The length a command must have; -1: any. */
static int command_length(unsigned command)
{
    switch (command) {
    case COMMAND_OPEN_RETURN_PATH:
        return 0;
    case COMMAND_PING:
        return 4;
    default:
        return -1;
    }
}

static bool is_command_legal(struct stream_head_parser *p, unsigned command,
                             unsigned length)
{
    int fixed = command_length(command);

    if (command == 0 || command > COMMAND_LAST) {
        head_stop(p, "unknown command %u", command);
    } else if (command == COMMAND_PACKAGED || command == COMMAND_ENABLE_COLO) {
        head_stop(p, "command %u before section \"ram\"", command);
    } else if ((fixed >= 0 && length != (unsigned)fixed) ||
               (command == COMMAND_POSTCOPY_ADVISE && length != 0 &&
                length != 16)) {
        head_stop(p, "command %u has length %u", command, length);
    } else if (command == COMMAND_POSTCOPY_ADVISE && p->head.has_advise) {
        head_stop(p, "POSTCOPY_ADVISE comes twice");
    } else if (++p->commands > STREAM_HEAD_COMMANDS_MAX) {
        head_stop(p, "more than %d commands before section \"ram\"",
                  STREAM_HEAD_COMMANDS_MAX);
    }
    return p->head.state == STREAM_HEAD_NEED_MORE;
}

static void take_command(struct stream_head_parser *p)
{
    unsigned command = bytes_get_be16(p->buf);
    unsigned length = bytes_get_be16(p->buf + 2);

    if (!is_command_legal(p, command, length)) {
        return;
    }
    if (command == COMMAND_OPEN_RETURN_PATH) {
        p->head.has_return_path = true;
    } else if (command == COMMAND_POSTCOPY_ADVISE) {
        p->head.has_advise = true;
    }
    if (length == 0) {
        expect_record(p);
    } else if (command == COMMAND_POSTCOPY_ADVISE) {
        head_expect(p, length, take_advise);
    } else {
        head_expect(p, length, take_ignored);
    }
}

/* --- records --- */

void head_take_type(struct stream_head_parser *p)
{
    unsigned type = p->buf[0];
    bool was_first = !p->has_records;
    bool was_after_configuration = p->is_after_configuration;

    p->has_records = true;
    p->is_after_configuration = false;
    if (type == RECORD_COMMAND) {
        head_expect(p, 4, take_command);
    } else if (type == RECORD_SECTION_START || type == RECORD_SECTION_FULL) {
        p->section_type = type;
        head_expect(p, 5, take_section_name_length);
    } else if (type == RECORD_CONFIGURATION && was_first) {
        p->has_configuration = true;
        head_expect(p, 4, head_take_machine_length);
    } else if (type == RECORD_SUBSECTION && was_after_configuration) {
        head_expect(p, 1, head_take_subsection_name_length);
    } else {
        head_stop(p, "record of type %#x before section \"ram\"", type);
    }
}

static void take_header(struct stream_head_parser *p)
{
    uint32_t magic = bytes_get_be32(p->buf);
    uint32_t version = bytes_get_be32(p->buf + 4);

    if (magic != FILE_MAGIC) {
        head_stop(p, "not a QEMU stream: it begins with %#010x", magic);
    } else if (version != FILE_VERSION) {
        head_stop(p, "QEMU stream of version %u, only %d is known", version,
                  FILE_VERSION);
    } else {
        expect_record(p);
    }
}

/* The first byte alone tells a stream that has no header. */
static void take_first(struct stream_head_parser *p)
{
    unsigned first = p->buf[0];

    if (first == FILE_MAGIC >> 24) {
        p->need = 8;
        p->take = take_header;
    } else if (first == RECORD_COMMAND) {
        head_stop(p, "continues an earlier stream (recovery)");
    } else if (first == FIRST_OF_TLS) {
        head_stop(p, "QEMU encrypts the stream itself (TLS)");
    } else {
        head_stop(p, "not a QEMU stream: its first byte is %#04x", first);
    }
}

/* --- what callers see --- */

struct stream_head_parser *stream_head_new(uint32_t host_page_size_bytes)
{
    assert(is_power_of_two(host_page_size_bytes));
    struct stream_head_parser *p = malloc(sizeof *p);
    if (p) {
        p->host_page_size_bytes = host_page_size_bytes;
        stream_head_reset(p);
    }
    return p;
}

void stream_head_free(struct stream_head_parser *parser)
{
    free(parser);
}

void stream_head_reset(struct stream_head_parser *parser)
{
    uint32_t host_page_size_bytes = parser->host_page_size_bytes;

    memset(parser, 0, offsetof(struct stream_head_parser, buf));
    parser->host_page_size_bytes = host_page_size_bytes;
    parser->head.state = STREAM_HEAD_NEED_MORE;
    head_expect(parser, 1, take_first);
}

size_t stream_head_feed(struct stream_head_parser *parser, const void *bytes,
                        size_t len)
{
    const uint8_t *from = bytes;
    size_t used = 0;

    while (parser->head.state == STREAM_HEAD_NEED_MORE && used < len) {
        size_t n = parser->need - parser->have;
        if (n > len - used) {
            n = len - used;
        }
        memcpy(parser->buf + parser->have, from + used, n);
        parser->have += n;
        parser->head.offset_bytes += n;
        used += n;
        if (parser->have == parser->need) {
            parser->take(parser);
        }
    }
    return used;
}

enum stream_head_state
stream_head_state(const struct stream_head_parser *parser)
{
    return parser->head.state;
}

const struct stream_head *stream_head_get(const struct stream_head_parser *p)
{
    return &p->head;
}
