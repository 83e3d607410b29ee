// SPDX-License-Identifier: BSD-3-Clause
/* One question or order, with what goes wrong printed. */
#include "tools/ctl-ask.h"

#include <json-c/json.h>
#include <stdio.h>

#include "qmp/json-value.h"
#include "tools/ctl-output.h"
#include "util/id.h"

enum ctl_exit ctl_ask(const struct ctl_call *call, const char *method,
                      const char *path, struct json_object *body,
                      struct json_object **ret_answer)
{
    struct error err = ERROR_INIT;
    CLEANUP_JSON struct json_object *answer = NULL;
    int status =
        ctl_http_request(call->http, method, path, body, &answer, &err);

    if (status < 0) {
        return ctl_output_error(&err, call->json);
    }
    if (status != 200 && status != 201) {
        return ctl_output_refusal(call, status, answer);
    }
    *ret_answer = steal_ptr(&answer);
    return CTL_EXIT_DONE;
}

enum ctl_exit ctl_ask_check_id(const struct ctl_call *call, const char *id)
{
    struct error err = ERROR_INIT;

    if (id_is_valid(id)) {
        return CTL_EXIT_DONE;
    }
    error_set(&err, ERR_BAD_REQUEST, "\"%.80s\" is no id of a migration", id);
    return ctl_output_error(&err, call->json);
}

enum ctl_exit ctl_ask_of_id(const struct ctl_call *call, const char *method,
                            const char *verb, struct json_object *body,
                            struct json_object **ret_answer)
{
    char path[128];
    enum ctl_exit status = ctl_ask_check_id(call, call->id);

    if (status != CTL_EXIT_DONE) {
        return status;
    }
    snprintf(path, sizeof(path), "/v1/migrations/%s%s%s", call->id,
             verb ? "/" : "", verb ? verb : "");
    return ctl_ask(call, method, path, body, ret_answer);
}
