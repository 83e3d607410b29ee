// SPDX-License-Identifier: BSD-3-Clause
/* Records of migrations on disk. */
#include "proxy/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/log.h"

#define RECORD_DEPTH 32

struct store {
    int dir_fd;
    int lock_fd;
    char *dir; /* for messages */
};

static int make_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0700) && errno != EEXIST) {
        return error_set_errno(err, ERR_IO, errno, "making %s", path);
    }
    return 0;
}

struct store *store_open(const char *state_dir, struct error *err)
{
    struct store *store = calloc(1, sizeof(*store));

    if (!store || asprintf(&store->dir, "%s/migrations", state_dir) < 0) {
        free(store);
        error_set(err, ERR_NO_MEMORY, "store: out of memory");
        return NULL;
    }
    store->dir_fd = -1;
    store->lock_fd = -1;
    if (make_dir(state_dir, err) || make_dir(store->dir, err)) {
        store_close(store);
        return NULL;
    }
    store->dir_fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->dir_fd >= 0) {
        store->lock_fd =
            openat(store->dir_fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    if (store->lock_fd < 0) {
        error_set_errno(err, ERR_IO, errno, "opening %s", store->dir);
        store_close(store);
        return NULL;
    }
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB)) {
        error_set(err, ERR_CONFLICT, "another migproxy uses %s", store->dir);
        store_close(store);
        return NULL;
    }
    return store;
}

void store_close(struct store *store)
{
    if (!store) {
        return;
    }
    if (store->dir_fd >= 0) {
        close(store->dir_fd);
    }
    if (store->lock_fd >= 0) {
        close(store->lock_fd);
    }
    free(store->dir);
    free(store);
}

static int write_all(int fd, const char *text, size_t length)
{
    while (length) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return -1;
        }
        text += n;
        length -= (size_t)n;
    }
    return 0;
}

static int save_as(struct store *store, const char *name, const char *text,
                   struct error *err)
{
    CLEANUP_FREE char *temporary = NULL;

    if (asprintf(&temporary, ".%s.new", name) < 0) {
        temporary = NULL;
        return error_set(err, ERR_NO_MEMORY, "store: out of memory");
    }
    CLEANUP_FD int fd = openat(store->dir_fd, temporary,
                               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, text, strlen(text)) || fsync(fd) ||
        renameat(store->dir_fd, temporary, store->dir_fd, name)) {
        int errnum = errno;
        unlinkat(store->dir_fd, temporary, 0);
        return error_set_errno(err, ERR_IO, errnum, "writing %s/%s", store->dir,
                               name);
    }
    /* The new record is in place: whoever reads it next sees it, unless the
     * machine loses power first, and then its QEMUs are gone too. Saying that
     * it was not saved would be the worse lie. */
    if (fsync(store->dir_fd)) {
        log_warning("%s/%s is written, but may not survive a power cut: %s",
                    store->dir, name, strerror(errno));
    }
    return 0;
}

int store_save(struct store *store, const char *role, const char *id,
               json_object *record, struct error *err)
{
    CLEANUP_FREE char *name = NULL;
    const char *text =
        json_object_to_json_string_ext(record, JSON_C_TO_STRING_PRETTY);

    if (!text || asprintf(&name, "%s-%s.json", role, id) < 0) {
        name = NULL;
        return error_set(err, ERR_NO_MEMORY, "store: out of memory");
    }
    return save_as(store, name, text, err);
}

void store_remove(struct store *store, const char *role, const char *id)
{
    CLEANUP_FREE char *name = NULL;

    if (asprintf(&name, "%s-%s.json", role, id) < 0) {
        name = NULL;
        return;
    }
    unlinkat(store->dir_fd, name, 0);
}

/* The record in the file, or NULL with *err. */
static json_object *load(struct store *store, const char *name,
                         struct error *err)
{
    struct stat st;
    CLEANUP_FREE char *text = NULL;
    CLEANUP_FD int fd = openat(store->dir_fd, name,
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st)) {
        error_set_errno(err, ERR_IO, errno, "reading it");
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)STORE_RECORD_MAX_BYTES) {
        error_set(err, ERR_LIMIT, "no file, or larger than %u bytes",
                  STORE_RECORD_MAX_BYTES);
        return NULL;
    }
    text = calloc(1, (size_t)st.st_size + 1);
    if (!text || read(fd, text, (size_t)st.st_size) != st.st_size) {
        error_set(err, ERR_IO, "it cannot be read whole");
        return NULL;
    }
    json_tokener *tokener = json_tokener_new_ex(RECORD_DEPTH);
    if (!tokener) {
        error_set(err, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    json_object *record =
        json_tokener_parse_ex(tokener, text, (int)st.st_size + 1);
    if (!json_object_is_type(record, json_type_object)) {
        error_set(err, ERR_IO, "it is no JSON object: %s",
                  json_tokener_error_desc(json_tokener_get_error(tokener)));
        json_object_put(record);
        record = NULL;
    }
    json_tokener_free(tokener);
    return record;
}

/* "source-ID.json" -> role and id. */
static bool split_name(const char *name, char *role, size_t role_size, char *id,
                       size_t id_size)
{
    const char *dash = strchr(name, '-');
    size_t length = strlen(name);

    if (name[0] == '.' || !dash || length < 6 ||
        strcmp(name + length - 5, ".json")) {
        return false;
    }
    size_t role_length = (size_t)(dash - name);
    size_t id_length = length - 5 - role_length - 1;
    if (role_length >= role_size || id_length >= id_size || !id_length) {
        return false;
    }
    memcpy(role, name, role_length);
    role[role_length] = '\0';
    memcpy(id, dash + 1, id_length);
    id[id_length] = '\0';
    return true;
}

int store_each(struct store *store, store_fn fn, store_bad_fn bad, void *arg,
               struct error *err)
{
    int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    char role[16], id[80];

    if (!dir) {
        int errnum = errno;
        if (fd >= 0) {
            close(fd);
        }
        return error_set_errno(err, ERR_IO, errnum, "reading %s", store->dir);
    }
    while ((entry = readdir(dir))) {
        struct error why = ERROR_INIT;
        if (!split_name(entry->d_name, role, sizeof(role), id, sizeof(id))) {
            continue;
        }
        json_object *record = load(store, entry->d_name, &why);
        if (record) {
            fn(arg, role, id, record);
            json_object_put(record);
        } else {
            bad(arg, entry->d_name, &why);
        }
    }
    closedir(dir);
    return 0;
}
