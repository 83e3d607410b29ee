// SPDX-License-Identifier: BSD-3-Clause
/* Random lives of mux pairs: sizes, classes, phases, urgent frames,
 * half-closes, resets, reopenings, slow readers, cuts at any byte. What must
 * hold: bytes out are bytes in, in order, for each channel and epoch; urgent
 * frames are put where they may be; everything ends within a bound of virtual
 * time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/memlink.h"

#define CHANNELS 7
#define EPOCHS 40
#define ROUNDS 60
#define ACTIONS 600
#define END_WITHIN (60 * MP_SECOND)

/* channel 0 is main, 1 preempt, 2..4 multifd, 5 and 6 disks */
static const enum wire_class classes[CHANNELS] = {
    WIRE_CLASS_MAIN,    WIRE_CLASS_PREEMPT, WIRE_CLASS_MULTIFD,
    WIRE_CLASS_MULTIFD, WIRE_CLASS_MULTIFD, WIRE_CLASS_DISK,
    WIRE_CLASS_DISK};

/* What was handed over at once. */
struct part {
    uint64_t start;
    uint32_t len;
    uint8_t flags;
    uint64_t after;
};

struct parts {
    struct part *part;
    size_t count, capacity;
};

/* One direction of one epoch of a channel. */
struct way {
    struct parts bulk, urgent;
    uint64_t bulk_bytes;
    bool end_queued;
    /* delivered */
    size_t bulk_at, urgent_at;   /* parts that are complete */
    uint64_t in_bulk, in_urgent; /* bytes of the next ones */
    uint64_t delivered;          /* bulk */
    bool ended;
};

struct epoch {
    struct way way[2]; /* by the end that sends */
    bool dead[2];      /* an end reset it, or heard that the other did */
    bool told;
};

struct life {
    uint32_t random;
    unsigned seed;
    struct memlink *link;
    int actions_left;
    bool finishing;
    uint32_t part_max;        /* bytes */
    uint16_t epoch[CHANNELS]; /* the newest, 0: none */
    struct epoch epochs[CHANNELS][EPOCHS + 1];
    struct chunk_pool *chunks;
    uint64_t resets, reopens, urgents; /* to see that they were there */
};

static uint32_t pick(struct life *life, uint32_t n)
{
    return memlink_random(&life->random) % n;
}

static void add_part(struct parts *parts, struct part part)
{
    if (parts->count == parts->capacity) {
        parts->capacity = parts->capacity ? 2 * parts->capacity : 16;
        parts->part =
            realloc(parts->part, parts->capacity * sizeof(parts->part[0]));
        assert_non_null(parts->part);
    }
    parts->part[parts->count++] = part;
}

static uint8_t bulk_byte(int channel, unsigned epoch, int end, uint64_t at)
{
    return (uint8_t)((at * 31 + (at >> 7) + (unsigned)channel * 7 + epoch * 13 +
                      (unsigned)end * 3) &
                     0x7f);
}

static uint8_t urgent_byte(uint64_t frame, uint64_t at)
{
    return (uint8_t)(0x80 | ((frame * 5 + at) & 0x7f));
}

/* Delivering: each byte is checked. --------------------------------------- */

static void check_urgent_byte(const struct life *life, struct way *way,
                              uint8_t byte)
{
    assert_true(way->urgent_at < way->urgent.count);
    const struct part *part = &way->urgent.part[way->urgent_at];
    if (way->in_urgent == 0) {
        assert_int_equal(way->in_bulk, 0);
        assert_true(way->bulk_at == 0 ||
                    (way->bulk.part[way->bulk_at - 1].flags & WIRE_FLAG_MERGE));
        assert_true(way->delivered >= part->after);
    }
    if (byte != urgent_byte(way->urgent_at, way->in_urgent)) {
        fail_msg("seed %u: urgent byte is wrong", life->seed);
    }
    if (++way->in_urgent == part->len) {
        way->in_urgent = 0;
        way->urgent_at++;
    }
}

static void check_byte(const struct life *life, int channel, unsigned epoch,
                       int from, struct way *way, uint8_t byte)
{
    if (byte & 0x80) {
        check_urgent_byte(life, way, byte);
        return;
    }
    assert_int_equal(way->in_urgent, 0);
    assert_true(way->bulk_at < way->bulk.count);
    const struct part *part = &way->bulk.part[way->bulk_at];
    if (way->in_bulk == 0) {
        assert_true(way->urgent_at >= part->after);
    }
    if (byte != bulk_byte(channel, epoch, from, way->delivered)) {
        fail_msg("seed %u: channel %d epoch %u: byte %llu is wrong", life->seed,
                 channel, epoch, (unsigned long long)way->delivered);
    }
    way->delivered++;
    if (++way->in_bulk == part->len) {
        way->in_bulk = 0;
        way->bulk_at++;
    }
}

static void deliver(struct life *life, int end, int channel, unsigned epoch)
{
    struct mux *mux = memlink_mux(life->link, end);
    struct way *way = &life->epochs[channel][epoch].way[1 - end];
    struct iovec iov[4];
    size_t left = life->finishing ? SIZE_MAX : pick(life, 300000);
    size_t offered = mux_deliver_bytes(mux, (uint16_t)channel);
    int n =
        mux_deliver_peek(mux, (uint16_t)channel, iov, 1 + (int)pick(life, 4));
    size_t total = 0;
    for (int i = 0; i < n && left > 0; i++) {
        size_t len = iov[i].iov_len < left ? iov[i].iov_len : left;
        for (size_t j = 0; j < len; j++) {
            check_byte(life, channel, epoch, 1 - end, way,
                       ((uint8_t *)iov[i].iov_base)[j]);
        }
        total += len;
        left -= len;
    }
    assert_true(total <= offered && (n == 0) == (offered == 0));
    mux_delivered(mux, (uint16_t)channel, total);
}

/* Sending. ---------------------------------------------------------------- */

static struct chunk *make_chunk(struct life *life, size_t len)
{
    struct chunk *chunk = pick(life, 2) && len <= 65536
                              ? chunk_get(life->chunks)
                              : chunk_new(len);
    assert_non_null(chunk);
    return chunk;
}

static void send_bulk(struct life *life, int end, int channel, bool last)
{
    unsigned epoch = life->epoch[channel];
    struct way *way = &life->epochs[channel][epoch].way[end];
    bool main = channel == 0 && end == MEMLINK_OPENER;
    uint32_t max = pick(life, 3) ? life->part_max / 26 : life->part_max;
    struct part part = {.start = way->bulk_bytes, .len = 1 + pick(life, max)};
    bool merge = way->bulk.count == 0 ||
                 (way->bulk.part[way->bulk.count - 1].flags & WIRE_FLAG_MERGE);
    if (main && (last || pick(life, 2))) {
        part.flags = WIRE_FLAG_MERGE;
    }
    if (main && merge && pick(life, 3) == 0) {
        part.after = way->urgent.count;
    }
    struct chunk *chunk = make_chunk(life, part.len);
    for (uint32_t i = 0; i < part.len; i++) {
        chunk->data[i] = bulk_byte(channel, epoch, end, part.start + i);
    }
    struct error err = ERROR_INIT;
    if (mux_send(memlink_mux(life->link, end), (uint16_t)channel, chunk,
                 chunk->data, part.len, part.flags, part.after, &err) < 0) {
        fail_msg("seed %u: %s", life->seed, err.text);
    }
    chunk_unref(chunk);
    add_part(&way->bulk, part);
    way->bulk_bytes += part.len;
}

static void send_urgent(struct life *life)
{
    struct way *way = &life->epochs[0][life->epoch[0]].way[MEMLINK_OPENER];
    uint32_t max = pick(life, 4) ? life->part_max / 26 : life->part_max / 2;
    struct part part = {
        .len = 1 + pick(life, max),
        .after = pick(life, 2) ? way->bulk_bytes
                               : pick(life, (uint32_t)way->bulk_bytes + 1),
    };
    struct chunk *chunk = make_chunk(life, part.len);
    for (uint32_t i = 0; i < part.len; i++) {
        chunk->data[i] = urgent_byte(way->urgent.count, i);
    }
    struct error err = ERROR_INIT;
    if (mux_send_urgent(memlink_mux(life->link, 0), 0, chunk, chunk->data,
                        part.len, part.after, &err) < 0) {
        fail_msg("seed %u: %s", life->seed, err.text);
    }
    chunk_unref(chunk);
    add_part(&way->urgent, part);
    life->urgents++;
}

static void end_way(struct life *life, int end, int channel)
{
    struct way *way = &life->epochs[channel][life->epoch[channel]].way[end];
    if (channel == 0 && end == MEMLINK_OPENER) {
        send_bulk(life, end, channel, true); /* ends on a merge point */
    }
    mux_end(memlink_mux(life->link, end), (uint16_t)channel);
    way->end_queued = true;
}

/* The user of an end. ----------------------------------------------------- */

/* The epoch in which this end may act on the channel, or 0. */
static unsigned acting_epoch(const struct life *life, int end, int channel)
{
    unsigned epoch = life->epoch[channel];
    const struct epoch *e = &life->epochs[channel][epoch];
    if (epoch == 0 || e->dead[end] || (end == MEMLINK_OTHER && !e->told)) {
        return 0;
    }
    return epoch;
}

static void try_open(struct life *life, int channel)
{
    struct error err = ERROR_INIT;
    unsigned epoch = life->epoch[channel];
    if (epoch == EPOCHS) {
        return;
    }
    if (mux_open(memlink_mux(life->link, 0), (uint16_t)channel,
                 classes[channel], &err) == 0) {
        life->reopens += epoch > 0;
        life->epoch[channel]++;
        return;
    }
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_true(epoch > 0 && !life->epochs[channel][epoch].dead[0]);
}

static void act(struct life *life, int end)
{
    int channel = pick(life, 3) ? (int)pick(life, CHANNELS) : 0;
    struct mux *mux = memlink_mux(life->link, end);
    unsigned epoch = acting_epoch(life, end, channel);
    uint32_t what = pick(life, 100);
    life->actions_left--;
    if (what < 2) {
        mux_set_phase(mux, (enum mux_phase)pick(life, 4));
    } else if (what < 4) {
        mux_ping(mux, pick(life, 2) ? WIRE_LANE_BULK : WIRE_LANE_EXPRESS,
                 memlink_now(life->link));
    } else if (what < 27 && what >= 5 && end == MEMLINK_OPENER) {
        try_open(life, channel);
    } else if (epoch == 0) {
        return;
    } else if (what < 5) {
        life->epochs[channel][epoch].dead[end] = true;
        life->resets++;
        mux_reset(mux, (uint16_t)channel, ERR_QEMU_GONE, "random");
    } else if (life->epochs[channel][epoch].way[end].end_queued) {
        return;
    } else if (what < 29) {
        end_way(life, end, channel);
    } else if (what < 60 && channel == 0 && end == MEMLINK_OPENER) {
        send_urgent(life);
    } else if (mux_send_room(mux, (uint16_t)channel) > 0 || what < 32) {
        send_bulk(life, end, channel, false);
    }
}

static void take_event(struct life *life, int end, const struct mux_event *ev)
{
    struct epoch *epoch = &life->epochs[ev->channel][ev->epoch];
    switch (ev->type) {
    case MUX_EVENT_OPENED:
        assert_int_equal(end, MEMLINK_OTHER);
        assert_int_equal(ev->class, classes[ev->channel]);
        assert_false(epoch->told);
        epoch->told = true;
        break;
    case MUX_EVENT_RESET:
        assert_true(epoch->dead[1 - end] && !epoch->dead[end]);
        epoch->dead[end] = true;
        assert_string_equal(ev->text, "random");
        assert_int_equal(ev->code, ERR_QEMU_GONE);
        break;
    case MUX_EVENT_ENDED: {
        struct way *way = &epoch->way[1 - end];
        assert_true(way->end_queued && !way->ended);
        assert_int_equal(way->delivered, way->bulk_bytes);
        assert_int_equal(way->urgent_at, way->urgent.count);
        way->ended = true;
        break;
    }
    case MUX_EVENT_READABLE:
    case MUX_EVENT_ROOM:
    case MUX_EVENT_DRAINED:
    case MUX_EVENT_PONG:
        break;
    }
}

static void user(struct memlink *link, int end, void *arg)
{
    struct life *life = arg;
    struct mux *mux = memlink_mux(link, end);
    struct mux_event ev;
    while (mux_next_event(mux, &ev)) {
        take_event(life, end, &ev);
    }
    for (int c = 0; c < CHANNELS; c++) {
        struct mux_channel_stats stats;
        mux_get_channel_stats(mux, (uint16_t)c, &stats);
        while (mux_deliver_bytes(mux, (uint16_t)c) > 0) {
            deliver(life, end, c, stats.epoch);
            if (!life->finishing) {
                break;
            }
        }
    }
    if (life->actions_left > 0 && pick(life, 2)) {
        act(life, end);
    }
    while (mux_next_event(mux, &ev)) {
        take_event(life, end, &ev);
    }
}

/* A life. ----------------------------------------------------------------- */

static void life_start(struct life *life, unsigned seed)
{
    static const uint64_t rates[] = {0, 2000000, 125000000, 1250000000};
    static const mp_time delays[] = {0, 50 * MP_US, MP_MS, 20 * MP_MS};
    static const size_t cuts[] = {0, 1, 40, 2000};
    struct memlink_config config;
    memset(life, 0, sizeof(*life));
    life->seed = seed;
    life->random = seed * 2654435761u + 1;
    life->actions_left = ACTIONS;
    memlink_config_default(&config);
    config.seed = seed + 1;
    config.rate_bytes_per_second = rates[pick(life, 4)];
    config.delay = delays[pick(life, 4)];
    config.cut_bytes = cuts[pick(life, 4)];
    config.batch_bytes = pick(life, 2) ? 131072 : 16384;
    /* single bytes cost much and show nothing more in large parts */
    life->part_max = config.cut_bytes == 1 ? 3000 : WIRE_DATA_MAX_BYTES;
    if (pick(life, 3) == 0) {
        config.mux[1].receive_window_bytes = WIRE_INITIAL_CREDIT_BYTES;
        config.mux[0].express_window_bytes = WIRE_INITIAL_CREDIT_BYTES;
        config.mux[1].express_window_bytes = WIRE_INITIAL_CREDIT_BYTES;
    }
    life->chunks = chunk_pool_new(65536, 8);
    life->link = memlink_new(&config);
    memlink_set_user(life->link, user, life);
}

static void run(struct life *life, mp_time time)
{
    memlink_run(life->link, memlink_now(life->link) + time);
    if (error_is_set(memlink_error(life->link))) {
        fail_msg("seed %u: %s", life->seed, memlink_error(life->link)->text);
    }
}

/* Ends every direction that is open and checks that all of it comes out. */
static void finish(struct life *life)
{
    mp_time start = memlink_now(life->link);
    life->finishing = true;
    life->actions_left = 0;
    run(life, END_WITHIN);
    for (int end = 0; end < 2; end++) {
        for (int c = 0; c < CHANNELS; c++) {
            unsigned epoch = acting_epoch(life, end, c);
            if (epoch && !life->epochs[c][epoch].way[end].end_queued) {
                end_way(life, end, c);
            }
        }
        run(life, END_WITHIN);
    }
    assert_true(memlink_now(life->link) - start < END_WITHIN);
    for (int c = 0; c < CHANNELS; c++) {
        for (unsigned e = 1; e <= life->epoch[c]; e++) {
            const struct epoch *epoch = &life->epochs[c][e];
            bool dead = epoch->dead[0] || epoch->dead[1];
            if (!dead && !(epoch->way[0].ended && epoch->way[1].ended)) {
                fail_msg("seed %u: channel %d epoch %u has not ended",
                         life->seed, c, e);
            }
        }
    }
    for (int end = 0; end < 2; end++) {
        struct error err = ERROR_INIT;
        if (mux_check_lanes_ended(memlink_mux(life->link, end), &err) < 0) {
            fail_msg("seed %u: %s", life->seed, err.text);
        }
    }
}

static void life_end(struct life *life)
{
    memlink_free(life->link);
    assert_int_equal(chunk_pool_used_bytes(life->chunks), 0);
    chunk_pool_free(life->chunks);
    for (int c = 0; c < CHANNELS; c++) {
        for (int e = 0; e <= EPOCHS; e++) {
            for (int end = 0; end < 2; end++) {
                free(life->epochs[c][e].way[end].bulk.part);
                free(life->epochs[c][e].way[end].urgent.part);
            }
        }
    }
}

static void bytes_out_are_bytes_in_for_each_channel_and_epoch(void **state)
{
    static struct life life;
    uint64_t resets = 0, reopens = 0, urgents = 0;
    /* to look at one seed, or to search: MUX_RANDOM="FIRST ROUNDS" */
    const char *only = getenv("MUX_RANDOM");
    unsigned first = 0, rounds = ROUNDS;
    if (only) {
        assert_int_equal(sscanf(only, "%u %u", &first, &rounds), 2);
    }
    for (unsigned seed = first; seed < first + rounds; seed++) {
        life_start(&life, seed);
        while (life.actions_left > 0) {
            run(&life, MP_MS);
        }
        finish(&life);
        resets += life.resets;
        reopens += life.reopens;
        urgents += life.urgents;
        life_end(&life);
    }
    print_message("# %llu resets, %llu reopenings, %llu urgent frames\n",
                  (unsigned long long)resets, (unsigned long long)reopens,
                  (unsigned long long)urgents);
    assert_true(only || (resets > 100 && reopens > 100 && urgents > 500));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_out_are_bytes_in_for_each_channel_and_epoch),
    };
    return cmocka_run_group_tests_name("mux-random", tests, NULL, NULL);
}
