"""The rows of a seed: in order, late, rewritten, in part, deleted. Pure: a seed always gives the same steps.

Two super tables. ``meters`` takes rows in any order, by a Kafka producer and by INSERT; ``ticks`` takes rows
in the order of time alone, by a producer that sends none twice, for triggers that know no disorder.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, NamedTuple

BASE = 1_767_225_600_000
"""2026-01-01 00:00:00 UTC, in ms: event time begins here."""
METERS: dict[str, int] = {"m0": 0, "m1": 0, "m2": 1, "m3": 1, "m4": 2, "m5": 2}
"""Child table of ``meters`` -> its tag ``site``."""
TICKS: dict[str, int] = {"t0": 0, "t1": 0, "t2": 1}
BORN: dict[str, int] = {"n0": 1}
"""The child that its first message makes, in the middle of the load."""
PERIOD = 1.0
"""Seconds between two steps of a table."""
RECALCULATED = ("by_length", "overlapping", "by_gap", "site_gap", "by_state", "by_event", "by_slide")
"""Streams that are recalculated by hand, one every :data:`BY_HAND` seconds."""
BY_HAND = 8.0
ROWS = (4, 20)
"""Rows of a step in order."""
FAR, CLOSE_STEP = 100_000, 1_000

Row = dict[str, Any]
"""``ts`` (ms) and ``op`` (the number of this version of the row, unlike all others); ``v`` (0 to 99) and
``s`` (0 to 3, or None) as far as the row names them."""
What = Literal["produce", "insert", "delete", "recalculate"]


class Step(NamedTuple):
    """One message or statement, ``at`` seconds after the load has begun. ``rows``: of ``produce`` and
    ``insert``; ``first`` to ``last``: what ``delete`` removes; ``tags``: of a first message. ``table`` of
    ``recalculate`` is a stream."""

    at: float
    what: What
    table: str
    child: str
    rows: tuple[Row, ...] = ()
    first: int = 0
    last: int = 0
    tags: dict[str, int] | None = None


def site_of(child: str) -> int:
    """The tag of a child."""
    return (METERS | TICKS | BORN)[child]


@dataclass
class _Child:
    """A child table as it is written."""

    name: str
    rng: random.Random
    ops: count[int]
    now: int = BASE
    state: int | None = 0
    times: list[int] = field(default_factory=list)

    def cells(self) -> Row:
        """Values for a row; runs of equal states, so that windows have several rows."""
        if self.rng.random() < 0.12:
            self.state = self.rng.choice((0, 1, 2, 3, None))
        return {"v": self.rng.randrange(100), "s": self.state}

    def row(self, ts: int, partial: bool = False) -> Row:
        cells = self.cells()
        if partial:
            del cells[self.rng.choice(("v", "s"))]
        self.times.append(ts)
        return {"ts": ts, "op": next(self.ops), **cells}

    def in_order(self) -> tuple[Row, ...]:
        """Rows behind all others, sometimes behind a gap that ends a session."""
        rows = []
        if self.rng.random() < 0.2:
            self.now += self.rng.randrange(6_000, 25_000)
        for _ in range(self.rng.randint(*ROWS)):
            self.now += self.rng.randrange(50, 900)
            rows.append(self.row(self.now))
        return tuple(rows)

    def past(self) -> int:
        """A time at most so far back as rows go, mostly of the last minute."""
        back = self.rng.randrange(90_000) if self.rng.random() < 0.8 else self.rng.randrange(600_000)
        return max(self.now - back, BASE - 30_000)

    def late(self) -> tuple[Row, ...]:
        """New rows between others, some before all others."""
        begin = self.past()
        return tuple(self.row(begin + 7 * number) for number in range(self.rng.randint(1, 6)))

    def rewritten(self) -> tuple[Row, ...]:
        """Rows that were there, or have been: with other values, or of some columns."""
        known = self.rng.sample(self.times, min(len(self.times), self.rng.randint(1, 5)))
        return tuple(self.row(ts, partial=self.rng.random() < 0.3) for ts in sorted(set(known)))


def steps(seed: int, seconds: float) -> list[Step]:
    """What is written within ``seconds``, in order of time."""
    rng = random.Random(f"workload {seed}")
    ops = count(1)
    found: list[Step] = []
    for names, table in ((METERS, "meters"), (TICKS, "ticks"), (BORN, "meters")):
        for name in names:
            child = _Child(name, random.Random(f"{seed} {name}"), ops, BASE + rng.randrange(20_000))
            begin = rng.uniform(0, PERIOD) + (seconds * 0.4 if name in BORN else 0)
            at, first = begin, True
            while at < seconds:
                found.append(_step(child, table, at, first))
                at, first = at + PERIOD * rng.uniform(0.7, 1.3), False
    for number in range(1, int(seconds / BY_HAND) + 1):
        begin = BASE + rng.randrange(int(5_000 * seconds))
        end = begin + rng.randrange(100_000)
        found.append(Step(number * BY_HAND, "recalculate", rng.choice(RECALCULATED), "", (), begin, end))
    # the numbers of versions follow the children; the order of time is that of the steps
    return sorted(found, key=lambda one: one.at)


def _step(child: _Child, table: str, at: float, first: bool) -> Step:
    rng, name = child.rng, child.name
    at = round(at, 3)
    if table == "ticks" or first:
        tags = {"site": site_of(name)} if name in BORN else None
        return Step(at, "produce", table, name, child.in_order(), tags=tags)
    # the child that a message makes may not be known to SQL yet
    how: What = "produce" if name in BORN or rng.random() < 0.5 else "insert"
    chosen = rng.random()
    if chosen < 0.04 and name not in BORN:
        begin = child.past()
        return Step(at, "delete", table, name, (), begin, begin + rng.randrange(15_000))
    if chosen < 0.12:
        return Step(at, how, table, name, child.late())
    if chosen < 0.2:
        return Step(at, how, table, name, child.rewritten())
    return Step(at, how, table, name, child.in_order())


def closing(seed: int, written: list[Step]) -> list[Step]:
    """Rows far behind all others, which close the windows before: a value that ends an event window, states
    that were not there."""
    newest = max(row["ts"] for step in written for row in step.rows)
    begin = newest - newest % FAR + 2 * FAR
    ops = count(1 + max(row["op"] for step in written for row in step.rows))
    tables = {step.child: step.table for step in written if step.child}
    cells = ((0, 0, 901), (FAR, 50, 902), (FAR + CLOSE_STEP, 50, 903))
    return [
        Step(0.0, "produce", tables[child], child,
             tuple({"ts": begin + after, "op": next(ops), "v": v, "s": s} for after, v, s in cells))
        for child in sorted(tables)
    ]  # fmt: skip
