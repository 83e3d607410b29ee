# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration: scripts/demo builds, this runs it and reports."""
import signal
import subprocess
import sys

from lab import Lab, accelerator

MEMORY_MIB = 512
WORK = {"mib": 256, "order": "random", "rate": 20000, "write": 20, "disk": 20}
MIGRATE_S = 120
# reports of the guest shown before and after a migration
WATCH_REPORTS = 2
MIB = 1 << 20


def say(text=""):
    print(f"demo: {text}".rstrip(), flush=True)


class Move:
    """One migration and what was seen of it."""

    def __init__(self, mode, source, destination):
        self.mode = mode
        self.source = source
        self.destination = destination
        self.record = {}     # what migproxy says of it
        self.blackout_ms = 0  # QEMU's STOP to QEMU's RESUME, both clocks ours
        self.gap_ms = 0      # the guest's longest standstill
        self.visits_per_s = 0


def event_ms(qemu, name):
    """When QEMU last announced that event, ms since the epoch."""
    qemu.qmp.drain()
    for event in reversed(qemu.qmp.events):
        if event["event"] == name:
            stamp = event["timestamp"]
            return stamp["seconds"] * 1000 + stamp["microseconds"] / 1000
    raise AssertionError(f"{qemu.side}: QEMU did not announce {name}")


def newest_record(daemon):
    """What the daemon says of the last guest it sent."""
    sent = [record for record
            in daemon.api("GET", "/v1/migrations")[1]["migrations"]
            if record["role"] == "source"]
    return max(sent, key=lambda record: record["started_at"])


def watch(lab, side):
    """Shows the guest's own reports for a while; returns the last."""
    for _ in range(WATCH_REPORTS):
        report = lab.guest.wait_report(side=side, since=len(lab.guest.reports))
        say(f"guest on {side}: {report['visits_per_s']} visits/s, "
            f"{report['wrong']} pages wrong, worst delay of a visit "
            f"{report['gap_us'] / 1000:.1f} ms, "
            f"{report['disk_seq']} blocks written")
    return report


def migrate(lab, move, daemon, peer, *options):
    """migproxyctl in front of the user; then what the lab saw is added."""
    argv = daemon.ctl_argv(*daemon.migrate_args(
        move.source, move.destination, peer, "--mode", move.mode, *options))
    say()
    say(f"migproxyctl {' '.join(argv[1:])}")
    gaps_before = len(lab.guest.gaps)
    status = subprocess.run(argv, stdin=subprocess.DEVNULL,
                            timeout=MIGRATE_S).returncode
    if status:
        raise AssertionError(f"migproxyctl ended with status {status}")
    lab.guest.assert_only_on(move.destination, idle=[move.source])
    move.record = newest_record(daemon)
    move.blackout_ms = (event_ms(move.destination, "RESUME")
                        - event_ms(move.source, "STOP"))
    move.visits_per_s = watch(lab, move.destination.side)["visits_per_s"]
    move.gap_ms = 1000 * max(gap.seconds
                             for gap in lab.guest.gaps[gaps_before:])


def report(lab, moves, final):
    rows = [
        ("total time", lambda m: f"{m.record['elapsed_ms'] / 1000:.2f} s"),
        ("blackout, STOP to RESUME",
         lambda m: f"{m.record['downtime']['blackout_us'] / 1000:.1f} ms"),
        ("the same, by QEMU's events", lambda m: f"{m.blackout_ms:.1f} ms"),
        ("bytes on the wire",
         lambda m: f"{m.record['totals']['wire_sent_bytes'] / MIB:.1f} MiB"),
        ("page requests",
         lambda m: str(m.record["totals"]["page_requests"])),
        ("guest's worst gap", lambda m: f"{m.gap_ms:.1f} ms"),
        ("guest's visits/s afterwards", lambda m: str(m.visits_per_s)),
    ]
    say()
    say(f"{'':28}" + "".join(
        f"{f'{m.mode} {m.source.side[0]} to {m.destination.side[0]}':>22}"
        for m in moves))
    for name, cell in rows:
        say(f"{name:28}" + "".join(f"{cell(move):>22}" for move in moves))
    say()
    say("worst gap: the longest time between two beats of the guest while it "
        "moved, as seen from outside")
    say(f"the guest verified every word of its {final['pages']} pages: "
        f"{final['wrong']} pages wrong")
    say(f"its disk, checked from the host: intact, {final['disk_seq']} blocks "
        "in unbroken sequence")
    say(f"by its {sum(lab.guest.beats.values())} beats it ran in one place at "
        "any time")


def run(lab):
    say(f"guests run under {accelerator().upper()}; all files in "
        f"{lab.directory}")
    if accelerator() == "tcg":
        say("TCG: QEMU emulates the CPU, because there is no KVM here, it runs "
            "no Linux guest, or MIGPROXY_ACCEL=tcg was set; guests are much "
            "slower than on KVM")
    daemon_a, daemon_b = lab.daemons_pair("A", "B")
    say(f"migproxy A on 127.0.0.1:{daemon_a.port}, "
        f"B on 127.0.0.1:{daemon_b.port}, mutual TLS")
    options = {"memory_mib": MEMORY_MIB, "work": WORK}
    on_a = lab.qemu("A", **options)
    on_b = lab.qemu("B", incoming=True, **options)
    lab.guest.wait_ready("A")
    say(f"a Linux guest of {MEMORY_MIB} MiB is at work on A: {WORK['mib']} MiB "
        f"of stamped pages, {WORK['write']} % of visits write")
    watch(lab, "A")
    there = Move("precopy", on_a, on_b)
    migrate(lab, there, daemon_a, "B")

    # what a manager of virtual machines does: the old QEMU goes, a new one
    # waits for the way back
    on_a.kill()
    on_a_again = lab.qemu("A2", incoming=True, **options)
    back = Move("postcopy", on_b, on_a_again)
    # at once, or the guest has moved before there is anything to request
    migrate(lab, back, daemon_b, "A", "--postcopy-after", "0")
    if not back.record["totals"]["page_requests"]:
        raise AssertionError("no page was requested: this was no postcopy")

    on_b.kill()
    final = lab.finish(on_a_again)
    report(lab, [there, back], final)


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        with Lab(prefix="mp-demo-") as lab:
            try:
                run(lab)
            except (AssertionError, OSError, KeyError) as error:
                say(f"FAILED: {type(error).__name__}: {error}")
                say(lab.story())
                return 1
    except KeyboardInterrupt:
        say("interrupted; all processes and files are removed")
        return 130
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
