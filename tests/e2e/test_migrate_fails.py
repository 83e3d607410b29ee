# SPDX-License-Identifier: BSD-3-Clause
"""What is asked for at the wrong time, of the wrong QEMU or by the wrong peer.
Failures of what was rightly begun: test_fails.py."""
import pytest

from lab import Move

SLOW = 20 << 20


def test_cancel_comes_too_late(lab):
    a, _ = lab.daemons_pair()
    source, destination = lab.pair(memory_mib=128, work={"mib": 16})
    move = Move(a, source, destination, "B", mode="postcopy",
                postcopy_after_seconds=0.0, bandwidth_bytes_per_second=SLOW)
    shown = move.wait_state("postcopy")
    assert shown["state"] == "postcopy", shown
    status, answer = move.cancel()
    assert status == 409 and answer["error"]["class"] == "too-late"
    assert move.wait_end()["result"] == "completed"
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


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


@pytest.mark.versions("7.2")
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


@pytest.mark.versions("7.2")
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
