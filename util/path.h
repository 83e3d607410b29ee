// SPDX-License-Identifier: BSD-3-Clause
/* Unix socket paths that someone named: opened only inside allowed
 * directories, without following symbolic links.
 *
 * Directories are walked one component at a time, and no component may be
 * a symbolic link (what openat2() calls RESOLVE_NO_SYMLINKS; walking gives the
 * same on kernels and in sandboxes that lack the call). What has been opened
 * and checked is then used through its descriptor, so that nothing can be
 * swapped in between. */
#ifndef UTIL_PATH_H
#define UTIL_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/error.h"

/* Longest path of a unix socket, without the final NUL (struct sockaddr_un). */
#define PATH_SOCKET_MAX 107

/* Longest name of a guest in a path. */
#define PATH_VM_MAX 64

/* path_connect_socket_of(): root or the user this process runs as. */
#define PATH_OWNER_ROOT_OR_SELF ((uid_t)-1)

/* Whether a socket's path, relative or not, has a length that is possible (1 to
 * PATH_SOCKET_MAX bytes): 0, or -1 with ERR_PATH_REFUSED as below. */
int path_check_length(const char *path, struct error *err);

/* Checks a socket path's form: absolute, at most PATH_SOCKET_MAX bytes, no
 * empty, "." or ".." component, no control characters. ERR_PATH_REFUSED names
 * the path, its length and the limit. */
int path_check_socket(const char *path, struct error *err);

/* Whether path lies directly in one of the count directories of dirs: 0, or -1
 * with ERR_PATH_REFUSED naming them. Looks at no file. */
int path_check_allowed(const char *path, char *const *dirs, size_t count,
                       struct error *err);

/* Replaces each {vm} in template by vm. A vm that is empty, longer than
 * PATH_VM_MAX, has characters outside [A-Za-z0-9._+@-] or starts with a dot is
 * refused: it would name another file. The result is checked with
 * path_check_socket(). On success *ret_path is the caller's to free. */
int path_expand_vm(const char *template, const char *vm, char **ret_path,
                   struct error *err);

/* Connects to the unix stream socket at path, which must lie directly in one
 * of the count directories of dirs (absolute). Refused are symbolic links
 * anywhere in path, what is no socket, a socket that does not belong to
 * owner (the plain form: PATH_OWNER_ROOT_OR_SELF), one that others may
 * write to while its directory is open to them, and a directory in which
 * anyone may replace files. Returns a non-blocking, close-on-exec descriptor,
 * or -1 with *err: ERR_PATH_REFUSED, or ERR_QMP_UNREACHABLE when there is no
 * such socket, nobody listens or the rights do not suffice. EAGAIN (listen
 * backlog full) is reported with errno == EAGAIN, so that the caller can try
 * again; errno is something else in all other cases. */
int path_connect_socket(const char *path, char *const *dirs, size_t count,
                        struct error *err);
int path_connect_socket_of(const char *path, char *const *dirs, size_t count,
                           uid_t owner, struct error *err);

/* Whether path_connect_socket_of() would take sockets directly in dir
 * (absolute): 0, or -1 with an error that names what is missing, a symbolic
 * link or a mode by which anyone may replace files. */
int path_check_directory(const char *dir, struct error *err);

/* Creates a listening unix socket at path with the given mode (at no time is it
 * wider) and group ((gid_t)-1: leave). An old socket of that name is removed if
 * nobody listens on it; a live one (ERR_CONFLICT) or any other file
 * (ERR_PATH_REFUSED) is an error. The descriptor is non-blocking and
 * close-on-exec. Remove the file with path_remove_socket(). */
int path_listen_socket(const char *path, unsigned mode, unsigned group,
                       int backlog, struct error *err);

/* Whether path_listen_socket() could make a socket at path: its directory is
 * there and can be reached, and what has that name is a socket. Changes
 * nothing; whether somebody listens there is not looked at. */
int path_check_listen(const char *path, struct error *err);

/* Removes the socket at path if it is one; the way to it is walked as above.
 * What cannot be removed stays. */
void path_remove_socket(const char *path);

/* The same for one that somebody may have left behind: only if it belongs to
 * owner, root or the user this process runs as, and no socket is bound to it
 * any more. Whoever does listen there does not notice. Returns whether it was
 * removed. */
bool path_remove_dead_socket(const char *path, uid_t owner);

#endif
