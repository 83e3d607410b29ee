// SPDX-License-Identifier: BSD-3-Clause
/* The events, as text, and the last of them. */
#include "proxy/api-events.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

struct api_events {
    uint64_t last;
    unsigned head;  /* of the oldest */
    unsigned count; /* kept */
    size_t bytes;   /* of all texts */
    struct kept {
        uint64_t sequence;
        char *text;
    } kept[API_EVENTS_KEPT_MAX];
};

struct api_events *api_events_new(uint64_t first)
{
    struct api_events *events = calloc(1, sizeof(*events));

    if (events) {
        events->last = first;
    }
    return events;
}

static void drop_oldest(struct api_events *events)
{
    struct kept *kept = &events->kept[events->head];

    events->bytes -= strlen(kept->text);
    free(kept->text);
    events->head = (events->head + 1) % API_EVENTS_KEPT_MAX;
    events->count--;
}

void api_events_free(struct api_events *events)
{
    while (events && events->count > 0) {
        drop_oldest(events);
    }
    free(events);
}

uint64_t api_events_last(const struct api_events *events)
{
    return events->last;
}

const char *api_events_add(struct api_events *events, const char *type,
                           const char *data)
{
    char *text;

    events->last++;
    if (asprintf(&text, "id: %" PRIu64 "\nevent: %s\ndata: %s\n\n",
                 events->last, type, data) < 0) {
        return NULL;
    }
    events->bytes += strlen(text);
    while (events->count > 0 && (events->count == API_EVENTS_KEPT_MAX ||
                                 events->bytes > API_EVENTS_KEPT_BYTES_MAX)) {
        drop_oldest(events);
    }
    unsigned at = (events->head + events->count++) % API_EVENTS_KEPT_MAX;
    events->kept[at] = (struct kept){events->last, text};
    return text;
}

char *api_events_make_passing(const char *type, const char *data)
{
    char *text;

    return asprintf(&text, "event: %s\ndata: %s\n\n", type, data) < 0 ? NULL
                                                                      : text;
}

/* The first event behind after that is still there. */
static uint64_t oldest_after(const struct api_events *events, uint64_t after)
{
    uint64_t oldest =
        events->count ? events->kept[events->head].sequence : events->last + 1;
    return oldest > after + 1 ? oldest : after + 1;
}

/* Writes the kept ones from number from on. */
static void write_kept(const struct api_events *events, uint64_t from,
                       FILE *out)
{
    for (unsigned i = 0; i < events->count; i++) {
        const struct kept *kept =
            &events->kept[(events->head + i) % API_EVENTS_KEPT_MAX];
        if (kept->sequence >= from) {
            fputs(kept->text, out);
        }
    }
}

char *api_events_replay(const struct api_events *events, uint64_t after)
{
    bool is_new = after == UINT64_MAX;
    bool is_foreign = !is_new && after > events->last;
    uint64_t from = is_new ? events->last + 1
                           : oldest_after(events, is_foreign ? 0 : after);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out) {
        return NULL;
    }
    /* the id of the hello is where a client that sees no more goes on */
    fprintf(out,
            "id: %" PRIu64 "\nevent: hello\ndata: {\"sequence\":%" PRIu64
            "}\n\n",
            from - 1, from - 1);
    if (is_foreign || (!is_new && from > after + 1)) {
        fprintf(out,
                "event: gap\ndata: {\"after\":%" PRIu64 ",\"next\":%" PRIu64
                "}\n\n",
                after, from);
    }
    write_kept(events, from, out);
    bool failed = ferror(out);
    if (fclose(out) || failed) {
        free(text);
        return NULL;
    }
    return text;
}

int api_events_parse_sequence(const char *text, uint64_t *ret_sequence,
                              struct error *err)
{
    struct error why = ERROR_INIT;

    if (parse_uint(text, 0, API_EVENTS_SEQUENCE_MAX, ret_sequence, &why) < 0) {
        return error_set(err, ERR_BAD_REQUEST,
                         "\"%s\" is not the number of an event", text);
    }
    return 0;
}
