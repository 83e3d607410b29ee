// SPDX-License-Identifier: BSD-3-Clause
/* A table of faults of a QEMU, run all at once. */
#include "tests/lib/faults.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"

#define START_INTERVAL (25 * MP_MS) /* from one's start to the next one's */

static const enum model_fault kinds[FAULTS_KINDS] = {
    MODEL_REFUSE, MODEL_IGNORE, MODEL_MUTE,
    MODEL_HANG,   MODEL_EXIT,   MODEL_LATE_EXIT};

struct cell {
    const struct fault_row *row;
    enum model_fault fault;
    const char *end;
    struct world *w;
    bool is_due;     /* to be run in the next pass */
    bool is_stalled; /* this program was kept from running meanwhile */
};

static const char *where(const struct fault_row *row)
{
    return row->command ? row->command : model_stage_name(row->stage);
}

static void start(struct worlds *all, struct cell *cell, unsigned slow)
{
    const struct fault_row *row = cell->row;
    struct world_params params = {.mode = row->mode,
                                  .slow = slow,
                                  .source.never_converges =
                                      row->mode == API_MODE_POSTCOPY};
    struct error err = ERROR_INIT;
    char name[96];

    snprintf(name, sizeof(name), "%s, %s %s %s %u%s%s",
             row->mode == API_MODE_POSTCOPY ? "postcopy" : "precopy",
             row->at_source ? "source" : "destination",
             model_fault_name(cell->fault), where(row), row->nth,
             row->command && row->stage ? " after " : "",
             row->command && row->stage ? model_stage_name(row->stage) : "");
    cell->is_due = false;
    cell->is_stalled = false;
    cell->w = world_new(all, name, &params);
    struct model_qemu *q =
        row->at_source ? cell->w->source_qemu : cell->w->destination_qemu;
    if (row->command) {
        model_fail_command(q, row->stage, row->command, row->nth, cell->fault);
    } else {
        model_fail_stage(q, row->stage, cell->fault);
    }
    if (!world_start(cell->w, &err)) {
        world_breach(cell->w, "not begun: %s", err.text);
    }
}

/* "refused failed qmp" */
static void describe(struct world *w, char *text, size_t size)
{
    json_object *body = world_show(&w->source);
    bool refused = false;
    const char *class = world_class(&w->source);

    json_value_bool(body, "refused", &refused);
    snprintf(text, size, "%s%s%s%s%s", refused ? "refused " : "",
             world_state(&w->source), class[0] ? " " : "", class,
             world_is_restored(w) ? "" : " unrestored");
    json_object_put(body);
}

enum outcome { AS_EXPECTED, STALLED, WRONG };

/* What came out while this program was kept from running is tried again, unless
 * it is what must never be. */
static enum outcome finish(struct cell *cell, bool is_last)
{
    struct world *w = cell->w;
    bool is_breach = w->breach[0] || model_violation(w->source_qemu) ||
                     model_violation(w->destination_qemu);
    const char *complaint = world_complaint(w);
    enum outcome outcome = AS_EXPECTED;
    char text[200];

    describe(w, text, sizeof(text));
    if (complaint || fnmatch(cell->end, text, 0)) {
        outcome = cell->is_stalled && !is_breach && !is_last ? STALLED : WRONG;
        fprintf(stderr, "# %s (%s): %s, expected %s%s%s (%.1f s)%s\n", w->name,
                w->id, text, cell->end, complaint ? "; " : "",
                complaint ? complaint : "",
                (double)(clock_now() - w->began) / MP_SECOND,
                outcome == STALLED ? "; the machine is busy: again" : "");
    }
    world_free(w);
    cell->w = NULL;
    return outcome;
}

struct pass {
    unsigned at_once, patience; /* times as long as the world's own */
    bool is_last;
};

/* Ends the worlds that are over, or late. */
static unsigned reap(struct cell *cells, size_t count, mp_time limit,
                     const struct pass *pass, size_t *live)
{
    unsigned bad = 0;

    for (size_t i = 0; i < count; i++) {
        struct world *w = cells[i].w;
        if (w && (world_is_over(w) || clock_now() - w->began > limit)) {
            enum outcome outcome = finish(&cells[i], pass->is_last);
            cells[i].is_due = outcome == STALLED;
            bad += outcome == WRONG;
            (*live)--;
        }
    }
    return bad;
}

static void note_stall(struct cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cells[i].is_stalled = cells[i].is_stalled || cells[i].w;
    }
}

static unsigned run_cells(struct worlds *all, struct cell *cells, size_t count,
                          mp_time limit, const struct pass *pass)
{
    size_t started = 0, live = 0;
    /* under valgrind more is to be done than to be waited for */
    mp_time interval = all->slow * all->slow * START_INTERVAL / 2;
    mp_time last = 0;
    bool is_busy = false;
    unsigned bad = 0;

    while (started < count || live > 0) {
        if (started < count && !cells[started].is_due) {
            started++;
            continue;
        }
        if (started < count && live < pass->at_once &&
            clock_now() - last > interval && !is_busy) {
            last = clock_now();
            start(all, &cells[started++], all->slow * pass->patience);
            live++;
        }
        unsigned before = all->held_up;
        worlds_run_for(all, 5 * MP_MS);
        is_busy = all->held_up != before;
        if (is_busy) {
            note_stall(cells, started);
        }
        bad += reap(cells, started, limit * pass->patience, pass, &live);
    }
    return bad;
}

/* Most of a run is waiting for deadlines, which are short: where nothing keeps
 * this program from running, the first pass is all. */
static unsigned run_passes(struct worlds *all, struct cell *cells, size_t count,
                           mp_time limit)
{
    static const struct pass passes[] = {
        {80, 1, false}, {20, 4, false}, {6, 10, true}};
    unsigned bad = 0;

    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        bad += run_cells(all, cells, count, limit, &passes[i]);
    }
    return bad;
}

unsigned faults_run(struct worlds *all, const struct fault_row *rows,
                    size_t count, double seconds)
{
    const char *only = getenv("MP_TEST_ONLY"); /* a command or stage */
    struct cell *cells = calloc(count * FAULTS_KINDS, sizeof(*cells));
    size_t used = 0;
    unsigned bad;

    if (!cells) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < FAULTS_KINDS; k++) {
            if (rows[i].ends[k] && (!only || !strcmp(only, where(&rows[i])))) {
                cells[used++] = (struct cell){.row = &rows[i],
                                              .fault = kinds[k],
                                              .end = rows[i].ends[k],
                                              .is_due = true};
            }
        }
    }
    bad = run_passes(all, cells, used,
                     (mp_time)(seconds * all->slow * (double)MP_SECOND));
    free(cells);
    return bad;
}
