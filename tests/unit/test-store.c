// SPDX-License-Identifier: BSD-3-Clause
/* Records on disk: whole or as they were, one daemon, bad files left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy/store.h"
#include "qmp/json-value.h"

static char dir[64];

static int set_up(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/migproxy-store-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static const char *in_dir(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/migrations/%s", dir, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t length)
{
    FILE *file = fopen(in_dir(name), "we");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    fclose(file);
}

static struct store *open_store(void)
{
    struct error err = ERROR_INIT;
    struct store *store = store_open(dir, &err);

    if (!store) {
        fail_msg("%s", err.text);
    }
    return store;
}

/* A record that tells if it is whole: count is as long as its text, and the
 * text is all of one letter. */
static json_object *record_of(unsigned number, size_t length)
{
    json_object *record = json_object_new_object();
    char *text = malloc(length + 1);

    memset(text, 'a' + (int)(number % 26), length);
    text[length] = '\0';
    json_object_object_add(record, "number", json_object_new_uint64(number));
    json_object_object_add(record, "length", json_object_new_uint64(length));
    json_object_object_add(record, "text", json_object_new_string(text));
    free(text);
    return record;
}

static bool is_whole(json_object *record, uint64_t *ret_number)
{
    uint64_t number, length;
    const char *text;

    if (!json_value_uint(record, "number", &number) ||
        !json_value_uint(record, "length", &length) ||
        !json_value_text(record, "text", &text) || strlen(text) != length) {
        return false;
    }
    *ret_number = number;
    for (const char *p = text; *p; p++) {
        if (*p != 'a' + (int)(number % 26)) {
            return false;
        }
    }
    return true;
}

static void save(struct store *store, const char *role, const char *id,
                 unsigned number)
{
    json_object *record = record_of(number, 50);
    struct error err = ERROR_INIT;

    if (store_save(store, role, id, record, &err)) {
        fail_msg("%s", err.text);
    }
    json_object_put(record);
}

/* What store_each() tells, as text: "role/id=number ", "!name " for bad. */
struct seen {
    char text[2000];
    char why[600];
    unsigned records, bad;
    bool is_torn;
    uint64_t number; /* the last */
};

static void on_record(void *arg, const char *role, const char *id,
                      json_object *record)
{
    struct seen *seen = arg;
    size_t at = strlen(seen->text);

    seen->records++;
    seen->is_torn = seen->is_torn || !is_whole(record, &seen->number);
    snprintf(seen->text + at, sizeof(seen->text) - at, "%s/%s=%llu ", role, id,
             (unsigned long long)seen->number);
}

static void on_bad(void *arg, const char *name, const struct error *err)
{
    struct seen *seen = arg;
    size_t at = strlen(seen->text);

    seen->bad++;
    snprintf(seen->text + at, sizeof(seen->text) - at, "!%s ", name);
    snprintf(seen->why, sizeof(seen->why), "%s", err->text);
}

static struct seen look(struct store *store)
{
    struct seen seen = {.records = 0};
    struct error err = ERROR_INIT;

    assert_int_equal(store_each(store, on_record, on_bad, &seen, &err), 0);
    return seen;
}

static unsigned count_files(void)
{
    DIR *at = opendir(in_dir(""));
    unsigned count = 0;

    while (readdir(at)) {
        count++;
    }
    closedir(at);
    return count - 2; /* . and .. */
}

static void saved_is_read(void **state)
{
    struct store *store = open_store();
    struct stat st;

    assert_int_equal(look(store).records, 0);
    save(store, "source", "one", 1);
    save(store, "destination", "one", 2);
    save(store, "source", "a.b_c-d.json", 3);
    save(store, "source", "one", 4);
    store_close(store);

    store = open_store();
    struct seen seen = look(store);
    assert_int_equal(seen.records, 3);
    assert_false(seen.is_torn);
    assert_non_null(strstr(seen.text, "source/one=4 "));
    assert_non_null(strstr(seen.text, "destination/one=2 "));
    assert_non_null(strstr(seen.text, "source/a.b_c-d.json=3 "));
    assert_int_equal(count_files(), 4); /* and the lock */
    assert_int_equal(stat(in_dir(""), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(in_dir("source-one.json"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    store_close(store);
}

static void the_longest_id_fits(void **state)
{
    struct store *store = open_store();
    char id[65];

    memset(id, 'x', 64);
    id[64] = '\0';
    save(store, "destination", id, 7);
    struct seen seen = look(store);
    assert_non_null(strstr(seen.text, id));
    assert_non_null(strstr(seen.text, "=7 "));
    store_remove(store, "destination", id);
    store_close(store);
}

static void removed_is_gone(void **state)
{
    struct store *store = open_store();

    save(store, "source", "one", 1);
    save(store, "source", "two", 2);
    store_remove(store, "source", "one");
    store_remove(store, "source", "one");
    store_remove(store, "source", "never");
    store_remove(store, "destination", "two");
    assert_string_equal(look(store).text, "source/two=2 ");
    store_close(store);
}

static void only_one_daemon(void **state)
{
    struct error err = ERROR_INIT;
    struct store *store = open_store();

    assert_null(store_open(dir, &err));
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, dir));
    store_close(store);
    store_close(open_store());
}

/* The lock goes with its process, however that ends. */
static void the_lock_of_a_killed_daemon_is_free(void **state)
{
    int ready[2], status;
    char byte;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        struct store *store = store_open(dir, NULL);
        if (!store || write(ready[1], "x", 1) != 1) {
            _exit(1);
        }
        pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_null(store_open(dir, NULL));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    store_close(open_store());
    close(ready[0]);
    close(ready[1]);
}

/* Saves without end, records of all sizes, telling the number of each when it
 * is on disk. */
static void save_for_ever(int done_fd)
{
    struct store *store = store_open(dir, NULL);

    for (unsigned number = 1; store; number++) {
        json_object *record =
            record_of(number, number % 7 ? 20 + number % 5000 : 300000);
        if (store_save(store, "source", "torn", record, NULL) ||
            write(done_fd, &number, sizeof(number)) != sizeof(number)) {
            break;
        }
        json_object_put(record);
    }
    _exit(1);
}

/* The child is killed in the middle of saves: what it had finished is there,
 * or what it was about to finish; never a piece, never an older one. */
static void a_record_is_never_torn(void **state)
{
    unsigned rounds = 30, written = 0;

    for (unsigned round = 0; round < rounds; round++) {
        int done[2];
        unsigned number, last = 0;
        int status;
        pid_t child;

        assert_int_equal(pipe2(done, O_CLOEXEC), 0);
        child = fork();
        if (child == 0) {
            save_for_ever(done[1]);
        }
        close(done[1]);
        assert_int_equal(read(done[0], &last, sizeof(last)), sizeof(last));
        struct timespec a_while = {.tv_nsec = 700000L * (round + 1)};
        nanosleep(&a_while, NULL);
        kill(child, SIGKILL);
        while (read(done[0], &number, sizeof(number)) == sizeof(number)) {
            last = number;
        }
        close(done[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));

        struct store *store = open_store();
        struct seen seen = look(store);
        assert_int_equal(seen.records, 1);
        assert_int_equal(seen.bad, 0);
        assert_false(seen.is_torn);
        assert_true(seen.number == last || seen.number == last + 1);
        store_remove(store, "source", "torn");
        store_close(store);
        written += last;
    }
    assert_true(written >= rounds);
}

/* The temporary file of a killed save is no record and is in nobody's way. */
static void a_left_over_temporary_is_no_record(void **state)
{
    struct store *store = open_store();

    write_file(".source-left.json.new", "{\"number\":", 10);
    assert_int_equal(look(store).records, 0);
    assert_int_equal(look(store).bad, 0);
    save(store, "source", "left", 5);
    assert_string_equal(look(store).text, "source/left=5 ");
    assert_int_not_equal(access(in_dir(".source-left.json.new"), F_OK), 0);
    store_close(store);
}

static void bad_files_are_told_and_left_alone(void **state)
{
    static const struct {
        const char *name, *text, *why;
    } rows[] = {
        {"source-empty.json", "", "no JSON object"},
        {"source-half.json", "{\"number\": 1, \"len", "no JSON object"},
        {"source-list.json", "[1,2]", "no JSON object"},
        {"source-text.json", "\"text\"", "no JSON object"},
        {"source-noise.json", "\x01\x02 nonsense", "no JSON object"},
        {"source-deep.json",
         "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]"
         "]"
         "]]]]]]]]]]]]]]]]]]}",
         "no JSON object"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct store *store = open_store();
        write_file(rows[i].name, rows[i].text, strlen(rows[i].text));
        save(store, "source", "good", 1);
        struct seen seen = look(store);
        if (seen.records != 1 || seen.bad != 1 ||
            !strstr(seen.why, rows[i].why)) {
            fail_msg("%s: %s (%s)", rows[i].name, seen.text, seen.why);
        }
        store_close(store);
        assert_int_equal(access(in_dir(rows[i].name), F_OK), 0);
        unlink(in_dir(rows[i].name));
    }
}

static void what_is_no_file_is_bad(void **state)
{
    struct store *store = open_store();
    struct seen seen;

    assert_int_equal(mkdir(in_dir("source-dir.json"), 0700), 0);
    assert_int_equal(symlink("/etc/passwd", in_dir("source-link.json")), 0);
    assert_int_equal(mkfifo(in_dir("source-pipe.json"), 0600), 0);
    seen = look(store);
    assert_int_equal(seen.records, 0);
    assert_int_equal(seen.bad, 3);
    store_close(store);
}

static void a_record_over_the_limit_is_bad(void **state)
{
    struct store *store = open_store();
    size_t size = STORE_RECORD_MAX_BYTES;
    char *text = malloc(size + 1);
    struct seen seen;

    memset(text, ' ', size + 1);
    text[0] = '{';
    text[size - 1] = '}';
    text[size] = ' ';
    write_file("source-large.json", text, size + 1);
    seen = look(store);
    assert_int_equal(seen.bad, 1);
    assert_non_null(strstr(seen.why, "4194304"));
    write_file("source-large.json", text, size);
    seen = look(store);
    assert_int_equal(seen.records, 1);
    free(text);
    store_close(store);
}

static void other_names_are_nothing(void **state)
{
    struct store *store = open_store();
    static const char *const names[] = {"README",       "source-.json",
                                        "source.json",  ".source-x.json",
                                        "source-x.jso", "-x"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        write_file(names[i], "{}", 2);
    }
    struct seen seen = look(store);
    assert_int_equal(seen.records, 0);
    assert_int_equal(seen.bad, 0);
    store_close(store);
}

/* No room on the disk: the save fails, says where, and the old record stays. */
static void what_cannot_be_written_changes_nothing(void **state)
{
    struct store *store = open_store();
    json_object *large = record_of(2, 100000);
    struct rlimit before, small;
    struct error err = ERROR_INIT;

    save(store, "source", "one", 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = store_save(store, "source", "one", large, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);

    assert_int_equal(rc, -1);
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.text, in_dir("source-one.json")));
    assert_string_equal(look(store).text, "source/one=1 ");
    assert_int_equal(count_files(), 2); /* no temporary is left */
    assert_int_equal(store_save(store, "source", "one", large, &err), 0);
    assert_string_equal(look(store).text, "source/one=2 ");
    json_object_put(large);
    store_close(store);
}

static void a_directory_that_is_gone_is_an_error(void **state)
{
    struct store *store = open_store();
    json_object *record = record_of(1, 10);
    struct error err = ERROR_INIT;
    char command[100];

    snprintf(command, sizeof(command), "rm -rf '%s/migrations'", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(store_save(store, "source", "one", record, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    json_object_put(record);
    store_close(store);
}

static void a_state_dir_that_cannot_be_is_an_error(void **state)
{
    struct error err = ERROR_INIT;

    assert_null(store_open("/proc/migproxy", &err));
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.text, "/proc/migproxy"));
    store_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(saved_is_read),
        TEST(the_longest_id_fits),
        TEST(removed_is_gone),
        TEST(only_one_daemon),
        TEST(the_lock_of_a_killed_daemon_is_free),
        TEST(a_record_is_never_torn),
        TEST(a_left_over_temporary_is_no_record),
        TEST(bad_files_are_told_and_left_alone),
        TEST(what_is_no_file_is_bad),
        TEST(a_record_over_the_limit_is_bad),
        TEST(other_names_are_nothing),
        TEST(what_cannot_be_written_changes_nothing),
        TEST(a_directory_that_is_gone_is_an_error),
        TEST(a_state_dir_that_cannot_be_is_an_error),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
