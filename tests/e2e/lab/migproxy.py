# SPDX-License-Identifier: BSD-3-Clause
"""The daemon under test, its configuration, its CLI and its API."""
import dataclasses
import http.client
import json
import pathlib
import random
import re
import socket
import subprocess

from . import host
from .process import Process
from .wait import stretch, wait_for

START_S = 10
CTL_S = 60
PKI_S = 60
# for daemons; processes that run tests at the same time have their own
PORTS = range(16000, 32000)
SANITIZER = re.compile(r"ERROR: (Address|Leak)Sanitizer|runtime error:")


def make_pki(directory, *names, options=()):
    """scripts/pki: DIR/NAME for each name. Returns the directory."""
    subprocess.run([host.SOURCE_DIR / "scripts/pki", *options, directory,
                    *names], check=True, timeout=PKI_S)
    return pathlib.Path(directory)


def free_port():
    """A port of the loopback that nothing listens on now, and that no outgoing
    connection gets from the kernel (those are from 32768 on)."""
    number, count = host.share()
    while True:
        port = random.choice(PORTS[number - 1::count])
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def program(name):
    """The path of a built program."""
    for place in ("", "proxy", "tools"):
        path = host.build_dir() / place / name
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is not built in {host.build_dir()}")


@dataclasses.dataclass
class CliResult:
    status: int
    stdout: str
    stderr: str

    @property
    def json(self):
        """The object that --json printed (the last line that is one)."""
        lines = [line for line in self.stdout.splitlines()
                 if line.startswith("{")]
        return json.loads(lines[-1] if lines else self.stdout)


class _UnixHttp(http.client.HTTPConnection):
    def __init__(self, path, seconds):
        super().__init__("localhost", timeout=seconds)
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Daemon:
    """One migproxy on the loopback.

    options: {"migration.hold-time": "5s"} overrides or adds to the
    configuration; a value of None takes a key out.
    """

    def __init__(self, name, directory, tls_dir, socket_dirs, port=None,
                 options=None):
        self.name = name
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.config_path = self.directory / "migproxy.conf"
        self.api_path = self.directory / "api.sock"
        self.run_dir = self.directory / "run"
        self.state_dir = self.directory / "state"
        for path in (self.run_dir, self.state_dir):
            path.mkdir(mode=0o700, exist_ok=True)
        self.peers = {}
        self.process = None
        self.options = {
            "daemon.name": name,
            "daemon.run-dir": self.run_dir,
            "daemon.state-dir": self.state_dir,
            "daemon.log-level": "debug",
            "listen.address": f"127.0.0.1:{self.port}",
            "tls.dir": tls_dir,
            "api.socket": self.api_path,
            "qemu.socket-dirs": " ".join(map(str, socket_dirs)),
            **(options or {}),
        }

    def add_peer(self, name, port, identity=None, address="127.0.0.1",
                 allow="send receive name-paths"):
        self.peers[name] = {"address": f"{address}:{port}",
                            "identity": identity or name, "allow": allow}

    def config_text(self):
        sections = {}
        for key, value in self.options.items():
            section, key = key.split(".", 1)
            if value is not None:
                sections.setdefault(section, {})[key] = value
        for name, peer in self.peers.items():
            sections[f'peer "{name}"'] = peer
        return "".join(
            f"[{section}]\n" + "".join(f"{key} = {value}\n"
                                       for key, value in keys.items()) + "\n"
            for section, keys in sections.items())

    def start(self):
        """Starts it and waits until it answers."""
        self.config_path.write_text(self.config_text())
        self.process = Process(
            f"migproxy-{self.name}",
            [program("migproxy"), "--config", self.config_path],
            self.directory / "migproxy.log")
        wait_for(f"answer of migproxy {self.name}", self._answers, START_S,
                 self.process.log_tail)
        return self

    def _answers(self):
        self.process.assert_alive()
        try:
            return self.api("GET", "/v1/host")[0] == 200
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.process.log()

    def stop(self):
        """TERM; the exit status."""
        return self.process.stop()

    def kill(self):
        self.process.kill()

    def assert_clean_log(self):
        """No sanitizer has complained."""
        if self.process:
            found = SANITIZER.search(self.log())
            assert not found, self.log()[found.start():][:4000]

    # its surfaces

    def ctl_argv(self, *args):
        return [str(arg) for arg in (program("migproxyctl"), args[0], "--api",
                                     self.api_path, *args[1:])]

    def ctl(self, *args, seconds=CTL_S):
        """Runs migproxyctl to its end."""
        done = subprocess.run(self.ctl_argv(*args), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=stretch(seconds))
        return CliResult(done.returncode, done.stdout, done.stderr)

    def ctl_start(self, *args):
        """Runs migproxyctl beside the test; its output is in the log."""
        return Process(f"migproxyctl-{args[0]}", self.ctl_argv(*args),
                       self.directory / f"ctl-{args[0]}.log")

    def migrate_args(self, source, destination, peer, *more):
        return ("migrate", "--vm", source.vm, "--to", peer,
                "--qmp", source.qmp_path, "--dest-qmp", destination.qmp_path,
                *more)

    def api(self, method, path, body=None, seconds=10):
        """(status, object) of one request."""
        connection = _UnixHttp(self.api_path, stretch(seconds))
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path,
                               json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text.decode(errors="replace")
