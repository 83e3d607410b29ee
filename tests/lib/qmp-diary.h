// SPDX-License-Identifier: BSD-3-Clause
/* A QMP client on a scripted server, for tests: what the client's owner is
 * told is written down line by line and compared. */
#ifndef TESTS_LIB_QMP_DIARY_H
#define TESTS_LIB_QMP_DIARY_H

#include <stdbool.h>

#include "qmp/qmp.h"
#include "tests/lib/fake-qemu.h"

struct json_object;

/* The deadline of calls that do not test deadlines. */
#define DIARY_TIMEOUT (100 * MP_SECOND)

struct diary {
    struct loop *loop;
    struct fake_qemu *fake;
    struct qmp *qmp;
    char text[8192];
    int lines;
    int wanted; /* lines to wait for */
    bool is_enough;
    const char *close_on; /* close when a line starts with this */
};

/* cmocka's set-up and tear-down; *state is the diary. */
int diary_set_up(void **state);
int diary_tear_down(void **state);

/* The lines the client's ops write: "ready", "event NAME DATA TIMESTAMP",
 * "closed CLASS: TEXT". Their arg is the diary. */
extern const struct qmp_ops diary_ops;

/* Opens the client on a server that plays script. params may be NULL. */
void diary_open(struct diary *d, const struct qmp_params *params,
                const char *script);

/* Submits a call; its end becomes "COMMAND RESULT" or "COMMAND failed CLASS:
 * TEXT". args is taken. */
void diary_call(struct diary *d, const char *command);
void diary_call_with(struct diary *d, const char *command, bool oob,
                     struct json_object *args, mp_time timeout);

/* Runs the loop until the diary has count lines. */
void diary_wait_lines(struct diary *d, int count);

/* Runs the loop until the diary has as many lines as expected, and compares;
 * nothing more may come, and the server must be content. */
void diary_expect(struct diary *d, const char *expected);

#endif
