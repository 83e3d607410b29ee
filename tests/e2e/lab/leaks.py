# SPDX-License-Identifier: BSD-3-Clause
"""What a process holds: compared before and after."""
import collections
import os
import pathlib

from .wait import wait_for


def _descriptors(pid):
    """Kinds of open descriptors: "socket" rather than "socket:[123]"."""
    kinds = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except FileNotFoundError:
            continue  # closed meanwhile
        kinds.append(target.split(":")[0] if ":[" in target else target)
    return collections.Counter(kinds)


def children_of(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _files(directories):
    return {str(path) for top in directories
            for path in pathlib.Path(top).rglob("*")}


class Footprint:
    """Descriptors, threads and children of a process, and the files in its
    directories. Take one when the process is idle, then assert_back()."""

    def __init__(self, pid, directories=()):
        self.pid = pid
        self.directories = list(directories)
        self.descriptors = _descriptors(pid)
        self.threads = len(os.listdir(f"/proc/{pid}/task"))
        self.children = len(children_of(pid))
        self.files = _files(self.directories)

    def difference(self):
        """What is now more or less than it was; "" if nothing."""
        now = Footprint(self.pid, self.directories)
        parts = []
        for name in ("threads", "children"):
            before, after = getattr(self, name), getattr(now, name)
            if before != after:
                parts.append(f"{name}: {before} before, {after} now")
        for kind in sorted(set(self.descriptors) | set(now.descriptors)):
            before, after = self.descriptors[kind], now.descriptors[kind]
            if before != after:
                parts.append(f"descriptors of {kind}: {before} before, "
                             f"{after} now")
        for path in sorted(now.files - self.files):
            parts.append(f"new file {path}")
        for path in sorted(self.files - now.files):
            parts.append(f"file gone {path}")
        return "; ".join(parts)

    def assert_back(self, seconds=5):
        wait_for(f"return of process {self.pid} to what it held before",
                 lambda: not self.difference(), seconds, self.difference)
