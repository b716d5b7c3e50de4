"""When a JVM has no memory any more, though it has not said so yet."""

from __future__ import annotations

import pytest

from calc_svc.spark.heap import SPAN, Collected, Exhaustion


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
