// SPDX-License-Identifier: BSD-3-Clause
/* The log: one line an event on stderr, "<N>"-prefixed for a journal when
 * asked. Only proxy/ and tools/ log above debug; the layers below return
 * errors. Safe from every thread; errno is kept. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

#include <stdbool.h>
#include <stdarg.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

/* Lines above this level are dropped. Default LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* true: each line starts with "<N>" (syslog priority), as journald reads it. */
void log_set_journal(bool journal);

/* Parses "error", "warning", "info" or "debug". False if it is none. */
bool log_parse_level(const char *name, enum log_level *ret_level);

/* One line. context, if not NULL, comes in front ("mig=ID side=source"). */
void log_write(enum log_level level, const char *context, const char *format,
               ...) __attribute__((format(printf, 3, 4)));
void log_writev(enum log_level level, const char *context, const char *format,
                va_list args) __attribute__((format(printf, 3, 0)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, NULL, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, NULL, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, NULL, __VA_ARGS__)
#define log_debug(...)                                                         \
    do {                                                                       \
        if (log_get_level() >= LOG_LEVEL_DEBUG) {                              \
            log_write(LOG_LEVEL_DEBUG, NULL, __VA_ARGS__);                     \
        }                                                                      \
    } while (0)

#endif
