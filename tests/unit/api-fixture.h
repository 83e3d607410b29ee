// SPDX-License-Identifier: BSD-3-Clause
/* A fake daemon behind the API and a raw HTTP client in front of it, for tests.
 * Whatever goes wrong here fails the test. */
#ifndef TESTS_UNIT_API_FIXTURE_H
#define TESTS_UNIT_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/api.h"
#include "util/loop.h"

#define ANSWER_SIZE (256 * 1024)
/* Nothing here takes longer, also under valgrind with other work around. */
#define TEST_TIMEOUT (60 * MP_SECOND)
#define HOST "Host: x\r\n"
#define JSON HOST "Content-Type: application/json\r\n"

/* The daemon behind the API and all that a test needs. Written in the loop's
 * thread during a request, read by the test after its answer. */
struct api_fixture {
    struct loop *loop;
    struct api *api;
    char dir[32];
    char path[64];
    unsigned fds_before;

    enum error_code fail_with; /* ops fail with it, unless ERR_NONE */
    bool created;
    size_t body_bytes; /* list: pad the answer to about this */
    unsigned calls;
    const char *called;
    char id[ID_MAX + 1];
    struct api_migrate migrate;
    struct api_limits limits;
    struct api_close close;
    struct api_incoming incoming;

    char answer[ANSWER_SIZE]; /* of the last request, terminated */
};

/* For api_new(): what calls leave in the fixture (arg). */
extern const struct api_ops api_fixture_ops;

/* Setup functions: client timeout 60 s; 0.4 s; and 0.4 s with four connections
 * at most. */
int api_fixture_start(void **state);
int api_fixture_start_hasty(void **state);
int api_fixture_start_narrow(void **state);

/* Teardown, also a test: files and descriptors are as before. */
int api_fixture_stop(void **state);

/* Ends the API and its loop before the teardown does. */
void api_fixture_end_api(struct api_fixture *f);

/* A connection, blocking. */
int api_fixture_dial(const struct api_fixture *f);
void api_fixture_send_text(int fd, const char *text, size_t size);

/* Reads until answers answers have come whole, or to the end of the connection
 * (0). Returns the number of bytes; f->answer has them. */
size_t api_fixture_receive(struct api_fixture *f, int fd, unsigned answers);

/* The status in f->answer; 0 for none. */
int api_fixture_get_status(const struct api_fixture *f);

/* One request on a connection of its own; returns the status. */
int api_fixture_ask(struct api_fixture *f, const char *request);
int api_fixture_send(struct api_fixture *f, const char *method,
                     const char *path, const char *body);
int api_fixture_post(struct api_fixture *f, const char *path, const char *body);
int api_fixture_get(struct api_fixture *f, const char *path);

void api_fixture_assert_has(const struct api_fixture *f, const char *text);

/* True once the API has ended the connection. */
bool api_fixture_is_closed(int fd);

#endif
