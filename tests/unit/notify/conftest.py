"""A log in memory, receivers on real sockets, and notify-svc's parts between them."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web

from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.trigger.types import Period
from millrace_core.wire import notices, status
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import CATALOG, NOTIFICATIONS, STATUS
from millrace_service import Life
from millrace_wal import MemoryLog, Message
from notify_svc.intake import Intake
from notify_svc.network import connector
from notify_svc.pusher import Pusher
from notify_svc.settings import NotifySettings

LOGGER = structlog.get_logger()


def settings(**more: Any) -> NotifySettings:
    quick = {"notify_first_pause": 0.01, "notify_longest_pause": 0.05, "notify_retries": 2}
    quick["service_token"] = "a-token-of-these-tests"
    receivers = {"notify_allow": "127.0.0.0/8, ::1/128"}
    return NotifySettings(**(quick | receivers | more))


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
    held: bool = False
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        ours = web.WebSocketResponse()
        await ours.prepare(request)
        self.connections += 1
        self.open += 1
        if self.held:
            await self.let_go.wait()
        async for message in ours:
            streams = json.loads(message.data)["streams"]
            self.numbers += [event["n"] for stream in streams for event in stream["events"]]
        self.open -= 1
        return ours


@asynccontextmanager
async def serving(
    port: int,
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
    certificate: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=certificate).start()
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def pushing(log: MemoryLog, chosen: NotifySettings, *, kill: bool = False) -> AsyncIterator[Pusher]:
    """``kill``: in the end nothing is delivered, told or committed any more."""
    async with aiohttp.ClientSession(connector=connector(chosen)) as session:
        pusher = Pusher(chosen, session, LOGGER)
        intake = Intake(log, chosen, pusher, asyncio.get_running_loop(), LOGGER)
        life = Life(intake, LOGGER)
        life.start()
        try:
            yield pusher
        finally:
            if kill:
                await pusher.close()
                intake._settle = lambda reader: None  # type: ignore[method-assign]
            else:
                await intake.drain(0.1)
            await asyncio.to_thread(life.stop)
            if not kill:
                await pusher.close()


def write(
    log: MemoryLog,
    numbers: range,
    *ports: int,
    uid: int = 7,
    scheme: str = "ws",
    host: str = "127.0.0.1",
    group: str = "0",
    **more: Any,
) -> None:
    urls = tuple(f"{scheme}://{host}:{port}/" for port in ports)
    found = [Notice("db.s", group, {"eventType": "WINDOW_CLOSE", "n": n}, urls, **more) for n in numbers]
    key = f"{uid}/{group}".encode()
    log.append([Message(NOTIFICATIONS.name, key, notices.encode(NoticeBatch([n], uid))) for n in found])


def paused(log: MemoryLog) -> dict[int, str]:
    """The paused streams and why, as the ``status`` topic says."""
    found: dict[bytes, bytes | None] = {}
    for record in log.reader({STATUS.name: {0: 0}}).poll(0):
        found[record.key or b""] = record.value
    texts = [status.decode(value) for value in found.values() if value is not None]
    return {one.stream: one.message for one in texts if isinstance(one, status.StreamPaused)}


def stream(log: MemoryLog, uid: int, *, dropped: bool = False) -> None:
    """What the catalog says of a stream."""
    entry = StreamEntry(StreamSpec(uid, "db", f"s{uid}", "", Period(Duration(1, "s"))), "Running", 0, 0)
    log.append([Message(CATALOG.name, key_of(entry), None if dropped else encode(entry))])


def unread(log: MemoryLog) -> list[int]:
    """Numbers of the events that a restart would read again."""
    with log.subscribe("notify-svc", [NOTIFICATIONS.name]) as reader:
        records = reader.poll(0)
    return [notices.decode(r.value or b"").notices[0].event["n"] for r in records]  # type: ignore[misc]


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.ensure_topics([NOTIFICATIONS, CATALOG, STATUS])
    for uid in (7, 8):
        stream(log, uid)
    return log


@pytest.fixture
def lab() -> Any:
    """What the tests beside this module use, which they cannot import."""
    return SimpleNamespace(
        settings=settings, free_port=free_port, until=until, Receiver=Receiver, serving=serving,
        pushing=pushing, write=write, unread=unread, paused=paused, stream=stream, logger=LOGGER,
    )  # fmt: skip
