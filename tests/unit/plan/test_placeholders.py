"""What a stream offers to its query: placeholders of every trigger type, ``%%trows``, FORCE_OUTPUT."""

from __future__ import annotations

from typing import Any

import duckdb
import msgspec
import polars as pl
import pytest

from millrace_core.model.stream import Condition, Duration, Source
from millrace_core.model.triggers import Trigger
from millrace_core.plan import allowed_placeholders, plan_stream
from millrace_core.trigger.types import Count, Event, Interval, Period, Session, Sliding, State
from millrace_core.wire.events import Group, TriggerEvent

T0 = 1_767_225_600_000
NS = 1_000_000
S10 = Duration(10, "s")
CONDITION = Condition("v > 0", ("v",))
TRIGGERS: dict[str, Trigger] = {
    "period": Period(S10),
    "sliding": Sliding(S10),
    "interval": Interval(S10, S10),
    "session": Session(S10),
    "state": State("v"),
    "event": Event(CONDITION, CONDITION),
    "count": Count(3, 3),
}
WINDOWS = ("interval", "session", "state", "event", "count")
OWN: dict[str, dict[str, tuple[str, str | None]]] = {
    "period": {"_tprev_localtime": ("TIMESTAMP", "ns"), "_tnext_localtime": ("TIMESTAMP", "ns")},
    "sliding": dict.fromkeys(("_tprev_ts", "_tcurrent_ts", "_tnext_ts"), ("TIMESTAMP", "us")),
    **{
        name: {
            "_twstart": ("TIMESTAMP", "us"), "_twend": ("TIMESTAMP", "us"), "_twduration": ("BIGINT", None),
            "_twrownum": ("BIGINT", None),
        }
        for name in WINDOWS
    },
}  # fmt: skip
COMMON = {"_tgrpid": ("BIGINT", None), "_tlocaltime": ("TIMESTAMP", "ns")}


def event(start: int, end: int) -> TriggerEvent:
    group = Group(5, (), None)
    return TriggerEvent("x", "CLOSE", "LIVE", group, start, end, 4, T0 * NS + 7, next=end + 10_000)


@pytest.mark.parametrize("name", TRIGGERS)
def test_every_trigger_offers_its_own_with_type_and_precision(world: Any, kit: Any, name: str) -> None:
    fast = world.catalog.tables["u", "fast"]
    spec = kit.make_spec("select 1", partition=(), trigger=TRIGGERS[name], source=Source(fast))
    found = {key: (str(typed.type), typed.precision) for key, typed in allowed_placeholders(spec).items()}
    assert found == COMMON | OWN[name]
    # all of them can be selected, and the others are refused
    query = "SELECT " + ", ".join(found) + " FROM nt"
    plan = plan_stream(kit.make_spec(query, partition=(), trigger=TRIGGERS[name]), world.catalog)
    assert [(column.name, str(column.type)) for column in plan.result] == [
        (key, type_) for key, (type_, _) in found.items()
    ]
    for other in sorted({key for own in OWN.values() for key in own} - set(found)):
        with pytest.raises(Exception, match=other):
            plan_stream(kit.make_spec(f"SELECT {other} FROM nt", trigger=TRIGGERS[name]), world.catalog)


def test_grouping_columns_have_their_types(kit: Any) -> None:
    spec = kit.make_spec("select 1", partition=("k", "tbname", "site"))
    found = allowed_placeholders(spec)
    assert [str(found[f"%%{n}"].type) for n in (1, 2, 3)] == ["INT", "VARCHAR(270)", "VARCHAR(16)"]
    assert str(found["%%tbname"].type) == "VARCHAR(270)"
    assert "%%tbname" not in allowed_placeholders(kit.make_spec("select 1", partition=("k",)))


@pytest.mark.parametrize("name", TRIGGERS)
def test_values_of_the_trigger_relation(kit: Any, name: str) -> None:
    spec = kit.make_spec("select 1", partition=(), trigger=TRIGGERS[name])
    (row,) = kit.trigger_relation(spec, [event(T0, T0 + 10_000)]).rows(named=True)
    own = {
        "period": {"_tprev_localtime": T0, "_tnext_localtime": T0 + 20_000, "_tlocaltime": T0 + 10_000},
        "sliding": {"_tprev_ts": T0, "_tcurrent_ts": T0 + 10_000, "_tnext_ts": T0 + 20_000},
    }.get(name, {"_twstart": T0, "_twend": T0 + 10_000, "_twduration": 10_000, "_twrownum": 4})
    assert {k: v for k, v in row.items() if v is not None} == {
        "_tid": 0, "_tgrpid": 5, "_tlocaltime": T0 * NS + 7, **own,
    }  # fmt: skip


PERIODIC = {"_tprev_localtime": T0 * NS, "_tlocaltime": (T0 + 10_000) * NS + 1}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("ts >= _tprev_localtime AND ts < _tlocaltime", (0, 10_000)),
        ("ts > _tprev_localtime AND ts <= _tlocaltime", (1, 10_000)),
        ("_tprev_localtime + 1 <= ts AND _tlocaltime >= ts", (1, 10_000)),
        ("ts = _tprev_localtime", (0, 0)),
        ("ts = _tlocaltime", (10_001, 10_000)),
        ("ts BETWEEN _tprev_localtime AND _tlocaltime", (0, 10_000)),
        ("ts >= cast(_tprev_localtime/1000000 AS TIMESTAMP)", (0, None)),
    ],
)
def test_nanoseconds_bound_a_column_of_milliseconds(
    world: Any, where: str, expected: tuple[int | None, int | None]
) -> None:
    plan = world.plan(f"SELECT count(*) FROM nt WHERE {where}", trigger=TRIGGERS["period"], partition=())
    (source,) = plan.sources
    found = [bound.evaluate(PERIODIC) if bound else None for bound in (source.low, source.high)]
    assert [None if value is None else value - T0 for value in found] == list(expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cast(_tlocaltime/1000000 AS TIMESTAMP)", T0 + 2),
        ("cast((_tlocaltime / 1000) AS BIGINT)", (T0 + 2) * 1_000),
        ("cast(-_tgrpid/2 AS BIGINT)", -2),
        ("cast(_tlocaltime/0 AS BIGINT)", None),
        ("cast(_twrownum/2 AS INT)", 2),
        ("cast(_twrownum/2.0 AS INT)", 2),
        ("_twrownum/8", 0.5),
    ],
)
def test_quotients_of_nanoseconds_are_exact(world: Any, kit: Any, expression: str, expected: Any) -> None:
    plan = world.plan(f"SELECT {expression} AS q FROM nt WHERE ts <= {expression} LIMIT 1", partition=())
    found = msgspec.structs.replace(event(T0, T0), localtime=(T0 + 2) * NS)
    trig = kit.trigger_relation(world.spec, [found])
    whole = world.plan(f"SELECT {expression} AS q", partition=())
    assert world.set_rows(whole, trig) == world.one_rows(whole, trig) == [(0, expected)]
    (source,) = plan.sources
    bound = source.high.evaluate(trig.row(0, named=True)) if source.high else None
    assert bound == (None if expected is None else int(expected // 1))


@pytest.mark.parametrize(
    ("trigger", "query"),
    [
        ("period", "SELECT _tlocaltime AS t, count(*), _tprev_localtime, _tnext_localtime - 1 FROM nt"
                   " WHERE ts >= _tprev_localtime AND ts < _tlocaltime"),
        ("sliding", "SELECT _tcurrent_ts, count(*), sum(v), _tnext_ts - _tcurrent_ts FROM %%trows"),
        ("sliding", "SELECT ts, v, _tprev_ts FROM %%tbname WHERE ts > _tprev_ts AND ts <= _tcurrent_ts"),
        ("state", "SELECT _twstart, _twduration, _twrownum, count(*), last(v) FROM %%trows"),
        ("event", "SELECT _twend, %%1, %%tbname, _tgrpid, count(v) FROM meters WHERE tbname = %%tbname"
                  " AND ts BETWEEN _twstart AND _twend"),
        ("count", "SELECT _wstart, _twstart, count(*), sum(v) FROM %%trows INTERVAL(2s)"),
        ("session", "SELECT t.ts, t.w FROM (SELECT ts, _twend AS w, v FROM %%trows) t WHERE t.v > 2"),
    ],
)  # fmt: skip
def test_both_plans_agree(world: Any, kit: Any, trigger: str, query: str) -> None:
    plan = world.plan(query, trigger=TRIGGERS[trigger])
    scale = NS if trigger == "period" else 1
    windows = [
        ((T0 + a) * scale, (T0 + b) * scale) for a, b in ((0, 9_000), (9_000, 30_000), (60_000, 60_000))
    ]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    at_once, each = world.set_rows(plan, trig), world.one_rows(plan, trig)
    assert sorted(at_once, key=repr) == sorted(each, key=repr)
    assert at_once


def test_rows_of_count_windows_are_those_that_count(world: Any, kit: Any) -> None:
    options = kit.Options(pre_filter=Condition("c0 > 0 OR c0 IS NULL", ("c0",)))
    plan = world.plan(
        "SELECT _twstart, count(*) FROM %%trows", trigger=Count(2, 2, ("v", "s")), options=options
    )
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, [(T0, T0 + 30_000)]))
    sql = """SELECT _tid, _twstart, count(ts) FROM _trig t LEFT JOIN meters m
             ON m.tbname = t._tbname AND ts >= _twstart AND ts <= _twend
             AND (c0 > 0 OR c0 IS NULL) AND (v IS NOT NULL OR s IS NOT NULL) GROUP BY ALL"""
    assert sorted(world.set_rows(plan, trig)) == sorted(world.oracle(sql, trig))
    assert sorted(world.one_rows(plan, trig)) == sorted(world.oracle(sql, trig))


def test_rows_of_a_period_are_told_by_the_log(world: Any) -> None:
    (source,) = world.plan("SELECT count(*) FROM %%trows", trigger=TRIGGERS["period"]).sources
    assert (source.kind, source.written, source.low, source.high) == ("trows", True, None, None)
    (source,) = world.plan("SELECT count(*) FROM %%trows", trigger=TRIGGERS["sliding"]).sources
    assert not source.written


@pytest.mark.parametrize("query", ["SELECT count(*) FROM %%trows", "SELECT count(*) FROM %%tbname"])
def test_without_a_trigger_table_there_are_no_rows_of_it(world: Any, query: str) -> None:
    with pytest.raises(Exception, match=r"trigger table|PARTITION BY"):
        world.plan(query, trigger=TRIGGERS["period"], source=None, partition=())


def forced(world: Any, kit: Any, query: str, windows: list[tuple[int, int]], **more: Any) -> tuple[Any, Any]:
    """The rows that FORCE_OUTPUT makes for these windows, and the plan."""
    plan = world.plan(query, options=kit.Options(force_output=True), **more)
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    return plan, forced_rows(plan, trig)


def forced_rows(plan: Any, trig: pl.DataFrame) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("_trig", trig.to_arrow())
        return connection.execute(plan.forced_tree.sql("duckdb", identify=True)).fetchall()


WINDOW = (T0, T0 + 10_000)
DAY = (T0 + 86_400_000, T0 + 86_410_000)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT _twstart AS ts, v, 7 AS k, _twrownum AS rn FROM nt", (T0, None, 7, 0)),
        ("SELECT _twstart + 1s, v + 1, 'a', NULL, -2.5 FROM nt", (T0 + 1_000, None, "a", None, -2.5)),
        ("SELECT cast(_tlocaltime/1000000 AS TIMESTAMP), concat('x', %%1), now, avg(v), count(*) FROM nt",
         (T0, "xd1", T0, None, None)),
        ("SELECT _wstart, _twend, sum(v) FROM nt INTERVAL(5s)", (None, T0 + 10_000, None)),
        ("SELECT t.a, t.k + 1, t.v FROM (SELECT _twend AS a, 7 AS k, v FROM nt) t",
         (T0 + 10_000, 8.0, None)),
        ("SELECT ts, 1 FROM nt UNION ALL SELECT ts, 2 FROM nt", (None, 1)),
    ],
)  # fmt: skip
def test_a_forced_row_keeps_what_is_constant(
    world: Any, kit: Any, query: str, expected: tuple[Any, ...]
) -> None:
    plan, rows = forced(world, kit, query, [WINDOW])
    assert rows[0] == (0, *expected)
    assert [row[0] for row in rows] == [0, 1, 2, 3], "one row for each trigger"
    assert plan.forced_sql.startswith("SELECT")


def test_a_forced_row_meets_the_condition_of_notify_or_not(world: Any, kit: Any) -> None:
    query = "SELECT _twstart AS ts, v, 7 AS k FROM nt"
    for where, told in (("v > 1", False), ("v IS NULL", True), ("k = 7", True), ("k > 7 OR v = 1", False)):
        _, rows = forced(world, kit, query, [WINDOW], where=where)
        assert rows[0] == (0, T0, None, 7, told), where


def test_constants_are_what_the_query_itself_gives(world: Any, kit: Any) -> None:
    """Where the query has a row, the forced row's constants are those of the query's row."""
    query = "SELECT _twstart AS ts, 7 AS k, _twrownum - 1 AS n, %%1 AS t, v FROM nt WHERE ts >= _twstart"
    plan = world.plan(query, options=kit.Options(force_output=True))
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, [WINDOW, DAY]))
    made = {row[0]: row[1:5] for row in forced_rows(plan, trig)}
    given = {row[0]: row[1:5] for row in world.set_rows(plan, trig)}
    assert given == {row[0]: row[1:5] for row in world.one_rows(plan, trig)}
    assert given and all(made[tid] == cells for tid, cells in given.items())
    assert set(made) - set(given) == {1, 3, 5, 7}, "the windows of the next day have no rows"


def test_without_the_option_nothing_is_forced(world: Any) -> None:
    assert world.plan("SELECT v FROM nt").forced_sql is None
