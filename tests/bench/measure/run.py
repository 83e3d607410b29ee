# SPDX-License-Identifier: BSD-3-Clause
"""One migration of a busy guest over one transport, and what it showed."""
import dataclasses
import os
import time

from lab import Lab, QmpError, Timeout, wait_for

from . import cpu, statistics
from .transports import TRANSPORTS

SCHEMA = 1
START_S = 30
# guest's reports before the start and after the end of a migration
SETTLE_S = 1.0
REPORT_MS = 200
# the headline's seconds after the guest has come to the destination
WINDOW_S = (1.0, 3.0)
# of those seconds the guest's reports must cover this much
COVERED_S = 1.0
# the working set's share of the memory, and what it leaves to the kernel
WORK_SHARE = 0.75
KERNEL_MIB = 128
# a migration that goes on moves this much in this time
STALL_S = 4
STALL_BYTES = 1 << 18
RETRIES = 8
MIB = 1 << 20
GB = 1e9


class Stalled(Exception):
    """A migration stood still from its start, by its carrier's fault."""


@dataclasses.dataclass
class Settings:
    """What is the same in all runs of one call."""
    qemu: str
    rate: str
    bits_per_second: int
    memory_mib: int
    postcopy_after_s: float
    fixed_rate: int
    write_percent: int
    congestion: str
    queue_ms: int
    pinned: bool

    def work(self, workload):
        mib = min(int(self.memory_mib * WORK_SHARE),
                  self.memory_mib - KERNEL_MIB)
        return {"mib": mib, "order": "random",
                "rate": {"flat": 0, "fixed": self.fixed_rate}[workload],
                "write": self.write_percent, "report": REPORT_MS}

    def deadline_s(self):
        """Four times the memory at the link's rate."""
        bits = self.bits_per_second or 1_000_000_000
        return 60 + 4 * self.memory_mib * MIB * 8 / bits


class Clock:
    """QEMU's events carry the time of day; all else is monotonic."""

    def __init__(self):
        self.offset = time.time() - time.monotonic()

    def event_at(self, qemu, name, **match):
        """When QEMU last announced that event."""
        for event in reversed(qemu.qmp.events):
            if event["event"] == name and match.items() <= event.get(
                    "data", {}).items():
                stamp = event["timestamp"]
                return (stamp["seconds"] + stamp["microseconds"] / 1e6
                        - self.offset)
        raise AssertionError(f"{qemu.side}: no event {name} {match or ''}")


class Run:
    """All of one run; run() returns its object."""

    def __init__(self, settings, network, transport, workload):
        self.settings = settings
        self.network = network
        self.name = transport
        self.workload = workload
        self.clock = Clock()
        self.before = self.after = None

    def run(self):
        """The object of this run; "failed" says why there is no result."""
        result = {"schema": SCHEMA, "transport": self.name,
                  "workload": self.workload, "started_at": time.time(),
                  "load_before": os.getloadavg()[0],
                  **dataclasses.asdict(self.settings), "failed": None,
                  "retries": -1}
        again = True
        while again:
            again = False
            result["retries"] += 1
            try:
                result.update(self._in_lab())
            except Stalled as error:
                again = result["retries"] < RETRIES
                result["failed"] = None if again else str(error)
        return result

    def _in_lab(self):
        version = self.settings.qemu
        kind, preempt = TRANSPORTS[self.name]
        with Lab(prefix="mp-bench-", versions=(version, version)) as lab:
            transport = kind(lab, self.network, preempt,
                             self.settings.postcopy_after_s)
            try:
                return self._measure(lab, transport)
            except Stalled:
                raise
            except (AssertionError, OSError, KeyError, ValueError,
                    QmpError) as error:
                return {"failed": f"{type(error).__name__}: {error}",
                        "story": lab.story()}
            finally:
                transport.close()

    def _measure(self, lab, transport):
        source, destination = self._pair(lab, transport)
        transport.prepare(source, destination)
        lab.guest.wait_ready("a", seconds=90)
        lab.guest.wait_beats("a")
        time.sleep(SETTLE_S)

        self.before = self._counters(source, destination, transport)
        started = time.monotonic()
        transport.start(source, destination)
        self._wait_active(source, transport)
        transport.switch(source)
        self._wait_completed(source, destination, transport)
        self.after = self._counters(source, destination, transport)
        transport.finish()
        wait_for("run state of the destination", destination.qmp.running, 10)
        time.sleep(SETTLE_S)
        values = self._values(lab, transport, source, destination, started)
        values["wrong"] = self._verify(lab, destination)
        return values

    def _pair(self, lab, transport):
        def start(host, **options):
            with host.entered():
                return lab.qemu(host.letter, disk=None,
                                memory_mib=self.settings.memory_mib,
                                work=self.settings.work(self.workload),
                                extra=transport.extra(host.letter), **options)
        return (start(self.network.a),
                start(self.network.b, incoming=True))

    def _wait_active(self, source, transport):
        """Until pages flow; a daemon that gives up before is noticed."""
        try:
            source.qmp.wait_event("MIGRATION", START_S, {"status": "active"})
        except AssertionError as error:
            raise AssertionError(
                f"{error}; {[c.log_tail() for c in transport.carriers]}"
            ) from error

    def _wait_completed(self, source, destination, transport):
        """QEMU 7.2 takes the first connection for its main one: where a
        carrier let that of preempt overtake it, nothing moves for ever once
        the sockets are full."""
        completed = ("MIGRATION", {"status": "completed"})
        deadline = time.monotonic() + self.settings.deadline_s()
        moved = self._wire_bytes()
        while True:
            try:
                destination.qmp.wait_event(completed[0], STALL_S,
                                           completed[1])
                break
            except Timeout as error:
                before, moved = moved, self._wire_bytes()
                begun = any(event["event"] == "RESUME"
                            for event in destination.qmp.events)
                if moved - before >= STALL_BYTES:
                    if time.monotonic() > deadline:
                        raise
                elif transport.may_reorder and not begun:
                    raise Stalled("nothing moves from the start") from error
                else:
                    raise AssertionError("nothing moves any more") from error
        source.qmp.wait_event(completed[0], STALL_S, completed[1])

    def _wire_bytes(self):
        return sum(host.sent_bytes() for host in self.network.hosts)

    def _counters(self, source, destination, transport):
        return {
            "wire_bytes": self._wire_bytes(),
            "proxy_s": sum(cpu.process_s(c.pid) for c in transport.carriers),
            "qemu_s": cpu.qemu_s(source) + cpu.qemu_s(destination),
        }

    def _spent(self, name):
        return self.after[name] - self.before[name]

    def _values(self, lab, transport, source, destination, started):
        at = self.clock.event_at
        for qemu in (source, destination):
            qemu.qmp.drain()
        stopped, resumed = at(source, "STOP"), at(destination, "RESUME")
        arrived = at(destination, "MIGRATION", status="completed")
        ended = max(arrived, at(source, "MIGRATION", status="completed"))
        postcopy_s = arrived - resumed
        wire = self._spent("wire_bytes")
        carriers = bool(transport.carriers)
        return {
            **self._guest_values(lab, resumed, arrived),
            **self._fault_values(transport, source, destination, postcopy_s),
            "postcopy_s": postcopy_s,
            "total_s": ended - started,
            "precopy_s": stopped - started,
            "blackout_ms": 1000 * (resumed - stopped),
            "worst_gap_ms": 1000 * lab.guest.worst_gap_s(started),
            "wire_bytes": wire,
            "proxy_cpu_s_per_gb": (self._spent("proxy_s") / (wire / GB)
                                   if carriers else None),
            "qemu_cpu_s_per_gb": self._spent("qemu_s") / (wire / GB),
            "qemu_version": source.qmp.version,
            "carrier": transport.says(),
        }

    @staticmethod
    def _fault_values(transport, source, destination, postcopy_s):
        shown = destination.qmp.migration()
        blocked_ms = sum(shown["postcopy-vcpu-blocktime"])
        requests = transport.requests(source)
        assert requests > 0, "no page was requested: this was no postcopy"
        return {
            "requests": requests,
            "requests_at_source": source.qmp.migration()["ram"][
                "postcopy-requests"],
            "blocked_ms": blocked_ms,
            "blocked_ms_per_s": blocked_ms / postcopy_s,
            "mean_fault_us": 1000 * blocked_ms / requests,
        }

    @staticmethod
    def _guest_values(lab, resumed, arrived):
        """What the guest's reports say. They come late when the guest has to
        wait for the page that makes them, so their time is that of the
        guest's own clock, set by the report that came soonest."""
        reports = [report for report in lab.guest.reports
                   if report.word == "second" and report.side == "b"]
        assert len(reports) >= 2, "too few reports of the guest"
        offset = min(report.at - report["uptime_ms"] / 1000
                     for report in reports)
        points = [(offset + report["uptime_ms"] / 1000, report)
                  for report in reports]
        # a report after the arrival tells of a guest that waits no more
        points = [(when, report) for when, report in points
                  if when <= arrived] or points[:1]
        buckets = statistics.add_buckets(
            [report["hist"] for _, report in points])
        visits = [(when, report["visits"]) for when, report in points]
        start, end = (resumed + second for second in WINDOW_S)
        return {
            # none of postcopy if that was over before
            "visits_per_s": (statistics.rate_within(visits, start, end,
                                                    COVERED_S)
                             if end <= arrived else None),
            "visits_postcopy_per_s": statistics.rate_within(
                visits, resumed, arrived, 0),
            "slow_p50_us": statistics.slow_quantile_us(buckets, 0.5),
            "slow_p99_us": statistics.slow_quantile_us(buckets, 0.99),
            "hist": buckets,
        }

    @staticmethod
    def _verify(lab, destination):
        final = lab.guest.finish(destination.side)
        lab.guest.assert_sound()
        assert final["wrong"] == 0, final
        return final["wrong"]
