// SPDX-License-Identifier: BSD-3-Clause
/* The daemon: everything put together, in order, and taken apart again. */
#include "proxy/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "proxy/api.h"
#include "proxy/conf-check.h"
#include "proxy/manager.h"
#include "proxy/peer.h"
#include "proxy/store.h"
#include "transport/tls.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/sd.h"

struct daemon {
    struct conf *conf;
    struct conf **old_confs; /* of before reloads, see reload() */
    size_t old_count;
    const char *config_path;
    bool fixed_log_level; /* the command line has said it */
    struct loop *control;
    struct loop *data;
    struct store *store;
    struct tls *tls;
    struct manager *manager;
    struct peers *peers;
    struct api *api;
    struct event *signals[3];
    struct loop_timer drain;
    bool ending;
};

static int make_run_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0755) && errno != EEXIST) {
        return error_set_errno(err, ERR_CONFIG, errno, "making %s", path);
    }
    return 0;
}

/* Migrations under way still look at the configuration they began with. */
static void free_old_confs(struct daemon *daemon)
{
    while (daemon->old_count) {
        conf_free(daemon->old_confs[--daemon->old_count]);
    }
}

static int keep_room(struct daemon *daemon, struct error *err)
{
    struct conf **confs =
        realloc(daemon->old_confs, (daemon->old_count + 1) * sizeof(*confs));
    if (!confs) {
        return error_set(err, ERR_NO_MEMORY, "out of memory");
    }
    daemon->old_confs = confs;
    return 0;
}

/* What would refuse each guest is said before one is to be moved. It can be
 * put right without a restart, so it is no failure. */
static void warn_cb(const char *text)
{
    log_warning("%s", text);
}

/* New certificates, peers and limits; what cannot be changed while running is
 * named and stays. */
static void reload(struct daemon *daemon)
{
    struct error err = ERROR_INIT;
    char names[256];
    struct conf *conf = conf_load(daemon->config_path, &err);
    struct tls *tls = conf && !conf_check_reload(conf, &err)
                          ? conf_check_tls(conf, &err)
                          : NULL;

    size_t count =
        conf ? conf_needs_restart(daemon->conf, conf, names, sizeof(names)) : 0;

    if (conf && tls &&
        (keep_room(daemon, &err) ||
         conf_keep_started(conf, daemon->conf, &err))) {
        tls_unref(tls);
        tls = NULL;
    }
    if (!conf || !tls) {
        log_error("reload: %s; everything stays as it was", err.text);
        conf_free(conf);
        return;
    }
    if (count) {
        log_warning("reload: %s need%s a restart: until then what the daemon "
                    "was started with stays in force",
                    names, count == 1 ? "s" : "");
    }
    if (!daemon->fixed_log_level) {
        log_set_level((enum log_level)conf->log_level);
    }
    peers_reload(daemon->peers, conf, tls);
    manager_set_conf(daemon->manager, conf);
    tls_unref(daemon->tls);
    daemon->tls = tls;
    daemon->old_confs[daemon->old_count++] = daemon->conf;
    daemon->conf = conf;
    if (!manager_count(daemon->manager)) {
        free_old_confs(daemon);
    }
    log_info("reloaded %s", daemon->config_path);
    conf_check_warn(conf, warn_cb);
}

static void idle_cb(void *arg)
{
    struct daemon *daemon = arg;
    loop_stop(daemon->control);
}

/* What follows "migration". */
static const char *is_or_are(const struct daemon *daemon)
{
    return manager_count(daemon->manager) == 1 ? " is" : "s are";
}

static void drain_cb(void *arg)
{
    struct daemon *daemon = arg;
    log_warning("%u migration%s still under way: what can be undone is "
                "cancelled, the rest is waited for",
                manager_count(daemon->manager), is_or_are(daemon));
    manager_cancel_all(daemon->manager);
}

static void end_cb(evutil_socket_t signal, short what, void *arg)
{
    struct daemon *daemon = arg;

    if (daemon->ending) {
        log_warning("ending at once, what is under way (migrations: %u) is "
                    "left to its records",
                    manager_count(daemon->manager));
        loop_stop(daemon->control);
        return;
    }
    daemon->ending = true;
    sd_notify("STOPPING=1");
    log_info("ending: nothing new begins, %u migration%s under way",
             manager_count(daemon->manager), is_or_are(daemon));
    loop_timer_start(&daemon->drain, daemon->conf->cancel_timeout);
    manager_drain(daemon->manager, idle_cb, daemon);
}

static void reload_cb(evutil_socket_t signal, short what, void *arg)
{
    reload(arg);
}

static int add_signals(struct daemon *daemon, struct error *err)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};

    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        daemon->signals[i] =
            evsignal_new(loop_base(daemon->control), numbers[i],
                         numbers[i] == SIGHUP ? reload_cb : end_cb, daemon);
        if (!daemon->signals[i] || event_add(daemon->signals[i], NULL)) {
            return error_set(err, ERR_INTERNAL, "signals cannot be set up");
        }
    }
    return 0;
}

/* The order: what can refuse to start comes before what others can see. */
static int start(struct daemon *daemon, struct error *err)
{
    const struct conf *conf = daemon->conf;
    struct api_params api = {.socket_path = conf->api_socket,
                             .socket_mode = conf->api_mode,
                             .socket_group = conf->api_group};

    daemon->tls = conf_check_tls(conf, err);
    if (!daemon->tls || conf_check_start(conf, err)) {
        return -1;
    }
    if (make_run_dir(conf->run_dir, err)) {
        return conf_wrap(conf, "daemon", "run-dir", err);
    }
    daemon->store = store_open(conf->state_dir, err);
    if (!daemon->store) {
        if (err->code == ERR_IO) {
            err->code = ERR_CONFIG; /* another directory would do */
        }
        return conf_wrap(conf, "daemon", "state-dir", err);
    }
    daemon->control = loop_new("control", err);
    daemon->data = daemon->control ? loop_new_busy("data", err) : NULL;
    if (!daemon->data || add_signals(daemon, err)) {
        return -1;
    }
    loop_timer_init(&daemon->drain, daemon->control, drain_cb, daemon);
    daemon->manager =
        manager_new(daemon->control, daemon->data, conf, daemon->store, err);
    if (!daemon->manager) {
        return -1;
    }
    daemon->peers = peers_new(daemon->control, conf, daemon->tls,
                              &manager_peers_ops, daemon->manager, err);
    if (!daemon->peers) {
        return -1;
    }
    manager_set_peers(daemon->manager, daemon->peers);
    if (loop_start_thread(daemon->data, err)) {
        return -1;
    }
    api.loop = daemon->control;
    daemon->api = api_new(&api, &manager_api_ops, daemon->manager, err);
    if (!daemon->api) {
        return conf_wrap(conf, "api", "socket", err);
    }
    manager_set_api(daemon->manager, daemon->api);
    manager_take_over(daemon->manager);
    return 0;
}

static void stop(struct daemon *daemon)
{
    if (daemon->manager) {
        manager_set_api(daemon->manager, NULL);
    }
    api_free(daemon->api);
    manager_free(daemon->manager);
    peers_free(daemon->peers);
    if (daemon->data) {
        loop_stop(daemon->data);
        loop_join_thread(daemon->data);
        loop_free(daemon->data);
    }
    for (int i = 0; i < 3; i++) {
        if (daemon->signals[i]) {
            event_free(daemon->signals[i]);
        }
    }
    loop_timer_done(&daemon->drain);
    loop_free(daemon->control);
    store_close(daemon->store);
    tls_unref(daemon->tls);
    conf_free(daemon->conf);
    free_old_confs(daemon);
    free(daemon->old_confs);
}

int daemon_run(struct conf *conf, const char *config_path, bool fixed_log_level,
               struct error *err)
{
    struct daemon daemon = {.conf = conf,
                            .config_path = config_path,
                            .fixed_log_level = fixed_log_level};

    if (start(&daemon, err)) {
        stop(&daemon);
        return -1;
    }
    log_info("migproxy %s on %s is ready, api %s", PACKAGE_VERSION, conf->name,
             conf->api_socket);
    conf_check_warn(conf, warn_cb);
    sd_notify("READY=1");
    loop_run(daemon.control);
    log_info("ended");
    stop(&daemon);
    return 0;
}
