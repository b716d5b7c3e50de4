"""A job that takes too much is parted until it is clear which of its triggers does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace_core.calc.parts import ALIKE, PARTS, Parts


def calculated(count: int, hostile: set[int]) -> tuple[list[int], list[int], int]:
    """Which triggers are calculated, which given up, and how many jobs took too much."""
    parts, good, bad, failed = Parts(count), list[int](), list[int](), 0
    while (part := parts.next) is not None:
        if hostile.isdisjoint(part):
            good += part
            parts.went()
        else:
            failed += 1
            bad += parts.took_too_much()
    return good, bad, failed


def test_nothing_is_parted_that_goes_well() -> None:
    assert calculated(5, set()) == ([0, 1, 2, 3, 4], [], 0)


def test_one_trigger_is_found_among_thousands_and_the_others_are_calculated() -> None:
    good, bad, failed = calculated(PARTS**4, {1_234})
    assert bad == [1_234]
    assert sorted(good) == [one for one in range(PARTS**4) if one != 1_234]
    assert failed == 5


def test_where_one_after_the_other_takes_too_much_the_rest_is_not_tried() -> None:
    good, bad, failed = calculated(PARTS**3, set(range(PARTS**3)))
    assert (good, sorted(bad), failed) == ([], list(range(PARTS**3)), 3 + ALIKE)


def test_one_that_goes_well_between_has_the_rest_tried() -> None:
    good, bad, _ = calculated(8, {0, 1, 3, 4, 6})
    assert (good, bad) == ([2, 5, 7], [0, 1, 3, 4, 6])


@given(st.integers(1, 300), st.sets(st.integers(0, 299)))
def test_each_trigger_is_calculated_or_given_up_once(count: int, hostile: set[int]) -> None:
    good, bad, _ = calculated(count, hostile)
    assert sorted(good + bad) == list(range(count))
    assert hostile.isdisjoint(good)
