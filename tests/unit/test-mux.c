// SPDX-License-Identifier: BSD-3-Clause
/* Mux pairs in memory: conversations as text, and one property a test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/memlink.h"
#include "transport/flow.h"
#include "transport/sched.h"
#include "transport/window.h"

#define MAIN 0
#define PREEMPT 1
#define MULTIFD 2
#define DISK 10

#define MIB ((uint64_t)1 << 20)

/* Running. ---------------------------------------------------------------- */

/* Events of one end as text, and what it was given, per channel. */
struct end {
    char events[8192];
    uint8_t *got;
    size_t got_bytes[WIRE_CHANNELS];
    char text[WIRE_CHANNELS][256]; /* the first bytes delivered */
    bool deaf;                     /* delivers nothing */
    uint64_t drained, rooms;
    mp_time rtt[4];
};

struct pair {
    struct memlink *link;
    struct end end[2];
};

static void note_event(struct end *end, const struct mux_event *ev)
{
    static const char *const names[] = {"OPENED", "READABLE", "ENDED", "RESET",
                                        "ROOM",   "DRAINED",  "PONG"};
    size_t used = strlen(end->events);
    if (ev->type == MUX_EVENT_READABLE) {
        return;
    }
    if (ev->type == MUX_EVENT_DRAINED) {
        end->drained |= (uint64_t)1 << ev->channel;
        return;
    }
    if (ev->type == MUX_EVENT_ROOM) {
        end->rooms |= (uint64_t)1 << ev->channel;
        return;
    }
    if (ev->type == MUX_EVENT_PONG) {
        end->rtt[ev->lane] = ev->rtt;
        return;
    }
    snprintf(end->events + used, sizeof(end->events) - used, "%s%s %u/%u%s%s",
             used ? ", " : "", names[ev->type], ev->channel, ev->epoch,
             ev->type == MUX_EVENT_RESET ? " " : "",
             ev->type == MUX_EVENT_RESET ? ev->text : "");
}

static void deliver(struct mux *mux, struct end *end, uint16_t channel)
{
    struct iovec iov[8];
    int n;
    while ((n = mux_deliver_peek(mux, channel, iov, 8)) > 0) {
        size_t total = 0;
        for (int i = 0; i < n; i++) {
            size_t at = end->got_bytes[channel] + total;
            for (size_t j = 0; j < iov[i].iov_len && at + j < 255; j++) {
                end->text[channel][at + j] = ((char *)iov[i].iov_base)[j];
            }
            total += iov[i].iov_len;
        }
        end->got_bytes[channel] += total;
        mux_delivered(mux, channel, total);
    }
}

static void user(struct memlink *link, int which, void *arg)
{
    struct pair *pair = arg;
    struct mux *mux = memlink_mux(link, which);
    struct end *end = &pair->end[which];
    for (;;) {
        struct mux_event ev;
        for (uint16_t c = 0; c < WIRE_CHANNELS && !end->deaf; c++) {
            deliver(mux, end, c);
        }
        if (!mux_next_event(mux, &ev)) {
            return;
        }
        note_event(end, &ev);
    }
}

static struct memlink_config config_default(void)
{
    struct memlink_config config;
    memlink_config_default(&config);
    return config;
}

static struct pair *pair_new(const struct memlink_config *config)
{
    struct memlink_config usual = config_default();
    struct pair *pair = calloc(1, sizeof(*pair));
    pair->link = memlink_new(config ? config : &usual);
    memlink_set_user(pair->link, user, pair);
    return pair;
}

static void pair_free(struct pair *pair)
{
    memlink_free(pair->link);
    free(pair);
}

static void run(struct pair *pair)
{
    memlink_run(pair->link, memlink_now(pair->link) + 60 * MP_SECOND);
    if (error_is_set(memlink_error(pair->link))) {
        fail_msg("%s", memlink_error(pair->link)->text);
    }
}

static struct mux *mux_of(struct pair *pair, int end)
{
    return memlink_mux(pair->link, end);
}

static void open_channel(struct pair *pair, uint16_t channel,
                         enum wire_class class)
{
    struct error err = ERROR_INIT;
    if (mux_open(mux_of(pair, 0), channel, class, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void send_flags(struct pair *pair, int end, uint16_t channel,
                       const char *text, uint8_t flags, uint64_t after)
{
    struct error err = ERROR_INIT;
    struct chunk *chunk = chunk_new(strlen(text));
    memcpy(chunk->data, text, strlen(text));
    if (mux_send(mux_of(pair, end), channel, chunk, chunk->data, strlen(text),
                 flags, after, &err) < 0) {
        fail_msg("%s", err.text);
    }
    chunk_unref(chunk);
}

static void send_text(struct pair *pair, int end, uint16_t channel,
                      const char *text)
{
    send_flags(pair, end, channel, text, 0, 0);
}

static void send_urgent(struct pair *pair, const char *text, uint64_t after)
{
    struct error err = ERROR_INIT;
    struct chunk *chunk = chunk_new(strlen(text));
    memcpy(chunk->data, text, strlen(text));
    if (mux_send_urgent(mux_of(pair, 0), MAIN, chunk, chunk->data, strlen(text),
                        after, &err) < 0) {
        fail_msg("%s", err.text);
    }
    chunk_unref(chunk);
}

/* Conversations. ---------------------------------------------------------- */

static void conversation_one_channel_there_and_back(void **state)
{
    struct pair *pair = pair_new(NULL);
    memlink_trace(pair->link);
    open_channel(pair, MAIN, WIRE_CLASS_MAIN);
    send_text(pair, 0, MAIN, "hello");
    mux_end(mux_of(pair, 0), MAIN);
    run(pair);
    send_text(pair, 1, MAIN, "back");
    mux_end(mux_of(pair, 1), MAIN);
    run(pair);
    assert_string_equal(
        memlink_trace_text(pair->link),
        "> bulk OPEN ch=0 sub=0 ep=1 off=0 arg=1 len=0\n"
        "> bulk DATA ch=0 sub=0 ep=1 off=0 arg=0 len=5 flags=ACK\n"
        "> bulk END ch=0 sub=0 ep=1 off=5 arg=0 len=0\n"
        "< express ACK ch=0 sub=0 ep=1 off=5 arg=4194309 len=0\n"
        "< express ACK ch=0 sub=1 ep=1 off=0 arg=1048576 len=0\n"
        "< express DATA ch=0 sub=0 ep=1 off=0 arg=0 len=4\n"
        "< express END ch=0 sub=0 ep=1 off=4 arg=0 len=0\n"
        "> express ACK ch=0 sub=0 ep=1 off=4 arg=1048580 len=0\n");
    assert_string_equal(pair->end[1].events, "OPENED 0/1, ENDED 0/1");
    assert_string_equal(pair->end[0].events, "ENDED 0/1");
    assert_string_equal(pair->end[1].text[MAIN], "hello");
    assert_string_equal(pair->end[0].text[MAIN], "back");
    assert_int_equal(pair->end[0].drained, 1 << MAIN);
    pair_free(pair);
}

/* Urgent. ----------------------------------------------------------------- */

static void urgent_frame_goes_behind_the_bulk_it_names(void **state)
{
    struct pair *pair = pair_new(NULL);
    open_channel(pair, MAIN, WIRE_CLASS_MAIN);
    send_flags(pair, 0, MAIN, "aaaa", WIRE_FLAG_MERGE, 0);
    send_flags(pair, 0, MAIN, "bbbb", WIRE_FLAG_MERGE, 0);
    send_flags(pair, 0, MAIN, "cccc", WIRE_FLAG_MERGE, 0);
    send_urgent(pair, "URGENT", 8);
    send_flags(pair, 0, MAIN, "eof", 0, 1);
    mux_end(mux_of(pair, 0), MAIN);
    run(pair);
    assert_true(!strcmp(pair->end[1].text[MAIN], "aaaabbbbURGENTcccceof") ||
                !strcmp(pair->end[1].text[MAIN], "aaaabbbbccccURGENTeof"));
    assert_string_equal(pair->end[1].events, "OPENED 0/1, ENDED 0/1");
    pair_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent_frame_goes_behind_the_bulk_it_names),
        cmocka_unit_test(conversation_one_channel_there_and_back),
    };
    return cmocka_run_group_tests_name("mux", tests, NULL, NULL);
}
