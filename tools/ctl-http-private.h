// SPDX-License-Identifier: BSD-3-Clause
/* What ctl-http.c and ctl-stream.c share. */
#ifndef TOOLS_CTL_HTTP_PRIVATE_H
#define TOOLS_CTL_HTTP_PRIVATE_H

#include <curl/curl.h>

#include "tools/ctl-http.h"

struct ctl_http {
    CURL *curl;
    struct curl_slist *headers;
    char *socket_path;
    char *answer; /* bytes of the last one */
    size_t size;
    size_t capacity;
};

/* Everything that an ordinary request needs. */
void ctl_http_set_options(struct ctl_http *http);

/* What went wrong with a transfer. Returns -1. */
int ctl_http_set_curl_error(struct ctl_http *http, CURLcode code,
                            struct error *err);

#endif
