"""Which windows have existed at some moment: a child's changes one by one, in the order of the log. Pure.

Results of windows that split, merge or lose their rows stay in the output table. Such a row is right if at
some moment its window was one, closed, and at that moment or later its rows gave these figures: what is
calculated reads the table as of its own time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple

from tests.chaos.changes import ROWS_A_MESSAGE, Change
from tests.chaos.oracle import Result
from tests.chaos.streams import Event, Interval, Session, State, Stream

EARLIEST, LATEST = -(1 << 62), 1 << 62


@dataclass
class Rows:
    """The rows of one child as of a moment. ``judged``: the times of those that pass the filter."""

    least: int | None = None
    value: str = "v"
    cells: dict[int, dict[str, int | None]] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)
    newest: int = EARLIEST

    def apply(self, change: Change) -> None:
        if change.row is None:
            for ts in _between(self.times, change.first, change.last):
                del self.cells[ts]
                self._take_out(ts)
            return
        ts = change.first
        if ts in self.cells:
            self._take_out(ts)
        self.cells[ts] = self.cells.get(ts, {}) | change.row
        insort(self.times, ts)
        if self._passes(ts):
            insort(self.judged, ts)
            self.newest = max(self.newest, ts)

    def v(self, ts: int) -> int | None:
        return self.cells[ts].get(self.value)

    def figures(self, first: int, last: int) -> tuple[int, int | None]:
        """How many rows lie between, and the sum of their values."""
        values = [self.v(ts) for ts in _between(self.times, first, last)]
        known = [value for value in values if value is not None]
        return len(values), sum(known) if known else None

    def _passes(self, ts: int) -> bool:
        if self.least is None:
            return True
        value = self.v(ts)
        return value is not None and value >= self.least

    def _take_out(self, ts: int) -> None:
        for times in (self.times, self.judged):
            at = bisect_left(times, ts)
            if at < len(times) and times[at] == ts:
                del times[at]


def _between(times: list[int], first: int, last: int) -> list[int]:
    return times[bisect_left(times, first) : bisect_right(times, last)]


class Made(NamedTuple):
    """When a stream was made: between these places of a child's changes."""

    first: int
    last: int


def is_window(stream: Stream, rows: Rows, start: int, upto: int) -> bool:
    """Whether these rows make this window, and T has closed it."""
    t = rows.newest - stream.watermark
    match stream.trigger:
        case Interval(length, slide):
            inside = _between(rows.judged, start, start + length - 1)
            return bool(inside) and start % slide == 0 and upto == start + length <= t
        case Session(gap):
            return _is_session(rows.judged, start, upto, gap) and upto + gap < t
        case State(true_for):
            return upto - start >= true_for and _is_run(rows, start, upto, t)
        case Event(starts, ends, true_for):
            return upto - start >= true_for and upto <= t and _is_event(rows, start, upto, starts, ends)
        case _:
            return False  # count windows and slides never vanish


def _is_session(times: list[int], start: int, upto: int, gap: int) -> bool:
    inside = _between(times, start, upto)
    if not inside or (inside[0], inside[-1]) != (start, upto):
        return False
    alone = len(_between(times, start - gap, upto + gap)) == len(inside)
    return alone and all(b - a <= gap for a, b in pairwise(inside))


def _is_run(rows: Rows, start: int, upto: int, t: int) -> bool:
    """Rows without a state are as if they were not there."""

    def state(ts: int) -> int | None:
        return rows.cells[ts].get("s")

    inside = [ts for ts in _between(rows.judged, start, upto) if state(ts) is not None]
    if not inside or (inside[0], inside[-1]) != (start, upto) or len({state(ts) for ts in inside}) > 1:
        return False
    before = next((ts for ts in _down(rows.judged, start) if state(ts) is not None), None)
    after = next((ts for ts in rows.judged[bisect_right(rows.judged, upto) :] if state(ts) is not None), None)
    differs = before is None or state(before) != state(start)
    return differs and after is not None and after <= t and state(after) != state(start)


def _is_event(rows: Rows, start: int, upto: int, starts: int, ends: int) -> bool:
    def begins(ts: int) -> bool:
        value = rows.v(ts)
        return value is not None and value >= starts

    def stops(ts: int) -> bool:
        value = rows.v(ts)
        return value is not None and value < ends

    if start not in rows.cells or upto not in rows.cells or not begins(start) or not stops(upto):
        return False
    if any(stops(ts) for ts in _between(rows.judged, start, upto - 1)):
        return False
    for ts in _down(rows.judged, start):
        if stops(ts):
            return True
        if begins(ts):
            return False
    return True


def _down(times: list[int], before: int) -> Iterator[int]:
    return (times[at] for at in range(bisect_left(times, before) - 1, -1, -1))


def in_steps(changes: Sequence[Change]) -> Iterator[Change]:
    """The changes of one child as they are judged: rows of one message in the order of time."""
    for _, message in groupby(changes, key=lambda one: one.place // ROWS_A_MESSAGE):
        yield from sorted(message, key=lambda one: one.first)


def never_was(
    stream: Stream, changes: Sequence[Change], candidates: Sequence[Result], made: Made | None = None
) -> list[Result]:
    """Of results of one group, which is one child of these changes, those that no window ever gave. ``made``:
    of a stream that began with history, when."""
    rows = Rows(stream.least, "n" if stream.nested else "v")
    left = list(candidates)
    existed = set(_of_history(stream, changes, candidates, made)) if made else set()
    for change in in_steps(changes):
        rows.apply(change)
        for one in list(left):
            if one not in existed and is_window(stream, rows, one.ts, one.upto):
                existed.add(one)
            if one in existed and rows.figures(one.ts, _last(stream, one)) == (one.n, one.total):
                left.remove(one)
        if not left:
            break
    return left


def _of_history(
    stream: Stream, changes: Sequence[Change], candidates: Sequence[Result], made: Made
) -> Iterator[Result]:
    """Those that were windows of the rows that had been there when the stream was made and that nobody had
    written again: history is cut from these (decision 0017), while rows are written on."""
    bases = {one.place for one in changes if made.first <= one.place <= made.last} | {made.first}
    for base in sorted(bases):
        rows = Rows(stream.least, newest=LATEST)
        for one in in_steps(changes):
            if one.place < base:
                rows.apply(one)
                continue
            rows.apply(one._replace(row=None))  # what is rewritten is live, and not history any more
            yield from (each for each in candidates if is_window(stream, rows, each.ts, each.upto))


def could_not_be(stream: Stream, changes: Sequence[Change], candidates: Sequence[Result]) -> list[Result]:
    """The same for a group of several children, whose rows no log orders: only what is impossible in every
    order is found: ends that no row ever had, more rows than there ever were, none where one was always."""
    times = sorted({(one.first, one.child) for one in changes if one.row is not None})
    moments = {ts for ts, _ in times}
    found = []
    for one in candidates:
        ends = {one.ts, one.upto} <= moments if isinstance(stream.trigger, Session) else True
        most = bisect_right(times, (_last(stream, one), "\uffff")) - bisect_left(times, (one.ts, ""))
        least = 0 if one.n == 0 and _emptied(stream, changes, one) else 1
        if not ends or not least <= one.n <= most:
            found.append(one)
    return found


def _emptied(stream: Stream, changes: Sequence[Change], one: Result) -> bool:
    """Whether at some moment no row of a window may have been left: it is calculated from the rows as they
    are then, and its own may be gone. Of a window that is made of rows the ends alone are looked at, for
    others may be between them that came later."""
    deletes = [each for each in changes if each.row is None]
    rows = [each for each in changes if each.row is not None and one.ts <= each.first <= _last(stream, one)]
    if isinstance(stream.trigger, Interval):
        return bool(rows) and all(
            any(delete.place > row.place and _deletes(delete, row.first, row.child) for delete in deletes)
            for row in rows
        )
    return all(
        any(_deletes(delete, row.first, row.child) for delete in deletes for row in rows if row.first == end)
        for end in (one.ts, one.upto)
    )


def _deletes(delete: Change, ts: int, child: str) -> bool:
    return delete.child == child and delete.first <= ts <= delete.last


def empty_by_right(stream: Stream, candidates: Sequence[Result], t: int) -> tuple[list[Result], list[Result]]:
    """Results of an INTERVAL whose windows have no rows in the end: those that say so (T has passed them),
    and the others."""
    said: list[Result] = []
    others: list[Result] = []
    for one in candidates:
        by_right = stream.fires_empty and (one.n, one.total) == (0, None)
        (said if by_right and one.upto <= t else others).append(one)
    return said, others


def _last(stream: Stream, one: Result) -> int:
    """The last time that the figures of a result stand for."""
    return one.upto - 1 if isinstance(stream.trigger, Interval) else one.upto
