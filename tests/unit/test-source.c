// SPDX-License-Identifier: BSD-3-Clause
/* Migrations between two daemons whose QEMUs are models: those that go well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "tests/lib/faults.h"

static struct worlds all;

static void expect_end(struct world *w, const char *state, const char *class)
{
    const char *complaint = world_complaint(w);

    if (complaint) {
        fail_msg("%s: %s", w->name, complaint);
    }
    assert_string_equal(world_state(&w->source), state);
    assert_string_equal(world_class(&w->source), class);
}

static void run(struct world *w)
{
    struct error err = ERROR_INIT;

    if (!world_start(w, &err)) {
        fail_msg("%s: %s", w->name, err.text);
    }
    world_run(w, 30);
}

static void a_precopy_goes_well(void **state)
{
    struct world_params params = {.mode = API_MODE_PRECOPY};
    struct world *w = world_new(&all, "precopy", &params);

    run(w);
    expect_end(w, "completed", "");
    assert_true(model_runs(w->destination_qemu));
    world_free(w);
}

static void a_postcopy_goes_well(void **state)
{
    struct world_params params = {.mode = API_MODE_POSTCOPY,
                                  .source.never_converges = true};
    struct world *w = world_new(&all, "postcopy", &params);

    run(w);
    expect_end(w, "completed", "");
    assert_true(model_runs(w->destination_qemu));
    world_free(w);
}

#define P API_MODE_PRECOPY
#define C API_MODE_POSTCOPY

/* What is asked before anything is changed. */
#define FACT(command)                                                          \
    {                                                                          \
        P, true, MODEL_NEW, command, 1,                                        \
        {                                                                      \
            "refused failed qmp", "refused failed timeout",                    \
                "refused failed timeout", "refused failed timeout",            \
                "refused failed qemu-gone", "refused failed qemu-gone",        \
        }                                                                      \
    }
/* nobody has the guest any more */
#define LOST "attention qemu-gone", "attention qemu-gone"

static void each_command_of_the_source_fails(void **state)
{
    static const struct fault_row rows[] = {
        /* refuse, ignore, mute, hang, exit, late exit */
        /* its process is not known yet */
        {P,
         true,
         MODEL_NEW,
         "qmp_capabilities",
         1,
         {"refused failed qmp", "refused failed timeout",
          "refused failed timeout", "refused failed timeout",
          "refused failed qemu-gone", "refused failed qemu-gone"}},
        FACT("query-name"),
        FACT("query-uuid"),
        FACT("qom-get"),
        FACT("query-status"),
        FACT("query-migrate"),
        FACT("query-qmp-schema"),
        {P,
         true,
         MODEL_NEW,
         "qom-list-properties",
         1,
         {"completed", "refused failed timeout", "refused failed timeout",
          "refused failed timeout", "refused failed qemu-gone",
          "refused failed qemu-gone"}},
        FACT("query-migrate-capabilities"),
        FACT("query-migrate-parameters"),
        FACT("human-monitor-command"),
        {P,
         true,
         MODEL_NEW,
         "migrate-set-capabilities",
         1,
         {"failed qmp", "failed timeout", "failed timeout", "failed timeout",
          LOST}},
        {P,
         true,
         MODEL_NEW,
         "migrate-set-parameters",
         1,
         {"failed qmp", "failed timeout", "failed timeout", "failed timeout",
          LOST}},
        {P,
         true,
         MODEL_NEW,
         "migrate",
         1,
         {"failed qmp", "failed timeout", "completed", "attention timeout*",
          LOST}},
        {C,
         true,
         MODEL_ACTIVE,
         "query-migrate",
         1,
         {"completed", "completed", "completed", "attention timeout*", LOST}},
        {P,
         true,
         MODEL_PRE_SWITCHOVER,
         "query-status",
         1,
         {"completed", "completed", "completed", "attention timeout*", LOST}},
        {P,
         true,
         MODEL_NEW,
         "migrate-continue",
         1,
         {"failed qmp", "failed timeout", "completed", "attention timeout*",
          LOST}},
        /* the guest has gone: what cannot be put back is not, and said */
        {P,
         true,
         MODEL_COMPLETED,
         "query-migrate-capabilities",
         1,
         {"completed unrestored", "completed unrestored",
          "completed unrestored", "completed", "completed", "completed"}},
        {P,
         true,
         MODEL_COMPLETED,
         "migrate-set-capabilities",
         1,
         {"completed", "completed unrestored", "completed unrestored",
          "completed", "completed", "completed"}},
        {P,
         true,
         MODEL_COMPLETED,
         "migrate-set-parameters",
         1,
         {"completed", "completed unrestored", "completed", "completed",
          "completed", "completed"}},
        {C,
         true,
         MODEL_NEW,
         "migrate-start-postcopy",
         1,
         {"failed qmp", "completed", "completed", "attention timeout*", LOST}},
        /* past migrate-continue nobody can tell whether the package left */
        {C,
         true,
         MODEL_NEW,
         "migrate-continue",
         1,
         {"failed qmp", "attention timeout*", "completed", "attention timeout*",
          "attention qemu-gone*", "attention qemu-gone*"}},
        {C,
         true,
         MODEL_POSTCOPY,
         "query-status",
         1,
         {"completed", "completed", "completed", "attention timeout*",
          "attention qemu-gone*", "attention qemu-gone*"}},
    };

    assert_int_equal(faults_run(&all, rows, sizeof(rows) / sizeof(rows[0]), 40),
                     0);
}

static void each_stage_of_the_source_fails(void **state)
{
    static const struct fault_row rows[] = {
        {P,
         true,
         MODEL_ACTIVE,
         NULL,
         0,
         {"failed qemu-failed", "failed timeout", "completed",
          "attention timeout*", LOST}},
        {P,
         true,
         MODEL_PRE_SWITCHOVER,
         NULL,
         0,
         {"failed qemu-failed", "failed timeout", "completed",
          "attention timeout*", LOST}},
        {P,
         true,
         MODEL_DEVICE,
         NULL,
         0,
         {"failed qemu-failed", "failed timeout", "completed",
          "attention timeout*", LOST}},
        /* all of the guest is loaded there when the source's QEMU dies before
         * it says that it is done: the copy is kept */
        {P,
         true,
         MODEL_COMPLETED,
         NULL,
         0,
         {NULL, "failed timeout", "completed", "attention timeout*",
          "attention qemu-gone*", "completed"}},
        {C,
         true,
         MODEL_PRE_SWITCHOVER,
         NULL,
         0,
         {"failed qemu-failed", "failed timeout", "completed",
          "attention timeout*", LOST}},
        {C,
         true,
         MODEL_POSTCOPY,
         NULL,
         0,
         {"failed qemu-failed", "attention timeout*", "completed",
          "attention timeout*", "attention qemu-gone*",
          "attention qemu-gone*"}},
        /* nothing of the guest is missing there: whatever the source's QEMU
         * does, it has moved */
        {C,
         true,
         MODEL_COMPLETED,
         NULL,
         0,
         {NULL, "completed*", "completed", "completed", "completed",
          "completed"}},
    };

    assert_int_equal(faults_run(&all, rows, sizeof(rows) / sizeof(rows[0]), 40),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_precopy_goes_well),
        cmocka_unit_test(a_postcopy_goes_well),
        cmocka_unit_test(each_command_of_the_source_fails),
        cmocka_unit_test(each_stage_of_the_source_fails),
    };
    int failed;

    worlds_init(&all);
    failed = cmocka_run_group_tests_name("source", tests, NULL, NULL);
    worlds_done(&all);
    return failed;
}
