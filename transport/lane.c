// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: loops, turns and ends. */
#include "transport/lane.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/lane-priv.h"
#include "util/cleanup.h"

#define LINGER_TIMEOUT (2 * MP_SECOND)
#define DRAIN_MAX_BYTES (1 << 20)

/* Memory and the socket. ----------------------------------------------------
 */

/* Closes the socket so that what was sent last arrives: a close with unread
 * data resets the connection and throws away what is on its way. */
static void close_socket(struct lane *lane)
{
    char buf[16384];
    size_t drained = 0;
    ssize_t n;

    if (lane->fd < 0) {
        return;
    }
    shutdown(lane->fd, SHUT_WR);
    while (drained < DRAIN_MAX_BYTES &&
           (n = recv(lane->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
        drained += (size_t)n;
    }
    close(lane->fd);
    lane->fd = -1;
}

static void leave_loop(struct lane *lane)
{
    if (lane->loop) {
        event_del(&lane->read_event);
        event_del(&lane->write_event);
        event_del(&lane->kick_event);
        loop_timer_done(&lane->timer);
        lane->awaits_write = false;
        lane->loop = NULL;
    }
}

void lane_free(struct lane *lane)
{
    leave_loop(lane);
    loop_remove_exit(&lane->exit);
    close_socket(lane);
    io_tls_free(lane->io);
    tls_unref(lane->tls);
    chunk_unref(lane->chunk);
    chunk_pool_free(lane->pool);
    free(lane->identity);
    free(lane);
}

/* Tells the turn that is under way, if any, that the lane is not its own any
 * more. */
static void take_from_turn(struct lane *lane)
{
    if (lane->gone) {
        *lane->gone = true;
        lane->gone = NULL;
    }
}

/* TLS's own end, as far as the socket takes it. */
static void say_end(struct lane *lane)
{
    struct error ignored;

    if (lane->stage >= LANE_STAGE_HELLO && !lane->is_broken) {
        io_tls_end(lane->io);
        io_tls_send(lane->io, &ignored);
    }
}

/* Turns. -------------------------------------------------------------------
 */

static void read_cb(evutil_socket_t fd, short what, void *arg);
static void write_cb(evutil_socket_t fd, short what, void *arg);
static void kick_cb(evutil_socket_t fd, short what, void *arg);
static void timeout_cb(void *arg);

void lane_join_loop(struct lane *lane, struct loop *loop)
{
    struct event_base *base = loop_base(loop);
    bool is_express =
        lane->stage == LANE_STAGE_READY && lane_kind(lane) == WIRE_LANE_EXPRESS;
    int priority = is_express ? LOOP_URGENT : LOOP_NORMAL;

    lane->loop = loop;
    event_assign(&lane->read_event, base, lane->fd, EV_READ | EV_PERSIST,
                 read_cb, lane);
    event_assign(&lane->write_event, base, lane->fd, EV_WRITE | EV_PERSIST,
                 write_cb, lane);
    event_assign(&lane->kick_event, base, -1, 0, kick_cb, lane);
    event_priority_set(&lane->read_event, priority);
    event_priority_set(&lane->write_event, priority);
    loop_timer_init(&lane->timer, loop, timeout_cb, lane);
}

void lane_kick(struct lane *lane)
{
    /* not event_active(): that would run before other sockets are polled */
    static const struct timeval now = {0, 0};

    if (lane->loop && !event_pending(&lane->kick_event, EV_TIMEOUT, NULL)) {
        event_add(&lane->kick_event, &now);
    }
}

void lane_fail_later(struct lane *lane, const struct error *err)
{
    if (!error_is_set(&lane->failure)) {
        lane->failure = *err;
        error_wrap(&lane->failure, "%s", lane->peer_text);
    }
    lane_kick(lane);
}

void lane_end(struct lane *lane, const struct error *err)
{
    struct error copy = *err; /* may be the lane's own */
    bool is_freed = false;

    say_end(lane);
    leave_loop(lane);
    close_socket(lane);
    take_from_turn(lane);
    lane->gone = &is_freed;
    lane->ops->on_closed(lane->arg, &copy);
    if (!is_freed) {
        lane->gone = NULL;
        lane_free(lane);
    }
}

void lane_end_telling(struct lane *lane, struct error *err)
{
    if (lane->stage >= LANE_STAGE_HELLO) {
        lane_put_goaway(lane, err->code, err->text);
    }
    error_wrap(err, "%s", lane->peer_text);
    lane_end(lane, err);
}

/* The lane said its last words and waits until they have left. */
static void linger(struct lane *lane)
{
    struct error ignored;

    if (io_tls_send(lane->io, &ignored) != IO_TLS_AGAIN) {
        lane_free(lane);
    }
}

/* False: the lane is gone. */
static bool go_on(struct lane *lane, bool receives)
{
    if (lane->stage == LANE_STAGE_CONNECT && !lane_open_connected(lane)) {
        return false;
    }
    if (lane->stage == LANE_STAGE_HANDSHAKE && !lane_open_handshake(lane)) {
        return false;
    }
    if (error_is_set(&lane->failure) && (!lane->is_broken || lane->is_paused ||
                                         lane->stage == LANE_STAGE_ASKED)) {
        lane_end(lane, &lane->failure);
        return false;
    }
    if (receives && lane->stage >= LANE_STAGE_HELLO && !lane_receive(lane)) {
        return false;
    }
    bool *gone = lane->gone;
    if (lane->owes_room && lane_has_room(lane)) {
        lane->owes_room = false;
        lane->ops->on_room(lane->arg);
    }
    return !*gone;
}

static void turn(struct lane *lane, bool receives)
{
    bool gone = false;

    if (lane->stage == LANE_STAGE_LINGER) {
        linger(lane);
        return;
    }
    lane->gone = &gone;
    lane->turn_bytes = 0;
    if (!go_on(lane, receives)) {
        return;
    }
    lane->gone = NULL;
    if (lane->wants_flush) {
        lane_push(lane);
    } else if (io_tls_unsent(lane->io) > 0 && !lane->awaits_write) {
        lane_send_out(lane); /* TLS's own: a key update */
    }
}

static void read_cb(evutil_socket_t fd, short what, void *arg)
{
    struct lane *lane = arg;

    io_tls_wake(lane->io);
    turn(lane, true);
}

static void write_cb(evutil_socket_t fd, short what, void *arg)
{
    struct lane *lane = arg;

    if (lane->stage > LANE_STAGE_CONNECT && lane->stage < LANE_STAGE_LINGER) {
        lane_send_out(lane);
    }
    turn(lane, false);
}

static void kick_cb(evutil_socket_t fd, short what, void *arg)
{
    turn(arg, true);
}

static void timeout_cb(void *arg)
{
    struct lane *lane = arg;
    struct error err = ERROR_INIT;
    static const char *const waits_for[] = {
        [LANE_STAGE_CONNECT] = "TCP connection",
        [LANE_STAGE_HANDSHAKE] = "TLS handshake",
        [LANE_STAGE_HELLO] = "HELLO",
    };

    if (lane->stage == LANE_STAGE_LINGER) {
        lane_free(lane);
        return;
    }
    error_set(
        &err,
        lane->stage == LANE_STAGE_CONNECT ? ERR_PEER_UNREACHABLE : ERR_TIMEOUT,
        "%s: no %s within %.1f s", lane->peer_text, waits_for[lane->stage],
        (double)lane->handshake_timeout / (double)MP_SECOND);
    lane_end(lane, &err);
}

/* Closing. -----------------------------------------------------------------
 */

static void exit_cb(void *arg)
{
    lane_free(arg);
}

void lane_refuse(struct lane *lane, enum error_code code, const char *text)
{
    assert(lane->stage >= LANE_STAGE_HELLO && lane->loop);
    take_from_turn(lane);
    lane_put_goaway(lane, code, text);
    say_end(lane);
    if (lane->is_broken || io_tls_unsent(lane->io) == 0) {
        lane_free(lane);
        return;
    }
    lane->stage = LANE_STAGE_LINGER;
    event_del(&lane->read_event);
    event_del(&lane->kick_event);
    event_add(&lane->write_event, NULL);
    loop_timer_start(&lane->timer, LINGER_TIMEOUT);
    loop_add_exit(lane->loop, &lane->exit, exit_cb, lane);
}

void lane_close(struct lane *lane)
{
    if (lane) {
        take_from_turn(lane);
        if (lane->fd >= 0 && lane->loop) {
            if (lane->wants_flush) {
                lane_push(lane);
            }
            say_end(lane);
        }
        lane_free(lane);
    }
}

void lane_detach(struct lane *lane)
{
    assert(lane->stage == LANE_STAGE_READY && lane->loop);
    take_from_turn(lane);
    if (lane->wants_flush) {
        lane_push(lane);
    }
    leave_loop(lane);
    lane_receive_detach(lane);
    lane->ops = NULL;
    lane->arg = NULL;
}

void lane_attach(struct lane *lane, struct loop *loop,
                 const struct lane_ops *ops, void *arg)
{
    struct error err = ERROR_INIT;

    assert(!lane->loop);
    lane->ops = ops;
    lane->arg = arg;
    lane_join_loop(lane, loop);
    lane->owes_room = true;
    if (lane_receive_start(lane, &err) < 0) {
        lane_fail_later(lane, &err);
    }
    if (!lane->is_paused) {
        event_add(&lane->read_event, NULL);
    }
    if (io_tls_unsent(lane->io) > 0) {
        event_add(&lane->write_event, NULL);
        lane->awaits_write = true;
    }
    lane_kick(lane);
}

void lane_pause(struct lane *lane, bool paused)
{
    if (paused == lane->is_paused) {
        return;
    }
    lane->is_paused = paused;
    if (!lane->loop || lane->stage != LANE_STAGE_READY) {
        return; /* the next attach, or welcome, sees to it */
    }
    if (paused) {
        event_del(&lane->read_event);
    } else {
        event_add(&lane->read_event, NULL);
        lane_kick(lane);
    }
}

/* Asking. ------------------------------------------------------------------
 */

enum wire_lane lane_kind(const struct lane *lane)
{
    return lane->is_dialler ? lane->mine.lane : lane->theirs.lane;
}

uint16_t lane_version(const struct lane *lane)
{
    return lane->version;
}

const char *lane_peer_text(const struct lane *lane)
{
    return lane->peer_text;
}

const char *lane_last_word(const struct lane *lane)
{
    return lane->last_word;
}

const struct hello *lane_peer_hello(const struct lane *lane)
{
    return &lane->theirs;
}

void lane_get_stats(const struct lane *lane, struct lane_stats *ret_stats)
{
    *ret_stats = (struct lane_stats){
        .sent_bytes = io_tls_sent_bytes(lane->io),
        .received_bytes = io_tls_received_bytes(lane->io),
        .sent_frames = lane->sent_frames,
        .received_frames = lane->received_frames,
        .last_received = lane->last_received,
    };
    sock_get_congestion(lane->fd, ret_stats->congestion,
                        sizeof(ret_stats->congestion));
    if (lane->stage >= LANE_STAGE_HELLO) {
        io_tls_format(lane->io, ret_stats->security,
                      sizeof(ret_stats->security));
    }
}
