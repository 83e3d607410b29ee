# SPDX-License-Identifier: BSD-3-Clause
"""migproxyctl against a fake daemon: set, incoming, watch, a daemon that goes away."""
import json
import os
import re
import subprocess
import threading
import time

import pytest

from ctl_fake import (CTL, DEADLINE, DONE, FAILED, MIGRATE, Server, api, ctl,
                      migration, precopy)  # noqa: F401


SOURCES = os.environ.get("srcdir", ".")


# ---- limits, incoming ----

def test_set_sends_what_was_said(api):
    answer = migration("precopy", limits={
        "bandwidth_bytes_per_second": 104857600, "max_downtime_ms": 50})
    api.answers["PATCH", "/v1/migrations/m1"] = 200, answer
    r = ctl(api, "set", "m1", "--bandwidth", "100MiB/s", "--max-downtime", "50")
    assert (r.status, r.err) == (0, "")
    assert r.out == ("Migration m1: precopy, bandwidth 100 MiB/s, max-downtime "
                     "50 ms\n")
    assert api.requests == [("PATCH", "/v1/migrations/m1", {
        "bandwidth_bytes_per_second": 104857600, "max_downtime_ms": 50})]
    answer["limits"]["bandwidth_bytes_per_second"] = "unlimited"
    r = ctl(api, "set", "m1", "--bandwidth", "unlimited")
    assert "bandwidth unlimited, max-downtime 50 ms" in r.out
    assert api.requests[1][2] == {"bandwidth_bytes_per_second": "unlimited"}


@pytest.mark.parametrize("args, message", [
    ((), "nothing to set: --bandwidth RATE or --max-downtime MS is missing"),
    (("--bandwidth", "0"), "--bandwidth: "),
    (("--bandwidth", "fast"), "--bandwidth: "),
    (("--max-downtime", "-1"), "--max-downtime: "),
])
def test_bad_limits_are_usage(api, args, message):
    r = ctl(api, "set", "m1", *args)
    assert r.status == 2 and message in r.err
    assert api.requests == []


def test_incoming(api):
    entry = {"id": "i1", "vm": "web", "qmp": "/q/web", "uuid": None}
    api.answers["POST", "/v1/incoming"] = 201, entry
    api.answers["GET", "/v1/incoming"] = 200, {"incoming": [
        entry, {**entry, "id": "i2", "uuid": "u-u"},
        {**entry, "id": "i3", "migration": "m7"}]}
    api.answers["DELETE", "/v1/incoming/i1"] = 200, entry
    r = ctl(api, "incoming", "--vm", "web", "--qmp", "/q/web")
    assert (r.status, r.out) == (0, "i1  web at /q/web\n")
    assert api.requests[0][2] == {"vm": "web", "qmp": "/q/web"}
    assert ctl(api, "incoming").out == (
        "i1  web at /q/web\ni2  web at /q/web, UUID u-u\n"
        "i3  web at /q/web, being used by migration m7\n")
    assert ctl(api, "incoming", "--remove", "i1").status == 0
    assert ctl(api, "incoming", "--remove", "a/b").status == 2
    assert len(api.requests) == 3


@pytest.mark.parametrize("args, message", [
    (("--vm", "web"), "--qmp PATH is missing"),
    (("--qmp", "/q"), "--vm NAME is missing"),
    (("--uuid", "u"), "--vm NAME is missing"),
    (("--remove", "i1", "--vm", "web"), "--remove goes with nothing else"),
])
def test_bad_incoming_is_usage(api, args, message):
    r = ctl(api, "incoming", *args)
    assert r.status == 2 and message in r.err
    assert api.requests == []


# ---- what needs a person ----

def test_advice_is_shown_whole(api):
    """Wrapped at words; commands are lines of their own, as they are."""
    words = " ".join(f"word{i}" for i in range(300))
    command = '  {"execute":"' + "x" * 90 + '"}'
    advice = f"{words}\n{command}\nthe end"
    api.follow = [{**FAILED, "advice": advice}]
    lines = ctl(api, "show", "m1").out.splitlines()
    shown = [line[18:] for line in lines[2:-1]]
    assert lines[2].startswith("  advice          word0 word1 ")
    assert all(line.startswith(" " * 18) for line in lines[3:-1])
    assert shown[-2:] == [command, "the end"]
    assert " ".join(shown[:-2]) == words
    assert max(len(line) for line in lines[2:-3]) <= 80


def test_close(api):
    answer = migration("attention", "attention", closed={
        "at": "2026-11-30T17:51:05.123456Z", "note": "runs on b"})
    api.answers["POST", "/v1/migrations/m1/close"] = 200, answer
    r = ctl(api, "close", "m1", "--note", "runs on b")
    assert (r.status, r.out) == (0, "Migration m1: attention, closed\n")
    assert api.requests == [
        ("POST", "/v1/migrations/m1/close", {"note": "runs on b"})]
    assert ctl(api, "close", "m1", "--json").out.startswith("{")
    assert api.requests[1][2] == {}
    api.answers["GET", "/v1/migrations/m1"] = 200, answer
    text = ctl(api, "show", "m1").out
    assert text.startswith("Migration m1 of vm1 to b: attention, closed\n")
    assert ("  closed          at 2026-11-30T17:51:05.123456Z\n"
            "                  runs on b\n") in text
    api.answers["GET", "/v1/migrations"] = 200, {"migrations": [answer]}
    assert " closed " in ctl(api, "list").out
    for status, name, code in ((409, "conflict", 3), (409, "too-late", 3),
                               (404, "not-found", 3), (500, "io", 1),
                               (400, "bad-request", 2)):
        api.answers["POST", "/v1/migrations/m1/close"] = status, {"error": {
            "class": name, "message": "member \"note\" no",
            "side": "local"}}
        r = ctl(api, "close", "m1")
        assert r.status == code and f"--note no ({name}" in r.err


# ---- a daemon that goes away ----

def test_a_daemon_that_stays_away_ends_it(api):
    api.follow = [precopy(10), (503, {"error": {}})]
    begin = time.monotonic()
    r = ctl(api, *MIGRATE)
    assert 9 < time.monotonic() - begin < 30
    assert r.status == 1
    assert "may go on, but nobody can be asked: " in r.err


def test_a_migration_that_is_forgotten(api):
    api.follow = [precopy(10), (404, {"error": {
        "class": "not-found", "message": "no migration m1", "side": "local"}})]
    r = ctl(api, *MIGRATE)
    assert r.status == 1
    assert "no migration m1 (not-found, HTTP status 404)" in r.err
    assert ctl(api, "watch", "m1").status == 3


# ---- watch ----

def event(kind, data, number=None):
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n"


AT = "2026-11-30T17:51:05.123456Z"


def watch_lines(api, count, *args):
    """The first lines of watch, which has no end of its own."""
    with subprocess.Popen([CTL, "--api", api.path, "watch", *args], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        timer = threading.Timer(DEADLINE, p.kill)
        timer.start()
        lines = [p.stdout.readline().rstrip("\n") for _ in range(count)]
        p.terminate()
        err = p.stderr.read()
        timer.cancel()
    return lines, err


def test_watch_prints_each_event_and_goes_on_after_a_loss(api):
    api.streams = [
        event("hello", {"sequence": 7}, 7) + ":\n\n" +
        event("migration", {"at": AT, "migration": migration("setup")}, 8) +
        event("progress", {"at": AT, "migration": precopy(42.1)}),
        event("gap", {"after": 8, "next": 20}) +
        event("migration", {"at": AT, "migration": migration("completed")}, 20)]
    lines, err = watch_lines(api, 3)
    assert api.resumed == [None, "8"]
    assert lines == [
        "17:51:05.123Z  m1  vm1 to b  setup",
        "17:51:05.123Z  m1  vm1 to b  precopy  42.1 %, 112.7 MiB/s, dirty "
        "11.7 MiB/s, ETA 3 s",
        "17:51:05.123Z  m1  vm1 to b  completed"]
    assert "some events were missed" in err


def test_watch_reads_again_what_was_cut_off(api):
    whole = event("migration", {"at": AT, "migration": migration("setup")}, 8)
    api.streams = [event("hello", {"sequence": 7}, 7) + whole[:-12], whole]
    lines, _ = watch_lines(api, 1)
    assert api.resumed == [None, "7"]
    assert lines == ["17:51:05.123Z  m1  vm1 to b  setup"]


def test_watch_with_json_is_an_object_a_line(api):
    api.streams = [event("hello", {"sequence": 7}, 7) + event(
        "dropped", {"class": "limit", "message": "too slow"})]
    lines, _ = watch_lines(api, 2, "--json")
    assert [json.loads(line) for line in lines] == [
        {"sequence": 7, "type": "hello"},
        {"class": "limit", "message": "too slow", "type": "dropped"}]


def test_watch_of_one_ends_with_its_report(api):
    api.follow = [migration("setup"), DONE]
    r = ctl(api, "watch", "m1")
    assert r.status == 0 and "setup" in r.err and "completed" in r.out
    api.follow = [FAILED]
    assert ctl(api, "watch", "m1").status == 4


def test_a_refused_stream_is_told(api):
    def refuse(last_event_id):
        raise ConnectionAbortedError
    api.stream = refuse
    Server.handle_error = lambda *args: None
    r = ctl(api, "watch")
    assert r.status == 1 and "no answer from the daemon" in r.err


@pytest.mark.parametrize("option, member", [
    ("--multifd", "multifd_channels"), ("--max-downtime", "max_downtime_ms"),
    ("--timeout", "timeout_seconds"),
    ("--postcopy-after", "postcopy_after_seconds")])
def test_limits_are_those_of_the_api(api, option, member):
    contract = open(os.path.join(SOURCES, "docs/openapi.yaml"),
                    encoding="utf-8").read()
    low, high = map(int, re.search(
        fr"\b{member}:\n(?:.*\n)*?\s+minimum: (\d+)\n\s+maximum: (\d+)\n",
        contract).groups())
    api.answers["POST", "/v1/migrations"] = 409, {"error": {
        "class": "conflict", "side": "source", "message": "m"}}
    for value in (low, high):
        assert ctl(api, *MIGRATE, option, str(value)).status == 3
    assert [body[member] for *_, body in api.requests] == [low, high]
    for value in (low - 1, high + 1):
        assert ctl(api, *MIGRATE, f"{option}={value}").status == 2
    assert len(api.requests) == 2


@pytest.mark.parametrize("text, ms", [
    ("300", 300), ("300ms", 300), ("1.5s", 1500), ("1min", 60000),
    ("1000us", 1)])
def test_a_downtime_may_have_a_unit(api, text, ms):
    api.answers["POST", "/v1/migrations"] = 409, {"error": {
        "class": "conflict", "side": "source", "message": "m"}}
    api.answers["PATCH", "/v1/migrations/m1"] = 409, {"error": {
        "class": "conflict", "side": "source", "message": "m"}}
    assert ctl(api, *MIGRATE, "--max-downtime", text).status == 3
    assert ctl(api, "set", "m1", "--max-downtime", text).status == 3
    assert [body["max_downtime_ms"] for *_, body in api.requests] == [ms, ms]


@pytest.mark.parametrize("name, said", [
    ("unsupported", '--multifd 4 does not go with --mode postcopy'),
    ("internal", '"multifd_channels" 4 does not go with "mode" postcopy')])
def test_a_report_calls_members_by_their_options(api, name, said):
    api.answers["GET", "/v1/migrations/m1"] = 200, {
        "id": "m1", "state": "failed", "error": {
            "class": name, "side": "source", "message":
            '"multifd_channels" 4 does not go with "mode" postcopy'}}
    r = ctl(api, "show", "m1")
    assert f"  error           {said} ({name}, source)\n" in r.out


def test_the_manual_explains_the_states_of_the_stream():
    manual = open(os.path.join(SOURCES, "docs/migproxyctl.1.pod"),
                  encoding="utf-8").read()
    contract = open(os.path.join(SOURCES, "docs/openapi.yaml"),
                    encoding="utf-8").read()
    item = manual.split("=item C<stream>\n")[1].split("=item")[0]
    text = contract.split("\n        stream:\n")[1].split("type:")[0]
    for state in ("head", "ram", "pages", "devices", "end", "opaque"):
        assert f"C<{state}>" in item and state in text
