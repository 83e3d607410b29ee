# SPDX-License-Identifier: BSD-3-Clause
"""Everything of one scenario: made in one directory, removed at the end."""
import pathlib
import shutil
import tempfile

from .disk import Disk
from .guest import Guest
from .link import Link
from .migproxy import Daemon, make_pki
from .move import STORY
from .qemu import COMMON_CPU, COMMON_MACHINE, Qemu
from .wait import wait_for


STORY_BYTES = 12000


def _without_polling(log):
    """The end of a daemon's log, less the requests of a waiting test."""
    return "\n".join(line for line in log.splitlines()
                     if " api: GET " not in line)[-STORY_BYTES:]


class Lab:
    """with Lab() as lab: the directory, the guest and its disk, and whatever
    is started through it; all processes end with it.

    versions: of the source's and of the destination's QEMU. Where they differ,
    the guest gets a machine and a CPU that both have.
    """

    def __init__(self, prefix="mp-lab-", versions=("7.2", "7.2")):
        self.versions = versions
        # short, and not pytest's: a socket's path has room for 107 bytes
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
        self.guest = Guest()
        self.disk = Disk(self.directory / "disk.img")
        self.qemus = []
        self.daemons = []
        self.links = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for daemon in self.daemons:
            if daemon.process:
                daemon.kill()
        for qemu in self.qemus:
            qemu.kill()
        for link in self.links:
            link.close()
        self.guest.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # QEMUs

    def qemu(self, side, **options):
        """A QEMU on that side; options as Qemu(). Of the destination's
        version if it waits for a guest, unless options say otherwise."""
        options.setdefault("disk", self.disk)
        options.setdefault("version",
                           self.versions[bool(options.get("incoming"))])
        if self.versions[0] != self.versions[1]:
            options.setdefault("machine", COMMON_MACHINE)
            options.setdefault("cpu", COMMON_CPU)
        qemu = Qemu(side, self.guest, self.directory / f"qemu-{side}",
                    **options)
        self.qemus.append(qemu)
        return qemu

    def pair(self, a="a", b="b", **options):
        """A source with the guest at work, and a destination waiting."""
        source = self.qemu(a, **options)
        destination = self.qemu(b, incoming=True, **options)
        self.guest.wait_ready(a)
        self.guest.wait_beats(a)
        return source, destination

    # daemons

    def daemon(self, name, tls_dir, **options):
        daemon = Daemon(name, self.directory / f"host-{name}", tls_dir,
                        [self.directory], **options)
        self.daemons.append(daemon)
        return daemon

    def daemons_pair(self, a="A", b="B", options=None, start=True,
                     linked=False):
        """Two daemons that know and trust each other. With linked, A reaches
        B over self.links[0] and B reaches A over self.links[1]."""
        pki = make_pki(self.directory / "pki", a, b)
        pair = [self.daemon(name, pki / name, options=options)
                for name in (a, b)]
        for daemon, other in (pair, reversed(pair)):
            port = other.port
            if linked:
                self.links.append(Link(port))
                port = self.links[-1].port
            daemon.add_peer(other.name, port)
        if start:
            for daemon in pair:
                daemon.start()
        return pair

    def sockets(self):
        """Migration sockets that are left."""
        return sorted(path.name for path in self.directory.glob("mp-*"))

    def assert_no_sockets(self):
        wait_for("end of all sockets", lambda: not self.sockets(), 5,
                 self.sockets)

    def _ends(self):
        """What the daemons that answer say of each migration, by its id."""
        ends = {}
        for daemon in self.daemons:
            if daemon.process and daemon.process.alive:
                for shown in daemon.api("GET", "/v1/migrations")[1][
                        "migrations"]:
                    ends.setdefault(shown["id"], []).append(shown)
        return ends

    def assert_one_story(self, seconds=10):
        """Of what failed both ends say the same, sooner or later, and nothing
        is left of what has ended."""
        def different():
            return [pair for pair in self._ends().values()
                    if all(shown["result"] and shown["error"]
                           for shown in pair)
                    and len({tuple(shown["error"][member] for member in STORY)
                             for shown in pair}) > 1]
        wait_for("one story of each failure", lambda: not different(), seconds,
                 different)
        if all(shown["result"] for pair in self._ends().values()
               for shown in pair):
            self.assert_no_sockets()

    # the end of a test

    def finish(self, running):
        """The guest on the QEMU running verifies all it has; the disk is
        checked after that QEMU is gone. Returns the guest's last word."""
        final = self.guest.finish(running.side)
        assert final["wrong"] == 0 and final["disk_wrong"] == 0, final
        self.guest.assert_sound()
        running.kill()
        self.disk.check(max(1, final["disk_seq"]))
        return final

    def story(self):
        """What a failed test should show."""
        parts = [f"guest: {self.guest.tail()}",
                 "console: " + "\n".join(self.guest.console[-40:]),
                 f"gaps: {self.guest.gaps[-10:]}",
                 f"breaks: {self.guest.breaks} garbled: {self.guest.garbled}"]
        for daemon in self.daemons:
            if daemon.process:
                parts.append(f"--- migproxy {daemon.name}\n"
                             f"{_without_polling(daemon.log())}")
        for qemu in self.qemus:
            parts.append(f"--- {qemu.name}\n{qemu.log_tail()}")
        return "\n".join(parts)
