// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: dialling, accepting, who is there, HELLO. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/lane-priv.h"
#include "util/cleanup.h"

#define DEFAULT_BATCH_BYTES 131072
#define NOTSENT_LOWAT_BYTES 131072
#define PRIORITY_URGENT 6 /* SO_PRIORITY: the band of interactive traffic */
/* A dead path is noticed after 25 s at rest, after 30 s with data on the way.
 * The latter also bounds how long a peer may keep its window shut. */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_COUNT 3
#define USER_TIMEOUT_MS 30000

static void set_options(struct lane *lane, const struct lane_params *params)
{
    sock_set_nodelay(lane->fd);
    sock_set_notsent_lowat(lane->fd, NOTSENT_LOWAT_BYTES);
    sock_set_keepalive(lane->fd, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S,
                       KEEPALIVE_COUNT);
    sock_set_user_timeout(lane->fd, USER_TIMEOUT_MS);
    if (params->congestion && params->congestion[0]) {
        sock_set_congestion(lane->fd, params->congestion);
    }
}

/* A lane over fd, which it takes. */
static struct lane *lane_new(struct loop *loop, int fd, bool is_dialler,
                             const struct sock_address *address,
                             const struct lane_params *params,
                             const struct lane_ops *ops, void *arg,
                             struct error *err)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    struct io_tls *io = io_tls_new(params->tls, fd, !is_dialler);

    if (!lane || !io) {
        error_set(err, ERR_NO_MEMORY, "%s: out of memory", address->text);
        io_tls_free(io);
        free(lane);
        close(fd);
        return NULL;
    }
    lane->is_dialler = is_dialler;
    lane->address = *address;
    lane->handshake_timeout = params->handshake_timeout;
    lane->tls = tls_ref(params->tls);
    lane->fd = fd;
    lane->io = io;
    lane->ops = ops;
    lane->arg = arg;
    lane->batch_bytes = DEFAULT_BATCH_BYTES;
    lane->last_received = loop_now(loop);
    list_init(&lane->exit.node);
    io_tls_set_rekey(io, params->rekey_bytes);
    set_options(lane, params);
    lane_join_loop(lane, loop);
    loop_timer_start(&lane->timer, params->handshake_timeout);
    return lane;
}

struct lane *lane_connect(struct loop *loop, const struct sock_address *address,
                          const char *identity, const struct hello *mine,
                          const struct lane_params *params,
                          const struct lane_ops *ops, void *arg,
                          struct error *err)
{
    assert(hello_check(mine, NULL) == 0);
    int fd = sock_connect_start(address, err);
    if (fd < 0) {
        return NULL;
    }
    CLEANUP_FREE char *identity_copy = strdup(identity);
    struct lane *lane =
        lane_new(loop, fd, true, address, params, ops, arg, err);
    if (!lane || !identity_copy) {
        error_set(err, ERR_NO_MEMORY, "%s: out of memory", address->text);
        if (lane) {
            lane_free(lane);
        }
        return NULL;
    }
    lane->identity = steal_ptr(&identity_copy);
    lane->mine = *mine;
    lane->stage = LANE_STAGE_CONNECT;
    snprintf(lane->peer_text, sizeof(lane->peer_text), "%s", address->text);
    frame_decoder_init(&lane->decoder, mine->lane);
    if (mine->lane != WIRE_LANE_BULK) {
        sock_set_priority(fd, PRIORITY_URGENT);
    }
    event_add(&lane->write_event, NULL);
    lane->awaits_write = true;
    return lane;
}

struct lane *lane_accept(struct loop *loop, int fd,
                         const struct sock_address *from,
                         const struct lane_params *params,
                         const struct lane_ops *ops, void *arg,
                         struct error *err)
{
    struct lane *lane = lane_new(loop, fd, false, from, params, ops, arg, err);

    if (lane) {
        lane->stage = LANE_STAGE_HANDSHAKE;
        snprintf(lane->peer_text, sizeof(lane->peer_text), "%s", from->text);
        frame_decoder_init(&lane->decoder, WIRE_LANE_CONTROL);
        event_add(&lane->read_event, NULL);
    }
    return lane;
}

bool lane_open_connected(struct lane *lane)
{
    struct error err = ERROR_INIT;

    if (sock_connect_result(lane->fd, &lane->address, &err) < 0) {
        lane_end(lane, &err);
        return false;
    }
    lane->stage = LANE_STAGE_HANDSHAKE;
    event_del(&lane->write_event);
    lane->awaits_write = false;
    event_add(&lane->read_event, NULL);
    return true;
}

static void put_hello(struct lane *lane)
{
    uint8_t text[WIRE_HELLO_MAX_BYTES];
    struct frame frame = {.type = WIRE_HELLO,
                          .length_bytes =
                              (uint32_t)hello_encode(&lane->mine, text)};

    lane_put(lane, &frame, text);
    lane_push(lane);
}

/* The dialler knows whom it wants; the acceptor's owner looks at the names. */
static bool check_identity(struct lane *lane)
{
    struct error err = ERROR_INIT;
    struct tls_names names;
    char text[200];

    io_tls_peer_names(lane->io, &names);
    if (tls_names_have(&names, lane->identity)) {
        return true;
    }
    tls_names_format(&names, text, sizeof(text));
    error_set(&err, ERR_TLS,
              "the peer at %s presented %s, expected identity %s",
              lane->address.text, text, lane->identity);
    lane_put_goaway(lane, err.code, err.text);
    lane_end(lane, &err);
    return false;
}

bool lane_open_handshake(struct lane *lane)
{
    struct error err = ERROR_INIT;

    switch (io_tls_handshake(lane->io, &err)) {
    case IO_TLS_AGAIN:
        lane_send_out(lane);
        return true;
    case IO_TLS_CLOSED:
        error_set(&err, ERR_LINK_LOST,
                  "closed the connection during the TLS handshake");
        break;
    case IO_TLS_FAILED:
        break;
    case IO_TLS_DONE:
        lane->stage = LANE_STAGE_HELLO;
        if (!lane->is_dialler) {
            return true;
        }
        if (!check_identity(lane)) {
            return false;
        }
        put_hello(lane);
        return true;
    }
    if (lane->is_dialler && io_tls_has_refused(lane->io)) {
        error_wrap(&err, "%s, expected identity %s", lane->peer_text,
                   lane->identity);
    } else {
        error_wrap(&err, "%s", lane->peer_text);
    }
    lane_end(lane, &err);
    return false;
}

/* Both have said HELLO. */
static void make_ready(struct lane *lane)
{
    struct error err = ERROR_INIT;

    lane->stage = LANE_STAGE_READY;
    lane->owes_room = true;
    if (lane_receive_start(lane, &err) < 0) {
        lane_fail_later(lane, &err);
    }
    if (lane_kind(lane) != WIRE_LANE_BULK) {
        sock_set_priority(lane->fd, PRIORITY_URGENT);
    }
    if (lane->is_paused) {
        event_del(&lane->read_event);
    } else {
        event_add(&lane->read_event, NULL);
    }
}

/* The dialler: whether the answer fits the question. */
static int check_answer(struct lane *lane, struct error *err)
{
    uint64_t features;

    if (lane->theirs.lane != lane->mine.lane ||
        memcmp(lane->theirs.token, lane->mine.token, HELLO_TOKEN_BYTES) != 0) {
        return error_set(err, ERR_PROTOCOL,
                         "HELLO: the answer is for another lane");
    }
    return hello_negotiate(&lane->mine, &lane->theirs, &lane->version,
                           &features, err);
}

bool lane_greet(struct lane *lane)
{
    bool *gone = lane->gone;
    struct error err = ERROR_INIT;
    struct tls_names names;

    loop_timer_stop(&lane->timer);
    snprintf(lane->peer_text, sizeof(lane->peer_text), "%s (%s)",
             lane->theirs.name, lane->address.text);
    if (!lane->is_dialler) {
        lane->stage = LANE_STAGE_ASKED;
        event_del(&lane->read_event);
    } else if (check_answer(lane, &err) < 0) {
        lane_end_telling(lane, &err);
        return false;
    } else {
        make_ready(lane);
    }
    io_tls_peer_names(lane->io, &names);
    struct hello theirs = lane->theirs;
    lane->ops->on_hello(lane->arg, &theirs, &names);
    return !*gone;
}

int lane_welcome(struct lane *lane, const struct hello *mine, struct error *err)
{
    uint64_t features;

    assert(lane->stage == LANE_STAGE_ASKED);
    lane->mine = *mine;
    lane->mine.lane = lane->theirs.lane;
    lane->mine.has_token = lane->theirs.has_token;
    memcpy(lane->mine.token, lane->theirs.token, HELLO_TOKEN_BYTES);
    if (hello_negotiate(&lane->mine, &lane->theirs, &lane->version, &features,
                        err) < 0) {
        return -1;
    }
    put_hello(lane);
    make_ready(lane);
    lane_kick(lane);
    return 0;
}
