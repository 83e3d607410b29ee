# SPDX-License-Identifier: BSD-3-Clause
"""A real QEMU with the test guest in it."""
import os
import pathlib

from . import host
from .process import Process
from .qmp import Qmp
from .wait import wait_for

START_S = 20
# what the guest does unless a test says otherwise: busy, but a precopy ends;
# no more memory than a test has time for at its bandwidth
WORK = {"mib": 64, "order": "random", "rate": 5000, "write": 50, "disk": 50}
UUID = "7d6f2a52-4c0e-4c57-9d0e-6d6967707278"
# QEMU before 9.0 loses writes of a TCG guest that runs during the second or a
# later pass of a precopy: where a RAM block's length is a multiple of 64 pages,
# cpu_physical_memory_sync_dirty_bitmap() clears dirty bits without making the
# vCPU's TLB report writes to those pages again (03bfc2188f06 "physmem: Fix
# migration dirty bitmap coherency with TCG memory access" mends it). Any other
# length takes the path that does, so there are 8 KiB more, QEMU's unit of -m.
# Measured with QEMU 7.2.22 from process to process, load average 15 to 20 on
# two cores, all of memory compared while the destination was still stopped:
#   256 MiB          18 of 29 wrong (up to 51 pages, most of them the guest
#                    kernel's; 17 guests died): 18 of the 19 with a
#                    dirty-sync-count of 4 or more, none of the others
#   256 MiB + 8 KiB  0 of 79 wrong, 30 of them with 4 or more
#   256 MiB, page table isolation without PCID, and a system call before each
#   write, so that TCG flushes its TLB all the time
#                    6 of 19 wrong (7 to 23 passes), 4 guests died
#   256 MiB + 8 KiB, no such flushes
#                    0 of 11 wrong (6 to 7 passes)
# Flat-out or at the default rate, thread=single, -cpu qemu64, -machine pc, with
# or without a disk: all lose writes without the 8 KiB.
# The price is a look through the TLB for each dirty page, under QEMU's lock:
# 0.15 s of CPU at the start of a migration, where the guest then stands
# still (1 to 2 s under that load). A memory backend must be as long as -m
# says, so a machine that names one goes without: let postcopy begin in its
# first pass, or pause its guest.
TCG_EXTRA_KIB = 8
# a machine and a CPU that QEMUs of different versions agree on ("max" and q35
# are what each version makes of them)
COMMON_MACHINE = "pc-q35-7.2"
COMMON_CPU = "qemu64"
CONSOLE = "console=ttyS0 quiet loglevel=4 panic=-1"


class Qemu(Process):
    """side names this end in the guest's reports; name is the guest's name
    (-name), the same on both ends.

    .qmp_path is the monitor for migproxy; .qmp is a client on a second one.
    version is one of host.VERSIONS. launcher is put in front of the command.
    """

    def __init__(self, side, guest, directory, disk=None, name="vm",
                 uuid=UUID, incoming=False, paused=False, memory_mib=128,
                 cpus=1, machine="q35", cpu="max", work=None, extra=(),
                 version="7.2", launcher=()):
        self.side = side
        self.version = version
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
        append = " ".join([CONSOLE, *(f"work.{key}={value}"
                                      for key, value in options.items())])
        memory_kib = memory_mib * 1024
        if not kvm and "memory-backend" not in machine:
            memory_kib += TCG_EXTRA_KIB
        argv = [*launcher, host.qemu_program(version), "-nodefaults", "-no-user-config",
                "-display", "none", "-name", name, "-uuid", uuid,
                "-machine", machine, "-accel", "kvm" if kvm else "tcg",
                "-cpu", "host" if kvm else cpu, "-smp", cpus,
                "-m", f"{memory_kib}k", "-kernel", files / "vmlinuz",
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
