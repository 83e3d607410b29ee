// SPDX-License-Identifier: BSD-3-Clause
/* Errors: a class that programs branch on and a text that people read. */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct error_row {
    const char *name;
    int http_status;
};

#define ERROR_ROW(symbol, name, http) [symbol] = {name, http},
static const struct error_row error_rows[] = {ERROR_TABLE(ERROR_ROW)};
#undef ERROR_ROW

_Static_assert(sizeof(error_rows) / sizeof(error_rows[0]) == ERROR_CODES,
               "each error code has a row");

/* A text that was cut ends in an ellipsis, so that nobody takes it for whole.
 */
static void mark_cut(char *text, size_t size)
{
    memcpy(text + size - 4, "...", 4);
}

/* Bytes of the UTF-8 sequence at s, 0 if there is no whole, shortest one. */
static size_t sequence_length(const unsigned char *s)
{
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || (s[0] == 0xe0 && s[1] < 0xa0) ||
        (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f)) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

/* Texts may carry what a peer or a QEMU said, and end in terminals and in JSON:
 * control characters and what is no UTF-8 become "?". */
static void make_harmless(char *text)
{
    unsigned char *s = (unsigned char *)text;
    while (*s) {
        size_t length = *s < 0x80 ? 1 : sequence_length(s);
        if (!length || *s < 0x20 || *s == 0x7f) {
            *s = '?';
            length = 1;
        }
        s += length;
    }
}

__attribute__((format(printf, 2, 0))) static void
set_text(struct error *err, const char *format, va_list args)
{
    int n = vsnprintf(err->text, sizeof(err->text), format, args);
    if (n < 0) {
        err->text[0] = '\0';
    } else if ((size_t)n >= sizeof(err->text)) {
        mark_cut(err->text, sizeof(err->text));
    }
    make_harmless(err->text);
}

static void append(struct error *err, const char *separator, const char *tail)
{
    size_t used = strlen(err->text);
    int n = snprintf(err->text + used, sizeof(err->text) - used, "%s%s",
                     separator, tail);
    if (n < 0 || (size_t)n >= sizeof(err->text) - used) {
        mark_cut(err->text, sizeof(err->text));
    }
}

int error_set(struct error *err, enum error_code code, const char *format, ...)
{
    if (err) {
        va_list args;
        err->code = code;
        va_start(args, format);
        set_text(err, format, args);
        va_end(args);
    }
    return -1;
}

int error_set_errno(struct error *err, enum error_code code, int errnum,
                    const char *format, ...)
{
    if (err) {
        va_list args;
        err->code = code;
        va_start(args, format);
        set_text(err, format, args);
        va_end(args);
        append(err, ": ", strerror(errnum));
    }
    return -1;
}

int error_wrap(struct error *err, const char *format, ...)
{
    if (err) {
        struct error inner = *err;
        va_list args;
        va_start(args, format);
        set_text(err, format, args);
        va_end(args);
        append(err, ": ", inner.text);
    }
    return -1;
}

int error_copy(struct error *into, const struct error *from)
{
    if (into) {
        *into = *from;
    }
    return -1;
}

const char *error_class(enum error_code code)
{
    if ((unsigned)code >= ERROR_CODES) {
        code = ERR_INTERNAL;
    }
    return error_rows[code].name;
}

enum error_code error_code_of_class(const char *name)
{
    for (int i = 0; i < ERROR_CODES; i++) {
        if (!strcmp(error_rows[i].name, name)) {
            return (enum error_code)i;
        }
    }
    return ERR_INTERNAL;
}

int error_http_status(enum error_code code)
{
    if ((unsigned)code >= ERROR_CODES) {
        code = ERR_INTERNAL;
    }
    return error_rows[code].http_status;
}
