"""What the trigger loop takes of its topic at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from calc_svc import metrics
from calc_svc.loops.counted import Arrival
from calc_svc.loops.holding import LIVE, Left, Part, Share
from millrace_core.wire import events as wire
from millrace_core.wire.events import TriggerBatch
from millrace_wal import DeadLetters, Record


@dataclass(frozen=True, slots=True)
class Round:
    """All batches that came, those that came before too, in order."""

    arrivals: Sequence[Arrival] = field(default_factory=list)

    @property
    def fresh(self) -> list[Arrival]:
        return [arrival for arrival in self.arrivals if not arrival.repeated]

    @property
    def streams(self) -> dict[int, list[TriggerBatch]]:
        """By stream (its uid) the batches that are new."""
        found: dict[int, list[TriggerBatch]] = {}
        for arrival in self.fresh:
            found.setdefault(arrival.batch.stream, []).append(arrival.batch)
        return found

    @property
    def events(self) -> int:
        return sum(len(arrival.batch.events) for arrival in self.fresh)

    def without(self, left: Mapping[Part, Left]) -> Round:
        """What lies before that which is left in the log."""
        if not left:
            return self
        return Round([
            arrival
            for arrival in self.arrivals
            if arrival.part not in left or arrival.offset < left[arrival.part].offset
        ])  # fmt: skip


class Intake:
    """Leaves out batches of trigger-svc that came before: its replay has the old numbers for the same events.
    An answer to a request (its slot is negative) that is given again is not left out: the table has changed
    since, and the requests may be put together otherwise (decision 0017)."""

    def __init__(self, dead: DeadLetters, share: Share = LIVE) -> None:
        self._dead, self._share = dead, share
        self._last: dict[tuple[int, int, int], int] = {}

    def take(self, records: Sequence[Record]) -> Round:
        """What has come. It counts as new until it is :meth:`done`."""
        arrivals = []
        newest: dict[tuple[int, int, int], int] = {}
        for record, batch in self._dead.understood(records, wire.BATCHES.read):
            source = (batch.stream, batch.epoch, batch.slot)
            last = newest.get(source, self._last.get(source, -1))
            repeated = batch.slot >= 0 and batch.number <= last
            arrivals.append(Arrival(batch, self._share.task(record.partition), record.offset, repeated))
            if repeated:
                metrics.EVENTS_DROPPED.labels("repeated").inc(len(batch.events))
            else:
                newest[source] = batch.number
        return Round(arrivals)

    def done(self, found: Round) -> None:
        """All of it has been calculated and written."""
        for arrival in found.fresh:
            batch = arrival.batch
            self._last[batch.stream, batch.epoch, batch.slot] = batch.number
