// SPDX-License-Identifier: BSD-3-Clause
/* The bodies of the smaller requests. */
#include "proxy/api-order.h"

#define LIMIT(member) offsetof(struct api_limits, member)
#define GIVEN_BANDWIDTH (1u << 0)
#define GIVEN_MAX_DOWNTIME (1u << 1)

const struct api_member api_limits_members[] = {
    {"bandwidth_bytes_per_second", API_MEMBER_RATE, false,
     LIMIT(bandwidth_bytes_per_second), NULL, 1, INT64_MAX},
    {"max_downtime_ms", API_MEMBER_COUNT, false, LIMIT(max_downtime_ms), NULL,
     1, API_DOWNTIME_MS_MAX},
    {.name = NULL},
};

#define INCOMING(member) offsetof(struct api_incoming, member)

const struct api_member api_incoming_members[] = {
    {"vm", API_MEMBER_NAME, true, INCOMING(vm), NULL, 1, API_NAME_MAX},
    {"uuid", API_MEMBER_UUID, false, INCOMING(uuid), NULL, API_UUID_SIZE,
     API_UUID_SIZE},
    {"qmp", API_MEMBER_PATH, true, INCOMING(qmp_path), NULL, 2,
     PATH_SOCKET_MAX},
    {.name = NULL},
};

const struct api_member api_close_members[] = {
    {"note", API_MEMBER_TEXT, false, offsetof(struct api_close, note), NULL, 1,
     API_NOTE_MAX},
    {.name = NULL},
};

int api_limits_parse(struct json_object *body, struct api_limits *ret_limits,
                     struct error *err)
{
    struct api_limits limits = {.has_bandwidth = false};
    uint32_t given;

    if (api_members_parse(api_limits_members, "PATCH /v1/migrations/{id}", body,
                          &limits, &given, err) < 0) {
        return -1;
    }
    if (!given) {
        return error_set(err, ERR_BAD_REQUEST,
                         "no limit is given: there are "
                         "\"bandwidth_bytes_per_second\" and "
                         "\"max_downtime_ms\"");
    }
    limits.has_bandwidth = given & GIVEN_BANDWIDTH;
    limits.has_max_downtime = given & GIVEN_MAX_DOWNTIME;
    *ret_limits = limits;
    return 0;
}

int api_incoming_parse(struct json_object *body,
                       struct api_incoming *ret_incoming, struct error *err)
{
    struct api_incoming incoming = {.uuid = ""};
    uint32_t given;

    if (api_members_parse(api_incoming_members, "POST /v1/incoming", body,
                          &incoming, &given, err) < 0) {
        return -1;
    }
    *ret_incoming = incoming;
    return 0;
}

int api_close_parse(struct json_object *body, struct api_close *ret_close,
                    struct error *err)
{
    struct api_close close = {.note = ""};
    uint32_t given;

    if (api_members_parse(api_close_members, "POST /v1/migrations/{id}/close",
                          body, &close, &given, err) < 0) {
        return -1;
    }
    *ret_close = close;
    return 0;
}
