// SPDX-License-Identifier: BSD-3-Clause
/* Two muxes back to back. */
#include "tests/lib/memlink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/list.h"

#define LANES 2
#define SEGMENT_BYTES 16384
#define RECEIVE_CHUNK_BYTES 65536

static const enum wire_lane lane_kinds[LANES] = {WIRE_LANE_EXPRESS,
                                                 WIRE_LANE_BULK};

/* Bytes on their way. */
struct segment {
    struct list link;
    mp_time arrives_at;
    size_t len;
    uint8_t data[];
};

/* One lane, one direction. */
struct pipe {
    uint8_t *unsent; /* taken from the mux, not yet on the link */
    size_t unsent_bytes, unsent_capacity;
    struct list under_way; /* of struct segment */
    struct frame_decoder decoder;
    struct chunk *chunk; /* arriving bytes are put here */
    size_t chunk_used;
};

struct direction {
    struct pipe pipes[LANES];
    mp_time busy_until;
    uint64_t under_way_bytes;
};

struct memlink {
    struct memlink_config config;
    struct mux *mux[2];
    struct direction to[2]; /* by the end it leads to */
    struct chunk_pool *chunks;
    mp_time now;
    uint32_t random;
    struct error error;
    memlink_user *user;
    void *user_arg;
    bool trace;
    char *text;
    size_t text_bytes, text_capacity;
};

uint32_t memlink_random(uint32_t *state)
{
    uint32_t x = *state ? *state : 0x9e3779b9;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *state = x;
    return x;
}

void memlink_config_default(struct memlink_config *config)
{
    *config = (struct memlink_config){.batch_bytes = 131072};
    mux_config_default(&config->mux[MEMLINK_OPENER], true, 16u << 20);
    mux_config_default(&config->mux[MEMLINK_OTHER], false, 16u << 20);
}

static void *check_memory(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

struct memlink *memlink_new(const struct memlink_config *config)
{
    struct memlink *link = check_memory(calloc(1, sizeof(*link)));
    link->config = *config;
    link->now = MP_SECOND;
    link->random = config->seed;
    link->chunks = check_memory(chunk_pool_new(RECEIVE_CHUNK_BYTES, 16));
    for (int end = 0; end < 2; end++) {
        link->mux[end] = check_memory(mux_new(&config->mux[end]));
        for (int i = 0; i < LANES; i++) {
            struct pipe *pipe = &link->to[end].pipes[i];
            list_init(&pipe->under_way);
            frame_decoder_init(&pipe->decoder, lane_kinds[i]);
        }
    }
    return link;
}

void memlink_free(struct memlink *link)
{
    for (int end = 0; end < 2; end++) {
        mux_free(link->mux[end]);
        for (int i = 0; i < LANES; i++) {
            struct pipe *pipe = &link->to[end].pipes[i];
            LIST_EACH_SAFE (at, &pipe->under_way) {
                list_remove(at);
                free(container_of(at, struct segment, link));
            }
            free(pipe->unsent);
            chunk_unref(pipe->chunk);
        }
    }
    chunk_pool_free(link->chunks);
    free(link->text);
    free(link);
}

struct mux *memlink_mux(struct memlink *link, int end)
{
    return link->mux[end];
}

mp_time memlink_now(const struct memlink *link)
{
    return link->now;
}

void memlink_set_user(struct memlink *link, memlink_user *user, void *arg)
{
    link->user = user;
    link->user_arg = arg;
}

const struct error *memlink_error(const struct memlink *link)
{
    return &link->error;
}

uint64_t memlink_under_way(const struct memlink *link, int to_end)
{
    return link->to[to_end].under_way_bytes;
}

/* Traces. */

void memlink_trace(struct memlink *link)
{
    link->trace = true;
    memlink_trace_clear(link);
}

const char *memlink_trace_text(const struct memlink *link)
{
    return link->text ? link->text : "";
}

void memlink_trace_clear(struct memlink *link)
{
    link->text_bytes = 0;
    if (link->text) {
        link->text[0] = '\0';
    }
}

static void note(struct memlink *link, int from, enum wire_lane lane,
                 const struct mux_out *out)
{
    struct frame frame;
    struct error err = ERROR_INIT;
    char line[200], text[160];
    if (frame_decode(out->header, lane, &frame, &err) < 0) {
        link->error = err;
        return;
    }
    frame_format(&frame, text, sizeof(text));
    snprintf(line, sizeof(line), "%c %s %s\n",
             from == MEMLINK_OPENER ? '>' : '<', frame_lane_name(lane), text);
    size_t need = link->text_bytes + strlen(line) + 1;
    if (need > link->text_capacity) {
        link->text_capacity = 2 * need;
        link->text = check_memory(realloc(link->text, link->text_capacity));
    }
    memcpy(link->text + link->text_bytes, line, strlen(line) + 1);
    link->text_bytes += strlen(line);
}

/* From a mux to the link. */

static void append(struct pipe *pipe, const void *data, size_t len)
{
    size_t need = pipe->unsent_bytes + len;
    if (need > pipe->unsent_capacity) {
        pipe->unsent_capacity = 2 * need;
        pipe->unsent =
            check_memory(realloc(pipe->unsent, pipe->unsent_capacity));
    }
    if (len > 0) {
        memcpy(pipe->unsent + pipe->unsent_bytes, data, len);
    }
    pipe->unsent_bytes = need;
}

static void pull(struct memlink *link, int from)
{
    struct direction *dir = &link->to[1 - from];
    for (int i = 0; i < LANES; i++) {
        struct pipe *pipe = &dir->pipes[i];
        struct mux_out out;
        while (pipe->unsent_bytes < link->config.batch_bytes) {
            bool has =
                mux_has_output(link->mux[from], lane_kinds[i], link->now);
            bool took =
                mux_take(link->mux[from], lane_kinds[i], link->now, &out);
            if (has != took) {
                error_set(&link->error, ERR_INTERNAL,
                          "mux_has_output() and mux_take() do not agree");
            }
            if (!took) {
                break;
            }
            if (link->trace) {
                note(link, from, lane_kinds[i], &out);
            }
            append(pipe, out.header, sizeof(out.header));
            append(pipe, out.payload, out.payload_bytes);
            dir->under_way_bytes += sizeof(out.header) + out.payload_bytes;
            chunk_unref(out.chunk);
        }
    }
}

/* The link is free: puts one segment on it, express first. */
static bool transmit(struct memlink *link, struct direction *dir)
{
    struct pipe *pipe = &dir->pipes[0];
    uint64_t rate = link->config.rate_bytes_per_second;
    if (pipe->unsent_bytes == 0) {
        pipe = &dir->pipes[1];
    }
    if (pipe->unsent_bytes == 0 || dir->busy_until > link->now) {
        return false;
    }
    size_t len =
        pipe->unsent_bytes < SEGMENT_BYTES ? pipe->unsent_bytes : SEGMENT_BYTES;
    struct segment *segment = check_memory(malloc(sizeof(*segment) + len));
    mp_time takes = rate ? (mp_time)(len * (uint64_t)MP_SECOND / rate) : 0;
    dir->busy_until = link->now + takes;
    segment->arrives_at = dir->busy_until + link->config.delay;
    segment->len = len;
    memcpy(segment->data, pipe->unsent, len);
    pipe->unsent_bytes -= len;
    memmove(pipe->unsent, pipe->unsent + len, pipe->unsent_bytes);
    list_init(&segment->link);
    list_append(&pipe->under_way, &segment->link);
    return true;
}

/* From the link to a mux. */

static int give(struct memlink *link, int end, struct pipe *pipe,
                const uint8_t *data, size_t len)
{
    struct mux *mux = link->mux[end];
    for (;;) {
        const uint8_t *payload;
        size_t bytes;
        enum wire_lane lane = pipe->decoder.lane;
        switch (frame_decoder_next(&pipe->decoder, &data, &len, &payload,
                                   &bytes, &link->error)) {
        case FRAME_STEP_MORE:
            return 0;
        case FRAME_STEP_ERROR:
            return -1;
        case FRAME_STEP_HEADER:
            if (mux_receive_header(mux, lane, &pipe->decoder.frame, link->now,
                                   &link->error) < 0) {
                return -1;
            }
            break;
        case FRAME_STEP_PAYLOAD:
            if (mux_receive_payload(mux, lane, payload, bytes, pipe->chunk,
                                    &link->error) < 0) {
                return -1;
            }
            break;
        }
    }
}

static int receive(struct memlink *link, int end, struct pipe *pipe,
                   const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t n = len;
        if (link->config.cut_bytes > 0) {
            size_t cut =
                1 + memlink_random(&link->random) % link->config.cut_bytes;
            n = n < cut ? n : cut;
        }
        if (!pipe->chunk || RECEIVE_CHUNK_BYTES - pipe->chunk_used < n) {
            chunk_unref(pipe->chunk);
            pipe->chunk = check_memory(chunk_get(link->chunks));
            pipe->chunk_used = 0;
        }
        uint8_t *to = pipe->chunk->data + pipe->chunk_used;
        memcpy(to, data, n);
        pipe->chunk_used += n;
        if (give(link, end, pipe, to, n) < 0) {
            return -1;
        }
        data += n;
        len -= n;
    }
    return 0;
}

static bool arrive(struct memlink *link, int end)
{
    struct direction *dir = &link->to[end];
    bool any = false;
    for (int i = 0; i < LANES; i++) {
        struct pipe *pipe = &dir->pipes[i];
        struct list *first = list_first(&pipe->under_way);
        if (!first) {
            continue;
        }
        struct segment *segment = container_of(first, struct segment, link);
        if (segment->arrives_at > link->now) {
            continue;
        }
        list_remove(first);
        dir->under_way_bytes -= segment->len;
        int result = receive(link, end, pipe, segment->data, segment->len);
        free(segment);
        any = true;
        if (result < 0) {
            return false;
        }
    }
    return any;
}

/* Time. */

static void earliest(mp_time *best, mp_time at)
{
    if (*best == 0 || at < *best) {
        *best = at;
    }
}

static mp_time next_time(const struct memlink *link)
{
    mp_time best = 0;
    for (int end = 0; end < 2; end++) {
        const struct direction *dir = &link->to[end];
        for (int i = 0; i < LANES; i++) {
            const struct pipe *pipe = &dir->pipes[i];
            struct list *first = list_first(&pipe->under_way);
            if (first) {
                earliest(&best,
                         container_of(first, struct segment, link)->arrives_at);
            }
            if (pipe->unsent_bytes > 0) {
                earliest(&best, dir->busy_until > link->now ? dir->busy_until
                                                            : link->now);
            }
        }
    }
    return best;
}

static void turn(struct memlink *link, int end)
{
    if (link->user) {
        link->user(link, end, link->user_arg);
    }
    mux_turn_end(link->mux[end], link->now);
    pull(link, end);
}

bool memlink_run(struct memlink *link, mp_time until)
{
    while (!error_is_set(&link->error)) {
        for (int end = 0; end < 2; end++) {
            turn(link, end);
        }
        bool any = false;
        for (int end = 0; end < 2 && !error_is_set(&link->error); end++) {
            any |= transmit(link, &link->to[end]);
            any |= arrive(link, end);
        }
        if (any || error_is_set(&link->error)) {
            continue;
        }
        mp_time next = next_time(link);
        if (next == 0) {
            return false;
        }
        if (next > until) {
            link->now = until;
            return true;
        }
        link->now = next;
    }
    return false;
}
