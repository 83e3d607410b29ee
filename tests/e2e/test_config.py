# SPDX-License-Identifier: BSD-3-Clause
"""A daemon that cannot start says what is wrong, where, and what the limit is;
nothing is left behind."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

from lab import Daemon, free_port, make_pki, wait_for
from lab.migproxy import program

TIMEOUT_S = 30

# what is changed in a good file: the line that replaces the one with that key
# (or is added to the section); what standard error must say; the exit status
CASES = {
    "unknown key": ("limits", "colour = 4", "[limits] has no option colour",
                    2),
    "not a number": ("limits", "sessions = many", 'limits.sessions: "many"', 2),
    "beyond the limit": ("limits", "sessions = 257", "256", 2),
    "no unit": ("limits", "bandwidth = 0", 'limits.bandwidth: "0"', 2),
    "unknown section": ("limit", "sessions = 4", "limit", 2),
    "relative directory": ("qemu", "socket-dirs = qemu", "qemu.socket-dirs", 2),
    "no certificates": ("tls", "dir = {dir}/none", "{dir}/none/ca-cert.pem", 2),
    "address in use": ("listen", "address = 127.0.0.1:{taken}", "{taken}", 1),
    "impossible address": ("listen", "address = 300.1.1.1",
                           'listen.address: "300.1.1.1" is not an address', 2),
    "no address of this host": ("listen", "address = 192.0.2.77",
                                "listen.address: listening on 192.0.2.77", 2),
    "an address twice": ("listen", "address = *:{taken}, 127.0.0.1:{taken}",
                         "are in each other's way", 2),
    "unknown congestion control": ("migration", "congestion = no-such-one",
                                   'migration.congestion: "no-such-one"', 2),
    "no place for records": ("daemon", "state-dir = {dir}/none/state",
                             "daemon.state-dir: making", 2),
    "api too long": ("api", "socket = /{long}", "107", 2),
}


def write(path, directory, tls_dir, section=None, line=None):
    sections = {
        "daemon": ["name = A", f"run-dir = {directory}/run",
                   f"state-dir = {directory}/state"],
        "listen": [f"address = 127.0.0.1:{free_port()}"],
        "tls": [f"dir = {tls_dir}"],
        "api": [f"socket = {directory}/api.sock"],
        "qemu": [f"socket-dirs = {directory}"],
        "limits": [],
    }
    if section:
        key = line.split("=")[0]
        kept = [old for old in sections.get(section, [])
                if old.split("=")[0] != key]
        sections[section] = kept + [line]
    path.write_text("".join(f"[{name}]\n" + "".join(f"{line}\n" for line in lines)
                            for name, lines in sections.items()))


def run(*args):
    return subprocess.run([program("migproxy"), *args], text=True,
                          capture_output=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL)


@pytest.fixture
def place():
    """Short: paths of unix sockets are made of it."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mp-conf-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return make_pki(tmp_path_factory.mktemp("pki"), "A") / "A"


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_refused(name, pki, place):
    section, line, said, status = CASES[name]
    path = place / "migproxy.conf"
    taken = free_port()
    words = {"dir": place, "long": "x" * 120, "taken": taken}
    with subprocess.Popen(["/usr/bin/python3", "-c",
                           "import socket, sys; s = socket.socket(); "
                           f"s.bind(('127.0.0.1', {taken})); s.listen(); "
                           "print(flush=True); sys.stdin.read()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        for directory in ("run", "state"):
            (place / directory).mkdir(mode=0o700)
        write(path, place, pki, section, line.format(**words))
        done = run("--config", path)
        checked = run("--config", path, "--check-config")
        other.stdin.close()
    assert done.returncode == status, done.stderr
    assert said.format(**words) in done.stderr, done.stderr
    assert re.match(rf"migproxy: {path}:\d+: ", done.stderr), done.stderr
    if name == "address in use":  # perhaps by the daemon that is to be restarted
        assert checked.returncode == 0
    else:
        assert (checked.returncode, checked.stderr) == (2, done.stderr)
    assert not (place / "api.sock").exists()
    assert not list((place / "state").rglob("*.json"))


@pytest.mark.parametrize("name, first, second", [
    ("--config", "a.conf", "b.conf"), ("--log-level", "info", "debug")])
def test_an_option_is_given_once(name, first, second):
    done = run(name, first, f"{name}={second}", "--check-config")
    assert done.returncode == 2
    assert f'{name}: given twice, "{first}" and "{second}"' in done.stderr


def test_a_file_that_is_not_there(place):
    done = run("--config", place / "none.conf")
    assert done.returncode == 2
    assert f"{place}/none.conf" in done.stderr
    assert os.strerror(2) in done.stderr


def test_a_good_file_is_checked_without_starting(pki, place):
    path = place / "migproxy.conf"
    for directory in ("run", "state"):
        (place / directory).mkdir(mode=0o700)
    write(path, place, pki)
    done = run("--config", path, "--check-config")
    assert done.returncode == 0, done.stderr
    assert not (place / "api.sock").exists()


def test_what_needs_a_restart_stays_until_then(pki, place):
    daemon = Daemon("A", place / "A", pki, [place])
    daemon.start()
    try:
        daemon.options["daemon.name"] = "B"
        daemon.options["limits.sessions"] = "3"
        daemon.config_path.write_text(daemon.config_text())
        os.kill(daemon.pid, signal.SIGHUP)
        wait_for("reload", lambda: "reloaded" in daemon.log(), TIMEOUT_S,
                 daemon.log)
        host = daemon.api("GET", "/v1/host")[1]
        assert (host["name"], host["limits"]["sessions"]) == ("A", 3)
        assert "reload: daemon.name needs a restart" in daemon.log()
    finally:
        daemon.stop()
    daemon.start()
    try:
        assert daemon.api("GET", "/v1/host")[1]["name"] == "B"
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize("args, said", [
    (["--confg", "x"], "--confg"), (["--log-level", "loud"], "loud"),
    (["surplus"], "surplus")])
def test_bad_arguments_are_usage(args, said):
    done = run(*args)
    assert done.returncode == 2 and said in done.stderr, done.stderr
