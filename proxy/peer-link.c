// SPDX-License-Identifier: BSD-3-Clause
/* Connections to and from the other daemons. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/peer-private.h"
#include "qmp/json-value.h"
#include "util/log.h"
#include "util/sock.h"

#define ACCEPT_AGAIN (1 * MP_SECOND)
#define LISTEN_BACKLOG 128

int peer_index(const struct peers *peers, const char *peer)
{
    for (size_t i = 0; i < peers->conf->peer_count; i++) {
        if (!strcmp(peers->conf->peers[i].name, peer)) {
            return (int)i;
        }
    }
    return -1;
}

struct peer_link *peer_link_find_serial(struct peers *peers, uint64_t serial)
{
    LIST_EACH (node, &peers->links) {
        struct peer_link *link = container_of(node, struct peer_link, node);
        if (link->serial == serial) {
            return link;
        }
    }
    return NULL;
}

/* Of two links between the same two daemons, the one that was dialled by the
 * daemon with the smaller instance id is the one to use: both ends agree
 * without a word. */
static bool link_is_preferred(const struct peer_link *link)
{
    bool mine_is_smaller =
        memcmp(link->peers->instance, link->instance, HELLO_INSTANCE_BYTES) < 0;
    return link->dialled == mine_is_smaller;
}

struct peer_link *peer_link_find(const struct peers *peers, const char *peer)
{
    struct peer_link *found = NULL;

    LIST_EACH (node, &peers->links) {
        struct peer_link *link = container_of(node, struct peer_link, node);
        if (link->ready && !strcmp(link->peer, peer) &&
            (!found || link_is_preferred(link))) {
            found = link;
        }
    }
    return found;
}

/* A ready link ended. What ended it is kept for whoever asks, unless another
 * one has taken its place. */
static void note_lost(struct peers *peers, const char *peer,
                      const struct error *err)
{
    int index = peer_index(peers, peer);

    if (index >= 0 && !peer_link_find(peers, peer)) {
        peers->last_errors[index] = *err;
        peers->lost_at[index] = loop_now(peers->loop);
    }
}

/* Takes the link out of everything and ends its calls with err. The lane is
 * closed unless it already is gone. */
static void link_free(struct peer_link *link, const struct error *err,
                      bool close_lane)
{
    struct peers *peers = link->peers;
    bool was_ready = link->ready;
    char peer[CONF_PEER_NAME_MAX + 1];

    strcpy(peer, link->peer);
    list_remove(&link->node);
    loop_timer_done(&link->ping);
    if (close_lane) {
        lane_close(link->lane);
    }
    peers->connections--;
    peer_fail_calls(&link->calls, NULL, err);
    free(link->message);
    free(link);
    if (was_ready) {
        note_lost(peers, peer, err);
    }
    /* what waited for this very dial has its answer too */
    if (!was_ready && !peer_link_find(peers, peer)) {
        peer_fail_calls(&peers->waiting, peer, err);
    }
}

/* Closes a duplicate that we dialled, once nobody waits on it. The peer may
 * have asked something on it that is still on its way, until it knows of the
 * other link: a PONG there says that it does, and the PONG to a PING that was
 * sent after that follows everything it has asked here. */
static void drop_duplicate(struct peer_link *link)
{
    struct peer_link *best = peer_link_find(link->peers, link->peer);
    struct error err = ERROR_INIT;

    if (link == best || !link->dialled || !best->rtt ||
        !list_is_empty(&link->calls) || link->requests) {
        link->idle_pongs = 0;
        return;
    }
    if (++link->idle_pongs < 2) {
        return;
    }
    error_set(&err, ERR_LINK_LOST, "a second connection to peer %s was closed",
              link->peer);
    log_info("%s", err.text);
    link_free(link, &err, true);
}

/* A peer that is another process than last time has lost our sessions; its old
 * links are dead even if TCP does not know yet. */
static void note_instance(struct peer_link *link)
{
    struct peers *peers = link->peers;
    int index = peer_index(peers, link->peer);
    static const uint8_t none[HELLO_INSTANCE_BYTES];
    struct error err = ERROR_INIT;
    char peer[CONF_PEER_NAME_MAX + 1];

    if (index < 0) {
        return;
    }
    uint8_t *last = peers->last_instances[index];
    bool is_new = memcmp(last, link->instance, HELLO_INSTANCE_BYTES) != 0;
    bool had = memcmp(last, none, HELLO_INSTANCE_BYTES) != 0;
    memcpy(last, link->instance, HELLO_INSTANCE_BYTES);
    error_set(&peers->last_errors[index], ERR_NONE, "%s", "");
    if (!is_new || !had) {
        return;
    }
    strcpy(peer, link->peer);
    error_set(&err, ERR_LINK_LOST, "peer %s was started anew", peer);
    LIST_EACH_SAFE (node, &peers->links) {
        struct peer_link *other = container_of(node, struct peer_link, node);
        if (other != link && !strcmp(other->peer, peer) && other->ready &&
            memcmp(other->instance, link->instance, HELLO_INSTANCE_BYTES)) {
            link_free(other, &err, true);
        }
    }
    peers->ops->on_new_instance(peers->arg, peer);
}

static void send_ping(void *arg)
{
    struct peer_link *link = arg;
    mp_time now = loop_now(link->peers->loop);
    struct lane_stats stats;

    lane_get_stats(link->lane, &stats);
    if (stats.last_received && now - stats.last_received > PEER_SILENCE_LIMIT) {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_LINK_LOST, "peer %s was silent for %d s",
                  link->peer, (int)(PEER_SILENCE_LIMIT / MP_SECOND));
        log_write(LOG_LEVEL_WARNING, NULL, "%s; the connection is closed",
                  err.text);
        link_free(link, &err, true);
        return;
    }
    struct frame ping = {.type = WIRE_PING, .arg = (uint64_t)now};
    link->pinged_at = now;
    loop_timer_start(&link->ping, PEER_PING_INTERVAL);
    lane_send_frame(link->lane, &ping, NULL);
}

static void on_pong(struct peer_link *link, const struct frame *frame)
{
    mp_time now = clock_now();

    if (!link->pinged_at || (mp_time)frame->arg != link->pinged_at) {
        return;
    }
    mp_time rtt = now - link->pinged_at;
    /* the best sample of the last half minute tells the clocks' difference
     * best: its error is at most half its round trip */
    if (!link->rtt || rtt <= link->rtt ||
        now - link->measured_at > 30 * MP_SECOND) {
        link->rtt = rtt ? rtt : 1;
        link->clock_offset =
            (mp_time)frame->offset - (link->pinged_at + rtt / 2);
        link->measured_at = now;
    }
    link->pinged_at = 0;
    drop_duplicate(link);
}

static void link_on_frame(void *arg, const struct frame *frame)
{
    struct peer_link *link = arg;

    switch (frame->type) {
    case WIRE_PING: {
        struct frame pong = {.type = WIRE_PONG,
                             .arg = frame->arg,
                             .offset = (uint64_t)clock_now()};
        lane_send_frame(link->lane, &pong, NULL);
        break;
    }
    case WIRE_PONG:
        on_pong(link, frame);
        break;
    case WIRE_MESSAGE:
        link->message_bytes = 0;
        if (frame->length_bytes > link->message_size) {
            free(link->message);
            link->message_size = 0;
            link->message = malloc(frame->length_bytes);
            if (link->message) {
                link->message_size = frame->length_bytes;
            }
        }
        break;
    default:
        break; /* the frame table lets nothing else onto a control lane */
    }
}

static void link_on_payload(void *arg, const uint8_t *data, size_t len_bytes,
                            struct chunk *owner, bool last)
{
    struct peer_link *link = arg;

    if (link->message_bytes + len_bytes <= link->message_size) {
        memcpy(link->message + link->message_bytes, data, len_bytes);
        link->message_bytes += len_bytes;
        if (last) {
            peer_on_message(link, (const char *)link->message,
                            link->message_bytes);
        }
    }
}

static void link_on_turn(void *arg)
{
}

static void link_on_room(void *arg)
{
}

static void link_on_closed(void *arg, const struct error *err)
{
    struct peer_link *link = arg;
    struct peers *peers = link->peers;
    int index = peer_index(peers, link->peer);
    struct error why = *err;

    if (link->dialled && !link->ready && why.code == ERR_TIMEOUT) {
        why.code = ERR_PEER_UNREACHABLE; /* whoever is there is no daemon */
    }
    log_write(link->ready ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, NULL,
              "control connection %s peer %s ended: %s",
              link->dialled ? "to" : "from", link->peer, why.text);
    if (index >= 0) {
        error_copy(&peers->last_errors[index], &why);
    }
    if (!link->ready) {
        error_wrap(&why, "peer %s", link->peer);
    }
    link_free(link, &why, false);
}

static void link_ready(struct peer_link *link, const struct hello *theirs)
{
    struct peers *peers = link->peers;
    uint64_t serial = link->serial;
    char peer[CONF_PEER_NAME_MAX + 1];

    link->ready = true;
    strcpy(peer, link->peer);
    memcpy(link->instance, theirs->instance, sizeof(link->instance));
    log_info("control connection %s peer %s is up (%s)",
             link->dialled ? "to" : "from", peer, lane_peer_text(link->lane));
    note_instance(link);
    if (!peer_link_find_serial(peers, serial)) {
        return;
    }
    loop_timer_start(&link->ping, 0);
    struct peer_link *best = peer_link_find(peers, peer);
    if (best) {
        peer_send_waiting(peers, best);
    }
}

static void link_on_hello(void *arg, const struct hello *theirs,
                          const struct tls_names *names)
{
    link_ready(arg, theirs);
}

static const struct lane_ops link_ops = {
    .on_hello = link_on_hello,
    .on_frame = link_on_frame,
    .on_payload = link_on_payload,
    .on_turn = link_on_turn,
    .on_room = link_on_room,
    .on_closed = link_on_closed,
};

bool peer_link_send(struct peer_link *link, const char *text)
{
    struct frame frame = {.type = WIRE_MESSAGE,
                          .length_bytes = (uint32_t)strlen(text)};
    struct error err = ERROR_INIT;

    if (lane_send_frame(link->lane, &frame, text)) {
        return true;
    }
    error_set(&err, ERR_LINK_LOST,
              "peer %s does not read: %u bytes wait for it", link->peer,
              LANE_SMALL_QUEUE_BYTES);
    log_warning("%s; the control connection is closed", err.text);
    link_free(link, &err, true);
    return false;
}

static struct peer_link *link_new(struct peers *peers, const char *peer)
{
    struct peer_link *link = calloc(1, sizeof(*link));

    if (!link) {
        return NULL;
    }
    link->peers = peers;
    link->serial = ++peers->last_serial;
    json_value_copy_text(link->peer, sizeof(link->peer), peer);
    list_init(&link->node);
    list_init(&link->calls);
    loop_timer_init(&link->ping, peers->loop, send_ping, link);
    list_append(&peers->links, &link->node);
    peers->connections++;
    return link;
}

static struct lane_params lane_params(struct peers *peers)
{
    return (struct lane_params){
        .tls = peers->tls,
        .congestion = peers->conf->congestion,
        .handshake_timeout = peers->conf->connect_timeout,
    };
}

struct lane *peers_dial_lane(struct peers *peers, const char *peer,
                             enum wire_lane kind, const uint8_t *token,
                             const struct lane_ops *ops, void *arg,
                             struct error *err)
{
    const struct conf_peer *conf = conf_find_peer(peers->conf, peer);
    struct hello hello = peers_hello(peers, kind, token);
    struct lane_params params = lane_params(peers);
    struct sock_address address;

    if (!conf) {
        error_set(err, ERR_PEER_UNKNOWN,
                  "peer \"%s\": the configuration has no [peer \"%s\"]", peer,
                  peer);
        return NULL;
    }
    if (sock_parse_address(conf->address, CONF_DEFAULT_PORT, &address, err)) {
        if (err) {
            err->code = ERR_PEER_UNREACHABLE;
        }
        error_wrap(err, "peer %s", peer);
        return NULL;
    }
    struct lane *lane = lane_connect(peers->loop, &address, conf->identity,
                                     &hello, &params, ops, arg, err);
    if (!lane) {
        error_wrap(err, "peer %s", peer);
    }
    return lane;
}

struct peer_link *peer_link_get(struct peers *peers, const char *peer,
                                struct error *err)
{
    struct peer_link *link = peer_link_find(peers, peer);

    if (link) {
        return link;
    }
    LIST_EACH (node, &peers->links) {
        link = container_of(node, struct peer_link, node);
        if (link->dialled && !link->ready && !strcmp(link->peer, peer)) {
            return link; /* on its way */
        }
    }
    link = link_new(peers, peer);
    if (!link) {
        error_set(err, ERR_NO_MEMORY, "peer %s: out of memory", peer);
        return NULL;
    }
    link->dialled = true;
    link->lane = peers_dial_lane(peers, peer, WIRE_LANE_CONTROL, NULL,
                                 &link_ops, link, err);
    if (!link->lane) {
        int index = peer_index(peers, peer);
        if (index >= 0 && err) {
            peers->last_errors[index] = *err;
        }
        list_remove(&link->node);
        loop_timer_done(&link->ping);
        peers->connections--;
        free(link);
        return NULL;
    }
    return link;
}

/* Accepted lanes. -------------------------------------------------------- */

static void incoming_free(struct peer_incoming *incoming)
{
    list_remove(&incoming->node);
    incoming->peers->connections--;
    free(incoming);
}

static void incoming_refuse(struct peer_incoming *incoming,
                            const struct error *err)
{
    log_warning("a connection from %s is refused: %s",
                lane_peer_text(incoming->lane), err->text);
    lane_refuse(incoming->lane, err->code, err->text);
    incoming_free(incoming);
}

static unsigned count_links(struct peers *peers, const char *peer)
{
    unsigned count = 0;
    LIST_EACH (node, &peers->links) {
        count +=
            !strcmp(container_of(node, struct peer_link, node)->peer, peer);
    }
    return count;
}

static void incoming_control(struct peer_incoming *incoming, const char *peer,
                             const struct hello *theirs)
{
    struct peers *peers = incoming->peers;
    struct error err = ERROR_INIT;

    if (count_links(peers, peer) >= PEER_LINKS_MAX) {
        error_set(&err, ERR_LIMIT,
                  "peer %s already has %d control connections, the limit", peer,
                  PEER_LINKS_MAX);
        incoming_refuse(incoming, &err);
        return;
    }
    struct hello mine = peers_hello(peers, WIRE_LANE_CONTROL, NULL);
    if (lane_welcome(incoming->lane, &mine, &err)) {
        incoming_refuse(incoming, &err);
        return;
    }
    struct lane *lane = incoming->lane;
    struct peer_link *link = link_new(peers, peer);
    if (!link) {
        error_set(&err, ERR_NO_MEMORY, "out of memory");
        incoming_refuse(incoming, &err);
        return;
    }
    incoming_free(incoming);
    link->lane = lane;
    struct hello hello = *theirs;
    lane_detach(lane);
    lane_attach(lane, peers->loop, &link_ops, link);
    link_ready(link, &hello);
}

static const struct conf_peer *find_by_names(const struct peers *peers,
                                             const struct tls_names *names)
{
    for (size_t i = 0; i < peers->conf->peer_count; i++) {
        if (tls_names_have(names, peers->conf->peers[i].identity)) {
            return &peers->conf->peers[i];
        }
    }
    return NULL;
}

static void incoming_on_hello(void *arg, const struct hello *theirs,
                              const struct tls_names *names)
{
    struct peer_incoming *incoming = arg;
    struct peers *peers = incoming->peers;
    const struct conf_peer *conf = find_by_names(peers, names);
    struct error err = ERROR_INIT;
    char text[256];

    if (!conf) {
        tls_names_format(names, text, sizeof(text));
        error_set(&err, ERR_FORBIDDEN,
                  "%s has no [peer] with the identity of this certificate (%s)",
                  peers->conf->name, text);
        incoming_refuse(incoming, &err);
    } else if (theirs->lane == WIRE_LANE_CONTROL) {
        incoming_control(incoming, conf->name, theirs);
    } else {
        struct lane *lane = incoming->lane;
        char peer[CONF_PEER_NAME_MAX + 1];
        strcpy(peer, conf->name);
        incoming_free(incoming);
        peers->ops->on_lane(peers->arg, peer, lane, theirs);
    }
}

static void incoming_on_frame(void *arg, const struct frame *frame)
{
}

static void incoming_on_payload(void *arg, const uint8_t *data,
                                size_t len_bytes, struct chunk *owner,
                                bool last)
{
}

static void incoming_on_closed(void *arg, const struct error *err)
{
    struct peer_incoming *incoming = arg;
    log_info("an incoming connection ended before it was anyone: %s",
             err->text);
    incoming_free(incoming);
}

static const struct lane_ops incoming_ops = {
    .on_hello = incoming_on_hello,
    .on_frame = incoming_on_frame,
    .on_payload = incoming_on_payload,
    .on_turn = link_on_turn,
    .on_room = link_on_room,
    .on_closed = incoming_on_closed,
};

/* "192.0.2.1" of "192.0.2.1:40000". */
static void host_of(const struct sock_address *from, char *buf, size_t size)
{
    json_value_copy_text(buf, size, from->text);
    char *colon = strrchr(buf, ':');
    if (colon) {
        *colon = '\0';
    }
}

static unsigned count_incoming(const struct peers *peers, const char *host)
{
    unsigned count = 0;
    LIST_EACH (node, &peers->incoming) {
        count +=
            !strcmp(container_of(node, struct peer_incoming, node)->host, host);
    }
    return count;
}

static void take_connection(struct peers *peers, int fd,
                            const struct sock_address *from)
{
    struct lane_params params = lane_params(peers);
    struct error err = ERROR_INIT;
    char host[sizeof(((struct peer_incoming *)NULL)->host)];

    if (peers->connections >= peers->conf->peer_connections) {
        log_warning("a connection from %s is dropped: %u are open, the limit "
                    "([limits] peer-connections)",
                    from->text, peers->connections);
        close(fd);
        return;
    }
    host_of(from, host, sizeof(host));
    if (count_incoming(peers, host) >= PEER_INCOMING_PER_HOST_MAX) {
        log_warning("a connection from %s is dropped: %d of that address have "
                    "not yet said who they are, the limit",
                    from->text, PEER_INCOMING_PER_HOST_MAX);
        close(fd);
        return;
    }
    struct peer_incoming *incoming = calloc(1, sizeof(*incoming));
    if (!incoming) {
        close(fd);
        return;
    }
    strcpy(incoming->host, host);
    incoming->peers = peers;
    list_init(&incoming->node);
    incoming->lane = lane_accept(peers->loop, fd, from, &params, &incoming_ops,
                                 incoming, &err);
    if (!incoming->lane) {
        log_warning("a connection from %s is dropped: %s", from->text,
                    err.text);
        free(incoming);
        return;
    }
    peers->connections++;
    list_append(&peers->incoming, &incoming->node);
}

static void accept_cb(evutil_socket_t fd, short what, void *arg)
{
    struct peer_listener *listener = arg;
    struct sock_address from;
    struct error err = ERROR_INIT;

    for (int i = 0; i < 16; i++) {
        int accepted = sock_accept(fd, &from, &err);
        if (accepted < 0) {
            break;
        }
        take_connection(listener->peers, accepted, &from);
    }
    if (error_is_set(&err)) {
        log_error("accepting peers pauses for a second: %s", err.text);
        for (size_t i = 0; i < listener->peers->listener_count; i++) {
            event_del(listener->peers->listeners[i].event);
        }
        loop_timer_start(&listener->peers->accept_again, ACCEPT_AGAIN);
    }
}

static void accept_again(void *arg)
{
    struct peers *peers = arg;
    for (size_t i = 0; i < peers->listener_count; i++) {
        event_add(peers->listeners[i].event, NULL);
    }
}

int peer_link_listen(struct peers *peers, struct error *err)
{
    const struct conf_list *list = &peers->conf->listen;

    loop_timer_init(&peers->accept_again, peers->loop, accept_again, peers);
    peers->listeners = calloc(list->count, sizeof(*peers->listeners));
    if (!peers->listeners) {
        return error_set(err, ERR_NO_MEMORY, "listeners: out of memory");
    }
    for (size_t i = 0; i < list->count; i++) {
        struct peer_listener *listener = &peers->listeners[i];
        struct sock_address address;
        if (sock_parse_address(list->items[i], CONF_DEFAULT_PORT, &address,
                               err)) {
            return conf_wrap(peers->conf, "listen", "address", err);
        }
        listener->fd = sock_listen(&address, LISTEN_BACKLOG, err);
        if (listener->fd < 0) {
            return conf_wrap(peers->conf, "listen", "address", err);
        }
        listener->peers = peers;
        peers->listener_count++;
        listener->event = event_new(loop_base(peers->loop), listener->fd,
                                    EV_READ | EV_PERSIST, accept_cb, listener);
        if (!listener->event) {
            return error_set(err, ERR_NO_MEMORY, "listeners: out of memory");
        }
        event_add(listener->event, NULL);
        log_info("listening for peers on %s", address.text);
    }
    return 0;
}

void peer_link_close_all(struct peers *peers)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_SHUTTING_DOWN, "this daemon is ending");
    for (size_t i = 0; i < peers->listener_count; i++) {
        if (peers->listeners[i].event) {
            event_free(peers->listeners[i].event);
        }
        close(peers->listeners[i].fd);
    }
    free(peers->listeners);
    loop_timer_done(&peers->accept_again);
    while (!list_is_empty(&peers->incoming)) {
        struct peer_incoming *incoming =
            container_of(peers->incoming.next, struct peer_incoming, node);
        lane_close(incoming->lane);
        incoming_free(incoming);
    }
    while (!list_is_empty(&peers->links)) {
        link_free(container_of(peers->links.next, struct peer_link, node), &err,
                  true);
    }
}
