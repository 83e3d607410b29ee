# SPDX-License-Identifier: BSD-3-Clause
"""The command line of scripts/bench."""
import argparse
import functools
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time

from lab import accelerator, build_dir, guest_files, source_dir
from lab.host import VERSIONS, qemu_program, qemu_unwanted

from . import tables
from .network import RATES, Network
from .run import Run, Settings
from .transports import BASE, TRANSPORTS, Migproxy, Needed

DESCRIPTION = """\
Measures postcopy migrations of a busy guest between two real QEMUs, over a
shaped link, by several transports: what does a guest suffer while its pages
are on their way?

Two network namespaces are two hosts, joined by a veth pair with a token
bucket at each end. For all transports but migproxy this program is the
operator of both QEMUs; migproxy's daemons are theirs. The rule is the same
for all: no bandwidth limit of QEMU's, return path on, postcopy a fixed time
after the source's QEMU became active. Proxies are started before the clock.
Runs go round robin over the transports. Needs root.
"""
RUN_S = 20  # of one run, about
KINDS = {"flat": ("flat",), "fixed": ("fixed",), "both": ("flat", "fixed")}


def say(text):
    print(f"bench: {text}", flush=True)


def refuse(text):
    print(f"bench: {text}", file=sys.stderr)
    raise SystemExit(2)


def number(low, high, kind=int):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"\"{text}\" is no number from {low} to {high}")
        return value
    return parse


def transport_list(text):
    names = text.split(",")
    for name in names:
        if name not in TRANSPORTS:
            raise argparse.ArgumentTypeError(
                f"no transport \"{name}\"; there are: "
                f"{', '.join(TRANSPORTS)}")
    return names


def parser():
    parse = argparse.ArgumentParser(
        prog="scripts/bench", description=DESCRIPTION,
        epilog=f"columns of the tables (medians):\n{tables.help_text()}",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parse.add_argument
    add("--qemu", choices=VERSIONS, default="7.2",
        help="both QEMUs (default 7.2)")
    add("--rate", choices=RATES, default="1gbit",
        help="of the link, 0 for unshaped (default 1gbit)")
    add("--queue-ms", type=number(1, 1000), default=20, metavar="MS",
        help="what the link's queue holds (default 20)")
    add("--congestion", default="cubic", metavar="NAME",
        help="TCP congestion control of the link (default cubic)")
    add("--transports", type=transport_list, default=list(TRANSPORTS),
        metavar="LIST", help="separated by commas, of: "
        f"{', '.join(TRANSPORTS)} (default all)")
    add("--workload", choices=KINDS, default="both",
        help="of the guest: random pages flat out, or at a fixed rate "
        "(default both)")
    add("--fixed-rate", type=number(1, 1000000), default=200, metavar="N",
        help="visits a second of the fixed-rate guest (default 200)")
    add("--write", type=number(0, 100), default=20, metavar="PERCENT",
        help="of the visits write (default 20)")
    add("--runs", type=number(1, 1000), default=3, metavar="N",
        help="of each transport and workload (default 3)")
    add("--base-runs", type=number(1, 1000), metavar="N",
        help=f"of {BASE}, where that should be more than --runs: what the "
        "others are compared with wants 5")
    add("--memory", type=number(192, 65536), default=768, metavar="MIB",
        help="of the guest; it works on three quarters, but leaves 128 "
        "(default 768: postcopy lasts over 3 s at 1 Gbit/s)")
    add("--postcopy-after", type=number(0, 3600, float), metavar="S",
        help="seconds of precopy (default 1 at up to 1 Gbit/s, else 0)")
    add("--pin", choices=("hosts", "none"), default="none",
        help="hosts: each host's programs on their own half of the CPUs; "
        "needs 2 CPUs (default none)")
    add("--json", metavar="FILE", help="append one object for each run, one "
        "a line")
    add("--note", metavar="TEXT", help="a sentence to stand under the tables")
    add("--from", metavar="FILE", action="append", dest="sources",
        help="measure nothing: tables of the runs in FILE, as --json wrote "
        "it; may be repeated")
    add("--markdown", action="store_true", help="tables in Markdown")
    add("--into", metavar="FILE", help="put the tables, in Markdown, into "
        f"FILE between the lines {tables.BEGIN} and {tables.END}")
    return parse


# what a run needs

def check_host(options):
    """Refuses what cannot work, with what to do about it."""
    if os.geteuid():
        refuse("only root can make network namespaces: run it as root")
    needed = [Needed("ip", "iproute2"), Needed("tc", "iproute2"),
              Needed("gcc", "gcc"), Needed("cpio", "cpio")]
    if qemu_unwanted(options.qemu):
        refuse(f"no QEMU {options.qemu}: MIGPROXY_QEMU10=none says so")
    if options.qemu == "7.2":
        needed.append(Needed(qemu_program("7.2"), "qemu-system-x86"))
    for name in options.transports:
        needed += TRANSPORTS[name][0].needs
    missing = [item for item in needed if not shutil.which(item.program)]
    if missing:
        packages = sorted({item.package for item in missing})
        refuse(f"missing: {', '.join(sorted({i.program for i in missing}))}; "
               f"apt-get install {' '.join(packages)}")
    uses_migproxy = any(TRANSPORTS[name][0] is Migproxy
                        for name in options.transports)
    if uses_migproxy and not (build_dir() / "migproxy").exists():
        refuse(f"migproxy is not built in {build_dir()}: build it, or say "
               "where it is with MIGPROXY_BUILD=DIR")
    if options.pin == "hosts" and len(os.sched_getaffinity(0)) < 2:
        refuse("--pin hosts needs 2 CPUs: leave it out")
    known = pathlib.Path("/proc/sys/net/ipv4/"
                         "tcp_available_congestion_control").read_text()
    if options.congestion not in known.split():
        refuse(f"--congestion {options.congestion}: this kernel has "
               f"{known.strip()}")


@functools.lru_cache(maxsize=None)
def commit():
    if not shutil.which("git"):
        return "of unknown commit"
    done = subprocess.run(["git", "-C", source_dir(), "describe", "--always",
                           "--dirty"], text=True, capture_output=True)
    return done.stdout.strip() or "of unknown commit"


@functools.lru_cache(maxsize=None)
def machine():
    """What the numbers depend on besides the settings."""
    cpu = next((line.split(":", 1)[1].strip()
                for line in open("/proc/cpuinfo", encoding="utf-8")
                if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cpus": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "accelerator": accelerator(),
            "commit": commit()}


def settings_of(options):
    bits, _ = RATES[options.rate]
    after_s = options.postcopy_after
    if after_s is None:
        after_s = 1.0 if 0 < bits <= 1_000_000_000 else 0.0
    return Settings(
        qemu=options.qemu, rate=options.rate, bits_per_second=bits,
        memory_mib=options.memory, postcopy_after_s=after_s,
        fixed_rate=options.fixed_rate, write_percent=options.write,
        congestion=options.congestion, queue_ms=options.queue_ms,
        pinned=options.pin == "hosts")


# measuring

def plan(options):
    """(workload, transport) of every run. Each round begins with another
    transport, so that none is always the first. Further runs of the base are
    spread over the rounds."""
    further = 0
    if BASE in options.transports and options.base_runs:
        further = max(0, options.base_runs - options.runs)
    for turn in range(options.runs):
        at = turn % len(options.transports)
        names = options.transports[at:] + options.transports[:at]
        for _ in range(further * turn // options.runs,
                       further * (turn + 1) // options.runs):
            # half a round away from the other one
            half = names.index(BASE) + len(names) // 2
            names.insert(half % len(names), BASE)
        for workload in KINDS[options.workload]:
            for name in names:
                yield workload, name


def short(result):
    """One run in one line."""
    if result["failed"]:
        return f"FAILED: {result['failed'][:300]}"
    headline = {"flat": ("visits/s", "visits_per_s"),
                "fixed": ("ms/s blocked", "blocked_ms_per_s")}
    unit, key = headline[result["workload"]]
    value = result[key]
    return (f"{'no' if value is None else f'{value:.0f}'} {unit}, fault "
            f"{result['mean_fault_us'] / 1000:.2f} ms, total "
            f"{result['total_s']:.2f} s, {result['wrong']} pages wrong")


def measure(options, keep):
    """keep(result) is called after each run."""
    settings = settings_of(options)
    qemu_program(options.qemu)
    guest_files()
    runs = list(plan(options))
    say(f"{len(runs)} runs of about {RUN_S} s each: about "
        f"{len(runs) * RUN_S / 60:.0f} min")
    with Network(options.rate, options.queue_ms, options.congestion,
                 settings.pinned) as network:
        for i, (workload, name) in enumerate(runs, 1):
            started = time.monotonic()
            result = {**Run(settings, network, name, workload).run(),
                      **machine(), "note": options.note}
            keep(result)
            say(f"{i}/{len(runs)} {workload} {name}: {short(result)} "
                f"({time.monotonic() - started:.0f} s)")


def read_runs(paths):
    runs = []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            runs += [json.loads(line) for line in lines]
    return runs


def show(options, runs):
    if options.into:
        path = pathlib.Path(options.into)
        path.write_text(tables.put_into(path.read_text(),
                                        tables.as_markdown(runs)))
        say(f"tables of {len(runs)} runs put into {path}")
    elif options.markdown:
        print(tables.as_markdown(runs))
    else:
        print(f"\n{tables.as_text(runs)}")


def interrupt(*_):
    """Once; what follows does not disturb the tidying up."""
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(arguments=None):
    options = parser().parse_args(arguments)
    if options.sources:
        show(options, read_runs(options.sources))
        return 0
    check_host(options)
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, interrupt)
    runs = []

    def keep(result):
        runs.append(result)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")

    try:
        measure(options, keep)
    except KeyboardInterrupt:
        say("interrupted; namespaces, processes and files are removed")
        return 130
    show(options, runs)
    return 1 if any(run["failed"] for run in runs) else 0
