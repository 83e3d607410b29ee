// SPDX-License-Identifier: BSD-3-Clause
/* The source's end of a migration: it owns every decision. docs/internals.md
 * tells the whole story, the commit protocol included. */
#ifndef PROXY_SOURCE_H
#define PROXY_SOURCE_H

#include "proxy/migration.h"

struct source;

/* Begins a migration. NULL and *err if it cannot even begin (path refused, no
 * such peer, no record can be written). It ends by env->on_end. */
struct source *source_start(const struct migration_env *env,
                            const struct api_migrate *request,
                            struct error *err);

/* Takes up what a daemon that has ended left behind: undoes a migration that
 * was not committed, asks the destination about one that was. NULL and *err if
 * the record does not say enough; it is left alone then. */
struct source *source_take_over(const struct migration_env *env,
                                const struct api_migrate *request,
                                json_object *record, struct error *err);

/* Frees a migration that has ended, or at the daemon's end (the record is
 * written, QEMU's sockets close). */
void source_free(struct source *source);

struct migration *source_migration(struct source *source);

/* Orders. -1 with ERR_TOO_LATE after the point of no return, or ERR_CONFLICT /
 * ERR_UNSUPPORTED where postcopy is not possible. */
int source_cancel(struct source *source, const struct error *why,
                  struct error *err);
int source_postcopy(struct source *source, struct error *err);
/* Other limits from now on. A new downtime is in force (in the migration's
 * max_downtime_ms) once QEMU has taken it, which env->on_change tells.
 * ERR_TOO_LATE where one of them no longer means anything. */
int source_set_limits(struct source *source, const struct api_limits *limits,
                      struct error *err);

/* The destination's daemon was started anew and has lost its end. */
void source_peer_restarted(struct source *source);

#endif
