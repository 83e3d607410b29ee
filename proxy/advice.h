// SPDX-License-Identifier: BSD-3-Clause
/* What a person is told where a migration needs one: all texts, made of what is
 * known of the migration. docs/recovery.md has a section for each; a test holds
 * the two together. Pure. */
#ifndef PROXY_ADVICE_H
#define PROXY_ADVICE_H

#include <stdbool.h>
#include <stddef.h>

/* The situations. "Ended" is a QEMU whose monitor has closed. */
enum advice_kind {
    /* postcopy: neither host has all of the memory, both QEMUs may be there */
    ADVICE_SPREAD,
    ADVICE_SOURCE_ENDED,
    ADVICE_SOURCE_PERHAPS_ENDED,
    ADVICE_DESTINATION_PERHAPS_ENDED,
    /* the guest was started there, and there is no more QEMU */
    ADVICE_DESTINATION_ENDED,
    /* COMMIT was given and not answered; precopy */
    ADVICE_NOT_ANSWERED,
    /* no COMMIT, and the source's QEMU did not say whether the guest has left
     */
    ADVICE_IN_DOUBT,
    /* STARTED is on disk, and whether the guest runs is not known */
    ADVICE_STARTED_SILENT,
    ADVICE_NOT_STARTED, /* postcopy: cont was refused */
    ADVICE_NOWHERE,     /* precopy: whole on both hosts, runs on neither */
    /* the source has lost its QEMU; the destination has all, or perhaps */
    ADVICE_COPY,
    ADVICE_COPY_PERHAPS,
    ADVICE_SOURCE_LOST, /* ... or nothing */
    /* undone, but for one thing */
    ADVICE_SOURCE_STOPPED,
    ADVICE_SOURCE_BUSY,
    ADVICE_NO_QUIT,
    /* the other host's record says all */
    ADVICE_OTHER_HOST,
    ADVICE_KINDS
};

/* What is known. Texts are never NULL; "" where something is not known. */
struct advice {
    enum advice_kind kind;
    bool is_source; /* the host that says it */
    /* a postcopy that QEMU's own recovery would end (small pages) */
    bool is_unrecoverable;
    const char *id, *vm, *uuid;
    const char *here, *peer;              /* names of the hosts */
    const char *qmp_path, *peer_qmp_path; /* QMP sockets, each on its host */
    const char *detail;                   /* ADVICE_NO_QUIT: the error's text */
};

/* No advice is longer, with names, paths and an error's text as long as their
 * own limits allow: the longest is tested. Nothing is cut off. */
#define ADVICE_BYTES_MAX (12 * 1024)

/* Lines of text without a line end behind the last, the caller's to free. Those
 * that begin with spaces are commands, to be typed as they are. NULL when out
 * of memory. */
char *advice_make(const struct advice *advice);

/* The heading's anchor in recovery.md, "spread-over-both-hosts"; in each text
 * as "recovery.md#...". */
const char *advice_anchor(enum advice_kind kind);

#endif
