"""What the trigger loop takes from its topic at a time, and what it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from millrace_core.calc.product import Product
from millrace_core.calc.waiting import Behind, Left, SetAside, StreamPartition, in_words
from millrace_core.errors import MillraceError
from millrace_core.wire.counters import Tally
from millrace_core.wire.events import TriggerBatch

AGAIN_SECONDS = 1.0
"""How long until triggers are tried again that wait for something other than the store."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A trigger batch, the partition and offset of ``triggers`` where it stands, and whether it came again
    after a restart of trigger-svc."""

    batch: TriggerBatch
    partition: int
    offset: int
    repeated: bool

    @property
    def part(self) -> tuple[int, int]:
        """The stream and the partition: within one such part, triggers are calculated in order."""
        return self.batch.stream, self.partition


@dataclass(frozen=True, slots=True)
class Round:
    """All batches that came, in order, including repeated ones."""

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

    def without(self, left: Mapping[StreamPartition, Left]) -> Round:
        """The batches that lie before what is ``left`` in the log."""
        if not left:
            return self
        return Round([
            arrival
            for arrival in self.arrivals
            if arrival.part not in left or arrival.offset < left[arrival.part].offset
        ])  # fmt: skip


def first_within(most: int, sizes: Sequence[int]) -> int:
    """How many of the first are not more than ``most`` together; one at least, if there is any."""
    within = sum(total <= most for total in accumulate(sizes))
    return within or min(1, len(sizes))


class Repeats:
    """Recognizes batches of trigger-svc that came before: a replay uses the old numbers for the same events.
    An answer to a request (its slot is negative) never counts as repeated: the table has changed since then,
    and the requests may have been grouped differently (decision 0017)."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int, int], int] = {}

    def round_of(self, batches: Sequence[tuple[TriggerBatch, int, int]]) -> Round:
        """The batches that have come, in order, each with its partition and offset. They count as new until
        the round is :meth:`done`."""
        arrivals: list[Arrival] = []
        newest: dict[tuple[int, int, int], int] = {}
        for batch, partition, offset in batches:
            source = (batch.stream, batch.epoch, batch.slot)
            repeated = batch.slot >= 0 and batch.number <= newest.get(source, self._last.get(source, -1))
            arrivals.append(Arrival(batch, partition, offset, repeated))
            if not repeated:
                newest[source] = batch.number
        return Round(arrivals)

    def done(self, found: Round) -> None:
        """All of it has been calculated and written."""
        for arrival in found.fresh:
            batch = arrival.batch
            self._last[batch.stream, batch.epoch, batch.slot] = batch.number


def left_whole(found: Round, waiting: Mapping[int, MillraceError], now: float) -> dict[StreamPartition, Left]:
    """Everything in the round that belongs to these ``waiting`` streams (by uid), with what their jobs wait
    for. ``now``: seconds of a clock that never goes back."""
    left: dict[StreamPartition, Left] = {}
    for arrival in found.fresh:
        if (error := waiting.get(arrival.batch.stream)) is None:
            continue
        first = left[arrival.part].offset if arrival.part in left else arrival.offset
        if isinstance(error, Behind):
            left[arrival.part] = Left(first, in_words(error.missing), error.wanted, upto=arrival.offset + 1)
        else:
            # not before the loop hears that these go on
            again = inf if isinstance(error, SetAside) else now + AGAIN_SECONDS
            left[arrival.part] = Left(first, f"waits: {error.message}", again=again)
    return left


def count_round(tally: Tally, arrivals: Sequence[Arrival], products: Sequence[Product], now: int) -> None:
    """Count one round: the batches that came, and what was made of them at ``now`` (ns).

    Events are counted for the partition they came from; what a job gave is counted for the first partition of
    its stream.
    """
    first: dict[int, int] = {}
    made = {product.stream: product for product in products if product.known}
    for arrival in arrivals:
        stream, partition = arrival.batch.stream, arrival.partition
        if stream not in made:
            continue
        first.setdefault(stream, partition)
        if arrival.offset < tally.upto(stream, partition):
            continue
        events = sum(event.kind != "GONE" for event in arrival.batch.events)
        taken = "events_taken" if arrival.batch.slot >= 0 else "events_again"
        counts = {"repeated" if arrival.repeated else taken: events, "started": now}
        tally.add(stream, partition, counts, arrival.offset + 1)
    for stream, partition in first.items():
        counts = made[stream].counts
        if counts["calculations"]:
            counts["last_calculated"] = now
        tally.add(stream, partition, counts)
