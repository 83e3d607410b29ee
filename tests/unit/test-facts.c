// SPDX-License-Identifier: BSD-3-Clause
/* What two QEMUs say of themselves: carried as JSON, and compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/facts.h"
#include "tests/lib/fake-qemu.h"

#define MIB UINT64_C(1048576)

static void add_block(struct facts *facts, const char *name, uint64_t page,
                      uint64_t used, uint64_t total)
{
    facts->blocks = realloc(facts->blocks,
                            (facts->block_count + 1) * sizeof(*facts->blocks));
    struct qmp_ram_block *block = &facts->blocks[facts->block_count++];
    memset(block, 0, sizeof(*block));
    snprintf(block->name, sizeof(block->name), "%s", name);
    block->page_size_bytes = page;
    block->used_bytes = used;
    block->total_bytes = total;
}

static struct facts make(void)
{
    struct facts facts = {
        .name = "web",
        .uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        .machine = "pc-q35-7.2",
        .version = "7.2.22",
        .status = {.text = "running", .running = true},
    };

    qmp_probe_init(&facts.probe);
    add_block(&facts, "pc.ram", 4096, 512 * MIB, 512 * MIB);
    add_block(&facts, "/rom@etc/acpi/tables", 4096, 131072, 2 * MIB);
    add_block(&facts, "0000:00:02.0/vga.vram", 4096, 16 * MIB, 16 * MIB);
    return facts;
}

static void json_round_trip(void **state)
{
    struct facts facts = make(), got;
    struct error err = ERROR_INIT;

    for (int i = 0; i < QMP_BEHAVIOURS; i++) {
        facts.probe.can[i] = i % 3 == 0;
    }
    json_object *json = facts_to_json(&facts);
    const char *text = json_object_to_json_string(json);
    json_object *again = json_tokener_parse(text);
    assert_int_equal(facts_from_json(again, &got, &err), 0);
    assert_string_equal(got.name, facts.name);
    assert_string_equal(got.uuid, facts.uuid);
    assert_string_equal(got.machine, facts.machine);
    assert_string_equal(got.version, facts.version);
    assert_string_equal(got.status.text, "running");
    assert_int_equal(got.block_count, facts.block_count);
    for (size_t i = 0; i < facts.block_count; i++) {
        assert_string_equal(got.blocks[i].name, facts.blocks[i].name);
        assert_int_equal(got.blocks[i].page_size_bytes,
                         facts.blocks[i].page_size_bytes);
        assert_int_equal(got.blocks[i].used_bytes, facts.blocks[i].used_bytes);
        assert_int_equal(got.blocks[i].total_bytes,
                         facts.blocks[i].total_bytes);
    }
    for (int i = 0; i < QMP_BEHAVIOURS; i++) {
        assert_int_equal(got.probe.can[i], facts.probe.can[i]);
    }
    assert_null(got.caps);
    json_object *back = facts_to_json(&got);
    assert_true(json_object_equal(json, back));
    json_object_put(back);
    json_object_put(json);
    json_object_put(again);
    facts_done(&facts);
    facts_done(&got);
}

/* A newer or older daemon may know other behaviours: what it does not say is
 * the careful guess, what we do not know is nothing. */
static void behaviours_that_are_not_said(void **state)
{
    struct facts facts = make(), got;
    struct qmp_probe careful;
    json_object *json = facts_to_json(&facts);

    qmp_probe_init(&careful);
    json_object_object_del(json, "behaviours");
    assert_int_equal(facts_from_json(json, &got, NULL), 0);
    assert_memory_equal(got.probe.can, careful.can, sizeof(careful.can));
    facts_done(&got);

    json_object *some = json_object_new_object();
    json_object_object_add(some, "postcopy", json_object_new_boolean(true));
    json_object_object_add(some, "flying", json_object_new_boolean(true));
    json_object_object_add(some, "yank", json_object_new_string("yes"));
    json_object_object_add(json, "behaviours", some);
    assert_int_equal(facts_from_json(json, &got, NULL), 0);
    assert_true(got.probe.can[QMP_CAN_POSTCOPY]);
    assert_int_equal(got.probe.can[QMP_CAN_YANK], careful.can[QMP_CAN_YANK]);
    facts_done(&got);
    json_object_put(json);
    facts_done(&facts);
}

/* member, its value as JSON (or NULL: it is missing), what the error names */
static void each_bad_member_is_named(void **state)
{
    static const struct {
        const char *member, *value, *named;
    } rows[] = {
        {"name", NULL, "\"name\""},
        {"name", "7", "\"name\""},
        {"uuid", NULL, "\"uuid\""},
        {"uuid", "\"01234567890123456789012345678901234567890\"", "\"uuid\""},
        {"machine", "null", "\"machine\""},
        {"qemu", "{}", "\"qemu\""},
        {"status", NULL, "\"status\""},
        {"status", "\"0123456789012345678901234567890123\"", "\"status\""},
        {"blocks", NULL, "\"blocks\""},
        {"blocks", "{}", "\"blocks\""},
        {"blocks", "[7]", "RAM block 0"},
        {"blocks", "[{\"name\":\"a\"}]", "RAM block 0"},
        {"blocks",
         "[{\"name\":\"a\",\"page_size_bytes\":1,\"used_bytes\":1,"
         "\"total_bytes\":1},{\"name\":\"b\",\"page_size_bytes\":-1,"
         "\"used_bytes\":1,\"total_bytes\":1}]",
         "RAM block 1"},
        {"blocks",
         "[{\"name\":\"a\",\"page_size_bytes\":1,\"used_bytes\":\"1\","
         "\"total_bytes\":1}]",
         "RAM block 0"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct facts facts = make(), got;
        struct error err = ERROR_INIT;
        json_object *json = facts_to_json(&facts);
        json_object_object_del(json, rows[i].member);
        if (rows[i].value) {
            json_object_object_add(json, rows[i].member,
                                   json_tokener_parse(rows[i].value));
        }
        if (facts_from_json(json, &got, &err) != -1 ||
            err.code != ERR_PROTOCOL || !strstr(err.text, rows[i].named)) {
            fail_msg("%s = %s: %s", rows[i].member,
                     rows[i].value ? rows[i].value : "missing", err.text);
        }
        json_object_put(json);
        facts_done(&facts);
    }
}

static void no_more_blocks_than_the_limit(void **state)
{
    struct facts facts = make(), got;
    struct error err = ERROR_INIT;
    char name[32];

    while (facts.block_count < FACTS_BLOCKS_MAX) {
        snprintf(name, sizeof(name), "block-%zu", facts.block_count);
        add_block(&facts, name, 4096, MIB, MIB);
    }
    json_object *json = facts_to_json(&facts);
    assert_int_equal(facts_from_json(json, &got, &err), 0);
    assert_int_equal(got.block_count, FACTS_BLOCKS_MAX);
    facts_done(&got);
    json_object_put(json);

    add_block(&facts, "one-too-many", 4096, MIB, MIB);
    json = facts_to_json(&facts);
    assert_int_equal(facts_from_json(json, &got, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "257"));
    assert_non_null(strstr(err.text, "256"));
    json_object_put(json);
    facts_done(&facts);
}

/* Of guests whose page sizes need no translation. */
static int compare(const struct facts *a, const struct facts *b, bool postcopy,
                   struct error *err)
{
    struct small_pages *sizes;
    int rc = facts_compare(a, b, postcopy, &sizes, err);

    assert_null(sizes);
    return rc;
}

static void the_same_fits(void **state)
{
    struct facts a = make(), b = make();

    assert_int_equal(compare(&a, &b, false, NULL), 0);
    assert_int_equal(compare(&a, &b, true, NULL), 0);
    facts_done(&a);
    facts_done(&b);
}

static struct qmp_ram_block *block(struct facts *facts, const char *name)
{
    for (size_t i = 0; i < facts->block_count; i++) {
        if (!strcmp(facts->blocks[i].name, name)) {
            return &facts->blocks[i];
        }
    }
    fail_msg("no block %s", name);
    return NULL;
}

static void change_uuid(struct facts *facts)
{
    strcpy(facts->uuid, "00000000-0000-0000-0000-000000000000");
}

static void change_machine(struct facts *facts)
{
    strcpy(facts->machine, "pc-i440fx-6.2");
}

static void change_size(struct facts *facts)
{
    block(facts, "pc.ram")->total_bytes = 1024 * MIB;
}

static void change_page(struct facts *facts)
{
    block(facts, "pc.ram")->page_size_bytes = 2 * MIB;
}

static void change_name(struct facts *facts)
{
    strcpy(block(facts, "0000:00:02.0/vga.vram")->name, "0000:00:03.0/nic");
}

static void drop_block(struct facts *facts)
{
    facts->block_count--; /* vga.vram */
}

static void drop_rom(struct facts *facts)
{
    *block(facts, "/rom@etc/acpi/tables") = facts->blocks[2];
    facts->block_count--;
}

static void change_rom_size(struct facts *facts)
{
    block(facts, "/rom@etc/acpi/tables")->total_bytes = 4 * MIB;
}

static void change_used(struct facts *facts)
{
    block(facts, "pc.ram")->used_bytes = MIB;
}

static void change_other_things(struct facts *facts)
{
    strcpy(facts->name, "other");
    strcpy(facts->version, "10.0.0");
    strcpy(facts->status.text, "inmigrate");
}

/* what is done to the destination, in postcopy or not, and what the error must
 * name: both values */
static void each_mismatch_names_both_values(void **state)
{
    static const struct {
        void (*change)(struct facts *facts);
        bool postcopy;
        const char *here, *there; /* NULL: it fits */
    } rows[] = {
        {change_uuid, false, "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
         "00000000-0000-0000-0000-000000000000"},
        {change_machine, false, "pc-q35-7.2", "pc-i440fx-6.2"},
        {change_size, false, "536870912", "1073741824"},
        {change_size, true, "536870912", "1073741824"},
        {change_page, true, "4096", "2097152"},
        {change_page, false, NULL, NULL}, /* precopy does not care */
        {change_name, false, "0000:00:02.0/vga.vram", "16777216"},
        {drop_block, false, "0000:00:02.0/vga.vram", "16777216"},
        {change_rom_size, false, NULL, NULL}, /* QEMU resizes it */
        {change_used, false, NULL, NULL},
        {change_other_things, true, NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct facts a = make(), b = make();
        struct error err = ERROR_INIT;
        rows[i].change(&b);
        int rc = compare(&a, &b, rows[i].postcopy, &err);
        if (rows[i].here ? rc != -1 || err.code != ERR_MISMATCH ||
                               !strstr(err.text, rows[i].here) ||
                               !strstr(err.text, rows[i].there)
                         : rc != 0) {
            fail_msg("row %zu: %d %s", i, rc, err.text);
        }
        facts_done(&a);
        facts_done(&b);
    }
}

/* A block that only the destination has would stay as it is: refused, unless it
 * is a ROM. */
static void blocks_only_the_destination_has(void **state)
{
    struct facts a = make(), b = make();
    struct error err = ERROR_INIT;

    drop_rom(&a);
    assert_int_equal(compare(&a, &b, true, &err), 0);
    add_block(&b, "0000:00:04.0/virtio-net-pci.rom", 4096, MIB, MIB);
    assert_int_equal(compare(&a, &b, true, &err), 0);
    add_block(&b, "dimm1", 4096, MIB, MIB);
    assert_int_equal(compare(&a, &b, true, &err), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    assert_non_null(strstr(err.text, "dimm1"));
    facts_done(&a);
    facts_done(&b);
}

/* Huge pages fit into ordinary memory, in a postcopy by translation. */
static void huge_pages_are_received_as_ordinary_memory(void **state)
{
    struct facts a = make(), b = make();
    struct error err = ERROR_INIT;
    struct small_pages *sizes;

    change_page(&a);
    assert_int_equal(facts_compare(&a, &b, false, &sizes, &err), 0);
    assert_null(sizes);
    assert_int_equal(facts_compare(&a, &b, true, &sizes, &err), 0);
    assert_non_null(sizes);
    assert_int_equal(sizes->count, a.block_count);
    assert_int_equal(small_pages_find(sizes, "pc.ram")->source_page_bytes,
                     2 * MIB);
    assert_int_equal(small_pages_find(sizes, "pc.ram")->destination_page_bytes,
                     4096);
    free(sizes);
    block(&a, "pc.ram")->page_size_bytes = 1024 * MIB;
    change_page(&b);
    assert_int_equal(facts_compare(&a, &b, true, &sizes, &err), -1);
    assert_null(sizes);
    assert_non_null(strstr(err.text, "1073741824"));
    assert_non_null(strstr(err.text, "2097152"));
    assert_non_null(strstr(err.text, "--mode precopy"));
    facts_done(&a);
    facts_done(&b);
}

/* Gathering ---------------------------------------------------------------- */

struct gathered {
    struct facts facts;
    struct error err;
    bool is_done;
};

static void on_facts(void *arg, struct facts *facts, const struct error *err)
{
    struct gathered *g = arg;

    assert_false(g->is_done);
    g->is_done = true;
    if (facts) {
        g->facts = *facts;
    } else {
        g->err = *err;
    }
}

static void ready(void *arg)
{
    *(bool *)arg = true;
}

static const struct qmp_ops ops = {.on_ready = ready};

#define ALL_BUT_BLOCKS                                                         \
    "always query-name {\"name\":\"web\"}\n"                                   \
    "always query-uuid {\"UUID\":\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\"}\n"  \
    "always qom-get \"pc-q35-7.2-machine\"\n"                                  \
    "always query-status {\"status\":\"paused\",\"running\":false}\n"          \
    "always query-migrate {}\n"                                                \
    "always query-qmp-schema []\n"                                             \
    "always qom-list-properties []\n"                                          \
    "always query-migrate-capabilities [{\"capability\":\"events\","           \
    "\"state\":true}]\n"                                                       \
    "always query-migrate-parameters {\"max-bandwidth\":7}\n"

static struct gathered gather(const char *script)
{
    struct gathered g = {.err = ERROR_INIT};
    struct error err = ERROR_INIT;
    struct loop *loop = loop_new("test", &err);
    struct fake_qemu *fake = fake_qemu_new(loop, script);
    bool is_ready = false;
    struct qmp *qmp =
        qmp_open(loop, fake_qemu_take_fd(fake), NULL, &ops, &is_ready, &err);

    assert_non_null(qmp);
    assert_true(fake_qemu_run_until(loop, &is_ready));
    facts_gather(qmp, 5 * MP_SECOND, on_facts, &g);
    assert_false(g.is_done);
    assert_true(fake_qemu_run_until(loop, &g.is_done));
    qmp_close(qmp);
    fake_qemu_free(fake);
    loop_free(loop);
    return g;
}

/* The table as QEMU writes it, with count rows. */
static char *block_table(unsigned count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    fprintf(out, "always human-monitor-command \"  Block Name  PSize  Offset "
                 "Used  Total\\r\\n");
    for (unsigned i = 0; i < count; i++) {
        fprintf(out, "block-%u  4 KiB  0x0 0x1000 0x2000\\r\\n", i);
    }
    fprintf(out, "\"\n");
    fclose(out);
    return text;
}

/* query-qmp-schema [] is no schema we can read: the whole is an error that says
 * so, and what had been gathered is freed. */
static void an_answer_that_is_none_fails_the_whole(void **state)
{
    char *table = block_table(2), *script;

    assert_true(
        asprintf(&script, "stay\n" ALL_BUT_BLOCKS "%shandshake\n", table) > 0);
    struct gathered g = gather(script);
    assert_int_equal(g.err.code, ERR_PROTOCOL);
    assert_non_null(strstr(g.err.text, "query-qmp-schema"));
    free(script);
    free(table);
}

#define NO_SCHEMA                                                              \
    "expect query-qmp-schema\n"                                                \
    "error query-qmp-schema CommandNotFound no such command\n"

/* The fake answers in order of arrival, so the schema's refusal comes where it
 * is asked for. */
static char *without_schema(const char *table)
{
    static const char all[] = ALL_BUT_BLOCKS;
    const char *schema = strstr(all, "always query-qmp-schema []\n");
    const char *rest = strchr(schema, '\n') + 1;
    char *script;

    assert_true(asprintf(&script, "stay\n%.*s%s%shandshake\n" NO_SCHEMA,
                         (int)(schema - all), all, rest, table) > 0);
    return script;
}

static void everything_is_gathered(void **state)
{
    char *table = block_table(3), *script = without_schema(table);
    struct gathered g = gather(script);

    assert_false(error_is_set(&g.err));
    assert_string_equal(g.facts.name, "web");
    assert_string_equal(g.facts.uuid, "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    assert_string_equal(g.facts.machine, "pc-q35-7.2");
    assert_string_equal(g.facts.version, "7.2.22");
    assert_string_equal(g.facts.status.text, "paused");
    assert_false(g.facts.status.running);
    assert_int_equal(g.facts.migrate.status, QMP_MIGRATE_NONE);
    assert_false(g.facts.probe.is_sure);
    assert_true(qmp_caps_is_on(g.facts.caps, "events"));
    assert_int_equal(g.facts.block_count, 3);
    assert_string_equal(g.facts.blocks[2].name, "block-2");
    facts_done(&g.facts);
    facts_done(&g.facts); /* may be done twice */
    free(script);
    free(table);
}

static void too_many_blocks_of_qemu(void **state)
{
    char *table = block_table(FACTS_BLOCKS_MAX + 1);
    char *script = without_schema(table);
    struct gathered g = gather(script);

    assert_int_equal(g.err.code, ERR_LIMIT);
    assert_non_null(strstr(g.err.text, "257"));
    assert_non_null(strstr(g.err.text, "256"));
    free(script);
    free(table);
}

/* The monitor is closed in the middle: one callback, cancelled. */
static void closing_ends_it_once(void **state)
{
    struct error err = ERROR_INIT;
    struct loop *loop = loop_new("test", &err);
    struct fake_qemu *fake =
        fake_qemu_new(loop, "stay\nalways query-name {\"name\":\"web\"}\n"
                            "handshake\nexpect query-uuid\n");
    struct gathered g = {.err = ERROR_INIT};
    bool is_ready = false;
    struct qmp *qmp =
        qmp_open(loop, fake_qemu_take_fd(fake), NULL, &ops, &is_ready, &err);

    assert_true(fake_qemu_run_until(loop, &is_ready));
    facts_gather(qmp, 5 * MP_SECOND, on_facts, &g);
    fake_qemu_run_for(loop, 20 * MP_MS);
    assert_false(g.is_done);
    qmp_close(qmp);
    assert_true(g.is_done);
    assert_int_equal(g.err.code, ERR_CANCELLED);
    fake_qemu_free(fake);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_round_trip),
        cmocka_unit_test(behaviours_that_are_not_said),
        cmocka_unit_test(each_bad_member_is_named),
        cmocka_unit_test(no_more_blocks_than_the_limit),
        cmocka_unit_test(the_same_fits),
        cmocka_unit_test(each_mismatch_names_both_values),
        cmocka_unit_test(blocks_only_the_destination_has),
        cmocka_unit_test(huge_pages_are_received_as_ordinary_memory),
        cmocka_unit_test(an_answer_that_is_none_fails_the_whole),
        cmocka_unit_test(everything_is_gathered),
        cmocka_unit_test(too_many_blocks_of_qemu),
        cmocka_unit_test(closing_ends_it_once),
    };
    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
