# SPDX-License-Identifier: BSD-3-Clause
"""CPU time of processes, by /proc."""
import os
import pathlib

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# of the fields after the command's name in /proc/PID/stat: utime, stime,
# and those of children that were waited for
OWN, WITH_REAPED = slice(11, 13), slice(11, 15)


def _seconds(path, fields):
    try:
        text = pathlib.Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, text.rsplit(")", 1)[1].split()[fields])) * TICK_S


def process_s(pid):
    """User and system seconds of a process, of threads that ended too, and
    of its children."""
    total = _seconds(f"/proc/{pid}/stat", WITH_REAPED)
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        total += sum(process_s(child) for child in path.read_text().split())
    return total


def thread_s(pid, thread):
    return _seconds(f"/proc/{pid}/task/{thread}/stat", OWN)


def qemu_s(qemu):
    """A QEMU's time without that of its guest: of all but its vCPUs."""
    threads = [cpu["thread-id"]
               for cpu in qemu.qmp.command("query-cpus-fast")]
    return process_s(qemu.pid) - sum(thread_s(qemu.pid, thread)
                                     for thread in threads)
