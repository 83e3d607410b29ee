# SPDX-License-Identifier: BSD-3-Clause
"""What nobody expects: another QEMU where ours was, records of an unlucky
instant, orders at the wrong time."""
import json
import os

import pytest

from lab import Move, Qmp, wait_for

SLOW = 20 << 20
SMALL = {"memory_mib": 128, "work": {"mib": 16}, "disk": None}


def slow_postcopy(lab, daemon):
    """A move that is in postcopy, and will be for seconds."""
    source, destination = lab.pair(**SMALL)
    move = Move(daemon, source, destination, "B", mode="postcopy",
                postcopy_after_seconds=0.0,
                bandwidth_bytes_per_second=SLOW >> 3)
    assert move.wait_state("postcopy")["state"] == "postcopy"
    return move


def edit_record(daemon, role, move, **members):
    """As if the daemon had been killed when its record said that."""
    path = daemon.state_dir / "migrations" / f"{role}-{move.id}.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, **members}))


@pytest.mark.versions("7.2", long=["10.0"])
def test_another_qemu_at_the_source_path(lab):
    """The source and its daemon are gone; whoever has the path now was never
    part of the migration."""
    a, b = lab.daemons_pair()
    source, destination = lab.pair(**SMALL)
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW >> 3)
    move.wait_state("precopy")
    a.kill()
    source.kill()
    stranger = lab.qemu("stranger", paused=True, **SMALL)
    os.rename(stranger.qmp_path, source.qmp_path)
    a.start()
    shown = move.wait_end(daemon=a)
    assert shown["result"] == "attention" and shown["advice"], shown
    assert shown["guest_is_on"] == "unknown"
    assert str(stranger.pid) in a.log()
    assert stranger.qmp.status() == "prelaunch"
    move.wait_end(daemon=b)


@pytest.mark.versions("7.2", long=["10.0"])
def test_another_qemu_at_the_destination_path(lab):
    """STARTED is on disk, its QEMU is gone: another one is not told to run."""
    a, b = lab.daemons_pair()
    source, destination = lab.pair(**SMALL)
    move = Move(a, source, destination, "B", mode="precopy")
    assert move.wait_end()["result"] == "completed"
    move.wait_end(daemon=b)
    for path in (destination.qmp_path, None):
        b.kill()
        destination.kill()
        edit_record(b, "destination", move, state="committing")
        if path:
            stranger = lab.qemu("stranger", paused=True, **SMALL)
            os.rename(stranger.qmp_path, path)
        else:  # then nobody is there
            os.unlink(destination.qmp_path)
        b.start()
        shown = move.wait_end(10, b)
        assert shown["result"] == "attention" and shown["advice"], shown
        assert stranger.qmp.status() == "prelaunch"


@pytest.mark.versions("7.2", long=["10.0"])
def test_killed_between_started_and_cont_of_postcopy(lab):
    """Not all memory is there: both ends end, with advice, and agree."""
    a, b = lab.daemons_pair()
    move = slow_postcopy(lab, a)
    b.kill()
    edit_record(b, "destination", move, state="committing")
    b.start()
    for shown in move.wait_end_both(b):
        assert shown["result"] == "attention" and shown["advice"], shown
        assert shown["guest_is_on"] == "destination", shown
    assert not move.source.qmp.running()


@pytest.mark.versions("7.2", long=["10.0"])
def test_cancel_leaves_a_stopped_guest_stopped(lab):
    """Cancelled before the daemon knew that the guest was not running."""
    a, _ = lab.daemons_pair()
    source, destination = lab.pair(**SMALL)
    source.qmp.command("stop")
    holder = Qmp(source.qmp_path)
    move = Move(a, source, destination, "B", mode="precopy")
    assert move.cancel()[0] == 200
    holder.close()
    assert move.wait_end()["result"] == "cancelled"
    wait_for("monitor again", lambda: Qmp(source.qmp_path).close() is None, 5)
    assert source.qmp.status() == "paused"


def test_source_qemu_dies_in_postcopy(lab):
    """The advice names the QEMU that is gone, not the other one."""
    a, b = lab.daemons_pair()
    move = slow_postcopy(lab, a)
    move.source.kill()
    shown, there = move.wait_end_both(b)
    assert (shown["result"], there["result"]) == ("attention", "attention")
    story = move.wait_same_story(b)
    assert (story["class"], story["side"]) == ("qemu-gone", "source"), story
    lab.assert_no_sockets()
    assert "recovery.md#source-ended-in-postcopy" in shown["advice"], shown
    assert shown["guest_is_on"] == there["guest_is_on"] == "destination"
    assert move.destination.alive
    for daemon in (a, b):
        assert_is_closed(daemon, move)
        assert move.destination.alive


def assert_is_closed(daemon, move):
    """Once, on this host alone, and for good; what it failed of stays."""
    path = f"/v1/migrations/{move.id}/close"
    before = move.show(daemon)
    assert before["closed"] is None
    status, shown = daemon.api("POST", path, {"note": f"by {daemon.name}"})
    assert status == 200, shown
    daemon.kill()
    daemon.start()
    shown = move.show(daemon)
    assert shown["closed"]["note"] == f"by {daemon.name}", shown
    assert shown["error"] == before["error"]
    assert shown["result"] == "attention"
    status, answer = daemon.api("POST", path, {})
    assert (status, answer["error"]["class"]) == (409, "too-late"), answer


def test_silent_path_in_postcopy(lab):
    """Nothing is closed and nothing comes: hold-time ends the waiting."""
    a, b = lab.daemons_pair(linked=True, options={"migration.hold-time": "2s"})
    move = slow_postcopy(lab, a)
    lab.links[0].stall()
    for daemon in (a, b):
        shown = move.wait_end(12, daemon)
        assert shown["result"] == "attention", shown
        assert shown["error"]["class"] == "link-lost", shown
        assert shown["guest_is_on"] == "destination" and shown["advice"]
    move.wait_same_story(b)
    lab.assert_no_sockets()


@pytest.mark.versions("7.2", long=["10.0"])
@pytest.mark.parametrize("who", ["source", "destination"])
def test_daemon_killed_in_postcopy(lab, who):
    """The pages went with it. The other end sees a path that broke; it hears
    why when the daemon is back."""
    a, b = lab.daemons_pair()
    move = slow_postcopy(lab, a)
    killed, other = (a, b) if who == "source" else (b, a)
    killed.kill()
    shown = move.wait_end(20, other)
    assert shown["result"] == "attention", shown
    killed.start()
    shown = move.wait_end(20, killed)
    assert shown["result"] == "attention", shown
    story = move.wait_same_story(b)
    assert story["class"] == "daemon-restarted", story
    assert story["side"] == who, story
    assert "detail" in move.show(other)["error"], move.show(other)
    lab.assert_no_sockets()
