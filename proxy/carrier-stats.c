// SPDX-License-Identifier: BSD-3-Clause
/* A carrier's numbers, copied for the control loop. */
#include "proxy/carrier-core.h"

#include <stdio.h>
#include <string.h>

static void add_lane(struct carrier_lane *cl, struct carrier_stats *stats)
{
    if (cl->lane) {
        lane_get_stats(cl->lane, &cl->last);
    }
    stats->wire_sent_bytes += cl->last.sent_bytes;
    stats->wire_received_bytes += cl->last.received_bytes;
}

static void add_channel(struct carrier_core *core, uint16_t channel,
                        struct carrier_stats *stats)
{
    const struct carrier_channel *ch = &core->channel[channel];
    struct carrier_channel_stats *to = &stats->channel[stats->channel_count++];
    struct mux_channel_stats from;

    mux_get_channel_stats(core->mux, channel, &from);
    snprintf(to->name, sizeof(to->name), "%s", ch->ep.name);
    to->class = ch->ep.class;
    to->open = endpoint_is_open(&ch->ep);
    to->forward_bytes = core->source ? ch->ep.input_bytes : ch->ep.output_bytes;
    to->reverse_bytes = core->source ? ch->ep.output_bytes : ch->ep.input_bytes;
    to->held_bytes = from.held_bytes;
    to->blocked = from.blocked;
    stats->stale_frames += from.stale_frames;
}

static void add_stream(const struct carrier_core *core,
                       struct carrier_stats *stats)
{
    if (!core->head) {
        return;
    }
    switch (stream_head_state(core->head)) {
    case STREAM_HEAD_NEED_MORE:
        snprintf(stats->stream_state, sizeof(stats->stream_state), "head");
        return;
    case STREAM_HEAD_DONE:
        carrier_pages_format_state(core, stats->stream_state,
                                   sizeof(stats->stream_state));
        return;
    case STREAM_HEAD_OPAQUE:
        snprintf(stats->stream_state, sizeof(stats->stream_state),
                 "opaque (%.80s)", stream_head_get(core->head)->reason);
        return;
    }
}

static mp_time older(mp_time a, mp_time b)
{
    return a < b ? a : b;
}

void carrier_stats_refresh(struct carrier_core *core)
{
    const struct stream_return_path *return_path =
        stream_return_path_get(core->return_path);
    struct carrier_stats stats = {
        .ready = core->ready,
        .express_rtt = core->express.rtt,
        .bulk_rtt = core->bulk.rtt,
        .express_pong_at = core->express.pong_at,
        .bulk_pong_at = core->bulk.pong_at,
        .page_requests = return_path->requests,
        .shut_seen = core->shut_seen,
        .shut_status = return_path->shut_status,
    };
    mp_time min_rtt;

    add_lane(&core->express, &stats);
    add_lane(&core->bulk, &stats);
    stats.last_heard =
        older(core->express.last.last_received, core->bulk.last.last_received);
    mux_get_window(core->mux, &stats.window_bytes,
                   &stats.path_rate_bytes_per_second, &min_rtt);
    add_stream(core, &stats);
    carrier_pages_get_stats(core, &stats.pages);
    for (unsigned i = 0; i < core->order_count; i++) {
        add_channel(core, core->order[i], &stats);
    }
    carrier_put_stats(core->owner, &stats);
}
