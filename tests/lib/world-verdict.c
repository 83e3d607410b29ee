// SPDX-License-Identifier: BSD-3-Clause
/* Two daemons in one process: what is wrong at the end of a migration. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "qmp/json-value.h"
#include "tests/lib/world.h"

static const char *left_over(struct world *w, const struct world_host *host)
{
    char path[128];
    DIR *dir;
    struct dirent *entry;
    const char *found = NULL;

    snprintf(path, sizeof(path), "%s/q%s", w->dir, host->name);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, WORLD_VM ".qmp")) {
            found = world_keep(entry->d_name);
        }
    }
    closedir(dir);
    return found;
}

static bool answers(const struct model_qemu *q)
{
    return model_is_alive(q) && !model_is_hung(q);
}

static const char *check_guest(struct world *w, const char *state)
{
    const char *is_on = world_text(&w->source, "guest_is_on");
    bool here = model_runs(w->source_qemu);
    bool there = model_runs(w->destination_qemu);

    if (!strcmp(state, "completed")) {
        if (strcmp(is_on, "destination")) {
            return "completed, but guest_is_on is not destination";
        }
        if (here || (!model_is_alive(w->destination_qemu) &&
                     !model_ever_ran(w->destination_qemu))) {
            return "completed, but the destination has no guest";
        }
    } else if (!strcmp(state, "failed") || !strcmp(state, "cancelled")) {
        if (there || model_ever_ran(w->destination_qemu)) {
            return "undone, but the destination has run";
        }
        if (answers(w->source_qemu) && strcmp(is_on, "source")) {
            return "undone, but guest_is_on is not source";
        }
    } else if (strcmp(state, "attention")) {
        return "the source's state is no end";
    }
    return NULL;
}

static bool is_refused(const struct world_host *host)
{
    json_object *shown = world_show(host);
    bool refused = false;

    json_value_bool(shown, "refused", &refused);
    json_object_put(shown);
    return refused;
}

/* Whether both say the same result for the same cause, in the same words. NULL
 * if so; a destination that never had it says nothing. */
static const char *differ(struct world *w)
{
    const char *here = world_error(&w->source);
    const char *there = world_error(&w->destination);
    char text[600];

    if (!world_state(&w->destination)[0]) {
        return NULL;
    }
    if (!strcmp(here, there)) {
        return is_refused(&w->source) == is_refused(&w->destination)
                   ? NULL
                   : "only one of the ends says that it was refused";
    }
    snprintf(text, sizeof(text), "the source says %s, the destination %s", here,
             there);
    return world_keep(text);
}

static const char *check_ends(struct world *w)
{
    /* what could not be told at once is told later, when it can be */
    for (int i = 0; i < 500 && differ(w); i++) {
        worlds_run_for(w->all, 10 * MP_MS);
    }
    const char *text = differ(w);
    return text ? text : check_guest(w, world_state(&w->source));
}

bool world_is_restored(const struct world *w)
{
    return (!answers(w->source_qemu) || model_is_restored(w->source_qemu)) &&
           (!answers(w->destination_qemu) ||
            model_is_restored(w->destination_qemu));
}

const char *world_complaint(struct world *w)
{
    struct model_qemu *qemus[] = {w->source_qemu, w->destination_qemu};
    struct world_host *hosts[] = {&w->source, &w->destination};
    char text[200];

    if (w->breach[0]) {
        return w->breach;
    }
    for (int i = 0; i < 2; i++) {
        if (model_violation(qemus[i])) {
            return model_violation(qemus[i]);
        }
    }
    if (!world_is_over(w)) {
        snprintf(text, sizeof(text),
                 "it does not end: source %s, destination "
                 "%s",
                 world_state(&w->source), world_state(&w->destination));
        return world_keep(text);
    }
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 100 && left_over(w, hosts[i]); k++) {
            worlds_run_for(w->all, 10 * MP_MS); /* it is a posted call */
        }
        if (left_over(w, hosts[i])) {
            snprintf(text, sizeof(text), "socket %s is left over",
                     left_over(w, hosts[i]));
            return world_keep(text);
        }
    }
    return check_ends(w);
}
