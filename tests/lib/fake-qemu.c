// SPDX-License-Identifier: BSD-3-Clause
/* A QMP server that plays a script, on the test's own loop. */
#include "tests/lib/fake-qemu.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "qmp/json-stream.h"
#include "util/list.h"

#define WORDS_MAX 4

/* A command that came in. */
struct command {
    struct list node;
    char *name;
    struct json_object *whole;
    struct json_object *args;
    bool is_oob;
};

struct always {
    struct list node;
    char *name;
    char *value;
};

struct fake_qemu {
    struct loop *loop;
    char *script;
    char *next; /* the next line of script */
    char *line; /* the line that is being waited in, or NULL */
    int line_number;

    int fd;
    int client_fd; /* until it is taken */
    int listen_fd;
    char *path;
    struct event *accept_event, *read_event, *write_event;
    struct evbuffer *out;
    size_t cut;
    struct json_stream *stream;
    struct loop_timer timer;
    bool is_waiting; /* the timer runs */
    bool has_waited; /* the line's wait is over */
    bool stays;
    bool is_done;
    char failure[400];

    struct list queued;   /* came in, not expected yet */
    struct list expected; /* expected, not answered yet */
    struct list always;
    fake_qemu_command_fn watch;
    void *watch_arg;
};

static void play(struct fake_qemu *f);

static void *check(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

/* --- the connection ----------------------------------------------------- */

static void disconnect(struct fake_qemu *f)
{
    if (f->read_event) {
        event_free(f->read_event);
        event_free(f->write_event);
        f->read_event = NULL;
        f->write_event = NULL;
    }
    if (f->fd >= 0) {
        close(f->fd);
        f->fd = -1;
    }
}

static void fail(struct fake_qemu *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void fail(struct fake_qemu *f, const char *format, ...)
{
    va_list args;
    int n;

    if (f->failure[0]) {
        return;
    }
    n = snprintf(f->failure, sizeof(f->failure), "line %d: ", f->line_number);
    va_start(args, format);
    vsnprintf(f->failure + n, sizeof(f->failure) - (size_t)n, format, args);
    va_end(args);
    fprintf(stderr, "fake QEMU: %s\n", f->failure);
    disconnect(f);
}

static void send_bytes(struct fake_qemu *f, const void *bytes, size_t size)
{
    if (f->fd < 0) {
        return;
    }
    evbuffer_add(f->out, bytes, size);
    event_add(f->write_event, NULL);
}

static void send_line(struct fake_qemu *f, const char *text)
{
    send_bytes(f, text, strlen(text));
    send_bytes(f, "\r\n", 2);
}

static void write_cb(evutil_socket_t fd, short what, void *arg)
{
    struct fake_qemu *f = arg;
    size_t size = evbuffer_get_length(f->out);

    if (f->cut && size > f->cut) {
        size = f->cut;
    }
    ssize_t n = send(fd, evbuffer_pullup(f->out, (ev_ssize_t)size), size,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
        evbuffer_drain(f->out, (size_t)n);
    } else if (n < 0 && errno != EAGAIN) {
        evbuffer_drain(f->out, evbuffer_get_length(f->out)); /* it is gone */
    }
    if (evbuffer_get_length(f->out) > 0) {
        event_add(f->write_event, NULL);
    } else {
        play(f);
    }
}

/* --- commands ----------------------------------------------------------- */

static void command_free(struct command *c)
{
    list_remove(&c->node);
    json_object_put(c->whole);
    free(c->name);
    free(c);
}

/* A value of the script. */
static struct json_object *parse_value(const char *text)
{
    struct json_object *value = json_tokener_parse(text);

    if (!value && strcmp(text, "null") != 0) {
        fprintf(stderr, "fake QEMU: script: not JSON: %s\n", text);
        abort();
    }
    return value;
}

/* {"return": VALUE, "id": ID} or {"error": VALUE, "id": ID} */
static void answer(struct fake_qemu *f, struct command *c, const char *member,
                   struct json_object *value)
{
    struct json_object *object = check(json_object_new_object());
    struct json_object *id = NULL;

    json_object_object_add(object, member, value);
    if (json_object_object_get_ex(c->whole, "id", &id)) {
        json_object_object_add(object, "id", json_object_get(id));
    }
    send_line(f, json_object_to_json_string(object));
    json_object_put(object);
}

static bool answer_always(struct fake_qemu *f, struct command *c)
{
    LIST_EACH (node, &f->always) {
        struct always *a = container_of(node, struct always, node);
        if (!strcmp(a->name, c->name)) {
            answer(f, c, "return", parse_value(a->value));
            return true;
        }
    }
    return false;
}

static void take_command(struct fake_qemu *f, struct json_object *whole)
{
    struct command *c = check(calloc(1, sizeof(*c)));
    struct json_object *name = NULL;

    list_init(&c->node);
    c->whole = whole;
    c->is_oob = json_object_object_get_ex(whole, "exec-oob", &name);
    if (!c->is_oob) {
        json_object_object_get_ex(whole, "execute", &name);
    }
    json_object_object_get_ex(whole, "arguments", &c->args);
    c->name = check(strdup(name ? json_object_get_string(name) : "nothing"));
    if (f->watch) {
        f->watch(f->watch_arg, c->name, c->args, c->is_oob);
    }
    if (answer_always(f, c)) {
        command_free(c);
    } else {
        list_append(&f->queued, &c->node);
    }
}

static void read_cb(evutil_socket_t fd, short what, void *arg)
{
    struct fake_qemu *f = arg;
    char bytes[4096];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    size_t at = 0;

    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        disconnect(f);
        if (!f->is_done && !f->stays) {
            fail(f, "the client has gone");
        }
        return;
    }
    while (n > 0 && at < (size_t)n) {
        struct json_object *value = NULL;
        struct error err = ERROR_INIT;
        size_t used = 0;
        int rc = json_stream_feed(f->stream, bytes + at, (size_t)n - at, &used,
                                  &value, &err);
        if (rc < 0) {
            fail(f, "the client sent no JSON: %s", err.text);
            return;
        }
        at += used;
        if (rc > 0) {
            take_command(f, value);
        }
    }
    play(f);
}

/* --- the script --------------------------------------------------------- */

/* Cuts line into at most max words, the last of which is the rest. */
static void split(char *line, char *words[], int max)
{
    for (int i = 0; i < max; i++) {
        while (*line == ' ') {
            line++;
        }
        words[i] = line;
        if (i == max - 1) {
            return;
        }
        line += strcspn(line, " ");
        if (*line) {
            *line++ = '\0';
        }
    }
}

static void greet(struct fake_qemu *f, const char *option)
{
    char text[200];

    snprintf(text, sizeof(text),
             "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 22, \"minor\": 2, "
             "\"major\": 7}, \"package\": \"fake\"}, \"capabilities\": [%s]}}",
             strcmp(option, "no-oob") ? "\"oob\"" : "");
    send_line(f, text);
}

static bool same_args(const struct command *c, const char *wanted)
{
    struct json_object *none = check(json_object_new_object());
    struct json_object *json = parse_value(wanted);
    bool same = json_object_equal(c->args ? c->args : none, json);

    json_object_put(json);
    json_object_put(none);
    return same;
}

/* False: nothing has come in yet. */
static bool expect(struct fake_qemu *f, const char *name, const char *args,
                   bool is_oob)
{
    if (list_is_empty(&f->queued)) {
        return false;
    }
    struct command *c = container_of(f->queued.next, struct command, node);
    list_remove(&c->node);
    list_append(&f->expected, &c->node);
    if (strcmp(c->name, name) != 0 || c->is_oob != is_oob ||
        (*args && !same_args(c, args))) {
        fail(f, "expected %s%s %s, got %s", name, is_oob ? " (oob)" : "", args,
             json_object_to_json_string(c->whole));
    }
    return true;
}

static void reply(struct fake_qemu *f, const char *name, const char *member,
                  struct json_object *value)
{
    LIST_EACH (node, &f->expected) {
        struct command *c = container_of(node, struct command, node);
        if (!strcmp(c->name, name)) {
            answer(f, c, member, value);
            command_free(c);
            return;
        }
    }
    json_object_put(value);
    fail(f, "there is no %s to answer", name);
}

static void reply_error(struct fake_qemu *f, const char *name,
                        const char *class, const char *desc)
{
    struct json_object *value = check(json_object_new_object());

    json_object_object_add(value, "class", json_object_new_string(class));
    json_object_object_add(value, "desc", json_object_new_string(desc));
    reply(f, name, "error", value);
}

static void send_event(struct fake_qemu *f, const char *name, const char *data)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "{\"timestamp\": {\"seconds\": 1796061857, \"microseconds\": "
             "828283}, \"event\": \"%s\"%s%s}",
             name, *data ? ", \"data\": " : "", data);
    send_line(f, text);
}

static void send_hex(struct fake_qemu *f, const char *hex)
{
    unsigned byte;

    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        unsigned char c = (unsigned char)byte;
        send_bytes(f, &c, 1);
    }
}

static void send_fill(struct fake_qemu *f, size_t count)
{
    char *bytes = check(malloc(count));

    memset(bytes, 'x', count);
    send_bytes(f, bytes, count);
    free(bytes);
}

static void add_always(struct fake_qemu *f, const char *name, const char *value)
{
    struct always *a = check(calloc(1, sizeof(*a)));

    list_init(&a->node);
    a->name = check(strdup(name));
    a->value = check(strdup(value));
    list_prepend(&f->always, &a->node); /* the latest counts */
}

static void wait_over_cb(void *arg)
{
    struct fake_qemu *f = arg;

    f->is_waiting = false;
    f->has_waited = true;
    play(f);
}

/* True when the wait is over. */
static bool wait_ms(struct fake_qemu *f, const char *ms)
{
    if (f->has_waited) {
        f->has_waited = false;
        return true;
    }
    f->is_waiting = true;
    loop_timer_start(&f->timer, atoi(ms) * MP_MS);
    return false;
}

/* Plays one line; false: the line waits and is played again later. */
static bool play_line(struct fake_qemu *f, const char *line)
{
    char *copy = check(strdup(line));
    char *w[WORDS_MAX], *rest[WORDS_MAX];
    bool is_sent = evbuffer_get_length(f->out) == 0, is_over = true;
    char *plain = check(strdup(line));

    split(copy, w, WORDS_MAX);
    if (!strcmp(w[0], "error")) {
        reply_error(f, w[1], w[2], w[3]);
        goto out;
    }
    split(plain, rest, 3); /* verb, name, JSON with blanks */
    if (!strcmp(w[0], "greeting")) {
        greet(f, w[1]);
    } else if (!strcmp(w[0], "expect")) {
        is_over = expect(f, rest[1], rest[2], false);
    } else if (!strcmp(w[0], "expect-oob")) {
        is_over = expect(f, rest[1], rest[2], true);
    } else if (!strcmp(w[0], "reply")) {
        reply(f, rest[1], "return", parse_value(rest[2]));
    } else if (!strcmp(w[0], "always")) {
        add_always(f, rest[1], rest[2]);
    } else if (!strcmp(w[0], "event")) {
        send_event(f, rest[1], rest[2]);
    } else if (!strcmp(w[0], "raw")) {
        send_line(f, line + 4);
    } else if (!strcmp(w[0], "bytes")) {
        send_hex(f, w[1]);
    } else if (!strcmp(w[0], "fill")) {
        send_fill(f, (size_t)atoi(w[1]));
    } else if (!strcmp(w[0], "cut")) {
        f->cut = (size_t)atoi(w[1]);
    } else if (!strcmp(w[0], "wait")) {
        is_over = is_sent && wait_ms(f, w[1]);
    } else if (!strcmp(w[0], "stay")) {
        f->stays = true;
    } else if (!strcmp(w[0], "shutdown")) {
        is_over = is_sent;
        if (is_sent && f->fd >= 0) {
            shutdown(f->fd, SHUT_WR);
        }
    } else if (!strcmp(w[0], "deaf")) {
        if (f->fd >= 0) {
            event_del(f->read_event);
            shutdown(f->fd, SHUT_RD);
        }
    } else if (!strcmp(w[0], "close")) {
        is_over = is_sent;
        if (is_sent) {
            disconnect(f);
        }
    } else {
        fprintf(stderr, "fake QEMU: script: \"%s\"\n", line);
        abort();
    }
out:
    free(copy);
    free(plain);
    return is_over;
}

/* The next line that says something, or NULL. */
static char *next_line(struct fake_qemu *f)
{
    while (f->next && *f->next) {
        char *line = f->next;
        size_t length = strcspn(line, "\n");
        f->next = line[length] ? line + length + 1 : line + length;
        line[length] = '\0';
        f->line_number++;
        line += strspn(line, " ");
        if (*line && *line != '#') {
            return line;
        }
    }
    return NULL;
}

static void finish(struct fake_qemu *f)
{
    if (!f->is_done && evbuffer_get_length(f->out) == 0) {
        f->is_done = true;
        if (!f->stays) {
            disconnect(f);
        }
    }
}

static void play(struct fake_qemu *f)
{
    while (!f->is_waiting && !f->failure[0] && !f->is_done) {
        if (!f->line) {
            f->line = next_line(f);
        }
        if (!f->line) {
            finish(f);
            return;
        }
        if (!play_line(f, f->line)) {
            return;
        }
        f->line = NULL;
    }
}

/* --- life --------------------------------------------------------------- */

static void attach(struct fake_qemu *f, int fd)
{
    struct event_base *base = loop_base(f->loop);

    f->fd = fd;
    f->read_event =
        check(event_new(base, fd, EV_READ | EV_PERSIST, read_cb, f));
    f->write_event = check(event_new(base, fd, EV_WRITE, write_cb, f));
    event_add(f->read_event, NULL);
    loop_timer_init(&f->timer, f->loop, wait_over_cb, f);
    play(f);
}

/* "handshake" becomes the lines it stands for. */
static char *expand(const char *script)
{
    static const char rest[] =
        "expect qmp_capabilities\nreply qmp_capabilities {}\n";
    char *text = NULL;
    size_t size = 0;
    FILE *out = check(open_memstream(&text, &size));
    char *copy = check(strdup(script)), *save = NULL;

    for (char *line = strtok_r(copy, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        line += strspn(line, " ");
        if (!strncmp(line, "handshake", 9)) {
            fprintf(out, "greeting%s\n%s", line + 9, rest);
        } else {
            fprintf(out, "%s\n", line);
        }
    }
    fclose(out);
    free(copy);
    return text;
}

static struct fake_qemu *new_fake(struct loop *loop, const char *script)
{
    struct fake_qemu *f = check(calloc(1, sizeof(*f)));

    f->loop = loop;
    f->fd = f->client_fd = f->listen_fd = -1;
    f->script = f->next = expand(script);
    f->out = check(evbuffer_new());
    f->stream = check(
        json_stream_new(JSON_STREAM_MAX_BYTES, JSON_STREAM_MAX_DEPTH, NULL));
    list_init(&f->queued);
    list_init(&f->expected);
    list_init(&f->always);
    return f;
}

struct fake_qemu *fake_qemu_new(struct loop *loop, const char *script)
{
    struct fake_qemu *f = new_fake(loop, script);
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   fds) < 0) {
        abort();
    }
    f->client_fd = fds[0];
    attach(f, fds[1]);
    return f;
}

int fake_qemu_take_fd(struct fake_qemu *f)
{
    int fd = f->client_fd;
    f->client_fd = -1;
    return fd;
}

static void accept_cb(evutil_socket_t listen_fd, short what, void *arg)
{
    struct fake_qemu *f = arg;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0) {
        event_del(f->accept_event);
        attach(f, fd);
    }
}

struct fake_qemu *fake_qemu_listen(struct loop *loop, const char *path,
                                   const char *script)
{
    struct fake_qemu *f = new_fake(loop, script);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    f->path = check(strdup(path));
    f->listen_fd =
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (f->listen_fd < 0 ||
        bind(f->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(f->listen_fd, 1) < 0) {
        perror(path);
        abort();
    }
    f->accept_event = check(event_new(loop_base(loop), f->listen_fd,
                                      EV_READ | EV_PERSIST, accept_cb, f));
    event_add(f->accept_event, NULL);
    return f;
}

static void free_commands(struct list *commands)
{
    LIST_EACH_SAFE (node, commands) {
        command_free(container_of(node, struct command, node));
    }
}

void fake_qemu_free(struct fake_qemu *f)
{
    if (!f) {
        return;
    }
    disconnect(f);
    loop_timer_done(&f->timer);
    if (f->client_fd >= 0) {
        close(f->client_fd);
    }
    if (f->accept_event) {
        event_free(f->accept_event);
        close(f->listen_fd);
        unlink(f->path);
    }
    free_commands(&f->queued);
    free_commands(&f->expected);
    LIST_EACH_SAFE (node, &f->always) {
        struct always *a = container_of(node, struct always, node);
        free(a->name);
        free(a->value);
        free(a);
    }
    evbuffer_free(f->out);
    json_stream_free(f->stream);
    free(f->script);
    free(f->path);
    free(f);
}

bool fake_qemu_is_done(const struct fake_qemu *f)
{
    return f->is_done;
}

const char *fake_qemu_failure(const struct fake_qemu *f)
{
    return f->failure[0] ? f->failure : NULL;
}

void fake_qemu_watch(struct fake_qemu *f, fake_qemu_command_fn fn, void *arg)
{
    f->watch = fn;
    f->watch_arg = arg;
}

static void set_cb(void *arg)
{
    *(bool *)arg = true;
}

bool fake_qemu_run_until(struct loop *loop, const bool *done)
{
    struct loop_timer deadline;
    bool over = false;

    loop_timer_init(&deadline, loop, set_cb, &over);
    loop_timer_start(&deadline, 60 * MP_SECOND);
    while (!*done && !over) {
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
    }
    loop_timer_done(&deadline);
    return *done;
}

void fake_qemu_run_for(struct loop *loop, mp_time time)
{
    struct loop_timer deadline;
    bool over = false;

    loop_timer_init(&deadline, loop, set_cb, &over);
    loop_timer_start(&deadline, time);
    while (!over) {
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
    }
    loop_timer_done(&deadline);
}
