"""ANOMALY_WINDOW, planned and run on DuckDB with the real algorithms."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.errors import SqlError

QUIET = (10, 11, 10, 12, 11, 10, 12, 11)
WINDOW = "ANOMALY_WINDOW(v, 'algo=iqr, wncheck=0')"


def insert(world: Any, kit: Any, table: str, values: list[int | None], first: int = 0) -> None:
    world.insert(
        table,
        [{"ts": kit.T0 + 1000 * (first + at), "v": v, "w": None} for at, v in enumerate(values)],
    )


@pytest.fixture
def empty(kit: Any) -> Any:
    return kit.World()


def test_neighbouring_anomalies_are_one_window(empty: Any, kit: Any) -> None:
    insert(empty, kit, "nt", [*QUIET, 100, 102, 11, 10, -50, 12])
    found = empty.query(f"SELECT _wstart, _wend, _wduration, count(*), sum(v), first(v) FROM nt {WINDOW}")
    assert found == [
        (kit.T0 + 8000, kit.T0 + 9000, 1000, 2, 202, 100),
        (kit.T0 + 12000, kit.T0 + 12000, 0, 1, -50, -50),
    ]


def test_rows_without_a_value_end_no_run(empty: Any, kit: Any) -> None:
    insert(empty, kit, "nt", [None, *QUIET, 100, None, 102, None, 11, 10, -50])
    found = empty.query(f"SELECT _wstart, _wend, count(*), count(v) FROM nt {WINDOW}")
    assert found == [(kit.T0 + 9000, kit.T0 + 11000, 3, 2), (kit.T0 + 15000, kit.T0 + 15000, 1, 1)]


def test_no_rows_give_no_window(empty: Any) -> None:
    assert empty.query(f"SELECT _wstart, count(*) FROM nt {WINDOW}") == []


def test_too_few_rows_fail(empty: Any, kit: Any) -> None:
    insert(empty, kit, "nt", [1] * 9)
    with pytest.raises(Exception, match="iqr needs 10 to 40000 rows in a group, not 9"):
        empty.query(f"SELECT _wstart, count(*) FROM nt {WINDOW}")


def test_each_partition_is_judged_by_its_own_values(empty: Any, kit: Any) -> None:
    for place, name in enumerate(("d1", "d2")):
        rows = [v + 20 * place for v in QUIET] + [10 + 20 * (1 - place), 11 + 20 * place, 10 + 20 * place]
        empty.insert(
            name,
            [
                {"ts": kit.T0 + 1000 * at, "v": v, "c0": None, "s": None, "b": None}
                for at, v in enumerate(rows)
            ],
        )
    found = empty.query(
        f"SELECT tbname, _wstart, count(*), first(v) FROM meters PARTITION BY tbname {WINDOW} ORDER BY tbname"
    )
    assert found == [("d1", kit.T0 + 8000, 1, 30), ("d2", kit.T0 + 8000, 1, 10)]


REFUSED = [
    ("ANOMALY_WINDOW(s, 'algo=iqr')", "numeric column, but s is VARCHAR"),
    ("ANOMALY_WINDOW(b, 'algo=iqr')", "numeric column, but b is BOOL"),
    ("ANOMALY_WINDOW(ts, 'algo=iqr')", "numeric column, but ts is TIMESTAMP"),
    ("ANOMALY_WINDOW(k, 'algo=iqr')", "k is a tag"),
    ("ANOMALY_WINDOW(abs(v), 'algo=iqr')", "must be a plain column"),
    ("ANOMALY_WINDOW('algo=iqr')", "must be a plain column"),
    ("ANOMALY_WINDOW(v, 5)", "a single string"),
    ("ANOMALY_WINDOW(v, 'algo=iqr', 'k=3')", "a single string"),
    ("ANOMALY_WINDOW(v, 'algo=none')", "known algorithms: grubbs, iqr, ksigma, lof, shesd"),
    ("ANOMALY_WINDOW(v, 'algo=ksigma, k=4')", "k must be an integer from 1 to 3, not 4"),
    ("ANOMALY_WINDOW(v, 'algo=ksigma, k=2.5')", "k must be an integer from 1 to 3, not '2.5'"),
    ("ANOMALY_WINDOW(v, 'wncheck=2')", "wncheck must be an integer from 0 to 1, not 2"),
    ("ANOMALY_WINDOW(v, 'algo=grubbs, alpha=1')", "alpha must be a number greater than 0 and less than 1"),
    ("ANOMALY_WINDOW(v, 'algo=shesd, direction=up')", "direction must be one of both, pos, neg, not 'up'"),
    ("ANOMALY_WINDOW(x)", "unknown column x"),
    ("ANOMALY_WINDOW(v) INTERVAL(10s)", "syntax|INTERVAL|window"),
    ("ANOMALY_WINDOW(v) ANOMALY_WINDOW(c0)", "syntax|twice|window"),
]


@pytest.mark.parametrize(("clause", "message"), REFUSED)
def test_refused(empty: Any, clause: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as found:
        empty.query(f"SELECT count(*) FROM meters {clause}")
    assert found.value.position is not None


def test_options_are_read_leniently(empty: Any, kit: Any) -> None:
    insert(empty, kit, "nt", [10, 12, 11, 13, 9, 11, 20, 10, 12, 8, 11, 30])
    query = "SELECT _wstart, max(v) FROM nt ANOMALY_WINDOW(v, {!r})"
    assert empty.query(query.format(" ALGO = ksigma , k = 1, wncheck = 0, , x=1")) == [
        (kit.T0 + 6000, 20), (kit.T0 + 11000, 30),
    ]  # fmt: skip


@pytest.mark.parametrize("trigger", ["interval", "sliding"])
def test_many_triggers_at_once_and_one_by_one_agree(kit: Any, trigger: str) -> None:
    world = kit.World()
    values = [(17 * at) % 7 + (40 if at % 23 == 0 else 0) for at in range(160)]
    insert(world, kit, "nt", list(values))
    bounds = "_twstart AND ts < _twend" if trigger == "interval" else "_tprev_ts AND ts < _tcurrent_ts"
    plan = world.plan(
        f"SELECT _wstart AS ws, count(*) AS n, max(v) FROM nt WHERE ts >= {bounds} {WINDOW} ORDER BY ws",
        trigger=kit.TRIGGERS[trigger], partition=(), source=kit.Source(kit.NT),
    )  # fmt: skip
    windows = [(kit.T0 + 20_000 * at, kit.T0 + 20_000 * (at + 1)) for at in range(8)]
    windows += [(kit.T0, kit.T0 + 5_000), (kit.T0 - 9_000, kit.T0 - 1_000)]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    together = world.set_rows(plan, trig)
    assert sorted(together, key=str) == sorted(world.one_rows(plan, trig), key=str)
    assert plan.failed
    assert [row[-1] for row in together if row[0] == 8] == ["iqr needs 10 to 40000 rows in a group, not 5"]
    assert any(row[-1] is None for row in together)
