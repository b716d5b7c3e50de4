"""Waiting for what triggers have seen: their stream's record in the catalog, the stored rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from calc_svc.jobs.job import StreamJobs
from calc_svc.loops.holding import Left, Part
from calc_svc.loops.rounds import Round
from calc_svc.store.tables import Behind, Wanted
from millrace_core.errors import MillraceError
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.topics import CATALOG
from millrace_wal import Log

AGAIN_SECONDS = 1.0  # until triggers are tried again that wait for something else than the store


@dataclass(frozen=True, slots=True)
class Reach:
    """Says which triggers of a round cannot be calculated yet."""

    log: Log
    jobs: StreamJobs

    def left(self, found: Round, until: float) -> dict[Part, Left]:
        """Wait for what the triggers have seen, up to ``until`` (monotonic): where those begin for which it
        has not come.

        :raises MillraceError: if the log is away.
        """
        if any(self.jobs.catalog.stream(uid) is None for uid in found.streams):
            # dropped, or its record is on the way: it was written before the stream could trigger
            end = Wanted(catalog=self.log.end_offsets(CATALOG.name).get(0, 0))
            unknown = self._unread(
                found, until, lambda uid, _: Wanted() if self.jobs.catalog.stream(uid) else end
            )
        else:
            unknown = {}
        return unknown | self._unread(found.without(unknown), until, self.jobs.wanted)

    def _unread(
        self, found: Round, until: float, wanted: Callable[[int, Sequence[TriggerBatch]], Wanted]
    ) -> dict[Part, Left]:
        store = self.jobs.store
        try:
            for uid, batches in found.streams.items():
                store.reach(wanted(uid, batches), max(until - time.monotonic(), 0))
            return {}
        except Behind:
            pass
        left: dict[Part, Left] = {}
        for arrival in found.fresh:
            if arrival.part not in left:
                one = wanted(arrival.batch.stream, [arrival.batch])
                if (missing := store.missing(one)) is not None:
                    left[arrival.part] = Left(arrival.offset, _words(missing), one)
        return left


def left_whole(found: Round, waiting: Mapping[int, MillraceError]) -> dict[Part, Left]:
    """All that the round has of these streams (by uid), whose jobs say what they wait for."""
    left: dict[Part, Left] = {}
    for arrival in found.fresh:
        if (error := waiting.get(arrival.batch.stream)) is None:
            continue
        first = left[arrival.part].offset if arrival.part in left else arrival.offset
        if isinstance(error, Behind):
            left[arrival.part] = Left(first, _words(error.missing), error.wanted, upto=arrival.offset + 1)
        else:
            again = time.monotonic() + AGAIN_SECONDS
            left[arrival.part] = Left(first, f"waits: {error.message}", again=again)
    return left


def _words(missing: str) -> str:
    return f"waits until this is stored: {missing}"
