"""EVENT_WINDOW: what late rows and updates mean to the windows behind (see test_cut_again.py too)."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace_core.model.expression import Field
from millrace_core.model.stream import Condition
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types.event.arrays import END, START, EventRule
from millrace_core.trigger.types.event.windower import EventMemory, EventWindower
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, OPEN, REDO, Row, SoFar

from .conftest import OneGroup, Told, by_step_and_kind, told

BOTH = START | END


class One(OneGroup):
    """Rows are (ts, flags)."""

    def __init__(self, rule: EventRule | None = None) -> None:
        start, end = Condition("", (), Field("a")), Condition("", (), Field("b"))
        self.rule = rule or EventRule()
        super().__init__(EventWindower(start, end, self.rule))
        self.details: list[Any] = []

    def write(self, *rows: tuple[int, int]) -> list[Told]:
        flags = np.array([flags for _, flags in rows])
        columns: dict[str, Any] = {"start": flags & START > 0, "end": flags & END > 0}
        columns |= {f"cell {name}": flags.astype(object) for name in self.rule.names}
        found = by_step_and_kind(self.feed([ts for ts, _ in rows], columns))
        self.details = found.detail.tolist()
        return told(found)


def test_a_row_at_or_before_the_closed_windows_end_is_for_the_store() -> None:
    one = One()
    one.write((2, START), (4, END), (6, 0))
    assert one.write((3, 0)) == [(REDO, 3, 3, -1)]
    assert one.write((4, END)) == [(REDO, 4, 4, -1)]
    assert one.write((1, START)) == [(REDO, 1, 1, -1)]


def test_before_any_window_has_closed_every_late_row_is_for_the_memory() -> None:
    one = One()
    one.write((5, END), (8, 0))
    assert one.write((3, START)) == [(CLOSE, 3, 5, -1), (OPEN, 3, 5, -1)]


def test_one_late_row_may_close_several_windows() -> None:
    one = One()
    one.write((1, START), (3, START), (5, START), (7, 0))
    assert one.write((2, END)) == [(CLOSE, 1, 2, -1), (OPEN, 3, 7, -1)]
    assert one.open == [SoFar(3, 7, -1)]
    assert one.write((4, BOTH)) == [(CLOSE, 3, 4, -1), (OPEN, 5, 7, -1)]


def test_an_update_of_a_one_row_window() -> None:
    one = One()
    assert one.write((1, BOTH)) == [(CLOSE, 1, 1, 1), (OPEN, 1, 1, 1)]
    assert one.write((1, START)) == [(REDO, 1, 1, -1)], "nothing shuts it off from what was before any more"
    assert one.write((-2, START)) == [(REDO, -2, -2, -1)]
    assert one.write((2, END)) == [(REDO, -2, 2, -1)], "the stored rows know where it begins"
    assert one.write((3, BOTH)) == [(CLOSE, 3, 3, 1), (OPEN, 3, 3, 1)]


def test_an_update_of_the_closing_row_joins_the_window_with_the_next_one() -> None:
    one = One()
    one.write((1, START), (4, END), (6, START))
    assert one.write((4, 0)) == [(INVALID, 6, 6, -1)]
    assert one.open == [SoFar(1, 6, -1)]
    assert one.write((8, END)) == [(CLOSE, 1, 8, -1)]


def test_a_window_that_was_open_again_may_close_with_a_row_that_was_kept() -> None:
    one = One()
    one.write((1, START), (4, END), (5, END), (6, START))
    assert one.write((4, 0)) == [(CLOSE, 1, 5, -1)]
    assert one.open == [SoFar(6, 6, -1)]


def test_true_for_a_late_row_that_shortens_a_told_window_makes_it_invalid() -> None:
    one = One(EventRule(true_for=5))
    assert one.write((0, START), (6, 0)) == [(OPEN, 0, 6, 2)]
    assert one.write((3, END)) == [(INVALID, 0, 6, -1)]


def test_true_for_a_late_row_behind_the_others_may_reach_it() -> None:
    """With WATERMARK T is ahead of the rows."""
    windower = EventWindower(
        Condition("", (), Field("a")), Condition("", (), Field("b")), EventRule(true_for=5)
    )
    memory = EventMemory(start=0, last=3, rows=2)
    row = Row(6, True, {"start": False, "end": False})
    found = [(o.kind, o.start, o.end, o.rownum) for o in windower.on_late(memory, row, 9)]
    assert found == [(OPEN, 0, 6, -1)]


def test_details_are_those_of_the_rows_that_open_and_close_also_when_cut_again() -> None:
    one = One(EventRule(told=True, opens=("v",), closes=("v", "w")))
    one.write((5, START), (6, START))
    assert one.details == [{"triggerCondition": {"conditionIndex": 0, "fieldValue": {"v": START}}}]
    assert one.write((5, 0)) == [(OPEN, 6, 6, -1), (INVALID, 5, 6, -1)]
    assert one.details[0] == {"triggerCondition": {"conditionIndex": 0, "fieldValue": {"v": START}}}
    one.write((8, END))
    values = {"v": END, "w": END}
    assert one.details == [{"triggerCondition": {"conditionIndex": 1, "fieldValue": values}}]


def test_what_a_stream_reads(kit: Any) -> None:
    """The columns' values only where somebody is told of them."""
    condition = {"sql": "v", "columns": ["v", "w"], "expression": {"node": "field", "name": "v"}}
    trigger = {"Event": {"start": condition, "end": condition, "true_for": 7}}
    columns = {"v": "BOOL", "w": "INT"}
    silent: Any = compiled(essence(kit.stream(trigger=trigger, columns=columns))).windower
    assert silent.columns == ("start", "end")
    assert silent.rule == EventRule(7, False, False, False, ("v", "w"), ("v", "w"))
    spec = kit.stream(trigger=trigger, columns=columns, notify=("WINDOW_OPEN",))
    assert compiled(essence(spec)).windower.columns == ("start", "end", "cell v", "cell w")
