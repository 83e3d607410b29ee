// SPDX-License-Identifier: BSD-3-Clause
/* One question or order, with what goes wrong printed. */
#ifndef TOOLS_CTL_ASK_H
#define TOOLS_CTL_ASK_H

#include "tools/ctl.h"

struct json_object;

/* Asks; body may be NULL. With CTL_EXIT_DONE *ret_answer is the caller's to
 * put; else an error was printed, this is its exit status, and *ret_answer
 * stays. */
enum ctl_exit ctl_ask(const struct ctl_call *call, const char *method,
                      const char *path, struct json_object *body,
                      struct json_object **ret_answer);

/* The same about the migration that the call names: /v1/migrations/ID, with
 * /VERB behind it unless that is NULL. */
enum ctl_exit ctl_ask_of_id(const struct ctl_call *call, const char *method,
                            const char *verb, struct json_object *body,
                            struct json_object **ret_answer);

/* CTL_EXIT_DONE if text can be an id; else an error is printed and this is its
 * exit status. */
enum ctl_exit ctl_ask_check_id(const struct ctl_call *call, const char *id);

#endif
