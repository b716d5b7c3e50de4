"""`make check` and `make test` try the same examples each time; `make fuzz` tries others, by a seed."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import settings

from ..conftest import pairwise
from ..fuzz import command, main, shuffled

TEST = "tests/unit/timeline/test_timeline.py::test_convert"


@pytest.mark.parametrize(
    ("profile", "same", "most"), [("check", True, 5), ("test", True, 20), ("full", True, 100)]
)
def test_tests_that_guard_a_change_try_the_same_examples(profile: str, same: bool, most: int) -> None:
    found = settings.get_profile(profile)
    assert (found.derandomize, found.max_examples) == (same, most)


def test_fuzz_tries_a_thousand_at_random() -> None:
    found = settings.get_profile("fuzz")
    assert (found.derandomize, found.max_examples) == (False, 1_000)
    assert "--hypothesis-seed=7" in command(7, 0.0, 1, [TEST])


def test_the_seed_makes_the_order() -> None:
    names = [f"test_{number}" for number in range(20)]
    orders = [sorted(names, key=lambda name: shuffled(seed, name)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_no_test_begins_after_the_time() -> None:
    assert main(["--seconds", "0", "--processes", "1", "--seed", "1", TEST]) == 0


def test_a_few_combinations_have_each_pair_of_values() -> None:
    cases = [
        case for case in product("abcdef", (1, 2, 3), (True, False), ("x", "y")) if case[0] != "a" or case[2]
    ]

    def pairs(some: list[tuple[object, ...]]) -> set[object]:
        return {pair for case in some for pair in combinations(enumerate(case), 2)}

    chosen = pairwise(cases)
    assert pairs([*chosen]) == pairs([*cases]) and 18 <= len(chosen) < 30 < len(cases)
    assert pairwise([("only", 1)]) == [("only", 1)]
