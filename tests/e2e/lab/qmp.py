# SPDX-License-Identifier: BSD-3-Clause
"""A small QMP client for assertions: the second monitor of a QEMU."""
import json
import socket
import time

from .wait import Timeout, stretch

REPLY_S = 10
RECEIVE_BYTES = 65536


class QmpError(Exception):
    """QEMU refused a command."""

    def __init__(self, command, error):
        super().__init__(f"{command}: {error['class']}: {error['desc']}")
        self.error_class = error["class"]


class Qmp:
    """One connection. Events are kept in order in .events, with the host's
    time of arrival as "at" (time.monotonic())."""

    def __init__(self, path, oob=True):
        self.path = str(path)
        self.events = []
        self._next_id = 0
        self._buffer = b""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(stretch(REPLY_S))
        self._socket.connect(self.path)
        greeting = self._read("greeting", REPLY_S)
        self.version = greeting["QMP"]["version"]["qemu"]
        can_oob = "oob" in greeting["QMP"]["capabilities"]
        self.command("qmp_capabilities",
                     **({"enable": ["oob"]} if oob and can_oob else {}))

    def close(self):
        self._socket.close()

    def command(self, name, _seconds=REPLY_S, _oob=False, **arguments):
        """The command's return value; QmpError or Timeout."""
        self._next_id += 1
        request = {"exec-oob" if _oob else "execute": name,
                   "id": self._next_id}
        if arguments:
            request["arguments"] = {key.rstrip("_").replace("_", "-"): value
                                    for key, value in arguments.items()}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            message = self._read(f"reply to {name}", _seconds)
            if message.get("id") != self._next_id:
                continue
            if "error" in message:
                raise QmpError(name, message["error"])
            return message["return"]

    def wait_event(self, name, seconds, match=None, since=0):
        """The first event of that name, from event number since on, whose
        data has what match holds."""
        deadline = time.monotonic() + stretch(seconds)
        seen = since
        while True:
            for event in self.events[seen:]:
                data = event.get("data", {})
                if event["event"] == name and all(
                        data.get(key) == value
                        for key, value in (match or {}).items()):
                    return event
            seen = len(self.events)
            left = deadline - time.monotonic()
            if left <= 0:
                raise Timeout(f"no event {name} {match or ''} within "
                              f"{stretch(seconds):g} s on {self.path}; had "
                              f"{[event['event'] for event in self.events]}")
            try:
                self._read(f"event {name}", left, stretched=True)
            except Timeout:
                pass

    def drain(self):
        """Takes in the events that have arrived."""
        self.command("query-name")

    def status(self):
        return self.command("query-status")["status"]

    def running(self):
        return self.command("query-status")["running"]

    def migration(self):
        return self.command("query-migrate")

    def set_capabilities(self, **on_or_off):
        self.command("migrate-set-capabilities", capabilities=[
            {"capability": key.replace("_", "-"), "state": value}
            for key, value in on_or_off.items()])

    def capabilities(self):
        return {item["capability"]: item["state"]
                for item in self.command("query-migrate-capabilities")}

    def _read(self, what, seconds, stretched=False):
        """One message; events are also kept."""
        seconds = seconds if stretched else stretch(seconds)
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Timeout(f"no {what} within {seconds:g} s on {self.path}")
            self._socket.settimeout(left)
            try:
                chunk = self._socket.recv(RECEIVE_BYTES)
            except socket.timeout:
                continue
            if not chunk:
                raise ConnectionError(f"{self.path}: closed, no {what}")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        message = json.loads(line)
        if "event" in message:
            message["at"] = time.monotonic()
            self.events.append(message)
        return message
