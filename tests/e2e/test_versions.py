# SPDX-License-Identifier: BSD-3-Clause
"""From one version of QEMU to another and back, with a machine both have."""
import pytest

from lab import Move

# so slow that a postcopy has pages left to ask for
RATE = 120 << 20
WORK = {"mib": 64, "disk": 20}


def moved(lab, daemons, source, destination, peer, **body):
    """One move that must end well; what its source's daemon says of it."""
    if body["mode"] == "postcopy":
        body["postcopy_after_seconds"] = 0.1
    move = Move(daemons[0], source, destination, peer,
                bandwidth_bytes_per_second=RATE, **body)
    here, there = move.wait_end_both(daemons[1])
    assert (here["result"], there["result"]) == ("completed", "completed"), (
        here, there)
    assert here["postcopy"] == (body["mode"] == "postcopy")
    lab.guest.assert_only_on(destination, idle=[source])
    return here


@pytest.mark.versions("7.2-10.0", "10.0-7.2")
@pytest.mark.parametrize("mode, preempt", [
    ("precopy", "off"), ("postcopy", "off"), ("postcopy", "on"),
    ("postcopy", "auto")])
def test_there_and_back(lab, mode, preempt):
    a, b = lab.daemons_pair()
    first, second = lab.pair(work=WORK, memory_mib=128)
    before = [qemu.qmp.capabilities() for qemu in (first, second)]
    assert first.qmp.version["major"] != second.qmp.version["major"]
    shown = moved(lab, (a, b), first, second, "B", mode=mode, preempt=preempt)
    if preempt == "auto":
        # only with QEMUs that both serve it while main is blocked
        assert not shown["preempt"]
    else:
        assert shown["preempt"] == (preempt == "on")
    assert [qemu.qmp.capabilities() for qemu in (first, second)] == before
    if preempt == "auto":
        lab.finish(second)
        return
    first.kill()
    third = lab.qemu("a2", incoming=True, version=first.version, work=WORK,
                     memory_mib=128)
    moved(lab, (b, a), second, third, "A", mode=mode, preempt=preempt)
    lab.finish(third)


@pytest.mark.versions("7.2-10.0")
def test_machines_differ(lab):
    """"q35" is another machine in each version: refused, with both names."""
    a, _ = lab.daemons_pair()
    source, destination = lab.pair(machine="q35", disk=None, memory_mib=128,
                                   work={"mib": 16})
    shown = Move(a, source, destination, "B", mode="precopy").wait_end()
    assert shown["refused"] and shown["error"]["class"] == "mismatch", shown
    for name in ("pc-q35-7.2", "pc-q35-10.0"):
        assert name in shown["error"]["message"], shown
    assert source.qmp.running()
