# SPDX-License-Identifier: BSD-3-Clause
"""The shared disk image of a guest."""
import pathlib
import subprocess

from .host import SOURCE_DIR

CHECK_S = 60


class Disk:
    """A raw image that both QEMUs open, with QEMU's file locking on."""

    def __init__(self, path, size_bytes=4 << 20):
        self.path = pathlib.Path(path)
        with open(self.path, "wb") as image:
            image.truncate(size_bytes)

    def argv(self):
        return ["-blockdev", "driver=raw,node-name=disk0,file.driver=file,"
                             f"file.filename={self.path},file.locking=on",
                "-device", "virtio-blk-pci,drive=disk0"]

    def check(self, at_least=1):
        """Fails unless the sequence is unbroken up to at_least or later."""
        done = subprocess.run(
            [SOURCE_DIR / "tests/guest/disk-check", self.path, str(at_least)],
            text=True, timeout=CHECK_S, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
