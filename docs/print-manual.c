// SPDX-License-Identifier: BSD-3-Clause
/* Prints the option table as POD, the middle of docs/migproxy.conf.5.pod: "make
 * update-manual" runs it, a test holds the page to it. */
#include <stdio.h>
#include <string.h>

#include "conf/options.h"

static void print_header(const char *section)
{
    if (strcmp(section, OPTIONS_PEER_SECTION) == 0) {
        printf("=head2 [%s \"NAME\"]\n\n", section);
    } else {
        printf("=head2 [%s]\n\n", section);
    }
    printf("%s\n\n=over\n\n", options_section_help(section));
}

static void print_option(const struct option_row *option)
{
    char what[OPTIONS_DESCRIBE_SIZE];
    const char *shown =
        option->default_shown ? option->default_shown : option->default_text;

    options_describe(option, what, sizeof(what));
    printf("=item B<%s>\n\n%s\n\n", option->key, option->help);
    printf("Takes %s. Default%s: %s. A change needs a %s.\n\n", what,
           options_may_be_empty(option) ? ", also where nothing is given" : "",
           shown, option->reloadable ? "reload" : "restart");
}

int main(void)
{
    const char *section = "";

    for (size_t i = 0; i < options_count; i++) {
        const struct option_row *option = &options_table[i];
        if (strcmp(section, option->section) != 0) {
            if (i > 0) {
                printf("=back\n\n");
            }
            section = option->section;
            print_header(section);
        }
        print_option(option);
    }
    printf("=back\n\n");
    return fflush(stdout) ? 1 : 0;
}
