# SPDX-License-Identifier: BSD-3-Clause
"""Waiting: every wait has a name and a deadline."""
import os
import time

# MIGPROXY_TEST_SLOW=3 makes every deadline three times as long (sanitizers,
# valgrind, a loaded machine)
SLOW = float(os.environ.get("MIGPROXY_TEST_SLOW", "1"))
POLL_S = 0.01


class Timeout(AssertionError):
    """A named wait has passed its deadline."""


def stretch(seconds):
    return seconds * SLOW


def wait_for(what, condition, seconds, detail=None):
    """Returns condition()'s first true value.

    Raises Timeout naming what was waited for, with detail() added.
    """
    deadline = time.monotonic() + stretch(seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            more = f": {detail()}" if detail else ""
            raise Timeout(f"no {what} within {stretch(seconds):g} s{more}")
        time.sleep(POLL_S)
