// SPDX-License-Identifier: BSD-3-Clause
/* The body of POST /v1/migrations. */
#include "proxy/api-migrate.h"

#include <string.h>

static const char *const mode_words[] = {"auto", "precopy", "postcopy", NULL};
static const char *const preempt_words[] = {"auto", "on", "off", NULL};
static const char *const on_timeout_words[] = {"abort", "postcopy", "pause",
                                               NULL};

_Static_assert(API_MODE_POSTCOPY == 2 && API_PREEMPT_OFF == 2 &&
                   API_ON_TIMEOUT_PAUSE == 2,
               "the words stand in the order of their enums");
_Static_assert(sizeof(enum api_mode) == sizeof(int) &&
                   sizeof(enum api_preempt) == sizeof(int) &&
                   sizeof(enum api_on_timeout) == sizeof(int),
               "words are stored as int");

#define AT(member) offsetof(struct api_migrate, member)

const struct api_member api_migrate_members[] = {
    {"id", API_MEMBER_ID, false, AT(id), NULL, 1, ID_MAX},
    {"vm", API_MEMBER_NAME, true, AT(vm), NULL, 1, API_NAME_MAX},
    {"to", API_MEMBER_NAME, true, AT(peer), NULL, 1, API_NAME_MAX},
    {"qmp", API_MEMBER_PATH, false, AT(qmp_path), NULL, 2, PATH_SOCKET_MAX},
    {"dest_qmp", API_MEMBER_PATH, false, AT(dest_qmp_path), NULL, 2,
     PATH_SOCKET_MAX},
    {"mode", API_MEMBER_WORD, false, AT(mode), mode_words, 0, 0},
    {"preempt", API_MEMBER_WORD, false, AT(preempt), preempt_words, 0, 0},
    {"multifd_channels", API_MEMBER_COUNT, false, AT(multifd), NULL, 0,
     API_MULTIFD_MAX},
    {"postcopy_after_seconds", API_MEMBER_SECONDS, false,
     AT(postcopy_after_seconds), NULL, 0, API_SECONDS_MAX},
    {"bandwidth_bytes_per_second", API_MEMBER_RATE, false,
     AT(bandwidth_bytes_per_second), NULL, 1, INT64_MAX},
    {"max_downtime_ms", API_MEMBER_COUNT, false, AT(max_downtime_ms), NULL, 1,
     API_DOWNTIME_MS_MAX},
    {"timeout_seconds", API_MEMBER_SECONDS, false, AT(timeout_seconds), NULL, 1,
     API_SECONDS_MAX},
    {"on_timeout", API_MEMBER_WORD, false, AT(on_timeout), on_timeout_words, 0,
     0},
    {.name = NULL},
};
#define GIVEN_ON_TIMEOUT (1u << 12) /* its place in the table */

const char *api_mode_name(enum api_mode mode)
{
    return mode_words[mode];
}

const char *api_preempt_name(enum api_preempt preempt)
{
    return preempt_words[preempt];
}

const char *api_on_timeout_name(enum api_on_timeout on_timeout)
{
    return on_timeout_words[on_timeout];
}

const struct api_migrate api_migrate_default = {
    .mode = API_MODE_AUTO,
    .preempt = API_PREEMPT_AUTO,
    .postcopy_after_seconds = -1,
    .bandwidth_bytes_per_second = PARSE_UNLIMITED,
    .max_downtime_ms = API_DOWNTIME_MS_DEFAULT,
    .timeout_seconds = -1,
    .on_timeout = API_ON_TIMEOUT_ABORT,
};

/* What the members say together. */
static int check_whole(const struct api_migrate *migrate, bool has_on_timeout,
                       struct error *err)
{
    if (migrate->mode == API_MODE_PRECOPY &&
        migrate->postcopy_after_seconds >= 0) {
        return error_set(err, ERR_BAD_REQUEST,
                         "member \"postcopy_after_seconds\" does not go with "
                         "mode precopy");
    }
    if (migrate->mode == API_MODE_PRECOPY &&
        migrate->on_timeout == API_ON_TIMEOUT_POSTCOPY) {
        return error_set(
            err, ERR_BAD_REQUEST,
            "member \"on_timeout\": postcopy does not go with mode "
            "precopy");
    }
    if (migrate->mode == API_MODE_PRECOPY &&
        migrate->preempt == API_PREEMPT_ON) {
        return error_set(err, ERR_BAD_REQUEST,
                         "member \"preempt\": on does not go with mode "
                         "precopy");
    }
    if (has_on_timeout && migrate->timeout_seconds < 0) {
        return error_set(err, ERR_BAD_REQUEST,
                         "member \"on_timeout\" needs \"timeout_seconds\"");
    }
    return 0;
}

int api_migrate_parse(struct json_object *body, struct api_migrate *ret_migrate,
                      struct error *err)
{
    struct api_migrate migrate = api_migrate_default;
    uint32_t given;

    if (api_members_parse(api_migrate_members, "POST /v1/migrations", body,
                          &migrate, &given, err) < 0 ||
        check_whole(&migrate, given & GIVEN_ON_TIMEOUT, err) < 0) {
        return -1;
    }
    *ret_migrate = migrate;
    return 0;
}

bool api_migrate_is_equal(const struct api_migrate *a,
                          const struct api_migrate *b)
{
    return !strcmp(a->id, b->id) && !strcmp(a->vm, b->vm) &&
           !strcmp(a->peer, b->peer) && !strcmp(a->qmp_path, b->qmp_path) &&
           !strcmp(a->dest_qmp_path, b->dest_qmp_path) && a->mode == b->mode &&
           a->preempt == b->preempt && a->multifd == b->multifd &&
           a->postcopy_after_seconds == b->postcopy_after_seconds &&
           a->bandwidth_bytes_per_second == b->bandwidth_bytes_per_second &&
           a->max_downtime_ms == b->max_downtime_ms &&
           a->timeout_seconds == b->timeout_seconds &&
           a->on_timeout == b->on_timeout;
}
