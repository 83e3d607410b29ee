// SPDX-License-Identifier: BSD-3-Clause
/* Words to values, whole string or error. Each error is ERR_BAD_REQUEST,
 * starts with the word in quotes and says what is allowed: '"300" is not a
 * number from 1 to 256'. The caller wraps it with where the word stood.
 * Results are untouched on failure. */
#ifndef UTIL_PARSE_H
#define UTIL_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/clock.h"
#include "util/error.h"

#define PARSE_UNLIMITED UINT64_MAX

/* The units, as errors and the help of options name them; what the formats
 * below write is among them, and is read back. Decimal units (kB, MB, GB, TB)
 * are taken, too. */
#define PARSE_SIZE_UNITS "B, KiB, MiB, GiB, TiB"
#define PARSE_RATE_UNITS "B/s, KiB/s, MiB/s, GiB/s, kbit/s, Mbit/s, Gbit/s"
#define PARSE_TIME_UNITS "us, ms, s, min, h"

/* Room for a host name (253 bytes at most in DNS) or an address. */
#define PARSE_HOST_SIZE 256

/* A decimal number within [min, max]. */
int parse_uint(const char *text, uint64_t min, uint64_t max,
               uint64_t *ret_value, struct error *err);

/* An octal number (file modes: "0660", "660") within [0, max]. */
int parse_octal(const char *text, unsigned max, unsigned *ret_value,
                struct error *err);

/* yes/no/on/off/true/false */
int parse_bool(const char *text, bool *ret_value, struct error *err);

/* Bytes: "65536", "256KiB", "1.5GiB", "10MB" (decimal units are powers of 1000,
 * binary ones of 1024), within [min, max]. One blank may stand before the
 * unit, and up to three decimals before a unit above the byte. */
int parse_size(const char *text, uint64_t min, uint64_t max,
               uint64_t *ret_bytes, struct error *err);

/* A rate in bytes per second: "100MiB/s", "2.5Gbit/s", "125000000" (bytes per
 * second) or "unlimited" (PARSE_UNLIMITED). 0 is refused: it never means
 * "unlimited" here. "/s" may be left out. */
int parse_rate(const char *text, uint64_t *ret_bytes_per_second,
               struct error *err);

/* A time: "2s", "300ms", "150us", "5min", "1h" or plain seconds, with up to
 * three decimals ("2", "0.5"), or a sum of such with units and a blank between
 * ("2 min 5 s"), within [min, max]. */
int parse_duration(const char *text, mp_time min, mp_time max,
                   mp_time *ret_time, struct error *err);

/* Splits "HOST", "HOST:PORT", "[V6]", "[V6]:PORT" and "V6". HOST may be empty
 * or "*" (any address), which gives an empty host. Nothing is looked up: names
 * and addresses are checked for their form only (300.1.1.1 has none).
 * default_port is used where none is given; port 0 (the kernel's choice, for
 * listening) is accepted. */
int parse_host_port(const char *text, unsigned default_port,
                    char ret_host[PARSE_HOST_SIZE], unsigned *ret_port,
                    struct error *err);

/* Formats for people: "1.5 MiB", "118.2 MiB/s" ("unlimited"), "1.25 s",
 * "312 us", "2 min 5 s". parse_...() read them as what they stand for, rounded
 * (of more than 1024 TiB not all). Each writes into buf (32 bytes are enough)
 * and returns it. */
const char *parse_format_size(uint64_t bytes, char *buf, size_t size);
const char *parse_format_rate(uint64_t bytes_per_second, char *buf,
                              size_t size);
const char *parse_format_duration(mp_time time, char *buf, size_t size);

#endif
