// SPDX-License-Identifier: BSD-3-Clause
/* The daemon's numbers for Prometheus. */
#include "proxy/metrics.h"

#include <inttypes.h>

enum {
    ROW_INFO,
    ROW_ACTIVE,
    ROW_ENDED,
    ROW_POSTCOPIES,
    ROW_WIRE,
    ROW_REQUESTS,
    ROW_DELIVERY,
    ROW_BLACKOUT,
    ROW_POOL,
    ROW_POOL_LIMIT,
    ROW_DRAINING,
    ROW_PEER
};

const struct metrics_row metrics_rows[] = {
    [ROW_INFO] = {"migproxy_info", "gauge",
                  "1; version and host are in the labels."},
    [ROW_ACTIVE] = {"migproxy_migrations_active", "gauge",
                    "Migrations under way."},
    [ROW_ENDED] = {"migproxy_migrations_total", "counter",
                   "Migrations that have ended, by result; refused: in "
                   "preflight, nothing was changed."},
    [ROW_POSTCOPIES] = {"migproxy_postcopies_total", "counter",
                        "Migrations from here that went to postcopy and have "
                        "ended."},
    [ROW_WIRE] = {"migproxy_wire_bytes_total", "counter",
                  "Bytes of migrations between the daemons, encrypted."},
    [ROW_REQUESTS] = {"migproxy_page_requests_total", "counter",
                      "Pages that guests in postcopy have asked for."},
    [ROW_DELIVERY] = {"migproxy_page_delivery_seconds", "histogram",
                      "From a page's request to its delivery, at the source, "
                      "by where the page was."},
    [ROW_BLACKOUT] = {"migproxy_blackout_seconds", "histogram",
                      "How long guests that left here stood still in the "
                      "switchover."},
    [ROW_POOL] = {"migproxy_pool_bytes", "gauge",
                  "Pages in postcopy that wait to be sent."},
    [ROW_POOL_LIMIT] = {"migproxy_pool_limit_bytes", "gauge", "[limits] pool."},
    [ROW_DRAINING] = {"migproxy_draining", "gauge",
                      "1: the daemon is ending and takes no new migrations."},
    [ROW_PEER] = {"migproxy_peer_connected", "gauge",
                  "1: there is a control connection to the peer."},
    {.name = NULL},
};

static const char *const roles[] = {"destination", "source"};
static const char *const results[] = {"completed", "cancelled", "failed",
                                      "refused", "attention"};
static const char *const wheres[] = {"found", "in_flight", "fetched"};

_Static_assert(sizeof(results) / sizeof(results[0]) == METRICS_RESULTS &&
                   sizeof(wheres) / sizeof(wheres[0]) == METRICS_WHERES,
               "the words stand in the order of their enums");

/* Upper ends of the buckets, microseconds. */
static const uint64_t bounds_us[] = {50,     100,    200,    500,     1000,
                                     2000,   5000,   10000,  20000,   50000,
                                     100000, 200000, 500000, 1000000, 5000000};
#define BOUNDS (sizeof(bounds_us) / sizeof(bounds_us[0]))

void metrics_add(struct metrics *metrics, const struct metrics *other)
{
    for (int role = 0; role < 2; role++) {
        for (int i = 0; i < METRICS_RESULTS; i++) {
            metrics->ended[role][i] += other->ended[role][i];
        }
    }
    metrics->postcopies += other->postcopies;
    metrics->sent_bytes += other->sent_bytes;
    metrics->received_bytes += other->received_bytes;
    metrics->page_requests += other->page_requests;
    for (int i = 0; i < METRICS_WHERES; i++) {
        latency_merge(&metrics->delivery[i], &other->delivery[i]);
    }
    latency_merge(&metrics->blackout, &other->blackout);
}

static void head(FILE *out, int row)
{
    const struct metrics_row *r = &metrics_rows[row];
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", r->name, r->help, r->name,
            r->type);
}

static void one(FILE *out, int row, uint64_t value)
{
    head(out, row);
    fprintf(out, "%s %" PRIu64 "\n", metrics_rows[row].name, value);
}

/* A label's value, as the format wants it. */
static void quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputs(*text == '\n' ? "\\n" : (char[]){*text, '\0'}, out);
    }
    fputc('"', out);
}

/* labels: "where=\"found\",", or "". */
static void histogram(FILE *out, int row, const char *labels,
                      const struct latency *latency)
{
    const char *name = metrics_rows[row].name;
    size_t size = 0;

    for (size_t i = 0; i < BOUNDS; i++) {
        fprintf(out, "%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, labels,
                (double)bounds_us[i] / 1e6,
                latency_count_below(latency, (mp_time)bounds_us[i] * MP_US));
    }
    fprintf(out, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, labels,
            latency->count);
    while (labels[size] && labels[size + 1]) {
        size++; /* without the comma */
    }
    fprintf(out, "%s_sum%s%.*s%s %.9f\n%s_count%s%.*s%s %" PRIu64 "\n", name,
            size ? "{" : "", (int)size, labels, size ? "}" : "",
            (double)latency->sum / MP_SECOND, name, size ? "{" : "", (int)size,
            labels, size ? "}" : "", latency->count);
}

static void write_info(FILE *out, const struct metrics_now *now)
{
    head(out, ROW_INFO);
    fprintf(out, "%s{version=", metrics_rows[ROW_INFO].name);
    quoted(out, now->version);
    fprintf(out, ",host=");
    quoted(out, now->host);
    fprintf(out, "} 1\n");
}

static void write_migrations(FILE *out, const struct metrics *metrics,
                             const struct metrics_now *now)
{
    head(out, ROW_ACTIVE);
    for (int role = 0; role < 2; role++) {
        fprintf(out, "%s{role=\"%s\"} %u\n", metrics_rows[ROW_ACTIVE].name,
                roles[role], now->active[role]);
    }
    head(out, ROW_ENDED);
    for (int role = 0; role < 2; role++) {
        for (int i = 0; i < METRICS_RESULTS; i++) {
            fprintf(out, "%s{role=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                    metrics_rows[ROW_ENDED].name, roles[role], results[i],
                    metrics->ended[role][i]);
        }
    }
    one(out, ROW_POSTCOPIES, metrics->postcopies);
    head(out, ROW_WIRE);
    fprintf(out,
            "%s{direction=\"sent\"} %" PRIu64
            "\n%s{direction=\"received\"} %" PRIu64 "\n",
            metrics_rows[ROW_WIRE].name, metrics->sent_bytes,
            metrics_rows[ROW_WIRE].name, metrics->received_bytes);
}

void metrics_write(FILE *out, const struct metrics *metrics,
                   const struct metrics_now *now,
                   const struct metrics_peer *peers, size_t peer_count)
{
    char labels[40];

    write_info(out, now);
    write_migrations(out, metrics, now);
    one(out, ROW_REQUESTS, metrics->page_requests);
    head(out, ROW_DELIVERY);
    for (int i = 0; i < METRICS_WHERES; i++) {
        snprintf(labels, sizeof(labels), "where=\"%s\",", wheres[i]);
        histogram(out, ROW_DELIVERY, labels, &metrics->delivery[i]);
    }
    head(out, ROW_BLACKOUT);
    histogram(out, ROW_BLACKOUT, "", &metrics->blackout);
    one(out, ROW_POOL, now->pool_bytes);
    one(out, ROW_POOL_LIMIT, now->pool_limit_bytes);
    one(out, ROW_DRAINING, now->is_draining);
    head(out, ROW_PEER);
    for (size_t i = 0; i < peer_count; i++) {
        fprintf(out, "%s{peer=", metrics_rows[ROW_PEER].name);
        quoted(out, peers[i].name);
        fprintf(out, "} %d\n", peers[i].is_connected);
    }
}
