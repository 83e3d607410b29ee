// SPDX-License-Identifier: BSD-3-Clause
/* What a person is told where a migration needs one. */
#include "proxy/advice.h"

#include <stdlib.h>
#include <string.h>

/* In the texts:
 *   $v guest   $i id of the migration   $e the error's text
 *   $S $D      source and destination host
 *   $s $d      their QEMUs' QMP sockets, "... at PATH"
 *   $r         how a postcopy is recovered, or that it cannot be
 *   $R         the same, and what to do then */

#define QUERY_MIGRATE "  {\"execute\":\"query-migrate\"}\n"
#define QUERY_STATUS "  {\"execute\":\"query-status\"}\n"
#define CONT "  {\"execute\":\"cont\"}\n"
#define QUIT "  {\"execute\":\"quit\"}\n"

#define NEVER_TWICE                                                            \
    "Never: cont on $S; migrate_cancel on either; end a QEMU before the "      \
    "guest "                                                                   \
    "is whole on $D."

#define ANEW                                                                   \
    "end what is left of its QEMUs on both hosts, then start the guest anew "  \
    "from its disk, as after a power cut"

/* As QEMU wants it: docs/devel/migration/postcopy.rst, "Postcopy recovery", of
 * 10.0; the monitor's main thread may wait for a page, so out of band. */
static const char recover[] =
    "On $S, by $s: query-migrate must say \"postcopy-paused\"; a side that "
    "says \"postcopy-active\" is paused by\n"
    "  {\"exec-oob\":\"migrate-pause\"}\n"
    "On $D, by $d: migrate-recover by exec-oob (other commands may not be "
    "answered before it). ADDRESS is one of $D that $S reaches, PORT a free "
    "one. This connection is outside of migproxy's TLS, not encrypted and "
    "not authenticated: a trusted network, or a tunnel of your own.\n"
    "  {\"exec-oob\":\"migrate-recover\",\"arguments\":{\"uri\":"
    "\"tcp:ADDRESS:PORT\"}}\n"
    "On $S, by $s: migrate with resume=true, to the same URI\n"
    "  {\"execute\":\"migrate\",\"arguments\":{\"uri\":"
    "\"tcp:ADDRESS:PORT\",\"resume\":true}}\n"
    "On both: query-migrate until it says \"completed\".\n";

static const char if_recovered[] =
    "On $D, by $d: query-status must say \"running\", else (if the guest ran "
    "before) cont. Then end the QEMU of $S by quit.\n";

/* migration/ram.c ram_save_queue_pages(): the assertion is about requests
 * smaller than the block's pages, which migproxy widens on its own path. */
static const char no_recovery[] =
    "But do not: the guest was received from huge pages in pages of 4 KiB, "
    "with postcopy-preempt. The QEMU of $S aborts at the first request that "
    "comes to it by another way than migproxy, and the guest is lost with it. "
    "No way to recover this one is known: take from the guest what can still "
    "be had (on $D it may answer as long as it needs no page that is missing), "
    "then " ANEW ".\n";

struct row {
    const char *anchor;
    const char *what;    /* has happened */
    const char *certain; /* and never, and do */
};

static const struct row rows[ADVICE_KINDS] = {
    [ADVICE_SPREAD] = {"spread-over-both-hosts",
                       "the guest is spread over both hosts",
                       "Certain: it was handed over to $D, and part of its "
                       "memory is still on $S only. No host has a complete "
                       "copy; nothing is lost while both QEMUs are there.\n" //
                       NEVER_TWICE "\n"
                       "Do: recover the postcopy.\n$R"
                       "If one of the QEMUs has ended or cannot be recovered, "
                       "the guest is lost: " ANEW ".\n"},
    [ADVICE_SOURCE_ENDED] =
        {"source-ended-in-postcopy",
         "the source's QEMU has ended while the guest's memory was still being "
         "moved",
         "Certain: the guest was handed over to $D, and what had not been sent "
         "of its memory is lost with the QEMU of $S. No host has a complete "
         "copy.\n"
         "Never: leave the guest on $D as it is; it hangs at the first page "
         "that is missing.\n"
         "Do: see on $S that the process has ended; end the QEMU on $D, by "
         "$d\n" QUIT "If that is not answered, end its process. Then start the "
         "guest anew from its disk, as after a power cut.\n"},
    [ADVICE_SOURCE_PERHAPS_ENDED] =
        {"source-perhaps-ended-in-postcopy",
         "the source's QEMU has closed its connections before all of the "
         "guest's memory was here",
         "Certain: the guest was handed over to $D, and part of its memory was "
         "on $S only. No host has a complete copy.\n" NEVER_TWICE "\n"
         "Do: look on $S whether the QEMU is there ($s). If it has ended, the "
         "rest is lost: " ANEW ". If it is there and says "
         "\"postcopy-paused\", recover the postcopy.\n$R"},
    [ADVICE_DESTINATION_PERHAPS_ENDED] =
        {"destination-perhaps-ended-in-postcopy",
         "the destination's QEMU has closed its connections before it had all "
         "of the guest's memory",
         "Certain: the guest was handed over to $D; what is on $S is no longer "
         "a complete copy.\n" NEVER_TWICE "\n"
         "Do: look on $D whether the QEMU is there ($d; it may not answer). If "
         "it has ended, the guest has with it: " ANEW ". If it is there, "
         "recover the postcopy.\n$R"},
    [ADVICE_DESTINATION_ENDED] =
        {"destination-ended",
         "the guest was started on the destination and has ended with its QEMU",
         "Certain: it was started on $D. What is in the QEMU of $S is older "
         "than the guest's disk.\n"
         "Never: cont on $S: it would write old data to the disk.\n"
         "Do: see on $D that the process has ended ($d); if it has not, "
         "query-status there says how the guest is, and it stays there. If it "
         "has: end the QEMU of $S, by $s\n" QUIT
         "Then start the guest anew from its disk, as after a power cut.\n"},
    [ADVICE_NOT_ANSWERED] =
        {"handover-not-answered",
         "the guest was handed over and the destination did not say whether "
         "it started it",
         "Certain: $S has a complete copy, stopped, and so has $D, which may "
         "have started it. Only one of them may ever run.\n"
         "Never: cont on $S while the QEMU of $D is there or the guest may "
         "have run there.\n"
         "Do: on $D, \"migproxyctl show $i\" says whether it was started; "
         "else ask its QEMU, by $d\n" QUERY_STATUS
         "If it runs: end the QEMU of $S, by $s\n" QUIT
         "If it is \"paused\" and query-migrate says \"completed\": cont "
         "there, then quit on $S.\n"
         "If it has ended and never ran (its host was lost before, or its "
         "daemon's record says so), resume the guest on $S, by $s\n" CONT
         "If it has ended and may have run: " ANEW ".\n"},
    [ADVICE_IN_DOUBT] =
        {"handover-in-doubt",
         "the source's QEMU did not say whether the guest has left it",
         "Certain: the guest does not run on $D, and the daemon of $D does not "
         "start it any more. Whether $S has a complete copy only its QEMU "
         "knows.\n"
         "Never: cont on $D before the guest is whole there; end a QEMU "
         "before that is clear; migrate_cancel where query-migrate says "
         "\"postcopy-...\".\n"
         "Do: ask the QEMU of $S, by $s\n" QUERY_MIGRATE
         "If it says \"failed\" or \"cancelled\", the guest is whole on $S: "
         "query-status, and cont there if it ran before and does not run; then "
         "end the QEMU of $D by quit.\n"
         "If it says \"postcopy-...\", the guest is spread over both hosts: "
         "recover the postcopy.\n$r"
         "Then, if the guest ran before, resume it on $D by cont.\n"
         "If one of the QEMUs has ended by then, what was only there is "
         "lost: " ANEW ".\n"},
    [ADVICE_STARTED_SILENT] =
        {"started-and-silent",
         "the guest was told to run on the destination, and its QEMU did not "
         "say that it does",
         "Certain: the source was told, or will be, to leave the guest to "
         "$D. Whether it ran there is not known.\n"
         "Never: cont on $S while the QEMU of $D is there, or if the guest may "
         "have run there; after a postcopy never at all.\n"
         "Do: ask the QEMU of $D, by $d\n" QUERY_STATUS
         "If it runs, it stays there. If it is \"paused\" and query-migrate "
         "says \"completed\": cont there\n" CONT
         "If it says \"postcopy-paused\": as in recovery.md, "
         "spread-over-both-hosts. If it has ended: " ANEW
         "; only if you know that it never ran there, and it was no postcopy, "
         "may the guest be resumed on $S by cont.\n"},
    [ADVICE_NOT_STARTED] =
        {"arrived-but-not-started",
         "the guest has arrived on the destination, and its QEMU refused to "
         "run it",
         "Certain: it was handed over to $D and has not run there; part of its "
         "memory may still be on $S only. The error says why it was "
         "refused.\n" NEVER_TWICE "\n"
         "Do: remove the cause. If query-migrate on $D does not say "
         "\"completed\", recover the postcopy.\n$r"
         "Then resume the guest on $D, by $d\n" CONT
         "and end the QEMU of $S by quit.\n"},
    [ADVICE_NOWHERE] =
        {"whole-on-both-hosts",
         "the guest is whole on both hosts and runs on neither",
         "Certain: $S and $D have a complete copy each, both stopped; the "
         "guest has not run on $D. The daemon of $D could not write its "
         "record, so it decides nothing.\n"
         "Never: resume both.\n"
         "Do: choose one. Better $S, since the QEMU of $D refused to run it: "
         "end that of $D, by $d\n" QUIT "then resume the guest on $S, by "
         "$s\n" CONT},
    [ADVICE_COPY] =
        {"whole-copy-on-the-destination",
         "a whole copy of the guest is loaded on the destination, paused",
         "Certain: $D has a complete copy, and it never ran there. Whether the "
         "QEMU of $S still has the guest, and runs it, is not known on $D.\n"
         "Never: cont on $D unless the QEMU of $S has surely ended: the guest "
         "would run twice and destroy its disk.\n"
         "Do: look on $S whether the process is there ($s). If it is, the "
         "guest is on $S: end the copy, on $D by $d\n" QUIT
         "If it has ended, and nobody has started the guest anew since, resume "
         "the guest on $D, by $d\n" CONT},
    [ADVICE_COPY_PERHAPS] =
        {"perhaps-a-copy-on-the-destination",
         "the source's QEMU has ended or does not answer; the destination has "
         "a paused copy of the guest",
         "Certain: the guest never ran on $D. It is a whole copy there if "
         "query-migrate says \"completed\"; else it is good for nothing.\n"
         "Never: cont on $D unless the QEMU of $S has surely ended and the "
         "copy is whole.\n"
         "Do: look on $S whether the process is there ($s). If it is, the "
         "guest is on $S: query-status, and cont there if it does not run; end "
         "the copy on $D by quit. If it has ended, ask the QEMU of $D, by "
         "$d\n" QUERY_MIGRATE
         "If that says \"completed\", resume the guest there\n" CONT
         "else " ANEW ".\n"},
    [ADVICE_SOURCE_LOST] =
        {"source-cannot-be-asked",
         "the source's QEMU has ended or cannot be asked",
         "Certain: the guest did not run on $D and never will by this "
         "migration; $D keeps nothing of it that could run.\n"
         "Never: start the guest anew while the QEMU of $S may still be "
         "there.\n"
         "Do: look on $S whether the process is there (see the log for its "
         "pid). If it is, it has the guest: ask it, by $s\n" QUERY_STATUS
         "and cont there if the guest does not run. If it has ended, start "
         "the guest anew from its disk, as after a power cut.\n"},
    [ADVICE_SOURCE_STOPPED] =
        {"stopped-on-the-source",
         "the guest is whole on the source but stopped: its QEMU refused to "
         "resume it",
         "Certain: $S has the only complete copy; it never ran on $D. The "
         "error says why it was refused.\n"
         "Never: cont on $D.\n"
         "Do: remove the cause, then resume the guest on $S, by $s\n" CONT},
    [ADVICE_SOURCE_BUSY] =
        {"source-does-not-end-its-migration",
         "the source's QEMU did not end its migration in time",
         "Certain: the guest did not run on $D and never will by this "
         "migration; $S has the only complete copy.\n"
         "Never: cont on $D; end the QEMU of $S.\n"
         "Do: ask the QEMU of $S, by $s\n" QUERY_MIGRATE
         "If that says \"cancelling\" or \"active\": migrate_cancel; if it "
         "stays so, out of band\n"
         "  {\"exec-oob\":\"yank\",\"arguments\":{\"instances\":"
         "[{\"type\":\"migration\"}]}}\n"
         "Then query-status, and cont if the guest does not run.\n"},
    [ADVICE_NO_QUIT] =
        {"destination-does-not-quit",
         "the destination's QEMU was told to quit: $e",
         "Certain: it holds at most a copy that must never run; the guest is "
         "on $S.\n"
         "Never: cont on $D.\n"
         "Do: on $D, end its process by hand ($d). It cannot serve for "
         "another migration.\n"},
    [ADVICE_OTHER_HOST] =
        {"read-the-other-host", "the source's host says that it needs a person",
         "Certain: $D has nothing of the guest that anybody needs. Where the "
         "guest is only $S may know.\n"
         "Never: cont on $D, or anything else to a QEMU before you have read "
         "what $S says.\n"
         "Do: on $S\n"
         "  migproxyctl show $i\n"},
};

static const char how_to_ask[] =
    "Commands in braces are lines to a QMP socket (socat - UNIX-CONNECT:PATH), "
    "the first of each connection being\n"
    "  {\"execute\":\"qmp_capabilities\",\"arguments\":{\"enable\":[\"oob\"]}}"
    "\n";

/* Text that grows; data is NULL when there was no memory. */
struct text {
    char *data;
    size_t used, size;
};

static void append(struct text *text, const char *from, size_t count)
{
    if (text->used + count + 1 > text->size) {
        size_t size = (text->used + count + 1) * 2;
        char *data = text->data ? realloc(text->data, size) : NULL;
        if (!data) {
            free(text->data);
            *text = (struct text){.data = NULL};
            return;
        }
        text->data = data;
        text->size = size;
    }
    memcpy(text->data + text->used, from, count);
    text->used += count;
    text->data[text->used] = '\0';
}

static void add(struct text *text, const char *from)
{
    append(text, from, strlen(from));
}

/* A word of the host: which one it is, and whether it is this. */
static void add_host(struct text *text, const struct advice *advice,
                     bool is_source)
{
    bool is_here = is_source == advice->is_source;
    add(text, is_here ? advice->here : advice->peer);
}

static void add_socket(struct text *text, const struct advice *advice,
                       bool is_source)
{
    bool is_here = is_source == advice->is_source;
    const char *path = is_here ? advice->qmp_path : advice->peer_qmp_path;

    if (path[0]) {
        add(text, "its QMP socket ");
        add(text, path);
    } else {
        add(text, "its QMP socket (which ");
        add_host(text, advice, is_source);
        add(text, " finds by [qemu] qmp-path or incoming)");
    }
}

/* One of the texts above. */
static void expand(struct text *text, const struct advice *advice,
                   const char *from)
{
    const char *mark;

    for (; (mark = strchr(from, '$')); from = mark + 2) {
        append(text, from, (size_t)(mark - from));
        switch (mark[1]) {
        case 'v':
            add(text, advice->vm);
            break;
        case 'i':
            add(text, advice->id);
            break;
        case 'e':
            add(text, advice->detail);
            break;
        case 'r':
        case 'R':
            expand(text, advice,
                   advice->is_unrecoverable ? no_recovery : recover);
            expand(text, advice,
                   mark[1] == 'R' && !advice->is_unrecoverable ? if_recovered
                                                               : "");
            break;
        case 'S':
        case 'D':
            add_host(text, advice, mark[1] == 'S');
            break;
        default:
            add_socket(text, advice, mark[1] == 's');
            break;
        }
    }
    add(text, from);
}

char *advice_make(const struct advice *advice)
{
    const struct row *row = &rows[advice->kind];
    struct text text = {.data = malloc(1), .size = 1};

    if (!text.data) {
        return NULL;
    }
    expand(&text, advice, row->what);
    expand(&text, advice, ".\nGuest $v");
    if (advice->uuid[0]) {
        add(&text, " (UUID ");
        add(&text, advice->uuid);
        add(&text, ")");
    }
    expand(&text, advice, ", migration $i from $S to $D; this is ");
    add(&text, advice->here);
    expand(&text, advice, ".\n");
    expand(&text, advice, row->certain);
    if (strstr(text.data ? text.data : "", "  {\"")) {
        add(&text, how_to_ask);
    }
    expand(&text, advice,
           "Then, on each host that shows it in attention: migproxyctl close "
           "$i --note TEXT\n"
           "More: recovery.md#");
    add(&text, row->anchor);
    return text.data;
}

const char *advice_anchor(enum advice_kind kind)
{
    return rows[kind].anchor;
}
