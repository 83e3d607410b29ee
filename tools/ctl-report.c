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

#define FORMAT_SIZE 32 /* for parse_format_*() */

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

/* Numbers that are 0 before the transfer has begun say nothing yet. */
void ctl_report_progress(struct json_object *migration, char *buf, size_t size)
{
    struct json_object *progress = get_object(migration, "progress");
    double percent = 0;
    uint64_t rate = 0;
    uint64_t dirty;
    uint64_t pass = 0;
    char text[FORMAT_SIZE];

    snprintf(buf, size, "%s", ctl_report_state(migration));
    json_value_double(progress, "percent", &percent);
    json_value_uint(progress, "rate_bytes_per_second", &rate);
    if (!(percent > 0) && rate == 0) {
        return;
    }
    append(buf, size, "  %.1f %%", percent);
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

static void print_error(struct json_object *migration)
{
    struct json_object *error = get_object(migration, "error");
    const char *text;

    if (error) {
        print_line("error", "%s (%s, %s)",
                   get_text(error, "message", "no message"),
                   get_text(error, "class", "no class"),
                   get_text(error, "side", "side unknown"));
    }
    if (json_value_text(migration, "advice", &text)) {
        print_line("advice", "%s", text);
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

/* A line with the sizes of two members; none where both are 0 or missing. */
static void print_sizes(struct json_object *object, const char *line,
                        const char *name_a, const char *label_a,
                        const char *name_b, const char *label_b)
{
    const char *const names[] = {name_a, name_b};
    const char *const labels[] = {label_a, label_b};
    char all[100] = "";
    char text[FORMAT_SIZE];
    uint64_t bytes;
    bool is_any = false;

    for (int i = 0; i < 2; i++) {
        if (json_value_uint(object, names[i], &bytes)) {
            is_any |= bytes > 0;
            append(all, sizeof(all), "%s%s %s", all[0] ? ", " : "",
                   parse_format_size(bytes, text, sizeof(text)), labels[i]);
        }
    }
    if (is_any) {
        print_line(line, "%s", all);
    }
}

static void print_totals(struct json_object *migration)
{
    struct json_object *totals = get_object(migration, "totals");
    uint64_t count;

    print_sizes(totals, "memory", "precopy_bytes", "in precopy",
                "postcopy_bytes", "in postcopy");
    print_sizes(totals, "on the wire", "wire_sent_bytes", "sent",
                "wire_received_bytes", "received");
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
    print_line("mode", "%s%s%s", mode, more,
               is_true(migration, "preempt") ? ", preempt on" : "");
}

static void print_head(struct json_object *migration)
{
    const char *result = get_result(migration);
    bool is_incoming = !strcmp(get_text(migration, "role", ""), "destination");
    const char *how = is_true(migration, "refused") ? "refused by preflight"
                      : result                      ? result
                               : ctl_report_state(migration);

    ctl_output_print(
        stdout, "Migration %s of %s %s %s: %s\n",
        get_text(migration, "id", "?"), get_text(migration, "vm", "?"),
        is_incoming ? "from" : "to", get_text(migration, "peer", "?"),
        result && !strcmp(result, "attention") ? "needs attention" : how);
}

/* How long a guest waited for its pages. */
static void print_pages(struct json_object *migration)
{
    struct json_object *pages = NULL, *times = NULL;
    uint64_t count = 0, mean = 0, p99 = 0, peak = 0;
    char a[32], b[32], c[32];

    if (!json_value_object(migration, "pages", &pages) ||
        !json_value_object(pages, "delivery", &times) ||
        !json_value_uint(times, "count", &count) || count == 0) {
        return;
    }
    json_value_uint(times, "mean_us", &mean);
    json_value_uint(times, "p99_us", &p99);
    json_value_uint(pages, "pool_peak_bytes", &peak);
    print_line("faults", "%llu, mean %s, 99 %% within %s; pool up to %s",
               (unsigned long long)count,
               parse_format_duration((mp_time)mean * MP_US, a, sizeof(a)),
               parse_format_duration((mp_time)p99 * MP_US, b, sizeof(b)),
               parse_format_size(peak, c, sizeof(c)));
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
