// SPDX-License-Identifier: BSD-3-Clause
/* What one QEMU says of itself before a migration, and whether the two ends
 * fit. */
#ifndef PROXY_FACTS_H
#define PROXY_FACTS_H

#include <json-c/json.h>

#include "qmp/qmp-caps.h"
#include "qmp/qmp-migrate.h"
#include "qmp/qmp-probe.h"
#include "stream/small-pages.h"

#define FACTS_BLOCKS_MAX 256

struct facts {
    char name[128];
    char uuid[40];
    char machine[128];
    char version[64]; /* QEMU's, for people */
    struct qmp_run_status status;
    struct qmp_migrate_info migrate;
    struct qmp_probe probe;
    struct qmp_caps *caps; /* as they were before us */
    size_t block_count;
    struct qmp_ram_block *blocks;
};

void facts_done(struct facts *facts);

/* Asks everything at once. The callback owns what facts points to
 * (facts_done()); on error it is given NULL. Exactly one callback, with
 * ERR_CANCELLED when the monitor is closed before. */
typedef void (*facts_cb)(void *arg, struct facts *facts,
                         const struct error *err);
void facts_gather(struct qmp *qmp, mp_time timeout, facts_cb cb, void *arg);

/* For the other end and the records: name, uuid, machine, qemu, status, blocks,
 * behaviours. */
json_object *facts_to_json(const struct facts *facts);

/* The block table alone. */
json_object *facts_blocks_to_json(const struct facts *facts);

/* Reads what facts_to_json() wrote, without caps and migrate. 0, or -1 with
 * ERR_PROTOCOL naming the member. */
int facts_from_json(json_object *json, struct facts *ret_facts,
                    struct error *err);

/* Whether a guest of source can be loaded by destination: UUID, machine type,
 * RAM blocks and (postcopy) their page sizes. ERR_MISMATCH names the thing,
 * both values and, for page sizes, the remedy. *ret_sizes: the page sizes to be
 * translated, where a block has huge pages on the source and ordinary memory on
 * the destination (freed with free()); else NULL. Pure. */
int facts_compare(const struct facts *source, const struct facts *destination,
                  bool postcopy, struct small_pages **ret_sizes,
                  struct error *err);

#endif
