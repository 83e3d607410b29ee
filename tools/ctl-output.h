// SPDX-License-Identifier: BSD-3-Clause
/* What migproxyctl prints. Texts come from daemons, peers and QEMU, so control
 * characters, which could steer a terminal, are printed as "?". */
#ifndef TOOLS_CTL_OUTPUT_H
#define TOOLS_CTL_OUTPUT_H

#include <stddef.h>
#include <stdio.h>

#include "tools/ctl.h"
#include "util/error.h"

struct json_object;

/* Replaces control characters except line ends in place. */
void ctl_output_clean(char *text);

/* As fprintf(), cleaned. */
void ctl_output_print(FILE *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One line of JSON on stdout. */
void ctl_output_json(struct json_object *object);

/* "migproxyctl: MESSAGE (CLASS)" on stderr; with json the error as an object on
 * stdout too: there is always one. Returns the exit status of its class. */
enum ctl_exit ctl_output_error(const struct error *err, bool json);

/* The same for an answer with that HTTP status that is an error
 * ({"error":{...}}). On stderr members of the request are called by the
 * command's options. */
enum ctl_exit ctl_output_refusal(const struct ctl_call *call, int status,
                                 struct json_object *answer);

/* As fprintf(file, "%s", message), cleaned; members that it quotes are called
 * by those of the options (NULL: there are none) that stand for them. */
void ctl_output_with_options(FILE *file, const struct ctl_option *options,
                             const char *message);

/* Rows of cells (texts, owned by the caller) in columns as wide as need be. */
void ctl_output_table(const char *const *titles, size_t columns,
                      char *const *cells, size_t rows);

#endif
