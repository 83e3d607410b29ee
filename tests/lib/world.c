// SPDX-License-Identifier: BSD-3-Clause
/* Two daemons in one process, each with a model of QEMU. */
#include "tests/lib/world.h"

#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qmp/json-value.h"
#include "tests/lib/pki.h"

#define HELD_UP (30 * MP_MS)

static void die(const char *what)
{
    fprintf(stderr, "world: %s\n", what);
    exit(99);
}

static unsigned slowness(void)
{
    const char *preload = getenv("LD_PRELOAD");

    if (preload && strstr(preload, "vgpreload")) {
        return 8;
    }
#ifdef MP_SANITIZERS
    return 2;
#else
    return 1;
#endif
}

/* --- the surroundings --------------------------------------------------- */

void worlds_init(struct worlds *all)
{
    struct error err = ERROR_INIT;

    signal(SIGPIPE, SIG_IGN);
    memset(all, 0, sizeof(*all));
    all->slow = slowness();
    all->pki = pki_new();
    pki_make(all->pki, "", "host-a host-b");
    all->tls[0] = tls_load(pki_path(all->pki, "host-a"), &err);
    all->tls[1] = tls_load(pki_path(all->pki, "host-b"), &err);
    all->control = loop_new("control", &err);
    all->data = loop_new("data", &err);
    if (!all->tls[0] || !all->tls[1] || !all->control || !all->data ||
        loop_start_thread(all->data, &err)) {
        die(err.text);
    }
    if (!getenv("MP_TEST_LOG")) {
        log_set_level(LOG_LEVEL_ERROR);
    } else {
        log_set_level(LOG_LEVEL_DEBUG);
    }
}

void worlds_done(struct worlds *all)
{
    /* what carriers posted last comes over */
    worlds_run_for(all, 50 * MP_MS);
    loop_stop(all->data);
    loop_join_thread(all->data);
    loop_free(all->data);
    loop_free(all->control);
    tls_unref(all->tls[0]);
    tls_unref(all->tls[1]);
    pki_free(all->pki);
}

static void set_cb(void *arg)
{
    *(bool *)arg = true;
}

static bool run_until(struct loop *loop, mp_time time, bool (*done)(void *arg),
                      void *arg)
{
    struct loop_timer deadline;
    bool is_over = false;

    loop_timer_init(&deadline, loop, set_cb, &is_over);
    loop_timer_start(&deadline, time);
    while (!is_over && !(done && done(arg))) {
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
    }
    loop_timer_done(&deadline);
    return done && done(arg);
}

static void seen_cb(void *arg)
{
    struct worlds *all = arg;
    atomic_fetch_add(&all->seen, 1);
}

void worlds_run_for(struct worlds *all, mp_time time)
{
    mp_time before = clock_now(), now;

    run_until(all->control, time, NULL, NULL);
    now = clock_now();
    bool is_late = now - before > time + HELD_UP;
    if (atomic_load(&all->seen) == all->asked) {
        all->asked++;
        all->asked_at = now;
        loop_post(all->data, seen_cb, all);
    } else {
        is_late = is_late || now - all->asked_at > HELD_UP;
    }
    all->held_up += is_late;
}

/* --- records ------------------------------------------------------------ */

json_object *world_record(const struct world_host *host)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/migrations/%s-%s.json", host->state_dir,
             host->is_source ? "source" : "destination", host->world->id);
    return access(path, R_OK) ? NULL : json_object_from_file(path);
}

static bool flag_of(json_object *record, const char *name)
{
    json_object *successor = NULL;
    bool value = false;

    json_value_object(record, "successor", &successor);
    json_value_bool(successor, name, &value);
    return value;
}

bool world_flag(const struct world_host *host, const char *name)
{
    json_object *record = world_record(host);
    bool value = flag_of(record, name);

    json_object_put(record);
    return value;
}

json_object *world_show(const struct world_host *host)
{
    json_object *body = NULL;
    struct error err = ERROR_INIT;

    if (!host->manager ||
        manager_api_ops.show(host->manager, host->world->id, &body, &err)) {
        return NULL;
    }
    return body;
}

const char *world_keep(const char *text)
{
    static char buffers[8][1300];
    static unsigned next;
    char *buffer = buffers[next++ % 8];

    snprintf(buffer, sizeof(buffers[0]), "%s", text);
    return buffer;
}

const char *world_text(const struct world_host *host, const char *member)
{
    json_object *body = world_show(host);
    const char *text = "";

    if (!body) {
        body = world_record(host);
    }
    json_value_text(body, member, &text);
    text = world_keep(text);
    json_object_put(body);
    return text;
}

const char *world_state(const struct world_host *host)
{
    return world_text(host, "state");
}

const char *world_class(const struct world_host *host)
{
    json_object *body = world_show(host), *failure = NULL;
    const char *text = "";

    if (!body) {
        body = world_record(host);
    }
    json_value_object(body, "error", &failure);
    json_value_text(failure, "class", &text);
    text = world_keep(text);
    json_object_put(body);
    return text;
}

const char *world_error(const struct world_host *host)
{
    json_object *body = world_show(host), *failure = NULL;
    const char *state = "", *class = "", *side = "", *message = "";
    char text[600];

    if (!body) {
        body = world_record(host);
    }
    json_value_text(body, "state", &state);
    json_value_object(body, "error", &failure);
    json_value_text(failure, "class", &class);
    json_value_text(failure, "side", &side);
    json_value_text(failure, "message", &message);
    snprintf(text, sizeof(text), "%s: %s on the %s: %.400s", state, class, side,
             message);
    json_object_put(body);
    return world_keep(text);
}

/* A directory in the place of the temporary file: root is stopped too. */
static const char *in_the_way(const struct world_host *host)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/migrations/.%s-%s.json.new",
             host->state_dir, host->is_source ? "source" : "destination",
             host->world->id);
    return world_keep(path);
}

void world_break_store(struct world_host *host)
{
    if (mkdir(in_the_way(host), 0700) && errno != EEXIST) {
        die("breaking a store");
    }
}

void world_mend_store(struct world_host *host)
{
    rmdir(in_the_way(host));
}

/* --- what must never happen --------------------------------------------- */

void world_breach(struct world *w, const char *format, ...)
{
    va_list args;

    if (w->breach[0]) {
        return;
    }
    va_start(args, format);
    vsnprintf(w->breach, sizeof(w->breach), format, args);
    va_end(args);
}

static void check_cont(struct world *w, struct model_qemu *q)
{
    bool committed = world_flag(&w->source, "committed");
    bool started = world_flag(&w->destination, "started");

    if (q == w->destination_qemu) {
        if (!committed) {
            world_breach(w, "cont at the destination without COMMIT on disk");
        }
        if (!started) {
            world_breach(w, "cont at the destination without STARTED on disk");
        }
        if (model_runs(w->source_qemu)) {
            world_breach(w, "cont at the destination, the source runs");
        }
    } else {
        if (committed) {
            world_breach(w, "cont at the source after COMMIT");
        }
        if (started) {
            world_breach(w, "cont at the source after STARTED");
        }
        if (model_ever_ran(w->destination_qemu)) {
            world_breach(w, "cont at the source, the destination has run");
        }
    }
}

static void on_command(void *arg, struct model_qemu *q, const char *command,
                       unsigned nth)
{
    struct world *w = arg;

    if (!strcmp(command, "cont")) {
        check_cont(w, q);
    }
    if (w->params.on_command) {
        w->params.on_command(w, q, command, nth);
    }
}

static void on_done(void *arg, struct model_qemu *q, const char *command)
{
    struct world *w = arg;
    if (w->params.on_done) {
        w->params.on_done(w, q, command);
    }
}

static void on_stage(void *arg, struct model_qemu *q, enum model_stage stage)
{
    struct world *w = arg;
    if (w->params.on_stage) {
        w->params.on_stage(w, q, stage);
    }
}

static void on_run(void *arg, struct model_qemu *q, bool runs)
{
    struct world *w = arg;

    if (w->source_qemu && w->destination_qemu && model_runs(w->source_qemu) &&
        model_runs(w->destination_qemu)) {
        world_breach(w, "the guest runs on both hosts");
    }
    if (runs && q == w->source_qemu && model_ever_ran(w->destination_qemu)) {
        world_breach(w, "the guest runs on the source after it ran on the "
                        "destination");
    }
}

static const struct model_ops model_ops = {.on_command = on_command,
                                           .on_done = on_done,
                                           .on_stage = on_stage,
                                           .on_run = on_run};

/* --- daemons ------------------------------------------------------------ */

static const char *other_name(const struct world_host *host)
{
    return host->is_source ? "host-b" : "host-a";
}

static struct conf *make_conf(const struct world_host *host,
                              const char *other_address)
{
    struct world *w = host->world;
    struct error err = ERROR_INIT;
    char text[1200];
    int n = snprintf(text, sizeof(text),
                     "[daemon]\nname = %s\nrun-dir = %s/run\n"
                     "state-dir = %s\n[listen]\naddress = %s\n"
                     "[tls]\ndir = %s\n[qemu]\nsocket-dirs = %s/q%s\n"
                     "[migration]\nswitchover-buffer = 1MiB\n"
                     "[peer \"%s\"]\naddress = %s\n"
                     "allow = send receive name-paths\n",
                     host->name, w->dir, host->state_dir, host->address,
                     pki_path(w->all->pki, host->name), w->dir, host->name,
                     other_name(host), other_address);
    struct conf *conf = conf_parse_text(text, (size_t)n, host->name, &err);

    if (!conf) {
        die(err.text);
    }
    mp_time second =
        (w->params.slow ? w->params.slow : w->all->slow) * MP_SECOND;
    conf->hold_time = 2 * second;
    conf->switchover_hold = second;
    conf->connect_timeout = second;
    conf->qmp_timeout = second / 2;
    conf->qmp_greeting = second / 2;
    conf->setup_timeout = 3 * second;
    conf->switchover_timeout = 2 * second;
    conf->commit_timeout = 2 * second;
    conf->cancel_timeout = 3 * second / 2;
    return conf;
}

void world_boot(struct world_host *host)
{
    struct worlds *all = host->world->all;
    struct error err = ERROR_INIT;

    host->store = store_open(host->state_dir, &err);
    host->manager = host->store ? manager_new(all->control, all->data,
                                              host->conf, host->store, &err)
                                : NULL;
    host->peers = host->manager
                      ? peers_new(all->control, host->conf,
                                  all->tls[host->is_source ? 0 : 1],
                                  &manager_peers_ops, host->manager, &err)
                      : NULL;
    if (!host->peers) {
        die(err.text);
    }
    manager_set_peers(host->manager, host->peers);
    manager_take_over(host->manager);
}

static void shut_down(struct world_host *host)
{
    manager_free(host->manager);
    peers_free(host->peers);
    store_close(host->store);
    host->manager = NULL;
    host->peers = NULL;
    host->store = NULL;
}

static void shell(const char *format, const char *a, const char *b)
{
    char command[400];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof(command), format, a, b);
#pragma GCC diagnostic pop
    if (system(command)) {
        die(command);
    }
}

/* What an orderly end would still write or say is undone: the connections are
 * cut before, and the records are those from before. */
void world_kill(struct world_host *host)
{
    if (!host->manager) {
        return;
    }
    relay_cut_all(host->world->relay);
    shell("rm -rf %s.kept && cp -a %s/. %1$s.kept", host->state_dir,
          host->state_dir);
    shut_down(host);
    shell("rm -rf %s && mv %1$s.kept %1$s", host->state_dir, "");
}

static void make_dir(const char *format, const char *dir, const char *name)
{
    char path[128];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path, sizeof(path), format, dir, name);
#pragma GCC diagnostic pop
    if (mkdir(path, 0700)) {
        die(path);
    }
}

static void host_init(struct world *w, struct world_host *host, bool is_source,
                      unsigned number)
{
    unsigned pid = (unsigned)getpid();

    host->world = w;
    host->is_source = is_source;
    snprintf(host->name, sizeof(host->name), "host-%s", is_source ? "a" : "b");
    /* all of 127/8 is this host: no two tests and no two worlds meet */
    snprintf(host->address, sizeof(host->address), "127.%u.%u.%u:16515",
             1 + pid % 250, (pid / 250 + number / 240) % 250, 1 + number % 240);
    snprintf(host->state_dir, sizeof(host->state_dir), "%s/s%s", w->dir,
             host->name);
    make_dir("%s/s%s", w->dir, host->name);
    make_dir("%s/q%s", w->dir, host->name);
}

static struct model_qemu *make_qemu(struct world *w, struct world_host *host)
{
    struct model_params params =
        host->is_source ? w->params.source : w->params.destination;
    char path[108];

    snprintf(path, sizeof(path), "%s/q%s/%s.qmp", w->dir, host->name, WORLD_VM);
    params.loop = w->all->control;
    params.path = path;
    params.name = WORLD_VM;
    params.is_source = host->is_source;
    params.setup_time = params.setup_time ? params.setup_time : MP_MS;
    params.pass_time = params.pass_time ? params.pass_time : 20 * MP_MS;
    params.rest_time = params.rest_time ? params.rest_time : 50 * MP_MS;
    params.load_time = params.load_time ? params.load_time : 10 * MP_MS;
    return model_new(&params, &model_ops, w);
}

struct world *world_new(struct worlds *all, const char *name,
                        const struct world_params *params)
{
    struct world *w = calloc(1, sizeof(*w));
    unsigned number = all->made++ * 3;
    char relay_address[32];

    if (!w) {
        die("out of memory");
    }
    w->all = all;
    w->params = *params;
    snprintf(w->name, sizeof(w->name), "%s", name);
    snprintf(w->id, sizeof(w->id), "m-%u", all->made);
    /* fsync() of many worlds at once would be what is waited for */
    snprintf(w->dir, sizeof(w->dir), "%s/migproxy-world-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(w->dir)) {
        die(w->dir);
    }
    host_init(w, &w->source, true, number);
    host_init(w, &w->destination, false, number + 1);
    snprintf(relay_address, sizeof(relay_address), "%s", w->source.address);
    char *last = strrchr(relay_address, '.');
    snprintf(last, sizeof(relay_address) - (size_t)(last - relay_address),
             ".%u:16515", 1 + (number + 2) % 240);
    w->relay = relay_new(all->control, relay_address, w->destination.address);
    w->source.conf = make_conf(&w->source, relay_address);
    w->destination.conf = make_conf(&w->destination, w->source.address);
    w->source_qemu = make_qemu(w, &w->source);
    w->destination_qemu = make_qemu(w, &w->destination);
    world_boot(&w->source);
    world_boot(&w->destination);
    if (w->params.set_up) {
        w->params.set_up(w);
    }
    return w;
}

static int remove_cb(const char *path, const struct stat *st, int type,
                     struct FTW *at)
{
    return remove(path);
}

void world_free(struct world *w)
{
    if (!w) {
        return;
    }
    if (w->source.manager) {
        shut_down(&w->source);
    }
    if (w->destination.manager) {
        shut_down(&w->destination);
    }
    model_free(w->source_qemu);
    model_free(w->destination_qemu);
    relay_free(w->relay);
    /* the carriers' ends are posted calls */
    worlds_run_for(w->all, 5 * MP_MS);
    conf_free(w->source.conf);
    conf_free(w->destination.conf);
    nftw(w->dir, remove_cb, 8, FTW_DEPTH | FTW_PHYS);
    free(w);
}

/* --- the migration ------------------------------------------------------ */

bool world_start(struct world *w, struct error *err)
{
    struct api_migrate request = {
        .vm = WORLD_VM,
        .peer = "host-b",
        .mode = w->params.mode,
        .multifd = w->params.multifd,
        .postcopy_after_seconds = w->params.mode == API_MODE_POSTCOPY ? 0 : -1,
        .bandwidth_bytes_per_second = PARSE_UNLIMITED,
        .max_downtime_ms = API_DOWNTIME_MS_DEFAULT,
        .timeout_seconds =
            w->params.timeout_seconds > 0 ? w->params.timeout_seconds : -1,
        .on_timeout = w->params.on_timeout,
    };
    json_object *body = NULL;
    bool created = false;

    w->began = clock_now();
    snprintf(request.id, sizeof(request.id), "%s", w->id);
    if (manager_api_ops.migrate(w->source.manager, &request, &body, &created,
                                err)) {
        return false;
    }
    json_object_put(body);
    return created;
}

bool world_is_over(struct world *w)
{
    bool is_over =
        (!w->source.manager || !manager_count(w->source.manager)) &&
        (!w->destination.manager || !manager_count(w->destination.manager));

    if (is_over && !w->over_at) {
        w->over_at = clock_now();
    }
    return is_over;
}

static bool over_cb(void *arg)
{
    return world_is_over(arg);
}

bool world_run(struct world *w, double seconds)
{
    return run_until(w->all->control, (mp_time)(seconds * (double)MP_SECOND),
                     over_cb, w);
}

struct many {
    struct world **worlds;
    size_t count;
};

static bool all_over_cb(void *arg)
{
    struct many *many = arg;
    bool are_over = true;

    for (size_t i = 0; i < many->count; i++) {
        are_over = world_is_over(many->worlds[i]) && are_over;
    }
    return are_over;
}

bool worlds_run(struct worlds *all, struct world **worlds, size_t count,
                double seconds)
{
    struct many many = {worlds, count};
    return run_until(all->control, (mp_time)(seconds * (double)MP_SECOND),
                     all_over_cb, &many);
}

struct waiting {
    struct world *w;
    bool (*done)(struct world *w);
};

static bool wait_cb(void *arg)
{
    struct waiting *waiting = arg;
    return waiting->done(waiting->w);
}

bool world_wait(struct world *w, bool (*done)(struct world *w))
{
    struct waiting waiting = {w, done};
    return run_until(w->all->control, 20 * MP_SECOND, wait_cb, &waiting);
}
