"""The WebSocket addresses that cases give to NOTIFY: one server, with one path for each case."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

HOST = "127.0.0.1"


@dataclass
class Inbox:
    """What came to one address: events in order, each with its ``streamName``; and messages that do not have
    the form that the seed describes."""

    events: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def take(self, text: str) -> None:
        """Notes the events of one pushed message."""
        try:
            self.events += events_of(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            self.faults.append(f"{type(error).__name__} {error}: {text[:300]}")


def events_of(message: Any) -> list[dict[str, Any]]:
    """The events of a message ``{messageId, timestamp, streams: [{streamName, events: […]}]}``, each with the
    name of its stream. :raises ValueError: if the message has another form."""
    if not isinstance(message["messageId"], str) or not isinstance(message["timestamp"], int):
        raise ValueError("messageId must be a string and timestamp a number")
    events = []
    for stream in message["streams"]:
        name = stream["streamName"]
        if not isinstance(name, str):
            raise ValueError("streamName must be a string")
        for event in stream["events"]:
            if not isinstance(event, dict) or not isinstance(event.get("eventType"), str):
                raise ValueError("an event must be an object with an eventType")
            events.append({**event, "streamName": name})
    return events


class Inboxes:
    """The server, as an asynchronous context manager."""

    def __init__(self) -> None:
        self._inboxes: dict[str, Inbox] = {}
        self._sockets: set[web.WebSocketResponse] = set()
        self._port = 0

    def open(self, name: str) -> tuple[str, Inbox]:
        """A new address and what comes to it."""
        return f"ws://{HOST}:{self._port}/{name}", self._inboxes.setdefault(name, Inbox())

    async def __aenter__(self) -> Inboxes:
        app = web.Application()
        app.router.add_get("/{name}", self._accept)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(socket.close() for socket in list(self._sockets)))
        await self._runner.cleanup()

    async def _accept(self, request: web.Request) -> web.WebSocketResponse:
        inbox = self._inboxes.get(request.match_info["name"])
        if inbox is None:
            raise web.HTTPNotFound
        socket = web.WebSocketResponse(max_msg_size=64 << 20)
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    inbox.take(message.data)
                elif message.type is WSMsgType.BINARY:
                    inbox.faults.append("a message arrived as bytes, not as text")
        finally:
            self._sockets.discard(socket)
        return socket
