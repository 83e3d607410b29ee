# SPDX-License-Identifier: BSD-3-Clause
"""A guest that stays where it is, or moves on, while migrations of it fail."""
import itertools
import socket
import ssl
import threading

from .leaks import Footprint
from .migproxy import free_port, make_pki
from .move import Move
from .relay import MonitorRelay

GUEST = {"memory_mib": 128,
         "work": {"mib": 16, "disk": 20, "report": 200}}
# so slow that there is time to do something to it
SLOW = 8 << 20
OPTIONS = {"migration.hold-time": "2s", "migration.connect-timeout": "1s",
           "migration.cancel-timeout": "5s"}
GO_ON_S = 30
CLIENT_S = 10


class TlsServer:
    """Serves a certificate to whoever connects, one after the other."""

    def __init__(self, tls_dir):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(tls_dir / "server-cert.pem",
                                      tls_dir / "server-key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.settimeout(CLIENT_S)
            try:
                with self._context.wrap_socket(client, server_side=True) as tls:
                    tls.recv(1)
            except OSError:
                pass  # refused, as it should be


class Home:
    """Two hosts with a daemon each, a path between them that can be cut, and a
    guest on one of them. .here is the daemon of the host with the guest,
    .there the other one; they change places when the guest has moved.

    Further peers of both: "down" (nobody listens), "silent" (accepts and says
    nothing), and some with a certificate that will not do: "stranger" (a daemon
    under another authority), "foreign" (a daemon with another host's name),
    "expired" (a mere TLS server: a daemon would not start with it).
    """

    def __init__(self, lab):
        self.lab = lab
        self._sides = (f"q{n}" for n in itertools.count())
        self.here, self.there = lab.daemons_pair(
            linked=True, start=False, options=dict(OPTIONS))
        self._silent = socket.create_server(("127.0.0.1", 0))
        ports = {"down": free_port(),
                 "silent": self._silent.getsockname()[1]}
        ours = lab.directory / "pki"
        make_pki(ours, "expired", options=("--expired",))
        self._expired = TlsServer(ours / "expired")
        ports["expired"] = self._expired.port
        for name, pki in (
                ("stranger", make_pki(lab.directory / "evil", "stranger")),
                ("foreign", make_pki(ours, "foreign",
                                     options=("--san", "DNS:mallory")))):
            peer = lab.daemon(name, pki / name)
            for host in (self.here, self.there):
                peer.add_peer(host.name, host.port)
            peer.start()
            ports[name] = peer.port
        for host in (self.here, self.there):
            for name, port in ports.items():
                host.add_peer(name, port)
            host.start()
        self.source = self._qemu()
        lab.guest.wait_ready(self.source.side)
        self.goes_on()  # what lasts between the daemons is there from now on

    def close(self):
        self._silent.close()
        self._expired.close()

    @property
    def is_well(self):
        """Whether the guest still runs where it is thought to be."""
        return self.source.alive and self.source.qmp.running()

    def _qemu(self, **options):
        side = next(self._sides)
        return self.lab.qemu(
            side, version=self.lab.versions[0], **{
                **GUEST, "extra": ("-device", "virtio-rng-pci"), **options})

    def waiting(self, **options):
        """A QEMU on the other host that waits for the guest."""
        return self._qemu(**{"incoming": True, **options})

    def relay(self, qemu, hold):
        """Puts a relay in front of the monitor that migproxy uses."""
        relay = MonitorRelay(f"{qemu.qmp_path}.r", qemu.qmp_path, hold)
        qemu.qmp_path = relay.path
        return relay

    def move(self, destination, **body):
        return Move(self.here, self.source, destination,
                    body.pop("to", self.there.name),
                    **{"mode": "precopy",
                       "bandwidth_bytes_per_second": SLOW, **body})

    def stall(self):
        for link in self.lab.links:
            link.stall()

    def cut(self):
        for link in self.lab.links:
            link.cut()

    def heal(self):
        for link in self.lab.links:
            link.heal()

    def footprints(self):
        return [Footprint(host.pid, [host.run_dir])
                for host in (self.here, self.there)]

    def assert_runs(self, seconds=10):
        """On the source, and its disk takes what it writes."""
        side = self.source.side
        seen = len(self.lab.guest.reports)
        before = max((report.fields["disk_seq"]
                      for report in self.lab.guest.reports
                      if report.word == "second"), default=0)
        self.lab.guest.wait_beats(side, 50, seconds)
        assert self.source.qmp.status() == "running"
        self.lab.guest.wait_report(
            side=side, since=seen, seconds=seconds,
            match=lambda report: report.fields["disk_seq"] > before)

    def goes_on(self, destination=None):
        """The same guest is moved to the other host, and lives there now."""
        destination = destination or self.waiting()
        move = self.move(destination, bandwidth_bytes_per_second=1 << 30)
        shown, there = move.wait_end_both(self.there, GO_ON_S)
        assert (shown["result"], there["result"]) == (
            "completed", "completed"), (shown, there)
        self.lab.guest.assert_only_on(destination, idle=[self.source])
        self.source.kill()
        self.source = destination
        self.here, self.there = self.there, self.here

    def last_word(self):
        """The guest verifies all it has."""
        self.lab.finish(self.source)

