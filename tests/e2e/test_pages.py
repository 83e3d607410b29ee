# SPDX-License-Identifier: BSD-3-Clause
"""Postcopies whose pages are put in a better order: nothing may be wrong with
one page, whenever it begins and however little memory there is for it."""
import random

import pytest

from lab import Move
from lab.migproxy import make_pki

BOTH = pytest.mark.versions("7.2", "10.0", long=["7.2-10.0", "10.0-7.2"])
RATE = 60 << 20


def moved(lab, options, preempt, seed, work):
    """One postcopy at a random time; the source's last word."""
    chance = random.Random(seed)
    a, b = lab.daemons_pair(options=options)
    source, destination = lab.pair(memory_mib=256, work={"mib": 128, **work})
    move = Move(a, source, destination, "B", mode="postcopy", preempt=preempt,
                postcopy_after_seconds=round(chance.uniform(0, 1), 2),
                bandwidth_bytes_per_second=RATE)
    shown, there = move.wait_end_both(b)
    assert (shown["result"], there["result"]) == ("completed", "completed"), (
        shown, there)
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)
    return shown


@BOTH
@pytest.mark.parametrize("preempt", ["off", "on"])
@pytest.mark.parametrize("pool", ["1MiB", "2MiB", "64MiB"])
def test_every_page_arrives_once(lab, preempt, pool):
    shown = moved(lab, {"limits.pool": pool}, preempt, f"{preempt}{pool}",
                  work={"rate": 0})
    if not shown["postcopy"]:
        pytest.fail("precopy was over before postcopy began")
    pages = shown["pages"]
    # a migration's share is half of what there is
    limit = {"1MiB": 0, "2MiB": 1 << 20, "64MiB": 32 << 20}[pool]
    if limit == 0:
        # too little to be of use: pages pass in QEMU's order
        assert pages is None and shown["stream"] == "ram", shown["stream"]
        return
    assert pages["pool_limit_bytes"] == limit
    assert 0 < pages["pool_peak_bytes"] <= limit + (1 << 20)
    assert shown["stream"] == "end", shown["stream"]
    times = pages["delivery"]
    assert 0 < times["count"] <= shown["totals"]["page_requests"]
    assert 0 < times["mean_us"] <= times["max_us"]
    assert times["count"] == sum(pages[f"delivery_{where}"]["count"] for where
                                 in ("found", "in_flight", "fetched"))
    assert pages["pool_bytes"] == 0 and pages["awaited"] == 0


@pytest.mark.versions("7.2", long=["10.0"])
def test_what_hides_the_stream_is_put_off(lab):
    """QEMU's own TLS and xbzrle: off while migproxy migrates, back after it."""
    pki = make_pki(lab.directory / "qemu-pki", "one", "two")

    def tls(name, endpoint):
        return ["-object", f"tls-creds-x509,id=tls0,dir={pki / name},"
                           f"endpoint={endpoint},verify-peer=yes"]

    a, b = lab.daemons_pair()
    source = lab.qemu("a", extra=tls("one", "client"))
    destination = lab.qemu("b", incoming=True, extra=tls("two", "server"))
    lab.guest.wait_ready("a")
    lab.guest.wait_beats("a")
    for qemu in (source, destination):
        qemu.qmp.command("migrate-set-parameters",
                         **{"tls-creds": "tls0", "tls-hostname": "two"})
        qemu.qmp.set_capabilities(xbzrle=True)
    move = Move(a, source, destination, "B", mode="postcopy", preempt="on",
                postcopy_after_seconds=0.2, bandwidth_bytes_per_second=RATE)
    shown, there = move.wait_end_both(b)
    assert (shown["result"], there["result"]) == ("completed", "completed"), (
        shown, there)
    assert shown["postcopy"] and shown["stream"] == "end"
    for qemu in (source, destination):
        assert qemu.qmp.capabilities()["xbzrle"]
        assert qemu.qmp.command("query-migrate-parameters")[
            "tls-creds"] == "tls0"
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.versions("7.2")
def test_a_precopy_comes_to_the_devices(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    move = Move(a, source, destination, "B", mode="auto",
                bandwidth_bytes_per_second=4 * RATE)
    shown, _ = move.wait_end_both(b)
    assert shown["result"] == "completed" and not shown["postcopy"], shown
    assert shown["stream"] == "devices" and shown["pages"] is None
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("number", range(25))
@pytest.mark.parametrize("preempt", ["off", "on"])
def test_many_in_a_row(lab, preempt, number):
    moved(lab, {"limits.pool": random.Random(number).choice(
        ["2MiB", "8MiB", "256MiB"])}, preempt, number, work={"rate": 0})
