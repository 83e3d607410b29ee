// SPDX-License-Identifier: BSD-3-Clause
/* Migrations between two daemons whose QEMUs are models: whatever breaks, both
 * ends tell the same class, words and side, at once or when they can talk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "tests/lib/world.h"

static struct worlds all;

#define MEND_AFTER (1500 * MP_MS)
#define BEGIN_INTERVAL (20 * MP_MS)

static void cut(struct world *w)
{
    relay_refuse(w->relay, true);
    relay_cut_all(w->relay);
}

static void mend(struct world *w)
{
    relay_refuse(w->relay, false);
}

static void stall(struct world *w)
{
    relay_hold(w->relay, true);
}

static void go_on(struct world *w)
{
    relay_hold(w->relay, false);
}

static void end_source_qemu(struct world *w)
{
    model_exit(w->source_qemu);
}

static void end_destination_qemu(struct world *w)
{
    model_exit(w->destination_qemu);
}

static void cut_and_end_source_qemu(struct world *w)
{
    cut(w);
    model_exit(w->source_qemu);
}

static void cut_and_end_destination_qemu(struct world *w)
{
    cut(w);
    model_exit(w->destination_qemu);
}

static void kill_source(struct world *w)
{
    world_kill(&w->source);
}

static void boot_source(struct world *w)
{
    world_boot(&w->source);
}

static void kill_destination(struct world *w)
{
    world_kill(&w->destination);
}

static void boot_destination(struct world *w)
{
    world_boot(&w->destination);
}

static void kill_both(struct world *w)
{
    world_kill(&w->source);
    world_kill(&w->destination);
}

static void boot_both(struct world *w)
{
    world_boot(&w->destination);
    world_boot(&w->source);
}

/* When the source's daemon is in that state this happens, and later it is
 * mended. end: what both tell. */
struct story_row {
    const char *name;
    enum api_mode mode;
    const char *state;
    void (*act)(struct world *w);
    void (*then)(struct world *w);
    const char *end;
};

struct story {
    const struct story_row *row;
    struct world *w;
    unsigned slow; /* its deadlines are so many times as long */
    bool is_good;
    mp_time acted_at;
    bool is_mended;
};

#define P API_MODE_PRECOPY
#define C API_MODE_POSTCOPY
#define PATH                                                                   \
    "link-lost on the path: the path between the hosts host-a and "            \
    "host-b broke"
#define SOURCE_ANEW "daemon-restarted on the source: the source's daemon was *"
#define DESTINATION_ANEW                                                       \
    "daemon-restarted on the destination: the destination's daemon was *"

static const struct story_row rows[] = {
    {"cut", P, "precopy", cut, mend, "failed: " PATH},
    {"cut for good", P, "precopy", cut, NULL, "failed: " PATH},
    {"stalled", P, "precopy", stall, go_on, "failed: " PATH},
    {"source daemon", P, "precopy", kill_source, boot_source,
     "failed: " SOURCE_ANEW},
    {"destination daemon", P, "precopy", kill_destination, boot_destination,
     "failed: " DESTINATION_ANEW},
    {"both daemons", P, "precopy", kill_both, boot_both,
     "failed: " SOURCE_ANEW},
    {"source QEMU", P, "precopy", end_source_qemu, NULL,
     "attention: qemu-gone on the source: source QEMU *"},
    {"source QEMU behind a cut", P, "precopy", cut_and_end_source_qemu, mend,
     "attention: qemu-gone on the source: source QEMU *"},
    {"destination QEMU", P, "precopy", end_destination_qemu, NULL,
     "failed: qemu-* on the destination: destination QEMU *"},
    {"destination QEMU behind a cut", P, "precopy",
     cut_and_end_destination_qemu, mend,
     /* which is seen first */
     "failed: @(link-lost|qemu-gone) on the @(path|destination): *"},
    {"cut", C, "postcopy", cut, mend, "attention: " PATH},
    {"cut for good", C, "postcopy", cut, NULL, "attention: " PATH},
    {"stalled", C, "postcopy", stall, go_on, "attention: " PATH},
    {"source daemon", C, "postcopy", kill_source, boot_source,
     "attention: " SOURCE_ANEW},
    {"destination daemon", C, "postcopy", kill_destination, boot_destination,
     "attention: " DESTINATION_ANEW},
    {"both daemons", C, "postcopy", kill_both, boot_both,
     "attention: " SOURCE_ANEW},
    {"source QEMU", C, "postcopy", end_source_qemu, NULL,
     "attention: qemu-gone on the source: source QEMU *"},
    {"source QEMU behind a cut", C, "postcopy", cut_and_end_source_qemu, mend,
     "attention: qemu-gone on the source: source QEMU *"},
    {"destination QEMU", C, "postcopy", end_destination_qemu, NULL,
     "attention: qemu-* on the destination: destination QEMU *"},
    {"destination QEMU behind a cut", C, "postcopy",
     cut_and_end_destination_qemu, mend,
     "attention: qemu-gone on the destination: destination QEMU *"},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void begin(struct story *story)
{
    struct world_params params = {
        .mode = story->row->mode,
        .slow = story->slow,
        .source.never_converges = true,
        .source.rest_time = story->slow * 20 * MP_SECOND,
    };
    struct error err = ERROR_INIT;
    char name[100];

    snprintf(name, sizeof(name), "%s in %s", story->row->name,
             story->row->state);
    story->w = world_new(&all, name, &params);
    if (!world_start(story->w, &err)) {
        fail_msg("%s: %s", name, err.text);
    }
}

/* Returns whether it is over. */
static bool step(struct story *story)
{
    struct world *w = story->w;
    mp_time now = clock_now();

    if (!story->acted_at) {
        if (!strcmp(world_state(&w->source), story->row->state)) {
            story->row->act(w);
            story->acted_at = now;
        }
        return false;
    }
    if (!story->row->then) {
        return world_is_over(w);
    }
    /* a daemon that is down does not end it, nobody notices a short silence */
    bool is_time =
        world_is_over(w) || (story->row->act != stall &&
                             now - story->acted_at > story->slow * MEND_AFTER);
    if (!story->is_mended && is_time) {
        story->is_mended = true;
        story->row->then(w);
        return false;
    }
    return story->is_mended && world_is_over(w);
}

/* Returns whether it is as it should be. */
static bool check(struct story *story)
{
    struct world *w = story->w;
    const char *complaint = world_complaint(w);
    const char *told = world_error(&w->source);

    if (!complaint && !fnmatch(story->row->end, told, FNM_EXTMATCH)) {
        return true;
    }
    fprintf(stderr, "# %s: %s, expected %s; %s\n", w->name, told,
            story->row->end, complaint ? complaint : "no complaint");
    return false;
}

/* Tells those that are not good yet, all at once. */
static size_t tell(struct story *stories, unsigned slow)
{
    mp_time began = clock_now();
    size_t over = 0, good = 0;

    for (size_t i = 0; i < ROWS; i++) {
        if (!stories[i].is_good) {
            stories[i] = (struct story){.row = &rows[i], .slow = slow};
            begin(&stories[i]);
            worlds_run_for(&all, slow * BEGIN_INTERVAL);
        }
    }
    while (over < ROWS && clock_now() - began < slow * 40 * MP_SECOND) {
        over = 0;
        worlds_run_for(&all, MP_MS);
        for (size_t i = 0; i < ROWS; i++) {
            over += stories[i].is_good || step(&stories[i]);
        }
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (!stories[i].is_good) {
            stories[i].is_good = check(&stories[i]);
            world_free(stories[i].w);
        }
        good += stories[i].is_good;
    }
    return good;
}

static void both_ends_tell_the_same(void **state)
{
    struct story stories[ROWS] = {0};
    size_t good = 0;

    /* deadlines are short; on a busy host those that were too short are told
     * again, with longer ones */
    for (unsigned patience = 1; patience <= 16 && good < ROWS; patience *= 4) {
        good = tell(stories, patience * all.slow);
    }
    assert_int_equal(good, ROWS);
}

/* What each end saw is kept, beside what both say. */
static void what_was_seen_is_kept(void **state)
{
    struct story story = {.row = &rows[1], .slow = 4 * all.slow};
    struct world_host *hosts[2];

    begin(&story);
    while (!step(&story)) {
        worlds_run_for(&all, MP_MS);
    }
    assert_true(check(&story));
    hosts[0] = &story.w->source;
    hosts[1] = &story.w->destination;
    for (int i = 0; i < 2; i++) {
        json_object *shown = world_show(hosts[i]), *failure = NULL;
        const char *detail = "";
        assert_true(json_value_object(shown, "error", &failure));
        json_value_text(failure, "detail", &detail);
        assert_non_null(strstr(detail, " lane: host-"));
        json_object_put(shown);
    }
    world_free(story.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_tell_the_same),
        cmocka_unit_test(what_was_seen_is_kept),
    };
    int failed;

    worlds_init(&all);
    failed = cmocka_run_group_tests_name("story", tests, NULL, NULL);
    worlds_done(&all);
    return failed;
}
