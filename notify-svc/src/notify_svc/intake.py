"""Reads ``notifications`` as a member of the group, tells which streams are paused, and commits."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

from structlog.typing import FilteringBoundLogger

from millrace_core.notice.progress import Partition
from millrace_core.wire import status
from millrace_core.wire.topics import DEAD_LETTERS, NOTIFICATIONS, STATUS
from millrace_service import OFF, Tracing, behind, passed_over
from millrace_wal import DeadLetters, GapWatch, GroupReader, Log, Message
from notify_svc.directory import Counted, Directory, Pauses
from notify_svc.pusher import Pusher, Report
from notify_svc.settings import NotifySettings
from notify_svc.traces import NONE, traced_in

_POLL, _REST = 0.25, 1.0
"""Seconds that a step waits for records: while something is to be committed soon, and otherwise."""
_REPORT_EVERY = 0.25
"""Seconds between commits; one takes a few milliseconds, in which nothing is read."""
_SWEEP_EVERY = 5.0
"""Seconds between looks for events of streams that were dropped."""


class Intake:
    """Reads, hands over to the event loop, commits what is done there; a work of
    :class:`millrace_service.Life`, in a thread because the log blocks."""

    def __init__(
        self,
        log: Log,
        settings: NotifySettings,
        pusher: Pusher,
        loop: asyncio.AbstractEventLoop,
        logger: FilteringBoundLogger,
        tracing: Tracing = OFF,
    ) -> None:
        self.name, self.stopping = "intake", threading.Event()
        self._log, self._tracing = log, tracing
        self._settings = settings
        self._pusher = pusher
        self._loop = loop
        self._logger = logger
        self._dead = DeadLetters(log, "notify-svc", passed_over(logger))
        self._handed = self._asked = 0
        """How many records the event loop has been given, and how many it was done with when last asked."""
        self._asked_at = 0.0
        self._swept_at = 0.0
        self._done: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._unsaid: list[Message] = []
        self._uncommitted: dict[Partition, int] = {}
        self._kept: set[int] = set()
        self._pauses: Pauses = {}
        self._counted: Counted = {}
        self._own: set[Partition] = set()
        self._draining = threading.Event()
        self._directory: Directory | None = None
        self._reader: GroupReader | None = None
        self._positions: dict[int, int] = {}
        self._gaps = GapWatch(log, settings.notify_group, settings.notify_group)
        self.reads = False
        """Whether notifications have been read since the last failure."""

    async def drain(self, seconds: float) -> None:
        """Stop reading, and give the addresses so many seconds for what waits. Called before the thread is
        stopped."""
        self._draining.set()
        await self._pusher.drain(seconds)
        self._done.put(self._pusher.report(self._pauses, self._own, self._counted))

    def begin(self) -> None:
        self._log.ensure_topics([NOTIFICATIONS, DEAD_LETTERS])
        # read first: an existing pause must not be thought to be over just because nothing was read yet
        self._directory = Directory(self._log)
        group = self._settings.notify_group
        self._gaps = GapWatch(self._log, group, group)
        self._reader = self._log.subscribe(group, [NOTIFICATIONS.name])

    def step(self) -> None:
        """Take in what has come, and write down what is done."""
        reader, directory = self._reader, self._directory
        assert reader is not None and directory is not None, "begin comes first"
        stretches = reader.stretches(_POLL if self._busy() else _REST, self._limit())
        traces = traced_in(stretches, self._tracing) if self._tracing.on else NONE
        records = [record for some in stretches for record in some.records()]
        self.reads = True
        self._gaps.keep(reader.assigned())
        self._gaps.watch(records)
        if records:
            self._handed += len(records)
            self._loop.call_soon_threadsafe(self._pusher.accept, records, traces)
        self._positions = dict(reader.positions().get(NOTIFICATIONS.name, {}))
        self._ask(reader, directory)
        self._sweep(directory)
        self._settle(reader)

    def end(self) -> None:
        """Before a stop, also write down what the addresses have taken."""
        self.reads = False
        directory, self._directory = self._directory, None
        reader, self._reader = self._reader, None
        try:
            if reader is not None and self.stopping.is_set():
                self._settle(reader)
        finally:
            if directory is not None:
                directory.close()
            if reader is not None:
                reader.close()

    def look(self) -> tuple[object, str]:
        """How far this instance has read its partitions, and what lies beyond."""
        if self._limit() == 0:
            return None, ""  # nothing is read now: what was read waits for its addresses
        ends = self._log.end_offsets(NOTIFICATIONS.name)
        return dict(self._positions), behind(NOTIFICATIONS.name, ends, self._positions)

    def _busy(self) -> bool:
        """Whether something is to be written down soon."""
        asked = self._asked == self._handed and self._done.empty()
        return not asked or bool(self._kept or self._uncommitted or self._unsaid)

    def _limit(self) -> int:
        """How many records to read now: none while enough are waiting for their addresses."""
        ahead = self._handed - self._pusher.accepted
        full = self._pusher.load + ahead >= self._settings.notify_waiting
        return 0 if full or self._draining.is_set() else 5000

    def _ask(self, reader: GroupReader, directory: Directory) -> None:
        """Ask the event loop what there is to write down."""
        now = time.monotonic()
        if now - self._asked_at < _REPORT_EVERY or self.stopping.is_set():
            return
        self._asked_at = now
        self._asked = self._pusher.accepted - self._pusher.load
        directory.step()
        self._pauses, self._own = directory.pauses, reader.assigned()
        self._counted = directory.counted
        known, own, counted = self._pauses, self._own, self._counted
        self._loop.call_soon_threadsafe(lambda: self._done.put(self._pusher.report(known, own, counted)))

    def _sweep(self, directory: Directory) -> None:
        """Stop waiting for events of streams that have been dropped, and end their pauses."""
        now = time.monotonic()
        waiting = self._kept | {uid for uid, _ in self._pauses}
        if now - self._swept_at < _SWEEP_EVERY or not waiting:
            return
        self._swept_at = now
        gone = directory.gone(waiting)
        if gone:
            self._logger.info(
                "streams were dropped while some of their events were waiting", streams=sorted(gone)
            )
            self._loop.call_soon_threadsafe(self._pusher.release, gone)
            self._unsaid += [
                Message(STATUS.name, status.key(paused), None)
                for (uid, _), paused in directory.pauses.items()
                if uid in gone
            ]

    def _settle(self, reader: GroupReader) -> None:
        """Write down what was reported. The end of a pause comes before the commit: after a kill between the
        two, the events come again and end the pause again. The other way round, nothing would end it."""
        while not self._done.empty():
            report = self._done.get()
            self._unsaid += [*report.pauses, *report.counters]
            self._uncommitted |= report.commits
            for record, error in report.unread:
                self._dead.bury(record, error)
            self._kept = report.kept
        if self._unsaid:
            self._log.append(self._unsaid)
            self._unsaid = []
        self._dead.write()
        if self._uncommitted:
            reader.commit(self._uncommitted)
            self._uncommitted = {}
