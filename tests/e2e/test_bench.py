# SPDX-License-Identifier: BSD-3-Clause
"""scripts/bench: its arithmetic, its tables, and one short measurement."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from lab import source_dir, stretch

sys.path.insert(0, str(source_dir() / "tests/bench"))

from measure import main, statistics, tables, transports  # noqa: E402

pytestmark = [pytest.mark.bench, pytest.mark.alone]
BENCH = source_dir() / "scripts/bench"
# what other programs may rely on in an object of --json
SCHEMA = {
    "schema": int, "transport": str, "workload": str, "started_at": float,
    "load_before": float, "qemu": str, "rate": str, "memory_mib": int,
    "postcopy_after_s": float, "fixed_rate": int, "write_percent": int,
    "congestion": str, "queue_ms": int, "pinned": bool, "retries": int,
    "cpu": str, "cpus": int, "kernel": str, "accelerator": str, "commit": str,
    "requests": int, "requests_at_source": int, "blocked_ms": int,
    "blocked_ms_per_s": float, "mean_fault_us": float, "hist": list,
    "postcopy_s": float, "precopy_s": float, "total_s": float,
    "blackout_ms": float, "worst_gap_ms": float, "wire_bytes": int,
    "qemu_cpu_s_per_gb": float, "wrong": int, "carrier": dict,
}


# arithmetic

def test_quantiles():
    assert statistics.median([]) is None
    assert statistics.median([None, None]) is None
    assert statistics.median([7]) == 7
    assert statistics.median([9, 1, None, 4]) == 4
    assert statistics.median([4, 1, 3, 2]) == 2.5
    assert statistics.quantile([10, 20, 30, 40, 50], 0) == 10
    assert statistics.quantile([10, 20, 30, 40, 50], 0.9) == 46
    assert statistics.quantile([10, 20, 30, 40, 50], 1) == 50


def test_best_quartile_is_the_good_end():
    runs = [10, 20, 30, 40, 50]
    assert statistics.best_quartile(runs, more_is_better=True) == 40
    assert statistics.best_quartile(runs, more_is_better=False) == 20
    assert statistics.best_quartile([5], more_is_better=True) == 5
    assert statistics.best_quartile([], more_is_better=True) is None


def test_times_better():
    assert statistics.times_better(30, 10, more_is_better=True) == 3
    assert statistics.times_better(30, 10, more_is_better=False) == 10 / 30
    assert statistics.times_better(5, 10, more_is_better=False) == 2
    assert statistics.times_better(None, 10, True) is None
    assert statistics.times_better(10, None, False) is None
    assert statistics.times_better(10, 0, more_is_better=True) is None
    assert statistics.times_better(0, 10, more_is_better=False) is None


def test_slow_quantiles():
    buckets = [0] * 24
    buckets[3] = 1000  # below 8 us: not slow
    assert statistics.slow_quantile_us(buckets, 0.5) is None
    buckets[10] = 100  # 512 to 1024 us
    assert statistics.slow_quantile_us(buckets, 1) == 1024
    assert 512 < statistics.slow_quantile_us(buckets, 0.01) < 530
    buckets[14] = 100  # 8192 to 16384 us
    assert statistics.slow_quantile_us(buckets, 0.5) == 1024
    assert 8192 < statistics.slow_quantile_us(buckets, 0.75) < 16384
    assert statistics.add_buckets([[1, 2], [3, 4]]) == [4, 6]


def test_rates_are_of_what_is_covered():
    points = [(1, 0), (2, 100), (4, 500)]
    assert statistics.level_at(points, 3) == 300
    assert statistics.level_at(points, 0.5) is None
    assert statistics.rate_within(points, 2, 4, 1) == 200
    assert statistics.rate_within(points, 0, 2, 0) == 100
    assert statistics.rate_within(points, 3, 9, 1) is None
    assert statistics.rate_within([], 0, 1, 0) is None


# tables

def make_run(transport, visits_per_s, **more):
    return {"transport": transport, "workload": "flat", "failed": None,
            "retries": 0, "load_before": 0.5, "commit": "abc", "qemu": "7.2",
            "accelerator": "tcg", "rate": "1gbit", "memory_mib": 768,
            "postcopy_after_s": 1.0, "fixed_rate": 200, "write_percent": 20,
            "congestion": "cubic", "queue_ms": 20, "pinned": True, "cpu": "x",
            "cpus": 2, "kernel": "6", "visits_per_s": visits_per_s, **more}


def test_table_of_medians():
    runs = [make_run("migproxy", 300), make_run("direct+preempt", 100),
            make_run("migproxy", 500), make_run("direct+preempt", 200),
            make_run("migproxy", None, failed="1 page wrong"),
            make_run("migproxy", 400, workload="fixed")]
    (settings, flat), (_, fixed) = tables.groups(runs)
    assert len(flat) == 5 and len(fixed) == 1
    head, direct, migproxy = tables.rows(settings, flat)
    assert head[:4] == ["transport", "runs", "visits/s", "x"]
    # 175 is the best quartile of 100 and 200
    assert direct[:4] == ["direct+preempt", "2", "150", "0.86"]
    assert migproxy[:4] == ["migproxy", "2, 1 failed", "400", "2.29"]
    assert "2 runs, fewer than the 5" in tables.notes(settings, flat)[0]
    assert any("1 page wrong" in note for note in tables.notes(settings, flat))
    five = flat + [make_run("direct+preempt", 150)] * 3
    assert tables.notes(settings, five)[0].endswith("of 5 runs.")
    assert "not measured" in tables.notes(settings, fixed)[0]


def test_tables_are_put_into_a_document(tmp_path):
    runs = tmp_path / "runs.json"
    runs.write_text(json.dumps(make_run("direct+preempt", 100)) + "\n")
    document = tmp_path / "page.md"
    document.write_text(f"top\n{tables.BEGIN}\nold\n{tables.END}\nend\n")
    for _ in range(2):
        main.main(["--from", str(runs), "--into", str(document)])
    text = document.read_text()
    assert text.startswith("top\n") and text.endswith("\nend\n")
    assert "old" not in text and text.count("| direct+preempt | 1 |") == 1
    with pytest.raises(ValueError, match="must stand there once"):
        tables.put_into("no marks", "x")


def test_performance_page_has_its_marks():
    page = source_dir() / "docs/performance.md"
    tables.put_into(page.read_text(), "x")


# the command line

def test_every_transport_takes_its_turn_at_being_first():
    options = main.parser().parse_args(
        ["--transports", "direct,socat", "--runs", "2", "--workload", "flat"])
    assert list(main.plan(options)) == [
        ("flat", "direct"), ("flat", "socat"),
        ("flat", "socat"), ("flat", "direct")]


def test_further_runs_of_the_base_are_spread():
    options = main.parser().parse_args(
        ["--transports", "direct,direct+preempt,migproxy", "--runs", "3",
         "--base-runs", "5", "--workload", "fixed"])
    names = [name for _, name in main.plan(options)]
    assert len(names) == 11 and names.count("direct+preempt") == 5
    assert names.count("direct") == names.count("migproxy") == 3
    # no two of the further ones in one round
    assert names[:3].count("direct+preempt") == 1


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as error:
        main.main(list(arguments))
    assert error.value.code == 2
    return capsys.readouterr().err


def test_refusals_say_why(capsys, monkeypatch):
    assert 'no transport "pigeon"' in refused(capsys, "--transports", "pigeon")
    assert '"0" is no number from 1' in refused(capsys, "--runs", "0")
    assert "from 192 to" in refused(capsys, "--memory", "64")
    monkeypatch.setattr(main.os, "geteuid", lambda: 1000)
    assert "only root" in refused(capsys)
    monkeypatch.setattr(main.os, "geteuid", lambda: 0)
    monkeypatch.setattr(main.shutil, "which",
                        lambda name: None if name == "stunnel" else name)
    assert "apt-get install stunnel4" in refused(capsys)


def test_help_explains_every_column():
    text = main.parser().format_help()
    for column in tables.COLUMNS:
        assert f"\n  {column.title}: " in text
    for name in transports.TRANSPORTS:
        assert name in text.replace("-\n" + " " * 24, "-")


# measuring

def left_behind():
    """Namespaces and directories of benchmarks."""
    namespaces = pathlib.Path("/run/netns")
    found = list(namespaces.glob("mpbench-*")) if namespaces.exists() else []
    return found + list(pathlib.Path(os.environ.get("TMPDIR", "/tmp")).glob(
        "mp-bench-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_measurement(tmp_path):
    """A small guest, over an unshaped link, directly and by migproxy."""
    out = tmp_path / "runs.json"
    before = left_behind()
    done = subprocess.run(
        [BENCH, "--rate", "0", "--runs", "1", "--memory", "256",
         "--workload", "flat", "--transports", "direct,migproxy+preempt",
         "--json", out], text=True, capture_output=True,
        timeout=stretch(110))
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    assert [run["transport"] for run in runs] == ["direct",
                                                  "migproxy+preempt"]
    for run in runs:
        assert run["failed"] is None and run["wrong"] == 0
        for key, kind in SCHEMA.items():
            assert isinstance(run[key], kind), key
        assert run["requests"] > 0 and run["postcopy_s"] > 0
        assert run["wire_bytes"] > run["memory_mib"] << 18
    assert runs[0]["proxy_cpu_s_per_gb"] is None
    assert runs[1]["proxy_cpu_s_per_gb"] > 0
    assert runs[1]["carrier"]["totals"]["page_requests"] > 0
    assert "migproxy+preempt" in done.stdout
    assert left_behind() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_interrupted(tmp_path):
    """Nothing stays behind when it is ended in the middle."""
    before = left_behind()
    with subprocess.Popen(
            [BENCH, "--rate", "0", "--runs", "1", "--transports", "direct"],
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)}) as bench:
        assert "runs of about" in bench.stdout.readline()
        while not list(tmp_path.glob("mp-bench-*/qemu-b/qmp-lab.sock")):
            assert bench.poll() is None
            try:
                bench.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
        bench.terminate()
        assert "interrupted" in bench.stdout.read()
        assert bench.wait(stretch(20)) == 130
    assert not list(tmp_path.iterdir())
    assert left_behind() == before
