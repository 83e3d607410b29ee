// SPDX-License-Identifier: BSD-3-Clause
/* What a byte costs: source -> unix socket -> lane -> unix socket -> sink, next
 * to a pair of stunnels in the same place. One JSON line each:
 *
 *   bench-lane [--gb N] [--rounds N] [--congestion NAME] [--batch BYTES]
 *              [--unpinned] [--lane-only]
 *
 * cpu_s_per_gb is user and system time of both proxies. Source and sender share
 * one core, receiver and sink the other. Only ratios within one run mean
 * anything. Runs in a network namespace of its own (needs root). */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/lanes.h"
#include "tests/lib/pki.h"

#define PIECE_BYTES (1 << 20) /* of source and sink */
#define STUNNEL_PORT 4433

static uint64_t total_bytes = 2000000000;
static size_t batch_bytes = 131072;
static bool is_pinned = true;
static size_t read_bytes = WIRE_DATA_MAX_BYTES;
static char *dir;

static void pin(int core)
{
    cpu_set_t set;

    if (is_pinned) {
        CPU_ZERO(&set);
        CPU_SET(core, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
}

/* Unix sockets. ------------------------------------------------------------
 */

static struct sockaddr_un unix_address(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, name);
    return address;
}

static int unix_listen(const char *name)
{
    struct sockaddr_un address = unix_address(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    unlink(address.sun_path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, 1) < 0) {
        err(1, "%s", address.sun_path);
    }
    return fd;
}

static int unix_connect(const char *name)
{
    struct sockaddr_un address = unix_address(name);

    for (int tries = 0; tries < 500; tries++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
            return fd;
        }
        close(fd);
        usleep(10000);
    }
    err(1, "%s", address.sun_path);
}

static void source(void)
{
    uint8_t *piece = calloc(1, PIECE_BYTES);
    int fd = unix_connect("in");

    for (uint64_t left = total_bytes; left > 0;) {
        ssize_t n = write(fd, piece, left < PIECE_BYTES ? left : PIECE_BYTES);
        if (n < 0) {
            err(1, "source");
        }
        left -= (uint64_t)n;
    }
    if (read(fd, piece, 1) < 0) {
        /* stays until the proxy goes: stunnel drops the rest at an end */
    }
}

/* Tells the seconds from the first byte to the last. */
static void sink(int listen_fd, int result_fd)
{
    uint8_t *piece = malloc(PIECE_BYTES);
    int fd = accept(listen_fd, NULL, NULL);
    mp_time start = 0;
    uint64_t got = 0;

    while (got < total_bytes) {
        ssize_t n = read(fd, piece, PIECE_BYTES);
        if (n <= 0) {
            errx(1, "sink: end after %llu bytes", (unsigned long long)got);
        }
        start = start ? start : clock_now();
        got += (uint64_t)n;
    }
    double seconds = (double)(clock_now() - start) / (double)MP_SECOND;
    if (write(result_fd, &seconds, sizeof(seconds)) < 0) {
        err(1, "sink");
    }
}

/* Our sender. --------------------------------------------------------------
 */

struct sender {
    struct lane *lane;
    struct loop *loop;
    struct chunk_pool *pool;
    struct event *readable;
    int fd;
    uint64_t sent_bytes;
    bool is_ended;
};

static void send_end(struct sender *s)
{
    struct frame frame = {
        .type = WIRE_END, .epoch = 1, .offset = s->sent_bytes};

    s->is_ended = true;
    event_del(s->readable);
    lane_send_frame(s->lane, &frame, NULL);
}

static void send_some(struct sender *s)
{
    while (!s->is_ended && lane_room(s->lane) > 0) {
        struct chunk *chunk = chunk_get(s->pool);
        uint8_t header[WIRE_HEADER_BYTES];
        ssize_t n = read(s->fd, chunk->data, read_bytes);
        if (n > 0) {
            struct frame frame = {.type = WIRE_DATA,
                                  .epoch = 1,
                                  .offset = s->sent_bytes,
                                  .length_bytes = (uint32_t)n};
            frame_encode(&frame, header);
            lane_send(s->lane, header, chunk->data, (size_t)n);
            s->sent_bytes += (uint64_t)n;
        }
        chunk_unref(chunk);
        if (s->sent_bytes == total_bytes) {
            send_end(s);
        } else if (n == 0) {
            errx(1, "sender: the source has gone");
        } else if (n < 0) {
            break;
        }
    }
    lane_flush(s->lane);
    if (!s->is_ended && lane_room(s->lane) == 0) {
        event_del(s->readable);
    }
}

static void readable_cb(evutil_socket_t fd, short what, void *arg)
{
    send_some(arg);
}

static void sender_on_room(void *arg)
{
    struct sender *s = arg;

    if (!s->is_ended) {
        event_add(s->readable, NULL);
        send_some(s);
    }
}

static void sender_on_hello(void *arg, const struct hello *theirs,
                            const struct tls_names *names)
{
    struct sender *s = arg;
    lane_set_batch(s->lane, batch_bytes);
}

static void stop_on_closed(void *arg, const struct error *e)
{
    struct sender *s = arg;

    if (!s->is_ended) {
        errx(1, "sender: %s", e->text);
    }
    loop_stop(s->loop);
}

static void no_frame(void *arg, const struct frame *frame)
{
}

static const struct lane_ops sender_ops = {.on_hello = sender_on_hello,
                                           .on_frame = no_frame,
                                           .on_room = sender_on_room,
                                           .on_closed = stop_on_closed};

static void send_through_lane(int in_fd, const struct sock_address *to,
                              struct lane_params *params)
{
    struct error e = ERROR_INIT;
    struct hello mine = lanes_hello(WIRE_LANE_BULK, "host-a");
    struct sender s = {.loop = loop_new("send", &e),
                       .pool = chunk_pool_new(131072, 4),
                       .fd = accept4(in_fd, NULL, NULL, SOCK_NONBLOCK)};

    params->tls = tls_load(pki_path(dir, "host-a"), &e);
    s.readable = event_new(loop_base(s.loop), s.fd, EV_READ | EV_PERSIST,
                           readable_cb, &s);
    s.lane = params->tls ? lane_connect(s.loop, to, "host-b", &mine, params,
                                        &sender_ops, &s, &e)
                         : NULL;
    if (!s.lane) {
        errx(1, "sender: %s", e.text);
    }
    loop_run(s.loop);
}

/* Our receiver. ------------------------------------------------------------
 */

#define MAX_PIECES 256

struct receiver {
    struct lane *lane;
    struct loop *loop;
    struct event *writable;
    int fd;
    struct hello mine;
    struct iovec pieces[MAX_PIECES];
    struct chunk *owners[MAX_PIECES];
    int count;
    bool is_ended;
};

static void receiver_on_hello(void *arg, const struct hello *theirs,
                              const struct tls_names *names)
{
    struct receiver *r = arg;
    struct error e = ERROR_INIT;

    if (lane_welcome(r->lane, &r->mine, &e) < 0) {
        errx(1, "receiver: %s", e.text);
    }
}

/* Takes n written bytes off the front. */
static void take_written(struct receiver *r, size_t n)
{
    int done = 0;

    while (done < r->count && n >= r->pieces[done].iov_len) {
        n -= r->pieces[done].iov_len;
        chunk_unref(r->owners[done++]);
    }
    r->count -= done;
    memmove(r->pieces, r->pieces + done,
            sizeof(r->pieces[0]) * (size_t)r->count);
    memmove(r->owners, r->owners + done,
            sizeof(r->owners[0]) * (size_t)r->count);
    if (n > 0) {
        r->pieces[0].iov_base = (uint8_t *)r->pieces[0].iov_base + n;
        r->pieces[0].iov_len -= n;
    }
}

static void deliver(struct receiver *r)
{
    while (r->count > 0) {
        ssize_t n = writev(r->fd, r->pieces, r->count);
        if (n < 0 && errno == EAGAIN) {
            lane_pause(r->lane, true);
            event_add(r->writable, NULL);
            return;
        }
        if (n < 0) {
            err(1, "receiver");
        }
        take_written(r, (size_t)n);
    }
    if (r->is_ended) {
        lane_close(r->lane);
        loop_stop(r->loop);
    } else {
        lane_pause(r->lane, false);
    }
}

static void writable_cb(evutil_socket_t fd, short what, void *arg)
{
    deliver(arg);
}

static void receiver_on_frame(void *arg, const struct frame *frame)
{
    struct receiver *r = arg;
    r->is_ended = frame->type == WIRE_END;
}

static void receiver_on_payload(void *arg, const uint8_t *data, size_t len,
                                struct chunk *owner, bool last)
{
    struct receiver *r = arg;

    if (r->count == MAX_PIECES) {
        errx(1, "receiver: more than %d pieces in a turn", MAX_PIECES);
    }
    r->pieces[r->count].iov_base = (void *)(uintptr_t)data;
    r->pieces[r->count].iov_len = len;
    r->owners[r->count++] = chunk_ref(owner);
}

static void receiver_on_turn(void *arg)
{
    deliver(arg);
}

static void receiver_on_room(void *arg)
{
}

static void receiver_on_closed(void *arg, const struct error *e)
{
    errx(1, "receiver: %s", e->text);
}

static const struct lane_ops receiver_ops = {.on_hello = receiver_on_hello,
                                             .on_frame = receiver_on_frame,
                                             .on_payload = receiver_on_payload,
                                             .on_turn = receiver_on_turn,
                                             .on_room = receiver_on_room,
                                             .on_closed = receiver_on_closed};

static void receive_through_lane(int tcp_fd, struct lane_params *params)
{
    static struct receiver r;
    struct error e = ERROR_INIT;
    struct sock_address from;

    params->tls = tls_load(pki_path(dir, "host-b"), &e);
    r.loop = loop_new("receive", &e);
    r.fd = unix_connect("out");
    fcntl(r.fd, F_SETFL, O_NONBLOCK);
    r.writable = event_new(loop_base(r.loop), r.fd, EV_WRITE, writable_cb, &r);
    r.mine = lanes_hello(WIRE_LANE_BULK, "host-b");
    r.lane = params->tls ? lane_accept(r.loop, lanes_accept(tcp_fd, &from),
                                       &from, params, &receiver_ops, &r, &e)
                         : NULL;
    if (!r.lane) {
        errx(1, "receiver: %s", e.text);
    }
    loop_run(r.loop);
}

/* Stunnel. -----------------------------------------------------------------
 */

static void exec_stunnel(bool client)
{
    char name[64], in[128], out[128], tcp[64];
    const char *host = client ? "host-a" : "host-b";
    const char *role = client ? "client" : "server";

    snprintf(tcp, sizeof(tcp), "127.0.0.1:%d", STUNNEL_PORT);
    snprintf(in, sizeof(in), "%s/in", dir);
    snprintf(out, sizeof(out), "%s/out", dir);
    snprintf(name, sizeof(name), "stunnel-%s.conf", role);
    FILE *file = fopen(pki_path(dir, name), "w");
    if (!file) {
        err(1, "%s", name);
    }
    fprintf(file,
            "foreground = yes\npid =\ndebug = err\nsslVersionMin = TLSv1.3\n"
            "ciphersuites = TLS_AES_128_GCM_SHA256\nverifyChain = yes\n"
            "CAfile = %s/%s/ca-cert.pem\ncert = %s/%s/%s-cert.pem\n"
            "key = %s/%s/%s-key.pem\n[pair]\nclient = %s\naccept = %s\n"
            "connect = %s\n",
            dir, host, dir, host, role, dir, host, role, client ? "yes" : "no",
            client ? in : tcp, client ? tcp : out);
    fclose(file);
    execlp("stunnel4", "stunnel4", pki_path(dir, name), (char *)NULL);
    err(1, "stunnel4");
}

/* Runs. --------------------------------------------------------------------
 */

static pid_t spawn(int core)
{
    pid_t pid = fork();

    if (pid < 0) {
        err(1, "fork");
    }
    if (pid == 0) {
        pin(core);
    }
    return pid;
}

/* Adds its context switches. */
static double cpu_seconds_of(pid_t pid, long *switches)
{
    struct rusage usage;
    int status;

    if (wait4(pid, &status, 0, &usage) != pid) {
        err(1, "wait4");
    }
    *switches += usage.ru_nvcsw + usage.ru_nivcsw;
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void run(bool is_stunnel, struct lane_params *params,
                const char *congestion)
{
    int result[2];
    long switches = 0;
    int out_fd = unix_listen("out"), in_fd = -1, tcp_fd = -1;
    struct sock_address address;
    double seconds;

    if (!is_stunnel) {
        in_fd = unix_listen("in");
        tcp_fd = lanes_listen(&address);
    } else {
        unlink(pki_path(dir, "in"));
    }
    pid_t receiver = spawn(1);
    if (receiver == 0) {
        if (is_stunnel) {
            exec_stunnel(false);
        }
        receive_through_lane(tcp_fd, params);
        _exit(0);
    }
    pid_t sender = spawn(0);
    if (sender == 0) {
        if (is_stunnel) {
            exec_stunnel(true);
        }
        send_through_lane(in_fd, &address, params);
        _exit(0);
    }
    if (is_stunnel) {
        sleep(1); /* no way to ask whether both listen */
    }
    if (pipe(result) < 0) {
        err(1, "pipe");
    }
    pid_t sink_pid = spawn(1);
    if (sink_pid == 0) {
        sink(out_fd, result[1]);
        _exit(0);
    }
    pid_t source_pid = spawn(0);
    if (source_pid == 0) {
        close(result[1]);
        source();
        _exit(0);
    }
    close(result[1]);
    if (read(result[0], &seconds, sizeof(seconds)) != sizeof(seconds)) {
        errx(1, "%s: the sink has failed", is_stunnel ? "stunnel" : "lane");
    }
    if (is_stunnel) {
        kill(sender, SIGTERM);
        kill(receiver, SIGTERM);
    }
    double cpu_send = cpu_seconds_of(sender, &switches);
    double cpu_receive = cpu_seconds_of(receiver, &switches);
    waitpid(sink_pid, NULL, 0);
    waitpid(source_pid, NULL, 0);
    double gb = (double)total_bytes / 1e9;
    printf("{\"path\":\"%s\",\"mb_per_s\":%.0f,\"cpu_s_per_gb\":%.3f,"
           "\"sender\":%.3f,\"receiver\":%.3f,\"switches_per_gb\":%.0f,"
           "\"pinned\":%s,\"congestion\":\"%s\"}\n",
           is_stunnel ? "stunnel" : "lane", gb * 1000 / seconds,
           (cpu_send + cpu_receive) / gb, cpu_send / gb, cpu_receive / gb,
           (double)switches / gb, is_pinned ? "true" : "false", congestion);
    fflush(stdout);
    close(result[0]);
    close(out_fd);
    close(in_fd);
    close(tcp_fd);
}

/* A network of our own, so that the congestion control is everybody's. */
static void enter_namespace(const char *congestion)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

    if (unshare(CLONE_NEWNET) < 0) {
        err(1, "a network namespace");
    }
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &lo) < 0) {
        err(1, "lo");
    }
    close(fd);
    fd = open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY);
    if (fd < 0 || write(fd, congestion, strlen(congestion)) < 0) {
        err(1, "congestion control %s", congestion);
    }
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"gb", required_argument, NULL, 'g'},
        {"rounds", required_argument, NULL, 'r'},
        {"congestion", required_argument, NULL, 'c'},
        {"batch", required_argument, NULL, 'b'},
        {"read", required_argument, NULL, 'R'},
        {"unpinned", no_argument, NULL, 'u'},
        {"lane-only", no_argument, NULL, 'l'},
        {0}};
    struct lane_params params = {.handshake_timeout = 10 * MP_SECOND};
    const char *congestion = "reno"; /* a namespace may use allowed ones
                                      * only; not timer-paced, as cubic */
    bool is_alone = false;
    int rounds = 3, option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'g':
            total_bytes = (uint64_t)(atof(optarg) * 1e9);
            break;
        case 'r':
            rounds = atoi(optarg);
            break;
        case 'c':
            congestion = optarg;
            break;
        case 'b':
            batch_bytes = (size_t)atol(optarg);
            break;
        case 'R':
            read_bytes = (size_t)atol(optarg);
            break;
        case 'l':
            is_alone = true;
            break;
        case 'u':
            is_pinned = false;
            break;
        default:
            return 2;
        }
    }
    enter_namespace(congestion);
    signal(SIGPIPE, SIG_IGN);
    dir = pki_new();
    pki_make(dir, "", "host-a host-b");
    for (int i = 0; i < rounds; i++) {
        if (!is_alone) {
            run(true, &params, congestion);
        }
        run(false, &params, congestion);
    }
    pki_free(dir);
    return 0;
}
