"""Spans for traced trigger events: reading them, their job, writing its results, sending their notification.

Events that are left in the log and read again later are traced only up to that point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from millrace_core.calc.product import Product
from millrace_core.calc.rounds import Arrival
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_service import OFF, Step, Tracing, timed
from millrace_service.tracing import Part, parts_timed
from millrace_wal import Message, Stretch

JOB = "job.run"


@dataclass(frozen=True, slots=True)
class TracedEvents:
    """Events that came in one message. ``read``: when (ns); ``ready``: when what they had seen was stored;
    ``keys``: of the notifications that may follow; ``alone``: whether nothing else follows from their job."""

    stream: int
    keys: frozenset[bytes]
    alone: bool
    parent: str
    read: int
    ready: int


@dataclass(slots=True)
class TracedRound:
    """What a round calculates of traced events. Used by one thread, except for :meth:`run`."""

    tracing: Tracing
    events: Sequence[TracedEvents]
    _parts: dict[int, list[Part]] = field(default_factory=dict)
    _writing: dict[int, Step] = field(default_factory=dict)
    _telling: list[Step] = field(default_factory=list)

    def run(self, stream: int, run: Callable[[], Product]) -> Product:
        """Runs a stream's job; called by the thread that is to run it."""
        if all(one.stream != stream for one in self.events):
            return run()
        with parts_timed() as parts, timed(JOB):
            found = run()
        self._parts[stream] = parts
        return found

    def calculated(self, products: Sequence[Product]) -> None:
        """The jobs are over, and their results are written next."""
        with_results = {one.stream: one for one in products if one.messages}
        for event in self.events:
            product = with_results.get(event.stream)
            if product is not None:
                step = self.tracing.begin("result.write", event.parent)
                self._writing[id(event)] = step
                if event.alone:
                    product.messages = [
                        one._replace(traceparent=step.traceparent) for one in product.messages
                    ]

    def telling(self, told: Sequence[Message]) -> list[Message]:
        """Results are written. Returns the notifications as they are to be sent next."""
        for step in self._writing.values():
            step.end()
        self._writing.clear()
        of = {key: event for event in self.events for key in event.keys if event.stream in self._parts}
        found = list(told)
        for place, message in enumerate(told):
            event = of.get(message.key or b"") if message.topic == NOTIFICATIONS.name else None
            if event is not None:
                step = self.tracing.begin("notification.send", event.parent)
                self._telling.append(step)
                found[place] = message._replace(traceparent=step.traceparent)
        return found

    def told(self) -> None:
        """Everything is sent. The spans of the jobs are made only now, for nobody waits for this any more."""
        for step in self._telling:
            step.end()
        self._telling.clear()
        for event in self.events:
            parts = self._parts.get(event.stream, ())
            job = next((part for part in parts if part.name == JOB), None)
            if job is not None:
                self._of_job(event, job, [part for part in parts if part is not job])

    def _of_job(self, event: TracedEvents, job: Part, parts: Sequence[Part]) -> None:
        wait = self.tracing.record("job.wait", event.parent, event.read, job.begin)
        self.tracing.record("rows.wait", wait, event.read, event.ready)
        inside = self.tracing.record(JOB, event.parent, job.begin, job.end, stream=str(event.stream))
        for part in parts:
            self.tracing.record(part.name, inside, part.begin, part.end)


class EventTraces:
    """Finds the events that are traced, by the headers that they come with. ``on``: whether anything is
    traced; ``ready``: when what the last round's triggers had seen was stored (ns). Used by one thread."""

    def __init__(self, tracing: Tracing = OFF) -> None:
        self.on = tracing.on
        self.ready = 0
        self._tracing = tracing
        self._came: dict[tuple[int, int], tuple[str, int]] = {}

    def read(self, stretches: Sequence[Stretch]) -> None:
        """These have just come; only these are traced in the next round."""
        now = time.time_ns()
        self._came = {}
        for some in stretches:
            for place, parent in some.traceparents.items():
                read = self._tracing.record("event.read", parent, some.written(place), now)
                if read:
                    self._came[some.partition, some.offsets[place]] = read, now

    def of(
        self, batches: Mapping[int, Sequence[TriggerBatch]], arrivals: Sequence[Arrival]
    ) -> TracedRound | None:
        """The traced events among those that are calculated for these streams; None if there are none."""
        found = [
            TracedEvents(
                arrival.batch.stream,
                frozenset(b"%d/%d" % (arrival.batch.stream, one.group.id) for one in arrival.batch.events),
                len(batches[arrival.batch.stream]) == 1 and len(arrival.batch.events) == 1,
                *came, self.ready,
            )
            for arrival in arrivals
            if arrival.batch.stream in batches and not arrival.repeated
            and (came := self._came.get((arrival.partition, arrival.offset))) is not None
        ]  # fmt: skip
        return TracedRound(self._tracing, found) if found else None
