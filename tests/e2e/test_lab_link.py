# SPDX-License-Identifier: BSD-3-Clause
"""The lab's network path: what the failure tests rest on."""
import socket
import threading
import time

import pytest

from lab import Link

WAIT_S = 10


@pytest.fixture
def echo_port():
    """A server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve_one(peer):
        with peer:
            try:
                while data := peer.recv(65536):
                    peer.sendall(data)
            except OSError:
                pass

    def serve():
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve_one, args=(peer,),
                             daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.fixture
def link(echo_port):
    path = Link(echo_port)
    yield path
    path.close()


def connect(link):
    return socket.create_connection(("127.0.0.1", link.port), WAIT_S)


def echo(client, data=b"hello"):
    client.sendall(data)
    got = b""
    while len(got) < len(data):
        got += client.recv(65536)
    return got == data


def test_relay_and_end(link):
    with connect(link) as client:
        assert echo(client)
        assert link.connections == 1
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert link.forwarded_bytes == 10


def test_cut_resets_and_refuses(link):
    with connect(link) as client:
        assert echo(client)
        link.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(link)
    link.heal()
    with connect(link) as client:
        assert echo(client)


def test_stall_keeps_and_delivers_later(link):
    with connect(link) as client:
        assert echo(client)
        link.stall()
        client.sendall(b"later")
        client.settimeout(0.3)
        with pytest.raises(socket.timeout):
            client.recv(5)
        client.settimeout(WAIT_S)
        link.heal()
        assert client.recv(5) == b"later"


def test_rate(link):
    link.set_rate(1 << 20)
    with connect(link) as client:
        start = time.monotonic()
        assert echo(client, bytes(1 << 19))
        assert 0.4 < time.monotonic() - start < WAIT_S


def test_delay_is_of_each_direction(link):
    link.set_delay(0.1)
    with connect(link) as client:
        start = time.monotonic()
        assert echo(client, bytes(1 << 19))
        # in a row, not one after the other: 8 pieces or more
        assert 0.2 <= time.monotonic() - start < 1.6
