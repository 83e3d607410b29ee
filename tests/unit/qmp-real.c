// SPDX-License-Identifier: BSD-3-Clause
/* The QMP client against real QEMUs: test-qmp-real.sh starts them and names
 * their sockets: qmp-real SOURCE DESTINATION MIGRATION-SOCKET. The destination
 * runs with -incoming defer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "qmp/json-value.h"
#include "qmp/qmp-caps.h"
#include "qmp/qmp-migrate.h"
#include "qmp/qmp-probe.h"
#include "qmp/qmp.h"
#include "tests/lib/fake-qemu.h"
#include "tests/lib/qmp-schema.h"
#include "util/loop.h"

#define T (20 * MP_SECOND)

struct side {
    struct loop *loop;
    struct qmp *qmp;
    bool is_ready;
    bool is_closed;
    enum qmp_migrate_status seen; /* by events */
    bool is_done;                 /* the call under way */
    struct error err;
    /* its result */
    char text[256];
    struct json_object *json;
    struct qmp_run_status run_status;
    struct qmp_migrate_info info;
    struct qmp_ram_block blocks[64];
    size_t block_count;
    struct qmp_caps *caps;
    struct qmp_probe probe;
};

static struct {
    struct loop *loop;
    struct side source, destination;
    const char *uri;
} t;

/* --- callbacks ---------------------------------------------------------- */

static void finish(struct side *s, const struct error *err)
{
    s->is_done = true;
    s->err = err ? *err : (struct error)ERROR_INIT;
}

static void on_ready(void *arg)
{
    ((struct side *)arg)->is_ready = true;
}

static void on_event(void *arg, const char *name, struct json_object *data,
                     int64_t timestamp_us, mp_time received)
{
    struct side *s = arg;
    qmp_migrate_status_of_event(name, data, &s->seen);
}

static void on_closed(void *arg, const struct error *err)
{
    struct side *s = arg;
    s->is_closed = true;
    s->err = *err;
}

static const struct qmp_ops ops = {
    .on_ready = on_ready, .on_event = on_event, .on_closed = on_closed};

static void done_cb(void *arg, const struct error *err)
{
    finish(arg, err);
}

static void text_cb(void *arg, const char *text, const struct error *err)
{
    struct side *s = arg;
    snprintf(s->text, sizeof(s->text), "%s", text ? text : "");
    finish(s, err);
}

static void json_cb(void *arg, struct json_object *result,
                    const struct error *err)
{
    struct side *s = arg;
    json_object_put(s->json);
    s->json = json_object_get(result);
    finish(s, err);
}

static void run_status_cb(void *arg, const struct qmp_run_status *status,
                          const struct error *err)
{
    struct side *s = arg;
    if (status) {
        s->run_status = *status;
    }
    finish(s, err);
}

static void info_cb(void *arg, const struct qmp_migrate_info *info,
                    const struct error *err)
{
    struct side *s = arg;
    if (info) {
        s->info = *info;
    }
    finish(s, err);
}

static void blocks_cb(void *arg, const struct qmp_ram_block *blocks,
                      size_t count, const struct error *err)
{
    struct side *s = arg;
    s->block_count = count < 64 ? count : 64;
    for (size_t i = 0; i < s->block_count; i++) {
        s->blocks[i] = blocks[i];
    }
    finish(s, err);
}

static void caps_cb(void *arg, struct qmp_caps *caps, const struct error *err)
{
    struct side *s = arg;
    qmp_caps_free(s->caps);
    s->caps = caps;
    finish(s, err);
}

static void probe_cb(void *arg, const struct qmp_probe *probe,
                     const struct error *err)
{
    struct side *s = arg;
    if (probe) {
        s->probe = *probe;
    }
    finish(s, err);
}

/* Waits for the call that was just submitted. */
static void wait_done(struct side *s)
{
    if (!fake_qemu_run_until(s->loop, &s->is_done)) {
        fail_msg("no callback");
    }
    s->is_done = false;
}

static void wait_ok(struct side *s)
{
    wait_done(s);
    if (error_is_set(&s->err)) {
        fail_msg("%s: %s", error_class(s->err.code), s->err.text);
    }
}

static void wait_refused(struct side *s, const char *text)
{
    wait_done(s);
    assert_int_equal(s->err.code, ERR_QMP);
    if (!strstr(s->err.text, text)) {
        fail_msg("\"%s\" says nothing of \"%s\"", s->err.text, text);
    }
}

/* --- the parts ---------------------------------------------------------- */

static void the_handshake_gives_oob(void **state)
{
    assert_true(fake_qemu_run_until(t.loop, &t.source.is_ready));
    assert_true(fake_qemu_run_until(t.loop, &t.destination.is_ready));
    assert_true(qmp_has_oob(t.source.qmp));
    assert_true(qmp_has_oob(t.destination.qmp));
    assert_true(strlen(qmp_version(t.source.qmp)) >= 5);
}

static void the_peer_is_the_qemu_process(void **state)
{
    char path[64], name[64] = "";
    uint64_t start = 0;
    pid_t pid = 0;

    assert_int_equal(qmp_peer(t.source.qmp, &pid, &start, NULL), 0);
    assert_true(start > 0);
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(name, sizeof(name), f));
    fclose(f);
    assert_int_equal(strncmp(name, "qemu-system", 11), 0);
}

static void the_guest_says_who_it_is(void **state)
{
    struct side *s = &t.source;

    qmp_migrate_query_name(s->qmp, T, text_cb, s);
    wait_ok(s);
    assert_string_equal(s->text, "real");
    qmp_migrate_query_uuid(s->qmp, T, text_cb, s);
    wait_ok(s);
    assert_string_equal(s->text, "12345678-1234-1234-1234-123456789abc");
    qmp_migrate_query_machine_type(s->qmp, T, text_cb, s);
    wait_ok(s);
    assert_int_equal(strncmp(s->text, "pc-q35-", 7), 0);
    assert_null(strstr(s->text, "machine"));
    qmp_migrate_query_name(t.destination.qmp, T, text_cb, &t.destination);
    wait_ok(&t.destination);
    assert_string_equal(t.destination.text, "");
    qmp_migrate_query_status(t.destination.qmp, T, run_status_cb,
                             &t.destination);
    wait_ok(&t.destination);
    assert_string_equal(t.destination.run_status.text, "inmigrate");
    assert_false(t.destination.run_status.running);
}

static void the_block_table_has_the_guests_memory(void **state)
{
    struct side *s = &t.source;
    bool found = false, smaller = false;

    qmp_migrate_query_ram_blocks(s->qmp, T, blocks_cb, s);
    wait_ok(s);
    assert_true(s->block_count >= 3);
    for (size_t i = 0; i < s->block_count; i++) {
        assert_true(s->blocks[i].name[0] != '\0');
        assert_int_equal(s->blocks[i].page_size_bytes, 4096);
        if (!strcmp(s->blocks[i].name, "mem0")) {
            found = true;
            assert_int_equal(s->blocks[i].total_bytes, 64 << 20);
            assert_int_equal(s->blocks[i].used_bytes, 64 << 20);
        }
        smaller |= s->blocks[i].used_bytes < s->blocks[i].total_bytes;
    }
    assert_true(found);
    assert_true(smaller); /* the columns are not the same one twice */
}

static void the_probe_is_sure(void **state)
{
    struct side *s = &t.source;

    qmp_probe_read(s->qmp, T, probe_cb, s);
    wait_ok(s);
    qmp_probe_read(t.destination.qmp, T, probe_cb, &t.destination);
    wait_ok(&t.destination);
    assert_true(s->probe.is_sure);
    assert_true(s->probe.can[QMP_CAN_POSTCOPY]);
    assert_true(s->probe.can[QMP_CAN_YANK]);
    if (!strncmp(qmp_version(s->qmp), "7.2.", 4)) {
        assert_true(s->probe.can[QMP_CAN_PREEMPT]);
        assert_true(s->probe.can[QMP_CAN_MULTIFD]);
        assert_true(s->probe.can[QMP_CAN_ACTIVATE_BLOCKS_LATE]);
        assert_false(s->probe.can[QMP_CAN_PREEMPT_WHILE_BLOCKED]);
        assert_false(s->probe.can[QMP_CAN_RECOVER_SAFELY]);
        assert_false(s->probe.can[QMP_CAN_MULTIFD_POSTCOPY]);
        assert_false(s->probe.can[QMP_CAN_STAY_ON_ERROR]);
        assert_false(s->probe.can[QMP_HAS_SILENT_MAIN]);
        assert_false(s->probe.can[QMP_CAN_ROLL_BACK_POSTCOPY]);
    }
}

/* --- capabilities ------------------------------------------------------- */

static char *caps_text(struct side *s)
{
    qmp_caps_read(s->qmp, T, caps_cb, s);
    wait_ok(s);
    struct json_object *json = qmp_caps_to_json(s->caps);
    char *text =
        strdup(json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN));
    json_object_put(json);
    return text;
}

/* Sets what an administrator might have left behind, in both QEMUs. */
static void leave_behind(struct side *s)
{
    qmp_execute(s->qmp, "migrate-set-capabilities",
                json_tokener_parse(
                    "{\"capabilities\": [{\"capability\": \"auto-converge\", "
                    "\"state\": true}, {\"capability\": \"xbzrle\", \"state\": "
                    "true}, {\"capability\": \"x-ignore-shared\", \"state\": "
                    "true}, {\"capability\": \"release-ram\", \"state\": "
                    "true}, {\"capability\": \"zero-blocks\", \"state\": "
                    "true}]}"),
                T, json_cb, s);
    wait_ok(s);
    qmp_execute(s->qmp, "migrate-set-parameters",
                json_tokener_parse(
                    "{\"max-bandwidth\": 3, \"tls-creds\": \"tls0\", "
                    "\"tls-hostname\": \"host\", \"tls-authz\": \"authz0\", "
                    "\"multifd-channels\": 7, \"multifd-compression\": "
                    "\"zlib\", \"downtime-limit\": 123}"),
                T, json_cb, s);
    wait_ok(s);
}

static void check_applied(struct side *s, const struct qmp_caps_wish *wish)
{
    bool is_destination = wish->role == QMP_ROLE_DESTINATION;
    char *text = caps_text(s);

    assert_true(qmp_caps_is_on(s->caps, "events"));
    assert_true(qmp_caps_is_on(s->caps, "return-path"));
    assert_int_equal(qmp_caps_is_on(s->caps, "postcopy-ram"), wish->postcopy);
    assert_int_equal(qmp_caps_is_on(s->caps, "postcopy-preempt"),
                     wish->preempt);
    assert_int_equal(qmp_caps_is_on(s->caps, "multifd"),
                     wish->multifd_channels > 0);
    assert_int_equal(qmp_caps_is_on(s->caps, "late-block-activate"),
                     is_destination);
    assert_int_equal(qmp_caps_is_on(s->caps, "postcopy-blocktime"),
                     is_destination && wish->postcopy);
    assert_int_equal(qmp_caps_is_on(s->caps, "pause-before-switchover"),
                     wish->pause_before_switchover);
    assert_false(qmp_caps_is_on(s->caps, "xbzrle"));
    assert_false(qmp_caps_is_on(s->caps, "auto-converge"));
    assert_false(qmp_caps_is_on(s->caps, "x-ignore-shared"));
    assert_false(qmp_caps_is_on(s->caps, "release-ram"));
    assert_non_null(strstr(text, "\"tls-creds\":\"\""));
    assert_non_null(strstr(text, "\"tls-hostname\":\"\""));
    assert_non_null(strstr(text, "\"tls-authz\":\"\""));
    if (!is_destination) {
        assert_non_null(strstr(text, "\"max-bandwidth\":1125899906842624"));
        assert_non_null(strstr(text, "\"downtime-limit\":250"));
    }
    free(text);
}

/* One round: apply, look, restore twice, look. */
static void round_trip(struct side *s, const struct qmp_caps_wish *wish)
{
    char *before = caps_text(s), *after;
    struct json_object *json = qmp_caps_to_json(s->caps);
    struct qmp_caps *snapshot = qmp_caps_from_json(json, NULL);

    json_object_put(json);
    assert_non_null(snapshot);
    qmp_caps_apply(s->qmp, snapshot, &s->probe, wish, T, done_cb, s);
    wait_ok(s);
    check_applied(s, wish);
    for (int i = 0; i < 2; i++) {
        qmp_caps_restore(s->qmp, snapshot, T, done_cb, s);
        wait_ok(s);
        after = caps_text(s);
        assert_string_equal(after, before);
        free(after);
    }
    free(before);
    qmp_caps_free(snapshot);
}

static void each_combination_is_set_and_put_back(void **state)
{
    leave_behind(&t.source);
    leave_behind(&t.destination);
    for (int bits = 0; bits < 16; bits++) {
        struct qmp_caps_wish wish = {
            .role = bits & 1 ? QMP_ROLE_DESTINATION : QMP_ROLE_SOURCE,
            .postcopy = bits & 2,
            .preempt = bits & 4,
            .pause_before_switchover = !(bits & 1),
            .multifd_channels = bits & 8 ? 3 : 0,
            .max_bandwidth_bytes_per_second = UINT64_MAX,
            .max_downtime_ms = 250,
        };
        struct side *s = bits & 1 ? &t.destination : &t.source;
        if (wish.preempt && !wish.postcopy) {
            continue;
        }
        if (wish.postcopy && wish.multifd_channels > 0 &&
            !s->probe.can[QMP_CAN_MULTIFD_POSTCOPY]) {
            continue;
        }
        round_trip(s, &wish);
    }
}

/* --- a migration -------------------------------------------------------- */

static void apply(struct side *s, enum qmp_role role)
{
    struct qmp_caps_wish wish = {
        .role = role,
        .postcopy = true,
        .preempt = s->probe.can[QMP_CAN_PREEMPT],
        .pause_before_switchover = role == QMP_ROLE_SOURCE,
        .max_bandwidth_bytes_per_second = UINT64_MAX,
        .max_downtime_ms = UINT64_MAX,
    };

    qmp_caps_read(s->qmp, T, caps_cb, s);
    wait_ok(s);
    qmp_caps_apply(s->qmp, s->caps, &s->probe, &wish, T, done_cb, s);
    wait_ok(s);
}

static void wait_status(struct side *s, enum qmp_migrate_status status)
{
    for (int i = 0; i < 500 && s->seen != status; i++) {
        fake_qemu_run_for(t.loop, 20 * MP_MS);
    }
    assert_string_equal(qmp_migrate_status_name(s->seen),
                        qmp_migrate_status_name(status));
}

static void a_guest_migrates_under_our_commands(void **state)
{
    struct side *s = &t.source, *d = &t.destination;

    apply(d, QMP_ROLE_DESTINATION);
    apply(s, QMP_ROLE_SOURCE);
    qmp_migrate_stop(d->qmp, T, done_cb, d);
    wait_ok(d);
    qmp_migrate_incoming(d->qmp, t.uri, d->probe.can[QMP_CAN_STAY_ON_ERROR], T,
                         done_cb, d);
    wait_ok(d);
    wait_status(d, QMP_MIGRATE_SETUP);
    qmp_migrate_cont(s->qmp, T, done_cb, s);
    wait_ok(s);
    qmp_migrate_start(s->qmp, t.uri, false, T, done_cb, s);
    wait_ok(s);
    wait_status(s, QMP_MIGRATE_PRE_SWITCHOVER);
    qmp_migrate_set_bandwidth(s->qmp, 100 << 20, T, done_cb, s);
    wait_ok(s);
    qmp_migrate_query(s->qmp, T, info_cb, s);
    wait_ok(s);
    assert_int_equal(s->info.status, QMP_MIGRATE_PRE_SWITCHOVER);
    assert_true(s->info.has_ram);
    assert_int_equal(s->info.ram_page_size_bytes, 4096);
    assert_true(s->info.ram_total_bytes >= 64 << 20);
    assert_false(s->info.has_downtime);
    qmp_migrate_query_status(s->qmp, T, run_status_cb, s);
    wait_ok(s);
    assert_false(s->run_status.running);
    qmp_migrate_continue(s->qmp, T, done_cb, s);
    wait_ok(s);
    wait_status(s, QMP_MIGRATE_COMPLETED);
    wait_status(d, QMP_MIGRATE_COMPLETED);
    qmp_migrate_query(s->qmp, T, info_cb, s);
    wait_ok(s);
    assert_int_equal(s->info.status, QMP_MIGRATE_COMPLETED);
    assert_true(s->info.has_downtime);
    assert_true(s->info.ram_transferred_bytes > 0);
    assert_true(s->info.total_time_ms > 0);
    qmp_migrate_query(d->qmp, T, info_cb, d);
    wait_ok(d);
    assert_int_equal(d->info.status, QMP_MIGRATE_COMPLETED);
    qmp_migrate_query_status(d->qmp, T, run_status_cb, d);
    wait_ok(d);
    assert_string_equal(d->run_status.text, "paused");
    qmp_migrate_cont(d->qmp, T, done_cb, d);
    wait_ok(d);
    qmp_migrate_query_status(d->qmp, T, run_status_cb, d);
    wait_ok(d);
    assert_true(d->run_status.running);
    /* what was set is put back on both, whatever it was used for */
    qmp_caps_restore(d->qmp, d->caps, T, done_cb, d);
    wait_ok(d);
    qmp_caps_restore(s->qmp, s->caps, T, done_cb, s);
    wait_ok(s);
}

static void what_does_not_fit_is_refused_in_qemus_words(void **state)
{
    struct side *s = &t.source;

    qmp_migrate_yank(s->qmp, T, done_cb, s); /* nothing to yank is fine */
    wait_ok(s);
    qmp_migrate_pause(s->qmp, T, done_cb, s);
    wait_refused(s, "migrate-pause: ");
    qmp_migrate_recover(s->qmp, t.uri, T, done_cb, s);
    wait_refused(s, "migrate-recover: ");
    qmp_migrate_start_postcopy(s->qmp, T, done_cb, s);
    wait_refused(s, "migrate-start-postcopy: ");
    qmp_migrate_continue(s->qmp, T, done_cb, s);
    wait_refused(s, "migrate-continue: ");
    qmp_migrate_start(s->qmp, "nonsense:", false, T, done_cb, s);
    wait_refused(s, "migrate: ");
    qmp_migrate_cancel(s->qmp, T, done_cb, s);
    wait_ok(s);
}

static void quit_ends_qemu_and_says_so(void **state)
{
    struct side *s = &t.source;

    qmp_migrate_quit(s->qmp, T, done_cb, s);
    wait_done(s);
    assert_true(s->err.code == ERR_NONE || s->err.code == ERR_QEMU_GONE);
    assert_true(fake_qemu_run_until(t.loop, &s->is_closed));
    assert_int_equal(s->err.code, ERR_QEMU_GONE);
}

/* --- every command against the schema ----------------------------------- */

#define COMMANDS_MAX 64

static struct {
    struct {
        char name[64];
        struct json_object *args;
        bool is_oob;
    } list[COMMANDS_MAX];
    int count;
} sent;

static void record(void *arg, const char *command, struct json_object *args,
                   bool is_oob)
{
    assert_true(sent.count < COMMANDS_MAX);
    snprintf(sent.list[sent.count].name, 64, "%s", command);
    sent.list[sent.count].args = json_object_get(args);
    sent.list[sent.count].is_oob = is_oob;
    sent.count++;
}

static const char any_command[] =
    "stay\nalways migrate {}\nalways migrate-incoming {}\n"
    "always migrate-start-postcopy {}\nalways migrate-continue {}\n"
    "always migrate_cancel {}\nalways migrate-pause {}\n"
    "always migrate-recover {}\nalways yank {}\nalways stop {}\n"
    "always cont {}\nalways quit {}\nalways query-name {}\n"
    "always query-uuid {}\nalways qom-get \"x\"\n"
    "always query-status {}\nalways query-migrate {}\n"
    "always human-monitor-command \"\"\nalways query-qmp-schema []\n"
    "always migrate-set-parameters {}\n"
    "always migrate-set-capabilities {}\n"
    "always query-migrate-capabilities []\n"
    "always query-migrate-parameters {}\n"
    "always qom-list-properties []\nhandshake\n";

/* Callers that want nothing but the command. */
static int ended;

#define IGNORE(name, ...)                                                      \
    static void name(void *arg, __VA_ARGS__)                                   \
    {                                                                          \
        ended++;                                                               \
    }
IGNORE(ignore_done, const struct error *err)
IGNORE(ignore_text, const char *text, const struct error *err)
IGNORE(ignore_json, struct json_object *result, const struct error *err)
IGNORE(ignore_run_status, const struct qmp_run_status *status,
       const struct error *err)
IGNORE(ignore_info, const struct qmp_migrate_info *info,
       const struct error *err)
IGNORE(ignore_blocks, const struct qmp_ram_block *blocks, size_t count,
       const struct error *err)
IGNORE(ignore_probe, const struct qmp_probe *probe, const struct error *err)

/* Sends every command we have to qmp; returns how many callbacks will come. */
static int send_all(struct qmp *q, bool stay)
{
    struct qmp_caps_wish wish = {.role = QMP_ROLE_SOURCE,
                                 .postcopy = true,
                                 .pause_before_switchover = true,
                                 .max_bandwidth_bytes_per_second = UINT64_MAX,
                                 .max_downtime_ms = 300};

    qmp_migrate_start(q, "unix:/x", true, T, ignore_done, NULL);
    qmp_migrate_incoming(q, "unix:/x", stay, T, ignore_done, NULL);
    qmp_migrate_start_postcopy(q, T, ignore_done, NULL);
    qmp_migrate_continue(q, T, ignore_done, NULL);
    qmp_migrate_cancel(q, T, ignore_done, NULL);
    qmp_migrate_pause(q, T, ignore_done, NULL);
    qmp_migrate_recover(q, "unix:/x", T, ignore_done, NULL);
    qmp_migrate_yank(q, T, ignore_done, NULL);
    qmp_migrate_stop(q, T, ignore_done, NULL);
    qmp_migrate_cont(q, T, ignore_done, NULL);
    qmp_migrate_quit(q, T, ignore_done, NULL);
    qmp_migrate_set_bandwidth(q, 1000000, T, ignore_done, NULL);
    qmp_migrate_query_name(q, T, ignore_text, NULL);
    qmp_migrate_query_uuid(q, T, ignore_text, NULL);
    qmp_migrate_query_machine_type(q, T, ignore_text, NULL);
    qmp_migrate_query_status(q, T, ignore_run_status, NULL);
    qmp_migrate_query(q, T, ignore_info, NULL);
    qmp_migrate_query_ram_blocks(q, T, ignore_blocks, NULL);
    qmp_migrate_query_schema(q, T, ignore_json, NULL);
    qmp_probe_read(q, T, ignore_probe, NULL);
    qmp_caps_apply(q, t.source.caps, &t.source.probe, &wish, T, ignore_done,
                   NULL);
    wish.role = QMP_ROLE_DESTINATION;
    qmp_caps_apply(q, t.source.caps, &t.source.probe, &wish, T, ignore_done,
                   NULL);
    return 22;
}

static void the_schema_has_every_command_we_send(void **state)
{
    struct side *s = &t.source;
    struct side other = {.loop = t.loop};

    qmp_caps_read(s->qmp, T, caps_cb, s);
    wait_ok(s);
    qmp_migrate_query_schema(s->qmp, T, json_cb, s);
    wait_ok(s);
    struct fake_qemu *fake = fake_qemu_new(t.loop, any_command);
    fake_qemu_watch(fake, record, NULL);
    other.qmp =
        qmp_open(t.loop, fake_qemu_take_fd(fake), NULL, &ops, &other, NULL);
    assert_true(fake_qemu_run_until(t.loop, &other.is_ready));
    int count = send_all(other.qmp, s->probe.can[QMP_CAN_STAY_ON_ERROR]);
    for (int i = 0; i < 100 && ended < count; i++) {
        fake_qemu_run_for(t.loop, 10 * MP_MS);
    }
    assert_int_equal(ended, count);
    assert_true(sent.count >= 24);
    for (int i = 0; i < sent.count; i++) {
        schema_check_command(s->json, sent.list[i].name, sent.list[i].args,
                             sent.list[i].is_oob);
        json_object_put(sent.list[i].args);
    }
    qmp_close(other.qmp);
    fake_qemu_run_for(t.loop, MP_MS);
    fake_qemu_free(fake);
}

/* --- life --------------------------------------------------------------- */

static void connect_side(struct side *s, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        perror(path);
        exit(1);
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    s->loop = t.loop;
    s->qmp = qmp_open(t.loop, fd, NULL, &ops, s, NULL);
}

static int tear_down(void **state)
{
    qmp_close(t.source.qmp);
    qmp_close(t.destination.qmp);
    qmp_caps_free(t.source.caps);
    qmp_caps_free(t.destination.caps);
    json_object_put(t.source.json);
    json_object_put(t.destination.json);
    loop_free(t.loop);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_handshake_gives_oob),
        cmocka_unit_test(the_peer_is_the_qemu_process),
        cmocka_unit_test(the_guest_says_who_it_is),
        cmocka_unit_test(the_block_table_has_the_guests_memory),
        cmocka_unit_test(the_probe_is_sure),
        cmocka_unit_test(the_schema_has_every_command_we_send),
        cmocka_unit_test(each_combination_is_set_and_put_back),
        cmocka_unit_test(what_does_not_fit_is_refused_in_qemus_words),
        cmocka_unit_test(a_guest_migrates_under_our_commands),
        cmocka_unit_test(quit_ends_qemu_and_says_so),
    };

    if (argc != 4) {
        fprintf(stderr, "usage: qmp-real SOURCE DESTINATION MIGRATION-URI\n");
        return 2;
    }
    t.loop = loop_new("test", NULL);
    t.uri = argv[3];
    connect_side(&t.source, argv[1]);
    connect_side(&t.destination, argv[2]);
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
