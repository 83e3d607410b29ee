// SPDX-License-Identifier: BSD-3-Clause
/* Unix socket paths: checked, walked without symbolic links, then used through
 * descriptors. */
#include "util/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "util/cleanup.h"

/* "/proc/self/fd/" and a number */
#define FD_PATH_SIZE 32

_Static_assert(PATH_SOCKET_MAX ==
                   sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1,
               "the limit is the kernel's");

static bool is_component_ok(const char *name, size_t length)
{
    return length > 0 && !(length == 1 && name[0] == '.') &&
           !(length == 2 && name[0] == '.' && name[1] == '.');
}

int path_check_length(const char *path, struct error *err)
{
    size_t length = strlen(path);

    if (length == 0 || length > PATH_SOCKET_MAX) {
        return error_set(err, ERR_PATH_REFUSED,
                         "socket path \"%.200s\" has %zu bytes, 1 to %d are "
                         "possible",
                         path, length, PATH_SOCKET_MAX);
    }
    return 0;
}

int path_check_socket(const char *path, struct error *err)
{
    if (path_check_length(path, err) < 0) {
        return -1;
    }
    for (const char *p = path; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return error_set(err, ERR_PATH_REFUSED,
                             "a socket path has the control character 0x%02x "
                             "at byte %zu",
                             (unsigned char)*p, (size_t)(p - path));
        }
    }
    if (path[0] != '/') {
        return error_set(err, ERR_PATH_REFUSED,
                         "socket path \"%s\" is not absolute", path);
    }
    for (const char *p = path; p; p = strchr(p, '/')) {
        p++;
        if (!is_component_ok(p, strcspn(p, "/"))) {
            return error_set(err, ERR_PATH_REFUSED,
                             "socket path \"%s\" has an empty, \".\" or "
                             "\"..\" component",
                             path);
        }
    }
    return 0;
}

static int check_vm(const char *vm, struct error *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "0123456789._+@-";
    size_t length = strlen(vm);

    if (length == 0 || length > PATH_VM_MAX || vm[0] == '.' ||
        strspn(vm, allowed) != length) {
        return error_set(err, ERR_PATH_REFUSED,
                         "guest name \"%.*s\" cannot be part of a path: 1 to "
                         "%d characters of A-Z a-z 0-9 . _ + @ - are, no dot "
                         "at the start",
                         PATH_VM_MAX, vm, PATH_VM_MAX);
    }
    return 0;
}

int path_expand_vm(const char *template, const char *vm, char **ret_path,
                   struct error *err)
{
    /* longer by one than allowed: path_check_socket() then says so */
    char path[PATH_SOCKET_MAX + 2];
    size_t used = 0;

    if (check_vm(vm, err) < 0) {
        return -1;
    }
    while (*template && used < sizeof(path) - 1) {
        bool here = !strncmp(template, "{vm}", 4);
        const char *piece = here ? vm : template;
        size_t length = here ? strlen(vm) : 1;
        if (length > sizeof(path) - 1 - used) {
            length = sizeof(path) - 1 - used;
        }
        memcpy(path + used, piece, length);
        used += length;
        template += here ? 4 : 1;
    }
    path[used] = '\0';
    if (used > PATH_SOCKET_MAX) {
        return error_set(err, ERR_PATH_REFUSED,
                         "the socket path of guest \"%s\" (%s...) has more "
                         "than the %d bytes that are possible",
                         vm, path, PATH_SOCKET_MAX);
    }
    if (path_check_socket(path, err) < 0) {
        return -1;
    }
    *ret_path = strdup(path);
    if (!*ret_path) {
        return error_set(err, ERR_NO_MEMORY, "path \"%s\": out of memory",
                         path);
    }
    return 0;
}

/* The last component's place in a path that has passed path_check_socket(). */
static const char *base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* Opens the directory that path (checked) lies in, no component being
 * a symbolic link. -1 and errno; *ret_length then says up to where path was
 * looked at. */
static int walk_to_parent(const char *path, size_t *ret_length)
{
    CLEANUP_FD int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *base = base_name(path);
    const char *p = path + 1;

    *ret_length = 1;
    while (dir >= 0 && p < base) {
        char name[PATH_SOCKET_MAX + 1];
        size_t length = strcspn(p, "/");
        memcpy(name, p, length);
        name[length] = '\0';
        *ret_length = (size_t)(p - path) + length;

        int next =
            openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            struct stat st;
            int saved_errno = errno;
            if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) &&
                S_ISLNK(st.st_mode)) {
                saved_errno = ELOOP;
            }
            errno = saved_errno;
            return -1;
        }
        close(dir);
        dir = next;
        p += length + 1;
    }
    return steal_fd(&dir);
}

/* The directory of path, or -1 with an error that names the component. */
static int open_parent(const char *path, enum error_code missing,
                       struct error *err)
{
    size_t length;
    int dir = walk_to_parent(path, &length);

    if (dir >= 0) {
        return dir;
    }
    int saved_errno = errno;
    if (saved_errno == ELOOP) {
        error_set(err, ERR_PATH_REFUSED,
                  "socket path \"%s\": \"%.*s\" is a symbolic link", path,
                  (int)length, path);
    } else {
        error_set_errno(err, missing, saved_errno,
                        "socket path \"%s\": directory \"%.*s\"", path,
                        (int)length, path);
    }
    errno = saved_errno == EAGAIN ? EIO : saved_errno;
    return -1;
}

static bool is_parent(const char *dir, const char *path)
{
    size_t length = strlen(dir);

    while (length > 1 && dir[length - 1] == '/') {
        length--;
    }
    size_t parent = (size_t)(base_name(path) - path) - 1;
    return length == parent && !memcmp(dir, path, length);
}

int path_check_allowed(const char *path, char *const *dirs, size_t count,
                       struct error *err)
{
    char list[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        if (is_parent(dirs[i], path)) {
            return 0;
        }
        if (used < sizeof(list)) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
                                     i ? ", " : "", dirs[i]);
        }
    }
    return error_set(err, ERR_PATH_REFUSED,
                     "socket path \"%s\" does not lie directly in one of the "
                     "allowed directories (%s)",
                     path, count ? list : "there are none");
}

static bool is_owner_ok(uid_t owner, uid_t allowed)
{
    if (allowed == PATH_OWNER_ROOT_OR_SELF) {
        return owner == 0 || owner == geteuid();
    }
    return owner == allowed;
}

static int check_socket_file(const char *path, const struct stat *st,
                             const struct stat *dir, uid_t owner,
                             struct error *err)
{
    if (S_ISLNK(st->st_mode)) {
        return error_set(err, ERR_PATH_REFUSED,
                         "socket path \"%s\" is a symbolic link", path);
    }
    if (!S_ISSOCK(st->st_mode)) {
        return error_set(err, ERR_PATH_REFUSED, "\"%s\" is not a socket", path);
    }
    if (!is_owner_ok(st->st_uid, owner)) {
        return error_set(
            err, ERR_PATH_REFUSED,
            "socket \"%s\" belongs to user %u, not to %s%u", path,
            (unsigned)st->st_uid,
            owner == PATH_OWNER_ROOT_OR_SELF ? "root or user " : "user ",
            (unsigned)(owner == PATH_OWNER_ROOT_OR_SELF ? geteuid() : owner));
    }
    if ((dir->st_mode & S_IWOTH) && !(dir->st_mode & S_ISVTX)) {
        return error_set(err, ERR_PATH_REFUSED,
                         "socket \"%s\" lies in a directory in which anyone "
                         "may replace files (mode %04o)",
                         path, (unsigned)dir->st_mode & 07777);
    }
    if ((st->st_mode & S_IWOTH) && (dir->st_mode & S_IXOTH)) {
        return error_set(err, ERR_PATH_REFUSED,
                         "anyone may connect to socket \"%s\" (mode %04o in a "
                         "directory of mode %04o)",
                         path, (unsigned)st->st_mode & 07777,
                         (unsigned)dir->st_mode & 07777);
    }
    return 0;
}

int path_check_directory(const char *dir, struct error *err)
{
    char path[PATH_SOCKET_MAX + 1];
    struct stat st;

    if (snprintf(path, sizeof(path), "%s/x", strcmp(dir, "/") ? dir : "") >=
        (int)sizeof(path)) {
        return error_set(err, ERR_PATH_REFUSED,
                         "directory \"%.200s\" leaves no room for a name in "
                         "the %d bytes of a socket path",
                         dir, PATH_SOCKET_MAX);
    }
    size_t length;
    CLEANUP_FD int fd = walk_to_parent(path, &length);
    if (fd < 0 && errno == ELOOP) {
        return error_set(err, ERR_PATH_REFUSED,
                         "directory \"%s\": \"%.*s\" is a symbolic link", dir,
                         (int)length, path);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return error_set_errno(err, ERR_IO, errno, "directory \"%.*s\"",
                               (int)length, path);
    }
    if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX)) {
        return error_set(err, ERR_PATH_REFUSED,
                         "anyone may replace files in directory \"%s\" (mode "
                         "%04o)",
                         dir, (unsigned)st.st_mode & 07777);
    }
    return 0;
}

/* Opens path (checked and allowed) as a handle on the socket file itself. */
static int open_socket_file(const char *path, uid_t owner, struct error *err)
{
    CLEANUP_FD int dir = open_parent(path, ERR_QMP_UNREACHABLE, err);
    struct stat dir_st, st;

    if (dir < 0) {
        return -1;
    }
    CLEANUP_FD int file =
        openat(dir, base_name(path), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || fstat(dir, &dir_st) < 0 || fstat(file, &st) < 0) {
        int saved_errno = errno;
        error_set_errno(err, ERR_QMP_UNREACHABLE, saved_errno, "socket \"%s\"",
                        path);
        errno = saved_errno == EAGAIN ? EIO : saved_errno;
        return -1;
    }
    if (check_socket_file(path, &st, &dir_st, owner, err) < 0) {
        errno = EACCES;
        return -1;
    }
    return steal_fd(&file);
}

static int new_unix_socket(const char *path, struct error *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        int saved_errno = errno;
        error_set_errno(err, ERR_IO, saved_errno, "socket \"%s\"", path);
        errno = saved_errno;
    }
    return fd;
}

/* /proc/self/fd/N stands for the very file that was opened. */
static void set_fd_path(char *buf, size_t size, int fd)
{
    snprintf(buf, size, "/proc/self/fd/%d", fd);
}

/* Connects fd to the socket file behind the handle. -1 and errno. */
static int connect_file(int fd, int file)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    set_fd_path(address.sun_path, sizeof(address.sun_path), file);
    return connect(fd, (const struct sockaddr *)&address, sizeof(address));
}

int path_connect_socket_of(const char *path, char *const *dirs, size_t count,
                           uid_t owner, struct error *err)
{
    if (path_check_socket(path, err) < 0 ||
        path_check_allowed(path, dirs, count, err) < 0) {
        errno = EACCES;
        return -1;
    }
    CLEANUP_FD int file = open_socket_file(path, owner, err);
    if (file < 0) {
        return -1;
    }
    CLEANUP_FD int fd = new_unix_socket(path, err);
    if (fd < 0) {
        return -1;
    }
    if (connect_file(fd, file) < 0) {
        int saved_errno = errno;
        error_set_errno(err, ERR_QMP_UNREACHABLE, saved_errno,
                        "connecting to socket \"%s\"", path);
        errno = saved_errno;
        return -1;
    }
    return steal_fd(&fd);
}

int path_connect_socket(const char *path, char *const *dirs, size_t count,
                        struct error *err)
{
    return path_connect_socket_of(path, dirs, count, PATH_OWNER_ROOT_OR_SELF,
                                  err);
}

static int refuse_other_file(const char *path, struct error *err)
{
    return error_set(err, ERR_PATH_REFUSED,
                     "cannot listen on \"%s\": it exists and is not a socket",
                     path);
}

int path_check_listen(const char *path, struct error *err)
{
    struct stat st;

    if (path_check_socket(path, err) < 0) {
        return -1;
    }
    CLEANUP_FD int dir = open_parent(path, ERR_IO, err);
    if (dir < 0) {
        return -1;
    }
    if (!fstatat(dir, base_name(path), &st, AT_SYMLINK_NOFOLLOW) &&
        !S_ISSOCK(st.st_mode)) {
        return refuse_other_file(path, err);
    }
    return 0;
}

/* Removes a dead socket in the way of a new one. */
static int remove_stale(const char *path, int dir, struct error *err)
{
    CLEANUP_FD int file =
        openat(dir, base_name(path), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (file < 0) {
        /* what else there may be is said by bind() */
        return 0;
    }
    if (fstat(file, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return refuse_other_file(path, err);
    }
    CLEANUP_FD int fd = new_unix_socket(path, err);
    if (fd < 0) {
        return -1;
    }
    if (!connect_file(fd, file) || errno != ECONNREFUSED) {
        return error_set(err, ERR_CONFLICT,
                         "cannot listen on \"%s\": another process does", path);
    }
    if (unlinkat(dir, base_name(path), 0) < 0) {
        return error_set_errno(err, ERR_IO, errno,
                               "removing the stale socket \"%s\"", path);
    }
    return 0;
}

/* Gives the new socket its group, then its mode (chown clears no bits that
 * matter, but the group must not get the mode before it is the right one). */
static int set_rights(const char *path, int dir, unsigned mode, unsigned group,
                      struct error *err)
{
    char fd_path[FD_PATH_SIZE];
    struct stat st;
    CLEANUP_FD int file =
        openat(dir, base_name(path), O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (file < 0 || fstat(file, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return error_set(err, ERR_PATH_REFUSED,
                         "socket \"%s\" was replaced while it was made", path);
    }
    set_fd_path(fd_path, sizeof(fd_path), file);
    if (group != (gid_t)-1 && chown(fd_path, (uid_t)-1, group) < 0) {
        return error_set_errno(err, ERR_IO, errno,
                               "giving socket \"%s\" to group %u", path, group);
    }
    if (chmod(fd_path, mode) < 0) {
        return error_set_errno(err, ERR_IO, errno,
                               "giving socket \"%s\" mode %04o", path, mode);
    }
    return 0;
}

int path_listen_socket(const char *path, unsigned mode, unsigned group,
                       int backlog, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (path_check_socket(path, err) < 0) {
        return -1;
    }
    CLEANUP_FD int dir = open_parent(path, ERR_IO, err);
    if (dir < 0 || remove_stale(path, dir, err) < 0) {
        return -1;
    }
    CLEANUP_FD int fd = new_unix_socket(path, err);
    if (fd < 0) {
        return -1;
    }
    /* Linux makes the file with the descriptor's mode and the umask; the
     * path is the real one since others read it (ss -x, lsof) */
    strcpy(address.sun_path, path);
    if (fchmod(fd, mode & 0700) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        return error_set_errno(err, ERR_IO, errno, "making socket \"%s\"",
                               path);
    }
    if (set_rights(path, dir, mode, group, err) < 0) {
        unlinkat(dir, base_name(path), 0);
        return -1;
    }
    if (listen(fd, backlog) < 0) {
        error_set_errno(err, ERR_IO, errno, "listening on \"%s\"", path);
        unlinkat(dir, base_name(path), 0);
        return -1;
    }
    return steal_fd(&fd);
}

void path_remove_socket(const char *path)
{
    size_t length;
    struct stat st;

    if (path_check_socket(path, NULL) < 0) {
        return;
    }
    CLEANUP_FD int dir = walk_to_parent(path, &length);
    if (dir >= 0 && !fstatat(dir, base_name(path), &st, AT_SYMLINK_NOFOLLOW) &&
        S_ISSOCK(st.st_mode)) {
        unlinkat(dir, base_name(path), 0);
    }
}

/* A datagram socket is never let in by a stream socket, and is told apart from
 * none at all: ECONNREFUSED is the word for a file that nobody is bound to
 * (Linux net/unix/af_unix.c, unix_find_bsd()). */
static bool is_bound(int dir, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int length = snprintf(address.sun_path, sizeof(address.sun_path),
                          "/proc/self/fd/%d/%s", dir, name);

    return fd < 0 || length < 0 || (size_t)length >= sizeof(address.sun_path) ||
           !connect(fd, (const struct sockaddr *)&address, sizeof(address)) ||
           errno != ECONNREFUSED;
}

bool path_remove_dead_socket(const char *path, uid_t owner)
{
    size_t length;
    struct stat st;

    if (path_check_socket(path, NULL) < 0) {
        return false;
    }
    CLEANUP_FD int dir = walk_to_parent(path, &length);
    if (dir < 0 || fstatat(dir, base_name(path), &st, AT_SYMLINK_NOFOLLOW) ||
        !S_ISSOCK(st.st_mode) ||
        (st.st_uid != owner && st.st_uid != 0 && st.st_uid != geteuid()) ||
        is_bound(dir, base_name(path))) {
        return false;
    }
    return unlinkat(dir, base_name(path), 0) == 0;
}
