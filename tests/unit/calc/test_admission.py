"""Which queries of users may begin, on a clock of the test: nobody takes all lanes, and who ends the process
for queries again and again is refused for a while."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.admission import Admission, Refused

LANES, MOST, SECONDS = 3, 3, 600.0


@pytest.fixture
def admission() -> Admission:
    return Admission(LANES, MOST, SECONDS)


def test_the_last_lane_is_for_somebody_else(admission: Admission) -> None:
    assert admission.may_begin("ann", {"ann": 1}, 0, spared=True)
    assert not admission.may_begin("ann", {"ann": 2}, 0, spared=True)
    assert admission.may_begin("bob", {"ann": 2}, 0, spared=True)


def test_one_lane_alone_is_for_everybody() -> None:
    assert Admission(1, MOST, SECONDS).may_begin("ann", {}, 0, spared=True)


def test_who_has_ended_the_process_waits_for_the_next_one(admission: Admission) -> None:
    admission.ended(["ann"], 0)
    assert not admission.may_begin("ann", {}, 1, spared=False)
    assert admission.may_begin("ann", {}, 1, spared=True)
    assert admission.may_begin("bob", {}, 1, spared=False)
    assert admission.may_begin("ann", {}, SECONDS, spared=False), "it is forgotten"


def test_who_ends_it_again_and_again_is_refused_for_a_while(admission: Admission) -> None:
    for at in range(MOST - 1):
        assert admission.ended(["ann"], at) == frozenset()
        assert admission.refused("ann", at) is None
    assert admission.ended(["ann"], 10) == {"ann"}
    assert admission.refused("ann", 10) == Refused(10 + SECONDS, MOST)
    assert admission.refused("ann", 9 + SECONDS) == Refused(10 + SECONDS, MOST)
    assert admission.refused("bob", 10) is None
    assert admission.all_refused(11).keys() == {"ann"}
    assert admission.refused("ann", 10 + SECONDS) is None
    assert admission.ended(["ann"], 11 + SECONDS) == frozenset(), "all is forgotten"


def test_ends_far_apart_are_none_again_and_again(admission: Admission) -> None:
    for at in range(10):
        admission.ended(["ann"], at * SECONDS / 2)
    assert admission.refused("ann", 9 * SECONDS / 2) is None


def test_one_that_still_ran_makes_it_longer_and_is_not_told_twice(admission: Admission) -> None:
    for at in range(MOST):
        admission.ended(["ann"], at)
    assert admission.ended(["ann"], 100) == frozenset()
    assert admission.refused("ann", 100) == Refused(100 + SECONDS, MOST + 1)


def test_where_several_had_queries_it_is_who_was_always_there(admission: Admission) -> None:
    admission.ended(["ann", "bob"], 0)
    admission.ended(["ann", "bob"], 1)
    assert admission.ended(["ann", "bob"], 2) == frozenset(), "nobody knows which of the two"
    assert admission.ended(["ann", None], 3) == {"ann"}
    assert admission.refused("bob", 3) is None
    assert admission.may_begin("bob", {}, 3, spared=False)


def test_those_who_were_there_at_an_end_run_one_after_the_other(admission: Admission) -> None:
    admission.ended(["ann", "bob"], 0)
    assert not admission.may_begin("ann", {"bob": 1}, 1, spared=True)
    assert admission.may_begin("ann", {"ann": 1, "cid": 1}, 1, spared=True)
    assert admission.may_begin("cid", {"ann": 1}, 1, spared=True)
    assert admission.may_begin("ann", {"bob": 1}, SECONDS, spared=True), "it is forgotten"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 300)), max_size=40))
def test_no_two_users_have_a_third_refused(steps: list[tuple[str, bool, int]]) -> None:
    """``a`` and ``b`` end the process whenever they want to, ``c`` never does."""
    admission, now, running = Admission(LANES, MOST, SECONDS), 0.0, set[str]()
    for user, ends, pause in steps:
        now += pause
        if user in running:
            running.discard(user)
            if ends and user != "c":
                admission.ended(running | {user}, now)
                running.clear()
        elif admission.may_begin(user, dict.fromkeys(running, 1), now, spared=True):
            running.add(user)
        assert admission.refused("c", now) is None


def test_without_a_penalty_nobody_is_refused() -> None:
    admission = Admission(LANES, MOST, 0)
    for at in range(10):
        assert admission.ended(["ann"], at) == frozenset()
    assert admission.refused("ann", 10) is None
    assert not admission.may_begin("ann", {}, 10, spared=False)
    assert admission.may_begin("ann", {}, 100, spared=False)


@given(st.lists(st.tuples(st.sets(st.sampled_from("abc"), min_size=1), st.integers(0, 300)), max_size=12))
def test_nobody_is_refused_for_what_another_may_have_done_each_time(ends: list[tuple[set[str], int]]) -> None:
    """Whoever shares all ends with the same other user is not."""
    admission, now = Admission(LANES, MOST, SECONDS), 0.0
    for users, pause in ends:
        now += pause
        whose = users | {"d"} if "a" in users else users
        admission.ended(whose, now)
        assert admission.refused("a", now) is None
