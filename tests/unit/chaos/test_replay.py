"""Which rows of vanished windows chaos runs allow: those of windows that have been one, and no others."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ...chaos.changes import ROWS_A_MESSAGE, Change
from ...chaos.found import never, verdict
from ...chaos.oracle import Oracle, Result
from ...chaos.replay import Made, Rows, is_window
from ...chaos.streams import Event, Interval, Session, State, Stream

SESSION = Stream("x", Session(5))


def row(number: int, ts: int, v: int | None = 1, s: int | None = 0, child: str = "a") -> Change:
    return Change(child, number * ROWS_A_MESSAGE, ts, ts, {"op": number, "v": v, "s": s})


def delete(number: int, first: int, last: int) -> Change:
    return Change("a", number * ROWS_A_MESSAGE, first, last, None)


MERGED = [row(0, 1), row(1, 9), row(2, 30), row(3, 5), row(4, 9, v=4)]
"""Two sessions, closed; a row that makes one of them; a new value."""


@pytest.mark.parametrize(
    ("result", "allowed"),
    [
        ((9, 9, 1, 1), True),  # as it was when it closed
        ((9, 9, 1, 4), True),  # calculated later, with the new value
        ((9, 9, 1, 3), False),  # a value that no row had
        ((9, 9, 2, 2), False),  # more rows than it ever had
        ((5, 9, 2, 2), False),  # 1 belongs to it
        ((30, 30, 1, 1), False),  # nothing has closed it
    ],
)
def test_a_session_that_was_joined_stays_as_it_was(result: tuple[int, ...], allowed: bool) -> None:
    one = Result("a", *result)
    assert never(SESSION, MERGED, [one], {}) == ([] if allowed else [one])


def test_figures_from_before_the_window_was_one_are_wrong() -> None:
    changes = [row(0, 1, v=7), row(1, 1, v=8), row(2, 30), row(3, 3)]
    assert never(SESSION, changes, [Result("a", 1, 1, 1, 8)], {}) == []
    assert never(SESSION, changes, [Result("a", 1, 1, 1, 7)], {}) == [Result("a", 1, 1, 1, 7)]


def test_history_is_cut_from_rows_that_nobody_has_written_since_the_stream_was_made() -> None:
    """Found by a seed: a row of history was written again before history was read; the window without it is
    told, and the row that is live then does not take its result away."""
    message, one = 1 << 20, Result("a", 7, 14, 2, 122)
    changes = [row(0, 0, v=70), row(1, 7, v=79), row(2, 14, v=43), row(3, 30), row(4, 0, v=54), row(5, 99)]
    filled = Stream("x", Session(10), begins=0.5)
    assert never(filled, changes, [one], {}) == [one]
    assert never(filled, changes, [one], {"a": Made(4 * message, 4 * message)}) == []
    assert never(filled, changes, [one], {"a": Made(5 * message, 6 * message)}) == [one]
    wrong = one._replace(total=121)
    assert never(filled, changes, [wrong], {"a": Made(4 * message, 4 * message)}) == [wrong]


def test_rows_of_one_message_are_judged_in_the_order_of_time() -> None:
    message = [Change("a", place, ts, ts, {"v": 1}) for place, ts in enumerate((30, 1, 5))]
    assert never(SESSION, message, [Result("a", 1, 1, 1, 1)], {}) == [Result("a", 1, 1, 1, 1)]


def test_an_interval_without_rows_says_so_or_is_wrong() -> None:
    changes = [row(0, 1), row(1, 12), row(2, 30), delete(3, 10, 19)]
    stream, silent = Stream("x", Interval(10, 10)), Stream("x", Interval(10, 10), no_data=False)
    empty, old = Result("a", 10, 20, 0, None), Result("a", 10, 20, 1, 1)
    assert never(stream, changes, [empty], {}) == []
    assert never(stream, changes, [old], {}) == [old]
    assert never(silent, changes, [empty, old], {}) == []  # nobody told it to be empty, or calculated late
    assert never(stream, changes, [Result("a", 30, 40, 0, None)], {}) == [Result("a", 30, 40, 0, None)]


def test_of_several_tables_only_the_impossible_is_found() -> None:
    stream = Stream("x", Session(5), by="")
    changes = [row(0, 1), row(1, 4, child="b"), row(2, 30)]
    assert never(stream, changes, [Result("", 1, 4, 2, 2), Result("", 4, 4, 1, 1)], {}) == []
    impossible = [Result("", 1, 4, 3, 2), Result("", 1, 5, 1, 1), Result("", 2, 4, 1, 1)]
    assert never(stream, changes, impossible, {}) == impossible


def test_a_window_of_several_tables_may_have_lost_all_its_rows_before_it_was_calculated() -> None:
    """Seed 46: told of, and the rows were deleted while calc-svc did not run."""
    stream, empty = Stream("x", Session(5), by=""), Result("", 1, 4, 0, None)
    changes = [row(0, 1), row(1, 4, child="b"), row(2, 30), delete(3, 0, 9)]
    assert never(stream, changes, [empty], {}) == [empty]
    assert never(stream, [*changes, delete(4, 4, 4)._replace(child="b")], [empty], {}) == []


def test_so_may_an_interval_if_all_its_rows_were_deleted_later() -> None:
    """Seed 50: late rows, which a killed calc-svc read together with their delete."""
    stream, empty = Stream("x", Interval(10, 10), by="", no_data=False), Result("", 0, 10, 0, None)
    rows = [row(0, 15), row(1, 3), row(2, 9, child="b"), row(3, 30)]
    gone = delete(4, 0, 9)
    assert never(stream, [*rows, gone], [empty], {}) == [empty], "b's row is there"
    assert never(stream, [*rows, gone, gone._replace(child="b")], [empty], {}) == []
    assert never(stream, [*rows, gone, gone._replace(child="b", place=0)], [empty], {}) == [empty]
    assert never(stream, [row(0, 15), gone], [empty], {}) == [empty], "it never had a row"


@pytest.mark.parametrize(
    "stream",
    [SESSION, Stream("x", State()), Stream("x", State(2), watermark=4), Stream("x", Event(7, 3)),
     Stream("x", Event(5, 6, 2), watermark=4), Stream("x", Session(4), least=3),
     Stream("x", Interval(10, 5), no_data=False)],
    ids=str,
)  # fmt: skip
def test_at_every_moment_they_are_the_windows_that_the_oracle_cuts(stream: Stream) -> None:
    rng = random.Random(1)
    changes: list[Any] = []
    rows = Rows(stream.least)
    for number in range(40):
        if number > 5 and rng.random() < 0.2:
            begin = rng.randrange(60)
            one = delete(number, begin, begin + rng.randrange(8))
        else:
            one = row(number, rng.randrange(60), rng.randrange(10), rng.choice([None, 0, 1]))
        changes.append(one)
        rows.apply(one)
        if number % 4 < 3:
            continue
        expected = {(one.ts, one.upto) for one in Oracle(changes, lambda _: 0).expected(stream)}
        ends = range(-10, 80)
        assert {(a, b) for a in ends for b in ends if a <= b and is_window(stream, rows, a, b)} == expected


def test_nothing_of_a_window_that_was_stays_where_results_are_taken_back() -> None:
    was, now = Result("a", 9, 9, 1, 1), Result("a", 1, 9, 3, 6)
    for retract, wrong in [(False, 0), (True, 1)]:
        stream = Stream("x", Session(5), retract=retract)
        told = verdict(stream, [now], MERGED, [was, now])
        assert (told.right, len(told.wrong), told.allowed) == (1, wrong, 1 - wrong)
