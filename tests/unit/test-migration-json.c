// SPDX-License-Identifier: BSD-3-Clause
/* Records: what one process writes, its successor reads, member by member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "proxy/error-json.h"
#include "proxy/migration.h"
#include "qmp/json-value.h"

static struct loop *loop;
static struct migration_env env;

static int set_up(void **state)
{
    struct error err = ERROR_INIT;

    loop = loop_new("test", &err);
    env.control = loop;
    return loop ? 0 : -1;
}

static int tear_down(void **state)
{
    loop_free(loop);
    return 0;
}

static struct api_migrate request(const char *id)
{
    struct api_migrate request = {.mode = API_MODE_POSTCOPY, .multifd = 4};

    snprintf(request.id, sizeof(request.id), "%s", id);
    snprintf(request.vm, sizeof(request.vm), "web");
    snprintf(request.peer, sizeof(request.peer), "host-b");
    return request;
}

static struct qmp_caps *make_caps(void)
{
    struct error err = ERROR_INIT;
    json_object *json = json_tokener_parse(
        "{\"capabilities\":{\"events\":true,\"postcopy-ram\":false},"
        "\"parameters\":{\"max-bandwidth\":134217728,\"tls-creds\":\"\"}}");
    struct qmp_caps *caps = qmp_caps_from_json(json, &err);

    json_object_put(json);
    assert_non_null(caps);
    return caps;
}

/* Every member that goes into a record has a value of its own. */
static void fill(struct migration *m)
{
    struct api_migrate wish = request("m-1");

    memset(m, 0, sizeof(*m));
    migration_init(m, &env, true, &wish);
    m->state = MIGRATION_COMMITTING;
    strcpy(m->uuid, "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    strcpy(m->qmp_path, "/run/q/web.qmp");
    strcpy(m->run_state, "paused");
    strcpy(m->qemu_version, "7.2.22");
    m->postcopy = true;
    m->preempt = true;
    m->committed = true;
    m->qemu_pid = 4711;
    m->qemu_start_ticks = UINT64_C(123456789012);
    m->caps = make_caps();
    m->caps_changed = true;
    m->blocks = json_tokener_parse("[{\"name\":\"pc.ram\",\"page_size_bytes\":"
                                   "4096,\"destination_page_size_bytes\":"
                                   "2097152}]");
    m->sections =
        json_tokener_parse("[{\"name\":\"ram\",\"id\":2,\"instance\":0,"
                           "\"version\":4}]");
}

/* As the record comes back from the disk. */
static json_object *reread(json_object *record)
{
    json_object *again = json_tokener_parse(json_object_to_json_string(record));

    json_object_put(record);
    return again;
}

static int take(struct migration *m, json_object *record, struct error *err)
{
    struct api_migrate none = {.id = "m-1"};

    memset(m, 0, sizeof(*m));
    migration_init(m, &env, true, &none);
    return migration_from_record(m, record, err);
}

static void assert_same_json(json_object *a, json_object *b)
{
    if (!json_object_equal(a, b)) {
        fail_msg("%s is not %s", json_object_to_json_string(a),
                 json_object_to_json_string(b));
    }
}

static void a_successor_reads_it_all(void **state)
{
    struct migration m, got;
    struct error err = ERROR_INIT;

    fill(&m);
    json_object *record = reread(migration_to_record(&m));
    assert_int_equal(take(&got, record, &err), 0);
    assert_int_equal(got.state, MIGRATION_COMMITTING);
    assert_string_equal(got.request.vm, "web");
    assert_string_equal(got.request.peer, "host-b");
    assert_string_equal(got.uuid, m.uuid);
    assert_string_equal(got.qmp_path, "/run/q/web.qmp");
    assert_string_equal(got.run_state, "paused");
    assert_true(got.postcopy);
    assert_true(got.preempt);
    assert_int_equal(got.qemu_pid, 4711);
    assert_int_equal(got.qemu_start_ticks, UINT64_C(123456789012));
    assert_true(got.caps_changed);
    assert_same_json(got.blocks, m.blocks);
    assert_same_json(got.sections, m.sections);
    json_object *caps = qmp_caps_to_json(m.caps);
    json_object *got_caps = qmp_caps_to_json(got.caps);
    assert_same_json(got_caps, caps);
    json_object_put(caps);
    json_object_put(got_caps);
    json_object_put(record);
    migration_done(&m);
    migration_done(&got);
}

/* Each flag of the commit protocol by itself, both ways. */
static void each_flag_survives(void **state)
{
    static const size_t flags[] = {
        offsetof(struct migration, committed),
        offsetof(struct migration, started),
        offsetof(struct migration, will_not_start),
        offsetof(struct migration, should_run),
        offsetof(struct migration, cancelled),
        offsetof(struct migration, caps_changed),
        offsetof(struct migration, postcopy),
        offsetof(struct migration, preempt),
    };
    const size_t count = sizeof(flags) / sizeof(flags[0]);

    for (size_t i = 0; i < 2 * count; i++) {
        struct migration m, got;
        struct error err = ERROR_INIT;
        fill(&m);
        for (size_t k = 0; k < count; k++) {
            bool is_it = k == i / 2;
            *(bool *)((char *)&m + flags[k]) = i % 2 ? !is_it : is_it;
        }
        json_object *record = reread(migration_to_record(&m));
        assert_int_equal(take(&got, record, &err), 0);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(*(bool *)((char *)&got + flags[k]),
                             *(bool *)((char *)&m + flags[k]));
        }
        json_object_put(record);
        migration_done(&m);
        migration_done(&got);
    }
}

static void each_state_survives(void **state)
{
    for (int i = 0; i < MIGRATION_STATES; i++) {
        struct migration m, got;
        struct error err = ERROR_INIT;
        fill(&m);
        m.state = (enum migration_state)i;
        json_object *record = reread(migration_to_record(&m));
        assert_int_equal(take(&got, record, &err), 0);
        assert_int_equal(got.state, i);
        json_object_put(record);
        migration_done(&m);
        migration_done(&got);
    }
}

/* What was not there yet when the record was written is not there after. */
static void an_early_record_is_enough(void **state)
{
    struct migration m = {0}, got;
    struct api_migrate wish = request("m-1");
    struct error err = ERROR_INIT;

    migration_init(&m, &env, false, &wish);
    json_object *record = reread(migration_to_record(&m));
    assert_int_equal(take(&got, record, &err), 0);
    assert_int_equal(got.state, MIGRATION_PREPARING);
    assert_null(got.caps);
    assert_null(got.blocks);
    assert_null(got.sections);
    assert_string_equal(got.qmp_path, "");
    assert_int_equal(got.qemu_pid, 0);
    assert_false(got.committed || got.started || got.will_not_start);
    json_object_put(record);
    migration_done(&m);
    migration_done(&got);
}

/* Without these a successor would guess. */
static void what_is_needed_and_missing_is_named(void **state)
{
    static const struct {
        const char *in, *member, *value, *named;
    } rows[] = {
        {NULL, "state", NULL, "state"},
        {NULL, "state", "\"sleeping\"", "state"},
        {NULL, "state", "3", "state"},
        {NULL, "peer", NULL, "peer"},
        {NULL, "successor", NULL, "successor"},
        {NULL, "successor", "[]", "successor"},
        {"successor", "committed", NULL, "committed"},
        {"successor", "committed", "\"true\"", "committed"},
        {"successor", "started", NULL, "started"},
        {"successor", "will_not_start", "1", "will_not_start"},
        {"successor", "should_run", NULL, "should_run"},
        {"successor", "capabilities", "{}", "capabilit"},
        {"successor", "capabilities",
         "{\"capabilities\":{\"events\":1},\"parameters\":{}}", "events"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct migration m, got;
        struct error err = ERROR_INIT;
        fill(&m);
        json_object *record = reread(migration_to_record(&m));
        json_object *at = record;
        if (rows[i].in) {
            assert_true(json_value_object(record, rows[i].in, &at));
        }
        json_object_object_del(at, rows[i].member);
        if (rows[i].value) {
            json_object_object_add(at, rows[i].member,
                                   json_tokener_parse(rows[i].value));
        }
        if (take(&got, record, &err) != -1 || !error_is_set(&err) ||
            !strstr(err.text, rows[i].named)) {
            fail_msg("%s %s: %s", rows[i].member,
                     rows[i].value ? rows[i].value : "missing", err.text);
        }
        json_object_put(record);
        migration_done(&m);
        migration_done(&got);
    }
}

static json_object *member(json_object *object, const char *name)
{
    json_object *value = NULL;

    if (!json_object_object_get_ex(object, name, &value)) {
        fail_msg("no member %s", name);
    }
    return value;
}

/* The API shows no successor's matters, and says null, not 0, of what is not
 * known. */
static void what_the_api_shows(void **state)
{
    struct migration m;

    fill(&m);
    json_object *json = migration_to_json(&m);
    assert_false(json_object_object_get_ex(json, "successor", NULL));
    assert_null(member(json, "result"));
    assert_null(member(json, "error"));
    assert_null(member(json, "advice"));
    assert_null(member(json, "ended_at"));
    assert_null(member(member(json, "downtime"), "blackout_us"));
    assert_null(member(member(json, "downtime"), "uncertainty_us"));
    assert_null(member(member(json, "totals"), "vcpu_blocktime_ms"));
    assert_string_equal(json_object_get_string(member(json, "role")), "source");
    assert_string_equal(json_object_get_string(member(json, "mode")),
                        "postcopy");
    json_object_put(json);

    struct error err = ERROR_INIT;
    error_set(&err, ERR_QEMU_FAILED, "it broke");
    migration_note_failure(&m, MIGRATION_DESTINATION, &err);
    error_set(&err, ERR_TIMEOUT, "then that");
    migration_note_failure(&m, MIGRATION_SOURCE, &err);
    m.state = MIGRATION_ATTENTION;
    m.blackout_us = 0;
    json = migration_to_json(&m);
    assert_string_equal(json_object_get_string(member(json, "result")),
                        "attention");
    json_object *failure = member(json, "error");
    assert_string_equal(json_object_get_string(member(failure, "class")),
                        "qemu-failed");
    assert_string_equal(json_object_get_string(member(failure, "message")),
                        "it broke");
    assert_string_equal(json_object_get_string(member(failure, "side")),
                        "destination");
    assert_int_equal(
        json_object_get_int(member(member(json, "downtime"), "blackout_us")),
        0);
    json_object_put(json);
    migration_done(&m);
}

/* Progress: percent, ETA (none while it does not converge). */
static void what_progress_says(void **state)
{
    static const struct {
        enum migration_state state;
        uint64_t pass, rate, dirty, left;
        double percent;
        int eta; /* -1: null */
        bool converging;
    } rows[] = {
        {MIGRATION_PRECOPY, 1, 100, 0, 600, 40, 6, true},
        {MIGRATION_PRECOPY, 3, 100, 40, 600, 40, 10, true},
        {MIGRATION_PRECOPY, 3, 100, 90, 600, 40, -1, false},
        {MIGRATION_PRECOPY, 1, 100, 200, 600, 40, -1, true},
        {MIGRATION_PRECOPY, 1, 0, 0, 1000, 0, -1, true},
        {MIGRATION_POSTCOPY, 9, 100, 90, 500, 50, 5, true},
        {MIGRATION_COMPLETED, 9, 100, 90, 500, 100, -1, true},
        {MIGRATION_FAILED, 9, 100, 50, 500, 50, -1, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct migration m;
        fill(&m);
        m.state = rows[i].state;
        m.policy.pass = rows[i].pass;
        m.policy.rate_bytes_per_second = rows[i].rate;
        m.policy.dirty_bytes_per_second = rows[i].dirty;
        m.info.ram_total_bytes = 1000;
        m.info.ram_remaining_bytes = rows[i].left;
        json_object *json = migration_to_json(&m);
        json_object *progress = member(json, "progress");
        json_object *eta = member(progress, "eta_seconds");
        bool converging =
            json_object_get_boolean(member(progress, "converging"));
        double percent = json_object_get_double(member(progress, "percent"));
        if (percent != rows[i].percent || converging != rows[i].converging ||
            (eta ? json_object_get_int(eta) : -1) != rows[i].eta) {
            fail_msg("row %zu: %s", i, json_object_to_json_string(progress));
        }
        json_object_put(json);
        migration_done(&m);
    }
}

static void add_info(struct migration *m, uint64_t left, uint64_t precopy,
                     uint64_t downtime, uint64_t multifd, bool guest_runs)
{
    struct qmp_migrate_info info = {
        .status = QMP_MIGRATE_ACTIVE,
        .has_ram = true,
        .has_phase_bytes = true,
        .ram_total_bytes = 3000,
        .ram_remaining_bytes = left,
        .ram_precopy_bytes = precopy,
        .ram_downtime_bytes = downtime,
        .ram_multifd_bytes = multifd,
        .ram_transferred_bytes = precopy + downtime + multifd,
    };

    migration_take_info(m, &info, guest_runs);
}

static uint64_t total(json_object *json, const char *name)
{
    return json_object_get_uint64(member(member(json, "totals"), name));
}

/* QEMU counts multifd's bytes apart, and not by when they were sent. A
 * successor goes on with them as they were. */
static void multifd_is_counted_where_it_was_sent(void **state)
{
    struct migration m, got;
    struct error err = ERROR_INIT;

    fill(&m);
    add_info(&m, 2000, 10, 0, 700, true);
    add_info(&m, 1000, 20, 0, 1500, true);
    add_info(&m, 500, 20, 5, 1800, false);
    json_object *json = reread(migration_to_record(&m));
    assert_int_equal(total(json, "precopy_bytes"), 1520);
    assert_int_equal(total(json, "downtime_bytes"), 305);
    assert_int_equal(total(json, "postcopy_bytes"), 0);
    assert_int_equal(take(&got, json, &err), 0);
    json_object_put(json);
    add_info(&got, 0, 20, 6, 1900, false);
    json = migration_to_json(&got);
    assert_int_equal(total(json, "precopy_bytes"), 1520);
    assert_int_equal(total(json, "downtime_bytes"), 406);
    json_object_put(json);
    migration_done(&m);
    migration_done(&got);
}

/* A QEMU before 7.0 counts no bytes by phase. */
static void what_qemu_does_not_count_is_null(void **state)
{
    struct qmp_migrate_info info = {.has_ram = true, .ram_total_bytes = 10};
    struct migration m;

    fill(&m);
    migration_take_info(&m, &info, true);
    json_object *json = migration_to_json(&m);
    assert_null(member(member(json, "totals"), "precopy_bytes"));
    assert_null(member(member(json, "totals"), "downtime_bytes"));
    assert_null(member(member(json, "totals"), "postcopy_bytes"));
    assert_null(member(member(json, "path"), "silent_ms"));
    assert_null(member(member(json, "path"), "rtt_us"));
    assert_null(member(member(json, "path"), "rate_bytes_per_second"));
    json_object_put(json);
    migration_done(&m);
}

static const char *shown_percent(struct migration *m)
{
    static char text[32];
    json_object *json = migration_to_json(m);

    snprintf(text, sizeof(text), "%s",
             json_object_to_json_string(
                 member(member(json, "progress"), "percent")));
    json_object_put(json);
    return text;
}

/* One decimal, never back, and 100 only at the end. */
static void percent_is_for_people(void **state)
{
    struct migration m;

    fill(&m);
    m.state = MIGRATION_PRECOPY;
    assert_string_equal(shown_percent(&m), "0.0");
    add_info(&m, 2000, 0, 0, 0, true);
    assert_string_equal(shown_percent(&m), "33.3");
    add_info(&m, 2500, 0, 0, 0, true); /* the guest writes */
    assert_string_equal(shown_percent(&m), "33.3");
    add_info(&m, 1, 0, 0, 0, true);
    assert_string_equal(shown_percent(&m), "99.9");
    m.state = MIGRATION_COMPLETED;
    assert_string_equal(shown_percent(&m), "100.0");
    migration_done(&m);
}

/* What nobody has cancelled is not shown as that; a record has one name. */
static void undoing_has_two_names(void **state)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct migration m;
        fill(&m);
        m.state = MIGRATION_CANCELLING;
        m.cancelled = cancelled;
        json_object *shown = migration_to_json(&m);
        json_object *record = migration_to_record(&m);
        assert_string_equal(json_object_get_string(member(shown, "state")),
                            cancelled ? "cancelling" : "undoing");
        assert_string_equal(json_object_get_string(member(record, "state")),
                            "cancelling");
        json_object_put(shown);
        json_object_put(record);
        migration_done(&m);
    }
}

/* What is being undone keeps the cause of before a restart. */
static void the_first_cause_survives(void **state)
{
    struct migration m, got;
    struct error why = ERROR_INIT, err = ERROR_INIT;

    fill(&m);
    m.state = MIGRATION_CANCELLING;
    error_set(&why, ERR_MISMATCH, "sizes differ");
    migration_note_failure(&m, MIGRATION_DESTINATION, &why);
    json_object *record = reread(migration_to_record(&m));
    assert_int_equal(take(&got, record, &err), 0);
    assert_true(got.failure.is_set);
    assert_int_equal(got.failure.error.code, ERR_MISMATCH);
    assert_string_equal(got.failure.error.text, "sizes differ");
    assert_string_equal(got.failure.side, "destination");
    json_object_put(record);
    migration_done(&m);
    migration_done(&got);
}

static void an_error_is_read_whatever_is_missing(void **state)
{
    static const struct {
        const char *json;
        enum error_code code;
        const char *text, *side;
    } rows[] = {
        {"{\"class\":\"timeout\",\"message\":\"m\",\"side\":\"source\"}",
         ERR_TIMEOUT, "m", "source"},
        {"{\"class\":\"timeout\",\"side\":\"destination\"}", ERR_TIMEOUT,
         "no cause given", "destination"},
        {"{\"message\":\"m\",\"side\":\"moon\"}", ERR_INTERNAL, "m",
         "fallback"},
        {"{\"class\":7,\"message\":[],\"side\":{}}", ERR_INTERNAL,
         "no cause given", "fallback"},
        {"{\"class\":\"never-heard-of\"}", ERR_INTERNAL, "no cause given",
         "fallback"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_object *object = json_tokener_parse(rows[i].json);
        struct error err = ERROR_INIT;
        assert_string_equal(error_json_read(object, "fallback", &err),
                            rows[i].side);
        assert_int_equal(err.code, rows[i].code);
        assert_string_equal(err.text, rows[i].text);
        json_object_put(object);
    }
    struct error err = ERROR_INIT;
    assert_null(error_json_read(NULL, NULL, &err));
    assert_int_equal(err.code, ERR_INTERNAL);
    error_set(&err, ERR_QMP, "said no");
    json_object *object = error_json_new(&err, "source");
    json_object *want = json_tokener_parse(
        "{\"class\":\"qmp\",\"message\":\"said no\",\"side\":\"source\"}");
    assert_same_json(object, want);
    json_object_put(object);
    json_object_put(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_successor_reads_it_all),
        cmocka_unit_test(each_flag_survives),
        cmocka_unit_test(each_state_survives),
        cmocka_unit_test(an_early_record_is_enough),
        cmocka_unit_test(what_is_needed_and_missing_is_named),
        cmocka_unit_test(what_the_api_shows),
        cmocka_unit_test(what_progress_says),
        cmocka_unit_test(multifd_is_counted_where_it_was_sent),
        cmocka_unit_test(what_qemu_does_not_count_is_null),
        cmocka_unit_test(percent_is_for_people),
        cmocka_unit_test(undoing_has_two_names),
        cmocka_unit_test(the_first_cause_survives),
        cmocka_unit_test(an_error_is_read_whatever_is_missing),
    };
    return cmocka_run_group_tests_name("migration-json", tests, set_up,
                                       tear_down);
}
