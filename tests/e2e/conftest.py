# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests with real programs."""
import signal

import pytest

from lab import VERSIONS, Lab, qemu_unwanted, share


def pytest_configure(config):
    """TERM ends the run as Ctrl-C does: fixtures clean up."""
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """This process's share of what is selected."""
    number, count = share()
    mine = items[number - 1::count]
    config.hook.pytest_deselected(
        items=[item for item in items if item not in mine])
    items[:] = mine


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test of the lab shows what its programs said."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call":
        item.called = report
    lab = getattr(item, "funcargs", {}).get("lab")
    if lab and report.when == "call" and report.failed:
        report.sections.append(("lab", lab.story()))


def pytest_generate_tests(metafunc):
    """A test with a lab runs with each QEMU, or as its marks say:

    @pytest.mark.versions("7.2", "7.2-10.0", long=["10.0-7.2"])

    where "7.2-10.0" has the source's side 7.2 and the destination's 10.0;
    what is in long runs only when the long tests do.
    """
    if "lab" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("versions")
    names = mark.args if mark else VERSIONS
    late = mark.kwargs.get("long", ()) if mark else ()
    metafunc.parametrize("lab", [
        *(pytest.param(name, id=f"qemu{name}") for name in names),
        *(pytest.param(name, id=f"qemu{name}", marks=pytest.mark.long)
          for name in late)], indirect=True)


@pytest.fixture
def lab(request):
    """A Lab of its own; daemons that a sanitizer complained about fail the
    test even if all else was well."""
    versions = request.param.split("-")
    for version in versions:
        if qemu_unwanted(version):
            pytest.skip(f"QEMU {version}: not wanted, MIGPROXY_QEMU10=none")
    with Lab(versions=(versions[0], versions[-1])) as bed:
        yield bed
        report = getattr(request.node, "called", None)
        if report and report.passed:
            bed.assert_one_story()
        for daemon in bed.daemons:
            daemon.assert_clean_log()
