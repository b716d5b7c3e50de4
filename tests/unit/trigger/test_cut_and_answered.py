"""STATE_WINDOW and EVENT_WINDOW with late rows, and every REDO answered from the stored rows, soon or late:
in the end exactly the windows of the rows in order are told."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.recalc.answer import cut_again
from millrace_core.recalc.sending import coalesced
from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import RANGE, Clock, ClockMemory
from millrace_core.trigger.types.event.arrays import END, START
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, OPEN, Occurrences, as_arrays
from millrace_core.trigger.types.reach import Rows, Stretch
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Part

from ...conftest import examples
from .conftest import through_bytes
from .test_cut_again import KINDS, Kind, arrived

ME = Group(0, (), None)
Steps = list[tuple[int, Any, bool]]
LAST = {"state": [1, 9, 8, 1, 7], "event": [END, END, START, END, 0]}
"""Rows far behind everything: what is open closes."""


class Deleted(NamedTuple):
    """In place of a row's value: the rows from there on are deleted, over this many ticks."""

    length: int


class Listener:
    """One group: its stored rows, and what was told of its windows."""

    def __init__(self, kind: Kind, windower: Windower) -> None:
        self.kind, self.windower = kind, windower
        self.table: dict[int, Any] = {}
        self.opened: set[int] = set()
        self.closed: dict[int, int] = {}
        self.asked: list[Part] = []

    def hear(self, found: Occurrences, until: int = 0) -> None:
        turn = np.where((found.kind == CLOSE) & (found.start == found.end), OPEN + 0.5, found.kind)
        instant = np.where(found.kind == OPEN, found.start, found.end)
        found = found.take(np.lexsort((turn, instant, found.step)))
        for kind, start, end in zip(*(a.tolist() for a in (found.kind, found.start, found.end)), strict=True):
            if kind == OPEN:
                self.opened.add(start)
            elif kind == CLOSE:
                self.closed[start] = end
            elif kind == INVALID:
                self.opened.discard(start)
                self.closed.pop(start, None)
            else:
                self.asked.append(Part(ME, max(start, -RANGE), min(end, until), until))

    def answer(self) -> None:
        asked, self.asked = self.asked, []
        for part in coalesced(asked):
            told = dict.fromkeys(self.opened) | self.closed
            known = [(start, start if end is None else end) for start, end in told.items()]
            self.hear(cut_again(self.windower, part, self.read, changed=True, told=known).found)

    def read(self, low: int, high: int) -> Stretch:
        rows = sorted((ts, value) for ts, value in self.table.items() if low <= ts <= high)
        columns = self.kind.columns([value for _, value in rows])
        ts = np.array([ts for ts, _ in rows], dtype=np.int64)
        wanted = {name: columns[name] for name in self.windower.columns}
        first = not any(ts < low for ts in self.table)
        return Stretch(Rows(np.zeros(len(ts), dtype=np.int64), ts, wanted), low, high, first)


def delete(listener: Listener, memory: Columns, first: int, last: int) -> Occurrences:
    """Rows that T has reached are gone; asked for at ``last``."""
    one = memory.get(0)
    found = list(listener.windower.on_delete(one, first, last)) if first <= last else []
    memory.put({0: one})
    listener.table = {ts: value for ts, value in listener.table.items() if not first <= ts <= last}
    return as_arrays([(0, 0, occurrence) for occurrence in found], 0)


def hold_against_definition(
    name: str, shape: Any, most: int, watermark: int, steps: Steps, late: bool
) -> None:
    """``late``: REDO is answered once all rows are there."""
    kind = KINDS[name]
    windower = kind.make(*shape, False, most)
    clock, listener = Clock(watermark), Listener(kind, windower)
    clocked, memory = Columns(ClockMemory, windower.columns), Columns(kind.memory)
    clocked.grow(1)
    memory.grow(1)
    far = [(50 if place in (0, 4) else 1, value, True) for place, value in enumerate(LAST[name])]
    batch, newest, came = list[tuple[int, int, Any]](), 0, False
    for place, (forward, value, cut) in enumerate([*steps, *far]):
        ts = newest + forward
        if isinstance(value, Deleted):
            if not batch and came:
                last = min(ts + value.length, newest - watermark)
                listener.hear(delete(listener, memory, ts, last), newest - watermark)
            continue
        newest, came = max(newest, ts) if came else ts, True
        batch.append((0, ts, value))
        listener.table[ts] = value
        if cut or place >= len(steps) - 1:
            found = windower.on_rows(memory, clock.judge(clocked, arrived(kind, windower, batch)))
            memory, batch = through_bytes(memory), []
            listener.hear(found, newest - watermark)
            if not late or place >= len(steps):
                listener.answer()
    rows = sorted((ts, v) for ts, v in listener.table.items() if ts <= newest - watermark)
    truth = kind.truth(rows, shape[0], shape[1])
    assert listener.closed == dict(truth.closed.keys())


@pytest.mark.parametrize("name", list(KINDS))
@settings(max_examples=examples(150))
@given(
    data=st.data(), shape=st.tuples(st.sampled_from([0, 0, 3]), st.integers(0, 2), st.just(True)),
    most=st.sampled_from([1, 2, 100]), watermark=st.sampled_from([0, 0, 2]), late=st.booleans(),
)  # fmt: skip
def test_late_rows_end_in_the_windows_of_the_rows_in_order(
    name: str, data: Any, shape: Any, most: int, watermark: int, late: bool
) -> None:
    values = KINDS[name].values | KINDS[name].values | st.builds(Deleted, st.integers(0, 4))
    step = st.tuples(st.integers(-5, 4), values, st.booleans())
    steps = data.draw(st.lists(step, min_size=3, max_size=9) | st.lists(step, min_size=10, max_size=30))
    hold_against_definition(name, shape, most, watermark, steps, late)


FOUND: list[tuple[str, int, Steps]] = [
    # the closing row of a one-row window closes no more, and a window opens before it
    ("event", 0, [(0, START | END, True), (0, START, True), (-2, START, True), (4, END, True), (2, 1, True)]),
    ("event", 3, [(0, 3, False), (0, 0, True), (-5, 2, True), (-5, 1, True), (3, 1, True), (-1, 2, False)]),
    # the closed window's last row goes, then the open window, then the one before is split
    (
        "state",
        0,
        [(0, 1, True), (2, 2, True), (-3, 1, True), (-2, None, True), (0, None, True), (-4, 2, True)],
    ),
    # the only row of a window that is open again goes, and its neighbours are one
    ("state", 0, [(0, 1, True), (1, 2, True), (1, 2, True), (0, 1, True), (0, None, True), (-1, 1, True)]),
]


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize(("name", "true_for", "steps"), FOUND)
def test_rows_that_were_found_to_differ(name: str, true_for: int, steps: Steps, late: bool) -> None:
    for extend, most in ((0, 100), (1, 1), (1, 100), (2, 1)):
        hold_against_definition(name, (true_for, extend, True), most, 0, [*steps, (1, 1, True)], late)


def test_the_first_row_alone_says_where_time_stands() -> None:
    """Before the watermark has reached it, no window has it, and no DELETE is told of it."""
    steps: Steps = [(0, Deleted(0), False), (-2, 1, True), (-2, Deleted(0), False)]
    hold_against_definition("state", (0, 0, True), 1, 2, steps, late=False)
