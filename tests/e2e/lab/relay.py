# SPDX-License-Identifier: BSD-3-Clause
"""A QEMU's monitor whose talk can be held back at a chosen message."""
import json
import os
import select
import socket
import threading

RECEIVE_BYTES = 65536
POLL_S = 0.05


class MonitorRelay:
    """Listens at path, as a QEMU would, and relays to the monitor at target.

    From the first message for which hold(message, seen) is true nothing is
    passed on any more in either direction, that message neither, and nothing
    is closed: to its client, QEMU is silent. seen has the texts of what was
    passed. message is a dict of QMP, of either side.
    """

    def __init__(self, path, target, hold):
        self.path = str(path)
        self.held = threading.Event()
        self._target = str(target)
        self._hold = hold
        self._seen = []
        self._stop = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o600)
        self._listener.listen(8)
        self._listener.settimeout(POLL_S)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._stop = True
        self._thread.join()
        self._listener.close()
        os.unlink(self.path)

    def _serve(self):
        while not self._stop:
            try:
                client, _ = self._listener.accept()
            except socket.timeout:
                continue
            with client, socket.socket(socket.AF_UNIX) as qemu:
                qemu.connect(self._target)
                self._relay(client, qemu)

    def _relay(self, client, qemu):
        """Until either side closes. One client at a time, as QEMU has it."""
        other = {client: qemu, qemu: client}
        rest = {client: b"", qemu: b""}
        while not self._stop:
            for end in select.select([client, qemu], [], [], POLL_S)[0]:
                try:
                    data = end.recv(RECEIVE_BYTES)
                except ConnectionResetError:
                    data = b""
                if not data:
                    return
                *lines, rest[end] = (rest[end] + data).split(b"\n")
                for line in lines:
                    self._pass(line, other[end])

    def _pass(self, line, to):
        text = line.decode()
        if not self.held.is_set() and text.strip() and self._hold(
                json.loads(text), self._seen):
            self.held.set()
        if self.held.is_set():
            return
        self._seen.append(text)
        try:
            to.sendall(line + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the other end's reading tells
