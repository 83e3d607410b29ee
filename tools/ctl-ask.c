// SPDX-License-Identifier: BSD-3-Clause
/* One question or order, with what goes wrong printed. */
#include "tools/ctl-ask.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "tools/ctl-output.h"
#include "util/cleanup.h"

#define ID_MAX 64

static void put_object(struct json_object **object)
{
    json_object_put(*object);
}

struct json_object *ctl_ask(const struct ctl_call *call, const char *method,
                            const char *path, struct json_object *body)
{
    struct error err = ERROR_INIT;
    CLEANUP(put_object) struct json_object *answer = NULL;
    int status =
        ctl_http_request(call->http, method, path, body, &answer, &err);

    if (status < 0) {
        ctl_output_error(&err, call->json);
        return NULL;
    }
    if (status != 200 && status != 201) {
        ctl_output_refusal(status, answer, call->json);
        return NULL;
    }
    return steal_ptr(&answer);
}

bool ctl_ask_check_id(const struct ctl_call *call, const char *id)
{
    struct error err = ERROR_INIT;

    /* the daemon's own rule */
    if (*id && strlen(id) <= ID_MAX &&
        !id[strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                       "0123456789._-")]) {
        return true;
    }
    error_set(&err, ERR_NOT_FOUND, "\"%.80s\" is no id of a migration", id);
    ctl_output_error(&err, call->json);
    return false;
}

struct json_object *ctl_ask_of_id(const struct ctl_call *call,
                                  const char *method, const char *verb,
                                  struct json_object *body)
{
    char path[128];

    if (!ctl_ask_check_id(call, call->id)) {
        return NULL;
    }
    snprintf(path, sizeof(path), "/v1/migrations/%s%s%s", call->id,
             verb ? "/" : "", verb ? verb : "");
    return ctl_ask(call, method, path, body);
}
