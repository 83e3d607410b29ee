// SPDX-License-Identifier: BSD-3-Clause
/* A carrier: the handle that the control loop holds. Orders go to the core as
 * posted calls, news come back the same way. */
#include "proxy/carrier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/carrier-core.h"
#include "util/log.h"

struct carrier {
    /* set once */
    struct loop *control;
    struct loop *data;
    struct carrier_core *core; /* to post to, never to look into */
    struct carrier_ops ops;
    void *arg;

    /* of the control loop's thread */
    bool closed; /* by its user, who hears nothing more */
    bool freed;  /* likewise; the memory stays until the core has gone */
    bool gone;   /* the core; the memory stays until it is freed */

    /* under lock */
    pthread_mutex_t lock;
    struct carrier_stats stats;
};

void *carrier_alloc(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (!memory) {
        log_error("out of memory for a message between loops, ending here: "
                  "the records on disk say how far each migration was");
        abort();
    }
    return memory;
}

char *carrier_strdup(const char *text)
{
    if (!text) {
        return NULL;
    }
    size_t size = strlen(text) + 1;
    return memcpy(carrier_alloc(size), text, size);
}

/* News: control loop <- core. -------------------------------------------- */

enum news_type {
    NEWS_READY,
    NEWS_PATH,
    NEWS_CHANNEL,
    NEWS_HEAD,
    NEWS_BROKEN,
    NEWS_FINISHED,
};

struct news {
    enum news_type type;
    struct carrier *carrier;
    uint64_t seq;
    mp_time rtt;
    uint16_t channel;
    enum wire_class class;
    struct error err;
    struct stream_head *head; /* its own copy */
};

static void hand_over(struct carrier *carrier, const struct news *news)
{
    const struct carrier_ops *ops = &carrier->ops;
    switch (news->type) {
    case NEWS_READY:
        if (ops->on_ready) {
            ops->on_ready(carrier->arg);
        }
        return;
    case NEWS_PATH:
        if (ops->on_path) {
            ops->on_path(carrier->arg, news->seq, news->rtt);
        }
        return;
    case NEWS_CHANNEL:
        if (ops->on_channel) {
            ops->on_channel(carrier->arg, news->channel, news->class);
        }
        return;
    case NEWS_HEAD:
        if (ops->on_head) {
            ops->on_head(carrier->arg, news->head);
        }
        return;
    case NEWS_BROKEN:
        if (ops->on_broken) {
            ops->on_broken(carrier->arg, &news->err);
        }
        return;
    case NEWS_FINISHED:
        if (ops->on_finished) {
            ops->on_finished(carrier->arg);
        }
        return;
    }
}

static void news_cb(void *arg)
{
    struct news *news = arg;
    if (!news->carrier->closed) {
        hand_over(news->carrier, news);
    }
    free(news->head);
    free(news);
}

static struct news *news_new(struct carrier *carrier, enum news_type type)
{
    struct news *news = carrier_alloc(sizeof(*news));
    news->carrier = carrier;
    news->type = type;
    return news;
}

static void tell(struct news *news)
{
    loop_post(news->carrier->control, news_cb, news);
}

void carrier_tell_ready(struct carrier *carrier)
{
    tell(news_new(carrier, NEWS_READY));
}

void carrier_tell_path(struct carrier *carrier, uint64_t seq, mp_time rtt)
{
    struct news *news = news_new(carrier, NEWS_PATH);
    news->seq = seq;
    news->rtt = rtt;
    tell(news);
}

void carrier_tell_channel(struct carrier *carrier, uint16_t channel,
                          enum wire_class class)
{
    struct news *news = news_new(carrier, NEWS_CHANNEL);
    news->channel = channel;
    news->class = class;
    tell(news);
}

void carrier_tell_head(struct carrier *carrier, const struct stream_head *head)
{
    struct news *news = news_new(carrier, NEWS_HEAD);
    news->head = carrier_alloc(sizeof(*head));
    *news->head = *head;
    tell(news);
}

void carrier_tell_broken(struct carrier *carrier, const struct error *err)
{
    struct news *news = news_new(carrier, NEWS_BROKEN);
    news->err = *err;
    tell(news);
}

void carrier_tell_finished(struct carrier *carrier)
{
    tell(news_new(carrier, NEWS_FINISHED));
}

static void release(struct carrier *carrier)
{
    pthread_mutex_destroy(&carrier->lock);
    free(carrier);
}

static void gone_cb(void *arg)
{
    struct carrier *carrier = arg;

    carrier->gone = true;
    if (carrier->freed) {
        release(carrier);
    }
}

void carrier_tell_gone(struct carrier *carrier)
{
    loop_post(carrier->control, gone_cb, carrier);
}

void carrier_put_stats(struct carrier *carrier,
                       const struct carrier_stats *stats)
{
    pthread_mutex_lock(&carrier->lock);
    carrier->stats = *stats;
    pthread_mutex_unlock(&carrier->lock);
}

/* Orders: control loop -> core. ------------------------------------------ */

struct order {
    struct carrier_core *core;
    struct lane *lane;
    int fd;
    char *path;
    char *text;
    char **dirs;
    size_t dir_count;
    uid_t owner;
    pid_t pid;
    mp_time timeout;
    enum mux_phase phase;
    enum error_code code;
    uint64_t number;
};

static struct order *order_new(struct carrier *carrier)
{
    struct order *order = carrier_alloc(sizeof(*order));
    order->core = carrier->core;
    return order;
}

static void start_cb(void *arg)
{
    carrier_core_start(arg);
}

struct carrier *carrier_new(const struct carrier_params *params,
                            const struct carrier_ops *ops, void *arg,
                            struct error *err)
{
    if (params->multifd > CARRIER_MULTIFD_MAX) {
        error_set(err, ERR_LIMIT, "%u multifd channels, at most %d fit",
                  params->multifd, CARRIER_MULTIFD_MAX);
        return NULL;
    }
    struct carrier *carrier = calloc(1, sizeof(*carrier));
    if (!carrier) {
        error_set(err, ERR_NO_MEMORY, "carrier: out of memory");
        return NULL;
    }
    carrier->control = params->control;
    carrier->data = params->data;
    carrier->ops = *ops;
    carrier->arg = arg;
    pthread_mutex_init(&carrier->lock, NULL);
    carrier->core = carrier_core_new(params, carrier, err);
    if (!carrier->core) {
        release(carrier);
        return NULL;
    }
    loop_post(carrier->data, start_cb, carrier->core);
    return carrier;
}

static void stop_cb(void *arg)
{
    struct order *order = arg;
    carrier_core_stop(order->core, order->code, order->text);
    free(order->text);
    free(order);
}

void carrier_close(struct carrier *carrier, const struct error *why)
{
    if (carrier->closed) {
        return;
    }
    struct order *order = order_new(carrier);
    order->code = why && why->code != ERR_NONE ? why->code : ERR_CANCELLED;
    order->text = carrier_strdup(why ? why->text : NULL);
    carrier->closed = true;
    loop_post(carrier->data, stop_cb, order);
}

void carrier_free(struct carrier *carrier, const struct error *why)
{
    if (!carrier) {
        return;
    }
    carrier_close(carrier, why);
    carrier->freed = true;
    if (carrier->gone) {
        release(carrier);
    }
}

static void add_lane_cb(void *arg)
{
    struct order *order = arg;
    carrier_lanes_add(order->core, order->lane);
    free(order);
}

void carrier_add_lane(struct carrier *carrier, struct lane *lane)
{
    struct order *order = order_new(carrier);
    order->lane = lane;
    loop_post(carrier->data, add_lane_cb, order);
}

static void listen_cb(void *arg)
{
    struct order *order = arg;
    carrier_source_listen(order->core, order->fd, order->path, order->pid);
    free(order);
}

void carrier_listen(struct carrier *carrier, int listen_fd, const char *path,
                    pid_t qemu_pid)
{
    struct order *order = order_new(carrier);
    order->fd = listen_fd;
    order->path = carrier_strdup(path);
    order->pid = qemu_pid;
    loop_post(carrier->data, listen_cb, order);
}

static void set_target_cb(void *arg)
{
    struct order *order = arg;
    carrier_dest_set_target(order->core, order->path, order->dirs,
                            order->dir_count, order->owner, order->timeout);
    free(order);
}

void carrier_set_target(struct carrier *carrier, const char *path,
                        char *const *dirs, size_t dir_count, uid_t owner,
                        mp_time connect_timeout)
{
    struct order *order = order_new(carrier);
    order->path = carrier_strdup(path);
    order->dirs = carrier_alloc((dir_count + 1) * sizeof(char *));
    for (size_t i = 0; i < dir_count; i++) {
        order->dirs[i] = carrier_strdup(dirs[i]);
    }
    order->dir_count = dir_count;
    order->owner = owner;
    order->timeout = connect_timeout;
    loop_post(carrier->data, set_target_cb, order);
}

static void set_phase_cb(void *arg)
{
    struct order *order = arg;
    carrier_core_set_phase(order->core, order->phase);
    free(order);
}

void carrier_set_phase(struct carrier *carrier, enum mux_phase phase)
{
    struct order *order = order_new(carrier);
    order->phase = phase;
    loop_post(carrier->data, set_phase_cb, order);
}

static void set_bandwidth_cb(void *arg)
{
    struct order *order = arg;
    carrier_rate_init(&order->core->rate, order->number);
    carrier_core_turn(order->core);
    free(order);
}

void carrier_set_bandwidth(struct carrier *carrier, uint64_t bytes_per_second)
{
    struct order *order = order_new(carrier);
    order->number = bytes_per_second;
    loop_post(carrier->data, set_bandwidth_cb, order);
}

static void prove_path_cb(void *arg)
{
    struct order *order = arg;
    carrier_lanes_prove(order->core, order->number);
    free(order);
}

void carrier_prove_path(struct carrier *carrier, uint64_t seq)
{
    struct order *order = order_new(carrier);
    order->number = seq;
    loop_post(carrier->data, prove_path_cb, order);
}

static void close_qemu_cb(void *arg)
{
    struct order *order = arg;
    struct error err = ERROR_INIT;
    error_set(&err, order->code, "%s", order->text ? order->text : "closed");
    carrier_core_break(order->core, &err);
    carrier_core_turn(order->core);
    free(order->text);
    free(order);
}

void carrier_close_qemu(struct carrier *carrier, enum error_code code,
                        const char *text)
{
    struct order *order = order_new(carrier);
    order->code = code;
    order->text = carrier_strdup(text);
    loop_post(carrier->data, close_qemu_cb, order);
}

void carrier_get_stats(struct carrier *carrier, struct carrier_stats *ret_stats)
{
    pthread_mutex_lock(&carrier->lock);
    *ret_stats = carrier->stats;
    pthread_mutex_unlock(&carrier->lock);
}
