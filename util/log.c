// SPDX-License-Identifier: BSD-3-Clause
/* The log: one line an event on stderr. */
#include "util/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const int level_priorities[] = {3, 4, 6, 7};

/* The log is the one thing that is truly per process; everything else is
 * handed around. */
static _Atomic enum log_level level_max = LOG_LEVEL_INFO;
static _Atomic bool journal_prefix;

void log_set_level(enum log_level level)
{
    level_max = level;
}

enum log_level log_get_level(void)
{
    return level_max;
}

void log_set_journal(bool journal)
{
    journal_prefix = journal;
}

bool log_parse_level(const char *name, enum log_level *ret_level)
{
    for (int i = 0; i <= LOG_LEVEL_DEBUG; i++) {
        if (!strcmp(name, level_names[i])) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

/* A line may carry text that came from a peer: no control characters. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

void log_writev(enum log_level level, const char *context, const char *format,
                va_list args)
{
    if (level > level_max) {
        return;
    }
    int saved_errno = errno;
    char text[1024], when[40], line[1400];
    int n;

    vsnprintf(text, sizeof(text), format, args);
    make_printable(text);
    if (journal_prefix) {
        n = snprintf(line, sizeof(line), "<%d>%s%s%s\n",
                     level_priorities[level], context ? context : "",
                     context ? ": " : "", text);
    } else {
        clock_format_wall(clock_wall_us(), when, sizeof(when));
        n = snprintf(line, sizeof(line), "%s %-7s %s%s%s\n", when,
                     level_names[level], context ? context : "",
                     context ? ": " : "", text);
    }
    if (n >= (int)sizeof(line)) {
        n = sizeof(line) - 1;
        line[n - 1] = '\n';
    }
    /* one write a line, so that lines of threads do not mix; nothing can be
     * done about a log that cannot be written */
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) {
        errno = saved_errno;
    }
    errno = saved_errno;
}

void log_write(enum log_level level, const char *context, const char *format,
               ...)
{
    va_list args;
    va_start(args, format);
    log_writev(level, context, format, args);
    va_end(args);
}
