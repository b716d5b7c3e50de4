"""Two or three features of the query language in one query, and the edges of its types: rows by hand.

The rules are TDengine 3.3.7's (its manual), SEMANTICS.md, decisions 0007 and 0013.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from millrace_core.errors import SqlError
from millrace_core.plan import plan_query

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
HUGE = (1 << 63) - 1


def at(second: float) -> int:
    return T0 + int(second * 1_000)


def fill_little(world: Any) -> Any:
    world.insert("nt", [
        {"ts": at(1), "v": 2, "w": 1.5}, {"ts": at(2), "v": None, "w": -3.9},
        {"ts": at(3), "v": 4, "w": None}, {"ts": at(13), "v": 4, "w": 4.5}, {"ts": at(27), "v": -7, "w": 0.0},
    ])  # fmt: skip
    world.insert("odd", [
        {"ts": at(1), "温度": 0.5, "Big": (1 << 63) + 5, "big": 1 << 62, "u": 4_000_000_000},
        {"ts": at(2), "温度": None, "Big": 3, "big": HUGE, "u": 7},
        {"ts": at(3), "温度": -1.5, "Big": None, "big": -5, "u": None},
    ])  # fmt: skip
    rows: dict[str, list[tuple[Any, ...]]] = {
        "d1": [(1, 5, 1.0, "x", True), (11, 6, 1.5, "x", True), (32, 9, 1.5, "y", True)],
        "d2": [(2, 7, 2.0, "42", False), (3, 6, None, "no", None), (21, None, None, "no", None)],
        "d3": [(2, 10, 2.0, "42 kg", False)],
        "d4": [(15, -1, 8.0, None, None)],
    }
    for table, found in rows.items():
        names = ("ts", "v", "c0", "s", "b")
        world.insert(table, [dict(zip(names, (at(row[0]), *row[1:]), strict=True)) for row in found])
    return world


@pytest.fixture
def little(kit: Any) -> Any:
    return fill_little(kit.World())


D1, D2, D3, D4 = "d1", "d2", "d3", "d4"
RANGE = "ts >= '2026-01-01' AND ts < '2026-01-01 00:00:40'"
STATE = "CASE WHEN v >= 6 THEN 1 ELSE 0 END"

EDGES: list[tuple[str, list[tuple[Any, ...]]]] = [
    # the state of a window
    ("SELECT _wstart, s, count(*) FROM d1 STATE_WINDOW(s)", [(at(1), "x", 2), (at(32), "y", 1)]),
    (
        "SELECT fst, s FROM (SELECT count(*) n, first(ts) AS fst, s FROM d1 STATE_WINDOW(s)) WHERE s = 'y'",
        [(at(32), "y")],
    ),
    (
        f"SELECT tbname, _wstart, {STATE} AS st, count(*) FROM meters WHERE v IS NOT NULL "
        f"PARTITION BY tbname STATE_WINDOW({STATE}) ORDER BY tbname, _wstart",
        [(D1, at(1), 0, 1), (D1, at(11), 1, 2), (D2, at(2), 1, 2), (D3, at(2), 1, 1), (D4, at(15), 0, 1)],
    ),
    ("SELECT b, _wduration FROM d1 STATE_WINDOW(b) HAVING b ORDER BY b", [(True, 31_000)]),
    ("SELECT s, max(v), c0 FROM d1 STATE_WINDOW(s)", [("x", 6, 1.5), ("y", 9, 1.5)]),
    # lengths of INTERVAL
    ("SELECT _wstart, count(*) FROM nt INTERVAL(10000)", [(at(0), 3), (at(10), 1), (at(20), 1)]),
    ("SELECT _wstart, count(*) FROM nt INTERVAL('20s', '5s')", [(at(-15), 3), (at(5), 1), (at(25), 1)]),
    ("SELECT _wstart, count(*) FROM nt INTERVAL(20000, 5000) SLIDING('20s')",
     [(at(-15), 3), (at(5), 1), (at(25), 1)]),
    ("SELECT _wstart, count(*) FROM nt WHERE ts >= '2026-01-01 00:00:02' INTERVAL(10s, AUTO)",
     [(at(2), 2), (at(12), 1), (at(22), 1)]),
    ("SELECT _wstart, count(*) FROM nt WHERE ts < '2026-01-01 00:00:20' INTERVAL(10s, auto)",
     [(at(0), 3), (at(10), 1)]),
    ("SELECT _wstart, count(*) FROM nt WHERE ts >= '2025-12-31 05:00:00' INTERVAL(1d, AUTO)",
     [(at(-19 * 3_600), 5)]),
    # first and last need a value
    ("SELECT last(v) FROM nt WHERE v IS NULL", []),
    ("SELECT ts, first(v) FROM nt WHERE v IS NULL", []),
    ("SELECT first(v), max(v), sum(w) FROM nt WHERE v IS NULL AND w > 0", []),
    ("SELECT last(v), last(w) FROM nt WHERE v IS NULL", [(None, -3.9)]),
    ("SELECT last(v), count(*) FROM nt WHERE v IS NULL", [(None, 1)]),
    ("SELECT last_row(v), max(v) FROM nt WHERE v IS NULL", [(None, None)]),
    ("SELECT last(v) FROM meters WHERE ts > '2026-01-01 00:00:20' PARTITION BY tbname", [(9,)]),
    ("SELECT tbname, last(v) FROM meters WHERE ts > '2026-01-01 00:00:20' PARTITION BY 1 ORDER BY 1",
     [(D1, 9), (D2, None)]),
    # texts beside numbers and durations
    ("SELECT v FROM d2 WHERE s = 42", [(7,)]),
    ("SELECT tbname FROM meters WHERE s = 42 ORDER BY tbname", [(D2,), (D3,)]),
    ("SELECT v FROM meters WHERE s > 41.5 AND s <= 42 ORDER BY v", [(7,), (10,)]),
    ("SELECT count(*) FROM meters WHERE s IN (0, 1)", [(5,)]),
    ("SELECT CASE s WHEN 42 THEN 'n' ELSE 't' END FROM d2", [("n",), ("t",), ("t",)]),
    ("SELECT CASE cast(s AS NCHAR(4)) WHEN 42 THEN 'n' ELSE 't' END FROM d3", [("n",)]),
    ("SELECT v FROM nt WHERE ts >= '2026-01-01 00:00:14' - 1s ORDER BY ts", [(4,), (-7,)]),
    ("SELECT '2026-01-31' + 1n FROM nt LIMIT 1", [(at(58 * 86_400),)]),
    # types and their edges
    ("SELECT big + big, big + 1, big - big, -5 - big FROM odd WHERE big > 0",
     [(2.0**63, 2.0**62 + 1, 0.0, -5 - 2.0**62), (2.0**64, 2.0**63, 0.0, -5 - 2.0**63)]),
    (f"SELECT {HUGE} + 1, {HUGE} - {HUGE} FROM nt LIMIT 1", [(2.0**63, 0.0)]),
    ("SELECT cast(v AS TINYINT UNSIGNED), cast(v AS INT UNSIGNED), cast(v AS BIGINT UNSIGNED) FROM nt "
     "WHERE v < 0",
     [(249, 4_294_967_289, 2**64 - 7)]),
    ("SELECT cast(-1 AS SMALLINT UNSIGNED), cast(300 AS TINYINT UNSIGNED), cast('-3' AS INT UNSIGNED), "
     "cast(-3.9 AS TINYINT UNSIGNED) FROM nt LIMIT 1", [(65_535, 44, 2**32 - 3, 253)]),
    ("SELECT cast(`Big` AS INT UNSIGNED), cast(u AS BIGINT UNSIGNED), cast(u AS TINYINT UNSIGNED) FROM odd",
     [(5, 4_000_000_000, 0), (3, 7, 7), (None, None, None)]),
    ("SELECT cast('温度ab' AS VARCHAR(1)), cast('温度ab' AS VARCHAR(3)), cast('温度ab' AS VARCHAR(5)), "
     "cast('温度ab' AS VARCHAR(7)), cast('温度ab' AS BINARY(8)) FROM nt LIMIT 1",
     [("", "温", "温", "温度a", "温度ab")]),
    ("SELECT cast('温度ab' AS NCHAR(3)), cast('a😀b' AS VARCHAR(4)), cast('a😀b' AS VARCHAR(5)), "
     "cast(cast('温度' AS NCHAR(2)) AS VARCHAR(4)) FROM nt LIMIT 1", [("温度a", "a", "a😀", "温")]),
    ("SELECT cast(123456 AS VARCHAR(3)), cast(s AS VARCHAR(2)), cast(NULL AS VARCHAR(2)) FROM d3",
     [("123", "42", None)]),
    ("SELECT v / 0, v % 0, 1 / 0, mod(v, 0), sqrt(-1), log(0) FROM nt WHERE v = 2", [(None,) * 6]),
    ("SELECT sum(v) / count(v), avg(v) = sum(v) / count(v) FROM nt", [(0.75, True)]),
    ("SELECT count(v), sum(v), avg(v), max(v), spread(v), stddev(v) FROM nt WHERE v IS NULL",
     [(0, None, None, None, None, None)]),
    ("SELECT b + 1, b * 2, NOT b FROM d2 WHERE b IS NOT NULL", [(1.0, 0.0, True)]),
    ("SELECT mavg(v, 9) FROM (SELECT ts, v FROM nt UNION ALL SELECT ts, v FROM meters)",
     [(4.777778,), (3.777778,), (4.222222,)]),
]  # fmt: skip
"""What could mean another thing on Spark than on DuckDB, too."""

QUERIES: list[tuple[str, list[tuple[Any, ...]]]] = [
    *EDGES,
    # partitions, windows, fills, limits
    (
        f"SELECT tbname, _wstart, count(*), sum(v) FROM meters WHERE {RANGE} PARTITION BY tbname "
        "INTERVAL(10s) FILL(PREV) SLIMIT 2 LIMIT 3",
        [(D1, at(0), 1, 5), (D1, at(10), 1, 6), (D1, at(20), 1, 6),
         (D2, at(0), 2, 13), (D2, at(10), 2, 13), (D2, at(20), 1, 13)],
    ),
    (
        f"SELECT tbname, _wstart, sum(v) FROM meters WHERE {RANGE} PARTITION BY tbname INTERVAL(20s) "
        "FILL(VALUE, -1.9) ORDER BY tbname DESC, _wstart LIMIT 1",
        [(D4, at(0), -1), (D3, at(0), 10), (D2, at(0), 13), (D1, at(0), 11)],
    ),
    (
        f"SELECT _wstart AS ws, count(*) AS n FROM nt WHERE {RANGE} INTERVAL(10s) FILL(VALUE, 0) "
        "HAVING n < 2 ORDER BY n, ws DESC",
        [(at(30), 0), (at(20), 1), (at(10), 1)],
    ),
    (
        f"SELECT _wstart, avg(v) FROM nt WHERE {RANGE} INTERVAL(10s) FILL(LINEAR) ORDER BY _wstart DESC",
        [(at(30), None), (at(20), -7.0), (at(10), 4.0), (at(0), 3.0)],
    ),
    (
        "SELECT t, max(c), sum(s) FROM (SELECT tbname AS t, _wstart, count(*) AS c, sum(v) AS s FROM meters "
        "PARTITION BY tbname INTERVAL(10s)) GROUP BY t HAVING sum(s) > 9 ORDER BY sum(s) DESC",
        [(D1, 1, 20), (D2, 2, 13), (D3, 1, 10)],
    ),
    (
        "SELECT _wstart, sum(s) FROM (SELECT _wstart AS ws, sum(v) AS s FROM meters INTERVAL(10s)) "
        "INTERVAL(20s)",
        [(at(0), 33), (at(20), 9)],
    ),
    (
        "SELECT ws, diff(s) AS d FROM (SELECT _wstart AS ws, sum(v) AS s FROM nt INTERVAL(10s))",
        [(at(10), -2), (at(20), -11)],
    ),
    (
        "SELECT avg(n) FROM (SELECT count(*) AS n FROM meters PARTITION BY tbname HAVING count(*) > 1)",
        [(3.0,)],
    ),
    ("SELECT ts, v FROM nt UNION ALL SELECT ts, v FROM d1 ORDER BY ts DESC LIMIT 2",
     [(at(32), 9), (at(27), -7)]),
    (
        "SELECT src, n FROM (SELECT 'nt' AS src, count(*) AS n FROM nt UNION ALL SELECT 'all', count(*) "
        "FROM meters) ORDER BY n DESC",
        [("all", 8), ("nt", 5)],
    ),
    # interp with partitions
    (
        "SELECT _irowts, tbname, interp(v) FROM meters PARTITION BY tbname "
        "RANGE('2026-01-01 00:00:01', '2026-01-01 00:00:05') EVERY(2s) FILL(LINEAR) ORDER BY tbname, _irowts",
        [(at(1), D1, 5), (at(3), D1, 5), (at(5), D1, 5), (at(3), D2, 6)],
    ),
    (
        "SELECT tbname, _irowts, _isfilled, interp(v) FROM meters WHERE v > 5 PARTITION BY tbname "
        "RANGE('2026-01-01 00:00:10', '2026-01-01 00:00:12') EVERY(1s) FILL(NEXT)",
        [(D1, at(10), True, 6), (D1, at(11), False, 6), (D1, at(12), True, 9)],
    ),
    # series functions in queries around them
    ("SELECT max(d), min(d) FROM (SELECT diff(v) AS d FROM nt WHERE v IS NOT NULL)", [(2, -11)]),
    ("SELECT ts, top(v, 3) FROM nt ORDER BY ts DESC LIMIT 2", [(at(13), 4), (at(3), 4)]),
    ("SELECT tbname, unique(s) FROM meters WHERE s IS NOT NULL PARTITION BY tbname ORDER BY tbname, s",
     [(D1, "x"), (D1, "y"), (D2, "42"), (D2, "no"), (D3, "42 kg")]),
    ("SELECT tail(v, 2), w FROM nt", [(4, 4.5), (-7, 0.0)]),
    # names
    ("SELECT x.`avg(v)` + 1 AS y FROM (SELECT avg(v) FROM nt) x", [(1.75,)]),
    ("select /* a */ V as `A b`, Sum(V) from nt group by V having Sum(V) > 2 order by `A b` -- b", [(4, 8)]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rows"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_rows(little: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert little.query(sql) == rows


ERRORS: list[tuple[str, str, int]] = [
    ("SELECT v FROM nt LIMIT -1", "LIMIT must be a non-negative integer", 25),
    ("SELECT v FROM nt LIMIT 1 OFFSET -1", "OFFSET must be a non-negative integer", 34),
    ("SELECT count(*) FROM nt WHERE _wstart > 0 INTERVAL(10s)", "_wstart is known only when", 31),
    ("SELECT count(*) FROM nt INTERVAL('10 s')", "a duration such as 10s", 34),
    ("SELECT count(*) FROM nt WHERE ts > '2026-01-01' INTERVAL(1n, AUTO)", "AUTO needs an INTERVAL", 49),
    ("SELECT 'x' + 1s FROM nt", "'x' is not a timestamp", 8),
    ("SELECT v FROM nt WHERE v = 'x'", "'x' is not a number", 28),
    ("SELECT st_contains(v) FROM nt", "st_contains is not supported: there is no GEOMETRY type", 8),
    ("SELECT st_distance(v) FROM nt", "geometry functions such as st_distance are not supported", 8),
    ("SELECT smu(v) FROM nt", "unknown function smu (did you mean", 8),
    ("SELECT s, v FROM d1 STATE_WINDOW(s)", "column v is neither grouped nor aggregated", 11),
]


@pytest.mark.parametrize(("sql", "message", "column"), ERRORS, ids=[sql for sql, _, _ in ERRORS])
def test_refused(little: Any, sql: str, message: str, column: int) -> None:
    with pytest.raises(SqlError) as refused:
        little.query(sql)
    assert message in refused.value.message
    position = refused.value.position
    assert (position.line, position.column) == (1, column)


def test_auto_begins_at_the_local_day(little: Any) -> None:
    """In a zone whose offset changes, the windows of INTERVAL(1d, AUTO) begin at WHERE's time of day."""
    sql = "SELECT _wstart, count(*) FROM nt WHERE ts >= '2026-01-01 00:30:00' INTERVAL(1d, AUTO)"
    assert little.query(sql, timezone="Europe/Berlin") == [(at(-1_800), 5)]
    assert little.query(sql, timezone="+09:00") == [(at(-30_600), 5)]


def test_a_whole_interval_counts_ticks_of_the_database(kit: Any) -> None:
    catalog = kit.make_catalog()
    texts = {
        plan_query(f"SELECT count(*) FROM u.fast INTERVAL({given})", "d", catalog, "UTC", 0).one_sql({})
        for given in ("20000", "20a", "'20a'", "20000u")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("k", [1, 2, 8, 9, 10, 25, 60, 61])
def test_mavg_over_blocks(kit: Any, k: int) -> None:
    """Short and long windows, more rows than a block and fewer, NULLs between them."""
    world = kit.World()
    rng = random.Random(k)
    values = [rng.choice([None, 1e15, -2.5, 3.0, 0.125, 7.0]) for _ in range(80)]
    world.insert("nt", [{"ts": at(i), "v": None, "w": value} for i, value in enumerate(values)])
    known = [value for value in values if value is not None]
    wanted = [sum(known[i - k + 1 : i + 1]) / k for i in range(k - 1, len(known))]
    found = [row[0] for row in world.query(f"SELECT mavg(w, {k}) FROM nt")]
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-6)
