"""The demo's own WebSocket endpoint: what NOTIFY pushes to it, collected and shown."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import WSMsgType, web

from millrace.processes import free_port
from millrace.settings import HOST

Event = dict[str, Any]


class Listener:
    """A WebSocket server in a thread of its own, as a context manager. ``show`` is called with each event
    as it arrives, in that thread."""

    def __init__(self, show: Callable[[int, Event], None]) -> None:
        self._port = free_port()
        self._show = show
        self._events: dict[tuple[str, str], Event] = {}
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="notifications", daemon=True)

    @property
    def url(self) -> str:
        """The address that a stream names in NOTIFY."""
        return f"ws://{HOST}:{self._port}/notify"

    def events(self) -> list[Event]:
        """The distinct events so far: a repeated event has the same triggerId and type."""
        with self._lock:
            return list(self._events.values())

    def __enter__(self) -> Listener:
        self._thread.start()
        if not self._listening.wait(10):
            raise RuntimeError("the demo's WebSocket endpoint did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        runner = web.AppRunner(self._app(), shutdown_timeout=1)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, HOST, self._port).start())
        self._listening.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/notify", self._accept)
        return app

    async def _accept(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                for event in events_of(json.loads(message.data)):
                    self._note(event)
        return socket

    def _note(self, event: Event) -> None:
        with self._lock:
            key = (event["triggerId"], event["eventType"])
            if key in self._events:
                return
            self._events[key] = event
            number = len(self._events)
        self._show(number, event)


def events_of(message: dict[str, Any]) -> Iterator[Event]:
    """The events of one pushed message, each with the name of its stream added."""
    for stream in message["streams"]:
        for event in stream["events"]:
            yield {"streamName": stream["streamName"], **event}
