// SPDX-License-Identifier: BSD-3-Clause
/* What is counted of a migration on its way. */
#include <string.h>

#include "proxy/migration.h"

/* QEMU says what became of it, but no numbers (migration/migration.c,
 * fill_source_migration_info(), of failed and cancelled; 6.2 to 10.2). */
static void take_status(struct migration *m,
                        const struct qmp_migrate_info *info)
{
    struct qmp_migrate_info with_numbers = m->info;

    with_numbers.status = info->status;
    memcpy(with_numbers.status_text, info->status_text,
           sizeof(with_numbers.status_text));
    memcpy(with_numbers.error_desc, info->error_desc,
           sizeof(with_numbers.error_desc));
    m->info = with_numbers;
}

uint64_t migration_held_bytes(const struct migration *m)
{
    return m->is_source
               ? m->final_stats.pages.pages.pool_bytes + m->counts.unsent_bytes
               : 0;
}

static void count_percent(struct migration *m)
{
    uint64_t total = m->info.ram_total_bytes;
    uint64_t left = m->info.ram_remaining_bytes + migration_held_bytes(m);

    if (total && left <= total) {
        double percent = 100.0 * (double)(total - left) / (double)total;
        m->counts.percent =
            percent > m->counts.percent ? percent : m->counts.percent;
    }
}

void migration_take_info(struct migration *m,
                         const struct qmp_migrate_info *info, bool guest_runs)
{
    if (!info->has_ram || !m->is_source) {
        take_status(m, info);
        return;
    }
    if (info->ram_multifd_bytes > m->info.ram_multifd_bytes) {
        m->counts.multifd_bytes[guest_runs] +=
            info->ram_multifd_bytes - m->info.ram_multifd_bytes;
    }
    if (info->ram_postcopy_requests > m->page_requests) {
        m->page_requests = info->ram_postcopy_requests;
    }
    m->info = *info;
    m->counts.wall_us = clock_wall_us();
    count_percent(m);
}

/* What is only while the path is open; the pool goes with it. */
static void close_stats(struct migration *m)
{
    struct carrier_stats *stats = &m->final_stats;

    for (unsigned i = 0; i < stats->channel_count; i++) {
        stats->channel[i].open = false;
        stats->channel[i].held_bytes = 0;
        stats->channel[i].blocked = 0;
    }
    m->counts.unsent_bytes = stats->pages.pages.pool_bytes;
    stats->pages.pages.pool_bytes = 0;
}

void migration_refresh(struct migration *m)
{
    struct carrier *carrier = m->carrier ? m->carrier : m->closed_carrier;

    if (carrier) {
        carrier_get_stats(carrier, &m->final_stats);
        if (!m->carrier || migration_state_is_end(m->state)) {
            close_stats(m);
        }
    }
    if (m->carrier) {
        m->counts.wall_us = clock_wall_us();
    }
    count_percent(m);
}

uint64_t migration_forward_bytes(const struct migration *m)
{
    const struct carrier_stats *stats = &m->final_stats;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < stats->channel_count; i++) {
        bytes += stats->channel[i].forward_bytes;
    }
    return bytes;
}

void migration_measure_rate(struct migration *m)
{
    struct migration_counts *counts = &m->counts;
    mp_time now = loop_now(m->env->control);

    if (!m->carrier) {
        return;
    }
    migration_refresh(m);
    uint64_t bytes = migration_forward_bytes(m);
    if (counts->received_at && now > counts->received_at) {
        counts->received_bytes_per_second =
            (uint64_t)((double)(bytes - counts->received_bytes) * MP_SECOND /
                       (double)(now - counts->received_at));
        counts->has_received_rate = true;
    }
    counts->received_bytes = bytes;
    counts->received_at = now;
}

void migration_drop_carrier(struct migration *m, const struct error *why)
{
    if (m->carrier) {
        carrier_close(m->carrier, why);
        m->closed_carrier = m->carrier;
        m->carrier = NULL;
        m->counts.wall_us = clock_wall_us();
        migration_refresh(m);
    }
}
