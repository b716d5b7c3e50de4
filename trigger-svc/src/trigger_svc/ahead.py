"""The reader that is ahead of the micro-batches: messages are evaluated when they come.

It follows all that the query reads with a consumer of its own, and hands messages to the evaluator at once.
The query's next micro-batch finds them done, and seals them. If too much has come, the reader stands back,
and the micro-batch has Spark's workers evaluate it (``batches``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator

from millrace_core.trigger.rows import Messages
from millrace_core.trigger.topic_use import TopicUse
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK, CONTROL
from millrace_wal import Log, Reader, Record, Stretch
from trigger_svc.evaluator import Evaluator
from trigger_svc.ledger.states import Positions
from trigger_svc.messages import INNER, is_rows, of_stretches
from trigger_svc.metrics import IMPATIENT
from trigger_svc.positions import Ends, behind, copied
from trigger_svc.traces import RowTraces

_log = logging.getLogger("trigger_svc.ahead")
WAIT = 1.0
"""Seconds that a step waits for messages."""
MOST = 20_000
"""The most messages of one batch: with a long backlog, many messages share the fixed cost of a batch."""
PATIENCE = 10.0
"""Seconds after which a message that waits for rows takes effect without them."""
LOOK_AGAIN = 1.0
"""Seconds between two looks for topics that streams want but that did not exist before."""


class Ahead:
    """A work of :class:`millrace_service.Life`."""

    def __init__(self, log: Log, evaluator: Evaluator, traces: RowTraces | None = None) -> None:
        self.name, self.stopping = "reader", threading.Event()
        self._log, self._evaluator, self._traces = log, evaluator, traces or RowTraces()
        self._reader: Reader | None = None
        self._version = -1
        self._waiting = Waiting()
        self._left: set[str] = set()
        """Topics that this client once read and no longer reads."""
        self._looked = 0.0
        self.reads = False
        """Whether it has begun to read."""

    def begin(self) -> None:
        self._evaluator.ready()
        self._waiting, self._left = Waiting(), set()
        self._reader = self._log.reader(self._wanted(), grows=True, gathers=True)
        self.reads = True

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    @property
    def stands_back(self) -> bool:
        """Whether it leaves everything to the micro-batches, for now."""
        return self._evaluator.stands_back or self._evaluator.far_ahead

    def wait_until_it_stands_back(self, seconds: float, stopping: threading.Event) -> None:
        """Return once the micro-batches have something to do, at the latest after so many seconds."""
        until = time.monotonic() + seconds
        while not self.stands_back and time.monotonic() < until:
            if stopping.wait(0.1):
                return

    def step(self) -> None:
        """Evaluate what is there; if there is nothing, what comes first within :data:`WAIT`."""
        assert self._reader is not None, "begin comes first"
        evaluator = self._evaluator
        if self.stands_back:
            with evaluator.lock:
                evaluator.lock.wait(WAIT)
            return
        evaluator.ready()
        if evaluator.version != self._version:
            self._follow()
        stretches = self._reader.stretches(0.01 if self._waiting else WAIT, MOST)
        read = time.time_ns() if self._traces.on else 0
        with evaluator.lock:
            evaluator.ready()  # a micro-batch may have failed meanwhile
            if evaluator.version == self._version and not evaluator.stands_back:
                self._take(stretches, read)
        if time.monotonic() > self._looked + LOOK_AGAIN:
            self._looked = time.monotonic()
            evaluator.follow_topics()

    def _follow(self) -> None:
        """Read from the evaluator's positions on. Messages that were waiting here come again.

        A client remembers the leaders of a topic that is gone, and for ever takes those of a new topic of the
        same name for outdated. So a topic that comes back is read by a new client.
        """
        assert self._reader is not None
        wanted = self._wanted()
        self._waiting = Waiting()
        at = self._reader.positions()
        left = at.keys() - wanted.keys()
        self._left |= left
        if not self._left.isdisjoint(wanted.keys()):
            self._reader.close()
            self._reader, self._left = self._log.reader(wanted, grows=True, gathers=True), set()
            return
        for topic in left:
            self._reader.remove(topic)
        for topic, offsets in wanted.items():
            if at.get(topic) != offsets:
                self._reader.add(topic, offsets)

    def _wanted(self) -> Positions:
        """A copy of the evaluator's present positions, which others move."""
        evaluator = self._evaluator
        with evaluator.lock:
            self._version = evaluator.version
            return copied(evaluator.positions)

    def _take(self, stretches: list[Stretch], read: int) -> None:
        assert self._reader is not None
        evaluator = self._evaluator
        rows = [some for some in stretches if is_rows(some.topic)]
        inner = [one for some in stretches if not is_rows(some.topic) for one in some.records()]
        if rows:
            evaluator.evaluate(of_stretches(rows), self._traces.of(rows, read) if self._traces.on else None)
        if inner:
            self._waiting.put(inner, self._needs(inner), time.monotonic())
        self._pass_over()
        now = self._waiting.take(evaluator.positions, time.monotonic())
        if now:
            evaluator.evaluate(Messages.of(now))

    def _pass_over(self) -> None:
        """Count offsets that hold no message (compacted ones, the ends of transactions) as read, too."""
        assert self._reader is not None
        moved, held = self._reader.moved(), self._waiting.topics
        self._evaluator.pass_over({topic: ends for topic, ends in moved.items() if topic not in held})

    def _needs(self, inner: list[Record]) -> list[Ends]:
        """For each message, the rows after which it takes effect. A control record that begins a stream and a
        tick name them; for others they are the rows that are there now."""
        ends: Ends | None = None
        found: list[Ends] = []
        for record in inner:
            named = _named(record, self._evaluator.use)
            if named is None:
                if ends is None:
                    ends = self._log.ends_of([topic for topic in self._evaluator.positions if is_rows(topic)])
                named = ends
            found.append(named)
        return found


class Waiting:
    """Messages of :data:`INNER` that wait for the rows before them, in the order of each partition."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[tuple[Record, Ends, float]]] = {}

    def __bool__(self) -> bool:
        return any(self._queues.values())

    @property
    def topics(self) -> set[str]:
        return {topic for topic, queue in self._queues.items() if queue}

    def put(self, records: list[Record], needs: list[Ends], now: float) -> None:
        """``needs``: for each record, up to where rows are to be evaluated before it."""
        for record, ends in zip(records, needs, strict=True):
            self._queues.setdefault(record.topic, deque()).append((record, ends, now))

    def take(self, positions: Ends, now: float) -> list[Record]:
        """Messages whose rows are evaluated, or that waited for :data:`PATIENCE`; control records first."""
        return [record for topic in INNER for record in self._taken(topic, positions, now)]

    def _taken(self, topic: str, positions: Ends, now: float) -> Iterator[Record]:
        queue = self._queues.get(topic, ())
        while queue:
            record, ends, since = queue[0]
            missing = behind(positions, ends)
            if missing and now < since + PATIENCE:
                return
            if missing:
                IMPATIENT.inc()
                _log.warning(
                    "offset %d of topic %s takes effect without rows that did not arrive within %g s: "
                    "expected %s",
                    record.offset, topic, PATIENCE, _short_of(positions, ends),
                )  # fmt: skip
            queue.popleft()
            yield record


def _short_of(positions: Ends, ends: Ends) -> str:
    """In words: how far rows were to be evaluated, and how far they are."""
    return ", ".join(
        f"{topic}/{partition} up to {end} (at {positions[topic][partition]})"
        for topic, places in ends.items()
        for partition, end in places.items()
        if positions.get(topic, {}).get(partition, end) < end
    )


def _named(record: Record, use: TopicUse) -> Ends | None:
    """The ends that a record names itself: a tick does, and a control record that begins a stream."""
    try:
        if record.topic == CLOCK.name:
            return control.TICKS.read(record.key, record.value).ends
        if record.topic == CONTROL.name and not control.RECORDS.deletes(record.value):
            return use.begins(control.RECORDS.read(record.key, record.value)) or None
    except Exception:
        return {}  # the slots report what is wrong with it
    return None
