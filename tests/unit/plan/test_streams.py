"""What a stream's plan tells of its sources, its triggers, and its output tables."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import polars as pl
import pytest
import sqlglot

from millrace_core.catalog import Grant, GrantedTable, StreamEntry, User, encode, key_of
from millrace_core.errors import SqlError
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import Condition, Output, OutputTag
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import SYSTEM_TABLES, News, plan_output, plan_query, system_rows
from millrace_core.wire.events import Group, TriggerEvent

from .conftest import database

T0 = 1_767_225_600_000
TRIGGER = {"_twstart": T0, "_twend": T0 + 10_000, "_tlocaltime": (T0 + 20_000) * 1_000_000 + 500_000}


def only(plan: Any) -> Any:
    (source,) = plan.sources
    return source


def bounds(plan: Any, row: dict[str, Any] = TRIGGER) -> tuple[int | None, int | None]:
    source = only(plan)
    low = source.low.evaluate(row) if source.low else None
    high = source.high.evaluate(row) if source.high else None
    return (None if low is None else low - T0, None if high is None else high - T0)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("ts >= _twstart AND ts < _twend", (0, 9_999)),
        ("_c0 > _twstart AND _twend >= ts", (1, 10_000)),
        ("ts = _twstart", (0, 0)),
        ("ts BETWEEN _twstart - 5m AND _twend + 1s", (-300_000, 11_000)),
        ("ts >= _twstart AND ts >= _twend - 3s AND ts <= _twend", (7_000, 10_000)),
        ("ts >= cast(_tlocaltime / 1000000 AS TIMESTAMP)", (20_000, None)),
        ("ts >= '2026-01-01 00:00:01' AND ts < 1767225602000", (1_000, 1_999)),
        ("ts >= now - 1h", (None, None)),
        ("ts > _twstart OR v > 1", (None, None)),
        ("ts >= v", (None, None)),
        ("ts + 1s >= _twstart", (None, None)),
        ("NOT ts < _twstart", (None, None)),
    ],
)
def test_bounds(world: Any, where: str, expected: tuple[int | None, int | None]) -> None:
    plan = world.plan(f"SELECT count(*) FROM nt WHERE {where}")
    assert bounds(plan) == expected


def test_a_null_placeholder_does_not_bound(world: Any) -> None:
    plan = world.plan("SELECT count(*) FROM nt WHERE ts >= _twstart AND ts < _twend")
    assert bounds(plan, {"_twstart": None, "_twend": T0}) == (None, -1)


def test_kinds_of_sources(world: Any) -> None:
    def source(query: str, partition: tuple[str, ...] = ("tbname",)) -> Any:
        return only(world.plan(query, partition=partition))

    plain = source("SELECT v FROM nt")
    assert (plain.relation, plain.kind, plain.correlated, plain.columns) == (
        "_src0",
        "table",
        False,
        ("ts", "v"),
    )
    own = source("SELECT count(*) FROM %%tbname")
    assert (own.own_table, own.correlated, own.columns) == (True, True, ("ts",))
    assert source("SELECT count(*) FROM meters WHERE tbname = %%tbname").own_table
    assert source("SELECT count(*) FROM meters WHERE %%1 = tbname").own_table
    assert source("SELECT count(*) FROM d2").child == "d2"
    assert source("SELECT count(*) FROM meters WHERE tbname = 'd2'").child == "d2"
    tags = source("SELECT count(*) FROM meters WHERE site = %%1 AND k = %%2", ("site", "k"))
    assert (tags.group_tags, tags.tag_equals) == (True, (("site", 1), ("k", 2)))
    part = source("SELECT count(*) FROM meters WHERE site = %%1", ("site", "k"))
    assert (part.group_tags, part.tag_equals, part.correlated) == (False, (("site", 1),), True)
    assert source("SELECT count(*) FROM %%trows", ("site",)).group_tags
    assert source("SELECT count(*) FROM %%trows", ("k", "tbname")).own_table
    system = source("SELECT count(*) FROM information_schema.ins_tables")
    assert (system.relation, system.kind, system.table) == ("ins_tables", "system", None)


@pytest.mark.parametrize(
    ("trigger", "row", "expected"),
    [
        ("interval", TRIGGER, (0, 9_999)),
        ("session", TRIGGER, (0, 10_000)),
        ("sliding", {"_tprev_ts": T0, "_tcurrent_ts": T0 + 5_000}, (1, 5_000)),
        ("period", {}, (None, None)),
    ],
)
def test_rows_of_a_trigger(world: Any, kit: Any, trigger: str, row: dict[str, Any], expected: Any) -> None:
    plan = world.plan("SELECT count(*) FROM %%trows", trigger=kit.TRIGGERS[trigger])
    assert only(plan).kind == "trows"
    assert bounds(plan, row) == expected


def test_pre_filter_cuts_trows(world: Any, kit: Any) -> None:
    options = kit.Options(pre_filter=Condition("v > 3", ("v",)))
    plan = world.plan("SELECT _twstart, count(*) FROM %%trows", options=options)
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, [(T0, T0 + 30_000)]))
    sql = """SELECT _tid, _twstart, count(ts) FROM _trig t LEFT JOIN meters m
             ON m.tbname = t._tbname AND ts >= _twstart AND ts < _twend AND v > 3 GROUP BY ALL"""
    assert sorted(world.set_rows(plan, trig)) == sorted(world.oracle(sql, trig))


def test_uses(world: Any) -> None:
    plan = world.plan("SELECT _twstart, %%1, count(*) FROM %%tbname WHERE ts < _twend")
    assert plan.uses == {"_twstart", "_twend", "%%1", "%%tbname"}


@pytest.mark.parametrize("side", ["RIGHT", "FULL"])
def test_an_outer_join_whose_condition_needs_the_trigger(world: Any, kit: Any, side: str) -> None:
    plan = world.plan(
        f"SELECT a.ts, b.v, _twstart FROM nt a {side} JOIN d1 b ON a.ts = b.ts AND b.ts > _twstart + 20s"
    )
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, [(T0, T0 + 1), (T0 + 9_000, T0)]))
    oracle = f"""SELECT _tid, a.ts, b.v, _twstart FROM _trig t, LATERAL (SELECT x.ts, y.v FROM nt x
        {side} JOIN (SELECT * FROM meters WHERE tbname = 'd1') y
        ON x.ts = y.ts AND y.ts > t._twstart + 20000) j(ts, v),
        LATERAL (SELECT j.ts) a, LATERAL (SELECT j.v) b"""
    wanted = sorted(world.oracle(oracle, trig), key=repr)
    assert any(row[1] is not None for row in wanted)
    assert sorted(world.set_rows(plan, trig), key=repr) == wanted
    assert sorted(world.one_rows(plan, trig), key=repr) == wanted


def test_constants_are_quoted(world: Any) -> None:
    plan = world.plan("SELECT _twstart, %%1 AS t, %%2 AS k FROM nt", partition=("site", "k"))
    sql = plan.one_sql({"_twstart": -5, "_g1": "it's \\ %%2", "_g2": None})
    assert "CAST((-5) AS BIGINT)" in sql
    assert "CAST('it\\'s \\\\ %%2' AS STRING)" in sql
    assert "CAST(NULL AS INT)" in sql


def test_trigger_relation(kit: Any) -> None:
    spec = kit.make_spec("SELECT 1", partition=("site", "k"))
    events = [
        TriggerEvent("a", "CLOSE", "LIVE", Group(5, ("n", 1), None), T0, T0 + 10, 3, 99),
        TriggerEvent("b", "CLOSE", "LIVE", Group(6, (None, None), None), T0, T0 + 20, 0, 100),
    ]
    frame = kit.trigger_relation(spec, events)
    assert frame.schema["_tid"] == pl.Int32 and frame.schema["_g2"] == pl.Int32
    assert frame.row(1, named=True) == {
        "_tid": 1, "_tgrpid": 6, "_tlocaltime": 100, "_twstart": T0, "_twend": T0 + 20, "_twduration": 20,
        "_twrownum": 0, "_tprev_ts": None, "_tcurrent_ts": None, "_tnext_ts": None, "_tprev_localtime": None,
        "_tnext_localtime": None, "_g1": None, "_g2": None, "_tbname": None,
    }  # fmt: skip
    sliding = kit.trigger_relation(
        kit.make_spec("SELECT 1", partition=(), trigger=kit.TRIGGERS["sliding"]), events
    )
    assert sliding.select("_tprev_ts", "_tcurrent_ts", "_twstart").row(0) == (T0, T0 + 10, None)
    period = kit.trigger_relation(
        kit.make_spec("SELECT 1", partition=(), trigger=kit.TRIGGERS["period"]), events
    )
    assert period.select("_tprev_localtime", "_tlocaltime").row(0) == (T0, T0 + 10)
    assert kit.trigger_relation(spec, []).height == 0


def _output(subtable: str | None, *tags: tuple[str, str, str]) -> Output:
    made = tuple(
        OutputTag(Column(name, DataType.of(type_, 32 if type_ == "VARCHAR" else None)), e)
        for name, type_, e in tags
    )
    return Output("d", "o", tags=made, subtable=subtable)


def test_output_names_and_tags(kit: Any) -> None:
    output = _output(
        "concat('o_', %%tbname, '_', cast(k AS VARCHAR(4)))",
        ("twice", "INT", "%%2 * 2"),
        ("name", "VARCHAR", "tbname"),
    )
    plan = plan_output(kit.make_spec("SELECT 1", partition=("tbname", "k"), output=output))
    assert plan.tags == ("twice", "name")
    assert run_output(plan.sql) == [
        (1, "o_d1_3", 6, "d1", None), (2, "o_d2_4", 8, "d2", None),
    ]  # fmt: skip
    unnamed = plan_output(
        kit.make_spec("SELECT 1", partition=("tbname", "k"), output=_output(None, ("t", "INT", "k")))
    )
    assert run_output(unnamed.sql) == [(1, None, 3), (2, None, 4)]


def run_output(sql: str) -> list[tuple[Any, ...]]:
    with database().cursor() as connection:
        connection.execute(
            "CREATE TEMP TABLE _grp AS SELECT * FROM (VALUES (1, 'd1', 'd1', 3), (2, 'd2', 'd2', 4)) g(_gid, "
            "_tbname, _g1, _g2)"
        )
        rows: list[tuple[Any, ...]] = connection.execute(
            sqlglot.transpile(sql, read="spark", write="duckdb")[0]
        ).fetchall()
        return rows


@pytest.mark.parametrize(
    ("subtable", "part"),
    [("site", "not a grouping column"), ("%%3", "grouping "
                                             "columns"), ("_twstart", "grouping "
                                                                      "columns"), ("k", "must be text"),
     ("concat('a', nope())", "unknown function"), ("cast(count(*) AS VARCHAR(3))", "OUTPUT_SUBTABLE")],
)  # fmt: skip
def test_bad_output_names(kit: Any, subtable: str, part: str) -> None:
    with pytest.raises(SqlError, match=part):
        plan_output(
            kit.make_spec("SELECT 1", partition=("tbname", "k"), output=_output(subtable, ("t", "INT", "k")))
        )


def test_system_tables(kit: Any) -> None:
    catalog = kit.make_catalog()
    spec = kit.make_spec("SELECT 1")
    for record in (StreamEntry(spec, "Running", 1, 1), User("root", "x", superuser=True)):
        catalog.apply(key_of(record), encode(record))
    for name, columns in SYSTEM_TABLES.items():
        assert system_rows(name, catalog, News()).columns == list(columns)
    streams = system_rows("ins_streams", catalog, News({("d", "s"): ("Running", "")}))
    assert streams.select("stream_name", "db_name", "status").rows() == [("s", "d", "Running")]
    assert system_rows("ins_streams", catalog, News())["status"].to_list() == ["Init"]
    tables = system_rows("ins_tables", catalog, News()).filter(pl.col("db_name") == "d")
    assert set(tables.select("table_name", "stable_name", "type").rows()) >= {
        ("d1", "meters", "CHILD_TABLE"), ("nt", None, "NORMAL_TABLE"),
    }  # fmt: skip
    described = system_rows("ins_columns", catalog, News()).filter(pl.col("table_name") == "meters")
    assert described.select("col_name", "col_type", "table_type").rows()[3] == (
        "s",
        "VARCHAR(16)",
        "SUPER_TABLE",
    )
    tags = system_rows("ins_tags", catalog, News()).filter(pl.col("table_name") == "d4")
    assert tags["tag_value"].to_list() == [None, None]
    assert system_rows("ins_databases", catalog, News()).select("name", "precision", "ntables").rows() == [
        ("d", "ms", 7),
        ("u", "us", 1),
    ]


TABLES = (
    "ins_tables", "ins_columns", "ins_tags", "ins_stables", "ins_streams", "ins_stream_counters",
    "ins_stream_tasks",
)  # fmt: skip


def test_system_tables_show_a_user_what_that_user_may_know_of(kit: Any) -> None:
    catalog = deepcopy(kit.make_catalog())
    other = Table("e", "secret", "normal", 77, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))
    records = [
        StreamEntry(kit.make_spec("SELECT 1"), "Running", 1, 1), User("root", "x", superuser=True),
        User("ann", "x"), User("bob", "x"), Database("e"), other,
        Grant("ann", read=("d",)), Grant("bob", read_tables=(GrantedTable("e", "secret", 77),)),
    ]  # fmt: skip
    for record in records:
        catalog.apply(key_of(record), encode(record))

    def seen(user: str | None) -> dict[str, set[Any]]:
        names = dict.fromkeys(TABLES, "db_name") | {
            "ins_databases": "name", "ins_users": "name", "ins_user_privileges": "user_name",
        }  # fmt: skip
        return {
            name: set(system_rows(name, catalog, News(), user)[column].to_list())
            for name, column in names.items()
        }

    every, ann, bob = seen(None), seen("ann"), seen("bob")
    assert seen("root") == every and every["ins_databases"] >= {"d", "e"}
    databases = {name for name in every if name not in ("ins_users", "ins_user_privileges")}
    assert {name: ann[name] for name in databases} == {name: {"d"} for name in databases}
    assert ann["ins_users"] == ann["ins_user_privileges"] == {"ann"}
    tables = {"ins_databases", "ins_tables", "ins_columns"}
    assert {name: bob[name] for name in databases} == {
        name: {"e"} if name in tables else set() for name in databases
    }


def test_a_query_of_system_tables(kit: Any) -> None:
    sql = "SELECT stream_name, status FROM information_schema.ins_streams WHERE db_name = 'd' ORDER BY 1"
    plan = plan_query(sql, None, kit.make_catalog(), "UTC", 0)
    assert only(plan).columns == ("stream_name", "db_name", "status")
    assert plan.precision == "ms"
