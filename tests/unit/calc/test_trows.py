"""``%%trows`` and ``_twrownum`` over the store: rows by the place in the log where they were written last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.counts import count_rows
from calc_svc.jobs.sources import moments_of, one_relation, set_relation
from calc_svc.store.catalog import CatalogView
from calc_svc.store.delta import NAME, PLACE
from calc_svc.store.table import StoredTable
from calc_svc.store.tables import TableStore
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Condition, Duration, Options, Source, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import plan_stream, trigger_relation
from millrace_core.store.place import place_of, spans_of
from millrace_core.trigger.types import Count, Interval, Period, Session
from millrace_core.wire.events import ROWNUM_FROM_STORE, Group, TriggerEvent

from ...conftest import examples

INT = DataType("INT")
METERS = Table(
    "d", "meters", "super", 7, "ms", (Column("ts", TIMESTAMP), Column("v", INT)), (Column("site", INT),)
)
CHILDREN = [Child("d", "meters", name, (site,)) for name, site in (("m1", 1), ("m2", 1), ("m3", 2))]
ALL = Group(0, (), None)
SECOND = Duration(1, "s")
EVERY_SECOND = Period(SECOND)
Written = dict[int, tuple[int, int]]


class Desk:
    """A store filled without a log: every message has its place."""

    def __init__(self, folder: Path) -> None:
        self.catalog = CatalogView()
        for offset, record in enumerate([Database("d"), METERS, *CHILDREN]):
            self.catalog.apply(offset, key_of(record), encode(record))
        self.folder = folder
        self.restart()

    def restart(self) -> None:
        self.store = TableStore(self.catalog, self.folder, 1_000_000)
        self.stored: StoredTable = self.store.open(METERS)

    def write(self, table: str, partition: int, offset: int, *rows: dict[str, object]) -> None:
        places = np.array([place_of(partition, offset)], dtype=np.int64)
        self.stored.take([table.encode()], [msgspec.json.encode(rows)], places)
        self.stored.advance({partition: offset + 1})

    def spec(
        self, query: str, trigger: Trigger = EVERY_SECOND, partition: Sequence[str] = (), **more: Any
    ) -> StreamSpec:
        return StreamSpec(9, "d", "s", query, trigger, Source(METERS), tuple(partition), query=query, **more)

    def both(
        self, spec: StreamSpec, events: Sequence[TriggerEvent]
    ) -> tuple[list[list[tuple[Any, ...]]], list[list[tuple[Any, ...]]]]:
        """(ts, v) of ``%%trows`` for each event: from the relation for all, and from each event's own."""
        (source,) = plan_stream(spec, self.catalog.catalog).sources
        moments = moments_of(spec, trigger_relation(spec, events), events)
        whole = set_relation(source, self.store, moments, spec.partition, 1_000).to_pylist()
        many = [sorted((r["ts"], r["v"]) for r in whole if r["_tid"] == tid) for tid in range(len(events))]
        one = []
        for moment in moments:
            relation = one_relation(source, self.store, moment, spec.partition)
            assert isinstance(relation, pa.Table)
            one.append(sorted((row["ts"], row["v"]) for row in relation.to_pylist()))
        return many, one


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def fired(written: Written | None, group: Group = ALL) -> TriggerEvent:
    return TriggerEvent("x", "ON_TIME", "LIVE", group, 0, 1, 0, 1, next=2, written=written)


def closed(start: int, end: int, group: Group = ALL, rownum: int = ROWNUM_FROM_STORE) -> TriggerEvent:
    return TriggerEvent("x", "CLOSE", "RECALC", group, start, end, rownum, 1)


def row(ts: int, v: int | None = None) -> dict[str, object]:
    return {"ts": ts, "v": v}


def test_a_period_has_the_rows_written_since_the_last(desk: Desk) -> None:
    desk.write("m1", 0, 10, row(500, 1), row(100, 2))
    desk.write("m2", 1, 10, row(100, 3))
    desk.write("m1", 0, 11, row(50, 4))
    spec = desk.spec("SELECT ts, v FROM %%trows")
    events = [fired(w) for w in ({0: (10, 11), 1: (0, 10)}, {0: (11, 12), 1: (10, 11)}, {0: (12, 12)}, None)]
    many, one = desk.both(spec, events)
    assert many == one == [[(100, 2), (500, 1)], [(50, 4), (100, 3)], [], []]


def test_an_updated_row_counts_again_where_it_was_written_last(desk: Desk) -> None:
    desk.write("m1", 0, 1, row(100, 1), row(200, 2))
    desk.write("m1", 0, 2, {"ts": 100})
    desk.stored.flush()
    desk.write("m1", 0, 3, row(200, 5))
    events = [fired({0: (offset, offset + 1)}) for offset in (1, 2, 3)]
    many, one = desk.both(desk.spec("SELECT ts, v FROM %%trows"), events)
    assert many == one == [[], [(100, 1)], [(200, 5)]]


def test_a_group_has_its_own_rows(desk: Desk) -> None:
    for offset, name in enumerate(("m1", "m2", "m3")):
        desk.write(name, 0, offset, row(offset, offset))
    written = {0: (0, 3)}
    by_site = desk.spec("SELECT ts, v FROM %%trows", partition=("site",))
    many, one = desk.both(
        by_site, [fired(written, Group(1, (1,), None)), fired(written, Group(2, (2,), None))]
    )
    assert many == one == [[(0, 0), (1, 1)], [(2, 2)]]
    by_table = desk.spec("SELECT ts, v FROM %%trows", partition=("tbname",))
    many, one = desk.both(
        by_table, [fired({0: (1, 3)}, Group(1, ("m1",), "m1")), fired(written, Group(3, ("m3",), "m3"))]
    )
    assert many == one == [[], [(2, 2)]]


def test_rows_that_left_the_memory_are_found_by_their_place(desk: Desk) -> None:
    for offset in range(8):
        desk.write("m1", 0, offset, row(100 * offset, offset))
    desk.stored.evict_half()
    assert desk.stored.rows.count < 8
    desk.write("m1", 0, 8, row(0, 99))
    events = [fired({0: (0, 3)}), fired({0: (2, 9)}), fired({0: (8, 9)})]
    kept = [(100 * n, n) for n in range(8)]
    expected = [kept[1:3], [(0, 99), *kept[2:]], [(0, 99)]]
    spec = desk.spec("SELECT ts, v FROM %%trows")
    assert desk.both(spec, events) == (expected, expected)
    desk.stored.flush()
    desk.restart()
    assert desk.both(spec, events) == (expected, expected)


def test_files_from_before_places_were_kept_are_read(desk: Desk) -> None:
    desk.write("m1", 0, 1, row(100, 1))
    desk.stored.flush()
    path = str(desk.stored.delta.path)
    old = DeltaTable(path).to_pyarrow_table().drop_columns([PLACE])
    desk.stored.delta.remove()
    write_deltalake(path, old)
    desk.restart()
    spec, events = desk.spec("SELECT ts, v FROM %%trows"), [fired({0: (0, 9)})]
    assert desk.both(spec, events) == ([[]], [[]])
    desk.stored.rows.evict(150)
    assert desk.both(spec, events) == ([[]], [[]])
    desk.write("m1", 0, 2, row(50, 2), row(100, 3))
    desk.write("m2", 0, 3, row(200, 4))
    assert desk.stored.flush() == 3
    expected = [[(50, 2), (100, 3), (200, 4)]]
    assert desk.both(spec, events) == (expected, expected)
    desk.restart()
    assert desk.both(spec, events) == (expected, expected)
    stored = DeltaTable(path).to_pyarrow_table()
    found = sorted(zip(stored[NAME].to_pylist(), stored["ts"].to_pylist(), strict=True))
    assert found == [("m1", 50), ("m1", 100), ("m2", 200)]


step = st.one_of(
    st.tuples(st.just("write"), st.tuples(st.sampled_from(["m1", "m2"]), st.integers(0, 5))),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("evict"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, min_size=3, max_size=10))
def test_the_newest_place_wins_through_flushes_and_restarts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    desk = Desk(tmp_path_factory.mktemp("tables"))
    model: dict[tuple[str, int], int] = {}
    for offset, (what, how) in enumerate(steps):
        match what, how:
            case "write", (name, ts):
                desk.write(name, 0, offset, row(ts, offset))
                model[name, ts] = offset
            case "flush", _:
                desk.stored.flush()
            case "evict", _:
                desk.stored.evict_half()
            case "restart", _:
                desk.stored.flush()
                desk.restart()
    events = [fired({0: (n, n + 3)}) for n in range(-2, len(steps))]
    many, one = desk.both(desk.spec("SELECT ts, v FROM %%trows"), events)
    assert many == one
    assert many == [
        sorted((ts, v) for (_, ts), v in model.items() if n <= v < n + 3) for n in range(-2, len(steps))
    ]


def test_places_are_ordered_by_partition_then_offset() -> None:
    assert spans_of({3: (5, 9), 1: (7, 7), 0: (0, 2)}) == (
        (place_of(0, 0), place_of(0, 2)), (place_of(3, 5), place_of(3, 9)),
    )  # fmt: skip
    assert place_of(0, 2**40) < place_of(1, 0) < place_of(1, 1) < place_of(32_000, 0) < 2**63
    assert spans_of(None) == ()


@pytest.mark.parametrize(
    ("trigger", "partition", "options", "expected"),
    [
        (Interval(SECOND, SECOND), (), Options(), [4, 2]),
        (Session(SECOND), (), Options(), [5, 2]),
        (Session(SECOND), ("site",), Options(), [4, 1]),
        (Session(SECOND), ("tbname",), Options(), [2, 1]),
        (Session(SECOND), (), Options(pre_filter=Condition("v > 1 AND site = 1", ("v", "site"))), [2, 1]),
        (Count(2, 2, ("v",)), ("tbname",), Options(), [1, 1]),
    ],
)
def test_row_counts_from_the_store(
    desk: Desk, duck: Any, trigger: Trigger, partition: tuple[str, ...], options: Options,
    expected: list[int],
) -> None:  # fmt: skip
    desk.write("m1", 0, 0, row(0, 1), row(1_000, None), row(2_000, 7))
    desk.write("m2", 0, 1, row(500, 2), row(999, 3))
    desk.write("m3", 0, 2, row(1, 9), row(1_500, 9))
    group = {(): ALL, ("site",): Group(1, (1,), None), ("tbname",): Group(1, ("m1",), "m1")}[partition]
    spec = desk.spec("SELECT _twrownum FROM %%trows", trigger, partition, options=options)
    calculator = Calculator(duck, desk.catalog, desk.store, 1_000)
    plan = calculator.plans.of(spec)
    events = [closed(0, 1_000, group), closed(5_000, 6_000, group, rownum=77), closed(1_500, 2_500, group)]
    with duck.lane("triggers", 1) as lane:
        found = [event.rownum for event in count_rows(calculator, spec, events, plan, lane)]
        assert found == [expected[0], 77, expected[1]]
        silent = desk.spec("SELECT _twstart FROM %%trows", trigger, partition, options=options)
        assert count_rows(calculator, silent, events, calculator.plans.of(silent), lane) == events


def test_force_output_gives_a_row_to_each_trigger_without_one(desk: Desk, duck: Any) -> None:
    desk.write("m1", 0, 0, row(1_100, 5))
    query = "SELECT _twstart AS ts, v, 7 AS k, _twrownum AS n FROM %%trows"
    spec = desk.spec(query, Interval(SECOND, SECOND), options=Options(force_output=True))
    calculator = Calculator(duck, desk.catalog, desk.store, 1_000)
    plan = calculator.plans.of(spec)
    events = [closed(start, start + 1_000, rownum=3) for start in (0, 1_000, 2_000)]
    with duck.lane("triggers", 1) as lane:
        many = calculator.calculate(spec, plan, events, lane)
        assert duck.only.jobs == 2, "one job for the query, one for the forced rows"
        one = calculator.one_by_one(spec, plan, events, lane)
        duck.only.jobs = 0
        calculator.calculate(spec, plan, events[1:2], lane)
        assert duck.only.jobs == 1, "nothing to force"
    expected = [[(0, None, 7, 3)], [(1_000, 5, 7, 3)], [(2_000, None, 7, 3)]]
    assert [outcome.rows.rows() for outcome in many] == expected
    assert [outcome.rows.rows() for outcome in one] == expected
