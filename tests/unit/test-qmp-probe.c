// SPDX-License-Identifier: BSD-3-Clause
/* Probing behaviours from the schema, and typed commands and answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/qmp-migrate.h"
#include "qmp/qmp-probe.h"
#include "tests/lib/fake-qemu.h"
#include "util/loop.h"

#define T (5 * MP_SECOND)

/* --- the schema --------------------------------------------------------- */

/* A schema as QEMU makes it: %s are more members of migrate's arguments,
 * query-migrate's answer, migrate-incoming's arguments, and more values of
 * the capabilities and of the status. */
static const char schema_form[] =
    "[{\"name\": \"migrate\", \"meta-type\": \"command\", \"arg-type\": \"1\", "
    "\"ret-type\": \"0\"},"
    "{\"name\": \"1\", \"meta-type\": \"object\", \"members\": [{\"name\": "
    "\"uri\", \"type\": \"str\"}%s]},"
    "{\"name\": \"query-migrate\", \"meta-type\": \"command\", \"arg-type\": "
    "\"0\", \"ret-type\": \"2\"},"
    "{\"name\": \"2\", \"meta-type\": \"object\", \"members\": [{\"name\": "
    "\"status\", \"type\": \"3\", \"default\": null}%s]},"
    "{\"name\": \"migrate-incoming\", \"meta-type\": \"command\", "
    "\"arg-type\": \"7\", \"ret-type\": \"0\"},"
    "{\"name\": \"7\", \"meta-type\": \"object\", \"members\": [{\"name\": "
    "\"uri\", \"type\": \"str\"}%s]},"
    "{\"name\": \"migrate-set-capabilities\", \"meta-type\": \"command\", "
    "\"arg-type\": \"4\", \"ret-type\": \"0\"},"
    "{\"name\": \"4\", \"meta-type\": \"object\", \"members\": [{\"name\": "
    "\"capabilities\", \"type\": \"[5]\"}]},"
    "{\"name\": \"[5]\", \"meta-type\": \"array\", \"element-type\": \"5\"},"
    "{\"name\": \"5\", \"meta-type\": \"object\", \"members\": [{\"name\": "
    "\"capability\", \"type\": \"6\"}, {\"name\": \"state\", \"type\": "
    "\"bool\"}]},"
    "{\"name\": \"6\", \"meta-type\": \"enum\", \"values\": "
    "[\"postcopy-ram\"%s]},"
    "{\"name\": \"3\", \"meta-type\": \"enum\", \"members\": [{\"name\": "
    "\"active\"}%s], \"values\": [\"active\"]}]";

static struct json_object *make_schema(const char *migrate, const char *answer,
                                       const char *incoming,
                                       const char *capabilities,
                                       const char *status)
{
    char text[4096];

    snprintf(text, sizeof(text), schema_form, migrate, answer, incoming,
             capabilities, status);
    struct json_object *schema = json_tokener_parse(text);
    assert_non_null(schema);
    return schema;
}

static void an_old_qemu_has_few_virtues(void **state)
{
    struct json_object *schema = make_schema("", "", "", "", "");
    struct json_object *properties = json_tokener_parse("[]");
    struct qmp_probe p;

    assert_int_equal(qmp_probe_parse(schema, properties, &p, NULL), 0);
    assert_true(p.is_sure);
    for (int i = 0; i < QMP_BEHAVIOURS; i++) {
        assert_int_equal(p.can[i], i == QMP_CAN_POSTCOPY);
    }
    json_object_put(schema);
    json_object_put(properties);
}

static void each_virtue_is_found_where_it_stands(void **state)
{
    struct json_object *properties =
        json_tokener_parse("[{\"name\": \"type\", \"type\": \"string\"}, "
                           "{\"name\": \"x-preempt-pre-7-2\"}]");
    struct json_object *schema =
        make_schema(", {\"name\": \"channels\", \"type\": \"8\"}",
                    ", {\"name\": \"postcopy-latency\", \"type\": \"int\"}",
                    ", {\"name\": \"exit-on-error\", \"type\": \"bool\"}",
                    ", \"multifd\", \"mapped-ram\", \"postcopy-preempt\", "
                    "\"late-block-activate\"",
                    ", {\"name\": \"postcopy-device\"}");
    struct qmp_probe p;

    json_object_array_add(
        schema, json_tokener_parse("{\"name\": \"yank\", \"meta-type\": "
                                   "\"command\", \"arg-type\": \"0\", "
                                   "\"ret-type\": \"0\"}"));
    assert_int_equal(qmp_probe_parse(schema, properties, &p, NULL), 0);
    for (int i = 0; i < QMP_BEHAVIOURS; i++) {
        if (!p.can[i]) {
            fail_msg("%s", qmp_probe_name((enum qmp_behaviour)i));
        }
    }
    /* without the properties that one thing is guessed */
    assert_int_equal(qmp_probe_parse(schema, NULL, &p, NULL), 0);
    assert_false(p.can[QMP_CAN_PREEMPT_WHILE_BLOCKED]);
    assert_true(p.can[QMP_CAN_RECOVER_SAFELY]);
    assert_false(p.is_sure);
    json_object_put(schema);
    json_object_put(properties);
}

static void what_is_no_schema_gives_the_careful_guess(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "[1, null, {}, {\"name\": 5}]",
        "null",
        ("[{\"name\": \"migrate-set-capabilities\", \"meta-type\": "
         "\"command\", \"arg-type\": \"x\"}]"),
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct json_object *schema = json_tokener_parse(texts[i]);
        struct error err = ERROR_INIT;
        struct qmp_probe p, guess;
        qmp_probe_init(&guess);
        assert_int_equal(qmp_probe_parse(schema, NULL, &p, &err), -1);
        assert_int_equal(err.code, ERR_PROTOCOL);
        assert_memory_equal(p.can, guess.can, sizeof(p.can));
        assert_false(p.is_sure);
        json_object_put(schema);
    }
}

static void the_careful_guess_believes_in_vices_only(void **state)
{
    struct qmp_probe p;

    qmp_probe_init(&p);
    for (int i = 0; i < QMP_BEHAVIOURS; i++) {
        assert_int_equal(p.can[i], i == QMP_HAS_SILENT_MAIN);
    }
    struct json_object *json = qmp_probe_to_json(&p);
    assert_int_equal(json_object_object_length(json), QMP_BEHAVIOURS);
    assert_non_null(strstr(json_object_to_json_string(json),
                           "\"multifd-before-main\": true"));
    json_object_put(json);
    assert_string_equal(qmp_probe_name(QMP_CAN_RECOVER_SAFELY), "recover-safe");
}

/* --- answers ------------------------------------------------------------ */

static void statuses_have_names_both_ways(void **state)
{
    for (int i = 0; i < QMP_MIGRATE_STATUSES; i++) {
        enum qmp_migrate_status s = (enum qmp_migrate_status)i;
        assert_int_equal(qmp_migrate_status_parse(qmp_migrate_status_name(s)),
                         s);
    }
    assert_int_equal(qmp_migrate_status_parse("frozen"), QMP_MIGRATE_UNKNOWN);
    assert_true(qmp_migrate_status_is_postcopy(QMP_MIGRATE_POSTCOPY_RECOVER));
    assert_false(qmp_migrate_status_is_postcopy(QMP_MIGRATE_DEVICE));
    assert_true(qmp_migrate_status_is_final(QMP_MIGRATE_CANCELLED));
    assert_false(qmp_migrate_status_is_final(QMP_MIGRATE_CANCELLING));
}

static void a_status_is_read_from_its_event(void **state)
{
    struct json_object *data = json_tokener_parse("{\"status\": \"device\"}");
    enum qmp_migrate_status status = QMP_MIGRATE_NONE;

    assert_true(qmp_migrate_status_of_event("MIGRATION", data, &status));
    assert_int_equal(status, QMP_MIGRATE_DEVICE);
    assert_false(qmp_migrate_status_of_event("MIGRATION_PASS", data, &status));
    assert_false(qmp_migrate_status_of_event("MIGRATION", NULL, &status));
    json_object_put(data);
}

static void all_of_query_migrate_is_read(void **state)
{
    struct json_object *json = json_tokener_parse(
        "{\"status\": \"postcopy-active\", \"total-time\": 11, \"setup-time\": "
        "12, \"expected-downtime\": 13, \"downtime\": 0, \"error-desc\": "
        "\"oh\", \"postcopy-blocktime\": 14, \"postcopy-latency\": 15, "
        "\"ram\": {\"transferred\": 1, \"remaining\": 2, \"total\": 3, "
        "\"duplicate\": 4, \"normal\": 5, \"dirty-pages-rate\": 6, \"mbps\": "
        "7.5, \"dirty-sync-count\": 8, \"postcopy-requests\": 9, "
        "\"page-size\": 4096, \"multifd-bytes\": 21, \"pages-per-second\": 22, "
        "\"precopy-bytes\": 23, \"downtime-bytes\": 24, \"postcopy-bytes\": "
        "25}}");
    struct qmp_migrate_info i;

    assert_int_equal(qmp_migrate_parse_info(json, &i, NULL), 0);
    assert_int_equal(i.status, QMP_MIGRATE_POSTCOPY_ACTIVE);
    assert_string_equal(i.status_text, "postcopy-active");
    assert_string_equal(i.error_desc, "oh");
    assert_true(i.has_ram && i.has_downtime && i.has_postcopy_blocktime &&
                i.has_postcopy_latency);
    const uint64_t numbers[][2] = {
        {i.ram_transferred_bytes, 1},  {i.ram_remaining_bytes, 2},
        {i.ram_total_bytes, 3},        {i.ram_zero_pages, 4},
        {i.ram_normal_pages, 5},       {i.ram_dirty_pages_per_second, 6},
        {i.ram_dirty_sync_count, 8},   {i.ram_postcopy_requests, 9},
        {i.ram_page_size_bytes, 4096}, {i.ram_multifd_bytes, 21},
        {i.ram_pages_per_second, 22},  {i.ram_precopy_bytes, 23},
        {i.ram_downtime_bytes, 24},    {i.ram_postcopy_bytes, 25},
        {i.total_time_ms, 11},         {i.setup_time_ms, 12},
        {i.expected_downtime_ms, 13},  {i.downtime_ms, 0},
        {i.postcopy_blocktime_ms, 14}, {i.postcopy_latency_ns, 15}};
    for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
        assert_int_equal(numbers[n][0], numbers[n][1]);
    }
    assert_true(i.ram_megabits_per_second == 7.5);
    json_object_put(json);
}

static void an_empty_query_migrate_is_none(void **state)
{
    struct json_object *json = json_tokener_parse("{}");
    struct qmp_migrate_info i;
    struct error err = ERROR_INIT;

    assert_int_equal(qmp_migrate_parse_info(json, &i, NULL), 0);
    assert_int_equal(i.status, QMP_MIGRATE_NONE);
    assert_string_equal(i.status_text, "none");
    assert_false(i.has_ram || i.has_downtime || i.has_postcopy_blocktime);
    json_object_put(json);
    json = json_tokener_parse("{\"status\": \"frozen\"}");
    assert_int_equal(qmp_migrate_parse_info(json, &i, NULL), 0);
    assert_int_equal(i.status, QMP_MIGRATE_UNKNOWN);
    assert_string_equal(i.status_text, "frozen");
    json_object_put(json);
    assert_int_equal(qmp_migrate_parse_info(NULL, &i, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
}

/* QEMU 7.2 */
static const char table_7_2[] =
    "              Block Name    PSize              Offset               Used "
    "             Total\r\n"
    "                  pc.ram    4 KiB  0x0000000000000000 0x0000000004000000 "
    "0x0000000004000000\r\n"
    "  0000:00:02.0/vga.vram with a rather long name    2 MiB  "
    "0x0000000004080000 0x0000000000020000 0x0000000000200000\r\n"
    "                    big    1 GiB  0x0000000000000000 0x0000000140000000 "
    "0x0000000140000000\r\n";
/* QEMU 8.1 and later, to 10.x */
static const char table_10_0[] =
    "              Block Name    PSize              Offset               Used "
    "             Total                HVA  RO\n"
    "                  pc.ram    4 KiB  0x0000000000000000 0x0000000004000000 "
    "0x0000000004000000 0x00007f12ebe00000  rw\n"
    "                 pc.rom   64 KiB  0x0000000004000000 0x0000000000020000 "
    "0x0000000000020000 0x00007f12ebc00000  ro\n";

static void block_tables_of_old_and_new_qemus_are_read(void **state)
{
    struct qmp_ram_block *b = NULL;
    size_t count = 0;

    assert_int_equal(qmp_migrate_parse_ram_blocks(table_7_2, &b, &count, NULL),
                     0);
    assert_int_equal(count, 3);
    assert_string_equal(b[0].name, "pc.ram");
    assert_int_equal(b[0].page_size_bytes, 4096);
    assert_int_equal(b[0].used_bytes, 0x4000000);
    assert_int_equal(b[0].total_bytes, 0x4000000);
    assert_string_equal(b[1].name,
                        "0000:00:02.0/vga.vram with a rather long name");
    assert_int_equal(b[1].page_size_bytes, 2 << 20);
    assert_int_equal(b[1].used_bytes, 0x20000);
    assert_int_equal(b[1].total_bytes, 0x200000);
    assert_int_equal(b[2].page_size_bytes, 1 << 30);
    assert_int_equal(b[2].total_bytes, 0x140000000);
    free(b);
    assert_int_equal(qmp_migrate_parse_ram_blocks(table_10_0, &b, &count, NULL),
                     0);
    assert_int_equal(count, 2);
    assert_string_equal(b[1].name, "pc.rom");
    assert_int_equal(b[1].page_size_bytes, 65536);
    assert_int_equal(b[1].used_bytes, 0x20000);
    free(b);
}

/* Rows may end in any of both characters: each row has its place. */
static void each_kind_of_line_end_is_counted(void **state)
{
    struct qmp_ram_block *b = NULL;
    size_t count = 0;

    assert_int_equal(qmp_migrate_parse_ram_blocks(
                         "Block Name PSize\ra 4 KiB 0x0 0x1 0x1\rb 4 KiB 0x0 "
                         "0x1 0x1\r\r\nc 4 KiB 0x0 0x1 0x1\r",
                         &b, &count, NULL),
                     0);
    assert_int_equal(count, 3);
    assert_string_equal(b[2].name, "c");
    free(b);
}

#define HEAD "Block Name PSize Offset Used Total\n"

static void other_tables_are_refused_with_their_row(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "not a block table"},
        {"unknown command: 'info ramblock'\r\n", "not a block table"},
        {HEAD "pc.ram 4 KiB 0x0 0x1\n", "row \"pc.ram 4 KiB 0x0 0x1\""},
        {HEAD "pc.ram 4 0x0 0x1 0x1\n", "row"},
        {HEAD "4 KiB 0x0 0x1 0x1\n", "row"},
        {HEAD "pc.ram 4 XiB 0x0 0x1 0x1\n", "row"},
        {HEAD "pc.ram 0 KiB 0x0 0x1 0x1\n", "row"},
        {HEAD "pc.ram 4 KiB 0x0 0x2 0x1\n", "row"},
        {HEAD "pc.ram\n", "row"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct qmp_ram_block *b = NULL;
        size_t count = 7;
        struct error err = ERROR_INIT;
        assert_int_equal(
            qmp_migrate_parse_ram_blocks(bad[i].text, &b, &count, &err), -1);
        assert_int_equal(err.code, ERR_PROTOCOL);
        assert_non_null(strstr(err.text, bad[i].says));
        assert_null(b);
        assert_int_equal(count, 7);
    }
}

static void a_table_without_end_is_refused(void **state)
{
    size_t size = 2 * QMP_RAM_BLOCKS_MAX + 10;
    char *text = malloc(size + 1);
    struct qmp_ram_block *b;
    size_t count;
    struct error err = ERROR_INIT;

    memset(text, '\n', size);
    text[size] = '\0';
    assert_int_equal(qmp_migrate_parse_ram_blocks(text, &b, &count, &err), -1);
    assert_non_null(strstr(err.text, "more than 4096 rows"));
    free(text);
}

/* --- typed commands against a scripted server --------------------------- */

struct fixture {
    struct loop *loop;
    struct fake_qemu *fake;
    struct qmp *qmp;
    bool is_done;
    char text[600]; /* what the callback was given */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->loop = loop_new("test", NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    qmp_close(f->qmp);
    fake_qemu_free(f->fake);
    loop_free(f->loop);
    free(f);
    return 0;
}

static const struct qmp_ops no_ops = {0};

static void open_ready(struct fixture *f, const char *script)
{
    f->fake = fake_qemu_new(f->loop, script);
    f->qmp = qmp_open(f->loop, fake_qemu_take_fd(f->fake), NULL, &no_ops, NULL,
                      NULL);
    while (!qmp_is_ready(f->qmp)) {
        fake_qemu_run_for(f->loop, MP_MS);
    }
}

static void expect(struct fixture *f, const char *text)
{
    if (!fake_qemu_run_until(f->loop, &f->is_done)) {
        fail_msg("no callback");
    }
    assert_string_equal(f->text, text);
    f->is_done = false;
}

static void finish(struct fixture *f, const struct error *err, const char *text)
{
    f->is_done = true;
    if (err) {
        snprintf(f->text, sizeof(f->text), "%.40s: %.500s",
                 error_class(err->code), err->text);
    } else {
        snprintf(f->text, sizeof(f->text), "%.500s", text);
    }
}

static void done_cb(void *arg, const struct error *err)
{
    finish(arg, err, "done");
}

static void text_cb(void *arg, const char *text, const struct error *err)
{
    finish(arg, err, text);
}

static void run_status_cb(void *arg, const struct qmp_run_status *status,
                          const struct error *err)
{
    char text[64] = "";

    if (status) {
        snprintf(text, sizeof(text), "%s %d", status->text, status->running);
    }
    finish(arg, err, text);
}

static void blocks_cb(void *arg, const struct qmp_ram_block *blocks,
                      size_t count, const struct error *err)
{
    char text[300] = "";

    if (!err) {
        snprintf(text, sizeof(text), "%zu %s", count, blocks[0].name);
    }
    finish(arg, err, text);
}

static void probe_cb(void *arg, const struct qmp_probe *probe,
                     const struct error *err)
{
    char text[64] = "";

    if (probe) {
        snprintf(text, sizeof(text), "sure %d, postcopy %d, while-blocked %d",
                 probe->is_sure, probe->can[QMP_CAN_POSTCOPY],
                 probe->can[QMP_CAN_PREEMPT_WHILE_BLOCKED]);
    }
    finish(arg, err, text);
}

static void texts_are_read_and_bounded(void **state)
{
    struct fixture *f = *state;
    char script[2000], long_name[300];

    memset(long_name, 'x', 256);
    long_name[256] = '\0';
    snprintf(script, sizeof(script),
             "handshake\nexpect query-name {}\nreply query-name {\"name\": "
             "\"vm1\"}\nexpect query-name\nreply query-name {}\n"
             "expect query-name\nreply query-name {\"name\": \"%s\"}\n"
             "expect query-uuid {}\nreply query-uuid {\"UUID\": \"1-2\"}\n"
             "expect query-uuid\nreply query-uuid {}\n"
             "expect qom-get {\"path\": \"/machine\", \"property\": \"type\"}\n"
             "reply qom-get \"pc-q35-7.2-machine\"\n"
             "expect qom-get\nreply qom-get 5\nexpect qom-get\n"
             "error qom-get GenericError no such property\nstay",
             long_name);
    open_ready(f, script);
    qmp_migrate_query_name(f->qmp, T, text_cb, f);
    expect(f, "vm1");
    qmp_migrate_query_name(f->qmp, T, text_cb, f);
    expect(f, "");
    qmp_migrate_query_name(f->qmp, T, text_cb, f);
    expect(f, "protocol: query-name: name longer than 255 bytes");
    qmp_migrate_query_uuid(f->qmp, T, text_cb, f);
    expect(f, "1-2");
    qmp_migrate_query_uuid(f->qmp, T, text_cb, f);
    expect(f, "protocol: query-uuid: QEMU's answer has no UUID");
    qmp_migrate_query_machine_type(f->qmp, T, text_cb, f);
    expect(f, "pc-q35-7.2");
    qmp_migrate_query_machine_type(f->qmp, T, text_cb, f);
    expect(f, "protocol: qom-get: QEMU's answer has no machine type");
    qmp_migrate_query_machine_type(f->qmp, T, text_cb, f);
    expect(f, "qmp: qom-get: no such property (GenericError)");
}

static void run_status_and_blocks_are_read(void **state)
{
    struct fixture *f = *state;

    open_ready(
        f,
        "handshake\nexpect query-status {}\nreply query-status {\"status\": "
        "\"paused\", \"running\": false, \"singlestep\": false}\n"
        "expect query-status\nreply query-status {\"status\": \"paused\"}\n"
        "expect human-monitor-command {\"command-line\": \"info ramblock\"}\n"
        "reply human-monitor-command \"Block Name PSize\\r\\npc.ram 4 KiB "
        "0x0 0x1 0x2\\r\\n\"\n"
        "expect human-monitor-command\nreply human-monitor-command {}\nstay");
    qmp_migrate_query_status(f->qmp, T, run_status_cb, f);
    expect(f, "paused 0");
    qmp_migrate_query_status(f->qmp, T, run_status_cb, f);
    expect(f,
           "protocol: query-status: QEMU's answer has no status and running");
    qmp_migrate_query_ram_blocks(f->qmp, T, blocks_cb, f);
    expect(f, "1 pc.ram");
    qmp_migrate_query_ram_blocks(f->qmp, T, blocks_cb, f);
    expect(f, "protocol: info ramblock: QEMU's answer has no text");
}

static void commands_have_qemus_names_and_arguments(void **state)
{
    struct fixture *f = *state;

    open_ready(
        f, "handshake\nexpect migrate {\"uri\": \"unix:/a\"}\nreply migrate {}"
           "\nexpect migrate {\"uri\": \"unix:/a\", \"resume\": true}\n"
           "reply migrate {}\n"
           "expect migrate-incoming {\"uri\": \"unix:/b\"}\n"
           "reply migrate-incoming {}\n"
           "expect migrate-incoming {\"uri\": \"unix:/b\", \"exit-on-error\": "
           "false}\nreply migrate-incoming {}\n"
           "expect migrate-continue {\"state\": \"pre-switchover\"}\n"
           "error migrate-continue GenericError not now\n"
           "expect migrate-set-parameters {\"max-bandwidth\": 5000}\n"
           "reply migrate-set-parameters {}\n"
           "expect migrate-set-parameters {\"max-bandwidth\": "
           "1125899906842624}\nreply migrate-set-parameters {}\nstay");
    qmp_migrate_start(f->qmp, "unix:/a", false, T, done_cb, f);
    expect(f, "done");
    qmp_migrate_start(f->qmp, "unix:/a", true, T, done_cb, f);
    expect(f, "done");
    qmp_migrate_incoming(f->qmp, "unix:/b", false, T, done_cb, f);
    expect(f, "done");
    qmp_migrate_incoming(f->qmp, "unix:/b", true, T, done_cb, f);
    expect(f, "done");
    qmp_migrate_continue(f->qmp, T, done_cb, f);
    expect(f, "qmp: migrate-continue: not now (GenericError)");
    qmp_migrate_set_bandwidth(f->qmp, 9, T, done_cb, f);
    expect(f, "bad-request: a bandwidth of 9 bytes/s: QEMU would take it for "
              "unlimited, the least is 10");
    qmp_migrate_set_bandwidth(f->qmp, 5000, T, done_cb, f);
    expect(f, "done");
    qmp_migrate_set_bandwidth(f->qmp, UINT64_MAX, T, done_cb, f);
    expect(f, "done");
}

static void urgent_commands_go_out_of_band_where_possible(void **state)
{
    struct fixture *f = *state;

    open_ready(f, "handshake\nexpect-oob migrate-pause {}\n"
                  "reply migrate-pause {}\n"
                  "expect-oob migrate-recover {\"uri\": \"unix:/b\"}\n"
                  "reply migrate-recover {}\n"
                  "expect-oob yank {\"instances\": [{\"type\": "
                  "\"migration\"}]}\n"
                  "error yank DeviceNotFound Instance not found\n"
                  "expect-oob yank\nerror yank GenericError x\nstay");
    qmp_migrate_pause(f->qmp, T, done_cb, f);
    expect(f, "done");
    qmp_migrate_recover(f->qmp, "unix:/b", T, done_cb, f);
    expect(f, "done");
    qmp_migrate_yank(f->qmp, T, done_cb, f); /* nothing to yank is fine */
    expect(f, "done");
    qmp_migrate_yank(f->qmp, T, done_cb, f);
    expect(f, "qmp: yank: x (GenericError)");
}

static void without_oob_urgent_commands_go_in_band(void **state)
{
    struct fixture *f = *state;

    open_ready(f, "handshake no-oob\nexpect migrate-pause {}\n"
                  "reply migrate-pause {}\nexpect yank\nreply yank {}\nstay");
    qmp_migrate_pause(f->qmp, T, done_cb, f);
    expect(f, "done");
    qmp_migrate_yank(f->qmp, T, done_cb, f);
    expect(f, "done");
}

static void the_probe_asks_twice_and_survives_refusals(void **state)
{
    struct fixture *f = *state;
    char script[6000];
    struct json_object *schema = make_schema("", "", "", "", "");
    const char *text =
        json_object_to_json_string_ext(schema, JSON_C_TO_STRING_PLAIN);

    snprintf(script, sizeof(script),
             "handshake\nexpect query-qmp-schema {}\nreply query-qmp-schema %s"
             "\nexpect qom-list-properties {\"typename\": \"migration\"}\n"
             "reply qom-list-properties [{\"name\": \"x-preempt-pre-7-2\"}]\n"
             "expect query-qmp-schema\nreply query-qmp-schema %s\n"
             "expect qom-list-properties\n"
             "error qom-list-properties DeviceNotFound no class\n"
             "expect query-qmp-schema\n"
             "error query-qmp-schema CommandNotFound none\n"
             "expect query-qmp-schema\n"
             "error query-qmp-schema GenericError broken\nstay",
             text, text);
    json_object_put(schema);
    open_ready(f, script);
    qmp_probe_read(f->qmp, T, probe_cb, f);
    expect(f, "sure 1, postcopy 1, while-blocked 1");
    qmp_probe_read(f->qmp, T, probe_cb, f);
    expect(f, "sure 0, postcopy 1, while-blocked 0");
    qmp_probe_read(f->qmp, T, probe_cb, f);
    expect(f, "sure 0, postcopy 0, while-blocked 0");
    qmp_probe_read(f->qmp, T, probe_cb, f);
    expect(f, "qmp: query-qmp-schema: broken (GenericError)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_qemu_has_few_virtues),
        cmocka_unit_test(each_virtue_is_found_where_it_stands),
        cmocka_unit_test(what_is_no_schema_gives_the_careful_guess),
        cmocka_unit_test(the_careful_guess_believes_in_vices_only),
        cmocka_unit_test(statuses_have_names_both_ways),
        cmocka_unit_test(a_status_is_read_from_its_event),
        cmocka_unit_test(all_of_query_migrate_is_read),
        cmocka_unit_test(an_empty_query_migrate_is_none),
        cmocka_unit_test(block_tables_of_old_and_new_qemus_are_read),
        cmocka_unit_test(each_kind_of_line_end_is_counted),
        cmocka_unit_test(other_tables_are_refused_with_their_row),
        cmocka_unit_test(a_table_without_end_is_refused),
        TEST(texts_are_read_and_bounded),
        TEST(run_status_and_blocks_are_read),
        TEST(commands_have_qemus_names_and_arguments),
        TEST(urgent_commands_go_out_of_band_where_possible),
        TEST(without_oob_urgent_commands_go_in_band),
        TEST(the_probe_asks_twice_and_survives_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
