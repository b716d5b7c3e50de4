"""The service: puts its parts together, and has its WebSocket endpoint."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import get_args

import aiohttp
import msgspec
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse
from structlog.typing import FilteringBoundLogger

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.stream import EventType
from millrace_core.notice import position
from millrace_core.notice.message import compose
from millrace_core.notice.position import Positions
from millrace_core.timeline.precision import milliseconds
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_service import Health, Life, Lives, start_tracing
from millrace_service.web import service_app
from millrace_wal import Log
from notify_svc import metrics
from notify_svc.access import Admit, GatewayAccess
from notify_svc.feed import Feed
from notify_svc.intake import Intake
from notify_svc.network import connector, inside
from notify_svc.pusher import Pusher
from notify_svc.settings import NotifySettings
from notify_svc.subscribers import Subscriber

_QUERY = {"event", "group", "after"}
_POSITION = b"x-millrace-position"
"""Header of the answer to a subscriber: where it begins, in case it is cut off before its first message."""
_POLICY, _REASON = 1008, 123
"""Close code for a subscriber that may no longer listen, and how long a reason may be (RFC 6455)."""
_LOOK = 5.0
"""Seconds between looks at whether the broker answers."""


@dataclass
class _Parts:
    pusher: Pusher
    intake: Intake
    feed: Feed
    admit: Admit
    lives: Lives
    reading: Life
    broker: str = ""
    """Why the broker cannot be used; empty when it answers."""


def notify_app(
    settings: NotifySettings, open_log: Callable[[], Log], logger: FilteringBoundLogger
) -> FastAPI:
    """The app. It starts even while the broker is away, but is not ready then."""
    running: list[_Parts] = []

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        log, tracing = open_log(), start_tracing(settings, "notify-svc")
        async with _session(connector(settings)) as session, _session(inside(settings)) as asking:
            pusher = Pusher(settings, session, logger)
            intake = Intake(log, settings, pusher, asyncio.get_running_loop(), logger, tracing)
            access = GatewayAccess(settings.gateway_url, asking, settings.notify_access_seconds)
            lives = Lives(logger, settings.stall_seconds)
            reading = lives.add(intake, intake.look)
            feed = Feed(log, logger, settings.notify_catch_ups, tracing)
            parts = _Parts(pusher, intake, feed, access, lives, reading)
            lives.start()
            looking = asyncio.create_task(_look(log, parts))
            running.append(parts)
            yield
            looking.cancel()
            await intake.drain(settings.stop_seconds)
            await asyncio.to_thread(lives.stop)
            await pusher.close()
        tracing.close()
        log.close()

    app = service_app("notify-svc", lambda: _health(running), lifespan, token=settings.token)

    @app.websocket("/api/v1/streams/{name}/events")
    async def events(socket: WebSocket, name: str) -> None:
        try:
            feed, admit = running[0].feed, running[0].admit
            subscriber = await _admit(socket, name, admit, settings)
            async with feed.subscribed(subscriber, socket.query_params.get("after", "")) as start:
                await socket.accept(headers=[(_POSITION, position.write(start).encode())])
                refused = _until_refused(socket, name, admit, settings.notify_access_seconds)
                await _serve(socket, subscriber, feed, refused)
        except MillraceError as error:
            metrics.REFUSED.labels(error.code.name).inc()
            await socket.send_denial_response(JSONResponse(error.to_wire(), error.code.value.http))

    return app


def _health(running: Sequence[_Parts]) -> Health:
    if not running:
        return Health(False)
    parts = running[0]
    trouble = parts.reading.trouble
    unread = "" if parts.intake.reads else trouble.why if trouble else "notifications are not being read yet"
    problem = unread or parts.broker
    detail = parts.pusher.state() | ({"problem": problem} if problem else {})
    return parts.lives.health(not problem, detail)


def _session(through: aiohttp.TCPConnector | None = None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=through, cookie_jar=aiohttp.DummyCookieJar())


async def _look(log: Log, parts: _Parts) -> None:
    while True:
        await asyncio.sleep(_LOOK)
        try:
            await asyncio.to_thread(log.end_offsets, NOTIFICATIONS.name)
            parts.broker = ""
        except MillraceError as error:
            parts.broker = str(error)


async def _admit(socket: WebSocket, name: str, admit: Admit, settings: NotifySettings) -> Subscriber:
    """The subscriber that a request asks for. A MillraceError says why it is refused."""
    await admit(socket.headers.get("authorization", ""), name)
    query = socket.query_params
    if unknown := set(query) - _QUERY:
        raise MillraceError(
            ErrorCode.INVALID_VALUE,
            f"unknown parameter {sorted(unknown)[0]}: the parameters are {', '.join(sorted(_QUERY))}",
        )
    types = frozenset(part for text in query.getlist("event") for part in text.upper().split(",") if part)
    if wrong := types - set(get_args(EventType)):
        raise MillraceError(
            ErrorCode.INVALID_VALUE,
            f"event={sorted(wrong)[0]}: must be one of {', '.join(get_args(EventType))}",
        )
    return Subscriber(name, types, query.get("group"), settings.notify_subscriber_events)


async def _serve(
    socket: WebSocket, subscriber: Subscriber, feed: Feed, refused: Coroutine[None, None, str]
) -> None:
    """Send the subscriber its events until it leaves or may no longer listen; then it is told why."""
    refusal = asyncio.create_task(refused)
    tasks = [
        asyncio.create_task(_send(socket, subscriber, feed)),
        asyncio.create_task(_listen(socket)),
        refusal,
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if done == {refusal}:
        metrics.REFUSED.labels("REVOKED").inc()
        await socket.close(_POLICY, refusal.result().encode()[:_REASON].decode(errors="ignore"))


async def _until_refused(socket: WebSocket, name: str, admit: Admit, seconds: float) -> str:
    """Keep asking whether the user who opened the connection may still listen; returns the reason once he may
    not. A gateway that is away refuses nobody. If a stream is missing twice in a row, either it was dropped
    and its last events have been sent, or this user may no longer see it."""
    header = socket.headers.get("authorization", "")
    missing = False
    while True:
        await asyncio.sleep(seconds)
        try:
            await admit(header, name)
            missing = False
        except MillraceError as error:
            unknown = error.code is ErrorCode.UNKNOWN_STREAM
            if error.code in (ErrorCode.AUTHENTICATION, ErrorCode.PERMISSION) or (unknown and missing):
                return error.message
            missing = unknown


async def _send(socket: WebSocket, subscriber: Subscriber, feed: Feed) -> None:
    try:
        while True:
            taken = await subscriber.take()
            # what is no longer kept lies before the events, what was missed after them
            if taken.missed is None:
                await _send_missed(socket, None, taken.position)
            if taken.events:
                now = milliseconds(time.time_ns())
                text = compose(uuid.uuid4().hex, now, taken.events, position.write(taken.position))
                await socket.send_text(text.decode())
                metrics.SENT.inc(len(taken.events))
                for one in taken.traced:
                    one.sent()
            if taken.missed:
                await _send_missed(socket, taken.missed, taken.end)
            await asyncio.sleep(feed.pause)
    except (WebSocketDisconnect, RuntimeError, OSError):
        return  # it has left


async def _send_missed(socket: WebSocket, missed: int | None, end: Positions) -> None:
    text = msgspec.json.encode({"missed": missed, "position": position.write(end)})
    await socket.send_text(text.decode())


async def _listen(socket: WebSocket) -> None:
    """Read on until the subscriber leaves; what it sends does not matter."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
