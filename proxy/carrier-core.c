// SPDX-License-Identifier: BSD-3-Clause
/* The half of a carrier that lives in the data loop: its life and its turns. */
#include "proxy/carrier-core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

/* Unused chunks kept for the next reads: what one full bulk window turns over
 * costs no malloc(). */
#define POOL_KEEP_FREE 16

static void free_memory(struct carrier_core *core)
{
    mux_free(core->mux);
    chunk_pool_free(core->pool);
    stream_head_free(core->head);
    carrier_pages_free(core->pages);
    widen_free(core->widen);
    stream_return_path_free(core->return_path);
    free(core->context);
    free(core);
}

static void on_request(void *arg, const char *block, uint64_t start_bytes,
                       uint32_t length_bytes)
{
    struct carrier_core *core = arg;
    if (!core->widen) { /* it tells what was asked for before it is widened */
        carrier_pages_asked(core, block, start_bytes, length_bytes);
    }
}

static const struct stream_return_path_ops return_path_ops = {
    .on_request = on_request,
};

static void on_request_widened(void *arg, const char *block,
                               uint64_t start_bytes, uint32_t length_bytes)
{
    carrier_pages_asked(arg, block, start_bytes, length_bytes);
}

static const struct widen_ops widen_ops = {
    .on_request = on_request_widened,
};

/* What only the source's end has. False: out of memory. */
static bool make_source(struct carrier_core *core,
                        const struct carrier_params *params)
{
    core->head = stream_head_new((uint32_t)sysconf(_SC_PAGESIZE));
    core->pages = carrier_pages_new(params->pool_bytes, params->small_pages);
    if (params->small_pages && params->preempt) {
        core->widen = widen_new(params->small_pages, &widen_ops, core);
        if (!core->widen) {
            return false;
        }
    }
    return core->head && core->pages;
}

struct carrier_core *carrier_core_new(const struct carrier_params *params,
                                      struct carrier *owner, struct error *err)
{
    struct mux_config config;
    struct carrier_core *core = calloc(1, sizeof(*core));
    if (!core) {
        goto fail;
    }
    core->owner = owner;
    core->loop = params->data;
    core->source = params->source;
    core->preempt = params->preempt;
    core->multifd = params->multifd;
    core->ping_interval = params->ping_interval;
    core->in.listen_fd = -1;
    core->express.core = core;
    core->express.kind = WIRE_LANE_EXPRESS;
    core->bulk.core = core;
    core->bulk.kind = WIRE_LANE_BULK;
    carrier_rate_init(&core->rate, params->bandwidth_bytes_per_second);

    mux_config_default(&config, params->source,
                       params->switchover_buffer_bytes);
    core->mux = mux_new(&config);
    core->pool = chunk_pool_new(ENDPOINT_CHUNK_BYTES, POOL_KEEP_FREE);
    core->context = strdup(params->context ? params->context : "");
    core->return_path = stream_return_path_new(&return_path_ops, core);
    if (core->mux && core->pool && core->context && core->return_path &&
        (!params->source || make_source(core, params))) {
        return core;
    }
    free_memory(core);
fail:
    error_set(err, ERR_NO_MEMORY, "carrier: out of memory");
    return NULL;
}

static void again_cb(evutil_socket_t fd, short what, void *arg)
{
    struct carrier_core *core = arg;
    if (core->turn_due) {
        carrier_core_turn(core);
    }
}

void carrier_core_again(struct carrier_core *core)
{
    if (!core->turn_due) {
        core->turn_due = true;
        event_active(core->again, 0, 0);
    }
}

static void ping_cb(void *arg)
{
    struct carrier_core *core = arg;
    carrier_lanes_ping(core);
    loop_timer_start(&core->ping_timer, core->ping_interval);
    carrier_core_turn(core);
}

static void stats_cb(void *arg)
{
    struct carrier_core *core = arg;
    carrier_stats_refresh(core);
    loop_timer_start(&core->stats_timer, CARRIER_STATS_INTERVAL);
}

static void turn_cb(void *arg)
{
    carrier_core_turn(arg);
}

static void dest_connect_cb(void *arg)
{
    struct carrier_core *core = arg;
    carrier_dest_connect(core);
    carrier_core_turn(core);
}

void carrier_core_start(struct carrier_core *core)
{
    core->again = event_new(loop_base(core->loop), -1, 0, again_cb, core);
    if (!core->again) {
        log_error("out of memory for an event, ending here");
        abort();
    }
    event_priority_set(core->again, LOOP_NORMAL);
    loop_timer_init(&core->ping_timer, core->loop, ping_cb, core);
    loop_timer_init(&core->stats_timer, core->loop, stats_cb, core);
    loop_timer_init(&core->rate_timer, core->loop, turn_cb, core);
    loop_timer_init(&core->verdict_timer, core->loop, carrier_ends_verdict_cb,
                    core);
    loop_timer_init(&core->out.retry, core->loop, dest_connect_cb, core);
    if (core->ping_interval > 0) {
        loop_timer_start(&core->ping_timer, core->ping_interval);
    }
    loop_timer_start(&core->stats_timer, CARRIER_STATS_INTERVAL);
}

static void close_sockets(struct carrier_core *core)
{
    for (unsigned i = 0; i < core->order_count; i++) {
        endpoint_close(&core->channel[core->order[i]].ep);
    }
    carrier_source_close(core);
    carrier_dest_close(core);
    carrier_drain_close(core);
}

/* All but those that QEMU is to close by itself (carrier-drain.c). */
static void break_sockets(struct carrier_core *core)
{
    if (!core->source || core->multifd == 0) {
        close_sockets(core);
        return;
    }
    for (unsigned i = 0; i < core->order_count; i++) {
        struct endpoint *ep = &core->channel[core->order[i]].ep;
        if (ep->class == WIRE_CLASS_MULTIFD) {
            carrier_drain_add(core, endpoint_release(ep));
        } else {
            endpoint_close(ep);
        }
    }
    carrier_source_drain(core);
}

void carrier_core_stop(struct carrier_core *core, enum error_code code,
                       const char *why)
{
    struct carrier *owner = core->owner;

    close_sockets(core);
    if (!why) {
        carrier_lanes_close(core, ERR_NONE, "done");
    } else {
        carrier_lanes_close(
            core, core->life == CARRIER_BROKEN ? core->why.code : code, why);
    }
    carrier_stats_refresh(core);
    loop_timer_done(&core->ping_timer);
    loop_timer_done(&core->stats_timer);
    loop_timer_done(&core->rate_timer);
    loop_timer_done(&core->verdict_timer);
    loop_timer_done(&core->out.retry);
    event_free(core->again);
    free_memory(core);
    carrier_tell_gone(owner);
}

/* Endings. --------------------------------------------------------------- */

static void reset_channel(struct carrier_core *core, uint16_t channel)
{
    struct carrier_channel *ch = &core->channel[channel];
    if (!ch->drained || !ch->peer_ended) {
        mux_reset(core->mux, channel, core->why.code, core->why.text);
    }
}

void carrier_core_break(struct carrier_core *core, const struct error *err)
{
    if (core->life != CARRIER_OPEN) {
        return;
    }
    core->life = CARRIER_BROKEN;
    core->why = *err;
    carrier_log(core, LOG_LEVEL_WARNING,
                "path broken, closing QEMU's sockets: %s", err->text);
    break_sockets(core);
    for (unsigned i = 0; i < core->order_count; i++) {
        reset_channel(core, core->order[i]);
    }
    carrier_stats_refresh(core);
    carrier_tell_broken(core->owner, err);
    carrier_core_again(core); /* the resets leave */
}

static void finish(struct carrier_core *core)
{
    core->life = CARRIER_FINISHED;
    close_sockets(core);
    carrier_log(core, LOG_LEVEL_INFO, "path finished");
    carrier_stats_refresh(core);
    carrier_tell_finished(core->owner);
}

void carrier_core_fail(struct carrier_core *core, const struct error *err)
{
    if (core->life != CARRIER_OPEN) {
        return;
    }
    if (core->over && carrier_ends_return_path_safe(core)) {
        carrier_log(core, LOG_LEVEL_INFO,
                    "after the migration's end, nothing is lost: %s",
                    err->text);
        finish(core);
        return;
    }
    carrier_core_break(core, err);
}

/* Sockets. --------------------------------------------------------------- */

static void limit_endpoint(struct carrier_core *core, struct endpoint *ep)
{
    bool postcopy = core->phase == MUX_PHASE_POSTCOPY;
    struct endpoint_limits limits = {
        .read_bytes =
            postcopy ? CARRIER_POSTCOPY_READ_BYTES : WIRE_DATA_MAX_BYTES,
        .write_bytes = ENDPOINT_BUDGET_BYTES,
        .budget_bytes =
            postcopy ? CARRIER_POSTCOPY_BUDGET_BYTES : ENDPOINT_BUDGET_BYTES,
    };
    bool pages = !core->source && (ep->class == WIRE_CLASS_MAIN ||
                                   ep->class == WIRE_CLASS_PREEMPT);
    if (postcopy && pages) {
        /* little may lie in front of a page that a vCPU waits for */
        endpoint_set_send_buffer(ep, CARRIER_POSTCOPY_SOCKET_BYTES);
        limits.write_bytes = CARRIER_POSTCOPY_WRITE_BYTES;
    }
    endpoint_set_limits(ep, &limits);
}

void carrier_core_use_channel(struct carrier_core *core, uint16_t channel,
                              enum wire_class class)
{
    struct carrier_channel *ch = &core->channel[channel];
    if (!ch->used) {
        core->order[core->order_count++] = channel;
    }
    *ch = (struct carrier_channel){.used = true};
    endpoint_init(&ch->ep, core->loop, core->mux, core->pool, channel, class,
                  core->source, &carrier_endpoint_ops, core);
    if (core->source &&
        (class == WIRE_CLASS_MAIN || class == WIRE_CLASS_PREEMPT)) {
        endpoint_set_intake(&ch->ep, &carrier_pages_intake);
    }
    if (core->widen && class == WIRE_CLASS_MAIN) {
        endpoint_set_outlet(&ch->ep, &carrier_widen_outlet);
    }
}

void carrier_core_add_socket(struct carrier_core *core, uint16_t channel,
                             int fd)
{
    struct error err = ERROR_INIT;
    struct endpoint *ep = &core->channel[channel].ep;

    if (endpoint_open(ep, fd, &err) < 0) {
        carrier_core_break(core, &err);
        return;
    }
    limit_endpoint(core, ep);
    carrier_log(core, LOG_LEVEL_INFO, "%s is %s", ep->name,
                core->source ? "accepted" : "connected");
    carrier_tell_channel(core->owner, channel, ep->class);
}

void carrier_core_set_phase(struct carrier_core *core, enum mux_phase phase)
{
    if (phase == core->phase) {
        return;
    }
    core->phase = phase;
    mux_set_phase(core->mux, phase);
    for (unsigned i = 0; i < core->order_count; i++) {
        limit_endpoint(core, &core->channel[core->order[i]].ep);
    }
    carrier_lanes_set_phase(core);
    carrier_core_turn(core);
    carrier_stats_refresh(core);
}

/* Turns. ----------------------------------------------------------------- */

static void channel_opened(struct carrier_core *core,
                           const struct mux_event *event)
{
    carrier_core_use_channel(core, event->channel, event->class);
    if (core->life == CARRIER_OPEN) {
        carrier_dest_opened(core, event->channel);
    } else if (core->life == CARRIER_BROKEN) {
        reset_channel(core, event->channel);
    } else {
        mux_reset(core->mux, event->channel, ERR_TOO_LATE,
                  "the migration has ended");
    }
}

static void channel_reset(struct carrier_core *core,
                          const struct mux_event *event)
{
    struct error err = ERROR_INIT;
    struct carrier_channel *ch = &core->channel[event->channel];

    /* nothing follows either way, and nothing is left to be reset */
    ch->drained = true;
    ch->peer_ended = true;
    error_set(&err, event->code ? event->code : ERR_INTERNAL, "%s",
              event->text);
    carrier_core_fail(core, &err);
}

static void take_event(struct carrier_core *core, const struct mux_event *event)
{
    struct carrier_channel *ch = &core->channel[event->channel];

    switch (event->type) {
    case MUX_EVENT_OPENED:
        channel_opened(core, event);
        return;
    case MUX_EVENT_READABLE:
        core->readable |= UINT64_C(1) << event->channel;
        return;
    case MUX_EVENT_ENDED:
        ch->peer_ended = true;
        endpoint_peer_ended(&ch->ep);
        carrier_ends_forward_ended(core, ch);
        return;
    case MUX_EVENT_RESET:
        channel_reset(core, event);
        return;
    case MUX_EVENT_ROOM:
        endpoint_room(&ch->ep);
        return;
    case MUX_EVENT_DRAINED:
        ch->drained = ch->ep.input_ended;
        return;
    case MUX_EVENT_PONG:
        carrier_lanes_pong(core, event->lane, event->rtt, core->frame_at);
        return;
    }
}

void carrier_core_take_events(struct carrier_core *core)
{
    struct mux_event event;
    while (mux_next_event(core->mux, &event)) {
        take_event(core, &event);
    }
}

static void deliver_channel(struct carrier_core *core, uint16_t channel)
{
    uint64_t bit = UINT64_C(1) << channel;
    struct carrier_channel *ch = &core->channel[channel];

    if (!(core->readable & bit)) {
        return;
    }
    endpoint_deliver(&ch->ep);
    if (mux_deliver_bytes(core->mux, channel) == 0) {
        core->readable &= ~bit;
    } else if (ch->dead) {
        carrier_ends_check_dead(core);
    }
}

static void deliver_all(struct carrier_core *core)
{
    if (core->readable & UINT64_C(1) << CARRIER_PREEMPT) {
        deliver_channel(core, CARRIER_PREEMPT);
    }
    for (unsigned i = 0; i < core->order_count && core->readable; i++) {
        deliver_channel(core, core->order[i]);
    }
}

/* The bulk lane broke after the migration's end, and all that mattered has
 * arrived. */
static bool is_lost_harmlessly(const struct carrier_core *core)
{
    return error_is_set(&core->lost) && core->over &&
           carrier_ends_return_path_safe(core);
}

void carrier_core_turn(struct carrier_core *core)
{
    if (core->in_turn) {
        carrier_core_again(core);
        return;
    }
    core->in_turn = true;
    core->turn_due = false;
    carrier_core_take_events(core);
    if (!core->source) {
        carrier_dest_connect(core);
    }
    deliver_all(core);
    mux_turn_end(core->mux, loop_now(core->loop));
    carrier_pages_acked(core);
    carrier_core_take_events(core);
    carrier_lanes_pump(core, true);
    carrier_core_take_events(core); /* what has left made room */
    if (core->life == CARRIER_OPEN &&
        (carrier_ends_all(core) || is_lost_harmlessly(core))) {
        finish(core);
    }
    core->in_turn = false;
}
