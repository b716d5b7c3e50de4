"""Property: the set-oriented plan gives every trigger the rows that the plan for it alone gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...conftest import examples

T0 = 1_767_225_600_000
QUERIES = [
    ("SELECT _twstart AS ts, count(*), sum(v), first(v), last(s), avg(c0) FROM %%trows", "tbname"),
    (
        "SELECT _twstart AS ts, max(v), min(v), spread(c0) FROM meters WHERE ts >= _twstart AND ts < _twend",
        "none",
    ),
    (
        "SELECT ts, v, s FROM %%tbname WHERE ts > _twstart - 3s AND ts <= _twend ORDER BY v DESC, ts LIMIT 2",
        "tbname",
    ),
    (
        "SELECT _twstart AS ts, site, k, count(v) AS n FROM %%trows GROUP BY site, k HAVING count(*) > 1",
        "none",
    ),
    ("SELECT _wstart, tbname, sum(v), _twrownum FROM %%trows PARTITION BY tbname INTERVAL(3s)", "site"),
    ("SELECT DISTINCT v, _tgrpid FROM %%trows", "site"),
    ("SELECT max(n) AS m, sum(n), _twend FROM (SELECT count(*) AS n FROM %%trows)", "site, k"),
    (
        "SELECT a.ts, b.v FROM %%tbname a, meters b WHERE a.ts = b.ts AND a.ts >= _twstart AND a.ts < _twend",
        "tbname",
    ),
    (
        "SELECT _twstart AS x, v FROM %%trows UNION SELECT _twend, count(*) FROM %%trows ORDER BY "
        "v, x LIMIT 3",
        "site",
    ),
    ("SELECT tbname, last_row(v), ts FROM meters WHERE tbname = %%tbname AND ts < _twend", "tbname"),
    (
        "SELECT count(*) + _twrownum, %%1 FROM meters WHERE k = %%2 AND site = %%1 AND ts >= _twstart",
        "site, k",
    ),
    ("SELECT _twstart AS ts, last(v), max(v) FROM %%trows", "tbname"),
    ("SELECT _wstart, s, count(*), max(v) FROM %%trows PARTITION BY tbname STATE_WINDOW(s)", "site"),
    ("SELECT ts, mavg(v, 9) FROM meters WHERE ts >= _twstart PARTITION BY site", "none"),
]

values = st.one_of(st.none(), st.integers(-3, 3))
row = st.fixed_dictionaries({
    "ts": st.integers(0, 20).map(lambda s: T0 + 1_000 * s),
    "v": values,
    "c0": st.sampled_from([None, 0.5, -1.25, 3.0]),
    "s": st.sampled_from([None, "a", "b"]),
    "b": st.sampled_from([None, True, False]),
})  # fmt: skip
rows = st.dictionaries(
    st.sampled_from(["d1", "d2", "d3", "d4"]), st.lists(row, max_size=8, unique_by=lambda r: r["ts"])
)
windows = st.lists(
    st.tuples(st.integers(-2, 20), st.integers(0, 8)).map(
        lambda w: (T0 + 1_000 * w[0], T0 + 1_000 * (w[0] + w[1]))
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize(("query", "partition"), QUERIES, ids=range(len(QUERIES)))
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables=rows, cut=windows)
def test_set_wise_is_one_by_one(
    kit: Any, query: str, partition: str, tables: dict[str, list[dict[str, Any]]], cut: list[tuple[int, int]]
) -> None:
    world = kit.World()
    for name, found in tables.items():
        world.insert(name, found)
    names = tuple(name.strip() for name in partition.split(",") if name != "none")
    plan = world.plan(query, partition=names)
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, cut))
    at_once = world.set_rows(plan, trig)
    each = world.one_rows(plan, trig)
    ordered = "ORDER BY" in query
    assert (at_once if ordered else sorted(at_once, key=repr)) == (
        each if ordered else sorted(each, key=repr)
    )
