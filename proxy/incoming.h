// SPDX-License-Identifier: BSD-3-Clause
/* Which QEMU of this host waits for which guest, as said by POST /v1/incoming:
 * for hosts whose monitors lie where no template finds them. Pure.
 *
 * What is said lasts until a migration has used that QEMU, however it ended: a
 * QEMU takes one incoming migration. Or until it is said anew or taken back, or
 * the daemon ends: whoever manages the host says it right before the
 * migration. */
#ifndef PROXY_INCOMING_H
#define PROXY_INCOMING_H

#include <json-c/json.h>

#include "proxy/api.h"
#include "util/list.h"

#define INCOMING_MAX 1024 /* guests */

struct incoming_entry {
    struct list node;
    char id[ID_MAX + 1];
    struct api_incoming said;
    int64_t since_wall_us;
    char migration[ID_MAX + 1]; /* under way to it; "": none */
};

struct incoming {
    struct list entries; /* struct incoming_entry, oldest first */
    unsigned count;
};

void incoming_init(struct incoming *incoming);
void incoming_done(struct incoming *incoming);

/* Keeps what is said under id, instead of what was said of this guest before.
 * NULL and *err: ERR_LIMIT at INCOMING_MAX, ERR_NO_MEMORY. */
const struct incoming_entry *incoming_add(struct incoming *incoming,
                                          const char *id,
                                          const struct api_incoming *said,
                                          int64_t wall_us, struct error *err);

/* By guest, by id, by the migration under way to it; NULL if there is none. */
struct incoming_entry *incoming_find_vm(struct incoming *incoming,
                                        const char *vm);
struct incoming_entry *incoming_find(struct incoming *incoming, const char *id);
struct incoming_entry *incoming_find_migration(struct incoming *incoming,
                                               const char *migration);

/* Forgets one and frees it. */
void incoming_remove(struct incoming *incoming, struct incoming_entry *entry);

/* What the API shows; the caller's. */
json_object *incoming_entry_to_json(const struct incoming_entry *entry);

#endif
