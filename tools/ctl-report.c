// SPDX-License-Identifier: BSD-3-Clause
/* One migration, as the API shows it, in words for people. */
#include "tools/ctl-report.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "qmp/json-value.h"
#include "tools/ctl-output.h"
#include "util/clock.h"
#include "util/parse.h"

#define SILENT_MS 3000  /* longer than that is told */
#define TEXT_COLUMNS 62 /* of 80, behind a line's name */
#define FORMAT_SIZE 32  /* for parse_format_*() */

static const char *get_text(struct json_object *object, const char *name,
                            const char *otherwise)
{
    const char *text = otherwise;
    json_value_text(object, name, &text);
    return text;
}

static struct json_object *get_object(struct json_object *object,
                                      const char *name)
{
    struct json_object *member = NULL;
    json_value_object(object, name, &member);
    return member;
}

static bool is_true(struct json_object *object, const char *name)
{
    bool value = false;
    return json_value_bool(object, name, &value) && value;
}

static bool is_incoming(struct json_object *migration)
{
    return !strcmp(get_text(migration, "role", ""), "destination");
}

const char *ctl_report_state(struct json_object *migration)
{
    return get_text(migration, "state", "unknown");
}

/* "completed" and so on, NULL while it runs. A daemon may say it by the state
 * alone. */
static const char *get_result(struct json_object *migration)
{
    static const char *const final_states[] = {"completed", "cancelled",
                                               "failed", "attention"};
    const char *result = NULL;

    if (json_value_text(migration, "result", &result)) {
        return result;
    }
    for (size_t i = 0; i < sizeof(final_states) / sizeof(final_states[0]);
         i++) {
        if (!strcmp(ctl_report_state(migration), final_states[i])) {
            return final_states[i];
        }
    }
    return NULL;
}

bool ctl_report_is_over(struct json_object *migration)
{
    return get_result(migration) != NULL;
}

enum ctl_exit ctl_report_exit(struct json_object *migration)
{
    const char *result = get_result(migration);

    if (!result || !strcmp(result, "attention")) {
        return CTL_EXIT_ATTENTION;
    }
    if (!strcmp(result, "completed")) {
        return CTL_EXIT_DONE;
    }
    if (is_true(migration, "refused")) {
        return CTL_EXIT_REFUSED;
    }
    return !strcmp(get_text(migration, "guest_is_on", "unknown"), "source")
               ? CTL_EXIT_STAYED
               : CTL_EXIT_ATTENTION;
}

/* ---- progress ---- */

static void append(char *buf, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *buf, size_t size, const char *format, ...)
{
    size_t used = strlen(buf);
    va_list args;

    va_start(args, format);
    vsnprintf(buf + used, size - used, format, args);
    va_end(args);
}

/* When it will end, or why that cannot be told. */
static void append_outlook(struct json_object *progress, char *buf, size_t size)
{
    bool is_converging = true;
    double eta;
    char text[FORMAT_SIZE];

    json_value_bool(progress, "converging", &is_converging);
    if (!is_converging) {
        append(buf, size, ", not converging");
    } else if (json_value_double(progress, "eta_seconds", &eta) && eta >= 0 &&
               eta < 1e9) {
        /* whole seconds: it is a guess */
        append(buf, size, ", ETA %s",
               parse_format_duration((mp_time)(eta + 0.5) * MP_SECOND, text,
                                     sizeof(text)));
    }
}

/* The destination does not know how much is still to come. */
static void append_received(struct json_object *progress, char *buf,
                            size_t size)
{
    uint64_t bytes = 0;
    char text[FORMAT_SIZE];

    if (json_value_uint(progress, "transferred_bytes", &bytes) && bytes > 0) {
        append(buf, size, "  %s received",
               parse_format_size(bytes, text, sizeof(text)));
    }
}

/* Numbers that are 0 before the transfer has begun say nothing yet. */
static void append_progress(struct json_object *migration, char *buf,
                            size_t size)
{
    struct json_object *progress = get_object(migration, "progress");
    double percent = 0;
    uint64_t rate = 0;
    uint64_t dirty;
    uint64_t pass = 0;
    char text[FORMAT_SIZE];

    json_value_uint(progress, "rate_bytes_per_second", &rate);
    if (!json_value_double(progress, "percent", &percent) &&
        is_incoming(migration)) {
        append_received(progress, buf, size);
    } else if (percent > 0 || rate > 0) {
        append(buf, size, "  %.1f %%", percent);
    } else {
        return;
    }
    if (rate > 0) {
        append(buf, size, ", %s", parse_format_rate(rate, text, sizeof(text)));
    }
    json_value_uint(progress, "pass", &pass);
    /* QEMU measures it at the end of a pass, and no more in postcopy: else 0
     * is no measure */
    if (json_value_uint(progress, "dirty_rate_bytes_per_second", &dirty) &&
        (dirty > 0 || (pass > 1 && !is_true(migration, "postcopy")))) {
        append(buf, size, ", dirty %s",
               parse_format_rate(dirty, text, sizeof(text)));
    }
    append_outlook(progress, buf, size);
}

/* The ends ping each other all the time: silence is a path that may be dead. */
static void append_silence(struct json_object *migration, char *buf,
                           size_t size)
{
    struct json_object *path = get_object(migration, "path");
    uint64_t silent_ms;
    char text[FORMAT_SIZE];

    if (json_value_uint(path, "silent_ms", &silent_ms) &&
        silent_ms > SILENT_MS && silent_ms < INT32_MAX) {
        mp_time seconds = (mp_time)(silent_ms / 1000);
        append(buf, size, ", path silent for %s",
               parse_format_duration(seconds * MP_SECOND, text, sizeof(text)));
    }
}

void ctl_report_progress(struct json_object *migration, char *buf, size_t size)
{
    snprintf(buf, size, "%s", ctl_report_state(migration));
    append_progress(migration, buf, size);
    append_silence(migration, buf, size);
}

/* ---- the report ---- */

static void print_line(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void print_line(const char *name, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ctl_output_print(stdout, "  %-15s %s\n", name, text);
}

/* How much of a line fits, up to a space; a longer word stays whole. */
static size_t fitting(const char *line, size_t size)
{
    size_t at = TEXT_COLUMNS;

    if (size <= TEXT_COLUMNS) {
        return size;
    }
    while (at > 0 && line[at] != ' ') {
        at--;
    }
    return at > 0 ? at : strcspn(line, " \n");
}

/* A text of several lines, wrapped. Lines that begin with spaces are commands,
 * which must be taken as they are. */
static void print_text(const char *name, const char *text)
{
    while (*text) {
        size_t size = strcspn(text, "\n");
        size_t count = text[0] == ' ' ? size : fitting(text, size);
        ctl_output_print(stdout, "  %-15s %.*s\n", name, (int)count, text);
        name = "";
        text += count;
        text += *text == ' ' || *text == '\n';
    }
}

/* What a request was refused for quotes its members. */
static bool is_about_request(const char *class)
{
    return !strcmp(class, "bad-request") || !strcmp(class, "unsupported");
}

static void print_cause(struct json_object *error)
{
    const char *class = get_text(error, "class", "no class");

    ctl_output_print(stdout, "  %-15s ", "error");
    ctl_output_with_options(
        stdout, is_about_request(class) ? ctl_migrate_options : NULL,
        get_text(error, "message", "no message"));
    ctl_output_print(stdout, " (%s, %s)\n", class,
                     get_text(error, "side", "side unknown"));
}

static void print_error(struct json_object *migration)
{
    struct json_object *error = get_object(migration, "error");
    struct json_object *closed = get_object(migration, "closed");
    const char *text;

    if (error) {
        print_cause(error);
        if (json_value_text(error, "detail", &text)) {
            print_line("seen here", "%s", text);
        }
    }
    if (json_value_text(migration, "advice", &text)) {
        print_text("advice", text);
    }
    if (closed) {
        print_line("closed", "at %s", get_text(closed, "at", "?"));
        print_text("", get_text(closed, "note", ""));
    }
}

/* Those that took a hundredth of the time or more. */
static void print_phases(struct json_object *migration)
{
    struct json_object *phases = get_object(migration, "phases_ms");
    uint64_t time_ms, elapsed_ms = 0;
    char all[300] = "", text[FORMAT_SIZE];

    if (!phases || !json_value_uint(migration, "elapsed_ms", &elapsed_ms)) {
        return;
    }
    json_object_object_foreach(phases, name, value)
    {
        (void)value;
        if (strlen(all) < 200 && json_value_uint(phases, name, &time_ms) &&
            time_ms > 0 && time_ms >= elapsed_ms / 100) {
            append(all, sizeof(all), ", %.32s %s", name,
                   parse_format_duration((mp_time)time_ms * MP_MS, text,
                                         sizeof(text)));
        }
    }
    if (all[0]) {
        print_line("phases", "%s", all + 2);
    }
}

/* Where the data path was lost with an earlier daemon, its numbers are older
 * than the end. */
static void print_counted(struct json_object *migration)
{
    const char *counted_at, *ended_at;
    int64_t counted, ended;
    char text[FORMAT_SIZE];

    if (json_value_text(migration, "counted_at", &counted_at) &&
        json_value_text(migration, "ended_at", &ended_at) &&
        ctl_report_parse_time(counted_at, &counted) &&
        ctl_report_parse_time(ended_at, &ended) && ended > counted + 1) {
        print_line("counted", "%s before the end, at %s",
                   parse_format_duration((ended - counted) * MP_SECOND, text,
                                         sizeof(text)),
                   counted_at);
    }
}

static void print_times(struct json_object *migration)
{
    struct json_object *downtime = get_object(migration, "downtime");
    uint64_t time;
    char text[FORMAT_SIZE];
    char more[FORMAT_SIZE];

    if (json_value_uint(migration, "elapsed_ms", &time)) {
        print_line(
            "time", "%s",
            parse_format_duration((mp_time)time * MP_MS, text, sizeof(text)));
    }
    print_phases(migration);
    if (!json_value_uint(downtime, "blackout_us", &time)) {
        return;
    }
    parse_format_duration((mp_time)time * MP_US, text, sizeof(text));
    if (json_value_uint(downtime, "uncertainty_us", &time)) {
        print_line(
            "blackout", "%s, give or take %s", text,
            parse_format_duration((mp_time)time * MP_US, more, sizeof(more)));
    } else {
        print_line("blackout", "%s", text);
    }
}

/* A size that is a member, and what it is. */
struct size_label {
    const char *name, *label;
    bool is_rare; /* left out where it is 0 */
};

/* A line of sizes; none where all are 0 or missing. */
static void print_sizes(struct json_object *object, const char *line,
                        const struct size_label *labels, size_t count)
{
    char all[200] = "", text[FORMAT_SIZE];
    uint64_t bytes;
    bool is_any = false;

    for (size_t i = 0; i < count; i++) {
        if (json_value_uint(object, labels[i].name, &bytes) &&
            (bytes > 0 || !labels[i].is_rare)) {
            is_any |= bytes > 0;
            append(all, sizeof(all), "%s%s %s", all[0] ? ", " : "",
                   parse_format_size(bytes, text, sizeof(text)),
                   labels[i].label);
        }
    }
    if (is_any) {
        print_line(line, "%s", all);
    }
}

static void print_totals(struct json_object *migration)
{
    static const struct size_label memory[] = {
        {"precopy_bytes", "in precopy", true},
        {"downtime_bytes", "while the guest stood still", true},
        {"postcopy_bytes", "in postcopy", true}};
    static const struct size_label wire[] = {
        {"wire_sent_bytes", "sent", false},
        {"wire_received_bytes", "received", false}};
    static const struct size_label streams[] = {
        {"transferred_bytes", "received", false}};
    struct json_object *totals = get_object(migration, "totals");
    uint64_t count;

    print_sizes(totals, "memory", memory, 3);
    if (is_incoming(migration)) {
        print_sizes(get_object(migration, "progress"), "streams", streams, 1);
    }
    print_sizes(totals, "on the wire", wire, 2);
    if (json_value_uint(totals, "page_requests", &count) && count > 0) {
        print_line("page requests", "%" PRIu64, count);
    }
}

static void print_path(struct json_object *migration)
{
    struct json_object *path = get_object(migration, "path");
    uint64_t value;
    char all[100] = "";
    char text[FORMAT_SIZE];

    if (json_value_uint(path, "rtt_us", &value) && value > 0) {
        append(
            all, sizeof(all), ", round trip %s",
            parse_format_duration((mp_time)value * MP_US, text, sizeof(text)));
    }
    if (json_value_uint(path, "rate_bytes_per_second", &value) && value > 0) {
        append(all, sizeof(all), ", rate %s",
               parse_format_rate(value, text, sizeof(text)));
    }
    if (json_value_uint(path, "window_bytes", &value) && value > 0) {
        append(all, sizeof(all), ", window %s",
               parse_format_size(value, text, sizeof(text)));
    }
    if (all[0]) {
        print_line("path", "%s", all + 2);
    }
}

/* Which host it is, in terms of the one that was asked. */
static void print_place(struct json_object *migration)
{
    const char *place;

    if (!json_value_text(migration, "guest_is_on", &place)) {
        return;
    }
    if (!strcmp(place, "unknown")) {
        print_line("guest is on", "unknown");
    } else if (!strcmp(place, get_text(migration, "role", ""))) {
        print_line("guest is on", "%s host (this one)", place);
    } else {
        print_line("guest is on", "%s host (%s)", place,
                   get_text(migration, "peer", "?"));
    }
}

/* The mode, and what became of it where its name does not say so. */
static void print_mode(struct json_object *migration)
{
    const char *result = get_result(migration);
    const char *mode;
    const char *more = "";

    if (!json_value_text(migration, "mode", &mode)) {
        return;
    }
    if (strcmp(mode, "postcopy") != 0) {
        more = is_true(migration, "postcopy") ? ", went to postcopy" : "";
    } else if (!is_true(migration, "postcopy") && result &&
               !strcmp(result, "completed")) {
        more = ", but was over in precopy";
    }
    print_line("mode", "%s%s%s%s", mode, more,
               is_true(migration, "preempt") ? ", preempt on" : "",
               is_true(migration, "small_pages")
                   ? ", huge pages received in pages of 4 KiB"
                   : "");
}

static void print_head(struct json_object *migration)
{
    const char *result = get_result(migration);
    struct json_object *closed = get_object(migration, "closed");
    const char *how = is_true(migration, "refused") ? "refused by preflight"
                      : closed                      ? "attention, closed"
                      : result                      ? result
                               : ctl_report_state(migration);

    ctl_output_print(
        stdout, "Migration %s of %s %s %s: %s\n",
        get_text(migration, "id", "?"), get_text(migration, "vm", "?"),
        is_incoming(migration) ? "from" : "to",
        get_text(migration, "peer", "?"),
        result && !strcmp(result, "attention") && !closed ? "needs attention"
                                                          : how);
}

/* Times of page requests; none where there were none. */
static void print_delivery(struct json_object *pages, const char *member,
                           const char *line, const char *label)
{
    struct json_object *times = get_object(pages, member);
    uint64_t count = 0, mean = 0, p99 = 0, max = 0;
    char a[FORMAT_SIZE], b[FORMAT_SIZE], c[FORMAT_SIZE];

    if (!json_value_uint(times, "count", &count) || count == 0) {
        return;
    }
    json_value_uint(times, "mean_us", &mean);
    json_value_uint(times, "p99_us", &p99);
    json_value_uint(times, "max_us", &max);
    print_line(line, "%" PRIu64 "%s, mean %s, 99 %% within %s, longest %s",
               count, label,
               parse_format_duration((mp_time)mean * MP_US, a, sizeof(a)),
               parse_format_duration((mp_time)p99 * MP_US, b, sizeof(b)),
               parse_format_duration((mp_time)max * MP_US, c, sizeof(c)));
}

/* How long a guest waited for its pages, and where they were. */
static void print_pages(struct json_object *migration)
{
    struct json_object *pages = get_object(migration, "pages");
    uint64_t peak = 0, limit = 0, awaited = 0;
    char a[FORMAT_SIZE], b[FORMAT_SIZE];

    if (!pages) {
        return;
    }
    print_delivery(pages, "delivery", "faults", "");
    print_delivery(pages, "delivery_found", "", " found in the pool");
    print_delivery(pages, "delivery_in_flight", "", " in flight already");
    print_delivery(pages, "delivery_fetched", "", " fetched from QEMU");
    if (json_value_uint(pages, "awaited", &awaited) && awaited > 0) {
        print_line("", "%" PRIu64 " not come from QEMU yet", awaited);
    }
    json_value_uint(pages, "pool_limit_bytes", &limit);
    if (json_value_uint(pages, "pool_peak_bytes", &peak) && peak > 0) {
        print_line("page pool", "up to %s of %s",
                   parse_format_size(peak, a, sizeof(a)),
                   parse_format_size(limit, b, sizeof(b)));
    }
}

void ctl_report_print(struct json_object *migration)
{
    const char *text;
    char progress[200];

    print_head(migration);
    print_error(migration);
    print_place(migration);
    if (!ctl_report_is_over(migration)) {
        ctl_report_progress(migration, progress, sizeof(progress));
        print_line("progress", "%s", progress);
    }
    print_mode(migration);
    print_times(migration);
    print_totals(migration);
    print_path(migration);
    print_pages(migration);
    print_counted(migration);
    if (json_value_text(migration, "stream", &text)) {
        print_line("stream", "%s", text);
    }
}

bool ctl_report_parse_time(const char *text, int64_t *ret_seconds)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    if (!rest) {
        return false;
    }
    if (*rest == '.') {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    if (strcmp(rest, "Z") != 0) {
        return false;
    }
    *ret_seconds = timegm(&tm);
    return true;
}
