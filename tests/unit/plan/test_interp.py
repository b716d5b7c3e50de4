"""INTERP against a few lines of plain Python, worked examples, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.plan import plan_query

T0 = 1_767_225_600_000
Point = tuple[int, float | None]
MODES = ("NONE", "NULL", "VALUE", "PREV", "NEXT", "LINEAR", "NEAR")


def made(rows: Sequence[Point], at: int, mode: str, ignore: bool) -> tuple[float | None] | None:
    """The value that a slice without a row gets, boxed; None if it gets none. 7 is the value of VALUE."""
    known = [row for row in rows if row[1] is not None]
    used = known if ignore or mode == "LINEAR" else rows
    before = [row for row in used if row[0] < at]
    after = [row for row in used if row[0] > at]
    match mode:
        case "NULL":
            return (None,)
        case "VALUE":
            return (7,)
        case "PREV":
            return (before[-1][1],) if before else None
        case "NEXT":
            return (after[0][1],) if after else None
        case "LINEAR" if before and after:
            (t1, v1), (t2, v2) = before[-1], after[0]
            return (v1 + (v2 - v1) * (at - t1) / (t2 - t1),)
        case "NEAR" if before or after:
            later = not before or (bool(after) and at - before[-1][0] > after[0][0] - at)
            return (after[0][1] if later else before[-1][1],)
    return None


def oracle(
    rows: Sequence[Point], times: Sequence[int], mode: str, ignore: bool, whole: bool
) -> list[tuple[int, bool, float | None]]:
    there = {t: v for t, v in rows if not (ignore and v is None)}
    found: list[tuple[int, bool, float | None]] = []
    for at in times if rows else ():
        if at in there:
            found.append((at, False, there[at]))
        elif (box := made(rows, at, mode, ignore)) is not None:
            value = int(box[0]) if whole and box[0] is not None else box[0]
            found.append((at, True, round(value, 6) if value is not None else None))
    return found


def clause(low: int, high: int, every: int, mode: str) -> str:
    value = ", 7" if mode == "VALUE" else ""
    return f"RANGE({T0 + low}, {T0 + high}) EVERY({every}a) FILL({mode}{value})"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ignore", [0, 1])
def test_against_plain_python(kit: Any, mode: str, ignore: int) -> None:
    rng = random.Random(11)
    for column in ("v", "w"):
        for count in (0, 1, 2, 9):
            world = kit.World()
            rows = [
                {"ts": T0 + 500 * at, "v": rng.choice([None, -8, 3, 14]), "w": rng.choice([None, 1.5, -2.25])}
                for at in sorted(rng.sample(range(20), count))
            ]
            world.insert("nt", rows)
            points = [(row["ts"], row[column]) for row in rows]
            for low, high, every in ((-700, 11_000, 300), (2_000, 6_000, 500), (3_000, 3_000, 1_000)):
                sql = f"SELECT _irowts, _isfilled, interp({column}, {ignore}) FROM nt "
                found = world.query(sql + clause(low, high, every, mode))
                times = range(T0 + low, T0 + high + 1, every)
                assert found == oracle(points, times, mode, ignore == 1, column == "v")


@pytest.mark.parametrize("mode", MODES)
def test_each_partition_by_itself(kit: Any, mode: str) -> None:
    world = kit.World()
    world.fill(seed=4)
    fill = clause(-2_000, 61_000, 7_000, mode)
    found = world.query(
        f"SELECT tbname, site, _irowts, _isfilled, interp(v) FROM meters PARTITION BY tbname {fill}"
    )
    times = range(T0 - 2_000, T0 + 61_001, 7_000)
    expected = []
    for name in ("d1", "d2", "d3", "d4"):
        rows = [row for row in world.rows["meters"] if row["tbname"] == name]
        points = [(row["ts"], row["v"]) for row in rows]
        expected += [(name, rows[0]["site"], *one) for one in oracle(points, times, mode, False, True)]
    assert found == expected


def test_tables_without_partition_are_one_line_of_time(kit: Any) -> None:
    world = kit.World()
    for name, at, v in (("d1", 0, 1), ("d2", 10, 2), ("d1", 20, 3), ("d2", 20, 4)):
        world.insert(name, [{"ts": T0 + at, "v": v, "c0": None, "s": None, "b": None}])
    sql = f"SELECT interp(v) FROM meters RANGE({T0}, {T0 + 20}) EVERY(5a) FILL(PREV)"
    assert world.query(sql) == [(1,), (1,), (2,), (2,), (4,)]


def filled(world: Any) -> Any:
    world.insert("nt", [{"ts": T0 + 1_000 * at, "v": at, "w": at / 2} for at in (5, 10, 15)])
    world.insert("d1", [{"ts": T0 + 1_000 * at, "v": at, "c0": None, "s": None, "b": None} for at in (5, 6)])
    return world


def in_seconds(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times as seconds since the first of January."""
    return [tuple((v - T0) // 1_000 if isinstance(v, int) and v >= T0 else v for v in row) for row in rows]


def seconds(low: float, high: float) -> str:
    return f"RANGE('2026-01-01 00:00:{low:06.3f}', '2026-01-01 00:00:{high:06.3f}')"


QUERIES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (f"SELECT _irowts, interp(v) FROM nt {seconds(3, 7)} EVERY(1s) FILL(PREV)", [(5, 5), (6, 5), (7, 5)]),
    (
        f"SELECT _irowts, interp(v) FROM nt {seconds(13, 17)} EVERY(1s) FILL(LINEAR)",
        [(13, 13), (14, 14), (15, 15)],
    ),
    (
        f"SELECT _irowts, interp(v) FROM nt {seconds(8, 12)} EVERY(2s) FILL(VALUE, 1)",
        [(8, 1), (10, 10), (12, 1)],
    ),
    (
        f"SELECT _irowts, interp(v) FROM nt {seconds(4, 6)} EVERY(1s) FILL(NULL)",
        [(4, None), (5, 5), (6, None)],
    ),
    (f"SELECT interp(v), interp(w) FROM nt {seconds(12, 12)} EVERY(1s) FILL(VALUE, -1.9, 2)", [(-1, 2.0)]),
    (
        f"SELECT interp(v) + 1 AS x, 'k' FROM nt {seconds(5, 6)} EVERY(1s) FILL(LINEAR) "
        "ORDER BY x DESC LIMIT 1",
        [(7.0, "k")],
    ),
    ("SELECT interp(v), interp(w) FROM nt RANGE('2026-01-01 00:00:12') FILL(LINEAR)", [(12, 6.0)]),
    ("SELECT interp(v) FROM nt RANGE('2026-01-01 00:00:10')", [(10,)]),
    ("SELECT interp(v) FROM nt RANGE('2026-01-01 00:00:11')", []),
    ("SELECT interp(v) FROM nt RANGE(now + 9s, now() + 10s) EVERY(500a) FILL(NONE)", [(10,)]),
    (f"SELECT interp(v) FROM nt WHERE v > 99 {seconds(1, 9)} EVERY(1s) FILL(VALUE, 1)", []),
    (
        f"SELECT _irowts_origin, _irowts FROM (SELECT _irowts_origin, _irowts, interp(v) FROM nt "
        f"{seconds(7, 9)} EVERY(1s) FILL(NEAR)) ORDER BY _irowts",
        [(5, 7), (10, 8), (10, 9)],
    ),
    (
        "SELECT _irowts, _irowts_origin, interp(v) FROM nt RANGE('2026-01-01 00:00:11', "
        "'2026-01-01 00:00:15', 2s) EVERY(1s) FILL(PREV, 99)",
        [(11, 10, 10), (12, 10, 10), (13, None, 99), (14, None, 99), (15, 15, 15)],
    ),
    ("SELECT interp(v) FROM nt RANGE('2026-01-01 00:00:17', 1s) FILL(NEXT, 3)", [(3,)]),
    (
        f"SELECT sum(x), count(*) FROM (SELECT interp(v) AS x FROM nt {seconds(5, 10)} "
        "EVERY(1s) FILL(LINEAR))",
        [(45, 6)],
    ),
    (
        f"SELECT interp(x) FROM (SELECT ts, v * 2 AS x FROM nt) {seconds(6, 6)} EVERY(1s) FILL(LINEAR)",
        [(12.0,)],
    ),
    (f"SELECT tbname, interp(v) FROM d1 {seconds(5, 6)} EVERY(1s) FILL(NEXT)", [("d1", 5), ("d1", 6)]),
    (
        f"SELECT v, interp(w) FROM nt PARTITION BY v {seconds(10, 10)} EVERY(1s) FILL(PREV)",
        [(5, 2.5), (10, 5.0)],
    ),
    (
        f"SELECT DISTINCT _isfilled FROM (SELECT _isfilled, interp(v) FROM nt {seconds(5, 8)} "
        "EVERY(1s) FILL(PREV)) ORDER BY _isfilled",
        [(False,), (True,)],
    ),
]


@pytest.mark.parametrize(("sql", "rows"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_query(kit: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert in_seconds(filled(kit.World()).query(sql)) == rows


def test_slices_of_microseconds(kit: Any) -> None:
    world = kit.World()
    start = T0 * 1_000
    world.insert("fast", [{"ts": start, "v": 0}, {"ts": start + 10, "v": 100}])
    sql = f"SELECT _irowts, interp(v) FROM u.fast RANGE({start}, {start + 10}) EVERY(4u) FILL(LINEAR)"
    assert world.query(sql) == [(start, 0), (start + 4, 40), (start + 8, 80)]
    plan = plan_query(sql, "d", world.catalog, "UTC", 0)
    assert plan.precision == "us"
    assert [(c.name, str(c.type)) for c in plan.result] == [("_irowts", "TIMESTAMP"), ("interp(v)", "INT")]


R = "RANGE(1, 2) EVERY(1s)"
ERRORS = [
    ("SELECT interp(v) FROM nt", "NOT_ALLOWED", "interp", "RANGE"),
    ("SELECT interp(v) FROM nt RANGE(1, 2) FILL(PREV)", "NOT_ALLOWED", "RANGE", "EVERY"),
    ("SELECT v FROM nt RANGE(1, 2)", "NOT_ALLOWED", "RANGE", "INTERP"),
    ("SELECT v FROM nt EVERY(1s)", "NOT_ALLOWED", "EVERY", "INTERP"),
    ("SELECT interp(v) FROM nt RANGE(2, 1) EVERY(1s)", "INVALID_VALUE", "RANGE", "before it starts"),
    ("SELECT interp(v) FROM nt RANGE(0, 9000000) EVERY(1a)", "INVALID_VALUE", "RANGE", "1000000"),
    ("SELECT interp(v) FROM nt RANGE(1, 2, 3) EVERY(1a)", "INVALID_VALUE", "RANGE", "one or two"),
    ("SELECT interp(v) FROM nt RANGE(ts) FILL(PREV)", "INVALID_VALUE", "ts)", "constant"),
    ("SELECT interp(v) FROM nt RANGE('soon') FILL(PREV)", "INVALID_VALUE", "'soon'", "soon"),
    ("SELECT interp(v) FROM nt RANGE(1.5) FILL(PREV)", "TYPE_MISMATCH", "1.5", "DOUBLE"),
    ("SELECT interp(v) FROM nt RANGE(1, 2) EVERY(0s)", "INVALID_VALUE", "EVERY", "longer than zero"),
    ("SELECT interp(v) FROM nt RANGE(1, 2) EVERY(5)", "INVALID_VALUE", "EVERY", "duration"),
    (f"SELECT interp(v) FROM nt {R} FILL(VALUE)", "INVALID_VALUE", "FILL", "1 values"),
    (f"SELECT interp(v) FROM nt {R} FILL(VALUE, 1, 2)", "INVALID_VALUE", "FILL", "but 2 are given"),
    (f"SELECT interp(v) FROM nt {R} FILL(PREV, 1)", "INVALID_VALUE", "FILL", "no values"),
    (f"SELECT interp(v) FROM nt {R} FILL(VALUE, 'x')", "TYPE_MISMATCH", "'x'", "INT"),
    (f"SELECT interp(v) FROM nt {R} FILL(VALUE, ts)", "INVALID_VALUE", "ts)", "constant"),
    (f"SELECT interp(s) FROM meters {R} FILL(LINEAR)", "TYPE_MISMATCH", "interp", "VARCHAR"),
    ("SELECT interp(v) FROM nt RANGE(1, 2, 1s) EVERY(1s) FILL(NULL)", "NOT_ALLOWED", "FILL", "surrounding"),
    (f"SELECT interp(v), count(*) FROM nt {R} FILL(PREV)", "NOT_ALLOWED", "count", "aggregate"),
    (f"SELECT interp(v), diff(v) FROM nt {R} FILL(PREV)", "NOT_ALLOWED", "diff", "with interp"),
    (f"SELECT interp(v), interp(w, 1) FROM nt {R} FILL(PREV)", "NOT_ALLOWED", "interp(w", "with interp"),
    (f"SELECT interp(v), ts FROM nt {R} FILL(PREV)", "NOT_ALLOWED", "ts FROM", "column ts"),
    (f"SELECT interp(v), tbname FROM meters {R} FILL(PREV)", "NOT_ALLOWED", "tbname", "grouping"),
    (f"SELECT interp(v), _irowts_origin FROM nt {R} FILL(NULL)", "NOT_ALLOWED", "_irowts_origin", "PREV"),
    (f"SELECT interp(v) FROM nt WHERE _irowts > 1 {R} FILL(PREV)", "NOT_ALLOWED", "_irowts", "result column"),
    ("SELECT _irowts FROM nt", "UNSUPPORTED", "_irowts", "_irowts"),
    (f"SELECT interp(v, 2) FROM nt {R} FILL(PREV)", "INVALID_VALUE", "2) FROM", "0 to 1"),
    (f"SELECT interp(v) FROM nt GROUP BY v {R} FILL(PREV)", "NOT_ALLOWED", "interp", "GROUP BY"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "code", "points_at", "part"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_are_located(kit: Any, sql: str, code: str, points_at: str, part: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan_query(sql, "d", kit.make_catalog(), "UTC", 0)
    error = caught.value
    assert (error.code, error.position) == (ErrorCode[code], Position(1, sql.rindex(points_at) + 1))
    assert part in error.message


def test_a_stream_refuses_it(world: Any) -> None:
    with pytest.raises(SqlError, match="interp cannot be used in a stream") as caught:
        world.plan(f"SELECT _irowts, interp(v) FROM nt {R} FILL(PREV)")
    assert caught.value.code == ErrorCode.NOT_ALLOWED
