// SPDX-License-Identifier: BSD-3-Clause
/* What peer.c (calls and requests) and peer-link.c (connections) share. */
#ifndef PROXY_PEER_PRIVATE_H
#define PROXY_PEER_PRIVATE_H

#include "proxy/peer.h"
#include "util/list.h"

#define PEER_PING_INTERVAL (1 * MP_SECOND)
#define PEER_SILENCE_LIMIT (10 * MP_SECOND)

/* One control connection. */
struct peer_link {
    struct list node; /* peers->links */
    struct peers *peers;
    struct lane *lane;
    uint64_t serial; /* names the link in requests that may outlive it */
    char peer[CONF_PEER_NAME_MAX + 1];
    bool dialled;
    bool ready;
    uint8_t instance[HELLO_INSTANCE_BYTES]; /* the peer's, once ready */

    uint8_t *message; /* being received */
    size_t message_bytes;
    size_t message_size;

    struct list calls; /* sent, waiting for the answer */
    unsigned requests; /* of the peer's, not yet answered */
    struct loop_timer ping;
    mp_time pinged_at; /* the one that is out, 0: none */
    mp_time rtt;       /* smallest of late, 0: none yet */
    mp_time clock_offset;
    mp_time measured_at;
    unsigned idle_pongs; /* of a duplicate: PONGs in a row that found it idle */
};

/* A lane that was accepted and has not yet said what it is. */
struct peer_incoming {
    struct list node; /* peers->incoming */
    struct peers *peers;
    struct lane *lane;
    char host[80]; /* where it comes from, without the port */
};

struct peer_listener {
    int fd;
    struct event *event;
    struct peers *peers;
};

struct peer_call {
    struct list node; /* link->calls, peers->waiting or peers->failed */
    struct peers *peers;
    uint64_t id;
    const void *owner;
    peer_cb cb;
    void *arg;
    char peer[CONF_PEER_NAME_MAX + 1];
    char method[64];
    char *text; /* the request, until it is sent */
    mp_time timeout;
    struct loop_timer deadline;
    struct error failure; /* once in peers->failed */
};

struct peers {
    struct loop *loop;
    const struct conf *conf;
    struct tls *tls;
    const struct peers_ops *ops;
    void *arg;
    uint8_t instance[HELLO_INSTANCE_BYTES];
    struct peer_listener *listeners;
    size_t listener_count;
    struct loop_timer accept_again;
    struct list links;
    struct list incoming;
    struct list waiting; /* calls without a link yet */
    struct list failed;  /* calls that end at the next turn of the loop */
    struct loop_timer failing;
    bool is_closing;
    unsigned connections;
    uint64_t last_call_id;
    uint64_t last_serial;
    /* by index of conf->peers; why the last dial failed or the last link ended
     */
    struct error *last_errors;
    mp_time *lost_at; /* alike: when the last ready link ended, 0: none has */
    /* instance last seen, by index of conf->peers */
    uint8_t (*last_instances)[HELLO_INSTANCE_BYTES];
};

/* peer-link.c */
int peer_link_listen(struct peers *peers, struct error *err);
void peer_link_close_all(struct peers *peers);
/* The link calls to this peer use, dialled if there is none; NULL and *err if
 * it cannot even be tried. It may not be ready. */
struct peer_link *peer_link_get(struct peers *peers, const char *peer,
                                struct error *err);
struct peer_link *peer_link_find_serial(struct peers *peers, uint64_t serial);
/* The best ready link of a peer, or NULL. */
struct peer_link *peer_link_find(const struct peers *peers, const char *peer);
/* Sends one message of at most WIRE_MESSAGE_MAX_BYTES. False: the link was
 * closed, its calls have failed. */
bool peer_link_send(struct peer_link *link, const char *text);
/* Index in conf->peers, or -1. */
int peer_index(const struct peers *peers, const char *peer);

/* peer.c */
void peer_on_message(struct peer_link *link, const char *text, size_t length);
/* The link is ready: send what waits. */
void peer_send_waiting(struct peers *peers, struct peer_link *link);
/* Fails the calls in list (and, with peer given, only that peer's): they are
 * called back from the loop, unless they are dropped before. */
void peer_fail_calls(struct list *calls, const char *peer,
                     const struct error *err);

#endif
