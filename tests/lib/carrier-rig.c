// SPDX-License-Identifier: BSD-3-Clause
/* Two carriers with real lanes between them, and fake QEMUs to talk to. */
#include "tests/lib/carrier-rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/pki.h"
#include "util/parse.h"
#include "util/path.h"
#include "util/sock.h"

static unsigned descriptors_before;

unsigned rig_count_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

void rig_step(struct rig *rig, mp_time deadline, const char *what)
{
    event_base_loop(loop_base(rig->control), EVLOOP_NONBLOCK);
    if (clock_now() > deadline) {
        fail_msg("deadline passed, waiting for: %s", what);
    }
    usleep(100);
}

void rig_run(struct rig *rig, mp_time time)
{
    mp_time end = clock_now() + time;
    while (clock_now() < end) {
        rig_step(rig, end + RIG_DEADLINE, "the clock");
    }
}

/* What the carriers say. ------------------------------------------------- */

static void on_ready(void *arg)
{
    struct rig_side *side = arg;
    side->ready = true;
}

static void on_path(void *arg, uint64_t seq, mp_time rtt)
{
    struct rig_side *side = arg;
    side->path_seq = seq;
    side->path_rtt = rtt;
}

static void on_channel(void *arg, uint16_t channel, enum wire_class class)
{
    struct rig_side *side = arg;
    side->channels[side->channel_count++] = channel;
}

static void on_head(void *arg, const struct stream_head *head)
{
    struct rig_side *side = arg;
    side->head_count++;
    *side->head = *head;
}

static void on_broken(void *arg, const struct error *err)
{
    struct rig_side *side = arg;
    side->broken = true;
    side->broken_count++;
    side->why = *err;
}

static void on_finished(void *arg)
{
    struct rig_side *side = arg;
    side->finished = true;
    side->finished_count++;
}

static const struct carrier_ops carrier_ops = {
    .on_ready = on_ready,
    .on_path = on_path,
    .on_channel = on_channel,
    .on_head = on_head,
    .on_broken = on_broken,
    .on_finished = on_finished,
};

/* Lanes. ----------------------------------------------------------------- */

struct half { /* one end of one lane while it is made */
    struct lane *lane;
    bool accepted;
    bool ready;
};

static struct hello make_hello(enum wire_lane lane, const char *name)
{
    struct hello hello = {
        .version_min = WIRE_VERSION_MIN,
        .version_max = WIRE_VERSION_MAX,
        .lane = lane,
        .has_token = true,
    };
    snprintf(hello.name, sizeof(hello.name), "%s", name);
    memset(hello.instance, name[0], sizeof(hello.instance));
    memset(hello.token, 7, sizeof(hello.token));
    return hello;
}

static void on_hello(void *arg, const struct hello *theirs,
                     const struct tls_names *names)
{
    struct half *half = arg;
    struct error err = ERROR_INIT;
    if (half->accepted) {
        struct hello mine = make_hello(theirs->lane, "b");
        assert_int_equal(lane_welcome(half->lane, &mine, &err), 0);
    }
    half->ready = true;
}

static void on_early_close(void *arg, const struct error *err)
{
    fail_msg("a lane did not come up: %s", err->text);
}

static void on_room(void *arg)
{
}

static const struct lane_ops lane_ops = {
    .on_hello = on_hello,
    .on_room = on_room,
    .on_closed = on_early_close,
};

static int find_socket_to(const struct sock_address *address)
{
    struct sockaddr_storage peer;
    const struct sockaddr_in *want = (const void *)&address->storage;
    int found = -1;
    for (int fd = 3; fd < 1024; fd++) {
        socklen_t size = sizeof(peer);
        const struct sockaddr_in *have = (const void *)&peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
            peer.ss_family == AF_INET && have->sin_port == want->sin_port) {
            found = fd;
        }
    }
    return found;
}

static int accept_tcp(struct rig *rig, int listen_fd,
                      struct sock_address *ret_from)
{
    struct error err = ERROR_INIT;
    int fd;
    UNTIL(rig, (fd = sock_accept(listen_fd, ret_from, &err)) >= 0);
    return fd;
}

static void connect_lane(struct rig *rig, enum wire_lane kind)
{
    struct error err = ERROR_INIT;
    struct sock_address any, local, from;
    struct lane_params params[2] = {
        {.tls = rig->tls[SRC], .handshake_timeout = 20 * MP_SECOND},
        {.tls = rig->tls[DST], .handshake_timeout = 20 * MP_SECOND},
    };
    struct half half[2] = {{.accepted = false}, {.accepted = true}};
    struct hello mine = make_hello(kind, "a");

    assert_int_equal(sock_parse_address("127.0.0.1:1", 1, &any, &err), 0);
    ((struct sockaddr_in *)&any.storage)->sin_port = 0;
    int listen_fd = sock_listen(&any, 2, &err);
    assert_true(listen_fd >= 0);
    assert_int_equal(sock_get_local(listen_fd, &local, &err), 0);
    half[SRC].lane = lane_connect(rig->control, &local, "b", &mine,
                                  &params[SRC], &lane_ops, &half[SRC], &err);
    assert_non_null(half[SRC].lane);
    int fd = accept_tcp(rig, listen_fd, &from);
    half[DST].lane = lane_accept(rig->control, fd, &from, &params[DST],
                                 &lane_ops, &half[DST], &err);
    assert_non_null(half[DST].lane);
    UNTIL(rig, half[SRC].ready && half[DST].ready);
    rig->lane_fd[kind == WIRE_LANE_BULK] = find_socket_to(&local);
    close(listen_fd);
    for (int i = 0; i < 2; i++) {
        lane_detach(half[i].lane);
        carrier_add_lane(rig->side[i].carrier, half[i].lane);
    }
}

void rig_connect_lanes(struct rig *rig)
{
    connect_lane(rig, WIRE_LANE_EXPRESS);
    connect_lane(rig, WIRE_LANE_BULK);
}

/* Life. ------------------------------------------------------------------ */

static void load_tls(struct rig *rig)
{
    struct error err = ERROR_INIT;
    char path[4200];

    rig->pki = pki_new();
    pki_make(rig->pki, "", "a b");
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%c", rig->pki, "ab"[i]);
        rig->tls[i] = tls_load(path, &err);
        if (!rig->tls[i]) {
            fail_msg("%s", err.text);
        }
    }
}

void rig_listen_dst(struct rig *rig, int backlog)
{
    struct error err = ERROR_INIT;
    rig->dst_listen_fd =
        path_listen_socket(rig->dst_path, 0600, -1, backlog, &err);
    if (rig->dst_listen_fd < 0) {
        fail_msg("%s", err.text);
    }
}

static void start_side(struct rig *rig, int i, const struct rig_params *params)
{
    struct rig_side *side = &rig->side[i];
    struct error err = ERROR_INIT;
    struct carrier_params p = {
        .control = rig->control,
        .context = i == SRC ? "mig=test side=source" : "mig=test side=dest",
        .source = i == SRC,
        .preempt = params->preempt,
        .multifd = params->multifd,
        .switchover_buffer_bytes = params->switchover_buffer_bytes
                                       ? params->switchover_buffer_bytes
                                       : 8 << 20,
        .small_pages = i == SRC ? params->small_pages : NULL,
        .ping_interval = 50 * MP_MS,
        .bandwidth_bytes_per_second = params->bandwidth_bytes_per_second
                                          ? params->bandwidth_bytes_per_second
                                          : PARSE_UNLIMITED,
    };
    side->head = calloc(1, sizeof(*side->head));
    side->data = loop_new(i == SRC ? "data-src" : "data-dst", &err);
    p.data = side->data;
    assert_int_equal(loop_start_thread(side->data, &err), 0);
    side->carrier = carrier_new(&p, &carrier_ops, side, &err);
    assert_non_null(side->carrier);
}

struct rig *rig_new(const struct rig_params *params)
{
    struct error err = ERROR_INIT;
    struct rig *rig = calloc(1, sizeof(*rig));

    descriptors_before = rig_count_descriptors();
    rig->control = loop_new("control", &err);
    snprintf(rig->dir, sizeof(rig->dir), "/tmp/migproxy-carrier-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    snprintf(rig->src_path, sizeof(rig->src_path), "%s/src.sock", rig->dir);
    snprintf(rig->dst_path, sizeof(rig->dst_path), "%s/dst.sock", rig->dir);
    rig->dst_listen_fd = -1;
    load_tls(rig);
    start_side(rig, SRC, params);
    start_side(rig, DST, params);
    int listen_fd = path_listen_socket(rig->src_path, 0600, -1, 128, &err);
    assert_true(listen_fd >= 0);
    carrier_listen(rig->side[SRC].carrier, listen_fd, rig->src_path,
                   params->qemu_pid);
    if (!params->no_dst_listen) {
        rig_listen_dst(rig, params->dst_backlog ? params->dst_backlog : 8);
    }
    char *dirs[] = {rig->dir};
    carrier_set_target(
        rig->side[DST].carrier, rig->dst_path, dirs, 1, PATH_OWNER_ROOT_OR_SELF,
        params->connect_timeout ? params->connect_timeout : 5 * MP_SECOND);
    if (!params->no_lanes) {
        rig_connect_lanes(rig);
        UNTIL(rig, rig->side[SRC].ready && rig->side[DST].ready);
    }
    return rig;
}

void rig_free_carrier(struct rig *rig, int side, const char *why)
{
    struct error err = ERROR_INIT;

    if (why) {
        error_set(&err, ERR_CANCELLED, "%s", why);
    }
    carrier_free(rig->side[side].carrier, why ? &err : NULL);
    rig->side[side].carrier = NULL;
}

void rig_free(struct rig *rig)
{
    for (int i = 0; i < 2; i++) {
        rig_free_carrier(rig, i, NULL);
    }
    rig_run(rig, 20 * MP_MS);
    for (int i = 0; i < 2; i++) {
        loop_stop(rig->side[i].data);
        loop_join_thread(rig->side[i].data);
        loop_free(rig->side[i].data);
        free(rig->side[i].head);
        tls_unref(rig->tls[i]);
    }
    assert_int_equal(access(rig->src_path, F_OK), -1);
    if (rig->dst_listen_fd >= 0) {
        close(rig->dst_listen_fd);
    }
    loop_free(rig->control);
    unlink(rig->dst_path);
    assert_int_equal(rmdir(rig->dir), 0);
    pki_free(rig->pki);
    free(rig);
    assert_int_equal(rig_count_descriptors(), descriptors_before);
}

/* Fake QEMUs. ------------------------------------------------------------ */

int qemu_connect(struct rig *rig)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, rig->src_path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)),
                     0);
    evutil_make_socket_nonblocking(fd);
    return fd;
}

bool qemu_has_connection(struct rig *rig)
{
    struct pollfd pfd = {.fd = rig->dst_listen_fd, .events = POLLIN};
    return poll(&pfd, 1, 0) == 1;
}

int qemu_accept(struct rig *rig)
{
    int fd;
    UNTIL(rig, (fd = accept4(rig->dst_listen_fd, NULL, NULL,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    return fd;
}

void qemu_send(struct rig *rig, int fd, const void *data, size_t len_bytes)
{
    const char *at = data;
    while (len_bytes > 0) {
        ssize_t n;
        UNTIL(rig, (n = send(fd, at, len_bytes, MSG_NOSIGNAL)) > 0 ||
                       (n < 0 && errno != EAGAIN));
        if (n < 0) {
            fail_msg("fake QEMU cannot send: %s", strerror(errno));
        }
        at += n;
        len_bytes -= n;
    }
}

void qemu_recv(struct rig *rig, int fd, void *data, size_t len_bytes)
{
    char *at = data;
    while (len_bytes > 0) {
        ssize_t n;
        UNTIL(rig, (n = recv(fd, at, len_bytes, 0)) >= 0 || errno != EAGAIN);
        if (n <= 0) {
            fail_msg("fake QEMU misses %zu bytes: %s", len_bytes,
                     n == 0 ? "end" : strerror(errno));
        }
        at += n;
        len_bytes -= n;
    }
}

bool qemu_recv_end(struct rig *rig, int fd)
{
    char buf[65536];
    ssize_t n;
    do {
        UNTIL(rig, (n = recv(fd, buf, sizeof(buf), 0)) >= 0 || errno != EAGAIN);
    } while (n > 0);
    return n == 0;
}

void qemu_send_main_header(struct rig *rig, int fd)
{
    qemu_send(rig, fd, "QEVM\0\0\0\3", 8);
}

void qemu_send_multifd_header(struct rig *rig, int fd, uint8_t id)
{
    uint8_t header[64] = {0x11, 0x22, 0x33, 0x44, 0, 0, 0, 1};
    header[24] = id;
    qemu_send(rig, fd, header, sizeof(header));
}

static void send_message(struct rig *rig, int fd, uint8_t type, uint32_t value)
{
    uint8_t message[8] = {0, type, 0, 4};
    uint32_t be = htonl(value);
    memcpy(message + 4, &be, 4);
    qemu_send(rig, fd, message, sizeof(message));
}

void qemu_send_pong(struct rig *rig, int fd, uint32_t value)
{
    send_message(rig, fd, 2, value);
}

void qemu_send_shut(struct rig *rig, int fd, uint32_t status)
{
    send_message(rig, fd, 1, status);
}

/* Flows. ----------------------------------------------------------------- */

/* Byte at of the pattern: repeats after a prime number of bytes. */
static uint8_t pattern(uint32_t seed, uint64_t at)
{
    return (uint8_t)((at % 65521) * 31 + (at / 65521) * 7 + seed);
}

static void fill(uint8_t *buf, uint32_t seed, uint64_t at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        buf[i] = pattern(seed, at + i);
    }
}

static void flow_send(struct rig_flow *f)
{
    uint8_t buf[65536];
    uint64_t left = f->total_bytes - f->sent_bytes;
    size_t len = left < sizeof(buf) ? left : sizeof(buf);

    if (len == 0) {
        return;
    }
    fill(buf, f->seed, f->sent_bytes, len);
    ssize_t n = send(f->from, buf, len, MSG_NOSIGNAL);
    if (n > 0) {
        f->sent_bytes += n;
    } else if (n < 0 && errno != EAGAIN) {
        fail_msg("flow %u cannot send: %s", f->seed, strerror(errno));
    }
}

static void flow_recv(struct rig_flow *f)
{
    uint8_t buf[65536], want[65536];
    uint64_t left = f->total_bytes - f->received_bytes;
    size_t len = left < sizeof(buf) ? left : sizeof(buf);

    if (f->read_bytes_per_step && len > f->read_bytes_per_step) {
        len = f->read_bytes_per_step;
    }
    if (len == 0) {
        return;
    }
    ssize_t n = recv(f->to, buf, len, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        fail_msg("flow %u cannot receive: %s", f->seed,
                 n == 0 ? "end" : strerror(errno));
    }
    if (n > 0) {
        fill(want, f->seed, f->received_bytes, n);
        assert_memory_equal(buf, want, n);
        f->received_bytes += n;
    }
}

static bool flows_done(const struct rig_flow *flows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (flows[i].received_bytes < flows[i].total_bytes) {
            return false;
        }
    }
    return true;
}

void rig_flow(struct rig *rig, struct rig_flow *flows, size_t count)
{
    mp_time deadline = clock_now() + 4 * RIG_DEADLINE;
    while (!flows_done(flows, count)) {
        for (size_t i = 0; i < count; i++) {
            flow_send(&flows[i]);
            flow_recv(&flows[i]);
        }
        event_base_loop(loop_base(rig->control), EVLOOP_NONBLOCK);
        if (clock_now() > deadline) {
            fail_msg("deadline passed, waiting for flows");
        }
    }
}

/* Channels and results. ------------------------------------------------ */

struct main_ends connect_main(struct rig *rig)
{
    struct main_ends m;
    char buf[8];

    m.src = qemu_connect(rig);
    qemu_send_main_header(rig, m.src);
    m.dst = qemu_accept(rig);
    qemu_recv(rig, m.dst, buf, 8);
    assert_memory_equal(buf, "QEVM\0\0\0\3", 8);
    return m;
}

struct main_ends connect_main_with_return_path(struct rig *rig)
{
    struct main_ends m = connect_main(rig);
    char buf[8];

    qemu_send_pong(rig, m.dst, 1);
    qemu_recv(rig, m.src, buf, 8);
    assert_memory_equal(buf, "\0\2\0\4\0\0\0\1", 8);
    return m;
}

struct main_ends connect_next(struct rig *rig)
{
    struct main_ends m;
    m.src = qemu_connect(rig);
    m.dst = qemu_accept(rig);
    return m;
}

void close_both(struct main_ends m)
{
    close(m.src);
    close(m.dst);
}

void rig_get_stats(struct rig *rig, int side, struct carrier_stats *stats)
{
    rig_run(rig, 60 * MP_MS);
    carrier_get_stats(rig->side[side].carrier, stats);
}

void assert_broken_alike(struct rig *rig, const char *text)
{
    UNTIL(rig, rig->side[SRC].broken && rig->side[DST].broken);
    assert_string_equal(rig->side[SRC].why.text, rig->side[DST].why.text);
    assert_int_equal(rig->side[SRC].why.code, rig->side[DST].why.code);
    if (!strstr(rig->side[SRC].why.text, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, rig->side[SRC].why.text);
    }
    assert_int_equal(rig->side[SRC].broken_count, 1);
    assert_int_equal(rig->side[DST].broken_count, 1);
    assert_false(rig->side[SRC].finished || rig->side[DST].finished);
}

void assert_finished(struct rig *rig)
{
    UNTIL(rig, rig->side[SRC].finished && rig->side[DST].finished);
    assert_false(rig->side[SRC].broken || rig->side[DST].broken);
    assert_int_equal(rig->side[SRC].finished_count, 1);
    assert_int_equal(rig->side[DST].finished_count, 1);
}
