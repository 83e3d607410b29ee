// SPDX-License-Identifier: BSD-3-Clause
/* An error as JSON: {"class","message"[,"side"]}. */
#include "proxy/error-json.h"

#include <string.h>

#include "qmp/json-value.h"

json_object *error_json_new(const struct error *err, const char *side)
{
    json_object *object = json_object_new_object();

    error_json_add(object, err, side);
    return object;
}

void error_json_add(json_object *object, const struct error *err,
                    const char *side)
{
    json_object_object_add(object, "class",
                           json_object_new_string(error_class(err->code)));
    json_object_object_add(object, "message",
                           json_object_new_string(err->text));
    if (side) {
        json_object_object_add(object, "side", json_object_new_string(side));
    }
}

const char *error_json_read(json_object *object, const char *fallback,
                            struct error *ret_err)
{
    const char *class = "internal", *text = "no cause given", *side = "";

    json_value_text(object, "class", &class);
    json_value_text(object, "message", &text);
    json_value_text(object, "side", &side);
    error_set(ret_err, error_code_of_class(class), "%s", text);
    if (!strcmp(side, "source")) {
        return "source";
    }
    if (!strcmp(side, "path")) {
        return "path";
    }
    return strcmp(side, "destination") ? fallback : "destination";
}
