// SPDX-License-Identifier: BSD-3-Clause
/* Multifd sockets of a source QEMU whose path is broken.
 *
 * QEMU 7.2's multifd threads end without a word to the migration thread when
 * another of them has failed, and that may wait for them then: for good
 * (migration/multifd.c multifd_send_sync_main() and multifd_send_thread()). Its
 * migration stays "cancelling" or "setup", and its next "migrate" finds a
 * "duplicate yank instance". So only main breaks. What the others say is read
 * and dropped until QEMU itself closes them, or the carrier goes. */
#include "proxy/carrier-core.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/log.h"

#define READ_BYTES (64 * 1024)
#define READS_MAX 16 /* in an event: others want their turn */

struct carrier_drain {
    struct carrier_core *core;
    int fd;
    struct event *event;
    struct carrier_drain *next;
};

static void drain_free(struct carrier_drain *drain)
{
    if (drain->event) {
        event_free(drain->event);
    }
    close(drain->fd);
    free(drain);
}

static void drain_end(struct carrier_drain *drain)
{
    struct carrier_drain **at = &drain->core->drains;

    while (*at != drain) {
        at = &(*at)->next;
    }
    *at = drain->next;
    drain_free(drain);
}

static void drain_cb(evutil_socket_t fd, short what, void *arg)
{
    struct carrier_drain *drain = arg;
    uint8_t dropped[READ_BYTES];

    for (int i = 0; i < READS_MAX; i++) {
        ssize_t n = recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            drain_end(drain);
            return;
        }
        if (n < (ssize_t)sizeof(dropped)) {
            return;
        }
    }
}

void carrier_drain_add(struct carrier_core *core, int fd)
{
    struct carrier_drain *drain;

    if (fd < 0) {
        return;
    }
    drain = carrier_alloc(sizeof(*drain));
    drain->core = core;
    drain->fd = fd;
    drain->event = event_new(loop_base(core->loop), fd, EV_READ | EV_PERSIST,
                             drain_cb, drain);
    if (!drain->event) {
        carrier_log(core, LOG_LEVEL_WARNING,
                    "out of memory for the end of a multifd channel");
        drain_free(drain);
        return;
    }
    event_add(drain->event, NULL);
    drain->next = core->drains;
    core->drains = drain;
}

void carrier_drain_close(struct carrier_core *core)
{
    while (core->drains) {
        drain_end(core->drains);
    }
}
