# SPDX-License-Identifier: BSD-3-Clause
"""A postcopy whose path breaks can be recovered by hand: both ends say how, for
the same reason, and whoever does as they say has the guest, sound."""
import json
import time

import pytest

from lab import Move, QmpError, free_port, wait_for

SLOW = 10 << 20


def cut(lab, _source, _destination):
    for link in lab.links:
        link.cut()


def pause_source(_lab, source, _destination):
    source.qmp.command("migrate-pause", _oob=True)


def pause_destination(_lab, _source, destination):
    destination.qmp.command("migrate-pause", _oob=True)


def commands(advice):
    """What the advice says is to be typed, by name, at a port that is free."""
    address = f"127.0.0.1:{free_port()}"
    lines = [json.loads(line.replace("ADDRESS:PORT", address))
             for line in advice.splitlines() if line.startswith("  {")]
    return {line.get("exec-oob", line.get("execute")):
            ("exec-oob" in line, line.get("arguments", {})) for line in lines}


def recover(source, destination, advice):
    """What the advice says, to the letter; the destination's monitor may not
    answer other questions before."""
    typed = commands(advice)
    assert {"qmp_capabilities", "migrate-recover", "migrate"} <= set(typed)
    wait_for("a paused source", lambda: source.qmp.migration().get("status")
             == "postcopy-paused", 30)
    def is_listening():
        try:
            out_of_band, arguments = typed["migrate-recover"]
            destination.qmp.command("migrate-recover", _oob=out_of_band,
                                    **arguments)
        except QmpError:
            return False  # it has not noticed yet
        return True
    wait_for("a destination that lets itself be recovered", is_listening, 10)
    source.qmp.command("migrate", **typed["migrate"][1])
    for qemu in (source, destination):
        wait_for(f"the end on {qemu.side}", lambda q=qemu: q.qmp.migration()
                 .get("status") == "completed", 60)


@pytest.mark.versions("7.2", "10.0", long=["7.2-10.0", "10.0-7.2"])
@pytest.mark.parametrize("act", [cut, pause_source, pause_destination])
def test_by_hand(lab, act):
    a, b = lab.daemons_pair(linked=True)
    source, destination = lab.pair(memory_mib=128, work={"mib": 64, "rate": 0})
    move = Move(a, source, destination, "B", mode="postcopy", preempt="off",
                postcopy_after_seconds=0.1, bandwidth_bytes_per_second=SLOW)
    shown = move.wait_state("postcopy")
    assert not shown["result"], shown
    time.sleep(0.3)  # not to wait for something: pages are on their way
    act(lab, source, destination)
    here, there = move.wait_end_both(b)
    for shown in (here, there):
        assert shown["result"] == "attention", shown
        # the cause, not that QEMU has noticed it
        assert "postcopy-paused" not in shown["error"]["message"], shown
        for word in ("migrate-recover by exec-oob", "resume=true",
                     str(source.qmp_path), str(destination.qmp_path)):
            assert word in shown["advice"], shown
    move.wait_same_story(b)
    lab.assert_no_sockets()
    for daemon in (a, b):
        # said once, not at each look at QEMU
        assert daemon.log().count("QEMU lost its connection") <= 1, daemon.name
    recover(source, destination, here["advice"])
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.versions("7.2", "10.0")
def test_a_cut_behind_the_last_page_does_not_wake_the_source(lab):
    """QEMU 10.0 that has handed over all, and is cut off before it hears that
    the destination has it, resumes its guest: it is stopped again at once."""
    a, b = lab.daemons_pair(linked=True, options={"limits.pool": "1GiB"})
    source, destination = lab.pair(memory_mib=128, work={"mib": 64, "rate": 0})
    move = Move(a, source, destination, "B", mode="postcopy", preempt="off",
                postcopy_after_seconds=0.1, bandwidth_bytes_per_second=SLOW)
    move.wait_state("postcopy")

    def has_handed_over():
        status = source.qmp.migration()
        return (status.get("status") == "postcopy-active"
                and status["ram"]["remaining"] == 0)
    wait_for("the last page out of QEMU", has_handed_over, 60)
    shown = move.show()
    # what it shows is what has left the host, not what QEMU believes
    assert shown["progress"]["percent"] < 100, shown["progress"]
    assert shown["progress"]["remaining_bytes"] > 0
    cut(lab, source, destination)
    here, there = move.wait_end_both(b)
    assert (here["result"], there["result"]) == ("attention", "attention"), here
    move.wait_same_story(b)
    assert here["guest_is_on"] == "destination", here
    time.sleep(0.5)
    beats = lab.guest.beats["a"]
    assert source.qmp.status() != "running"
    time.sleep(1)
    assert lab.guest.beats["a"] == beats
