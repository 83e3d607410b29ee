// SPDX-License-Identifier: BSD-3-Clause
/* docs/openapi.yaml and docs/api-errors.md say what the tables in proxy/ say.
 * The YAML is read by its indentation, which the file keeps regular. */
#include <ctype.h>
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
#include "proxy/api-order.h"
#include "proxy/api-route.h"
#include "proxy/migration-state.h"

#define LINES_MAX 2000

/* A file as lines; some may be cut out as a block. */
struct doc {
    char *text;
    const char *line[LINES_MAX];
    size_t count;
};

/* A file of the sources, the caller's to free. */
static char *read_source(const char *name)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    char *text = NULL;
    size_t size = 0;

    snprintf(path, sizeof(path), "%s/%s", srcdir ? srcdir : ".", name);
    FILE *file = fopen(path, "r");
    if (!file) {
        fail_msg("cannot open %s", path);
    }
    ssize_t n = getdelim(&text, &size, '\0', file);
    assert_true(n > 0);
    fclose(file);
    return text;
}

static struct doc *open_doc(const char *name)
{
    struct doc *doc = calloc(1, sizeof(*doc));

    assert_non_null(doc);
    doc->text = read_source(name);
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

static void lower(const char *text, char *buf, size_t size)
{
    size_t i = 0;
    for (; text[i] && i + 1 < size; i++) {
        buf[i] = (char)tolower((unsigned char)text[i]);
    }
    buf[i] = '\0';
}

static void openapi_has_each_path_and_no_other(void **state)
{
    struct doc *doc = open_doc("docs/openapi.yaml");
    size_t paths = must_find(doc, 0, 0, "paths") + 1;
    size_t methods = 0;
    size_t routes = 0;

    for (; api_routes[routes].path; routes++) {
        const struct api_route *route = &api_routes[routes];
        size_t path = must_find(doc, paths, 2, route->path) + 1;
        char name[16];
        lower(api_http_method_name(route->method), name, sizeof(name));
        must_find(doc, path, 4, name);
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
    case API_MEMBER_TEXT:
    case API_MEMBER_UUID:
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

/* The schema of a request has the members of its table, with their limits. */
static void assert_request(const struct doc *doc, const char *schema,
                           const struct api_member *members, bool has_defaults)
{
    size_t schemas =
        must_find(doc, must_find(doc, 0, 0, "components") + 1, 2, "schemas") +
        1;
    size_t request = must_find(doc, schemas, 4, schema) + 1;
    size_t properties = must_find(doc, request, 6, "properties") + 1;
    size_t count = 0;
    char required[100] = "[";

    for (; members[count].name; count++) {
        const struct api_member *m = &members[count];
        size_t at = must_find(doc, properties, 8, m->name) + 1;
        bool is_text = m->type <= API_MEMBER_PATH;

        if (m->type != API_MEMBER_RATE) {
            assert_value(doc, at, 10, "type", openapi_type(m->type));
        }
        if (m->words) {
            assert_words(doc, at, m->words);
        } else {
            assert_number(doc, at, 10, is_text ? "minLength" : "minimum",
                          m->min);
            assert_number(doc, at, 10, is_text ? "maxLength" : "maximum",
                          m->max);
        }
        if (m->words && has_defaults) {
            assert_value(doc, at, 10, "default", m->words[0]);
        }
        if (m->is_required) {
            strcat(required, required[1] ? ", " : "");
            strcat(required, m->name);
        }
    }
    strcat(required, "]");
    assert_int_equal(count_keys(doc, properties, 8), count);
    if (strlen(required) > 2) {
        assert_value(doc, request, 6, "required", required);
    }
    assert_value(doc, request, 6, "additionalProperties", "false");
}

static void openapi_has_each_member_with_its_limits(void **state)
{
    struct doc *doc = open_doc("docs/openapi.yaml");
    size_t schemas =
        must_find(doc, must_find(doc, 0, 0, "components") + 1, 2, "schemas") +
        1;
    size_t request = must_find(doc, schemas, 4, "MigrationRequest") + 1;
    size_t properties = must_find(doc, request, 6, "properties") + 1;

    assert_request(doc, "MigrationRequest", api_migrate_members, true);
    assert_request(doc, "LimitsRequest", api_limits_members, false);
    assert_request(doc, "IncomingRequest", api_incoming_members, false);
    assert_request(doc, "CloseRequest", api_close_members, false);
    assert_number(doc, must_find(doc, properties, 8, "max_downtime_ms") + 1, 10,
                  "default", API_DOWNTIME_MS_DEFAULT);
    close_doc(doc);
}

/* Finds the next member that is added to a JSON object in C text:
 * object, "NAME". Returns what follows it, NULL for no more. */
static const char *next_member(const char *text, char name[64])
{
    static const char *const objects[] = {"object,", "body,", "limits,",
                                          "error_object,"};
    for (; *text; text++) {
        for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
            size_t length = strlen(objects[i]);
            if (strncmp(text, objects[i], length)) {
                continue;
            }
            const char *at = text + length;
            at += strspn(at, " \n");
            if (sscanf(at, "\"%63[a-z0-9_]\"", name) == 1) {
                return at;
            }
        }
    }
    return NULL;
}

/* True if the name is a key somewhere from line from on. */
static bool has_key(const struct doc *doc, size_t from, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = from; i < doc->count; i++) {
        const char *key = doc->line[i] + indent_of(doc->line[i]);
        if (!strncmp(key, name, length) && key[length] == ':') {
            return true;
        }
    }
    return false;
}

/* Members that file adds to answers are documented behind the line from.
 * Returns their number. */
static size_t assert_documented(const struct doc *doc, size_t from,
                                const char *file)
{
    char *text = read_source(file);
    char name[64];
    size_t count = 0;

    for (const char *at = text; (at = next_member(at, name)); count++) {
        if (!has_key(doc, from, name)) {
            fail_msg("\"%s\" of %s is not in docs/openapi.yaml", name, file);
        }
    }
    free(text);
    return count;
}

static void openapi_has_each_member_of_the_answers(void **state)
{
    struct doc *doc = open_doc("docs/openapi.yaml");
    size_t schemas =
        must_find(doc, must_find(doc, 0, 0, "components") + 1, 2, "schemas") +
        1;
    size_t from = must_find(doc, schemas, 4, "ErrorBody");

    assert_in_range(assert_documented(doc, from, "proxy/migration-json.c"), 45,
                    90);
    assert_in_range(assert_documented(doc, from, "proxy/manager-api.c"), 9, 20);
    assert_in_range(assert_documented(doc, from, "proxy/manager-close.c"), 2,
                    9);
    assert_in_range(assert_documented(doc, from, "proxy/incoming.c"), 5, 9);
    assert_in_range(assert_documented(doc, from, "proxy/manager-events.c"), 1,
                    9);
    assert_in_range(assert_documented(doc, from, "proxy/api.c"), 2, 9);
    assert_in_range(assert_documented(doc, from, "proxy/peer.c"), 8, 20);
    close_doc(doc);
}

static void the_answers_have_each_member_of_openapi(void **state)
{
    struct doc *doc = open_doc("docs/openapi.yaml");
    char *text = read_source("proxy/migration-json.c");
    size_t schemas =
        must_find(doc, must_find(doc, 0, 0, "components") + 1, 2, "schemas") +
        1;
    size_t migration = must_find(doc, schemas, 4, "Migration") + 1;
    size_t i = must_find(doc, migration, 6, "properties") + 1;

    for (; i < doc->count && indent_of(doc->line[i]) >= 8; i++) {
        char name[64], quoted[70];
        if (indent_of(doc->line[i]) == 8) {
            assert_int_equal(sscanf(doc->line[i], " %63[a-z0-9_]:", name), 1);
            snprintf(quoted, sizeof(quoted), "\"%s\"", name);
            if (!strstr(text, quoted)) {
                fail_msg("%s in docs/openapi.yaml is in no answer", name);
            }
        }
    }
    free(text);
    close_doc(doc);
}

static void openapi_has_the_states(void **state)
{
    struct doc *doc = open_doc("docs/openapi.yaml");
    size_t at = 0;

    while (at < doc->count &&
           strcmp(doc->line[at], "            - preparing")) {
        at++;
    }
    for (int i = 0; i < MIGRATION_STATES; i++) {
        char line[64];
        snprintf(line, sizeof(line), "            - %s",
                 migration_state_name((enum migration_state)i));
        assert_string_equal(doc->line[at++], line);
    }
    /* the second name of cancelling, where nobody has cancelled */
    assert_string_equal(doc->line[at++], "            - undoing");
    assert_int_not_equal(indent_of(doc->line[at]), 12);
    close_doc(doc);
}

static void each_error_class_is_documented(void **state)
{
    struct doc *doc = open_doc("docs/api-errors.md");
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
        cmocka_unit_test(openapi_has_each_member_of_the_answers),
        cmocka_unit_test(the_answers_have_each_member_of_openapi),
        cmocka_unit_test(openapi_has_the_states),
        cmocka_unit_test(each_error_class_is_documented),
    };
    return cmocka_run_group_tests_name("api-docs", tests, NULL, NULL);
}
