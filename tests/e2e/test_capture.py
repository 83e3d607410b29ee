# SPDX-License-Identifier: BSD-3-Clause
"""The parser of QEMU's stream and the page pool on what real QEMUs say.

Each migration goes from QEMU to QEMU through a recorder; stream-replay takes
the recording apart, puts its pages into other orders, and compares.
"""
import subprocess

import pytest

from lab import QmpError, host, wait_for
from lab.recorder import Recorder
from test_lab_direct import BANDWIDTH, MIGRATE_S, wait_completed

REPLAY_S = 120
SLOW = 24 << 20
# a pool that holds next to nothing, one that is often full, one for all
CEILINGS_MIB = (1, 8, 256)


@pytest.fixture
def record(lab):
    """record(destination, NAME): a Recorder in front of that QEMU."""
    made = []

    def make(destination, name):
        made.append(Recorder(lab.directory / name, destination.migrate_path))
        return made[-1]
    yield make
    for recorder in made:
        recorder.close()


def start(source, destination, recorder, bandwidth=BANDWIDTH, multifd=0,
          **capabilities):
    for qemu in (source, destination):
        qemu.qmp.set_capabilities(events=True, return_path=True,
                                  multifd=multifd > 0, **capabilities)
        qemu.qmp.command("migrate-set-parameters", max_bandwidth=bandwidth,
                         **({"multifd-channels": multifd} if multifd else {}))
    destination.qmp.command("migrate-incoming",
                            uri=f"unix:{destination.migrate_path}")
    source.qmp.command("migrate", uri=f"unix:{recorder.path}")


def replay(recorder, expect, preempt=False, ceiling=64, seed=1):
    argv = [host.build_dir() / "tests/unit/stream-replay",
            "--expect", expect, "--return", recorder.file(0, "back"),
            "--ceiling", ceiling, "--seed", seed,
            *(["--preempt", recorder.file(1, "forward")] if preempt else []),
            recorder.file(0, "forward")]
    done = subprocess.run([str(arg) for arg in argv], capture_output=True,
                          text=True, timeout=REPLAY_S, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("preempt", [False, True], ids=["plain", "preempt"])
def test_postcopy(lab, record, preempt):
    """Every page of a recorded postcopy leaves once, whatever is asked for."""
    source, destination = lab.pair(work={"rate": 0, "mib": 64},
                                   memory_mib=192)
    recorder = record(destination, "record")
    start(source, destination, recorder, postcopy_ram=True,
          postcopy_preempt=preempt)
    source.qmp.wait_event("MIGRATION", MIGRATE_S, {"status": "active"})
    source.qmp.command("migrate-start-postcopy")
    wait_completed(source, destination)
    lab.finish(destination)
    recorder.close()

    assert recorder.count() == 1 + preempt
    for number, ceiling in enumerate(CEILINGS_MIB):
        said = replay(recorder, "pages", preempt, ceiling, 1 + number)
        assert " 0 requests recorded" not in said
        assert " 0 ahead" not in said


@pytest.mark.versions("10.0", long=["7.2"])
@pytest.mark.parametrize("multifd", [0, 2], ids=["precopy", "multifd"])
def test_precopy(lab, record, multifd):
    """What is no postcopy passes as it is, to its last byte."""
    source, destination = lab.pair(work={"mib": 64}, memory_mib=192)
    recorder = record(destination, "record")
    # 10.0 refuses the two together; postcopy-ram alone may stay unused
    start(source, destination, recorder, multifd=multifd,
          postcopy_ram=not multifd)
    wait_completed(source, destination)
    lab.finish(destination)
    recorder.close()

    assert recorder.count() == 1 + multifd
    assert recorder.file(0, "forward").stat().st_size > 0
    replay(recorder, "passes")


@pytest.mark.versions("7.2", long=["10.0"])
def test_recovery(lab, record):
    """A broken postcopy's recording ends anywhere; what recovers it is another
    kind of stream, which is told from a migration's beginning."""
    source, destination = lab.pair(work={"rate": 200, "mib": 64},
                                   memory_mib=192)
    first = record(destination, "first")
    start(source, destination, first, bandwidth=SLOW, postcopy_ram=True)
    source.qmp.wait_event("MIGRATION", MIGRATE_S, {"status": "active"})
    # few pages at a time, or it would be over before it is cut
    source.qmp.command("migrate-set-parameters",
                       **{"max-postcopy-bandwidth": SLOW,
                          "downtime-limit": 1})
    source.qmp.command("migrate-start-postcopy")
    wait_for("requests", lambda: source.qmp.migration().get("ram", {}).get(
        "postcopy-requests", 0) > 10, MIGRATE_S)
    first.cut()
    wait_for("a paused source", lambda: source.qmp.migration()["status"] ==
             "postcopy-paused", MIGRATE_S)
    again = lab.directory / "again.sock"

    def is_listening():
        # the only question that a destination is sure to answer now
        try:
            destination.qmp.command("migrate-recover", _oob=True,
                                    uri=f"unix:{again}")
        except QmpError:
            return False
        return True
    wait_for("a destination that lets itself be recovered", is_listening,
             MIGRATE_S)
    destination.migrate_path = again
    second = record(destination, "second")
    source.qmp.command("migrate-set-parameters",
                       **{"max-postcopy-bandwidth": 0})
    source.qmp.command("migrate", uri=f"unix:{second.path}", resume=True)
    wait_completed(source, destination)
    lab.finish(destination)
    second.close()
    replay(second, "opaque")
