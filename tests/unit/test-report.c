// SPDX-License-Identifier: BSD-3-Clause
/* Migrations between two daemons whose QEMUs are models: what is told of them,
 * on both hosts, also when they end badly or a daemon is restarted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "qmp/json-value.h"
#include "tests/lib/world.h"

static struct worlds all;

static int set_up(void **state)
{
    worlds_init(&all);
    return 0;
}

static int tear_down(void **state)
{
    worlds_done(&all);
    return 0;
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

static void expect_end(struct world *w, const char *end)
{
    const char *complaint = world_complaint(w);

    if (complaint || strcmp(world_state(&w->source), end)) {
        fail_msg("%s: %s, expected %s; %s", w->name, world_state(&w->source),
                 end, complaint ? complaint : "no complaint");
    }
}

/* --- members ------------------------------------------------------------ */

static json_object *find(json_object *shown, const char *group,
                         const char *name)
{
    json_object *object = shown, *member = NULL;

    if ((group && !json_value_object(shown, group, &object)) ||
        !json_object_object_get_ex(object, name, &member)) {
        fail_msg("no %s.%s in %s", group, name,
                 json_object_to_json_string(shown));
    }
    return member;
}

/* The number; fails if it is null. */
static uint64_t number(json_object *shown, const char *group, const char *name)
{
    json_object *member = find(shown, group, name);

    if (!json_object_is_type(member, json_type_int)) {
        fail_msg("%s.%s is no number in %s", group, name,
                 json_object_to_json_string(shown));
    }
    return json_object_get_uint64(member);
}

static double percent(json_object *shown)
{
    return json_object_get_double(find(shown, "progress", "percent"));
}

/* All are closed, and there are as many. */
static void expect_closed(json_object *shown, size_t count)
{
    json_object *channels = find(shown, NULL, "channels");

    assert_int_equal(json_object_array_length(channels), count);
    for (size_t i = 0; i < count; i++) {
        json_object *channel = json_object_array_get_idx(channels, i);
        assert_false(json_object_get_boolean(find(channel, NULL, "open")));
        assert_int_equal(number(channel, NULL, "held_bytes"), 0);
        assert_int_equal(
            json_object_array_length(find(channel, NULL, "blocked")), 0);
    }
}

/* --- moments ------------------------------------------------------------ */

/* QEMU's numbers and the data path's are there. */
static bool is_counted(struct world *w)
{
    json_object *shown = world_show(&w->source);
    json_object *progress = NULL, *totals = NULL, *channels = NULL;
    uint64_t sent = 0, wire = 0;
    bool is_there = false;

    if (json_value_object(shown, "progress", &progress) &&
        json_value_object(shown, "totals", &totals) &&
        json_value_array(shown, "channels", &channels)) {
        json_value_uint(totals, "precopy_bytes", &sent);
        json_value_uint(totals, "wire_sent_bytes", &wire);
        is_there =
            sent > 0 && wire > 0 && json_object_array_length(channels) > 0;
    }
    json_object_put(shown);
    return is_there && !strcmp(world_state(&w->source), "precopy");
}

static bool is_in_postcopy(struct world *w)
{
    return !strcmp(world_state(&w->source), "postcopy") &&
           !strcmp(world_state(&w->destination), "postcopy");
}

/* The destination has looked twice, a second apart. */
static bool has_rate(struct world *w)
{
    json_object *shown = world_show(&w->destination);
    bool is_there = find(shown, "progress", "rate_bytes_per_second") != NULL &&
                    number(shown, "phases_ms", "postcopy") > 1000;

    json_object_put(shown);
    return is_there;
}

/* --- tests -------------------------------------------------------------- */

static void a_success_has_the_last_numbers(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY};
    struct world *w = begin("precopy", &params);

    world_run(w, 30);
    expect_end(w, "completed");
    json_object *shown = world_show(&w->source);
    assert_true(percent(shown) == 100);
    assert_int_equal(number(shown, "progress", "remaining_bytes"), 0);
    assert_int_equal(number(shown, "progress", "total_bytes"), 1 << 20);
    /* what was sent behind the last poll */
    assert_true(number(shown, "totals", "precopy_bytes") > 8192);
    assert_true(number(shown, "totals", "downtime_bytes") > 8192);
    assert_int_equal(number(shown, "totals", "postcopy_bytes"), 0);
    assert_null(find(shown, "progress", "rate_bytes_per_second"));
    assert_null(find(shown, "progress", "dirty_rate_bytes_per_second"));
    expect_closed(shown, 1);
    json_object_put(shown);
    world_free(w);
}

/* QEMU tells no numbers of what has failed. */
static void a_broken_path_leaves_the_numbers(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.never_converges = true};
    struct world *w = begin("the path breaks in precopy", &params);

    assert_true(world_wait(w, is_counted));
    json_object *before = world_show(&w->source);
    relay_refuse(w->relay, true);
    relay_cut_all(w->relay);
    world_run(w, 30 * all.slow);
    expect_end(w, "failed");
    json_object *after = world_show(&w->source);
    static const char *const names[][2] = {
        {"progress", "transferred_bytes"}, {"progress", "total_bytes"},
        {"progress", "remaining_bytes"},   {"progress", "pass"},
        {"totals", "precopy_bytes"},       {"totals", "wire_sent_bytes"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(number(after, names[i][0], names[i][1]) >=
                    number(before, names[i][0], names[i][1]));
        assert_true(number(after, names[i][0], names[i][1]) > 0);
    }
    assert_true(percent(after) >= percent(before) && percent(after) > 90);
    assert_true(percent(after) < 100);
    assert_null(find(after, "progress", "eta_seconds"));
    assert_null(find(after, "progress", "rate_bytes_per_second"));
    expect_closed(after, 1);
    json_object_put(before);
    json_object_put(after);
    world_free(w);
}

static void cancel_there(struct world *w)
{
    struct error err = ERROR_INIT;
    json_object *body = NULL;

    if (manager_api_ops.cancel(w->destination.manager, w->id, &body, &err)) {
        fail_msg("%s", err.text);
    }
    json_object_put(body);
}

static void cancel_at_command(struct world *w, struct model_qemu *q,
                              const char *command, unsigned nth)
{
    if (w->user && nth == 1 && !strcmp(command, w->user) &&
        (!model_is_source(q) || !strcmp(command, "migrate"))) {
        cancel_there(w);
    }
}

/* On the destination: both ends say cancelled, and nobody was refused. */
static void a_cancel_is_the_same_on_either_host(void **state)
{
    /* a command that comes to a QEMU; the last: in precopy */
    static char when[][20] = {"query-name", "migrate-incoming", "migrate", ""};
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.never_converges = true,
                                  .on_command = cancel_at_command};

    for (size_t i = 0; i < sizeof(when) / sizeof(when[0]); i++) {
        struct world *w = begin(when[i], &params);
        w->user = when[i];
        if (!when[i][0]) {
            assert_true(world_wait(w, is_counted));
            cancel_there(w);
        }
        world_run(w, 30 * all.slow);
        expect_end(w, "cancelled");
        assert_string_equal(world_class(&w->source), "cancelled");
        assert_string_equal(world_state(&w->destination), "cancelled");
        json_object *shown = world_show(&w->destination);
        assert_false(json_object_get_boolean(find(shown, NULL, "refused")));
        json_object_put(shown);
        world_free(w);
    }
}

static void a_cancel_closes_the_channels(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.never_converges = true};
    struct world *w = begin("cancelled", &params);
    struct error err = ERROR_INIT;
    json_object *body = NULL;

    assert_true(world_wait(w, is_counted));
    assert_int_equal(
        manager_api_ops.cancel(w->source.manager, w->id, &body, &err), 0);
    json_object_put(body);
    world_run(w, 30 * all.slow);
    expect_end(w, "cancelled");
    json_object *here = world_show(&w->source);
    json_object *there = world_show(&w->destination);
    expect_closed(here, 1);
    expect_closed(there, 1);
    /* the last that it has read is counted */
    json_object *main =
        json_object_array_get_idx(find(here, NULL, "channels"), 0);
    uint64_t received = number(there, "progress", "transferred_bytes");
    assert_true(received > 0);
    assert_true(number(main, NULL, "forward_bytes") >= received);
    json_object_put(here);
    json_object_put(there);
    world_free(w);
}

static void the_destination_tells_what_it_knows(void **state)
{
    struct world_params params = {.mode = API_MODE_POSTCOPY,
                                  .source.never_converges = true,
                                  .source.rest_time = all.slow * 3 * MP_SECOND};
    struct world *w = begin("postcopy", &params);

    assert_true(world_wait(w, is_in_postcopy));
    assert_true(world_wait(w, has_rate));
    json_object *there = world_show(&w->destination);
    json_object *here = world_show(&w->source);
    assert_string_equal(json_object_get_string(find(there, NULL, "state")),
                        "postcopy");
    assert_true(number(there, "progress", "transferred_bytes") > 8192);
    assert_null(find(there, "progress", "percent"));
    assert_true(number(there, "path", "rtt_us") > 0);
    assert_null(find(there, "path", "window_bytes"));
    assert_null(find(there, "totals", "precopy_bytes"));
    assert_true(number(there, "totals", "wire_received_bytes") > 8192);
    assert_int_equal(number(there, "totals", "page_requests"), 0);
    assert_true(number(there, "phases_ms", "postcopy") > 1000);
    assert_int_equal(json_object_array_length(find(there, NULL, "channels")),
                     1);
    /* measured in precopy, it says nothing now */
    assert_null(find(here, "progress", "dirty_rate_bytes_per_second"));
    number(here, "progress", "rate_bytes_per_second");
    json_object_put(here);
    json_object_put(there);
    world_run(w, 30 * all.slow);
    expect_end(w, "completed");
    there = world_show(&w->destination);
    assert_true(percent(there) == 100);
    expect_closed(there, 1);
    json_object_put(there);
    world_free(w);
}

/* What a successor tells of its predecessor's time. */
static void expect_survived(json_object *before, json_object *after,
                            uint64_t down_ms)
{
    static const char *const same[][2] = {
        {NULL, "started_at"},
        {"totals", "wire_sent_bytes"},
        {"totals", "wire_received_bytes"},
        {"totals", "page_requests"},
    };

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        json_object *a = find(before, same[i][0], same[i][1]);
        json_object *b = find(after, same[i][0], same[i][1]);
        if (!json_object_equal(a, b)) {
            fail_msg("%s: %s, before %s", same[i][1],
                     json_object_to_json_string(b),
                     json_object_to_json_string(a));
        }
    }
    assert_true(number(after, NULL, "elapsed_ms") >=
                number(before, NULL, "elapsed_ms") + down_ms);
    assert_true(number(after, "phases_ms", "precopy") > 0);
    assert_string_not_equal(
        json_object_get_string(find(after, NULL, "counted_at")),
        json_object_get_string(find(after, NULL, "ended_at")));
}

static void a_restart_keeps_times_and_totals(void **state)
{
    struct world_params params = {.mode = API_MODE_POSTCOPY,
                                  .source.never_converges = true,
                                  .source.pass_time = 50 * MP_MS,
                                  .source.rest_time = MP_SECOND * 60};
    struct world *w = begin("both daemons restart in postcopy", &params);

    assert_true(world_wait(w, is_in_postcopy));
    json_object *here = world_record(&w->source);
    json_object *there = world_record(&w->destination);
    world_kill(&w->source);
    world_kill(&w->destination);
    worlds_run_for(&all, 200 * MP_MS);
    world_boot(&w->destination);
    world_boot(&w->source);
    world_run(w, 30 * all.slow);
    assert_string_equal(world_state(&w->source), "attention");
    json_object *shown = world_show(&w->source);
    expect_survived(here, shown, 200);
    assert_int_equal(number(shown, "totals", "precopy_bytes"),
                     number(here, "totals", "precopy_bytes"));
    assert_true(number(shown, "totals", "precopy_bytes") > 0);
    assert_true(percent(shown) > 90);
    assert_int_equal(number(shown, "downtime", "blackout_us"),
                     number(here, "downtime", "blackout_us"));
    expect_closed(shown, 1);
    json_object_put(shown);
    shown = world_show(&w->destination);
    expect_survived(there, shown, 200);
    assert_int_equal(number(shown, "progress", "transferred_bytes"),
                     number(there, "progress", "transferred_bytes"));
    json_object_put(shown);
    json_object_put(here);
    json_object_put(there);
    world_free(w);
}

/* What nobody can know any more is null, and not 0. */
static void a_restart_before_any_number(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.never_converges = true};
    struct world *w = begin("the source restarts in precopy", &params);

    assert_true(world_wait(w, is_counted));
    json_object *record = world_record(&w->source);
    assert_null(find(record, "progress", "total_bytes"));
    world_kill(&w->source);
    worlds_run_for(&all, 100 * MP_MS);
    world_boot(&w->source);
    world_run(w, 30 * all.slow);
    expect_end(w, "failed");
    json_object *shown = world_show(&w->source);
    static const char *const unknown[][2] = {
        {"progress", "percent"},      {"progress", "transferred_bytes"},
        {"progress", "total_bytes"},  {"progress", "pass"},
        {"totals", "precopy_bytes"},  {"totals", "postcopy_bytes"},
        {"totals", "downtime_bytes"},
    };
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        if (find(shown, unknown[i][0], unknown[i][1])) {
            fail_msg("%s.%s is known: %s", unknown[i][0], unknown[i][1],
                     json_object_to_json_string(shown));
        }
    }
    assert_true(number(shown, NULL, "elapsed_ms") >= 100);
    assert_true(number(shown, "phases_ms", "precopy") >= 100);
    json_object_put(record);
    json_object_put(shown);
    world_free(w);
}

/* --- orders ------------------------------------------------------------- */

static uint64_t set_downtime(struct world *w, unsigned max_downtime_ms)
{
    struct api_limits limits = {.has_max_downtime = true,
                                .max_downtime_ms = max_downtime_ms};
    struct error err = ERROR_INIT;
    json_object *body = NULL;

    if (manager_api_ops.set(w->source.manager, w->id, &limits, &body, &err)) {
        fail_msg("%s", err.text);
    }
    uint64_t shown = number(body, "limits", "max_downtime_ms");
    json_object_put(body);
    return shown;
}

static uint64_t shown_downtime(struct world *w)
{
    json_object *shown = world_show(&w->source);
    uint64_t value = number(shown, "limits", "max_downtime_ms");

    json_object_put(shown);
    return value;
}

static bool is_taken_back(struct world *w)
{
    return shown_downtime(w) == 500;
}

static void limits_are_answered_as_ordered(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.never_converges = true};
    struct world *w = begin("other limits", &params);

    assert_true(world_wait(w, is_counted));
    unsigned before = model_count(w->source_qemu, "migrate-set-parameters");
    assert_int_equal(set_downtime(w, 700), 700);
    assert_int_equal(set_downtime(w, 600), 600); /* while the first is out */
    assert_int_equal(set_downtime(w, 500), 500);
    worlds_run_for(&all, all.slow * 100 * MP_MS);
    assert_int_equal(shown_downtime(w), 500);
    assert_int_equal(model_count(w->source_qemu, "migrate-set-parameters"),
                     before + 2);
    /* a QEMU that refuses it */
    model_fail_command(w->source_qemu, MODEL_NEW, "migrate-set-parameters", 1,
                       MODEL_REFUSE);
    assert_int_equal(set_downtime(w, 400), 400);
    assert_true(world_wait(w, is_taken_back));
    world_free(w);
}

static json_object *list_incoming(struct world *w)
{
    struct error err = ERROR_INIT;
    json_object *body = NULL, *list = NULL;

    assert_int_equal(
        manager_api_ops.list_incoming(w->destination.manager, &body, &err), 0);
    assert_true(json_value_array(body, "incoming", &list));
    json_object_get(list);
    json_object_put(body);
    return list;
}

static void announce(struct world *w)
{
    struct api_incoming said = {.vm = WORLD_VM};
    struct error err = ERROR_INIT;
    json_object *body = NULL;

    snprintf(said.qmp_path, sizeof(said.qmp_path), "%s/qhost-b/%s.qmp", w->dir,
             WORLD_VM);
    if (manager_api_ops.add_incoming(w->destination.manager, &said, &body,
                                     &err)) {
        fail_msg("%s", err.text);
    }
    json_object_put(body);
}

/* A QEMU that was announced: named while a migration goes to it, forgotten when
 * that has used it in vain, kept when it was only looked at. */
static void a_used_qemu_waits_for_nobody(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.never_converges = true,
                                  .set_up = announce};
    struct world *w = begin("announced and cancelled", &params);
    struct error err = ERROR_INIT;
    json_object *body = NULL;

    assert_true(world_wait(w, is_counted));
    json_object *list = list_incoming(w);
    assert_int_equal(json_object_array_length(list), 1);
    assert_string_equal(
        json_object_get_string(
            find(json_object_array_get_idx(list, 0), NULL, "migration")),
        w->id);
    json_object_put(list);
    assert_int_equal(
        manager_api_ops.cancel(w->source.manager, w->id, &body, &err), 0);
    json_object_put(body);
    world_run(w, 30 * all.slow);
    expect_end(w, "cancelled");
    list = list_incoming(w);
    assert_int_equal(json_object_array_length(list), 0);
    json_object_put(list);
    world_free(w);

    w = world_new(&all, "announced and refused", &params);
    model_fail_command(w->destination_qemu, MODEL_NEW, "query-uuid", 1,
                       MODEL_REFUSE);
    assert_true(world_start(w, &err));
    world_run(w, 30 * all.slow);
    expect_end(w, "failed");
    list = list_incoming(w);
    assert_int_equal(json_object_array_length(list), 1);
    assert_null(find(json_object_array_get_idx(list, 0), NULL, "migration"));
    json_object_put(list);
    world_free(w);
}

/* --- closing what needed a person --------------------------------------- */

static int close_at(struct world_host *host, const char *note,
                    struct error *err)
{
    struct api_close close = {.note = ""};
    json_object *body = NULL;

    json_value_copy_text(close.note, sizeof(close.note), note);
    int rc = manager_api_ops.close(host->manager, host->world->id, &close,
                                   &body, err);
    if (rc == 0) {
        assert_non_null(find(body, "closed", "at"));
    }
    json_object_put(body);
    return rc;
}

static void expect_refusal(struct world_host *host, enum error_code code,
                           const char *text)
{
    struct error err = ERROR_INIT;

    assert_int_equal(close_at(host, "", &err), -1);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text)) {
        fail_msg("no \"%s\" in: %s", text, err.text);
    }
}

static void expect_closed_by(struct world_host *host, const char *note)
{
    json_object *shown = world_show(host);

    assert_string_equal(json_object_get_string(find(shown, "closed", "note")),
                        note);
    assert_string_equal(world_text(host, "state"), "attention");
    assert_string_equal(world_text(host, "result"), "attention");
    assert_string_equal(world_class(host), "qemu-gone");
    assert_non_null(strstr(world_text(host, "advice"), "recovery.md#"));
    json_object_put(shown);
}

static void one_in_attention_is_closed_on_each_host(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.never_converges = true};
    struct world *w = begin("closed", &params);
    struct error err = ERROR_INIT;

    assert_true(world_wait(w, is_counted));
    expect_refusal(&w->source, ERR_CONFLICT, "under way (precopy)");
    model_exit(w->source_qemu);
    assert_true(world_run(w, 20.0 * all.slow));
    expect_end(w, "attention");

    world_break_store(&w->source);
    expect_refusal(&w->source, ERR_IO, "record of migration");
    world_mend_store(&w->source);
    assert_int_equal(close_at(&w->source, "started anew", &err), 0);
    expect_closed_by(&w->source, "started anew");
    expect_refusal(&w->source, ERR_TOO_LATE, "was closed already, at 2");

    world_kill(&w->source);
    world_boot(&w->source);
    expect_closed_by(&w->source, "started anew");
    expect_refusal(&w->source, ERR_TOO_LATE, "was closed already");

    /* the other end has a record of its own */
    json_object *shown = world_show(&w->destination);
    assert_null(find(shown, NULL, "closed"));
    json_object_put(shown);
    assert_int_equal(close_at(&w->destination, "", &err), 0);
    expect_refusal(&w->destination, ERR_TOO_LATE, "was closed already");
    world_free(w);
}

static void what_needs_nobody_is_not_closed(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY};
    struct world *w = begin("not closed", &params);
    struct error err = ERROR_INIT;
    struct api_close close = {.note = ""};
    json_object *body = NULL;

    assert_true(world_run(w, 20.0 * all.slow));
    expect_end(w, "completed");
    expect_refusal(&w->source, ERR_TOO_LATE, "has ended (completed)");
    expect_refusal(&w->destination, ERR_TOO_LATE, "has ended (completed)");
    assert_int_equal(
        manager_api_ops.close(w->source.manager, "nobody", &close, &body, &err),
        -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    world_free(w);
}

/* The destination's QEMU is active with the first bytes; until the source's
 * is, too, that is setup at both ends. */
static void setup_is_the_same_at_both_ends(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY,
                                  .source.setup_time = 600 * MP_MS};
    struct world *w = begin("setup", &params);
    struct world_host *hosts[] = {&w->source, &w->destination};

    world_run(w, 30 * all.slow);
    expect_end(w, "completed");
    for (int i = 0; i < 2; i++) {
        json_object *shown = world_show(hosts[i]);
        assert_true(number(shown, "phases_ms", "setup") >= 600);
        json_object_put(shown);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_success_has_the_last_numbers),
        cmocka_unit_test(a_broken_path_leaves_the_numbers),
        cmocka_unit_test(a_cancel_is_the_same_on_either_host),
        cmocka_unit_test(a_cancel_closes_the_channels),
        cmocka_unit_test(the_destination_tells_what_it_knows),
        cmocka_unit_test(a_restart_keeps_times_and_totals),
        cmocka_unit_test(a_restart_before_any_number),
        cmocka_unit_test(limits_are_answered_as_ordered),
        cmocka_unit_test(a_used_qemu_waits_for_nobody),
        cmocka_unit_test(one_in_attention_is_closed_on_each_host),
        cmocka_unit_test(what_needs_nobody_is_not_closed),
        cmocka_unit_test(setup_is_the_same_at_both_ends),
    };
    return cmocka_run_group_tests_name("report", tests, set_up, tear_down);
}
