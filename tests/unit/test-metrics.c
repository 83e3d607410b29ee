// SPDX-License-Identifier: BSD-3-Clause
/* The text that Prometheus reads, and that docs/metrics.md lists all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/metrics.h"

static char *write_text(const struct metrics *metrics,
                        const struct metrics_now *now,
                        const struct metrics_peer *peers, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    metrics_write(out, metrics, now, peers, count);
    fclose(out);
    return text;
}

static void assert_has(const char *text, const char *line)
{
    if (!strstr(text, line)) {
        fail_msg("\"%s\" is not in:\n%s", line, text);
    }
}

static void all_of_it_is_written(void **state)
{
    struct metrics metrics = {.postcopies = 2,
                              .sent_bytes = 5000000000,
                              .received_bytes = 7,
                              .page_requests = 9};
    struct metrics_now now = {.version = "0.1.0",
                              .host = "a\"b\\c\n",
                              .active = {1, 3},
                              .pool_bytes = 4096,
                              .pool_limit_bytes = 1 << 30};
    struct metrics_peer peers[] = {{"b", true}, {"c", false}};

    metrics.ended[1][METRICS_COMPLETED] = 11;
    metrics.ended[0][METRICS_REFUSED] = 12;
    latency_add(&metrics.delivery[METRICS_FOUND], 90 * MP_US);
    latency_add(&metrics.delivery[METRICS_FOUND], 300 * MP_US);
    latency_add(&metrics.blackout, 3 * MP_SECOND);
    char *text = write_text(&metrics, &now, peers, 2);
    assert_has(text, "migproxy_info{version=\"0.1.0\",host=\"a\\\"b\\\\c\\n\"} "
                     "1\n");
    assert_has(text, "migproxy_migrations_active{role=\"destination\"} 1\n");
    assert_has(text, "migproxy_migrations_active{role=\"source\"} 3\n");
    assert_has(text, "migproxy_migrations_total{role=\"source\",result="
                     "\"completed\"} 11\n");
    assert_has(text, "migproxy_migrations_total{role=\"destination\",result="
                     "\"refused\"} 12\n");
    assert_has(text, "\nmigproxy_postcopies_total 2\n");
    assert_has(text, "\nmigproxy_wire_bytes_total{direction=\"sent\"} "
                     "5000000000\n");
    assert_has(text, "\nmigproxy_page_requests_total 9\n");
    assert_has(text, "\nmigproxy_page_delivery_seconds_bucket{where=\"found\","
                     "le=\"5e-05\"} 0\n");
    assert_has(text, "\nmigproxy_page_delivery_seconds_bucket{where=\"found\","
                     "le=\"0.0001\"} 1\n");
    assert_has(text, "\nmigproxy_page_delivery_seconds_bucket{where=\"found\","
                     "le=\"+Inf\"} 2\n");
    assert_has(text, "\nmigproxy_page_delivery_seconds_sum{where=\"found\"} "
                     "0.000390000\n");
    assert_has(text, "\nmigproxy_page_delivery_seconds_count{where=\"found\"} "
                     "2\n");
    assert_has(text, "\nmigproxy_blackout_seconds_bucket{le=\"5\"} 1\n");
    assert_has(text, "\nmigproxy_blackout_seconds_sum 3.000000000\n");
    assert_has(text, "\nmigproxy_blackout_seconds_count 1\n");
    assert_has(text, "\nmigproxy_pool_bytes 4096\n");
    assert_has(text, "\nmigproxy_peer_connected{peer=\"c\"} 0\n");
    assert_has(text, "\nmigproxy_draining 0\n");
    /* each family is announced once, with all its lines behind it */
    for (const struct metrics_row *row = metrics_rows; row->name; row++) {
        char line[300];
        snprintf(line, sizeof(line), "# HELP %s %s\n# TYPE %s %s\n%s",
                 row->name, row->help, row->name, row->type, row->name);
        assert_has(text, line);
    }
    free(text);
}

static void adding_adds_everything(void **state)
{
    struct metrics a = {.postcopies = 1, .page_requests = 3}, b = a;

    b.ended[1][METRICS_FAILED] = 2;
    b.sent_bytes = 5;
    b.received_bytes = 6;
    latency_add(&b.delivery[METRICS_FETCHED], MP_MS);
    latency_add(&b.blackout, MP_MS);
    metrics_add(&a, &b);
    metrics_add(&a, &b);
    assert_int_equal(a.ended[1][METRICS_FAILED], 4);
    assert_int_equal(a.postcopies, 3);
    assert_int_equal(a.page_requests, 9);
    assert_int_equal(a.sent_bytes, 10);
    assert_int_equal(a.received_bytes, 12);
    assert_int_equal(a.delivery[METRICS_FETCHED].count, 2);
    assert_int_equal(a.blackout.count, 2);
}

static void each_metric_is_documented(void **state)
{
    const char *srcdir = getenv("srcdir");
    char path[4096], start[200], *text = NULL;
    size_t size = 0, rows = 0, lines = 0;

    snprintf(path, sizeof(path), "%s/docs/metrics.md", srcdir ? srcdir : ".");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(getdelim(&text, &size, '\0', file) > 0);
    fclose(file);
    for (; metrics_rows[rows].name; rows++) {
        snprintf(start, sizeof(start), "\n| `%s` | %s | ",
                 metrics_rows[rows].name, metrics_rows[rows].type);
        assert_has(text, start);
    }
    for (const char *at = text; (at = strstr(at, "\n| `")); at++) {
        lines++;
    }
    assert_int_equal(lines, rows);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_written),
        cmocka_unit_test(adding_adds_everything),
        cmocka_unit_test(each_metric_is_documented),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
