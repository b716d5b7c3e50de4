"""Ticks: processing time as data, written when some stream waits for it, and to warm the query up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.timeline.precision import NS_PER_MS, NS_PER_SECOND
from millrace_core.trigger.agenda import Agenda
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK, CONTROL
from millrace_wal import BEGIN, Log, Message, Reader, Record, replay
from trigger_svc.positions import Ends

CLOSEST = 25 * NS_PER_MS
"""Ticks are at least this far apart. All instants between two ticks fire with the second. Ticks that come
faster than micro-batches share the next batch, so they cost little; but an instant that just misses a tick
waits for the next one."""
LONGEST_WAIT = 500 * NS_PER_MS
"""After this long the clock asks again what is due; the slots announce further ahead than that
(``trigger.stream.delay.AHEAD``)."""
ASK_AGAIN = NS_PER_SECOND
"""If the broker does not say where a topic ends, the clock tries again after this long: the instant for which
the ends are needed may be the last of the day."""
LATE = 5 * NS_PER_SECOND
"""If the clock wakes up so much later than planned (the machine slept, the broker was away), it has missed
what was planned until then, as if the service had been down. If it is less late, it fires late."""


class Clock:
    """Writes ticks; a work of :class:`millrace_service.Life`.

    Instants planned before the start are missed (SEMANTICS, "Outages"). ``delays_due``: says when the next
    open windows trigger by MAX_DELAY, ascending; ``now``: says what time it is; both in ns since the epoch.
    ``lead``: says how many ns before a window is due its tick is to be written.
    """

    def __init__(
        self,
        log: Log,
        logger: FilteringBoundLogger,
        delays_due: Callable[[], Sequence[int]],
        now: Callable[[], int] = time.time_ns,
        lead: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name, self.stopping = "clock", threading.Event()
        self._log, self._logger = log, logger
        self._delays_due = delays_due
        self._now = now
        self._lead = lead
        self._since = 0
        self._awake = self._earliest = 0
        self._agenda = Agenda(0)
        self._reader: Reader | None = None

    def begin(self) -> None:
        now = self._now()
        if now > self._awake + LATE:
            self._since = now
        self._agenda = Agenda(self._since)
        following = BEGIN
        for record in replay(self._log, CONTROL.name):
            take_in(record, self._agenda.apply, self._logger)
            following = record.offset + 1
        self._reader = self._log.reader({CONTROL.name: {0: following}})

    def step(self) -> None:
        """Wait for the next instant that is due, half a second at most, and write its tick."""
        assert self._reader is not None, "begin comes first"
        agenda, now = self._agenda, self._now()
        agenda.expect(self._delays_due(), self._lead())
        wake = min(max(agenda.due, self._earliest, now), now + LONGEST_WAIT)
        for record in self._reader.poll((wake - now) / NS_PER_SECOND):
            take_in(record, agenda.apply, self._logger)
        now = self._awake = self._now()
        agenda.expect(self._delays_due(), self._lead())
        if now > wake + LATE:
            self._logger.warning("the clock was late", seconds=(now - wake) / NS_PER_SECOND)
            self._since = now
            agenda.watch_from(now)
        if now >= self._earliest and self._tick(agenda, now):
            self._earliest = now + CLOSEST

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _tick(self, agenda: Agenda, now: int) -> bool:
        topics = agenda.take(now)
        if topics is None:
            return False
        ends: dict[str, control.Offsets] = {}
        unknown: list[str] = []
        for topic in sorted(topics):
            try:
                ends[topic] = self._log.end_offsets(topic)
            except MillraceError as error:
                self._logger.warning(
                    "the end offsets of a topic are missing from a tick", topic=topic, cause=str(error)
                )
                unknown.append(topic)
        tick = control.Tick(now, agenda.since, ends, agenda.early)
        self._log.append([Message(CLOCK.name, None, control.encode(tick))])
        if unknown:  # just dropped, as ``control`` will tell; otherwise their streams fire a little later
            agenda.again(unknown, now + ASK_AGAIN)
        return True


def take_in(
    record: Record, apply: Callable[[control.AnyControl, int], None], logger: FilteringBoundLogger
) -> None:
    """Apply a record of the topic ``control``; ``apply`` also gets the time when it was written (ns since the
    epoch). Whatever the record says, the thread goes on: others wait for it, and the slots report what is
    wrong with the record and make a dead letter of it."""
    if control.RECORDS.deletes(record.value):
        return
    try:
        apply(control.RECORDS.read(record.key, record.value), record.timestamp * NS_PER_MS)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        logger.error("a control record had no effect", offset=record.offset, cause=cause)


def idle_tick(log: Log) -> int:
    """Write a tick on which nothing fires; returns the offset of the record."""
    ((_, offset),) = log.append([Message(CLOCK.name, None, control.encode(control.Tick(time.time_ns())))])
    return offset


def warm_up(
    log: Log, query: Any, positions: Callable[[], Ends], rounds: int = 12, within: float = 300
) -> None:
    """Send ticks through the query, one after the other: the first batches of a cold JVM take seconds.
    ``positions``: says how far messages are evaluated.

    :raises MillraceError: TIMEOUT if the query has not taken them within that many seconds.
    """
    until = time.monotonic() + within
    for _ in range(rounds):
        offset = idle_tick(log)
        while positions().get(CLOCK.name, {}).get(0, 0) <= offset:
            if not query.isActive:
                return  # whoever watches the query reports why
            if time.monotonic() > until:
                raise MillraceError(
                    ErrorCode.TIMEOUT, f"the trigger query did not process a tick within {within:g} s"
                )
            time.sleep(0.02)
