// SPDX-License-Identifier: BSD-3-Clause
/* Typed commands for migrations: the pure part, answers to values. */
#include "qmp/qmp-migrate.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmp/json-value.h"
#include "util/cleanup.h"

/* --- MigrationStatus ---------------------------------------------------- */

#define STATUS_NAME(symbol, name) [symbol] = name,
static const char *const status_names[] = {
    QMP_MIGRATE_STATUS_TABLE(STATUS_NAME)};
#undef STATUS_NAME

_Static_assert(sizeof(status_names) / sizeof(status_names[0]) ==
                   QMP_MIGRATE_STATUSES,
               "each status has a name");

const char *qmp_migrate_status_name(enum qmp_migrate_status status)
{
    return (unsigned)status < QMP_MIGRATE_STATUSES ? status_names[status]
                                                   : "unknown";
}

enum qmp_migrate_status qmp_migrate_status_parse(const char *name)
{
    for (int i = 0; i < QMP_MIGRATE_STATUSES; i++) {
        if (!strcmp(name, status_names[i])) {
            return (enum qmp_migrate_status)i;
        }
    }
    return QMP_MIGRATE_UNKNOWN;
}

bool qmp_migrate_status_is_postcopy(enum qmp_migrate_status status)
{
    return status == QMP_MIGRATE_POSTCOPY_ACTIVE ||
           status == QMP_MIGRATE_POSTCOPY_PAUSED ||
           status == QMP_MIGRATE_POSTCOPY_RECOVER_SETUP ||
           status == QMP_MIGRATE_POSTCOPY_RECOVER ||
           status == QMP_MIGRATE_POSTCOPY_DEVICE;
}

bool qmp_migrate_status_is_final(enum qmp_migrate_status status)
{
    return status == QMP_MIGRATE_COMPLETED || status == QMP_MIGRATE_FAILED ||
           status == QMP_MIGRATE_CANCELLED;
}

bool qmp_migrate_status_of_event(const char *event_name,
                                 struct json_object *data,
                                 enum qmp_migrate_status *ret_status)
{
    const char *text;

    if (strcmp(event_name, "MIGRATION") != 0 ||
        !json_value_text(data, "status", &text)) {
        return false;
    }
    *ret_status = qmp_migrate_status_parse(text);
    return true;
}

/* --- query-migrate ------------------------------------------------------ */

static void parse_ram(struct json_object *ram, struct qmp_migrate_info *info)
{
    json_value_uint(ram, "transferred", &info->ram_transferred_bytes);
    json_value_uint(ram, "remaining", &info->ram_remaining_bytes);
    json_value_uint(ram, "total", &info->ram_total_bytes);
    json_value_uint(ram, "page-size", &info->ram_page_size_bytes);
    json_value_uint(ram, "duplicate", &info->ram_zero_pages);
    json_value_uint(ram, "normal", &info->ram_normal_pages);
    json_value_uint(ram, "dirty-pages-rate", &info->ram_dirty_pages_per_second);
    json_value_uint(ram, "dirty-sync-count", &info->ram_dirty_sync_count);
    json_value_uint(ram, "postcopy-requests", &info->ram_postcopy_requests);
    info->has_phase_bytes =
        json_value_uint(ram, "precopy-bytes", &info->ram_precopy_bytes);
    json_value_uint(ram, "postcopy-bytes", &info->ram_postcopy_bytes);
    json_value_uint(ram, "downtime-bytes", &info->ram_downtime_bytes);
    json_value_uint(ram, "multifd-bytes", &info->ram_multifd_bytes);
    json_value_uint(ram, "pages-per-second", &info->ram_pages_per_second);
    json_value_double(ram, "mbps", &info->ram_megabits_per_second);
}

int qmp_migrate_parse_info(struct json_object *result,
                           struct qmp_migrate_info *ret_info, struct error *err)
{
    struct qmp_migrate_info info;
    struct json_object *ram;
    const char *text = status_names[QMP_MIGRATE_NONE];

    if (!json_object_is_type(result, json_type_object)) {
        return error_set(err, ERR_PROTOCOL,
                         "query-migrate: QEMU's answer is no object");
    }
    memset(&info, 0, sizeof(info));
    json_value_text(result, "status", &text);
    info.status = qmp_migrate_status_parse(text);
    json_value_copy_text(info.status_text, sizeof(info.status_text), text);
    if (json_value_text(result, "error-desc", &text)) {
        json_value_copy_text(info.error_desc, sizeof(info.error_desc), text);
    }
    info.has_ram = json_value_object(result, "ram", &ram);
    if (info.has_ram) {
        parse_ram(ram, &info);
    }
    json_value_uint(result, "setup-time", &info.setup_time_ms);
    json_value_uint(result, "total-time", &info.total_time_ms);
    json_value_uint(result, "expected-downtime", &info.expected_downtime_ms);
    info.has_downtime = json_value_uint(result, "downtime", &info.downtime_ms);
    info.has_postcopy_blocktime = json_value_uint(result, "postcopy-blocktime",
                                                  &info.postcopy_blocktime_ms);
    info.has_postcopy_latency =
        json_value_uint(result, "postcopy-latency", &info.postcopy_latency_ns);
    *ret_info = info;
    return 0;
}

/* --- info ramblock ------------------------------------------------------ */

/* "4 KiB" as util/cutils.c, size_to_str() writes it. */
static bool parse_page_size(const char *number, const char *unit,
                            uint64_t *ret_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    char *end;
    unsigned long long value = strtoull(number, &end, 10);

    if (*end || end == number || value == 0 || value > 1023) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (!strcmp(unit, units[i])) {
            *ret_bytes = (uint64_t)value << (10 * i);
            return true;
        }
    }
    return false;
}

/* Cuts the last word off text, which it shortens; NULL if there is none. */
static char *cut_last_word(char *text)
{
    size_t end = strlen(text);
    while (end > 0 && text[end - 1] == ' ') {
        end--;
    }
    text[end] = '\0';
    char *space = strrchr(text, ' ');
    if (!space) {
        return NULL;
    }
    *space = '\0';
    return space + 1;
}

/* One row: name, page size and its unit, then offset, used and total in
 * hexadecimal; 8.1 and later add address and ro/rw. The name is what is left
 * of all that, so it may hold anything but " 0x". */
static bool parse_row(char *row, struct qmp_ram_block *block)
{
    unsigned long long offset, used, total;
    char *numbers = strstr(row, " 0x");

    if (!numbers ||
        sscanf(numbers, " 0x%llx 0x%llx 0x%llx", &offset, &used, &total) != 3 ||
        used > total) {
        return false;
    }
    *numbers = '\0';
    char *unit = cut_last_word(row);
    char *number = unit ? cut_last_word(row) : NULL;
    if (!number || !parse_page_size(number, unit, &block->page_size_bytes)) {
        return false;
    }
    while (*row == ' ') {
        row++;
    }
    size_t length = strlen(row);
    while (length > 0 && row[length - 1] == ' ') {
        row[--length] = '\0';
    }
    block->used_bytes = used;
    block->total_bytes = total;
    return length > 0 &&
           json_value_copy_text(block->name, sizeof(block->name), row);
}

/* At least as many as there are rows: "\r\n" counts twice. */
static size_t count_line_ends(const char *text)
{
    size_t count = 1;
    for (; *text; text++) {
        count += *text == '\n' || *text == '\r';
    }
    return count;
}

int qmp_migrate_parse_ram_blocks(const char *text,
                                 struct qmp_ram_block **ret_blocks,
                                 size_t *ret_count, struct error *err)
{
    size_t lines = count_line_ends(text), count = 0;
    char *next = NULL;

    if (lines > 2 * (QMP_RAM_BLOCKS_MAX + 2)) {
        return error_set(err, ERR_PROTOCOL, "info ramblock: more than %d rows",
                         QMP_RAM_BLOCKS_MAX);
    }
    CLEANUP_FREE char *copy = strdup(text);
    CLEANUP_FREE struct qmp_ram_block *blocks = calloc(lines, sizeof(*blocks));
    if (!copy || !blocks) {
        return error_set(err, ERR_NO_MEMORY, "info ramblock: out of memory");
    }
    char *row = strtok_r(copy, "\r\n", &next);
    if (!row || !strstr(row, "Block Name") || !strstr(row, "PSize")) {
        return error_set(err, ERR_PROTOCOL, "info ramblock: not a block table");
    }
    while ((row = strtok_r(NULL, "\r\n", &next))) {
        CLEANUP_FREE char *whole = strdup(row);
        if (!parse_row(row, &blocks[count])) {
            return error_set(err, ERR_PROTOCOL, "info ramblock: row \"%.100s\"",
                             whole ? whole : "");
        }
        count++;
    }
    *ret_blocks = steal_ptr(&blocks);
    *ret_count = count;
    return 0;
}
