// SPDX-License-Identifier: BSD-3-Clause
/* Endpoints: bytes, back-pressure and ends between a socket and a mux. Two
 * muxes are back to back; frames pass only when link() is called. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/endpoint.h"
#include "transport/frame.h"

#define MAIN 0
#define DEADLINE (20 * MP_SECOND)

struct side {
    struct mux *mux;
    struct endpoint ep;
    int qemu; /* the fake QEMU's end */
    uint64_t readable;
    uint64_t input_bytes, output_bytes;
    int input_ends, gones, fails;
    struct error gone;
    bool close_when_gone;
};

struct fixture {
    struct loop *loop;
    struct chunk_pool *pool;
    struct side side[2];
};

static void on_input(void *arg, struct endpoint *ep, const uint8_t *data,
                     size_t len_bytes)
{
    struct side *side = arg;
    side->input_bytes += len_bytes;
}

static void on_output(void *arg, struct endpoint *ep, const uint8_t *data,
                      size_t len_bytes)
{
    struct side *side = arg;
    side->output_bytes += len_bytes;
}

static void on_progress(void *arg, struct endpoint *ep, bool more)
{
}

static void on_input_end(void *arg, struct endpoint *ep)
{
    struct side *side = arg;
    side->input_ends++;
}

static void on_gone(void *arg, struct endpoint *ep, const struct error *err)
{
    struct side *side = arg;
    side->gones++;
    side->gone = *err;
    if (side->close_when_gone) {
        endpoint_close(ep);
    }
}

static void on_failed(void *arg, struct endpoint *ep, const struct error *err)
{
    fail_msg("endpoint failed: %s", err->text);
}

static const struct endpoint_ops ops = {
    .on_input = on_input,
    .on_output = on_output,
    .on_progress = on_progress,
    .on_input_end = on_input_end,
    .on_gone = on_gone,
    .on_failed = on_failed,
};

static void take_events(struct side *side)
{
    struct mux_event event;
    while (mux_next_event(side->mux, &event)) {
        if (event.type == MUX_EVENT_ROOM) {
            endpoint_room(&side->ep);
        } else if (event.type == MUX_EVENT_ENDED) {
            endpoint_peer_ended(&side->ep);
        }
    }
}

/* Moves what one mux has for a lane to the other. */
static void carry(struct side *from, struct side *to, enum wire_lane lane)
{
    struct mux_out out;
    struct frame frame;
    struct error err = ERROR_INIT;

    while (mux_take(from->mux, lane, clock_now(), &out)) {
        assert_int_equal(frame_decode(out.header, lane, &frame, &err), 0);
        if (mux_receive_header(to->mux, lane, &frame, clock_now(), &err) < 0) {
            fail_msg("%s", err.text);
        }
        if (out.payload_bytes > 0) {
            assert_int_equal(mux_receive_payload(to->mux, lane, out.payload,
                                                 out.payload_bytes, NULL, &err),
                             0);
        }
        chunk_unref(out.chunk);
    }
}

/* One exchange of frames, and what follows from it. */
static void link_up(struct fixture *f)
{
    for (int i = 0; i < 2; i++) {
        carry(&f->side[i], &f->side[!i], WIRE_LANE_EXPRESS);
        carry(&f->side[i], &f->side[!i], WIRE_LANE_BULK);
    }
    for (int i = 0; i < 2; i++) {
        take_events(&f->side[i]);
        endpoint_deliver(&f->side[i].ep);
        mux_turn_end(f->side[i].mux, clock_now());
        take_events(&f->side[i]);
    }
}

static void run_loop(struct fixture *f)
{
    for (int i = 0; i < 20; i++) {
        event_base_loop(loop_base(f->loop), EVLOOP_NONBLOCK);
    }
}

#define UNTIL(f, condition)                                                    \
    for (mp_time until = clock_now() + DEADLINE; !(condition);) {              \
        run_loop(f);                                                           \
        link_up(f);                                                            \
        if (clock_now() > until) {                                             \
            fail_msg("deadline passed, waiting for: %s", #condition);          \
        }                                                                      \
    }

static void open_side(struct fixture *f, int i, int type)
{
    struct side *side = &f->side[i];
    struct error err = ERROR_INIT;
    int fds[2];

    assert_int_equal(
        socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    side->qemu = fds[1];
    endpoint_init(&side->ep, f->loop, side->mux, f->pool, MAIN, WIRE_CLASS_MAIN,
                  i == 0, &ops, side);
    assert_int_equal(endpoint_open(&side->ep, fds[0], &err), 0);
}

static int set_up_type(void **state, int type)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct error err = ERROR_INIT;

    f->loop = loop_new("test", &err);
    f->pool = chunk_pool_new(ENDPOINT_CHUNK_BYTES, 4);
    for (int i = 0; i < 2; i++) {
        struct mux_config config;
        mux_config_default(&config, i == 0, 1 << 20);
        f->side[i].mux = mux_new(&config);
        assert_non_null(f->side[i].mux);
    }
    assert_int_equal(mux_open(f->side[0].mux, MAIN, WIRE_CLASS_MAIN, &err), 0);
    carry(&f->side[0], &f->side[1], WIRE_LANE_BULK);
    struct mux_event event;
    while (mux_next_event(f->side[1].mux, &event)) {
    }
    open_side(f, 0, SOCK_STREAM);
    open_side(f, 1, type);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_type(state, SOCK_STREAM);
}

/* At the destination each sendmsg() is one packet. */
static int set_up_packets(void **state)
{
    return set_up_type(state, SOCK_SEQPACKET);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        endpoint_close(&f->side[i].ep);
        if (f->side[i].qemu >= 0) {
            close(f->side[i].qemu);
        }
        mux_free(f->side[i].mux);
    }
    chunk_pool_free(f->pool);
    loop_free(f->loop);
    free(f);
    return 0;
}

static void close_qemu(struct side *side)
{
    close(side->qemu);
    side->qemu = -1;
}

/* Sends as much of len zero bytes as the socket takes. */
static size_t fill_socket(int fd, size_t len)
{
    static const char zeros[65536];
    size_t sent = 0;
    while (sent < len) {
        size_t part = len - sent < sizeof(zeros) ? len - sent : sizeof(zeros);
        ssize_t n = send(fd, zeros, part, MSG_NOSIGNAL);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            break;
        }
        sent += n;
    }
    return sent;
}

/* Reads and drops all there is. */
static size_t drain_socket(int fd)
{
    static char buf[1 << 20];
    size_t got = 0;
    ssize_t n;
    while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
        got += n;
    }
    return got;
}

static ssize_t try_recv(int fd, char *buf, size_t size)
{
    return recv(fd, buf, size, 0);
}

static void bytes_pass_both_ways(void **state)
{
    struct fixture *f = *state;
    char buf[16];

    assert_int_equal(send(f->side[0].qemu, "forward", 7, 0), 7);
    assert_int_equal(send(f->side[1].qemu, "back", 4, 0), 4);
    ssize_t n;
    UNTIL(f, (n = try_recv(f->side[1].qemu, buf, sizeof(buf))) > 0);
    assert_int_equal(n, 7);
    assert_memory_equal(buf, "forward", 7);
    UNTIL(f, (n = try_recv(f->side[0].qemu, buf, sizeof(buf))) > 0);
    assert_int_equal(n, 4);
    assert_memory_equal(buf, "back", 4);
    assert_int_equal(f->side[0].input_bytes, 7);
    assert_int_equal(f->side[0].output_bytes, 4);
}

static void reading_stops_without_room_and_goes_on_with_it(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];
    size_t sent = 0, got = 0;

    mux_set_phase(src->mux, MUX_PHASE_POSTCOPY);
    /* no link: what is taken stays in the mux */
    for (int i = 0; i < 50; i++) {
        sent += fill_socket(src->qemu, 1 << 20);
        run_loop(f);
    }
    assert_in_range(src->input_bytes, 1, 65536);
    assert_int_equal(mux_send_room(src->mux, MAIN), 0);
    assert_false(event_pending(src->ep.read_event, EV_READ, NULL));

    uint64_t total = 4 << 20;
    UNTIL(f, (sent += fill_socket(src->qemu, total - sent),
              got += drain_socket(dst->qemu), got == total));
    assert_int_equal(dst->output_bytes, total);
}

static void write_event_lives_only_while_qemu_does_not_read(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];
    size_t sent = 0, got = 0;
    uint64_t total = 1 << 20;

    UNTIL(f, (sent += fill_socket(src->qemu, total - sent),
              event_pending(dst->ep.write_event, EV_WRITE, NULL)));
    UNTIL(f, (sent += fill_socket(src->qemu, total - sent),
              got += drain_socket(dst->qemu), got == total));
    assert_false(event_pending(dst->ep.write_event, EV_WRITE, NULL));
}

static void write_limit_and_budget_are_kept(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];
    static char buf[1 << 20];
    struct endpoint_limits limits = {
        .read_bytes = 32768, .write_bytes = 16384, .budget_bytes = 65536};
    size_t sent = 0, got = 0, largest = 0;
    uint64_t total = 1 << 20;

    endpoint_set_limits(&dst->ep, &limits);
    while (got < total) {
        uint64_t before = dst->output_bytes;
        endpoint_deliver(&dst->ep);
        assert_true(dst->output_bytes - before <= 65536);
        sent += fill_socket(src->qemu, total - sent);
        run_loop(f);
        link_up(f);
        ssize_t n;
        while ((n = recv(dst->qemu, buf, sizeof(buf), 0)) > 0) {
            got += n;
            largest = (size_t)n > largest ? (size_t)n : largest;
        }
    }
    assert_int_equal(largest, 16384);
}

static void ends_pass_by_direction_and_close_when_both_have(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];
    char buf[16];
    ssize_t n;

    assert_int_equal(send(src->qemu, "last", 4, 0), 4);
    shutdown(src->qemu, SHUT_WR);
    UNTIL(f, (n = try_recv(dst->qemu, buf, sizeof(buf))) > 0);
    UNTIL(f, (n = try_recv(dst->qemu, buf, sizeof(buf))) >= 0);
    assert_int_equal(n, 0);
    assert_int_equal(src->input_ends, 1);
    assert_true(endpoint_is_open(&src->ep));
    assert_true(endpoint_is_open(&dst->ep));

    /* the other direction still carries */
    assert_int_equal(send(dst->qemu, "reply", 5, 0), 5);
    UNTIL(f, (n = try_recv(src->qemu, buf, sizeof(buf))) > 0);
    assert_int_equal(n, 5);
    close_qemu(dst);
    UNTIL(f, (n = try_recv(src->qemu, buf, sizeof(buf))) >= 0);
    assert_int_equal(n, 0);
    UNTIL(f, !endpoint_is_open(&src->ep) && !endpoint_is_open(&dst->ep));
    assert_int_equal(src->gones + dst->gones, 0);
}

static void a_full_close_is_told_from_a_half_close(void **state)
{
    struct fixture *f = *state;
    struct side *dst = &f->side[1];

    close_qemu(dst);
    UNTIL(f, dst->gones == 1);
    assert_int_equal(dst->input_ends, 0);
    assert_int_equal(dst->gone.code, ERR_QEMU_GONE);
    assert_non_null(strstr(dst->gone.text,
                           "destination QEMU closed its main channel after "
                           "writing 0 bytes to it"));
    assert_false(endpoint_is_open(&dst->ep)); /* it has no use */
}

/* AF_UNIX answers EPIPE although the last message waits to be read. */
static void last_message_survives_a_failed_write(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];
    char buf[16];
    ssize_t n;

    assert_int_equal(send(dst->qemu, "SHUT", 4, 0), 4);
    close_qemu(dst);
    assert_int_equal(send(src->qemu, "late", 4, 0), 4);
    run_loop(f); /* the source's bytes are taken ... */
    assert_int_equal(src->input_bytes, 4);
    carry(src, dst, WIRE_LANE_BULK);
    if (dst->gones == 0) {
        endpoint_deliver(&dst->ep);
    }
    assert_int_equal(dst->input_bytes, 4);
    assert_int_equal(dst->gones, 1);
    UNTIL(f, (n = try_recv(src->qemu, buf, sizeof(buf))) > 0);
    assert_memory_equal(buf, "SHUT", 4);
    UNTIL(f, (n = try_recv(src->qemu, buf, sizeof(buf))) == 0);
}

static void write_to_a_closed_socket_takes_input_first(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];

    assert_int_equal(send(src->qemu, "late", 4, 0), 4);
    run_loop(f);
    carry(src, dst, WIRE_LANE_BULK);
    assert_int_equal(send(dst->qemu, "SHUT", 4, 0), 4);
    close_qemu(dst);
    endpoint_deliver(&dst->ep); /* before the loop sees the end */
    assert_int_equal(dst->input_bytes, 4);
    assert_int_equal(dst->gones, 1);
    assert_int_equal(dst->output_bytes, 0);
}

static void a_reset_is_told(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];

    assert_int_equal(send(src->qemu, "unread", 6, 0), 6);
    UNTIL(f, dst->output_bytes == 6);
    close_qemu(dst);
    UNTIL(f, dst->gones == 1);
    assert_non_null(strstr(dst->gone.text, "Connection reset"));
}

static void discarded_output_counts_as_delivered(void **state)
{
    struct fixture *f = *state;
    struct side *src = &f->side[0], *dst = &f->side[1];
    size_t sent = 0;
    uint64_t total = 8 << 20;

    close_qemu(dst);
    UNTIL(f, dst->gones == 1);
    endpoint_discard(&dst->ep);
    UNTIL(f, (sent += fill_socket(src->qemu, total - sent), sent == total));
    UNTIL(f, src->input_bytes == total);
    shutdown(src->qemu, SHUT_WR);
    UNTIL(f, dst->ep.output_ended);
    assert_int_equal(dst->output_bytes, 0);
}

static void closing_inside_on_gone_is_safe(void **state)
{
    struct fixture *f = *state;
    struct side *dst = &f->side[1];

    dst->close_when_gone = true;
    close_qemu(dst);
    UNTIL(f, dst->gones == 1);
    assert_false(endpoint_is_open(&dst->ep));
    assert_false(dst->ep.input_ended); /* no END: its user knows better */
}

static void names_say_what_it_is(void **state)
{
    static const struct {
        enum wire_class class;
        uint16_t channel;
        const char *name;
    } cases[] = {
        {WIRE_CLASS_MAIN, 0, "main"},
        {WIRE_CLASS_PREEMPT, 1, "preempt"},
        {WIRE_CLASS_MULTIFD, 2, "multifd-0"},
        {WIRE_CLASS_MULTIFD, 13, "multifd-11"},
        {WIRE_CLASS_DISK, 40, "disk-40"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char name[16];
        endpoint_format_name(cases[i].class, cases[i].channel, name,
                             sizeof(name));
        assert_string_equal(name, cases[i].name);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_pass_both_ways),
        TEST(reading_stops_without_room_and_goes_on_with_it),
        TEST(write_event_lives_only_while_qemu_does_not_read),
        cmocka_unit_test_setup_teardown(write_limit_and_budget_are_kept,
                                        set_up_packets, tear_down),
        TEST(ends_pass_by_direction_and_close_when_both_have),
        TEST(a_full_close_is_told_from_a_half_close),
        TEST(last_message_survives_a_failed_write),
        TEST(write_to_a_closed_socket_takes_input_first),
        TEST(a_reset_is_told),
        TEST(discarded_output_counts_as_delivered),
        TEST(closing_inside_on_gone_is_safe),
        cmocka_unit_test(names_say_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
