"""Queries that are kept planned, on real Spark: they give what the same query gives when it is planned again.

Where a new version of Spark changes what ``calc_svc.spark.prepared`` relies on, these tests fail: a query
would not be prepared any more, or it would give the rows of an earlier run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from calc_svc.spark.session import Engine, Lane
from calc_svc.store.columns import plain_arrow
from millrace.java import Java
from millrace_core.errors import PlanError

from ...unit.plan import conftest as worlds
from ...unit.plan import test_golden as golden

pytestmark = pytest.mark.java

FIRST, OTHER = (0, 25, 70), (10, 40, 55)
"""Seconds at which windows begin."""
SUM = "SELECT _tid, sum(v) AS s FROM src GROUP BY _tid"


@pytest.fixture(scope="module")
def lane(java: Java) -> Iterator[Lane]:
    engine = Engine({"triggers": 1})
    with engine.lane("triggers", 1) as lane:
        yield lane
    engine.stop()


def rows(lane: Lane, sql: str, relation: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lane.run(sql, {"src": relation}, "UTC").to_pylist()]


def prepared(lane: Lane) -> list[str]:
    """The texts that are kept planned."""
    return [key[1] for key, found in lane.prepared._free.items() for _ in found]


def refused(lane: Lane) -> list[str]:
    return [key[1] for key in lane.prepared._refused]


def test_the_second_time_it_is_prepared_and_gives_the_rows_of_each_run(lane: Lane) -> None:
    given = pa.table({"_tid": pa.array([0, 0, 1], pa.int32()), "v": [1, 2, 3]})
    other = pa.table({"_tid": pa.array([5, 5], pa.int32()), "v": [10, 20]})
    assert sorted(rows(lane, SUM, given)) == [(0, 3), (1, 3)]
    assert SUM not in prepared(lane)
    assert rows(lane, SUM, other) == [(5, 30)]
    assert SUM in prepared(lane)
    assert sorted(rows(lane, SUM, given)) == [(0, 3), (1, 3)]
    assert rows(lane, SUM, given.slice(0, 0)) == []
    assert rows(lane, SUM, other) == [(5, 30)]


def test_rows_that_go_through_a_file(lane: Lane) -> None:
    sql = "SELECT count(*), sum(v), max(w) FROM src"
    many = pa.table({"v": list(range(4_000)), "w": ["x" * 40] * 4_000})
    few = pa.table({"v": [1], "w": ["y"]})
    for _ in range(2):
        assert rows(lane, sql, few) == [(1, 1, "y")]
        assert rows(lane, sql, many) == [(4_000, 7_998_000, "x" * 40)]
    assert sql in prepared(lane)


def test_many_rows_are_prepared_apart_from_few(lane: Lane) -> None:
    sql = "SELECT count(*), max(v) FROM src"
    for size in (6_000, 3, 7_000, 4, 8_000, 5):
        assert rows(lane, sql, pa.table({"v": list(range(size))})) == [(size, size - 1)]
    assert prepared(lane).count(sql) == 2


def test_a_column_of_another_type_is_another_query(lane: Lane) -> None:
    sql = "SELECT max(v) FROM src"
    for _ in range(3):
        assert rows(lane, sql, pa.table({"v": [1, 2]})) == [(2,)]
        assert rows(lane, sql, pa.table({"v": ["a", "b"]})) == [("b",)]


def test_the_time_zone_is_the_one_asked_for(lane: Lane) -> None:
    sql = "SELECT date_format(timestamp_millis(v), 'HH:mm') FROM src"
    relation = pa.table({"v": [0]})
    for _ in range(3):
        for zone, wanted in (("UTC", "00:00"), ("Asia/Shanghai", "08:00")):
            assert lane.run(sql, {"src": relation}, zone).column(0).to_pylist() == [wanted]


def test_an_aggregate_above_a_join_needs_no_exchange(lane: Lane) -> None:
    sql = (
        "SELECT a._tid, '(SELECT ' AS text, a.n FROM (SELECT s._tid, count(*) AS n FROM src s"
        " JOIN trig t ON t._tid = s._tid WHERE s.v < t.below GROUP BY s._tid) a"
    )
    src = pa.table({"_tid": [0, 0, 1], "v": [1, 9, 1]})
    for below, wanted in ((5, [(0, 1), (1, 1)]), (10, [(0, 2), (1, 1)])) * 2:
        trig = pa.table({"_tid": [0, 1], "below": [below, below]})
        found = lane.run(sql, {"src": src, "trig": trig}, "UTC").to_pylist()
        assert sorted((row["_tid"], row["n"]) for row in found) == wanted
        assert {row["text"] for row in found} == {"(SELECT "}
    (kept,) = [one for key, found in lane.prepared._free.items() for one in found if key[1] == sql]
    assert not kept._copied


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v FROM src WHERE v > (SELECT avg(v) FROM src)",
        "SELECT a.v FROM src a LEFT JOIN src b ON a.v < b.v WHERE b.v IS NULL",
        "SELECT v, rand() AS r FROM src",
    ],
)
def test_what_keeps_something_is_planned_each_time(lane: Lane, sql: str) -> None:
    for values in ([1, 2, 3, 4], [10, 30], [10, 30], [7]):
        found = lane.run(sql, {"src": pa.table({"v": values})}, "UTC").column(0).to_pylist()
        assert set(found) <= set(values) and max(found, default=0) in (max(values), 0)
    assert sql in refused(lane) and sql not in prepared(lane)


def test_a_query_that_fails_says_so_and_works_again(lane: Lane) -> None:
    sql = "SELECT raise_error(w) FROM src WHERE v > 1"
    fine, bad = pa.table({"v": [1], "w": ["fault"]}), pa.table({"v": [2], "w": ["fault"]})
    for _ in range(2):
        assert rows(lane, sql, fine) == []
    for _ in range(2):
        with pytest.raises(PlanError, match="fault"):
            rows(lane, sql, bad)
        assert rows(lane, sql, fine) == []


def test_every_golden_plan_gives_the_same_prepared(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    not_prepared = []
    for path in golden.GOLDEN:
        world = worlds.World()
        world.fill(seed=1)
        plan = golden.plan_of(world, worlds.Kit, golden.read(path))

        def on_spark(tree: Any, relations: Mapping[str, pl.DataFrame], text: str = plan.set_sql) -> Any:
            tables = {name: plain_arrow(frame) for name, frame in relations.items()}
            columns = [column.to_pylist() for column in lane.run(text, tables, "UTC").columns]
            return list(zip(*columns, strict=True))

        def found(starts: tuple[int, ...], world: Any = world, plan: Any = plan) -> list[Any]:
            windows = [(worlds.T0 + 1_000 * a, worlds.T0 + 1_000 * (a + 10)) for a in starts]
            trig = worlds.trigger_relation(world.spec, worlds.window_events(world.spec, windows))
            return sorted(world.set_rows(plan, trig), key=repr)

        monkeypatch.setattr(worlds, "run", on_spark)
        planned, _, again = found(FIRST), found(OTHER), found(FIRST)
        assert again == planned, path.stem
        if plan.set_sql not in prepared(lane):
            not_prepared.append(path.stem)
    assert len(not_prepared) <= len(golden.GOLDEN) // 4, not_prepared
