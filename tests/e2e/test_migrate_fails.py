# SPDX-License-Identifier: BSD-3-Clause
"""Migrations that fail or are given up: the guest is where it was, both ends
tell the same story, nothing is left, and the next one works."""
import json
import re
import time

import pytest

from lab import Footprint, Move, make_pki, wait_for

SLOW = 20 << 20
BACK_S = 3


def assert_back_home(lab, move, source, result, error_class=None):
    """Ended so, and the guest runs on the source."""
    shown = move.wait_end()
    assert shown["result"] == result, shown
    assert shown["guest_is_on"] == "source", shown
    if error_class:
        assert shown["error"]["class"] == error_class, shown["error"]
    assert source.qmp.running()
    lab.guest.wait_beats(source.side, 100)
    return shown


def assert_next_one_works(lab, daemon, source):
    fresh = lab.qemu("next", incoming=True)
    move = Move(daemon, source, fresh, "B", mode="precopy")
    shown = move.wait_end()
    assert shown["result"] == "completed", shown
    lab.guest.assert_only_on(fresh, idle=[source])
    lab.finish(fresh)


@pytest.mark.smoke
@pytest.mark.parametrize("state", ["preparing", "connecting", "precopy"])
def test_cancel(lab, state):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    caps = source.qmp.capabilities()
    move = Move(a, source, destination, "B", mode="postcopy",
                postcopy_after_seconds=30, bandwidth_bytes_per_second=SLOW)
    move.wait_state(state)
    assert move.cancel()[0] == 200
    assert move.cancel()[0] == 200  # again: no harm
    shown = assert_back_home(lab, move, source, "cancelled", "cancelled")
    there = b.api("GET", f"/v1/migrations/{move.id}")
    if there[0] == 200:
        ended = move.wait_end(daemon=b)
        assert ended["result"] == "cancelled"
        assert ended["error"]["message"] == shown["error"]["message"]
    assert source.qmp.capabilities() == caps
    assert_next_one_works(lab, a, source)


def test_cancel_comes_too_late(lab):
    a, _ = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="postcopy",
                postcopy_after_seconds=0.0, bandwidth_bytes_per_second=SLOW)
    shown = move.wait_state("postcopy")
    assert shown["state"] == "postcopy", shown
    status, answer = move.cancel()
    assert status == 409 and answer["error"]["class"] == "too-late"
    assert move.wait_end()["result"] == "completed"
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.parametrize("who", ["destination", "source"])
def test_qemu_dies_in_precopy(lab, who):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW)
    move.wait_state("precopy")
    (destination if who == "destination" else source).kill()
    if who == "destination":
        shown = assert_back_home(lab, move, source, "failed")
        there = move.wait_end(daemon=b)
        assert there["error"] == shown["error"], (shown, there)
        assert_next_one_works(lab, a, source)
        return
    shown, there = move.wait_end_both(b)
    # the guest has died with its QEMU: nothing is where it was
    assert (shown["result"], there["result"]) == ("attention", "attention")
    assert shown["guest_is_on"] == "unknown" and shown["advice"]
    assert shown["error"] == there["error"], (shown, there)
    wait_for("end of the destination's QEMU", lambda: not destination.alive, 15)


def test_link_cut_in_precopy(lab):
    a, b = lab.daemons_pair(linked=True)
    source, destination = lab.pair()
    foot = None
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW)
    foot = Footprint(b.pid)
    move.wait_state("precopy")
    lab.links[0].cut()
    shown = assert_back_home(lab, move, source, "failed", "link-lost")
    assert "B" in shown["error"]["message"]
    lab.links[0].heal()
    assert foot
    assert_next_one_works(lab, a, source)


def test_link_lost_between_stop_and_commit(lab):
    """Stalled, not cut: nothing says that the path is gone but its silence."""
    a, b = lab.daemons_pair(linked=True)
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW * 8)
    source.qmp.wait_event("STOP", 60)
    lab.links[0].stall()
    began = time.monotonic()
    shown = move.wait_end()
    if shown["result"] == "completed":
        pytest.skip("the switchover was over before the link stalled")
    lab.guest.wait_beats(source.side, 10, seconds=BACK_S + 2)
    took = time.monotonic() - began
    assert shown["result"] == "failed" and source.qmp.running(), shown
    assert took < 15, took
    lab.links[0].heal()
    there = move.wait_end(daemon=b, seconds=120)
    assert there["result"] == "failed", there
    # the copy that was loaded there never runs
    assert not destination.alive or not destination.qmp.running()
    assert_next_one_works(lab, a, source)


def test_refused_before_anything_is_set(lab):
    a, _ = lab.daemons_pair()
    source, _ = lab.pair()
    caps = source.qmp.capabilities()
    other = lab.qemu("other", incoming=True,
                     uuid="11111111-2222-3333-4444-555555555555")
    shown = Move(a, source, other, "B", mode="precopy").wait_end()
    assert shown["result"] == "failed" and shown["refused"], shown
    assert shown["error"]["class"] == "mismatch"
    for value in (source.qmp.command("query-uuid")["UUID"],
                  other.qmp.command("query-uuid")["UUID"]):
        assert value in shown["error"]["message"]
    small = lab.qemu("small", incoming=True, memory_mib=128)
    shown = Move(a, source, small, "B", mode="precopy").wait_end()
    sizes = re.search(r"RAM block pc.ram has (\d+) bytes on the source and "
                      r"(\d+) on the destination", shown["error"]["message"])
    assert shown["refused"] and sizes, shown
    assert [int(size) >> 20 for size in sizes.groups()] == [256, 128]
    # a guest that already runs is no destination
    shown = Move(a, source, source, "B", mode="precopy").wait_end()
    assert shown["refused"], shown
    assert source.qmp.capabilities() == caps
    assert source.qmp.running()
    assert_next_one_works(lab, a, source)


def test_a_qemu_without_its_guest_is_no_source(lab):
    """Neither a shell nor a waiting QEMU is said to hold the guest."""
    a, _ = lab.daemons_pair()
    source, destination = lab.pair(disk=None)
    shown = Move(a, destination, source, "B", mode="precopy").wait_end()
    assert shown["refused"] and shown["guest_is_on"] == "unknown", shown
    assert "waits for the guest" in shown["error"]["message"], shown
    shown = Move(a, source, destination, "B", mode="precopy").wait_end()
    assert shown["result"] == "completed", shown
    waiting = lab.qemu("waiting", incoming=True, disk=None)
    shown = Move(a, source, waiting, "B", mode="precopy").wait_end()
    assert shown["refused"] and shown["guest_is_on"] == "unknown", shown
    assert "took the guest from this QEMU" in shown["error"]["message"], shown
    lab.guest.assert_only_on(destination, idle=[source, waiting])
    lab.guest.assert_sound()


def test_bad_requests(lab):
    a, _ = lab.daemons_pair()
    source, destination = lab.pair(disk=None)
    good = {"vm": source.vm, "to": "B", "qmp": str(source.qmp_path),
            "dest_qmp": str(destination.qmp_path)}
    long_path = "/tmp/" + "x" * 120
    cases = [
        ({**good, "to": "nobody"}, 422, "peer-unknown", "nobody"),
        ({**good, "qmp": long_path}, 400, "bad-request", "107"),
        ({**good, "qmp": "/etc/passwd"}, 422, "path-refused", "/etc/passwd"),
        ({**good, "mode": "sideways"}, 400, "bad-request",
         "auto, precopy, postcopy"),
        ({**good, "color": "red"}, 400, "bad-request", "color"),
        ({**good, "bandwidth_bytes_per_second": 0}, 400, "bad-request",
         "bandwidth"),
    ]
    for body, status, error_class, word in cases:
        got, answer = a.api("POST", "/v1/migrations", body)
        assert got == status, (body, answer)
        assert answer["error"]["class"] == error_class, answer
        assert word in answer["error"]["message"], answer
    wrong_name = Move(a, source, destination, "B", mode="precopy", vm="not-it")
    shown = wrong_name.wait_end()
    assert shown["refused"] and "not-it" in shown["error"]["message"], shown
    lab.guest.wait_beats("a")


def test_monitor_busy(lab):
    """Another client sits on the monitor that was named."""
    a, _ = lab.daemons_pair()
    source, destination = lab.pair(disk=None)
    began = time.monotonic()
    move = Move(a, source, destination, "B", mode="precopy",
                qmp=str(source.directory / "qmp-lab.sock"))
    assert move.status in (201, 422)
    if move.status == 422:  # the lab's own monitor is elsewhere: refused
        assert move.answer["error"]["class"] == "path-refused"
        from lab import Qmp
        holder = Qmp(source.qmp_path)
        move = Move(a, source, destination, "B", mode="precopy")
        shown = move.wait_end()
        holder.close()
        assert shown["error"]["class"] == "monitor-busy", shown
        assert "second -qmp" in shown["error"]["message"]
        assert time.monotonic() - began < 10


def test_peer_down_and_back(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    b.stop()
    shown = Move(a, source, destination, "B", mode="precopy").wait_end()
    assert shown["refused"], shown
    assert shown["error"]["class"] == "peer-unreachable"
    assert str(b.port) in shown["error"]["message"]
    b.start()
    move = Move(a, source, destination, "B", mode="precopy")
    assert move.wait_end()["result"] == "completed"
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.parametrize("flaw", ["identity", "foreign-ca"])
def test_wrong_certificate(lab, flaw):
    pki = make_pki(lab.directory / "pki", "A", "B")
    strange = make_pki(lab.directory / "strange", "A", "B", "C")
    a = lab.daemon("A", pki / "A")
    b = lab.daemon("B", strange / "B" if flaw == "foreign-ca" else pki / "B")
    a.add_peer("B", b.port, identity="C" if flaw == "identity" else "B")
    b.add_peer("A", a.port)
    for daemon in (a, b):
        daemon.start()
    source, destination = lab.pair(disk=None)
    shown = Move(a, source, destination, "B", mode="precopy").wait_end()
    assert shown["refused"], shown
    assert shown["error"]["class"] == "tls", shown
    if flaw == "identity":
        assert "C" in shown["error"]["message"]
        assert "DNS:B" in shown["error"]["message"]
    peers = json.loads(a.ctl("peers", "--json").stdout)["peers"]
    assert peers[0]["error"]["class"] == "tls"
    lab.guest.wait_beats("a")


def test_peer_may_not(lab):
    a, b = lab.daemons_pair(start=False)
    b.peers["A"]["allow"] = "receive"
    for daemon in (a, b):
        daemon.start()
    source, destination = lab.pair(disk=None)
    shown = Move(a, source, destination, "B", mode="precopy").wait_end()
    assert shown["error"]["class"] == "forbidden", shown
    assert shown["error"]["side"] == "destination"
    b.stop()
    b.peers["A"]["allow"] = "send"
    b.start()
    shown = Move(a, source, destination, "B", mode="precopy").wait_end()
    assert shown["error"]["class"] == "forbidden", shown
    assert "name-paths" in shown["error"]["message"]
    lab.guest.wait_beats("a")
