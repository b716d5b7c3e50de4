"""Trigger batches as they come: decoded, with repeated ones told apart from new ones."""

from __future__ import annotations

from collections.abc import Sequence

from calc_svc import metrics
from calc_svc.loops.holding import LIVE, Share
from millrace_core.calc.rounds import Repeats, Round
from millrace_core.wire import events as wire
from millrace_wal import DeadLetters, Record


class Intake:
    """Leaves out batches that came before (:class:`Repeats`); what is no batch becomes a dead letter."""

    def __init__(self, dead: DeadLetters, share: Share = LIVE) -> None:
        self._dead, self._share, self._repeats = dead, share, Repeats()

    def take(self, records: Sequence[Record]) -> Round:
        """What has come. It counts as new until it is :meth:`done`."""
        understood = self._dead.understood(records, wire.BATCHES.read)
        found = self._repeats.round_of([
            (batch, self._share.task(record.partition), record.offset) for record, batch in understood
        ])  # fmt: skip
        repeated = sum(len(arrival.batch.events) for arrival in found.arrivals if arrival.repeated)
        if repeated:
            metrics.EVENTS_DROPPED.labels("repeated").inc(repeated)
        return found

    def done(self, found: Round) -> None:
        """All of it has been calculated and written."""
        self._repeats.done(found)
