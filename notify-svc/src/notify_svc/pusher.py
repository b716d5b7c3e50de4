"""From records of the log to addresses, and back to what may be committed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import msgspec
from structlog.typing import FilteringBoundLogger

from millrace_core.notice.message import Outgoing
from millrace_core.notice.progress import Place, Progress, Ticket
from millrace_core.wire import notices
from millrace_wal import Record
from notify_svc import metrics
from notify_svc.address import Address, Cause
from notify_svc.settings import NotifySettings

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """The ticket of an event: its record, and when that was written (seconds since the epoch)."""

    record: Ticket
    written: float


class Pusher:
    """Gives each notice to its addresses. Lives in one event loop."""

    def __init__(
        self, settings: NotifySettings, session: aiohttp.ClientSession, log: FilteringBoundLogger
    ) -> None:
        self._settings = settings
        self._session = session
        self._log = log
        self._addresses: dict[str, Address] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._progress = Progress()
        self.accepted = 0
        """Records taken so far."""

    @property
    def waiting(self) -> int:
        return self._progress.waiting

    def accept(self, records: Sequence[Record]) -> None:
        """Take records, in the order of their partitions. Those that cannot be read are counted."""
        offers: dict[str, list[Outgoing]] = {}
        for record in records:
            self._take(record, offers)
        for url, events in offers.items():
            self._address(url).offer(events)
        self.accepted += len(records)
        metrics.WAITING.set(self.waiting)

    def _take(self, record: Record, offers: dict[str, list[Outgoing]]) -> None:
        place = (record.topic, record.partition)
        try:
            found = notices.decode(record.value or b"").notices
        except msgspec.DecodeError as error:
            metrics.DROPPED.labels("", "undecodable").inc()
            self._log.error("undecodable", place=place, offset=record.offset, error=str(error))
            found = []
        ticket = self._progress.begin(place, record.offset, sum(len(set(notice.urls)) for notice in found))
        if ticket is None:
            return
        mark = _Event(ticket, record.timestamp / 1000)
        for notice in found:
            event = Outgoing(notice.stream, _encode(notice.event), notice.pause_on_failure, mark)
            for url in dict.fromkeys(notice.urls):
                offers.setdefault(url, []).append(event)

    def _address(self, url: str) -> Address:
        address = self._addresses.get(url)
        if address is None:
            address = Address(url, self._session, self._settings, self._finished, self._log)
            self._addresses[url] = address
            self._tasks[url] = asyncio.create_task(self._run(url, address))
        return address

    async def _run(self, url: str, address: Address) -> None:
        await address.run()
        # it was not needed for long; the next event makes it anew
        del self._addresses[url], self._tasks[url]

    def _finished(self, events: list[Outgoing], cause: Cause | None) -> None:
        now = time.time()
        for event in events:
            mark = event.ticket
            assert isinstance(mark, _Event)
            self._progress.done(mark.record)
            if cause is None:
                metrics.DELIVERED.labels(event.stream).inc()
                metrics.LATENCY.observe(max(now - mark.written, 0))
            else:
                metrics.DROPPED.labels(event.stream, cause).inc()
        metrics.WAITING.set(self.waiting)

    def commits(self) -> dict[Place, int]:
        """Per partition the offset up to which all is delivered or dropped, where it has changed."""
        return self._progress.commits()

    def state(self) -> dict[str, object]:
        """For ``/healthz``."""
        failing = sum(address.failing for address in self._addresses.values())
        return {"waiting": self.waiting, "addresses": len(self._addresses), "failing": failing}

    async def drain(self, seconds: float) -> None:
        """Wait until the addresses that work have what waits for them, at most so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if all(address.idle or address.failing for address in self._addresses.values()):
                return
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
