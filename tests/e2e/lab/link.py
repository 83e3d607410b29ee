# SPDX-License-Identifier: BSD-3-Clause
"""A network path that can be cut, stalled and slowed: a TCP relay."""
import asyncio
import socket
import struct
import threading

CHUNK_BYTES = 65536
CALL_S = 10
# on their way at once, in a direction of a connection that is delayed
DELAYED_CHUNKS = 1024
# an RST instead of a FIN when closed
LINGER_RESET = struct.pack("ii", 1, 0)


class Link:
    """Listens on .port and relays to 127.0.0.1:target_port.

    cut():   all connections are reset, new ones refused (a dead host)
    stall(): nothing moves and nothing is closed (a pulled cable)
    heal():  as at the start
    set_delay(seconds): of each direction, of connections made from now on
    set_rate(bytes_per_second): of each direction of all connections; None
             for unlimited
    """

    def __init__(self, target_port, port=0):
        self.target_port = target_port
        self.port = port
        self.forwarded_bytes = 0
        self.accepted = 0
        self._writers = set()
        self._rate = None
        self._delay = 0
        self._budget_at = {}   # per direction: when its budget is free again
        self._server = None
        self._gate = None      # closed while stalled
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever,
                                        daemon=True)
        self._thread.start()
        self._call(self._open())

    def cut(self):
        self._call(self._cut())

    def stall(self):
        self._call(self._stall())

    def heal(self):
        self._call(self._open())

    def set_rate(self, bytes_per_second):
        self._rate = bytes_per_second

    def set_delay(self, seconds):
        self._delay = seconds

    @property
    def connections(self):
        return len(self._writers) // 2

    def close(self):
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # in the loop's thread

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(
            coroutine, self._loop).result(CALL_S)

    async def _open(self):
        if not self._gate:
            self._gate = asyncio.Event()
        self._gate.set()
        if not self._server:
            self._server = await asyncio.start_server(
                self._accept, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _stall(self):
        self._gate.clear()

    async def _cut(self):
        if self._server:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            self._reset(writer)

    async def _close(self):
        await self._cut()
        tasks = [task for task in asyncio.all_tasks()
                 if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _reset(self, writer):
        self._writers.discard(writer)
        try:
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        except OSError:
            pass  # its other end has closed it already
        writer.transport.abort()

    async def _accept(self, reader, writer):
        self.accepted += 1
        self._writers.add(writer)
        far = None
        try:
            await self._gate.wait()
            far_reader, far = await asyncio.open_connection(
                "127.0.0.1", self.target_port)
            self._writers.add(far)
            if writer not in self._writers:  # cut meanwhile
                self._reset(far)
                return
            await asyncio.gather(self._relay(reader, far, "there"),
                                 self._relay(far_reader, writer, "back"))
        except OSError:
            pass
        finally:
            for end in (writer, far):
                if end in self._writers:
                    self._reset(end)

    async def _relay(self, reader, writer, direction):
        if not self._delay:
            await self._move(lambda: reader.read(CHUNK_BYTES), writer, direction)
            return
        queue = asyncio.Queue(DELAYED_CHUNKS)
        taking = self._loop.create_task(
            self._take(reader, queue, self._delay))

        async def read_late():
            due, data = await queue.get()
            await asyncio.sleep(due - self._loop.time())
            return data

        try:
            await self._move(read_late, writer, direction)
        finally:
            taking.cancel()

    async def _take(self, reader, queue, delay):
        data = None
        while data != b"":
            try:
                data = await reader.read(CHUNK_BYTES)
            except OSError:  # its other direction tells
                data = b""
            await queue.put((self._loop.time() + delay, data))

    async def _move(self, read, writer, direction):
        while True:
            data = await read()
            await self._gate.wait()
            if not data:
                break
            await self._pace(direction, len(data))
            writer.write(data)
            self.forwarded_bytes += len(data)
            await writer.drain()
        writer.write_eof()

    async def _pace(self, direction, size_bytes):
        if not self._rate:
            return
        now = self._loop.time()
        free_at = max(now, self._budget_at.get(direction, 0))
        self._budget_at[direction] = free_at + size_bytes / self._rate
        await asyncio.sleep(free_at - now)
