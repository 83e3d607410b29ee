# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts in one: network namespaces joined by a shaped veth pair."""
import contextlib
import ctypes
import os
import pathlib
import re
import subprocess

PREFIX = "mpbench"
DEVICE = "mpbench0"
NETNS_DIR = pathlib.Path("/run/netns")
CLONE_NEWNET = 0x40000000
COMMAND_S = 20
# of the fields of /proc/net/dev after the device's name
DEVICE_SENT_BYTES = 8
# bit/s, and the bucket of its shaper in bytes: one of 128 KiB lets whole
# segments of TCP pass, at 100 Mbit/s it would be 10 ms of line
RATES = {"100mbit": (100_000_000, 16384), "1gbit": (1_000_000_000, 131072),
         "10gbit": (10_000_000_000, 262144), "0": (0, 0)}

_libc = ctypes.CDLL(None, use_errno=True)


def command(*argv):
    done = subprocess.run([str(arg) for arg in argv], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=COMMAND_S)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout


def _enter_namespace(descriptor):
    if _libc.setns(descriptor, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


class Host:
    """One end: a namespace, an address, the CPUs of its programs."""

    def __init__(self, letter, namespace, address, cpus):
        self.letter = letter
        self.namespace = namespace
        self.address = address
        self.cpus = cpus

    @contextlib.contextmanager
    def entered(self):
        """Programs started in this context are on this host: a namespace and
        an affinity belong to a thread, and a child has its thread's."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(NETNS_DIR / self.namespace, os.O_RDONLY)
        cpus = os.sched_getaffinity(0)
        try:
            _enter_namespace(there)
            if self.cpus:
                os.sched_setaffinity(0, self.cpus)
            yield self
        finally:
            os.sched_setaffinity(0, cpus)
            _enter_namespace(here)
            os.close(there)
            os.close(here)

    def listens(self, port):
        """Whether a TCP socket here listens on that port. Asked of the
        kernel: a connection would be taken for QEMU's first."""
        with self.entered():
            table = pathlib.Path("/proc/thread-self/net/tcp").read_text()
        return re.search(rf": [0-9A-F]{{8}}:{port:04X} \w+:\w+ 0A ", table)

    def sent_bytes(self):
        """What left over the link, headers included."""
        with self.entered():
            table = pathlib.Path("/proc/thread-self/net/dev").read_text()
        fields = table.split(f"{DEVICE}:")[1].split("\n")[0].split()
        return int(fields[DEVICE_SENT_BYTES])


def remove_stale():
    """Namespaces of benchmarks that were killed."""
    if not NETNS_DIR.is_dir():
        return
    for path in NETNS_DIR.glob(f"{PREFIX}-*-*"):
        pid = path.name.split("-")[1]
        if pid.isdigit() and not pathlib.Path("/proc", pid).exists():
            command("ip", "netns", "delete", path.name)


class Network:
    """with Network(...) as net: net.a and net.b, joined."""

    def __init__(self, rate, queue_ms, congestion, pinned):
        self.rate = rate
        self.queue_ms = queue_ms
        self.congestion = congestion
        half = (sorted(os.sched_getaffinity(0)) if pinned else [])
        cut = max(1, len(half) // 2)
        self.a, self.b = (
            Host(letter, f"{PREFIX}-{os.getpid()}-{letter}", f"10.77.0.{n}",
                 cpus) for letter, n, cpus in (
                     ("a", 1, half[:cut]), ("b", 2, half[cut:] or half)))
        self.hosts = (self.a, self.b)

    def __enter__(self):
        try:
            remove_stale()
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Deleting a namespace takes its end of the pair with it, and the
        other end goes as well."""
        for host in self.hosts:
            if (NETNS_DIR / host.namespace).exists():
                command("ip", "netns", "delete", host.namespace)

    def _make(self):
        for host in self.hosts:
            command("ip", "netns", "add", host.namespace)
        command("ip", "link", "add", DEVICE, "netns", self.a.namespace, "type",
                "veth", "peer", "name", DEVICE, "netns", self.b.namespace)
        for host in self.hosts:
            self._set_up(host)

    def _set_up(self, host):
        ip = ("ip", "-n", host.namespace)
        command(*ip, "link", "set", "lo", "up")
        command(*ip, "addr", "add", f"{host.address}/30", "dev", DEVICE)
        with host.entered():
            ipv6 = pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
            if ipv6.exists():
                ipv6.write_text("1")
        command(*ip, "link", "set", DEVICE, "up")
        # by the route: a namespace may not choose what the host reserves
        command(*ip, "route", "replace", "10.77.0.0/30", "dev", DEVICE,
                "proto", "kernel", "scope", "link", "src", host.address,
                "congctl", self.congestion)
        bits, burst_bytes = RATES[self.rate]
        if bits:
            command("tc", "-n", host.namespace, "qdisc", "add", "dev", DEVICE,
                    "root", "tbf", "rate", self.rate, "burst", burst_bytes,
                    "latency", f"{self.queue_ms}ms")
