// SPDX-License-Identifier: BSD-3-Clause
/* The commands of migproxyctl that ask once and print the answer. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qmp/json-value.h"
#include "tools/ctl-ask.h"
#include "tools/ctl-output.h"
#include "tools/ctl-report.h"
#include "tools/ctl.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/parse.h"

#define FORMAT_SIZE 32 /* for parse_format_*() */

/* ---- tables ---- */

/* A cell's text, the table's to free; "-" where there is nothing. */
static char *make_cell(const char *text)
{
    char *cell = strdup(text ? text : "-");
    if (!cell) {
        abort(); /* a few bytes: nothing useful can be done without them */
    }
    return cell;
}

static char *text_cell(struct json_object *object, const char *name)
{
    const char *text = NULL;
    json_value_text(object, name, &text);
    return make_cell(text);
}

static char *number_cell(struct json_object *object, const char *name)
{
    uint64_t number;
    char text[FORMAT_SIZE];

    if (!json_value_uint(object, name, &number)) {
        return make_cell(NULL);
    }
    snprintf(text, sizeof(text), "%" PRIu64, number);
    return make_cell(text);
}

static char *percent_cell(struct json_object *migration)
{
    struct json_object *progress = NULL;
    double percent;
    char text[FORMAT_SIZE];

    if (!json_value_object(migration, "progress", &progress) ||
        !json_value_double(progress, "percent", &percent)) {
        return make_cell(NULL);
    }
    snprintf(text, sizeof(text), "%.1f %%", percent);
    return make_cell(text);
}

static char *age_cell(struct json_object *migration)
{
    const char *started_at = NULL;
    int64_t started;
    char text[FORMAT_SIZE];

    if (!json_value_text(migration, "started_at", &started_at) ||
        !ctl_report_parse_time(started_at, &started)) {
        return make_cell(NULL);
    }
    int64_t age = clock_wall_us() / 1000000 - started;
    return make_cell(parse_format_duration((age > 0 ? age : 0) * MP_SECOND,
                                           text, sizeof(text)));
}

/* A refused one has failed, too, but its destination's QEMU can be used; a
 * closed one was in attention. */
static char *state_cell(struct json_object *migration)
{
    struct json_object *closed = NULL;
    bool is_refused = false;

    json_value_bool(migration, "refused", &is_refused);
    if (json_value_object(migration, "closed", &closed)) {
        return make_cell("closed");
    }
    return is_refused ? make_cell("refused") : text_cell(migration, "state");
}

static void fill_migration(struct json_object *migration, char **cells)
{
    cells[0] = text_cell(migration, "id");
    cells[1] = text_cell(migration, "vm");
    cells[2] = text_cell(migration, "role");
    cells[3] = text_cell(migration, "peer");
    cells[4] = state_cell(migration);
    cells[5] = percent_cell(migration);
    cells[6] = age_cell(migration);
}

static char *allow_cell(struct json_object *peer)
{
    struct json_object *allow = NULL;
    char text[200] = "";

    json_value_array(peer, "allow", &allow);
    for (size_t i = 0; allow && i < json_object_array_length(allow); i++) {
        struct json_object *word = json_object_array_get_idx(allow, i);
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s%s", used ? "," : "",
                 json_object_is_type(word, json_type_string)
                     ? json_object_get_string(word)
                     : "?");
    }
    return make_cell(text[0] ? text : NULL);
}

static char *rtt_cell(struct json_object *peer)
{
    uint64_t rtt_us;
    char text[FORMAT_SIZE];

    if (!json_value_uint(peer, "rtt_us", &rtt_us)) {
        return make_cell(NULL);
    }
    return make_cell(
        parse_format_duration((mp_time)rtt_us * MP_US, text, sizeof(text)));
}

/* Connected, or since when and why not; that it is no fault not to be. */
static char *link_cell(struct json_object *peer)
{
    struct json_object *error = NULL;
    const char *message = NULL;
    bool is_connected = false;
    uint64_t lost_ms;
    char since[FORMAT_SIZE + 8] = "", lost[FORMAT_SIZE], text[700];

    json_value_bool(peer, "connected", &is_connected);
    if (is_connected) {
        return make_cell("connected");
    }
    if (json_value_uint(peer, "lost_ms", &lost_ms) && lost_ms < INT32_MAX) {
        mp_time seconds = (mp_time)(lost_ms / 1000);
        snprintf(
            since, sizeof(since), " for %s",
            parse_format_duration(seconds * MP_SECOND, lost, sizeof(lost)));
    }
    if (json_value_object(peer, "error", &error)) {
        json_value_text(error, "message", &message);
    }
    snprintf(text, sizeof(text),
             "not connected%s%s%s; dialled when something is asked of it",
             since, message ? ": " : "", message ? message : "");
    return make_cell(text);
}

static void fill_peer(struct json_object *peer, char **cells)
{
    cells[0] = text_cell(peer, "name");
    cells[1] = text_cell(peer, "address");
    cells[2] = text_cell(peer, "identity");
    cells[3] = allow_cell(peer);
    cells[4] = number_cell(peer, "version");
    cells[5] = rtt_cell(peer);
    cells[6] = link_cell(peer);
}

#define COLUMNS 7

static void print_rows(struct json_object *array, const char *const *titles,
                       void (*fill)(struct json_object *row, char **cells))
{
    size_t rows = array ? json_object_array_length(array) : 0;
    char **cells = calloc(rows ? rows * COLUMNS : 1, sizeof(*cells));

    if (!cells) {
        abort();
    }
    for (size_t i = 0; i < rows; i++) {
        fill(json_object_array_get_idx(array, i), cells + i * COLUMNS);
    }
    ctl_output_table(titles, COLUMNS, cells, rows);
    for (size_t i = 0; i < rows * COLUMNS; i++) {
        free(cells[i]);
    }
    free(cells);
}

/* Asks for a list and prints it as a table, or with --json as it came. */
static int print_list(const struct ctl_call *call, const char *path,
                      const char *member, const char *const *titles,
                      void (*fill)(struct json_object *row, char **cells))
{
    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask(call, "GET", path, NULL, &answer);
    struct json_object *array = NULL;

    if (status != CTL_EXIT_DONE) {
        return (int)status;
    }
    if (call->json) {
        ctl_output_json(answer);
    } else {
        json_value_array(answer, member, &array);
        print_rows(array, titles, fill);
    }
    return CTL_EXIT_DONE;
}

int ctl_list(const struct ctl_call *call)
{
    static const char *const titles[COLUMNS] = {
        "ID", "VM", "ROLE", "PEER", "STATE", "PERCENT", "AGE"};
    return print_list(call, "/v1/migrations", "migrations", titles,
                      fill_migration);
}

int ctl_peers(const struct ctl_call *call)
{
    static const char *const titles[COLUMNS] = {
        "NAME", "ADDRESS", "IDENTITY", "ALLOW", "PROTOCOL", "RTT", "LINK"};
    return print_list(call, "/v1/peers", "peers", titles, fill_peer);
}

/* ---- one object ---- */

int ctl_show(const struct ctl_call *call)
{
    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask_of_id(call, "GET", NULL, NULL, &answer);

    if (status != CTL_EXIT_DONE) {
        return (int)status;
    }
    if (call->json) {
        ctl_output_json(answer);
    } else {
        ctl_report_print(answer);
    }
    return CTL_EXIT_DONE;
}

static int order(const struct ctl_call *call, const char *verb)
{
    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask_of_id(call, "POST", verb, NULL, &answer);

    if (status != CTL_EXIT_DONE) {
        return (int)status;
    }
    if (call->json) {
        ctl_output_json(answer);
    } else {
        ctl_output_print(stdout, "Migration %s: %s\n", call->id,
                         ctl_report_state(answer));
    }
    return CTL_EXIT_DONE;
}

int ctl_cancel(const struct ctl_call *call)
{
    return order(call, "cancel");
}

int ctl_postcopy(const struct ctl_call *call)
{
    return order(call, "postcopy");
}

static bool ends_in(const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);
    return size >= end_size && !strcmp(name + size - end_size, end);
}

/* A value by its name's unit. */
static const char *value_text(const char *name, struct json_object *value,
                              char *buf, size_t size)
{
    uint64_t number;

    if (!json_object_is_type(value, json_type_int)) {
        return value ? json_object_get_string(value) : "-";
    }
    number = json_object_get_uint64(value);
    if (ends_in(name, "_bytes_per_second")) {
        return parse_format_rate(number, buf, size);
    }
    return ends_in(name, "_bytes") ? parse_format_size(number, buf, size)
                                   : json_object_get_string(value);
}

/* Members and those of objects inside, "limits.sessions  16". */
static void print_members(struct json_object *object, const char *prefix)
{
    char path[128], text[FORMAT_SIZE];

    json_object_object_foreach(object, name, value)
    {
        snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "",
                 name);
        if (json_object_is_type(value, json_type_object)) {
            print_members(value, path);
        } else {
            ctl_output_print(stdout, "%-36s %s\n", path,
                             value_text(name, value, text, sizeof(text)));
        }
    }
}

int ctl_host(const struct ctl_call *call)
{
    CLEANUP_JSON struct json_object *answer = NULL;
    enum ctl_exit status = ctl_ask(call, "GET", "/v1/host", NULL, &answer);

    if (status != CTL_EXIT_DONE) {
        return (int)status;
    }
    if (call->json) {
        ctl_output_json(answer);
    } else {
        print_members(answer, "");
    }
    return CTL_EXIT_DONE;
}
