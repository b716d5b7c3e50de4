"""Forms of the query language: literals, positions and names in clauses, pseudo columns, parentheses."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.plan import plan_query

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
LAST = (1 << 63) - 1

SAME: list[tuple[str, str]] = [
    ("SELECT site, count(*) FROM meters GROUP BY 1", "SELECT site, count(*) FROM meters GROUP BY site"),
    (
        "SELECT k + 1 AS x, site, sum(v) FROM meters GROUP BY 2, 1 ORDER BY 2, 1",
        "SELECT k + 1 AS x, site, sum(v) FROM meters GROUP BY site, k + 1 ORDER BY site, x",
    ),
    ("SELECT site AS x, max(v) FROM meters PARTITION BY x",
     "SELECT site, max(v) FROM meters PARTITION BY site"),
    (
        "SELECT _wstart, tbname, max(v) FROM meters PARTITION BY 2 INTERVAL(10s)",
        "SELECT _wstart, tbname, max(v) FROM meters PARTITION BY tbname INTERVAL(10s)",
    ),
    (
        "SELECT site, count(*) FROM meters PARTITION BY site SLIMIT 1, 2",
        "SELECT site, count(*) FROM meters PARTITION BY site SLIMIT 2 SOFFSET 1",
    ),
    (
        "(SELECT v FROM nt WHERE v > 1) UNION ALL (SELECT v FROM d1 LIMIT 2) ORDER BY v",
        "SELECT v FROM nt WHERE v > 1 UNION ALL (SELECT v FROM d1 LIMIT 2) ORDER BY v",
    ),
    (
        "SELECT v FROM nt WHERE ts > timestamp '2026-01-01 00:00:20'",
        "SELECT v FROM nt WHERE ts > '2026-01-01 00:00:20'",
    ),
    ("SELECT v FROM nt WHERE v = 0x2 OR v = 0b11", "SELECT v FROM nt WHERE v = 2 OR v = 3"),
    ("SELECT count(a.*) FROM nt a RIGHT JOIN d1 b ON a.ts = b.ts",
     "SELECT count(a.ts) FROM nt a RIGHT JOIN d1 b ON a.ts = b.ts"),
    ("SELECT first(b.v), _rowts FROM nt a RIGHT JOIN d1 b ON a.ts = b.ts", "SELECT first(v), ts FROM d1"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "same"), SAME, ids=[query for query, _ in SAME])
def test_two_ways_to_say_it(world: Any, query: str, same: str) -> None:
    found = world.query(query)
    assert found and found == world.query(same)


@pytest.mark.parametrize(
    ("where", "first", "last"),
    [
        ("", -LAST - 1, LAST),
        ("WHERE ts > '2026-01-01' AND ts < '2026-01-02' AND v IS NOT NULL", T0 + 1, T0 + 86_399_999),
        ("WHERE ts BETWEEN '2026-01-01' AND '2026-01-02'", T0, T0 + 86_400_000),
        ("WHERE ts <= '2026-01-02'", -LAST - 1, T0 + 86_400_000),
    ],
)
def test_range_of_a_query(world: Any, where: str, first: int, last: int) -> None:
    found = world.query(f"SELECT _qstart, _qend, _qduration, count(*) > 0 FROM nt {where}")
    assert found == [(first, last, min(last - first, LAST), True)]


def test_who_asks(kit: Any, run: Any) -> None:
    plan = plan_query("SELECT current_user(), user()", None, kit.make_catalog(), "UTC", 0, "anna")
    assert run(plan.one_tree, {}) == [("anna", "anna")]


def test_months_are_those_of_the_zone(kit: Any) -> None:
    # 2026-01-31 23:30 in Berlin is a month before 2026-02-28 23:30 there; in summer an hour less from UTC
    sql = "SELECT timestamp '2026-01-31 23:30:00' + 1n, timestamp '2026-07-15 00:30:00' - 6n"
    hour, day = 3_600_000, 86_400_000
    found = kit.World().query(sql, timezone="Europe/Berlin")
    assert found == [(T0 + 58 * day + 22 * hour + hour // 2, T0 + 14 * day - hour // 2)]


def test_rows_of_a_join_come_in_the_order_of_its_driving_table(world: Any) -> None:
    found = [ts for (ts,) in world.query("SELECT b.ts FROM nt a RIGHT JOIN meters b ON a.ts = b.ts")]
    assert found == sorted(found) and len(found) >= 60
