// SPDX-License-Identifier: BSD-3-Clause
/* A table of faults of a QEMU, run all at once: each cell is a world of its own
 * with one fault, and says how the migration ends. */
#ifndef TESTS_LIB_FAULTS_H
#define TESTS_LIB_FAULTS_H

#include "tests/lib/world.h"

#define FAULTS_KINDS 6 /* refuse, ignore, mute, hang, exit, late exit */

/* One point and what each kind of fault there leads to: "STATE CLASS" of both
 * ends ("completed", "failed qmp", "attention qemu-gone"), with "refused "
 * in front where nothing had been changed yet, " unrestored" behind where
 * capabilities could not be put back. NULL: not a case. It is a pattern for
 * fnmatch(); that both ends say the same is checked in any case. */
struct fault_row {
    enum api_mode mode;
    bool at_source;
    enum model_stage stage; /* of command NULL: it fails itself; else: the
                               command fails after it */
    const char *command;
    unsigned nth;
    const char *ends[FAULTS_KINDS];
};

/* Runs every cell, at most seconds each, many at a time. A cell that ends
 * otherwise while this program was kept from running is run again, with longer
 * deadlines, unless the guest ran twice or the like. Writes each cell that
 * ended otherwise to stderr and returns how many did. */
unsigned faults_run(struct worlds *all, const struct fault_row *rows,
                    size_t count, double seconds);

#endif
