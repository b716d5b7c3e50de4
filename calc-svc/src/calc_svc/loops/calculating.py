"""Calculates triggers stream by stream, and writes what they give: results first, then notifications."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from structlog.typing import FilteringBoundLogger

from calc_svc import metrics
from calc_svc.jobs.job import StreamJobs
from calc_svc.jobs.waits import Waits
from calc_svc.loops.aside import Aside, Running, Workers
from calc_svc.loops.counted import messages
from calc_svc.loops.latest import LatestReader
from calc_svc.loops.overtaking import OneTurn, Overtaking
from calc_svc.loops.patience import append_apart, patiently
from calc_svc.loops.traces import EventTraces, TracedRound
from millrace_core.calc.overtaking import Batches, one_writer
from millrace_core.calc.product import Product, notice_messages
from millrace_core.calc.rounds import Arrival, count_round
from millrace_core.calc.waiting import SetAside
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import registrations, status, topics
from millrace_core.wire.counters import Tally
from millrace_core.wire.events import TriggerBatch
from millrace_wal import Log, Message

Waiting = dict[int, MillraceError]
"""By stream (its uid), for streams that are to be calculated later: what each waits for."""
CUT_AGAIN = MillraceError(ErrorCode.UNAVAILABLE, "windows of the stream are being recalculated")


class Calculating:
    """Used by one thread. ``side_by_side``: how many streams are calculated at a time; ``stopping``: ends
    what is under way; ``latest``: for answers that have waited in the log, reads what live triggers have told
    since."""

    def __init__(
        self, log: Log, jobs: StreamJobs, overtaking: Overtaking, tally: Tally, stopping: threading.Event,
        logger: FilteringBoundLogger, side_by_side: int = 1, latest: LatestReader | None = None,
        traces: EventTraces | None = None, *, patient: bool = False,
    ) -> None:  # fmt: skip
        """``patient``: a round waits for each stream, however long it takes."""
        self._log, self._jobs, self._overtaking = log, jobs, overtaking
        self._tally, self._stopping, self._logger, self._latest = tally, stopping, logger, latest
        self._traces = traces or EventTraces()
        self._workers = Workers(side_by_side, self._run, patient=patient)
        self.since = float("inf")
        """When the running jobs began (monotonic); infinite while none runs."""

    def close(self) -> None:
        """Stop calculating."""
        self._workers.close()
        if self._latest is not None:
            self._latest.close()

    def persist(self, batches: Batches, arrivals: Sequence[Arrival], waits: Waits) -> Waiting | None:
        """Calculate these streams and write what they give. Returns, for streams that are to be calculated
        later, what each waits for; None when stopped before it was done. ``arrivals``: what is counted."""
        mine = self._of_one_writer(batches)
        with self._overtaking.alone(mine, 0.0) as busy:
            waiting = self.write(_without(batches, busy), arrivals, waits)
        if not busy or waiting is None:
            return waiting
        # the others went first, for they need not wait
        with self._overtaking.alone(busy, waits.seconds) as left:
            late = self.write({uid: batches[uid] for uid in busy - left}, arrivals, waits)
        return None if late is None else waiting | late | dict.fromkeys(left, CUT_AGAIN)

    def _of_one_writer(self, batches: Iterable[int]) -> set[int]:
        entries = ((uid, self._jobs.catalog.stream(uid)) for uid in batches)
        return {uid for uid, entry in entries if entry is not None and one_writer(entry.spec)}

    def write(self, batches: Batches, arrivals: Sequence[Arrival], waits: Waits) -> Waiting | None:
        """As :meth:`persist`, once nobody else writes for those streams that have one writer. Repeated until
        nobody has written one of their windows meanwhile."""
        left, counted = batches, arrivals
        waiting: Waiting = {}
        traced = self._traces.of(batches, arrivals) if self._traces.on else None
        while left:
            with self._overtaking.turn() as turn:
                self.since = time.monotonic()
                if (corrected := self._corrected(left)) is None:
                    return None
                left = corrected
                found, late = self._workers.run(left, waits, traced)
                self._set_aside(late, counted, turn)
                self.since = float("inf")
                waiting |= {one.stream: one.waits for one in found if one.waits is not None}
                waiting |= {one.stream: SetAside() for one in late}
                products = [one for one in found if one.waits is None]
                count_round(self._tally, counted, products, time.time_ns())
                if not self._write(products, traced):
                    return None
                left = turn.written({uid: some for uid, some in left.items() if uid not in waiting})
                # the rows of other tables that these need were already read the first time
                counted, traced, waits = [], None, replace(waits, known=frozenset(left))
                metrics.WINDOWS_OVERTAKEN.inc(sum(len(b.events) for some in left.values() for b in some))
        return waiting

    def _corrected(self, batches: Batches) -> Batches | None:
        """See :meth:`LatestReader.corrected`; None when stopped before the log could be read."""
        latest = self._latest
        if latest is None:
            return batches
        found = dict(batches)
        return found if self.patiently(lambda: found.update(latest.corrected(batches))) else None

    def _run(
        self, uid: int, batches: Sequence[TriggerBatch], waits: Waits, traced: TracedRound | None
    ) -> Product:
        if traced is None:
            return self._jobs.run(uid, batches, waits)
        return traced.run(uid, lambda: self._jobs.run(uid, batches, waits))

    def _set_aside(self, late: Sequence[Running], arrivals: Sequence[Arrival], turn: OneTurn) -> None:
        self._workers.beside(late, arrivals, turn)
        for uid in self._of_one_writer([one.stream for one in late]):
            self._overtaking.keep(uid)

    @property
    def aside(self) -> set[int]:
        """The streams that are calculated beside the rounds."""
        return self._workers.streams

    def settle(self) -> list[tuple[Aside, MillraceError | None]] | None:
        """Write the results of streams that were set aside and are done. Returns them, each with what it
        still waits for, if anything; None when stopped before it was done."""
        found: list[tuple[Aside, MillraceError | None]] = []
        for one in self._workers.done():
            product = one.job.future.result()
            waits = product.waits
            if waits is None:
                count_round(self._tally, one.arrivals, [product], time.time_ns())
                if not self._write([product]):
                    return None
                if one.turn.written({one.stream: one.job.batches}):
                    waits = CUT_AGAIN
            one.turn.end()
            self._overtaking.let_go(one.stream)
            found.append((one, waits))
        return found

    def _write(self, products: Sequence[Product], traced: TracedRound | None = None) -> bool:
        """Write results first, then their notifications; False when stopped before it was done."""
        if traced is not None:
            traced.calculated(products)
        rows = [message for product in products for message in product.messages]
        told = [
            message for product in products for message in notice_messages(product.stream, product.notices)
        ]
        told += [
            Message(topics.STATUS.name, status.key(product.status), status.encode(product.status))
            for product in products
            if product.status is not None
        ]
        told += [
            Message(*registrations.encode(gone)) for product in products for gone in product.outputs_gone
        ]
        # together with what is written anyway: another append would delay the next round
        (told if told or not rows else rows).extend(messages(self._tally))
        owner = {id(message): product.stream for product in products for message in product.messages}
        failed: dict[int, status.StreamFailure] = {}

        def refuse(message: Message, error: MillraceError) -> None:
            _count_refused(error)
            if (uid := owner.get(id(message))) is not None:
                failed[uid] = status.StreamFailure(uid, f"a result could not be written: {error.message}")

        if rows and not self.patiently(partial(self._append_results, rows, refuse)):
            return False
        told += [Message(topics.STATUS.name, status.key(one), status.encode(one)) for one in failed.values()]
        if traced is not None:
            told = traced.telling(told)
        done = not told or self.patiently(partial(append_apart, self._log, told, refuse))
        if traced is not None:
            traced.told()
        return done

    def _append_results(self, rows: list[Message], refuse: Callable[[Message, MillraceError], None]) -> None:
        """Append the rows, without those of tables that were dropped meanwhile: they would hold up all others
        for ever."""
        try:
            self._jobs.store.sent(rows, self._log.append(rows))
        except MillraceError as error:
            topics_now = self._jobs.catalog.wal_topics() | {topics.STATUS.name}
            gone = [message for message in rows if message.topic not in topics_now]
            if not gone and error.code.value.retry:
                raise
            metrics.EVENTS_DROPPED.labels("no such table").inc(len(gone))
            kept = [message for message in rows if message.topic in topics_now]
            if kept:
                append_apart(self._log, kept, refuse)

    def patiently(self, action: Callable[[], object]) -> bool:
        """Write, however long the log is away. A result that it refuses for good is dropped."""
        return patiently(action, self._stopping, self._logger, "writing results", _count_refused)


def _without(batches: Batches, streams: set[int]) -> Mapping[int, Sequence[TriggerBatch]]:
    return {uid: some for uid, some in batches.items() if uid not in streams}


def _count_refused(error: MillraceError) -> None:
    metrics.CALCULATION_FAILURES.labels(error.code.name).inc()
