// SPDX-License-Identifier: BSD-3-Clause
/* Words to values, whole string or error. Each error names what was given and
 * what is allowed; the caller wraps it with where it stood. */
#ifndef UTIL_PARSE_H
#define UTIL_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/clock.h"
#include "util/error.h"

#define PARSE_UNLIMITED UINT64_MAX

/* A decimal number within [min, max]. */
int parse_uint(const char *text, uint64_t min, uint64_t max,
               uint64_t *ret_value, struct error *err);

/* yes/no/on/off/true/false */
int parse_bool(const char *text, bool *ret_value, struct error *err);

/* Bytes: "65536", "256KiB", "1GiB", "10MB" (decimal units are powers of 1000,
 * binary ones of 1024), within [min, max]. */
int parse_size(const char *text, uint64_t min, uint64_t max,
               uint64_t *ret_bytes, struct error *err);

/* A rate in bytes per second: "100MiB/s", "1Gbit/s", "125000000" (bytes per
 * second) or "unlimited" (PARSE_UNLIMITED). 0 is refused: it never means
 * "unlimited" here. "/s" may be left out. */
int parse_rate(const char *text, uint64_t *ret_bytes_per_second,
               struct error *err);

/* A time: "2s", "300ms", "150us", "5min", or plain seconds with up to three
 * decimals ("2", "0.5"), within [min, max]. */
int parse_duration(const char *text, mp_time min, mp_time max,
                   mp_time *ret_time, struct error *err);

/* Formats for people: "1.5 MiB", "118.2 MB/s", "1.25 s", "312 us". Each writes
 * into buf (32 bytes are enough) and returns it. */
const char *parse_format_size(uint64_t bytes, char *buf, size_t size);
const char *parse_format_rate(uint64_t bytes_per_second, char *buf,
                              size_t size);
const char *parse_format_duration(mp_time time, char *buf, size_t size);

#endif
