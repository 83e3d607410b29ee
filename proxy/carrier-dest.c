// SPDX-License-Identifier: BSD-3-Clause
/* The destination's side of a carrier: QEMU is connected once for each channel,
 * in the order in which the source's QEMU opened them, each connect() complete
 * before the next begins. QEMU's listening backlog is 1 to 2, so EAGAIN is
 * normal; a connection without its first bytes would freeze QEMU's main loop,
 * so main waits for 8 bytes and multifd for its 64 (qemu-migration.md 1.3 to
 * 1.6). */
#include "proxy/carrier-core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/path.h"

#define RETRY_FIRST (5 * MP_MS)
#define RETRY_MAX (50 * MP_MS)

uint64_t carrier_first_bytes(enum wire_class class)
{
    switch (class) {
    case WIRE_CLASS_MAIN:
        return 8;
    case WIRE_CLASS_MULTIFD:
        return 64;
    default:
        return 0;
    }
}

void carrier_dest_opened(struct carrier_core *core, uint16_t channel)
{
    core->out.queue[core->out.queue_count++] = channel;
}

static void next_in_queue(struct carrier_target *out)
{
    out->queue_count--;
    memmove(out->queue, out->queue + 1,
            out->queue_count * sizeof(out->queue[0]));
    out->started_at = 0;
    out->delay = 0;
}

/* The migration is over, QEMU listens no more: the channel ends unconnected. */
static void give_up(struct carrier_core *core, uint16_t channel)
{
    struct carrier_channel *ch = &core->channel[channel];
    mux_end(core->mux, channel);
    ch->ep.input_ended = true;
    endpoint_discard(&ch->ep);
}

static void connect_failed(struct carrier_core *core, struct endpoint *ep,
                           const struct error *why, bool may_retry)
{
    struct carrier_target *out = &core->out;
    struct error err = *why;
    mp_time waited = loop_now(core->loop) - out->started_at;

    if (core->over) {
        give_up(core, ep->channel);
        next_in_queue(out);
        carrier_core_again(core);
        return;
    }
    if (may_retry && waited < out->connect_timeout) {
        out->delay = out->delay ? out->delay * 2 : RETRY_FIRST;
        if (out->delay > RETRY_MAX) {
            out->delay = RETRY_MAX;
        }
        loop_timer_start(&out->retry, out->delay);
        return;
    }
    if (may_retry) {
        error_wrap(&err, "destination QEMU did not take %s in %lld ms",
                   ep->name, (long long)(out->connect_timeout / MP_MS));
        err.code = ERR_TIMEOUT;
    } else {
        error_wrap(&err, "connecting %s to the destination QEMU", ep->name);
    }
    carrier_core_break(core, &err);
}

/* Connects the first channel of the queue. False if nothing more can be done
 * now. */
static bool connect_next(struct carrier_core *core)
{
    struct carrier_target *out = &core->out;
    uint16_t channel = out->queue[0];
    struct endpoint *ep = &core->channel[channel].ep;
    struct error err = ERROR_INIT;

    if (mux_deliver_bytes(core->mux, channel) <
        carrier_first_bytes(ep->class)) {
        return false;
    }
    if (!out->started_at) {
        out->started_at = loop_now(core->loop);
    }
    int fd = path_connect_socket_of(out->path, out->dirs, out->dir_count,
                                    out->owner, &err);
    if (fd < 0) {
        bool may_retry = errno == EAGAIN || err.code == ERR_QMP_UNREACHABLE;
        connect_failed(core, ep, &err, may_retry);
        return false;
    }
    next_in_queue(out);
    carrier_core_add_socket(core, channel, fd);
    return true;
}

void carrier_dest_connect(struct carrier_core *core)
{
    struct carrier_target *out = &core->out;

    while (core->life == CARRIER_OPEN && out->path && out->queue_count > 0 &&
           !loop_timer_is_running(&out->retry) && connect_next(core)) {
    }
}

static void free_target(struct carrier_target *out)
{
    for (size_t i = 0; i < out->dir_count; i++) {
        free(out->dirs[i]);
    }
    free(out->dirs);
    free(out->path);
    out->dirs = NULL;
    out->dir_count = 0;
    out->path = NULL;
}

void carrier_dest_set_target(struct carrier_core *core, char *path, char **dirs,
                             size_t dir_count, uid_t owner,
                             mp_time connect_timeout)
{
    struct carrier_target *out = &core->out;

    free_target(out);
    out->path = path;
    out->dirs = dirs;
    out->dir_count = dir_count;
    out->owner = owner;
    out->connect_timeout = connect_timeout;
    carrier_core_turn(core);
}

void carrier_dest_close(struct carrier_core *core)
{
    loop_timer_stop(&core->out.retry);
    core->out.queue_count = 0;
    free_target(&core->out);
}
