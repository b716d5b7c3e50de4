"""VERIFY STREAM: the windows of a range are cut as one batch, and their rows compared with stored ones. Pure.

A result is *judged* where the batch must give what the stream gave: at the close of a window, and at an
instant. What was calculated earlier (WINDOW_OPEN, MAX_DELAY) was true for the rows of that moment: a stored
row is allowed there, whatever its cells.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from millrace_core.model.schema import Column, Precision
from millrace_core.recalc.answer import none_found, shown_windows
from millrace_core.recalc.cut import Cutter, in_order
from millrace_core.recalc.reach import Read, of_group, settle
from millrace_core.timeline.text import format_local
from millrace_core.trigger.groups.watermark import RANGE
from millrace_core.trigger.types.occurrences import CLOSE, DELAY, OPEN, Occurrences
from millrace_core.trigger.types.windower import Windower

TOLERANCE = {"FLOAT": 1e-5, "DOUBLE": 1e-9}
"""Relative tolerance: sums of the same numbers in another order differ a little."""


@dataclass(frozen=True, slots=True)
class CutRange:
    """What happened to the windows around a range, as group 0. ``judged``: closings and instants in it.
    ``early``: openings, and, where MAX_DELAY calculates them, windows that are still open. ``shown``: windows
    that have not closed, as a stream that shows them would show them. ``rows``: how many were read."""

    judged: Occurrences
    early: Occurrences
    shown: Occurrences
    rows: int


def cut_range(
    windower: Windower, span: tuple[int, int], until: int, read: Read, *, delayed: bool = False,
    shows: bool = False,
) -> CutRange:  # fmt: skip
    """Cut the windows of one group that touch ``span`` (first, last), as they are when T is ``until``.
    ``delayed``: the stream has MAX_DELAY; ``shows``: it shows windows before they close, with the rows that
    wait for T.

    Windows of a number of rows are counted from the group's first row on; all others are cut from where the
    cut is certain.
    """
    windower = of_group(windower, None, until, read)
    reach = windower.reach()
    first, last = span
    horizon = RANGE if shows else until
    low, high = min(first, horizon), min(last, horizon)
    stretch = read(-RANGE, horizon) if reach.anew else settle(reach, low, high, horizon, read)
    cutter = Cutter(windower, 1)
    # what lies up to ``high`` is known: T may be one tick behind it
    upto = np.array([min(until, stretch.high + 1)], dtype=np.int64)
    reached = stretch.rows.ts <= until
    parts = [cutter.feed(stretch.rows.only(reached)), cutter.advance(upto)]
    cut = in_order(parts)
    closed = cut.take(cut.kind != OPEN)
    # a recalculation of states also takes the window after the range; here it is not wanted
    inside = reach.touches(closed.start, closed.end, first, last) & (closed.start <= last)
    closed = closed.take(inside)
    opened = cut.take(cut.kind == OPEN)
    around = opened.take((opened.start >= stretch.low) & (opened.start <= last))
    if delayed:
        around = Occurrences.join((around, _open_yet(windower, cutter, last)))
    rows = stretch.rows.only(~reached) if shows else None
    shown = none_found() if rows is None else shown_windows(cutter, rows)
    shown = shown.take(reach.touches(shown.start, shown.end, first, last) & (shown.start <= last))
    return CutRange(closed, around, shown, len(stretch.rows))


def _open_yet(windower: Windower, cutter: Cutter, last: int) -> Occurrences:
    """The windows that have not closed, as MAX_DELAY would calculate them."""
    open_ = [window for window in windower.so_far(cutter.memory.get(0)) if window.start <= last]
    start, end, rows = (np.array([window[i] for window in open_], dtype=np.int64) for i in range(3))
    group = np.zeros(len(open_), dtype=np.int64)
    return Occurrences.of(group, group, CLOSE, start, end, rows, DELAY)


DifferenceKind = Literal["missing", "extra", "different"]
Key = tuple[str, int, object]
"""A stored row: its table, its time, and the second column of a composite key (None: there is none)."""
Cells = Mapping[str, Any]


class Difference(NamedTuple):
    """``column`` with its two values; for a whole row (missing, extra) all its cells as a JSON object."""

    kind: DifferenceKind
    tbname: str
    ts: int
    column: str | None
    expected: str | None
    found: str | None


@dataclass(frozen=True, slots=True)
class Texts:
    """How cells are written: times in this time zone and precision."""

    precision: Precision
    timezone: str

    def cell(self, value: Any, column: Column) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if column.type.name == "TIMESTAMP":
            return format_local(value, self.precision, self.timezone)
        if isinstance(value, bytes):
            return value.hex()
        return str(value).lower() if isinstance(value, bool) else str(value)

    def row(self, cells: Cells, columns: Sequence[Column]) -> str:
        """The cells without the time, as a JSON object; numbers and booleans stay such."""
        plain = {
            column.name: value
            if isinstance(value := cells[column.name], bool | int | float) and column.type.name != "TIMESTAMP"
            else self.cell(value, column)
            for column in columns
        }
        return msgspec.json.encode(plain).decode()


def differences(
    expected: Mapping[Key, Cells], found: Mapping[Key, Cells], allowed: Collection[Key],
    columns: Sequence[Column], texts: Texts,
) -> Iterator[Difference]:  # fmt: skip
    """What must change in ``found`` so that it is as expected, by table and time.

    ``allowed``: keys of rows that may be there, whatever their cells. ``columns``: those that are compared,
    without the time.
    """
    second = next((column for column in columns if column.composite_key), None)
    values = [column for column in columns if column is not second]
    for key in sorted(expected.keys() | found.keys(), key=lambda key: (key[0], key[1], str(key[2]))):
        tbname, ts, _ = key
        wanted, there = expected.get(key), found.get(key)
        if wanted is None and there is not None:
            if key not in allowed:
                yield Difference("extra", tbname, ts, None, None, texts.row(there, columns))
        elif there is None and wanted is not None:
            yield Difference("missing", tbname, ts, None, texts.row(wanted, columns), None)
        elif wanted is not None and there is not None:
            of = "" if second is None else f" ({second.name} = {texts.cell(key[2], second)})"
            for column in values:
                one, other = wanted[column.name], there[column.name]
                if not same(one, other, column):
                    cells = texts.cell(one, column), texts.cell(other, column)
                    yield Difference("different", tbname, ts, column.name + of, *cells)


def same(one: Any, other: Any, column: Column) -> bool:
    """Whether two cells of a column have the same value."""
    if isinstance(one, float) and isinstance(other, float):
        tolerance = TOLERANCE[column.type.name]
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
    return bool(one == other)


def farthest(start: Any, end: Any, ts: Any) -> int:
    """The greatest distance of result rows from their windows (ticks; arrays of equal length): a row in the
    range may come from a window that lies that far outside it."""
    if not len(ts):
        return 0
    return int(np.maximum(np.maximum(start - ts, ts - end), 0).max())
