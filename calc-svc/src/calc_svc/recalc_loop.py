"""The loops that answer requests: one for what changed or was asked for by hand, one for history.

They run beside the trigger loop. What they send are trigger events like those of trigger-svc; a request is
committed when all of its answer is in the log, so a killed process answers it again: the same windows under
the same ids, which overwrite their rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from calc_svc import metrics
from calc_svc.counted import messages, tally_of
from calc_svc.patience import patiently
from calc_svc.recalc import Answers, Output, Work
from calc_svc.told import Told, wants
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import events, recalc, status, topics
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.recalc import Handover, Request, Why
from millrace_wal import BEGIN, GroupReader, Log, Message, Reader, Record

POLL = 0.5
TAKE = 200
GATHER_SECONDS = 0.2  # the slots of one stream ask one after the other
REPORT_SECONDS = 1.0
ALIVE_SECONDS = 60.0
PATIENCE_SECONDS = 120.0  # behind a store that does not come to what a request has seen, others wait
PACE_SECONDS = 10.0  # the longest wait for their calculation; another process may own the partition
LANES: dict[str, frozenset[Why]] = {
    "calc-recalc": frozenset({"CHANGE", "MANUAL"}), "calc-history": frozenset({"HISTORY", "UNTREATED"}),
}  # fmt: skip
"""Consumer group -> what it answers: a long history does not hold up late rows."""
TOLD_OF: frozenset[Why] = frozenset({"MANUAL", "HISTORY", "UNTREATED"})
"""What stands in ``ins_stream_recalculates``; late rows are too many for that."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one stream and epoch that ask why alike, and where the last one stands."""

    requests: list[Request]
    place: tuple[int, int]


def batches(records: Sequence[Record], why: frozenset[Why]) -> Iterator[Batch]:
    """What these records ask for, in order; what can be answered together is."""
    found: dict[tuple[int, int, Why], Batch] = {}
    for record in records:
        try:
            request = recalc.decode_request(record.value or b"")
        except ValueError as error:
            metrics.EVENTS_DROPPED.labels("undecodable").inc()
            structlog.get_logger("calc-svc").error("request", offset=record.offset, error=str(error))
            continue
        if request.why not in why:
            continue
        source = (request.stream, request.epoch, request.why)
        known = found.get(source)
        requests = known.requests if known else []
        found[source] = Batch([*requests, request], (record.partition, record.offset))
    yield from found.values()


class RecalcLoop:
    """One lane. ``calculated(partition)``: up to where the trigger loop of this process is done."""

    def __init__(
        self, log: Log, answers: Answers, group: str, calculated: Callable[[int], int],
    ) -> None:  # fmt: skip
        self._log, self._answers, self._group = log, answers, group
        self._calculated = calculated
        self._tally = tally_of(answers.catalog, group)
        self._logger = structlog.get_logger("calc-svc")
        self._stop = threading.Event()
        self._events: Reader | None = None
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        reader = self._log.subscribe(self._group, [topics.RECALC.name])
        try:
            while not self._stop.is_set():
                records = reader.poll(POLL, TAKE)
                if records:
                    records += reader.poll(GATHER_SECONDS, TAKE)
                    self._take(records, reader)
        finally:
            reader.close()
            if self._events is not None:
                self._events.close()

    def _take(self, records: list[Record], reader: GroupReader) -> None:
        for batch in batches(records, LANES[self._group]):
            if not self._persist(batch, reader):
                return
        offsets = {(record.topic, record.partition): record.offset + 1 for record in records}
        self._patiently(lambda: reader.commit(offsets))

    def _persist(self, batch: Batch, reader: GroupReader) -> bool:
        """Answer, however long the broker is away; False when stopped before it was done."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._stop.is_set():
            began = time.monotonic()
            work = Work(began=began)
            try:
                self._hear(batch)
                self._answer(batch, work, reader)
                self._report(batch, work, "Finished")
                self._count(batch, {"requests_answered": len(batch.requests), "rows_read_again": work.rows})
                metrics.RECALCULATION_SECONDS.labels(self._group).observe(time.monotonic() - began)
                return True
            except MillraceError as error:
                self._logger.warning("recalculation", stream=batch.requests[0].stream, error=str(error))
                waits = error.code is ErrorCode.UNAVAILABLE or time.monotonic() < until
                if error.code.value.retry and waits:
                    self._stop.wait(1.0)
                    continue
                return self._give_up(batch, work, error.message)
            except Exception as error:  # one stream's request must not stop those of the others
                self._logger.exception("recalculation", stream=batch.requests[0].stream)
                return self._give_up(batch, work, f"{type(error).__name__}: {error}")
        return False

    def _give_up(self, batch: Batch, work: Work, message: str) -> bool:
        """The stream goes on without: its live rows wait for history no longer."""
        metrics.CALCULATION_FAILURES.labels("recalculation").inc()
        ends: list[Output] = [
            Handover(request.stream, request.epoch, request.slot, done=True)
            for request in batch.requests
            if request.why in LANES["calc-history"]
        ]
        told = [_message(output) for output in ends]
        self._report(batch, work, "Failed", message)
        self._count(batch, {"requests_failed": len(batch.requests), "rows_read_again": work.rows})
        return not told or self._patiently(lambda: self._log.append(told))

    def _answer(self, batch: Batch, work: Work, reader: GroupReader) -> None:
        told_at = alive_at = time.monotonic()
        before: tuple[int, int] | None = None
        for output in self._answers.answer(batch.requests, batch.place, work):
            (place,) = self._log.append([_message(output)])
            if isinstance(output, TriggerBatch):
                if before is not None:
                    self._pace(*before)
                before = place
            now = time.monotonic()
            if now - told_at > REPORT_SECONDS:
                told_at = now
                self._report(batch, work, "Running")
            if now - alive_at > ALIVE_SECONDS:
                alive_at = now
                reader.poll(0, limit=0)
            if self._stop.is_set():
                return
        metrics.RECALCULATED_ROWS.inc(work.rows)

    def _pace(self, partition: int, offset: int) -> None:
        """Wait until these events are calculated: the next ones wait meanwhile, and those behind are cut."""
        until = time.monotonic() + PACE_SECONDS
        while self._calculated(partition) <= offset and time.monotonic() < until and not self._stop.is_set():
            self._stop.wait(0.02)

    def _hear(self, batch: Batch) -> None:
        """Read what streams were told so far, where somebody may be told that it is so no more."""
        spec = self._answers.catalog.stream(batch.requests[0].stream)
        if batch.requests[0].why != "CHANGE" or spec is None or not wants(spec.spec):
            return
        told: Told = self._answers.told
        name = topics.TRIGGERS.name
        ends = self._log.end_offsets(name)
        if self._events is None:
            self._events = self._log.reader({name: dict.fromkeys(ends, BEGIN)})
        while not self._stop.is_set():
            at = self._events.positions().get(name, {})
            if all(at.get(partition, 0) >= end for partition, end in ends.items()):
                return
            for record in self._events.poll(POLL):
                with suppress(ValueError):  # the trigger loop counts it
                    told.hear(events.decode(record.value or b""))

    def _report(self, batch: Batch, work: Work, state: str, message: str = "") -> None:
        if batch.requests[0].why not in TOLD_OF:
            return
        request = batch.requests[0]
        spans = [span for one in batch.requests for span in _spans(one)]
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        news = status.Recalculation(
            request.stream, batch.place[0], batch.place[1], request.why, first, last, state,
            1.0 if state == "Finished" else work.fraction, work.rows, work.events, message,
            seconds_left(state, work.fraction, time.monotonic() - work.began),
        )  # fmt: skip
        self._patiently(
            lambda: self._log.append([Message(topics.STATUS.name, status.key(news), status.encode(news))])
        )

    def _count(self, batch: Batch, counts: dict[str, int]) -> None:
        stream, (partition, _) = batch.requests[0].stream, batch.place
        if self._answers.catalog.stream(stream) is not None:
            self._tally.add(stream, partition, counts)
            news = messages(self._tally)
            self._patiently(lambda: self._log.append(news))

    def _patiently(self, action: Callable[[], object]) -> bool:
        return patiently(action, self._stop, self._logger, "writing")


def seconds_left(state: str, fraction: float, seconds: float) -> float | None:
    """How long what has taken so many seconds for this fraction still takes at the same pace; None for what
    is given up, or has done nothing yet."""
    if state == "Finished":
        return 0.0
    return seconds * (1 - fraction) / fraction if state == "Running" and fraction > 0 else None


def _spans(request: Request) -> list[tuple[int, int]]:
    found = [(part.first, part.last) for part in request.parts]
    return found if request.rest is None else [*found, request.rest]


def _message(output: Output) -> Message:
    if isinstance(output, TriggerBatch):
        key = f"{output.stream}/{output.slot}".encode()
        return Message(topics.TRIGGERS.name, key, events.encode(output))
    return Message(topics.HANDOVER.name, recalc.key(output.stream, output.slot), recalc.encode(output))
