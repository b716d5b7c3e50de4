"""SEMI, ANTI, ASOF and WINDOW JOIN against plain Python, in both plans; what stands beside them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
Row = dict[str, Any]
OPERATORS: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
FLIPPED = {">": "<", ">=": "<=", "=": "=", "<": ">", "<=": ">="}
WINDOWS = [(0, 20), (10, 15), (30, 90), (200, 210)]


def tables(world: Any) -> tuple[list[Row], list[Row]]:
    """The rows of ``nt`` and of ``meters`` in time."""
    return tuple(
        sorted(world.rows[name], key=lambda row: (row["ts"], row["tbname"])) for name in ("nt", "meters")
    )  # type: ignore[return-value]


def nearest(
    driving: list[Row], other: list[Row], compare: str, most: int, key: tuple[str, str] | None
) -> list[tuple[Row, Row | None]]:
    """Each driving row with the ``most`` nearest rows in the comparison's direction."""
    found: list[tuple[Row, Row | None]] = []
    for row in driving:
        match = [
            o for o in other
            if OPERATORS[compare](row["ts"], o["ts"])
            and (key is None or (row[key[0]] is not None and row[key[0]] == o[key[1]]))
        ]  # fmt: skip
        some = match[-most:] if compare in (">", ">=") else match[:most]
        found += [(row, o) for o in (some if most else [])] or [(row, None)]
    return found


def shown(pairs: list[tuple[Row, Row | None]]) -> list[tuple[Any, ...]]:
    return [(a["ts"], a["v"], b and b["ts"], b and b["v"]) for a, b in pairs]


@pytest.mark.parametrize("key", [None, ("v", "k")])
@pytest.mark.parametrize("most", [None, 0, 1, 3])
@pytest.mark.parametrize("compare", list(OPERATORS))
def test_asof_join(world: Any, compare: str, most: int | None, key: tuple[str, str] | None) -> None:
    rows, others = tables(world)
    limit = "" if most is None else f" JLIMIT {most}"
    also = f" AND a.{key[0]} = b.{key[1]}" if key else ""
    wanted = nearest(rows, others, compare, 1 if most is None else most, key)
    sql = f"SELECT a.ts, a.v, b.ts, b.v FROM nt a LEFT ASOF JOIN meters b ON a.ts {compare} b.ts{also}{limit}"
    # which of equally near rows comes first is open: compare what both plans promise, their times and number
    found = world.query(sql)
    assert [(r[0], r[2]) for r in found] == [(r[0], r[2]) for r in shown(wanted)]
    assert {(r[2], r[3]) for r in found if r[2]} <= {(o["ts"], o["v"]) for o in others}
    # the same, written from the other side
    flipped = f"b.ts {FLIPPED[compare]} a.ts"
    mirrored = f"SELECT a.ts, a.v, b.ts, b.v FROM meters b RIGHT ASOF JOIN nt a ON {flipped}{also}{limit}"
    assert world.query(mirrored) == found


def test_asof_join_without_a_condition(world: Any) -> None:
    rows, others = tables(world)
    d1 = [row for row in others if row["tbname"] == "d1"]
    sql = "SELECT a.ts, a.v, b.ts, b.v FROM nt a LEFT ASOF JOIN d1 b"
    assert world.query(sql) == shown(nearest(rows, d1, ">=", 1, None))
    sql = "SELECT b.ts, b.v, a.ts, a.v FROM nt a RIGHT ASOF JOIN d1 b"
    assert world.query(sql) == shown(nearest(d1, rows, "<=", 1, None))


def test_asof_join_of_truncated_times(world: Any) -> None:
    rows, others = tables(world)
    d1 = [row for row in others if row["tbname"] == "d1"]
    sql = (
        "SELECT a.ts, b.ts FROM nt a LEFT ASOF JOIN d1 b "
        "ON timetruncate(a.ts, 10s) > timetruncate(b.ts, 10s) JLIMIT 2"
    )
    wanted = []
    for row in rows:
        match = [o["ts"] for o in d1 if row["ts"] // 10_000 > o["ts"] // 10_000][-2:]
        wanted += [(row["ts"], at) for at in match or [None]]
    assert world.query(sql) == wanted


def within(row: Row, others: list[Row], low: int, high: int, most: int | None) -> list[Row]:
    return [o for o in others if row["ts"] + low <= o["ts"] <= row["ts"] + high][:most]


@pytest.mark.parametrize(
    ("offsets", "low", "high"),
    [("-2s, 2s", -2_000, 2_000), ("1s, -3s", -3_000, 1_000), ("0s, 0s", 0, 0), ("5s, 6s", 5_000, 6_000)],
)
@pytest.mark.parametrize("most", [None, 0, 1, 2])
def test_window_join(world: Any, offsets: str, low: int, high: int, most: int | None) -> None:
    rows, others = tables(world)
    limit = "" if most is None else f" JLIMIT {most}"
    join = f"FROM nt a LEFT WINDOW JOIN meters b WINDOW_OFFSET({offsets}){limit}"
    wanted: list[tuple[Any, ...]] = []
    gathered: list[tuple[Any, ...]] = []
    for row in rows:
        match = within(row, others, low, high, most)
        wanted += [(row["ts"], o["ts"]) for o in match] or [(row["ts"], None)]
        gathered.append((row["ts"], row["v"], max(1, len(match)), len(match)))
    assert world.query(f"SELECT a.ts, b.ts {join}") == wanted
    assert world.query(f"SELECT a.ts, a.v, count(*), count(b.*) {join}") == gathered
    kept = [row for row in gathered if row[3] > 1]
    assert world.query(f"SELECT a.ts, a.v, count(*), count(b.*) {join} HAVING count(b.*) > 1") == kept
    mirrored = join.replace("nt a LEFT", "meters b RIGHT").replace("JOIN meters b", "JOIN nt a")
    assert world.query(f"SELECT a.ts, b.ts {mirrored}") == wanted


def test_window_join_of_equal_columns(world: Any) -> None:
    rows, others = tables(world)
    sql = (
        "SELECT a.ts, sum(b.v), last(b.ts) FROM nt a LEFT WINDOW JOIN meters b ON a.v = b.k "
        "WINDOW_OFFSET(-10s, 10s) WHERE b.v > 3"
    )
    wanted = []
    for row in rows:
        match = [o for o in within(row, others, -10_000, 10_000, None) if o["k"] == row["v"] is not None]
        match = [o for o in match if o["v"] is not None and o["v"] > 3]
        if match:
            wanted.append((row["ts"], sum(o["v"] for o in match), match[-1]["ts"]))
    assert len(wanted) > 3 and world.query(sql) == wanted


def test_semi_and_anti_join(world: Any) -> None:
    rows, others = tables(world)
    by_time: dict[int, list[Row]] = {}
    for other in others:
        by_time.setdefault(other["ts"], []).append(other)
    on = "ON a.ts = b.ts AND b.v > 5"
    match = {ts: [o for o in found if o["v"] is not None and o["v"] > 5] for ts, found in by_time.items()}
    hit = [row for row in rows if match.get(row["ts"])]
    assert 1 < len(hit) < len(rows)
    semi = f"SELECT a.ts, a.v, b.tbname, b.v FROM nt a LEFT SEMI JOIN meters b {on}"
    first = [(row["ts"], row["v"], o["tbname"], o["v"]) for row in hit for o in match[row["ts"]][:1]]
    assert world.query(semi) == first
    assert world.query(f"SELECT a.ts FROM meters b RIGHT SEMI JOIN nt a {on}") == [(r["ts"],) for r in hit]
    anti = [(row["ts"], None) for row in rows if not match.get(row["ts"])]
    assert world.query(f"SELECT a.ts, b.v FROM nt a LEFT ANTI JOIN meters b {on} ORDER BY a.ts") == anti
    mirrored = f"SELECT count(*) FROM meters b RIGHT ANTI JOIN nt a {on}"
    assert world.query(mirrored) == [(len(anti),)]
    assert world.query(f"SELECT count(*) FROM nt a LEFT SEMI JOIN meters b {on}") == [(len(hit),)]
    inner = f"SELECT count(*) FROM (SELECT ts, v FROM nt) a LEFT SEMI JOIN (SELECT ts, v FROM meters) b {on}"
    assert world.query(inner) == [(len(hit),)]


BOTH = [
    "SELECT a.ts, b.ts, _twstart FROM nt a LEFT ASOF JOIN %%tbname b ON a.ts >= b.ts JLIMIT 2 "
    "WHERE a.ts >= _twstart AND a.ts < _twend",
    "SELECT a.ts, b.ts, b.v FROM nt a LEFT ASOF JOIN %%tbname b ON a.ts < b.ts AND a.v = b.k "
    "WHERE a.ts >= _twstart AND a.ts < _twend AND b.v > 3",
    "SELECT a.ts, count(*), avg(b.v), _twend FROM %%tbname a LEFT WINDOW JOIN nt b WINDOW_OFFSET(-5s, 5s) "
    "WHERE a.ts >= _twstart AND a.ts < _twend",
    "SELECT _twstart, count(*), sum(b.v) FROM nt a LEFT SEMI JOIN %%tbname b "
    "ON a.ts = b.ts AND b.v > _twrownum",
    "SELECT _twstart AS ts, a.ts, b.v FROM nt a RIGHT ANTI JOIN %%tbname b "
    "ON a.ts = b.ts AND a.v >= _twrownum WHERE b.ts >= _twstart AND b.ts < _twend",
    "SELECT _wstart, count(*), _twstart FROM nt a LEFT ASOF JOIN %%tbname b WHERE a.ts < _twend "
    "INTERVAL(10s)",
    "SELECT a.v, last(b.v), _twstart FROM nt a LEFT ASOF JOIN %%tbname b WHERE a.ts < _twend GROUP BY a.v",
    "SELECT a.ts, b.v FROM nt a LEFT ASOF JOIN %%tbname b WHERE a.ts < _twend "
    "ORDER BY b.v DESC, a.ts LIMIT 3",
]


@pytest.mark.parametrize("query", BOTH, ids=range(len(BOTH)))
def test_both_plans(world: Any, kit: Any, query: str) -> None:
    plan = world.plan(query)
    windows = [(T0 + 1_000 * a, T0 + 1_000 * b) for a, b in WINDOWS]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    at_once = sorted(world.set_rows(plan, trig), key=repr)
    assert at_once == sorted(world.one_rows(plan, trig), key=repr)
    assert len(at_once) > 3


def test_near_rows_are_looked_for_where_they_can_be(world: Any) -> None:
    plan = world.plan(
        "SELECT a.ts, b.v FROM nt a LEFT ASOF JOIN d1 b ON a.ts > b.ts "
        "WHERE a.ts < _twend AND a.ts >= _twstart"
    )
    asof = plan.sources[1]
    assert asof.low is None and asof.high is not None
    assert asof.high.evaluate({"_twstart": T0, "_twend": T0 + 5}) == T0 + 4
    plan = world.plan(
        "SELECT a.ts, b.v FROM nt a LEFT WINDOW JOIN d1 b WINDOW_OFFSET(-1s, 2s) "
        "WHERE a.ts < _twend AND a.ts >= _twstart AND b.ts > _twstart"
    )
    near = plan.sources[1]
    assert near.low is not None and near.high is not None
    trigger = {"_twstart": T0, "_twend": T0 + 5}
    assert (near.low.evaluate(trigger), near.high.evaluate(trigger)) == (T0 - 1_000, T0 + 2_004)


COLS: list[tuple[str, str]] = [
    (
        "SELECT cols(max(v), ts, w AS x), cols(min(w), ts + 1s) AS t FROM nt WHERE ts < _twend",
        "SELECT _tid, arg_max(ts, (v, -ts)) FILTER (v IS NOT NULL), (arg_max({'w': w}, (v, -ts)) FILTER "
        "(v IS NOT NULL)).w, 1000 + arg_min(ts, (w, ts)) FILTER (w IS NOT NULL) "
        "FROM _trig t JOIN nt ON ts < _twend GROUP BY ALL",
    ),
    (
        "SELECT site, cols(last_row(v), v, tbname), cols(first(c0), ts) - 1a FROM meters "
        "WHERE ts < _twend GROUP BY site",
        "SELECT _tid, site, (arg_max({'v': v}, (ts, tbname))).v, arg_max(tbname, (ts, tbname)), "
        "arg_min(ts, (ts, tbname)) FILTER (c0 IS NOT NULL) - 1 FROM _trig t JOIN meters ON ts < _twend "
        "GROUP BY _tid, site",
    ),
]


@pytest.mark.parametrize(("query", "oracle"), COLS)
def test_cols(world: Any, kit: Any, query: str, oracle: str) -> None:
    plan = world.plan(query, partition=("site",))
    windows = [(T0, T0 + 1_000 * at) for at in (5, 20, 60)]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    wanted = sorted(world.oracle(oracle, trig), key=repr)
    assert sorted(world.set_rows(plan, trig), key=repr) == wanted
    assert sorted(world.one_rows(plan, trig), key=repr) == wanted


def test_names_of_cols(world: Any) -> None:
    plan = world.plan(
        "SELECT cols(max(v), ts, w AS x, v + 1), cols(last(ts), *), cols(min(v), ts) AS t FROM nt"
    )
    assert [c.name for c in plan.result] == ["ts", "x", "v + 1", "ts", "v", "w", "t"]
