// SPDX-License-Identifier: BSD-3-Clause
/* What QEMU's sockets say, and what the end of one of them means.
 *
 * How QEMU ends (qemu-migration.md section 6): the destination writes SHUT on
 * the return path and closes main, then the rest (multifd even before SHUT);
 * the source reads SHUT, then closes main and the rest. FINs cross, and what
 * is closed with bytes unread shows as ECONNRESET. So "gone" is judged by
 * whether the migration is over: SHUT has passed, or, in a migration without
 * a return path, main's forward direction has ended. */
#include "proxy/carrier-core.h"

#include "util/log.h"

/* Whether a SHUT is to be expected: the return path speaks, and as QEMU does.
 */
static bool has_return_path(const struct carrier_core *core)
{
    const struct stream_return_path *path =
        stream_return_path_get(core->return_path);
    if (path->state == STREAM_RETURN_PATH_OPAQUE) {
        return false;
    }
    return path->offset_bytes > 0 ||
           (core->head && stream_head_get(core->head)->has_return_path);
}

void carrier_ends_over(struct carrier_core *core)
{
    if (core->over) {
        return;
    }
    core->over = true;
    for (unsigned i = 0; i < core->order_count; i++) {
        struct carrier_channel *ch = &core->channel[core->order[i]];
        if (ch->dead) {
            ch->dead = false;
            endpoint_discard(&ch->ep);
        }
    }
}

/* Looking at what passes. ------------------------------------------------ */

void carrier_ends_head(struct carrier_core *core)
{
    if (stream_head_state(core->head) == STREAM_HEAD_OPAQUE) {
        carrier_log(core, LOG_LEVEL_INFO, "main is carried unread: %s",
                    stream_head_get(core->head)->reason);
    }
    carrier_tell_head(core->owner, stream_head_get(core->head));
}

static void watch_return_path(struct carrier_core *core, const uint8_t *data,
                              size_t len_bytes)
{
    const struct stream_return_path *path =
        stream_return_path_get(core->return_path);
    if (path->state != STREAM_RETURN_PATH_OPEN) {
        return;
    }
    stream_return_path_feed(core->return_path, data, len_bytes);
    if (path->state == STREAM_RETURN_PATH_OPAQUE) {
        carrier_log(core, LOG_LEVEL_INFO, "return path is carried unread: %s",
                    path->reason);
    } else if (path->state == STREAM_RETURN_PATH_SHUT) {
        core->shut_seen = true;
        carrier_ends_over(core);
    }
}

static int outlet_look(void *arg, struct endpoint *ep, const struct iovec *iov,
                       int count, size_t *ret_len, struct error *err)
{
    struct carrier_core *core = arg;
    return widen_look(core->widen, iov, count, ret_len, err);
}

static void outlet_written(void *arg, struct endpoint *ep, size_t len_bytes)
{
    struct carrier_core *core = arg;
    widen_written(core->widen, len_bytes);
}

const struct endpoint_outlet carrier_widen_outlet = {
    .look = outlet_look,
    .written = outlet_written,
};

static void on_input(void *arg, struct endpoint *ep, const uint8_t *data,
                     size_t len_bytes)
{
    struct carrier_core *core = arg;
    if (!core->source && ep->class == WIRE_CLASS_MAIN) {
        watch_return_path(core, data, len_bytes);
    }
}

static void on_output(void *arg, struct endpoint *ep, const uint8_t *data,
                      size_t len_bytes)
{
    struct carrier_core *core = arg;
    if (core->source && ep->class == WIRE_CLASS_MAIN) {
        watch_return_path(core, data, len_bytes);
    }
}

static void on_progress(void *arg, struct endpoint *ep, bool more)
{
    struct carrier_core *core = arg;
    enum mux_phase phase;
    if (carrier_pages_take_phase(core, &phase)) {
        carrier_core_set_phase(core, phase);
    }
    if (more && !core->in_turn) {
        carrier_lanes_pump(core, false);
        return;
    }
    carrier_core_turn(core);
}

/* Ends. ------------------------------------------------------------------ */

/* A source QEMU that ends a channel before it can be handed on: true if the
 * path was broken for that. */
static bool ended_too_early(struct carrier_core *core,
                            const struct endpoint *ep)
{
    struct error err = ERROR_INIT;
    if (!core->source || ep->input_bytes >= carrier_first_bytes(ep->class)) {
        return false;
    }
    error_set(&err, ERR_QEMU_GONE,
              "source QEMU closed its %s channel after writing %llu bytes to "
              "it, it needs %llu to begin",
              ep->name, (unsigned long long)ep->input_bytes,
              (unsigned long long)carrier_first_bytes(ep->class));
    carrier_core_break(core, &err);
    return true;
}

static void on_input_end(void *arg, struct endpoint *ep)
{
    struct carrier_core *core = arg;
    if (ended_too_early(core, ep)) {
        return;
    }
    if (core->source && ep->class == WIRE_CLASS_MAIN &&
        !has_return_path(core)) {
        carrier_ends_over(core);
    }
}

void carrier_ends_forward_ended(struct carrier_core *core,
                                struct carrier_channel *ch)
{
    if (!core->source && ch->ep.class == WIRE_CLASS_MAIN &&
        !has_return_path(core)) {
        carrier_ends_over(core);
    }
}

static void break_before_end(struct carrier_core *core,
                             const struct error *fault)
{
    struct error err = *fault;
    error_wrap(&err, "before the migration's end");
    carrier_core_break(core, &err);
}

static void source_gone(struct carrier_core *core, struct endpoint *ep,
                        const struct error *err)
{
    if (ended_too_early(core, ep)) {
        return;
    }
    if (ep->class == WIRE_CLASS_MAIN && !core->over) {
        if (has_return_path(core)) {
            break_before_end(core, err);
            return;
        }
        carrier_ends_over(core);
    }
    /* the reverse direction of the others carries nothing */
    endpoint_discard(ep);
}

static void dest_gone(struct carrier_core *core, struct endpoint *ep,
                      const struct error *err)
{
    struct carrier_channel *ch = &core->channel[ep->channel];

    if (core->over) {
        endpoint_discard(ep);
        return;
    }
    if (ep->class == WIRE_CLASS_MAIN && has_return_path(core)) {
        break_before_end(core, err);
        return;
    }
    /* A sibling: main will say whether that is all right. Main itself, when
     * there was no return path: the source's FIN will. */
    ch->dead = true;
    ch->fault = *err;
    carrier_ends_check_dead(core);
}

static void on_gone(void *arg, struct endpoint *ep, const struct error *err)
{
    struct carrier_core *core = arg;
    if (core->source) {
        source_gone(core, ep, err);
    } else {
        dest_gone(core, ep, err);
    }
}

static void on_failed(void *arg, struct endpoint *ep, const struct error *err)
{
    carrier_core_break(arg, err);
}

const struct endpoint_ops carrier_endpoint_ops = {
    .on_input = on_input,
    .on_output = on_output,
    .on_progress = on_progress,
    .on_input_end = on_input_end,
    .on_gone = on_gone,
    .on_failed = on_failed,
};

/* Whether a channel's death loses something. */
static bool is_loss(const struct carrier_core *core,
                    const struct carrier_channel *ch)
{
    return ch->dead && (ch->ep.class == WIRE_CLASS_MAIN ||
                        mux_deliver_bytes(core->mux, ch->ep.channel) > 0);
}

static const struct carrier_channel *find_loss(const struct carrier_core *core)
{
    for (unsigned i = 0; i < core->order_count; i++) {
        const struct carrier_channel *ch = &core->channel[core->order[i]];
        if (is_loss(core, ch)) {
            return ch;
        }
    }
    return NULL;
}

void carrier_ends_check_dead(struct carrier_core *core)
{
    if (core->life == CARRIER_OPEN && find_loss(core) &&
        !loop_timer_is_running(&core->verdict_timer)) {
        loop_timer_start(&core->verdict_timer, CARRIER_VERDICT_TIME);
    }
}

void carrier_ends_verdict_cb(void *arg)
{
    struct carrier_core *core = arg;
    const struct carrier_channel *ch = find_loss(core);
    if (ch && core->life == CARRIER_OPEN) {
        break_before_end(core, &ch->fault);
        carrier_core_turn(core);
    }
}

bool carrier_ends_all(const struct carrier_core *core)
{
    if (!core->channel[CARRIER_MAIN].used) {
        return false;
    }
    for (unsigned i = 0; i < core->order_count; i++) {
        const struct carrier_channel *ch = &core->channel[core->order[i]];
        if (!ch->drained || !ch->peer_ended || endpoint_is_open(&ch->ep)) {
            return false;
        }
    }
    return true;
}

bool carrier_ends_return_path_safe(const struct carrier_core *core)
{
    const struct carrier_channel *ch = &core->channel[CARRIER_MAIN];
    struct mux_channel_stats stats;

    if (!ch->used) {
        return false;
    }
    if (core->source) {
        return core->shut_seen ||
               (ch->drained && (ch->peer_ended || ch->ep.output_dead));
    }
    mux_get_channel_stats(core->mux, CARRIER_MAIN, &stats);
    return ch->drained || (core->shut_seen && stats.held_bytes == 0 &&
                           stats.acked_bytes == stats.sent_bytes);
}
