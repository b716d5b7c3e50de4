"""The trigger loop: takes all events that wait, calculates them stream by stream, writes, tells, commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import structlog

from calc_svc import metrics
from calc_svc.counted import Arrival, count_round, messages, tally_of
from calc_svc.holding import LIVE, Holding, Share
from calc_svc.job import Product, StreamJobs
from calc_svc.overtaking import Batches, Overtaking
from calc_svc.patience import append_apart, patiently
from millrace_core.errors import MillraceError
from millrace_core.wire import counters, notices, registrations, status, topics
from millrace_core.wire import events as wire
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_wal import GroupReader, Log, Message, Record

POLL = 0.5
TAKE = 5_000  # messages of one round
CATALOG_SECONDS = 10.0
PASS_SECONDS = 5.0  # how long a commit waits for which nothing was calculated
PLACE_SECONDS = 20.0  # the longest wait for the live loop's partitions: others may own them all


@dataclass(slots=True)
class Round:
    """What one round took: per stream the batches that are new, and where to commit."""

    streams: dict[int, list[TriggerBatch]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    """All batches, those that came before too, in order."""

    @property
    def events(self) -> int:
        return sum(len(batch.events) for batches in self.streams.values() for batch in batches)


class Intake:
    """Sorts messages by stream and leaves out batches of trigger-svc that came before: its replay has the old
    numbers for the same events. An answer to a request (its slot is negative) that is given again is not left
    out: the table has changed since, and the requests may be put together otherwise (decision 0017)."""

    def __init__(self, share: Share = LIVE) -> None:
        self._share = share
        self._last: dict[tuple[int, int, int], int] = {}

    def take(self, records: Sequence[Record]) -> Round:
        found = Round()
        for record in records:
            found.offsets[record.topic, record.partition] = record.offset + 1
            try:
                batch = wire.decode(record.value or b"")
            except ValueError as error:
                metrics.EVENTS_DROPPED.labels("undecodable").inc()
                structlog.get_logger("calc-svc").error(
                    "trigger batch", offset=record.offset, error=str(error)
                )
                continue
            source = (batch.stream, batch.epoch, batch.slot)
            repeated = batch.slot >= 0 and batch.number <= self._last.get(source, -1)
            task = self._share.task(record.partition)
            found.arrivals.append(Arrival(batch, task, record.offset, repeated))
            if repeated:
                metrics.EVENTS_DROPPED.labels("repeated").inc(len(batch.events))
                continue
            self._last[source] = batch.number
            found.streams.setdefault(batch.stream, []).append(batch)
        return found


class TriggerLoop:
    """While jobs run, triggers queue up; the next round takes all that wait (natural batching).

    ``share``: what it calculates of the topic. ``first``: the loop of what is live, which goes first
    (decision 0024).
    """

    def __init__(
        self, log: Log, jobs: StreamJobs, overtaking: Overtaking, share: Share = LIVE,
        first: TriggerLoop | None = None,
    ) -> None:  # fmt: skip
        self._log, self._jobs, self._share, self._first = log, jobs, share, first
        self._overtaking = overtaking
        self._logger = structlog.get_logger("calc-svc")
        self._stop = threading.Event()
        self._intake = Intake(share)
        self._own: set[int] = set()
        self._done: dict[int, int] = {}
        self._passed: dict[tuple[str, int], int] = {}
        self._committed = 0.0
        self._holding = Holding(log, jobs.catalog, share)
        self._tally = tally_of(jobs.catalog, counters.CALC)
        self._workers = ThreadPoolExecutor(share.side_by_side, thread_name_prefix="job")
        self._thread = threading.Thread(target=self._run, name=share.group, daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the round under way."""
        self._stop.set()
        self._jobs.stop()
        if self._thread.is_alive():
            self._thread.join(60)
        self._workers.shutdown()

    def _run(self) -> None:
        group = self._share.group
        reader = self._log.subscribe(group, [topics.TRIGGERS.name])
        try:
            while not self._stop.is_set():
                records = reader.poll(0 if self._holding.due else POLL, TAKE)
                assigned = reader.assigned()
                self._holding.own(assigned)
                self._own = {partition for _, partition in assigned}
                self._tally.keep({self._share.task(partition) for partition in self._own})
                self._take(records, reader)
                self._done = dict(reader.positions().get(topics.TRIGGERS.name, {}))
                self._read_again()
        finally:
            self._holding.close()
            reader.close()

    def _take(self, records: Sequence[Record], reader: GroupReader) -> None:
        """Calculate what of the records is this loop's, and commit."""
        self._passed |= {(one.topic, one.partition): one.offset + 1 for one in records}
        mine = [record for record in records if self._share.has(record)]
        if mine:
            self._let_pass(mine)
            kept, marks = self._holding.sift(mine)
            if not self._calculate(self._intake.take(kept)):
                return
            if marks and not self._patiently(lambda: self._log.append(marks)):
                return
        now = time.monotonic()
        if self._passed and (mine or now - self._committed > PASS_SECONDS):
            offsets, self._passed, self._committed = self._passed, {}, now
            self._patiently(lambda: reader.commit(offsets))

    def _let_pass(self, records: Sequence[Record]) -> None:
        """What is live and was in the log before these is calculated and written first: no older result of it
        comes after a newer one of theirs."""
        if self._first is None:
            return
        until = time.monotonic() + PLACE_SECONDS
        ends = {record.partition: record.offset for record in records}
        while self._first.alive and any(self._first.behind(*end) for end in ends.items()):
            if self._stop.wait(0.01) or (not self._first.placed and time.monotonic() > until):
                return

    @property
    def placed(self) -> bool:
        """Whether it knows which partitions it reads."""
        return bool(self._own)

    def behind(self, partition: int, offset: int) -> bool:
        """Whether this process will calculate what lies before this offset and has not yet, or does not know
        so far."""
        return not self.placed or (partition in self._own and self.done(partition) <= offset)

    def done(self, partition: int) -> int:
        """The first offset of a partition of ``triggers`` that this process has not calculated."""
        return self._done.get(partition, 0)

    def _read_again(self) -> None:
        """Some of what a stream left in the log while it was paused."""
        try:
            chunk = self._holding.chunk()
        except MillraceError as error:
            self._logger.warning("reading triggers again", error=str(error))
            self._stop.wait(1.0)
            return
        if chunk is None or not self._calculate(self._intake.take(chunk.records)):
            return
        told = chunk.records or chunk.done
        if not told or self._patiently(lambda: self._log.append([chunk.message])):
            self._holding.calculated(chunk)

    def _calculate(self, found: Round) -> bool:
        """Calculate and write; False when stopped before it was done."""
        metrics.TRIGGERS_WAITING.labels(self._share.group).set(found.events)
        if any(self._jobs.catalog.stream(uid) is None for uid in found.streams):
            # dropped, or its record is on the way: it was written before the stream could trigger
            self._patiently(self._catch_up)
        urgent = [uid for uid in found.streams if self._jobs.low_latency(uid)]
        for uids in (urgent, [uid for uid in found.streams if uid not in set(urgent)]):
            if uids and not self._persist({uid: found.streams[uid] for uid in uids}, found.arrivals):
                return False
        metrics.TRIGGERS_CALCULATED.inc(found.events)
        metrics.TRIGGERS_WAITING.labels(self._share.group).set(0)
        return True

    def _persist(self, batches: Batches, arrivals: Sequence[Arrival]) -> bool:
        """Calculate and write what is of these streams, until nobody has written a window of it meanwhile;
        False when stopped before it was done."""
        left, counted = batches, arrivals
        while left:
            with self._overtaking.turn() as turn:
                products = list(self._workers.map(self._jobs.run, left.keys(), left.values()))
                count_round(self._tally, counted, products, time.time_ns())
                if not self._write(products):
                    return False
                left, counted = turn.written(left), []
                metrics.WINDOWS_OVERTAKEN.inc(sum(len(b.events) for some in left.values() for b in some))
        return True

    def _catch_up(self) -> None:
        """Wait until the catalog is read as far as it is written now."""
        end = self._log.end_offsets(topics.CATALOG.name).get(0, 0)
        self._jobs.store.wait(end, {}, CATALOG_SECONDS)

    def _write(self, products: Sequence[Product]) -> bool:
        """Results first, then the notifications of them; False when stopped before it was done."""
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
        # with what is written anyway: another append would delay the next round
        (told if told or not rows else rows).extend(messages(self._tally))
        owner = {id(message): product.stream for product in products for message in product.messages}
        failed: dict[int, status.StreamFailure] = {}

        def refuse(message: Message, error: MillraceError) -> None:
            _count_refused(error)
            if (uid := owner.get(id(message))) is not None:
                failed[uid] = status.StreamFailure(uid, f"a result cannot be written: {error.message}")

        if rows and not self._patiently(partial(self._append_results, rows, refuse)):
            return False
        told += [Message(topics.STATUS.name, status.key(one), status.encode(one)) for one in failed.values()]
        return not told or self._patiently(partial(append_apart, self._log, told, refuse))

    def _append_results(self, rows: list[Message], refuse: Callable[[Message, MillraceError], None]) -> None:
        """Rows of tables that were dropped meanwhile would hold up all others for ever: they are left out."""
        try:
            self._log.append(rows)
        except MillraceError as error:
            topics_now = self._jobs.catalog.wal_topics() | {topics.STATUS.name}
            gone = [message for message in rows if message.topic not in topics_now]
            if not gone and error.code.value.retry:
                raise
            metrics.EVENTS_DROPPED.labels("no such table").inc(len(gone))
            kept = [message for message in rows if message.topic in topics_now]
            if kept:
                append_apart(self._log, kept, refuse)

    def _patiently(self, action: Callable[[], object]) -> bool:
        """A result that the log refuses for good is dropped."""
        return patiently(action, self._stop, self._logger, "writing results", _count_refused)


def _count_refused(error: MillraceError) -> None:
    metrics.CALCULATION_FAILURES.labels(error.code.name).inc()


def notice_messages(stream: int, told: Sequence[Notice]) -> list[Message]:
    """One message per group, in order."""
    by_group: dict[str, list[Notice]] = {}
    for notice in told:
        by_group.setdefault(notice.group, []).append(notice)
    return [
        Message(
            topics.NOTIFICATIONS.name, f"{stream}/{group}".encode(), notices.encode(NoticeBatch(part, stream))
        )
        for group, part in by_group.items()
    ]
