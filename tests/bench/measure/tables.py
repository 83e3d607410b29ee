# SPDX-License-Identifier: BSD-3-Clause
"""The tables: what their columns mean, and medians of runs in them."""
import dataclasses
import textwrap

from . import statistics
from .transports import BASE, TRANSPORTS

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
NONE = "–"
# runs that differ in one of these are not put into one table
SETTINGS = ("qemu", "accelerator", "rate", "workload", "memory_mib",
            "postcopy_after_s", "fixed_rate", "write_percent", "congestion",
            "queue_ms", "pinned", "cpu", "cpus", "kernel")
WORKLOADS = {
    "flat": "flat-out guest: one vCPU visits random pages as fast as it can",
    "fixed": "fixed-rate guest: one vCPU visits {fixed_rate} random pages a "
             "second",
}


@dataclasses.dataclass
class Column:
    title: str
    key: str
    help: str
    scale: float = 1
    digits: int = 0
    # whether it is followed by how many times better than the base it is
    compared: bool = False
    more_is_better: bool = False
    workloads: tuple = ("flat", "fixed")

    def text(self, runs):
        value = statistics.median([run.get(self.key) for run in runs])
        if value is None:
            return NONE
        return f"{value * self.scale:.{self.digits}f}"

    def base(self, runs):
        return statistics.best_quartile([run.get(self.key) for run in runs],
                                        self.more_is_better)

    def times(self, runs, base_runs):
        times = statistics.times_better(
            statistics.median([run.get(self.key) for run in runs]),
            self.base(base_runs), self.more_is_better)
        return NONE if times is None else f"{times:.2f}"


COLUMNS = [
    Column("visits/s", "visits_per_s", compared=True, more_is_better=True,
           workloads=("flat",), help="""\
        The headline of a flat-out guest: pages it visited per second, in
        seconds 2 and 3 after it came to the destination (by the guest's own
        clock). Not known if postcopy was over by then, or if the guest's
        reports cover less than one of the two seconds."""),
    Column("blocked ms/s", "blocked_ms_per_s", compared=True,
           workloads=("fixed",), help="""\
        The headline of a fixed-rate guest: milliseconds in each second of
        postcopy in which its vCPU waited for pages, by the destination
        QEMU's postcopy-vcpu-blocktime."""),
    Column("fault ms", "mean_fault_us", scale=1e-3, digits=2, compared=True,
           help="""\
        Mean page fault: the vCPU's blocktime by the number of page requests.
        Requests are counted where they arrive: by the source's QEMU
        (postcopy-requests), for migproxy by the daemon (page_requests).
        QEMU asks once for a page. A QEMU's blocktime has a resolution of
        1 ms, which averages out."""),
    Column("slow p50 ms", "slow_p50_us", scale=1e-3, digits=2, help="""\
        Half of the slow visits (64 us and more) in postcopy took at most
        this, by the guest's histogram, whose buckets are powers of two:
        interpolated. TCG itself makes slow visits; where pages come slowly
        these are most of them, so a small number here with a big one under
        "fault ms" means that few pages came."""),
    Column("slow p99 ms", "slow_p99_us", scale=1e-3, digits=2, help="""\
        The same for 99 of 100."""),
    Column("blackout ms", "blackout_ms", help="""\
        From the source QEMU's STOP to the destination QEMU's RESUME, by the
        times of these events."""),
    Column("worst gap ms", "worst_gap_ms", help="""\
        The longest time between two beats of the guest (each 1 ms), by the
        host's clock, from the start to the end: blackout, faults and QEMU's
        own work under its lock at the start."""),
    Column("postcopy s", "postcopy_s", digits=2, help="""\
        From RESUME to the arrival of the last page."""),
    Column("total s", "total_s", digits=2, compared=True, help="""\
        From the command (migrate, or the request to the daemon) to the later
        of the two QEMUs' MIGRATION completed. For migproxy this includes its
        checks and connections."""),
    Column("wire MB", "wire_bytes", scale=1e-6, help="""\
        What crossed the link in both directions, headers included, by the
        counters of the veth pair. 1 MB is 1000000 bytes."""),
    Column("proxies s/GB", "proxy_cpu_s_per_gb", digits=2, help="""\
        User and system CPU seconds of what stands between the QEMUs, both
        ends, per GB on the wire. Not there for direct and QEMU's own TLS."""),
    Column("QEMUs s/GB", "qemu_cpu_s_per_gb", digits=2, help="""\
        The same of both QEMUs, without their vCPUs."""),
    Column("requests", "requests", help="""\
        Page requests in postcopy."""),
    Column("source saw", "requests_at_source", help="""\
        Those that the source's QEMU counted; differs where a proxy has the
        answer itself."""),
]
HEAD = [
    ("transport", "The way from QEMU to QEMU: --transports."),
    ("runs", "Runs that the medians are of; then those that failed. A run in "
             "which the guest finds one wrong page has failed."),
    ("x", "Follows a compared column: how many times better the median is "
          f"than the best quartile of {BASE}; below 1 it is worse."),
]


def help_text():
    """What --help says of the columns."""
    parts = [(title, text) for title, text in HEAD]
    parts += [(column.title, column.help) for column in COLUMNS]
    return "\n".join(
        textwrap.fill(f"{title}: {' '.join(text.split())}", 78,
                      initial_indent="  ", subsequent_indent="      ")
        for title, text in parts)


def groups(runs):
    """Runs that belong into one table each: (settings, runs)."""
    found = {}
    for run in runs:
        found.setdefault(tuple(run[key] for key in SETTINGS), []).append(run)
    return [(dict(zip(SETTINGS, key)), runs) for key, runs in found.items()]


def title(settings):
    link = ("unshaped link" if settings["rate"] == "0" else
            f"{settings['rate']} link, queue of {settings['queue_ms']} ms")
    work = WORKLOADS[settings["workload"]].format(**settings)
    return f"QEMU {settings['qemu']}, {link}, {work}"


def _row_names(runs):
    """In the order of TRANSPORTS, whichever ran first."""
    return [name for name in TRANSPORTS
            if any(run["transport"] == name for run in runs)]


def rows(settings, runs):
    """The table as lists of text, its head first."""
    columns = [column for column in COLUMNS
               if settings["workload"] in column.workloads]
    head = ["transport", "runs"]
    for column in columns:
        head += [column.title] + ["x"] * column.compared
    table = [head]
    done = {name: [run for run in runs if run["transport"] == name
                   and not run["failed"]] for name in _row_names(runs)}
    for name, mine in done.items():
        failed = sum(run["transport"] == name for run in runs) - len(mine)
        row = [name, f"{len(mine)}" + (f", {failed} failed" if failed else "")]
        for column in columns:
            row.append(column.text(mine))
            if column.compared:
                row.append(column.times(mine, done.get(BASE, [])))
        table.append(row)
    return table


def notes(settings, runs):
    """What has to be known of this table, as sentences."""
    base = [run for run in runs
            if run["transport"] == BASE and not run["failed"]]
    parts = []
    if base:
        few = ("" if len(base) >= statistics.QUARTILE_RUNS else
               f", fewer than the {statistics.QUARTILE_RUNS} that it should "
               "be of")
        parts.append(f"x: times better than the best quartile of {BASE}, of "
                     f"{len(base)} run{'s' * (len(base) != 1)}{few}.")
    else:
        parts.append(f"No x: {BASE} was not measured.")
    loads = [run["load_before"] for run in runs]
    commits = sorted({run["commit"] for run in runs})
    parts.append(
        f"{settings['memory_mib']} MiB guest under "
        f"{settings['accelerator'].upper()}, {settings['write_percent']} % of "
        f"visits write, postcopy after {settings['postcopy_after_s']:g} s; "
        f"TCP {settings['congestion']}; "
        + ("each host's programs on their own half of the CPUs"
           if settings["pinned"] else "no CPU affinity")
        + f"; {settings['cpus']} CPUs, {settings['cpu']}, Linux "
        f"{settings['kernel']}; load average before the runs "
        f"{min(loads):.1f} to {max(loads):.1f}; migproxy "
        f"{', '.join(commits)}.")
    again = sum(run["retries"] for run in runs)
    if again:
        parts.append(
            f"{again} migration{'s' * (again != 1)} stood still from the "
            "start because a tunnel let QEMU's preempt connection overtake "
            "its main one, and had to be begun again with new QEMUs (not "
            "counted as failed, nor in any time).")
    parts += sorted({run["note"] for run in runs if run.get("note")})
    parts += sorted({f"Failed: {run['transport']}: {run['failed'][:200]}"
                     for run in runs if run["failed"]})
    return parts


def _aligned(table):
    widths = [max(len(row[i]) for row in table)
              for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths)))
            for row in table]


def as_text(runs):
    parts = []
    for settings, mine in groups(runs):
        parts += [title(settings), "", *_aligned(rows(settings, mine)), ""]
        parts += [textwrap.fill(note, 100) for note in notes(settings, mine)]
        parts.append("")
    return "\n".join(parts)


def as_markdown(runs):
    parts = []
    for settings, mine in groups(runs):
        head, *body = rows(settings, mine)
        parts += [f"### {title(settings)}", ""]
        parts += [f"| {' | '.join(row)} |"
                  for row in (head, ["---"] + ["--:"] * (len(head) - 1),
                              *body)]
        parts += ["", *notes(settings, mine), ""]
    return "\n".join(parts)


def put_into(text, tables):
    """A document with the tables between its two marks."""
    for mark in (BEGIN, END):
        if text.count(mark) != 1:
            raise ValueError(f"the line {mark} must stand there once")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"
