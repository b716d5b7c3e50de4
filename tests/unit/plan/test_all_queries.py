"""Every query of the conformance cases, and a call of every function: both plans give the same rows.

The tables of a case get rows that are made up, so that triggers have something to see. A user's query has no
set-oriented plan of its own; made set-wise for three sets of rows it must give each what it gives alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from sqlglot import exp

from millrace_analytics import directory
from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.errors import MillraceError
from millrace_core.language import statements as st
from millrace_core.language.names import QualifiedName
from millrace_core.language.query import parse_query
from millrace_core.language.times import TimeContext
from millrace_core.language.values import literal_value
from millrace_core.model.schema import TICKS_PER_SECOND, Child, Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan, plan_query, plan_stream
from millrace_core.plan.aggregates.table import AGGREGATES
from millrace_core.plan.functions.scalar import FUNCTIONS
from millrace_core.plan.series.table import SERIES
from millrace_core.plan.shape import set_wise
from millrace_core.plan.system.streams import News
from millrace_core.plan.system.tables import system_rows
from millrace_core.wire.events import Group

from ...conftest import examples

CASES = sorted(
    path
    for path in (Path(__file__).parents[2] / "conformance" / "cases").glob("**/*.yaml")
    if "dialect: iotdb" not in path.read_text()
)
FRONT = FRONT_ENDS["tdengine"]
EVERY = 100 // examples(100)
"""One case in this many is run, the others only planned: all of them take 25 s of CPU."""
NOT_PLANNED: dict[str, str] = {}
"""Queries (case: text) that no plan can be compared for, and why."""
T0 = 1_767_225_600  # 2026-01-01 00:00:00 UTC, in seconds


def _catalog() -> Catalog:
    made = Catalog()
    made.algorithms = directory().algorithms
    return made


@dataclass
class Stage:
    """What a case has made so far, and the queries found in it, with the catalog as it was then."""

    catalog: Catalog = field(default_factory=_catalog)
    database: str = "c"
    timezone: str = "UTC"
    outputs: list[Table] = field(default_factory=list)
    """Super tables that streams write to, in the order of the streams."""

    def apply(self, *records: Any) -> None:
        for record in records:
            self.catalog.apply(key_of(record), encode(record))

    def run(self, sql: str) -> Plan | tuple[StreamSpec, Plan] | None:
        """Carry a statement out, as far as plans depend on it; the plans of a query or stream."""
        match FRONT.parse(sql):
            case st.CreateDatabase() as made:
                self.apply(Database(made.name.text, made.precision))
            case st.UseDatabase(name):
                self.database = name.text
            case st.CreateTable() as made:
                self._table(made)
            case st.CreateChildren() | st.CreateVirtualChild() | st.Insert() as made:
                for child in born(made):
                    self._child(child)
            case st.AlterTable() as altered:
                self._alter(altered)
            case st.Query(text):
                self._grow(text)
                return plan_query(text, self.database, self.catalog, self.timezone, T0 * 1_000_000_000)
            case st.CreateStream() | st.CreateLegacyStream() as made:
                return self._stream(made)
        return None

    def _database(self, name: QualifiedName) -> str:
        return name.db or self.database

    def _table(self, made: st.CreateTable) -> None:
        db = self._database(made.name)
        columns, tags = (
            tuple(Column(d.name.text, d.type, d.composite_key) for d in found)
            for found in (made.columns, made.tags)
        )
        kind = "super" if tags else "normal"
        self.apply(
            Table(db, made.name.name, kind, len(self.catalog.tables) + 1,
                  self.catalog.databases[db].precision, columns, tags, virtual=made.virtual)
        )  # fmt: skip

    def _child(self, made: st.ChildDef) -> None:
        table = self.catalog.tables[self._database(made.using), made.using.name]
        names = [name.text for name in made.tag_names] or [tag.name for tag in table.tags]
        session = TimeContext(table.precision, self.timezone, T0 * 1_000_000_000)
        given = {
            name: literal_value(literal, column, session)
            for name, literal in zip(names, made.tags, strict=True)
            if (column := table.tag(name)) is not None
        }
        values = tuple(given.get(tag.name) for tag in table.tags)
        self.apply(Child(self._database(made.name), table.name, made.name.name, values))

    def _alter(self, altered: st.AlterTable) -> None:
        table = self.catalog.tables.get((self._database(altered.name), altered.name.name))
        if table is None:
            return
        columns, tags = list(table.columns), list(table.tags)
        match altered.change:
            case st.Add(target, definition):
                made = Column(definition.name.text, definition.type)
                (tags if target == "tag" else columns).append(made)
            case st.Remove(target, name):
                found = tags if target == "tag" else columns
                found[:] = [column for column in found if column.name != name.text]
            case st.Rename(target, name, new):
                found = tags if target == "tag" else columns
                found[:] = [
                    Column(new.text, c.type, c.composite_key) if c.name == name.text else c for c in found
                ]
        self.apply(
            Table(table.db, table.name, table.kind, table.uid, table.precision, tuple(columns), tuple(tags))
        )

    def _grow(self, text: str) -> None:
        """A table that nobody made is a sub-table that the last stream with such output would have made."""
        for node in parse_query(text).find_all(exp.Table):
            db = node.db or self.database
            if db in self.catalog.databases and self.catalog.find(db, node.name) is None and self.outputs:
                table = self.outputs[-1]
                self.apply(Child(db, table.name, node.name, tuple(None for _ in table.tags)))

    def _stream(self, made: st.CreateStream | st.CreateLegacyStream) -> tuple[StreamSpec, Plan] | None:
        spec = FRONT.lower(made, self.catalog, self.database, self.timezone)
        plan = plan_stream(spec, self.catalog) if spec.query else None
        spec = FRONT.complete(spec, made, plan.result if plan else (), self.catalog)
        if spec.output is not None and (spec.output.db, spec.output.table) not in self.catalog.tables:
            precision = self.catalog.databases[spec.output.db].precision
            tags = tuple(tag.column for tag in spec.output.tags)
            kind = "super" if tags else "normal"
            self.apply(
                Table(spec.output.db, spec.output.table, kind, len(self.catalog.tables) + 1, precision,
                      spec.output.columns, tags)
            )  # fmt: skip
        if spec.output is not None and spec.output.tags:
            self.outputs.append(self.catalog.tables[spec.output.db, spec.output.table])
        return None if plan is None else (spec, plan)


def born(made: st.CreateChildren | st.CreateVirtualChild | st.Insert) -> list[st.ChildDef]:
    """The child tables that a statement makes."""
    match made:
        case st.CreateChildren(children):
            return list(children)
        case st.CreateVirtualChild(child):
            return [child]
    return [table.using for table in made.tables if table.using is not None]


def statements(case: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """The SQL of a case's steps, and whether it is expected to be refused."""
    for step in case["steps"]:
        for key in ("sql", "expect", "stays", "error"):
            found = step.get(key)
            if isinstance(found, dict) and "run" in found:
                found = found["run"]
            texts = found if isinstance(found, list) else [found] if found is not None else []
            for text in texts:
                yield text["sql"] if isinstance(text, dict) else text, key == "error"


def value(column: Column, rng: random.Random, precision: str) -> Any:
    kind = column.type.name
    if rng.random() < 0.15:
        return None
    if column.type.info.integer and kind != "TIMESTAMP":
        return rng.randrange(0, 13)
    match kind:
        case "TIMESTAMP":
            return (T0 + rng.randrange(60)) * TICKS_PER_SECOND[precision]
        case "BOOL":
            return rng.random() < 0.5
        case "FLOAT" | "DOUBLE":
            return rng.randrange(-8, 40) / 4
        case "VARBINARY":
            return bytes([rng.randrange(256)])
    return rng.choice(["a", "b", "on", "off", "7"])


def fill(world: Any, catalog: Catalog) -> None:
    """Rows of every table: at most two dozen seconds of a minute, NULLs among the values."""
    for table in catalog.tables.values():
        world.tables[table.name] = table
        children = [c for c in catalog.children.values() if (c.db, c.table) == (table.db, table.name)]
        owners = children if table.kind == "super" else [Child(table.db, table.name, table.name, ())]
        rows = world.rows.setdefault(table.name, [])
        for child in owners:
            rng = random.Random(f"{table.name}/{child.name}")
            # a table that has lost a tag may have children that have not
            tags = dict(zip((tag.name for tag in table.tags), child.tags, strict=False))
            for second in sorted(rng.sample(range(60), 24)):
                row = {column.name: value(column, rng, table.precision) for column in table.columns}
                row[table.key.name] = (T0 + second) * TICKS_PER_SECOND[table.precision]
                rows.append({**row, **tags, "tbname": child.name})


def groups(spec: StreamSpec, catalog: Catalog) -> list[Group]:
    if not spec.partition or spec.source is None:
        return [Group(0, (), None)]
    table = spec.source.table
    children = [c for c in catalog.children.values() if (c.db, c.table) == (table.db, table.name)]
    if table.kind != "super":
        children = [Child(table.db, table.name, table.name, ())]
    if spec.source.child:
        children = [child for child in children if child.name == spec.source.child]
    found: dict[tuple[Any, ...], Group] = {}
    for child in children:
        tags = dict(zip((t.name for t in table.tags), child.tags, strict=True)) | {"tbname": child.name}
        key = tuple(tags.get(name) for name in spec.partition)
        own = child.name if "tbname" in spec.partition else None
        found.setdefault(key, Group(len(found) + 1, key, own))
    return list(found.values())


def compare_stream(kit: Any, stage: Stage, spec: StreamSpec, plan: Plan) -> None:
    world = kit.World(catalog=stage.catalog, tables={})
    fill(world, stage.catalog)
    world.spec = spec
    precision = spec.source.table.precision if spec.source else "ms"
    ticks = TICKS_PER_SECOND[precision]
    windows = [((T0 + a) * ticks, (T0 + b) * ticks) for a, b in ((0, 10), (5, 31), (59, 59), (70, 80))]
    trig = kit.trigger_relation(spec, kit.window_events(spec, windows, groups(spec, stage.catalog)[:2]))
    assert same(world.set_rows(plan, trig), world.one_rows(plan, trig))


def compare_query(kit: Any, run: Any, stage: Stage, plan: Plan) -> None:
    """For three triggers: all rows, every second one, none."""
    world = kit.World(catalog=stage.catalog, tables={})
    fill(world, stage.catalog)
    at_once: dict[str, pl.DataFrame] = {"_trig": pl.DataFrame({"_tid": [0, 1, 2]}, schema={"_tid": pl.Int32})}
    alone: list[dict[str, pl.DataFrame]] = [{}, {}, {}]
    for use in plan.sources:
        if use.table is None:
            whole = system_rows(use.relation, stage.catalog, News()).select(use.columns)
        else:
            whole = world.frame(use.table, world.slice(use, {}), use.columns)
        parts = [whole, whole.gather_every(2), whole.clear()]
        for i, part in enumerate(parts):
            alone[i][use.relation] = part
        numbered = [p.select(pl.lit(i, pl.Int32).alias("_tid"), pl.all()) for i, p in enumerate(parts)]
        at_once[use.relation] = pl.concat(numbered)
    found = run(set_wise(plan.one_tree), at_once)
    each = [(i, *row) for i in range(3) for row in run(plan.one_tree.copy(), alone[i])]
    assert same(found, each)


def same(a: Sequence[tuple[Any, ...]], b: Sequence[tuple[Any, ...]]) -> bool:
    return sorted(a, key=repr) == sorted(b, key=repr)


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_queries_of_a_case(path: Path, kit: Any, run: Any) -> None:
    case = yaml.load(path.read_text(), yaml.CSafeLoader)
    stage = Stage(timezone=case.get("timezone", "UTC"))
    precision = case.get("precision", "ms")
    stage.apply(Database("c", precision))
    seen: set[str] = set()
    for text, refused in statements(case):
        sql = text.replace("{db}", "c").replace("{notify}", "ws://h:1/x")
        if refused or sql in seen:
            continue
        seen.add(sql)
        try:
            found = stage.run(sql)
        except MillraceError as error:
            assert f"{path.stem}: {sql.strip()}" in NOT_PLANNED, f"{sql}: {error.message}"
            continue
        if found is None or CASES.index(path) % EVERY:
            continue
        if isinstance(found, Plan):
            compare_query(kit, run, stage, found)
        else:
            compare_stream(kit, stage, *found)


ARGUMENTS = {
    "number": "v", "integer": "v", "text": "s", "bytes": "s", "code": "v", "time": "ts", "extent": "v",
    "duration": "1s", "condition": "v > 1", "any": "v",
}  # fmt: skip
CALLS = {
    "trim": "trim(s)", "to_char": "to_char(ts, 'yyyy')", "to_timestamp": "to_timestamp(s, 'yyyy')",
    "substring_index": "substring_index(s, 't', 1)",
    "to_json": """to_json('{"a": 1}')""", "find_in_set": "find_in_set(s, 'a,b')", "rand": "rand(1)",
    "sha2": "sha2(s, 256)", "from_base64": "from_base64(to_base64(s))", "to_iso8601": "to_iso8601(ts)",
    "week": "week(ts, 3)", "round": "round(c0, 1)", "to_unixtimestamp": "to_unixtimestamp('2026-01-01')",
    "percentile": "percentile(v, 50)", "apercentile": "apercentile(v, 20)", "cols": "cols(max(v), ts)",
    "histogram": "histogram(v, 'user_input', '[0, 5, 10]', 0)", "group_concat": "group_concat(s, ',')",
    "leastsquares": "leastsquares(v, 1, 1)", "elapsed": "elapsed(ts, 1s)", "twa": "twa(v)",
}  # fmt: skip
"""Calls whose arguments must be constants or more than one of a kind."""
OF_ROWS = {
    "top": "top(v, 2)", "bottom": "bottom(v, 2)", "sample": "sample(v, 3)", "tail": "tail(v, 2, 1)",
    "unique": "unique(s)", "diff": "diff(v, 1)", "derivative": "derivative(v, 1s, 1)", "mavg": "mavg(v, 3)",
    "csum": "csum(v)", "statecount": "statecount(v, 'GE', 3)", "interp": "interp(v)",
    "stateduration": "stateduration(v, 'LT', 9, 1s)",
}  # fmt: skip


def call_of(name: str, least: int, kinds: tuple[str, ...]) -> str:
    if name in CALLS:
        return CALLS[name]
    args = [ARGUMENTS[kinds[min(i, len(kinds) - 1)]] for i in range(least)]
    return f"{name}({', '.join(args)})"


NOT_COMPARED = {"rand": "gives other numbers in every run"}


@pytest.mark.parametrize("name", [n for n in (*FUNCTIONS, *AGGREGATES, *SERIES) if n not in NOT_COMPARED])
def test_both_plans_of_a_function(name: str, world: Any, kit: Any, run: Any) -> None:
    stage = Stage(catalog=world.catalog, database="d")
    row = FUNCTIONS.get(name) or AGGREGATES.get(name)
    call = OF_ROWS[name] if row is None else call_of(name, row.least, row.kinds)
    tail = " RANGE('2026-01-01', '2026-01-01 00:01:00') EVERY(7s) FILL(PREV)" if name == "interp" else ""
    part = "" if name in FUNCTIONS else " PARTITION BY tbname"
    plan = plan_query(f"SELECT {call} AS x FROM meters{part}{tail}", "d", stage.catalog, "UTC", 0)
    compare_query(kit, run, stage, plan)
