"""STATE_WINDOW: what late rows and updates in and around the open window mean (see test_cut_again.py too)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace_core.trigger.groups.watermark import Clock
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, OPEN, REDO, SoFar
from millrace_core.trigger.types.state.arrays import StateRule
from millrace_core.trigger.types.state.windower import StateWindower

from .conftest import OneGroup, Told, by_step_and_kind, told


class One(OneGroup):
    """Rows are (ts, state)."""

    def __init__(self, rule: StateRule | None = None, shared: bool = False) -> None:
        super().__init__(StateWindower("v", rule or StateRule(shared=shared)), Clock(shared=shared))
        self.details: list[Any] = []

    def write(self, *rows: tuple[int, Any]) -> list[Told]:
        states = np.empty(len(rows), dtype=object)
        states[:] = [state for _, state in rows]
        found = by_step_and_kind(self.feed([ts for ts, _ in rows], {"state": states}))
        self.details = found.detail.tolist()
        return told(found)


def test_a_row_at_or_before_the_closed_windows_end_is_for_the_store() -> None:
    one = One()
    one.write((0, 1), (4, 1), (6, 2))
    assert one.write((2, 1)) == [(REDO, 2, 2, -1)]
    assert one.write((4, 1)) == [(REDO, 4, 4, -1)]
    assert one.write((-3, 5)) == [(REDO, -3, -3, -1)]
    assert one.open == [SoFar(6, 6, 1)]


def test_a_row_of_the_closed_windows_state_right_behind_it_extends_it() -> None:
    one = One()
    one.write((0, 1), (4, 1), (8, 2))
    assert one.write((6, 1)) == [(REDO, 4, 6, -1)]
    assert one.write((5, 2)) == [(REDO, 5, 5, -1)], "that lies before the closed window's new end"
    assert one.write((9, 3)) == [(CLOSE, 8, 8, -1), (OPEN, 9, 9, 1)]


def test_a_row_of_a_third_state_between_is_a_window() -> None:
    one = One()
    one.write((0, 1), (8, 2))
    assert one.write((4, 3)) == [(CLOSE, 4, 4, -1), (OPEN, 4, 4, -1)]
    assert one.open == [SoFar(8, 8, -1)]


def test_an_update_of_the_closed_windows_last_row_to_the_open_ones_state_moves_the_start() -> None:
    one = One()
    one.write((0, 1), (4, 1), (8, 2))
    assert sorted(one.write((4, 2))) == sorted([(REDO, 4, 4, -1), (INVALID, 8, 8, -1), (OPEN, 4, 8, -1)])
    assert one.write((9, 3)) == [(CLOSE, 4, 8, -1), (OPEN, 9, 9, 1)]


def test_extend_1_a_late_row_before_the_open_window_changes_the_closed_ones_end() -> None:
    one = One(StateRule(extend=1))
    assert one.write((0, 1), (8, 2)) == [(OPEN, 0, 0, 1), (CLOSE, 0, 7, 1), (OPEN, 8, 8, 1)]
    assert one.write((3, None)) == [(REDO, 0, 3, -1)], "it belongs to the closed window"
    assert sorted(one.write((5, 2))) == sorted([(REDO, 0, 4, -1), (INVALID, 8, 8, -1), (OPEN, 5, 8, -1)])


def test_extend_2_rows_without_a_state_before_the_open_window_are_its_own() -> None:
    one = One(StateRule(extend=2))
    one.write((0, 1), (8, 2))
    assert one.write((3, None)) == []
    assert one.write((9, 3)) == [(CLOSE, 1, 8, -1), (OPEN, 9, 9, 1)]


def test_extend_2_where_the_closed_windows_last_row_changes_the_open_one_is_cut_again_once_it_closes() -> (
    None
):
    one = One(StateRule(extend=2))
    one.write((0, 1), (8, 2), (9, 3))
    # the window of 3 begins behind the row of 1 now, as the stored rows know
    assert one.write((8, 3)) == [(REDO, 8, 8, -1)]
    assert one.write((10, 1)) == [(REDO, 8, 10, -1)]
    assert sorted(one.write((11, 2))) == [(OPEN, 11, 11, 1), (REDO, 8, 10, -1)]


def test_a_late_null_inside_leaves_the_bounds_and_makes_the_count_unsure() -> None:
    one = One()
    one.write((0, 1), (8, 1))
    assert one.write((4, None)) == []
    assert one.write((9, 2)) == [(CLOSE, 0, 8, -1), (OPEN, 9, 9, 1)]


def test_an_update_to_null_moves_the_bounds() -> None:
    one = One()
    one.write((0, 1), (4, 1), (8, 1))
    assert one.write((8, None)) == []
    assert sorted(one.write((0, None))) == sorted([(INVALID, 0, 4, -1), (OPEN, 4, 4, -1)])
    assert one.write((9, 2)) == [(CLOSE, 4, 4, -1), (OPEN, 9, 9, 1)]


def test_the_only_row_updated_to_null_leaves_no_window() -> None:
    one = One()
    one.write((0, 1))
    assert one.write((0, None)) == [(INVALID, 0, 0, -1)]
    assert one.open == []
    assert one.write((3, 2)) == [(OPEN, 3, 3, 1)]


def test_who_does_not_hear_of_openings_hears_of_no_invalid_ones() -> None:
    one = One(StateRule(openings=False))
    one.write((0, 1), (6, 2))
    assert (INVALID, 6, 6, -1) not in one.write((3, 2))


def test_true_for_a_late_row_that_splits_a_told_window_makes_it_invalid() -> None:
    one = One(StateRule(true_for=5))
    assert one.write((0, 1), (6, 1)) == [(OPEN, 0, 6, 2)]
    assert one.write((3, 2)) == [(INVALID, 0, 6, -1)]
    assert one.write((11, 1)) == [(OPEN, 6, 11, -1)]


def test_true_for_a_window_that_a_late_row_made_long_is_told_by_the_cut_alone() -> None:
    one = One(StateRule(true_for=3))
    assert one.write((0, 1), (4, 2)) == [], "the window of 1 was too short: nobody heard of it"
    assert one.write((3, 1)) == [(REDO, 0, 3, -1)]
    assert one.write((4, None)) == [], "it is open again"
    assert one.write((4, 2)) == [(REDO, 4, 4, -1)], "and closes again: the cut tells its opening too"


def test_true_for_a_window_whose_neighbour_moved_away_is_told_by_the_cut_alone() -> None:
    one = One(StateRule(extend=1, true_for=3))
    assert one.write((0, 1), (2, 2), (5, 2)) == [(OPEN, 2, 5, 2)]
    assert sorted(one.write((2, None))) == sorted([(REDO, 0, 4, -1), (INVALID, 2, 5, -1)])
    assert one.write((5, None)) == []
    assert one.write((6, 2)) == [(REDO, 0, 5, -1)]


def test_true_for_a_told_window_whose_neighbour_moved_near_is_told_by_the_cut_alone() -> None:
    one = One(StateRule(extend=1, true_for=3))
    assert one.write((0, 1), (4, 2)) == [(CLOSE, 0, 3, 1), (OPEN, 0, 3, 1)]
    assert one.write((2, 2)) == [(REDO, 0, 1, -1)]
    assert one.write((2, None), (4, None)) == [(REDO, 0, 3, -1)]
    assert one.write((9, 2)) == [(REDO, 0, 8, -1)]


def test_an_update_of_the_newest_row_that_is_not_kept_leaves_all_to_the_cut() -> None:
    one = One(StateRule(extend=1))
    one.write((0, 1), (1, 2), (2, 1))
    assert one.write((2, None)) == [(INVALID, 2, 2, -1)], "the window of 2 is open again; its row is not kept"
    assert one.write((1, 1)) == [(REDO, 1, 1, -1)]
    assert one.write((3, 1)) == [(REDO, 1, 3, -1)], "it goes on with the one of 1, as the stored rows know"
    assert one.write((5, 2)) == [(OPEN, 5, 5, 1), (REDO, 1, 4, -1)]


def test_an_open_window_that_goes_after_the_closed_ones_last_row_leaves_all_to_the_cut() -> None:
    one = One()
    one.write((0, 1), (4, 1), (8, 2))
    assert one.write((4, None)) == [(REDO, 4, 4, -1)]
    assert one.write((8, None)) == [(REDO, 8, 8, -1)], "the window of 1 is open again"
    assert one.write((9, 1)) == [(REDO, 8, 9, -1)], "and goes on, as the stored rows know"


def test_a_row_before_the_rewritten_last_row_of_the_closed_window_leaves_all_to_the_cut() -> None:
    one = One()
    one.write((0, 1), (4, 1), (8, 2))
    assert one.write((4, None)) == [(REDO, 4, 4, -1)]
    assert one.write((2, 2)) == [(REDO, 2, 2, -1)], "the window of 2 begins there now"
    assert one.write((9, 3)) == [(REDO, 2, 9, -1)]


def test_extend_2_a_doubt_does_not_pass_on_from_window_to_window() -> None:
    one = One(StateRule(extend=2))
    one.write((0, 1), (8, 2), (9, 3))
    one.write((8, 3))
    one.write((10, 1))
    assert sorted(one.write((11, 2))) == [(OPEN, 11, 11, 1), (REDO, 8, 10, -1)]
    assert sorted(one.write((12, 3))) == [(CLOSE, 11, 11, 1), (OPEN, 12, 12, 1)]


def test_details_of_windows_cut_again() -> None:
    one = One(StateRule(told=True))
    one.write((0, 1), (8, 2))
    one.write((4, 3))
    assert one.details == [{"curState": 3, "nextState": 2}, {"prevState": 1, "curState": 3}]


def test_rows_of_one_time_are_different_ones_where_keys_are_composite() -> None:
    one = One(shared=True)
    one.write((0, 1), (2, 1))
    one.write((2, 1))
    assert [row.ts for row in one.memory.get(0).kept] == [0, 2, 2]  # type: ignore[attr-defined]
    assert one.write((3, 2)) == [(CLOSE, 0, 2, -1), (OPEN, 3, 3, 1)]


@pytest.mark.parametrize(
    ("kinds", "notify", "told", "openings"),
    [
        (("WINDOW_CLOSE",), (), False, False),
        (("WINDOW_OPEN",), (), False, True),
        (("WINDOW_CLOSE",), ("WINDOW_OPEN",), True, True),
        (("WINDOW_CLOSE",), ("WINDOW_CLOSE",), True, False),
    ],
)
def test_what_a_stream_wants_of_its_windows(
    kit: Any, kinds: Any, notify: Any, told: bool, openings: bool
) -> None:
    trigger = {"State": {"column": "v", "extend": 2, "true_for": 3}}
    windower: Any = compiled(essence(kit.stream(trigger=trigger, kinds=kinds, notify=notify))).windower
    assert windower.rule == StateRule(2, 3, False, told, openings)
