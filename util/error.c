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

__attribute__((format(printf, 2, 0))) static void
set_text(struct error *err, const char *format, va_list args)
{
    int n = vsnprintf(err->text, sizeof(err->text), format, args);
    if (n < 0) {
        err->text[0] = '\0';
    } else if ((size_t)n >= sizeof(err->text)) {
        mark_cut(err->text, sizeof(err->text));
    }
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
