"""FILL of a stream: which windows without rows get a result, and which no longer have one.

A window without rows lies between two windows with rows. Its result depends on these two: it is calculated
again whenever one of them is told of, and removed when the window no longer lies between two. A window with
rows that has not been told of yet bounds nothing: FILL reaches only as far as the results do.

A window whose rows give NULL is filled as well. PREV, NEXT and LINEAR then look past it: the stretch is
extended to windows that give a value (:func:`open_ends`), and all of it is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import polars as pl

from millrace_core.calc.outcome import Outcome
from millrace_core.calc.retraction import Ranges
from millrace_core.model.stream import StreamSpec
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.trigger.types import Grid
from millrace_core.wire.events import TriggerEvent

MOST_SPANS = 16
"""Up to this many stretches of a group are looked at one by one; more are treated as a single stretch."""
WIDER = 4
"""The factor by which each further search for a row is wider than the one before."""
FARTHER = (64, 4_096)
"""By how many windows a stretch is extended where its ends give NULL: at first, and the second time. What
lies further away is ignored: with a column that is always NULL, each change would have the whole group
read."""
BACK, AHEAD = "back", "ahead"
Ways = frozenset[str]
_SOURCES: dict[str, Ways] = {
    "PREV": frozenset({BACK}), "NEXT": frozenset({AHEAD}), "LINEAR": frozenset({BACK, AHEAD}),
}  # fmt: skip
"""Where a mode takes values from."""
_OTHER = {BACK: AHEAD, AHEAD: BACK}


Times = Callable[[int, int], Ints]
"""The times of a group's rows in a range (both ends included), in order."""


@dataclass(frozen=True, slots=True)
class RowTimes:
    """A group's rows: ``times`` reads their times; rows can only lie between ``oldest`` and ``newest``."""

    times: Times
    oldest: int
    newest: int

    def before(self, ts: int, width: int) -> int | None:
        """The time of the last row before ``ts``. The search begins with the nearest ``width`` ticks."""
        high = min(ts - 1, self.newest)
        while high >= self.oldest:
            found = self.times(max(high - width, self.oldest), high)
            if len(found):
                return int(found[-1])
            high, width = high - width - 1, width * WIDER
        return None

    def since(self, ts: int, width: int) -> int | None:
        """The time of the first row at or after ``ts``."""
        low = max(ts, self.oldest)
        while low <= self.newest:
            found = self.times(low, min(low + width, self.newest))
            if len(found):
                return int(found[0])
            low, width = low + width + 1, width * WIDER
        return None


@dataclass(frozen=True, slots=True)
class WindowRun:
    """Windows of a group, by number. ``low``, ``high``: the nearest windows with rows on either side of those
    that were told of (None: there is none). ``data``: the windows with rows between these two."""

    low: int | None
    high: int | None
    data: frozenset[int]

    @property
    def bounds(self) -> list[int]:
        """All windows with rows, in order."""
        ends = [number for number in (self.low, self.high) if number is not None]
        return sorted({*self.data, *ends})

    def only(self, wanted: Callable[[int], bool]) -> WindowRun:
        """The run reduced to the windows that are ``wanted``."""
        low, high = (
            number if number is not None and wanted(number) else None for number in (self.low, self.high)
        )
        return WindowRun(low, high, frozenset(filter(wanted, self.data)))

    def joined(self, later: WindowRun) -> WindowRun | None:
        """This stretch and a later one put together; None if they have nothing in common."""
        if self.high is not None and later.low is not None and later.low >= self.high:
            return None
        high = None if self.high is None or later.high is None else max(self.high, later.high)
        inner = {*self.bounds, *later.bounds} - {self.low, high}
        return WindowRun(self.low, high, frozenset(inner))


def spans(grid: Grid, events: Sequence[TriggerEvent], calculated: Collection[int]) -> list[tuple[int, int]]:
    """The windows (first, last) of one group that these events tell of or retract. ``calculated``: the events
    (by ``id()``) that give a result."""
    found = Ranges()
    for event in events:
        if event.kind == "RETRACT":
            found.add(grid.last(event.start - 1) + 1, grid.last(event.end))
        elif event.kind == "INVALID" or id(event) in calculated:
            found.add(grid.last(event.start), grid.last(event.start))
    told = list(found)
    return told if len(told) <= MOST_SPANS else [(told[0][0], told[-1][1])]


def stretches(grid: Grid, told: Sequence[tuple[int, int]], rows: RowTimes) -> list[WindowRun]:
    """The stretches around these windows, in order. No two share windows, except at their ends."""
    found: list[WindowRun] = []
    for first, last in told:
        one = _around(grid, first, last, rows)
        both = found[-1].joined(one) if found else None
        if both is None:
            found.append(one)
        else:
            found[-1] = both
    return found


def _around(grid: Grid, first: int, last: int, rows: RowTimes) -> WindowRun:
    width = grid.end(last) - grid.start(first)
    before, behind = rows.before(grid.end(first - 1), width), rows.since(grid.start(last + 1), width)
    low = None if before is None else min(grid.last(before), first - 1)
    high = None if behind is None else max(grid.unclosed(behind), last + 1)
    ts = rows.times(grid.start(first), grid.end(last) - 1)
    runs = np.unique(np.stack([grid.unclosed(ts), grid.last(ts)], axis=1), axis=0).tolist()
    inside = {number for one, other in runs for number in range(max(one, first), min(other, last) + 1)}
    return WindowRun(low, high, frozenset(inside))


def filled(grid: Grid, stretch: WindowRun, shown: Collection[int]) -> Ranges:
    """The ranges of starts (both ends included) of the windows that are filled. ``shown``: starts of windows
    that have a result."""
    found = Ranges()
    known = [grid.start(number) for number in stretch.bounds if grid.start(number) in shown]
    mine = {grid.start(number) for number in stretch.bounds}
    for one, other in pairwise(known):
        inner = sorted(start for start in mine if one < start < other)
        for first, last in pairwise([one, *inner, other]):
            found.add(first + 1, last - 1)
    return found


def unfilled(grid: Grid, stretch: WindowRun) -> Iterator[tuple[int, int]]:
    """The ranges of starts (both ends included) whose results are removed unless they are written again: all
    but those of windows with rows."""
    starts = [grid.start(number) for number in stretch.bounds]
    low = LOWEST if stretch.low is None else starts.pop(0)
    high = HIGHEST if stretch.high is None else starts.pop()
    for first, last in pairwise([low, *starts, high]):
        if first + 1 < last:
            yield first + 1, last - 1


def mode_of(fill: str | None) -> str:
    """The mode in the text of FILL: PREV, VALUE …; empty if there is none."""
    return (fill or "").partition(",")[0].strip().upper().removesuffix("_F")


def carries(mode: str) -> bool:
    """Whether a mode takes values from other windows."""
    return mode in _SOURCES


def open_ends(mode: str, stretch: WindowRun, *, lacking: bool) -> Ways:
    """The ends of a stretch at which it matters whether the window there gives NULL. ``lacking``: some
    windows between the ends have no rows, or give NULL."""
    sources = _SOURCES.get(mode, frozenset())
    known = {BACK: stretch.low is not None, AHEAD: stretch.high is not None}
    takes = sources if lacking else frozenset()
    gives = {_OTHER[way] for way in sources}
    return frozenset(way for way in takes | gives if known[way])


def wider(stretch: WindowRun, ways: Ways, farther: int) -> tuple[int, int]:
    """The windows (first, last) of a stretch that is extended by ``farther`` windows at these ends."""
    bounds = stretch.bounds
    return bounds[0] - farther * (BACK in ways), bounds[-1] + farther * (AHEAD in ways)


def null_starts(outcome: Outcome) -> list[int]:
    """Starts of the windows that have NULL among their results."""
    if outcome.error is not None or not outcome.count:
        return []
    rows = outcome.rows
    names = [name for name in rows.columns if name.startswith("r") and name != "r0"]
    lacking = rows.filter(pl.any_horizontal(pl.col(name).is_null() for name in names)) if names else rows[:0]
    return [int(start) for start in lacking["r0"].drop_nulls().to_physical().to_list()]


def gaps(stretch: WindowRun) -> bool:
    """Whether there are windows without rows in a stretch."""
    return any(other > one + 1 for one, other in pairwise(stretch.bounds))


def over(grid: Grid, stretch: WindowRun, like: TriggerEvent) -> TriggerEvent:
    """The event of a calculation over a whole stretch; nobody is notified of it. ``like``: an event of the
    same group."""
    bounds = stretch.bounds
    return msgspec.structs.replace(
        like,
        kind="CLOSE",
        cause="DELAY",
        start=grid.start(bounds[0]),
        end=grid.end(bounds[-1]),
        rownum=1,
        detail=None,
    )


def closed_empty(grid: Grid, event: TriggerEvent, rows: RowTimes) -> TriggerEvent | None:
    """For a window that the clock has closed without rows: the event of a calculation that reaches from the
    last window with rows before it to its own end. Nobody is notified of it. None: the window has rows, or
    there are none before it.
    """
    if len(rows.times(event.start, event.end - 1)):
        return None
    before = rows.before(event.start, event.end - event.start)
    if before is None:
        return None
    start = grid.start(grid.last(before))
    return msgspec.structs.replace(event, cause="DELAY", start=start, rownum=1, detail=None)


def carried(outcome: Outcome, whole: Outcome | None, before: Mapping[str, object] | None) -> Outcome:
    """The result of a window that the clock has closed, with the values that PREV takes from the result
    ``before`` it, as that was told. The stored rows also hold rows that came too late for the earlier window,
    and so does ``whole``, from which the result was taken. ``whole`` is None if the window has rows: then
    only its NULLs are filled."""
    if before is None or outcome.error is not None or not outcome.count:
        return outcome
    own = outcome.rows[:1]
    first = None if whole is None else whole.rows.row(0, named=True)
    changed = []
    for series in own.get_columns():
        value = series[0]
        # a value that differs from the window that is carried on is not filled in: it is the window's own
        taken = value is None if first is None else value == first[series.name]
        if taken and series.name != "r0" and series.name in before:
            cell = pl.Series(series.name, [before[series.name]], strict=False)
            changed.append(cell.cast(series.dtype, strict=False))
    return Outcome(own.with_columns(changed), partial=outcome.partial)


def only(outcome: Outcome, starts: Ranges) -> Outcome:
    """The rows of windows that begin in these ranges."""
    if outcome.error is not None or not outcome.count:
        return outcome
    begins = outcome.rows["r0"].to_numpy()
    place = np.searchsorted(np.array(starts.lasts, dtype=np.int64), begins)
    inside = place < len(starts)
    inside[inside] = np.array(starts.firsts, dtype=np.int64)[place[inside]] <= begins[inside]
    return Outcome(outcome.rows.filter(pl.Series(inside)), partial=outcome.partial)


def retractions(grid: Grid, stretch: WindowRun, like: TriggerEvent) -> list[TriggerEvent]:
    """The retractions of a stretch, as events of its group."""
    return [
        msgspec.structs.replace(like, id="", kind="RETRACT", start=first, end=last, detail=None)
        for first, last in unfilled(grid, stretch)
    ]


def query_of(spec: StreamSpec) -> StreamSpec:
    """The stream with the FILL query as its query, which runs over whole stretches."""
    assert spec.filled is not None, "asked of streams with FILL"
    places = msgspec.structs.replace(spec.places, pieces=spec.places.filled)
    return msgspec.structs.replace(spec, query=spec.filled, notify=None, places=places)


def by_group(events: Sequence[TriggerEvent]) -> Mapping[int, list[TriggerEvent]]:
    """The events of each group, by its id, in order."""
    found: dict[int, list[TriggerEvent]] = {}
    for event in events:
        found.setdefault(event.group.id, []).append(event)
    return found
