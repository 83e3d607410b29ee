# SPDX-License-Identifier: BSD-3-Clause
"""migproxyctl against a fake daemon: migrate, list, show."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from ctl_fake import (CTL, DEADLINE, DONE, FAILED, MIGRATE, Server, api, ctl,
                      migration, precopy, run)  # noqa: F401


# ---- the command line ----

COMMANDS = ["migrate", "list", "show", "cancel", "close", "watch", "set",
            "postcopy", "incoming", "peers", "host"]


def test_help_names_each_command_and_option():
    r = run("--help")
    assert r.status == 0 and r.err == ""
    for command in COMMANDS:
        assert f"\n  {command} " in r.out
    assert "--api PATH" in r.out and "MIGPROXY_API" in r.out
    assert run("-h").out == r.out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command):
    r = run(command, "--help")
    assert r.status == 0 and r.err == ""
    assert r.out.startswith(f"Usage: migproxyctl {command} ")
    assert max(map(len, r.out.splitlines())) <= 80
    assert run("--help").out != r.out


def test_help_of_migrate_has_options_and_exit_statuses():
    out = run("migrate", "-h").out
    for option in ("vm NAME", "to PEER", "qmp PATH", "dest-qmp PATH", "mode MODE",
                   "preempt WHEN", "multifd N", "postcopy-after S",
                   "bandwidth RATE", "max-downtime MS", "timeout S",
                   "on-timeout WHAT"):
        assert f"--{option} " in out
    for status in "012345":
        assert f"\n  {status}  " in out


def test_version():
    r = run("--version")
    own, libraries = r.out.splitlines()
    assert r.status == 0 and re.fullmatch(r"migproxyctl [0-9]\S*", own)
    assert re.fullmatch(r"libcurl \S+, json-c \S+", libraries)


@pytest.mark.parametrize("args, message", [
    ([], "no command"),
    (["frob"], 'unknown command "frob"'),
    (["--frob", "list"], 'unknown option "--frob"'),
    (["list", "--frob"], 'unknown option "--frob"'),
    (["list", "--vm", "x"], 'unknown option "--vm"'),
    (["list", "--api", "x", "--api", "y"], 'option is given twice: "--api"'),
    (["--api", "x", "list", "--api", "y"], 'option is given twice: "--api"'),
    ([*MIGRATE, "--vm", "c"], 'option is given twice: "--vm"'),
    (["set", "m", "--bandwidth", "1", "--bandwidth", "2"],
     'option is given twice: "--bandwidth"'),
    (["list", "--api", "/" + 107 * "a"],
     '--api: socket path "/' + 107 * "a" + '" has 108 bytes, 1 to 107 are'),
    (["list", "--api", ""], '--api: socket path "" has 0 bytes'),
    (["--api"], 'this option needs a value: "--api"'),
    (["show"], "the migration's ID is missing"),
    (["show", "a", "b"], 'unexpected argument "b"'),
    (["list", "a"], 'unexpected argument "a"'),
    (["migrate", "--to", "b"], "--vm NAME is missing"),
    (["migrate", "--vm", "a"], "--to PEER is missing"),
    ([*MIGRATE, "--bandwidth", "0"], "--bandwidth: "),
    ([*MIGRATE, "--bandwidth", "fast"], "--bandwidth: "),
    ([*MIGRATE, "--multifd", "-1"], "--multifd: "),
    ([*MIGRATE, "--max-downtime", "1.5"], "--max-downtime: "),
    ([*MIGRATE, "--max-downtime", "0"],
     '--max-downtime: "0" is not a whole number from 1 to 60000 ms'),
    ([*MIGRATE, "--max-downtime", "0ms"],
     '--max-downtime: "0ms" is not a whole number from 1 to 60000 ms, nor such '
     'a time with its unit (units: us, ms, s, min, h)'),
    ([*MIGRATE, "--max-downtime", "1.5ms"], '--max-downtime: "1.5ms" is not a '),
    ([*MIGRATE, "--max-downtime", "61s"], '--max-downtime: "61s" is not a '),
    ([*MIGRATE, "--max-downtime", ""], '--max-downtime: "" is not a '),
    (["set", "m", "--max-downtime", "60001"],
     '--max-downtime: "60001" is not a whole number from 1 to 60000 ms'),
    ([*MIGRATE, "--multifd", "17"],
     '--multifd: "17" is not a whole number from 0 to 16'),
    ([*MIGRATE, "--timeout", "0.9"],
     '--timeout: "0.9" is not a time from 1 s to 168 h'),
    ([*MIGRATE, "--postcopy-after", "169h"],
     '--postcopy-after: "169h" is not a time from 0 s to 168 h'),
    ([*MIGRATE, "--timeout", "soon"], "--timeout: "),
    ([*MIGRATE, "--postcopy-after", ""], "--postcopy-after: "),
])
def test_wrong_usage_ends_with_2_and_names_what_is_wrong(api, args, message):
    r = run(*args, env={"MIGPROXY_API": api.path})
    assert r.status == 2
    assert r.out == ""
    assert r.err.startswith("migproxyctl: ") and message in r.err
    assert api.requests == []


def test_the_api_comes_from_option_then_environment(api, tmp_path):
    api.answers["GET", "/v1/migrations"] = 200, {"migrations": []}
    nobody = str(tmp_path / "nobody")
    assert run("list", env={"MIGPROXY_API": api.path}).status == 0
    assert run("list", env={"MIGPROXY_API": nobody}).status == 1
    env = {"MIGPROXY_API": nobody}
    assert run("list", "--api", api.path, env=env).status == 0
    assert run(f"--api={api.path}", "list", env=env).status == 0
    assert len(api.requests) == 3


def test_a_path_of_the_environment_is_checked(tmp_path):
    r = run("list", env={"MIGPROXY_API": "/" + 107 * "a"})
    assert r.status == 2 and "MIGPROXY_API: socket path" in r.err


def test_a_proxy_of_the_environment_is_not_used(api):
    api.answers["GET", "/v1/migrations"] = 200, {"migrations": []}
    env = {"http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:1"}
    assert run("list", "--api", api.path, env=env).status == 0


# ---- the request ----

def test_options_become_members(api):
    api.follow = [DONE]
    r = ctl(api, "migrate", "--vm", "g 1", "--to", "b", "--qmp", "/q/a",
            "--dest-qmp", "/q/b", "--mode", "postcopy", "--preempt", "on",
            "--multifd", "4", "--postcopy-after", "1.5", "--bandwidth",
            "100MiB/s", "--max-downtime", "250", "--timeout", "5min",
            "--on-timeout", "pause")
    assert r.status == 0
    method, path, body = api.requests[0]
    assert (method, path) == ("POST", "/v1/migrations")
    made = body.pop("id")
    assert len(made) == 13 and made.isalnum()
    assert body == {
        "vm": "g 1", "to": "b", "qmp": "/q/a", "dest_qmp": "/q/b",
        "mode": "postcopy", "preempt": "on", "multifd_channels": 4,
        "postcopy_after_seconds": 1.5,
        "bandwidth_bytes_per_second": 100 << 20, "max_downtime_ms": 250,
        "timeout_seconds": 300, "on_timeout": "pause"}
    assert api.requests[1][:2] == ("GET", "/v1/migrations/" + made)


def test_only_what_was_said_is_sent(api):
    api.follow = [DONE]
    ctl(api, *MIGRATE, "--bandwidth", "unlimited")
    body = api.requests[0][2]
    assert set(body) == {"id", "vm", "to", "bandwidth_bytes_per_second"}
    assert body["bandwidth_bytes_per_second"] == "unlimited"


# ---- the exit status of migrate ----

@pytest.mark.parametrize("last, status", [
    (DONE, 0),
    (migration("failed", "failed", refused=True), 3),
    (FAILED, 4),
    (migration("cancelled", "cancelled"), 4),
    (migration("failed", "failed", guest_is_on="unknown"), 5),
    (migration("failed", "failed", guest_is_on="destination"), 5),
    (migration("attention", "attention"), 5),
    ({"state": "completed"}, 0),
    ({"state": "failed"}, 5),
    ({"result": "failed", "guest_is_on": "source"}, 4),
])
@pytest.mark.parametrize("json_only", [False, True])
def test_the_exit_status_tells_the_outcome(api, last, status, json_only):
    api.follow = [precopy(50.0), last]
    r = ctl(api, *MIGRATE, *(["--json"] if json_only else []))
    assert r.status == status
    if json_only:
        assert r.err == ""
        assert json.loads(r.out) == last


SOURCES = os.environ.get("srcdir", ".")
CLASSES = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", open(os.path.join(
    SOURCES, "docs/api-errors.md"), encoding="utf-8").read(), re.M)
USAGE = {"bad-request"}
REFUSED = {"not-found", "conflict", "limit", "forbidden", "path-refused",
           "too-late", "unsupported", "mismatch", "guest-state", "peer-unknown",
           "peer-unreachable", "peer-refused", "tls", "qmp-unreachable",
           "monitor-busy", "shutting-down"}


def test_the_manual_names_the_classes_of_each_status():
    with open(os.path.join(SOURCES, "docs/migproxyctl.1.pod"),
              encoding="utf-8") as file:
        text = file.read().split("=head1 EXIT STATUS")[1]
    refused = text.split("=item B<3>")[1].split("=item")[0]
    assert set(re.findall(r"C<([a-z-]+)>", refused)) == REFUSED
    assert USAGE | REFUSED < {name for name, _ in CLASSES}


@pytest.mark.parametrize("name, http", [c for c in CLASSES if c[0] != "none"])
def test_a_class_has_one_exit_status_everywhere(api, name, http):
    error = {"error": {"class": name, "message": "m0 of vm1 runs",
                       "side": "source"}}
    status = 2 if name in USAGE else 3 if name in REFUSED else 1
    for method, path, args in (
            ("POST", "/v1/migrations", MIGRATE),
            ("PATCH", "/v1/migrations/m1", ("set", "m1", "--bandwidth", "1")),
            ("POST", "/v1/incoming", ("incoming", "--vm", "a", "--qmp", "/q")),
            ("POST", "/v1/migrations/m1/cancel", ("cancel", "m1")),
            ("GET", "/v1/peers", ("peers",))):
        api.answers[method, path] = int(http), error
        r = ctl(api, *args)
        assert (r.status, r.out) == (status, ""), args
        assert r.err == (f"migproxyctl: m0 of vm1 runs ({name}, HTTP status "
                         f"{http})\n")
    r = ctl(api, *MIGRATE, "--json")
    assert r.status == status and json.loads(r.out) == error


def test_members_are_called_by_their_options(api):
    error = {"error": {"class": "bad-request", "side": "local", "message":
                       'member "max_downtime_ms" needs "bandwidth_bytes_per_second"'
                       ' and no "mode_x" of "postcopy_after_seconds"'}}
    api.answers["POST", "/v1/migrations"] = 400, error
    r = ctl(api, *MIGRATE)
    assert r.err == ('migproxyctl: --max-downtime needs --bandwidth and no '
                     '"mode_x" of --postcopy-after (bad-request, HTTP status '
                     '400)\n')
    assert json.loads(ctl(api, *MIGRATE, "--json").out) == error


def test_no_daemon(tmp_path):
    r = run("--api", str(tmp_path / "s"), *MIGRATE)
    assert r.status == 1 and r.out == ""
    assert r.err == (f"migproxyctl: no daemon answers at {tmp_path}/s (is "
                     "migproxy running?): No such file or directory (daemon-unreachable)\n")
    r = run("--api", str(tmp_path / "s"), "list", "--json")
    assert r.status == 1
    assert json.loads(r.out)["error"]["class"] == "daemon-unreachable"


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"null", b"{\"a\":"])
def test_something_else_answers(api, answer):
    api.answers["GET", "/v1/host"] = 200, answer
    r = ctl(api, "host")
    assert r.status == 1
    assert "is no migproxy API" in r.err


def test_a_lost_answer_says_how_to_find_out(api, monkeypatch):
    def drop(method, path, body):
        api.requests.append((method, path, body))
        raise ConnectionAbortedError
    api.take = drop
    monkeypatch.setattr(Server, "handle_error", lambda *args: None)
    r = ctl(api, *MIGRATE)
    assert r.status == 1
    made = api.requests[0][2]["id"]
    assert f"migproxyctl show {made} tells" in r.err


# ---- progress ----

def test_progress_on_a_pipe_is_a_line_at_each_change(api):
    zero = {"percent": 0.0, "rate_bytes_per_second": 0,
            "dirty_rate_bytes_per_second": 0, "eta_seconds": None,
            "converging": True}
    api.follow = [migration("preparing", progress=zero), precopy(10), precopy(42.12),
                  migration("switchover"), DONE]
    r = ctl(api, *MIGRATE)
    lines = r.err.splitlines()
    assert lines[0].startswith("Migration m") and lines[0].endswith(" of vm1 to b")
    assert lines[1:] == [
        "preparing",
        "precopy  10.0 %, 112.7 MiB/s, dirty 11.7 MiB/s, ETA 3 s", "switchover"]
    assert "\r" not in r.err and "\033" not in r.err


def test_a_postcopy_has_no_dirty_rate(api):
    now = precopy(60, dirty_rate_bytes_per_second=0) | {"state": "postcopy",
                                                        "postcopy": True}
    now["progress"]["pass"] = 2
    api.follow = [now, DONE]
    assert (ctl(api, *MIGRATE).err.splitlines()[1] ==
            "postcopy  60.0 %, 112.7 MiB/s, ETA 3 s")


def test_the_destination_tells_what_has_come(api):
    here = {"percent": None, "transferred_bytes": 3 << 30,
            "rate_bytes_per_second": 118200000}
    api.follow = [migration("precopy", role="destination", progress=here),
                  migration("completed", "completed", role="destination",
                            progress={**here, "percent": 100.0})]
    r = ctl(api, "watch", "m1")
    assert r.err.splitlines() == ["precopy  3 GiB received, 112.7 MiB/s"]
    assert "\n  streams         3 GiB received\n" in r.out


def test_progress_on_a_pipe_is_a_line_a_second_at_most(api):
    api.follow = [precopy(i) for i in range(13)] + [DONE]
    lines = ctl(api, *MIGRATE).err.splitlines()[1:]
    # 13 rounds take 2.4 s or, on a busy machine, longer
    assert 3 <= len(lines) <= 6
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("progress, text", [
    ({"converging": False}, "dirty 11.7 MiB/s, not converging"),
    ({"eta_seconds": None}, "dirty 11.7 MiB/s"),
    ({"eta_seconds": 125}, "dirty 11.7 MiB/s, ETA 2 min 5 s"),
    ({"dirty_rate_bytes_per_second": None}, "112.7 MiB/s, ETA 3 s"),
    # not measured before the first pass is over
    ({"dirty_rate_bytes_per_second": 0, "pass": 1}, "112.7 MiB/s, ETA 3 s"),
    ({"dirty_rate_bytes_per_second": 0, "pass": 2},
     "112.7 MiB/s, dirty 0 B/s, ETA 3 s"),
])
def test_the_outlook(api, progress, text):
    api.follow = [precopy(1, **progress), DONE]
    assert ctl(api, *MIGRATE).err.splitlines()[1].endswith(text)


@pytest.mark.parametrize("silent_ms, end", [
    (None, "ETA 3 s"), (2999, "ETA 3 s"), (3000, "ETA 3 s"),
    (7400, "ETA 3 s, path silent for 7 s"), ("long", "ETA 3 s")])
def test_a_silent_path_is_told(api, silent_ms, end):
    now = precopy(10) | {"path": {"silent_ms": silent_ms}}
    api.follow = [now, DONE]
    assert ctl(api, *MIGRATE).err.splitlines()[1].endswith(end)
    api.answers["GET", "/v1/migrations/m1"] = 200, now
    out = ctl(api, "show", "m1").out
    assert ("path silent" in out) == ("path silent" in end)


def test_a_path_that_is_silent_before_anything_moves(api):
    api.follow = [migration("connecting", path={"silent_ms": 9000}), DONE]
    assert (ctl(api, *MIGRATE).err.splitlines()[1] ==
            "connecting, path silent for 9 s")


class Terminal:
    """migproxyctl with a terminal as standard error (and input)."""

    def __init__(self, api, *args):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [CTL, "--api", api.path, *args], stdin=slave, stderr=slave,
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        os.close(slave)
        self.text = ""

    def read_until(self, word):
        end = time.monotonic() + DEADLINE
        while word is None or word not in self.text:
            assert time.monotonic() < end, self.text
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.master, 4096)
            except OSError:  # the other end is closed
                break
            self.text += data.decode()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def wait(self):
        self.read_until(None)
        out, _ = self.process.communicate(timeout=DEADLINE)
        os.close(self.master)
        return self.process.returncode, out


def test_progress_on_a_terminal_is_one_line(api):
    api.follow = [precopy(10), precopy(20), precopy(30, eta_seconds=None), DONE]
    terminal = Terminal(api, *MIGRATE)
    status, out = terminal.wait()
    assert status == 0 and out.startswith("Migration m1 of vm1 to b: completed\n")
    lines = terminal.text.split("\n")
    assert len(lines) == 2
    parts = lines[1].split("\r")
    assert parts[1] == "precopy  10.0 %, 112.7 MiB/s, dirty 11.7 MiB/s, ETA 3 s\033[K"
    assert parts[2].startswith("precopy  20.0 %")
    assert parts[3] == "precopy  30.0 %, 112.7 MiB/s, dirty 11.7 MiB/s\033[K"
    assert parts[4] == "\033[K"


# ---- Ctrl-C ----

def test_the_first_interrupt_cancels_and_waits(api):
    def cancel():
        api.follow = [migration("cancelling"), migration("cancelled", "cancelled")]
        return 200, migration("cancelling")
    api.follow = [precopy(10)]
    api.on_cancel = cancel
    terminal = Terminal(api, *MIGRATE)
    terminal.read_until("10.0 %")
    terminal.interrupt()
    status, out = terminal.wait()
    assert status == 4
    assert "Asked the daemon to cancel, waiting for the outcome" in terminal.text
    assert "Migration m1 of vm1 to b: cancelled\n" in out
    made = api.requests[0][2]["id"]
    assert api.paths() == ["/v1/migrations", f"/v1/migrations/{made}/cancel"]


def test_the_second_interrupt_leaves(api):
    api.follow = [precopy(10)]
    api.on_cancel = lambda: (200, migration("cancelling"))
    terminal = Terminal(api, *MIGRATE)
    terminal.read_until("10.0 %")
    terminal.interrupt()
    terminal.read_until("Asked the daemon")
    terminal.interrupt()
    status, out = terminal.wait()
    assert status == 1 and out == ""
    made = api.requests[0][2]["id"]
    assert f"the migration goes on, see migproxyctl show {made}" in terminal.text
    assert len(api.paths()) == 2  # no second cancel


def test_a_cancel_that_comes_too_late_is_told(api):
    def cancel():
        api.follow = [migration("postcopy"), DONE]
        return 409, {"error": {"class": "too-late", "side": "source",
                               "message": "the guest runs on b"}}
    api.follow = [precopy(10)]
    api.on_cancel = cancel
    terminal = Terminal(api, *MIGRATE)
    terminal.read_until("10.0 %")
    terminal.interrupt()
    status, _ = terminal.wait()
    assert status == 0
    assert "It cannot be cancelled: the guest runs on b. Still" in terminal.text
    assert len(api.paths()) == 2


def test_interrupts_with_json_print_one_object(api):
    last = migration("cancelled", "cancelled")

    def cancel():
        api.follow = [last]
        return 200, migration("cancelling")
    api.follow = [precopy(10)]
    api.on_cancel = cancel
    process = subprocess.Popen([CTL, "--api", api.path, *MIGRATE, "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    end = time.monotonic() + DEADLINE
    while len(api.requests) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 4 and err == ""
    assert json.loads(out) == last


def test_a_daemon_that_restarts_is_found_again(api):
    api.follow = [precopy(10)]
    terminal = Terminal(api, *MIGRATE)
    terminal.read_until("10.0 %")
    api.take = lambda *args: (503, {"error": {}})
    terminal.read_until("trying for 10 s")
    api.stop()
    del api.take
    api.follow = [DONE]
    time.sleep(0.5)
    api.start()
    assert terminal.wait()[0] == 0


# ---- what people read ----

def test_the_report_of_a_success(api):
    api.follow = [DONE]
    assert ctl(api, *MIGRATE).out == """\
Migration m1 of vm1 to b: completed
  guest is on     destination host (b)
  mode            precopy
  time            12.3 s
  blackout        14.2 ms, give or take 300 us
  memory          1 GiB in precopy
  on the wire     1 GiB sent, 4 KiB received
  path            round trip 250 us, rate 119.2 MiB/s, window 64 KiB
  stream          ram
"""


def test_the_report_of_a_failure(api):
    seen = {**FAILED["error"], "side": "path", "detail": "bulk lane: reset"}
    api.follow = [{**FAILED, "error": seen,
                   "path": {"rtt_us": 0, "window_bytes": 0},
                   "totals": {"precopy_bytes": 0, "postcopy_bytes": 0}}]
    assert ctl(api, *MIGRATE).out == """\
Migration m1 of vm1 to b: failed
  error           the link broke (link-lost, path)
  seen here       bulk lane: reset
  advice          look at the network
  guest is on     source host (this one)
"""


def test_the_report_of_a_postcopy(api):
    def times(count, mean):
        return {"count": count, "mean_us": mean, "p99_us": 10 * mean,
                "max_us": 20 * mean}
    api.answers["GET", "/v1/migrations/m1"] = 200, {
        **DONE, "elapsed_ms": 65300,
        "phases_ms": {"preparing": 50, "precopy": 4200, "postcopy": 61000},
        "totals": {"precopy_bytes": 1 << 30, "downtime_bytes": 3 << 20,
                   "postcopy_bytes": 2 << 20, "page_requests": 12},
        "pages": {"pool_limit_bytes": 128 << 20, "pool_peak_bytes": 12 << 20,
                  "awaited": 2, "delivery": times(10, 310),
                  "delivery_found": times(7, 200),
                  "delivery_in_flight": times(0, 0),
                  "delivery_fetched": times(3, 900)},
        "counted_at": "2026-11-30T17:51:05.123456Z",
        "ended_at": "2026-11-30T18:51:10.5Z"}
    text = ctl(api, "show", "m1").out
    for line in (
            "  phases          precopy 4.2 s, postcopy 61 s",
            "  memory          1 GiB in precopy, 3 MiB while the guest stood "
            "still, 2 MiB in postcopy",
            "  faults          10, mean 310 us, 99 % within 3.1 ms, longest 6.2 ms",
            "                  7 found in the pool, mean 200 us, 99 % within 2 ms, "
            "longest 4 ms",
            "                  3 fetched from QEMU, mean 900 us, 99 % within 9 ms, "
            "longest 18 ms",
            "                  2 not come from QEMU yet",
            "  page pool       up to 12 MiB of 128 MiB",
            "  counted         1 h before the end, at "
            "2026-11-30T17:51:05.123456Z"):
        assert line + "\n" in text, text
    assert "in flight already" not in text


def test_the_report_says_when_it_went_to_postcopy(api):
    api.answers["GET", "/v1/migrations/m1"] = 200, {
        **DONE, "mode": "auto", "postcopy": True, "preempt": True}
    assert ("\n  mode            auto, went to postcopy, preempt on\n"
            in ctl(api, "show", "m1").out)


@pytest.mark.parametrize("postcopy, mode", [
    (True, "postcopy"), (False, "postcopy, but was over in precopy")])
def test_the_report_says_what_became_of_mode_postcopy(api, postcopy, mode):
    api.answers["GET", "/v1/migrations/m1"] = 200, {
        **DONE, "mode": "postcopy", "postcopy": postcopy}
    assert f"\n  mode            {mode}\n" in ctl(api, "show", "m1").out


@pytest.mark.parametrize("role, place, text", [
    ("destination", "destination", "destination host (this one)"),
    ("destination", "source", "source host (b)"),
    ("source", "unknown", "unknown")])
def test_the_report_names_the_host(api, role, place, text):
    api.answers["GET", "/v1/migrations/m1"] = 200, {
        **DONE, "role": role, "guest_is_on": place}
    assert f"\n  guest is on     {text}\n" in ctl(api, "show", "m1").out


@pytest.mark.parametrize("last, head", [
    (migration("failed", "failed", refused=True), "to b: refused by preflight"),
    (migration("attention", "attention"), "to b: needs attention"),
    (migration("completed", "completed", role="destination"), "from b: completed"),
    ({}, "Migration ? of ? to ?: unknown"),
])
def test_the_head_of_a_report(api, last, head):
    api.answers["GET", "/v1/migrations/m1"] = 200, last
    assert ctl(api, "show", "m1").out.splitlines()[0].endswith(head)


def test_texts_cannot_steer_the_terminal(api):
    api.follow = [migration("failed", "failed", advice="a\x1b[2Jb\x07\u009bc\x7fd")]
    out = ctl(api, *MIGRATE).out
    assert "a?[2Jb?" in out and "\x1b" not in out and "\u009b" not in out


def test_wrong_types_do_no_harm(api):
    bad = {"id": 5, "state": ["x"], "progress": 7, "error": "x", "path": [],
           "totals": {"precopy_bytes": -1, "wire_sent_bytes": "1"},
           "result": {}, "downtime": {"blackout_us": 1e30}}
    api.answers["GET", "/v1/migrations/m1"] = 200, bad
    api.answers["GET", "/v1/migrations"] = 200, {"migrations": [bad, None, 3]}
    api.answers["GET", "/v1/peers"] = 200, {"peers": "none"}
    assert ctl(api, "show", "m1").status == 0
    assert ctl(api, "list").status == 0
    assert ctl(api, "peers").status == 0


def test_list_is_a_table(api):
    started = time.strftime("%Y-%m-%dT%H:%M:%S.123456Z",
                            time.gmtime(time.time() - 3600))
    api.answers["GET", "/v1/migrations"] = 200, {"migrations": [
        {**precopy(42.1), "id": "long-id-of-one", "started_at": started},
        {"id": "m2", "vm": "x", "role": "destination", "peer": "c",
         "state": "completed", "started_at": "yesterday"},
        migration("failed", "failed", refused=True)]}
    lines = ctl(api, "list").out.splitlines()
    assert lines[0] == ("ID              VM   ROLE         PEER  STATE      "
                        "PERCENT  AGE")
    assert lines[1].startswith("long-id-of-one  vm1  source       b     "
                               "precopy    42.1 %   1 h")
    assert lines[2] == ("m2              x    destination  c     completed  "
                        "-        -")
    assert " refused " in lines[3]
    assert len(lines) == 4


def test_an_empty_list_is_a_head(api):
    api.answers["GET", "/v1/migrations"] = 200, {"migrations": []}
    assert ctl(api, "list").out == "ID  VM  ROLE  PEER  STATE  PERCENT  AGE\n"


def test_peers_is_a_table(api):
    api.answers["GET", "/v1/peers"] = 200, {"peers": [
        {"name": "b", "address": "b:16515", "identity": "b.example",
         "allow": ["send", "receive"], "connected": True, "rtt_us": 250,
         "version": 1, "error": None},
        {"name": "c", "address": "c", "identity": "c", "allow": [],
         "connected": False, "rtt_us": None, "version": None,
         "error": {"class": "tls", "message": "expired", "side": "source"}},
        {"name": "d", "address": "d", "identity": "d", "allow": [],
         "connected": False, "lost_ms": 12345, "rtt_us": None,
         "version": None, "error": {"class": "link-lost",
                                    "message": "silent for 10 s"}},
        {"name": "e", "address": "e", "identity": "e", "allow": [],
         "connected": False, "lost_ms": None, "rtt_us": None,
         "version": None, "error": None}]}
    later = "dialled when something is asked of it"
    assert ctl(api, "peers").out == f"""\
NAME  ADDRESS  IDENTITY   ALLOW         PROTOCOL  RTT     LINK
b     b:16515  b.example  send,receive  1         250 us  connected
c     c        c          -             -         -       not connected: expired; {later}
d     d        d          -             -         -       not connected for 12 s: silent for 10 s; {later}
e     e        e          -             -         -       not connected; {later}
"""


def test_host_shows_all_members(api):
    api.answers["GET", "/v1/host"] = 200, {
        "name": "a", "version": "0.1.0", "limits": {"sessions": 16}}
    assert [line.split() for line in ctl(api, "host").out.splitlines()] == [
        ["name", "a"], ["version", "0.1.0"], ["limits.sessions", "16"]]


@pytest.mark.parametrize("command", ["cancel", "postcopy"])
def test_orders_say_the_state(api, command):
    path = f"/v1/migrations/m1/{command}"
    api.answers["POST", path] = 200, migration("cancelling")
    r = ctl(api, command, "m1")
    assert (r.status, r.out) == (0, "Migration m1: cancelling\n")
    api.answers["POST", path] = 409, {"error": {
        "class": "too-late", "message": "it is over", "side": "source"}}
    r = ctl(api, command, "m1")
    assert r.status == 3 and "it is over (too-late, HTTP status 409)" in r.err


@pytest.mark.parametrize("args, path, answer", [
    (["list"], "/v1/migrations", {"migrations": []}),
    (["show", "m1"], "/v1/migrations/m1", DONE),
    (["peers"], "/v1/peers", {"peers": []}),
    (["host"], "/v1/host", {"name": "a/b"}),
])
def test_json_is_what_the_daemon_said(api, args, path, answer):
    api.answers["GET", path] = 200, answer
    r = ctl(api, *args, "--json")
    assert r.status == 0 and r.err == "" and json.loads(r.out) == answer
    assert r.out.count("\n") == 1


@pytest.mark.parametrize("name", ["", "a/b", "a?b", "ä", "x" * 65])
def test_what_is_no_id_is_not_sent(api, name):
    r = ctl(api, "show", name)
    assert r.status == 2 and "is no id of a migration" in r.err
    assert api.requests == []


def test_a_full_disk_is_an_error(api):
    api.answers["GET", "/v1/host"] = 200, {"name": "a"}
    with open("/dev/full", "w") as full:
        done = subprocess.run([CTL, "--api", api.path, "host"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and "No space left" in done.stderr
