# SPDX-License-Identifier: BSD-3-Clause
"""multifd: many channels of bulk in one migration."""
import time

import pytest

from lab import Move

SMALL = {"memory_mib": 128, "work": {"mib": 64, "disk": 20}}
SLOW = 8 << 20
PAGES_BYTES = SMALL["work"]["mib"] << 20
# its pages apart, main carries the guest's devices and what is zero
MAIN_BYTES_MAX = 1 << 20


def assert_moved_by(lab, move, b, channels):
    """Ended well, all memory on that many channels; both ends count the same
    bytes."""
    here, there = move.wait_end_both(b)
    assert (here["result"], there["result"]) == ("completed", "completed"), (
        here, there)
    assert not here["postcopy"] and not here["preempt"]
    carried = {channel["name"]: channel["forward_bytes"]
               for channel in here["channels"]}
    assert carried == {channel["name"]: channel["forward_bytes"]
                       for channel in there["channels"]}
    assert carried.pop("main") < MAIN_BYTES_MAX, here["channels"]
    assert set(carried) == {f"multifd-{i}" for i in range(channels)}
    # each takes its share, none stands by
    assert min(carried.values()) > PAGES_BYTES / channels / 8, carried
    assert sum(carried.values()) > PAGES_BYTES
    totals = here["totals"]
    assert totals["wire_sent_bytes"] > sum(carried.values())
    # QEMU counts what multifd carries apart
    assert totals["precopy_bytes"] + totals["downtime_bytes"] > PAGES_BYTES
    assert there["progress"]["transferred_bytes"] > sum(carried.values())
    lab.guest.assert_only_on(move.destination, idle=[move.source])


@pytest.mark.versions("7.2", "10.0", "7.2-10.0", "10.0-7.2")
@pytest.mark.parametrize("channels", [
    pytest.param(2, marks=pytest.mark.long), 4,
    pytest.param(16, marks=pytest.mark.long)])
def test_precopy(lab, channels):
    a, b = lab.daemons_pair()
    source, destination = lab.pair(**SMALL)
    before = [[qemu.qmp.capabilities(),
               qemu.qmp.command("query-migrate-parameters")]
              for qemu in (source, destination)]
    move = Move(a, source, destination, "B", mode="precopy",
                multifd_channels=channels)
    assert_moved_by(lab, move, b, channels)
    # the number of channels is put back, too
    assert before == [[qemu.qmp.capabilities(),
                       qemu.qmp.command("query-migrate-parameters")]
                      for qemu in (source, destination)]
    lab.finish(destination)


@pytest.mark.versions("7.2-10.0")
def test_cancel_in_setup(lab):
    """QEMU 7.2 that is cancelled while it waits for its channels would be
    "cancelling" for ever; here it can always migrate again."""
    a, b = lab.daemons_pair()
    source = lab.qemu("a", **SMALL)
    lab.guest.wait_ready("a")
    for number in range(8):
        destination = lab.qemu(f"b{number}", incoming=True, **SMALL)
        move = Move(a, source, destination, "B", mode="precopy",
                    multifd_channels=4, bandwidth_bytes_per_second=SLOW)
        move.wait_state("setup")
        time.sleep(number * 0.003)  # to vary the moment
        assert move.cancel()[0] == 200
        shown = move.wait_end(10)
        assert shown["result"] == "cancelled" and not shown["advice"], shown
        assert source.qmp.migration().get("status") != "cancelling"
        destination.kill()
    destination = lab.qemu("b", incoming=True, **SMALL)
    move = Move(a, source, destination, "B", mode="precopy",
                multifd_channels=4)
    assert_moved_by(lab, move, b, 4)
    lab.finish(destination)


def test_with_postcopy(lab):
    """Both together lose the guest (7.2) or are refused half-way (10.0): not
    even begun. "auto" makes do with precopy."""
    a, b = lab.daemons_pair()
    source, destination = lab.pair(**SMALL)
    before = [qemu.qmp.capabilities() for qemu in (source, destination)]
    for wish in ({"mode": "postcopy"},
                 {"mode": "auto", "timeout_seconds": 60,
                  "on_timeout": "postcopy"}):
        move = Move(a, source, destination, "B", multifd_channels=2, **wish)
        shown = move.wait_end()
        assert shown["refused"] and shown["guest_is_on"] == "source", shown
        assert shown["error"]["class"] == "unsupported", shown
        version = ".".join(str(source.qmp.version[part])
                           for part in ("major", "minor"))
        for word in ('"multifd_channels" 2', f'"{list(wish)[-1]}" postcopy',
                     version):
            assert word in shown["error"]["message"], shown
        # the other end was not even asked
        assert b.api("GET", f"/v1/migrations/{move.id}")[0] == 404
    assert before == [qemu.qmp.capabilities()
                      for qemu in (source, destination)]
    assert destination.qmp.migration() == {}
    move = Move(a, source, destination, "B", mode="auto", multifd_channels=2)
    assert_moved_by(lab, move, b, 2)
    lab.finish(destination)
