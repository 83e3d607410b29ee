// SPDX-License-Identifier: BSD-3-Clause
/* One QEMU's monitor, by path: opened only inside [qemu] socket-dirs, tried
 * again while its listen queue is full. */
#ifndef PROXY_MONITOR_H
#define PROXY_MONITOR_H

#include <json-c/json.h>

#include "conf/conf.h"
#include "qmp/qmp.h"
#include "util/loop.h"
#include "util/path.h"

struct monitor {
    struct loop *loop;
    const struct conf *conf;
    char path[PATH_SOCKET_MAX + 1];
    const struct qmp_ops *ops;
    void *arg;
    struct qmp *qmp; /* NULL: not connected (yet, or any more) */
    struct loop_timer again;
    mp_time give_up_at;
};

/* Starts to connect to path. 0 and then, later, ops->on_ready or
 * ops->on_closed; or -1 with *err at once (the path is refused, nobody
 * listens). After on_closed the owner calls monitor_close(). */
int monitor_open(struct monitor *monitor, struct loop *loop,
                 const struct conf *conf, const char *path,
                 const struct qmp_ops *ops, void *arg, struct error *err);

/* Closes; open calls are called back with ERR_CANCELLED. On a zeroed or closed
 * monitor it does nothing. */
void monitor_close(struct monitor *monitor);

#endif
