"""What the query reads, from the control records; and when it should begin again, to read something else.

Spark takes what a query subscribes to from its start. So the query leaves out what no stream triggers on when
it starts, and begins again when a stream wants what was left out, or when too much has come that none does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from millrace_core.trigger.topic_use import TopicUse
from millrace_core.wire.topics import CONTROL, WAL_PREFIX
from millrace_wal import BEGIN, Gap, Log, Reader, Record, replay
from trigger_svc.clock import take_in
from trigger_svc.spark.checkpoint import Ends, begin_at, not_read

WAIT = 0.5


class TopicChoice:
    """Follows the control records; a work of :class:`millrace_service.Life`.

    ``most``: so many topics that no stream wants are read before ``on_change`` is called: the query should
    begin again with what :meth:`choose` says then.
    """

    def __init__(
        self,
        log: Log,
        checkpoint: Path,
        most: int,
        logger: FilteringBoundLogger,
        on_change: Callable[[], None],
    ) -> None:
        self.name, self.stopping = "topic-choice", threading.Event()
        self._logger = logger
        self._reader: Reader | None = None
        self._log, self._checkpoint, self._most = log, checkpoint, most
        self._on_change = on_change
        self._lock = threading.Lock()
        self._use: TopicUse | None = None
        self._following = BEGIN
        self._left_out: frozenset[str] = frozenset()

    def choose(self) -> frozenset[str]:
        """The topics that a query that starts now leaves out. Those that it has left out so far and streams
        want begin, in its checkpoint, where these begin. No query may run meanwhile.

        :raises MillraceError: UNAVAILABLE if the broker cannot be asked.
        """
        with self._lock:
            use = self._use or TopicUse()
            if self._use is None:
                for record in replay(self._log, CONTROL.name):
                    self._take_in(use, record)
            starts = self._starts(use.wanted)
            if starts:
                begin_at(self._checkpoint, starts)
            self._use, self._left_out = use, use.needless
        self._logger.info("what the query reads", left_out=len(self._left_out), taken_in=sorted(starts))
        return self._left_out

    def touched(self, gap: Gap) -> tuple[int, ...]:
        """The streams that should have read what is missing of a WAL topic."""
        with self._lock:
            return () if self._use is None else self._use.streams_of(gap.topic, gap.partition, gap.end)

    def _starts(self, wanted: Ends) -> Ends:
        """Where topics begin that were left out. Of those that are not there, or have partitions that no
        stream knew, nothing is said."""
        fresh = not_read(self._checkpoint, wanted) & frozenset(self._log.topics(WAL_PREFIX))
        found = {}
        for topic in fresh:
            ends = self._log.end_offsets(topic)
            if ends.keys() == wanted[topic].keys():
                found[topic] = {p: min(offset, ends[p]) for p, offset in wanted[topic].items()}
        return found

    def begin(self) -> None:
        self._reader = self._log.reader({CONTROL.name: {0: self._following}})

    def step(self) -> None:
        assert self._reader is not None, "begin comes first"
        if self._changed(self._reader.poll(WAIT)):
            self._on_change()

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _changed(self, records: list[Record]) -> bool:
        """Whether the query should begin again, now that these have come."""
        with self._lock:
            if self._use is None or not records:
                return False
            for record in records:
                self._take_in(self._use, record)
            if not self._left_out.isdisjoint(self._use.wanted):
                return True
            return len(self._use.needless - self._left_out) > self._most

    def _take_in(self, use: TopicUse, record: Record) -> None:
        self._following = record.offset + 1
        take_in(record, lambda found, _: use.apply(found), self._logger)
