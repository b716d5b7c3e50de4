"""Requests that wait for their answers: which are answered together, and in which lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from millrace_core.calc.waiting import Wanted
from millrace_core.wire.recalc import Request, Why

LANES: dict[str, frozenset[Why]] = {
    "calc-recalc": frozenset({"CHANGE", "MANUAL", "ROWS"}),
    "calc-history": frozenset({"HISTORY", "UNTREATED"}),
}  # fmt: skip
"""Consumer group -> what it answers. They are separate so that a long history does not hold up late rows."""
DONE = ("Finished", "Ignored")
"""States of what is over without having failed."""
TOLD_OF: frozenset[Why] = frozenset({"MANUAL", "HISTORY", "UNTREATED"})
"""What is listed in ``ins_stream_recalculates``; there are too many late rows for that."""


class Placed(Protocol):
    """Something that has a place in the log."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one stream and epoch with the same ``why``. ``place``: where the last one stands in the
    log; ``begins``: where the first one of each partition stands."""

    requests: list[Request]
    place: tuple[int, int]
    begins: dict[int, int] = field(default_factory=dict)

    @property
    def source(self) -> tuple[int, int, Why]:
        first = self.requests[0]
        return first.stream, first.epoch, first.why

    def and_then(self, later: Batch) -> Batch:
        """Both, as one."""
        return Batch([*self.requests, *later.requests], later.place, later.begins | self.begins)


def batches(asked: Sequence[tuple[Placed, Request]], why: frozenset[Why]) -> Iterator[Batch]:
    """The requests in order, with those put together that can be answered together."""
    found: dict[tuple[int, int, Why], Batch] = {}
    for record, request in asked:
        if request.why not in why:
            continue
        one = Batch([request], (record.partition, record.offset), {record.partition: record.offset})
        found[one.source] = found[one.source].and_then(one) if one.source in found else one
    yield from found.values()


@dataclass(slots=True)
class Pending:
    """Requests that are not answered yet. ``wanted``: what the store must have read first, as far as is
    known: the definitions, then (``defined``) the rows; None: not determined yet. ``again``: when to try
    again (monotonic). ``told``: when it was last reported that they wait."""

    batch: Batch
    wanted: Wanted | None = None
    defined: bool = False
    again: float = 0.0
    told: float = 0.0

    @property
    def stream(self) -> int:
        return self.batch.requests[0].stream


def queued(pending: Sequence[Pending], fresh: Iterator[Batch]) -> list[Pending]:
    """The waiting requests, in order, together with new ones. A new batch is joined with a waiting one of the
    same kind, unless that one has been begun."""
    found = list(pending)
    for batch in fresh:
        last = next((one for one in reversed(found) if one.batch.source == batch.source), None)
        if last is not None and last.wanted is None:
            last.batch = last.batch.and_then(batch)
        else:
            found.append(Pending(batch))
    return found


def seconds_left(state: str, fraction: float, seconds: float) -> float | None:
    """How long work will still take at its present pace, if this ``fraction`` of it took that many
    ``seconds``. None for work that was given up, or has done nothing yet."""
    if state in DONE:
        return 0.0
    return seconds * (1 - fraction) / fraction if state == "Running" and fraction > 0 else None


def spans_of(request: Request) -> list[tuple[int, int]]:
    found = [(part.first, part.last) for part in request.parts]
    return [*found, *(span for span in (request.rest, request.asked) if span is not None)]
