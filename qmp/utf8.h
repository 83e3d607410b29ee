// SPDX-License-Identifier: BSD-3-Clause
/* UTF-8 checked byte by byte (RFC 3629: no overlong forms, no surrogates,
 * nothing above U+10FFFF), so that text may be cut anywhere. Pure. */
#ifndef QMP_UTF8_H
#define QMP_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: between two characters. */
struct utf8_state {
    unsigned char need;      /* continuation bytes still to come */
    unsigned char low, high; /* what the next of them may be */
};

static inline bool utf8_start(struct utf8_state *s, unsigned char c)
{
    s->low = 0x80;
    s->high = 0xbf;
    if (c < 0x80) {
        return true;
    }
    if (c < 0xc2 || c > 0xf4) {
        return false;
    }
    s->need = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    if (c == 0xe0) {
        s->low = 0xa0;
    } else if (c == 0xed) {
        s->high = 0x9f;
    } else if (c == 0xf0) {
        s->low = 0x90;
    } else if (c == 0xf4) {
        s->high = 0x8f;
    }
    return true;
}

/* Takes the next byte; false if no character goes on with it. */
static inline bool utf8_feed(struct utf8_state *s, unsigned char c)
{
    if (s->need == 0) {
        return utf8_start(s, c);
    }
    if (c < s->low || c > s->high) {
        return false;
    }
    s->need--;
    s->low = 0x80;
    s->high = 0xbf;
    return true;
}

/* Whether a whole text is UTF-8. */
static inline bool utf8_is_valid(const char *text, size_t size)
{
    struct utf8_state s = {0};
    for (size_t i = 0; i < size; i++) {
        if (!utf8_feed(&s, (unsigned char)text[i])) {
            return false;
        }
    }
    return s.need == 0;
}

#endif
