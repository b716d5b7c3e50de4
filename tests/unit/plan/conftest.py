"""A small world to plan in: a catalog, rows, and DuckDB to run the planner's trees on.

Sources are filled just as a :class:`SourceUse` says, so that its contract is tested with the SQL.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest
from sqlglot import exp

from millrace_analytics import columns, directory
from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.language.query.nodes import position_at
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, Notify, Options, Places, Source, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import Plan, SourceUse, plan_query, plan_stream, trigger_relation
from millrace_core.plan.analytics import forecast
from millrace_core.plan.spark.text import column_of
from millrace_core.plan.windows import anomaly
from millrace_core.trigger.types import Interval, Period, Session, Sliding
from millrace_core.wire.events import Group, TriggerEvent, trigger_id
from millrace_core.wire.rows.decoded import polars_type

Row = dict[str, Any]
T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC


def _columns(*columns: tuple[str, str]) -> tuple[Column, ...]:
    found = []
    for name, text in columns:
        base, _, length = text.partition("(")
        found.append(Column(name, DataType.of(base, int(length[:-1]) if length else None)))
    return tuple(found)


METERS = Table(
    "d", "meters", "super", 1, "ms",
    _columns(("ts", "TIMESTAMP"), ("v", "INT"), ("c0", "FLOAT"), ("s", "VARCHAR(16)"), ("b", "BOOL")),
    _columns(("site", "VARCHAR(16)"), ("k", "INT")),
)  # fmt: skip
NT = Table("d", "nt", "normal", 2, "ms", _columns(("ts", "TIMESTAMP"), ("v", "INT"), ("w", "DOUBLE")))
ODD = Table(
    "d", "odd", "normal", 3, "ms",
    _columns(("ts", "TIMESTAMP"), ("温度", "DOUBLE"), ("Big", "BIGINT UNSIGNED"), ("big", "BIGINT"),
             ("u", "INT UNSIGNED")),
)  # fmt: skip
METERS_SOURCE = Source(METERS)
MICRO = Table("u", "fast", "normal", 4, "us", _columns(("ts", "TIMESTAMP"), ("v", "INT")))
CHILDREN = (
    Child("d", "meters", "d1", ("n", 1)), Child("d", "meters", "d2", ("n", 2)),
    Child("d", "meters", "d3", ("s", 1)), Child("d", "meters", "d4", (None, None)),
)  # fmt: skip


def make_catalog() -> Catalog:
    catalog = Catalog()
    for record in (Database("d"), Database("u", "us"), METERS, NT, ODD, MICRO, *CHILDREN):
        catalog.apply(key_of(record), encode(record))
    catalog.algorithms = directory().algorithms
    return catalog


def make_spec(
    query: str | None,
    partition: Sequence[str] = ("tbname",),
    trigger: Trigger | None = None,
    source: Source | None = METERS_SOURCE,
    where: str | None = None,
    **more: Any,
) -> StreamSpec:
    prefix = "CREATE STREAM s\n  INTO o AS "
    sql = f"CREATE STREAM s NOTIFY WHERE {where} INTO o AS {query}" if where else f"{prefix}{query}"
    places = Places(
        position_at(sql, sql.index(" AS ") + 4), position_at(sql, sql.index(" WHERE ") + 7) if where else None
    )
    return StreamSpec(
        7, "d", "s", sql, trigger or Interval(Duration(10, "s"), Duration(10, "s")), source, tuple(partition),
        query=query, notify=Notify(("ws://x",), where=where) if where else None, places=places, **more,
    )  # fmt: skip


@dataclass
class World:
    """Rows of the tables (with ``tbname`` and tags), and the means to run plans over them."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    catalog: Catalog = field(default_factory=make_catalog)
    tables: dict[str, Table] = field(default_factory=lambda: {t.name: t for t in (METERS, NT, ODD, MICRO)})

    def fill(self, seed: int, count: int = 60) -> None:
        """Rows of all tables, NULLs and equal times among them."""
        rng = random.Random(seed)
        for child in CHILDREN:
            self.insert(
                child.name,
                [
                    {
                        "ts": T0 + 1_000 * at,
                        "v": rng.choice([None, *range(-5, 20)]),
                        "c0": rng.choice([None, 0.0, 0.5, -2.25, 7.75]),
                        "s": rng.choice([None, "a", "b", "it's"]),
                        "b": rng.choice([None, True, False]),
                    }
                    for at in sorted(rng.sample(range(60), count // 4))
                ],
            )
        self.insert(
            "nt",
            [
                {"ts": T0 + 500 * at, "v": rng.choice([None, 1, 2, 3]), "w": rng.choice([None, 1.5, 2.5])}
                for at in sorted(rng.sample(range(120), count // 2))
            ],
        )

    def insert(self, table: str, rows: list[Row]) -> None:
        """Rows of a normal or child table."""
        found = self.catalog.find("d", table) or self.catalog.find("u", table)
        assert found is not None
        definition, child = found
        tags = dict(zip((t.name for t in definition.tags), child.tags if child else (), strict=False))
        self.rows.setdefault(definition.name, []).extend({**row, **tags, "tbname": table} for row in rows)

    def frame(
        self, table: Table, rows: Sequence[Row], columns: Sequence[str], tids: Sequence[int] | None = None
    ) -> pl.DataFrame:
        types = {c.name: polars_type(c.type) for c in (*table.columns, *table.tags)} | {"tbname": pl.String}
        data = {n: pl.Series([row[n] for row in rows], dtype=types[n]) for n in columns}
        head = {} if tids is None else {"_tid": pl.Series(tids, dtype=pl.Int32)}
        return pl.DataFrame({**head, **data})

    def slice(self, use: SourceUse, trigger: Mapping[str, Any]) -> list[Row]:
        """The rows that a source must hold for a trigger, and no others."""
        assert use.table is not None
        low = use.low.evaluate(trigger) if use.low else None
        high = use.high.evaluate(trigger) if use.high else None
        equals = dict(use.tag_equals)
        spec, time = self.spec, use.table.key.name
        if use.group_tags:
            equals |= {tag: i for i, tag in enumerate(spec.partition, 1)}
        return [
            row
            for row in self.rows.get(use.table.name, [])
            if (low is None or row[time] >= low)
            and (high is None or row[time] <= high)
            and (use.child is None or row["tbname"] == use.child)
            and (not use.own_table or row["tbname"] == trigger["_tbname"])
            and all(row[tag] is not None and row[tag] == trigger[f"_g{n}"] for tag, n in equals.items())
        ]

    spec: StreamSpec = field(default_factory=lambda: make_spec("select 1"))

    def plan(self, query: str, **more: Any) -> Plan:
        self.spec = make_spec(query, **more)
        return plan_stream(self.spec, self.catalog)

    def set_rows(self, plan: Plan, trig: pl.DataFrame) -> list[tuple[Any, ...]]:
        """The rows of the set-oriented plan, ``_tid`` first."""
        assert plan.set_tree is not None
        triggers = trig.rows(named=True)
        relations = {"_trig": trig}
        for use in plan.sources:
            assert use.table is not None
            pairs = [(t["_tid"], row) for t in triggers for row in self.slice(use, t)]
            relations[use.relation] = self.frame(
                use.table, [r for _, r in pairs], use.columns, [t for t, _ in pairs]
            )
        return run(plan.set_tree, relations)

    def one_rows(self, plan: Plan, trig: pl.DataFrame) -> list[tuple[Any, ...]]:
        """The rows of the one-by-one plan for every trigger, ``_tid`` first."""
        # written once, for all triggers: a trigger's constants take the places of its placeholders
        marked = duckdb_sql(plan.one_tree.transform(marker), own=True)
        found: list[tuple[Any, ...]] = []
        for trigger in trig.rows(named=True):
            relations = {
                use.relation: self.frame(use.table, self.slice(use, trigger), use.columns)
                for use in plan.sources
                if use.table is not None
            }
            sql = MARKED.sub(lambda mark, row=trigger: literal(row[column_of(mark[1])]), marked)
            found += [(trigger["_tid"], *row) for row in run(sql, relations)]
        return found

    def query(self, sql: str, timezone: str = "UTC", now: int = T0 * 1_000_000) -> list[tuple[Any, ...]]:
        """A user's query, run."""
        plan = plan_query(sql, "d", self.catalog, timezone, now)
        return run(duckdb_sql(plan.one_tree, own=True), self.whole(plan))

    def whole(self, plan: Plan) -> dict[str, pl.DataFrame]:
        """The relations of a plan without triggers."""
        return {
            use.relation: self.frame(use.table, self.slice(use, {}), use.columns)
            for use in plan.sources
            if use.table is not None
        }

    def oracle(self, sql: str, trig: pl.DataFrame) -> list[tuple[Any, ...]]:
        """DuckDB's own answer over the whole tables and ``_trig``."""
        relations = {"_trig": trig}
        for name, rows in self.rows.items():
            table = self.tables[name]
            columns = [c.name for c in (*table.columns, *table.tags)] + ["tbname"]
            relations[name] = self.frame(table, rows, columns)
        return run(sql, relations)


MARKED = re.compile("⟨([^⟩]+)⟩")


def marker(node: exp.Expr) -> exp.Expr:
    """What stands for a placeholder in SQL that is written once."""
    return exp.Var(this=f"⟨{node.name}⟩") if isinstance(node, exp.Placeholder) else node


def literal(value: Any) -> str:
    """A constant in DuckDB's SQL, in brackets: it may be negative."""
    return f"({exp.convert(value).sql('duckdb')})"


SPARK_MACROS = (
    "timestamp_millis(s) AS make_timestamp(s * 1000)", "timestamp_micros(s) AS make_timestamp(s)",
    "unix_millis(t) AS epoch_us(t) // 1000", "unix_micros(t) AS epoch_us(t)",  # whole numbers of ms
    "from_utc_timestamp(t, zone) AS timezone(zone, timezone('UTC', t))",
    "to_utc_timestamp(t, zone) AS timezone('UTC', timezone(zone, t))",
    "add_months(d, n) AS CAST(d + to_months(n) AS DATE)",
    "unix_date(d) AS date_diff('day', DATE '1970-01-01', d)",
    "get_json_object(j, path) AS json_extract_string(j, path)",
    "format_string(f, x) AS printf(f, x)", "locate(a, b) AS strpos(b, a)",
    "substring_index(s, d, n) AS CASE WHEN n = 0 OR d = '' THEN left(s, 0) WHEN n > 0 "
    "THEN array_to_string(string_split(s, d)[:n], d) "
    "ELSE array_to_string(string_split(s, d)[-least(-n, len(string_split(s, d))):], d) END",
    "split(s, r) AS regexp_split_to_array(s, r)",
    "array_position(l, x) AS CASE WHEN x IS NOT NULL AND l IS NOT NULL "
    "THEN coalesce(list_position(l, x), 0) END",
    "conv(s, a, b) AS CAST(CAST('0x' || s AS BIGINT) AS VARCHAR)", "octet_length(s) AS strlen(s)",
    "sha2(s, n) AS CASE WHEN n IN (0, 256) THEN sha256(s) END",
    "crc32(b) AS CASE WHEN b IS NOT NULL THEN xor(4294967295, list_reduce(list_concat([4294967295], "
    "list_transform(range(0, 4 * strlen(hex(b))), "
    "lambda k: ((('0x' || substr(hex(b), 2 * (k // 8) + 1, 2))::BIGINT >> (k % 8))"
    " & 1)::BIGINT)), lambda c, x: xor(c >> 1, CASE WHEN xor(c, x) & 1 = 1 THEN 3988292384 ELSE 0 END))) END",
    "rand() AS random()", "try_to_binary(s, f) AS TRY(from_base64(s))",
    "make_valid_utf8(s) AS decode(CAST(s AS BLOB), 'replace')",
    "element_at(l, i) AS list_extract(l, i)", "percentile(x, p) AS quantile_cont(x, p)",
    "arrays_zip(a, b) AS list_transform(range(1, len(a) + 1), lambda i: {'_rows': a[i], '_found': b[i]})",
    "raise_error(e) AS error(e)",
    "mode(x, same) AS list_sort(list_transform(map_entries(histogram(x)), "
    "lambda e: {'n': -CAST(e.value AS BIGINT), 'x': e.key}))[1].x",
)  # fmt: skip
"""Spark's functions that DuckDB lacks or has under another name."""


ROWS = "STRUCT(n BIGINT, t BIGINT, v DOUBLE)[]"
ANALYSES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    # DuckDB would evaluate annotations, and gives chunks
    anomaly.FUNCTION: (
        lambda rows, asked: columns.find_anomalies(rows.combine_chunks(), asked),
        "STRUCT(w INT, e VARCHAR)[]",
    ),
    forecast.FUNCTION: (
        lambda rows, asked: columns.forecast(rows.combine_chunks(), asked),
        "STRUCT(t BIGINT, v DOUBLE, low DOUBLE, high DOUBLE, e VARCHAR)[]",
    ),
}
"""The functions that Spark calls in Python."""


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all tests of a process, as it takes 40 ms to make; a ``cursor`` has its own relations."""
    made = duckdb.connect(config={"threads": "1"})
    made.execute("PRAGMA disable_optimizer")
    for macro in SPARK_MACROS:
        made.execute(f"CREATE OR REPLACE MACRO {macro}")
    for name, (function, result) in ANALYSES.items():
        made.create_function(name, function, [ROWS, "VARCHAR"], result, type="arrow")
    return made


def escaped(node: exp.Expr) -> exp.Expr:
    """LIKE with the backslash for escape, which is Spark's default."""
    if not isinstance(node, exp.Like) or isinstance(node.parent, exp.Escape):
        return node
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def duckdb_sql(tree: exp.Expr, own: bool = False) -> str:
    """``own``: the tree is nobody else's, and may be changed. Most of these tests' time goes into copies."""
    mine = tree if own else tree.copy()
    if mine.find(exp.Like) is not None:
        mine = mine.transform(escaped, copy=False)
    return mine.sql("duckdb", identify=True, copy=False)


def run(tree: exp.Expr | str, relations: Mapping[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    """Run a tree (or DuckDB's SQL) on DuckDB; floats come rounded."""
    sql = tree if isinstance(tree, str) else duckdb_sql(tree)
    connection = database()
    for name, frame in relations.items():
        connection.register(name, frame.to_arrow())
    try:
        found = connection.execute(sql).fetchall()
    finally:
        for name in relations:
            connection.unregister(name)
    return [tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in found]


def window_events(
    spec: StreamSpec, windows: Sequence[tuple[int, int]], groups: Sequence[Group] | None = None
) -> list[TriggerEvent]:
    """Events that close these windows for every group."""
    if groups is None:
        groups = groups_of(spec)
    return [
        TriggerEvent(
            trigger_id(7, g.id, start), "CLOSE", "LIVE", g, start, end, i, (T0 + i) * 1_000_000, next=end + 10
        )
        for i, (g, (start, end)) in enumerate((g, w) for g in groups for w in windows)
    ]


def groups_of(spec: StreamSpec) -> list[Group]:
    """The groups of the world's child tables under a stream's grouping."""
    if not spec.partition:
        return [Group(0, (), None)]
    keys: dict[tuple[Any, ...], Group] = {}
    for child in CHILDREN:
        tags = dict(zip((t.name for t in METERS.tags), child.tags, strict=True)) | {"tbname": child.name}
        key = tuple(tags[name] for name in spec.partition)
        table = child.name if "tbname" in spec.partition else None
        keys.setdefault(key, Group(len(keys) + 1, key, table))
    return list(keys.values())


TRIGGERS: dict[str, Trigger] = {
    "interval": Interval(Duration(10, "s"), Duration(10, "s")),
    "session": Session(Duration(5, "s")),
    "sliding": Sliding(Duration(10, "s")),
    "period": Period(Duration(10, "s")),
}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.fill(seed=1)
    yield made


@pytest.fixture(name="run")
def run_fixture() -> Any:
    """Runs a tree over relations."""
    return run


@pytest.fixture
def kit() -> Any:
    """The helpers of this module, for the tests beside it."""
    return Kit


class Kit:
    World = World
    TRIGGERS = TRIGGERS
    T0 = T0
    NT = NT
    METERS = METERS
    TIMESTAMP = TIMESTAMP
    Options = Options
    Source = Source
    make_spec = staticmethod(make_spec)
    window_events = staticmethod(window_events)
    groups_of = staticmethod(groups_of)
    trigger_relation = staticmethod(trigger_relation)
    make_catalog = staticmethod(make_catalog)
