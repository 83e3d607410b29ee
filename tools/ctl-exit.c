// SPDX-License-Identifier: BSD-3-Clause
/* The exit status of each class of error. */
#include "tools/ctl-exit.h"

enum ctl_exit ctl_exit_of(enum error_code code)
{
    /* without a default, so that the compiler asks about a new class */
    switch (code) {
    case ERR_NONE:
        return CTL_EXIT_DONE;
    case ERR_BAD_REQUEST:
        return CTL_EXIT_USAGE;
    case ERR_NOT_FOUND:
    case ERR_CONFLICT:
    case ERR_LIMIT:
    case ERR_FORBIDDEN:
    case ERR_PATH_REFUSED:
    case ERR_TOO_LATE:
    case ERR_UNSUPPORTED:
    case ERR_MISMATCH:
    case ERR_GUEST_STATE:
    case ERR_PEER_UNKNOWN:
    case ERR_PEER_UNREACHABLE:
    case ERR_PEER_REFUSED:
    case ERR_TLS:
    case ERR_QMP_UNREACHABLE:
    case ERR_MONITOR_BUSY:
    case ERR_SHUTTING_DOWN:
        return CTL_EXIT_REFUSED;
    case ERR_INTERNAL:
    case ERR_NO_MEMORY:
    case ERR_IO:
    case ERR_CONFIG:
    case ERR_PROTOCOL:
    case ERR_LINK_LOST:
    case ERR_QMP:
    case ERR_QEMU_FAILED:
    case ERR_QEMU_GONE:
    case ERR_TIMEOUT:
    case ERR_CANCELLED:
    case ERR_DAEMON_RESTARTED:
    case ERR_DAEMON_UNREACHABLE:
    case ERROR_CODES:
        return CTL_EXIT_FAILURE;
    }
    return CTL_EXIT_FAILURE;
}
