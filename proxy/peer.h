// SPDX-License-Identifier: BSD-3-Clause
/* The other daemons: who they are, the control connection to each, requests
 * over it, and the lanes of migrations.
 *
 * How it works
 *
 * There is one control connection (a lane of kind CONTROL) for each pair of
 * hosts, used in both directions. It is dialled when something is asked of a
 * peer and kept. When both ends dial at once, the one dialled by the daemon
 * with the smaller instance id is used and the other one is closed by its
 * dialler once nothing waits on it and nothing can be on its way.
 *
 * Requests are JSON texts in MESSAGE frames:
 *   {"id":7,"method":"migration.prepare","params":{...}}
 *   {"id":7,"result":{...}}  or
 * {"id":7,"error":{"class":"...","message":"..."}} A request ends in exactly
 * one callback: the answer, the peer's error, or link-lost, peer-unreachable,
 * timeout.
 *
 * Who a peer is comes from its certificate alone: the [peer] section whose
 * identity is one of the certificate's names. Everything here belongs to the
 * control loop. */
#ifndef PROXY_PEER_H
#define PROXY_PEER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "transport/lane.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/loop.h"

struct peers;
struct peer_request;

/* Requests a peer may have open with us, connections it may have. */
#define PEER_REQUESTS_MAX 256
#define PEER_LINKS_MAX 4
/* Connections of one address that have not yet said who they are: one address
 * cannot shut the others out. */
#define PEER_INCOMING_PER_HOST_MAX 32

struct peers_ops {
    /* A peer asks. Ends with peer_request_reply() or peer_request_fail(), now
     * or later. */
    void (*on_request)(void *arg, struct peer_request *request);
    /* A lane of a migration was dialled to us by a peer that may. The receiver
     * owns it: lane_welcome() with peers_hello(), or lane_refuse(). */
    void (*on_lane)(void *arg, const char *peer, struct lane *lane,
                    const struct hello *theirs);
    /* The peer came back as another process: what it knew is gone. */
    void (*on_new_instance)(void *arg, const char *peer);
};

/* Listens on the addresses of conf, which (like tls, referenced) must live as
 * long as the peers do or until peers_reload(). NULL and *err on failure. */
struct peers *peers_new(struct loop *loop, const struct conf *conf,
                        struct tls *tls, const struct peers_ops *ops, void *arg,
                        struct error *err);
/* NULL is fine. Open calls are called back with ERR_SHUTTING_DOWN, from within
 * this; the requests of peers must have ended before. Not from a callback. */
void peers_free(struct peers *peers);

/* New certificates and peers for connections from now on. */
void peers_reload(struct peers *peers, const struct conf *conf,
                  struct tls *tls);

/* This daemon's HELLO for a lane of that kind; token may be NULL. */
struct hello peers_hello(const struct peers *peers, enum wire_lane kind,
                         const uint8_t *token);

/* Hex of this daemon's instance id (32 characters and NUL). */
void peers_instance_text(const struct peers *peers, char buf[33]);

/* result (the callee's for the call; json_object_get() keeps it) or err. */
typedef void (*peer_cb)(void *arg, json_object *result,
                        const struct error *err);

/* Whether a call that ended with err may not have been heard at all. */
bool peers_is_unheard(const struct error *err);

/* Asks a peer. params is taken. owner is for peers_drop_calls(). cb is called
 * once, from the loop, never from within this. A request over
 * WIRE_MESSAGE_MAX_BYTES ends with ERR_LIMIT; so does one with such an answer.
 */
void peers_call(struct peers *peers, const char *peer, const char *method,
                json_object *params, mp_time timeout, const void *owner,
                peer_cb cb, void *arg);

/* Forgets the open calls of an owner: no callback comes for them, also if they
 * have failed already and were not told yet. */
void peers_drop_calls(struct peers *peers, const void *owner);

/* Dials a lane of a migration. The lane belongs to the caller. */
struct lane *peers_dial_lane(struct peers *peers, const char *peer,
                             enum wire_lane kind, const uint8_t *token,
                             const struct lane_ops *ops, void *arg,
                             struct error *err);

/* The peer's monotonic clock minus ours, and the round trip it was measured
 * with (its error is at most half of that). False if not known yet. */
bool peers_clock(const struct peers *peers, const char *peer,
                 mp_time *ret_offset, mp_time *ret_rtt);

/* For GET /v1/peers: [{"name","address","identity","allow","connected",...}] */
json_object *peers_to_json(const struct peers *peers);

/* Requests to us. */
const char *peer_request_peer(const struct peer_request *request);
const char *peer_request_method(const struct peer_request *request);
json_object *peer_request_params(const struct peer_request *request);
/* Each ends the request; result is taken (NULL: an empty object). */
void peer_request_reply(struct peer_request *request, json_object *result);
void peer_request_fail(struct peer_request *request, const struct error *err);

#endif
