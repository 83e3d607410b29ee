// SPDX-License-Identifier: BSD-3-Clause
/* What to do next with a running precopy. */
#include "proxy/policy.h"

bool policy_is_converging(const struct policy_input *in)
{
    return in->pass < 2 || !in->rate_bytes_per_second ||
           in->dirty_bytes_per_second < in->rate_bytes_per_second / 4 * 3;
}

static bool wants_postcopy(const struct policy_input *in)
{
    if (in->postcopy_asked) {
        return true;
    }
    if (in->mode == API_MODE_PRECOPY) {
        return false;
    }
    if (in->postcopy_after >= 0) {
        return in->elapsed >= in->postcopy_after;
    }
    if (in->mode == API_MODE_POSTCOPY) {
        return in->pass >= 2;
    }
    return in->pass > POLICY_AUTO_PASSES && !policy_is_converging(in);
}

enum policy_action policy_decide(const struct policy_input *in)
{
    if (in->may_postcopy && wants_postcopy(in)) {
        return POLICY_POSTCOPY;
    }
    if (in->timeout >= 0 && in->elapsed >= in->timeout) {
        switch (in->on_timeout) {
        case API_ON_TIMEOUT_ABORT:
            return POLICY_ABORT;
        case API_ON_TIMEOUT_POSTCOPY:
            return in->may_postcopy ? POLICY_POSTCOPY : POLICY_ABORT;
        case API_ON_TIMEOUT_PAUSE:
            return POLICY_PAUSE;
        }
    }
    return POLICY_NOTHING;
}
