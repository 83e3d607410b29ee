// SPDX-License-Identifier: BSD-3-Clause
/* Lanes under test. */
#include "tests/lib/lanes.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die(const char *what)
{
    fprintf(stderr, "lanes: %s\n", what);
    exit(99);
}

/* Payload: the byte at offset o of a stream is pattern[o % PATTERN_BYTES], with
 * a prime length, so that a shift shows. */
#define PATTERN_BYTES 1048573

static const uint8_t *pattern(void)
{
    static uint8_t *bytes;

    if (!bytes) {
        uint64_t x = 88172645463325252u;
        bytes = malloc(PATTERN_BYTES + WIRE_MESSAGE_MAX_BYTES);
        if (!bytes) {
            die("out of memory");
        }
        for (size_t i = 0; i < PATTERN_BYTES; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            bytes[i] = (uint8_t)(x >> 32);
        }
        memcpy(bytes + PATTERN_BYTES, bytes, WIRE_MESSAGE_MAX_BYTES);
    }
    return bytes;
}

bool lanes_are_slow(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "vgpreload");
}

struct hello lanes_hello(enum wire_lane kind, const char *name)
{
    struct hello h = {.version_min = WIRE_VERSION_MIN,
                      .version_max = WIRE_VERSION_MAX,
                      .lane = kind,
                      .has_token = kind != WIRE_LANE_CONTROL};

    snprintf(h.name, sizeof(h.name), "%s", name);
    memset(h.instance, name[0], sizeof(h.instance));
    if (h.has_token) {
        memset(h.token, 7, sizeof(h.token));
    }
    return h;
}

int lanes_listen(struct sock_address *ret_address)
{
    struct error err = ERROR_INIT;
    struct sock_address any;
    int fd = -1;

    if (sock_parse_address("127.0.0.1:0", 0, &any, &err) < 0) {
        struct sockaddr_in *in = (void *)&any.storage;
        if (sock_parse_address("127.0.0.1:1", 0, &any, &err) < 0) {
            die(err.text);
        }
        in->sin_port = 0;
    }
    fd = sock_listen(&any, 16, &err);
    if (fd < 0 || sock_get_local(fd, ret_address, &err) < 0) {
        die(err.text);
    }
    return fd;
}

int lanes_accept(int listen_fd, struct sock_address *ret_from)
{
    struct pollfd ready = {.fd = listen_fd, .events = POLLIN};
    struct error err = ERROR_INIT;

    if (poll(&ready, 1, 5000) != 1) {
        die("nobody connects within 5 s");
    }
    int fd = sock_accept(listen_fd, ret_from, &err);
    if (fd < 0) {
        die(err.text);
    }
    return fd;
}

void end_pump(struct end *end)
{
    while (end->sent_bytes < end->to_send_bytes && lane_room(end->lane) > 0) {
        uint64_t left = end->to_send_bytes - end->sent_bytes;
        uint32_t size =
            1 + (uint32_t)rand_r(&end->random) % end->max_frame_bytes;
        if (rand_r(&end->random) % 4 == 0) {
            size = 1 + size % 64; /* small ones among the large */
        }
        if (size > left) {
            size = (uint32_t)left;
        }
        struct frame frame = {.type = WIRE_DATA,
                              .epoch = 1,
                              .offset = end->sent_bytes,
                              .length_bytes = size};
        uint8_t header[WIRE_HEADER_BYTES];
        frame_encode(&frame, header);
        lane_send(end->lane, header,
                  pattern() + end->sent_bytes % PATTERN_BYTES, size);
        end->sent_bytes += size;
    }
    lane_flush(end->lane);
}

static void end_on_hello(void *arg, const struct hello *theirs,
                         const struct tls_names *names)
{
    struct end *end = arg;

    end->hellos++;
    end->theirs = *theirs;
    end->names = *names;
    if (end->refusal) {
        lane_refuse(end->lane, end->refusal, "refused");
        end->lane = NULL;
        return;
    }
    if (end->mine.version_max && !end->is_slow &&
        lane_welcome(end->lane, &end->mine, &end->err) < 0) {
        lane_refuse(end->lane, end->err.code, end->err.text);
        end->lane = NULL;
        return;
    }
    if (end->on_hello_hook) {
        end->on_hello_hook(end);
    }
}

static void end_on_frame(void *arg, const struct frame *frame)
{
    struct end *end = arg;

    end->frames++;
    end->frame = end->last = *frame;
    end->payload_at = 0;
    if (frame->type == WIRE_DATA && frame->offset != end->received_bytes) {
        end->is_damaged = true;
    }
    if (end->on_frame_hook) {
        end->on_frame_hook(end);
    }
}

static void end_on_payload(void *arg, const uint8_t *data, size_t len_bytes,
                           struct chunk *owner, bool last)
{
    struct end *end = arg;
    uint64_t at = end->frame.offset + end->payload_at;

    if (end->frame.type == WIRE_DATA) {
        if (memcmp(data, pattern() + at % PATTERN_BYTES, len_bytes) != 0 ||
            data < owner->data ||
            data + len_bytes > owner->data + owner->size_bytes) {
            end->is_damaged = true;
        }
        end->received_bytes += len_bytes;
    }
    end->payload_at += len_bytes;
    if (last != (end->payload_at == end->frame.length_bytes)) {
        end->is_damaged = true;
    }
    if (end->on_payload_hook) {
        end->on_payload_hook(end);
    }
}

static void end_on_turn(void *arg)
{
    struct end *end = arg;

    end->turns++;
    if (end->on_turn_hook) {
        end->on_turn_hook(end);
    }
}

static void end_on_room(void *arg)
{
    struct end *end = arg;

    end->rooms++;
    if (end->on_room_hook) {
        end->on_room_hook(end);
    }
    if (end->lane && end->to_send_bytes > 0) {
        end_pump(end);
    }
}

static void end_on_closed(void *arg, const struct error *err)
{
    struct end *end = arg;

    end->closings++;
    end->err = *err;
    end->lane = NULL;
}

const struct lane_ops end_ops = {
    .on_hello = end_on_hello,
    .on_frame = end_on_frame,
    .on_payload = end_on_payload,
    .on_turn = end_on_turn,
    .on_room = end_on_room,
    .on_closed = end_on_closed,
};

static void nothing_cb(void *arg)
{
}

void lanes_run(struct loop *loop, bool (*done)(void *arg), void *arg,
               double seconds, const char *what)
{
    mp_time until = clock_now() + (mp_time)(seconds * (double)MP_SECOND);
    struct loop_timer tick;

    loop_timer_init(&tick, loop, nothing_cb, NULL);
    while (!done(arg)) {
        if (clock_now() > until) {
            fprintf(stderr, "lanes: no %s within %.1f s\n", what, seconds);
            exit(99);
        }
        loop_timer_start(&tick, 20 * MP_MS);
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
    }
    loop_timer_done(&tick);
}

static bool is_open(void *arg)
{
    struct end **ends = arg;
    bool both = ends[0]->hellos && ends[1]->hellos;
    return both || ends[0]->closings || ends[1]->closings ||
           (ends[1]->hellos && (ends[1]->is_slow || !ends[1]->lane));
}

void lanes_pair(struct loop *loop, struct end *a, struct end *b,
                struct tls *tls_a, struct tls *tls_b, const char *identity,
                enum wire_lane kind, const struct lane_params *params)
{
    struct lane_params params_a = *params, params_b = *params;
    struct error err = ERROR_INIT;
    struct sock_address address, from;
    struct hello mine = lanes_hello(kind, "host-a");
    int listen_fd = lanes_listen(&address);

    params_a.tls = tls_a;
    params_b.tls = tls_b;
    b->mine = lanes_hello(kind, "host-b");
    a->loop = b->loop = loop;
    a->random = 1;
    b->random = 2;
    a->lane = lane_connect(loop, &address, identity, &mine, &params_a, &end_ops,
                           a, &err);
    if (!a->lane) {
        die(err.text);
    }
    b->lane = lane_accept(loop, lanes_accept(listen_fd, &from), &from,
                          &params_b, &end_ops, b, &err);
    close(listen_fd);
    if (!b->lane) {
        die(err.text);
    }
    struct end *ends[] = {a, b};
    lanes_run(loop, is_open, ends, 10, "HELLO from both");
}
