// SPDX-License-Identifier: BSD-3-Clause
/* Whether this host is as its configuration says: what reading the file cannot
 * find out. migproxy --check-config, the start and a reload ask the same, so
 * that what one refuses the others do. Each text names file, line (or
 * "default") and option. */
#ifndef PROXY_CONF_CHECK_H
#define PROXY_CONF_CHECK_H

#include "conf/conf.h"

struct tls;

/* The certificates of [tls] dir, see tls_load(); NULL and *err on failure. */
struct tls *conf_check_tls(const struct conf *conf, struct error *err);

/* What would make a start fail: directories that cannot be made, the place of
 * the API's socket, a group that this user cannot give it to. Addresses to
 * listen on: that are not this host's (names are looked up, which may block);
 * those in use pass. Makes and changes nothing. ERR_CONFIG. */
int conf_check_start(const struct conf *conf, struct error *err);

/* What can change at a reload: the congestion control, the group of QEMU's
 * sockets. ERR_CONFIG. */
int conf_check_reload(const struct conf *conf, struct error *err);

/* What would refuse migrations, but can be put right while the daemon runs, or
 * looks like a mistake: a peer that is this host, certificates that others may
 * replace, keys of others. cb is called with a text for each. */
typedef void (*conf_check_cb)(const char *text);
void conf_check_warn(const struct conf *conf, conf_check_cb cb);

/* Addresses of peers that cannot be looked up, as above. Blocks as long as the
 * resolver does, for CONF_CHECK_RESOLVE_TIME and one more. */
#define CONF_CHECK_RESOLVE_TIME (10 * MP_SECOND)
void conf_check_warn_peers(const struct conf *conf, conf_check_cb cb);

#endif
