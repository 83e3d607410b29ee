// SPDX-License-Identifier: BSD-3-Clause
/* Values of options: text to the field that the option table names. */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include <stdbool.h>

#include "conf/options.h"
#include "util/error.h"

/* Sets the option's field in base (a struct conf or struct conf_peer) from
 * text; what the field held is released. An empty text unsets an option that
 * is unset by default. On failure *err says SECTION.KEY: "TEXT" is not ...,
 * and the field is as it was. */
int value_set(const struct option_row *option, void *base, const char *text,
              struct error *err);

/* Releases what the option's field in base owns. */
void value_free(const struct option_row *option, void *base);

/* Makes the option's field in base hold what it holds in from. -1 without
 * memory; the field is as it was then. */
int value_copy(const struct option_row *option, void *base, const void *from,
               struct error *err);

/* Whether the option's fields in a and b hold the same. */
bool value_is_equal(const struct option_row *option, const void *a,
                    const void *b);

/* Whether text is 1 to max characters of A-Z a-z 0-9 . _ -, without a dot or
 * "-" at the start. */
bool value_is_name(const char *text, size_t max);

/* Whether text can be an identity: a DNS name, an IP address or a URI. */
bool value_is_identity(const char *text);

#endif
