// SPDX-License-Identifier: BSD-3-Clause
/* What the migrations of this host add up to. */
#include <stdlib.h>

#include "config.h"
#include "proxy/manager-private.h"
#include "proxy/metrics.h"
#include "qmp/json-value.h"

static enum metrics_result result_of(const struct migration *m)
{
    switch (m->state) {
    case MIGRATION_COMPLETED:
        return METRICS_COMPLETED;
    case MIGRATION_CANCELLED:
        return METRICS_CANCELLED;
    case MIGRATION_ATTENTION:
        return METRICS_ATTENTION;
    default:
        return m->refused ? METRICS_REFUSED : METRICS_FAILED;
    }
}

/* What one migration adds, now or at its end. */
static void add_migration(struct metrics *metrics, struct migration *m)
{
    struct metrics one = {.postcopies = 0};

    migration_refresh(m);
    const struct carrier_stats *stats = &m->final_stats;
    one.sent_bytes = stats->wire_sent_bytes;
    one.received_bytes = stats->wire_received_bytes;
    if (m->is_source) {
        one.page_requests = stats->page_requests;
        one.delivery[METRICS_FOUND] = stats->pages.found;
        one.delivery[METRICS_IN_FLIGHT] = stats->pages.in_flight;
        one.delivery[METRICS_FETCHED] = stats->pages.fetched;
    }
    if (migration_state_is_end(m->state)) {
        one.ended[m->is_source][result_of(m)] = 1;
        one.postcopies = m->is_source && m->postcopy;
        if (m->is_source && m->blackout_us >= 0) {
            latency_add(&one.blackout, m->blackout_us * MP_US);
        }
    }
    metrics_add(metrics, &one);
}

void manager_count_ended(struct manager *manager, struct migration *m)
{
    add_migration(&manager->metrics, m);
}

/* The caller frees *ret_peers; the names are list's. */
static size_t get_peers(json_object *list, struct metrics_peer **ret_peers)
{
    size_t count = json_object_array_length(list);
    struct metrics_peer *peers = calloc(count ? count : 1, sizeof(*peers));

    *ret_peers = peers;
    for (size_t i = 0; peers && i < count; i++) {
        json_object *peer = json_object_array_get_idx(list, i);
        peers[i].name = "";
        json_value_text(peer, "name", &peers[i].name);
        json_value_bool(peer, "connected", &peers[i].is_connected);
    }
    return peers ? count : 0;
}

int manager_write_metrics(void *arg, FILE *out, struct error *err)
{
    struct manager *manager = arg;
    const struct conf *conf = manager->env.conf;
    struct metrics *sum = malloc(sizeof(*sum)); /* some KiB */
    struct metrics_peer *peers;
    struct metrics_now now = {
        .version = PACKAGE_VERSION,
        .host = conf->name,
        .pool_limit_bytes = conf->pool_bytes,
        .is_draining = manager->draining,
    };

    if (!sum) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for metrics");
    }
    *sum = manager->metrics;
    LIST_EACH (node, &manager->active) {
        struct migration *m = container_of(node, struct migration, node);
        add_migration(sum, m);
        now.active[m->is_source] += !migration_state_is_end(m->state);
        now.pool_bytes += m->final_stats.pages.pages.pool_bytes;
    }
    json_object *list = peers_to_json(manager->env.peers);
    size_t count = get_peers(list, &peers);
    metrics_write(out, sum, &now, peers, count);
    free(peers);
    json_object_put(list);
    free(sum);
    return 0;
}
