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
from calc_svc.holding import Holding
from calc_svc.job import Product, StreamJobs
from calc_svc.patience import append_apart, patiently
from millrace_core.errors import MillraceError
from millrace_core.wire import counters, notices, registrations, status, topics
from millrace_core.wire import events as wire
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_wal import GroupReader, Log, Message, Record

GROUP = "calc-svc"
POLL = 0.5
TAKE = 5_000  # messages of one round
SIDE_BY_SIDE = 2
CATALOG_SECONDS = 10.0


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

    def __init__(self) -> None:
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
            found.arrivals.append(Arrival(batch, record.partition, record.offset, repeated))
            if repeated:
                metrics.EVENTS_DROPPED.labels("repeated").inc(len(batch.events))
                continue
            self._last[source] = batch.number
            found.streams.setdefault(batch.stream, []).append(batch)
        return found


class TriggerLoop:
    """While jobs run, triggers queue up; the next round takes all that wait (natural batching)."""

    def __init__(self, log: Log, jobs: StreamJobs) -> None:
        self._log, self._jobs = log, jobs
        self._logger = structlog.get_logger("calc-svc")
        self._stop = threading.Event()
        self._intake = Intake()
        self._done: dict[int, int] = {}
        self._holding = Holding(log, jobs.catalog)
        self._tally = tally_of(jobs.catalog, counters.CALC)
        self._workers = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="job")
        self._thread = threading.Thread(target=self._run, name="trigger-loop", daemon=True)

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
        reader = self._log.subscribe(GROUP, [topics.TRIGGERS.name], client=GROUP)
        try:
            while not self._stop.is_set():
                records = reader.poll(0 if self._holding.due else POLL, TAKE)
                self._holding.own(reader.assigned())
                self._tally.keep({partition for _, partition in reader.assigned()})
                if records:
                    kept, marks = self._holding.sift(records)
                    found = self._intake.take(kept)
                    found.offsets |= {(one.topic, one.partition): one.offset + 1 for one in records}
                    self._round(found, marks, reader)
                self._read_again()
        finally:
            self._holding.close()
            reader.close()

    def _round(self, found: Round, marks: Sequence[Message], reader: GroupReader) -> None:
        if not self._calculate(found):
            return
        if not marks or self._patiently(lambda: self._log.append(marks)):
            self._patiently(lambda: reader.commit(found.offsets))
        self._done |= {partition: offset for (_, partition), offset in found.offsets.items()}

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
        metrics.TRIGGERS_WAITING.set(found.events)
        if any(self._jobs.catalog.stream(uid) is None for uid in found.streams):
            # dropped, or its record is on the way: it was written before the stream could trigger
            self._patiently(self._catch_up)
        urgent = [uid for uid in found.streams if self._jobs.low_latency(uid)]
        for uids in (urgent, [uid for uid in found.streams if uid not in set(urgent)]):
            products = list(self._workers.map(lambda uid: self._jobs.run(uid, found.streams[uid]), uids))
            count_round(self._tally, found.arrivals, products, time.time_ns())
            if uids and not self._write(products):
                return False
        metrics.TRIGGERS_CALCULATED.inc(found.events)
        metrics.TRIGGERS_WAITING.set(0)
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
