# SPDX-License-Identifier: BSD-3-Clause
"""The one guest as seen from the host, whichever QEMU runs it.

A thread reads two FIFOs of each QEMU: the serial console (a report each
second) and the debug port, where the guest puts a counting byte every
millisecond. The guest's own clock stands still while QEMU has it paused, so
its blackout is measured here, by the host's clock, between two beats. The
bytes also tell whether the guest ever ran in two places: put in order of
arrival they must count up by one.
"""
import dataclasses
import os
import re
import select
import threading
import time
import zlib

from .wait import wait_for

BEAT_S = 0.001
READ_BYTES = 65536
POLL_S = 0.1
LINE = re.compile(rb"work (\w[\w-]*) ?(.*) sum=([0-9a-f]{8})")
# a second longer than the guest's own report period
REPORT_S = 10
FINAL_S = 60


@dataclasses.dataclass
class Report:
    """One line "work WORD key=value ..." of the guest."""
    side: str    # the QEMU that printed its end
    at: float    # host's time of arrival, time.monotonic()
    word: str
    fields: dict

    def __getitem__(self, key):
        return self.fields[key]


@dataclasses.dataclass
class Gap:
    """Time between two beats. from_side differs from to_side when the guest
    moved in between."""
    start: float
    seconds: float
    from_side: str
    to_side: str


def _value(text):
    if re.fullmatch(r"\d+", text):
        return int(text)
    if re.fullmatch(r"\d+(,\d+)+", text):
        return [int(part) for part in text.split(",")]
    return text


def _parse(line):
    """(word, fields) of a line whose checksum is right, else None."""
    match = LINE.search(line)
    if not match:
        return None
    text = line[match.start():match.start(3) - len(b" sum=")]
    if zlib.crc32(text) != int(match.group(3), 16):
        return None
    fields = dict(part.split("=", 1)
                  for part in match.group(2).decode().split() if "=" in part)
    return match.group(1).decode(), {key: _value(text)
                                     for key, text in fields.items()}


class Guest:
    """What the guest said, and where and when it ran."""

    def __init__(self):
        self.reports = []
        self.garbled = []      # lines that should have been reports
        self.console = []      # all other lines: the kernel's, a panic
        self.gaps = []         # every gap above 10 beats, in order
        self.breaks = []       # steps back or jumps of the counter, as text
        self.beats = {}        # bytes counted, by side
        self.side = None       # of the last beat
        self._last_byte = None
        self._last_at = None
        self._line = b""
        self._sources = {}     # descriptor: (side, kind)
        self._inputs = {}
        self._epoll = select.epoll()
        self._stop = False
        self._thread = threading.Thread(target=self._read_all, daemon=True)
        self._thread.start()

    def attach(self, side, serial_path, beat_path):
        """Watches the FIFOs of a QEMU; call before it starts."""
        self.beats.setdefault(side, 0)
        for kind, path in (("beat", beat_path),
                           ("serial", f"{serial_path}.out")):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            self._sources[descriptor] = (side, kind)
            self._epoll.register(descriptor, select.EPOLLIN)
        self._inputs[side] = f"{serial_path}.in"

    def close(self):
        self._stop = True
        self._thread.join()
        for descriptor in list(self._sources):
            os.close(descriptor)
        self._epoll.close()

    # what the guest is told

    def tell(self, side, text):
        """Gives the guest a line of input through that side's console."""
        descriptor = os.open(self._inputs[side], os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(descriptor, text.encode() + b"\n")
        finally:
            os.close(descriptor)

    def set_rate(self, side, visits_per_second):
        seen = len(self.reports)
        self.tell(side, f"rate {visits_per_second}")
        self.wait_report("rate", side=side, since=seen)

    def finish(self, side):
        """Stops the work; the guest verifies every word it has. Returns the
        report "final"."""
        self.tell(side, "final")
        return self.wait_report("final", side=side, seconds=FINAL_S)

    # what is waited for

    def wait_report(self, word="second", side=None, since=0,
                    seconds=REPORT_S, match=None):
        """The first such report from number since on."""
        def find():
            for report in self.reports[since:]:
                if report.word == "error":
                    raise AssertionError(f"guest: {report.fields}")
                if report.word == word and side in (None, report.side) and (
                        match is None or match(report)):
                    return report
            return None
        return wait_for(f"report {word} of the guest on {side or 'any side'}",
                        find, seconds, self.tail)

    def wait_ready(self, side, seconds=90):
        return self.wait_report("ready", side=side, seconds=seconds)

    def wait_beats(self, side, count=50, seconds=10):
        """Until the guest has run for count more beats on that side."""
        start = self.beats[side]
        wait_for(f"{count} beats of the guest on {side}",
                 lambda: self.beats[side] >= start + count, seconds, self.tail)

    # what is asserted

    def assert_only_on(self, running, idle=()):
        """The guest makes progress on the QEMU running, and none on the
        others; query-status says the same."""
        before = {qemu.side: self.beats[qemu.side] for qemu in idle}
        self.wait_beats(running.side, 100)
        assert running.qmp.running(), f"{running.side} says it is not running"
        for qemu in idle:
            moved = self.beats[qemu.side] - before[qemu.side]
            assert not moved, f"{moved} beats on {qemu.side}, which is idle"
            if qemu.alive:
                assert not qemu.qmp.running(), f"{qemu.side} says it runs"

    def assert_sound(self):
        """No page wrong, no block wrong, never in two places."""
        assert not self.breaks, self.breaks
        for report in self.reports:
            assert report.word not in ("wrong", "disk-wrong", "error"), report
            for key in ("wrong", "disk_wrong"):
                assert not report.fields.get(key), report
        # one line may be cut by each move; more is a fault of the console
        moves = sum(gap.from_side != gap.to_side for gap in self.gaps)
        assert len(self.garbled) <= moves, self.garbled

    def worst_gap_s(self, since=0):
        """The guest's longest standstill by the host's clock since that
        time.monotonic()."""
        return max((gap.seconds for gap in list(self.gaps)
                    if gap.start + gap.seconds >= since), default=0)

    def last(self, word="second"):
        """The newest report, or None."""
        return next((report for report in reversed(self.reports)
                     if report.word == word), None)

    def tail(self, count=5):
        return (f"guest last on {self.side}, beats {self.beats}, reports "
                f"{[(r.side, r.word, r.fields) for r in self.reports[-count:]]}")

    # the reading thread

    def _read_all(self):
        while not self._stop:
            ready = [descriptor
                     for descriptor, _ in self._epoll.poll(POLL_S)]
            # the side that had the guest first: what it said is older
            ready.sort(key=lambda fd: self._sources[fd][0] != self.side)
            for descriptor in ready:
                self._read_one(descriptor)

    def _read_one(self, descriptor):
        side, kind = self._sources[descriptor]
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        if not data:  # QEMU is gone
            self._epoll.unregister(descriptor)
            del self._sources[descriptor]
            os.close(descriptor)
        elif kind == "beat":
            self._take_beats(side, data)
        else:
            self._take_serial(side, data)

    def _take_beats(self, side, data):
        now = time.monotonic()
        if self._last_byte is not None:
            expected = [(self._last_byte + 1 + i) % 256
                        for i in range(len(data))]
            if list(data) != expected:
                self.breaks.append(
                    f"beat {data[0]} on {side} after {self._last_byte} on "
                    f"{self.side} ({len(data)} bytes)")
            # several bytes: this thread was late, not the guest
            gap = now - self._last_at - (len(data) - 1) * BEAT_S
            if gap > 10 * BEAT_S or side != self.side:
                self.gaps.append(Gap(self._last_at, gap, self.side, side))
        self.side = side
        self._last_byte = data[-1]
        self._last_at = now
        self.beats[side] += len(data)

    def _take_serial(self, side, data):
        now = time.monotonic()
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            parsed = _parse(line)
            if parsed:
                self.reports.append(Report(side, now, *parsed))
            elif b"work" in line or b"sum=" in line:
                self.garbled.append(line.decode(errors="replace"))
            else:
                self.console.append(line.decode(errors="replace"))
