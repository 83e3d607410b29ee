// SPDX-License-Identifier: BSD-3-Clause
/* One question or order, with what goes wrong printed. */
#ifndef TOOLS_CTL_ASK_H
#define TOOLS_CTL_ASK_H

#include "tools/ctl.h"

struct json_object;

/* Asks; body may be NULL. The answer (the caller's to put), or NULL when an
 * error was printed. */
struct json_object *ctl_ask(const struct ctl_call *call, const char *method,
                            const char *path, struct json_object *body);

/* The same about the migration that the call names: /v1/migrations/ID, with
 * /VERB behind it unless that is NULL. */
struct json_object *ctl_ask_of_id(const struct ctl_call *call,
                                  const char *method, const char *verb,
                                  struct json_object *body);

/* Whether text can be an id, nothing that changes a path's meaning; else an
 * error is printed. */
bool ctl_ask_check_id(const struct ctl_call *call, const char *id);

#endif
