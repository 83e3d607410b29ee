# SPDX-License-Identifier: BSD-3-Clause
"""A fake daemon for migproxyctl: an HTTP server on a unix socket."""
import http.server
import json
import os
import pty
import select
import signal
import socketserver
import subprocess
import threading
import time

import pytest

BUILD = os.environ.get("builddir", "build")
CTL = os.path.join(BUILD, "migproxyctl")
DEADLINE = 60  # of any call


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *args):
        pass

    def answer(self):
        size = int(self.headers.get("Content-Length", 0))
        text = self.rfile.read(size).decode()
        body = json.loads(text) if text else None
        status, answer = self.server.api.take(self.command, self.path, body)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if not self.path.startswith("/v1/events"):
            self.answer()
            return
        stream = self.server.api.stream(self.headers.get("Last-Event-ID"))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(stream.encode())
        self.close_connection = True

    do_POST = do_PATCH = do_DELETE = answer


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 50


class Api:
    """The fake daemon. follow: what GET of a migration answers, one after the
    other; the last stays. answers: (method, path) -> (status, object)."""

    def __init__(self, path):
        self.path = path
        self.requests = []
        self.answers = {}
        self.follow = []
        self.on_cancel = None
        self.streams = []  # one a connection; none left: it is refused
        self.resumed = []  # Last-Event-ID of each
        self.server = None

    def start(self):
        self.server = Server(self.path, Handler)
        self.server.api = self
        threading.Thread(target=self.server.serve_forever,
                         kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.path)

    def take(self, method, path, body):
        self.requests.append((method, path, body))
        if (method, path) in self.answers:
            return self.answers[method, path]
        if method == "POST" and path.endswith("/cancel") and self.on_cancel:
            return self.on_cancel()
        if method == "POST":
            return 201, migration("preparing")
        answer = self.follow.pop(0) if len(self.follow) > 1 else self.follow[0]
        return answer if isinstance(answer, tuple) else (200, answer)

    def stream(self, last_event_id):
        self.resumed.append(last_event_id)
        return self.streams.pop(0) if self.streams else ""

    def paths(self, method="POST"):
        return [path for m, path, _ in self.requests if m == method]


def migration(state, result=None, **members):
    return {"id": "m1", "vm": "vm1", "role": "source", "peer": "b",
            "state": state, "result": result, "refused": False,
            "guest_is_on": "source", "error": None, "advice": None, **members}


def precopy(percent, **progress):
    return migration("precopy", progress={
        "percent": percent, "rate_bytes_per_second": 118200000,
        "dirty_rate_bytes_per_second": 12300000, "eta_seconds": 3.2,
        "converging": True, **progress})


DONE = migration(
    "completed", "completed", guest_is_on="destination", elapsed_ms=12300,
    mode="precopy", preempt=False,
    downtime={"blackout_us": 14200, "uncertainty_us": 300},
    totals={"wire_sent_bytes": 1 << 30, "wire_received_bytes": 4096,
            "page_requests": 0, "precopy_bytes": 1 << 30, "postcopy_bytes": 0},
    path={"rtt_us": 250, "window_bytes": 65536,
          "rate_bytes_per_second": 125000000},
    started_at="2026-11-30T17:51:05.123456Z", stream="ram")
FAILED = migration("failed", "failed", error={
    "class": "link-lost", "message": "the link broke", "side": "source"},
    advice="look at the network")


@pytest.fixture
def api(tmp_path):
    fake = Api(str(tmp_path / "s"))
    fake.start()
    yield fake
    if fake.server:
        fake.stop()


class Result:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr


def run(*args, env=None):
    done = subprocess.run([CTL, *args], capture_output=True, text=True,
                          timeout=DEADLINE, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})})
    return Result(done)


def ctl(api, *args):
    return run("--api", api.path, *args)


MIGRATE = ("migrate", "--vm", "vm1", "--to", "b")
