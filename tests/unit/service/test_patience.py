"""Clients that open a connection and are slow: over real sockets, to a server whose clock the tests step."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
from fastapi import FastAPI, Request

from millrace_service.web.patience import BODY_SECONDS, HEAD_BYTES, HEAD_SECONDS
from millrace_service.web.serve import KEEP_ALIVE, server_of

REQUEST = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
KEPT_BY_HTTPX = 5
LOOK = min(HEAD_SECONDS, BODY_SECONDS) / 4


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead

    def step(self, seconds: float) -> None:
        """From another thread: the loop reads what has come, then that much time passes."""
        asyncio.run_coroutine_threadsafe(self._step(seconds), self).result(30)

    async def _step(self, seconds: float) -> None:
        for passing in (0, seconds):
            self.ahead += passing
            for _ in range(5):
                await asyncio.sleep(0)


class Served:
    """A server on a clock of its own."""

    def __init__(self, app: FastAPI) -> None:
        self.loop = SteppedLoop()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._server = server_of(app, "127.0.0.1", 0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.loop.run_until_complete(self._server.serve([self._listening]))
        self.loop.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self._listening.getsockname(), timeout=30)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    found = Served(app)
    yield found
    found.stop()


@pytest.fixture
def client(server: Served) -> Iterator[socket.socket]:
    with server.connect() as found:
        server.loop.step(0)
        yield found


def cut_off(client: socket.socket) -> bool:
    """Whether the server has closed the connection by now."""
    client.setblocking(False)
    try:
        return client.recv(4096) == b""
    except ConnectionResetError:
        return True
    except BlockingIOError:
        return False
    finally:
        client.settimeout(30)


def steps_until_cut_off(server: Served, client: socket.socket) -> int:
    for step in range(1, 100):
        server.loop.step(LOOK)
        if cut_off(client):
            return step
    raise AssertionError("it is kept for ever")


def answer(client: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\r\n\r\n5"):
        part = client.recv(4096)
        assert part, found
        found += part
    return found


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"POST /echo HTTP/1.1\r\nhost: x\r\n",
        b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nab",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_does_not_go_on_is_cut_off(server: Served, client: socket.socket, begun: bytes) -> None:
    client.sendall(begun)
    assert 4 <= steps_until_cut_off(server, client) <= 6


def test_a_body_that_trickles_is_cut_off(server: Served, client: socket.socket) -> None:
    client.sendall(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n")
    for second in range(1, 100):
        client.sendall(b"x")
        server.loop.step(1)
        if cut_off(client):
            assert second >= BODY_SECONDS
            return
    raise AssertionError("it goes on for ever")


def test_a_body_that_is_slow_but_comes_is_read(server: Served, client: socket.socket) -> None:
    client.sendall(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 600000\r\n\r\n")
    for _ in range(60):
        client.sendall(b"x" * 10_000)
        server.loop.step(1)
    assert client.recv(4096).startswith(b"HTTP/1.1 200")


def test_an_idle_connection_outlives_what_httpx_keeps(server: Served, client: socket.socket) -> None:
    for seconds in (0, KEPT_BY_HTTPX + 1, HEAD_SECONDS + LOOK, KEEP_ALIVE - 1):
        server.loop.step(seconds)
        client.sendall(REQUEST)
        assert answer(client).startswith(b"HTTP/1.1 200")
    server.loop.step(KEEP_ALIVE + 1)
    assert cut_off(client)


def test_who_begins_to_ask_again_and_does_not_go_on_is_cut_off(server: Served, client: socket.socket) -> None:
    client.sendall(REQUEST)
    assert answer(client).startswith(b"HTTP/1.1 200")
    client.sendall(REQUEST[:30])
    assert 4 <= steps_until_cut_off(server, client) <= 6


def test_a_head_has_an_end(client: socket.socket) -> None:
    client.sendall(b"POST /echo HTTP/1.1\r\nx: " + b"y" * (2 * HEAD_BYTES))
    assert client.recv(4096).startswith(b"HTTP/1.1 400")
