// SPDX-License-Identifier: BSD-3-Clause
/* All migrations of this host: those under way, and the records of those that
 * have ended. It is what the API and the peers talk to. */
#ifndef PROXY_MANAGER_H
#define PROXY_MANAGER_H

#include "proxy/api.h"
#include "proxy/migration.h"
#include "proxy/peer.h"

struct manager;

/* NULL and *err on failure. Loads the records; unfinished migrations are taken
 * up by manager_take_over(). peers may be given later. */
struct manager *manager_new(struct loop *control, struct loop *data,
                            const struct conf *conf, struct store *store,
                            struct error *err);
void manager_free(struct manager *manager);

void manager_set_peers(struct manager *manager, struct peers *peers);
void manager_set_conf(struct manager *manager, const struct conf *conf);

/* Who is told of what happens; NULL: nobody. */
void manager_set_api(struct manager *manager, struct api *api);

/* Finishes or undoes what an earlier daemon left behind. */
void manager_take_over(struct manager *manager);

/* For api_new() and peers_new(); the manager is their arg. */
extern const struct api_ops manager_api_ops;
extern const struct peers_ops manager_peers_ops;

/* No new migrations from now on; on_idle is called (later) when none is left.
 */
void manager_drain(struct manager *manager, loop_fn on_idle, void *arg);
/* Cancels what can still be undone. */
void manager_cancel_all(struct manager *manager);
unsigned manager_count(const struct manager *manager);

#endif
