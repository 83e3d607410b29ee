// SPDX-License-Identifier: BSD-3-Clause
/* Two users on a memlink. */
#include "tests/lib/muxpair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ZEROS_BYTES (1u << 20)

static void note_event(struct muxpair_end *end, const struct mux_event *ev)
{
    static const char *const names[] = {"OPENED", "READABLE", "ENDED", "RESET",
                                        "ROOM",   "DRAINED",  "PONG"};
    size_t used = strlen(end->events);
    uint64_t bit = (uint64_t)1 << ev->channel;
    switch (ev->type) {
    case MUX_EVENT_READABLE:
        return;
    case MUX_EVENT_DRAINED:
        end->drained |= bit;
        return;
    case MUX_EVENT_ROOM:
        end->rooms |= bit;
        return;
    case MUX_EVENT_PONG:
        end->rtt[ev->lane] = ev->rtt;
        return;
    case MUX_EVENT_OPENED:
    case MUX_EVENT_ENDED:
    case MUX_EVENT_RESET:
        break;
    }
    snprintf(end->events + used, sizeof(end->events) - used, "%s%s %u/%u%s%s",
             used ? ", " : "", names[ev->type], ev->channel, ev->epoch,
             ev->type == MUX_EVENT_RESET ? " " : "",
             ev->type == MUX_EVENT_RESET ? ev->text : "");
}

static void keep_text(struct muxpair_end *end, uint16_t channel, uint64_t at,
                      const struct iovec *iov)
{
    for (size_t i = 0; i < iov->iov_len && at + i < MUXPAIR_TEXT_BYTES - 1;
         i++) {
        end->text[channel][at + i] = ((char *)iov->iov_base)[i];
    }
}

static void deliver(struct mux *mux, struct muxpair_end *end, uint16_t channel)
{
    struct iovec iov[8];
    int n;
    while ((n = mux_deliver_peek(mux, channel, iov, 8)) > 0) {
        size_t total = 0;
        for (int i = 0; i < n; i++) {
            keep_text(end, channel, end->got_bytes[channel] + total, &iov[i]);
            total += iov[i].iov_len;
        }
        end->got_bytes[channel] += total;
        mux_delivered(mux, channel, total);
    }
}

static void send_greedy(struct muxpair *pair, int which, uint16_t channel)
{
    struct muxpair_end *end = &pair->end[which];
    struct mux *mux = memlink_mux(pair->link, which);
    while (mux_send_room(mux, channel) > 0) {
        size_t len = end->greedy_bytes;
        if (mux_send(mux, channel, pair->zeros, pair->zeros->data, len,
                     end->greedy_flags, 0, NULL) < 0) {
            return;
        }
        end->sent_bytes[channel] += len;
    }
}

static void user(struct memlink *link, int which, void *arg)
{
    struct muxpair *pair = arg;
    struct mux *mux = memlink_mux(link, which);
    struct muxpair_end *end = &pair->end[which];
    struct mux_event ev;
    bool told = true;
    while (told) {
        for (uint16_t c = 0; c < WIRE_CHANNELS; c++) {
            if (!(end->deaf >> c & 1)) {
                deliver(mux, end, c);
            }
            if (end->greedy >> c & 1) {
                send_greedy(pair, which, c);
            }
        }
        told = mux_next_event(mux, &ev);
        if (told) {
            note_event(end, &ev);
        }
    }
}

struct muxpair *muxpair_new(const struct memlink_config *config)
{
    struct memlink_config usual;
    struct muxpair *pair = calloc(1, sizeof(*pair));
    memlink_config_default(&usual);
    pair->zeros = chunk_new(ZEROS_BYTES);
    memset(pair->zeros->data, 0, ZEROS_BYTES);
    pair->link = memlink_new(config ? config : &usual);
    memlink_set_user(pair->link, user, pair);
    pair->end[0].greedy_bytes = pair->end[1].greedy_bytes = 65536;
    return pair;
}

void muxpair_free(struct muxpair *pair)
{
    memlink_free(pair->link);
    chunk_unref(pair->zeros);
    free(pair);
}

void muxpair_run_for(struct muxpair *pair, mp_time time)
{
    memlink_run(pair->link, memlink_now(pair->link) + time);
    if (error_is_set(memlink_error(pair->link))) {
        fail_msg("%s", memlink_error(pair->link)->text);
    }
}

void muxpair_run(struct muxpair *pair)
{
    muxpair_run_for(pair, 3600 * MP_SECOND);
}

struct mux *muxpair_mux(struct muxpair *pair, int end)
{
    return memlink_mux(pair->link, end);
}

struct mux_channel_stats muxpair_stats(struct muxpair *pair, int end,
                                       uint16_t channel)
{
    struct mux_channel_stats stats;
    mux_get_channel_stats(muxpair_mux(pair, end), channel, &stats);
    return stats;
}

void muxpair_open(struct muxpair *pair, uint16_t channel, enum wire_class class)
{
    struct error err = ERROR_INIT;
    if (mux_open(muxpair_mux(pair, 0), channel, class, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static struct chunk *text_chunk(const char *text)
{
    struct chunk *chunk = chunk_new(strlen(text));
    memcpy(chunk->data, text, strlen(text));
    return chunk;
}

void muxpair_send_flags(struct muxpair *pair, int end, uint16_t channel,
                        const char *text, uint8_t flags, uint64_t after)
{
    struct error err = ERROR_INIT;
    struct chunk *chunk = text_chunk(text);
    if (mux_send(muxpair_mux(pair, end), channel, chunk, chunk->data,
                 strlen(text), flags, after, &err) < 0) {
        fail_msg("%s", err.text);
    }
    chunk_unref(chunk);
}

void muxpair_send(struct muxpair *pair, int end, uint16_t channel,
                  const char *text)
{
    muxpair_send_flags(pair, end, channel, text, 0, 0);
}

void muxpair_send_urgent(struct muxpair *pair, const char *text, uint64_t after)
{
    struct error err = ERROR_INIT;
    struct chunk *chunk = text_chunk(text);
    if (mux_send_urgent(muxpair_mux(pair, 0), MAIN, chunk, chunk->data,
                        strlen(text), after, &err) < 0) {
        fail_msg("%s", err.text);
    }
    chunk_unref(chunk);
}

void muxpair_send_bytes(struct muxpair *pair, int end, uint16_t channel,
                        uint64_t bytes)
{
    struct error err = ERROR_INIT;
    while (bytes > 0) {
        size_t n = bytes < ZEROS_BYTES ? (size_t)bytes : ZEROS_BYTES;
        if (mux_send(muxpair_mux(pair, end), channel, pair->zeros,
                     pair->zeros->data, n, 0, 0, &err) < 0) {
            fail_msg("%s", err.text);
        }
        bytes -= n;
    }
}
