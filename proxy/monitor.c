// SPDX-License-Identifier: BSD-3-Clause
/* One QEMU's monitor, by path. */
#include "proxy/monitor.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "qmp/json-value.h"
#include "util/parse.h"

#define AGAIN_INTERVAL (50 * MP_MS)

/* 0: connected; 1: the listen queue is full; -1: failed. */
static int try_connect(struct monitor *monitor, struct error *err)
{
    const struct conf *conf = monitor->conf;
    struct qmp_params params = {.greeting_timeout = conf->qmp_greeting};

    errno = 0;
    int fd =
        path_connect_socket_of(monitor->path, conf->socket_dirs.items,
                               conf->socket_dirs.count, conf->qemu_user, err);
    if (fd < 0) {
        return errno == EAGAIN ? 1 : -1;
    }
    monitor->qmp =
        qmp_open(monitor->loop, fd, &params, monitor->ops, monitor->arg, err);
    if (!monitor->qmp) {
        close(fd);
        return -1;
    }
    return 0;
}

static void connect_again(void *arg)
{
    struct monitor *monitor = arg;
    struct error err = ERROR_INIT;
    char limit[32];
    int rc = try_connect(monitor, &err);

    if (rc == 1 && loop_now(monitor->loop) < monitor->give_up_at) {
        loop_timer_start(&monitor->again, AGAIN_INTERVAL);
        return;
    }
    if (rc == 1) {
        error_set(&err, ERR_MONITOR_BUSY,
                  "%s: others wait to be let in for %s; give this QEMU a "
                  "second -qmp",
                  monitor->path,
                  parse_format_duration(monitor->conf->qmp_greeting, limit,
                                        sizeof(limit)));
    }
    if (rc) {
        monitor->ops->on_closed(monitor->arg, &err);
    }
}

int monitor_open(struct monitor *monitor, struct loop *loop,
                 const struct conf *conf, const char *path,
                 const struct qmp_ops *ops, void *arg, struct error *err)
{
    memset(monitor, 0, sizeof(*monitor));
    if (path_check_socket(path, err)) {
        return -1;
    }
    monitor->loop = loop;
    monitor->conf = conf;
    monitor->ops = ops;
    monitor->arg = arg;
    json_value_copy_text(monitor->path, sizeof(monitor->path), path);
    monitor->give_up_at = loop_now(loop) + conf->qmp_greeting;
    loop_timer_init(&monitor->again, loop, connect_again, monitor);
    int rc = try_connect(monitor, err);
    if (rc == 1) {
        loop_timer_start(&monitor->again, AGAIN_INTERVAL);
        rc = 0;
    }
    if (rc) {
        monitor_close(monitor);
    }
    return rc;
}

void monitor_close(struct monitor *monitor)
{
    struct qmp *qmp = monitor->qmp;

    loop_timer_done(&monitor->again);
    monitor->qmp = NULL;
    qmp_close(qmp);
}
