"""The oracle of chaos runs: by hand, as the core cuts the same rows, and able to fail."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from millrace_core.model.expression import Field
from millrace_core.model.stream import Condition
from millrace_core.recalc.cut import Cutter, in_order
from millrace_core.timeline import Schedule
from millrace_core.trigger.types.count.windower import CountWindower
from millrace_core.trigger.types.event.arrays import EventRule
from millrace_core.trigger.types.event.windower import EventWindower
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.interval.windower import IntervalWindower
from millrace_core.trigger.types.occurrences import CLOSE, ON_TIME
from millrace_core.trigger.types.reach import Rows
from millrace_core.trigger.types.rows.windower import RowsWindower
from millrace_core.trigger.types.session.windower import SessionWindower
from millrace_core.trigger.types.sliding.windower import SlidingWindower
from millrace_core.trigger.types.state.arrays import StateRule
from millrace_core.trigger.types.state.windower import StateWindower
from millrace_core.trigger.types.windower import Windower

from ...chaos.changes import Change
from ...chaos.found import verdict
from ...chaos.oracle import Oracle, Result
from ...chaos.streams import Count, Event, EveryRow, Interval, Session, Sliding, State, Stream

STREAMS = {
    "interval": Stream("x", Interval(10, 10)),
    "overlapping": Stream("x", Interval(10, 5), watermark=4),
    "session": Stream("x", Session(5)),
    "state": Stream("x", State()),
    "state3": Stream("x", State(3), watermark=4),
    "event": Stream("x", Event(70, 30)),
    "event3": Stream("x", Event(50, 60, 3)),
    "count": Stream("x", Count(4, 4)),
    "count_on": Stream("x", Count(4, 2), watermark=4),
    "sliding": Stream("x", Sliding(10)),
}
SHOWN = {
    "interval": Stream("x", Interval(10, 10), watermark=4, older="AT_ONCE"),
    "session": Stream("x", Session(5), watermark=4, older="MAX_DELAY 5s"),
    "state": Stream("x", State(), watermark=30, older="AT_ONCE"),
    "event": Stream("x", Event(70, 30), watermark=30, older="AT_ONCE"),
    "count": Stream("x", Count(4, 2), watermark=30, older="AT_ONCE"),
    "filled": Stream("x", Interval(10, 10), older="AT_ONCE", fill=-1),
    "rows": Stream("x", EveryRow(), older="AT_ONCE"),
    "closed session": Stream("x", Session(5), older="WINDOW_CLOSE"),
}


def row(child: str, place: int, ts: int, **cells: Any) -> Change:
    return Change(child, place, ts, ts, {"op": place, **cells})


def rows(child: str, *cells: tuple[int, int | None, int | None]) -> list[Change]:
    return [row(child, place, ts, v=v, s=s) for place, (ts, v, s) in enumerate(cells)]


def delete(child: str, place: int, first: int, last: int) -> Change:
    return Change(child, place, first, last, None)


def expected(name: str, changes: list[Change]) -> list[tuple[Any, ...]]:
    return [tuple(one) for one in Oracle(changes, lambda _: 0).expected(STREAMS[name])]


HAND = rows("a", (1, 80, 1), (4, 50, 1), (9, 20, None), (12, 70, 1), (13, 10, 2), (30, None, 3), (41, 5, 3))


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("interval", [(0, 10, 3, 150), (10, 20, 2, 80), (20, 30, 0, None), (30, 40, 1, None)]),
        ("session", [(1, 13, 5, 230), (30, 30, 1, None)]),
        ("state", [(1, 12, 4, 220), (13, 13, 1, 10)]),
        ("state3", [(1, 12, 4, 220)]),
        ("event", [(1, 9, 3, 150), (12, 13, 2, 80)]),
        ("event3", [(1, 4, 2, 130)]),
        ("count", [(1, 12, 4, 220)]),
        ("count_on", [(1, 12, 4, 220), (9, 30, 4, 100)]),
        ("sliding", [(10, 0, 3, 150), (20, 10, 2, 80), (30, 20, 1, None), (40, 30, 0, None)]),
    ],
)
def test_windows_by_hand(name: str, windows: list[tuple[Any, ...]]) -> None:
    assert expected(name, HAND) == [("a", *window) for window in windows]


def test_a_row_is_what_its_versions_since_the_last_delete_say() -> None:
    changes = [
        row("a", 0, 5, v=1, s=1), row("a", 1, 5, s=2), delete("a", 2, 4, 5), row("a", 3, 5, v=7),
        row("a", 4, 6, v=1, s=1), row("a", 5, 6, v=None), delete("b", 6, 0, 99), row("a", 7, 9, v=3),
    ]  # fmt: skip
    assert Oracle(changes, lambda _: 0).stored() == {
        ("a", 5): (3, 7, None), ("a", 6): (5, None, 1), ("a", 9): (7, 3, None),
    }  # fmt: skip


def test_the_watermark_stays_where_a_deleted_row_has_moved_it() -> None:
    changes = [*rows("a", (1, 1, 1), (40, 1, 1)), delete("a", 9, 30, 50)]
    assert expected("session", changes) == [("a", 1, 1, 1, 1)]
    assert expected("overlapping", changes)[-1] == ("a", 25, 35, 0, None)


def test_groups_by_tag_and_all_together() -> None:
    changes = rows("a", (1, 1, 1), (9, 1, 1)) + rows("b", (5, 2, 1), (40, 2, 1)) + rows("c", (3, 4, 1))
    oracle = Oracle(changes, {"a": 7, "b": 7, "c": 8}.__getitem__)
    by_site, of_all = Stream("x", Session(5), by="site"), Stream("x", Session(5), by="")
    assert oracle.expected(by_site) == [Result("7", 1, 9, 3, 4)]
    assert oracle.expected(of_all) == [Result("", 1, 9, 4, 8)]


def test_a_filter_cuts_windows_and_hides_no_row_from_the_query() -> None:
    changes = rows("a", (1, 50, 1), (3, 5, 1), (6, 50, 1), (12, 5, 1), (13, 50, 1), (30, 50, 1))
    stream = Stream("x", Session(5), least=20)
    assert Oracle(changes, lambda _: 0).expected(stream) == [
        Result("a", 1, 6, 3, 105), Result("a", 13, 13, 1, 50),
    ]  # fmt: skip


def test_empty_windows_are_due_from_the_first_row_on_that_was_judged_for_certain() -> None:
    late = [row("a", 0, 35, v=1), row("a", 1, 52, v=1), row("a", 2, 3, v=1)]
    assert [one[1] for one in expected("interval", late)] == [0, 30, 40]
    oracle = Oracle(late, lambda _: 0)
    made_then = oracle.expected(STREAMS["interval"], {"a": 3})
    assert [one.ts for one in made_then] == [0, 10, 20, 30, 40]
    assert [one.ts for one in oracle.expected(STREAMS["interval"], {"a": 0})] == [0, 30]
    # seed 30: the first rows were deleted; whether they were judged before that nobody can tell
    gone = [row("a", 0, 31, v=1), row("a", 1, 3, v=1), delete("a", 2, 31, 31), row("a", 3, 52, v=1)]
    assert [one[1] for one in expected("interval", gone)] == [0, 30, 40]


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("interval", [(0, 10, 3, 150), (10, 20, 2, 80), (30, 40, 1, None), (40, 50, 1, 5)]),
        ("session", [(1, 18, 5, 230), (30, 35, 1, None), (41, 46, 1, 5)]),
        ("state", [(1, 12, 4, 220), (13, 13, 1, 10), (30, 41, 2, 5)]),
        ("event", [(1, 9, 3, 150), (12, 13, 2, 80)]),
        ("count", [(1, 12, 4, 220), (9, 30, 4, 100), (13, 41, 3, 15), (41, 41, 1, 5)]),
        ("filled", [(0, 10, 3, 150), (10, 20, 2, 80), (20, 30, -1, -1), (30, 40, 1, None), (40, 50, 1, 5)]),
        ("rows", [(1, 1, 1, 80), (4, 4, 1, 50), (9, 9, 1, 20), (12, 12, 1, 70), (13, 13, 1, 10),
                  (30, 30, 1, None), (41, 41, 1, 5)]),
        ("closed session", [(1, 18, 5, 230), (30, 35, 1, None)]),
    ],
)  # fmt: skip
def test_windows_of_the_older_dialect_by_hand(name: str, windows: list[tuple[Any, ...]]) -> None:
    found = Oracle(HAND, lambda _: 0).expected(SHOWN[name])
    assert [one[1:] for one in found] == windows


@pytest.mark.parametrize("name", list(STREAMS))
@pytest.mark.parametrize("seed", [1])
def test_windows_are_those_that_the_core_cuts(name: str, seed: int) -> None:
    rng = random.Random(seed)
    times = sorted(rng.sample(range(400), 120))
    cells = [(ts, rng.choice([None, *range(100)]), rng.choice([None, 0, 0, 1, 1, 2])) for ts in times]
    cells += [(600, 0, 901), (700, 50, 902), (701, 50, 903)]
    assert {one[1:4] for one in expected(name, rows("a", *cells))} == cut(STREAMS[name], cells)


def cut(stream: Stream, cells: list[tuple[int, Any, Any]]) -> set[tuple[int, int, int]]:
    """Start, end and rows of the closed windows, by the core's windowers."""
    windower = windower_of(stream)
    until = cells[-1][0] - stream.watermark
    judged = [cell for cell in cells if cell[0] <= until]
    columns: dict[str, Any] = {}
    for signal in windower.signals:
        if signal.name in ("start", "end"):
            assert isinstance(stream.trigger, Event)
            first = signal.name == "start"
            met = [v is not None and (v >= stream.trigger.start if first else v < stream.trigger.end)
                   for _, v, _ in judged]  # fmt: skip
            columns[signal.name] = np.array(met, dtype=bool)
        else:
            columns[signal.name] = np.empty(len(judged), dtype=object)
            columns[signal.name][:] = [s for _, _, s in judged]
    ts = np.array([ts for ts, _, _ in judged], dtype=np.int64)
    cutter = Cutter(windower, 1)
    parts = [cutter.feed(Rows(np.zeros(len(ts), dtype=np.int64), ts, columns))]
    parts.append(cutter.advance(np.array([until], dtype=np.int64)))
    found = in_order(parts)
    told = zip(*(a.tolist() for a in (found.kind, found.start, found.end, found.rownum)), strict=True)
    sliding = isinstance(stream.trigger, Sliding)
    return {(end, start, n) if sliding else (start, end, n) for kind, start, end, n in told
            if kind in (CLOSE, ON_TIME)}  # fmt: skip


def windower_of(stream: Stream) -> Windower:
    match stream.trigger:
        case Interval(length, slide):
            return IntervalWindower(IntervalGrid(length, slide))
        case Session(gap):
            return SessionWindower(gap)
        case State(true_for):
            return StateWindower("s", StateRule(0, true_for, False, True, True))
        case Event(_, _, true_for):
            start, end = (Condition("", ("v",), Field(name)) for name in ("a", "b"))
            return EventWindower(start, end, EventRule(true_for, False, True, True, ("v",), ("v",)))
        case Count(count, slide):
            return CountWindower(count, slide)
        case Sliding(slide):
            return SlidingWindower(Schedule(slide, 0, "ms"))
        case EveryRow():
            return RowsWindower()


@pytest.mark.parametrize("name", list(STREAMS))
def test_it_reports_a_row_that_is_gone_one_that_is_altered_and_one_that_nothing_gave(name: str) -> None:
    stream = STREAMS[name]
    right = Oracle(HAND, lambda _: 0).expected(stream)

    def judged(found: list[Result]) -> tuple[int, int, int]:
        one = verdict(stream, right, HAND, found)
        return one.right, len(one.wrong), len(one.missing)

    whole = len(right)
    assert judged(right) == (whole, 0, 0)
    for at, one in enumerate(right):
        others = right[:at] + right[at + 1 :]
        assert judged(others) == (whole - 1, 0, 1)
        for altered in (one._replace(n=one.n + 1), one._replace(total=1234), one._replace(upto=one.upto + 1)):
            assert judged([*others, altered]) == (whole - 1, 1, 0)
        assert judged([*right, one]) == (whole, 1, 0)
    for foreign in (Result("a", 2, 4, 1, 50), Result("b", 1, 9, 3, 150), Result("a", 99, 120, 0, None)):
        assert judged([*right, foreign]) == (whole, 1, 0)


def test_one_table_s_rows_alone_are_compared_too() -> None:
    from ...chaos.judge import judge_rows

    stored = {("a", 1): (1, 2, 3), ("a", 2): (2, None, 3)}
    right = [("a", 1, 1, 2, 3), ("a", 2, 2, None, 3)]
    assert judge_rows("t", stored, right).is_right
    assert judge_rows("t", stored, right[:1]).missing == ["t: a 2 is missing"]
    assert not judge_rows("t", stored, [right[0], ("a", 2, 2, 0, 3)]).is_right
    assert not judge_rows("t", stored, [*right, ("a", 3, 2, 0, 3)]).is_right
    assert not judge_rows("t", stored, [*right, right[0]]).is_right
