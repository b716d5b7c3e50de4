"""FILL: held against its rules written in plain Python, and both plans against each other."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

from millrace_core.errors import ErrorCode, SqlError

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
Values = dict[int, Any]


def first_window(low: int, size: int, slide: int) -> int:
    return (low - size) // slide * slide + slide


def filled(known: Values, starts: list[int], mode: str, value: Any) -> list[Any]:
    """The values of all windows; ``known`` are those that are not NULL."""
    found: list[Any] = []
    for start in starts:
        before = max((at for at in known if at <= start), default=None)
        after = min((at for at in known if at >= start), default=None)
        if start in known or mode == "NULL":
            found.append(known.get(start))
        elif mode == "VALUE":
            found.append(value)
        elif mode == "PREV":
            found.append(None if before is None else known[before])
        elif mode == "NEXT":
            found.append(None if after is None else known[after])
        elif mode == "NEAR":
            sides = [at for at in (before, after) if at is not None]
            nearest = min(sides, key=lambda at: (abs(at - start), at), default=None)
            found.append(None if nearest is None else known[nearest])
        elif before is None or after is None:
            found.append(None)
        else:
            rise = (known[after] - known[before]) * (start - before) / (after - before)
            found.append(known[before] + rise)
    return found


@pytest.mark.parametrize("mode", ["NULL", "VALUE", "PREV", "NEXT", "LINEAR", "NEAR"])
@pytest.mark.parametrize(("size", "slide"), [(5, 5), (6, 2), (5, 2)])
@pytest.mark.parametrize("late", [0, 1])
def test_modes(kit: Any, mode: str, size: int, slide: int, late: int) -> None:
    world = kit.World()
    rng = random.Random(size * 10 + slide)
    rows = [
        {"ts": T0 + 1_000 * at, "v": rng.choice([None, 2, 7, -9]), "w": rng.choice([None, 1.5, -2.0])}
        for at in [4, *rng.sample(range(8, 70), 9)][late:]
    ]
    world.insert("nt", rows)
    low, high = T0 + 3_000, T0 + 80_500
    # of the windows that hold the range's begin, those before the last one are there only with rows in them
    seen = first_window(min(row["ts"] for row in rows), size * 1_000, slide * 1_000)
    begin = min(seen, low // (slide * 1_000) * slide * 1_000)
    starts = list(range(begin, high + 1, slide * 1_000))
    columns: list[list[Any]] = []
    for name, value in (("v", 4), ("w", 0.25)):
        sums: Values = {}
        for start in starts:
            inside = [r[name] for r in rows if start <= r["ts"] < start + size * 1_000]
            if known := [v for v in inside if v is not None]:
                sums[start] = sum(known)
        columns.append(filled(sums, starts, mode, value))
    wanted = [
        (start, None if v is None else int(v), None if w is None else round(w, 6))
        for start, v, w in zip(starts, *columns, strict=True)
    ]
    values = ", 4, 0.25" if mode == "VALUE" else ""
    sql = (
        f"SELECT _wstart, sum(v), sum(w) FROM nt WHERE ts >= {low} AND ts <= {high} "
        f"INTERVAL({size}s) SLIDING({slide}s) FILL({mode}{values})"
    )
    assert world.query(sql) == wanted


def rows_of(world: Any, table: str, *rows: tuple[int, Any]) -> None:
    more = {"w": None} if table == "nt" else {"c0": None, "s": None, "b": None}
    world.insert(table, [{"ts": T0 + 1_000 * at, "v": v, **more} for at, v in rows])


RANGE = "WHERE ts >= '2026-01-01 00:00:00' AND ts < '2026-01-01 00:00:20' "


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("NULL", []), ("PREV", []), ("LINEAR", []), ("VALUE, 3, 4", []),
        ("NULL_F", [(T0, None, None), (T0 + 10_000, None, None)]),
        ("VALUE_F, 3, 4", [(T0, 3, 4), (T0 + 10_000, 3, 4)]),
    ],
)  # fmt: skip
def test_a_range_without_rows(kit: Any, mode: str, rows: list[Any]) -> None:
    world = kit.World()
    rows_of(world, "nt", (25, 1))
    select = "SELECT _wstart, sum(v), count(*) FROM nt "
    assert world.query(f"{select}{RANGE}INTERVAL(10s) FILL({mode})") == rows
    none = RANGE.replace("00:00:20", "00:00:00")
    assert world.query(f"{select}{none}INTERVAL(10s) FILL({mode})") == []


@pytest.fixture
def world(kit: Any) -> Any:
    made = kit.World()
    rows_of(made, "d1", (1, 1), (11, None))
    rows_of(made, "d2", (12, 10))
    rows_of(made, "nt", (1, 1), (11, 5))
    return made


CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        f"SELECT tbname, k, _wstart, sum(v) FROM meters {RANGE}PARTITION BY tbname INTERVAL(10s) FILL(NULL)",
        [("d1", 1, T0, 1), ("d1", 1, T0 + 10_000, None), ("d2", 2, T0, None), ("d2", 2, T0 + 10_000, 10)],
    ),
    # tags and constants are not filled, and counted neither
    (
        f"SELECT k, 5 AS five, count(v), _wend FROM meters {RANGE}PARTITION BY tbname INTERVAL(10s) "
        "FILL(VALUE, 7)",
        [(1, 5, 1, T0 + 10_000), (1, 5, 0, T0 + 20_000), (2, 5, 7, T0 + 10_000), (2, 5, 1, T0 + 20_000)],
    ),
    (
        f"SELECT _wstart, sum(v) + 1, max(v) FROM meters {RANGE}PARTITION BY tbname INTERVAL(10s) FILL(PREV) "
        "HAVING max(v) > 1",
        [(T0 + 10_000, 11.0, 10)],
    ),
    (
        f"SELECT _wstart, sum(v) AS s FROM meters {RANGE}PARTITION BY tbname INTERVAL(10s) FILL(VALUE, 3) "
        "ORDER BY s DESC LIMIT 1",
        [(T0 + 10_000, 10), (T0 + 10_000, 3)],
    ),
    # what orders them is filled as what is selected; what is not selected has no value to fill with
    (
        f"SELECT _wstart, sum(v) FROM nt {RANGE}INTERVAL(5s) FILL(NEXT) ORDER BY sum(v) DESC, _wstart DESC",
        [(T0 + 10_000, 5), (T0 + 5_000, 5), (T0, 1), (T0 + 15_000, None)],
    ),
    (
        f"SELECT _wstart, sum(v) FROM nt {RANGE}INTERVAL(5s) FILL(VALUE, 3) ORDER BY max(v) DESC, _wstart",
        [(T0 + 10_000, 5), (T0, 1), (T0 + 5_000, 3), (T0 + 15_000, 3)],
    ),
    ("SELECT sum(s) FROM (SELECT sum(v) AS s FROM nt " + RANGE + "INTERVAL(5s) FILL(NEXT))", [(11,)]),
    (
        "SELECT _wstart, count(*) FROM nt WHERE ts BETWEEN '2025-11-15' AND '2026-01-05' INTERVAL(1n) "
        "FILL(NULL)",
        [(T0 - 61 * 86_400_000, None), (T0 - 31 * 86_400_000, None), (T0, 2)],
    ),
    ("SELECT _wstart, last(v) FROM nt WHERE ts > 1767225600000 AND ts <= 1767225601000.7 INTERVAL(1s) "
     "FILL(NULL)",
     [(T0, None), (T0 + 1_000, 1)]),
    ("SELECT _wstart, last(v) FROM nt WHERE ts >= now AND ts < now + 2s INTERVAL(1s) FILL(NULL)",
     [(T0, None), (T0 + 1_000, 1)]),
    ("SELECT _wstart, max(v) FROM (SELECT ts, v FROM nt) " + RANGE + "INTERVAL(10s) FILL(PREV) LIMIT 1",
     [(T0, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rows"), CASES, ids=[sql for sql, _ in CASES])
def test_cases(world: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert world.query(sql) == rows


@pytest.mark.parametrize(
    ("sql", "code", "part"),
    [
        ("SELECT sum(v) FROM nt INTERVAL(1s) FILL(NULL)", "NOT_ALLOWED", "WHERE"),
        ("SELECT sum(v) FROM nt WHERE ts > 5 INTERVAL(1s) FILL(PREV)", "NOT_ALLOWED", "last time"),
        ("SELECT sum(v) FROM nt WHERE ts > 0 AND ts < '2026-01-01' INTERVAL(1s) FILL(PREV)", "INVALID_VALUE",
         "more than"),
    ],
)  # fmt: skip
def test_refused(kit: Any, sql: str, code: str, part: str) -> None:
    with pytest.raises(SqlError, match=part) as caught:
        kit.World().query(sql)
    assert caught.value.code == ErrorCode[code]


SET_WISE = [
    ("SELECT _wstart, sum(v), count(*) FROM %%trows INTERVAL(3s) FILL(NULL)", "tbname"),
    ("SELECT _wstart, sum(v), _twstart FROM %%trows INTERVAL(3s) SLIDING(2s) FILL(VALUE_F, -1)", "tbname"),
    ("SELECT _wstart, avg(c0) FROM %%tbname WHERE ts >= _twstart AND ts < _twend INTERVAL(4s) FILL(LINEAR)",
     "tbname"),
    ("SELECT _wstart, max(v), tbname FROM meters WHERE site = %%1 AND ts BETWEEN _twstart - 5s AND _twend "
     "PARTITION BY tbname INTERVAL(5s) FILL(PREV)", "site"),
    ("SELECT _wstart, sum(v) FROM nt WHERE ts > _twstart INTERVAL(2s) FILL(NEXT)", "tbname"),
    ("SELECT _wstart, last(s) FROM %%trows PARTITION BY tbname INTERVAL(3s) FILL(NEAR) LIMIT 2", "site"),
    ("SELECT _wstart, sum(v) FROM nt WHERE ts >= _tlocaltime AND ts <= _tlocaltime + 9s INTERVAL(2s) "
     "FILL(NULL_F)", "tbname"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "partition"), SET_WISE, ids=[query for query, _ in SET_WISE])
def test_set_wise_is_one_by_one(kit: Any, query: str, partition: str) -> None:
    world = kit.World()
    world.fill(seed=5)
    plan = world.plan(query, partition=(partition,))
    windows = [(T0 + 1_000 * a, T0 + 1_000 * b) for a, b in ((0, 20), (15, 60), (70, 80))]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    each = world.one_rows(plan, trig)
    assert len(each) > 5
    assert sorted(world.set_rows(plan, trig), key=repr) == sorted(each, key=repr)


def test_a_range_that_placeholders_give_is_bounded_like_a_constant_one(kit: Any) -> None:
    world = kit.World()
    world.fill(seed=5)
    query = "SELECT _wstart, sum(v) FROM nt WHERE ts > 0 AND ts < _twend INTERVAL(1s) FILL(PREV)"
    plan = world.plan(query, partition=("tbname",))
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, [(T0, T0 + 20_000)]))
    says = "FILL would make [0-9]+ windows; at most 10000000 are allowed"
    with pytest.raises(duckdb.Error, match=says):
        world.one_rows(plan, trig)
    with pytest.raises(duckdb.Error, match=says):
        world.set_rows(plan, trig)


def test_a_range_of_interp_that_is_computed_is_bounded_like_a_constant_one(kit: Any) -> None:
    """In a stream there is none."""
    world = kit.World()
    world.fill(seed=5)
    sql = "SELECT _irowts, interp(v) FROM nt RANGE(abs(-1), 86400001) EVERY(1a) FILL(PREV)"
    with pytest.raises(
        duckdb.Error, match="RANGE and EVERY produce more than 86400000 slices; at most 1000000 are allowed"
    ):
        world.query(sql)
