// SPDX-License-Identifier: BSD-3-Clause
/* Words to values and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "util/parse.h"

static void numbers_within_their_limits(void **state)
{
    uint64_t value;
    struct error err = ERROR_INIT;

    assert_int_equal(parse_uint("0", 0, 9, &value, &err), 0);
    assert_int_equal(value, 0);
    assert_int_equal(parse_uint("007", 7, 7, &value, &err), 0);
    assert_int_equal(value, 7);
    assert_int_equal(
        parse_uint("18446744073709551615", 0, UINT64_MAX, &value, &err), 0);
    assert_true(value == UINT64_MAX);
}

static void what_is_no_number_is_refused(void **state)
{
    static const char *const words[] = {
        "",   "-1", "+1",  " 1",  "1 ",
        "0x", "1k", "1.0", "257", "18446744073709551616"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint64_t value = 42;
        struct error err = ERROR_INIT;
        assert_int_equal(parse_uint(words[i], 1, 256, &value, &err), -1);
        assert_int_equal(value, 42);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
        assert_non_null(strstr(err.text, "is not a number from 1 to 256"));
        assert_int_equal(parse_uint(words[i], 1, 256, &value, NULL), -1);
    }
    uint64_t value;
    struct error err = ERROR_INIT;
    /* the same overflow where the limits would let it in */
    assert_int_equal(
        parse_uint("18446744073709551616", 0, UINT64_MAX, &value, &err), -1);
    assert_string_equal(err.text, "\"18446744073709551616\" is not a number "
                                  "from 0 to 18446744073709551615");
}

static void a_long_word_is_shown_cut(void **state)
{
    char word[3000];
    uint64_t value;
    struct error err = ERROR_INIT;

    memset(word, 'x', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    assert_int_equal(parse_uint(word, 1, 2, &value, &err), -1);
    assert_non_null(strstr(err.text, "xxx...\" is not a number from 1 to 2"));
}

static void octal_numbers(void **state)
{
    unsigned value = 1;
    struct error err = ERROR_INIT;

    assert_int_equal(parse_octal("0660", 0777, &value, &err), 0);
    assert_int_equal(value, 0660);
    assert_int_equal(parse_octal("777", 0777, &value, &err), 0);
    assert_int_equal(value, 0777);
    static const char *const words[] = {
        "", "8", "0o7", "1000", "-1", "0x1", "77777777777777777"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_int_equal(parse_octal(words[i], 0777, &value, &err), -1);
        assert_int_equal(value, 0777);
    }
    assert_non_null(strstr(err.text, "is not an octal number from 0 to 0777"));
}

static void booleans(void **state)
{
    static const char *const yes[] = {"yes", "on", "true"};
    static const char *const no[] = {"no", "off", "false"};
    bool value;
    struct error err = ERROR_INIT;

    for (int i = 0; i < 3; i++) {
        value = false;
        assert_int_equal(parse_bool(yes[i], &value, &err), 0);
        assert_true(value);
        assert_int_equal(parse_bool(no[i], &value, &err), 0);
        assert_false(value);
    }
    assert_int_equal(parse_bool("Yes", &value, &err), -1);
    assert_int_equal(parse_bool("", &value, &err), -1);
    assert_int_equal(parse_bool("1", &value, &err), -1);
    assert_string_equal(err.text,
                        "\"1\" is not yes, no, on, off, true or false");
}

struct row {
    const char *text;
    uint64_t value;
};

static void sizes(void **state)
{
    static const struct row rows[] = {
        {"0", 0},
        {"65536", 65536},
        {"1B", 1},
        {"256KiB", 256 << 10},
        {"256 KiB", 256 << 10},
        {"1.5MiB", 3 << 19},
        {"0.125KiB", 128},
        {"2GiB", UINT64_C(2) << 30},
        {"3TiB", UINT64_C(3) << 40},
        {"1kB", 1000},
        {"1KB", 1000},
        {"10MB", 10000000},
        {"4.7GB", UINT64_C(4700000000)},
        {"1TB", UINT64_C(1000000000000)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value;
        struct error err = ERROR_INIT;
        assert_int_equal(parse_size(rows[i].text, 0, UINT64_MAX, &value, &err),
                         0);
        assert_int_equal(value, rows[i].value);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    static const char *const words[] = {"",
                                        "-1",
                                        "KiB",
                                        "1 ",
                                        "1  KiB",
                                        "1.5",
                                        "1.5B",
                                        "1.KiB",
                                        ".5KiB",
                                        "1KiB ",
                                        "1K",
                                        "1M",
                                        "1kib",
                                        "1KiB/s",
                                        "1e3",
                                        "1..5MiB",
                                        "1.2345MiB",
                                        "1Gbit",
                                        "20000000TiB",
                                        "99999999999999999999",
                                        "18446744073709551615"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint64_t value = 42;
        struct error err = ERROR_INIT;
        assert_int_equal(parse_size(words[i], 0, UINT64_MAX, &value, &err), -1);
        assert_int_equal(value, 42);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
    }
}

static void a_size_keeps_within_its_limits(void **state)
{
    uint64_t value;
    struct error err = ERROR_INIT;

    assert_int_equal(parse_size("1MiB", 1 << 20, 1 << 21, &value, &err), 0);
    assert_int_equal(parse_size("2MiB", 1 << 20, 1 << 21, &value, &err), 0);
    assert_int_equal(parse_size("1048575", 1 << 20, 1 << 21, &value, &err), -1);
    assert_int_equal(parse_size("3MiB", 1 << 20, 1 << 21, &value, &err), -1);
    assert_string_equal(err.text,
                        "\"3MiB\" is not a size from 1 MiB to 2 MiB (units: B, "
                        "KiB, MiB, GiB, TiB)");
}

static void rates(void **state)
{
    static const struct row rows[] = {
        {"unlimited", PARSE_UNLIMITED},
        {"1", 1},
        {"125000000", 125000000},
        {"100MiB/s", 100 << 20},
        {"100MiB", 100 << 20},
        {"100 MiB/s", 100 << 20},
        {"1Gbit/s", 125000000},
        {"2.5Gbit/s", 312500000},
        {"8kbit", 1000},
        {"1kbit/s", 125},
        {"10B/s", 10},
        {"1MB/s", 1000000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value;
        struct error err = ERROR_INIT;
        assert_int_equal(parse_rate(rows[i].text, &value, &err), 0);
        assert_true(value == rows[i].value);
    }
}

static void what_is_no_rate_is_refused(void **state)
{
    static const char *const words[] = {
        "",      "0",         "0MiB/s",       "0.001B", "/s",
        "1/s",   "Unlimited", "-5MiB",        "5MiB/m", "5MiB/s/s",
        "5bits", "8bit",      "20000000TiB/s"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint64_t value = 42;
        struct error err = ERROR_INIT;
        assert_int_equal(parse_rate(words[i], &value, &err), -1);
        assert_int_equal(value, 42);
        assert_non_null(strstr(err.text, "is not a rate of at least 1 B/s"));
    }
}

static void durations(void **state)
{
    static const struct row rows[] = {
        {"2s", 2 * MP_SECOND},
        {"300ms", 300 * MP_MS},
        {"150us", 150 * MP_US},
        {"5min", 300 * MP_SECOND},
        {"1h", 3600 * MP_SECOND},
        {"2", 2 * MP_SECOND},
        {"0.5", 500 * MP_MS},
        {"0.001", 1 * MP_MS},
        {"1.5min", 90 * MP_SECOND},
        {"0.25 s", 250 * MP_MS},
        {"2 min 5 s", 125 * MP_SECOND},
        {"1h 1min 1s 1ms 1us", 3661 * MP_SECOND + MP_MS + MP_US},
        {"0", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mp_time value;
        struct error err = ERROR_INIT;
        assert_int_equal(
            parse_duration(rows[i].text, 0, INT64_MAX, &value, &err), 0);
        assert_int_equal(value, rows[i].value);
    }
}

static void what_is_no_duration_is_refused(void **state)
{
    static const char *const words[] = {"",
                                        "s",
                                        "-1s",
                                        "1m",
                                        "1 min ",
                                        "1sec",
                                        "0.0001",
                                        "1ns",
                                        "9999999999999999999",
                                        "3000000h",
                                        "1 h 1",
                                        "1 1 h",
                                        "1h  1s",
                                        "1h1s",
                                        "1h 1s ",
                                        "1h s",
                                        "2000000h 2000000h"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        mp_time value = 42;
        struct error err = ERROR_INIT;
        assert_int_equal(parse_duration(words[i], 0, INT64_MAX, &value, &err),
                         -1);
        assert_int_equal(value, 42);
    }
    mp_time value;
    struct error err = ERROR_INIT;
    assert_int_equal(
        parse_duration("61s", MP_SECOND, 60 * MP_SECOND, &value, &err), -1);
    assert_string_equal(err.text, "\"61s\" is not a time from 1 s to 60 s "
                                  "(units: us, ms, s, min, h)");
    assert_int_equal(
        parse_duration("999ms", MP_SECOND, 60 * MP_SECOND, &value, NULL), -1);
}

static void hosts_and_ports(void **state)
{
    static const struct {
        const char *text, *host;
        unsigned port;
    } rows[] = {
        {"a.example", "a.example", 16515},
        {"a.example:7", "a.example", 7},
        {"192.0.2.1:65535", "192.0.2.1", 65535},
        {"[::1]", "::1", 16515},
        {"[fe80::1%eth0]:9", "fe80::1%eth0", 9},
        {"2001:db8::1", "2001:db8::1", 16515},
        {"*", "", 16515},
        {"*:0", "", 0},
        {":80", "", 80},
        {"", "", 16515},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char host[PARSE_HOST_SIZE];
        unsigned port;
        struct error err = ERROR_INIT;
        assert_int_equal(
            parse_host_port(rows[i].text, 16515, host, &port, &err), 0);
        assert_string_equal(host, rows[i].host);
        assert_int_equal(port, rows[i].port);
    }
}

static void what_is_no_address_is_refused(void **state)
{
    char word[400];
    static const char *const words[] = {
        "a:",    "a:b",  "a:65536", "a:-1",  "[::1",      "[::1]7", "[::1]:",
        "[a]:7", "a b",  "a/b",     "**",    "[]:7",      "a,b",    "300.1.1.1",
        "1.2.3", "7",    "a.7",     "1:2:3", "[1::2::3]", "[::1%]", "::fffff",
        "a%b",   "a..b", ".a",      "-a"};
    char host[PARSE_HOST_SIZE] = "as it was";
    unsigned port = 42;
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_int_equal(parse_host_port(words[i], 1, host, &port, &err), -1);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
    }
    memset(word, 'a', sizeof(word));
    word[PARSE_HOST_SIZE] = '\0';
    assert_int_equal(parse_host_port(word, 1, host, &port, &err), -1);
    assert_string_equal(host, "as it was");
    assert_int_equal(port, 42);
    word[PARSE_HOST_SIZE - 1] = '\0';
    assert_int_equal(parse_host_port(word, 1, host, &port, &err), 0);
}

static void formats_for_people(void **state)
{
    char buf[32];

    assert_string_equal(parse_format_size(0, buf, 32), "0 B");
    assert_string_equal(parse_format_size(1023, buf, 32), "1023 B");
    assert_string_equal(parse_format_size(1 << 20, buf, 32), "1 MiB");
    assert_string_equal(parse_format_size(3 << 19, buf, 32), "1.5 MiB");
    assert_string_equal(parse_format_size((1 << 20) - 1, buf, 32), "1 MiB");
    assert_string_equal(parse_format_size(UINT64_MAX, buf, 32), "16777216 TiB");

    assert_string_equal(parse_format_rate(118200000, buf, 32), "112.7 MiB/s");
    assert_string_equal(parse_format_rate(999, buf, 32), "999 B/s");
    assert_string_equal(parse_format_rate((1 << 20) - 1, buf, 32), "1 MiB/s");
    assert_string_equal(parse_format_rate(PARSE_UNLIMITED, buf, 32),
                        "unlimited");

    assert_string_equal(parse_format_duration(0, buf, 32), "0 s");
    assert_string_equal(parse_format_duration(312 * MP_US, buf, 32), "312 us");
    assert_string_equal(parse_format_duration(1500, buf, 32), "1.5 us");
    assert_string_equal(parse_format_duration(12500 * MP_US, buf, 32),
                        "12.5 ms");
    assert_string_equal(parse_format_duration(1250 * MP_MS, buf, 32), "1.25 s");
    assert_string_equal(parse_format_duration(60 * MP_SECOND, buf, 32), "60 s");
    assert_string_equal(parse_format_duration(125 * MP_SECOND, buf, 32),
                        "2 min 5 s");
    assert_string_equal(parse_format_duration(3600 * MP_SECOND, buf, 32),
                        "1 h");
    assert_string_equal(parse_format_duration(3661 * MP_SECOND, buf, 32),
                        "1 h 1 min");
    assert_in_range(strlen(parse_format_duration(INT64_MAX, buf, 32)), 1, 30);
}

/* What is printed can be said again, and means the same. */
static void formats_are_read_back(void **state)
{
    static const uint64_t sizes[] = {0,
                                     1,
                                     1023,
                                     1024,
                                     1536,
                                     65536,
                                     3 << 19,
                                     100 << 20,
                                     1 << 30,
                                     5368709120,
                                     UINT64_C(1) << 40,
                                     UINT64_C(1023) << 40};
    static const mp_time times[] = {0,
                                    1500,
                                    312 * MP_US,
                                    12500 * MP_US,
                                    300 * MP_MS,
                                    1250 * MP_MS,
                                    60 * MP_SECOND,
                                    119 * MP_SECOND,
                                    125 * MP_SECOND,
                                    3600 * MP_SECOND,
                                    3660 * MP_SECOND,
                                    604800 * MP_SECOND};
    char buf[32];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t value = 7;
        parse_format_size(sizes[i], buf, sizeof(buf));
        assert_int_equal(parse_size(buf, 0, UINT64_MAX, &value, NULL), 0);
        assert_true(value == sizes[i]);
        parse_format_rate(sizes[i], buf, sizeof(buf));
        if (sizes[i]) { /* 0 is no rate that can be asked for */
            assert_int_equal(parse_rate(buf, &value, NULL), 0);
        }
        assert_true(value == sizes[i]);
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        mp_time value = 7;
        parse_format_duration(times[i], buf, sizeof(buf));
        assert_int_equal(parse_duration(buf, 0, INT64_MAX, &value, NULL), 0);
        assert_int_equal(value, times[i]);
    }
}

/* Each unit that is named is one. */
static void units_that_are_named_are_taken(void **state)
{
    static const char *const lists[] = {PARSE_SIZE_UNITS, PARSE_RATE_UNITS,
                                        PARSE_TIME_UNITS};
    for (int i = 0; i < 3; i++) {
        char list[100], *rest;
        snprintf(list, sizeof(list), "%s", lists[i]);
        for (char *unit = strtok_r(list, ", ", &rest); unit;
             unit = strtok_r(NULL, ", ", &rest)) {
            char text[32];
            uint64_t value;
            mp_time time;
            snprintf(text, sizeof(text), "2 %s", unit);
            assert_int_equal(
                i == 0   ? parse_size(text, 0, UINT64_MAX, &value, NULL)
                : i == 1 ? parse_rate(text, &value, NULL)
                         : parse_duration(text, 0, INT64_MAX, &time, NULL),
                0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_within_their_limits),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(a_long_word_is_shown_cut),
        cmocka_unit_test(octal_numbers),
        cmocka_unit_test(booleans),
        cmocka_unit_test(sizes),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(a_size_keeps_within_its_limits),
        cmocka_unit_test(rates),
        cmocka_unit_test(what_is_no_rate_is_refused),
        cmocka_unit_test(durations),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(hosts_and_ports),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(formats_for_people),
        cmocka_unit_test(formats_are_read_back),
        cmocka_unit_test(units_that_are_named_are_taken),
    };
    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
