"""Which rows of a result table stand no longer, and the messages that delete them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.calc.test_results import OUT, SPEC, event

from millrace_core.calc.outcome import Outcome
from millrace_core.calc.retraction import Ranges, deletions, settled
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Duration, Emission, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.types import Count, EveryRow, Interval, Session
from millrace_core.wire.events import Group, TriggerEvent
from millrace_core.wire.message import Message
from millrace_core.wire.operations import Delete, operation_in

TEN = Duration(10, "s")
FINE = Outcome(pl.DataFrame())
FAILED = Outcome(pl.DataFrame(), MillraceError(ErrorCode.INTERNAL, "x"))


def spec(trigger: Trigger) -> StreamSpec:
    return msgspec.structs.replace(SPEC, trigger=trigger, emission=Emission(obsolete="retracted"))


def at(kind: Any, start: int, end: int, **more: Any) -> TriggerEvent:
    return event(kind, start, **({"end": end} | more))


def settle(trigger: Trigger, *events: TriggerEvent, failed: Sequence[TriggerEvent] = ()) -> Any:
    outcomes = {id(one): FINE for one in events if one.kind in ("OPEN", "CLOSE")}
    found = settled(spec(trigger), events, outcomes | {id(one): FAILED for one in failed})
    starts = [(one.kind, one.start) for one, _ in found.standing]
    return starts, {gid: list(ranges) for gid, ranges in found.obsolete.items()}


def test_rows_that_are_read_again_are_written_though_some_of_them_are_gone() -> None:
    """As in a chaos run (seed 1): the rows of a batch came before a delete of the first of them."""
    events = (at("CLOSE", 1, 9), at("RETRACT", 0, 2))
    assert settle(EveryRow(), *events) == ([("CLOSE", 1)], {77: [(0, 9)]})


def test_rows_whose_query_fails_keep_their_results() -> None:
    failed = at("CLOSE", 3, 5)
    events = (at("RETRACT", 0, 9), failed)
    assert settle(EveryRow(), *events, failed=[failed]) == ([], {77: [(0, 2), (6, 9)]})


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 6))))
def test_ranges_are_sets_of_numbers(parts: list[tuple[int, int]]) -> None:
    ranges, numbers = Ranges(), set[int]()
    for first, length in parts:
        ranges.add(first, first + length)
        numbers |= set(range(first, first + length + 1))
    assert [number for number in range(-1, 40) if number in ranges] == sorted(numbers)
    pairs = list(ranges)
    assert all(b[0] > a[1] + 1 for a, b in pairwise(pairs))
    assert all(first <= last for first, last in pairs) and len(ranges) == len(pairs)


def test_a_range_is_taken_back_before_what_stands_instead() -> None:
    events = (at("RETRACT", 0, 20), at("CLOSE", 0, 10), at("CLOSE", 20, 30))
    assert settle(Interval(TEN, TEN), *events) == ([("CLOSE", 0), ("CLOSE", 20)], {77: [(0, 20)]})


def test_of_a_window_that_closes_and_is_taken_back_nothing_is_written() -> None:
    first, again = at("CLOSE", 5, 10), at("CLOSE", 5, 12)
    invalid = at("INVALID", 5, 10)
    assert settle(Session(TEN), first, invalid) == ([], {77: [(5, 10)]})
    assert settle(Session(TEN), first, invalid, again)[0] == [("CLOSE", 5)]


def test_a_window_of_rows_leaves_no_other_in_it() -> None:
    closed = at("CLOSE", 5, 12)
    assert settle(Session(TEN), closed) == ([("CLOSE", 5)], {77: [(6, 12)]})
    assert settle(Session(TEN), at("OPEN", 5, 12))[1] == {}, "it may close earlier"
    # windows of other kinds overlap
    for other in (Interval(TEN, Duration(5, "s")), Count(3, 1)):
        assert settle(other, closed) == ([("CLOSE", 5)], {})


def test_the_row_of_a_window_whose_query_fails_stays() -> None:
    failed = at("CLOSE", 10, 20)
    events = (at("RETRACT", 0, 30), failed)
    assert settle(Interval(TEN, TEN), *events, failed=[failed]) == ([], {77: [(0, 9), (11, 30)]})


def test_groups_are_settled_apart() -> None:
    other = Group(78, (5,), None)
    events = (at("CLOSE", 5, 12), at("RETRACT", 0, 20, group=other))
    assert settle(Interval(TEN, TEN), *events) == ([("CLOSE", 5)], {78: [(0, 20)]})


def deleted(
    obsolete: Mapping[str, list[tuple[int, int]]], written: dict[str, list[int]], held: dict[str, list[int]],
    table: Table = OUT,
) -> list[tuple[str, int, int]]:  # fmt: skip
    ranges = {name: Ranges([a for a, _ in spans], [b for _, b in spans]) for name, spans in obsolete.items()}
    messages = deletions(table, ranges, written, lambda wanted: {n: held.get(n, []) for n in wanted})
    return [shown(message) for message in messages]


def shown(message: Message) -> tuple[str, int, int]:
    operation = operation_in(message.value)
    assert isinstance(operation, Delete) and message.topic == "wal.out.avgs"
    return (message.key or b"").decode(), operation.first, operation.last


@pytest.mark.parametrize(("held", "written", "expected"), [
    ([], [], []), ([4, 7, 9], [], [("t", 4, 9)]), ([4, 7, 9], [7], [("t", 4, 4), ("t", 9, 9)]),
    ([4, 7], [4, 7], []), ([7], [3, 8], [("t", 7, 7)]),
])  # fmt: skip
def test_rows_that_are_there_and_are_not_overwritten_are_deleted(
    held: list[int], written: list[int], expected: list[Any]
) -> None:
    assert deleted({"t": [(0, 10)]}, {"t": written}, {"t": held}) == expected


def test_a_row_between_two_ranges_stays() -> None:
    assert deleted({"t": [(0, 3), (7, 9)]}, {}, {"t": [1, 5, 8]}) == [("t", 1, 1), ("t", 8, 8)]


def test_where_a_time_has_several_rows_all_of_them_go_first() -> None:
    columns = (Column("ts", TIMESTAMP), Column("k", DataType("INT"), composite_key=True))
    keyed = msgspec.structs.replace(OUT, columns=columns)
    assert deleted({"t": [(0, 9)]}, {"t": [4]}, {"t": [4, 7]}, keyed) == [("t", 4, 7)]
