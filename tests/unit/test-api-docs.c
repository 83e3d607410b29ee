// SPDX-License-Identifier: BSD-3-Clause
/* docs/openapi.yaml and docs/api-errors.md say what the tables in proxy/ say.
 * The YAML is read by its indentation, which the file keeps regular. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <inttypes.h>

#include "proxy/api-migrate.h"
#include "proxy/api-route.h"

#define LINES_MAX 2000

/* A file as lines; some may be cut out as a block. */
struct doc {
    char *text;
    const char *line[LINES_MAX];
    size_t count;
};

static struct doc *open_doc(const char *name)
{
    const char *srcdir = getenv("srcdir");
    struct doc *doc = calloc(1, sizeof(*doc));
    char path[4096];
    size_t size = 0;

    assert_non_null(doc);
    snprintf(path, sizeof(path), "%s/docs/%s", srcdir ? srcdir : ".", name);
    FILE *file = fopen(path, "r");
    if (!file) {
        fail_msg("cannot open %s", path);
    }
    ssize_t n = getdelim(&doc->text, &size, '\0', file);
    assert_true(n > 0);
    fclose(file);
    for (char *p = strtok(doc->text, "\n"); p; p = strtok(NULL, "\n")) {
        assert_in_range(doc->count, 0, LINES_MAX - 1);
        doc->line[doc->count++] = p;
    }
    return doc;
}

static void close_doc(struct doc *doc)
{
    free(doc->text);
    free(doc);
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

/* The key's line among the direct children of the block that begins at line
 * from; the number of lines if there is none. Level: the children's indent. */
static size_t find_key(const struct doc *doc, size_t from, size_t level,
                       const char *key)
{
    size_t length = strlen(key);

    for (size_t i = from; i < doc->count; i++) {
        size_t indent = indent_of(doc->line[i]);
        if (indent < level) {
            break;
        }
        if (indent == level && !strncmp(doc->line[i] + level, key, length) &&
            doc->line[i][level + length] == ':') {
            return i;
        }
    }
    return doc->count;
}

static size_t must_find(const struct doc *doc, size_t from, size_t level,
                        const char *key)
{
    size_t at = find_key(doc, from, level, key);
    if (at == doc->count) {
        fail_msg("no \"%s\" where it should be, after line \"%s\"", key,
                 doc->line[from ? from - 1 : 0]);
    }
    return at;
}

static size_t count_keys(const struct doc *doc, size_t from, size_t level)
{
    size_t count = 0;
    for (size_t i = from; i < doc->count; i++) {
        size_t indent = indent_of(doc->line[i]);
        if (indent < level) {
            break;
        }
        count += indent == level;
    }
    return count;
}

/* What stands behind the key in the block at from; fails if it is not there. */
static void assert_value(const struct doc *doc, size_t from, size_t level,
                         const char *key, const char *expected)
{
    const char *line = doc->line[must_find(doc, from, level, key)];
    assert_string_equal(line + level + strlen(key) + strlen(": "), expected);
}

static void assert_number(const struct doc *doc, size_t from, size_t level,
                          const char *key, uint64_t expected)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, expected);
    assert_value(doc, from, level, key, text);
}

static void openapi_has_each_path_and_no_other(void **state)
{
    struct doc *doc = open_doc("openapi.yaml");
    size_t paths = must_find(doc, 0, 0, "paths") + 1;
    size_t methods = 0;
    size_t routes = 0;

    for (; api_routes[routes].path; routes++) {
        const struct api_route *route = &api_routes[routes];
        size_t path = must_find(doc, paths, 2, route->path) + 1;
        must_find(doc, path, 4, route->method == API_HTTP_GET ? "get" : "post");
    }
    for (size_t i = paths; i < doc->count && indent_of(doc->line[i]) > 0; i++) {
        methods += indent_of(doc->line[i]) == 4;
    }
    assert_int_equal(methods, routes);
    close_doc(doc);
}

static const char *openapi_type(enum api_member_type type)
{
    switch (type) {
    case API_MEMBER_ID:
    case API_MEMBER_NAME:
    case API_MEMBER_PATH:
    case API_MEMBER_WORD:
        return "string";
    case API_MEMBER_COUNT:
        return "integer";
    case API_MEMBER_SECONDS:
        return "number";
    case API_MEMBER_RATE:
        break;
    }
    return NULL;
}

/* "[auto, precopy]"; YAML reads a bare on as true */
static void assert_words(const struct doc *doc, size_t at,
                         const char *const *words)
{
    char list[200] = "[";
    for (size_t i = 0; words[i]; i++) {
        bool is_bool = !strcmp(words[i], "on") || !strcmp(words[i], "off");
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s%s%s", i ? ", " : "",
                 is_bool ? "\"" : "", words[i], is_bool ? "\"" : "");
    }
    strcat(list, "]");
    assert_value(doc, at, 10, "enum", list);
}

static void openapi_has_each_member_with_its_limits(void **state)
{
    struct doc *doc = open_doc("openapi.yaml");
    size_t schemas =
        must_find(doc, must_find(doc, 0, 0, "components") + 1, 2, "schemas") +
        1;
    size_t request = must_find(doc, schemas, 4, "MigrationRequest") + 1;
    size_t properties = must_find(doc, request, 6, "properties") + 1;
    size_t count = 0;
    char required[100] = "[";

    for (; api_migrate_members[count].name; count++) {
        const struct api_member *m = &api_migrate_members[count];
        size_t at = must_find(doc, properties, 8, m->name) + 1;
        bool is_text = m->type <= API_MEMBER_PATH;

        if (m->type != API_MEMBER_RATE) {
            assert_value(doc, at, 10, "type", openapi_type(m->type));
        }
        if (m->words) {
            assert_words(doc, at, m->words);
            assert_value(doc, at, 10, "default", m->words[0]);
        } else {
            assert_number(doc, at, 10, is_text ? "minLength" : "minimum",
                          m->min);
            assert_number(doc, at, 10, is_text ? "maxLength" : "maximum",
                          m->max);
        }
        if (m->is_required) {
            strcat(required, required[1] ? ", " : "");
            strcat(required, m->name);
        }
    }
    strcat(required, "]");
    assert_int_equal(count_keys(doc, properties, 8), count);
    assert_value(doc, request, 6, "required", required);
    assert_value(doc, request, 6, "additionalProperties", "false");
    assert_number(doc, must_find(doc, properties, 8, "max_downtime_ms") + 1, 10,
                  "default", API_DOWNTIME_MS_DEFAULT);
    close_doc(doc);
}

static void each_error_class_is_documented(void **state)
{
    struct doc *doc = open_doc("api-errors.md");
    size_t rows = 0;
    char start[80];

    for (int code = 0; code < ERROR_CODES; code++) {
        bool found = false;
        snprintf(start, sizeof(start), "| `%s` | %d | ",
                 error_class((enum error_code)code),
                 error_http_status((enum error_code)code));
        for (size_t i = 0; i < doc->count; i++) {
            found |= !strncmp(doc->line[i], start, strlen(start));
        }
        if (!found) {
            fail_msg("docs/api-errors.md has no line \"%s...\"", start);
        }
    }
    for (size_t i = 0; i < doc->count; i++) {
        rows += !strncmp(doc->line[i], "| `", 3);
    }
    assert_int_equal(rows, ERROR_CODES);
    close_doc(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openapi_has_each_path_and_no_other),
        cmocka_unit_test(openapi_has_each_member_with_its_limits),
        cmocka_unit_test(each_error_class_is_documented),
    };
    return cmocka_run_group_tests_name("api-docs", tests, NULL, NULL);
}
