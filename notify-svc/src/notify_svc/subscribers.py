"""Subscribers: who listens to a stream's events over a WebSocket of ours, without the stream naming them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_core.notice.message import Outgoing
from millrace_core.wire import notices
from millrace_core.wire.notices import Notice
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_wal import END, Log, Reader, Record
from notify_svc import metrics

_POLL = 0.1
_RETRY = 1.0
_encode = msgspec.json.Encoder().encode


@dataclass(eq=False)
class Subscriber:
    """Events of ``stream`` (db.name), of these ``types`` (all when empty) and this ``group`` (all when None).

    Of those that it does not take in time, the ``limit`` oldest wait; the others are counted as missed.
    """

    stream: str
    types: frozenset[str]
    group: str | None
    limit: int
    _waiting: list[Outgoing] = field(default_factory=list)
    _missed: int = 0
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, notice: Notice) -> None:
        if self.types and notice.event.get("eventType") not in self.types:
            return
        if self.group is not None and notice.group != self.group:
            return
        if len(self._waiting) < self.limit:
            self._waiting.append(Outgoing(notice.stream, _encode(notice.event)))
        else:
            self._missed += 1
            metrics.MISSED.inc()
        self._some.set()

    async def take(self) -> tuple[list[Outgoing], int]:
        """What waits, once something does, and how many events were missed after it."""
        await self._some.wait()
        self._some.clear()
        taken = self._waiting, self._missed
        self._waiting, self._missed = [], 0
        return taken


class Feed:
    """Reads ``notifications`` (all of it: which instance pushes what does not matter here) while there are
    subscribers, and gives each notice to those it is for."""

    def __init__(self, log: Log, logger: FilteringBoundLogger) -> None:
        self._log = log
        self._logger = logger
        self._subscribers: dict[str, list[Subscriber]] = {}
        self._stopping = threading.Event()
        self._changing = asyncio.Lock()

    @asynccontextmanager
    async def subscribed(self, subscriber: Subscriber) -> AsyncIterator[None]:
        """While this is open the subscriber gets every notice that is written."""
        async with self._changing:
            if not self._subscribers:
                await self._start()
            self._subscribers.setdefault(subscriber.stream, []).append(subscriber)
        metrics.SUBSCRIBERS.inc()
        try:
            yield
        finally:
            metrics.SUBSCRIBERS.dec()
            found = self._subscribers[subscriber.stream]
            found.remove(subscriber)
            if not found:
                del self._subscribers[subscriber.stream]
            if not self._subscribers:
                self._stopping.set()

    async def _start(self) -> None:
        parts = await asyncio.to_thread(self._log.begin_offsets, NOTIFICATIONS.name)
        positions = {NOTIFICATIONS.name: dict.fromkeys(parts, END)}
        reader = await asyncio.to_thread(self._log.reader, positions)
        self._stopping = threading.Event()
        loop = asyncio.get_running_loop()
        arguments = (reader, self._stopping, loop)
        threading.Thread(target=self._read, args=arguments, name="feed", daemon=True).start()

    def _read(self, reader: Reader, stopping: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while not stopping.is_set():
                try:
                    records = reader.poll(_POLL)
                except MillraceError as error:
                    self._logger.error("cannot read for subscribers", error=str(error))
                    stopping.wait(_RETRY)
                    continue
                if records and not stopping.is_set():
                    loop.call_soon_threadsafe(self._give, _decoded(records), stopping)
        finally:
            reader.close()

    def _give(self, found: list[Notice], stopping: threading.Event) -> None:
        if stopping.is_set():
            return  # of a reader that was followed by another
        for notice in found:
            for subscriber in self._subscribers.get(notice.stream, ()):
                subscriber.offer(notice)


def _decoded(records: list[Record]) -> list[Notice]:
    found: list[Notice] = []
    for record in records:
        try:
            found += notices.decode(record.value or b"").notices
        except msgspec.DecodeError:
            continue  # counted where it is read for the addresses
    return found
