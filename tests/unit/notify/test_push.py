"""From the log to addresses within one process: the log in memory, receivers on real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import notices
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_wal import MemoryLog, Message
from notify_svc.access import GatewayAccess
from notify_svc.intake import Intake
from notify_svc.pusher import Pusher
from notify_svc.settings import NotifySettings
from notify_svc.subscribers import Subscriber

LOGGER = structlog.get_logger()


def settings(**more: Any) -> NotifySettings:
    quick = {"notify_first_pause": 0.01, "notify_longest_pause": 0.05, "notify_retries": 2}
    return NotifySettings(**(quick | more))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until(condition: Callable[[], bool], within: float = 10) -> bool:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return True


@dataclass
class Receiver:
    port: int
    numbers: list[int] = field(default_factory=list)
    connections: int = 0
    open: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        ours = web.WebSocketResponse()
        await ours.prepare(request)
        self.connections += 1
        self.open += 1
        async for message in ours:
            streams = json.loads(message.data)["streams"]
            self.numbers += [event["n"] for stream in streams for event in stream["events"]]
        self.open -= 1
        return ours


@asynccontextmanager
async def serving(
    port: int, handle: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def pushing(log: MemoryLog, chosen: NotifySettings) -> AsyncIterator[Pusher]:
    async with aiohttp.ClientSession() as session:
        pusher = Pusher(chosen, session, LOGGER)
        intake = Intake(log, chosen, pusher, asyncio.get_running_loop(), LOGGER)
        intake.start()
        try:
            yield pusher
        finally:
            await intake.stop(0.1)
            await pusher.close()


def write(log: MemoryLog, numbers: range, port: int, **more: Any) -> None:
    url = f"ws://127.0.0.1:{port}/"
    found = [Notice("db.s", "0", {"n": n}, (url,), **more) for n in numbers]
    log.append([Message(NOTIFICATIONS.name, b"k", notices.encode(NoticeBatch([n]))) for n in found])


def unread(log: MemoryLog) -> list[int]:
    """Numbers of the events that a restart would read again."""
    with log.subscribe("notify-svc", [NOTIFICATIONS.name], client="probe") as reader:
        records = reader.poll(0)
    return [notices.decode(r.value or b"").notices[0].event["n"] for r in records]  # type: ignore[misc]


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.ensure_topics([NOTIFICATIONS])
    return log


def test_what_is_delivered_is_committed(log: MemoryLog) -> None:
    async def run() -> None:
        receiver = Receiver(free_port())
        async with serving(receiver.port, receiver.handle), pushing(log, settings()):
            write(log, range(10), receiver.port)
            await until(lambda: receiver.numbers == list(range(10)))
        assert unread(log) == []

    asyncio.run(run())


def test_an_event_under_way_holds_the_commit(log: MemoryLog) -> None:
    async def run() -> None:
        receiver = Receiver(free_port())
        async with serving(receiver.port, receiver.handle), pushing(log, settings()) as pusher:
            write(log, range(2), receiver.port)
            write(log, range(2, 3), free_port(), pause_on_failure=True)
            write(log, range(3, 5), receiver.port)
            await until(lambda: receiver.numbers == [0, 1, 3, 4])
            await until(lambda: pusher.waiting == 1)
        assert unread(log) == [2, 3, 4]

    asyncio.run(run())


def test_with_enough_waiting_no_more_is_read_until_it_is_gone(log: MemoryLog) -> None:
    async def run() -> None:
        receiver = Receiver(free_port())
        async with pushing(log, settings(notify_waiting=5)) as pusher:
            write(log, range(5), receiver.port, pause_on_failure=True)
            await until(lambda: pusher.waiting == 5)
            await asyncio.sleep(0.2)  # the poll that is under way ends
            write(log, range(5, 50), receiver.port, pause_on_failure=True)
            await asyncio.sleep(0.5)
            assert pusher.waiting == 5
            async with serving(receiver.port, receiver.handle):
                await until(lambda: receiver.numbers == list(range(50)))

    asyncio.run(run())


def test_an_idle_connection_is_closed_and_opened_anew(log: MemoryLog) -> None:
    async def run() -> None:
        receiver = Receiver(free_port())
        chosen = settings(notify_idle_seconds=0.2)
        async with serving(receiver.port, receiver.handle), pushing(log, chosen) as pusher:
            write(log, range(3), receiver.port)
            await until(lambda: receiver.numbers == [0, 1, 2])
            assert receiver.open == 1
            await until(lambda: receiver.open == 0)
            await until(lambda: pusher.state()["addresses"] == 0)
            write(log, range(3, 5), receiver.port)
            await until(lambda: receiver.numbers == [0, 1, 2, 3, 4])
            assert receiver.connections == 2

    asyncio.run(run())


def test_a_subscriber_misses_what_it_has_no_room_for() -> None:
    async def run() -> None:
        subscriber = Subscriber("db.s", frozenset({"WINDOW_CLOSE"}), "1", limit=2)
        for n, (kind, group) in enumerate(
            [("WINDOW_CLOSE", "1"), ("WINDOW_OPEN", "1"), ("WINDOW_CLOSE", "2")] * 4
        ):
            subscriber.offer(Notice("db.s", group, {"eventType": kind, "n": n}))
        events, missed = await subscriber.take()
        assert [json.loads(e.event)["n"] for e in events] == [0, 3]
        assert missed == 2
        subscriber.offer(Notice("db.s", "1", {"eventType": "WINDOW_CLOSE", "n": 99}))
        events, missed = await subscriber.take()
        assert [json.loads(e.event)["n"] for e in events] == [99]
        assert missed == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "body", "allowed"),
    [
        (200, '{"code":0,"data":[]}', True),
        (401, '{"code":855}', False),
        (403, "", False),
        (200, '{"code":855,"desc":"Authentication failure"}', False),
        (200, '{"code":-2147482793}', False),
        (503, '{"code":11}', None),
        (200, "<html>", None),
    ],
)
def test_the_gateways_answer_decides(status: int, body: str, allowed: bool | None) -> None:
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append((request.headers["Authorization"], request.path))
        return web.Response(status=status, text=body)

    async def run() -> None:
        port = free_port()
        async with serving(port, answer), aiohttp.ClientSession() as session:
            access = GatewayAccess(f"http://127.0.0.1:{port}", session)
            for _ in range(2):
                if allowed is None:
                    with pytest.raises(MillraceError) as caught:
                        await access("Bearer abc")
                    assert caught.value.code is ErrorCode.UNAVAILABLE
                else:
                    assert await access("Bearer abc") is allowed
            assert await access("") is False

    asyncio.run(run())
    # only a yes is remembered
    assert asked == [("Bearer abc", "/rest/sql")] * (1 if allowed else 2)


def test_no_gateway_is_told_from_a_refusal() -> None:
    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(MillraceError) as caught:
                await GatewayAccess(f"http://127.0.0.1:{free_port()}", session)("Basic abc")
            assert caught.value.code is ErrorCode.UNAVAILABLE

    asyncio.run(run())
