"""How much of a burst a reader expects."""

from __future__ import annotations

import pytest

from millrace_wal.kafka.gathering import MOST, Gathering

TOPIC = "t"
KNOWN = range(0, 600, 100)
"""When bursts were written, as many as are needed to expect another one at ``NEXT``."""
NEXT = 600


def times(count: int, first: int, last: int | None = None) -> dict[str, list[int]]:
    """So many messages of one topic, the first and the last written at these times."""
    return {TOPIC: [first] * (count - 1) + [first if last is None else last]}


def after(*parts: tuple[int, int, int]) -> Gathering:
    """What it knows after bursts that were taken in these parts: size, and when they begin and end within the
    burst."""
    gathering = Gathering()
    for at in KNOWN:
        for size, first, last in parts:
            gathering.took(times(size, at + first, at + last))
    return gathering


def test_nothing_is_expected_before_bursts_are_known() -> None:
    gathering = Gathering()
    for at in KNOWN:
        assert gathering.missing(times(1, at)) == 0
        gathering.took(times(20, at, at + 1))
    assert gathering.missing(times(1, NEXT)) == 19


def test_what_bursts_had_is_expected_of_the_next_one() -> None:
    gathering = after((20, 0, 1))
    assert [gathering.missing(times(count, NEXT)) for count in (1, 13, 20, 25)] == [19, 7, 0, 0]


def test_a_burst_that_is_taken_in_parts_is_one() -> None:
    gathering = after((1, 0, 0), (12, 1, 1), (7, 2, 3))
    assert gathering.missing(times(1, NEXT)) == 19
    gathering.took(times(1, NEXT))
    assert gathering.missing(times(12, NEXT + 1)) == 7
    gathering.took(times(12, NEXT + 1))
    assert gathering.missing(times(7, NEXT + 2)) == 0


def test_the_smallest_of_the_last_bursts_is_expected() -> None:
    gathering, found = after((20, 0, 1)), []
    for number, size in enumerate((17, 20, 19, *[20] * 7)):
        found.append(gathering.missing(times(1, NEXT + 100 * number)) + 1)
        gathering.took(times(size, NEXT + 100 * number))
    # a burst counts when the next one has begun, as there may be more of it
    assert found == [20, 20, 17, 17, 17, 17, 17, 19, 19, 20]


@pytest.mark.parametrize("every", [3, 5, 1000])
def test_messages_that_come_one_by_one_are_not_waited_for(every: int) -> None:
    gathering = Gathering()
    for at in range(0, 20 * every, every):
        assert gathering.missing(times(1, at)) == 0
        gathering.took(times(1, at))


def test_messages_that_came_one_by_one_while_the_reader_was_busy_are_no_burst() -> None:
    gathering = Gathering()
    for at in range(0, 2000, 20):
        assert gathering.missing({TOPIC: [at, at + 5, at + 10, at + 15]}) == 0
        gathering.took({TOPIC: [at, at + 5, at + 10, at + 15]})
    assert gathering.missing(times(1, 2000)) == 0


def test_what_came_while_the_reader_was_busy_may_be_several_bursts() -> None:
    gathering = Gathering()
    gathering.took({TOPIC: [at for at in KNOWN for _ in range(4)] + [NEXT]})
    assert gathering.missing(times(1, NEXT + 1)) == 2


def test_a_steady_flow_is_one_burst_without_an_end() -> None:
    gathering, found = after((6, 0, 1)), []
    for at in range(NEXT, 3000, 2):
        found.append(gathering.missing(times(3, at, at + 1)))
        gathering.took(times(3, at, at + 1))
    assert found == [3, *[0] * (len(found) - 1)]


def test_large_bursts_are_not_waited_for() -> None:
    assert after((MOST + 1, 0, 1)).missing(times(1, NEXT)) == 0
    assert after((MOST, 0, 1)).missing(times(1, NEXT)) == MOST - 1


def test_partitions_do_not_come_in_the_order_of_time() -> None:
    assert after((5, 2, 3), (5, 1, 3)).missing(times(1, NEXT)) == 9


def test_each_topic_has_its_own_bursts() -> None:
    gathering = Gathering()
    for at in KNOWN:
        gathering.took({"a": [at] * 20, "b": [at] * 5, "single": [at]})
        gathering.took({"single": [at + 50]})
    assert gathering.missing({"a": [NEXT], "single": [NEXT]}) == 19
    assert gathering.missing({"a": [NEXT], "b": [NEXT, NEXT]}) == 22
    assert gathering.missing({"single": [NEXT]}) == 0
