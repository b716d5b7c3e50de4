"""The instants of continuous queries: the seed's words, and what holds of any run of them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace_core.model.continuous import ContinuousQuery
from millrace_core.timeline.continuous import MOST_PAUSE, Run, Turns, first, following, pause, span

CREATED = 1_767_225_600_500


def query(every: int = 20_000, uid: int = 1, **more: int | bool) -> ContinuousQuery:
    given = {"created": CREATED, "boundary": 0, "start": every, "end": 0, "discard": False} | more
    return ContinuousQuery(f"q{uid}", uid, "", "root", "UTC", every=every, **given)  # type: ignore[arg-type]


# -- the seed's words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boundary", "expected"),
    [
        (CREATED + 10_000, CREATED + 10_000),  # later than now: that time itself
        (CREATED, CREATED),  # now
        (CREATED - 1, CREATED + 19_999),  # earlier: the first one of boundary + i * every that is not before
        (CREATED - 20_000, CREATED),
        (0, 1_767_225_620_000),
        (-7, 1_767_225_619_993),
    ],
)
def test_the_first_instant(boundary: int, expected: int) -> None:
    assert first(query(boundary=boundary)) == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(20, 0, (20, 40)), (40, 0, (0, 40)), (40, 20, (0, 20)), (10, 5, (30, 35))]
)
def test_the_range_of_a_run(start: int, end: int, expected: tuple[int, int]) -> None:
    """cq1, cq2 and cq3, cq4 of the seed at 22:18:40, counted from 22:18:00; the last leaves gaps."""
    assert span(query(start=start, end=end), 40) == expected


def test_blocked_runs_every_instant_and_discard_leaves_out_what_is_past() -> None:
    blocked, discard = query(1000), query(1000, discard=True)
    assert following(blocked, 5000, 5100) == following(discard, 5000, 5100) == 6000
    assert following(blocked, 5000, 8500) == 6000
    assert following(discard, 5000, 8500) == 9000
    assert following(discard, 5000, 9000) == 9000  # just in time is in time


def test_a_failed_run_is_tried_again_after_20_s_or_every() -> None:
    assert (pause(query(3000)), pause(query(3_600_000))) == (3000, MOST_PAUSE)


def test_a_restart_goes_on_after_the_last_instant_done() -> None:
    for discard in (False, True):
        turns, one = Turns(), query(1000, discard=discard)
        turns.enter(one, 5000)
        assert turns.next_at() == 6000
        run = turns.take(60_300)
        assert run == Run(one, 6000)
        turns.succeeded(run, 60_400)
        assert turns.next_at() == (61_000 if discard else 60_400)
        assert turns.take(61_000) == Run(one, 61_000 if discard else 7000)


def test_a_run_that_fails_keeps_its_range() -> None:
    turns, one = Turns(), query(60_000)
    turns.enter(one)
    at = first(one)
    run = turns.take(at)
    assert run is not None
    turns.failed(run, at + 70_000)
    assert turns.take(at + 70_000 + MOST_PAUSE - 1) is None
    again = turns.take(at + 70_000 + MOST_PAUSE)
    assert again == Run(one, at)


def test_late_runs_keep_nobody_waiting() -> None:
    turns, late, prompt = Turns(), query(1000, 1), query(1000, 2)
    turns.enter(late, 0)
    turns.enter(prompt, 99_000)
    order = []
    for now in range(100_000, 100_400, 100):
        run = turns.take(now)
        assert run is not None
        order.append(run.query.uid)
        turns.succeeded(run, now + 90)
    assert order == [1, 2, 1, 1]


def test_a_dropped_query_has_no_turn_and_one_made_anew_begins_anew() -> None:
    turns, one = Turns(), query(1000, boundary=CREATED)
    turns.enter(one)
    run = turns.take(CREATED)
    assert run is not None
    turns.leave(one.uid)
    turns.succeeded(run, CREATED + 5)
    assert (turns.next_at(), turns.take(CREATED + 10_000)) == (None, None)
    turns.enter(one)
    turns.failed(run, CREATED + 5)  # of the life before
    assert turns.next_at() == CREATED


# -- any course of things ------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 9000)),
        st.tuples(st.just("run"), st.integers(0, 4000)),
        st.tuples(st.just("fail"), st.integers(0, 4000)),
        st.tuples(st.just("kill"), st.booleans()),
    ),
    max_size=60,
)


@given(STEPS, st.booleans(), st.integers(1000, 5000), st.integers(-9000, 9000))
@example([("run", 2000), ("kill", True), ("run", 0)], True, 1000, 0)  # goes back to what DISCARD had left out
def test_what_holds_of_any_course(
    steps: list[tuple[str, int]], discard: bool, every: int, boundary: int
) -> None:
    """Waits, runs of any length, failures, and kills before or after rows are written: BLOCKED runs every
    instant, in order. DISCARD runs instants of its grid, none that was past when the run before it ended,
    and in order from one kill to the next: after a kill it goes on after the last instant known to be done.
    """
    one = query(every, boundary=CREATED + boundary, discard=discard)
    turns, now, told = Turns(), CREATED, None
    turns.enter(one)
    ran: list[int] = []
    ended: int | None = None  # when the last run ended, unless it was forgotten
    for what, number in steps:
        if what == "wait":
            now += number
            continue
        run = turns.take(now)
        if run is not None:
            assert run.instant <= now
            assert told is None or run.instant > told  # what is known to be done is not done again
            assert turns.take(now) is None  # one at a time
            if discard and ended is not None:
                assert run.instant >= ended
        if what == "kill":
            if run is not None and number:
                ran.append(run.instant)  # its rows are written, nobody was told
            turns, ended = Turns(), None
            turns.enter(one, told)
        elif run is not None:
            now += number
            if what == "fail":
                turns.failed(run, now)
            else:
                turns.succeeded(run, now)
                ran.append(run.instant)
                told, ended = run.instant, now
    expected = first(one)
    assert all((instant - expected) % every == 0 for instant in ran)
    if not discard:
        once = sorted(set(ran))
        assert [instant for place, instant in enumerate(ran) if instant not in ran[:place]] == once
        assert once == list(range(expected, expected + every * len(once), every))
