// SPDX-License-Identifier: BSD-3-Clause
/* Commands held against the answer to query-qmp-schema, for tests. */
#ifndef TESTS_LIB_QMP_SCHEMA_H
#define TESTS_LIB_QMP_SCHEMA_H

#include <stdbool.h>

struct json_object;

/* Fails the test unless the schema has the command, it may run so (out of
 * band), and args (or NULL) are what it takes: names, types, enum values, no
 * mandatory member missing. */
void schema_check_command(struct json_object *schema, const char *command,
                          struct json_object *args, bool is_oob);

#endif
