"""The thread that reads ``notifications`` as a member of the group, tells which streams are paused, and
commits."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_core.notice.progress import Place
from millrace_core.wire import status
from millrace_core.wire.topics import NOTIFICATIONS, STATUS
from millrace_wal import GroupReader, Log, Message
from notify_svc.directory import Counted, Directory, Pauses
from notify_svc.pusher import Pusher, Report
from notify_svc.settings import NotifySettings

_POLL = 0.1
_REPORT_EVERY = 0.25
"""Seconds between commits; one takes a few milliseconds, in which nothing is read."""
_RETRY = 1.0
_SWEEP_EVERY = 5.0
"""Seconds between looks for events of streams that were dropped."""


class Intake:
    """Reads in a thread (the log blocks), hands over to the event loop, commits what is done there."""

    def __init__(
        self,
        log: Log,
        settings: NotifySettings,
        pusher: Pusher,
        loop: asyncio.AbstractEventLoop,
        logger: FilteringBoundLogger,
    ) -> None:
        self._log = log
        self._settings = settings
        self._pusher = pusher
        self._loop = loop
        self._logger = logger
        self._handed = 0
        self._asked_at = 0.0
        self._swept_at = 0.0
        self._done: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._unsaid: list[Message] = []
        self._uncommitted: dict[Place, int] = {}
        self._kept: set[int] = set()
        self._pauses: Pauses = {}
        self._counted: Counted = {}
        self._own: set[Place] = set()
        self._draining = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self.problem = "not read yet"
        """Why nothing can be read now; empty when all is well."""

    def start(self) -> None:
        self._thread.start()

    async def stop(self, seconds: float) -> None:
        """Read nothing more, give the addresses so long for what waits, commit, leave the group."""
        self._draining.set()
        await self._pusher.drain(seconds)
        self._done.put(self._pusher.report(self._pauses, self._own, self._counted))
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._log.ensure_topics([NOTIFICATIONS])
                    self._read()
                except MillraceError as error:
                    self.problem = str(error)
                    self._logger.error("cannot read notifications", error=str(error))
                    self._stopping.wait(_RETRY)
        finally:
            self.problem = "reading has ended"

    def _read(self) -> None:
        settings = self._settings
        # a pause that is known from before must not be taken for over because nothing was read yet
        directory = Directory(self._log)
        reader = self._log.subscribe(settings.notify_group, [NOTIFICATIONS.name])
        try:
            self.problem = ""
            while not self._stopping.is_set():
                records = reader.poll(_POLL, self._limit())
                if records:
                    self._handed += len(records)
                    self._loop.call_soon_threadsafe(self._pusher.accept, records)
                self._ask(reader, directory)
                self._sweep(directory)
                self._settle(reader)
            self._settle(reader)
        finally:
            directory.close()
            reader.close()

    def _limit(self) -> int:
        """How many records to read now: none while enough wait for their addresses."""
        ahead = self._handed - self._pusher.accepted
        full = self._pusher.load + ahead >= self._settings.notify_waiting
        return 0 if full or self._draining.is_set() else 5000

    def _ask(self, reader: GroupReader, directory: Directory) -> None:
        """Ask the event loop what there is to write down."""
        now = time.monotonic()
        if now - self._asked_at < _REPORT_EVERY or self._stopping.is_set():
            return
        self._asked_at = now
        directory.step()
        self._pauses, self._own = directory.pauses, reader.assigned()
        self._counted = directory.counted
        known, own, counted = self._pauses, self._own, self._counted
        self._loop.call_soon_threadsafe(lambda: self._done.put(self._pusher.report(known, own, counted)))

    def _sweep(self, directory: Directory) -> None:
        """Nobody waits for events of streams that were dropped since, nor are these paused."""
        now = time.monotonic()
        waiting = self._kept | {uid for uid, _ in self._pauses}
        if now - self._swept_at < _SWEEP_EVERY or not waiting:
            return
        self._swept_at = now
        gone = directory.gone(waiting)
        if gone:
            self._logger.info("streams were dropped while events of theirs waited", streams=sorted(gone))
            self._loop.call_soon_threadsafe(self._pusher.release, gone)
            self._unsaid += [
                Message(STATUS.name, status.key(paused), None)
                for (uid, _), paused in directory.pauses.items()
                if uid in gone
            ]

    def _settle(self, reader: GroupReader) -> None:
        """Write down what was reported. The end of a pause comes before the commit: after a kill between
        them the events come again, and end it again; the other way round nothing would."""
        while not self._done.empty():
            report = self._done.get()
            self._unsaid += [*report.pauses, *report.counters]
            self._uncommitted |= report.commits
            self._kept = report.kept
        if self._unsaid:
            self._log.append(self._unsaid)
            self._unsaid = []
        if self._uncommitted:
            reader.commit(self._uncommitted)
            self._uncommitted = {}
