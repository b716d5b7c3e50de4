"""Windows cut again from a part of the rows are those of all rows, wherever the part lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace_core.model.expression import Field
from millrace_core.model.stream import Condition
from millrace_core.recalc.answer import cut_again, shown_windows
from millrace_core.recalc.cut import Cutter, in_order
from millrace_core.recalc.reach import from_block
from millrace_core.recalc.sending import coalesced
from millrace_core.timeline import Schedule
from millrace_core.trigger.types.count.windower import CountWindower
from millrace_core.trigger.types.event.arrays import EventRule
from millrace_core.trigger.types.event.windower import EventWindower
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.interval.windower import IntervalWindower
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, OPEN, RETRACT
from millrace_core.trigger.types.reach import Rows, Stretch
from millrace_core.trigger.types.session.windower import SessionWindower
from millrace_core.trigger.types.sliding.windower import SlidingWindower
from millrace_core.trigger.types.state.arrays import StateRule
from millrace_core.trigger.types.state.windower import StateWindower
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Part

from ...conftest import examples
from .conftest import closed_only

Cells = list[tuple[int, Any]]
ME = Group(0, (), None)


def event(true_for: int) -> Windower:
    start, end = (Condition("", ("v",), Field(name)) for name in ("a", "b"))
    return EventWindower(start, end, EventRule(true_for, False, True, True, ("v",), ("v",)))


WINDOWERS: dict[str, Callable[[], Windower]] = {
    "interval": lambda: IntervalWindower(IntervalGrid(10, 10)),
    "overlapping": lambda: IntervalWindower(IntervalGrid(10, 3, 1)),
    "gaps": lambda: IntervalWindower(IntervalGrid(4, 10), empty=False),
    "session": lambda: SessionWindower(5),
    "state": lambda: StateWindower("v", StateRule(0, 0, False, True, True)),
    "state1": lambda: StateWindower("v", StateRule(1, 3, False, True, True)),
    "state2": lambda: StateWindower("v", StateRule(2, 0, False, True, True)),
    "event": lambda: event(0),
    "event3": lambda: event(3),
    "sliding": lambda: SlidingWindower(Schedule(10, 0, "ms")),
}
any_windower = pytest.mark.parametrize("name", list(WINDOWERS))


def as_rows(windower: Windower, cells: Cells) -> Rows:
    """v 0 to 3: bit 0 meets the start condition, bit 1 the end condition; NULL is a state too."""
    ts = np.array([ts for ts, _ in cells], dtype=np.int64)
    values = [v for _, v in cells]
    columns: dict[str, Any] = {}
    for name in windower.columns:
        if name in ("start", "end"):
            bit = 1 if name == "start" else 2
            columns[name] = np.array([bool((v or 0) & bit) for v in values], dtype=bool)
        else:
            columns[name] = np.empty(len(values), dtype=object)
            columns[name][:] = values
    return Rows(np.zeros(len(ts), dtype=np.int64), ts, columns)


def whole(windower: Windower, cells: Cells, until: int) -> set[tuple[Any, ...]]:
    """What is closed at ``until``, from all rows."""
    cutter = Cutter(windower, 1)
    parts = [cutter.feed(as_rows(windower, [cell for cell in cells if cell[0] <= until]))]
    parts.append(cutter.advance(np.array([until], dtype=np.int64)))
    return told(closed_only(in_order(parts)))


def told(found: Any) -> set[tuple[Any, ...]]:
    arrays = (found.kind, found.start, found.end, found.rownum, found.next)
    return set(zip(*(a.tolist() for a in arrays), map(repr, found.detail), strict=True))


def reader(windower: Windower, cells: Cells) -> Callable[[int, int], Stretch]:
    def read(low: int, high: int) -> Stretch:
        inside = [cell for cell in cells if low <= cell[0] <= high]
        return Stretch(as_rows(windower, inside), low, high, all(low <= ts for ts, _ in cells))

    return read


tables = st.dictionaries(
    st.integers(0, 90), st.sampled_from([None, 0, 1, 1, 1, 2, 3]), min_size=1, max_size=25
).map(lambda table: sorted(table.items()))


@any_windower
@settings(max_examples=examples(40))
@given(cells=tables, first=st.integers(-5, 95), length=st.integers(0, 30), until=st.integers(0, 100))
def test_a_range_is_cut_as_in_the_whole(name: str, cells: Cells, first: int, length: int, until: int) -> None:
    windower = WINDOWERS[name]()
    truth = whole(windower, cells, until)
    part = Part(ME, first, first + length, until)
    last = min(part.last, until)
    found = told(cut_again(windower, part, reader(windower, cells), changed=False).found)
    assert found <= truth
    end = {"interval": 1, "overlapping": 1, "gaps": 1}.get(name, 0)
    start = (lambda one: one[2]) if name == "sliding" else (lambda one: one[1])
    touching = {one for one in truth if start(one) <= last and one[2] - end >= first}
    assert touching <= found


@any_windower
@settings(max_examples=examples(60))
@given(
    cells=tables, first=st.integers(-5, 95), length=st.integers(0, 30), until=st.integers(0, 100),
    low=st.integers(-10, 95), size=st.integers(0, 110),
)  # fmt: skip
def test_rows_that_were_read_before_are_as_those_that_are_read(
    name: str, cells: Cells, first: int, length: int, until: int, low: int, size: int
) -> None:
    windower = WINDOWERS[name]()
    read = reader(windower, cells)
    within = from_block(read(low, low + size), read)
    part = Part(ME, first, first + length, until)
    for changed in (False, True):
        found, wanted = (cut_again(windower, part, one, changed=changed) for one in (within, read))
        assert told(found.found) == told(wanted.found)


def test_a_range_is_taken_from_a_block_only_where_it_lies_within() -> None:
    cells: Cells = [(10, 1), (20, 2), (20, 3), (30, 1), (40, 2)]
    asked: list[tuple[int, int]] = []
    plain = reader(WINDOWERS["state"](), cells)

    def read(low: int, high: int) -> Stretch:
        asked.append((low, high))
        return plain(low, high)

    within = from_block(plain(10, 30), read)
    for low, high in ((10, 30), (11, 20), (20, 20), (21, 29), (30, 30)):
        found, wanted = within(low, high), plain(low, high)
        assert (found.low, found.high, found.first) == (low, high, wanted.first)
        assert found.rows.ts.tolist() == wanted.rows.ts.tolist()
        assert [one.tolist() for one in found.rows.columns.values()] == [
            one.tolist() for one in wanted.rows.columns.values()
        ]
    assert not asked
    within(9, 30)
    within(10, 31)
    assert asked == [(9, 30), (10, 31)]
    assert not from_block(plain(11, 30), plain)(11, 20).first, "there is one before it"


@pytest.mark.parametrize("name", [name for name in WINDOWERS if name != "sliding"])
@settings(max_examples=examples(60))
@given(cells=tables, changes=tables, until=st.integers(60, 100), first=st.integers(0, 90))
def test_after_a_change_only_what_is_told_again_differs(
    name: str, cells: Cells, changes: Cells, until: int, first: int
) -> None:
    """Rows in a range come, change and go; with what is told again and what is invalid all is as in order."""
    windower = WINDOWERS[name]()
    last = min(first + 12, until)
    after = [c for c in cells if not first <= c[0] <= last] + [c for c in changes if first <= c[0] <= last]
    after.sort(key=lambda cell: cell[0])
    before = {(one[1], one[2]) for one in whole(windower, cells, until) if one[0] == CLOSE}
    part = Part(ME, first, last, until)
    if name == "session":
        part = Part(ME, first - 5, last + 5, until)
    answer = cut_again(windower, part, reader(windower, after), changed=True, told=before).found
    windows = dict(before)
    for kind, start, end in zip(
        answer.kind.tolist(), answer.start.tolist(), answer.end.tolist(), strict=True
    ):
        if kind == INVALID:
            assert windows.pop(start) == end
        elif kind == CLOSE:
            windows[start] = end
        else:
            assert kind == OPEN
    truth = {one[1]: one[2] for one in whole(windower, after, until) if one[0] == CLOSE}
    if name in ("interval", "overlapping", "gaps"):
        # which empty ones are told depends on the first row that came, not on the earliest
        full = {one[1] for one in whole(windower, after, until) if one[3]}
        assert {start: windows[start] for start in full} == {start: truth[start] for start in full}
        return
    for window in open_windows(windower, after, until):
        windows.pop(window.start, None)  # goes on in the live path
    assert windows == truth


@pytest.mark.parametrize("name", [name for name in WINDOWERS if name != "sliding"])
@settings(max_examples=examples(80))
@given(cells=tables, changes=tables, until=st.integers(60, 100), first=st.integers(0, 90))
def test_results_that_no_longer_stand_are_taken_back(
    name: str, cells: Cells, changes: Cells, until: int, first: int
) -> None:
    """Nobody remembers what was told before: the results alone are in order in the end."""
    windower = WINDOWERS[name]()
    last = min(first + 12, until)
    after = [c for c in cells if not first <= c[0] <= last] + [c for c in changes if first <= c[0] <= last]
    after.sort(key=lambda cell: cell[0])
    part = Part(ME, first, last, until)
    if name == "session":
        part = Part(ME, first - 5, last + 5, until)
    found = cut_again(windower, part, reader(windower, after), changed=True, retracts=True).found
    arrays = (found.kind, found.start, found.end, found.rownum)
    told_again = list(zip(*(array.tolist() for array in arrays), strict=True))
    kinds = [kind for kind, *_ in told_again]
    assert RETRACT not in kinds[kinds.count(RETRACT) :], "what stands is told behind"
    results = {one[1]: one[2:4] for one in whole(windower, cells, until) if one[0] == CLOSE}
    for kind, start, end, rows in told_again:
        if kind == RETRACT:
            results = {key: result for key, result in results.items() if not start <= key <= end}
        elif kind == CLOSE:
            results[start] = (end, rows)
    truth = {one[1]: one[2:4] for one in whole(windower, after, until) if one[0] == CLOSE}
    if name in ("interval", "overlapping"):
        # which empty ones are told depends on the first row that came, not on the earliest
        truth = {start: window for start, window in truth.items() if window[1]}
        results = {start: window for start, window in results.items() if window[1]}
    for window in open_windows(windower, after, until):
        results.pop(window.start, None)  # goes on in the live path
    assert results == truth


@settings(max_examples=examples(100))
@example([(0, 1), (10, 1), (20, 1), (30, 1)], [(5, 1), (15, 1)], [5, 15], 90)
@given(
    cells=tables, changes=tables, until=st.integers(60, 100),
    times=st.lists(st.integers(0, 90), min_size=2, max_size=6, unique=True),
)  # fmt: skip
def test_counted_windows_are_cut_once_however_many_rows_have_changed(
    cells: Cells, changes: Cells, times: list[int], until: int
) -> None:
    """Behind the first change all are others: to cut them for each is to tell all of them each time."""
    windower = CountWindower(4, 2, follows=True)
    times = [ts for ts in times if ts <= until] or [0]
    after = [c for c in cells if c[0] not in times] + [c for c in changes if c[0] in times]
    after.sort(key=lambda cell: cell[0])
    parts = [Part(ME, ts, ts, until) for ts in times]
    (once,) = coalesced(parts, onward=windower.reach().onward)

    def results(asked: list[Part]) -> tuple[dict[int, Any], int]:
        standing = {one[1]: one[2:4] for one in whole(windower, cells, until) if one[0] == CLOSE}
        told_again = 0
        for part in asked:
            found = cut_again(windower, part, reader(windower, after), changed=True, retracts=True).found
            for kind, start, end, rows in zip(
                *(array.tolist() for array in (found.kind, found.start, found.end, found.rownum)), strict=True
            ):
                if kind == RETRACT:
                    standing = {key: one for key, one in standing.items() if not start <= key <= end}
                elif kind == CLOSE:
                    standing[start] = (end, rows)
                    told_again += 1
        for window in open_windows(windower, after, until):
            standing.pop(window.start, None)  # goes on in the live path
        return standing, told_again

    truth = {one[1]: one[2:4] for one in whole(windower, after, until) if one[0] == CLOSE}
    (one_by_one, often), (at_once, seldom) = results(parts), results([once])
    assert one_by_one == at_once == truth
    assert seldom <= len(truth) and seldom <= often


def test_ranges_of_a_group_meet_where_a_change_touches_all_behind_it() -> None:
    other = Group(7, (), None)
    parts = [Part(ME, 30, 31, 50), Part(ME, 10, 12, 60, lost=True), Part(other, 20, 20, 50)]
    assert coalesced(parts) == [Part(ME, 10, 12, 60, lost=True), Part(ME, 30, 31, 60, lost=True), parts[2]]
    assert coalesced(parts, onward=True) == [Part(ME, 10, 31, 60, lost=True), parts[2]]


def test_the_first_window_that_late_rows_brought_is_told_as_empty_when_they_are_deleted() -> None:
    """Chaos, seed 37. A delete far before the group's first row, then late rows there, then they are deleted
    too; both deletes are answered together. The first request knows nothing of the window yet."""
    windower = WINDOWERS["interval"]()
    parts = [Part(ME, 0, 2, 60, origin=30), Part(ME, 0, 15, 70, origin=0), Part(ME, 50, 51, 70, origin=0)]
    for asked in (parts, parts[::-1]):
        once, apart = coalesced(asked)
        assert (once, apart) == (Part(ME, 0, 15, 70, origin=0), Part(ME, 50, 51, 70, origin=0))
        found = cut_again(windower, once, reader(windower, [(30, 1), (70, 1)]), changed=True).found
        closed = [one[1:4] for one in sorted(told(found)) if one[0] == CLOSE]
        assert closed == [(0, 10, 0), (10, 20, 0)]


SHOWN = ["interval", "overlapping", "session", "state", "state1", "event"]


@pytest.mark.parametrize("name", SHOWN)
@settings(max_examples=examples(80))
@example([(0, 1), (10, 2), (20, 1), (30, 2), (40, 2), (50, 1)], 5, 0, 45)  # the one from 30 on ends at 40
@given(cells=tables, first=st.integers(-5, 95), length=st.integers(0, 30), until=st.integers(0, 100))
def test_what_is_shown_of_a_range_is_as_in_the_whole(
    name: str, cells: Cells, first: int, length: int, until: int
) -> None:
    """Chaos, seed 19: a window that goes on behind the rows that were read was shown as if it ended there."""
    windower = WINDOWERS[name]()
    every = as_rows(windower, cells)
    cutter = Cutter(windower, 1)
    cut = in_order([cutter.feed(every.only(every.ts <= until)), cutter.advance(np.array([until]))])
    parts = cut.take(cut.kind == CLOSE), shown_windows(cutter, every.only(every.ts > until))
    truth = {window for part in parts for window in zip(part.start.tolist(), part.end.tolist(), strict=True)}
    part = Part(ME, first, first + length, until, open=True)
    found = cut_again(windower, part, reader(windower, cells), changed=True).found
    found = found.take(found.kind == CLOSE)
    assert set(zip(found.start.tolist(), found.end.tolist(), strict=True)) <= truth


def open_windows(windower: Windower, cells: Cells, until: int) -> Any:
    cutter = Cutter(windower, 1)
    cutter.feed(as_rows(windower, [cell for cell in cells if cell[0] <= until]))
    cutter.advance(np.array([until], dtype=np.int64))
    return windower.so_far(cutter.memory.get(0))


def test_count_windows_are_divided_anew_in_the_range() -> None:
    windower = CountWindower(3, 3)
    cells: Cells = [(ts, 1) for ts in range(1, 11)]
    answer = cut_again(windower, Part(ME, 2, 8, 10), reader(windower, cells), changed=False)
    assert told(answer.found) == {
        (kind, start, start + 2 * (kind == CLOSE), 3 if kind == CLOSE else 1, 0, "None")
        for kind in (OPEN, CLOSE)
        for start in (2, 5)
    }
