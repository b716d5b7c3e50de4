"""Clients that open a connection and are slow, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi import FastAPI, Request

from millrace_service import patience
from millrace_service.patience import PatientProtocol

REQUEST = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            app, http=PatientProtocol, h11_max_incomplete_event_size=4096, log_config=None, lifespan="off"
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "HEAD_SECONDS", 0.4)
        patch.setattr(patience, "BODY_SECONDS", 0.4)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def client(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as found:
        yield found


def cut_off(client: socket.socket) -> bool:
    try:
        return client.recv(4096) == b""
    except ConnectionResetError:
        return True


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
def test_who_does_not_go_on_is_cut_off(client: socket.socket, begun: bytes) -> None:
    client.sendall(begun)
    assert cut_off(client)


def test_a_body_that_trickles_is_cut_off(client: socket.socket) -> None:
    client.sendall(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n")
    client.settimeout(0.02)
    for _ in range(3000):
        try:
            client.sendall(b"x")
            assert client.recv(10) == b""
            return
        except TimeoutError:
            continue
        except OSError:
            return
    raise AssertionError("it goes on for ever")


def test_who_asks_again_after_a_while_is_answered(client: socket.socket) -> None:
    client.sendall(REQUEST)
    assert answer(client).startswith(b"HTTP/1.1 200")
    time.sleep(1)  # the time itself is what is tested: idle connections are kept for longer
    client.sendall(REQUEST)
    assert answer(client).startswith(b"HTTP/1.1 200")
    client.sendall(REQUEST[:30])
    assert cut_off(client)


def test_a_head_has_an_end(client: socket.socket) -> None:
    client.sendall(b"POST /echo HTTP/1.1\r\nx: " + b"y" * 10_000)
    assert client.recv(4096).startswith(b"HTTP/1.1 400")
