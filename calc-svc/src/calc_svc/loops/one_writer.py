"""Streams that have one writer (``millrace_core.calc.overtaking.one_writer``): an answer's windows are
calculated where they are cut, in the same turn (decision 0067)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from calc_svc.jobs.job import StreamJobs
from calc_svc.jobs.waits import Waits
from calc_svc.loops.calculating import CUT_AGAIN, Calculating
from calc_svc.loops.counted import tally_of
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.triggers import TriggerLoop
from millrace_core.calc.overtaking import one_writer
from millrace_core.calc.rounds import Arrival
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import counters, topics
from millrace_core.wire.events import TriggerBatch
from millrace_wal import Log

JOB_SECONDS = 30.0  # the longest that a job waits for what is not there yet
TURN_SECONDS = 5.0  # the longest wait for a loop that is just writing for the stream
TASK = -1 << 20
"""This minus a partition of ``recalc`` is the task under which ``status`` counts what that partition's
answers gave, apart from what the two loops over ``triggers`` count (``holding.Share.task``)."""
EARLIER = MillraceError(
    ErrorCode.UNAVAILABLE, "earlier trigger events of the stream have not been calculated yet"
)

Calculate = Callable[[TriggerBatch, int], bool]
"""Calculates a batch and writes what it gives; its second argument is the partition of ``recalc`` that asked.
False when stopped before it was done; :raises MillraceError: what the job waits for."""


class OneWriter:
    """Used by one loop, whose end is ``stopping``. ``jobs``: this loop's own; ``before``: the loops that must
    have calculated what was told before a request before that request is answered."""

    def __init__(
        self, log: Log, jobs: StreamJobs, overtaking: Overtaking, before: Sequence[TriggerLoop],
        stopping: threading.Event,
    ) -> None:  # fmt: skip
        self._log, self._jobs, self._overtaking, self._before = log, jobs, overtaking, before
        self._stopping = stopping
        tally = tally_of(jobs.catalog, counters.CALC)
        logger = structlog.get_logger("calc-svc")
        self._calculating = Calculating(log, jobs, overtaking, tally, stopping, logger, patient=True)
        self._is_calculated = False
        """Whether what was told before the requests in hand has been calculated."""

    def close(self) -> None:
        """Stop calculating."""
        self._calculating.close()

    def begin_round(self) -> None:
        """Requests have been read."""
        self._is_calculated = False

    def has(self, uid: int) -> bool:
        """Whether a stream has one writer."""
        entry = self._jobs.catalog.stream(uid)
        return entry is not None and one_writer(entry.spec)

    def holds(self, uid: int) -> bool:
        """Whether a stream has one writer and has to wait: nothing of it can be calculated now, or what was
        told before was left for later."""
        catalog = self._jobs.catalog
        return self.has(uid) and (
            bool(catalog.waits(uid))
            or catalog.holds_live(uid)
            or any(loop.holds(uid) for loop in self._before)
        )

    @contextmanager
    def turn(self, uid: int, alive: Callable[[], object]) -> Iterator[Calculate]:
        """Nobody else writes for the stream until this ends, and what was told before has been written.
        ``alive``: called now and then as the loop's sign of life to its group.

        :raises MillraceError: UNAVAILABLE while another loop writes, or if the log is away.
        """
        if not self._is_calculated:
            ends = self._log.end_offsets(topics.TRIGGERS.name)
            for loop in self._before:
                loop.wait_for(ends, self._stopping, alive)
            self._is_calculated = True
        if self.holds(uid):
            raise EARLIER
        with self._overtaking.alone([uid], TURN_SECONDS) as busy:
            if busy:
                raise CUT_AGAIN
            yield self._calculate

    def _calculate(self, batch: TriggerBatch, partition: int) -> bool:
        arrival = Arrival(batch, TASK - partition, batch.number, repeated=False)
        waits = Waits(time.monotonic() + JOB_SECONDS)
        left = self._calculating.write({batch.stream: [batch]}, [arrival], waits)
        for error in (left or {}).values():
            raise error
        return left is not None
