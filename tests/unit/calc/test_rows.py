"""The rows in memory against a dict: last write wins, deletes, partial updates, flushes, eviction."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.store.rows import CHILD, LARGEST, TableRows, Unflushed
from millrace_core.store.run import Run, TooManyRows
from millrace_core.store.search import FEW, bisect, expand
from millrace_core.timeline.precision import HIGHEST, LOWEST

from ...conftest import examples

PLAIN = Table(
    "d", "t", "super", 1, "ms",
    (Column("ts", TIMESTAMP), Column("a", DataType("INT")), Column("b", DataType("VARCHAR", 8))),
    (Column("site", DataType("INT")),),
)  # fmt: skip
COMPOSITE = Table(
    "d", "t", "super", 1, "ms",
    (Column("ts", TIMESTAMP), Column("a", DataType("INT"), composite_key=True),
     Column("b", DataType("VARCHAR", 8))),
    (Column("site", DataType("INT")),),
)  # fmt: skip
Key = tuple[object, ...]
Cells = dict[str, object]

row = st.tuples(
    st.integers(0, 2),
    st.fixed_dictionaries(
        {"ts": st.integers(0, 9)},
        optional={"a": st.none() | st.integers(0, 2), "b": st.none() | st.sampled_from(["x", "y"])},
    ),
)
step = st.one_of(
    st.tuples(st.just("rows"), st.lists(row, min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9))),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("begin"), st.none()),
    st.tuples(st.just("end"), st.none()),
    st.tuples(st.just("evict"), st.integers(0, 9)),
    st.tuples(st.just("thin"), st.integers(0, 9)),
    st.tuples(st.just("swap"), st.none()),
)


@dataclass
class World:
    """Rows under test, a dict that says what they must be, and a dict that plays Delta."""

    table: Table
    rows: TableRows = field(init=False)
    model: dict[Key, Cells] = field(default_factory=dict)
    delta: dict[Key, Cells] = field(default_factory=dict)
    flight: Unflushed | None = None
    thinned: list[tuple[Run, Run]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = TableRows(self.table, self.fetch)

    def key(self, child: int, cells: Cells) -> Key:
        second = self.rows.second
        return (child, cells["ts"], cells.get(second)) if second else (child, cells["ts"])

    def fetch(self, child: np.ndarray, ts: np.ndarray) -> pl.DataFrame:
        wanted = set(zip(child.tolist(), ts.tolist(), strict=True))
        found = [{CHILD: k[0], **cells} for k, cells in self.delta.items() if (k[0], k[1]) in wanted]
        return pl.DataFrame(found, schema={CHILD: pl.Int32, **self.rows.empty.schema})

    def write(self, written: list[tuple[int, Cells]]) -> None:
        columns = [c.name for c in self.table.columns]
        data = pl.DataFrame(
            {n: [cells.get(n) for _, cells in written] for n in columns}, schema=self.rows.empty.schema
        )
        absent = {n: np.array([n not in cells for _, cells in written]) for n in columns}
        self.rows.append(np.array([c for c, _ in written], dtype=np.int32), data, absent)
        for child, cells in written:
            old = self.model.get(self.key(child, cells), dict.fromkeys(columns))
            self.model[self.key(child, cells)] = {**old, **cells}

    def delete(self, child: int, first: int, last: int) -> None:
        self.rows.delete(child, first, last)
        self.model = {k: v for k, v in self.model.items() if not (k[0] == child and first <= v["ts"] <= last)}  # type: ignore[operator]

    def commit(self) -> None:
        if self.flight is None:
            return
        flight = self.flight.sorted()  # whatever was written since it began
        for d in flight.deletions:
            self.delta = {
                k: v
                for k, v in self.delta.items()
                if not (k[0] == d.child and d.first <= v["ts"] <= d.last)  # type: ignore[operator]
            }
        for run, fresh in ((flight.fresh, True), (flight.changed, False)):
            for child, cells in zip(run.child.tolist(), run.data.iter_rows(named=True), strict=True):
                assert not (fresh and self.key(child, cells) in self.delta), (
                    "an append must not be a duplicate"
                )
                self.delta[self.key(child, cells)] = cells
        self.rows.end_flush(flight)
        self.flight = None

    def do(self, what: str, how: object) -> None:
        match what:
            case "rows":
                self.write(how)  # type: ignore[arg-type]
            case "delete":
                self.delete(*how)  # type: ignore[misc]
            case "read":
                self.check()
            case "begin":
                self.flight = self.rows.begin_flush()
            case "end":
                self.commit()
            case "evict":
                self.rows.evict(how)  # type: ignore[arg-type]
            case "thin":
                self.rows.raise_floor(how)  # type: ignore[arg-type]
                self.thinned = [(run, self.rows.thinned(run)) for run in self.rows.runs]
            case "swap":
                self.rows.swap(self.thinned)

    def check(self) -> None:
        data, child = self.rows.slices().within(LOWEST, HIGHEST)
        seen = {}
        for number, cells in zip(child.tolist(), data.iter_rows(named=True), strict=True):
            assert self.key(number, cells) not in seen
            seen[self.key(number, cells)] = cells
        floor = self.rows.floor
        recent = {k: v for k, v in self.model.items() if v["ts"] >= floor}  # type: ignore[operator]
        assert {k: v for k, v in seen.items() if v["ts"] >= floor} == recent
        below = {k: v for k, v in seen.items() if v["ts"] < floor}
        assert all(self.model[k] == v for k, v in below.items())


@pytest.mark.parametrize("table", [PLAIN, COMPOSITE], ids=["plain", "composite"])
@settings(max_examples=examples(150))
@given(steps=st.lists(step, max_size=25), largest=st.sampled_from((0, 4, LARGEST)))
def test_rows_are_those_of_a_dict(table: Table, steps: list[tuple[str, object]], largest: int) -> None:
    """``largest``: with few rows in a run there are many."""
    world = World(table)
    with mock.patch("millrace_core.store.rows.LARGEST", largest):
        for what, how in steps:
            world.do(what, how)
        world.check()
        world.commit()
        world.flight = world.rows.begin_flush()
        world.commit()
    assert world.delta == world.model
    assert not world.rows.dirty


def test_a_partial_row_takes_nothing_from_a_row_whose_deletion_is_not_flushed_yet() -> None:
    world = World(PLAIN)
    steps: list[tuple[str, object]] = [
        ("rows", [(0, {"ts": 4, "b": "x"})]), ("begin", None), ("end", None), ("delete", (0, 0, 4)),
        ("evict", 5), ("rows", [(0, {"ts": 4})]), ("read", None),
    ]  # fmt: skip
    for what, how in steps:
        world.do(what, how)
    assert world.model == {(0, 4): {"ts": 4, "a": None, "b": None}}


@given(st.lists(st.lists(row, min_size=1, max_size=5), max_size=8), st.data())
def test_slices_hold_the_rows_of_their_ranges(
    batches: list[list[tuple[int, Cells]]], data: st.DataObject
) -> None:
    world = World(PLAIN)
    for batch in batches:
        world.write(batch)
        world.rows.seal()
    queries = data.draw(
        st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 10), st.integers(-1, 10)), max_size=6)
    ) * data.draw(st.sampled_from([1, FEW]))
    child = np.array([q[0] for q in queries], dtype=np.int32)
    low, high = (np.array([q[i] for q in queries], dtype=np.int64) for i in (1, 2))
    frame, owner, of = world.rows.slices().between(child, low, high)
    got = [
        [cells for cells, o in zip(frame.iter_rows(named=True), owner.tolist(), strict=True) if o == i]
        for i in range(len(queries))
    ]
    expected = [
        [world.model[k] for k in sorted(world.model) if k[0] == c and lo <= k[1] <= hi]  # type: ignore[operator,type-var]
        for c, lo, hi in queries
    ]
    assert got == expected
    assert of.tolist() == [queries[o][0] for o in owner.tolist()]
    assert world.rows.slices().count(child, low, high).tolist() == [len(part) for part in expected]
    assert len(world.rows.slices().between(child, low, high, most=len(owner))[1]) == len(owner)
    if len(owner):
        with pytest.raises(TooManyRows):
            world.rows.slices().between(child, low, high, most=len(owner) - 1)


@given(st.lists(st.integers(-5, 5)), st.lists(st.integers(-6, 6)))
def test_bisect_is_searchsorted(values: list[int], targets: list[int]) -> None:
    ordered = np.sort(np.array(values, dtype=np.int64))
    for right, many in product((False, True), (1, FEW)):  # one by one, and in passes
        wanted = np.array(targets * many, dtype=np.int64)
        starts, ends = np.zeros(len(wanted), dtype=np.int64), np.full(len(wanted), len(ordered))
        expected = np.searchsorted(ordered, wanted, "right" if right else "left")
        assert bisect(ordered, starts, ends, wanted, right=right).tolist() == expected.tolist()


def test_expand_spells_ranges_out() -> None:
    positions, owner = expand(np.array([3, 9, 4]), np.array([5, 9, 5]))
    assert (positions.tolist(), owner.tolist()) == ([3, 4, 4], [0, 0, 2])


def test_appends_at_rate() -> None:
    """Not a benchmark: sealing must not cost a pass over all rows each time."""
    rows = TableRows(PLAIN)
    child = np.arange(1000, dtype=np.int32)
    for tick in range(300):
        data = pl.DataFrame(
            {"ts": np.full(1000, tick), "a": child, "b": ["x"] * 1000}, schema=rows.empty.schema
        )
        rows.append(child, data, {})
        rows.seal()
    assert rows.count == 300_000
    assert len(rows.runs) < 24


def test_half_of_the_rows_are_newer_than_the_middle_however_large_the_runs_are() -> None:
    rows = TableRows(PLAIN)
    for first, count in ((0, 90_000), (90_000, 5_000), (95_000, 5_000)):
        times = np.arange(first, first + count)
        data = pl.DataFrame({"ts": times, "a": times, "b": ["x"] * count}, schema=rows.empty.schema)
        rows.append(np.zeros(count, dtype=np.int32), data, {})
        rows.seal()
    middle = rows.middle()
    assert middle is not None and 45_000 < middle < 55_000


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(-1, 5)), max_size=20),
    st.integers(0, 9), st.integers(0, 9),
    st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 6)), max_size=2), st.booleans(), st.integers(1, 5),
    st.sampled_from((0, LARGEST)),
)  # fmt: skip
@settings(max_examples=examples(60))
def test_rows_of_a_time_that_were_written_in_some_places(
    writes: list[tuple[int, int, int]], low: int, high: int, spans: list[tuple[int, int]], first: bool,
    together: int, largest: int,
) -> None:  # fmt: skip
    """Looking for times and places at once finds what looking for one after the other finds. A place is the
    row's last, or its first as well."""
    rows = TableRows(PLAIN)
    expected: dict[tuple[int, int], set[int]] = {}
    begun: dict[tuple[int, int], int] = {}
    for count, (child, ts, place) in enumerate(writes, 1):
        frame = rows.empty.clear(1).with_columns(pl.lit(ts).cast(pl.Int64).alias("ts"))
        rows.append(np.array([child], dtype=np.int32), frame, {}, np.array([place]))
        if count % together == 0:
            with mock.patch("millrace_core.store.rows.LARGEST", largest):
                rows.seal()
        begun.setdefault((child, ts), place)
        expected[child, ts] = {place, begun[child, ts]} if first else {place}
    data, children = rows.slices().within(low, high, tuple(spans), first=first)
    written, _ = rows.slices().written(tuple(spans), first=first).within(low, high)
    assert written.equals(data)
    found = list(zip(children.tolist(), data["ts"].cast(pl.Int64).to_list(), strict=True))
    assert found == sorted(
        key for key, places in expected.items()
        if low <= key[1] <= high and any(begin <= place < end for begin, end in spans for place in places)
    )  # fmt: skip
