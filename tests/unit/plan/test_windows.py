"""Window clauses: cut by the plans, held against the rules written in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Child, Column, Table
from millrace_core.model.stream import Duration
from millrace_core.model.types import DataType
from millrace_core.plan import plan_query
from millrace_core.timeline import add

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
Row = dict[str, Any]
Window = tuple[int, int, list[Row]]
"""First and last instant, and the rows."""


# -- the rules ----------------------------------------------------------------------------------------


def sessions(rows: list[Row], gap: int) -> Iterable[Window]:
    found: list[list[Row]] = []
    for row in rows:
        if found and row["ts"] - found[-1][-1]["ts"] <= gap:
            found[-1].append(row)
        else:
            found.append([row])
    return [(w[0]["ts"], w[-1]["ts"], w) for w in found]


def states(rows: list[Row], extend: int) -> Iterable[Window]:
    """Runs of rows of one state; rows without a state between two of them go where ``extend`` says."""
    runs: list[list[Row]] = []
    between: list[Row] = []
    gaps: list[list[Row]] = [[]]
    for row in rows:
        if row["v"] is None:
            between.append(row)
        elif runs and runs[-1][-1]["v"] == row["v"]:
            runs[-1] += [*between, row]
            between = []
        else:
            gaps[-1] = between
            runs.append([row])
            gaps.append([])
            between = []
    found: list[Window] = []
    for i, run in enumerate(runs):
        start, end, inside = run[0]["ts"], run[-1]["ts"], list(run)
        if extend == 1 and i + 1 < len(runs):
            end, inside = runs[i + 1][0]["ts"] - 1, [*run, *gaps[i + 1]]
        if extend == 2 and i:
            start, inside = runs[i - 1][-1]["ts"] + 1, [*gaps[i], *run]
        found.append((start, end, inside))
    return found


def events(rows: list[Row], begins: Callable[[Row], Any], ends: Callable[[Row], Any]) -> Iterable[Window]:
    found: list[Window] = []
    window: list[Row] = []
    for row in rows:
        if window or begins(row):
            window.append(row)
            if ends(row):
                found.append((window[0]["ts"], row["ts"], window))
                window = []
    return found


def counts(rows: list[Row], size: int, slide: int) -> Iterable[Window]:
    parts = [rows[i : i + size] for i in range(0, len(rows), slide)]
    return [(part[0]["ts"], part[-1]["ts"], part) for part in parts]


CUTS: list[tuple[str, Callable[[list[Row]], Iterable[Window]]]] = [
    ("SESSION(ts, 3s)", lambda rows: sessions(rows, 3_000)),
    ("SESSION(ts, 500a)", lambda rows: sessions(rows, 500)),
    ("STATE_WINDOW(v)", lambda rows: states(rows, 0)),
    ("STATE_WINDOW(v, 1)", lambda rows: states(rows, 1)),
    ("STATE_WINDOW(v, 2)", lambda rows: states(rows, 2)),
    (
        "STATE_WINDOW(CASE WHEN v > 5 THEN 1 WHEN v <= 5 THEN 0 END)",
        lambda rows: [
            (a, b, w)
            for a, b, w in states(
                [{**r, "v": None if r["v"] is None else int(r["v"] > 5), "x": r["v"]} for r in rows], 0
            )
        ],
    ),
    (
        "EVENT_WINDOW START WITH v > 5 END WITH b",
        lambda rows: events(rows, lambda r: r["v"] is not None and r["v"] > 5, lambda r: r["b"]),
    ),
    (
        "EVENT_WINDOW START WITH b IS NULL END WITH v < 9",
        lambda rows: events(rows, lambda r: r["b"] is None, lambda r: r["v"] is not None and r["v"] < 9),
    ),
    ("COUNT_WINDOW(3)", lambda rows: counts(rows, 3, 3)),
    ("COUNT_WINDOW(4, 2)", lambda rows: counts(rows, 4, 2)),
    ("COUNT_WINDOW(5, 3)", lambda rows: counts(rows, 5, 3)),
    (
        "COUNT_WINDOW(2, 1, v, c0)",
        lambda rows: counts([r for r in rows if r["v"] is not None or r["c0"] is not None], 2, 1),
    ),
    (
        "STATE_WINDOW(v) TRUE_FOR(2s)",
        lambda rows: [w for w in states(rows, 0) if w[1] - w[0] >= 2_000],
    ),
    (
        "EVENT_WINDOW START WITH v > 5 END WITH b TRUE_FOR(3s)",
        lambda rows: [
            w
            for w in events(rows, lambda r: r["v"] is not None and r["v"] > 5, lambda r: r["b"])
            if w[1] - w[0] >= 3_000
        ],
    ),
]


def wanted_rows(rows: list[Row], cut: Callable[[list[Row]], Iterable[Window]]) -> list[tuple[Any, ...]]:
    found = []
    for start, end, inside in cut(sorted(rows, key=lambda r: (r["ts"], r["tbname"]))):
        known = [v for r in inside if (v := r.get("x", r["v"])) is not None]
        found.append((start, end, end - start, len(inside), sum(known) if known else None))
    return found


SELECT = "SELECT _wstart, _wend, _wduration, count(*), sum(v)"


@pytest.mark.parametrize(("clause", "cut"), CUTS, ids=[clause for clause, _ in CUTS])
@pytest.mark.parametrize("seed", [3, 4])
def test_windows_of_rows(kit: Any, clause: str, cut: Any, seed: int) -> None:
    world = kit.World()
    world.fill(seed)
    rows = world.rows["meters"]
    names = sorted({row["tbname"] for row in rows})
    parts = {name: [row for row in rows if row["tbname"] == name] for name in names}
    for name, own in parts.items():
        assert world.query(f"{SELECT} FROM {name} {clause}") == wanted_rows(own, cut)
    found = world.query(f"{SELECT}, tbname FROM meters PARTITION BY tbname {clause}")
    assert found == [(*row, name) for name, own in parts.items() for row in wanted_rows(own, cut)]
    late = [row for row in rows if row["ts"] > T0 + 20_000]
    assert world.query(f"{SELECT} FROM meters WHERE ts > {T0 + 20_000} {clause}") == wanted_rows(late, cut)


def test_windows_over_nothing(kit: Any) -> None:
    for clause, _ in CUTS:
        assert kit.World().query(f"{SELECT} FROM d1 {clause}") == []


# -- INTERVAL -----------------------------------------------------------------------------------------


def first_of_months(ts: int, months: int, where: ZoneInfo) -> int:
    """Where the ``months`` that hold ``ts`` begin: they are counted from January 1970."""
    local = datetime.fromtimestamp(ts / 1_000, where)
    year, month = divmod(((local.year - 1970) * 12 + local.month - 1) // months * months, 12)
    return int(datetime(1970 + year, month + 1, 1, tzinfo=where).timestamp()) * 1_000


def interval_windows(
    ts: int, zone: str, unit: str, size: int, slide: int, offset: int
) -> list[tuple[int, int]]:
    """The windows of an instant, on the local clock; ``size`` and ``slide`` in days or months."""
    where = ZoneInfo(zone)
    if unit == "months":
        last = first_of_months(ts - offset, slide, where)
        starts = [
            add(last, Duration(-slide * i, "n"), "ms", where) + offset for i in range(-(-size // slide))
        ]
        ends = [add(start - offset, Duration(size, "n"), "ms", where) + offset for start in starts]
        return sorted((a, b) for a, b in zip(starts, ends, strict=True) if a <= ts < b)
    clock = datetime.fromtimestamp(ts / 1_000, where).replace(tzinfo=None) - timedelta(milliseconds=offset)
    days = (clock - datetime(1970, 1, 1)).days // slide * slide
    shift = timedelta(milliseconds=offset)

    def at(day: int) -> int:
        local = datetime(1970, 1, 1) + timedelta(days=day) + shift
        return int(local.replace(tzinfo=where).timestamp()) * 1_000

    found = [(at(day), at(day + size)) for day in range(days - size, days + 1, 1) if day % slide == 0]
    return [(a, b) for a, b in found if a <= ts < b]


HOUR = 3_600_000


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Shanghai"])
@pytest.mark.parametrize(
    ("clause", "unit", "size", "slide", "offset"),
    [
        ("INTERVAL(1d)", "days", 1, 1, 0),
        ("INTERVAL(1d, 6h)", "days", 1, 1, 6 * HOUR),
        ("INTERVAL(1w)", "days", 7, 7, 0),
        ("INTERVAL(3d) SLIDING(1d)", "days", 3, 1, 0),
        ("INTERVAL(1n)", "months", 1, 1, 0),
        ("INTERVAL(5n)", "months", 5, 5, 0),
        ("INTERVAL(1y)", "months", 12, 12, 0),
        ("INTERVAL(1y) SLIDING(5n)", "months", 12, 5, 0),
    ],
)
def test_windows_on_the_calendar(
    kit: Any, zone: str, clause: str, unit: str, size: int, slide: int, offset: int
) -> None:
    world = kit.World()
    # from a Sunday in March on, when clocks are put forward; and beside the changes of 2026
    times = [T0 + 37 * HOUR * i for i in range(240)]
    times += [int(datetime(2026, 3, 29, 0, 30).timestamp() * 1_000) + HOUR * i for i in range(4)]
    world.insert("nt", [{"ts": ts, "v": 1, "w": None} for ts in sorted(set(times))])
    wanted: dict[tuple[int, int], int] = {}
    for ts in sorted(set(times)):
        for window in interval_windows(ts, zone, unit, size, slide, offset):
            wanted[window] = wanted.get(window, 0) + 1
    found = world.query(f"SELECT _wstart, _wend, _wduration, count(*) FROM nt {clause}", timezone=zone)
    assert found == [(a, b, b - a, n) for (a, b), n in sorted(wanted.items())]


def test_months_that_slide_by_days(kit: Any) -> None:
    """Starts are multiples of ten days, ends are one month later on the calendar."""
    world = kit.World()
    world.insert("nt", [{"ts": T0 + 1, "v": 1, "w": None}])
    day = 86_400_000
    first = T0 // day // 10 * 10 * day
    wanted = [(s, add(s, Duration(1, "n"), "ms"), 1) for s in (first - 20 * day, first - 10 * day, first)]
    found = world.query("SELECT _wstart, _wend, count(*) FROM nt INTERVAL(1n) SLIDING(10d)")
    assert found == [w for w in wanted if w[1] > T0 + 1]


def test_an_offset_in_months_and_in_days(kit: Any) -> None:
    world = kit.World()
    world.insert("nt", [{"ts": T0 + 1, "v": 1, "w": None}])
    day = 86_400_000
    assert world.query("SELECT _wstart, _wduration FROM nt INTERVAL(1y, 3n)") == [(T0 - 275 * day, 365 * day)]
    assert world.query("SELECT _wstart, _wduration FROM nt INTERVAL(1n, 2d)") == [(T0 - 29 * day, 31 * day)]


# -- clauses around windows ---------------------------------------------------------------------------


@pytest.fixture
def world(kit: Any) -> Any:
    made = kit.World()
    for name, rows in {"d1": [(1, 1), (11, 2)], "d2": [(2, 10), (22, 20)], "d3": [(3, 100)]}.items():
        made.insert(
            name, [{"ts": T0 + 1_000 * at, "v": v, "c0": None, "s": None, "b": None} for at, v in rows]
        )
    made.insert("nt", [{"ts": T0 + 11_000, "v": 7, "w": 1.0}, {"ts": T0 + 40_000, "v": 8, "w": 2.0}])
    return made


CLAUSES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT _wstart, tbname, sum(v) FROM meters PARTITION BY tbname INTERVAL(10s) LIMIT 1",
        [(T0, "d1", 1), (T0, "d2", 10), (T0, "d3", 100)],
    ),
    (
        "SELECT _wstart, tbname, sum(v) FROM meters PARTITION BY tbname INTERVAL(10s) LIMIT 1 OFFSET 1",
        [(T0 + 10_000, "d1", 2), (T0 + 20_000, "d2", 20)],
    ),
    (
        "SELECT tbname, sum(v) AS s FROM meters PARTITION BY tbname INTERVAL(10s) ORDER BY s DESC LIMIT 1",
        [("d3", 100), ("d2", 20), ("d1", 2)],
    ),
    ("SELECT ts, v FROM meters PARTITION BY tbname SLIMIT 1 SOFFSET 1",
     [(T0 + 2_000, 10), (T0 + 22_000, 20)]),
    ("SELECT tbname, count(*) FROM meters GROUP BY tbname SLIMIT 1 SOFFSET 2", [("d3", 1)]),
    ("SELECT count(*) FROM (SELECT tbname, sum(v) FROM meters PARTITION BY tbname SLIMIT 5 SOFFSET 2)",
     [(1,)]),
    ("SELECT v FROM meters PARTITION BY site LIMIT 2", [(1,), (10,), (100,)]),
    (
        "SELECT tbname, site, count(*) FROM meters PARTITION BY tbname SESSION(ts, 10s) HAVING count(*) > 1",
        [("d1", "n", 2)],
    ),
    ("SELECT max(n) FROM (SELECT count(*) AS n FROM meters SESSION(ts, 8s))", [(4,)]),
    (
        "SELECT _wstart AS x, count(*) FROM nt SESSION(ts, 5s) UNION ALL SELECT _wstart, sum(v) FROM nt "
        "INTERVAL(1m) ORDER BY x",
        [(T0, 15), (T0 + 11_000, 1), (T0 + 40_000, 1)],
    ),
    (
        "SELECT _wstart, count(*), max(b.v) FROM nt a LEFT JOIN d1 b ON a.ts = b.ts SESSION(a.ts, 5s)",
        [(T0 + 11_000, 1, 2), (T0 + 40_000, 1, None)],
    ),
    ("SELECT _wstart, count(*) FROM (SELECT ts, v FROM nt WHERE v > 7) STATE_WINDOW(v)", [(T0 + 40_000, 1)]),
    ("SELECT TAGS tbname, site, k FROM meters WHERE k > 0 ORDER BY tbname",
     [("d1", "n", 1), ("d2", "n", 2), ("d3", "s", 1)]),
    ("SELECT DISTINCT TAGS site FROM meters ORDER BY site", [(None,), ("n",), ("s",)]),
    ("SELECT TAGS * FROM d2", [("n", 2)]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rows"), CLAUSES, ids=[sql for sql, _ in CLAUSES])
def test_clauses(world: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert world.query(sql) == rows


@pytest.fixture
def tagged(kit: Any) -> Any:
    """A super table with a JSON tag, whose children have one row each."""
    made = kit.World()
    table = Table(
        "d", "jt", "super", 9, "ms", (kit.NT.columns[0], kit.NT.columns[1]), (Column("j", DataType("JSON")),)
    )
    tags = {
        "j1": '{"site":"north","floor":5,"spare":true}', "j2": '{"site" : "so\\"u, th", "floor": 11}',
        "j3": '{"floor":1.5,"a.b":null,"at":"site"}', "j4": None,
    }  # fmt: skip
    for record in (table, *(Child("d", "jt", name, (tag,)) for name, tag in tags.items())):
        made.catalog.apply(key_of(record), encode(record))
    for i, name in enumerate(tags):
        made.insert(name, [{"ts": T0 + i, "v": 1 << i}])
    return made


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("j->'site' = 'north'", [1]), ("j->'site' != 'north'", [2]), ("j->'site' = 'so\"u, th'", [2]),
        ("j->'floor' < 6", [1, 4]), ("j->'floor' = '5'", []), ("j->'floor' BETWEEN 5 AND 11", [1, 2]),
        ("j CONTAINS 'site'", [1, 2]), ("NOT j CONTAINS 'site'", [4, 8]), ("j->'spare' = true", [1]),
        ("j->'site' IS NULL", [4, 8]), ("j->'a.b' IS NULL", [1, 2, 4, 8]), ("j->'site' MATCH 'o'", [1, 2]),
        ("j->'floor' LIKE '1%'", []), ("j IS NULL", [8]), ("j->'x' = 1 OR j->'floor' = 11", [2]),
    ],
)  # fmt: skip
def test_json_tags(tagged: Any, condition: str, values: list[int]) -> None:
    assert tagged.query(f"SELECT v FROM jt WHERE {condition}") == [(v,) for v in values]


def test_values_of_json_tags(tagged: Any) -> None:
    assert tagged.query("SELECT j->'site', j->'floor', j->'a.b' FROM jt") == [
        ('"north"', "5", None), ('"so\\"u, th"', "11", None), (None, "1.5", None), (None, None, None),
    ]  # fmt: skip
    sql = "SELECT j->'floor' AS f, sum(v) FROM jt WHERE v < 8 PARTITION BY j->'floor' INTERVAL(1s) ORDER BY f"
    assert tagged.query(sql) == [("1.5", 4), ("11", 2), ("5", 1)]


def test_tags_of_a_table_without_children(kit: Any) -> None:
    catalog = kit.make_catalog()
    catalog.children.clear()
    plan = plan_query("SELECT TAGS tbname, k FROM meters", "d", catalog, "UTC", 0)
    assert plan.sources == () and [str(c.type) for c in plan.result] == ["VARCHAR(270)", "INT"]


def test_explain(world: Any) -> None:
    rows = [line for (line,) in world.query("EXPLAIN SELECT sum(v) FROM nt WHERE ts >= 5 SESSION(ts, 5s)")]
    assert rows[0] == "SELECT" and "`_src0`" in " ".join(rows)
    assert rows[-1] == "_src0: table d.nt; columns ts, v; from 5"


# -- both plans ---------------------------------------------------------------------------------------

SET_WISE = [
    *((f"{SELECT}, _twstart FROM %%trows {clause}", "tbname") for clause, _ in CUTS),
    ("SELECT _wstart, tbname, sum(v) FROM %%trows PARTITION BY tbname STATE_WINDOW(v, 1)", "site"),
    ("SELECT _wstart, count(*) FROM meters WHERE ts < _twend EVENT_WINDOW START WITH v > _twrownum "
     "END WITH b", "site"),
    ("SELECT _wstart, _wend, tbname, sum(v) FROM %%trows PARTITION BY tbname INTERVAL(1n)", "site"),
    ("SELECT _wstart, tbname, sum(v) FROM %%trows PARTITION BY tbname INTERVAL(3s) LIMIT 2", "site"),
    ("SELECT tbname, v FROM %%trows PARTITION BY tbname ORDER BY v DESC, ts LIMIT 1", "site"),
    ("SELECT tbname, count(*) FROM %%trows PARTITION BY tbname SLIMIT 1 SOFFSET 1", "site"),
    ("SELECT count(*), max(n) FROM (SELECT count(*) AS n FROM %%trows SESSION(ts, 2s))", "tbname"),
    ("SELECT a.ts, a.v, b.v FROM nt a RIGHT JOIN %%tbname b ON a.ts = b.ts WHERE b.ts >= _twstart", "tbname"),
    ("SELECT a.ts, b.ts, b.v, _twstart FROM nt a FULL JOIN d1 b ON a.ts = b.ts", "tbname"),
    ("SELECT a.ts, b.ts FROM nt a FULL JOIN d1 b ON a.ts = b.ts AND a.v > _twrownum", "tbname"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "partition"), SET_WISE, ids=[f"{q} by {p}" for q, p in SET_WISE])
def test_set_wise_is_one_by_one(kit: Any, query: str, partition: str) -> None:
    world = kit.World()
    world.fill(seed=8)
    plan = world.plan(query, partition=(partition,))
    windows = [(T0 + 1_000 * a, T0 + 1_000 * b) for a, b in ((0, 20), (10, 60), (59, 59))]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    each = world.one_rows(plan, trig)
    assert each
    if plan.set_sql is None:
        assert "AND a.v > _twrownum" in query
    else:
        assert sorted(world.set_rows(plan, trig), key=repr) == sorted(each, key=repr)
