"""When values, rows and events are the expected ones."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_conformance.notices import judge, match_value, without_repeats
from millrace_conformance.values import Answer, localized, same, same_rows


@pytest.mark.parametrize(
    ("expected", "came", "equal"),
    [
        (1, 1, True),
        (1, 2, False),
        (10**18, 10**18 + 1, False),
        (1, 1.0, True),
        (1, 1.0000005, True),
        (1, 1.00001, False),
        (1.5, 1.5000001, True),
        (0.0, 1e-9, False),
        (1e-7, 1.0000001e-7, True),
        (1.5, "1.5", False),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (False, 0, False),
        (None, None, True),
        (None, 0, False),
        (None, "", False),
        (0, None, False),
        ("a", "a", True),
        ("a", "A", False),
        ("*", None, True),
        ("*", 5, True),
        (5, "*", False),
        (float("nan"), float("nan"), True),
        (1.0, float("nan"), False),
    ],
)
def test_same(expected: Any, came: Any, equal: bool) -> None:
    assert same(expected, came) is equal


@pytest.mark.parametrize(
    ("text", "zone", "shown"),
    [
        ("2026-01-01T00:00:01.000Z", "UTC", "2026-01-01 00:00:01.000"),
        ("2026-01-01T00:00:01.000001Z", "UTC", "2026-01-01 00:00:01.000001"),
        ("2026-01-01T00:00:01.000000001Z", "UTC", "2026-01-01 00:00:01.000000001"),
        ("2026-01-01T00:00:01.000Z", "Asia/Tokyo", "2026-01-01 09:00:01.000"),
        ("2026-01-01T09:00:01.000+09:00", "UTC", "2026-01-01 00:00:01.000"),
        ("2026-07-01T00:00:00.000Z", "Europe/Berlin", "2026-07-01 02:00:00.000"),
        ("1969-12-31T23:59:59.999Z", "UTC", "1969-12-31 23:59:59.999"),
        ("soon", "UTC", "soon"),
        ("2026-01-01T00:00:01Z", "UTC", "2026-01-01T00:00:01Z"),
        (None, "UTC", None),
        (5, "UTC", 5),
    ],
)
def test_times_as_a_case_writes_them(text: Any, zone: str, shown: Any) -> None:
    assert localized(Answer(("a",), ("TIMESTAMP",), ((text,),)), zone) == ((shown,),)


def test_only_columns_of_type_timestamp_are_times() -> None:
    row = ("2026-01-01T00:00:01.000Z", "2026-01-01T00:00:01.000Z")
    (found,) = localized(Answer(("a", "b"), ("TIMESTAMP", "VARCHAR"), (row,)), "UTC")
    assert found == ("2026-01-01 00:00:01.000", "2026-01-01T00:00:01.000Z")


VALUE = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=2), st.just("*"))
ROWS = st.lists(st.tuples(VALUE, VALUE), max_size=6)


@given(ROWS, st.randoms())
def test_any_order_is_every_order(rows: list[tuple[Any, Any]], random: Any) -> None:
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert same_rows(rows, shuffled, ordered=False)
    assert same_rows(rows, rows)


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, "*"])), max_size=4),
    st.lists(st.tuples(st.sampled_from([1, 2, 3])), max_size=4),
)
def test_any_order_is_some_order(expected: list[Any], came: list[Any]) -> None:
    assert same_rows(expected, came, ordered=False) == any(
        same_rows(expected, list(order)) for order in permutations(came)
    )


def test_rows_of_another_width_differ() -> None:
    assert not same_rows([(1, 2)], [(1,)])
    assert not same_rows([(1,)], [(1, 2)], ordered=False)


# -- events ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "came", "bindings"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {}),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, None),
        ({"a": 1}, {}, None),
        ({"a": None}, {"a": None}, {}),
        ({"a": None}, {}, None),
        ({"a": "!absent"}, {"b": 1}, {}),
        ({"a": "!absent"}, {"a": None}, None),
        ({"a": {"b": "!absent"}}, {"a": {}}, {}),
        ({"a": "*"}, {"a": None}, {}),
        ({"a": "*"}, {}, None),
        ({"a": "$x"}, {"a": {"b": 1}}, {"$x": {"b": 1}}),
        ({"a": "$x", "b": "$x"}, {"a": 1, "b": 1}, {"$x": 1}),
        ({"a": "$x", "b": "$x"}, {"a": 1, "b": 2}, None),
        ({"a": [1, "*"]}, {"a": [1, 2]}, {}),
        ({"a": [1]}, {"a": [1, 2]}, None),
        ({"a": {"b": 1}}, {"a": 1}, None),
        ({"a": 22}, {"a": 22.0000001}, {}),
    ],
)
def test_match_value(expected: Any, came: Any, bindings: Any) -> None:
    assert match_value(expected, came, {}) == bindings


def _event(start: int, group: str = "0", stream: str = "s", **more: Any) -> dict[str, Any]:
    return {"streamName": stream, "groupId": group, "start": start, **more}


def test_each_expected_event_needs_one_of_its_own() -> None:
    two = [{"streamName": "s"}, {"streamName": "s"}]
    assert judge(two, [_event(1)], False, {}).problems
    assert judge(two, [_event(1), _event(1)], True, {}).bindings == {}


def test_an_assignment_is_found_where_the_first_choice_is_wrong() -> None:
    expected = [{"streamName": "s", "k": "$x"}, {"streamName": "s", "start": 2, "k": "$x"}]
    came = [_event(1, "a", k=7), _event(1, "b", k=8), _event(2, "b", k=8)]
    assert judge(expected, came, False, {}).bindings == {"$x": 8}
    assert judge(expected, came, False, {"$x": 7}).problems


def test_order_counts_within_a_group_of_a_stream_alone() -> None:
    expected = [{"streamName": "s", "start": 1}, {"streamName": "s", "start": 2}]
    assert judge(expected, [_event(2), _event(1)], False, {}).problems
    assert not judge(expected, [_event(2, "b"), _event(1, "a")], False, {}).problems
    streams = [{"streamName": "s", "start": 1}, {"streamName": "r", "start": 2}]
    assert not judge(streams, [_event(2, stream="r"), _event(1)], False, {}).problems


def test_complete_covers_the_named_streams() -> None:
    expected = [{"streamName": "s", "start": 1}]
    assert not judge(expected, [_event(1), _event(1, stream="r")], True, {}).problems
    verdict = judge(expected, [_event(1), _event(2)], True, {})
    assert verdict.too_many
    assert verdict.bindings is None
    assert judge([], [_event(1)], True, {}).too_many
    assert not judge([], [_event(1)], False, {}).problems


def test_a_search_without_an_end_in_sight_ends() -> None:
    expected = [{"streamName": "s"}] * 12 + [{"streamName": "s", "start": 99}]
    assert judge(expected, [_event(number) for number in range(40)], False, {}).problems


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=7))
def test_what_came_matches_itself(events: list[tuple[str, int]]) -> None:
    came = [_event(start, group) for group, start in events]
    assert judge(came, came, True, {}).bindings == {}
    assert judge([*came, _event(9)], came, False, {}).problems


def test_repeats() -> None:
    first, again = _event(1, triggerId="a", eventTime=1), _event(1, triggerId="a", eventTime=2)
    assert without_repeats([first, _event(2), again]) == [first, _event(2)]
    assert len(without_repeats([first, again | {"result": {"n": 1}}])) == 2
