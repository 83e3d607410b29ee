// SPDX-License-Identifier: BSD-3-Clause
/* A fake daemon behind the API and a raw HTTP client in front of it. */
#include "tests/unit/api-fixture.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- the fake daemon ---- */

static int answer_op(struct api_fixture *f, const char *name,
                     struct json_object **ret_body, struct error *err)
{
    f->calls++;
    f->called = name;
    if (f->fail_with != ERR_NONE) {
        return error_set(err, f->fail_with, "no %s today", name);
    }
    *ret_body = json_object_new_object();
    json_object_object_add(*ret_body, "op", json_object_new_string(name));
    return 0;
}

static int migrate_op(void *arg, const struct api_migrate *migrate,
                      struct json_object **ret_body, bool *ret_created,
                      struct error *err)
{
    struct api_fixture *f = arg;
    f->migrate = *migrate;
    *ret_created = f->created;
    return answer_op(f, "migrate", ret_body, err);
}

static int list_op(void *arg, struct json_object **ret_body, struct error *err)
{
    struct api_fixture *f = arg;
    int n = answer_op(f, "list", ret_body, err);
    if (n == 0 && f->body_bytes > 0) {
        char *pad = malloc(f->body_bytes + 1);
        memset(pad, 'x', f->body_bytes);
        pad[f->body_bytes] = '\0';
        json_object_object_add(*ret_body, "pad", json_object_new_string(pad));
        free(pad);
    }
    return n;
}

static int id_op(void *arg, const char *name, const char *id,
                 struct json_object **ret_body, struct error *err)
{
    struct api_fixture *f = arg;
    snprintf(f->id, sizeof(f->id), "%s", id);
    return answer_op(f, name, ret_body, err);
}

static int show_op(void *arg, const char *id, struct json_object **ret_body,
                   struct error *err)
{
    return id_op(arg, "show", id, ret_body, err);
}

static int cancel_op(void *arg, const char *id, struct json_object **ret_body,
                     struct error *err)
{
    return id_op(arg, "cancel", id, ret_body, err);
}

static int postcopy_op(void *arg, const char *id, struct json_object **ret_body,
                       struct error *err)
{
    return id_op(arg, "postcopy", id, ret_body, err);
}

static int set_op(void *arg, const char *id, const struct api_limits *limits,
                  struct json_object **ret_body, struct error *err)
{
    struct api_fixture *f = arg;
    f->limits = *limits;
    return id_op(arg, "set", id, ret_body, err);
}

static int close_op(void *arg, const char *id, const struct api_close *close,
                    struct json_object **ret_body, struct error *err)
{
    struct api_fixture *f = arg;
    f->close = *close;
    return id_op(arg, "close", id, ret_body, err);
}

static int add_incoming_op(void *arg, const struct api_incoming *incoming,
                           struct json_object **ret_body, struct error *err)
{
    struct api_fixture *f = arg;
    f->incoming = *incoming;
    return answer_op(f, "add_incoming", ret_body, err);
}

static int list_incoming_op(void *arg, struct json_object **ret_body,
                            struct error *err)
{
    return answer_op(arg, "list_incoming", ret_body, err);
}

static int remove_incoming_op(void *arg, const char *id,
                              struct json_object **ret_body, struct error *err)
{
    return id_op(arg, "remove_incoming", id, ret_body, err);
}

static int peers_op(void *arg, struct json_object **ret_body, struct error *err)
{
    return answer_op(arg, "peers", ret_body, err);
}

static int host_op(void *arg, struct json_object **ret_body, struct error *err)
{
    return answer_op(arg, "host", ret_body, err);
}

static int metrics_op(void *arg, FILE *out, struct error *err)
{
    struct api_fixture *f = arg;
    f->calls++;
    f->called = "metrics";
    if (f->fail_with != ERR_NONE) {
        return error_set(err, f->fail_with, "no metrics today");
    }
    fprintf(out, "metric{x=\"1\"} 2\n");
    return 0;
}

const struct api_ops api_fixture_ops = {
    .migrate = migrate_op,
    .list = list_op,
    .show = show_op,
    .cancel = cancel_op,
    .postcopy = postcopy_op,
    .set = set_op,
    .close = close_op,
    .add_incoming = add_incoming_op,
    .list_incoming = list_incoming_op,
    .remove_incoming = remove_incoming_op,
    .peers = peers_op,
    .host = host_op,
    .metrics = metrics_op,
};

/* ---- the fixture ---- */

static unsigned count_fds(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

static int start_with(void **state, mp_time client_timeout,
                      unsigned max_connections)
{
    struct api_fixture *f = calloc(1, sizeof(*f));
    struct error err = ERROR_INIT;

    assert_non_null(f);
    f->fds_before = count_fds();
    strcpy(f->dir, "/tmp/test-api-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/api.sock", f->dir);
    f->loop = loop_new("api", &err);
    assert_non_null(f->loop);
    struct api_params params = {
        .loop = f->loop,
        .socket_path = f->path,
        .socket_mode = 0640,
        .socket_group = (gid_t)-1,
        .client_timeout = client_timeout,
        .max_connections = max_connections,
    };
    f->api = api_new(&params, &api_fixture_ops, f, &err);
    if (!f->api) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(loop_start_thread(f->loop, &err), 0);
    *state = f;
    return 0;
}

int api_fixture_start(void **state)
{
    return start_with(state, TEST_TIMEOUT, 0);
}

int api_fixture_start_hasty(void **state)
{
    return start_with(state, 400 * MP_MS, 0);
}

int api_fixture_start_narrow(void **state)
{
    return start_with(state, 400 * MP_MS, 4);
}

void api_fixture_end_api(struct api_fixture *f)
{
    if (f->loop) {
        loop_stop(f->loop);
        loop_join_thread(f->loop);
        api_free(f->api);
        loop_free(f->loop);
        f->loop = NULL;
    }
}

int api_fixture_stop(void **state)
{
    struct api_fixture *f = *state;

    api_fixture_end_api(f);
    assert_int_equal(rmdir(f->dir), 0); /* no socket is left in it */
    assert_int_equal(count_fds(), f->fds_before);
    free(f);
    return 0;
}

/* ---- the client ---- */

int api_fixture_dial(const struct api_fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    strcpy(address.sun_path, f->path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        fail_msg("connect: %s", strerror(errno));
    }
    return fd;
}

void api_fixture_send_text(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, text, size, MSG_NOSIGNAL);
        if (n <= 0) {
            fail_msg("send: %s", strerror(errno));
        }
        text += n;
        size -= (size_t)n;
    }
}

/* Reads until the text so far has enough answers whole, or the end comes.
 * Returns the number of bytes; f->answer has them. */
size_t api_fixture_receive(struct api_fixture *f, int fd, unsigned answers)
{
    size_t size = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};

    f->answer[0] = '\0';
    for (;;) {
        unsigned count = 0;
        for (char *at = f->answer; (at = strstr(at, "}\n")); at++) {
            count++;
        }
        if (answers && count >= answers) {
            return size;
        }
        if (poll(&p, 1, TEST_TIMEOUT / MP_MS) != 1) {
            fail_msg("no answer within 60 s, only: %s", f->answer);
        }
        ssize_t n = recv(fd, f->answer + size, ANSWER_SIZE - 1 - size, 0);
        if (n <= 0) {
            return size;
        }
        size += (size_t)n;
        f->answer[size] = '\0';
    }
}

int api_fixture_get_status(const struct api_fixture *f)
{
    int status = 0;
    sscanf(f->answer, "HTTP/1.1 %d ", &status);
    return status;
}

/* One request on a connection of its own; the status. */
int api_fixture_ask(struct api_fixture *f, const char *request)
{
    int fd = api_fixture_dial(f);
    api_fixture_send_text(fd, request, strlen(request));
    api_fixture_receive(f, fd, 1);
    close(fd);
    return api_fixture_get_status(f);
}

int api_fixture_send(struct api_fixture *f, const char *method,
                     const char *path, const char *body)
{
    char request[4096];
    snprintf(request, sizeof(request),
             "%s %s HTTP/1.1\r\n" JSON "Content-Length: %zu\r\n\r\n%s", method,
             path, strlen(body), body);
    return api_fixture_ask(f, request);
}

int api_fixture_post(struct api_fixture *f, const char *path, const char *body)
{
    return api_fixture_send(f, "POST", path, body);
}

int api_fixture_get(struct api_fixture *f, const char *path)
{
    char request[4096];
    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
    return api_fixture_ask(f, request);
}

void api_fixture_assert_has(const struct api_fixture *f, const char *text)
{
    if (!strstr(f->answer, text)) {
        fail_msg("\"%s\" is not in: %s", text, f->answer);
    }
}

/* True if the server ended the connection. */
bool api_fixture_is_closed(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, TEST_TIMEOUT / MP_MS) == 1 && recv(fd, &byte, 1, 0) <= 0;
}
