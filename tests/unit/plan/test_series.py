"""Series functions: each against a few lines of plain Python, and in both shapes of a stream's plan."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...conftest import examples

T0 = 1_767_225_600_000
Value = float | int | str | None
Seen = tuple[int, str, Value]
"""Time, table and value of a row; the oracles get and give these, in the order of time and table."""
Oracle = Callable[[Sequence[Seen]], list[Seen]]


def diff(option: int) -> Oracle:
    def oracle(rows: Sequence[Seen]) -> list[Seen]:
        found, previous = [], None
        for i, (at, table, value) in enumerate(rows):
            delta = None if value is None or previous is None else value - previous
            if option in (1, 3) and delta is not None and delta < 0:
                delta = None
            if i and not (option in (2, 3) and delta is None):
                found.append((at, table, delta))
            previous = previous if value is None else value
        return found

    return oracle


def derivative(ticks: int, ignore: bool) -> Oracle:
    def oracle(rows: Sequence[Seen]) -> list[Seen]:
        known = [row for row in rows if row[2] is not None]
        found = []
        for (before, _, a), (at, table, b) in pairwise(known):
            rate = (b - a) * ticks / (at - before) if at > before else None
            if not (ignore and b < a):
                found.append((at, table, rate))
        return found

    return oracle


def csum(rows: Sequence[Seen]) -> list[Seen]:
    total, found = 0, []
    for at, table, value in rows:
        if value is not None:
            total += value
            found.append((at, table, total))
    return found


def mavg(k: int) -> Oracle:
    def oracle(rows: Sequence[Seen]) -> list[Seen]:
        known = [row for row in rows if row[2] is not None]
        ends = range(k, len(known) + 1)
        return [(*known[i - 1][:2], sum(row[2] for row in known[i - k : i]) / k) for i in ends]

    return oracle


def state(met: Callable[[Value, Value], bool], limit: float, unit: int | None = None) -> Oracle:
    def oracle(rows: Sequence[Seen]) -> list[Seen]:
        found: list[Seen] = []
        count, start = 0, 0
        for at, table, value in rows:
            if value is None:
                found.append((at, table, None))
            elif met(value, limit):
                start = at if count == 0 else start
                count += 1
                found.append((at, table, count if unit is None else (at - start) // unit))
            else:
                count = 0
                found.append((at, table, -1))
        return found

    return oracle


def best(k: int, sign: int) -> Oracle:
    def oracle(rows: Sequence[Seen]) -> list[Seen]:
        known = [row for row in rows if row[2] is not None]
        return sorted(sorted(known, key=lambda row: sign * row[2])[:k])

    return oracle


def unique(rows: Sequence[Seen]) -> list[Seen]:
    seen: dict[Value, Seen] = {}
    for row in rows:
        seen.setdefault(row[2], row)
    return list(seen.values())


def tail(k: int, offset: int = 0) -> Oracle:
    return lambda rows: list(rows[: len(rows) - offset][-k:]) if len(rows) > offset else []


ORACLES: list[tuple[str, str, Oracle]] = [
    *((f"diff({column}, {option})", column, diff(option)) for column in ("v", "c0") for option in range(4)),
    ("diff(v)", "v", diff(0)),
    ("diff(ts)", "ts", diff(0)),
    ("derivative(v, 1s, 0)", "v", derivative(1_000, False)),
    ("derivative(c0, 1m, 1)", "c0", derivative(60_000, True)),
    ("csum(v)", "v", csum),
    ("csum(c0)", "c0", csum),
    ("mavg(v, 1)", "v", mavg(1)),
    ("mavg(c0, 4)", "c0", mavg(4)),
    ("mavg(v, 1000)", "v", mavg(1000)),
    ("statecount(v, 'GT', 5)", "v", state(operator.gt, 5)),
    ("statecount(v, 'le', -1)", "v", state(operator.le, -1)),
    ("statecount(c0, 'ne', 0.5)", "c0", state(operator.ne, 0.5)),
    ("statecount(c0, 'EQ', 0.5)", "c0", state(operator.eq, 0.5)),
    ("stateduration(v, 'LT', 10)", "v", state(operator.lt, 10, 1)),
    ("stateduration(v, 'ge', 0, 1s)", "v", state(operator.ge, 0, 1_000)),
    ("stateduration(v, 'ge', 0, 1m)", "v", state(operator.ge, 0, 60_000)),
    ("top(v, 3)", "v", best(3, -1)),
    ("top(c0, 100)", "c0", best(100, -1)),
    ("bottom(v, 4)", "v", best(4, 1)),
    ("unique(v)", "v", unique),
    ("unique(s)", "s", unique),
    ("tail(v, 3)", "v", tail(3)),
    ("tail(s, 2, 5)", "s", tail(2, 5)),
    ("tail(v, 100, 100)", "v", tail(100, 100)),
]
NAMES = [expression for expression, _, _ in ORACLES]


def rounded(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    found = [tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in rows]
    return sorted(found, key=repr)


def wanted(rows: Sequence[dict[str, Any]], column: str, oracle: Oracle) -> list[Seen]:
    seen = sorted(((row["ts"], row["tbname"], row[column]) for row in rows), key=lambda r: r[:2])
    return oracle(seen)


def parts(rows: Sequence[dict[str, Any]], key: str | None) -> list[list[dict[str, Any]]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[key] if key else None, []).append(row)
    return list(groups.values())


@pytest.mark.parametrize(("expression", "column", "oracle"), ORACLES, ids=NAMES)
def test_user_query_per_partition(kit: Any, expression: str, column: str, oracle: Oracle) -> None:
    world = kit.World()
    world.fill(seed=7, count=100)
    rows = world.rows["meters"]
    for key in ("tbname", "site", None):
        clause = f"PARTITION BY {key}" if key else ""
        found = world.query(f"SELECT ts, tbname, {expression} FROM meters {clause}")
        expected = [row for part in parts(rows, key) for row in wanted(part, column, oracle)]
        assert rounded(found) == rounded(expected)
    for part in parts(rows, "tbname"):
        child = part[0]["tbname"]
        found = world.query(f"SELECT _rowts, tbname, {expression} FROM {child} ORDER BY 1")
        assert [row for row in found if row[2] is not None] == [
            row for row in map(tuple, rounded(wanted(part, column, oracle))) if row[2] is not None
        ]


@pytest.mark.parametrize(("expression", "column", "oracle"), ORACLES, ids=NAMES)
def test_both_shapes_of_a_stream(kit: Any, expression: str, column: str, oracle: Oracle) -> None:
    world = kit.World()
    world.fill(seed=3, count=100)
    plan = world.plan(f"SELECT ts, tbname, {expression} AS x FROM %%trows", partition=("site",))
    windows = [(T0 + 1_000 * a, T0 + 1_000 * b) for a, b in ((0, 20), (10, 60), (30, 31), (70, 80))]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    expected = []
    for trigger in trig.rows(named=True):
        inside = [
            row
            for row in world.rows["meters"]
            if trigger["_twstart"] <= row["ts"] < trigger["_twend"]
            and row["site"] == trigger["_g1"]
            and row["site"] is not None
        ]
        expected += [(trigger["_tid"], *row) for row in wanted(inside, column, oracle)]
    assert rounded(world.set_rows(plan, trig)) == rounded(expected)
    assert rounded(world.one_rows(plan, trig)) == rounded(expected)


@pytest.mark.parametrize(("expression", "column", "oracle"), ORACLES, ids=NAMES)
def test_no_rows_one_row_and_nulls(kit: Any, expression: str, column: str, oracle: Oracle) -> None:
    for values in ([], [None], [4], [None, None, None], [None, 4, None, 4]):
        world = kit.World()
        rows = [
            {"ts": T0 + 1_000 * i, "v": v, "c0": v, "s": None if v is None else "a", "b": None}
            for i, v in enumerate(values)
        ]
        world.insert("d1", rows)
        found = world.query(f"SELECT ts, tbname, {expression} FROM meters")
        assert rounded(found) == rounded(wanted(world.rows["meters"], column, oracle))


def test_big_integers_stay_exact(kit: Any) -> None:
    world = kit.World()
    big = [2**62, 2**62 + 1, -(2**60) - 7, None, 2**61 + 3]
    rows = [{"ts": T0 + i, "温度": 0.5, "Big": None, "big": v, "u": 2**32 - 1 - i} for i, v in enumerate(big)]
    world.insert("odd", rows)
    assert world.query("SELECT diff(big, 2) FROM odd WHERE big > 0") == [(1,), (2**61 + 3 - 2**62 - 1,)]
    assert world.query("SELECT top(big, 1) FROM odd") == [(2**62 + 1,)]
    assert world.query("SELECT csum(big) FROM odd WHERE big < 2305843009213693960") == [
        (-(2**60) - 7,), (2**61 + 3 - 2**60 - 7,),
    ]  # fmt: skip
    assert world.query("SELECT diff(u) FROM odd") == [(-1,)] * 4
    assert world.query("SELECT statecount(big, 'EQ', 4611686018427387905) FROM odd") == [
        (-1,), (1,), (-1,), (None,), (-1,),
    ]  # fmt: skip


def test_time_counts_in_the_tables_precision(kit: Any) -> None:
    world = kit.World()
    start = T0 * 1_000
    world.insert("fast", [{"ts": start + at, "v": v} for at, v in ((0, 1), (250, 2), (1_500, 3), (9_000, 9))])
    assert world.query("SELECT derivative(v, 1a, 0) FROM u.fast") == [(4.0,), (0.8,), (0.8,)]
    assert world.query("SELECT stateduration(v, 'GT', 1), stateduration(v, 'GT', 1, 1a) FROM u.fast") == [
        (-1, -1), (0, 0), (1_250, 1), (8_750, 8),
    ]  # fmt: skip


def test_limit_counts_in_each_partition(kit: Any) -> None:
    world = kit.World()
    world.fill(seed=2)
    sql = "SELECT tbname, ts, diff(v) FROM meters PARTITION BY tbname "
    every = world.query(sql)
    firsts = [[row for row in every if row[0] == name][1:3] for name in ("d1", "d2", "d3", "d4")]
    assert world.query(sql + "LIMIT 2 OFFSET 1") == [row for part in firsts for row in part]
    assert world.query(sql + "SLIMIT 2 SOFFSET 1") == [row for row in every if row[0] in ("d2", "d3")]
    slices = f"RANGE({T0}, {T0 + 9}) EVERY(1a) FILL(NULL) LIMIT 2"
    found = world.query(f"SELECT tbname, interp(v) FROM meters PARTITION BY tbname {slices}")
    assert [row[0] for row in found] == [
        "d1",
        "d1",
        "d2",
        "d2",
        "d3",
        "d3",
        "d4",
        "d4",
    ]


def test_sample_is_the_same_whenever_the_rows_are(kit: Any) -> None:
    def sampled(order: int, query: str) -> list[tuple[Any, ...]]:
        world = kit.World()
        world.fill(seed=5)
        random.Random(order).shuffle(world.rows["meters"])
        found: list[tuple[Any, ...]] = world.query(query)
        return found

    query = "SELECT ts, tbname, sample(v, 5) FROM meters"
    first = sampled(1, query)
    assert len(first) == 5
    assert all(value is not None for _, _, value in first)
    assert first == sampled(2, query)
    assert {row[:2] for row in first} != {
        row[:2] for row in sampled(1, "SELECT ts, tbname, tail(v, 5) FROM meters")
    }
    assert len(sampled(1, "SELECT ts, sample(s, 1000) FROM d1 WHERE s IS NOT NULL")) == len(
        sampled(1, "SELECT ts FROM d1 WHERE s IS NOT NULL")
    )


STREAMS = [
    ("SELECT ts, tbname, diff(v, 1) AS d, _twrownum AS n FROM %%trows", "site"),
    ("SELECT ts, csum(v + _twrownum) AS c, %%1 AS k FROM %%tbname WHERE ts < _twend", "tbname"),
    ("SELECT ts, top(v, 2) AS t, s FROM %%trows ORDER BY t DESC, ts LIMIT 1", "tbname"),
    ("SELECT ts, tbname, mavg(v, 2) AS m FROM meters PARTITION BY tbname", "none"),
    (
        "SELECT site, ts, stateduration(v, 'GT', 0, 1s) AS d FROM meters WHERE ts >= _twstart "
        "PARTITION BY site",
        "none",
    ),
    ("SELECT max(d), count(*) FROM (SELECT ts, diff(v) AS d FROM %%trows)", "tbname"),
    ("SELECT ts, diff(n) AS d FROM (SELECT _wstart AS ts, count(*) AS n FROM %%trows INTERVAL(2s))", "site"),
    ("SELECT _wstart AS ws, bottom(v, 1) AS b FROM %%trows INTERVAL(5s)", "site"),
    ("SELECT _wstart AS ws, _wend AS we, top(v, 1) AS t FROM %%trows SESSION(ts, 2s)", "tbname"),
    ("SELECT tbname, ts, csum(v) AS c FROM meters PARTITION BY tbname LIMIT 2", "none"),
    ("SELECT DISTINCT unique(s) AS u FROM %%trows", "site"),
    ("SELECT ts, tbname, sample(v, 3) AS x FROM %%trows", "site"),
    ("SELECT ts, tail(v, 2) AS x FROM %%trows UNION ALL SELECT ts, diff(v) AS x FROM %%trows", "tbname"),
]  # fmt: skip
one_row = st.fixed_dictionaries({
    "ts": st.integers(0, 12).map(lambda s: T0 + 1_000 * s), "v": st.one_of(st.none(), st.integers(-3, 3)),
    "c0": st.just(0.5), "s": st.sampled_from([None, "a", "b"]), "b": st.none(),
})  # fmt: skip
tables = st.dictionaries(
    st.sampled_from(["d1", "d2", "d3", "d4"]), st.lists(one_row, max_size=8, unique_by=lambda r: r["ts"])
)


@pytest.mark.parametrize(("query", "partition"), STREAMS, ids=range(len(STREAMS)))
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables)
def test_set_wise_is_one_by_one(
    kit: Any, query: str, partition: str, rows: dict[str, list[dict[str, Any]]]
) -> None:
    world = kit.World()
    for name, found in rows.items():
        world.insert(name, found)
    plan = world.plan(query, partition=() if partition == "none" else (partition,))
    cut = [(T0, T0 + 6_000), (T0 + 4_000, T0 + 13_000), (T0 + 20_000, T0 + 21_000)]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, cut))
    at_once, each = world.set_rows(plan, trig), world.one_rows(plan, trig)
    assert sorted(at_once, key=repr) == sorted(each, key=repr)


def test_notify_reads_series_results(kit: Any) -> None:
    world = kit.World()
    world.insert(
        "d1", [{"ts": T0 + 1_000 * i, "v": v, "c0": 0.0, "s": "", "b": True} for i, v in enumerate([1, 9, 3])]
    )
    plan = world.plan("SELECT ts, top(v, 2) AS hi FROM %%trows", where="hi > 5")
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, [(T0, T0 + 10_000)])[:1])
    assert world.set_rows(plan, trig) == [(0, T0 + 1_000, 9, True), (0, T0 + 2_000, 3, False)]
