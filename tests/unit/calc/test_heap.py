"""When a JVM has no memory any more, though it has not said so yet."""

from __future__ import annotations

import pytest

from calc_svc.spark.heap import SHARE, SPAN, Collected, Exhaustion


def seen(*samples: tuple[float, float, int, float]) -> list[bool]:
    """What is said after each sample: when, seconds of collections, full ones, what the last one left."""
    exhaustion = Exhaustion()
    return [exhaustion.seen(at, Collected(seconds, full, left)) for at, seconds, full, left in samples]


def steady(share: float, full: float, left: float, count: int = 12) -> list[bool]:
    """A look each second; ``share``, ``full``: seconds of collections and full ones, each second."""
    return seen(*((100.0 + n, 7 + share * n, int(3 + full * n), left) for n in range(count)))


def test_a_jvm_that_only_collects_and_frees_nothing_is_exhausted_after_the_span() -> None:
    assert steady(0.95, 2, 0.97).index(True) == SPAN


@pytest.mark.parametrize(("share", "full", "left"), [
    (0.5, 2, 0.97),  # it still gets on
    (0.95, 2, 0.9),  # collections free what was asked for
    (0.95, 0, 0.97),  # what is young is collected: the last full one was long ago
    (0.0, 0, 0.0),
])  # fmt: skip
def test_another_is_not(share: float, full: float, left: float) -> None:
    assert not any(steady(share, full, left))


def test_one_long_collection_is_not_enough() -> None:
    """On a machine that does much else it may take seconds; the query may get on after it."""
    assert not any(seen((0, 0, 0, 0.1), (1, 0, 0, 0.1), (6, 5, 1, 0.99), (7, 5, 1, 0.99), (11, 5, 1, 0.99)))


def test_what_was_before_the_span_does_not_count() -> None:
    calm = [(float(n), 0.0, 0, 0.1) for n in range(60)]
    busy = [(60.0 + n, 0.9 * n, 2 * n, 0.99) for n in range(1, 7)]
    assert seen(*calm, *busy).index(True) < 60 + SPAN
    assert not any(seen(*busy[:3], *((64.0 + n, 2.7, 6, 0.99) for n in range(20))))


def test_a_look_that_comes_late_covers_all_that_time() -> None:
    """Each look waits for the collection that goes on."""
    assert seen((0, 0, 0, 0.1), (9, 8.5, 3, 0.99)) == [False, True]
    assert seen((0, 0, 0, 0.1), (3, 2.9, 3, 0.99)) == [False, False]


def test_who_comes_behind_a_query_that_had_all_memory_is_not_judged_by_what_that_had_left() -> None:
    """CI: a result of gigabytes was refused, and the process ended beside a count(*) of somebody else, who
    was told that it needs too much memory."""
    exhaustion = Exhaustion()
    assert not exhaustion.seen(0, Collected(0, 0, 0.1))
    exhaustion.ended(3.5)
    assert not exhaustion.seen(4, Collected(3.5, 16, 0.99))
    assert not exhaustion.seen(4.5, Collected(3.5, 16, 0.99))
    assert not exhaustion.seen(5, Collected(3.6, 17, 0.2)), "it is free"


def test_what_is_still_full_after_the_next_collection_is_another_ones() -> None:
    exhaustion = Exhaustion()
    assert not exhaustion.seen(0, Collected(0, 0, 0.1))
    exhaustion.ended(3.5)
    assert not exhaustion.seen(4, Collected(3.5, 16, 0.99))
    assert exhaustion.seen(5, Collected(4.4, 17, 0.99))


def test_the_end_of_a_short_query_says_nothing() -> None:
    """It cannot have kept the JVM collecting for so long; others may ask such ones all the time."""
    exhaustion = Exhaustion()
    assert not exhaustion.seen(0, Collected(0, 0, 0.1))
    exhaustion.ended(SHARE * SPAN)
    assert exhaustion.seen(4, Collected(3.5, 16, 0.99))
