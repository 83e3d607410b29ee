# SPDX-License-Identifier: BSD-3-Clause
"""A child process that cannot outlive the test run."""
import ctypes
import os
import signal
import subprocess

from .wait import stretch, wait_for

PR_SET_PDEATHSIG = 1
STOP_S = 10
LOG_TAIL_BYTES = 4000

_libc = ctypes.CDLL(None, use_errno=True)


def _before_exec():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # a shell that runs the tests in the background has it ignored
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    """argv run with its output in a file; killed if the test run dies."""

    def __init__(self, name, argv, log_path, env=None):
        self.name = name
        self.argv = [str(arg) for arg in argv]
        self.log_path = str(log_path)
        with open(self.log_path, "ab") as log:
            self.popen = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(env or {})},
                preexec_fn=_before_exec)

    @property
    def pid(self):
        return self.popen.pid

    @property
    def alive(self):
        return self.popen.poll() is None

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def log_tail(self):
        return self.log()[-LOG_TAIL_BYTES:]

    def assert_alive(self):
        assert self.alive, (f"{self.name} ended with status "
                            f"{self.popen.returncode}: {self.log_tail()}")

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, seconds):
        """The exit status (negative: the signal); Timeout if it lives on."""
        wait_for(f"end of {self.name}", lambda: not self.alive, seconds,
                 self.log_tail)
        return self.popen.returncode

    def kill(self):
        if self.alive:
            self.popen.kill()
        self.popen.wait()

    def stop(self, seconds=STOP_S):
        """Ends it with TERM, with KILL if that does not help."""
        if self.alive:
            self.popen.terminate()
            try:
                self.popen.wait(stretch(seconds))
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.returncode
