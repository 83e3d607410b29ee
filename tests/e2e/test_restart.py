# SPDX-License-Identifier: BSD-3-Clause
"""A daemon that ends, in every way, at the worst moments: its records say what
happened, and its successor finishes or undoes it."""
import json
import time

import pytest

from lab import Move, wait_for

SLOW = 20 << 20


def runs(qemu):
    """Whether that QEMU runs the guest; it may be about to end."""
    try:
        return qemu.alive and qemu.qmp.running()
    except (OSError, AssertionError):
        return False


@pytest.mark.smoke
def test_records_survive(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="precopy")
    shown = move.wait_end()
    assert shown["result"] == "completed", shown
    move.wait_end(daemon=b)
    for daemon, role in ((a, "source"), (b, "destination")):
        assert daemon.stop() == 0
        path = daemon.state_dir / "migrations" / f"{role}-{move.id}.json"
        record = json.loads(path.read_text())["successor"]
        assert record["committed"] and record["started"]
        assert record["qmp_path"] and record["qemu_pid"] > 0
        assert record["qemu_start_ticks"] > 0
        assert record["capabilities"]
        ram = [block for block in record["blocks"]
               if block["name"].endswith("pc.ram")]
        assert ram and ram[0]["page_size_bytes"] == 4096
        if role == "source":
            assert ram[0]["destination_page_size_bytes"] == 4096
            assert [section["name"] for section in record["sections"]] == ["ram"]
        daemon.start()
        again = move.show(daemon)
        assert again["result"] == "completed" and again["role"] == role
        assert again["id"] == move.id and again["downtime"] == (
            shown if role == "source" else again)["downtime"]
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.parametrize("who", ["source", "destination"])
def test_daemon_killed_in_precopy(lab, who):
    """The guest goes on at home; the killed daemon's successor says so. (That
    of the destination waits in vain, for twice that time: the source has told
    the end when nobody was there.)"""
    a, b = lab.daemons_pair(options={"migration.cancel-timeout": "4s"})
    source, destination = lab.pair()
    caps = source.qmp.capabilities()
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW)
    move.wait_state("precopy")
    killed = a if who == "source" else b
    killed.kill()
    if who == "destination":
        shown = move.wait_end()
        assert shown["result"] == "failed", shown
    killed.start()
    shown = move.wait_end(daemon=killed, seconds=60)
    assert shown["result"] == "failed", shown
    move.wait_end(daemon=b if killed is a else a)
    story = move.wait_same_story(b)
    assert story["class"] == "daemon-restarted", story
    assert story["side"] == who, story
    lab.assert_no_sockets()
    wait_for("the guest running at home", source.qmp.running, 20)
    lab.guest.wait_beats("a", 100)
    wait_for("capabilities as they were",
             lambda: source.qmp.capabilities() == caps, 10)
    fresh = lab.qemu("next", incoming=True)
    move = Move(a, source, fresh, "B", mode="precopy")
    shown = move.wait_end()
    assert shown["result"] == "completed", shown
    lab.guest.assert_only_on(fresh, idle=[source])
    lab.finish(fresh)


@pytest.mark.parametrize("who", ["source", "destination", "both"])
@pytest.mark.parametrize("delay_ms", [0, 8, 30])
@pytest.mark.versions("7.2", long=["10.0"])
def test_daemon_killed_around_commit(lab, who, delay_ms):
    """Whatever the moment: when all is started again the guest runs in exactly
    one place, or a person is asked and it runs nowhere."""
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="precopy")
    source.qmp.wait_event("STOP", 60)
    time.sleep(delay_ms / 1000)  # not to wait for something: to vary the moment
    killed = {"source": [a], "destination": [b], "both": [a, b]}[who]
    for daemon in killed:
        daemon.kill()
    for daemon in killed:
        daemon.start()
    here = move.wait_end(daemon=a, seconds=100)
    running = [qemu for qemu in (source, destination) if runs(qemu)]
    if here["result"] == "attention":
        assert here["advice"]
        assert len(running) <= 1
        return
    wait_for("the guest running somewhere",
             lambda: any(map(runs, (source, destination))), 20)
    on = destination if here["result"] == "completed" else source
    off = source if on is destination else destination
    lab.guest.assert_only_on(on, idle=[off])
    lab.finish(on)


def test_term_waits_for_postcopy(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="postcopy",
                postcopy_after_seconds=0.0, bandwidth_bytes_per_second=SLOW)
    move.wait_state("postcopy")
    a.process.signal(15)
    wait_for("draining", lambda: a.api("GET", "/v1/host")[1]["draining"], 5)
    status, answer = a.api("POST", "/v1/migrations",
                           {**move.body, "id": "late", "vm": "other"})
    assert status == 503 and answer["error"]["class"] == "shutting-down"
    assert a.process.wait(60) == 0
    a.process = None
    a.start()
    assert move.show()["result"] == "completed"
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)
