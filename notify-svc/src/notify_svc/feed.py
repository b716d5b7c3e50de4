"""Reads ``notifications`` for subscribers: once for all that follow, and again for those that resume."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.notice import position
from millrace_core.notice.position import Positions
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_service import OFF, Life, Tracing
from millrace_wal import Log, Reader, Record
from notify_svc import metrics
from notify_svc.subscribers import Reached, Subscriber, Told, told_of
from notify_svc.traces import NONE, Traces, traced_in

EARLIEST = "earliest"
_TOPIC = NOTIFICATIONS.name
_POLL = 0.1
_RETRY = 1.0
_CHUNK = 500
"""How many records are read at once for a subscriber that resumes."""
_PATIENCE = 1.0
"""Seconds that a resuming subscriber may keep a reader waiting before the next subscriber gets the reader."""
_LONGEST_PAUSE = 0.1
_SENDS = 10_000


class Feed:
    """Gives each notice to the subscribers that it is for. The whole topic is read: which instance pushes
    what does not matter here. Lives in one event loop. At most ``catch_ups`` readers serve subscribers that
    resume."""

    def __init__(
        self, log: Log, logger: FilteringBoundLogger, catch_ups: int = 4, tracing: Tracing = OFF
    ) -> None:
        self._log, self._tracing = log, tracing
        self._logger = logger
        self._live: dict[str, list[Subscriber]] = {}
        self._count = 0
        self._reached = Reached()
        self._stopping = threading.Event()
        self._stopping.set()
        self._changing = asyncio.Lock()
        self._slots = asyncio.Semaphore(catch_ups)

    @property
    def pause(self) -> float:
        """Seconds between two messages to a subscriber: if there are many subscribers, they get fewer and
        longer messages, so that at most some ten thousand messages a second go out."""
        return min(self._count / _SENDS, _LONGEST_PAUSE)

    @asynccontextmanager
    async def subscribed(self, subscriber: Subscriber, after: str = "") -> AsyncIterator[Positions]:
        """While this is open, the subscriber gets every notice that is written, and before those the ones
        after the position ``after``: that of a message, or ``earliest`` for all that are kept. Yields where
        it begins.

        :raises MillraceError: INVALID_VALUE for a position that does not exist.
        """
        self._count += 1
        try:
            async with self._changing:
                if self._stopping.is_set():
                    await self._start()
            start, lost = await self._place(after) if after else (dict(self._reached.positions), False)
            subscriber.begin(start, lost=lost)
            catching = asyncio.create_task(self._catch_up(subscriber)) if after else None
            if catching is None:
                # there was no await since the feed's position was read, so no notice lies in between
                self._attach(subscriber)
            metrics.SUBSCRIBERS.inc()
            try:
                yield start
            finally:
                metrics.SUBSCRIBERS.dec()
                if catching is not None:
                    catching.cancel()
                    await asyncio.gather(catching, return_exceptions=True)
                self._detach(subscriber)
        finally:
            self._count -= 1
            if not self._count:
                self._stopping.set()

    def _attach(self, subscriber: Subscriber) -> None:
        subscriber.reached = self._reached
        self._live.setdefault(subscriber.stream, []).append(subscriber)

    def _detach(self, subscriber: Subscriber) -> None:
        found = self._live.get(subscriber.stream, [])
        if subscriber in found:
            found.remove(subscriber)
        if not found:
            self._live.pop(subscriber.stream, None)

    async def _place(self, after: str) -> tuple[Positions, bool]:
        """Where to read from, and whether something before that is no longer kept."""
        begins = await asyncio.to_thread(self._log.begin_offsets, _TOPIC)
        first = {partition: (offset, 0) for partition, offset in begins.items()}
        if after == EARLIEST:
            return first, False
        wanted = position.read(after)
        ends = await asyncio.to_thread(self._log.end_offsets, _TOPIC)
        if any(partition not in ends or at > (ends[partition], 0) for partition, at in wanted.items()):
            raise MillraceError(ErrorCode.INVALID_VALUE, f"after={after}: this position does not exist")
        found = position.latest(first, wanted)
        return found, any(wanted.get(partition, (0, 0)) < at for partition, at in found.items())

    async def _catch_up(self, subscriber: Subscriber) -> None:
        """Give the subscriber what it has not had yet, until it has caught up with the others."""
        while True:
            await subscriber.room()
            async with self._slots:
                try:
                    if await self._read_on(subscriber):
                        return
                except MillraceError as error:
                    self._logger.warning("events could not be read for a subscriber", error=str(error))
                    await asyncio.sleep(_RETRY)

    async def _read_on(self, subscriber: Subscriber) -> bool:
        """Read on for the subscriber. Returns whether it has caught up; False: it had no room for too long,
        and others may be waiting for the reader."""
        at = position.latest(subscriber.seen, subscriber.reached.positions)
        offsets = {partition: offset for partition, (offset, _) in at.items()}
        reader = await asyncio.to_thread(self._log.reader, {_TOPIC: offsets})
        try:
            while True:
                records = await asyncio.to_thread(reader.poll, _POLL, _CHUNK)
                for told in told_of(records):
                    if told.notice.stream != subscriber.stream:
                        continue
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_PATIENCE):
                            await subscriber.room()
                    if subscriber.full:
                        return False
                    subscriber.offer(told)
                here = {partition: (offset, 0) for partition, offset in reader.positions()[_TOPIC].items()}
                subscriber.reached = Reached(here)
                if all(here.get(part, (0, 0)) >= other for part, other in self._reached.positions.items()):
                    self._attach(subscriber)
                    return True
        finally:
            await asyncio.to_thread(reader.close)

    async def _start(self) -> None:
        here = await asyncio.to_thread(self._log.end_offsets, _TOPIC)
        self._reached = Reached({partition: (offset, 0) for partition, offset in here.items()})
        loop = asyncio.get_running_loop()

        def give(records: list[Record], here: Positions, traces: Traces) -> None:
            loop.call_soon_threadsafe(self._give, told_of(records, traces), here, following.stopping)

        following = _Following(self._log, here, give, self._tracing)
        self._stopping = following.stopping
        Life(following, self._logger).start()

    def _give(self, found: list[Told], here: Positions, stopping: threading.Event) -> None:
        if stopping.is_set():
            return  # from a reader that another one has replaced
        for told in found:
            for subscriber in self._live.get(told.notice.stream, ()):
                subscriber.offer(told)
        self._reached.positions = here


class _Following:
    """Hands over what comes from the given offsets on; a work of :class:`millrace_service.Life`."""

    def __init__(
        self, log: Log, offsets: Mapping[int, int], give: Callable[[list[Record], Positions, Traces], None],
        tracing: Tracing,
    ) -> None:  # fmt: skip
        self.name, self.stopping = "feed", threading.Event()
        self._log, self._give, self._tracing = log, give, tracing
        self._here = dict(offsets)
        self._reader: Reader | None = None

    def begin(self) -> None:
        self._reader = self._log.reader({_TOPIC: self._here})

    def step(self) -> None:
        assert self._reader is not None, "begin comes first"
        stretches = self._reader.stretches(_POLL)
        traces = traced_in(stretches, self._tracing) if self._tracing.on else NONE
        records = [record for some in stretches for record in some.records()]
        self._here = self._reader.positions()[_TOPIC]
        if records and not self.stopping.is_set():
            self._give(records, {part: (offset, 0) for part, offset in self._here.items()}, traces)

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
