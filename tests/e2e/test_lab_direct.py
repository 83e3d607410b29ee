# SPDX-License-Identifier: BSD-3-Clause
"""The lab itself: QEMU to QEMU over a unix socket, without migproxy.

What fails here is a fault of the lab or of QEMU.
"""
import mmap
import struct

import pytest

from lab import Timeout, wait_for

BANDWIDTH = 1 << 30
SLOW = 64 << 20  # a pass takes the writer's time, whoever else has the CPUs
MIGRATE_S = 30
MASK = (1 << 64) - 1


def start_direct(source, destination, max_bandwidth=BANDWIDTH,
                 downtime_limit=300, **capabilities):
    """Begins a migration; both ends with the same capabilities."""
    capabilities = {"events": True, "return_path": True, **capabilities}
    for qemu in (source, destination):
        qemu.qmp.set_capabilities(**capabilities)
        qemu.qmp.command("migrate-set-parameters", max_bandwidth=max_bandwidth,
                         downtime_limit=downtime_limit)
    uri = f"unix:{destination.migrate_path}"
    destination.qmp.command("migrate-incoming", uri=uri)
    source.qmp.command("migrate", uri=uri)


def wait_completed(source, destination):
    for qemu in (source, destination):
        qemu.qmp.wait_event("MIGRATION", MIGRATE_S, {"status": "completed"})
    wait_for("run state of the destination", destination.qmp.running, 10)


@pytest.mark.versions("7.2", long=["10.0"])
@pytest.mark.parametrize("work", [
    {"order": "random"},
    {"order": "sequential", "rate": 0, "write": 0},
    {"order": "strided", "stride": 64, "write": 100, "rate": 2000},
], ids=lambda work: work["order"])
def test_precopy(lab, work):
    source, destination = lab.pair(work=work)
    lab.guest.assert_only_on(source, idle=[destination])
    start_direct(source, destination)
    wait_completed(source, destination)

    lab.guest.assert_only_on(destination, idle=[source])
    moves = [gap for gap in lab.guest.gaps if gap.from_side != gap.to_side]
    assert [(gap.from_side, gap.to_side) for gap in moves] == [("a", "b")]
    lab.finish(destination)


def test_precopy_of_many_passes(lab):
    """No write is lost between passes (see TCG_EXTRA_KIB in lab/qemu.py)."""
    source, destination = lab.pair(work={"rate": 0})
    start_direct(source, destination, max_bandwidth=SLOW, downtime_limit=1)
    source.qmp.wait_event("MIGRATION_PASS", MIGRATE_S, {"pass": 4})
    source.qmp.command("migrate-set-parameters", max_bandwidth=BANDWIDTH,
                       downtime_limit=10000)
    wait_completed(source, destination)
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.parametrize("preempt", [False, True],
                         ids=["plain", "preempt"])
def test_postcopy(lab, preempt):
    # large enough that pages are still asked for when postcopy begins
    source, destination = lab.pair(memory_mib=256,
                                   work={"rate": 0, "mib": 128})
    start_direct(source, destination, postcopy_ram=True,
                 postcopy_preempt=preempt)
    source.qmp.wait_event("MIGRATION", MIGRATE_S, {"status": "active"})
    source.qmp.command("migrate-start-postcopy")
    wait_completed(source, destination)

    assert source.qmp.migration()["ram"]["postcopy-requests"] > 0
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.versions("7.2")
def test_blackout_is_seen_by_the_host(lab):
    """The guest's clock stands still while it is paused; beats tell."""
    source = lab.qemu("a")
    lab.guest.wait_ready("a")
    lab.guest.wait_beats("a")
    source.qmp.command("stop")
    stopped = source.qmp.wait_event("STOP", 5)
    beats = lab.guest.beats["a"]
    with pytest.raises(Timeout):
        lab.guest.wait_beats("a", 1, seconds=0.5)
    assert lab.guest.beats["a"] == beats
    source.qmp.command("cont")
    lab.guest.wait_beats("a")
    assert lab.guest.worst_gap_s(stopped["at"]) >= 0.5
    lab.finish(source)


def body_word(index, i):
    """Word i of a page's body, generation 0: as tests/guest/pages.c."""
    def mix(x):
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
        x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
        return x ^ x >> 31
    golden = 0x9E3779B97F4A7C15
    x = mix(index * golden + mix(1) & MASK) + i * golden & MASK
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & MASK
    return x ^ x >> 32


@pytest.mark.versions("7.2")
def test_damage_is_found(lab):
    """One bit of a page turned behind the guest's back: the check can fail."""
    ram = lab.directory / "ram"
    source = lab.qemu(
        "a", machine="q35,memory-backend=ram", work={"write": 0, "mib": 16},
        extra=["-object", f"memory-backend-file,id=ram,size=128M,share=on,"
                          f"mem-path={ram}"])
    lab.guest.wait_ready("a")
    lab.guest.wait_beats("a")
    source.qmp.command("stop")
    with open(ram, "r+b") as memory, mmap.mmap(memory.fileno(), 0) as view:
        start = view.find(struct.pack("<QQ", body_word(77, 0),
                                      body_word(77, 1)))
        assert start > 0 and (start - 24) % 4096 == 0
        view[start + 2000] ^= 1
    source.qmp.command("cont")
    final = lab.guest.finish("a")
    assert final["wrong"] == 1
    assert lab.guest.last("wrong")["page"] == 77
    with pytest.raises(AssertionError):
        lab.guest.assert_sound()


@pytest.mark.versions("7.2")
def test_two_places_are_found(lab):
    """A source that runs on after the move is found, beat by beat."""
    source, destination = lab.pair(disk=None)
    start_direct(source, destination)
    wait_completed(source, destination)
    lab.guest.assert_only_on(destination, idle=[source])
    source.qmp.command("cont")
    lab.guest.wait_beats("a")
    with pytest.raises(AssertionError, match="which is idle"):
        lab.guest.assert_only_on(destination, idle=[source])
    with pytest.raises(AssertionError, match="beat .* on a after"):
        lab.guest.assert_sound()


@pytest.mark.versions("7.2")
def test_late_write_is_found(lab):
    """A block written by someone who should have been dead is found."""
    source = lab.qemu("a", work={"disk": 5})
    lab.guest.wait_ready("a")
    report = lab.guest.wait_report(match=lambda r: r["disk_seq"] > 20)
    source.kill()
    lab.disk.check(report["disk_seq"])
    with open(lab.disk.path, "r+b") as image:
        image.seek(3 * 4096)
        old = image.read(4096)
        image.seek(7 * 4096)
        image.write(old)
    with pytest.raises(AssertionError, match="carries sequence 3"):
        lab.disk.check(report["disk_seq"])
