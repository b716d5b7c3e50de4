"""Series functions in users' queries: values worked by hand, names and types, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.plan import plan_query

T0 = 1_767_225_600_000
SMALL = [(1, 10, 3.0), (2, 15, 5.0), (3, 12, None), (4, None, 10.0), (6, 20, 0.0)]
QUERIES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT ts, diff(v), diff(w, 2), v FROM nt ORDER BY ts DESC",
        [(6, 8, -10.0, 20), (4, None, 5.0, None), (3, -3, None, 12), (2, 5, 2.0, 15)],
    ),
    ("SELECT ts, diff(v, 3), diff(w, 3) FROM nt", [(2, 5, 2.0), (4, None, 5.0), (6, 8, None)]),
    (
        "SELECT ts, csum(v), statecount(w, 'GE', 5) FROM nt",
        [(1, 10, -1), (2, 25, 1), (3, 37, None), (4, None, 2), (6, 57, -1)],
    ),
    (
        "SELECT ts, csum(v), csum(w) FROM nt WHERE w > 3 OR v > 15",
        [(2, 15, 5.0), (4, None, 15.0), (6, 35, 15.0)],
    ),
    (
        "SELECT ts, derivative(v, 1s, 0) AS d, derivative(w, 2s, 0) AS e FROM nt",
        [
            (2, 5.0, 4.0),
            (3, -3.0, None),
            (4, None, 5.0),
            (6, 2.666667, -10.0),
        ],
    ),
    ("SELECT diff(v) + 1 AS d, abs(diff(v)) FROM nt WHERE v IS NOT NULL", [(6.0, 5), (-2.0, 3), (9.0, 8)]),
    ("SELECT ts, top(v * 2, 1) FROM nt", [(6, 40.0)]),
    ("SELECT top(v, 3) FROM nt ORDER BY 1", [(12,), (15,), (20,)]),
    ("SELECT ts, bottom(w, 2), v FROM nt", [(1, 3.0, 10), (6, 0.0, 20)]),
    ("SELECT ts, diff(v) FROM nt LIMIT 2 OFFSET 1", [(3, -3), (4, None)]),
    ("SELECT DISTINCT statecount(v, 'GT', 11) AS n FROM nt ORDER BY n", [(None,), (-1,), (1,), (2,), (3,)]),
    ("SELECT sum(d), count(*) FROM (SELECT ts, diff(v) AS d FROM nt)", [(10, 4)]),
    (
        "SELECT ts, diff(s) FROM (SELECT _wstart AS ts, sum(v) AS s FROM nt INTERVAL(2s))",
        [(2, 17), (4, None), (6, -7)],
    ),
    ("SELECT ts, csum(d) FROM (SELECT ts, diff(v, 2) AS d FROM nt)", [(2, 5), (3, 2), (6, 10)]),
    (
        "SELECT diff(v) AS x FROM nt WHERE v > 12 UNION ALL SELECT csum(v) AS x FROM nt WHERE v > 12",
        [(5,), (15,), (35,)],
    ),
    ("SELECT v, top(w, 1) FROM nt GROUP BY v ORDER BY v", [(None, 10.0), (10, 3.0), (15, 5.0), (20, 0.0)]),
    (
        "SELECT _wstart, ts, top(w, 1) FROM nt INTERVAL(2s)",
        [(0, 1, 3.0), (2, 2, 5.0), (4, 4, 10.0), (6, 6, 0.0)],
    ),
    ("SELECT top(v, 2), top(v, 2) AS again FROM nt ORDER BY ts", [(15, 15), (20, 20)]),
    ("SELECT top(x, 1) FROM (SELECT v AS x FROM nt)", [(20,)]),
    (
        "SELECT a.ts, diff(a.v), b.w FROM nt a, nt b WHERE a.ts = b.ts AND a.v > 11",
        [(3, -3, None), (6, 8, 0.0)],
    ),
]


def filled(world: Any) -> Any:
    world.insert("nt", [{"ts": T0 + 1_000 * at, "v": v, "w": w} for at, v, w in SMALL])
    return world


def in_seconds(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times as seconds since the first of January."""
    return [tuple((v - T0) // 1_000 if isinstance(v, int) and v >= T0 else v for v in row) for row in rows]


@pytest.mark.parametrize(("sql", "rows"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_query(kit: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert in_seconds(filled(kit.World()).query(sql)) == rows


def test_names_and_types(kit: Any) -> None:
    def result(expression: str, table: str = "meters") -> list[tuple[str, str]]:
        plan = plan_query(f"SELECT {expression} FROM {table}", "d", kit.make_catalog(), "UTC", 0)
        return [(column.name, str(column.type)) for column in plan.result]

    assert result("DIFF(v, 1)") == [("diff(v, 1)", "BIGINT")]
    assert result("diff(c0) AS d") == [("d", "DOUBLE")]
    assert result("diff(b)") == [("diff(b)", "BIGINT")]
    assert result("diff(ts)") == [("diff(ts)", "BIGINT")]
    assert result("derivative(v, 1s, 0)") == [("derivative(v, 1s, 0)", "DOUBLE")]
    assert [type_ for _, type_ in result("csum(v), csum(v) x")] == ["BIGINT", "BIGINT"]
    assert result("csum(`Big`)", "odd")[0][1] == "BIGINT UNSIGNED"
    assert result("mavg(v, 2)")[0][1] == "DOUBLE"
    assert result("stateduration(v, 'GT', 1, 1m)")[0][1] == "BIGINT"
    assert result("top(c0, 2)")[0][1] == "FLOAT"
    assert result("unique(s)")[0][1] == "VARCHAR(16)"
    assert result("tail(ts, 2)")[0][1] == "TIMESTAMP"


ERRORS = [
    ("SELECT diff(v), csum(v) FROM nt", "NOT_ALLOWED", "csum", "together with diff"),
    ("SELECT top(v, 1), bottom(v, 1) FROM nt", "NOT_ALLOWED", "bottom", "together with top"),
    ("SELECT mavg(v, 2), mavg(v, 3) FROM nt", "NOT_ALLOWED", "mavg(v, 3", "together with mavg"),
    ("SELECT derivative(v, 1s, 1), derivative(w, 1s, 0) FROM nt", "NOT_ALLOWED", "derivative(w", "together"),
    ("SELECT diff(v), count(*) FROM nt", "NOT_ALLOWED", "count", "aggregate count"),
    ("SELECT v FROM nt WHERE diff(v) > 1", "NOT_ALLOWED", "diff", "inside WHERE"),
    ("SELECT diff(csum(v)) FROM nt", "NOT_ALLOWED", "csum", "inside diff"),
    ("SELECT sum(diff(v)) FROM nt", "NOT_ALLOWED", "diff", "inside sum"),
    ("SELECT v FROM nt ORDER BY diff(v)", "NOT_ALLOWED", "diff", "result column"),
    ("SELECT diff(v) FROM nt GROUP BY v", "NOT_ALLOWED", "diff", "GROUP BY"),
    ("SELECT csum(v) FROM nt INTERVAL(10s)", "NOT_ALLOWED", "csum", "top, bottom, sample"),
    ("SELECT top(v, 0) FROM nt", "INVALID_VALUE", "0)", "from 1 to 100"),
    ("SELECT bottom(v, 101) FROM nt", "INVALID_VALUE", "101", "bottom: k"),
    ("SELECT mavg(v, 1001) FROM nt", "INVALID_VALUE", "1001", "1 to 1000"),
    ("SELECT sample(v, -1) FROM nt", "INVALID_VALUE", "1)", "1 to 1000"),
    ("SELECT tail(v, 1, 101) FROM nt", "INVALID_VALUE", "101", "tail: offset"),
    ("SELECT diff(v, 4) FROM nt", "INVALID_VALUE", "4", "ignore_option"),
    ("SELECT diff(v, v) FROM nt", "INVALID_VALUE", "v) FROM", "0 to 3"),
    ("SELECT diff() FROM nt", "INVALID_VALUE", "diff", "1 to 2"),
    ("SELECT csum(v, 1) FROM nt", "INVALID_VALUE", "csum", "not 2"),
    ("SELECT derivative(v, 1s) FROM nt", "INVALID_VALUE", "derivative", "ignore_negative"),
    ("SELECT derivative(v, 0s, 0) FROM nt", "INVALID_VALUE", "0s", "duration"),
    ("SELECT derivative(v, 1u, 0) FROM nt", "INVALID_VALUE", "1u", "whole number of ms"),
    ("SELECT statecount(v, 'XX', 1) FROM nt", "INVALID_VALUE", "'XX'", "'LT'"),
    ("SELECT statecount(v, 'GT', w) FROM nt", "INVALID_VALUE", "w)", "constant number"),
    ("SELECT stateduration(v, 'GT', 1, 2s) FROM nt", "INVALID_VALUE", "2s", "1s"),
    ("SELECT top(s, 1) FROM meters", "TYPE_MISMATCH", "s,", "VARCHAR"),
    ("SELECT csum(b) FROM meters", "TYPE_MISMATCH", "b)", "BOOL"),
    ("SELECT diff(s) FROM meters", "TYPE_MISMATCH", "s)", "timestamps"),
    ("SELECT diff(x) FROM (SELECT v AS x FROM nt)", "NOT_ALLOWED", "diff", "time column"),
    ("SELECT top(1, 1)", "NOT_ALLOWED", "top", "time column"),
    ("SELECT dif(v) FROM nt", "UNKNOWN_FUNCTION", "dif", "diff"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "code", "points_at", "part"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_are_located(kit: Any, sql: str, code: str, points_at: str, part: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan_query(sql, "d", kit.make_catalog(), "UTC", 0)
    error = caught.value
    assert (error.code, error.position) == (ErrorCode[code], Position(1, sql.rindex(points_at) + 1))
    assert part in error.message
