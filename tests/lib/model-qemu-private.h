// SPDX-License-Identifier: BSD-3-Clause
/* What the files of the model share. */
#ifndef TESTS_LIB_MODEL_QEMU_PRIVATE_H
#define TESTS_LIB_MODEL_QEMU_PRIVATE_H

#include <event2/bufferevent.h>
#include <json-c/json.h>
#include <stdint.h>

#include "tests/lib/model-qemu.h"

#define MODEL_FAULTS_MAX 8
#define MODEL_COMMANDS_MAX 40

struct model_qemu {
    struct model_params params;
    const struct model_ops *ops;
    void *arg;
    char path[108];
    char name[64];

    /* the monitor */
    int listen_fd;
    struct event *accept;
    struct bufferevent *client;
    struct json_stream *json;
    bool is_alive, is_hung;
    struct {
        char command[32];
        enum model_stage after;
        unsigned nth, seen;
        enum model_fault fault;
    } faults[MODEL_FAULTS_MAX];
    struct {
        char command[40];
        unsigned count;
    } counts[MODEL_COMMANDS_MAX];
    char violation[200];

    /* the guest */
    char run_state[32];
    bool runs, ever_ran, autostart;
    bool ran_before; /* the migration stopped it */

    /* the migration */
    const char *status;
    char error_desc[128];
    json_object *capabilities, *parameters;
    json_object *first_capabilities, *first_parameters;
    enum model_fault stage_faults[MODEL_STAGES];
    unsigned stages; /* entered, by bit */
    unsigned pass;
    bool wants_postcopy, is_postcopy;
    bool is_stuck;          /* in cancelling, see cancels_late */
    struct loop_timer step; /* what comes next by itself */
    void (*next)(struct model_qemu *q);
    struct loop_timer late; /* the event that is late */
    char late_status[32];

    /* its socket */
    int incoming_fd; /* destination: listens */
    char incoming_path[108];
    struct event *incoming;
    struct bufferevent *main;
    uint64_t read_bytes;
    uint64_t precopy_bytes, downtime_bytes, postcopy_bytes; /* written */
    char tail[16];  /* of the stream, to find marks in */
    bool has_ended; /* SHUT or the end mark has passed */
};

void *model_check(void *p);
void model_break(struct model_qemu *q, const char *what);
/* An event with data (taken, or NULL). */
void model_event(struct model_qemu *q, const char *name, json_object *data);
/* Status and its event. */
void model_set_status(struct model_qemu *q, const char *status);
void model_set_run(struct model_qemu *q, const char *run_state, bool runs);
/* False: the stage has a fault that was acted on, go no further. */
bool model_enter(struct model_qemu *q, enum model_stage stage,
                 const char *status);
void model_then(struct model_qemu *q, mp_time delay,
                void (*next)(struct model_qemu *q));

/* model-qemu-caps.c */
void model_caps_init(struct model_qemu *q);
bool model_is_migrating(const struct model_qemu *q);
json_object *model_capability_list(const struct model_qemu *q);
json_object *model_schema(void);
/* NULL, or why not. */
const char *model_set_capabilities(struct model_qemu *q, json_object *args);
const char *model_set_parameters(struct model_qemu *q, json_object *args);

/* model-qemu-stream.c */
json_object *model_migrate_info(const struct model_qemu *q);
/* "migrate", "migrate-incoming": NULL or why not. */
const char *model_stream_start(struct model_qemu *q, const char *uri);
const char *model_stream_listen(struct model_qemu *q, const char *uri);
void model_stream_continue(struct model_qemu *q);
void model_stream_cancel(struct model_qemu *q);
void model_stream_cancel_on(struct model_qemu *q);
/* The socket breaks, by yank or by the fault of a stage. */
void model_stream_break(struct model_qemu *q, const char *why);
void model_stream_close(struct model_qemu *q);

#endif
