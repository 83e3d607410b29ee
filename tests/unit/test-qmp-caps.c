// SPDX-License-Identifier: BSD-3-Clause
/* Capabilities and parameters: snapshots, plans, setting, putting back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/qmp-caps.h"
#include "tests/lib/fake-qemu.h"
#include "util/loop.h"

#define T (5 * MP_SECOND)

/* What a QEMU 7.2 has, with some things an administrator left on. */
static const char snapshot_text[] =
    "{\"capabilities\":{\"xbzrle\":true,\"auto-converge\":true,\"events\":"
    "false,\"postcopy-ram\":true,\"return-path\":false,"
    "\"pause-before-switchover\":false,\"multifd\":false,"
    "\"postcopy-blocktime\":false,\"late-block-activate\":false,"
    "\"postcopy-preempt\":true,\"some-new-thing\":true},\"parameters\":{"
    "\"max-bandwidth\":134217728,\"max-postcopy-bandwidth\":7,"
    "\"downtime-limit\":300,\"multifd-channels\":2,\"multifd-compression\":"
    "\"zlib\",\"tls-creds\":\"tls0\",\"tls-hostname\":\"\",\"tls-authz\":\"\"}"
    "}";

static struct qmp_caps *snapshot(const char *text)
{
    struct json_object *json = json_tokener_parse(text);
    struct error err = ERROR_INIT;

    assert_non_null(json);
    struct qmp_caps *caps = qmp_caps_from_json(json, &err);
    json_object_put(json);
    if (!caps) {
        fail_msg("%s", err.text);
    }
    return caps;
}

static const struct qmp_caps_wish source_wish = {
    .role = QMP_ROLE_SOURCE,
    .pause_before_switchover = true,
    .max_bandwidth_bytes_per_second = UINT64_MAX,
    .max_downtime_ms = UINT64_MAX,
};

/* --- snapshots ---------------------------------------------------------- */

static void a_snapshot_survives_its_record(void **state)
{
    struct qmp_caps *caps = snapshot(snapshot_text);
    struct json_object *json = qmp_caps_to_json(caps);
    struct json_object *was = json_tokener_parse(snapshot_text);

    assert_true(json_object_equal(json, was));
    assert_true(qmp_caps_has(caps, "events"));
    assert_false(qmp_caps_is_on(caps, "events"));
    assert_true(qmp_caps_is_on(caps, "xbzrle"));
    assert_false(qmp_caps_has(caps, "mapped-ram"));
    assert_false(qmp_caps_is_on(caps, "mapped-ram"));
    json_object_put(json);
    json_object_put(was);
    qmp_caps_free(caps);
    qmp_caps_free(NULL);
}

static void broken_records_are_refused_with_the_member(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{}", "capabilities or parameters missing"},
        {"[]", "capabilities or parameters missing"},
        {"{\"capabilities\": {}, \"parameters\": []}", "missing"},
        {"{\"capabilities\": {\"events\": 1}, \"parameters\": {}}",
         "capabilities: \"events\""},
        {"{\"capabilities\": {}, \"parameters\": {\"mode\": []}}",
         "parameters: \"mode\""},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct json_object *json = json_tokener_parse(bad[i].text);
        struct error err = ERROR_INIT;
        assert_null(qmp_caps_from_json(json, &err));
        assert_int_equal(err.code, ERR_PROTOCOL);
        assert_non_null(strstr(err.text, bad[i].says));
        json_object_put(json);
    }
    struct json_object *json = json_tokener_parse(snapshot_text), *inner;
    json_object_object_get_ex(json, "capabilities", &inner);
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof(name), "c%d", i);
        json_object_object_add(inner, name, json_object_new_boolean(true));
    }
    struct error err = ERROR_INIT;
    assert_null(qmp_caps_from_json(json, &err));
    assert_non_null(strstr(err.text, "more than 256 capabilities"));
    json_object_put(json);
}

/* --- plans -------------------------------------------------------------- */

/* "name+" or "name-" of each capability in the plan, then the parameters. */
static void expect_plan(const struct qmp_caps_wish *wish, const char *on,
                        const char *parameters)
{
    struct qmp_caps *caps = snapshot(snapshot_text);
    struct json_object *capabilities = NULL, *params = NULL, *list, *member;
    struct qmp_probe probe;
    struct error err = ERROR_INIT;
    char text[500] = "";

    qmp_probe_init(&probe);
    if (qmp_caps_plan(caps, &probe, wish, &capabilities, &params, &err) < 0) {
        fail_msg("%s", err.text);
    }
    json_object_object_get_ex(capabilities, "capabilities", &list);
    /* every one we depend on and QEMU has is in the plan, and no other */
    assert_int_equal(json_object_array_length(list), 10);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        json_object_object_get_ex(entry, "state", &member);
        if (json_object_get_boolean(member)) {
            json_object_object_get_ex(entry, "capability", &member);
            strncat(text, json_object_get_string(member), 60);
            strncat(text, " ", 2);
        }
    }
    assert_string_equal(text, on);
    assert_string_equal(
        json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN),
        parameters);
    json_object_put(capabilities);
    json_object_put(params);
    qmp_caps_free(caps);
}

static void each_role_gets_what_it_needs_and_nothing_else(void **state)
{
    struct qmp_caps_wish w = source_wish;

    expect_plan(&w, "events return-path pause-before-switchover ",
                "{\"max-bandwidth\":1125899906842624,"
                "\"max-postcopy-bandwidth\":0,\"tls-creds\":\"\"}");
    w.postcopy = true;
    w.preempt = true;
    w.pause_before_switchover = false;
    w.max_bandwidth_bytes_per_second = 1000000;
    w.max_downtime_ms = 250;
    expect_plan(&w, "events return-path postcopy-ram postcopy-preempt ",
                "{\"max-bandwidth\":1000000,\"max-postcopy-bandwidth\":0,"
                "\"downtime-limit\":250,\"tls-creds\":\"\"}");
    w.role = QMP_ROLE_DESTINATION;
    w.pause_before_switchover = true; /* the source's alone */
    expect_plan(&w,
                "events return-path postcopy-ram postcopy-preempt "
                "postcopy-blocktime late-block-activate ",
                "{\"tls-creds\":\"\"}");
    w.postcopy = false;
    w.preempt = false;
    w.multifd_channels = 4;
    expect_plan(&w, "events return-path late-block-activate multifd ",
                "{\"multifd-channels\":4,\"multifd-compression\":\"none\","
                "\"tls-creds\":\"\"}");
}

static void expect_refusal(const char *text, const struct qmp_caps_wish *wish,
                           enum error_code code, const char *says)
{
    struct qmp_caps *caps = snapshot(text);
    struct json_object *capabilities = NULL, *parameters = NULL;
    struct qmp_probe probe;
    struct error err = ERROR_INIT;

    qmp_probe_init(&probe);
    assert_int_equal(
        qmp_caps_plan(caps, &probe, wish, &capabilities, &parameters, &err),
        -1);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, says)) {
        fail_msg("\"%s\" says nothing of \"%s\"", err.text, says);
    }
    assert_null(capabilities);
    assert_null(parameters);
    qmp_caps_free(caps);
}

static void what_qemu_lacks_or_breaks_is_refused(void **state)
{
    static const char poor[] = "{\"capabilities\":{\"events\":false,"
                               "\"return-path\":false},\"parameters\":{}}";
    struct qmp_caps_wish w = source_wish;

    w.pause_before_switchover = false;
    w.postcopy = true;
    expect_refusal(poor, &w, ERR_UNSUPPORTED,
                   "the source QEMU lacks the migration capability "
                   "postcopy-ram");
    w.role = QMP_ROLE_DESTINATION;
    expect_refusal(poor, &w, ERR_UNSUPPORTED, "the destination QEMU lacks");
    w.multifd_channels = 2;
    expect_refusal(snapshot_text, &w, ERR_UNSUPPORTED,
                   "multifd together with postcopy");
}

static void contradictions_and_limits_are_refused(void **state)
{
    struct qmp_caps_wish w = source_wish;

    w.preempt = true;
    expect_refusal(snapshot_text, &w, ERR_BAD_REQUEST, "without postcopy");
    w = source_wish;
    w.multifd_channels = 256;
    expect_refusal(snapshot_text, &w, ERR_BAD_REQUEST,
                   "256 multifd channels, QEMU's limit is 255");
    w = source_wish;
    w.max_downtime_ms = 2000001;
    expect_refusal(snapshot_text, &w, ERR_BAD_REQUEST,
                   "2000001 ms, QEMU's limit is 2000000");
    w = source_wish;
    w.max_bandwidth_bytes_per_second = 9;
    expect_refusal(snapshot_text, &w, ERR_BAD_REQUEST,
                   "9 bytes/s: QEMU would take it for unlimited");
}

static void a_dispensable_capability_may_be_missing(void **state)
{
    struct qmp_caps *caps =
        snapshot("{\"capabilities\":{\"events\":true,"
                 "\"return-path\":true},\"parameters\":{}}");
    struct qmp_caps_wish w = {.role = QMP_ROLE_DESTINATION};
    struct json_object *capabilities = NULL, *parameters = NULL;
    struct qmp_probe probe;

    qmp_probe_init(&probe);
    assert_int_equal(
        qmp_caps_plan(caps, &probe, &w, &capabilities, &parameters, NULL), 0);
    json_object_put(capabilities);
    json_object_put(parameters);
    qmp_caps_free(caps);
}

/* --- against a scripted server ------------------------------------------ */

struct fixture {
    struct loop *loop;
    struct fake_qemu *fake;
    struct qmp *qmp;
    struct qmp_caps *caps;
    bool is_done;
    struct error err;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->loop = loop_new("test", NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    qmp_close(f->qmp);
    qmp_caps_free(f->caps);
    fake_qemu_free(f->fake);
    loop_free(f->loop);
    free(f);
    return 0;
}

static const struct qmp_ops no_ops = {0};

static void done_cb(void *arg, const struct error *err)
{
    struct fixture *f = arg;
    f->is_done = true;
    f->err = err ? *err : (struct error)ERROR_INIT;
}

static void caps_cb(void *arg, struct qmp_caps *caps, const struct error *err)
{
    struct fixture *f = arg;
    f->caps = caps;
    done_cb(arg, err);
}

static void open_client(struct fixture *f, const char *script)
{
    f->fake = fake_qemu_new(f->loop, script);
    f->qmp = qmp_open(f->loop, fake_qemu_take_fd(f->fake), NULL, &no_ops, NULL,
                      NULL);
}

static void expect_end(struct fixture *f, enum error_code code,
                       const char *text)
{
    if (!fake_qemu_run_until(f->loop, &f->is_done)) {
        fail_msg("no callback");
    }
    f->is_done = false;
    if (f->err.code != code || strcmp(f->err.text, text) != 0) {
        fail_msg("%s: %s", error_class(f->err.code), f->err.text);
    }
    if (fake_qemu_failure(f->fake)) {
        fail_msg("%s", fake_qemu_failure(f->fake));
    }
}

#define ASK                                                                    \
    "expect query-migrate-capabilities {}\n"                                   \
    "reply query-migrate-capabilities [{\"capability\": \"events\", "          \
    "\"state\": true}, {\"capability\": \"postcopy-ram\", \"state\": true}, "  \
    "{\"capability\": \"postcopy-preempt\", \"state\": true}, "                \
    "{\"capability\": \"xbzrle\", \"state\": false}, {\"capability\": "        \
    "\"return-path\", \"state\": true}]\n"                                     \
    "expect query-migrate-parameters {}\n"                                     \
    "reply query-migrate-parameters {\"max-bandwidth\": 1000, "                \
    "\"tls-creds\": \"\", \"announce-max\": 550}\n"

static void a_snapshot_is_read_from_qemu(void **state)
{
    struct fixture *f = *state;

    open_client(f, "handshake\n" ASK "stay");
    qmp_caps_read(f->qmp, T, caps_cb, f);
    expect_end(f, ERR_NONE, "");
    struct json_object *json = qmp_caps_to_json(f->caps);
    assert_string_equal(
        json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN),
        "{\"capabilities\":{\"events\":true,\"postcopy-ram\":true,"
        "\"postcopy-preempt\":true,\"xbzrle\":false,\"return-path\":true},"
        "\"parameters\":{\"max-bandwidth\":1000,\"tls-creds\":\"\"}}");
    json_object_put(json);
}

static void answers_of_another_form_are_refused(void **state)
{
    struct fixture *f = *state;

    open_client(f, "handshake\nexpect query-migrate-capabilities\n"
                   "reply query-migrate-capabilities []\n"
                   "expect query-migrate-parameters\n"
                   "reply query-migrate-parameters {}\n"
                   "expect query-migrate-capabilities\n"
                   "reply query-migrate-capabilities [{\"capability\": "
                   "\"events\", \"state\": true}]\n"
                   "expect query-migrate-parameters\n"
                   "reply query-migrate-parameters []\nstay");
    qmp_caps_read(f->qmp, T, caps_cb, f);
    expect_end(f, ERR_PROTOCOL, "query-migrate-capabilities: QEMU names none");
    assert_null(f->caps);
    qmp_caps_read(f->qmp, T, caps_cb, f);
    expect_end(f, ERR_PROTOCOL,
               "query-migrate-parameters: QEMU's answer is no object");
    assert_null(f->caps);
}

static void apply(struct fixture *f, const struct qmp_caps_wish *wish)
{
    struct qmp_probe probe;

    qmp_probe_init(&probe);
    qmp_caps_apply(f->qmp, f->caps, &probe, wish, T, done_cb, f);
}

static void capabilities_are_set_in_one_command_then_parameters(void **state)
{
    struct fixture *f = *state;

    f->caps = snapshot("{\"capabilities\":{\"events\":false,\"return-path\":"
                       "false,\"xbzrle\":true},\"parameters\":{}}");
    open_client(
        f, "handshake\nexpect migrate-set-capabilities {\"capabilities\": "
           "[{\"capability\": \"events\", \"state\": true}, {\"capability\": "
           "\"return-path\", \"state\": true}, {\"capability\": \"xbzrle\", "
           "\"state\": false}]}\nreply migrate-set-capabilities {}\n"
           "expect migrate-set-parameters {\"max-bandwidth\": 77, "
           "\"max-postcopy-bandwidth\": 0}\n"
           "reply migrate-set-parameters {}\nstay");
    struct qmp_caps_wish w = {.max_bandwidth_bytes_per_second = 77,
                              .max_downtime_ms = UINT64_MAX};
    apply(f, &w);
    expect_end(f, ERR_NONE, "");
}

static void a_wish_that_cannot_be_is_told_before_anything_is_sent(void **state)
{
    struct fixture *f = *state;

    f->caps = snapshot("{\"capabilities\":{},\"parameters\":{}}");
    open_client(f, "handshake\nstay");
    struct qmp_caps_wish w = {.role = QMP_ROLE_DESTINATION};
    apply(f, &w);
    expect_end(f, ERR_UNSUPPORTED,
               "the destination QEMU lacks the migration "
               "capability events");
}

static void expect_postcopy_refusal(struct fixture *f, const char *desc,
                                    enum error_code code, const char *text)
{
    struct qmp_caps_wish w = {.role = QMP_ROLE_DESTINATION, .postcopy = true};
    char script[400];

    f->caps = snapshot("{\"capabilities\":{\"events\":false,\"return-path\":"
                       "false,\"postcopy-ram\":false},\"parameters\":{}}");
    snprintf(script, sizeof(script),
             "handshake\nexpect migrate-set-capabilities\n"
             "error migrate-set-capabilities GenericError %s\nstay",
             desc);
    open_client(f, script);
    apply(f, &w);
    expect_end(f, code, text);
}

static void refused_userfaultfd_7_2_names_the_remedy(void **state)
{
    expect_postcopy_refusal(
        *state, "Postcopy is not supported", ERR_UNSUPPORTED,
        "migrate-set-capabilities: Postcopy is not supported (GenericError): "
        "set vm.unprivileged_userfaultfd=1, or give QEMU CAP_SYS_PTRACE or "
        "(8.0 and later) access to /dev/userfaultfd");
}

static void refused_userfaultfd_8_2_names_the_remedy(void **state)
{
    expect_postcopy_refusal(
        *state,
        "Postcopy is not supported: Userfaultfd not available: Operation not "
        "permitted",
        ERR_UNSUPPORTED,
        "migrate-set-capabilities: Postcopy is not supported: Userfaultfd not "
        "available: Operation not permitted (GenericError): set "
        "vm.unprivileged_userfaultfd=1, or give QEMU CAP_SYS_PTRACE or (8.0 "
        "and later) access to /dev/userfaultfd");
}

static void postcopy_refused_for_another_reason_has_no_remedy(void **state)
{
    expect_postcopy_refusal(
        *state,
        "Postcopy is not supported: Host backend files need to be TMPFS or "
        "HUGETLBFS only",
        ERR_UNSUPPORTED,
        "migrate-set-capabilities: Postcopy is not supported: Host backend "
        "files need to be TMPFS or HUGETLBFS only (GenericError)");
}

static void other_refusals_stay_as_they_are(void **state)
{
    expect_postcopy_refusal(
        *state, "There's a migration process in progress", ERR_QMP,
        "migrate-set-capabilities: There's a migration process in progress "
        "(GenericError)");
}

/* what was: preempt and postcopy off, xbzrle on, other values */
static const char before_text[] =
    "{\"capabilities\":{\"events\":true,\"postcopy-ram\":false,"
    "\"postcopy-preempt\":false,\"xbzrle\":true,\"return-path\":false,"
    "\"gone\":true},\"parameters\":{\"max-bandwidth\":134217728,"
    "\"tls-creds\":\"tls0\"}}";

static void only_what_differs_is_put_back(void **state)
{
    struct fixture *f = *state;

    f->caps = snapshot(before_text);
    open_client(
        f,
        "handshake\n" ASK "expect migrate-set-capabilities {\"capabilities\": "
        "[{\"capability\": \"postcopy-preempt\", \"state\": false}, "
        "{\"capability\": \"postcopy-ram\", \"state\": false}, "
        "{\"capability\": \"return-path\", \"state\": false}, "
        "{\"capability\": \"xbzrle\", \"state\": true}]}\n"
        "reply migrate-set-capabilities {}\n"
        "expect migrate-set-parameters {\"max-bandwidth\": 134217728, "
        "\"tls-creds\": \"tls0\"}\nreply migrate-set-parameters {}\nstay");
    qmp_caps_restore(f->qmp, f->caps, T, done_cb, f);
    expect_end(f, ERR_NONE, "");
}

static void nothing_to_put_back_sends_nothing(void **state)
{
    struct fixture *f = *state;

    f->caps = snapshot("{\"capabilities\":{\"events\":true,\"xbzrle\":false},"
                       "\"parameters\":{\"max-bandwidth\":1000}}");
    open_client(f, "handshake\n" ASK "stay");
    qmp_caps_restore(f->qmp, f->caps, T, done_cb, f);
    expect_end(f, ERR_NONE, "");
}

static void what_cannot_be_put_back_is_named_and_the_rest_is(void **state)
{
    struct fixture *f = *state;

    f->caps = snapshot(before_text);
    open_client(
        f,
        "handshake\n" ASK "expect migrate-set-capabilities\n"
        "error migrate-set-capabilities GenericError all\n"
        "expect migrate-set-capabilities {\"capabilities\": [{\"capability\": "
        "\"postcopy-preempt\", \"state\": false}]}\n"
        "error migrate-set-capabilities GenericError not this\n"
        "expect migrate-set-capabilities {\"capabilities\": [{\"capability\": "
        "\"postcopy-ram\", \"state\": false}]}\n"
        "reply migrate-set-capabilities {}\n"
        "expect migrate-set-capabilities {\"capabilities\": [{\"capability\": "
        "\"return-path\", \"state\": false}]}\n"
        "reply migrate-set-capabilities {}\n"
        "expect migrate-set-capabilities {\"capabilities\": [{\"capability\": "
        "\"xbzrle\", \"state\": true}]}\n"
        "error migrate-set-capabilities GenericError nor that\n"
        "expect migrate-set-parameters\n"
        "error migrate-set-parameters GenericError all\n"
        "expect migrate-set-parameters {\"max-bandwidth\": 134217728}\n"
        "reply migrate-set-parameters {}\n"
        "expect migrate-set-parameters {\"tls-creds\": \"tls0\"}\n"
        "error migrate-set-parameters GenericError nor this\nstay");
    qmp_caps_restore(f->qmp, f->caps, T, done_cb, f);
    expect_end(f, ERR_QMP,
               "not put back: postcopy-preempt (migrate-set-capabilities: not "
               "this (GenericError)), xbzrle, tls-creds");
}

static void the_end_of_qemu_ends_restoring(void **state)
{
    struct fixture *f = *state;

    f->caps = snapshot(before_text);
    open_client(f, "handshake\n" ASK "expect migrate-set-capabilities\n"
                   "error migrate-set-capabilities GenericError all\n"
                   "expect migrate-set-capabilities\n"
                   "error migrate-set-capabilities GenericError no\n"
                   "expect migrate-set-capabilities\nclose");
    qmp_caps_restore(f->qmp, f->caps, T, done_cb, f);
    expect_end(f, ERR_QEMU_GONE,
               "not put back: postcopy-preempt (migrate-set-capabilities: no "
               "(GenericError)); then: migrate-set-capabilities: QEMU has "
               "closed the monitor");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_survives_its_record),
        cmocka_unit_test(broken_records_are_refused_with_the_member),
        cmocka_unit_test(each_role_gets_what_it_needs_and_nothing_else),
        cmocka_unit_test(what_qemu_lacks_or_breaks_is_refused),
        cmocka_unit_test(contradictions_and_limits_are_refused),
        cmocka_unit_test(a_dispensable_capability_may_be_missing),
        TEST(a_snapshot_is_read_from_qemu),
        TEST(answers_of_another_form_are_refused),
        TEST(capabilities_are_set_in_one_command_then_parameters),
        TEST(a_wish_that_cannot_be_is_told_before_anything_is_sent),
        TEST(refused_userfaultfd_7_2_names_the_remedy),
        TEST(refused_userfaultfd_8_2_names_the_remedy),
        TEST(postcopy_refused_for_another_reason_has_no_remedy),
        TEST(other_refusals_stay_as_they_are),
        TEST(only_what_differs_is_put_back),
        TEST(nothing_to_put_back_sends_nothing),
        TEST(what_cannot_be_put_back_is_named_and_the_rest_is),
        TEST(the_end_of_qemu_ends_restoring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
