// SPDX-License-Identifier: BSD-3-Clause
/* The destination's end of a migration. It decides nothing but one thing: that
 * it will not start, which binds it for ever. Everything else it does on
 * request of the source's daemon; what happened it tells by "migration.await".
 *
 * Requests ("migration.NAME"):
 *   prepare  opens the QMP, compares, stops, sets up       -> facts, token
 *   listen   lanes are up: migrate-incoming                -> {}
 *   prove    is QEMU there and loading?                    -> {}
 *   await    answers when there is news after "seen"       -> news
 *   commit   STARTED on disk, then cont                    -> started or not
 *   finish   all has arrived: put back, close              -> statistics
 *   abort    the source goes on: never start               -> {} */
#ifndef PROXY_DESTINATION_H
#define PROXY_DESTINATION_H

#include "proxy/migration.h"

struct destination;

/* "migration.prepare": checks the request, begins, answers it in any case.
 * incoming: what was said on this host of the QEMU that waits for the guest;
 * NULL: nothing. NULL if nothing was begun. */
struct destination *destination_start(const struct migration_env *env,
                                      struct peer_request *request,
                                      const struct api_migrate *wish,
                                      const struct api_incoming *incoming);

/* What a daemon that has ended left behind: binds itself not to start, or makes
 * sure that a guest that was started runs. */
struct destination *destination_take_over(const struct migration_env *env,
                                          const struct api_migrate *wish,
                                          json_object *record,
                                          struct error *err);

void destination_free(struct destination *destination);

struct migration *destination_migration(struct destination *destination);

/* Whether migrate-incoming was sent: a QEMU takes it once, so it can wait for
 * no other migration. */
bool destination_has_used_qemu(const struct destination *destination);

/* A request about this migration; is answered, now or later. */
void destination_on_request(struct destination *destination,
                            struct peer_request *request);

/* Whether token names this migration; the lane is then taken (welcomed or
 * refused). */
bool destination_take_lane(struct destination *destination, struct lane *lane,
                           const struct hello *theirs);

/* The same peer wants to send the same guest anew, so the source has given this
 * migration up and its abort got lost: it is ended as by that. Nothing happens
 * after COMMIT. */
void destination_supersede(struct destination *destination, const char *by);

/* The operator ends it here: only before COMMIT. */
int destination_cancel(struct destination *destination, const struct error *why,
                       struct error *err);

#endif
