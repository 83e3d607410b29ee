# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests with real programs."""
import signal

import pytest

from lab import Lab


def pytest_configure(config):
    """TERM ends the run as Ctrl-C does: fixtures clean up."""
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test of the lab shows what its programs said."""
    outcome = yield
    report = outcome.get_result()
    lab = getattr(item, "funcargs", {}).get("lab")
    if lab and report.when == "call" and report.failed:
        report.sections.append(("lab", lab.story()))


@pytest.fixture
def lab():
    """A Lab of its own; daemons that a sanitizer complained about fail the
    test even if all else was well."""
    with Lab() as bed:
        yield bed
        for daemon in bed.daemons:
            daemon.assert_clean_log()
