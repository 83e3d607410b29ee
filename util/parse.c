// SPDX-License-Identifier: BSD-3-Clause
/* Words to values, whole string or error. */
#include "util/parse.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A wrong word is shown up to here: it may be as long as its line. */
#define SHOWN_MAX 80

struct unit {
    const char *name;
    uint64_t factor;
};

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define KB UINT64_C(1000)
#define MB UINT64_C(1000000)
#define GB UINT64_C(1000000000)
#define TB UINT64_C(1000000000000)

static const struct unit size_units[] = {
    {"", 1},      {"B", 1},     {"KiB", KIB}, {"MiB", MIB},
    {"GiB", GIB}, {"TiB", TIB}, {"kB", KB},   {"KB", KB},
    {"MB", MB},   {"GB", GB},   {"TB", TB},   {NULL, 0},
};

/* bits per second over 8, times 1000: 1 kbit/s is 125 bytes per second */
static const struct unit bit_units[] = {
    {"kbit", KB / 8}, {"Kbit", KB / 8}, {"Mbit", MB / 8},
    {"Gbit", GB / 8}, {"Tbit", TB / 8}, {NULL, 0},
};

static const struct unit time_units[] = {
    {"", MP_SECOND}, {"s", MP_SECOND},        {"us", MP_US},
    {"ms", MP_MS},   {"min", 60 * MP_SECOND}, {"h", 3600 * MP_SECOND},
    {NULL, 0},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Refuses text. what says what it should have been. */
static int refuse(struct error *err, const char *text, const char *what)
{
    size_t length = strlen(text);
    return error_set(err, ERR_BAD_REQUEST, "\"%.*s%s\" is not %s", SHOWN_MAX,
                     text, length > SHOWN_MAX ? "..." : "", what);
}

int parse_uint(const char *text, uint64_t min, uint64_t max,
               uint64_t *ret_value, struct error *err)
{
    uint64_t value = 0;
    bool fits = *text != '\0';

    for (const char *p = text; *p && fits; p++) {
        fits = is_digit(*p) && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
    }
    if (!fits || value < min || value > max) {
        char what[80];
        snprintf(what, sizeof(what), "a number from %" PRIu64 " to %" PRIu64,
                 min, max);
        return refuse(err, text, what);
    }
    *ret_value = value;
    return 0;
}

int parse_octal(const char *text, unsigned max, unsigned *ret_value,
                struct error *err)
{
    unsigned value = 0;
    bool fits = *text != '\0';

    for (const char *p = text; *p && fits; p++) {
        fits = *p >= '0' && *p <= '7' && value <= max;
        value = value * 8 + (unsigned)(*p - '0');
    }
    if (!fits || value > max) {
        char what[64];
        snprintf(what, sizeof(what), "an octal number from 0 to 0%o", max);
        return refuse(err, text, what);
    }
    *ret_value = value;
    return 0;
}

int parse_bool(const char *text, bool *ret_value, struct error *err)
{
    static const char *const words[] = {"no", "yes",   "off",
                                        "on", "false", "true"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strcmp(text, words[i])) {
            *ret_value = i % 2;
            return 0;
        }
    }
    return refuse(err, text, "yes, no, on, off, true or false");
}

/* The factor of the unit of that name (length bytes); 0 if there is none. */
static uint64_t find_factor(const struct unit *units, const char *name,
                            size_t length)
{
    for (; units->name; units++) {
        if (strlen(units->name) == length &&
            !memcmp(units->name, name, length)) {
            return units->factor;
        }
    }
    return 0;
}

/* Reads digits with up to three decimals as thousandths. Returns what follows,
 * or NULL. */
static const char *read_thousandths(const char *p, uint64_t *ret_value,
                                    bool *ret_decimals)
{
    uint64_t value = 0;
    int decimals = -1;

    if (!is_digit(*p)) {
        return NULL;
    }
    for (; is_digit(*p) || (*p == '.' && decimals < 0); p++) {
        if (*p == '.') {
            decimals = 0;
            continue;
        }
        if (decimals >= 0 && ++decimals > 3) {
            return NULL;
        }
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return NULL;
        }
    }
    if (decimals == 0) {
        return NULL; /* "2." */
    }
    *ret_decimals = decimals > 0;
    for (decimals = decimals < 0 ? 0 : decimals; decimals < 3; decimals++) {
        if (__builtin_mul_overflow(value, 10, &value)) {
            return NULL;
        }
    }
    *ret_value = value;
    return p;
}

/* Reads NUMBER[ ]UNIT; the unit, without an optional "/s" if rate, is looked up
 * in both tables. False if it is malformed or does not fit. */
static bool read_quantity(const char *text, const struct unit *units,
                          const struct unit *more_units, bool rate,
                          uint64_t *ret_value)
{
    uint64_t thousandths, value;
    bool decimals;
    const char *p = read_thousandths(text, &thousandths, &decimals);

    if (!p) {
        return false;
    }
    if (p[0] == ' ' && p[1]) {
        p++;
    }
    size_t length = strlen(p);
    if (rate && length > 2 && !strcmp(p + length - 2, "/s")) {
        length -= 2;
    }
    uint64_t factor = find_factor(units, p, length);
    if (!factor && more_units) {
        factor = find_factor(more_units, p, length);
    }
    if (!factor || (factor == 1 && decimals)) {
        return false;
    }
    unsigned __int128 product = (unsigned __int128)thousandths * factor / 1000;
    value = (uint64_t)product;
    if (value != product) {
        return false;
    }
    *ret_value = value;
    return true;
}

int parse_size(const char *text, uint64_t min, uint64_t max,
               uint64_t *ret_bytes, struct error *err)
{
    uint64_t value;

    if (!read_quantity(text, size_units, NULL, false, &value) || value < min ||
        value > max) {
        char low[32], high[32], what[128];
        snprintf(what, sizeof(what),
                 "a size from %s to %s (units: " PARSE_SIZE_UNITS ")",
                 parse_format_size(min, low, sizeof(low)),
                 parse_format_size(max, high, sizeof(high)));
        return refuse(err, text, what);
    }
    *ret_bytes = value;
    return 0;
}

int parse_rate(const char *text, uint64_t *ret_bytes_per_second,
               struct error *err)
{
    uint64_t value;

    if (!strcmp(text, "unlimited")) {
        *ret_bytes_per_second = PARSE_UNLIMITED;
        return 0;
    }
    if (!read_quantity(text, size_units, bit_units, true, &value) ||
        value == 0 || value == PARSE_UNLIMITED) {
        return refuse(err, text,
                      "a rate of at least 1 B/s (units: " PARSE_RATE_UNITS
                      ") or \"unlimited\"");
    }
    *ret_bytes_per_second = value;
    return 0;
}

/* The end of the first NUMBER[ ]UNIT in text. */
static const char *skip_term(const char *text)
{
    text += strspn(text, "0123456789.");
    text += text[0] == ' ' && text[1];
    return text + strcspn(text, " 0123456789.");
}

/* Reads "90s" or "1 h 1 min". False if it is malformed or does not fit. */
static bool read_duration(const char *text, uint64_t *ret_value)
{
    uint64_t sum = 0, value;
    char term[64];

    if (!*skip_term(text)) {
        return read_quantity(text, time_units, NULL, false, ret_value);
    }
    for (;;) {
        size_t length = (size_t)(skip_term(text) - text);
        if (length == 0 || length >= sizeof(term) ||
            is_digit(text[length - 1])) { /* has no unit */
            return false;
        }
        memcpy(term, text, length);
        term[length] = '\0';
        if (!read_quantity(term, time_units, NULL, false, &value) ||
            __builtin_add_overflow(sum, value, &sum)) {
            return false;
        }
        text += length;
        if (!*text) {
            *ret_value = sum;
            return true;
        }
        if (*text++ != ' ') {
            return false;
        }
    }
}

int parse_duration(const char *text, mp_time min, mp_time max,
                   mp_time *ret_time, struct error *err)
{
    uint64_t value;

    if (!read_duration(text, &value) || value > INT64_MAX ||
        (mp_time)value < min || (mp_time)value > max) {
        char low[32], high[32], what[128];
        snprintf(what, sizeof(what),
                 "a time from %s to %s (units: " PARSE_TIME_UNITS ")",
                 parse_format_duration(min, low, sizeof(low)),
                 parse_format_duration(max, high, sizeof(high)));
        return refuse(err, text, what);
    }
    *ret_time = (mp_time)value;
    return 0;
}

/* Letters, digits and what else stands in names and addresses ("%" comes
 * before the interface of a link-local address). */
static bool is_host_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr(".-_:%", c));
}

/* Whether host can name one: what has a colon is an IPv6 address, what ends in
 * a number an IPv4 address (RFC 1123, 2.1: no name does), all else a name. */
static bool is_host_possible(const char *host)
{
    char address[PARSE_HOST_SIZE];
    struct in6_addr v6;
    struct in_addr v4;
    const char *label = strrchr(host, '.');

    if (strchr(host, ':')) {
        const char *interface = strchrnul(host, '%');
        size_t length = (size_t)(interface - host);
        memcpy(address, host, length);
        address[length] = '\0';
        return inet_pton(AF_INET6, address, &v6) == 1 &&
               (!*interface || interface[1]);
    }
    label = label ? label + 1 : host;
    if (is_digit(*label) && !label[strspn(label, "0123456789")]) {
        return inet_pton(AF_INET, host, &v4) == 1;
    }
    return !strchr(host, '%') && !strstr(host, "..") && host[0] != '.' &&
           host[0] != '-';
}

static int refuse_address(struct error *err, const char *text)
{
    return refuse(err, text,
                  "an address (HOST, HOST:PORT, [IPV6] or [IPV6]:PORT, ports "
                  "up to 65535)");
}

int parse_host_port(const char *text, unsigned default_port,
                    char ret_host[PARSE_HOST_SIZE], unsigned *ret_port,
                    struct error *err)
{
    const char *host = text, *end, *rest;
    uint64_t port = default_port;

    if (*text == '[') {
        host++;
        end = strchr(host, ']');
        if (!end || !memchr(host, ':', (size_t)(end - host))) {
            return refuse_address(err, text);
        }
        rest = end + 1;
    } else {
        const char *colon = strchr(text, ':');
        /* several colons without brackets: an IPv6 address and no port */
        bool bare_v6 = colon && strchr(colon + 1, ':');
        end = colon && !bare_v6 ? colon : text + strlen(text);
        rest = end;
    }
    size_t length = (size_t)(end - host);
    if (length == 1 && *host == '*') {
        length = 0;
    }
    if (length >= PARSE_HOST_SIZE || (*rest && *rest != ':') ||
        (*rest && parse_uint(rest + 1, 0, 65535, &port, NULL) < 0)) {
        return refuse_address(err, text);
    }
    for (size_t i = 0; i < length; i++) {
        if (!is_host_char(host[i])) {
            return refuse_address(err, text);
        }
    }
    char copy[PARSE_HOST_SIZE];
    memcpy(copy, host, length);
    copy[length] = '\0';
    if (length && !is_host_possible(copy)) {
        return refuse_address(err, text);
    }
    strcpy(ret_host, copy);
    *ret_port = (unsigned)port;
    return 0;
}

/* Writes value / scale with one decimal ("1.5"), or none where it is whole. */
static int format_tenths(double value, char *buf, size_t size)
{
    int n = snprintf(buf, size, "%.1f", value);
    if (n >= 2 && (size_t)n < size && !strcmp(buf + n - 2, ".0")) {
        buf[n -= 2] = '\0';
    }
    return n;
}

static const char *format_scaled(uint64_t value, const char *const *units,
                                 char *buf, size_t size)
{
    char number[24];
    double scaled = (double)value;
    int unit = 0;

    /* what would be rounded up to 1024 takes the next unit */
    while (scaled >= 1024 - 0.05 && units[unit + 1]) {
        scaled /= 1024;
        unit++;
    }
    format_tenths(scaled, number, sizeof(number));
    snprintf(buf, size, "%s %s", number, units[unit]);
    return buf;
}

const char *parse_format_size(uint64_t bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    return format_scaled(bytes, units, buf, size);
}

const char *parse_format_rate(uint64_t bytes_per_second, char *buf, size_t size)
{
    static const char *const units[] = {"B/s",   "KiB/s", "MiB/s",
                                        "GiB/s", "TiB/s", NULL};
    if (bytes_per_second == PARSE_UNLIMITED) {
        snprintf(buf, size, "unlimited");
        return buf;
    }
    return format_scaled(bytes_per_second, units, buf, size);
}

/* "5 min", "5 min 3 s", "2 h", "2 h 1 min" */
static void format_long_duration(mp_time time, char *buf, size_t size)
{
    int64_t seconds = time / MP_SECOND;
    bool hours = seconds >= 3600;
    int64_t large = seconds / (hours ? 3600 : 60);
    int64_t small = hours ? seconds % 3600 / 60 : seconds % 60;

    if (small) {
        snprintf(buf, size, "%" PRId64 " %s %" PRId64 " %s", large,
                 hours ? "h" : "min", small, hours ? "min" : "s");
    } else {
        snprintf(buf, size, "%" PRId64 " %s", large, hours ? "h" : "min");
    }
}

const char *parse_format_duration(mp_time time, char *buf, size_t size)
{
    if (time >= 120 * MP_SECOND) {
        format_long_duration(time, buf, size);
    } else if (time >= MP_SECOND) {
        snprintf(buf, size, "%.4g s", (double)time / (double)MP_SECOND);
    } else if (time >= MP_MS) {
        snprintf(buf, size, "%.4g ms", (double)time / (double)MP_MS);
    } else if (time > 0) {
        snprintf(buf, size, "%.4g us", (double)time / (double)MP_US);
    } else {
        snprintf(buf, size, "0 s");
    }
    return buf;
}
