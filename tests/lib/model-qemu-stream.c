// SPDX-License-Identifier: BSD-3-Clause
/* A model of QEMU in a migration: its main stream and what drives it.
 *
 * Source:       SETUP -> ACTIVE -> passes -> the guest stops ->
 *               PRE_SWITCHOVER -> DEVICE, the end, or POSTCOPY, the package,
 *               then the end -> SHUT comes -> COMPLETED
 * Destination:  SETUP -> 8 bytes: ACTIVE -> package: POSTCOPY, loaded ->
 *               end: loaded, COMPLETED, SHUT */
#include <arpa/inet.h>
#include <endian.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/model-qemu-private.h"

#define RAM_ID 2
#define RAM_BYTES 0x100000
#define PAGE_BYTES 4096
#define MARK_RUN "<the package is>"
#define MARK_END "<the stream ends>"
#define MARK_BYTES (sizeof(MARK_RUN) - 1)

static void step_pass(struct model_qemu *q);
static void enter_switchover(struct model_qemu *q);

/* --- writing (migration/savevm.c, ram.c) -------------------------------- */

/* As migration/ram.c, ram_transferred_add(). */
static void count_bytes(struct model_qemu *q, size_t size)
{
    if (q->runs) {
        q->precopy_bytes += size;
    } else if (!strncmp(q->status, "postcopy", 8)) {
        q->postcopy_bytes += size;
    } else {
        q->downtime_bytes += size;
    }
}

static void put(struct model_qemu *q, const void *bytes, size_t size)
{
    if (q->main) {
        count_bytes(q, size);
        bufferevent_write(q->main, bytes, size);
    }
}

static void put_u8(struct model_qemu *q, uint8_t value)
{
    put(q, &value, 1);
}

static void put_be16(struct model_qemu *q, uint16_t value)
{
    value = htobe16(value);
    put(q, &value, 2);
}

static void put_be32(struct model_qemu *q, uint32_t value)
{
    value = htobe32(value);
    put(q, &value, 4);
}

static void put_be64(struct model_qemu *q, uint64_t value)
{
    value = htobe64(value);
    put(q, &value, 8);
}

static void put_name(struct model_qemu *q, const char *name)
{
    put_u8(q, (uint8_t)strlen(name));
    put(q, name, strlen(name));
}

static void put_section_end(struct model_qemu *q)
{
    put_be64(q, 0x10); /* RAM_SAVE_FLAG_EOS */
    put_u8(q, 0x7e);   /* QEMU_VM_SECTION_FOOTER */
    put_be32(q, RAM_ID);
}

/* Header, configuration, the return path's opening, the block list. */
static void put_head(struct model_qemu *q)
{
    static const char machine[] = "pc-q35-7.2";

    put_be32(q, 0x5145564d);
    put_be32(q, 3);
    put_u8(q, 0x07); /* QEMU_VM_CONFIGURATION */
    put_be32(q, sizeof(machine) - 1);
    put(q, machine, sizeof(machine) - 1);
    put_u8(q, 0x08); /* QEMU_VM_COMMAND */
    put_be16(q, 1);  /* MIG_CMD_OPEN_RETURN_PATH */
    put_be16(q, 0);
    put_u8(q, 0x08);
    put_be16(q, 2); /* MIG_CMD_PING */
    put_be16(q, 4);
    put_be32(q, 1);
    if (model_has_capability(q, "postcopy-ram")) {
        put_u8(q, 0x08);
        put_be16(q, 3); /* MIG_CMD_POSTCOPY_ADVISE */
        put_be16(q, 16);
        put_be64(q, PAGE_BYTES);
        put_be64(q, PAGE_BYTES);
    }
    put_u8(q, 0x01); /* QEMU_VM_SECTION_START */
    put_be32(q, RAM_ID);
    put_name(q, "ram");
    put_be32(q, 0);
    put_be32(q, 4);
    put_be64(q, RAM_BYTES | 0x04); /* RAM_SAVE_FLAG_MEM_SIZE */
    put_name(q, "pc.ram");
    put_be64(q, RAM_BYTES);
    put_section_end(q);
}

/* A section with one page, which begins with a mark. */
static void put_page(struct model_qemu *q, const char *mark)
{
    char page[PAGE_BYTES] = "";

    memcpy(page, mark, strlen(mark));
    put_u8(q, 0x02); /* QEMU_VM_SECTION_PART */
    put_be32(q, RAM_ID);
    put_be64(q, 0x1000 | 0x08); /* RAM_SAVE_FLAG_PAGE */
    put_name(q, "pc.ram");
    put(q, page, sizeof(page));
    put_section_end(q);
}

static void put_return(struct model_qemu *q, uint16_t type, uint32_t value)
{
    put_be16(q, type);
    put_be16(q, 4);
    put_be32(q, value);
}

/* --- query-migrate ------------------------------------------------------ */

static void add_number(json_object *to, const char *name, uint64_t value)
{
    json_object_object_add(to, name, json_object_new_uint64(value));
}

static json_object *ram_info(const struct model_qemu *q)
{
    json_object *ram = json_object_new_object();
    bool is_over = !strcmp(q->status, "completed");

    add_number(ram, "total", 1 << 20);
    add_number(ram, "remaining", is_over ? 0 : 1 << 12);
    add_number(ram, "page-size", PAGE_BYTES);
    json_object_object_add(ram, "mbps", json_object_new_double(8.0));
    if (!is_over) {
        add_number(ram, "dirty-pages-rate",
                   q->params.never_converges ? 100000 : 1);
    }
    add_number(ram, "dirty-sync-count", q->pass);
    add_number(ram, "transferred",
               q->precopy_bytes + q->downtime_bytes + q->postcopy_bytes);
    add_number(ram, "precopy-bytes", q->precopy_bytes);
    add_number(ram, "downtime-bytes", q->downtime_bytes);
    add_number(ram, "postcopy-bytes", q->postcopy_bytes);
    return ram;
}

/* As migration/migration.c, fill_source_migration_info(): of what is no more,
 * or not yet, under way there are no numbers; a destination has none at all. */
json_object *model_migrate_info(const struct model_qemu *q)
{
    static const char *const without[] = {"setup", "failed", "cancelled"};
    json_object *info = json_object_new_object();
    bool has_numbers = q->params.is_source;

    if (!strcmp(q->status, "none")) {
        return info;
    }
    json_object_object_add(info, "status", json_object_new_string(q->status));
    if (q->error_desc[0]) {
        json_object_object_add(info, "error-desc",
                               json_object_new_string(q->error_desc));
    }
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        has_numbers = has_numbers && strcmp(q->status, without[i]);
    }
    if (has_numbers) {
        json_object_object_add(info, "ram", ram_info(q));
    }
    return info;
}

/* --- the end, one way or another ---------------------------------------- */

static void close_main(struct model_qemu *q)
{
    if (q->main) {
        struct evbuffer *out = bufferevent_get_output(q->main);
        evbuffer_unfreeze(out, 1);
        while (evbuffer_get_length(out) > 0 &&
               evbuffer_write(out, bufferevent_getfd(q->main)) > 0) {
        }
        bufferevent_free(q->main);
        q->main = NULL;
    }
}

static void close_incoming(struct model_qemu *q)
{
    if (q->incoming) {
        event_free(q->incoming);
        q->incoming = NULL;
        close(q->incoming_fd);
        q->incoming_fd = -1;
        unlink(q->incoming_path);
    }
}

void model_stream_close(struct model_qemu *q)
{
    loop_timer_stop(&q->step);
    close_main(q);
    close_incoming(q);
}

/* The source goes on where it was. */
static void take_back(struct model_qemu *q, const char *status)
{
    model_stream_close(q);
    model_set_status(q, status);
    if (q->ran_before) {
        model_set_run(q, "running", true);
    } else if (!strcmp(q->run_state, "finish-migrate")) {
        model_set_run(q, "postmigrate", false);
    }
}

void model_stream_break(struct model_qemu *q, const char *why)
{
    if (q->has_ended || q->is_stuck || !strcmp(q->status, "none") ||
        !strcmp(q->status, "failed") || !strcmp(q->status, "cancelled")) {
        return;
    }
    if (!q->error_desc[0]) {
        snprintf(q->error_desc, sizeof(q->error_desc), "%s", why);
    }
    if (!strncmp(q->status, "postcopy", 8)) {
        model_stream_close(q);
        model_set_status(q, "postcopy-paused");
    } else if (q->params.is_source) {
        take_back(q, "failed");
    } else {
        model_stream_close(q);
        model_set_status(q, "failed");
        model_exit(q); /* 7.2: exit(EXIT_FAILURE) */
    }
}

static void step_cancelled(struct model_qemu *q)
{
    take_back(q, "cancelled");
}

void model_stream_cancel(struct model_qemu *q)
{
    static const char *const live[] = {"setup", "active", "pre-switchover",
                                       "device"};

    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
        if (!strcmp(q->status, live[i])) {
            model_set_status(q, "cancelling");
            model_then(q, 5 * MP_MS, step_cancelled);
            if (q->params.cancels_late) {
                q->ran_before = q->ran_before || q->runs;
                model_set_run(q, "finish-migrate", false);
                loop_timer_stop(&q->step);
                q->is_stuck = true;
            }
            return;
        }
    }
}

void model_stream_cancel_on(struct model_qemu *q)
{
    q->is_stuck = false;
    step_cancelled(q);
}

/* --- source ------------------------------------------------------------- */

static void step_completed(struct model_qemu *q)
{
    model_stream_close(q);
    if (!strcmp(q->run_state, "finish-migrate")) {
        snprintf(q->run_state, sizeof(q->run_state), "postmigrate");
    }
    model_enter(q, MODEL_COMPLETED, "completed");
}

/* The return path: messages of 4 bytes of header and a payload. */
static void source_read_cb(struct bufferevent *bev, void *arg)
{
    struct model_qemu *q = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    uint16_t header[2];

    while (evbuffer_copyout(in, header, 4) == 4) {
        size_t size = 4 + ntohs(header[1]);
        if (evbuffer_get_length(in) < size) {
            return;
        }
        evbuffer_drain(in, size);
        if (ntohs(header[0]) == 1) { /* MIG_RP_MSG_SHUT */
            q->has_ended = true;
            model_then(q, 0, step_completed);
            return;
        }
    }
}

static void broken_cb(struct bufferevent *bev, short what, void *arg)
{
    struct model_qemu *q = arg;
    if (q->has_ended) {
        return;
    }
    model_stream_break(q, "Unable to write to socket: Broken pipe");
}

static void step_end(struct model_qemu *q)
{
    put_page(q, "rest");
    put_page(q, MARK_END);
}

static void enter_device(struct model_qemu *q)
{
    if (model_enter(q, MODEL_DEVICE, "device")) {
        put_page(q, "device");
        put_page(q, MARK_END);
    }
}

static void enter_postcopy(struct model_qemu *q)
{
    q->is_postcopy = true;
    if (model_enter(q, MODEL_POSTCOPY, "postcopy-active")) {
        put_page(q, MARK_RUN);
        model_then(q, q->params.rest_time, step_end);
    }
}

void model_stream_continue(struct model_qemu *q)
{
    model_then(q, 0, q->wants_postcopy ? enter_postcopy : enter_device);
}

static void enter_switchover(struct model_qemu *q)
{
    q->ran_before = q->runs;
    model_set_run(q, "finish-migrate", false);
    if (!model_has_capability(q, "pause-before-switchover")) {
        model_stream_continue(q);
        return;
    }
    model_enter(q, MODEL_PRE_SWITCHOVER, "pre-switchover");
}

static void step_pass(struct model_qemu *q)
{
    json_object *data = json_object_new_object();

    q->pass++;
    json_object_object_add(data, "pass", json_object_new_int((int)q->pass));
    if (model_has_capability(q, "events") && !q->params.hides_events) {
        model_event(q, "MIGRATION_PASS", data);
    } else {
        json_object_put(data);
    }
    put_page(q, "page");
    if (q->wants_postcopy || !q->params.never_converges || !q->runs) {
        enter_switchover(q);
    } else {
        model_then(q, q->params.pass_time, step_pass);
    }
}

static void step_active(struct model_qemu *q)
{
    if (model_enter(q, MODEL_ACTIVE, "active")) {
        put_page(q, "page");
        q->pass = 1;
        model_then(q, q->params.pass_time, step_pass);
    }
}

static bool address_of(const char *uri, struct sockaddr_un *address)
{
    if (strncmp(uri, "unix:", 5) || strlen(uri + 5) > 107) {
        return false;
    }
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, uri + 5, strlen(uri + 5));
    return true;
}

static void reset(struct model_qemu *q)
{
    q->error_desc[0] = '\0';
    q->ran_before = false;
    q->wants_postcopy = false;
    q->is_postcopy = false;
    q->has_ended = false;
    q->read_bytes = 0;
    q->precopy_bytes = q->downtime_bytes = q->postcopy_bytes = 0;
}

static void use_socket(struct model_qemu *q, int fd, bufferevent_data_cb read)
{
    q->main = model_check(bufferevent_socket_new(loop_base(q->params.loop), fd,
                                                 BEV_OPT_CLOSE_ON_FREE));
    bufferevent_setcb(q->main, read, NULL, broken_cb, q);
    bufferevent_enable(q->main, EV_READ | EV_WRITE);
}

const char *model_stream_start(struct model_qemu *q, const char *uri)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (!address_of(uri, &address) ||
        connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        return "Failed to connect";
    }
    reset(q);
    use_socket(q, fd, source_read_cb);
    model_set_status(q, "setup");
    put_head(q); /* as QEMU does, and only then is it active */
    model_then(q, q->params.setup_time, step_active);
    return NULL;
}

/* --- destination -------------------------------------------------------- */

static void loaded(struct model_qemu *q)
{
    if (strcmp(q->run_state, "inmigrate")) {
        return;
    }
    if (q->autostart) {
        model_set_run(q, "running", true);
    } else {
        model_set_run(q, "paused", false);
    }
}

static void step_loaded(struct model_qemu *q)
{
    loaded(q);
}

static void step_load(struct model_qemu *q)
{
    loaded(q);
    if (!model_enter(q, MODEL_COMPLETED, "completed")) {
        return;
    }
    put_return(q, 1, 0); /* MIG_RP_MSG_SHUT */
    model_stream_close(q);
}

static void saw_mark(struct model_qemu *q, bool is_end)
{
    if (is_end) {
        q->has_ended = true;
        model_then(q, q->params.load_time, step_load);
    } else if (model_enter(q, MODEL_POSTCOPY, "postcopy-active")) {
        q->is_postcopy = true;
        model_then(q, q->params.load_time, step_loaded);
    }
}

/* The last bytes of what was read before stand in front of what is new, so
 * that a mark that was cut is found. */
static void look_for_marks(struct model_qemu *q, const char *bytes, size_t size)
{
    size_t kept =
        q->read_bytes < sizeof(q->tail) ? q->read_bytes : sizeof(q->tail);
    size_t all = kept + size;
    char *text = model_check(malloc(all));

    memcpy(text, q->tail + sizeof(q->tail) - kept, kept);
    memcpy(text + kept, bytes, size);
    q->read_bytes += size;
    bool has_run = memmem(text, all, MARK_RUN, MARK_BYTES) != NULL;
    bool has_end = memmem(text, all, MARK_END, MARK_BYTES + 1) != NULL;
    size_t keep = all < sizeof(q->tail) ? all : sizeof(q->tail);
    memcpy(q->tail + sizeof(q->tail) - keep, text + all - keep, keep);
    free(text);
    if (has_run && !q->is_postcopy) {
        saw_mark(q, false);
    }
    if (has_end && !q->has_ended) {
        saw_mark(q, true);
    }
}

static void destination_read_cb(struct bufferevent *bev, void *arg)
{
    struct model_qemu *q = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    char bytes[8192];
    int n;

    if (!strcmp(q->status, "setup")) {
        if (evbuffer_get_length(in) < 8) {
            model_break(q, "connected without its first 8 bytes");
            return;
        }
        if (!model_enter(q, MODEL_ACTIVE, "active")) {
            return;
        }
        put_return(q, 2, 1); /* MIG_RP_MSG_PONG */
    }
    while (q->main == bev && !q->is_hung &&
           (n = evbuffer_remove(in, bytes, sizeof(bytes))) > 0) {
        look_for_marks(q, bytes, (size_t)n);
    }
}

static void incoming_cb(evutil_socket_t listen_fd, short what, void *arg)
{
    struct model_qemu *q = arg;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0 || q->is_hung) {
        return;
    }
    use_socket(q, fd, destination_read_cb);
    close_incoming(q);
}

const char *model_stream_listen(struct model_qemu *q, const char *uri)
{
    struct sockaddr_un address;

    if (strcmp(q->status, "none")) {
        return "The incoming migration has already been started";
    }
    if (!address_of(uri, &address)) {
        return "unknown migration protocol";
    }
    snprintf(q->incoming_path, sizeof(q->incoming_path), "%s",
             address.sun_path);
    q->incoming_fd =
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (q->incoming_fd < 0 ||
        bind(q->incoming_fd, (struct sockaddr *)&address, sizeof(address)) ||
        listen(q->incoming_fd, 1)) {
        abort();
    }
    q->incoming =
        model_check(event_new(loop_base(q->params.loop), q->incoming_fd,
                              EV_READ | EV_PERSIST, incoming_cb, q));
    event_add(q->incoming, NULL);
    reset(q);
    model_set_status(q, "setup");
    return NULL;
}
