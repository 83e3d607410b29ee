// SPDX-License-Identifier: BSD-3-Clause
/* What a carrier counts of the pages of a postcopy. */
#ifndef PROXY_CARRIER_PAGES_STATS_H
#define PROXY_CARRIER_PAGES_STATS_H

#include <stdbool.h>

#include "proxy/latency.h"
#include "stream/pages.h"

struct carrier_pages_stats {
    bool is_there; /* main is understood; else nothing below is set */
    struct pages_stats pages;
    /* from a request to its page delivered, by where the page was */
    struct latency found, in_flight, fetched;
};

#endif
