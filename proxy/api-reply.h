// SPDX-License-Identifier: BSD-3-Clause
/* One answer of the API: a status and a JSON text. */
#ifndef PROXY_API_REPLY_H
#define PROXY_API_REPLY_H

#include <stdbool.h>

#include "util/error.h"

struct json_object;

struct api_reply {
    int status;
    char *body;        /* owned; NULL: there was no memory for one */
    const char *allow; /* methods for a 405, static; else NULL */
    char location[96]; /* path of what a 201 made; else "" */
    bool is_stream;    /* body is the begin of a stream of events */
    const char *type;  /* Content-Type, static; NULL: JSON */
};

/* Sets status and the object's text as body; the reference stays with the
 * caller. */
void api_reply_set_json(struct api_reply *reply, int status,
                        struct json_object *object);

/* Sets {"error":{"class","message","side"}}; status 0: the one of the class.
 * What is no UTF-8 in the message (a peer's or QEMU's text, a cut) becomes "?",
 * and so do control characters. */
void api_reply_set_error(struct api_reply *reply, int status, const char *side,
                         const struct error *err);

/* Releases the body. */
void api_reply_done(struct api_reply *reply);

#endif
