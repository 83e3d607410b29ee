// SPDX-License-Identifier: BSD-3-Clause
/* What qmp-caps.c (snapshots), qmp-caps-plan.c (which commands; both pure) and
 * qmp-caps-apply.c (asking QEMU) share; nobody else includes it. */
#ifndef QMP_QMP_CAPS_INTERNAL_H
#define QMP_QMP_CAPS_INTERNAL_H

#include "qmp/qmp-caps.h"

struct qmp_caps {
    struct json_object *capabilities; /* all of QEMU's: name -> true, false */
    struct json_object *parameters;   /* those we manage: name -> value */
};

/* The parameters we manage. */
enum { QMP_CAPS_PARAMETERS = 9 };
extern const char *const qmp_caps_parameters[QMP_CAPS_PARAMETERS];

/* ERR_NO_MEMORY; returns -1. */
int qmp_caps_out_of_memory(struct error *err);
/* For CLEANUP(). */
void qmp_caps_put_ptr(struct json_object **json);
/* Adds value, which is taken; false when out of memory. */
bool qmp_caps_add(struct json_object *object, const char *name,
                  struct json_object *value);
/* Adds a copy, so that a snapshot shares nothing with an answer or another. */
bool qmp_caps_add_copy(struct json_object *object, const char *name,
                       struct json_object *value);

/* From the answers to query-migrate-capabilities and
 * query-migrate-parameters. */
struct qmp_caps *qmp_caps_of_answers(struct json_object *capabilities,
                                     struct json_object *parameters,
                                     struct error *err);

struct qmp_caps *qmp_caps_copy(const struct qmp_caps *caps);

/* What leads from now to before, among what we manage, in an order in which
 * each step is legal by itself: a list of {"capability":..,"state":..} and an
 * object of parameters, both perhaps empty. */
int qmp_caps_diff(const struct qmp_caps *now, const struct qmp_caps *before,
                  struct json_object **ret_capabilities,
                  struct json_object **ret_parameters, struct error *err);

#endif
