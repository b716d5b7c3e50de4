"""COUNT_WINDOW: arrays and row by row are the same; windows are their definition; which rows count."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.expression import Call, Field
from millrace_core.model.schema import Column
from millrace_core.model.types import DataType
from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import Arrivals, Clock, ClockMemory
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.types.count.windower import COUNTS, CountMemory, CountWindower, any_given
from millrace_core.trigger.types.occurrences import CLOSE, OPEN, SoFar
from millrace_core.trigger.types.windower import Windower

from ...conftest import examples
from .conftest import GROUPS, ordered

ROW = st.tuples(st.integers(0, GROUPS - 1), st.integers(-20, 60), st.booleans())
batches = st.lists(st.lists(ROW, max_size=25), max_size=4)
shapes = st.sampled_from([(1, 1), (2, 1), (3, 3), (4, 2), (5, 3), (7, 2)])
clocks = st.builds(
    Clock, watermark=st.sampled_from([0, 0, 3, 25]), ignore_disorder=st.just(True), shared=st.booleans()
)


def as_arrivals(batch: list[tuple[int, int, bool]]) -> Arrivals:
    rows = sorted(batch, key=lambda row: row[0])
    return Arrivals(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        {COUNTS: np.array([row[2] for row in rows], dtype=bool)},
    )


@settings(max_examples=examples(40))
@given(clocks, shapes, st.booleans(), batches)
def test_arrays_and_definition_are_the_same(
    clock: Clock, shape: tuple[int, int], chosen: bool, some: list[list[tuple[int, int, bool]]]
) -> None:
    windower = CountWindower(*shape, columns=("a",) if chosen else ())
    clocked, fast, slow = Columns(ClockMemory, (COUNTS,)), Columns(CountMemory), Columns(CountMemory)
    for columns in (clocked, fast, slow):
        columns.grow(GROUPS)
    for batch in some:
        judged = clock.judge(clocked, as_arrivals(batch))
        if not chosen:
            judged.columns = {}
        assert ordered(windower.on_rows(fast, judged)) == ordered(Windower.on_rows(windower, slow, judged))
        assert [fast.get(group) for group in range(GROUPS)] == [slow.get(group) for group in range(GROUPS)]


@settings(max_examples=examples(40))
@given(shapes, st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=40), st.integers(0, 40))
def test_windows_are_their_definition(
    shape: tuple[int, int], steps: list[tuple[int, bool]], cut: int
) -> None:
    """Over rows in order, in two batches, with the memory's bytes between them."""
    count, sliding = shape
    times = np.cumsum([step for step, _ in steps], dtype=np.int64)
    rows = [(0, int(ts), counts) for ts, (_, counts) in zip(times, steps, strict=True)]
    windower, clock = CountWindower(count, sliding, ("a",)), Clock(ignore_disorder=True)
    clocked, memory = Columns(ClockMemory, (COUNTS,)), Columns(CountMemory)
    clocked.grow(1)
    memory.grow(1)
    told: list[tuple[int, int, int, int]] = []
    for part in (rows[:cut], rows[cut:]):
        found = windower.on_rows(memory, clock.judge(clocked, as_arrivals(part)))
        arrays = (found.kind, found.start, found.end, found.rownum)
        told += zip(*(array.tolist() for array in arrays), strict=True)
        loaded = Columns(CountMemory)
        loaded.load(memory.dump())
        memory = loaded
    counted = [ts for _, ts, counts in rows if counts]
    starts = range(0, len(counted), sliding)
    wanted = [(OPEN, counted[start], counted[start], 1) for start in starts]
    whole = [start for start in starts if start + count <= len(counted)]
    wanted += [(CLOSE, counted[start], counted[start + count - 1], count) for start in whole]
    assert sorted(told) == sorted(wanted)
    part_filled = [SoFar(counted[s], counted[-1], len(counted) - s) for s in starts if s not in whole]
    assert list(windower.so_far(memory.get(0))) == part_filled  # type: ignore[arg-type]


def test_any_column_given_makes_a_row_count() -> None:
    a, b, c = (Call("is_not_null", (Field(name),)) for name in "abc")
    assert any_given(["a"]) == a
    assert any_given(["a", "b", "c"]) == Call("or", (Call("or", (a, b)), c))


@pytest.mark.parametrize("one_by_one", [False, True])
def test_rows_with_equal_times_count_where_the_key_is_composite(kit: Any, one_by_one: bool) -> None:
    key = Column("k", DataType("INT"), composite_key=True)
    table = msgspec.structs.replace(kit.PLAIN, columns=(kit.PLAIN.columns[0], key, kit.PLAIN.columns[1]))
    cluster = kit.Cluster()
    cluster.define(kit.stream(trigger={"Count": {"count": 3, "sliding": 3}}, table=table, partition=()))
    rows = [{"ts": 1, "k": 1}, {"ts": 1, "k": 2}, {"ts": 4, "k": 1}, {"ts": 4, "k": 2}]
    for some in [[row] for row in rows] if one_by_one else [rows]:
        cluster.write(None, some, table)
        cluster.run()
    assert cluster.live() == {"plain": ["CLOSE 1-4 x3"]}
    assert cluster.totals() == {}


def test_state_is_bounded_by_the_open_windows(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(trigger={"Count": {"count": 100, "sliding": 7}}))
    for begin in range(0, 20_000, 2_000):
        cluster.write("c1", range(begin, begin + 2_000))
        cluster.run()
        (stream,) = Slot.restore(cluster.blobs[0]).contents.streams.values()
        assert len(stream.memory.lists["open"]["start"]) <= 15
    assert len(cluster.live()["c1"]) == (20_000 - 100) // 7 + 1
