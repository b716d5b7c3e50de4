"""STATE_WINDOW and EVENT_WINDOW: arrays and row by row are the same, and both are the definition over the
sorted rows, for rows in any order: what is not told rightly lies where REDO sends the calculation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.expression import Field
from millrace_core.model.stream import Condition
from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import NEVER, Arrivals, Clock, ClockMemory
from millrace_core.trigger.types.event.arrays import END, START, EventRule
from millrace_core.trigger.types.event.windower import EventMemory, EventWindower
from millrace_core.trigger.types.kept import ALWAYS
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, OPEN, REDO, Occurrences
from millrace_core.trigger.types.state.arrays import StateRule
from millrace_core.trigger.types.state.windower import StateMemory, StateWindower
from millrace_core.trigger.types.windower import Windower

from ...conftest import examples
from .conftest import GROUPS, through_bytes

Rows = list[tuple[int, Any]]
Span = tuple[int, int]


class Truth(NamedTuple):
    """The windows of some sorted rows: closed ones with their numbers of rows, and the open one's start."""

    closed: dict[Span, int]
    open: Span | None


class Kind(NamedTuple):
    """A type of windows: made of (true_for, extend, told, shared, most_kept); its rows' values; its truth."""

    make: Callable[..., Windower]
    memory: type[msgspec.Struct]
    values: st.SearchStrategy[Any]
    columns: Callable[[list[Any]], dict[str, Any]]
    truth: Callable[[Rows, int, int], Truth]


def state_windows(rows: Rows, true_for: int, extend: int) -> Truth:
    """Runs of equal states, and what lies between."""
    runs: list[list[Any]] = []
    for ts, state in rows:
        if state is None:
            continue
        if runs and runs[-1][0] == state:
            runs[-1][2] = ts
        else:
            runs.append([state, ts, ts])
    spans = []
    for place, (_, first, last) in enumerate(runs):
        start = runs[place - 1][2] + 1 if extend == 2 and place else first
        end = runs[place + 1][1] - 1 if extend == 1 and place + 1 < len(runs) else last
        spans.append((start, end))
    return _truth(rows, spans[:-1], spans[-1] if spans else None, true_for)


def event_windows(rows: Rows, true_for: int, _: int) -> Truth:
    """From a start row to the next end row."""
    spans: list[Span] = []
    start = None
    for ts, flags in rows:
        if start is None and flags & START:
            start = ts
        if start is not None and flags & END:
            spans.append((start, ts))
            start = None
    return _truth(rows, spans, (start, rows[-1][0]) if start is not None else None, true_for)


def _truth(rows: Rows, spans: list[Span], open_: Span | None, true_for: int) -> Truth:
    long = [(start, end) for start, end in spans if end - start >= true_for]
    return Truth({(s, e): sum(s <= ts <= e for ts, _ in rows) for s, e in long}, open_)


def state_windower(true_for: int, extend: int, told: bool, shared: bool, most: int) -> Windower:
    return StateWindower("v", StateRule(extend, true_for, shared, told), most)


def event_windower(true_for: int, extend: int, told: bool, shared: bool, most: int) -> Windower:
    start, end = (Condition("", ("v",), Field(name)) for name in ("a", "b"))
    return EventWindower(start, end, EventRule(true_for, shared, told, True, ("v",), ("v",)), most)


def filled(values: list[Any], dtype: type) -> Any:
    array: Any = np.empty(len(values), dtype=dtype)
    array[:] = values
    return array


def event_columns(values: list[Any]) -> dict[str, Any]:
    return {
        "start": filled([value & START > 0 for value in values], bool),
        "end": filled([value & END > 0 for value in values], bool),
        "cell v": filled(values, object),
    }


KINDS = {
    "state": Kind(
        state_windower, StateMemory, st.sampled_from([None, 1, 1, 1, 1, 2, 3]),
        lambda values: {"state": filled(values, object)}, state_windows,
    ),
    "event": Kind(
        event_windower, EventMemory, st.sampled_from([0, 0, *[START] * 4, END, START | END]),
        event_columns, event_windows,
    ),
}  # fmt: skip
kinds = pytest.mark.parametrize("name", list(KINDS))
shapes = st.tuples(st.sampled_from([0, 0, 3, 8]), st.integers(0, 2), st.booleans())


def arrived(kind: Kind, windower: Windower, rows: list[tuple[int, int, Any]]) -> Arrivals:
    """Of (group, ts, value)."""
    rows = sorted(rows, key=lambda row: row[0])
    columns = kind.columns([value for _, _, value in rows])
    return Arrivals(
        np.array([group for group, _, _ in rows], dtype=np.int64),
        np.array([ts for _, ts, _ in rows], dtype=np.int64),
        {name: columns[name] for name in windower.columns},
    )


def ordered(found: Occurrences) -> list[tuple[Any, ...]]:
    arrays = (found.group, found.step, found.start, found.end, found.kind, found.rownum, found.cause)
    return sorted(zip(*(array.tolist() for array in arrays), map(repr, found.detail), strict=True))


@kinds
@settings(max_examples=examples(60))
@given(
    data=st.data(), shape=shapes, most=st.integers(1, 4), watermark=st.sampled_from([0, 0, 4]),
    ignore=st.booleans(), shared=st.booleans(),
)  # fmt: skip
def test_arrays_are_row_by_row(
    name: str, data: Any, shape: Any, most: int, watermark: int, ignore: bool, shared: bool
) -> None:
    kind = KINDS[name]
    row = st.tuples(st.integers(0, GROUPS - 1), st.integers(-5, 30), kind.values)
    batches = data.draw(st.lists(st.lists(row, max_size=25), max_size=4))
    clock = Clock(watermark, ignore_disorder=ignore, shared=shared)
    windower = kind.make(*shape, shared, most)
    clocked, fast, slow = Columns(ClockMemory, windower.columns), Columns(kind.memory), Columns(kind.memory)
    for columns in (clocked, fast, slow):
        columns.grow(GROUPS)
    for batch in batches:
        judged = clock.judge(clocked, arrived(kind, windower, batch))
        one, other = windower.on_rows(fast, judged), Windower.on_rows(windower, slow, judged)
        assert ordered(one) == ordered(other)
        assert [fast.get(g) for g in range(GROUPS)] == [slow.get(g) for g in range(GROUPS)]
        fast = through_bytes(fast)


class Told:
    """Who listens to one group: closed windows as they stand, and ranges that are cut again."""

    def __init__(self) -> None:
        self.opened: set[int] = set()
        self.closed: dict[int, tuple[int, int]] = {}
        self.redo: list[Span] = []

    def hear(self, found: Occurrences) -> None:
        # as Emission.arrange has it
        turn = np.where((found.kind == CLOSE) & (found.start == found.end), OPEN + 0.5, found.kind)
        instant = np.where(found.kind == OPEN, found.start, found.end)
        instant = np.where(found.kind == INVALID, NEVER, instant)
        found = found.take(np.lexsort((turn, instant, found.step)))
        arrays = (found.kind, found.start, found.end, found.rownum)
        for kind, start, end, rownum in zip(*(array.tolist() for array in arrays), strict=True):
            if kind == OPEN:
                assert start not in self.opened or start in self.closed, "a window opens once"
                self.opened.add(start)
            elif kind == CLOSE:
                assert start in self.opened, "what closes was open"
                self.closed[start] = (end, rownum)
            elif kind == INVALID:
                assert start in self.opened, "what is invalid was open"
                self.opened.discard(start)
                self.closed.pop(start, None)
            else:
                assert kind == REDO
                self.redo.append((start, end))


def touched(spans: set[Span], ranges: list[Span], next_to: bool) -> set[Span]:
    """The windows that touch the ranges, or one that does, and so on; with ``next_to`` also those that begin
    or end right beside (an extended window reaches as far as its neighbour lets it)."""
    found: set[Span] = set()
    while True:
        near = [(a - next_to, b + next_to) for a, b in [*ranges, *found]]
        more = {s for s in spans - found if any(a <= s[1] and s[0] <= b for a, b in near)}
        if not more:
            return found
        found |= more


Steps = list[tuple[int, Any, bool]]
"""Rows: how far each lies from the newest before it, its value, whether a batch ends with it."""


@kinds
@settings(max_examples=examples(120))
@given(data=st.data(), shape=shapes, most=st.sampled_from([1, 3, 100]), watermark=st.sampled_from([0, 0, 4]))
def test_windows_are_their_definition(name: str, data: Any, shape: Any, most: int, watermark: int) -> None:
    step = st.tuples(st.integers(-4, 4), KINDS[name].values, st.booleans())
    steps = data.draw(st.lists(step, min_size=4, max_size=8) | st.lists(step, min_size=12, max_size=40))
    hold_against_definition(KINDS[name], shape, most, watermark, steps)


@pytest.mark.parametrize(
    "steps",
    [
        # a window that a late row made long, open again, and closed again
        [(0, 1, True), (4, 2, True), (-1, 1, True), (0, None, True), (0, 2, True)],
        # the newest row that is not kept loses its state, then the only one that is kept
        [(0, 2, True), (2, 3, True), (1, 2, True), (0, 3, True), (-1, None, True), (0, 1, True)],
        [(0, 1, True), (1, 1, True), (1, 1, True), (-1, None, True), (0, 2, True), (2, 1, True)],
    ],
)
def test_windows_that_were_found_to_differ(steps: Steps) -> None:
    for extend, true_for, most in itertools.product((0, 1, 2), (0, 3), (1, 100)):
        hold_against_definition(KINDS["state"], (true_for, extend, True), most, 0, steps)


def hold_against_definition(kind: Kind, shape: Any, most: int, watermark: int, steps: Steps) -> None:
    """What is told of rows in any order, against the windows of the sorted rows."""
    true_for, extend, _ = shape
    windower = kind.make(*shape, False, most)
    clock = Clock(watermark)
    clocked, memory = Columns(ClockMemory, windower.columns), Columns(kind.memory)
    clocked.grow(1)
    memory.grow(1)
    told, table, batch, newest = Told(), dict[int, Any](), list[tuple[int, int, Any]](), NEVER
    for place, (forward, value, cut) in enumerate(steps):
        ts = max(newest, 0) + forward
        newest = max(newest, ts)
        batch.append((0, ts, value))
        table[ts] = value
        if cut or place == len(steps) - 1:
            told.hear(windower.on_rows(memory, clock.judge(clocked, arrived(kind, windower, batch))))
            memory, batch = through_bytes(memory), []
    rows = sorted(((ts, v) for ts, v in table.items() if ts <= newest - watermark), key=lambda row: row[0])
    truth = kind.truth(rows, true_for, extend)
    left: Any = memory.get(0)
    ranges = list(told.redo)
    if left.redo != ALWAYS:
        # once the open window closes: it is told as it stands, and cut again with what touches it
        ranges += [(left.redo, newest), *((one.start, one.end) for one in windower.so_far(left))]
    stale = {(start, end) for start, (end, _) in told.closed.items()}
    if truth.open is not None:
        stale = {span for span in stale if span[0] != truth.open[0]}
    around = touched(
        stale | truth.closed.keys() | ({truth.open} if truth.open else set()), ranges, extend > 0
    )
    assert (stale ^ truth.closed.keys()) <= around
    for span in truth.closed.keys() & stale - around:
        assert told.closed[span[0]][1] in (-1, truth.closed[span])
    start = left.start if isinstance(left, EventMemory) or left.state is not None else NEVER
    if truth.open is not None and truth.open not in around:
        assert start == truth.open[0]


def over(operator: str, limit: int) -> dict[str, Any]:
    """A condition over the column ``v``, as CREATE STREAM makes it."""
    arguments = [{"node": "field", "name": "v"}, {"node": "constant", "value": limit}]
    return {
        "sql": "",
        "columns": ["v"],
        "expression": {"node": "call", "name": operator, "arguments": arguments},
    }


TRIGGERS: dict[str, dict[str, Any]] = {
    "state": {"State": {"column": "v", "extend": 1}},
    "event": {"Event": {"start": over("ge", 3), "end": over("lt", 2), "true_for": 2}},
}
messages = st.lists(
    st.tuples(
        st.sampled_from(["c1", "c2"]),
        st.lists(st.tuples(st.integers(0, 20), st.sampled_from([None, 1, 2, 3])), min_size=1, max_size=4),
    ),
    max_size=10,
)


def replay(kit: Any, name: str, some: list[Any], cut: Callable[[int], bool], watermark: int) -> Any:
    cluster = kit.Cluster()
    both = ("WINDOW_OPEN", "WINDOW_CLOSE")
    cluster.define(kit.stream(trigger=TRIGGERS[name], kinds=both, notify=both, watermark=watermark))
    for number, (child, rows) in enumerate(some):
        cluster.write(child, rows)
        if cut(number):
            cluster.run()
    cluster.run()
    return cluster.live()


@kinds
@settings(max_examples=examples(20))
@given(
    some=messages, cut=st.lists(st.booleans(), min_size=10, max_size=10), watermark=st.sampled_from([0, 3])
)
def test_batches_restarts_and_groups_are_invisible(
    kit: Any, name: str, some: list[Any], cut: list[bool], watermark: int
) -> None:
    """Every state goes through its bytes between two batches."""
    whole = replay(kit, name, some, lambda _: True, watermark)
    assert replay(kit, name, some, cut.__getitem__, watermark) == whole
    for child in ("c1", "c2"):
        alone = replay(kit, name, [m for m in some if m[0] == child], cut.__getitem__, watermark)
        assert alone == {group: told for group, told in whole.items() if group == child}


@kinds
def test_the_memory_is_bounded(name: str) -> None:
    kind = KINDS[name]
    windower = kind.make(0, 0, True, False, 50)
    memory, clocked = Columns(kind.memory), Columns(ClockMemory, windower.columns)
    memory.grow(1)
    clocked.grow(1)
    for begin in range(0, 1000, 100):
        rows = [(0, ts, 1) for ts in range(begin, begin + 100)]
        windower.on_rows(memory, Clock().judge(clocked, arrived(kind, windower, rows)))
    left: Any = memory.get(0)
    assert [row.ts for row in left.kept] == list(range(950, 1000))
    assert left.start == 0 and left.rows == 1000


@kinds
def test_a_late_row_among_forgotten_ones_is_cut_again_once_the_window_closes(name: str) -> None:
    kind = KINDS[name]
    windower = kind.make(0, 0, False, False, 2)
    memory, clocked = Columns(kind.memory), Columns(ClockMemory, windower.columns)
    memory.grow(1)
    clocked.grow(1)
    kinds_told = []
    late, closing = {"state": (2, 2), "event": (END, END)}[name]
    for ts, value in [*((ts, 1) for ts in range(10)), (4, late), (10, closing)]:
        judged = Clock().judge(clocked, arrived(kind, windower, [(0, ts, value)]))
        found = windower.on_rows(memory, judged)
        kinds_told += list(zip(found.kind.tolist(), found.start.tolist(), found.end.tolist(), strict=True))
    end = {"state": 9, "event": 10}[name]
    opened = [(OPEN, 10, 10)] if name == "state" else []
    assert sorted(kinds_told) == sorted([(OPEN, 0, 0), (CLOSE, 0, end), (REDO, 4, end), *opened])
