// SPDX-License-Identifier: BSD-3-Clause
/* What migproxyctl prints. */
#include "tools/ctl-output.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "tools/ctl-exit.h"
#include "util/cleanup.h"

void ctl_output_clean(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if ((*p < ' ' && *p != '\n') || *p == 0x7f) {
            *p = '?';
        } else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) {
            /* U+0080 to U+009F steer terminals too */
            *p = '?';
            *++p = '?';
        }
    }
}

void ctl_output_print(FILE *file, const char *format, ...)
{
    CLEANUP_FREE char *text = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
    }
    va_end(args);
    if (text) {
        ctl_output_clean(text);
        fputs(text, file);
    }
}

void ctl_output_json(struct json_object *object)
{
    const char *text = json_object_to_json_string_ext(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    puts(text ? text : "null");
}

static void print_error_json(const char *class, const char *message)
{
    struct json_object *outer = json_object_new_object();
    struct json_object *inner = json_object_new_object();

    json_object_object_add(inner, "class", json_object_new_string(class));
    json_object_object_add(inner, "message", json_object_new_string(message));
    json_object_object_add(inner, "side", json_object_new_string("client"));
    json_object_object_add(outer, "error", inner);
    ctl_output_json(outer);
    json_object_put(outer);
}

enum ctl_exit ctl_output_error(const struct error *err, bool json)
{
    ctl_output_print(stderr, "migproxyctl: %s (%s)\n", err->text,
                     error_class(err->code));
    if (json) {
        print_error_json(error_class(err->code), err->text);
    }
    return ctl_exit_of(err->code);
}

/* The option behind a member's name that stands at text, in quotes. */
static const struct ctl_option *find_option(const struct ctl_option *options,
                                            const char *text)
{
    for (const struct ctl_option *o = options; o && o->name; o++) {
        size_t size = o->member ? strlen(o->member) : 0;
        if (size && text[0] == '"' && !strncmp(text + 1, o->member, size) &&
            text[1 + size] == '"') {
            return o;
        }
    }
    return NULL;
}

/* The API speaks of members ("max_downtime_ms"), whoever typed the command of
 * options (--max-downtime). */
void ctl_output_with_options(FILE *file, const struct ctl_option *options,
                             const char *message)
{
    static const char word[] = "member ";

    while (*message) {
        bool has_word = !strncmp(message, word, sizeof(word) - 1);
        const char *name = message + (has_word ? sizeof(word) - 1 : 0);
        const struct ctl_option *option = find_option(options, name);
        if (option) {
            ctl_output_print(file, "--%s", option->name);
            message = name + strlen(option->member) + 2;
        } else {
            size_t size = 1 + strcspn(message + 1, "\"m");
            ctl_output_print(file, "%.*s", (int)size, message);
            message += size;
        }
    }
}

enum ctl_exit ctl_output_refusal(const struct ctl_call *call, int status,
                                 struct json_object *answer)
{
    struct json_object *error = NULL;
    const char *class = NULL;
    const char *message = NULL;

    if (!json_value_object(answer, "error", &error) ||
        !json_value_text(error, "class", &class) ||
        !json_value_text(error, "message", &message)) {
        class = "protocol";
        message = "the daemon refused without saying why";
    }
    ctl_output_print(stderr, "migproxyctl: ");
    ctl_output_with_options(stderr, call->options, message);
    ctl_output_print(stderr, " (%s, HTTP status %d)\n", class, status);
    if (call->json && error) {
        ctl_output_json(answer);
    } else if (call->json) {
        print_error_json(class, message);
    }
    return ctl_exit_of(error_code_of_class(class));
}

void ctl_output_table(const char *const *titles, size_t columns,
                      char *const *cells, size_t rows)
{
    for (size_t row = 0; row <= rows; row++) {
        for (size_t column = 0; column < columns; column++) {
            size_t width = strlen(titles[column]);
            for (size_t i = 0; i < rows; i++) {
                size_t size = strlen(cells[i * columns + column]);
                width = size > width ? size : width;
            }
            const char *cell =
                row ? cells[(row - 1) * columns + column] : titles[column];
            bool is_last = column + 1 == columns;
            ctl_output_print(stdout, "%-*s%s", is_last ? 0 : (int)width, cell,
                             is_last ? "\n" : "  ");
        }
    }
}
