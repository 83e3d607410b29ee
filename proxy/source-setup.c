// SPDX-License-Identifier: BSD-3-Clause
/* The source's end: preparing, connecting, setup. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proxy/source-private.h"
#include "qmp/json-value.h"
#include "util/path.h"

#define PING_INTERVAL (200 * MP_MS)
#define LISTEN_BACKLOG 128
/* With preempt QEMU answers each request with a whole host page: one of this
 * size would be all that is sent for seconds. */
#define PREEMPT_PAGE_MOST (UINT64_C(1) << 30)
/* Host pages that the pool should hold: the one on its way and a requested one.
 */
#define SMALL_PAGES_IN_POOL 2

static void on_facts(void *arg, struct facts *facts, const struct error *err);

/* QMP ------------------------------------------------------------------- */

static void qmp_ready(void *arg)
{
    struct source *s = arg;

    if (!migration_is_same_qemu(&s->m, s->monitor.qmp)) {
        monitor_close(&s->monitor);
        if (s->m.state == MIGRATION_CANCELLING) {
            source_undo_status(s);
        } else if (s->doubting) {
            source_attention(s); /* nobody is left to be asked */
        }
        return;
    }
    if (s->m.state == MIGRATION_PREPARING) {
        facts_gather(s->monitor.qmp, source_qmp_timeout(s), on_facts, s);
    } else if (s->m.state == MIGRATION_CANCELLING) {
        source_undo_status(s); /* taken over */
    } else if (s->doubting && s->m.state == MIGRATION_SWITCHOVER) {
        s->doubt_began = loop_now(s->m.env->control);
        source_ask_doubt(s); /* likewise */
    }
}

static void qmp_closed(void *arg, const struct error *err)
{
    struct source *s = arg;
    struct error why = *err;

    monitor_close(&s->monitor);
    error_wrap(&why, "source QEMU (%s)", s->m.qmp_path);
    if (s->m.state == MIGRATION_PREPARING) {
        error_wrap(&why, "before anything of the guest was given away");
    }
    if (s->m.state == MIGRATION_CANCELLING) {
        migration_note_failure(&s->m, MIGRATION_SOURCE, &why);
        source_undo_status(s);
        return;
    }
    if (s->source_completed) {
        return; /* it may go now */
    }
    source_fail(s, MIGRATION_SOURCE, &why);
}

const struct qmp_ops source_qmp_ops = {
    .on_ready = qmp_ready,
    .on_event = source_on_event,
    .on_closed = qmp_closed,
};

int source_prepare(struct source *s, struct error *err)
{
    struct migration *m = &s->m;
    json_object *record = migration_to_record(m);
    int rc =
        store_save(m->env->store, MIGRATION_SOURCE, m->request.id, record, err);

    json_object_put(record);
    if (rc) {
        return -1;
    }
    source_deadline(s, "preparing", m->env->conf->setup_timeout);
    if (monitor_open(&s->monitor, m->env->control, m->env->conf, m->qmp_path,
                     &source_qmp_ops, s, err)) {
        store_remove(m->env->store, MIGRATION_SOURCE, m->request.id);
        return error_wrap(err, "source QEMU");
    }
    return 0;
}

/* Why a QEMU in this run state cannot give its guest away, if that is known;
 * it then does not hold the guest at all. */
static const char *why_not_here(const char *status)
{
    if (!strcmp(status, "postmigrate")) {
        return " (a migration took the guest from this QEMU before)";
    }
    if (!strcmp(status, "inmigrate")) {
        return " (this QEMU waits for the guest, -incoming)";
    }
    return NULL;
}

static int check_guest(struct source *s, struct error *err)
{
    static const char *const movable[] = {"running",  "paused",   "suspended",
                                          "io-error", "watchdog", "shutdown"};
    const struct facts *facts = &s->facts;
    const char *vm = s->m.request.vm;
    bool ok = false;

    if (strcmp(facts->name, vm)) {
        return error_set(err, ERR_MISMATCH,
                         "the monitor %s belongs to guest \"%s\", not \"%s\"",
                         s->m.qmp_path, facts->name, vm);
    }
    for (size_t i = 0; i < sizeof(movable) / sizeof(movable[0]); i++) {
        ok = ok || !strcmp(facts->status.text, movable[i]);
    }
    /* Its disks were left inactive until it runs (late-block-activate), and
     * QEMU before 10.0 ends with a failed assertion when it is to switch
     * them off again (block.c, bdrv_inactivate_recurse; seen with 7.2). Nothing
     * tells that fix from outside, so the later multifd with postcopy (10.1)
     * stands for it. */
    const char *before = s->m.env->arrived_stopped(s->m.env->arg, &s->m);
    if (!facts->status.running && before &&
        !facts->probe.can[QMP_CAN_MULTIFD_POSTCOPY]) {
        return error_set(err, ERR_GUEST_STATE,
                         "guest %s arrived stopped (migration %s) and is "
                         "stopped: QEMU %s would end if it was moved before it "
                         "has run here; resume it for a moment first",
                         vm, before, facts->version);
    }
    if (!ok) {
        const char *why = why_not_here(facts->status.text);
        if (why) {
            s->m.guest_is_on = "unknown";
        }
        return error_set(err, ERR_GUEST_STATE,
                         "guest %s is %s%s; it can be moved when it is "
                         "running, paused, suspended, shutdown or stopped by "
                         "an error",
                         vm, facts->status.text, why ? why : "");
    }
    if (facts->migrate.status != QMP_MIGRATE_NONE &&
        !qmp_migrate_status_is_final(facts->migrate.status)) {
        return error_set(err, ERR_GUEST_STATE,
                         "guest %s is being migrated by someone else (%s)", vm,
                         facts->migrate.status_text);
    }
    return 0;
}

static uint64_t largest_page_bytes(const struct facts *facts)
{
    uint64_t most = 0;

    for (size_t i = 0; i < facts->block_count; i++) {
        uint64_t bytes = facts->blocks[i].page_size_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Decides on postcopy and preempt as far as this end knows. */
static int choose_kind(struct source *s, struct error *err)
{
    struct migration *m = &s->m;
    const struct api_migrate *request = &m->request;
    const bool *can = s->facts.probe.can;

    m->may_postcopy = request->mode != API_MODE_PRECOPY ||
                      request->on_timeout == API_ON_TIMEOUT_POSTCOPY;
    if (request->mode == API_MODE_AUTO && request->multifd &&
        request->on_timeout != API_ON_TIMEOUT_POSTCOPY &&
        !can[QMP_CAN_MULTIFD_POSTCOPY]) {
        m->may_postcopy = false;
    }
    if (m->may_postcopy && request->multifd && !can[QMP_CAN_MULTIFD_POSTCOPY]) {
        return error_set(err, ERR_UNSUPPORTED,
                         "\"multifd_channels\" %u does not go with %s: QEMU "
                         "%s cannot do multifd and postcopy at once (10.1 "
                         "can); leave one of them out",
                         request->multifd,
                         request->on_timeout == API_ON_TIMEOUT_POSTCOPY
                             ? "\"on_timeout\" postcopy"
                             : "\"mode\" postcopy",
                         s->facts.version);
    }
    m->preempt = m->may_postcopy &&
                 (request->preempt == API_PREEMPT_ON ||
                  (request->preempt == API_PREEMPT_AUTO &&
                   can[QMP_CAN_PREEMPT] && can[QMP_CAN_PREEMPT_WHILE_BLOCKED]));
    if (request->preempt == API_PREEMPT_ON && !m->may_postcopy) {
        return error_set(err, ERR_BAD_REQUEST,
                         "preempt on needs mode postcopy or auto");
    }
    if (m->preempt && largest_page_bytes(&s->facts) >= PREEMPT_PAGE_MOST) {
        migration_log(m, LOG_LEVEL_WARNING,
                      "preempt is off: QEMU would send a page of %" PRIu64
                      " MiB for each request",
                      largest_page_bytes(&s->facts) >> 20);
        m->preempt = false;
    }
    return 0;
}

/* The destination -------------------------------------------------------- */

json_object *source_params(struct source *s)
{
    json_object *params = json_object_new_object();
    json_object_object_add(params, "migration",
                           json_object_new_string(s->m.request.id));
    return params;
}

void source_call(struct source *s, const char *method, json_object *params,
                 mp_time timeout, peer_cb cb)
{
    peers_call(s->m.env->peers, s->m.request.peer, method, params, timeout, s,
               cb, s);
}

static void on_lane_hello(void *arg, const struct hello *theirs,
                          const struct tls_names *names)
{
    struct source_dial *dial = arg;
    struct lane *lane = dial->lane;

    dial->lane = NULL;
    lane_detach(lane);
    carrier_add_lane(dial->source->m.carrier, lane);
}

static void on_lane_closed(void *arg, const struct error *err)
{
    struct source_dial *dial = arg;
    struct source *s = dial->source;
    struct error why = *err;

    dial->lane = NULL;
    error_wrap(&why, "lane to peer %s", s->m.request.peer);
    source_fail(s, MIGRATION_SOURCE, &why);
}

static const struct lane_ops dial_ops = {
    .on_hello = on_lane_hello,
    .on_closed = on_lane_closed,
};

void source_drop_lanes(struct source *s)
{
    for (int i = 0; i < 2; i++) {
        lane_close(s->dials[i].lane);
        s->dials[i].lane = NULL;
    }
}

static void on_caps(void *arg, const struct error *err);
static void on_listen(void *arg, json_object *result, const struct error *err);

static void carrier_ready(void *arg)
{
    struct source *s = arg;

    if (s->m.state == MIGRATION_CONNECTING) {
        source_call(s, "migration.listen", source_params(s),
                    s->m.env->conf->setup_timeout, on_listen);
    }
}

static void carrier_channel(void *arg, uint16_t channel, enum wire_class class)
{
}

static json_object *section_to_json(const struct stream_head_section *section)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "name",
                           json_object_new_string(section->name));
    json_object_object_add(object, "id", json_object_new_uint64(section->id));
    json_object_object_add(object, "instance",
                           json_object_new_uint64(section->instance));
    json_object_object_add(object, "version",
                           json_object_new_uint64(section->version));
    return object;
}

/* The ids by which the main stream names its sections: a later connection of
 * the same migration (recovery) uses them without saying them again. */
static void carrier_head(void *arg, const struct stream_head *head)
{
    struct source *s = arg;
    json_object *array = json_object_new_array();

    for (size_t i = 0; i < head->others_count; i++) {
        json_object_array_add(array, section_to_json(&head->others[i]));
    }
    if (head->ram.name[0]) {
        json_object_array_add(array, section_to_json(&head->ram));
    }
    json_object_put(s->m.sections);
    s->m.sections = array;
    if (!migration_state_is_end(s->m.state)) {
        migration_save(&s->m);
    }
}

static void carrier_broken(void *arg, const struct error *err)
{
    struct source *s = arg;

    s->path_dead = true;
    if (!s->source_completed) {
        source_fail_softly(s, err);
    }
}

static void carrier_finished(void *arg)
{
    struct source *s = arg;
    migration_log(&s->m, LOG_LEVEL_DEBUG, "every byte is delivered");
}

static const struct carrier_ops carrier_ops = {
    .on_ready = carrier_ready,
    .on_path = source_on_path,
    .on_channel = carrier_channel,
    .on_head = carrier_head,
    .on_broken = carrier_broken,
    .on_finished = carrier_finished,
};

static int dial_lanes(struct source *s, struct error *err)
{
    struct migration *m = &s->m;
    const struct conf *conf = m->env->conf;
    uint64_t cap = conf->bandwidth_bytes_per_second;
    struct carrier_params params = {
        .control = m->env->control,
        .data = m->env->data,
        .context = m->context,
        .source = true,
        .preempt = m->preempt,
        .multifd = m->request.multifd,
        .switchover_buffer_bytes = conf->switchover_buffer_bytes,
        .pool_bytes = m->may_postcopy ? m->env->pool_share(m->env->arg) : 0,
        .small_pages = s->small_pages,
        .ping_interval = PING_INTERVAL,
        .bandwidth_bytes_per_second = cap,
    };

    if (m->bandwidth_bytes_per_second < cap) {
        params.bandwidth_bytes_per_second = m->bandwidth_bytes_per_second;
    }
    m->pool_bytes = params.pool_bytes;
    m->carrier = carrier_new(&params, &carrier_ops, s, err);
    if (!m->carrier) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        s->dials[i].source = s;
        s->dials[i].lane =
            peers_dial_lane(m->env->peers, m->request.peer,
                            i ? WIRE_LANE_BULK : WIRE_LANE_EXPRESS, s->token,
                            &dial_ops, &s->dials[i], err);
        if (!s->dials[i].lane) {
            return -1;
        }
    }
    return 0;
}

static bool take_token(struct source *s, json_object *result)
{
    const char *text;

    if (!json_value_text(result, "token", &text) ||
        strlen(text) != 2 * HELLO_TOKEN_BYTES) {
        return false;
    }
    for (size_t i = 0; i < HELLO_TOKEN_BYTES; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        s->token[i] = (uint8_t)byte;
    }
    return true;
}

/* The block table with the page sizes of both ends, for the record. */
static void keep_blocks(struct source *s, const struct facts *there)
{
    json_object_put(s->m.blocks);
    s->m.blocks = facts_blocks_to_json(&s->facts);
    for (size_t i = 0; i < json_object_array_length(s->m.blocks); i++) {
        json_object *block = json_object_array_get_idx(s->m.blocks, i);
        const char *name = s->facts.blocks[i].name;
        for (size_t k = 0; k < there->block_count; k++) {
            if (!strcmp(there->blocks[k].name, name)) {
                json_object_object_add(
                    block, "destination_page_size_bytes",
                    json_object_new_uint64(there->blocks[k].page_size_bytes));
            }
        }
    }
}

/* Huge pages here, ordinary memory there. */
static int check_small_pages(struct source *s, struct error *err)
{
    uint64_t page_bytes = largest_page_bytes(&s->facts);
    uint64_t pool_bytes = s->m.env->pool_share(s->m.env->arg);

    s->m.small_pages = s->small_pages != NULL;
    if (!s->small_pages) {
        return 0;
    }
    if (s->m.request.multifd) {
        return error_set(err, ERR_MISMATCH,
                         "the source has RAM in pages of %" PRIu64
                         " bytes and the destination in smaller ones: multifd "
                         "cannot be had with that (leave it out, or use mode "
                         "precopy)",
                         page_bytes);
    }
    migration_log(&s->m, LOG_LEVEL_INFO,
                  "the source has RAM in pages of %" PRIu64
                  " KiB, the destination has ordinary memory: it is "
                  "postcopied in pages of 4 KiB",
                  page_bytes >> 10);
    s->m.is_unrecoverable =
        s->m.preempt && s->facts.probe.can[QMP_CAN_PREEMPT_WHILE_BLOCKED];
    if (s->m.is_unrecoverable) {
        migration_log(&s->m, LOG_LEVEL_WARNING,
                      "preempt is on with pages of two sizes: if the path "
                      "breaks in postcopy the guest is lost, as this QEMU "
                      "aborts when it is recovered (preempt off does not)");
    }
    if (pool_bytes < SMALL_PAGES_IN_POOL * page_bytes) {
        migration_log(&s->m, LOG_LEVEL_WARNING,
                      "[limits] pool lets this migration hold %" PRIu64
                      " MiB of pages: less than %d pages of %" PRIu64
                      " MiB, so faults may wait for whole ones",
                      pool_bytes >> 20, SMALL_PAGES_IN_POOL, page_bytes >> 20);
    }
    return 0;
}

static void on_prepared(void *arg, json_object *result, const struct error *err)
{
    struct source *s = arg;
    struct error why = ERROR_INIT;
    struct facts there = {0};
    json_object *json;

    if (err) {
        error_copy(&why, err);
        /* unless it is not known what the other end did */
        s->prepared_there =
            err->code == ERR_TIMEOUT || err->code == ERR_LINK_LOST;
        bool link = err->code == ERR_PEER_UNREACHABLE ||
                    err->code == ERR_PEER_UNKNOWN || err->code == ERR_TLS ||
                    err->code == ERR_TIMEOUT || err->code == ERR_LINK_LOST;
        source_fail(s, link ? MIGRATION_SOURCE : MIGRATION_DESTINATION, &why);
        return;
    }
    json_value_bool(result, "preempt", &s->m.preempt);
    migration_take_peer_qmp(&s->m, result, "destination_qmp");
    if (!take_token(s, result) || !json_value_object(result, "facts", &json) ||
        facts_from_json(json, &there, &why)) {
        error_wrap(&why,
                   "migration.prepare: the answer of peer %s is not complete",
                   s->m.request.peer);
        why.code = ERR_PROTOCOL;
        source_fail(s, MIGRATION_DESTINATION, &why);
        return;
    }
    if (facts_compare(&s->facts, &there, s->m.may_postcopy, &s->small_pages,
                      &why) ||
        check_small_pages(s, &why)) {
        facts_done(&there);
        source_fail(s, MIGRATION_SOURCE, &why);
        return;
    }
    keep_blocks(s, &there);
    migration_set_socket(&s->m, s->token);
    facts_done(&there);
    migration_set_state(&s->m, MIGRATION_CONNECTING);
    source_deadline(s, "connecting", s->m.env->conf->setup_timeout);
    source_await(s);
    if (dial_lanes(s, &why)) {
        source_fail(s, MIGRATION_SOURCE, &why);
    }
}

static void on_facts(void *arg, struct facts *facts, const struct error *err)
{
    struct source *s = arg;
    struct migration *m = &s->m;
    struct error why = ERROR_INIT;

    if (err) {
        if (err->code != ERR_CANCELLED && err->code != ERR_QEMU_GONE) {
            why = *err;
            error_wrap(&why, "source QEMU");
            source_fail(s, MIGRATION_SOURCE, &why);
        }
        return;
    }
    if (m->state != MIGRATION_PREPARING) {
        facts_done(facts);
        return;
    }
    s->facts = *facts;
    m->caps = s->facts.caps;
    s->facts.caps = NULL;
    m->should_run = s->facts.status.running;
    json_value_copy_text(m->run_state, sizeof(m->run_state),
                         s->facts.status.text);
    json_value_copy_text(m->uuid, sizeof(m->uuid), s->facts.uuid);
    json_value_copy_text(m->qemu_version, sizeof(m->qemu_version),
                         s->facts.version);
    if (check_guest(s, &why) || choose_kind(s, &why)) {
        source_fail(s, MIGRATION_SOURCE, &why);
        return;
    }
    json_object *params = source_params(s);
    json_object_object_add(params, "vm", json_object_new_string(m->request.vm));
    json_object_object_add(params, "source_qmp",
                           json_object_new_string(m->qmp_path));
    if (m->request.dest_qmp_path[0]) {
        json_object_object_add(
            params, "qmp", json_object_new_string(m->request.dest_qmp_path));
    }
    json_object_object_add(
        params, "mode", json_object_new_string(api_mode_name(m->request.mode)));
    json_object_object_add(params, "postcopy",
                           json_object_new_boolean(m->may_postcopy));
    json_object_object_add(params, "preempt",
                           json_object_new_boolean(m->preempt));
    json_object_object_add(
        params, "preempt_needed",
        json_object_new_boolean(m->request.preempt == API_PREEMPT_ON));
    json_object_object_add(params, "multifd_channels",
                           json_object_new_int((int)m->request.multifd));
    json_object_object_add(params, "facts", facts_to_json(&s->facts));
    json_object_object_add(params, "source_host",
                           json_object_new_string(migration_source_host(m)));
    json_object_object_add(
        params, "destination_host",
        json_object_new_string(migration_destination_host(m)));
    s->prepared_there = true;
    source_call(s, "migration.prepare", params, m->env->conf->setup_timeout,
                on_prepared);
}

/* Setup ------------------------------------------------------------------ */

static void on_listen(void *arg, json_object *result, const struct error *err)
{
    struct source *s = arg;
    struct migration *m = &s->m;
    struct qmp_caps_wish wish = {
        .role = QMP_ROLE_SOURCE,
        .postcopy = m->may_postcopy,
        .preempt = m->preempt,
        .pause_before_switchover = true,
        .multifd_channels = m->request.multifd,
        /* the cap is the carrier's: QEMU's would delay what is urgent */
        .max_bandwidth_bytes_per_second = UINT64_MAX,
        .max_downtime_ms = m->max_downtime_ms,
    };

    if (m->state != MIGRATION_CONNECTING) {
        return;
    }
    if (err) {
        source_fail(s, MIGRATION_DESTINATION, err);
        return;
    }
    m->caps_changed = true;
    migration_set_state(m, MIGRATION_SETUP);
    source_deadline(s, "setup", m->env->conf->setup_timeout);
    qmp_caps_apply(s->monitor.qmp, m->caps, &s->facts.probe, &wish,
                   source_qmp_timeout(s), on_caps, s);
}

static void on_migrate(void *arg, const struct error *err)
{
    struct source *s = arg;
    struct error why;

    if (!err || err->code == ERR_CANCELLED || err->code == ERR_TIMEOUT) {
        return; /* what follows comes by events, under the setup deadline */
    }
    why = *err;
    error_wrap(&why, "source QEMU");
    source_fail(s, MIGRATION_SOURCE, &why);
}

static void on_caps(void *arg, const struct error *err)
{
    struct source *s = arg;
    struct migration *m = &s->m;
    const struct conf *conf = m->env->conf;
    struct error why = ERROR_INIT;
    char uri[PATH_SOCKET_MAX + 8];

    if (m->state != MIGRATION_SETUP || (err && err->code == ERR_CANCELLED)) {
        return;
    }
    if (err) {
        why = *err;
        error_wrap(&why, "source QEMU");
        source_fail(s, MIGRATION_SOURCE, &why);
        return;
    }
    int fd = path_listen_socket(
        m->socket_path, conf->socket_group == CONF_NO_GROUP ? 0600 : 0660,
        conf->socket_group, LISTEN_BACKLOG, &why);
    if (fd < 0) {
        error_wrap(&why, "socket for the source QEMU");
        source_fail(s, MIGRATION_SOURCE, &why);
        return;
    }
    carrier_listen(m->carrier, fd, m->socket_path, m->qemu_pid);
    snprintf(uri, sizeof(uri), "unix:%s", m->socket_path);
    s->migrate_sent = true;
    qmp_migrate_start(s->monitor.qmp, uri, false, source_qmp_timeout(s),
                      on_migrate, s);
    loop_timer_start(&s->poll, SOURCE_POLL);
}
