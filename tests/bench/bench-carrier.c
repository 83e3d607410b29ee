// SPDX-License-Identifier: BSD-3-Clause
/* What carried bytes cost: one end of a carrier as a process of its own, and a
 * source and sink that measure whatever is between them. bench-carrier.sh
 * puts them together.
 *
 *   bench-carrier dest PORT-FILE TARGET-SOCKET PKI-DIR
 *   bench-carrier source PORT-FILE LISTEN-SOCKET PKI-DIR
 *   bench-carrier measure NAME IN-SOCKET OUT-SOCKET BYTES PID... */
#include <errno.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/carrier.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/path.h"
#include "util/sock.h"

#define WAIT_SECONDS 20 /* for the other processes to be there */

static void die(const char *what, const struct error *err)
{
    fprintf(stderr, "bench-carrier: %s: %s\n", what,
            err ? err->text : strerror(errno));
    exit(1);
}

/* One end of a carrier. -------------------------------------------------- */

struct end {
    struct loop *control, *data;
    struct tls *tls;
    struct carrier *carrier;
    bool source;
    int listen_fd;
    struct event *accept;
    struct lane *lane[2];
    int next; /* lane slot */
};

static void on_ready(void *arg)
{
}

static void on_path(void *arg, uint64_t seq, mp_time rtt)
{
}

static void on_broken(void *arg, const struct error *err)
{
    die("path broken", err);
}

static void on_finished(void *arg)
{
    struct end *end = arg;
    loop_stop(end->control);
}

static const struct carrier_ops carrier_ops = {
    .on_ready = on_ready,
    .on_path = on_path,
    .on_broken = on_broken,
    .on_finished = on_finished,
};

static struct hello make_hello(enum wire_lane kind)
{
    struct hello hello = {.version_min = WIRE_VERSION_MIN,
                          .version_max = WIRE_VERSION_MAX,
                          .lane = kind,
                          .has_token = true,
                          .name = "bench"};
    memset(hello.instance, 1, sizeof(hello.instance));
    memset(hello.token, 1, sizeof(hello.token));
    return hello;
}

struct arrival { /* a lane whose HELLO is awaited */
    struct end *end;
    struct lane *lane;
};

static void on_hello(void *arg, const struct hello *theirs,
                     const struct tls_names *names)
{
    struct arrival *a = arg;
    struct error err = ERROR_INIT;
    struct hello mine = make_hello(theirs->lane);

    if (!a->end->source && lane_welcome(a->lane, &mine, &err) < 0) {
        die("welcome", &err);
    }
    lane_detach(a->lane);
    carrier_add_lane(a->end->carrier, a->lane);
}

static void on_room(void *arg)
{
}

static void on_closed(void *arg, const struct error *err)
{
    die("lane", err);
}

static const struct lane_ops lane_ops = {
    .on_hello = on_hello,
    .on_room = on_room,
    .on_closed = on_closed,
};

static struct lane_params lane_params(struct end *end)
{
    return (struct lane_params){.tls = end->tls,
                                .congestion = getenv("BENCH_CONGESTION"),
                                .handshake_timeout = 10 * MP_SECOND};
}

static void accept_cb(evutil_socket_t fd, short what, void *arg)
{
    static struct arrival arrivals[2];
    struct end *end = arg;
    struct lane_params params = lane_params(end);
    struct sock_address from;
    struct error err = ERROR_INIT;
    int lane_fd = sock_accept(fd, &from, &err);

    if (lane_fd < 0 || end->next == 2) {
        return;
    }
    struct arrival *a = &arrivals[end->next++];
    a->end = end;
    a->lane =
        lane_accept(end->control, lane_fd, &from, &params, &lane_ops, a, &err);
    if (!a->lane) {
        die("accept", &err);
    }
}

static void dial(struct end *end, const char *address)
{
    static struct arrival arrivals[2];
    static const enum wire_lane kinds[2] = {WIRE_LANE_EXPRESS, WIRE_LANE_BULK};
    struct lane_params params = lane_params(end);
    struct sock_address to;
    struct error err = ERROR_INIT;

    if (sock_parse_address(address, 1, &to, &err) < 0) {
        die(address, &err);
    }
    for (int i = 0; i < 2; i++) {
        struct hello mine = make_hello(kinds[i]);
        arrivals[i].end = end;
        arrivals[i].lane = lane_connect(end->control, &to, "b", &mine, &params,
                                        &lane_ops, &arrivals[i], &err);
        if (!arrivals[i].lane) {
            die("connect", &err);
        }
    }
}

static void listen_peer(struct end *end, const char *port_file)
{
    struct sock_address address;
    struct error err = ERROR_INIT;
    char temporary[4096];

    sock_parse_address("127.0.0.1:1", 1, &address, &err);
    memset(address.storage.__ss_padding, 0, 2); /* any port */
    end->listen_fd = sock_listen(&address, 8, &err);
    if (end->listen_fd < 0 ||
        sock_get_local(end->listen_fd, &address, &err) < 0) {
        die("listen", &err);
    }
    end->accept = event_new(loop_base(end->control), end->listen_fd,
                            EV_READ | EV_PERSIST, accept_cb, end);
    event_add(end->accept, NULL);
    snprintf(temporary, sizeof(temporary), "%s.new", port_file);
    FILE *file = fopen(temporary, "w");
    if (!file || fprintf(file, "%s\n", address.text) < 0 || fclose(file) ||
        rename(temporary, port_file) < 0) {
        die(port_file, NULL);
    }
}

static void read_port(const char *port_file, char *text, size_t size)
{
    for (int i = 0; i < WAIT_SECONDS * 100; i++) {
        FILE *file = fopen(port_file, "r");
        if (file) {
            bool got = fgets(text, (int)size, file) != NULL;
            fclose(file);
            text[strcspn(text, "\n")] = '\0';
            if (got) {
                return;
            }
        }
        usleep(10000);
    }
    die(port_file, NULL);
}

static void start(struct end *end, const char *pki)
{
    struct error err = ERROR_INIT;
    struct carrier_params params = {
        .context = end->source ? "source" : "dest",
        .source = end->source,
        .switchover_buffer_bytes = 256 << 20,
        .ping_interval = MP_SECOND,
        .bandwidth_bytes_per_second = PARSE_UNLIMITED,
    };
    end->control = loop_new("control", &err);
    end->data = loop_new("data", &err);
    end->tls = tls_load(pki, &err);
    if (!end->control || !end->data || !end->tls ||
        loop_start_thread(end->data, &err) < 0) {
        die("start", &err);
    }
    params.control = end->control;
    params.data = end->data;
    end->carrier = carrier_new(&params, &carrier_ops, end, &err);
    if (!end->carrier) {
        die("carrier", &err);
    }
    carrier_set_phase(end->carrier, getenv("BENCH_POSTCOPY")
                                        ? MUX_PHASE_POSTCOPY
                                        : MUX_PHASE_PRECOPY);
}

static int run_end(bool source, const char *port_file, const char *path,
                   const char *pki)
{
    struct end end = {.source = source, .listen_fd = -1};
    struct error err = ERROR_INIT;
    char text[128];
    char *copy = strdup(path);
    char *dirs[] = {dirname(copy)};

    start(&end, pki);
    if (source) {
        int fd = path_listen_socket(path, 0600, -1, 8, &err);
        if (fd < 0) {
            die(path, &err);
        }
        carrier_listen(end.carrier, fd, path, 0);
        read_port(port_file, text, sizeof(text));
        dial(&end, text);
    } else {
        carrier_set_target(end.carrier, path, dirs, 1, PATH_OWNER_ROOT_OR_SELF,
                           WAIT_SECONDS * MP_SECOND);
        listen_peer(&end, port_file);
    }
    loop_run(end.control);
    pause(); /* the script reads the CPU time, then ends us */
    return 0;
}

/* The source and the sink. ----------------------------------------------- */

struct feed {
    const char *path;
    uint64_t total;
};

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    for (int i = 0; i < WAIT_SECONDS * 100; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
            return fd;
        }
        close(fd);
        usleep(10000);
    }
    die(path, NULL);
    return -1;
}

static void *feed_main(void *arg)
{
    struct feed *feed = arg;
    enum { BLOCK = 131072 };
    uint8_t *block = calloc(1, BLOCK);
    memcpy(block, "QEVM\0\0\0\3", 8);
    int fd = connect_unix(feed->path);

    for (uint64_t left = feed->total; left > 0;) {
        ssize_t n = send(fd, block, left < BLOCK ? left : BLOCK, MSG_NOSIGNAL);
        if (n < 0) {
            die("feed", NULL);
        }
        left -= n;
    }
    shutdown(fd, SHUT_WR);
    char byte;
    if (recv(fd, &byte, 1, 0) < 0) {
        die("feed", NULL);
    }
    close(fd);
    free(block);
    return NULL;
}

static double cpu_of_one(const char *pid)
{
    char path[64], text[1024];
    unsigned long user = 0, system = 0; /* with those of ended children */
    unsigned long child_user = 0, child_system = 0;
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof(text), file)) {
        die(path, NULL);
    }
    fclose(file);
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 2,
                      "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
                      "%lu %lu %lu %lu",
                      &user, &system, &child_user, &child_system) != 4) {
        die(path, NULL);
    }
    user += child_user;
    system += child_system;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Of a process and its children (socat forks). */
static double cpu_seconds(const char *pid)
{
    char path[64], child[16];
    double sum = cpu_of_one(pid);

    snprintf(path, sizeof(path), "/proc/%s/task/%s/children", pid, pid);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%15s", child) == 1) {
        sum += cpu_of_one(child);
    }
    if (file) {
        fclose(file);
    }
    return sum;
}

static uint64_t drain(int fd, mp_time *ret_first)
{
    enum { BLOCK = 262144 };
    uint8_t *block = malloc(BLOCK);
    uint64_t got = 0;
    ssize_t n;

    while ((n = recv(fd, block, BLOCK, 0)) > 0) {
        if (got == 0) {
            *ret_first = clock_now();
        }
        got += n;
    }
    free(block);
    return got;
}

static int measure(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct feed feed = {argv[3], strtoull(argv[5], NULL, 10)};
    double cpu[8] = {0}, sum = 0;
    pthread_t thread;
    mp_time first = 0;

    int listen_fd = path_listen_socket(argv[4], 0600, -1, 8, &err);
    if (listen_fd < 0) {
        die(argv[4], &err);
    }
    for (int i = 6; i < argc && i < 14; i++) {
        cpu[i - 6] = cpu_seconds(argv[i]);
    }
    pthread_create(&thread, NULL, feed_main, &feed);
    struct pollfd pfd = {.fd = listen_fd, .events = POLLIN};
    poll(&pfd, 1, WAIT_SECONDS * 1000);
    int fd = accept(listen_fd, NULL, NULL);
    if (fd < 0) {
        die("nobody came", NULL);
    }
    uint64_t got = drain(fd, &first);
    double seconds = (double)(clock_now() - first) / MP_SECOND;
    for (int i = 6; i < argc && i < 14; i++) { /* while they all live */
        cpu[i - 6] = cpu_seconds(argv[i]) - cpu[i - 6];
    }
    close(fd);
    pthread_join(thread, NULL);
    if (got != feed.total) {
        fprintf(stderr, "bench-carrier: %llu bytes came of %llu\n",
                (unsigned long long)got, (unsigned long long)feed.total);
        return 1;
    }
    double giga = (double)got / 1e9;
    printf("%-10s %6.0f MB/s  CPU s/GB", argv[2], giga * 1000 / seconds);
    for (int i = 6; i < argc && i < 14; i++) {
        sum += cpu[i - 6];
        printf(" %.3f", cpu[i - 6] / giga);
    }
    printf("  sum %.3f\n", sum / giga);
    path_remove_socket(argv[4]);
    return 0;
}

int main(int argc, char **argv)
{
    log_set_level(LOG_LEVEL_WARNING);
    if (argc == 5 && strcmp(argv[1], "source") == 0) {
        return run_end(true, argv[2], argv[3], argv[4]);
    }
    if (argc == 5 && strcmp(argv[1], "dest") == 0) {
        return run_end(false, argv[2], argv[3], argv[4]);
    }
    if (argc >= 6 && strcmp(argv[1], "measure") == 0) {
        return measure(argc, argv);
    }
    fprintf(stderr,
            "usage: bench-carrier source|dest PORT-FILE SOCKET PKI-DIR\n"
            "       bench-carrier measure NAME IN-SOCKET OUT-SOCKET BYTES "
            "PID...\n");
    return 2;
}
