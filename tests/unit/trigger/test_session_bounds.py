"""SESSION at its bounds: what lies exactly a gap away, in the definition and over arrays."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from millrace_core.trigger.groups.watermark import Clock
from millrace_core.trigger.types.occurrences import CLOSE, OPEN, REDO, Occurrence
from millrace_core.trigger.types.session.windower import SessionMemory, SessionWindower
from millrace_core.trigger.types.windower import Windower

from .conftest import OneGroup, Told, told

GAP = 5


class Definition(SessionWindower):
    """Row by row, whatever comes."""

    on_rows = Windower.on_rows


@pytest.fixture(params=[Definition, SessionWindower])
def windower(request: pytest.FixtureRequest) -> SessionWindower:
    made: SessionWindower = request.param(GAP)
    return made


def write(one: OneGroup, *times: int) -> list[Told]:
    return sorted(told(one.feed(times)))


def test_a_row_exactly_the_gap_behind_stays_and_one_tick_later_opens(windower: SessionWindower) -> None:
    one = OneGroup(windower)
    assert write(one, 0, 5) == [(OPEN, 0, 0, 1)]
    assert write(one, 10) == []
    assert write(one, 16) == [(CLOSE, 0, 10, 3), (OPEN, 16, 16, 1)]


def test_t_exactly_the_gap_behind_closes_nothing(windower: SessionWindower) -> None:
    one = OneGroup(windower, Clock(watermark=10))
    assert write(one, 0, 10) == [(OPEN, 0, 0, 1)]
    assert write(one, 15) == [], "T is 5"
    assert write(one, 16) == [(CLOSE, 0, 0, 1)], "T is 6"


@pytest.mark.parametrize(("late", "opened"), [(15, True), (14, False)])
def test_a_late_row_opens_a_session_if_t_is_exactly_the_gap_behind_it(
    windower: SessionWindower, late: int, opened: bool
) -> None:
    one = OneGroup(windower, Clock(watermark=10))
    write(one, 0, 30)
    wanted = (OPEN, 15, 15, 1) if opened else (REDO, 9, 19, -1)
    assert write(one, late) == [wanted], "T is 20"


def test_in_a_batch_with_a_late_row_too(windower: SessionWindower) -> None:
    """Its group goes by the definition."""
    one = OneGroup(windower)
    write(one, 0, 20)
    assert write(one, 8, 25) == [(REDO, 3, 13, -1)]
    assert write(one, 31) == [(CLOSE, 20, 25, 2), (OPEN, 31, 31, 1)]


# ---------------------------------------------------------------------- rows that are gone, or unknown


def test_a_delete_that_ends_with_a_sessions_first_row_touches_it() -> None:
    memory = SessionMemory(start=20, last=22, rows=2, closed=1, closed_start=10, closed_end=12)
    windower = SessionWindower(GAP)
    assert spans(windower.on_delete(memory, 3, 9)) == [(-2, 14)]
    assert (memory.closed_vague, memory.vague) == (0, 0)
    assert spans(windower.on_delete(memory, 3, 10)) == [(-2, 15)]
    assert (memory.closed_vague, memory.vague) == (1, 0)
    assert spans(windower.on_delete(memory, 13, 19)) == [(8, 24)]
    assert memory.vague == 0
    assert spans(windower.on_delete(memory, 13, 20)) == [(8, 25)]
    assert memory.vague == 1


@pytest.mark.parametrize(("ts", "touches"), [(15, True), (14, False)])
def test_an_unknown_row_exactly_the_gap_before_the_open_session_touches_it(ts: int, touches: bool) -> None:
    memory = SessionMemory(start=20, last=22, rows=2)
    assert spans(SessionWindower(GAP).on_unknown(memory, ts, 23)) == [(ts - GAP, ts + GAP)]
    if touches:
        assert (memory.start, memory.last, memory.rows, memory.vague) == (15, 22, 3, 1)
    else:
        assert (memory.start, memory.rows, memory.vague) == (20, 2, 0)
        assert (memory.closed_start, memory.closed_end, memory.closed_vague) == (14, 14, 1)


@pytest.mark.parametrize(("ts", "open_"), [(18, True), (17, False)])
def test_an_unknown_row_makes_a_session_if_t_is_exactly_the_gap_behind_it(ts: int, open_: bool) -> None:
    memory = SessionMemory()
    list(SessionWindower(GAP).on_unknown(memory, ts, 23))
    assert (memory.rows > 0, memory.closed > 0) == (open_, not open_)


@pytest.mark.parametrize(("ts", "joins"), [(15, True), (16, False)])
def test_an_unknown_row_exactly_the_gap_behind_the_closed_session_opens_it_again(
    ts: int, joins: bool
) -> None:
    memory = SessionMemory(closed=1, closed_start=8, closed_end=10)
    list(SessionWindower(GAP).on_unknown(memory, ts, 18))
    assert (memory.start, memory.last, memory.closed, memory.again) == (
        (8, 15, 0, 1) if joins else (16, 16, 1, 0)
    )


def spans(found: Iterable[Occurrence]) -> list[tuple[int, int]]:
    """What is cut again."""
    redone: list[tuple[int, int]] = []
    for one in found:
        assert one.kind == REDO
        redone.append((one.start, one.end))
    return redone
