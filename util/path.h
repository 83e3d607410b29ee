// SPDX-License-Identifier: BSD-3-Clause
/* Unix socket paths that someone named: opened only inside allowed
 * directories, without following symbolic links. */
#ifndef UTIL_PATH_H
#define UTIL_PATH_H

#include <stddef.h>

#include "util/error.h"

/* Longest path of a unix socket, without the final NUL. */
#define PATH_SOCKET_MAX 107

/* Checks a socket path's form: absolute, at most PATH_SOCKET_MAX bytes, no
 * "." or ".." component, no control characters. ERR_PATH_REFUSED names the
 * path, its length and the limit. */
int path_check_socket(const char *path, struct error *err);

/* Replaces {vm} in template by vm. A vm with characters outside
 * [A-Za-z0-9._+@-], or starting with a dot, is refused: it would name another
 * file. The result is checked with path_check_socket(). On success *ret_path is
 * the caller's to free. */
int path_expand_vm(const char *template, const char *vm, char **ret_path,
                   struct error *err);

/* Connects to the unix socket at path, which must lie directly in one of the
 * count directories of dirs. The directory is opened without following
 * a symbolic link in its last component, the socket in it is checked to be a
 * socket (not a link to one) and not writable by others unless the
 * directory is closed to them; the connection is made through the directory's
 * descriptor, so nothing can be swapped in between. Returns a non-blocking,
 * close-on-exec descriptor, or -1 with *err (ERR_PATH_REFUSED, or
 * ERR_QMP_UNREACHABLE when nobody listens). EAGAIN (listen backlog full) is
 * reported with errno == EAGAIN so that the caller can try again. */
int path_connect_socket(const char *path, char *const *dirs, size_t count,
                        struct error *err);

/* Creates a listening unix socket at path with the given mode and group
 * ((gid_t)-1: leave). An old socket of that name is removed if nobody listens
 * on it; a live one or any other file is an error. The descriptor is
 * non-blocking and close-on-exec. */
int path_listen_socket(const char *path, unsigned mode, unsigned group,
                       int backlog, struct error *err);

#endif
