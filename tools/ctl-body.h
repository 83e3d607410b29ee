// SPDX-License-Identifier: BSD-3-Clause
/* Options of a command to members of a request's body. An option that was not
 * given adds nothing. What is not about numbers is left to the daemon to check.
 */
#ifndef TOOLS_CTL_BODY_H
#define TOOLS_CTL_BODY_H

#include "tools/ctl.h"

struct json_object;

/* A text as it is. */
void ctl_body_add_text(const struct ctl_call *call,
                       const struct ctl_option *options, int option,
                       struct json_object *body, const char *name);

/* A whole number; a whole number of milliseconds or a time with its unit
 * ("300", "1.5s") as milliseconds; a time ("1.5", "2min") as seconds; a rate
 * ("100MiB/s", "unlimited") as bytes per second. -1 with ERR_BAD_REQUEST naming
 * the option, the value and the limits (of its row). */
int ctl_body_add_count(const struct ctl_call *call,
                       const struct ctl_option *options, int option,
                       struct json_object *body, const char *name,
                       struct error *err);
int ctl_body_add_ms(const struct ctl_call *call,
                    const struct ctl_option *options, int option,
                    struct json_object *body, const char *name,
                    struct error *err);
int ctl_body_add_seconds(const struct ctl_call *call,
                         const struct ctl_option *options, int option,
                         struct json_object *body, const char *name,
                         struct error *err);
int ctl_body_add_rate(const struct ctl_call *call,
                      const struct ctl_option *options, int option,
                      struct json_object *body, const char *name,
                      struct error *err);

#endif
