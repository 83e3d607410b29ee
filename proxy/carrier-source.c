// SPDX-License-Identifier: BSD-3-Clause
/* The source's side of a carrier: QEMU's connections are accepted, labelled
 * and opened in the mux.
 *
 * Without multifd the order says which is which: main, then preempt. With
 * multifd main and multifd are told by their first bytes (QEMU
 * migration/savevm.c QEMU_VM_FILE_MAGIC, migration/multifd.c MultiFDInit_t);
 * once they are all there, one that says nothing is preempt. Channels are
 * opened main first, whatever came first: from 9.0 on main is silent until the
 * multifd channels are connected, and the destination's QEMU up to 7.2 takes
 * its first connection for main. */
#include "proxy/carrier-core.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/log.h"
#include "util/path.h"
#include "util/sock.h"

#define MAIN_MAGIC 0x5145564du /* "QEVM" */
#define MULTIFD_MAGIC 0x11223344u
#define MULTIFD_ID_AT 24 /* magic, version, UUID, then the id */
#define PEEK_BYTES 64    /* a whole multifd header */

#define PEEK_AGAIN (2 * MP_MS)     /* a header that came in pieces */
#define ACCEPT_PAUSE (100 * MP_MS) /* out of descriptors */

static void refuse(struct carrier_core *core, int fd, const char *why)
{
    carrier_log(core, LOG_LEVEL_WARNING, "closing a connection of QEMU's: %s",
                why);
    close(fd);
}

static void open_channel(struct carrier_core *core, uint16_t channel,
                         enum wire_class class, int fd)
{
    struct error err = ERROR_INIT;

    if (mux_open(core->mux, channel, class, &err) < 0) {
        close(fd);
        carrier_core_break(core, &err);
        return;
    }
    carrier_core_use_channel(core, channel, class);
    carrier_core_add_socket(core, channel, fd);
}

static void open_early(struct carrier_core *core)
{
    struct carrier_source early = core->in;

    core->in.early_count = 0; /* they have another owner now */
    for (unsigned i = 0; i < early.early_count; i++) {
        int fd = early.early[i].fd;
        if (core->life == CARRIER_OPEN) {
            open_channel(core, early.early[i].channel, WIRE_CLASS_MULTIFD, fd);
        } else {
            close(fd);
        }
    }
}

/* fd is main, preempt or multifd: opened now or, if it must not be first,
 * after main. Takes fd. */
static void label(struct carrier_core *core, uint16_t channel,
                  enum wire_class class, int fd)
{
    struct carrier_source *in = &core->in;

    if (in->has[channel]) {
        refuse(core, fd, "there is one of this kind already");
        return;
    }
    in->has[channel] = true;
    in->multifd_count += class == WIRE_CLASS_MULTIFD;
    if (class != WIRE_CLASS_MAIN && !in->has[CARRIER_MAIN]) {
        in->early[in->early_count].channel = channel;
        in->early[in->early_count++].fd = fd;
        return;
    }
    open_channel(core, channel, class, fd);
    if (class == WIRE_CLASS_MAIN) {
        open_early(core);
    }
}

/* By order, without multifd. Takes fd. */
static void label_by_order(struct carrier_core *core, int fd)
{
    if (!core->in.has[CARRIER_MAIN]) {
        label(core, CARRIER_MAIN, WIRE_CLASS_MAIN, fd);
    } else if (core->preempt && !core->in.has[CARRIER_PREEMPT]) {
        label(core, CARRIER_PREEMPT, WIRE_CLASS_PREEMPT, fd);
    } else {
        refuse(core, fd, "all channels of this migration are there");
    }
}

/* By first bytes, with multifd. ------------------------------------------ */

static void guest_free(struct carrier_guest *guest)
{
    if (guest->event) {
        event_free(guest->event);
    }
    loop_timer_done(&guest->timer);
    if (guest->fd >= 0) {
        close(guest->fd);
    }
    free(guest);
}

/* Takes the descriptor of a waiting connection and forgets it. */
static int take_guest(struct carrier_core *core, struct carrier_guest *guest)
{
    struct carrier_guest **at = &core->in.waiting;
    while (*at != guest) {
        at = &(*at)->next;
    }
    *at = guest->next;
    int fd = guest->fd;
    guest->fd = -1;
    guest_free(guest);
    return fd;
}

/* Main and multifd are all there: who says nothing is preempt. */
static void label_silent(struct carrier_core *core)
{
    struct carrier_source *in = &core->in;
    if (!core->preempt || in->has[CARRIER_PREEMPT] || !in->has[CARRIER_MAIN] ||
        in->multifd_count < core->multifd) {
        return;
    }
    for (struct carrier_guest *g = in->waiting; g; g = g->next) {
        if (g->silent) {
            label(core, CARRIER_PREEMPT, WIRE_CLASS_PREEMPT,
                  take_guest(core, g));
            return;
        }
    }
}

static uint32_t read_be32(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof(word));
    return ntohl(word);
}

/* Labels guest by what it said. False: more bytes are needed. */
static bool label_by_bytes(struct carrier_core *core,
                           struct carrier_guest *guest, const uint8_t *bytes,
                           size_t len_bytes)
{
    uint32_t magic = len_bytes >= 4 ? read_be32(bytes) : 0;

    if (len_bytes < 4 ||
        (magic == MULTIFD_MAGIC && len_bytes <= MULTIFD_ID_AT)) {
        return false;
    }
    int fd = take_guest(core, guest);
    if (magic == MAIN_MAGIC) {
        label(core, CARRIER_MAIN, WIRE_CLASS_MAIN, fd);
    } else if (magic != MULTIFD_MAGIC) {
        refuse(core, fd, "it begins neither as main nor as multifd");
    } else if (bytes[MULTIFD_ID_AT] >= core->multifd) {
        refuse(core, fd, "a multifd channel that was not announced");
    } else {
        label(core, CARRIER_MULTIFD + bytes[MULTIFD_ID_AT], WIRE_CLASS_MULTIFD,
              fd);
    }
    return true;
}

static void look_at(struct carrier_guest *guest)
{
    struct carrier_core *core = guest->core;
    uint8_t bytes[PEEK_BYTES];
    ssize_t n = recv(guest->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        refuse(core, take_guest(core, guest), "it ended without a word");
    } else {
        guest->silent = false;
        if (!label_by_bytes(core, guest, bytes, n)) {
            /* readable all the time now: look again by the clock */
            event_del(guest->event);
            loop_timer_start(&guest->timer, PEEK_AGAIN);
            return;
        }
    }
    label_silent(core);
    carrier_core_turn(core);
}

static void guest_cb(evutil_socket_t fd, short what, void *arg)
{
    look_at(arg);
}

static void guest_timer_cb(void *arg)
{
    struct carrier_guest *guest = arg;
    event_add(guest->event, NULL);
    look_at(guest);
}

static bool is_full(const struct carrier_core *core)
{
    unsigned waiting = 0;
    for (struct carrier_guest *g = core->in.waiting; g; g = g->next) {
        waiting++;
    }
    return waiting >= WIRE_CHANNELS;
}

/* Takes fd. */
static void wait_for_bytes(struct carrier_core *core, int fd)
{
    if (is_full(core)) {
        refuse(core, fd, "too many wait for their first bytes");
        return;
    }
    struct carrier_guest *guest = carrier_alloc(sizeof(*guest));
    guest->core = core;
    guest->fd = fd;
    guest->silent = true;
    loop_timer_init(&guest->timer, core->loop, guest_timer_cb, guest);
    guest->event = event_new(loop_base(core->loop), fd, EV_READ | EV_PERSIST,
                             guest_cb, guest);
    struct carrier_guest **at = &core->in.waiting;
    while (*at) {
        at = &(*at)->next;
    }
    *at = guest;
    if (!guest->event) {
        refuse(core, take_guest(core, guest), "out of memory");
        return;
    }
    event_add(guest->event, NULL);
    label_silent(core);
}

/* Accepting. ------------------------------------------------------------- */

static bool is_from_qemu(struct carrier_core *core, int fd)
{
    struct ucred cred;
    socklen_t size = sizeof(cred);

    if (core->in.qemu_pid == 0) {
        return true;
    }
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 &&
           cred.pid == core->in.qemu_pid;
}

static void accepted(struct carrier_core *core, int fd)
{
    if (!is_from_qemu(core, fd)) {
        refuse(core, fd, "it comes from another process than QEMU");
    } else if (core->life != CARRIER_OPEN) {
        carrier_drain_add(core, fd);
    } else if (core->multifd > 0) {
        wait_for_bytes(core, fd);
    } else {
        label_by_order(core, fd);
    }
}

static void accept_cb(evutil_socket_t listen_fd, short what, void *arg)
{
    struct carrier_core *core = arg;
    struct sock_address from;
    struct error err = ERROR_INIT;
    int fd;

    /* a broken one may have closed the listening socket in between */
    while (core->in.listen_fd >= 0 &&
           (fd = sock_accept(listen_fd, &from, &err)) >= 0) {
        accepted(core, fd);
    }
    if (error_is_set(&err) && core->in.event) {
        carrier_log(core, LOG_LEVEL_WARNING,
                    "waiting before accepting more of QEMU: %s", err.text);
        event_del(core->in.event);
        loop_timer_start(&core->in.pause, ACCEPT_PAUSE);
    }
    carrier_core_turn(core);
}

static void pause_cb(void *arg)
{
    struct carrier_core *core = arg;
    event_add(core->in.event, NULL);
}

void carrier_source_listen(struct carrier_core *core, int fd, char *path,
                           pid_t qemu_pid)
{
    struct carrier_source *in = &core->in;

    carrier_source_close(core);
    in->listen_fd = fd;
    in->path = path;
    in->qemu_pid = qemu_pid;
    if (core->life != CARRIER_OPEN) {
        carrier_source_close(core);
        return;
    }
    loop_timer_init(&in->pause, core->loop, pause_cb, core);
    in->event = event_new(loop_base(core->loop), fd, EV_READ | EV_PERSIST,
                          accept_cb, core);
    if (!in->event) {
        struct error err = ERROR_INIT;
        error_set(&err, ERR_NO_MEMORY, "listening for QEMU: out of memory");
        carrier_core_break(core, &err);
        return;
    }
    event_add(in->event, NULL);
}

void carrier_source_drain(struct carrier_core *core)
{
    struct carrier_source *in = &core->in;

    if (!in->has[CARRIER_MAIN]) {
        carrier_source_close(core); /* main may be one of them */
        return;
    }
    while (in->waiting) {
        carrier_drain_add(core, take_guest(core, in->waiting));
    }
    for (unsigned i = 0; i < in->early_count; i++) {
        carrier_drain_add(core, in->early[i].fd);
    }
    in->early_count = 0;
}

void carrier_source_close(struct carrier_core *core)
{
    struct carrier_source *in = &core->in;

    while (in->waiting) {
        close(take_guest(core, in->waiting));
    }
    for (unsigned i = 0; i < in->early_count; i++) {
        close(in->early[i].fd);
    }
    in->early_count = 0;
    if (in->event) {
        event_free(in->event);
        in->event = NULL;
    }
    loop_timer_done(&in->pause);
    if (in->listen_fd >= 0) {
        close(in->listen_fd);
        in->listen_fd = -1;
    }
    if (in->path) {
        path_remove_socket(in->path);
        free(in->path);
        in->path = NULL;
    }
}
