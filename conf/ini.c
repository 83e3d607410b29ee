// SPDX-License-Identifier: BSD-3-Clause
/* A reader of configuration text. */
#include "conf/ini.h"

#include <stdbool.h>
#include <string.h>

struct ini {
    const struct ini_ops *ops;
    void *arg;
    unsigned line;
    bool has_section;
    char buf[INI_LINE_MAX + 1]; /* the line, cut up in place */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *skip_blanks(char *p)
{
    while (is_blank(*p)) {
        p++;
    }
    return p;
}

/* Ends the string at end, less the blanks before it. */
static void cut_blanks(char *start, char *end)
{
    while (end > start && is_blank(end[-1])) {
        end--;
    }
    *end = '\0';
}

/* Section names and keys: small letters, digits and "-". */
static bool is_word(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return length > 0 && text[length] == '\0';
}

/* Takes "NAME" in quotes off the end of a header's inside. NULL if malformed.
 */
static char *take_name(char *quote)
{
    char *name = quote + 1;
    char *end = strchr(name, '"');

    if (!end || end == name || *skip_blanks(end + 1)) {
        return NULL;
    }
    *end = '\0';
    return name;
}

/* What is wrong with a header, whose text is line: inside is in pieces. */
static int refuse_section(const char *line, const char *section, bool has_quote,
                          bool has_name, struct error *err)
{
    size_t blank = strcspn(section, " \t");
    const char *why;

    if (has_quote && !has_name) {
        why = "what is in quotes is empty, not closed, or not the last";
    } else if (strpbrk(section, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
        why = "NAME is in small letters";
    } else if (blank > 0 && section[blank] && !has_quote) {
        why = "OF WHAT stands in quotes";
    } else {
        why = "NAME is of a-z, 0-9 and \"-\"";
    }
    return error_set(err, ERR_CONFIG,
                     "\"%.80s%s\" is no section, [NAME] or [NAME \"OF "
                     "WHAT\"]: %s",
                     line, strlen(line) > 80 ? "..." : "", why);
}

static int read_section(struct ini *ini, char *p, struct error *err)
{
    char line[INI_LINE_MAX + 1]; /* before it is cut up */
    char *name = NULL;
    char *section = skip_blanks(p + 1);
    char *end = strrchr(section, ']');

    if (!end || end[1]) {
        return error_set(err, ERR_CONFIG,
                         "section line \"%.80s%s\" does not end in \"]\"", p,
                         strlen(p) > 80 ? "..." : "");
    }
    strcpy(line, p);
    cut_blanks(section, end);
    char *quote = strchr(section, '"');
    if (quote) {
        name = take_name(quote);
        cut_blanks(section, quote);
    }
    if ((quote && !name) || !is_word(section)) {
        return refuse_section(line, section, quote, name, err);
    }
    ini->has_section = true;
    return ini->ops->on_section(ini->arg, section, name, ini->line, err);
}

static int read_value(struct ini *ini, char *key, struct error *err)
{
    char *equals = strchr(key, '=');

    if (!equals) {
        return error_set(err, ERR_CONFIG,
                         "\"%.80s\" is neither \"key = value\" nor [section] "
                         "nor a comment",
                         key);
    }
    char *value = skip_blanks(equals + 1);
    cut_blanks(key, equals);
    if (!is_word(key)) {
        return error_set(err, ERR_CONFIG,
                         "\"%.80s\" is not a key (a-z, 0-9 and \"-\")", key);
    }
    if (!ini->has_section) {
        return error_set(err, ERR_CONFIG, "%.80s stands before any [section]",
                         key);
    }
    return ini->ops->on_value(ini->arg, key, value, ini->line, err);
}

static int read_line(struct ini *ini, const char *text, size_t length,
                     struct error *err)
{
    if (length > INI_LINE_MAX) {
        return error_set(err, ERR_CONFIG,
                         "the line has %zu bytes, at most %d are possible",
                         length, INI_LINE_MAX);
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && !is_blank((char)c)) || c == 0x7f) {
            return error_set(err, ERR_CONFIG,
                             "the line has the control character 0x%02x at "
                             "byte %zu",
                             c, i + 1);
        }
    }
    memcpy(ini->buf, text, length);
    cut_blanks(ini->buf, ini->buf + length);
    char *p = skip_blanks(ini->buf);
    if (!*p || *p == '#' || *p == ';') {
        return 0;
    }
    return *p == '[' ? read_section(ini, p, err) : read_value(ini, p, err);
}

int ini_read(const char *text, size_t length, const char *file,
             const struct ini_ops *ops, void *arg, struct error *err)
{
    struct ini ini = {.ops = ops, .arg = arg};
    struct error inner = ERROR_INIT;

    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t used = end ? (size_t)(end - text) : length;
        ini.line++;
        if (read_line(&ini, text, used, &inner) < 0) {
            if (inner.code != ERR_NO_MEMORY) {
                inner.code = ERR_CONFIG;
            }
            error_wrap(&inner, "%.200s:%u", file, ini.line);
            return error_copy(err, &inner);
        }
        used += end ? 1 : 0;
        text += used;
        length -= used;
    }
    return 0;
}
