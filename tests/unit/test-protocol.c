// SPDX-License-Identifier: BSD-3-Clause
/* docs/protocol.md against the code: test vectors, tables of types, flags,
 * error codes and limits. */
#include <ctype.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/frame.h"
#include "transport/hello.h"

#define LINE_BYTES 1024

static FILE *open_document(void)
{
    char path[4096];
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof(path), "%s/docs/protocol.md", srcdir ? srcdir : ".");
    FILE *file = fopen(path, "r");
    if (!file) {
        fail_msg("%s cannot be read", path);
    }
    return file;
}

/* The next line of the block that starts with ```NAME, without its newline. */
static bool next_in_block(FILE *file, bool *inside, const char *name,
                          char line[LINE_BYTES])
{
    while (fgets(line, LINE_BYTES, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (*inside) {
            return strcmp(line, "```") != 0;
        }
        *inside = !strncmp(line, "```", 3) && !strcmp(line + 3, name);
    }
    return false;
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10;
}

/* "HEX LANE TEXT": fills header and lane, returns text. */
static const char *split_vector(char *line, uint8_t header[WIRE_HEADER_BYTES],
                                enum wire_lane *ret_lane)
{
    char *lane = strchr(line, ' ');
    assert_non_null(lane);
    assert_int_equal(lane - line, 2 * WIRE_HEADER_BYTES);
    for (int i = 0; i < WIRE_HEADER_BYTES; i++) {
        header[i] =
            (uint8_t)(hex_digit(line[2 * i]) << 4 | hex_digit(line[2 * i + 1]));
    }
    char *text = strchr(++lane, ' ');
    assert_non_null(text);
    *text++ = '\0';
    for (int kind = WIRE_LANE_CONTROL; kind <= WIRE_LANE_BULK; kind++) {
        if (!strcmp(lane, frame_lane_name((enum wire_lane)kind))) {
            *ret_lane = (enum wire_lane)kind;
            return text;
        }
    }
    fail_msg("no lane is called %s", lane);
    return NULL;
}

static void vectors_decode_to_their_text_and_encode_again(void **state)
{
    FILE *file = open_document();
    char line[LINE_BYTES];
    bool inside = false;
    int count = 0;
    while (next_in_block(file, &inside, "vectors", line)) {
        uint8_t header[WIRE_HEADER_BYTES], again[WIRE_HEADER_BYTES];
        enum wire_lane lane;
        struct frame frame;
        struct error err = ERROR_INIT;
        char text[160];
        const char *expected = split_vector(line, header, &lane);
        if (frame_decode(header, lane, &frame, &err) < 0) {
            fail_msg("%s: %s", expected, err.text);
        }
        frame_format(&frame, text, sizeof(text));
        assert_string_equal(text, expected);
        frame_encode(&frame, again);
        assert_memory_equal(again, header, sizeof(header));
        count++;
    }
    assert_true(count >= 16);
    fclose(file);
}

static void headers_to_refuse_are_refused_for_their_reason(void **state)
{
    FILE *file = open_document();
    char line[LINE_BYTES];
    bool inside = false;
    int count = 0;
    while (next_in_block(file, &inside, "refused", line)) {
        uint8_t header[WIRE_HEADER_BYTES];
        enum wire_lane lane;
        struct frame frame;
        struct error err = ERROR_INIT;
        const char *expected = split_vector(line, header, &lane);
        assert_int_equal(frame_decode(header, lane, &frame, &err), -1);
        assert_string_equal(err.text, expected);
        count++;
    }
    assert_true(count >= 14);
    fclose(file);
}

/* The rows of the table whose header line starts with head: called with up to
 * three cells each, trimmed. Returns how many there were. */
typedef void row_check(char *cells[3]);

static int each_row(const char *head, row_check *check)
{
    FILE *file = open_document();
    char line[LINE_BYTES];
    bool inside = false;
    int rows = 0;
    while (fgets(line, sizeof(line), file)) {
        if (!inside) {
            inside = !strncmp(line, head, strlen(head));
            continue;
        }
        if (line[0] != '|') {
            break;
        }
        if (line[1] == '-') {
            continue;
        }
        char *cells[3] = {NULL, NULL, NULL};
        char *save = NULL;
        char *cell = strtok_r(line, "|\n", &save);
        for (int i = 0; i < 3 && cell; i++) {
            while (*cell == ' ') {
                cell++;
            }
            cell[strcspn(cell, " ")] = '\0'; /* the first word */
            cells[i] = cell;
            cell = strtok_r(NULL, "|\n", &save);
        }
        check(cells);
        rows++;
    }
    fclose(file);
    return rows;
}

static void check_type(char *cells[3])
{
    enum wire_type type = (enum wire_type)atoi(cells[0]);
    assert_non_null(frame_type_name(type));
    assert_string_equal(frame_type_name(type), cells[1]);
}

static void types_are_the_documented_ones(void **state)
{
    assert_int_equal(each_row("| type | name |", check_type), 10);
    assert_null(frame_type_name((enum wire_type)11));
}

static void check_code(char *cells[3])
{
    enum error_code code = (enum error_code)atoi(cells[0]);
    assert_string_equal(error_class(code), cells[1]);
}

/* The numbers are on the wire: they must never move. */
static void error_codes_are_the_documented_ones(void **state)
{
    assert_int_equal(each_row("| code | class |", check_code), ERROR_CODES);
}

struct limit {
    const char *name;
    long value;
};

#define LIMIT(name)                                                            \
    {                                                                          \
#name, name                                                            \
    }

static const struct limit limits[] = {
    LIMIT(WIRE_CHANNELS),          LIMIT(WIRE_DATA_MAX_BYTES),
    LIMIT(WIRE_URGENT_MAX_BYTES),  LIMIT(WIRE_URGENT_MAX_FRAMES),
    LIMIT(WIRE_MARKED_MAX_FRAMES), LIMIT(WIRE_PINGS_MAX),
    LIMIT(WIRE_MESSAGE_MAX_BYTES), LIMIT(WIRE_HELLO_MAX_BYTES),
    LIMIT(WIRE_TEXT_MAX_BYTES),    LIMIT(WIRE_INITIAL_CREDIT_BYTES),
};

#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static void check_limit(char *cells[3])
{
    for (size_t i = 0; i < LIMITS; i++) {
        if (!strcmp(cells[0], limits[i].name)) {
            assert_int_equal(limits[i].value, atol(cells[1]));
            return;
        }
    }
    fail_msg("%s is not a limit of wire.h", cells[0]);
}

static void limits_are_the_documented_ones(void **state)
{
    assert_int_equal(each_row("| limit | value |", check_limit), LIMITS);
}

static void check_flag(char *cells[3])
{
    static const struct limit flags[] = {
        {"MERGE", WIRE_FLAG_MERGE},
        {"ACK", WIRE_FLAG_ACK},
        {"WANT", WIRE_FLAG_WANT},
    };
    for (size_t i = 0; i < 3; i++) {
        if (!strcmp(cells[1], flags[i].name)) {
            assert_int_equal(flags[i].value, strtol(cells[0], NULL, 16));
            return;
        }
    }
    fail_msg("no flag is called %s", cells[1]);
}

static void flags_are_the_documented_ones(void **state)
{
    assert_int_equal(each_row("| flag | name |", check_flag), 3);
}

static void check_tag(char *cells[3])
{
    static const struct limit tags[] = {
        {"MAGIC", HELLO_TAG_MAGIC},       {"VERSIONS", HELLO_TAG_VERSIONS},
        {"FEATURES", HELLO_TAG_FEATURES}, {"LANE", HELLO_TAG_LANE},
        {"NAME", HELLO_TAG_NAME},         {"INSTANCE", HELLO_TAG_INSTANCE},
        {"TOKEN", HELLO_TAG_TOKEN},
    };
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (!strcmp(cells[1], tags[i].name)) {
            assert_int_equal(tags[i].value, strtol(cells[0], NULL, 16));
            return;
        }
    }
    fail_msg("no tag is called %s", cells[1]);
}

static void tags_of_hello_are_the_documented_ones(void **state)
{
    assert_int_equal(each_row("| tag | name |", check_tag), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_decode_to_their_text_and_encode_again),
        cmocka_unit_test(headers_to_refuse_are_refused_for_their_reason),
        cmocka_unit_test(types_are_the_documented_ones),
        cmocka_unit_test(error_codes_are_the_documented_ones),
        cmocka_unit_test(limits_are_the_documented_ones),
        cmocka_unit_test(flags_are_the_documented_ones),
        cmocka_unit_test(tags_of_hello_are_the_documented_ones),
    };
    return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
