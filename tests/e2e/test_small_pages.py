# SPDX-License-Identifier: BSD-3-Clause
"""A guest on huge pages, postcopied to ordinary memory 4 KiB at a time."""
import contextlib
import pathlib

import pytest

from lab import Move

MEMORY_MIB = 192
GIANT_MIB = 1024
HUGE = pathlib.Path("/sys/kernel/mm/hugepages")
# of two guests, and what QEMU may keep for a moment when one has just ended
PAGES = 2 * MEMORY_MIB // 2 + 8
RATE = 40 << 20


@contextlib.contextmanager
def reserved(size_kib, wanted):
    """Huge pages more than there are; as many fewer afterwards (another process
    of the tests may do the same meanwhile)."""
    directory = HUGE / f"hugepages-{size_kib}kB"
    count = directory / "nr_hugepages"
    if not count.exists():
        pytest.skip(f"the kernel has no huge pages of {size_kib} KiB")

    def add(number):
        now = int(count.read_text(encoding="ascii"))
        count.write_text(str(max(0, now + number)), encoding="ascii")
        return int(count.read_text(encoding="ascii")) - now

    added = add(wanted)
    try:
        free = int((directory / "free_hugepages").read_text(encoding="ascii"))
        if free < wanted:
            pytest.skip(f"{free} of {wanted} huge pages of {size_kib} KiB "
                        "could be had")
        yield
    finally:
        add(-added)


@pytest.fixture
def huge_pages():
    with reserved(2048, PAGES):
        yield


@pytest.fixture
def giant_page():
    with reserved(1048576, 1):
        yield


def memory(page, memory_mib=MEMORY_MIB):
    """Options of a QEMU; page: "2M", "1G" or None. A backend is as long as -m
    says, so postcopy has to begin in the first pass (lab/qemu.py)."""
    kind = f"hugetlb=on,hugetlbsize={page}" if page else "hugetlb=off"
    return {"memory_mib": memory_mib, "machine": "pc-q35-7.2,memory-backend=ram",
            "cpu": "qemu64", "work": {"rate": 0, "mib": 96},
            "extra": ["-object", "memory-backend-memfd,id=ram,share=on,"
                      f"size={memory_mib}M,{kind}"]}


def pair(lab, here, there, **options):
    source = lab.qemu("a", **memory(here, **options))
    destination = lab.qemu("b", incoming=True, **memory(there, **options))
    lab.guest.wait_ready("a")
    lab.guest.wait_beats("a")
    return source, destination


def move(lab, source, destination, **body):
    a, b = lab.daemons_pair()
    begun = Move(a, source, destination, "B", bandwidth_bytes_per_second=RATE,
                 **{"mode": "postcopy", "postcopy_after_seconds": 0.3, **body})
    assert begun.status == 201, begun.answer
    return begun.wait_end_both(b)


@pytest.mark.usefixtures("huge_pages")
@pytest.mark.versions("7.2", "10.0", "7.2-10.0", long=["10.0-7.2"])
@pytest.mark.parametrize("preempt", ["off", "on"])
def test_huge_to_ordinary(lab, preempt):
    source, destination = pair(lab, here="2M", there=None)
    shown, there = move(lab, source, destination, preempt=preempt)
    assert (shown["result"], there["result"]) == ("completed", "completed"), (
        shown, there)
    assert shown["postcopy"] and shown["small_pages"] and there["small_pages"]
    assert shown["preempt"] == (preempt == "on")
    # the pages were put in order: one was asked for and left by itself
    assert shown["stream"] == "end", shown["stream"]
    assert shown["pages"]["sent_first"] > 0, shown["pages"]
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.usefixtures("huge_pages")
@pytest.mark.versions("10.0")
def test_what_could_not_be_recovered_is_not_the_default(lab):
    """QEMU 10.0 aborts in a recovery with preempt; without, it does not."""
    source, destination = pair(lab, here="2M", there=None)
    shown, _ = move(lab, source, destination)
    assert shown["result"] == "completed", shown
    assert shown["postcopy"] and shown["small_pages"] and not shown["preempt"]
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.usefixtures("huge_pages")
@pytest.mark.versions("10.0", long=["7.2"])
def test_huge_to_huge_is_not_translated(lab):
    source, destination = pair(lab, here="2M", there="2M")
    shown, there = move(lab, source, destination)
    assert (shown["result"], there["result"]) == ("completed", "completed"), (
        shown, there)
    assert shown["postcopy"] and not shown["small_pages"]
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


@pytest.mark.usefixtures("huge_pages")
@pytest.mark.versions("7.2")
def test_ordinary_to_huge(lab):
    """The destination can place whole pages only: refused, with the remedy."""
    source, destination = pair(lab, here=None, there="2M")
    shown, _ = move(lab, source, destination)
    assert shown["refused"] and shown["error"]["class"] == "mismatch", shown
    for part in ("RAM block ram", "4096", "2097152", "--mode precopy"):
        assert part in shown["error"]["message"], shown["error"]
    lab.guest.assert_only_on(source, idle=[destination])
    source.qmp.command("stop")  # see memory()
    shown = Move(lab.daemons[0], source, destination, "B",
                 mode="precopy").wait_end()
    assert shown["result"] == "completed", shown
    assert not shown["small_pages"]


@pytest.mark.long
@pytest.mark.usefixtures("giant_page")
def test_giant_pages_go_without_preempt(lab):
    """QEMU would send 1 GiB for each request."""
    source, destination = pair(lab, here="1G", there=None,
                               memory_mib=GIANT_MIB)
    shown, _ = move(lab, source, destination, preempt="on")
    assert shown["result"] == "completed", shown
    assert shown["postcopy"] and shown["small_pages"] and not shown["preempt"]
    assert "preempt is off" in lab.daemons[0].log()
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)
