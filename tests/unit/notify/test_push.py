"""From the log to addresses within one process: the log in memory, receivers on real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal import MemoryLog
from notify_svc.access import GatewayAccess


def test_what_is_delivered_is_committed(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with lab.serving(receiver.port, receiver.handle), lab.pushing(log, lab.settings()):
            lab.write(log, range(10), receiver.port)
            await lab.until(lambda: receiver.numbers == list(range(10)))
        assert lab.unread(log) == []

    asyncio.run(run())


def test_an_event_under_way_holds_the_commit(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with lab.serving(receiver.port, receiver.handle), lab.pushing(log, lab.settings()) as pusher:
            lab.write(log, range(2), receiver.port)
            lab.write(log, range(2, 3), lab.free_port(), pause_on_failure=True)
            lab.write(log, range(3, 5), receiver.port)
            await lab.until(lambda: receiver.numbers == [0, 1, 3, 4])
            await lab.until(lambda: pusher.waiting == 1)
        assert lab.unread(log) == [2, 3, 4]

    asyncio.run(run())


def test_with_enough_waiting_no_more_is_read_until_it_is_gone(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port(), held=True)
        chosen = lab.settings(notify_waiting=5)
        async with lab.serving(receiver.port, receiver.handle), lab.pushing(log, chosen) as pusher:
            lab.write(log, range(5), receiver.port)
            await lab.until(lambda: pusher.waiting == 5)
            await asyncio.sleep(0.2)  # the poll that is under way ends
            lab.write(log, range(5, 50), receiver.port)
            await asyncio.sleep(0.4)
            assert pusher.waiting == 5
            receiver.let_go.set()
            await lab.until(lambda: receiver.numbers == list(range(50)))

    asyncio.run(run())


def test_an_idle_connection_is_closed_and_opened_anew(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        chosen = lab.settings(notify_idle_seconds=0.2)
        async with lab.serving(receiver.port, receiver.handle), lab.pushing(log, chosen) as pusher:
            lab.write(log, range(3), receiver.port)
            await lab.until(lambda: receiver.numbers == [0, 1, 2])
            assert receiver.open == 1
            await lab.until(lambda: receiver.open == 0)
            await lab.until(lambda: pusher.state()["addresses"] == 0)
            lab.write(log, range(3, 5), receiver.port)
            await lab.until(lambda: receiver.numbers == [0, 1, 2, 3, 4])
            assert receiver.connections == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (200, '{"name":"db.s"}', None),
        (401, '{"code":"AUTHENTICATION","message":"Authentication failure"}', ErrorCode.AUTHENTICATION),
        (403, "", ErrorCode.PERMISSION),
        (
            404,
            '{"code":"UNKNOWN_STREAM","message":"no stream db.s"}',
            ErrorCode.UNKNOWN_STREAM,
        ),
        (503, '{"code":11}', ErrorCode.UNAVAILABLE),
        (302, "<html>", ErrorCode.UNAVAILABLE),
    ],
)
def test_the_gateways_answer_decides(lab: Any, status: int, body: str, code: ErrorCode | None) -> None:
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append((request.headers["Authorization"], request.raw_path))
        return web.Response(status=status, text=body)

    async def run() -> None:
        port = lab.free_port()
        async with lab.serving(port, answer), aiohttp.ClientSession() as session:
            access = GatewayAccess(f"http://127.0.0.1:{port}", session, 60)
            for _ in range(2):
                if code is None:
                    await access("Bearer abc", "db.a/b")
                else:
                    with pytest.raises(MillraceError) as caught:
                        await access("Bearer abc", "db.a/b")
                    assert caught.value.code is code
            with pytest.raises(MillraceError) as caught:
                await access("Digest abc", "db.a/b")
            assert caught.value.code is ErrorCode.AUTHENTICATION

    asyncio.run(run())
    # only a yes is remembered
    assert asked == [("Bearer abc", "/api/v1/streams/db.a%2Fb/subscription")] * (1 if code is None else 2)


def test_a_yes_is_for_one_stream_and_one_caller(lab: Any) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        good = (
            request.path.endswith("/db.mine/subscription") and request.headers["Authorization"] == "Bearer me"
        )
        return web.Response(status=200 if good else 404)

    async def run() -> None:
        port = lab.free_port()
        async with lab.serving(port, answer), aiohttp.ClientSession() as session:
            access = GatewayAccess(f"http://127.0.0.1:{port}", session, 60)
            await access("Bearer me", "db.mine")
            for header, stream in (("Bearer me", "db.other"), ("Bearer you", "db.mine")):
                with pytest.raises(MillraceError):
                    await access(header, stream)

    asyncio.run(run())
    assert len(asked) == 3


def test_no_gateway_is_told_from_a_refusal(lab: Any) -> None:
    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(MillraceError) as caught:
                await GatewayAccess(f"http://127.0.0.1:{lab.free_port()}", session, 60)("Basic abc", "db.s")
            assert caught.value.code is ErrorCode.UNAVAILABLE

    asyncio.run(run())
