// SPDX-License-Identifier: BSD-3-Clause
/* Migrations between two daemons whose QEMUs are models: what becomes of the
 * guest when a daemon is killed at a step, or its undoing is disturbed. */
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

static double limit(double seconds)
{
    return seconds * all.slow;
}

static struct world *begin(const char *name, const struct world_params *params)
{
    struct error err = ERROR_INIT;
    struct world *w = world_new(&all, name, params);

    if (!world_start(w, &err)) {
        fail_msg("%s: %s", name, err.text);
    }
    return w;
}

/* NULL, or what is not as expected. */
static const char *wrong(struct world *w, const char *end)
{
    const char *complaint = world_complaint(w);
    char text[100], all_text[500];

    snprintf(text, sizeof(text), "%s %s", world_state(&w->source),
             world_class(&w->source));
    if (!complaint && !fnmatch(end, text, FNM_EXTMATCH)) {
        return NULL;
    }
    snprintf(all_text, sizeof(all_text), "%s: %s, expected %s; %s", w->name,
             text, end, complaint ? complaint : "no complaint");
    return world_keep(all_text);
}

static void expect(struct world *w, const char *end)
{
    const char *text = wrong(w, end);

    if (text) {
        fail_msg("%s", text);
    }
}

/* --- daemons that are killed -------------------------------------------- */

/* A daemon is killed when the command comes to that host's QEMU, or the stage
 * is entered there, and is started anew; both daemons if too is set. */
struct kill_row {
    enum api_mode mode;
    bool at_source; /* whose QEMU it is */
    const char *command;
    enum model_stage stage;
    bool kills_source, kills_destination;
    bool is_lost; /* the command is: it had not been sent */
    const char *end;
    const char *runs; /* where the guest runs then; NULL: nowhere */
};

struct kill {
    const struct kill_row *row;
    struct world *w;
    bool is_due, is_down;
    mp_time due_at;
};

static void is_due(struct kill *kill)
{
    if (!kill->due_at) {
        kill->is_due = true;
        kill->due_at = clock_now();
    }
}

static bool is_of(struct kill *kill, struct model_qemu *q)
{
    return kill && model_is_source(q) == kill->row->at_source;
}

static void on_command(struct world *w, struct model_qemu *q,
                       const char *command, unsigned nth)
{
    struct kill *kill = w->user;

    if (is_of(kill, q) && kill->row->command &&
        !strcmp(command, kill->row->command)) {
        is_due(kill);
    }
}

static void on_stage(struct world *w, struct model_qemu *q,
                     enum model_stage stage)
{
    struct kill *kill = w->user;

    if (is_of(kill, q) && !kill->row->command && stage == kill->row->stage) {
        is_due(kill);
    }
}

static void step(struct kill *kill)
{
    struct world *w = kill->w;

    if (kill->is_due) {
        kill->is_due = false;
        kill->is_down = true;
        if (kill->row->kills_source) {
            world_kill(&w->source);
        }
        if (kill->row->kills_destination) {
            world_kill(&w->destination);
        }
    } else if (kill->is_down && clock_now() - kill->due_at > 100 * MP_MS) {
        kill->is_down = false;
        if (kill->row->kills_destination) {
            world_boot(&w->destination);
        }
        if (kill->row->kills_source) {
            world_boot(&w->source);
        }
    }
}

static bool is_over(struct kill *kill)
{
    return kill->due_at && !kill->is_due && !kill->is_down &&
           world_is_over(kill->w);
}

static void start_kill(struct kill *kill, unsigned slow)
{
    const struct kill_row *row = kill->row;
    struct world_params params = {
        .mode = row->mode,
        .slow = slow,
        .source.never_converges = row->mode == API_MODE_POSTCOPY,
        .source.rest_time = all.slow * 500 * MP_MS,
        .on_command = on_command,
        .on_stage = on_stage,
    };

    char name[128];
    snprintf(name, sizeof(name), "%s, %s%s killed at %s of the %s",
             row->mode == API_MODE_POSTCOPY ? "postcopy" : "precopy",
             row->kills_source ? "source " : "",
             row->kills_destination ? "destination" : "",
             row->command ? row->command : model_stage_name(row->stage),
             row->at_source ? "source" : "destination");
    kill->w = world_new(&all, name, &params);
    kill->w->user = kill;
    if (row->is_lost) {
        model_fail_command(row->at_source ? kill->w->source_qemu
                                          : kill->w->destination_qemu,
                           MODEL_NEW, row->command, 1, MODEL_IGNORE);
    }
    struct error err = ERROR_INIT;
    if (!world_start(kill->w, &err)) {
        fail_msg("%s: %s", name, err.text);
    }
}

static const char *guest_is_wrong(struct kill *kill)
{
    struct world *w = kill->w;
    const char *runs = kill->row->runs;
    bool here = model_runs(w->source_qemu);
    bool there = model_runs(w->destination_qemu);
    char text[200];

    if (here == (runs && !strcmp(runs, "source")) &&
        there == (runs && !strcmp(runs, "destination"))) {
        return NULL;
    }
    snprintf(text, sizeof(text),
             "%s: the guest %s on the source, %s on the destination", w->name,
             here ? "runs" : "does not run", there ? "runs" : "does not run");
    return world_keep(text);
}

/* Ends it; returns whether it is to be run again: it went wrong while this
 * program was kept from running, and nothing happened that never must. */
static bool finish_kill(struct kill *kill, bool was_stalled)
{
    const char *text = wrong(kill->w, kill->row->end);

    if (!text) {
        text = guest_is_wrong(kill);
    }
    if (text && (!was_stalled || kill->w->breach[0])) {
        fail_msg("%s", text);
    }
    world_free(kill->w);
    return text != NULL;
}

/* Runs those that are due; returns how many are due again. */
static size_t run_due(struct kill *kills, size_t count, unsigned slow,
                      bool is_last)
{
    unsigned held_up = all.held_up;
    size_t over = 0, due = 0, again = 0;
    mp_time began = clock_now();

    for (size_t i = 0; i < count; i++) {
        if (kills[i].row) {
            start_kill(&kills[i], slow);
            due++;
        }
    }
    while (over < due &&
           clock_now() - began < (mp_time)(30 * slow) * MP_SECOND) {
        over = 0;
        worlds_run_for(&all, MP_MS);
        for (size_t i = 0; i < count; i++) {
            if (kills[i].row) {
                step(&kills[i]);
                over += is_over(&kills[i]);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (kills[i].row &&
            finish_kill(&kills[i], all.held_up != held_up && !is_last)) {
            kills[again++] = (struct kill){.row = kills[i].row};
        }
    }
    memset(&kills[again], 0, (count - again) * sizeof(*kills));
    return again;
}

static void run_kills(const struct kill_row *rows, size_t count)
{
    struct kill *kills = calloc(count, sizeof(*kills));

    assert_non_null(kills);
    for (size_t i = 0; i < count; i++) {
        kills[i].row = &rows[i];
    }
    if (run_due(kills, count, all.slow, false) &&
        run_due(kills, count, 4 * all.slow, false)) {
        run_due(kills, count, 10 * all.slow, true);
    }
    free(kills);
}

#define P API_MODE_PRECOPY
#define C API_MODE_POSTCOPY
#define SOURCE_QEMU true
#define DESTINATION_QEMU false
#define KILLS_SOURCE true, false
#define KILLS_DESTINATION false, true
#define KILLS_BOTH true, true

static void a_daemon_is_killed_before_commit(void **state)
{
    static const struct kill_row rows[] = {
        {P, SOURCE_QEMU, NULL, MODEL_ACTIVE, KILLS_SOURCE, false,
         "failed daemon-restarted", "source"},
        {P, SOURCE_QEMU, NULL, MODEL_ACTIVE, KILLS_DESTINATION, false,
         "failed *", "source"},
        {P, SOURCE_QEMU, NULL, MODEL_ACTIVE, KILLS_BOTH, false,
         "failed daemon-restarted", "source"},
        {P, SOURCE_QEMU, NULL, MODEL_PRE_SWITCHOVER, KILLS_SOURCE, false,
         "failed daemon-restarted", "source"},
        {P, SOURCE_QEMU, NULL, MODEL_PRE_SWITCHOVER, KILLS_DESTINATION, false,
         "failed *", "source"},
        {P, SOURCE_QEMU, "migrate-continue", 0, KILLS_SOURCE, true,
         "failed daemon-restarted", "source"},
        {P, SOURCE_QEMU, "migrate-continue", 0, KILLS_SOURCE, false,
         "failed daemon-restarted", "source"},
        {P, SOURCE_QEMU, "migrate-continue", 0, KILLS_BOTH, false,
         "failed daemon-restarted", "source"},
        /* QEMU never heard it, and says so */
        {C, SOURCE_QEMU, "migrate-continue", 0, KILLS_SOURCE, true,
         "failed daemon-restarted", "source"},
        {C, SOURCE_QEMU, "migrate-continue", 0, KILLS_BOTH, true,
         "failed daemon-restarted", "source"},
        /* the package has left */
        {C, SOURCE_QEMU, NULL, MODEL_POSTCOPY, KILLS_SOURCE, false,
         "attention daemon-restarted", NULL},
    };

    run_kills(rows, sizeof(rows) / sizeof(rows[0]));
}

static void a_daemon_is_killed_between_started_and_cont(void **state)
{
    static const struct kill_row rows[] = {
        {P, DESTINATION_QEMU, "cont", 0, KILLS_DESTINATION, true, "completed *",
         "destination"},
        {P, DESTINATION_QEMU, "cont", 0, KILLS_DESTINATION, false,
         "completed *", "destination"},
        {P, DESTINATION_QEMU, "cont", 0, KILLS_SOURCE, false, "completed *",
         "destination"},
        {P, DESTINATION_QEMU, "cont", 0, KILLS_BOTH, true, "completed *",
         "destination"},
        /* the path to the pages went with the daemon, but the guest belongs
         * to the destination and is to run there */
        {C, DESTINATION_QEMU, "cont", 0, KILLS_DESTINATION, true, "attention *",
         "destination"},
        {C, DESTINATION_QEMU, "cont", 0, KILLS_SOURCE, false, "attention *",
         "destination"},
    };

    run_kills(rows, sizeof(rows) / sizeof(rows[0]));
}

/* --- a copy that is all there is of the guest --------------------------- */

static bool source_is_done(struct world *w)
{
    return !strcmp(model_status(w->source_qemu), "device");
}

/* The advice of one end names the monitor of an end's QEMU. */
static void expect_socket_of(struct world_host *host, struct world_host *whose)
{
    json_object *record = world_record(whose), *successor;
    const char *path;

    assert_true(json_value_object(record, "successor", &successor));
    assert_true(json_value_text(successor, "qmp_path", &path));
    if (!strstr(world_text(host, "advice"), path)) {
        fail_msg("no %s in: %s", path, world_text(host, "advice"));
    }
    json_object_put(record);
}

static void expect_kept(struct world *w)
{
    expect(w, "attention *");
    assert_true(model_is_alive(w->destination_qemu));
    assert_false(model_ever_ran(w->destination_qemu));
    assert_int_equal(model_count(w->destination_qemu, "quit"), 0);
    assert_int_equal(model_count(w->destination_qemu, "cont"), 0);
    assert_non_null(strstr(world_text(&w->source, "advice"), "whole copy"));
    assert_non_null(strstr(world_text(&w->destination, "advice"), "paused"));
    expect_socket_of(&w->source, &w->source);
    expect_socket_of(&w->source, &w->destination);
    expect_socket_of(&w->destination, &w->source);
    expect_socket_of(&w->destination, &w->destination);
    assert_string_equal(world_text(&w->source, "guest_is_on"), "unknown");
}

static void a_whole_copy_is_kept_when_the_source_has_died(void **state)
{
    struct world_params params = {.mode = P};
    struct world *w = world_new(&all, "died when all was loaded", &params);
    struct error err = ERROR_INIT;

    model_fail_stage(w->source_qemu, MODEL_COMPLETED, MODEL_EXIT);
    assert_true(world_start(w, &err));
    world_run(w, limit(20));
    expect_kept(w);
    world_free(w);
}

static void a_copy_that_is_being_loaded_is_kept(void **state)
{
    struct world_params params = {.mode = P,
                                  .destination.load_time = 400 * MP_MS};
    struct world *w = begin("died while it was being loaded", &params);

    assert_true(world_wait(w, source_is_done));
    worlds_run_for(&all, 200 * MP_MS); /* the end is there, and is read */
    model_exit(w->source_qemu);
    world_run(w, limit(20));
    expect_kept(w);
    world_free(w);
}

static void half_a_copy_is_not_kept(void **state)
{
    struct world_params params = {.mode = P, .source.never_converges = true};
    struct world *w = begin("died in precopy", &params);

    worlds_run_for(&all, all.slow * 300 * MP_MS);
    model_exit(w->source_qemu);
    world_run(w, limit(20));
    expect(w, "attention qemu-gone");
    assert_false(model_is_alive(w->destination_qemu));
    assert_null(strstr(world_text(&w->source, "advice"), "whole copy"));
    world_free(w);
}

/* A QEMU that was told to listen must be ended, and its socket removed, also by
 * a successor of the daemon that told it. */
static void note_listening(struct world *w, struct model_qemu *q,
                           const char *command, unsigned nth)
{
    json_object *record, *successor;
    bool is_told = false;

    if (strcmp(command, "migrate-incoming") != 0) {
        return;
    }
    record = world_record(&w->destination);
    if (json_value_object(record, "successor", &successor)) {
        json_value_bool(successor, "told_to_listen", &is_told);
    }
    w->step = is_told ? 1 : 2;
    json_object_put(record);
}

static void that_qemu_listens_is_on_disk_first(void **state)
{
    struct world_params params = {.mode = P, .on_command = note_listening};
    struct world *w = begin("listening", &params);
    mp_time began = clock_now();

    while (!w->step && clock_now() - began < (mp_time)limit(20) * MP_SECOND) {
        worlds_run_for(&all, MP_MS);
    }
    assert_int_equal(w->step, 1);
    world_free(w);
}

/* --- undoing that is disturbed ------------------------------------------ */

struct drop {
    const char *command;
    bool at_source;
    bool is_due;
};

static void drop_on_command(struct world *w, struct model_qemu *q,
                            const char *command, unsigned nth)
{
    struct drop *drop = w->user;

    if (drop && w->step && model_is_source(q) == drop->at_source &&
        !strcmp(command, drop->command)) {
        drop->is_due = true;
    }
}

/* A monitor that closes does not keep an undoing from its end. */
static void monitors_close_while_undoing(void **state)
{
    static struct drop drops[] = {
        {"migrate_cancel", true, false},
        {"query-status", true, false},
        {"migrate-set-capabilities", true, false},
        {"migrate-set-parameters", true, false},
        {"quit", false, false},
    };
    enum { DROPS = sizeof(drops) / sizeof(drops[0]) };
    struct world *worlds[DROPS];
    struct world_params params = {.mode = P,
                                  .source.never_converges = true,
                                  .on_command = drop_on_command};
    struct error err = ERROR_INIT, why = ERROR_INIT;
    mp_time began;
    size_t over = 0;

    error_set(&why, ERR_CANCELLED, "somebody asked for it");
    for (size_t i = 0; i < DROPS; i++) {
        worlds[i] = begin(drops[i].command, &params);
        worlds[i]->user = &drops[i];
    }
    worlds_run_for(&all, all.slow * 500 * MP_MS);
    for (size_t i = 0; i < DROPS; i++) {
        json_object *body = NULL;
        worlds[i]->step = 1;
        assert_int_equal(manager_api_ops.cancel(worlds[i]->source.manager,
                                                worlds[i]->id, &body, &err),
                         0);
        json_object_put(body);
    }
    began = clock_now();
    while (over < DROPS &&
           clock_now() - began < (mp_time)limit(20) * MP_SECOND) {
        over = 0;
        worlds_run_for(&all, MP_MS);
        for (size_t i = 0; i < DROPS; i++) {
            struct world *w = worlds[i];
            if (drops[i].is_due) {
                drops[i].is_due = false;
                model_drop_client(drops[i].at_source ? w->source_qemu
                                                     : w->destination_qemu);
            }
            over += world_is_over(w);
        }
    }
    for (size_t i = 0; i < DROPS; i++) {
        assert_true(world_is_over(worlds[i]));
        /* without its monitor the source's guest may not be known to run */
        expect(worlds[i],
               drops[i].at_source ? "@(attention|cancelled) *" : "cancelled *");
        world_free(worlds[i]);
    }
}

/* A destination's QEMU that does not end is told to the operator. */
static void a_quit_without_an_answer_is_told(void **state)
{
    struct world_params params = {.mode = P, .source.never_converges = true};
    struct error err = ERROR_INIT;
    json_object *body = NULL;
    struct world *w = begin("quit ignored", &params);

    worlds_run_for(&all, all.slow * 300 * MP_MS);
    model_hang(w->destination_qemu);
    assert_int_equal(
        manager_api_ops.cancel(w->source.manager, w->id, &body, &err), 0);
    json_object_put(body);
    world_run(w, limit(20));
    assert_string_equal(world_text(&w->source, "state"), "cancelled");
    assert_string_equal(world_text(&w->destination, "state"), "cancelled");
    assert_non_null(strstr(world_text(&w->destination, "advice"),
                           "recovery.md#destination-does-not-quit"));
    assert_true(model_runs(w->source_qemu));
    world_free(w);
}

/* QEMU's cancel can be stuck with the guest stopped; it is helped out. */
static void a_cancel_is_stuck_at_the_guests_stop(void **state)
{
    struct world_params params = {
        .mode = P, .source.never_converges = true, .source.cancels_late = true};
    struct error err = ERROR_INIT;
    json_object *body = NULL;
    struct world *w = begin("stuck", &params);

    worlds_run_for(&all, all.slow * 300 * MP_MS);
    assert_int_equal(
        manager_api_ops.cancel(w->source.manager, w->id, &body, &err), 0);
    json_object_put(body);
    w->source.conf->cancel_timeout = (mp_time)limit(10) * MP_SECOND;
    world_run(w, limit(20));
    expect(w, "cancelled *");
    assert_true(model_runs(w->source_qemu));
    assert_true(world_is_restored(w));
    world_free(w);
}

enum { IN_SETUP = 1, BEHIND_SETUP };

static void note_cancel(struct world *w, struct model_qemu *q,
                        const char *command, unsigned nth)
{
    if (!strcmp(command, "migrate_cancel")) {
        w->step = !strcmp(model_status(q), "setup") ? IN_SETUP : BEHIND_SETUP;
    }
}

static bool is_setting_up(struct world *w)
{
    return !strcmp(model_status(w->source_qemu), "setup");
}

/* When QEMU is told to cancel, if that is asked for while it sets its migration
 * up. */
static void cancel_in_setup(const char *name, unsigned channels,
                            mp_time setup_time, unsigned told)
{
    struct world_params params = {.mode = P,
                                  .multifd = channels,
                                  .source.setup_time = setup_time,
                                  .source.never_converges = true,
                                  .on_command = note_cancel};
    struct error err = ERROR_INIT;
    json_object *body = NULL;
    struct world *w = begin(name, &params);

    assert_true(world_wait(w, is_setting_up));
    assert_int_equal(
        manager_api_ops.cancel(w->source.manager, w->id, &body, &err), 0);
    json_object_put(body);
    world_run(w, limit(20));
    expect(w, "cancelled *");
    assert_int_equal(w->step, told);
    assert_int_equal(model_count(w->source_qemu, "migrate_cancel"), 1);
    assert_true(model_runs(w->source_qemu));
    assert_true(world_is_restored(w));
    world_free(w);
}

/* QEMU 7.2 would be stuck if its channels ended while it waits for them; one
 * that waits for long is told all the same. */
static void a_cancel_lets_multifd_be_set_up_first(void **state)
{
    cancel_in_setup("short", 2, 300 * MP_MS, BEHIND_SETUP);
    cancel_in_setup("long", 2, 60 * MP_SECOND, IN_SETUP);
    cancel_in_setup("without", 0, 60 * MP_SECOND, IN_SETUP);
}

/* --timeout does not need QEMU's numbers. */
static void a_timeout_passes_while_qemu_is_silent(void **state)
{
    struct world_params params = {.mode = P,
                                  .source.never_converges = true,
                                  .source.hides_events = true,
                                  .timeout_seconds = 0.6};
    struct world *w = world_new(&all, "silent", &params);
    struct error err = ERROR_INIT;
    json_object *shown, *failure = NULL;
    const char *text = "";

    model_fail_command(w->source_qemu, MODEL_ACTIVE, "query-migrate", 3,
                       MODEL_HANG);
    assert_true(world_start(w, &err));
    world_run(w, limit(20));
    expect(w, "attention timeout");
    shown = world_show(&w->source);
    assert_true(json_value_object(shown, "error", &failure));
    json_value_text(failure, "message", &text);
    assert_non_null(strstr(text, "--timeout"));
    json_object_put(shown);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_daemon_is_killed_before_commit),
        cmocka_unit_test(a_daemon_is_killed_between_started_and_cont),
        cmocka_unit_test(a_whole_copy_is_kept_when_the_source_has_died),
        cmocka_unit_test(a_copy_that_is_being_loaded_is_kept),
        cmocka_unit_test(half_a_copy_is_not_kept),
        cmocka_unit_test(that_qemu_listens_is_on_disk_first),
        cmocka_unit_test(monitors_close_while_undoing),
        cmocka_unit_test(a_quit_without_an_answer_is_told),
        cmocka_unit_test(a_cancel_is_stuck_at_the_guests_stop),
        cmocka_unit_test(a_cancel_lets_multifd_be_set_up_first),
        cmocka_unit_test(a_timeout_passes_while_qemu_is_silent),
    };
    int failed;

    worlds_init(&all);
    failed = cmocka_run_group_tests_name("disturbed", tests, NULL, NULL);
    worlds_done(&all);
    return failed;
}
