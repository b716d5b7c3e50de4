"""Late rows that count in open windows only (``Emission.late`` dropped), held against the rule by itself: a
row is kept if a window that is open when it comes holds its time, or if its own window would be open."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import Arrivals, Clock, ClockMemory
from millrace_core.trigger.types.event.arrays import END, START
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.interval.windower import IntervalWindower
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, REDO, RETRACT, Occurrences
from millrace_core.trigger.types.session.windower import SessionWindower
from millrace_core.trigger.types.windower import Windower

from ...conftest import examples
from .conftest import through_bytes
from .test_cut_again import KINDS, event_columns, event_windows, filled, state_windows

FAR = 1 << 40
GAP = 3


class Window(NamedTuple):
    """``[start, last]``; ``over``: the first T at which it is closed, FAR while rows decide."""

    start: int
    last: int
    over: int

    def holds(self, ts: int) -> bool:
        return self.start <= ts <= (self.last if self.over < FAR else FAR)


Table = dict[int, Any]


def intervals(interval: int, sliding: int) -> Callable[[Table], list[Window]]:
    def cut(table: Table) -> list[Window]:
        starts = {start for ts in table for start in range(ts // sliding * sliding, ts - interval, -sliding)}
        return [Window(start, start + interval - 1, start + interval) for start in sorted(starts)]

    return cut


def sessions(table: Table) -> list[Window]:
    found: list[Window] = []
    for ts in sorted(table):
        start = found.pop().start if found and ts <= found[-1].last + GAP else ts
        found.append(Window(start, ts, ts + GAP + 1))
    return found


def states(table: Table) -> list[Window]:
    truth = state_windows(sorted(table.items()), 0, 0)
    spans = [*sorted(truth.closed), *([truth.open] if truth.open else [])]
    ends = [*(start for start, _ in spans[1:]), FAR]
    return [Window(*span, over) for span, over in zip(spans, ends[: len(spans)], strict=True)]


def events(table: Table) -> list[Window]:
    truth = event_windows(sorted(table.items()), 0, 0)
    found = [Window(start, end, end) for start, end in sorted(truth.closed)]
    return found + ([Window(*truth.open, FAR)] if truth.open else [])


def retracting(name: str) -> Windower:
    windower: Any = KINDS[name].make(0, 0, False, False, 256)
    windower.rule = dataclasses.replace(windower.rule, retracts=True)
    return windower  # type: ignore[no-any-return]


class Kind(NamedTuple):
    make: Callable[[], Windower]
    values: st.SearchStrategy[Any]
    columns: Callable[[list[Any]], dict[str, Any]]
    cut: Callable[[Table], list[Window]]


def no_columns(values: list[Any]) -> dict[str, Any]:
    return {}


ONE = st.just(1)
WINDOWS: dict[str, Kind] = {
    "interval": Kind(
        lambda: IntervalWindower(IntervalGrid(6, 6), empty=False), ONE, no_columns, intervals(6, 6)
    ),
    "sliding": Kind(
        lambda: IntervalWindower(IntervalGrid(6, 2), empty=False), ONE, no_columns, intervals(6, 2)
    ),
    "session": Kind(lambda: SessionWindower(GAP, retracts=True), ONE, no_columns, sessions),
    "state": Kind(
        lambda: retracting("state"), st.sampled_from([1, 1, 2, 3]),
        lambda values: {"state": filled(values, object)}, states,
    ),
    "event": Kind(
        lambda: retracting("event"), st.sampled_from([0, START, START, END, START | END]), event_columns,
        events,
    ),
}  # fmt: skip


class Reference:
    """The rows that count; under SLIDING each window has its own."""

    def __init__(self, name: str) -> None:
        self.by_window = name in ("interval", "sliding")
        self.cut = WINDOWS[name].cut
        self.table: Table = {}
        self.counted: dict[int, set[int]] = {}
        self.dropped = 0

    def take(self, ts: int, value: Any, late: bool, until: int) -> None:
        after = self.cut(self.table | {ts: value})
        own = [window for window in after if window.holds(ts)]
        known = [window for window in self.cut(self.table) if window.holds(ts)]
        # a row that is written again is where it was; another one also where it would be
        falls = own if self.by_window else known if ts in self.table and known else [*own, *known]
        if late and falls and not any(window.over > until for window in falls):
            self.dropped += 1
            return
        self.table[ts] = value
        for window in own:
            if not late or window.over > until:
                self.counted.setdefault(window.start, set()).add(ts)

    def closed(self, until: int) -> dict[int, int]:
        found = {window.start: window.last for window in self.cut(self.table) if window.over <= until}
        return {s: last for s, last in found.items() if not self.by_window or s in self.counted}


class Results:
    """The results that stand: what was written, and not taken back."""

    def __init__(self) -> None:
        self.windows: dict[int, tuple[int, int]] = {}

    def hear(self, found: Occurrences) -> None:
        turn = np.where(found.kind == RETRACT, -1, found.kind)
        found = found.take(np.lexsort((turn, np.where(found.kind == INVALID, -FAR, found.end), found.step)))
        arrays = (found.kind, found.start, found.end, found.rownum)
        for kind, start, end, rows in zip(*(array.tolist() for array in arrays), strict=True):
            if kind in (RETRACT, INVALID):
                self.windows = {key: w for key, w in self.windows.items() if not start <= key <= start}
            elif kind == CLOSE:
                self.windows[start] = (end, rows)


steps = st.lists(st.tuples(st.integers(-9, 5), st.integers(0, 3), st.booleans()), min_size=2, max_size=30)


@pytest.mark.parametrize("name", list(WINDOWS))
@settings(max_examples=examples(100))
@given(data=st.data(), some=steps, watermark=st.sampled_from([0, 0, 2, 5]))
def test_only_open_windows_take_late_rows(name: str, data: Any, some: Any, watermark: int) -> None:
    kind = WINDOWS[name]
    windower, clock = kind.make(), Clock(watermark, open_only=True)
    clocked, memory = Columns(ClockMemory, windower.columns), Columns(windower.memory)
    clocked.grow(1)
    memory.grow(1)
    reference, results, batch, newest, over = Reference(name), Results(), list[Any](), -FAR, 0
    for place, (forward, _, cut) in enumerate(some):
        ts = max(newest, 0) + forward
        newest = max(newest, ts)
        batch.append((ts, data.draw(kind.values)))
        if not cut and place < len(some) - 1:
            continue
        columns = kind.columns([value for _, value in batch])
        arrived = Arrivals(
            np.zeros(len(batch), dtype=np.int64), np.array([ts for ts, _ in batch], dtype=np.int64),
            {column: columns[column] for column in windower.columns},
        )  # fmt: skip
        judged = clock.judge(clocked, arrived)
        judged_rows = zip(*(a.tolist() for a in (judged.ts, judged.late, judged.before)), strict=True)
        for row, (at, late, until) in enumerate(judged_rows):
            reference.take(at, value_of(name, judged.columns, row), late, until)
        found = windower.on_rows(memory, judged)
        if name == "state" and (found.kind == REDO).any():
            return  # only the stored rows know what is open: test_cut_and_answered
        over += found.over
        results.hear(found)
        memory, batch = through_bytes(memory), []
    until = newest - watermark
    truth = reference.closed(until)
    told = {start: end - reference.by_window for start, (end, _) in results.windows.items()}
    assert told == truth
    if name not in ("state", "event"):
        assert over == reference.dropped
    for start, (_, rows) in results.windows.items():
        if reference.by_window and rows >= 0:
            assert rows == len(reference.counted[start])


def value_of(name: str, columns: dict[str, Any], row: int) -> Any:
    if name == "state":
        return columns["state"][row]
    if name == "event":
        return START * bool(columns["start"][row]) + END * bool(columns["end"][row])
    return 1
