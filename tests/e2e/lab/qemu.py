# SPDX-License-Identifier: BSD-3-Clause
"""A real QEMU with the test guest in it."""
import os
import pathlib

from . import host
from .process import Process
from .qmp import Qmp
from .wait import wait_for

START_S = 20
# what the guest does unless a test says otherwise: busy, but a precopy ends
WORK = {"mib": 128, "order": "random", "rate": 5000, "write": 50, "disk": 50}
UUID = "7d6f2a52-4c0e-4c57-9d0e-6d6967707278"
CONSOLE = "console=ttyS0 quiet loglevel=4 panic=-1"
# TCG before QEMU 9.0 damages guests that it migrates: fetching the dirty
# bitmap does not reset the vCPUs' TLBs, so a page that is written through an
# entry made before is not sent again ("physmem: Fix migration dirty bitmap
# coherency with TCG memory access" mends it). On a loaded host 26 of 96
# direct precopies ended in a panic of the guest (most of them with vCPU threads
# at real-time priority). With page table isolation and no PCID each entry to
# the kernel and each exit empties the TLB, and the workload makes a system call
# before it writes: 41 of 41 ended well.
TCG_FLUSHES = "pti=on nopcid work.flush=1"


class Qemu(Process):
    """side names this end in the guest's reports; name is the guest's name
    (-name), the same on both ends.

    .qmp_path is the monitor for migproxy; .qmp is a client on a second one.
    """

    def __init__(self, side, guest, directory, disk=None, name="vm",
                 uuid=UUID, incoming=False, paused=False, memory_mib=256,
                 cpus=1, machine="q35", work=None, extra=()):
        self.side = side
        self.guest = guest
        self.vm = name
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        # directly in the lab: [qemu] socket-dirs names that directory
        self.qmp_path = self.directory.parent / f"{side}.qmp"
        self.migrate_path = self.directory / "migrate.sock"
        lab_qmp_path = self.directory / "qmp-lab.sock"
        serial, beat = self.directory / "serial", self.directory / "beat"
        for fifo in (f"{serial}.in", f"{serial}.out", beat):
            os.mkfifo(fifo)
        guest.attach(side, serial, beat)

        kvm = host.accelerator() == "kvm"
        files = host.guest_files()
        options = {**WORK, **(work or {})}
        if not disk:
            options["disk"] = 0
        console = CONSOLE if kvm else f"{CONSOLE} {TCG_FLUSHES}"
        append = " ".join([console, *(f"work.{key}={value}"
                                      for key, value in options.items())])
        argv = [host.QEMU, "-nodefaults", "-no-user-config",
                "-display", "none", "-name", name, "-uuid", uuid,
                "-machine", machine, "-accel", "kvm" if kvm else "tcg",
                "-cpu", "host" if kvm else "max", "-smp", cpus,
                "-m", memory_mib, "-kernel", files / "vmlinuz",
                "-initrd", files / "initramfs.cpio.gz", "-append", append,
                "-no-reboot",
                "-chardev", f"pipe,id=serial0,path={serial}",
                "-serial", "chardev:serial0",
                "-chardev", f"file,id=beat0,path={beat}",
                "-device", "isa-debugcon,iobase=0xe9,chardev=beat0",
                "-qmp", f"unix:{self.qmp_path},server=on,wait=off",
                "-qmp", f"unix:{lab_qmp_path},server=on,wait=off",
                *(disk.argv() if disk else []),
                *(["-incoming", "defer"] if incoming else []),
                *(["-S"] if paused else []), *extra]
        super().__init__(f"qemu-{side}", argv, self.directory / "qemu.log")
        self.qmp = self._connect(lab_qmp_path)

    def _connect(self, path):
        def attempt():
            self.assert_alive()
            try:
                return Qmp(path)
            except (FileNotFoundError, ConnectionRefusedError):
                return None
        return wait_for(f"monitor of {self.name}", attempt, START_S,
                        self.log_tail)

    def kill(self):
        super().kill()
        self.qmp.close()
