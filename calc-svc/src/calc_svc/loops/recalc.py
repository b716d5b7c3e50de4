"""The loops that answer requests: one for what changed or was asked for by hand, one for history.

They run beside the trigger loop. What they send are trigger events like those of trigger-svc. A request is
committed when all of its answer is in the log, so after a kill it is answered again: with the same windows
under the same ids, which overwrite their rows.

A request waits for the definitions and rows that it is about, however long they take. Requests of other
streams go on meanwhile, and no commit passes the waiting one (decision 0035).

If the windows of a stream have one writer (``calc.overtaking.one_writer``), what changed is cut and
calculated here, in one turn. An answer that waited in the log instead might take back newer windows that live
triggers have told of meanwhile. What was told is written to ``triggers`` all the same, for the record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import msgspec
import structlog

from calc_svc import metrics
from calc_svc.jobs.answers import Answers
from calc_svc.loops.counted import messages, tally_of
from calc_svc.loops.one_writer import Calculate, OneWriter
from calc_svc.loops.patience import patiently
from millrace_core.calc.waiting import Behind
from millrace_core.errors import MillraceError, WireError
from millrace_core.recalc.requests import (
    DONE,
    LANES,
    TOLD_OF,
    Batch,
    Pending,
    batches,
    queued,
    seconds_left,
    spans_of,
)
from millrace_core.recalc.sending import Output, Work
from millrace_core.recalc.told import Told, wants
from millrace_core.wire import events, recalc, status, topics
from millrace_core.wire.events import ANSWERED, TriggerBatch
from millrace_core.wire.recalc import Handover, Request
from millrace_service import behind, passed_over
from millrace_wal import BEGIN, DeadLetters, GapWatch, GroupReader, Log, Message, Reader, Record, up_to

POLL, REST = 0.5, 1.0  # seconds that a step waits for requests: while some are pending, and otherwise
TAKE = 2_000  # requests per round: those of a stream are answered together, adjoining ranges as one
GATHER_SECONDS = 0.2  # the slots of one stream ask one after the other
REPORT_SECONDS = 1.0
ANSWER_SECONDS = 600.0  # an answer may take this long before it counts as stalled
ALIVE_SECONDS = 60.0
WAIT_SECONDS = 1.0  # for what is not there yet; then the requests of other streams have their turn
AGAIN_SECONDS = 1.0  # until a request that waits for something other than the store is tried again
TELL_SECONDS = 10.0  # between two reports of what a request waits for
MOST = 10_000  # requests that wait in memory; any more wait in the log
PACE_SECONDS = 10.0  # the longest wait for a calculation, for another process may own the partition


class RecalcLoop:
    """One lane; a work of :class:`millrace_service.Life`.

    ``calculated(partition)``: the offset up to which the trigger loop of this process is done. ``writer``:
    given the loop's ``stopping``, makes what calculates here; None: all answers are calculated by the trigger
    loop.
    """

    def __init__(
        self, log: Log, answers: Answers, group: str, calculated: Callable[[int], int],
        writer: Callable[[threading.Event], OneWriter] | None = None,
    ) -> None:  # fmt: skip
        self._log, self._answers, self._group = log, answers, group
        self._calculated = calculated
        self._tally = tally_of(answers.catalog, group)
        self._logger = structlog.get_logger("calc-svc")
        self._gaps = GapWatch(log, group, group, metrics.count_lost)
        # both lanes read all requests, but only one of them writes dead letters
        if group == next(iter(LANES)):
            self._dead = DeadLetters(log, "calc-svc", passed_over(self._logger))
        else:
            self._dead = DeadLetters(log, None)
        self.name, self.stopping = group, threading.Event()
        self._writer = None if writer is None else writer(self.stopping)
        self._reader: GroupReader | None = None
        self._answering = float("inf")
        self._events: Reader | None = None
        self._pending: list[Pending] = []
        self._done: dict[int, int] = {}
        self._passed: dict[tuple[str, int], int] = {}
        self._committed: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        self._pending, self._passed, self._committed = [], {}, {}
        self._reader = self._log.subscribe(self._group, [topics.RECALC.name])

    def step(self) -> None:
        """Take the requests that have come, and answer."""
        reader = self._reader
        assert reader is not None, "begin comes first"
        waiting = sum(len(one.batch.requests) for one in self._pending)
        records = reader.poll(POLL if self._pending else REST, TAKE if waiting < MOST else 0)
        if records:
            records += reader.poll(GATHER_SECONDS, TAKE)
            # what comes again has not been committed, whatever was remembered
            self._committed = {}
        self._gaps.keep(reader.assigned())
        self._gaps.watch(records)
        self._take(records, reader)
        self._done = dict(reader.positions().get(topics.RECALC.name, {}))

    def end(self) -> None:
        if self._writer is not None and self.stopping.is_set():
            self._writer.close()
        for one in (self._reader, self._events):
            if one is not None:
                one.close()
        self._reader = self._events = None

    def look(self) -> tuple[object, str]:
        """How far requests were taken, and what lies after that. An answer may take its time."""
        now, at = time.monotonic(), dict(self._done)
        working = int(now) if now - ANSWER_SECONDS < self._answering <= now else 0
        ends = self._log.end_offsets(topics.RECALC.name)
        return (at, working), behind(topics.RECALC.name, ends, at)

    def _take(self, records: list[Record], reader: GroupReader) -> None:
        """Answer what has come, and what has waited long enough, in order for each stream; then commit."""
        self._passed |= {(record.topic, record.partition): record.offset + 1 for record in records}
        if self._writer is not None:
            self._writer.begin_round()
        asked = self._dead.understood(records, recalc.REQUESTS.read)
        left: list[Pending] = []
        late = set[int]()
        for one in queued(self._pending, batches(asked, LANES[self._group])):
            if self.stopping.is_set():
                return
            if one.stream in late or not self._persist(one, reader):
                left.append(one)
                late.add(one.stream)
        self._pending = left
        offsets = dict(self._passed)
        for one in left:
            for partition, first in one.batch.begins.items():
                where = topics.RECALC.name, partition
                offsets[where] = min(first, offsets[where])
        if offsets == self._committed or not self._patiently(self._dead.write):
            return
        if self._patiently(lambda: reader.commit(offsets)):
            self._committed = offsets

    def _persist(self, one: Pending, reader: GroupReader) -> bool:
        """Answer; False where it has to wait, or was stopped before it was done."""
        if not self._is_due(one):
            return False
        batch, began = one.batch, time.monotonic()
        work = Work(began=began)
        try:
            self._reach(one)
            self._hear(batch)
            self._answering = began
            self._answer(batch, work, reader)
            if self.stopping.is_set():
                return False
            self._report(batch, work, *self._outcome(batch, work))
            self._count(batch, {"requests_answered": len(batch.requests), "rows_read_again": work.rows})
            metrics.RECALCULATION_SECONDS.labels(self._group).observe(time.monotonic() - began)
            return True
        except MillraceError as error:
            self._logger.warning("recalculation", stream=one.stream, error=str(error))
            if not error.code.value.retry:
                return self._give_up(batch, work, error.message)
            self._wait(one, error)
            return False
        except Exception as error:  # one stream's request must not stop those of the others
            self._logger.exception("recalculation", stream=one.stream)
            return self._give_up(batch, work, f"{type(error).__name__}: {error}")
        finally:
            self._answering = float("inf")

    def _is_due(self, one: Pending) -> bool:
        if time.monotonic() < one.again:
            return False
        if self._writer is not None and self._writer.holds(one.stream):
            return False
        return one.wanted is None or self._answers.store.missing(one.wanted) is None

    def _reach(self, one: Pending) -> None:
        """Wait for the definitions and the rows that are meant, as they are now. The request does not wait
        for what is written later.

        :raises MillraceError: TIMEOUT if they have not come, UNAVAILABLE if the log is away.
        """
        store = self._answers.store
        if one.wanted is None:
            one.wanted = self._answers.definitions()
        if not one.defined:
            store.reach(one.wanted, WAIT_SECONDS)
            later = self._later(one.batch)
            one.wanted, one.defined = self._answers.wanted(one.batch.requests, later), True
        store.reach(one.wanted, WAIT_SECONDS)

    def _wait(self, one: Pending, error: MillraceError) -> None:
        """Have the request tried again once what is missing has come."""
        now = time.monotonic()
        if not isinstance(error, Behind):
            one.again = now + AGAIN_SECONDS
        if now - one.told > TELL_SECONDS:
            one.told = now
            missing = f" until this is stored: {error.missing}" if isinstance(error, Behind) else f": {error}"
            self._report(one.batch, Work(began=now), "Running", f"waiting{missing}")

    def _give_up(self, batch: Batch, work: Work, message: str) -> bool:
        """The stream goes on without the answer: its live rows no longer wait for history. SHOW STREAMS says
        so until a calculation of the stream succeeds."""
        metrics.CALCULATION_FAILURES.labels("recalculation").inc()
        ends: list[Output] = [
            Handover(request.stream, request.epoch, request.slot, done=True)
            for request in batch.requests
            if request.why in LANES["calc-history"]
        ]
        told = [_message(output) for output in ends]
        stream = batch.requests[0].stream
        if self._answers.catalog.stream(stream) is not None:
            failure = status.StreamFailure(stream, f"past windows could not be calculated: {message}")
            told.append(Message(topics.STATUS.name, status.key(failure), status.encode(failure)))
        self._report(batch, work, "Failed", message)
        self._count(batch, {"requests_failed": len(batch.requests), "rows_read_again": work.rows})
        return not told or self._patiently(lambda: self._log.append(told))

    def _answer(self, batch: Batch, work: Work, reader: GroupReader) -> None:
        uid = batch.requests[0].stream
        if self._writer is None or batch.source[2] == "ROWS" or not self._writer.has(uid):
            self._send(batch, work, reader, self._paced())
            return
        with self._writer.turn(uid, lambda: reader.poll(0, limit=0)) as calculate:
            self._send(batch, work, reader, lambda output: self._calculate(calculate, batch, output))

    def _calculate(self, calculate: Calculate, batch: Batch, output: Output) -> None:
        """Calculate an answer's windows, then tell of them.

        :raises MillraceError: what the job waits for, or if the log is away.
        """
        told = output
        if isinstance(output, TriggerBatch):
            if not calculate(output, batch.place[0]):
                return
            told = msgspec.structs.replace(output, slot=ANSWERED)
        self._log.append([_message(told)])

    def _paced(self) -> Callable[[Output], None]:
        """A function that sends what is to be calculated by the trigger loop, at the pace of that loop."""
        before: list[tuple[int, int]] = []

        def send(output: Output) -> None:
            (place,) = self._log.append([_message(output)])
            if isinstance(output, TriggerBatch):
                if before:
                    self._pace(*before.pop())
                before.append(place)

        return send

    def _send(self, batch: Batch, work: Work, reader: GroupReader, send: Callable[[Output], None]) -> None:
        told_at = alive_at = time.monotonic()
        later = partial(self._later, batch)
        for output in self._answers.answer(batch.requests, batch.place, work, later):
            send(output)
            now = time.monotonic()
            if now - told_at > REPORT_SECONDS:
                told_at = now
                self._report(batch, work, "Running")
            if now - alive_at > ALIVE_SECONDS:
                alive_at = now
                reader.poll(0, limit=0)
            if self.stopping.is_set():
                return
        metrics.RECALCULATED_ROWS.inc(work.rows)

    def _later(self, batch: Batch) -> Iterator[Request]:
        """What has been asked for since history was asked for. If history is answered again after a kill,
        those requests may have been answered before.

        :raises MillraceError: if the log cannot be read.
        """
        if batch.source[2] != "HISTORY":
            return
        name = topics.RECALC.name
        ends = self._log.end_offsets(name)
        reader = self._log.reader({name: batch.begins})
        try:
            for record in up_to(reader, name, {partition: ends[partition] for partition in batch.begins}):
                with suppress(WireError):  # it is a dead letter already
                    yield recalc.REQUESTS.read(record.key, record.value)
        finally:
            reader.close()

    def _pace(self, partition: int, offset: int) -> None:
        """Wait until these events are calculated. The next ones are in the log already; they are calculated
        while those after them are cut."""
        until = time.monotonic() + PACE_SECONDS
        while (
            self._calculated(partition) <= offset and time.monotonic() < until and not self.stopping.is_set()
        ):
            self.stopping.wait(0.02)

    def _hear(self, batch: Batch) -> None:
        """Read what was told so far, if somebody may have to be told that a window is gone."""
        spec = self._answers.catalog.stream(batch.requests[0].stream)
        if batch.requests[0].why != "CHANGE" or spec is None or not wants(spec.spec):
            return
        told: Told = self._answers.told
        name = topics.TRIGGERS.name
        ends = self._log.end_offsets(name)
        if self._events is None:
            self._events = self._log.reader({name: dict.fromkeys(ends, BEGIN)})
        for record in up_to(self._events, name, ends, self.stopping):
            with suppress(WireError):  # the trigger loop makes a dead letter of it
                told.hear(events.BATCHES.read(record.key, record.value), record.timestamp)

    def _report(self, batch: Batch, work: Work, state: str, message: str = "") -> None:
        if batch.requests[0].why not in TOLD_OF:
            return
        request = batch.requests[0]
        spans = [span for one in batch.requests for span in spans_of(one)]
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        news = status.Recalculation(
            request.stream, batch.place[0], batch.place[1], request.why, first, last, state,
            1.0 if state in DONE else work.fraction, work.rows, work.events, message,
            seconds_left(state, work.fraction, time.monotonic() - work.began),
        )  # fmt: skip
        self._patiently(
            lambda: self._log.append([Message(topics.STATUS.name, status.key(news), status.encode(news))])
        )

    def _outcome(self, batch: Batch, work: Work) -> tuple[str, str]:
        """State and message of what has been answered."""
        entry = self._answers.catalog.stream(batch.requests[0].stream)
        if batch.requests[0].why != "MANUAL" or entry is None:
            return "Finished", ""
        return work.by_hand.outcome(entry.spec)

    def _count(self, batch: Batch, counts: dict[str, int]) -> None:
        stream, (partition, _) = batch.requests[0].stream, batch.place
        if self._answers.catalog.stream(stream) is not None:
            self._tally.add(stream, partition, counts)
            news = messages(self._tally)
            self._patiently(lambda: self._log.append(news))

    def _patiently(self, action: Callable[[], object]) -> bool:
        return patiently(action, self.stopping, self._logger, "writing")


def _message(output: Output) -> Message:
    if isinstance(output, TriggerBatch):
        key = f"{output.stream}/{output.slot}".encode()
        return Message(topics.TRIGGERS.name, key, events.encode(output))
    return Message(topics.HANDOVER.name, recalc.key(output.stream, output.slot), recalc.encode(output))
