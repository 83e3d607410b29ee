// SPDX-License-Identifier: BSD-3-Clause
/* Streams for the tests of the head parser, loaded or made by hand, and what
 * the parser says of them, as text. */
#ifndef TEST_STREAM_INPUT_H
#define TEST_STREAM_INPUT_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "stream/head.h"
#include "util/cleanup.h"

#define HOST_PAGE 4096
#define TEXT_BYTES 65536

/* --- input --- */

struct input {
    uint8_t *bytes;
    size_t len;
};

static inline void input_done(struct input *in)
{
    free(in->bytes);
    in->bytes = NULL;
    in->len = 0;
}

static inline struct input load_file(const char *name, const char *suffix)
{
    const char *srcdir = getenv("srcdir");
    char path[1024];
    struct input in = {.bytes = malloc(1 << 20)};

    snprintf(path, sizeof path, "%s/tests/data/stream/%s.%s",
             srcdir ? srcdir : ".", name, suffix);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail_msg("%s cannot be opened", path);
    }
    in.len = fread(in.bytes, 1, 1 << 20, file);
    fclose(file);
    assert_true(in.len > 0);
    return in;
}

static inline struct input load(const char *name)
{
    return load_file(name, "main");
}

/* A stream made by hand; what add_x() is given is added at its end. */
static inline void add(struct input *in, const void *bytes, size_t len)
{
    in->bytes = realloc(in->bytes, in->len + len + 1);
    assert_non_null(in->bytes);
    memcpy(in->bytes + in->len, bytes, len);
    in->len += len;
}

static inline void add_be(struct input *in, uint64_t value, size_t bytes)
{
    while (bytes-- > 0) {
        uint8_t byte = (uint8_t)(value >> (8 * bytes));
        add(in, &byte, 1);
    }
}

static inline void add_name(struct input *in, const char *name)
{
    add_be(in, strlen(name), 1);
    add(in, name, strlen(name));
}

static inline void add_header(struct input *in)
{
    add_be(in, 0x5145564d, 4);
    add_be(in, 3, 4);
}

static inline void add_configuration(struct input *in, const char *machine)
{
    add_header(in);
    add_be(in, 7, 1);
    add_be(in, strlen(machine), 4);
    add(in, machine, strlen(machine));
}

static inline void add_subsection(struct input *in, const char *name)
{
    add_be(in, 5, 1);
    add_name(in, name);
    add_be(in, 1, 4);
}

static inline void add_command(struct input *in, unsigned command,
                               unsigned length)
{
    add_be(in, 8, 1);
    add_be(in, command, 2);
    add_be(in, length, 2);
}

static inline void add_advise(struct input *in, uint64_t sizes, uint64_t target)
{
    add_command(in, 3, 16);
    add_be(in, sizes, 8);
    add_be(in, target, 8);
}

static inline void add_section(struct input *in, unsigned type,
                               const char *name, unsigned version)
{
    add_be(in, type, 1);
    add_be(in, 2, 4);
    add_name(in, name);
    add_be(in, 0, 4);
    add_be(in, version, 4);
}

static inline void add_ram(struct input *in, uint64_t total_bytes)
{
    add_section(in, 1, "ram", 4);
    add_be(in, total_bytes | 4, 8);
}

static inline void add_block(struct input *in, const char *name,
                             uint64_t length)
{
    add_name(in, name);
    add_be(in, length, 8);
}

static inline void add_end(struct input *in)
{
    add_be(in, 0x10, 8);
    add_be(in, 0x7e, 1);
    add_be(in, 2, 4);
}

/* --- what the parser says, as text --- */

static inline void say(char *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void say(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, TEXT_BYTES - used, format, args);
    va_end(args);
}

static inline void say_section(char *text, const char *what,
                               const struct stream_head_section *section)
{
    say(text, "%s \"%s\" %u/%u/%u\n", what, section->name, section->id,
        section->instance, section->version);
}

static inline void describe(const struct stream_head *head, char *text)
{
    *text = '\0';
    if (head->state == STREAM_HEAD_OPAQUE) {
        say(text, "opaque %s\n", head->reason);
    } else {
        say(text, "%s %" PRIu64 "\n",
            head->state == STREAM_HEAD_DONE ? "done" : "more",
            head->offset_bytes);
    }
    say(text, "machine \"%s\"%s%s", head->machine,
        head->has_return_path ? " return-path" : "",
        head->ignore_shared ? " ignore-shared" : "");
    if (head->target_page_bits) {
        say(text, " bits=%u", head->target_page_bits);
    }
    if (head->has_uuid) {
        say(text, " uuid=%02x..%02x", head->uuid[0], head->uuid[15]);
    }
    if (head->has_advise) {
        say(text, " advise");
    }
    if (head->has_postcopy_ram) {
        say(text, "=%#" PRIx64 "/%#" PRIx64 "@%" PRIu64,
            head->advise_page_sizes_bytes, head->advise_target_page_bytes,
            head->advise_offset_bytes);
    }
    say(text, "\n");
    for (size_t i = 0; i < head->others_count; i++) {
        say_section(text, "other", &head->others[i]);
    }
    if (*head->ram.name) {
        say_section(text, "section", &head->ram);
        say(text, "total %#" PRIx64 "\n", head->ram_total_bytes);
    }
    for (size_t i = 0; i < head->blocks_count; i++) {
        const struct stream_head_block *block = &head->blocks[i];

        say(text, "%s %#" PRIx64, block->name, block->length_bytes);
        if (block->page_size_bytes) {
            say(text, " page=%#" PRIx64, block->page_size_bytes);
        }
        if (block->page_size_offset_bytes) {
            say(text, "@%" PRIu64, block->page_size_offset_bytes);
        }
        if (head->ignore_shared) {
            say(text, " at=%#" PRIx64, block->guest_address);
        }
        say(text, "\n");
    }
}

/* Feeds the stream whole and compares what comes out; returns the number of
 * bytes taken. */
static inline size_t check(const struct input *in, const char *expected)
{
    CLEANUP_FREE char *text = calloc(1, TEXT_BYTES);
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);
    size_t taken = stream_head_feed(parser, in->bytes, in->len);

    describe(stream_head_get(parser), text);
    assert_string_equal(text, expected);
    assert_int_equal(taken, stream_head_get(parser)->offset_bytes);
    stream_head_free(parser);
    return taken;
}

/* The same for a stream that must be opaque for a reason. */
static inline void check_opaque(const struct input *in, const char *reason)
{
    struct stream_head_parser *parser = stream_head_new(HOST_PAGE);

    stream_head_feed(parser, in->bytes, in->len);
    assert_int_equal(stream_head_state(parser), STREAM_HEAD_OPAQUE);
    assert_string_equal(stream_head_get(parser)->reason, reason);
    assert_int_equal(stream_head_get(parser)->blocks_count, 0);
    stream_head_free(parser);
}

#endif
