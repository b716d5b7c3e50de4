"""The thread that reads ``notifications`` as a member of the group, and commits."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_core.notice.progress import Place
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_wal import GroupReader, Log
from notify_svc.pusher import Pusher
from notify_svc.settings import NotifySettings

_POLL = 0.1
_COMMIT_EVERY = 0.25
"""Seconds; a commit takes a few milliseconds, in which nothing is read."""
_RETRY = 1.0


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
        self._done: queue.SimpleQueue[dict[Place, int]] = queue.SimpleQueue()
        self._uncommitted: dict[Place, int] = {}
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
        self._done.put(self._pusher.commits())
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
        reader = self._log.subscribe(settings.notify_group, [NOTIFICATIONS.name], client=settings.instance)
        try:
            self.problem = ""
            while not self._stopping.is_set():
                records = reader.poll(_POLL, self._limit())
                if records:
                    self._handed += len(records)
                    self._loop.call_soon_threadsafe(self._pusher.accept, records)
                self._commit(reader)
            self._commit(reader)
        finally:
            reader.close()

    def _limit(self) -> int:
        """How many records to read now: none while enough wait for their addresses."""
        ahead = self._handed - self._pusher.accepted
        full = self._pusher.waiting + ahead >= self._settings.notify_waiting
        return 0 if full or self._draining.is_set() else 5000

    def _commit(self, reader: GroupReader) -> None:
        now = time.monotonic()
        if now - self._asked_at >= _COMMIT_EVERY and not self._stopping.is_set():
            self._asked_at = now
            self._loop.call_soon_threadsafe(lambda: self._done.put(self._pusher.commits()))
        while not self._done.empty():
            self._uncommitted |= self._done.get()
        if self._uncommitted:
            reader.commit(self._uncommitted)
            self._uncommitted = {}
