# SPDX-License-Identifier: BSD-3-Clause
"""Migrations that end well: real QEMUs, two daemons, mutual TLS."""
import json

import pytest

from lab import Footprint, Move

# slow enough that a test can act before precopy is over
SLOW = 40 << 20
ASKED = ["events", "return-path", "postcopy-ram", "postcopy-preempt",
         "pause-before-switchover", "late-block-activate"]


def assert_moved(lab, move, source, destination):
    """The whole of a success, on both ends; the last word of the source's."""
    here, there = move.wait_end_both(lab.daemons[1])
    assert here["result"] == "completed", (here, there)
    assert there["result"] == "completed", there
    assert here["error"] is None and there["error"] is None
    assert here["guest_is_on"] == "destination"
    assert here["uuid"] == there["uuid"]
    lab.guest.assert_only_on(destination, idle=[source])
    return here


@pytest.mark.smoke
@pytest.mark.parametrize("mode, preempt", [
    ("precopy", "off"), ("postcopy", "off"), ("postcopy", "on")])
def test_moves(lab, mode, preempt):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    before = [qemu.qmp.capabilities() for qemu in (source, destination)]
    postcopy = mode == "postcopy"
    move = Move(a, source, destination, "B", mode=mode, preempt=preempt,
                **({"postcopy_after_seconds": 0.2} if postcopy else {}),
                bandwidth_bytes_per_second=3 * SLOW)
    assert move.status == 201, move.answer
    shown = assert_moved(lab, move, source, destination)

    assert shown["postcopy"] == postcopy
    assert shown["preempt"] == (preempt == "on")
    assert (shown["totals"]["page_requests"] > 0) == postcopy
    assert shown["downtime"]["blackout_us"] > 0
    assert shown["totals"]["wire_sent_bytes"] > 64 << 20
    names = [channel["name"] for channel in shown["channels"]]
    assert names == (["main", "preempt"] if preempt == "on" else ["main"])
    # what QEMU was set to is put back on both ends
    after = [qemu.qmp.capabilities() for qemu in (source, destination)]
    assert after == before
    assert any(name in before[0] for name in ASKED)
    lab.finish(destination)


def test_switches_on_request(lab):
    a, _ = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="auto",
                bandwidth_bytes_per_second=SLOW)
    move.wait_state("precopy")
    status, answer = move.postcopy()
    assert status == 200, answer
    shown = assert_moved(lab, move, source, destination)
    assert shown["postcopy"] and shown["totals"]["page_requests"] > 0
    lab.finish(destination)


def test_switches_after_first_pass(lab):
    a, _ = lab.daemons_pair()
    source, destination = lab.pair(work={"rate": 20000})
    move = Move(a, source, destination, "B", mode="postcopy",
                bandwidth_bytes_per_second=SLOW, max_downtime_ms=1)
    shown = assert_moved(lab, move, source, destination)
    assert shown["postcopy"] and shown["progress"]["pass"] >= 2
    lab.finish(destination)


@pytest.mark.parametrize("mode", ["precopy", "postcopy"])
def test_paused_guest_arrives_paused(lab, mode):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    source.qmp.command("stop")
    move = Move(a, source, destination, "B", mode=mode,
                **({"postcopy_after_seconds": 0.0}
                   if mode == "postcopy" else {}),
                bandwidth_bytes_per_second=3 * SLOW)
    here, there = move.wait_end_both(b)
    assert (here["result"], there["result"]) == ("completed", "completed"), here
    assert here["run_state_at_switchover"] == "paused"
    assert here["downtime"]["blackout_us"] is None
    assert destination.qmp.status() == "paused"
    assert not source.qmp.running()
    # its disks are inactive until it runs: QEMU 7.2 would die of a second move
    further = lab.qemu("c", incoming=True)
    refused = Move(b, destination, further, "A", mode="precopy").wait_end()
    assert refused["refused"] and refused["error"]["class"] == "guest-state"
    assert "resume it for a moment" in refused["error"]["message"]
    assert destination.alive and destination.qmp.status() == "paused"
    # it is the whole guest: it goes on when it is told to
    destination.qmp.command("cont")
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.versions("7.2", long=["10.0"])
def test_stopped_on_the_way_arrives_stopped(lab):
    """The run state is the one at switchover, not the one at the start."""
    a, _ = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW // 2)
    move.wait_state("precopy")
    source.qmp.command("stop")
    shown = move.wait_end()
    assert shown["result"] == "completed", shown
    assert shown["run_state_at_switchover"] == "paused"
    assert destination.qmp.status() == "paused"
    destination.qmp.command("cont")
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


def test_there_and_back(lab):
    """A to B by precopy, B to A by postcopy; each daemon is both ends, and
    nothing is left behind in either."""
    a, b = lab.daemons_pair()
    first, second = lab.pair()
    # connections between the daemons stay: count from after the first move
    move = Move(a, first, second, "B", mode="precopy")
    assert_moved(lab, move, first, second)
    first.kill()
    feet = [Footprint(daemon.pid, [daemon.run_dir]) for daemon in (a, b)]

    third = lab.qemu("a2", incoming=True, version=lab.versions[0])
    back = Move(b, second, third, "A", mode="postcopy", preempt="on",
                postcopy_after_seconds=0.1,
                bandwidth_bytes_per_second=3 * SLOW)
    here, there = back.wait_end_both(a)
    assert (here["result"], there["result"]) == ("completed", "completed"), here
    lab.guest.assert_only_on(third, idle=[second])
    for foot in feet:
        foot.assert_back()
    left = sorted(path.name for path in lab.directory.glob("mp-*"))
    assert left == [], left
    lab.finish(third)


@pytest.mark.versions("7.2")
def test_same_id_again_is_the_same_migration(lab):
    a, _ = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW)
    assert move.status == 201
    status, answer = a.api("POST", "/v1/migrations", move.body)
    assert status == 200 and answer["id"] == move.id
    status, answer = a.api("POST", "/v1/migrations",
                           {**move.body, "mode": "postcopy"})
    assert status == 409 and answer["error"]["class"] == "conflict"
    status, answer = a.api("POST", "/v1/migrations",
                           {**move.body, "id": "another"})
    assert status == 409 and move.id in answer["error"]["message"]
    assert_moved(lab, move, source, destination)
    status, answer = a.api("POST", "/v1/migrations", move.body)
    assert status == 200 and answer["result"] == "completed"
    lab.finish(destination)


@pytest.mark.versions("7.2")
@pytest.mark.smoke
def test_cli(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    done = a.ctl(*a.migrate_args(source, destination, "B", "--mode", "precopy",
                                 "--json"))
    assert done.status == 0, (done.stdout, done.stderr)
    assert done.json["result"] == "completed"
    for daemon in (a, b):
        shown = daemon.ctl("show", done.json["id"], "--json")
        assert shown.status == 0
        assert json.loads(shown.stdout)["result"] == "completed"
        assert done.json["id"] in daemon.ctl("list").stdout
    peers = a.ctl("peers")
    assert peers.status == 0 and "B" in peers.stdout
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)
