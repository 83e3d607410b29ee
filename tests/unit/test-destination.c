// SPDX-License-Identifier: BSD-3-Clause
/* Migrations between two daemons whose QEMUs are models: what the
 * destination's QEMU can do wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "tests/lib/faults.h"

static struct worlds all;

#define P API_MODE_PRECOPY
#define C API_MODE_POSTCOPY

/* What is asked before anything is changed. */
#define FACT(command)                                                          \
    {                                                                          \
        P, false, MODEL_NEW, command, 1,                                       \
        {                                                                      \
            "refused failed qmp", "refused failed timeout",                    \
                "refused failed timeout", "refused failed timeout",            \
                "refused failed qemu-gone", "refused failed qemu-gone",        \
        }                                                                      \
    }
#define GONE "failed qemu-gone", "failed qemu-gone"

/* One that is told to run and dies has perhaps run. */
#define STARTED "attention qemu-gone*"

static void each_command_of_the_destination_fails(void **state)
{
    static const struct fault_row rows[] = {
        /* refuse, ignore, mute, hang, exit, late exit */
        FACT("qmp_capabilities"),
        FACT("query-name"),
        FACT("query-uuid"),
        FACT("qom-get"),
        FACT("query-status"),
        FACT("query-migrate"),
        FACT("query-qmp-schema"),
        {P,
         false,
         MODEL_NEW,
         "qom-list-properties",
         1,
         {"completed", "refused failed timeout", "refused failed timeout",
          "refused failed timeout", "refused failed qemu-gone",
          "refused failed qemu-gone"}},
        FACT("query-migrate-capabilities"),
        FACT("query-migrate-parameters"),
        FACT("human-monitor-command"),
        FACT("stop"),
        FACT("migrate-set-capabilities"),
        {P,
         false,
         MODEL_NEW,
         "migrate-incoming",
         1,
         {"failed qmp", "failed timeout", "failed timeout", "failed timeout",
          GONE}},
        /* the proof before the switchover */
        {P,
         false,
         MODEL_ACTIVE,
         "query-migrate",
         1,
         {"failed qmp", "failed timeout", "failed timeout", "failed timeout",
          GONE}},
        /* "is it loaded?" is asked again */
        {P,
         false,
         MODEL_COMPLETED,
         "query-status",
         1,
         {"completed", "completed", "completed", "failed timeout", GONE}},
        /* a refused cont (a disk's lock) leads back to the source */
        {P,
         false,
         MODEL_NEW,
         "cont",
         1,
         {"failed qmp", "completed", "completed", "attention timeout*", STARTED,
          STARTED}},
        {P,
         false,
         MODEL_COMPLETED,
         "query-migrate-capabilities",
         1,
         {"completed unrestored", "completed unrestored",
          "completed unrestored", "completed", "completed", "completed"}},
        {P,
         false,
         MODEL_COMPLETED,
         "migrate-set-capabilities",
         1,
         {"completed", "completed unrestored", "completed", "completed",
          "completed", "completed"}},
        /* the proof before the switch is tried again */
        {C,
         false,
         MODEL_ACTIVE,
         "query-migrate",
         1,
         {"completed", "completed", "completed", "failed timeout", GONE}},
        {C,
         false,
         MODEL_POSTCOPY,
         "query-status",
         1,
         {"completed", "completed", "completed", "attention timeout*",
          "attention qemu-gone*", "attention qemu-gone*"}},
        {C,
         false,
         MODEL_NEW,
         "cont",
         1,
         {"attention qmp*", "completed", "completed", "attention timeout*",
          STARTED, STARTED}},
    };

    assert_int_equal(faults_run(&all, rows, sizeof(rows) / sizeof(rows[0]), 40),
                     0);
}

static void each_stage_of_the_destination_fails(void **state)
{
    static const struct fault_row rows[] = {
        {P,
         false,
         MODEL_ACTIVE,
         NULL,
         0,
         {"failed qemu-*", "failed timeout", "completed", "failed timeout",
          GONE}},
        {P,
         false,
         MODEL_COMPLETED,
         NULL,
         0,
         {NULL, "failed timeout", "failed timeout", "failed timeout", GONE}},
        {C,
         false,
         MODEL_ACTIVE,
         NULL,
         0,
         {"failed qemu-*", NULL, "completed", "failed timeout", GONE}},
        {C,
         false,
         MODEL_POSTCOPY,
         NULL,
         0,
         {"attention *", "completed", "completed", "attention timeout*",
          "attention *", "attention *"}},
        /* an event that is lost is asked for; a QEMU that answers and never
         * ends is waited for, since the guest runs there */
        {C,
         false,
         MODEL_COMPLETED,
         NULL,
         0,
         {NULL, NULL, "completed", "attention timeout*", "attention *", NULL}},
    };

    assert_int_equal(faults_run(&all, rows, sizeof(rows) / sizeof(rows[0]), 40),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_command_of_the_destination_fails),
        cmocka_unit_test(each_stage_of_the_destination_fails),
    };
    int failed;

    worlds_init(&all);
    failed = cmocka_run_group_tests_name("destination", tests, NULL, NULL);
    worlds_done(&all);
    return failed;
}
