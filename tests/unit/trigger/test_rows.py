"""Streams without a window: in the end the results are those of the rows that there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import Arrivals, Clock, ClockMemory
from millrace_core.trigger.types.occurrences import CLOSE, RETRACT, Occurrences, as_arrays
from millrace_core.trigger.types.rows.windower import RowsWindower

from ...conftest import examples
from .conftest import through_bytes

EVERY = {"EveryRow": {}}


class Results:
    """The results of one group, as an event has them calculated from the rows of its range."""

    def __init__(self, table: dict[int, Any]) -> None:
        self.table = table
        self.found: dict[int, Any] = {}

    def hear(self, found: Occurrences) -> None:
        for kind, start, end in zip(*(a.tolist() for a in (found.kind, found.start, found.end)), strict=True):
            if kind == RETRACT:
                self.found = {ts: v for ts, v in self.found.items() if not start <= ts <= end}
            else:
                assert kind == CLOSE
                self.found |= {ts: v for ts, v in self.table.items() if start <= ts <= end}


step = st.tuples(st.integers(-8, 4), st.integers(0, 9), st.booleans(), st.sampled_from([0, 0, 0, 0, 1, 3]))


@settings(max_examples=examples(100))
@given(steps=st.lists(step, max_size=30))
def test_results_are_those_of_the_rows(steps: Any) -> None:
    windower, clock, table = RowsWindower(), Clock(), dict[int, Any]()
    results, batch, newest = Results(table), list[int](), 0
    clocked, memory = Columns(ClockMemory), Columns(windower.memory)
    clocked.grow(1)
    memory.grow(1)
    for place, (forward, value, cut, gone) in enumerate(steps):
        ts = newest + forward
        if gone and not batch:
            for one in [one for one in table if ts <= one < ts + gone]:
                del table[one]
            lost = windower.on_delete(memory.get(0), ts, ts + gone - 1)
            results.hear(as_arrays([(0, 0, one) for one in lost], 0))
            continue
        newest = max(newest, ts)
        table[ts] = value
        batch.append(ts)
        if cut or place == len(steps) - 1 or (place + 1 < len(steps) and steps[place + 1][3]):
            times = np.array(batch, dtype=np.int64)
            judged = clock.judge(clocked, Arrivals(np.zeros(len(batch), dtype=np.int64), times))
            results.hear(windower.on_rows(memory, judged))
            memory, batch = through_bytes(memory), []
    assert results.found == table


def test_rows_in_order_are_told_of_together_and_late_ones_apart(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(trigger=EVERY))
    cluster.write("c1", [1, 2, 3])
    cluster.write("c1", [7])
    cluster.write("c2", [5])
    cluster.run()
    cluster.write("c1", [2, 9, 4])
    cluster.run()
    assert cluster.live() == {
        "c1": ["CLOSE 1-7 x4", "CLOSE 2-2 x*", "CLOSE 4-4 x*", "CLOSE 9-9 x1"],
        "c2": ["CLOSE 5-5 x1"],
    }


def test_many_late_rows_are_few_ranges() -> None:
    windower, clock = RowsWindower(), Clock()
    clocked, memory = Columns(ClockMemory), Columns(windower.memory)
    clocked.grow(1)
    memory.grow(1)
    times = np.concatenate(([100_000], np.arange(0, 5_000), np.arange(90_000, 95_000)))
    judged = clock.judge(clocked, Arrivals(np.zeros(len(times), dtype=np.int64), times))
    found = windower.on_rows(memory, judged)
    assert len(found) <= 65
    late = found.take(found.rownum < 0)
    holes = (late.start[1:] - late.end[:-1]).tolist()
    assert late.start.min() == 0 and late.end.max() == 94_999 and max(holes) == 85_001


def test_of_several_rows_of_one_time_those_that_are_left_are_calculated() -> None:
    told = list(RowsWindower(shared=True).on_delete(None, 3, 5))
    assert [(one.kind, one.start, one.end) for one in told] == [(RETRACT, 3, 5), (CLOSE, 3, 5)]
    assert [one.kind for one in RowsWindower().on_unknown(None, 3, 9)] == [RETRACT, CLOSE]
