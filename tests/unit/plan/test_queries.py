"""Users' queries, run on DuckDB: values worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.plan import plan_query

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC


def fill_small(world: Any) -> Any:
    world.insert("nt", [
        {"ts": T0 + 1_000, "v": 2, "w": 1.5}, {"ts": T0 + 2_000, "v": None, "w": -3.9},
        {"ts": T0 + 3_000, "v": 4, "w": None}, {"ts": T0 + 13_000, "v": 4, "w": 4.5},
    ])  # fmt: skip
    world.insert("d1", [{"ts": T0 + 1_000, "v": 5, "c0": 1.0, "s": "x", "b": True}])
    world.insert("d2", [{"ts": T0 + 2_000, "v": 7, "c0": 2.0, "s": "42", "b": False}])
    world.insert("d2", [{"ts": T0 + 3_000, "v": 6, "c0": None, "s": "no", "b": None}])
    return world


@pytest.fixture
def small(kit: Any) -> Any:
    return fill_small(kit.World())


QUERIES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT count(*), count(v), sum(v), avg(v), min(v), max(v), spread(v), hyperloglog(v) FROM nt",
        [(4, 3, 10, 3.333333, 2, 4, 2.0, 2)],
    ),
    ("SELECT count(*), sum(v), max(v) FROM nt WHERE ts > '2026-02-01'", [(0, None, None)]),
    ("SELECT sum(v), max(v) FROM nt WHERE ts > '2026-02-01'", []),
    ("SELECT ts, max(v) FROM nt", [(T0 + 3_000, 4)]),
    ("SELECT _rowts, min(v), w FROM nt", [(T0 + 1_000, 2, 1.5)]),
    (
        "SELECT last_row(v), last_row(w), last(v), first(w), last(w) FROM nt WHERE ts < '2026-01-01 "
        "00:00:04'",
        [(4, None, 4, 1.5, -3.9)],
    ),
    ("SELECT last(*) FROM nt", [(T0 + 13_000, 4, 4.5)]),
    ("SELECT last(*) FROM meters WHERE tbname = 'd2'", [(T0 + 3_000, 6, 2.0, "no", False)]),
    ("SELECT * FROM d2", [(T0 + 2_000, 7, 2.0, "42", False), (T0 + 3_000, 6, None, "no", None)]),
    ("SELECT tbname, site, k, v FROM meters WHERE k > 1 ORDER BY v", [("d2", "n", 2, 6), ("d2", "n", 2, 7)]),
    ("SELECT DISTINCT tbname FROM meters ORDER BY tbname", [("d1",), ("d2",), ("d3",), ("d4",)]),
    ("SELECT count(*) FROM (SELECT DISTINCT tbname FROM meters)", [(4,)]),
    (
        "SELECT DISTINCT tbname AS x, a.site FROM meters a WHERE k = 1 AND tbname LIKE 'd%' ORDER BY x",
        [("d1", "n"), ("d3", "s")],
    ),
    ("SELECT tbname FROM meters GROUP BY tbname, k ORDER BY tbname", [("d1",), ("d2",), ("d3",), ("d4",)]),
    ("SELECT DISTINCT tbname FROM d3", [("d3",)]),
    ("SELECT DISTINCT tbname FROM meters WHERE v > 5 ORDER BY tbname", [("d2",)]),
    ("SELECT tbname, count(*) FROM meters GROUP BY tbname ORDER BY tbname", [("d1", 1), ("d2", 2)]),
    ("SELECT count(*) FROM (SELECT DISTINCT site FROM meters)", [(1,)]),
    (
        "SELECT v FROM nt WHERE ts BETWEEN '2026-01-01 00:00:02.000' AND 1767225603000 ORDER BY ts",
        [(None,), (4,)],
    ),
    (
        "SELECT v FROM nt WHERE ts >= cast('2026-01-01' AS TIMESTAMP) + 2s AND ts < '2026-01-01T00:00:04Z'",
        [(None,), (4,)],
    ),
    ("SELECT ts + 1h, ts - 1d, ts + 5a FROM nt WHERE v = 2", [(T0 + 3_601_000, T0 - 86_399_000, T0 + 1_005)]),
    (
        "SELECT cast(w AS INT), cast(s AS INT), cast(s AS DOUBLE) FROM nt a, meters b WHERE a.ts = b.ts",
        [(1, 0, 0.0), (-3, 42, 42.0), (None, 0, 0.0)],
    ),
    (
        "SELECT cast('abcdef' AS VARCHAR(3)), cast(ts AS BIGINT), cast(1767225600000 AS TIMESTAMP) "
        "FROM nt LIMIT 1",
        [("abc", T0 + 1_000, T0)],
    ),
    (
        "SELECT v / 2, v * 3, v + v, v - 5, v % 3, -v, 7 / 0, 7 % 0 FROM nt WHERE v = 2",
        [(1.0, 6.0, 4.0, -3.0, 2.0, -2, None, None)],
    ),
    ("SELECT 2147483647 + 1, 3 & 6, 1 | 4", [(2147483648.0, 2, 5)]),
    (
        "SELECT timetruncate(ts, 10s), timediff(ts, '2026-01-01', 1s) FROM nt ORDER BY ts DESC LIMIT 1",
        [(T0 + 10_000, 13)],
    ),
    ("SELECT timediff('2026-01-01 08:00:00', '2026-01-01 08:00:01', 1s)", [(-1,)]),
    ("SELECT coalesce(v, w, 0), ifnull(v, -1), nvl(w, 0.5) FROM nt WHERE v IS NULL", [(-3.9, -1, -3.9)]),
    (
        "SELECT now, now(), today(), now - 1d, database(), timezone()",
        [(T0, T0, T0, T0 - 86_400_000, "d", "UTC")],
    ),
    ("SELECT server_version()", [("3.3.7.0",)]),
    (
        "SELECT _wstart, _wend, _wduration, count(*), sum(v) FROM nt INTERVAL(10s)",
        [(T0, T0 + 10_000, 10_000, 3, 6), (T0 + 10_000, T0 + 20_000, 10_000, 1, 4)],
    ),
    (
        "SELECT _wstart, count(*) FROM nt INTERVAL(10s) SLIDING(5s)",
        [(T0 - 5_000, 3), (T0, 3), (T0 + 5_000, 1), (T0 + 10_000, 1)],
    ),
    (
        "SELECT _wstart, tbname, sum(v) FROM meters PARTITION BY tbname INTERVAL(2s) ORDER BY "
        "tbname, _wstart",
        [(T0, "d1", 5), (T0 + 2_000, "d2", 13)],
    ),
    (
        "SELECT site, tbname, count(*) FROM meters PARTITION BY tbname ORDER BY tbname",
        [("n", "d1", 1), ("n", "d2", 2)],
    ),
    ("SELECT max(s), count(*) FROM (SELECT _wstart AS ws, sum(v) AS s FROM nt INTERVAL(10s))", [(6, 2)]),
    ("SELECT v AS x FROM nt WHERE v > 2 UNION SELECT v AS x FROM nt ORDER BY x", [(None,), (2,), (4,)]),
    ("SELECT v, count(*) AS n FROM nt GROUP BY v HAVING n > 1", [(4, 2)]),
    ("SELECT v + 1 AS x, count(*) FROM nt GROUP BY x ORDER BY x DESC LIMIT 1", [(5.0, 2)]),
    (
        "SELECT a.ts, a.v, b.v FROM nt a LEFT JOIN d1 b ON a.ts = b.ts ORDER BY a.ts LIMIT 2",
        [(T0 + 1_000, 2, 5), (T0 + 2_000, None, None)],
    ),
    (
        "SELECT a.ts, b.ts, b.v FROM nt a LEFT ASOF JOIN d2 b ON a.ts > b.ts JLIMIT 2",
        [
            (T0 + 1_000, None, None),
            (T0 + 2_000, None, None),
            (T0 + 3_000, T0 + 2_000, 7),
            (T0 + 13_000, T0 + 2_000, 7),
            (T0 + 13_000, T0 + 3_000, 6),
        ],
    ),
    (
        "SELECT a.ts, count(*), sum(b.v) FROM nt a LEFT WINDOW JOIN meters b WINDOW_OFFSET(-1s, 0s)",
        [(T0 + 1_000, 1, 5), (T0 + 2_000, 2, 12), (T0 + 3_000, 2, 13), (T0 + 13_000, 1, None)],
    ),
    (
        "SELECT a.ts, b.v FROM nt a LEFT SEMI JOIN meters b ON a.ts = b.ts",
        [(T0 + 1_000, 5), (T0 + 2_000, 7), (T0 + 3_000, 6)],
    ),
    (
        "SELECT a.ts, b.v FROM nt a LEFT ANTI JOIN d2 b ON a.ts = b.ts",
        [(T0 + 1_000, None), (T0 + 13_000, None)],
    ),
    (
        "SELECT cols(max(v), ts, w), cols(min(w), ts + 1n) FROM nt",
        [(T0 + 3_000, None, T0 + 31 * 86_400_000 + 2_000)],
    ),
    ("SELECT NULL, TRUE, 1.5, 'x' WHERE 1 = 1", [(None, True, 1.5, "x")]),
    (
        "SELECT to_iso8601(ts, '+08:00'), to_iso8601(ts, 'Z') FROM nt WHERE v = 2",
        [("2026-01-01T08:00:01.000+08:00", "2026-01-01T00:00:01.000Z")],
    ),
]


@pytest.mark.parametrize(("sql", "rows"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_query(small: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert small.query(sql) == rows


def test_literals_are_read_in_the_session_time_zone(small: Any) -> None:
    sql = "SELECT count(*) FROM nt WHERE ts >= '2026-01-01 09:00:02' AND ts < '2026-01-01T00:00:04Z'"
    assert small.query(sql, timezone="Asia/Tokyo") == [(2,)]
    assert small.query(sql, timezone="+01:00") == [(0,)]
    day = "SELECT timetruncate(ts, 1d), today() FROM nt WHERE v = 2"
    assert small.query(day, timezone="Asia/Tokyo") == [(T0 - 9 * 3_600_000, T0 - 9 * 3_600_000)]


def test_precision_is_that_of_the_tables_database(kit: Any) -> None:
    catalog = kit.make_catalog()
    plan = plan_query("SELECT ts, ts + 1s FROM u.fast WHERE ts >= '2026-01-01'", "d", catalog, "UTC", 0)
    assert plan.precision == "us"
    assert plan.sources[0].low is not None
    assert plan.sources[0].low.evaluate({}) == T0 * 1_000
    assert "1000000" in plan.one_sql({})


@pytest.mark.parametrize(
    ("expression", "name", "type_"),
    [
        ("count(*)", "count(*)", "BIGINT"), ("AVG( v )", "avg( v "
                                                         ")", "DOUBLE"), ("sum(v)", "sum(v)", "BIGINT"),
        ("sum(c0)", "sum(c0)", "DOUBLE"), ("max(v)", "max(v)", "INT"), ("first(c0)", "first(c0)", "FLOAT"),
        ("last(b) AS ld", "ld", "BOOL"), ("last(s)", "last(s)", "VARCHAR(16)"), ("v", "v", "INT"),
        ("v + 1", "v + 1", "DOUBLE"), ("ts + 1s", "ts + 1s", "TIMESTAMP"), ("ts + 1", "ts + 1", "TIMESTAMP"),
        ("tbname", "tbname", "VARCHAR(270)"), ("'Ab'", "'Ab'", "VARCHAR(2)"), ("7 AS k", "k", "BIGINT"),
        ("1.5", "1.5", "DOUBLE"), ("concat(s, 'abc')", "concat(s, 'abc')", "VARCHAR(19)"),
        ("cast(v AS TINYINT UNSIGNED) x", "x", "TINYINT "
                                               "UNSIGNED"), ("cast(v AS NCHAR(5)) x", "x", "NCHAR(5)"),
        ("v > 1", "v > 1", "BOOL"), ("CASE WHEN b THEN v ELSE 1.5 END AS c", "c", "DOUBLE"),
        ("`s` AS `S`", "S", "VARCHAR(16)"), ("hyperloglog(v)", "hyperloglog(v)", "BIGINT"),
    ],
)  # fmt: skip
def test_names_and_types_of_results(kit: Any, expression: str, name: str, type_: str) -> None:
    plan = plan_query(f"SELECT {expression} FROM meters", "d", kit.make_catalog(), "UTC", 0)
    assert [(c.name, str(c.type)) for c in plan.result] == [(name, type_)]


def test_equal_names_are_told_apart_in_the_sql_only(kit: Any) -> None:
    plan = plan_query("SELECT v, v, w AS v FROM nt", "d", kit.make_catalog(), "UTC", 0)
    assert [c.name for c in plan.result] == ["v", "v", "v"]
    assert plan.one_sql({}).count("`v#2`") == 1 and "`v#3`" in plan.one_sql({})


def test_names_of_any_script_and_case(kit: Any) -> None:
    plan = plan_query(
        "SELECT avg(`温度`) AS `平均`, `Big`, big FROM odd GROUP BY `Big`, big",
        "d",
        kit.make_catalog(),
        "UTC",
        0,
    )
    assert plan.sources[0].columns == ("温度", "Big", "big")
    assert [str(c.type) for c in plan.result] == ["DOUBLE", "BIGINT UNSIGNED", "BIGINT"]


def test_the_negative_of_the_largest_number(kit: Any) -> None:
    world = kit.World()
    world.insert("odd", [{"ts": 1, "温度": None, "Big": 2**64 - 1, "big": -5, "u": 2**32 - 1}])
    assert world.query("SELECT -`Big` FROM odd") == [(-(2.0**64),)]
    assert world.query("SELECT -a FROM (SELECT cast(-128 AS TINYINT) AS a)") == [(128,)]
