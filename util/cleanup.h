// SPDX-License-Identifier: BSD-3-Clause
/* Scope-bound ownership: what a local owns is released when it goes out of
 * scope. Give it away with steal_ptr() or steal_fd(). */
#ifndef UTIL_CLEANUP_H
#define UTIL_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define CLEANUP_FREE CLEANUP(cleanup_free_ptr)
#define CLEANUP_FD CLEANUP(cleanup_close_fd)

static inline void cleanup_free_ptr(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

/* Takes the pointer out of *p, leaving NULL behind. */
#define steal_ptr(p)                                                           \
    __extension__({                                                            \
        __typeof__(*(p)) steal_tmp = *(p);                                     \
        *(p) = NULL;                                                           \
        steal_tmp;                                                             \
    })

/* Takes the descriptor out of *fd, leaving -1 behind. */
static inline int steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#endif
