"""The conformance cases about queries without streams, on DuckDB: the rows that a case expects, at once."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from millrace_conformance.values import same_rows
from millrace_core.dialect.tdengine import parse
from millrace_core.errors import MillraceError
from millrace_core.language import statements as st
from millrace_core.language.times import TimeContext
from millrace_core.language.values import insert_rows
from millrace_core.model.schema import Database, Table
from millrace_core.plan import Plan
from millrace_core.timeline import zone
from millrace_core.timeline.text import format_local

from .test_all_queries import T0, Stage

CASES = sorted((Path(__file__).parents[2] / "conformance" / "cases" / "query").glob("*.yaml"))
NOT_RUN = {"query-now-today": "asks what time it is now", "query-in-stream": "has a stream",
           "query-fill-in-stream": "has a stream", "query-refused-in-streams": "has streams"}  # fmt: skip


class Bench:
    """A case's tables and rows, and what its statements give."""

    def __init__(self, kit: Any, run: Any, precision: str, timezone: str) -> None:
        self.stage = Stage(timezone=timezone)
        self.stage.apply(Database("c", precision))
        self.world = kit.World(catalog=self.stage.catalog, tables={})
        self.execute_tree, self.precision, self.timezone = run, precision, timezone

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """:raises MillraceError: if it is refused."""
        statement = parse(sql)
        found = self.stage.run(sql)
        if isinstance(statement, st.Insert):
            for part in statement.tables:
                self._insert(part)
        return self._rows(found) if isinstance(found, Plan) else []

    def _insert(self, part: st.InsertTable) -> None:
        pair = self.stage.catalog.find("c", part.name.name)
        assert pair is not None
        table, child = pair
        self.world.tables[table.name] = table
        columns = insert_rows(part, table, TimeContext(table.precision, T0 * 1_000_000_000, self.timezone))
        fresh: list[dict[str, Any]] = [
            dict.fromkeys(c.name for c in table.columns) | dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
        tags = dict(zip((t.name for t in table.tags), child.tags, strict=True)) if child else {}
        rows = self.world.rows.setdefault(table.name, [])
        for row in fresh:
            row |= {**tags, "tbname": part.name.name}
            key = _key(table, row)
            rows[:] = [old for old in rows if _key(table, old) != key] + [row]
        rows.sort(key=lambda row: (row[table.key.name], row["tbname"]))

    def _rows(self, plan: Plan) -> list[tuple[Any, ...]]:
        for table in self.stage.catalog.tables.values():
            self.world.tables[table.name] = table
        where = zone(self.timezone)
        precisions = [plan.precision if c.type.name == "TIMESTAMP" else None for c in plan.result]

        def shown(value: Any, precision: Any) -> Any:
            if precision is not None and value is not None:
                return format_local(value, precision, where)
            return int(value) if isinstance(value, Decimal) else value

        found = self.execute_tree(plan.one_tree, self.world.whole(plan))
        return [tuple(map(shown, row, precisions)) for row in found]


def _key(table: Table, row: dict[str, Any]) -> tuple[Any, ...]:
    return row["tbname"], row[table.key.name]


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_rows_of_a_case(path: Path, kit: Any, run: Any) -> None:
    if path.stem in NOT_RUN:
        pytest.skip(NOT_RUN[path.stem])
    case = yaml.load(path.read_text().replace("{db}", "c"), yaml.CSafeLoader)
    bench = Bench(kit, run, case.get("precision", "ms"), case.get("timezone", "UTC"))
    for step in case["steps"]:
        given = step.get("sql", [])
        for sql in given if isinstance(given, list) else [given]:
            bench.execute(sql)
        if (expected := step.get("expect")) is not None:
            came = bench.execute(expected["sql"])
            rows = [tuple(row) for row in expected["rows"]]
            assert same_rows(rows, came, expected.get("ordered", True)), f"{expected['sql']}\n{came}"
        if (refused := step.get("error")) is not None:
            with pytest.raises(MillraceError) as error:
                bench.execute(refused["sql"])
            assert re.search(refused.get("match", ""), str(error.value)), f"{refused['sql']}\n{error.value}"


def test_no_case_is_left_out_for_nothing() -> None:
    assert set(NOT_RUN) <= {path.stem for path in CASES}
