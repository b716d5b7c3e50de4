"""Aggregate functions against oracles in plain Python, in both plans, with windows and without."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.plan.aggregates.histogram import bin_borders

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
Points = list[tuple[int, float]]
"""Times and values, in order, without those that are NULL."""


def percentile(values: list[float], p: float) -> float:
    ordered = sorted(values)
    at = p / 100 * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def mode(values: list[float]) -> float:
    counts = Counter(values)
    return min(value for value in counts if counts[value] == max(counts.values()))


def leastsquares(values: list[float], start: float, step: float) -> str | None:
    if len(values) < 2:
        return None
    line = statistics.linear_regression([start + i * step for i in range(len(values))], values)
    return f"{{slop:{line.slope:.6f}, intercept:{line.intercept:.6f}}}"


def area(points: Points) -> float:
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))


def twa(points: Points) -> float | None:
    if not points:
        return None
    lasted = points[-1][0] - points[0][0]
    return area(points) / lasted if lasted else points[-1][1]


def irate(points: Points) -> float | None:
    if not points:
        return None
    if len(points) == 1:
        return 0.0
    (t0, v0), (t1, v1) = points[-2:]
    return (v1 - v0 if v1 >= v0 else v1) / (t1 - t0) * 1000


def sample(estimate: Callable[[list[float]], float], values: list[float]) -> float | None:
    return estimate(values) if len(values) > 1 else None


CALLS = (
    "percentile(v, 37), apercentile(v, 90, 't-digest'), mode(v), leastsquares(v, 1, 0.5), twa(v), irate(v), "
    "elapsed(ts, 1s), stddev_samp(v), var_samp(v), stddev_pop(v), variance(v), spread(v), spread(ts)"
)
STREAM_CALLS = CALLS.replace("percentile(v, 37), a", "a")


def oracle(rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The results of CALLS over rows, which are ordered by time."""
    points: Points = [(row["ts"], row["v"]) for row in rows if row["v"] is not None]
    values = [value for _, value in points]
    some = bool(values)
    return (
        percentile(values, 37) if some else None, percentile(values, 90) if some else None,
        mode(values) if some else None, leastsquares(values, 1, 0.5), twa(points), irate(points),
        (rows[-1]["ts"] - rows[0]["ts"]) / 1000,
        sample(statistics.stdev, values), sample(statistics.variance, values),
        statistics.pstdev(values) if some else None, statistics.pvariance(values) if some else None,
        max(values) - min(values) if some else None, rows[-1]["ts"] - rows[0]["ts"],
    )  # fmt: skip


def close(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Equal, floats nearly; a text's numbers as its six digits."""
    return len(found) == len(wanted) and all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=2e-6) if isinstance(b, float) and a is not None else a == b
        for a, b in zip(found, wanted, strict=True)
    )


def rows_of(seed: int, count: int, span: int = 60) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {"ts": T0 + 1_000 * at, "v": rng.choice([None, 3, *range(-5, 20)]), "w": None}
        for at in sorted(rng.sample(range(span), count))
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_over_a_table(kit: Any, count: int) -> None:
    for seed in range(3):
        world = kit.World()
        rows = rows_of(seed, count)
        world.insert("nt", rows)
        (found,) = world.query(f"SELECT {CALLS} FROM nt")
        assert close(found, oracle(rows)), (found, oracle(rows))


def test_over_nothing_and_nulls(kit: Any) -> None:
    world = kit.World()
    world.insert("nt", [{"ts": T0, "v": None, "w": None}])
    assert world.query(f"SELECT {CALLS} FROM nt WHERE ts > '2026-02-01'") == []
    assert world.query(f"SELECT {CALLS} FROM nt") == [(*[None] * 6, 0.0, *[None] * 5, 0.0)]
    assert world.query("SELECT percentile(v, 1, 2), group_concat(cast(v AS VARCHAR)) FROM nt") == [
        (None, None)
    ]


def test_per_table_and_per_row_window(kit: Any, world: Any) -> None:
    rows = list(world.rows["meters"])
    found = world.query(f"SELECT tbname, {CALLS} FROM meters PARTITION BY tbname ORDER BY tbname")
    for name, *values in found:
        assert close(tuple(values), oracle([row for row in rows if row["tbname"] == name]))
    assert len(found) == 4
    sessions = world.query(f"SELECT tbname, _wstart, {CALLS} FROM meters PARTITION BY tbname SESSION(ts, 3s)")
    assert len(sessions) > 10
    for name, start, *values in sessions:
        mine = [row for row in rows if row["tbname"] == name and row["ts"] >= start]
        end = next((i for i in range(1, len(mine)) if mine[i]["ts"] - mine[i - 1]["ts"] > 3_000), len(mine))
        assert close(tuple(values), oracle(mine[:end]))


def inside(points: Points, start: int, end: int) -> Points:
    """The line through the points from a window's first to its last instant, as far as there are points."""

    def at(time: int) -> tuple[int, float] | None:
        for (t0, v0), (t1, v1) in pairwise(points):
            if t0 < time < t1:
                return time, v0 + (v1 - v0) * (time - t0) / (t1 - t0)
        return None

    own = [point for point in points if start <= point[0] < end]
    ends = [at(start), *own, at(end - 1)]
    return [point for point in ends if point is not None] if own else []


@pytest.mark.parametrize(("interval", "sliding"), [(10, 10), (10, 5), (9, 4)])
def test_intervals_see_what_lies_beside_a_window(kit: Any, interval: int, sliding: int) -> None:
    world = kit.World()
    rows = rows_of(11, 25, span=120)
    world.insert("nt", rows)
    points: Points = [(row["ts"], row["v"]) for row in rows if row["v"] is not None]
    found = world.query(
        f"SELECT _wstart, _wend, twa(v), elapsed(ts), irate(v), leastsquares(v, 1, 0.5) "
        f"FROM nt INTERVAL({interval}s) SLIDING({sliding}s)"
    )
    assert len(found) > 8
    for start, end, *values in found:
        own = [point for point in points if start <= point[0] < end]
        wanted = (
            twa(inside(points, start, end)),
            float(min(end, rows[-1]["ts"]) - max(start, rows[0]["ts"])),
            irate(own),
            leastsquares([value for _, value in own], 1, 0.5),
        )
        assert close(tuple(values), wanted), (start - T0, values, wanted)


@pytest.mark.parametrize(
    ("query", "partition"),
    [
        (f"SELECT _twstart AS x, {STREAM_CALLS} FROM %%trows", "tbname"),
        ("SELECT _twstart AS x, twa(v), irate(c0), leastsquares(v, 0, 1), mode(s), group_concat(s, '/') "
         "FROM meters WHERE ts >= _twstart AND ts < _twend GROUP BY site", "none"),
        ("SELECT _wstart, tbname, twa(v), elapsed(ts), irate(v), leastsquares(v, 1, 1) FROM %%trows "
         "PARTITION BY tbname INTERVAL(4s)", "site"),
        ("SELECT _wstart, twa(v), elapsed(ts), irate(v) FROM %%tbname WHERE ts >= _twstart AND ts < _twend "
         "SESSION(ts, 2s)", "tbname"),
        ("SELECT _twstart AS x, histogram(v, 'user_input', '[-5, 0, 5, 10]', 0) AS h FROM %%trows", "tbname"),
        ("SELECT _twstart AS x, tbname, histogram(v, 'linear_bin', "
         "'{\"start\": 0, \"width\": 10, \"count\": 2, \"infinity\": true}', 1) AS h FROM meters "
         "WHERE ts >= _twstart AND ts < _twend PARTITION BY tbname", "none"),
        ("SELECT _twstart AS x, week(ts), to_iso8601(ts), to_char(ts, 'yyyy-mm-dd hh24:mi:ss.ms'), "
         "round(c0, 1), timetruncate(_twstart, 1d), substring_index(s, 't', 1) FROM %%trows", "tbname"),
        ("SELECT _twstart AS x, elapsed(ts, 1s) / 2 AS half FROM %%trows HAVING twa(v) > 3", "tbname"),
    ],
    ids=range(8),
)  # fmt: skip
def test_set_wise_is_one_by_one(kit: Any, world: Any, query: str, partition: str) -> None:
    names = () if partition == "none" else (partition,)
    plan = world.plan(query, partition=names)
    windows = [(T0 + 1_000 * a, T0 + 1_000 * (a + 10)) for a in (0, 10, 25, 50, 70)]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    at_once = world.set_rows(plan, trig)
    each = world.one_rows(plan, trig)
    assert len(each) > 3
    assert sorted(at_once, key=repr) == sorted(each, key=repr)


def test_set_wise_gives_the_oracle(kit: Any, world: Any) -> None:
    plan = world.plan(f"SELECT _twstart AS x, {STREAM_CALLS} FROM %%trows")
    windows = [(T0 + 1_000 * a, T0 + 1_000 * (a + 15)) for a in (0, 15, 30)]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    found = {row[0]: row[2:] for row in world.set_rows(plan, trig)}
    checked = 0
    for trigger in trig.rows(named=True):
        rows = [
            row for row in world.rows["meters"]
            if row["tbname"] == trigger["_tbname"] and trigger["_twstart"] <= row["ts"] < trigger["_twend"]
        ]  # fmt: skip
        if rows:
            checked += 1
            assert close(found[trigger["_tid"]], oracle(rows)[1:])
        else:
            assert trigger["_tid"] not in found
    assert checked > 6


def test_several_percentiles_are_a_text(kit: Any) -> None:
    world = kit.World()
    world.insert("nt", [{"ts": T0 + i, "v": i, "w": float(i)} for i in range(20)])
    assert world.query("SELECT percentile(v, 0, 10, 100), percentile(v, 12.5) FROM nt") == [
        ("[0.000000, 1.900000, 19.000000]", 2.375)
    ]


@pytest.mark.parametrize(
    ("kind", "bins", "borders"),
    [
        ("user_input", "[1, 3, 5.5]", [1, 3, 5.5]),
        (
            "linear_bin",
            '{"start": 0, "width": 5, "count": 2, "infinity": true}',
            [-math.inf, 0, 5, 10, math.inf],
        ),
        (
            "linear_bin",
            '{"start": 0, "width": -5, "count": 2, "infinity": true}',
            [math.inf, 0, -5, -10, -math.inf],
        ),
        ("log_bin", '{"start": 1, "factor": 2, "count": 3, "infinity": false}', [1, 2, 4, 8]),
    ],
)
def test_histogram(kit: Any, kind: str, bins: str, borders: list[float]) -> None:
    assert bin_borders(kind, bins) == borders
    world = kit.World()
    rows = rows_of(5, 50)
    world.insert("nt", rows)
    values = [row["v"] for row in rows if row["v"] is not None]
    counts = []
    for a, b in pairwise(borders):
        low, high = min(a, b), max(a, b)
        counts.append((f"{low:g}", f"{high:g}", sum(low < value <= high for value in values)))
    total = sum(count for _, _, count in counts)
    found = world.query(f"SELECT histogram(v, '{kind}', '{bins}', 0) FROM nt")
    assert found == [(f'{{"lower_bin":{a}, "upper_bin":{b}, "count":{n}}}',) for a, b, n in counts]
    shares = world.query(f"SELECT histogram(v, '{kind}', '{bins}', 1) FROM nt")
    assert shares == [
        (f'{{"lower_bin":{a}, "upper_bin":{b}, "count":{n / total:.6f}}}',) for a, b, n in counts
    ]


def test_a_histogram_of_many_bins_is_planned_quickly(kit: Any) -> None:
    bins = '{"start": 0, "width": 1, "count": 200, "infinity": true}'
    plan = kit.World().plan(f"SELECT _twstart, histogram(v, 'linear_bin', '{bins}', 1) AS h FROM %%trows")
    assert len(plan.one_sql(dict.fromkeys(("_twstart",), 0))) < 100_000


ERRORS = [
    (
        "percentile(v, 110)",
        "INVALID_VALUE",
        "110",
        "percentile: the percentage must be from 0 to 100, not 110",
    ),
    ("percentile(v, w)", "INVALID_VALUE", "w", "must be a constant number"),
    ("percentile(v)", "INVALID_VALUE", "percentile", "2 to 11 arguments, not 1"),
    ("percentile(ts, 5)", "TYPE_MISMATCH", "ts", "takes numbers, not TIMESTAMP"),
    ("apercentile(v, 5, 'x')", "INVALID_VALUE", "'x'", "default, t-digest, not x"),
    ("leastsquares(v, 1)", "INVALID_VALUE", "leastsquares", "3 arguments, not 2"),
    ("leastsquares(v, 'x', 1)", "TYPE_MISMATCH", "'x'", "(argument 2)"),
    ("elapsed(v)", "NOT_ALLOWED", "v", "needs the time column"),
    ("elapsed(ts, 5)", "TYPE_MISMATCH", "5", "durations such as 1s, not 5"),
    ("elapsed(ts, 1u)", "INVALID_VALUE", "1u", "whole number of ms"),
    ("twa(ts)", "TYPE_MISMATCH", "ts", "twa takes numbers"),
    ("sum(twa(v))", "NOT_ALLOWED", "twa", "cannot be used inside sum"),
    (
        "histogram(v, 'bins', '[1,2]', 0)",
        "INVALID_VALUE",
        "'bins'",
        "user_input, linear_bin, log_bin, not bins",
    ),
    ("histogram(v, 'user_input', '[2,1]', 0)", "INVALID_VALUE", "'[2,1]'", "in ascending order"),
    ("histogram(v, 'user_input', '[1', 0)", "INVALID_VALUE", "'[1'", "not valid JSON"),
    ("histogram(v, 'log_bin', '{}', 0)", "INVALID_VALUE", "'{}'", '"factor"'),
    ("histogram(v, 'user_input', '[1,2]', 2)", "INVALID_VALUE", "2)", "0, 1, not 2"),
    (
        "histogram(v, 'user_input', '[1,2]', 0), count(*)",
        "NOT_ALLOWED",
        "histogram",
        "count cannot be used with histogram",
    ),
    ("group_concat(v)", "TYPE_MISMATCH", "v", "takes text, not INT"),
    ("percentil(v, 5)", "UNKNOWN_FUNCTION", "percentil", "did you mean percentile"),
    ("avg(*)", "INVALID_VALUE", "avg", "a column, not *"),
    ("week(ts, 9)", "INVALID_VALUE", "9", "week: the mode must be one of 0, 1, 2, 3, 4, 5, 6, 7, not 9"),
    ("abs('x')", "TYPE_MISMATCH", "'x'", "abs takes numbers, not VARCHAR (argument 1)"),
    ("concat('x', v)", "TYPE_MISMATCH", "v)", "concat takes text, not INT (argument 2)"),
    ("timetruncate(ts, 5)", "TYPE_MISMATCH", "5", "durations such as 1s"),
    ("timetruncate(ts, 0s)", "INVALID_VALUE", "0s", "must be positive"),
    ("timetruncate(ts, 1d, 2)", "INVALID_VALUE", "2", "0, 1, not 2"),
    ("to_iso8601(ts, 'Berlin')", "INVALID_VALUE", "'Berlin'", "Z, +hh, +hhmm or +hh:mm"),
    ("to_char(ts, v)", "TYPE_MISMATCH", "v", "to_char takes text"),
    ("to_timestamp('1', 'x')", "INVALID_VALUE", "'x'", "no field such as yyyy"),
    ("to_timestamp('1', 'hh24 am')", "INVALID_VALUE", "'hh24 am'", "not with HH24"),
    ("to_timestamp('1', 'ddd')", "INVALID_VALUE", "'ddd'", "DDD is not supported"),
    ("to_unixtimestamp('1', 3)", "INVALID_VALUE", "3", "0, 1, not 3"),
    ("to_json('[1]')", "INVALID_VALUE", "'[1]'", "an object"),
    ("round(w, 999)", "INVALID_VALUE", "999", "from -300 to 300, not 999"),
    ("rand(1.5)", "TYPE_MISMATCH", "1.5", "rand takes integers"),
    ("trim(leading 'x')", "SYNTAX", ")", "expected FROM"),
    ("trim('a', w)", "TYPE_MISMATCH", "w", "trim takes text"),
]


@pytest.mark.parametrize(("call", "code", "points_at", "part"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_are_located(kit: Any, call: str, code: str, points_at: str, part: str) -> None:
    sql = f"SELECT {call} FROM nt"
    with pytest.raises(SqlError) as caught:
        kit.World().query(sql)
    assert caught.value.code == ErrorCode[code]
    assert part in caught.value.message
    where = len("SELECT ") if call.startswith(points_at) else sql.rindex(points_at, 0, len(f"SELECT {call}"))
    assert caught.value.position == Position(1, where + 1)


def test_a_stream_may_not_use_percentile(kit: Any) -> None:
    with pytest.raises(SqlError, match="percentile cannot be used in a stream") as caught:
        kit.World().plan("SELECT _twstart, percentile(v, 5) FROM %%trows")
    assert caught.value.code == ErrorCode.NOT_ALLOWED
