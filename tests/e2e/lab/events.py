# SPDX-License-Identifier: BSD-3-Clause
"""A follower of GET /v1/events."""
import json
import socket
import threading

from .wait import wait_for


class Events:
    """Reads in a thread from now on. seen: (type, id or None, data)."""

    def __init__(self, daemon, after=None):
        self.seen = []
        self.ended = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(daemon.api_path))
        resume = f"Last-Event-ID: {after}\r\n" if after is not None else ""
        self._socket.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\n{resume}"
                             "\r\n".encode())
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.wait(lambda: self.of("hello"), "hello")

    def _read(self):
        event = {}
        with self._socket.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                name, _, value = line.rstrip("\r\n").partition(": ")
                if name in ("id", "event", "data"):
                    event[name] = value
                elif not line.strip() and "data" in event:
                    number = event.get("id")
                    self.seen.append((event["event"],
                                      int(number) if number else None,
                                      json.loads(event["data"])))
                    event = {}
        self.ended = True

    def of(self, kind):
        """[(id, data)] of the events of that type so far."""
        return [(number, data) for seen, number, data in self.seen
                if seen == kind]

    def states(self, migration):
        """What was told of one migration: its states, each once."""
        states = []
        for _, data in self.of("migration"):
            if data["migration"]["id"] == migration:
                state = data["migration"]["state"]
                if states[-1:] != [state]:
                    states.append(state)
        return states

    def wait(self, condition, what, seconds=30):
        return wait_for(f"event: {what}", condition, seconds,
                        lambda: self.seen[-5:])

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()
