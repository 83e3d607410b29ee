# SPDX-License-Identifier: BSD-3-Clause
"""What two QEMUs say to each other in a migration, written down."""
import pathlib
import socket
import threading

RECEIVE_BYTES = 1 << 17
SMALL_BUFFER_BYTES = 1 << 16
JOIN_S = 10


class Recorder:
    """Listens at .path and relays each connection to the QEMU at target.

    Connection N leaves directory/N.forward and directory/N.back. With
    small=True little is held between the QEMUs, so that the destination asks
    for pages that are still to come.
    """

    def __init__(self, directory, target, small=True):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.path = str(self.directory / "socket")
        self._target = str(target)
        self._small = small
        self._pairs = []
        self._threads = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(32)
        self._start(self._serve)

    def _start(self, run, *args):
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self):
        while True:
            try:
                source, _ = self._listener.accept()
            except OSError:
                return
            destination = socket.socket(socket.AF_UNIX)
            if self._small:
                destination.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF,
                                       SMALL_BUFFER_BYTES)
            destination.connect(self._target)
            number = len(self._pairs)
            self._pairs.append((source, destination))
            self._start(self._pass, source, destination,
                        self.file(number, "forward"))
            self._start(self._pass, destination, source,
                        self.file(number, "back"))

    @staticmethod
    def _pass(of, to, path):
        with open(path, "wb") as file:
            while True:
                try:
                    data = of.recv(RECEIVE_BYTES)
                    file.write(data)
                    if not data:
                        to.shutdown(socket.SHUT_WR)
                        return
                    to.sendall(data)
                except OSError:
                    return

    def file(self, number, direction):
        return self.directory / f"{number}.{direction}"

    def count(self):
        return len(self._pairs)

    def cut(self):
        """Breaks all connections; listens on."""
        for pair in self._pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        """Ends what is left; all files are complete then. Twice is once."""
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(JOIN_S)
        for pair in self._pairs:
            for end in pair:
                end.close()
