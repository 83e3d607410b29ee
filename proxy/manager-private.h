// SPDX-License-Identifier: BSD-3-Clause
/* What manager.c (life), manager-api.c and manager-peer.c share. */
#ifndef PROXY_MANAGER_PRIVATE_H
#define PROXY_MANAGER_PRIVATE_H

#include "proxy/destination.h"
#include "proxy/incoming.h"
#include "proxy/manager.h"
#include "proxy/metrics.h"
#include "proxy/source.h"

/* The record of a migration that has ended, or (unfinished) of one that an
 * earlier daemon left behind. */
struct ended {
    struct list node;
    char id[ID_MAX + 1];
    bool is_source;
    bool unfinished;
    bool unsettled; /* source: the other end is to be told, see below */
    mp_time unsettled_at;
    unsigned asked; /* how often it was */
    bool is_asked;  /* its answer is awaited */
    json_object *record;
    const char *started_at; /* the record's; sorts as text */
};

struct manager {
    struct migration_env env;
    struct list active;     /* struct migration */
    struct list ended;      /* struct ended, oldest first */
    struct loop_timer reap; /* of those of active that have ended */
    unsigned active_count;
    unsigned ended_count;
    struct incoming incoming;
    struct metrics metrics; /* of migrations that have ended */
    struct api *api;        /* NULL: nobody listens yet */
    struct loop_timer progress;
    struct loop_timer settle;
    mp_time settle_interval;
    bool draining;
    loop_fn on_idle;
    void *idle_arg;
};

/* manager-events.c: what followers of the API are told. */
void manager_on_change(void *arg, struct migration *m);
void manager_progress_cb(void *arg);

/* A record as it is shown. */
void manager_publish_record(struct manager *manager, json_object *shown);

/* manager-close.c: for the API; and whether a person is still needed. */
int manager_close(void *arg, const char *id, const struct api_close *close,
                  json_object **ret_body, struct error *err);
bool manager_needs_attention(const struct ended *ended);

/* manager-metrics.c */
void manager_count_ended(struct manager *manager, struct migration *m);
int manager_write_metrics(void *arg, FILE *out, struct error *err);

/* manager-settle.c: ends that the other end has not heard of, or late. */
void manager_settle_init(struct manager *manager);
void manager_settle_done(struct manager *manager);
/* Tells the destination of this one, if it has not heard of it. */
void manager_settle(struct manager *manager, struct ended *ended);
/* The source's word (params of "migration.abort") on a migration that had ended
 * here before it came: both ends say the same cause and the same result. */
void manager_amend_record(struct manager *manager, struct ended *ended,
                          json_object *params);

/* The migration under way; peer may be NULL. */
struct migration *manager_find_active(struct manager *manager, const char *id,
                                      bool is_source, const char *peer);
struct ended *manager_find_ended(struct manager *manager, const char *id,
                                 bool is_source);
/* The record of a migration that has ended, among those that are shown; it may
 * have been put there already. NULL: out of memory. */
struct ended *manager_keep_record(struct manager *manager, struct migration *m);
struct source *manager_source(struct migration *m);
struct destination *manager_destination(struct migration *m);
void manager_add(struct manager *manager, struct migration *m);
/* May another migration of this guest begin? */
int manager_admit(struct manager *manager, const char *vm, struct error *err);
json_object *manager_strip_record(json_object *record);

#endif
