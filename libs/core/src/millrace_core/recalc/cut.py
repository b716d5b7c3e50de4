"""Windows of stored rows: the windowers of the live path run over rows in order, without a clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from millrace_core.trigger.groups.columns import Array, Columns, Ints, starts_of
from millrace_core.trigger.groups.watermark import NEVER, Evaluated, Moves
from millrace_core.trigger.types.occurrences import Occurrences
from millrace_core.trigger.types.reach import Rows
from millrace_core.trigger.types.windower import Windower


class Cutter:
    """The memories of ``groups`` groups that have evaluated nothing yet, and how far each has come: at first
    to ``began``, if T had already come that far."""

    def __init__(self, windower: Windower, groups: int, began: int | None = None) -> None:
        self.windower = windower
        self.memory = Columns(windower.memory)
        self.memory.grow(groups)
        self.last = np.full(groups, NEVER if began is None else began, dtype=np.int64)

    def feed(self, rows: Rows) -> Occurrences:
        """Evaluate rows, none of them older than earlier rows of its group. T of a group moves along with
        them."""
        group, ts = rows.group, rows.ts
        step = np.arange(len(ts), dtype=np.int64)
        heads = starts_of(group)
        before = np.empty_like(ts)
        before[1:] = ts[:-1]
        known = self.last[group[heads]]
        before[heads] = np.where(known == NEVER, ts[heads], known)
        ends = np.append(heads[1:], len(ts)) - 1 if len(ts) else heads
        self.last[group[heads]] = ts[ends]
        no = np.zeros(len(ts), dtype=bool)
        moves = Moves(group, step, before, ts)
        return self.windower.on_rows(
            self.memory, Evaluated(group, ts, step, no, no, before, moves, rows.columns)
        )

    def advance(self, until: Ints) -> Occurrences:
        """All rows up to ``until[group]`` have been evaluated: move T there."""
        some = np.flatnonzero((self.last != NEVER) & (until > self.last))
        none, no = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
        moves = Moves(some, np.zeros(len(some), dtype=np.int64), self.last[some], until[some])
        self.last[some] = until[some]
        columns = {signal.name: _no_cells(signal.kind) for signal in self.windower.signals}
        return self.windower.on_rows(self.memory, Evaluated(none, none, none, no, no, none, moves, columns))


def _no_cells(kind: str) -> Array:
    return np.empty(0, dtype=bool if kind == "flag" else object)


def in_order(parts: Sequence[Occurrences]) -> Occurrences:
    """Occurrences of successive feeds, numbered so that ``step`` orders them all."""
    begin = 0
    for part in parts:
        part.step = part.step + begin
        begin = int(part.step.max(initial=begin - 1)) + 1
    return Occurrences.join(parts)


def with_openings(found: Occurrences, closed: Collection[tuple[int, int]]) -> Occurrences:
    """The openings and closings of these windows (group, start)."""
    places = zip(found.group.tolist(), found.start.tolist(), strict=True)
    return found.take(np.array([place in closed for place in places], dtype=bool))
