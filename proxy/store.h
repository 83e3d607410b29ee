// SPDX-License-Identifier: BSD-3-Clause
/* Records of migrations on disk: one JSON file each, replaced whole.
 *
 * STATE-DIR/migrations/ROLE-ID.json. A record is written to a temporary file,
 * fsynced, renamed over the old one, and the directory is fsynced: after
 * store_save() has returned 0 the record survives a power cut (a directory that
 * cannot be fsynced is only warned of), and after -1 the old one is what
 * everybody reads. */
#ifndef PROXY_STORE_H
#define PROXY_STORE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

struct store;

/* A record may not be larger when read. */
#define STORE_RECORD_MAX_BYTES (4u << 20)

/* Makes the directories (0700) where they are missing and locks them: a second
 * daemon with the same state-dir is refused. NULL and *err on failure. */
struct store *store_open(const char *state_dir, struct error *err);
void store_close(struct store *store);

/* Writes the record of (role, id), see above. 0, or -1 with *err. */
int store_save(struct store *store, const char *role, const char *id,
               json_object *record, struct error *err);

/* Removes it; nothing happens if there is none. */
void store_remove(struct store *store, const char *role, const char *id);

/* Calls fn for each record on disk; record is fn's for the call. Files that
 * cannot be read are reported through bad (name and why) and left alone. */
typedef void (*store_fn)(void *arg, const char *role, const char *id,
                         json_object *record);
typedef void (*store_bad_fn)(void *arg, const char *name,
                             const struct error *err);
int store_each(struct store *store, store_fn fn, store_bad_fn bad, void *arg,
               struct error *err);

#endif
