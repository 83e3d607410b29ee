# SPDX-License-Identifier: BSD-3-Clause
"""One way to fail after the other, with one guest. Each ends in time and with
the same word at both ends; the guest is where it was, as it was, with its disk;
nothing is left; and the next migration works."""
import dataclasses
import os
import pathlib
import re
import signal
import socket
import time
from typing import Callable, Optional

import pytest

from lab import VERSIONS, Home, Lab, Qmp, qemu_unwanted, stretch, wait_for

FAST = 200 << 20
NOBODY = 65534
# seconds to undo everything, seen from what went wrong
SOON = 5
# a source that hears nothing: the control connection's own limit, hold-time of
# Home, and the undoing
SILENCE = 10 + 2 + SOON
# a guest that stands still is back: switchover-hold, and a little
BACK = 3

# QEMU without the right to userfaultfd: neither the capability that the system
# call wants nor the device
NO_UFFD = ("unshare", "-m", "sh", "-c",
           "if [ -e /dev/userfaultfd ]; then"
           " mount --bind /dev/userfaultfd /dev/userfaultfd &&"
           " mount -o remount,bind,nodev /dev/userfaultfd; fi;"
           " exec setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "
           "\"$@\"", "sh")


@dataclasses.dataclass
class Case:
    """A migration that fails. act(home, move) breaks it; without act it is
    refused. message is a pattern; {x} in it stands for the path x of Case."""
    name: str
    error_class: str
    message: str
    act: Optional[Callable] = None
    result: str = "failed"
    refused: bool = False
    within: float = SOON
    destination: dict = dataclasses.field(default_factory=dict)
    body: dict = dataclasses.field(default_factory=dict)
    # (home, destination): the last preparations
    before: Optional[Callable] = None
    # when the destination's monitor falls silent, see MonitorRelay
    hold: Optional[Callable] = None
    # seconds until the guest runs again, if it was stopped
    back: Optional[float] = None
    # QEMU has a part in it: tried with each
    each: bool = True
    marks: tuple = ()


def with_qemus(cases):
    """One QEMU's cases after the other's: they share a Home. What measures how
    long the guest stands still runs alone."""
    return pytest.mark.parametrize("version, case", [
        pytest.param(version, case, id=f"qemu{version}-{case.name}",
                     marks=(*case.marks,
                            *([pytest.mark.alone] if case.back else [])))
        for version in VERSIONS for case in cases
        if case.each or version == VERSIONS[0]])


# What is refused ------------------------------------------------------------


def name_path(which, make):
    """before: the monitor of an end is not what it should be. make(home, real)
    gives the path to name instead."""
    def before(home, destination, body):
        end = home.source if which == "qmp" else destination
        body[which] = str(make(home, end.qmp_path))
    return before


def missing(home, _):
    return home.lab.directory / "nobody.qmp"


def plain_file(home, _):
    path = home.lab.directory / "file.qmp"
    path.write_text("")
    return path


def linked(home, real):
    path = home.lab.directory / "linked.qmp"
    path.unlink(missing_ok=True)
    path.symlink_to(real)
    return path


def outside(_, real):
    return pathlib.Path("/tmp") / pathlib.Path(real).name


def too_long(home, _):
    return home.lab.directory / ("x" * 108)


def of_nobody(home, _):
    path = home.lab.directory / "owned.qmp"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    os.chown(path, NOBODY, NOBODY)
    return path


def hold_monitor(home, _destination, body):
    """Somebody else has the source's monitor."""
    home.holder = Qmp(home.source.qmp_path)


PATHS = [
    ("missing", missing, "qmp-unreachable", "nobody.qmp"),
    ("file", plain_file, "path-refused", 'file.qmp" is not a socket'),
    ("symlink", linked, "path-refused", "linked.qmp.*symbolic link"),
    ("outside", outside, "path-refused",
     r"q[0-9]+.qmp\" .* allowed directories"),
    ("too-long", too_long, "(path-refused|bad-request)",
     'has 1[0-9]{2} bytes, .*107: "/.*/mp-lab-.*xxx'),
    ("owner", of_nobody, "path-refused", "owned.qmp.* user 65534"),
]

REFUSED = [
    Case("wrong-name-at-source", "mismatch", 'belongs to guest "vm", not "x"',
         body={"vm": "x"}),
    Case("wrong-name-at-destination", "mismatch",
         'belongs to guest "other", not "vm"', destination={"name": "other"}),
    Case("wrong-uuid", "mismatch", "7d6f2a52-.*00000000-0000-4000-",
         destination={"uuid": "00000000-0000-4000-8000-000000000001"}),
    Case("other-machine", "mismatch", "pc-q35-[0-9.]+, .* pc-i440fx-[0-9.]+",
         destination={"machine": "pc"}),
    Case("other-ram-size", "mismatch",
         "pc.ram has [0-9]+ bytes on the source and [0-9]+ on the destination",
         destination={"memory_mib": 192}),
    Case("not-waiting", "guest-state", "is prelaunch; .*-incoming defer",
         destination={"incoming": False, "paused": True, "disk": None}),
    Case("busy-at-destination", "monitor-busy", "second -qmp",
         hold=lambda message, _: "QMP" in message, within=3 + SOON),
    Case("busy-at-source", "monitor-busy", "second -qmp", before=hold_monitor,
         within=3 + SOON),
    Case("no-userfaultfd", "unsupported",
         "vm.unprivileged_userfaultfd=1.*CAP_SYS_PTRACE.*/dev/userfaultfd",
         destination={"launcher": NO_UFFD}, body={"mode": "postcopy"}),
    Case("peer-down", "peer-unreachable", "down.*127.0.0.1:[0-9]+",
         body={"to": "down"}, each=False),
    Case("peer-silent", "peer-unreachable",
         "silent.*127.0.0.1:[0-9]+.* within 1.0 s",
         body={"to": "silent"}, each=False),
    Case("stranger", "tls", "stranger", body={"to": "stranger"}, each=False),
    Case("expired", "tls", "expired", body={"to": "expired"}, each=False),
    Case("foreign", "tls", "mallory.*foreign|foreign.*mallory",
         body={"to": "foreign"}, each=False),
    *(Case(f"{which}-{name}", error_class, message, each=False,
           before=name_path(which, make))
      for which in ("qmp", "dest_qmp")
      for name, make, error_class, message in PATHS),
]

# What goes wrong on the way -------------------------------------------------


def when(state, then):
    """act: then(home, move) in that state."""
    def act(home, move):
        shown = move.wait_state(state)
        assert shown["state"] == state, shown
        then(home, move)
    return act


def when_held(state, then):
    """The same, when also the destination's QEMU has fallen silent."""
    def act(home, move):
        wait_for("silence of the destination's QEMU",
                 move.relay.held.is_set, 30, move.show)
        when(state, then)(home, move)
    return act


def when_stopped(then):
    def act(home, move):
        home.source.qmp.wait_event("STOP", 30)
        then(home, move)
    return act


def kill_destination(_, move):
    move.destination.kill()


def cancel_twice(_, move):
    assert move.cancel()[0] == 200
    assert move.cancel()[0] == 200


def stall(home, _):
    home.stall()


def cut(home, _):
    home.cut()


def before_incoming(message, _):
    return message.get("execute") == "migrate-incoming"


def before_proof(message, seen):
    """The question whether QEMU is well, before the guest is switched over."""
    return message.get("execute") == "query-migrate" and any(
        '"active"' in text for text in seen)


def at_completed(message, _):
    return message.get("event") == "MIGRATION" and (
        message["data"]["status"] == "completed")


GONE = "destination QEMU .*(gone|ended|closed|broke)"
PATH = "the path between the hosts [AB] and [AB] broke"
CANCELLED = {"error_class": "cancelled", "message": "cancelled",
             "result": "cancelled", "within": SOON}

BROKEN = [
    Case("load-refused", "(qemu-failed|qemu-gone)", "destination QEMU",
         act=lambda home, move: None, destination={"extra": ()},
         body={"bandwidth_bytes_per_second": FAST}, within=20, back=BACK),
    Case("killed-in-connecting", "qemu-gone", "destination QEMU",
         hold=before_incoming, act=when_held("connecting", kill_destination)),
    Case("killed-in-setup", "(qemu-gone|qemu-failed)", "destination QEMU",
         act=when("setup", kill_destination)),
    Case("killed-in-precopy", "(qemu-gone|qemu-failed)", "destination QEMU",
         act=when("precopy", kill_destination), marks=(pytest.mark.smoke,)),
    Case("killed-in-pre-switchover", "(qemu-gone|qemu-failed)",
         "destination QEMU", hold=before_proof,
         act=when_held("pre-switchover", kill_destination),
         body={"bandwidth_bytes_per_second": FAST}, back=BACK),
    Case("killed-between-completed-and-commit", "(qemu-gone|qemu-failed)",
         "destination QEMU", hold=at_completed,
         act=when_held("switchover", kill_destination),
         body={"bandwidth_bytes_per_second": FAST}, back=BACK),
    Case("cancel-in-preparing", **CANCELLED,
         hold=lambda message, _: "QMP" in message,
         act=when_held("preparing", cancel_twice)),
    Case("cancel-in-connecting", **CANCELLED, hold=before_incoming,
         act=when_held("connecting", cancel_twice)),
    Case("cancel-in-setup", **CANCELLED, act=when("setup", cancel_twice)),
    Case("cancel-in-precopy", **CANCELLED, act=when("precopy", cancel_twice),
         marks=(pytest.mark.smoke,)),
    Case("cancel-in-pre-switchover", **CANCELLED, hold=before_proof,
         act=when_held("pre-switchover", cancel_twice),
         body={"bandwidth_bytes_per_second": FAST}, back=BACK),
    Case("cancel-in-switchover", **CANCELLED, hold=at_completed,
         act=when_held("switchover", cancel_twice),
         body={"bandwidth_bytes_per_second": FAST}, back=BACK),
    Case("silent-in-pre-switchover", "timeout", "destination QEMU|prove",
         hold=before_proof, act=when_held("pre-switchover", lambda *_: None),
         body={"bandwidth_bytes_per_second": FAST}, within=3 + SOON,
         back=BACK),
    Case("link-cut-in-precopy", "link-lost", PATH, act=when("precopy", cut)),
    Case("link-silent-in-precopy", "link-lost", PATH, each=False,
         act=when("precopy", stall), within=SILENCE),
    Case("link-silent-after-stop", "link-lost", PATH,
         act=when_stopped(stall), within=SILENCE,
         body={"bandwidth_bytes_per_second": FAST}, back=BACK),
]

# What ends the guest --------------------------------------------------------


def kill_source(home, _):
    home.source.kill()


def end_source(home, _):
    home.source.signal(signal.SIGTERM)


LOST = [
    Case("source-ends-in-preparing", "qemu-gone",
         "before anything of the guest was given away: source QEMU",
         hold=lambda message, _: "QMP" in message,
         act=when_held("preparing", end_source)),
    Case("source-dies-in-precopy", "qemu-gone", "source QEMU",
         act=when("precopy", kill_source), result="attention"),
    Case("source-dies-in-pre-switchover", "qemu-gone", "source QEMU",
         hold=before_proof, act=when_held("pre-switchover", kill_source),
         body={"bandwidth_bytes_per_second": FAST}, result="attention"),
    Case("destination-dies-in-postcopy", "(qemu-gone|qemu-failed)",
         "destination QEMU", act=when("postcopy", kill_destination),
         body={"mode": "postcopy", "postcopy_after_seconds": 0.0},
         result="attention"),
    Case("load-refused-in-postcopy", "(qemu-gone|qemu-failed)",
         "destination QEMU", act=lambda home, move: None,
         destination={"extra": ()}, result="attention", within=20,
         body={"mode": "postcopy", "postcopy_after_seconds": 0.0}),
]


@pytest.fixture(scope="module")
def homes():
    """Calls to it give the same Home, a new one when its guest was lost or
    another version of QEMU is wanted."""
    made = []

    def end():
        home = made.pop()
        try:
            if home.is_well:
                home.last_word()
            for daemon in home.lab.daemons:
                daemon.assert_clean_log()
        finally:
            home.close()
            home.lab.close()

    def give(version):
        if made and not (made[0].is_well
                         and made[0].lab.versions[0] == version):
            end()
        if not made:
            lab = Lab(versions=(version, version))
            try:
                made.append(Home(lab))
            except BaseException:
                lab.close()
                raise
        return made[0]

    yield give
    if made:
        end()


@pytest.fixture
def home(homes, version, request):
    """The Home, and what its programs said if the test fails."""
    if qemu_unwanted(version):
        pytest.skip(f"QEMU {version}: not wanted, MIGPROXY_QEMU10=none")
    home = homes(version)
    request.node.funcargs["lab"] = home.lab
    yield home
    report = getattr(request.node, "called", None)
    if report is None or report.failed:
        # whatever state it is in: the next test gets another
        home.source.kill()


def begin(home, case):
    """The destination, and the move, which has begun."""
    destination = home.waiting(**case.destination)
    relay = None
    if case.hold:
        relay = home.relay(destination, case.hold)
    body = dict(case.body)
    if case.before:
        case.before(home, destination, body)
    move = home.move(destination, **body)
    move.relay = relay
    return destination, move


def assert_error(error, case):
    assert re.fullmatch(case.error_class, error["class"]), error
    assert re.search(case.message, error["message"]), error


def shown_by(daemon, move):
    """What migproxyctl says there; None if it knows of no such migration."""
    done = daemon.ctl("show", move.id, "--json")
    if done.status != 0:
        assert "no migration" in done.stdout + done.stderr, done
        return None
    return done.json


def assert_told_alike(home, move, case, needed):
    """By both ends, the source's story first."""
    here = shown_by(home.here, move)
    assert_error(here["error"], case)
    assert here["result"] == case.result, here
    assert here["refused"] == case.refused, here
    if needed:
        move.wait_end(20, home.there)
    there = shown_by(home.there, move)
    assert there or not needed
    if there:
        move.wait_same_story(home.there)


def end_of(destination, move):
    """The copy on the destination is gone, or will not run."""
    if move.relay:
        move.relay.close()
    assert not destination.alive or not destination.qmp.running()
    destination.kill()


def assert_left_nothing(home, feet):
    for foot in feet:
        foot.assert_back(10)
    home.lab.assert_no_sockets()


@with_qemus(REFUSED)
def test_refused(home, case):
    uffd = pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd")
    if case.destination.get("launcher") and uffd.read_text().strip() != "0":
        pytest.skip("vm.unprivileged_userfaultfd=1: everybody may")
    case = dataclasses.replace(case, refused=True)
    feet = home.footprints()
    caps = home.source.qmp.capabilities()
    began = time.monotonic()
    destination, move = begin(home, case)
    if move.status == 201:
        shown = move.wait_end(case.within)
        assert shown["guest_is_on"] == "source", shown
        assert_told_alike(home, move, case, needed=False)
        assert destination.alive
    else:  # before there was a migration at all
        assert_error(move.answer["error"], case)
    if case.error_class == "tls":
        peers = {peer["name"]: peer for peer
                 in home.here.ctl("peers", "--json").json["peers"]}
        assert peers[case.body["to"]]["error"]["class"] == "tls", peers
    if case.before is hold_monitor:
        home.holder.close()
    assert time.monotonic() - began < stretch(case.within + 3)
    assert home.source.qmp.status() == "running"
    assert home.source.qmp.capabilities() == caps
    assert_left_nothing(home, feet)
    if destination.alive and not case.destination and not move.relay:
        # both can be used again
        home.goes_on(destination)
        return
    end_of(destination, move)
    home.goes_on()


@with_qemus(BROKEN)
def test_broken(home, case):
    feet = home.footprints()
    caps = home.source.qmp.capabilities()
    destination, move = begin(home, case)
    assert move.status == 201, move.answer
    case.act(home, move)
    if case.back:
        home.lab.guest.wait_beats(home.source.side, 10, case.back)
    shown = move.wait_end(case.within)
    assert shown["guest_is_on"] == "source", shown
    home.assert_runs()
    home.heal()
    assert_told_alike(home, move, case, needed=shown["state"] != "preparing"
                      and case.name != "cancel-in-preparing")
    wait_for("capabilities as they were",
             lambda: home.source.qmp.capabilities() == caps, 5)
    end_of(destination, move)
    home.goes_on()
    assert_left_nothing(home, feet)


@with_qemus(LOST)
def test_lost(home, case):
    feet = home.footprints()
    destination, move = begin(home, case)
    assert move.status == 201, move.answer
    case.act(home, move)
    shown, _ = move.wait_end_both(home.there, case.within)
    assert shown["result"] == case.result, shown
    assert shown["advice"] or case.result == "failed", shown
    assert_error(shown["error"], case)
    move.wait_same_story(home.there)
    # nowhere, since its memory is nowhere whole
    for qemu in (home.source, destination):
        assert not qemu.alive or not qemu.qmp.running(), qemu.side
    end_of(destination, move)
    home.source.kill()
    assert_left_nothing(home, feet)
