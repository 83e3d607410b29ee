// SPDX-License-Identifier: BSD-3-Clause
/* The destination's end: prepare, lanes, listen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proxy/destination-private.h"
#include "qmp/json-value.h"

#define PING_INTERVAL (200 * MP_MS)

static void on_facts(void *arg, struct facts *facts, const struct error *err);

static void qmp_ready(void *arg)
{
    struct destination *d = arg;
    struct error err = ERROR_INIT;

    if (!migration_is_same_qemu(&d->m, d->monitor.qmp)) {
        monitor_close(&d->monitor);
        error_set(&err, ERR_QEMU_GONE,
                  "the QEMU of the migration is gone from %s", d->m.qmp_path);
        if (d->m.started) {
            destination_qemu_unknown(d, &err);
        } else {
            destination_undo(d, false);
        }
        return;
    }
    if (d->m.state == MIGRATION_PREPARING) {
        facts_gather(d->monitor.qmp, destination_qmp_timeout(d), on_facts, d);
    } else {
        destination_resume_again(d); /* taken over */
    }
}

/* QEMU has ended after it was told to run the guest. One that has all of the
 * guest and was ended by the guest's own shutdown has done its work. */
static void guest_gone(struct destination *d, const struct error *err)
{
    if (migration_state_is_end(d->m.state)) {
        return;
    }
    if (d->shutdown_seen && (d->completed || !d->m.postcopy)) {
        migration_log(&d->m, LOG_LEVEL_WARNING,
                      "the guest has shut down or rebooted and its QEMU has "
                      "ended, right after the migration");
        destination_guest_left(d);
        return;
    }
    migration_note_failure(&d->m, MIGRATION_DESTINATION, err);
    migration_advise(&d->m, ADVICE_DESTINATION_ENDED, NULL);
    destination_end(d, MIGRATION_ATTENTION);
}

static void qmp_closed(void *arg, const struct error *err)
{
    struct destination *d = arg;
    struct error why = *err;

    monitor_close(&d->monitor);
    error_wrap(&why, "destination QEMU (%s)", d->m.qmp_path);
    if (d->m.started) {
        guest_gone(d, &why);
        return;
    }
    if (d->m.soft.is_set) {
        return; /* QEMU ends when its path does; the cause is on its way */
    }
    destination_fail(d, &why);
    if (d->m.state == MIGRATION_CANCELLING) {
        destination_undo(d, false);
    }
}

const struct qmp_ops destination_qmp_ops = {
    .on_ready = qmp_ready,
    .on_event = destination_on_event,
    .on_closed = qmp_closed,
};

int destination_prepare(struct destination *d, struct error *err)
{
    struct migration *m = &d->m;

    destination_deadline(d, "preparing", m->env->conf->setup_timeout);
    if (monitor_open(&d->monitor, m->env->control, m->env->conf, m->qmp_path,
                     &destination_qmp_ops, d, err)) {
        return -1;
    }
    migration_save(m);
    return 0;
}

/* Data path --------------------------------------------------------------- */

static void carrier_ready(void *arg)
{
    struct destination *d = arg;
    d->carrier_ready = true;
    destination_listen(d);
}

static void carrier_path(void *arg, uint64_t seq, mp_time rtt)
{
}

static void carrier_channel(void *arg, uint16_t channel, enum wire_class class)
{
}

static void carrier_head(void *arg, const struct stream_head *head)
{
}

/* Between a loaded guest and COMMIT the lanes are no longer needed by a
 * precopy: what counts then comes over the control connection. */
static void carrier_broken(void *arg, const struct error *err)
{
    struct destination *d = arg;

    d->path_dead = true;
    if (d->completed || (d->prepared && !d->m.postcopy)) {
        migration_log(&d->m, LOG_LEVEL_WARNING, "data path: %s", err->text);
        return;
    }
    destination_fail_softly(d, err);
}

static void carrier_finished(void *arg)
{
    struct destination *d = arg;
    d->finished = true;
    migration_log(&d->m, LOG_LEVEL_DEBUG, "every byte is delivered");
}

static const struct carrier_ops carrier_ops = {
    .on_ready = carrier_ready,
    .on_path = carrier_path,
    .on_channel = carrier_channel,
    .on_head = carrier_head,
    .on_broken = carrier_broken,
    .on_finished = carrier_finished,
};

static int open_data_path(struct destination *d, struct error *err)
{
    const struct conf *conf = d->m.env->conf;
    struct carrier_params params = {
        .control = d->m.env->control,
        .data = d->m.env->data,
        .context = d->m.context,
        .source = false,
        .preempt = d->m.preempt,
        .multifd = d->m.request.multifd,
        .switchover_buffer_bytes = conf->switchover_buffer_bytes,
        .ping_interval = PING_INTERVAL,
        .bandwidth_bytes_per_second = PARSE_UNLIMITED,
    };

    d->m.carrier = carrier_new(&params, &carrier_ops, d, err);
    if (!d->m.carrier) {
        return -1;
    }
    if (!tls_random(d->token, sizeof(d->token))) {
        return error_set(err, ERR_INTERNAL, "no random numbers for a token");
    }
    d->has_token = true;
    migration_set_socket(&d->m, d->token);
    return 0;
}

bool destination_take_lane(struct destination *d, struct lane *lane,
                           const struct hello *theirs)
{
    struct error err = ERROR_INIT;

    if (!d->has_token || !theirs->has_token ||
        !tls_is_same_secret(d->token, theirs->token, sizeof(d->token))) {
        return false;
    }
    struct hello mine = peers_hello(d->m.env->peers, theirs->lane, d->token);
    if (!d->m.carrier) {
        error_set(&err, ERR_NOT_FOUND, "migration %s is ending",
                  d->m.request.id);
        lane_refuse(lane, err.code, err.text);
    } else if (lane_welcome(lane, &mine, &err)) {
        lane_refuse(lane, err.code, err.text);
    } else {
        lane_detach(lane);
        carrier_add_lane(d->m.carrier, lane);
    }
    return true;
}

/* Prepare ------------------------------------------------------------------ */

static void on_caps(void *arg, const struct error *err);

static void on_stopped(void *arg, const struct error *err)
{
    struct destination *d = arg;
    struct qmp_caps_wish wish = {
        .role = QMP_ROLE_DESTINATION,
        .postcopy = d->m.may_postcopy,
        .preempt = d->m.preempt,
        .multifd_channels = d->m.request.multifd,
        .max_bandwidth_bytes_per_second = UINT64_MAX,
        .max_downtime_ms = UINT64_MAX,
    };

    if (d->m.state != MIGRATION_PREPARING ||
        (err && err->code == ERR_CANCELLED)) {
        return;
    }
    if (err) {
        struct error why = *err;
        error_wrap(&why, "destination QEMU");
        destination_fail(d, &why);
        return;
    }
    d->m.caps_changed = true;
    migration_save(&d->m);
    qmp_caps_apply(d->monitor.qmp, d->m.caps, &d->facts.probe, &wish,
                   destination_qmp_timeout(d), on_caps, d);
}

static void answer_prepare(struct destination *d)
{
    json_object *result = json_object_new_object();
    char token[2 * HELLO_TOKEN_BYTES + 1];

    for (size_t i = 0; i < HELLO_TOKEN_BYTES; i++) {
        snprintf(token + 2 * i, 3, "%02x", d->token[i]);
    }
    json_object_object_add(result, "token", json_object_new_string(token));
    json_object_object_add(result, "destination_qmp",
                           json_object_new_string(d->m.qmp_path));
    json_object_object_add(result, "preempt",
                           json_object_new_boolean(d->m.preempt));
    json_object_object_add(result, "facts", facts_to_json(&d->facts));
    peer_request_reply(d->prepare, result);
    d->prepare = NULL;
}

static void on_caps(void *arg, const struct error *err)
{
    struct destination *d = arg;
    struct error why = ERROR_INIT;

    if (d->m.state != MIGRATION_PREPARING ||
        (err && err->code == ERR_CANCELLED)) {
        return;
    }
    if (err) {
        why = *err;
        error_wrap(&why, "destination QEMU");
        destination_fail(d, &why);
        return;
    }
    if (open_data_path(d, &why)) {
        destination_fail(d, &why);
        return;
    }
    migration_set_state(&d->m, MIGRATION_CONNECTING);
    destination_deadline(d, "connecting", d->m.env->conf->setup_timeout);
    answer_prepare(d);
}

static int check_qemu(struct destination *d, struct error *err)
{
    const struct facts *facts = &d->facts;

    if (strcmp(facts->name, d->m.request.vm)) {
        return error_set(err, ERR_MISMATCH,
                         "the monitor %s belongs to guest \"%s\", not \"%s\"",
                         d->m.qmp_path, facts->name, d->m.request.vm);
    }
    if (d->expected_uuid[0] && strcasecmp(facts->uuid, d->expected_uuid)) {
        return error_set(err, ERR_MISMATCH,
                         "guest %s was announced on %s with UUID %s, the QEMU "
                         "at %s says %s",
                         d->m.request.vm, d->m.env->conf->name,
                         d->expected_uuid, d->m.qmp_path, facts->uuid);
    }
    if (strcmp(facts->status.text, "inmigrate")) {
        return error_set(err, ERR_GUEST_STATE,
                         "the destination QEMU of guest %s is %s; start it "
                         "with -incoming defer, for one migration each",
                         facts->name, facts->status.text);
    }
    if (facts->migrate.status != QMP_MIGRATE_NONE) {
        return error_set(err, ERR_GUEST_STATE,
                         "the destination QEMU of guest %s already receives a "
                         "migration (%s)",
                         facts->name, facts->migrate.status_text);
    }
    return 0;
}

/* What both ends must be able to do, and preempt by what both do well. */
static int choose_kind(struct destination *d, struct error *err)
{
    struct facts source = {0};
    struct small_pages *sizes = NULL; /* the source translates */
    const bool *can = d->facts.probe.can;
    bool fit =
        !facts_from_json(d->source_facts, &source, err) &&
        !facts_compare(&source, &d->facts, d->m.may_postcopy, &sizes, err);

    d->m.small_pages = sizes != NULL;
    bool aborts = sizes && source.probe.can[QMP_CAN_PREEMPT_WHILE_BLOCKED];
    if (d->m.preempt && aborts && !d->preempt_needed) {
        d->m.preempt = false; /* it was only a suggestion */
    }
    d->m.is_unrecoverable = d->m.preempt && aborts;
    facts_done(&source);
    free(sizes);
    if (!fit) {
        return -1;
    }
    if (d->m.may_postcopy && d->m.request.multifd &&
        !can[QMP_CAN_MULTIFD_POSTCOPY]) {
        return error_set(err, ERR_UNSUPPORTED,
                         "multifd together with postcopy: QEMU %s on the "
                         "destination cannot do both at once (10.1 can); leave "
                         "one of them out",
                         d->facts.version);
    }
    if (d->m.preempt && !d->preempt_needed &&
        !(can[QMP_CAN_PREEMPT] && can[QMP_CAN_PREEMPT_WHILE_BLOCKED])) {
        d->m.preempt = false; /* it was only a suggestion */
    }
    return 0;
}

static void on_facts(void *arg, struct facts *facts, const struct error *err)
{
    struct destination *d = arg;
    struct migration *m = &d->m;
    struct error why = ERROR_INIT;

    if (err) {
        if (err->code != ERR_CANCELLED && err->code != ERR_QEMU_GONE) {
            why = *err;
            error_wrap(&why, "destination QEMU");
            destination_fail(d, &why);
        }
        return;
    }
    if (m->state != MIGRATION_PREPARING) {
        facts_done(facts);
        return;
    }
    d->facts = *facts;
    m->caps = d->facts.caps;
    d->facts.caps = NULL;
    m->blocks = facts_blocks_to_json(&d->facts);
    json_value_copy_text(m->uuid, sizeof(m->uuid), d->facts.uuid);
    json_value_copy_text(m->qemu_version, sizeof(m->qemu_version),
                         d->facts.version);
    if (check_qemu(d, &why) || choose_kind(d, &why)) {
        destination_fail(d, &why);
        return;
    }
    /* Always, started with -S or not: it clears autostart, so that only our
     * cont starts the guest. */
    qmp_migrate_stop(d->monitor.qmp, destination_qmp_timeout(d), on_stopped, d);
}

/* Listen ------------------------------------------------------------------- */

static void on_incoming(void *arg, const struct error *err)
{
    struct destination *d = arg;
    const struct conf *conf = d->m.env->conf;

    if (d->m.state != MIGRATION_CONNECTING ||
        (err && err->code == ERR_CANCELLED)) {
        return;
    }
    if (err) {
        struct error why = *err;
        error_wrap(&why, "destination QEMU");
        destination_fail(d, &why);
        return;
    }
    loop_timer_stop(&d->deadline);
    migration_set_state(&d->m, MIGRATION_SETUP);
    carrier_set_target(d->m.carrier, d->m.socket_path, conf->socket_dirs.items,
                       conf->socket_dirs.count, conf->qemu_user,
                       conf->connect_timeout);
    peer_request_reply(d->listen, NULL);
    d->listen = NULL;
}

void destination_listen(struct destination *d)
{
    char uri[PATH_SOCKET_MAX + 8];

    if (!d->listen || !d->carrier_ready || d->incoming_sent) {
        return;
    }
    /* on disk first: a QEMU that listens is good for nothing else, and leaves a
     * socket, so a successor must end it */
    d->incoming_sent = true;
    d->m.told_to_listen = true;
    migration_save(&d->m);
    snprintf(uri, sizeof(uri), "unix:%s", d->m.socket_path);
    qmp_migrate_incoming(d->monitor.qmp, uri, false, destination_qmp_timeout(d),
                         on_incoming, d);
}
