"""From records of the log to addresses, and back to what may be committed and which streams are paused."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType

import aiohttp
from structlog.typing import FilteringBoundLogger

from millrace_core.errors import WireError
from millrace_core.notice.message import Outgoing
from millrace_core.notice.progress import CommitProgress, Partition
from millrace_core.wire import notices, status
from millrace_core.wire.counters import NOTIFY, Tally
from millrace_core.wire.status import Counters, StreamPaused
from millrace_core.wire.topics import NOTIFICATIONS, STATUS
from millrace_wal import Message, Record
from notify_svc import metrics
from notify_svc.address import Address, Cause, Lane, Mark, told
from notify_svc.settings import NotifySettings
from notify_svc.traces import NONE, TracedNotices, Traces


@dataclass(frozen=True, slots=True)
class Report:
    """What is to be written down: first ``pauses`` and ``counters`` (records of the ``status`` topic) and
    dead letters for what could not be read (``unread``), then ``commits``. ``kept``: the streams with waiting
    events that must not be lost."""

    pauses: list[Message]
    commits: dict[Partition, int]
    kept: set[int]
    counters: list[Message] = field(default_factory=list)
    unread: list[tuple[Record, WireError]] = field(default_factory=list)


class Pusher:
    """Gives each notice to its addresses. Lives in one event loop."""

    def __init__(
        self, settings: NotifySettings, session: aiohttp.ClientSession, log: FilteringBoundLogger
    ) -> None:
        self._settings = settings
        self._session = session
        self._log = log
        self._unread: list[tuple[Record, WireError]] = []
        self._addresses: dict[str, Address] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._progress = CommitProgress()
        self._full_since: float | None = None
        self._counted: Mapping[tuple[int, int], Counters] = {}
        self._tally = Tally(NOTIFY, settings.instance, lambda uid, part: self._counted.get((uid, part)))
        self.accepted = 0
        """How many records were taken so far."""

    @property
    def waiting(self) -> int:
        return self._progress.waiting

    @property
    def load(self) -> int:
        """How many events wait for addresses that accept them; while there are too many, none are read."""
        return sum(address.waiting for address in list(self._addresses.values()) if not address.stuck)

    def accept(self, records: Sequence[Record], traces: Traces = NONE) -> None:
        """Take records, in the order of their partitions. Those that cannot be read are reported."""
        offers: dict[str, list[Outgoing]] = {}
        for record in records:
            self._take(record, offers, traces.get((record.partition, record.offset)))
        for url, events in offers.items():
            self._address(url).offer(events)
        self.accepted += len(records)
        metrics.WAITING.set(self.waiting)

    def _take(self, record: Record, offers: dict[str, list[Outgoing]], traced: TracedNotices | None) -> None:
        place = (record.topic, record.partition)
        try:
            batch = notices.BATCHES.read(record.key, record.value)
        except WireError as error:
            self._unread.append((record, error))
            batch = notices.TextBatch([])
        count = sum(len(set(notice.urls)) for notice in batch.notices)
        ticket = self._progress.begin(place, record.offset, count)
        if ticket is None:
            return
        mark = Mark(ticket, batch.uid, record.timestamp / 1000, traced)
        for notice in batch.notices:
            if notice.urls:
                event = Outgoing(notice.stream, bytes(notice.text), notice.pause_on_failure, mark)
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
        # it was not needed for a long time; the next event makes it anew
        del self._addresses[url], self._tasks[url]

    def _finished(self, events: list[Outgoing], cause: Cause | None) -> None:
        now = time.time()
        for event in events:
            mark = event.ticket
            assert isinstance(mark, Mark)
            self._progress.done(mark.record)
            if cause is None and not mark.record.left:
                metrics.LATENCY.observe(max(now - mark.written, 0))
            if cause is None and mark.traced is not None:
                mark.traced.delivered()
        outcome = "notify_delivered" if cause is None else f"notify_{told(cause)}"
        lanes = Counter(event.ticket.lane for event in events if isinstance(event.ticket, Mark))
        for (uid, (_, partition)), count in lanes.items():
            if uid:  # a message that an older calc-svc wrote does not say whose it is
                self._tally.add(uid, partition, {outcome: count})
        for stream, count in Counter(event.stream for event in events).items():
            if cause is None:
                metrics.DELIVERED.labels(stream).inc(count)
            else:
                metrics.DROPPED.labels(stream, cause).inc(count)
        metrics.WAITING.set(self.waiting)

    def report(
        self, paused: Mapping[tuple[int, int], StreamPaused], own: AbstractSet[Partition],
        counted: Mapping[tuple[int, int], Counters] = MappingProxyType({}),
    ) -> Report:  # fmt: skip
        """What has changed. ``paused``, ``counted``: what the ``status`` topic says now; ``own``: this
        instance's partitions: it ends only their pauses."""
        self._relieve(time.monotonic())
        wanted: dict[Lane, Address] = {}
        for address in self._addresses.values():
            if address.stuck:
                for lane in address.kept:
                    wanted.setdefault(lane, address)
        metrics.PAUSED.set(len(wanted))
        pauses = [
            Message(STATUS.name, status.key(found), status.encode(found))
            for lane, address in wanted.items()
            if (found := self._pause(lane, address, paused)) is not None
        ]
        for (uid, partition), known in paused.items():
            place = (NOTIFICATIONS.name, partition)
            ended = (uid, place) not in wanted and self._progress.passed(place, known.offset)
            if ended and place in own:
                pauses.append(Message(STATUS.name, status.key(known), None))
        self._counted = counted
        counts = [Message(STATUS.name, key, value) for key, value in self._tally.take()]
        self._tally.keep({partition for _, partition in own})
        kept = {uid for address in self._addresses.values() for uid, _ in address.kept}
        unread, self._unread = self._unread, []
        return Report(pauses, self._progress.commits(), kept, counts, unread)

    @staticmethod
    def _pause(
        lane: Lane, address: Address, paused: Mapping[tuple[int, int], StreamPaused]
    ) -> StreamPaused | None:
        """The pause to report for a lane; None if it is paused already. A stream without a uid (in a message
        from an older calc-svc) cannot be reported to anybody."""
        uid, (_, partition) = lane
        oldest = address.oldest(lane)
        if not uid or (uid, partition) in paused or oldest is None:
            return None
        return StreamPaused(uid, partition, oldest, f"{address.reason}; its notifications are waiting")

    def release(self, streams: AbstractSet[int]) -> None:
        """These streams are gone: whatever of theirs is waiting may be dropped."""
        for address in self._addresses.values():
            address.release(streams)

    def _relieve(self, now: float) -> None:
        """If nothing is read because too much waits for one address, the other addresses wait for it no
        longer than ``notify_patience``."""
        if self.load < self._settings.notify_waiting:
            self._full_since = None
            return
        self._full_since = self._full_since or now
        if now - self._full_since < self._settings.notify_patience or len(self._addresses) == 1:
            return
        slowest = max((a for a in self._addresses.values() if not a.stuck), key=lambda a: a.waiting)
        if slowest.waiting * 2 >= self._settings.notify_waiting:
            slowest.slow_down()
            self._full_since = None

    def state(self) -> dict[str, object]:
        """For ``/healthz``."""
        addresses = list(self._addresses.values())
        return {
            "waiting": self.waiting, "addresses": len(addresses),
            "failing": sum(address.failing for address in addresses),
            "paused": len({uid for address in addresses if address.stuck for uid, _ in address.kept}),
        }  # fmt: skip

    async def drain(self, seconds: float) -> None:
        """Wait until the working addresses have received what waits for them, but no longer than this."""
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
