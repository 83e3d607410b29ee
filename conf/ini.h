// SPDX-License-Identifier: BSD-3-Clause
/* A reader of configuration text, pure:
 *
 *     # comment, ; comment (where a line starts, blanks aside)
 *     [section]
 *     [section "NAME"]
 *     key = value
 *
 * Blanks around sections, keys and values do not count. There are no quotes,
 * continuations or comments behind a value: what stands there is the value. */
#ifndef CONF_INI_H
#define CONF_INI_H

#include <stddef.h>

#include "util/error.h"

/* Longest line in bytes, without its end. */
#define INI_LINE_MAX 4096

/* Each returns 0, or -1 with *err to end the reading; "FILE:LINE: " is put in
 * front. Strings are valid during the call only. */
struct ini_ops {
    /* [section] (name is NULL) or [section "name"] */
    int (*on_section)(void *arg, const char *section, const char *name,
                      unsigned line, struct error *err);
    /* key = value, in the section last seen; value may be empty */
    int (*on_value)(void *arg, const char *key, const char *value,
                    unsigned line, struct error *err);
};

/* Reads length bytes of text; file is its name in errors. Returns 0, or -1 with
 * ERR_CONFIG (or ERR_NO_MEMORY, if an op said so). */
int ini_read(const char *text, size_t length, const char *file,
             const struct ini_ops *ops, void *arg, struct error *err);

#endif
