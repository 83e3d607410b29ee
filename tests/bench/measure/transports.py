# SPDX-License-Identifier: BSD-3-Clause
"""The ways from one QEMU to the other that are compared."""
import dataclasses
import pathlib
import time

from lab import Move, make_pki, wait_for
from lab.process import Process

QEMU_PORT = 4444
CARRIER_PORT = 4445
PEER_PORT = 16515
START_S = 10
# one cipher for those that can be told; QEMU chooses its own
CIPHER = "TLS_AES_128_GCM_SHA256"
SOCAT_BLOCK_BYTES = 131072
UNLIMITED = 1 << 40

STUNNEL = """\
foreground = yes
pid =
debug = notice
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
[migrate]
client = {client}
accept = {accept}
connect = {connect}
cert = {pki}/{role}-cert.pem
key = {pki}/{role}-key.pem
CAfile = {pki}/ca-cert.pem
verifyChain = yes
requireCert = yes
{check}
sslVersion = TLSv1.3
ciphersuites = {cipher}
"""


@dataclasses.dataclass
class Needed:
    """A program, and the Debian package that has it."""
    program: str
    package: str


class Transport:
    """Two QEMUs and a wire; the bench is the operator of both.

    extra(letter) is for QEMU's command line; prepare() starts what stands
    between and makes all ready; start() begins the migration; switch() is
    called when the source says that it is active, and begins postcopy in
    time; finish() waits for what is left to do after both QEMUs have
    completed.
    """
    needs = ()
    # whether QEMU's connections may arrive in another order than they began
    may_reorder = False

    def __init__(self, lab, network, preempt, postcopy_after_s):
        self.lab = lab
        self.network = network
        self.preempt = preempt
        self.postcopy_after_s = postcopy_after_s
        self.carriers = []   # processes between the QEMUs
        self.source_uri = f"tcp:{network.b.address}:{QEMU_PORT}"
        self.incoming_uri = self.source_uri

    def extra(self, _letter):
        return []

    def prepare(self, source, destination):
        self.carry_all()
        for qemu in (source, destination):
            qemu.qmp.set_capabilities(
                events=True, return_path=True, postcopy_ram=True,
                postcopy_preempt=self.preempt)
            qemu.qmp.command("migrate-set-parameters", downtime_limit=1,
                             max_bandwidth=UNLIMITED, **self.parameters(qemu))
        destination.qmp.set_capabilities(postcopy_blocktime=True)
        destination.qmp.command("migrate-incoming", uri=self.incoming_uri)

    def carry_all(self):
        """Starts the carriers, if there are any."""

    def close(self):
        for carrier in self.carriers:
            carrier.kill()

    def start(self, source, _destination):
        source.qmp.command("migrate", uri=self.source_uri)

    def parameters(self, _qemu):
        return {}

    def switch(self, source):
        time.sleep(self.postcopy_after_s)
        source.qmp.command("migrate-start-postcopy")

    def finish(self):
        pass

    def requests(self, source):
        """Page requests of the destination."""
        return source.qmp.migration()["ram"]["postcopy-requests"]

    def says(self):
        """What the carrier itself reports, for the record."""
        return {}

    def carry(self, host, name, port, *argv):
        """Starts a carrier on that host and waits until it listens."""
        with host.entered():
            process = Process(f"{name}-{host.letter}", argv,
                              self.lab.directory / f"{name}-{host.letter}.log")
        self.carriers.append(process)

        def ready():
            process.assert_alive()
            return host.listens(port)
        wait_for(f"{process.name} to listen", ready, START_S,
                 process.log_tail)

    def carried(self):
        """Both QEMUs talk to carriers on their own host's loopback."""
        self.source_uri = f"tcp:127.0.0.1:{CARRIER_PORT}"
        self.incoming_uri = f"tcp:127.0.0.1:{QEMU_PORT}"


class Direct(Transport):
    pass


class QemuTls(Transport):
    """QEMU's own TLS. Connections count when their handshakes are over."""
    needs = (Needed("openssl", "openssl"),)
    may_reorder = True

    def __init__(self, *args):
        super().__init__(*args)
        self.pki = make_pki(self.lab.directory / "pki", "a", "b")

    def extra(self, letter):
        role = {"a": "client", "b": "server"}[letter]
        return ["-object", f"tls-creds-x509,id=tls0,endpoint={role},"
                           f"dir={self.pki / letter},verify-peer=on"]

    def parameters(self, qemu):
        names = {"tls_hostname": "b"} if qemu.side == "a" else {}
        return {"tls_creds": "tls0", **names}


class Stunnel(Transport):
    """A thread for each connection."""
    needs = (Needed("stunnel", "stunnel4"), Needed("openssl", "openssl"))
    may_reorder = True

    def carry_all(self):
        self.carried()
        pki = make_pki(self.lab.directory / "pki", "a", "b")
        far = f"{self.network.b.address}:{CARRIER_PORT}"
        self._one(self.network.b, client="no", role="server", accept=far,
                  connect=f"127.0.0.1:{QEMU_PORT}", check="", pki=pki / "b")
        self._one(self.network.a, client="yes", role="client",
                  accept=f"127.0.0.1:{CARRIER_PORT}", connect=far,
                  check="checkHost = b", pki=pki / "a")

    def _one(self, host, **values):
        path = self.lab.directory / f"stunnel-{host.letter}.conf"
        path.write_text(STUNNEL.format(cipher=CIPHER, **values))
        self.carry(host, "stunnel", CARRIER_PORT, "stunnel", path)


class Socat(Transport):
    needs = (Needed("socat", "socat"),)

    def carry_all(self):
        self.carried()
        far = f"{self.network.b.address}:{CARRIER_PORT}"
        self._one(self.network.b, self.network.b.address,
                  f"127.0.0.1:{QEMU_PORT}")
        self._one(self.network.a, "127.0.0.1", far)

    def _one(self, host, address, target):
        self.carry(host, "socat", CARRIER_PORT, "socat",
                   f"-b{SOCAT_BLOCK_BYTES}",
                   f"TCP-LISTEN:{CARRIER_PORT},bind={address},reuseaddr,"
                   "nodelay,fork", f"TCP:{target},nodelay")


class Migproxy(Transport):
    """The bench asks the daemon; the daemon drives both QEMUs."""
    needs = (Needed("openssl", "openssl"),)
    # what is kept of the daemon's own report
    KEPT = ("totals", "path", "channels", "stream", "downtime", "elapsed_ms")

    def __init__(self, *args):
        super().__init__(*args)
        self.daemons = []
        self.move = None
        self.end = {}

    def prepare(self, _source, _destination):
        pki = make_pki(self.lab.directory / "pki", "a", "b")
        for host in self.network.hosts:
            daemon = self.lab.daemon(
                host.letter, pathlib.Path(pki) / host.letter, port=PEER_PORT,
                options={"listen.address": f"{host.address}:{PEER_PORT}",
                         "daemon.log-level": "info"})
            for other in self.network.hosts:
                if other is not host:
                    daemon.add_peer(other.letter, PEER_PORT,
                                    address=other.address)
            with host.entered():
                daemon.start()
            self.carriers.append(daemon.process)
            self.daemons.append(daemon)

    def start(self, source, destination):
        self.move = Move(self.daemons[0], source, destination, "b",
                         mode="postcopy",
                         preempt="on" if self.preempt else "off",
                         postcopy_after_seconds=self.postcopy_after_s,
                         max_downtime_ms=1)
        assert self.move.status in (200, 201, 202), self.move.answer

    def switch(self, _source):
        """The daemon does, by the same rule."""

    def finish(self):
        self.end = self.move.wait_end()
        assert self.end["result"] == "completed", self.end

    def requests(self, _source):
        """Its own count: a request it can answer itself need not reach the
        source's QEMU."""
        return self.end["totals"]["page_requests"]

    def says(self):
        return {key: self.end.get(key) for key in self.KEPT}


# by the names on the command line, in the order of the tables
TRANSPORTS = {
    "direct": (Direct, False),
    "direct+preempt": (Direct, True),
    "qemu-tls+preempt": (QemuTls, True),
    "stunnel+preempt": (Stunnel, True),
    "socat": (Socat, False),
    "migproxy": (Migproxy, False),
    "migproxy+preempt": (Migproxy, True),
}
BASE = "direct+preempt"
