// SPDX-License-Identifier: BSD-3-Clause
/* The option table as a sample file and as help. */
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/options.h"

#define WIDTH 78

/* Writes text in lines of at most WIDTH columns, each after prefix. */
static void write_wrapped(FILE *out, const char *prefix, const char *text)
{
    size_t column = 0;

    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        if (column == 0) {
            column = (size_t)fprintf(out, "%s", prefix);
        } else {
            column += (size_t)fprintf(out, " ");
        }
        column += (size_t)fprintf(out, "%.*s", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void write_header(FILE *out, const char *section, const char *comment)
{
    if (!strcmp(section, OPTIONS_PEER_SECTION)) {
        fprintf(out, "%s[%s \"NAME\"]\n", comment, section);
    } else {
        fprintf(out, "[%s]\n", section);
    }
}

/* What may stand there, the default and when a change counts. */
static void write_facts(FILE *out, const char *prefix,
                        const struct option_row *option)
{
    char what[OPTIONS_DESCRIBE_SIZE], facts[512];
    const char *shown =
        option->default_shown ? option->default_shown : option->default_text;

    snprintf(
        facts, sizeof(facts), "Takes %s. Default%s: %s. A change needs a %s.",
        options_describe(option, what, sizeof(what)),
        options_may_be_empty(option) ? ", also where nothing is given" : "",
        shown, option->reloadable ? "reload" : "restart");
    write_wrapped(out, prefix, facts);
}

void conf_sample(FILE *out)
{
    const char *section = "";

    fputs("# migproxy.conf: the configuration of migproxy, a sample\n"
          "#\n"
          "# Each option stands here with its default, behind a \"#\". Lines "
          "are\n"
          "# \"key = value\"; a comment starts a line with \"#\" or \";\". "
          "What is not\n"
          "# known is refused: migproxy --check-config says what is wrong and "
          "where.\n",
          out);
    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        if (strcmp(section, option->section) != 0) {
            section = option->section;
            fputs("\n\n", out);
            write_wrapped(out, "# ", options_section_help(section));
            write_header(out, section, "#");
        }
        fputc('\n', out);
        write_wrapped(out, "# ", option->help);
        write_facts(out, "# ", option);
        fprintf(out, "#%s =%s%s\n", option->key,
                *option->default_text ? " " : "", option->default_text);
    }
}

void conf_help(FILE *out)
{
    const char *section = "";

    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        if (strcmp(section, option->section) != 0) {
            section = option->section;
            fputs(i ? "\n" : "", out);
            write_header(out, section, "");
        }
        fprintf(out, "  %s\n", option->key);
        write_wrapped(out, "      ", option->help);
        write_facts(out, "      ", option);
    }
}
