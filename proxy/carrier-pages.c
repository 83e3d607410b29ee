// SPDX-License-Identifier: BSD-3-Clause
/* The source's carrier, page by page. */
#include "proxy/carrier-pages.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/carrier-core.h"
#include "util/log.h"

#define CHUNK_BYTES (64 * 1024) /* several urgent pieces, or one of bulk */
#define CHUNKS_KEEP_FREE 8
/* Pages of a piece of bulk: a part of the window each, so that it can be
 * filled. */
#define PIECE_WINDOW_PARTS 3
#define PIECE_PAGES_MAX 7
/* QEMU is read on when this much may be read; at once where a page is awaited.
 */
#define RESUME_BYTES (32 * 1024)
/* Of bulk on the path in front of an urgent page: measured on a saturated
 * 1 Gbit/s link, less costs throughput, more costs every fault as much. */
#define QUEUE_TARGET (200 * MP_US)
/* Of a head that is held back: its block list and much more than the rest of it
 * ever was. */
#define HEAD_BYTES_MAX (STREAM_HEAD_LIST_BYTES_MAX + 64 * 1024)
/* Requests that are timed at once; a guest has one for each vCPU. */
#define TIMED_MAX 1024

enum timed_state { TIMED_ASKED, TIMED_SENT };

/* A request on its way to its page's acknowledgement. */
struct timed {
    enum timed_state state;
    unsigned block;
    uint64_t page;
    mp_time since;
    struct latency *into;
    /* SENT: acknowledged when the sub-stream is up to end */
    bool is_bulk, is_preempt; /* neither: main's urgent frames */
    uint64_t end;
};

struct carrier_pages {
    uint64_t ceiling_bytes;
    struct pages *pages; /* NULL: not begun, or the stream is carried unread */
    bool splits_preempt;
    char refusal[120];         /* why pages is NULL, "": it need not be there */
    bool phase_due;            /* a phase follows from the stream ... */
    enum mux_phase phase;      /* ... this one */
    struct small_pages *sizes; /* to be translated; NULL: none */
    struct chunk *held; /* the head, until it is whole; only with sizes */
    size_t held_bytes;
    struct chunk_pool *pool;
    struct chunk *chunk;
    size_t used_bytes;
    uint64_t sent_urgent_bytes, sent_preempt_bytes;
    struct timed timed[TIMED_MAX];
    unsigned timed_count;
    struct latency found, in_flight, fetched;
};

struct carrier_pages *carrier_pages_new(uint64_t ceiling_bytes,
                                        const struct small_pages *sizes)
{
    struct carrier_pages *cp = calloc(1, sizeof(*cp));

    if (!cp) {
        return NULL;
    }
    cp->ceiling_bytes = ceiling_bytes;
    cp->pool = chunk_pool_new(CHUNK_BYTES, CHUNKS_KEEP_FREE);
    cp->sizes = small_pages_copy(sizes);
    cp->held = sizes ? chunk_new(HEAD_BYTES_MAX) : NULL;
    if (!cp->pool || (sizes && (!cp->sizes || !cp->held))) {
        carrier_pages_free(cp);
        return NULL;
    }
    return cp;
}

void carrier_pages_free(struct carrier_pages *cp)
{
    if (cp) {
        chunk_unref(cp->chunk);
        chunk_pool_free(cp->pool);
        free(cp->sizes);
        chunk_unref(cp->held);
        pages_free(cp->pages);
        free(cp);
    }
}

static bool is_reordering(const struct carrier_pages *cp)
{
    return cp->pages && pages_state(cp->pages) == PAGES_REORDER;
}

/* In. -------------------------------------------------------------------- */

static void set_phase_due(struct carrier_pages *cp, enum mux_phase phase)
{
    cp->phase_due = true;
    cp->phase = phase;
}

/* The head is over: pages may follow. */
static void begin(struct carrier_core *core, const struct stream_head *head)
{
    struct carrier_pages *cp = core->pages;
    struct pages_config config = {
        .has_preempt = core->preempt,
        .sends_more_than_asked = core->widen != NULL,
        .soft_bytes = cp->ceiling_bytes < CARRIER_PAGES_SOFT_BYTES
                          ? cp->ceiling_bytes
                          : CARRIER_PAGES_SOFT_BYTES,
        .ceiling_bytes = cp->ceiling_bytes,
        .offset_bytes = head->offset_bytes,
    };
    struct error err = ERROR_INIT;

    if (core->multifd > 0 || !head->has_postcopy_ram || !cp->ceiling_bytes) {
        return; /* no postcopy comes, or it is not wanted */
    }
    cp->pages = pages_new(head, &config, &err);
    if (!cp->pages) {
        snprintf(cp->refusal, sizeof(cp->refusal), "%.119s", err.text);
        carrier_log(core, LOG_LEVEL_WARNING,
                    "pages are not reordered in postcopy: %s", err.text);
    } else {
        mux_set_postcopy_target(core->mux, QUEUE_TARGET);
    }
}

/* The head, whole and held back: leaves as the destination is to read it. */
static int send_translated(struct carrier_core *core, struct error *err)
{
    struct carrier_pages *cp = core->pages;
    struct stream_head *head = malloc(sizeof(*head));
    int rc = -1;

    if (!head) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for main's head");
    }
    *head = *stream_head_get(core->head);
    if (!small_pages_translate_head(cp->sizes, head, cp->held->data, err)) {
        rc = mux_send(core->mux, CARRIER_MAIN, cp->held, cp->held->data,
                      (size_t)head->offset_bytes, 0, 0, err);
        carrier_log(core, LOG_LEVEL_INFO,
                    "page sizes in main are translated for the destination's "
                    "ordinary memory%s",
                    core->widen ? ", page requests are widened" : "");
        begin(core, head);
    }
    free(head);
    chunk_unref(cp->held);
    cp->held = NULL;
    return rc;
}

/* Bytes of the head; *ret_taken: how many of them. What is translated is kept
 * until it is whole, the rest is to be passed on by the caller. */
static int take_head(struct carrier_core *core, const uint8_t *data,
                     size_t len_bytes, size_t *ret_taken, struct error *err)
{
    struct carrier_pages *cp = core->pages;
    size_t n = stream_head_feed(core->head, data, len_bytes);
    bool is_whole = stream_head_state(core->head) != STREAM_HEAD_NEED_MORE;

    *ret_taken = n;
    if (cp->held) {
        if (n > HEAD_BYTES_MAX - cp->held_bytes) {
            return error_set(err, ERR_PROTOCOL,
                             "the head of the stream has more than %d bytes",
                             HEAD_BYTES_MAX);
        }
        memcpy(cp->held->data + cp->held_bytes, data, n);
        cp->held_bytes += n;
    }
    if (!is_whole) {
        return 0;
    }
    core->head_ended = true;
    carrier_ends_head(core);
    if (core->phase == MUX_PHASE_SETUP &&
        stream_head_state(core->head) == STREAM_HEAD_DONE) {
        /* what comes now is RAM: a guest that the buffer of setup holds would
         * be taken whole until QMP says that setup is over */
        set_phase_due(cp, MUX_PHASE_PRECOPY);
    }
    if (cp->held) {
        return send_translated(core, err);
    }
    begin(core, stream_head_get(core->head));
    return 0;
}

/* Bytes of main behind the head and in front of the pages; returns how many of
 * them there are. */
static size_t watch(struct carrier_core *core, const uint8_t *data,
                    size_t len_bytes)
{
    struct carrier_pages *cp = core->pages;

    if (!cp->pages) {
        return len_bytes;
    }
    size_t at = pages_watch_main(cp->pages, data, len_bytes);
    if (at < len_bytes || is_reordering(cp)) {
        set_phase_due(cp, MUX_PHASE_POSTCOPY);
        cp->splits_preempt = true;
        carrier_log(core, LOG_LEVEL_INFO,
                    "postcopy has begun in the stream, pages are reordered");
    }
    return at;
}

static int take_main(struct carrier_core *core, struct chunk *chunk,
                     const uint8_t *data, size_t len_bytes, struct error *err)
{
    struct carrier_pages *cp = core->pages;
    bool is_held = cp->held != NULL;
    size_t head = 0, passed;

    if (!core->head_ended && take_head(core, data, len_bytes, &head, err) < 0) {
        return -1;
    }
    passed = head;
    if (core->head_ended && !is_reordering(cp)) {
        passed += watch(core, data + head, len_bytes - head);
    }
    size_t from = is_held ? head : 0;
    if (passed > from && mux_send(core->mux, CARRIER_MAIN, chunk, data + from,
                                  passed - from, 0, 0, err) < 0) {
        return -1;
    }
    return passed < len_bytes ? pages_split_main(cp->pages, data + passed,
                                                 len_bytes - passed, err)
                              : 0;
}

static size_t intake_room(void *arg, struct endpoint *ep)
{
    struct carrier_core *core = arg;
    struct carrier_pages *cp = core->pages;

    if (ep->class == WIRE_CLASS_MAIN && is_reordering(cp)) {
        return pages_room_main(cp->pages);
    }
    if (ep->class == WIRE_CLASS_PREEMPT && cp->splits_preempt) {
        return pages_room_preempt(cp->pages);
    }
    return mux_send_room(ep->mux, ep->channel);
}

static int intake_take(void *arg, struct endpoint *ep, struct chunk *chunk,
                       const uint8_t *data, size_t len_bytes, struct error *err)
{
    struct carrier_core *core = arg;

    if (ep->class == WIRE_CLASS_MAIN) {
        return take_main(core, chunk, data, len_bytes, err);
    }
    if (core->pages->splits_preempt) {
        return pages_split_preempt(core->pages->pages, data, len_bytes, err);
    }
    return mux_send(ep->mux, ep->channel, chunk, data, len_bytes, 0, 0, err);
}

const struct endpoint_intake carrier_pages_intake = {
    .room = intake_room,
    .take = intake_take,
};

bool carrier_pages_take_phase(struct carrier_core *core,
                              enum mux_phase *ret_phase)
{
    struct carrier_pages *cp = core->pages;

    if (!cp || !cp->phase_due) {
        return false;
    }
    cp->phase_due = false;
    *ret_phase = cp->phase;
    return true;
}

/* Times. ----------------------------------------------------------------- */

static struct timed *add_timed(struct carrier_pages *cp)
{
    return cp->timed_count < TIMED_MAX ? &cp->timed[cp->timed_count++] : NULL;
}

static uint64_t sent_bulk_bytes(const struct carrier_core *core)
{
    struct mux_channel_stats stats;
    mux_get_channel_stats(core->mux, CARRIER_MAIN, &stats);
    return stats.sent_bytes + stats.held_bytes - core->pages->sent_urgent_bytes;
}

void carrier_pages_asked(struct carrier_core *core, const char *block,
                         uint64_t start_bytes, uint32_t length_bytes)
{
    struct carrier_pages *cp = core->pages;

    if (!cp || !is_reordering(cp)) {
        return;
    }
    enum pool_answer answer =
        pages_request(cp->pages, block, start_bytes, length_bytes);
    struct timed *t = answer == POOL_UNKNOWN ? NULL : add_timed(cp);
    if (!t) {
        return;
    }
    *t = (struct timed){
        .block = pages_last_block(cp->pages),
        .page = start_bytes / PAGES_PAGE_BYTES,
        .since = loop_now(core->loop),
        .into = answer == POOL_GONE     ? &cp->in_flight
                : answer == POOL_WANTED ? &cp->fetched
                                        : &cp->found,
    };
    if (answer == POOL_GONE) {
        /* somewhere in what is in flight: at most as long as all of that */
        t->state = TIMED_SENT;
        t->is_bulk = true;
        t->end = sent_bulk_bytes(core);
    }
}

/* A page that was asked for leaves. */
static void time_sent(struct carrier_pages *cp, const struct pages_out *out)
{
    for (unsigned i = 0; i < cp->timed_count; i++) {
        struct timed *t = &cp->timed[i];
        if (t->state == TIMED_ASKED && t->page == out->page &&
            t->block == out->block) {
            t->state = TIMED_SENT;
            t->is_preempt = out->is_preempt;
            t->end = out->is_preempt ? cp->sent_preempt_bytes
                                     : cp->sent_urgent_bytes;
        }
    }
}

void carrier_pages_acked(struct carrier_core *core)
{
    struct carrier_pages *cp = core->pages;
    struct mux_channel_stats main, preempt;
    mp_time now;

    if (!cp || cp->timed_count == 0) {
        return;
    }
    now = loop_now(core->loop);
    mux_get_channel_stats(core->mux, CARRIER_MAIN, &main);
    mux_get_channel_stats(core->mux, CARRIER_PREEMPT, &preempt);
    for (unsigned i = 0; i < cp->timed_count;) {
        struct timed *t = &cp->timed[i];
        uint64_t acked = t->is_bulk ? main.acked_bytes - main.urgent_acked_bytes
                         : t->is_preempt ? preempt.acked_bytes
                                         : main.urgent_acked_bytes;
        if (t->state == TIMED_SENT && acked >= t->end) {
            latency_add(t->into, now - t->since);
            *t = cp->timed[--cp->timed_count];
        } else {
            i++;
        }
    }
}

/* Out. ------------------------------------------------------------------- */

/* Room for a piece of up to size bytes; NULL: no memory. */
static uint8_t *get_space(struct carrier_pages *cp, size_t size)
{
    if (cp->chunk && cp->chunk->size_bytes - cp->used_bytes < size) {
        chunk_unref(cp->chunk);
        cp->chunk = NULL;
    }
    if (!cp->chunk) {
        cp->chunk = chunk_get(cp->pool);
        cp->used_bytes = 0;
    }
    return cp->chunk ? cp->chunk->data + cp->used_bytes : NULL;
}

static int send_piece(struct carrier_core *core, const uint8_t *data,
                      const struct pages_out *out, struct error *err)
{
    struct carrier_pages *cp = core->pages;

    cp->used_bytes += out->len;
    if (out->is_urgent) {
        cp->sent_urgent_bytes += out->len;
        return mux_send_urgent(core->mux, CARRIER_MAIN, cp->chunk, data,
                               out->len, out->after, err);
    }
    if (out->is_preempt) {
        cp->sent_preempt_bytes += out->len;
        return mux_send(core->mux, CARRIER_PREEMPT, cp->chunk, data, out->len,
                        0, 0, err);
    }
    return mux_send(core->mux, CARRIER_MAIN, cp->chunk, data, out->len,
                    out->is_merge ? WIRE_FLAG_MERGE : 0, out->after, err);
}

static int fill_urgent(struct carrier_core *core, struct error *err)
{
    struct carrier_pages *cp = core->pages;
    struct pages_out out;

    for (;;) {
        uint8_t *space = get_space(cp, PAGES_RECORD_BYTES_MAX);
        if (!space) {
            return error_set(err, ERR_NO_MEMORY, "out of memory for a page");
        }
        if (!pages_next_urgent(cp->pages, space, &out)) {
            return 0;
        }
        if (send_piece(core, space, &out, err) < 0) {
            return -1;
        }
        if (out.has_page) {
            time_sent(cp, &out);
        }
    }
}

/* Whether all that the preempt channel was given has reached QEMU. */
static bool is_preempt_delivered(const struct carrier_core *core)
{
    struct mux_channel_stats stats;

    if (!core->preempt) {
        return true;
    }
    mux_get_channel_stats(core->mux, CARRIER_PREEMPT, &stats);
    return stats.held_bytes == 0 && stats.acked_bytes == stats.sent_bytes;
}

static size_t piece_bytes(const struct carrier_core *core)
{
    uint64_t window, rate;
    mp_time rtt;

    mux_get_window(core->mux, &window, &rate, &rtt);
    uint64_t pages = window / PIECE_WINDOW_PARTS / PAGES_PAGE_BYTES;
    pages = pages < 1 ? 1 : pages > PIECE_PAGES_MAX ? PIECE_PAGES_MAX : pages;
    return (size_t)pages * PAGES_RECORD_BYTES_MAX;
}

static int fill_bulk(struct carrier_core *core, struct error *err)
{
    struct carrier_pages *cp = core->pages;
    size_t size = piece_bytes(core);
    struct pages_out out;

    if (!core->bulk.lane || lane_room(core->bulk.lane) == 0 ||
        !mux_could_leave(core->mux, CARRIER_MAIN, size)) {
        return 0;
    }
    uint8_t *space = get_space(cp, size);
    if (!space) {
        return error_set(err, ERR_NO_MEMORY, "out of memory for pages");
    }
    return pages_next_bulk(cp->pages, space, size, is_preempt_delivered(core),
                           &out)
               ? send_piece(core, space, &out, err)
               : 0;
}

static void resume_reading(struct carrier_core *core)
{
    struct carrier_pages *cp = core->pages;
    struct endpoint *main = &core->channel[CARRIER_MAIN].ep;
    struct endpoint *preempt = &core->channel[CARRIER_PREEMPT].ep;

    if (main->read_paused) {
        size_t room = intake_room(core, main);
        if (room >= RESUME_BYTES ||
            (room > 0 && (pages_awaits(cp->pages) || !is_reordering(cp)))) {
            endpoint_room(main);
        }
    }
    if (core->preempt && preempt->read_paused &&
        intake_room(core, preempt) > 0) {
        endpoint_room(preempt);
    }
}

void carrier_pages_fill(struct carrier_core *core)
{
    struct carrier_pages *cp = core->pages;
    struct error err = ERROR_INIT;

    if (!cp || !cp->splits_preempt || core->life != CARRIER_OPEN) {
        return;
    }
    if (fill_urgent(core, &err) < 0 || fill_bulk(core, &err) < 0) {
        error_wrap(&err, "pages");
        carrier_core_break(core, &err);
        return;
    }
    resume_reading(core);
}

void carrier_pages_format_state(const struct carrier_core *core, char *buf,
                                size_t size)
{
    const struct carrier_pages *cp = core->pages;
    struct pages_stats stats;

    if (!cp || !cp->pages) {
        bool is_refused = cp && cp->refusal[0];
        snprintf(buf, size, is_refused ? "opaque (%s)" : "ram%s",
                 is_refused ? cp->refusal : "");
        return;
    }
    pages_get_stats(cp->pages, &stats);
    switch (stats.state) {
    case PAGES_WATCHING:
        snprintf(buf, size, "ram");
        return;
    case PAGES_REORDER:
        snprintf(buf, size, "pages");
        return;
    case PAGES_PASSED:
        snprintf(buf, size, "%s", stats.reason[0] ? "devices" : "end");
        return;
    case PAGES_OPAQUE:
        snprintf(buf, size, "opaque (%s)", stats.reason);
        return;
    }
}

void carrier_pages_get_stats(const struct carrier_core *core,
                             struct carrier_pages_stats *ret_stats)
{
    const struct carrier_pages *cp = core->pages;

    *ret_stats = (struct carrier_pages_stats){.is_there = cp && cp->pages};
    if (ret_stats->is_there) {
        pages_get_stats(cp->pages, &ret_stats->pages);
        ret_stats->found = cp->found;
        ret_stats->in_flight = cp->in_flight;
        ret_stats->fetched = cp->fetched;
    }
}
