// SPDX-License-Identifier: BSD-3-Clause
/* A carrier's two lanes: frames in, frames out, pings, the cap on bulk.
 *
 * Out: the express lane is served before each bulk frame, so that what came up
 * meanwhile does not wait for bulk; a blocked bulk lane does not touch it.
 * The cap binds bulk frames only. Express frames are counted, and so are bulk
 * frames of the switchover, when the guest stands still: neither is delayed. */
#include "proxy/carrier-core.h"

#include <string.h>

#include "util/log.h"

/* Bulk bytes handed over in one turn. */
#define PUMP_BUDGET_BYTES 262144

/* Bounds of SO_SNDBUF of the bulk lane in postcopy; above the upper one
 * (10 Gbit/s at 2 ms) it is left to the kernel. */
#define SEND_BUFFER_MIN_BYTES 65536
#define SEND_BUFFER_MAX_BYTES (4 << 20)

static struct carrier_lane *get_lane(struct carrier_core *core,
                                     enum wire_lane kind)
{
    return kind == WIRE_LANE_EXPRESS ? &core->express : &core->bulk;
}

static const char *lane_name(const struct carrier_lane *cl)
{
    return cl->kind == WIRE_LANE_EXPRESS ? "express lane" : "bulk lane";
}

/* In. -------------------------------------------------------------------- */

static void refuse(struct carrier_lane *cl, enum error_code code,
                   const char *text)
{
    if (cl->lane) {
        lane_get_stats(cl->lane, &cl->last);
        lane_refuse(cl->lane, code, text);
        cl->lane = NULL;
    }
}

void carrier_lanes_close(struct carrier_core *core, enum error_code code,
                         const char *text)
{
    refuse(&core->express, code, text);
    refuse(&core->bulk, code, text);
}

/* A lane cannot go on: the other one says why to the peer. */
static void lanes_failed(struct carrier_core *core, const struct error *err)
{
    carrier_lanes_close(core, err->code, err->text);
    carrier_core_fail(core, err);
}

static void on_frame(void *arg, const struct frame *frame)
{
    struct carrier_lane *cl = arg;
    struct carrier_core *core = cl->core;
    struct error err = ERROR_INIT;

    core->frame_at = loop_now(core->loop);
    if (mux_receive_header(core->mux, cl->kind, frame, core->frame_at, &err) <
        0) {
        error_wrap(&err, "%s", lane_name(cl));
        lanes_failed(core, &err);
        return;
    }
    if (frame->type == WIRE_PING) {
        cl->free_frames++;
    } else if (frame->type == WIRE_PONG) {
        carrier_core_take_events(core); /* while frame_at is its time */
    }
}

static void on_payload(void *arg, const uint8_t *data, size_t len_bytes,
                       struct chunk *owner, bool last)
{
    struct carrier_lane *cl = arg;
    struct error err = ERROR_INIT;

    if (mux_receive_payload(cl->core->mux, cl->kind, data, len_bytes, owner,
                            &err) < 0) {
        error_wrap(&err, "%s", lane_name(cl));
        lanes_failed(cl->core, &err);
    }
}

static void on_turn(void *arg)
{
    struct carrier_lane *cl = arg;
    carrier_core_turn(cl->core);
}

static void on_room(void *arg)
{
    struct carrier_lane *cl = arg;
    carrier_core_turn(cl->core);
}

static void on_closed(void *arg, const struct error *err)
{
    struct carrier_lane *cl = arg;
    struct carrier_core *core = cl->core;
    struct error why = *err;
    const char *word = cl->lane ? lane_last_word(cl->lane) : NULL;

    if (word) { /* its own words, as it says them itself */
        error_set(&why, err->code, "%s", word);
    } else {
        error_wrap(&why, "%s", lane_name(cl));
    }
    cl->lane = NULL;         /* it is freed after this */
    carrier_core_turn(core); /* what came before may have been the end */
    if (core->life != CARRIER_OPEN) {
        carrier_log(core, LOG_LEVEL_DEBUG, "%s closed: %s", lane_name(cl),
                    err->text);
        return;
    }
    if (core->over && core->express.lane) {
        /* the migration has passed; what is missing are acknowledgements,
         * and they come on the express lane */
        core->lost = why;
        carrier_core_turn(core);
        return;
    }
    lanes_failed(core, &why);
}

static const struct lane_ops lane_ops = {
    .on_frame = on_frame,
    .on_payload = on_payload,
    .on_turn = on_turn,
    .on_room = on_room,
    .on_closed = on_closed,
};

/* Hands a lane back that is not wanted. */
static void send_away(struct carrier_core *core, struct lane *lane,
                      enum error_code code, const char *text)
{
    static const struct lane_ops no_ops;
    carrier_log(core, LOG_LEVEL_WARNING, "refusing a lane of %s: %s",
                lane_peer_text(lane), text);
    lane_attach(lane, core->loop, &no_ops, NULL);
    lane_refuse(lane, code, text);
}

static void ping(struct carrier_core *core, struct carrier_lane *cl)
{
    if (cl->lane) {
        mux_ping(core->mux, cl->kind, loop_now(core->loop));
        cl->free_frames++;
    }
}

void carrier_lanes_add(struct carrier_core *core, struct lane *lane)
{
    enum wire_lane kind = lane_kind(lane);

    if (core->life != CARRIER_OPEN) {
        send_away(core, lane,
                  core->life == CARRIER_BROKEN ? core->why.code : ERR_TOO_LATE,
                  core->life == CARRIER_BROKEN ? core->why.text
                                               : "the migration has ended");
        return;
    }
    if (kind != WIRE_LANE_EXPRESS && kind != WIRE_LANE_BULK) {
        send_away(core, lane, ERR_PROTOCOL, "not a lane of a migration");
        return;
    }
    struct carrier_lane *cl = get_lane(core, kind);
    if (cl->attached) {
        send_away(core, lane, ERR_CONFLICT, "there is one of this kind");
        return;
    }
    cl->attached = true;
    cl->lane = lane;
    lane_attach(lane, core->loop, &lane_ops, cl);
    ping(core, cl);
    carrier_lanes_set_phase(core);
    carrier_core_turn(core);
}

/* Out. ------------------------------------------------------------------- */

/* Hands over one frame. Returns its bytes, 0 if there was none. */
static size_t send_one(struct carrier_core *core, struct carrier_lane *cl)
{
    struct mux_out out;

    if (!cl->lane || lane_room(cl->lane) == 0 ||
        !mux_take(core->mux, cl->kind, loop_now(core->loop), &out)) {
        return 0;
    }
    if (cl->free_frames > 0) {
        /* PING and PONG go first: once something else comes, none is left */
        bool ping = out.header[0] == WIRE_PING || out.header[0] == WIRE_PONG;
        cl->free_frames = ping ? cl->free_frames - 1 : 0;
    }
    lane_send(cl->lane, out.header, out.payload, out.payload_bytes);
    chunk_unref(out.chunk);
    size_t len_bytes = WIRE_HEADER_BYTES + out.payload_bytes;
    carrier_rate_count(&core->rate, len_bytes);
    return len_bytes;
}

static void flush(struct carrier_lane *cl)
{
    if (cl->lane) {
        lane_flush(cl->lane);
    }
}

static void pump_express(struct carrier_core *core)
{
    bool sent = false;
    while (send_one(core, &core->express) > 0) {
        sent = true;
    }
    if (sent) {
        flush(&core->express);
    }
}

/* Whether bulk may leave now; starts the timer if it may not. */
static bool is_within_cap(struct carrier_core *core)
{
    if (core->bulk.free_frames > 0 || core->phase == MUX_PHASE_SWITCHOVER ||
        core->life != CARRIER_OPEN) {
        return true;
    }
    mp_time wait = carrier_rate_wait(&core->rate, loop_now(core->loop));
    if (wait > 0) {
        if (!loop_timer_is_running(&core->rate_timer)) {
            loop_timer_start(&core->rate_timer, wait);
        }
        return false;
    }
    return true;
}

static bool has_bulk(struct carrier_core *core)
{
    return core->bulk.lane && lane_room(core->bulk.lane) > 0 &&
           mux_has_output(core->mux, WIRE_LANE_BULK, loop_now(core->loop));
}

void carrier_lanes_pump(struct carrier_core *core, bool flush_bulk)
{
    size_t sent_bytes = 0;

    carrier_pages_fill(core);
    pump_express(core);
    while (has_bulk(core) && is_within_cap(core)) {
        if (sent_bytes >= PUMP_BUDGET_BYTES) {
            carrier_core_again(core);
            break;
        }
        size_t len_bytes = send_one(core, &core->bulk);
        if (len_bytes == 0) {
            break;
        }
        sent_bytes += len_bytes;
        carrier_pages_fill(core);
        pump_express(core);
    }
    if (flush_bulk) {
        flush(&core->bulk);
    }
}

void carrier_lanes_set_phase(struct carrier_core *core)
{
    struct lane *bulk = core->bulk.lane;
    uint64_t window, rate;
    mp_time min_rtt;

    if (!bulk) {
        return;
    }
    if (core->phase != MUX_PHASE_POSTCOPY) {
        lane_set_batch(bulk, CARRIER_BULK_BATCH_BYTES);
        return;
    }
    lane_set_batch(bulk, CARRIER_POSTCOPY_BATCH_BYTES);
    mux_get_window(core->mux, &window, &rate, &min_rtt);
    double size = 1.5 * (double)rate * (double)min_rtt / MP_SECOND;
    if (size < SEND_BUFFER_MIN_BYTES) {
        size = SEND_BUFFER_MIN_BYTES;
    }
    if (size <= SEND_BUFFER_MAX_BYTES) {
        lane_set_send_buffer(bulk, (int)size);
    }
}

/* Pings. ----------------------------------------------------------------- */

void carrier_lanes_ping(struct carrier_core *core)
{
    ping(core, &core->express);
    ping(core, &core->bulk);
}

void carrier_lanes_prove(struct carrier_core *core, uint64_t seq)
{
    if (core->proof_count == CARRIER_PROOFS_MAX) {
        carrier_log(core, LOG_LEVEL_DEBUG, "path proof %llu was not answered",
                    (unsigned long long)core->proof[0].seq);
        core->proof_count--;
        memmove(core->proof, core->proof + 1,
                core->proof_count * sizeof(core->proof[0]));
    }
    core->proof[core->proof_count++] = (struct carrier_proof){
        .seq = seq,
        .since = loop_now(core->loop),
    };
    carrier_lanes_ping(core);
    carrier_core_turn(core);
}

/* A ping that was sent at sent_at has been answered. */
static void prove(struct carrier_core *core, enum wire_lane kind, mp_time rtt,
                  mp_time sent_at)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < core->proof_count; i++) {
        struct carrier_proof p = core->proof[i];
        if (sent_at >= p.since) {
            bool *answered = kind == WIRE_LANE_EXPRESS ? &p.express : &p.bulk;
            *answered = true;
            p.rtt = p.rtt > rtt ? p.rtt : rtt;
        }
        if (p.express && p.bulk) {
            carrier_tell_path(core->owner, p.seq, p.rtt);
        } else {
            core->proof[kept++] = p;
        }
    }
    core->proof_count = kept;
}

void carrier_lanes_pong(struct carrier_core *core, enum wire_lane kind,
                        mp_time rtt, mp_time now)
{
    struct carrier_lane *cl = get_lane(core, kind);
    cl->rtt = rtt;
    cl->pong_at = now;
    cl->answered = true;
    prove(core, kind, rtt, now - rtt);
    if (!core->ready && core->express.answered && core->bulk.answered) {
        core->ready = true;
        carrier_log(core, LOG_LEVEL_INFO,
                    "path ready: express rtt %lld us, bulk rtt %lld us",
                    (long long)(core->express.rtt / MP_US),
                    (long long)(core->bulk.rtt / MP_US));
        carrier_stats_refresh(core);
        carrier_tell_ready(core->owner);
    }
}
