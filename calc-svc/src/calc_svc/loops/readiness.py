"""Waiting for what triggers have seen: their stream's record in the catalog, the stored rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calc_svc.jobs.job import StreamJobs
from millrace_core.calc.rounds import Round
from millrace_core.calc.waiting import Behind, Left, StreamPartition, Wanted, in_words
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.topics import CATALOG
from millrace_wal import Log


@dataclass(frozen=True, slots=True)
class Readiness:
    """Says which triggers of a round cannot be calculated yet."""

    log: Log
    jobs: StreamJobs

    def left(self, found: Round, until: float) -> dict[StreamPartition, Left]:
        """Wait for what the triggers have seen, up to ``until`` (monotonic). Returns where the triggers begin
        for which it has not come.

        :raises MillraceError: if the log is away.
        """
        if any(self.jobs.catalog.stream(uid) is None for uid in found.streams):
            # dropped, or its record is still on the way: that was written before the stream could trigger
            end = Wanted(catalog=self.log.end_offsets(CATALOG.name).get(0, 0))
            unknown = self._unread(
                found, until, lambda uid, _: Wanted() if self.jobs.catalog.stream(uid) else end
            )
        else:
            unknown = {}
        return unknown | self._unread(found.without(unknown), until, self.jobs.wanted)

    def _unread(
        self, found: Round, until: float, wanted: Callable[[int, Sequence[TriggerBatch]], Wanted]
    ) -> dict[StreamPartition, Left]:
        store = self.jobs.store
        try:
            for uid, batches in found.streams.items():
                store.reach(wanted(uid, batches), max(until - time.monotonic(), 0))
            return {}
        except Behind:
            pass
        left: dict[StreamPartition, Left] = {}
        for arrival in found.fresh:
            if arrival.part not in left:
                one = wanted(arrival.batch.stream, [arrival.batch])
                if (missing := store.missing(one)) is not None:
                    left[arrival.part] = Left(arrival.offset, in_words(missing), one)
        return left
