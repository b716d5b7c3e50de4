"""How long the tables' reader gathers rows."""

from __future__ import annotations

import pytest

from calc_svc.store.gathering import ENOUGH, LEAST, MOST, Gathering


def test_a_burst_is_taken_in_soon_and_a_steady_flow_in_larger_parts() -> None:
    gathering = Gathering()
    waits = [gathering.after(5, took) for took in (0.09, 0.001, 0.001, 0.001, 0.001, 0.08, 0.001)]
    assert waits == [LEAST, 2 * LEAST, MOST, MOST, MOST, LEAST, 2 * LEAST]


@pytest.mark.parametrize("read", [0, ENOUGH, ENOUGH + 1])
def test_nothing_is_waited_for_where_nothing_or_much_has_come(read: int) -> None:
    assert Gathering().after(read, 0.001) == 0
