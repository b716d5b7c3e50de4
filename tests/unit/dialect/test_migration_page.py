"""The page that walks from the older dialect to the newer one: its statements mean what EXPLAIN says of them,
and the conformance case that plays them has them as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.dialect.tdengine import explain
from millrace_core.language.statements import CreateTable
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import StreamSpec

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "MIGRATION.md").read_text()
CASE = ROOT / "tests" / "conformance" / "cases" / "own" / "older-and-newer.yaml"
TABLE, *STATEMENTS = re.findall(r"```sql\n(.*?)\n```", PAGE, re.DOTALL)
OLDER = [text.removeprefix("-- older\n") for text in STATEMENTS if text.startswith("-- older")]
NEWER = [text.removeprefix("-- newer\n") for text in STATEMENTS if text.startswith("-- newer")]
FRONT = FRONT_ENDS["tdengine"]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    made = FRONT.parse(TABLE)
    assert isinstance(made, CreateTable)
    columns, tags = (
        tuple(Column(one.name.text, one.type) for one in found) for found in (made.columns, made.tags)
    )
    catalog = Catalog()
    for record in (Database("power", "ms"), Table("power", "meters", "super", 1, "ms", columns, tags)):
        catalog.apply(key_of(record), encode(record))
    return catalog


def meaning(catalog: Catalog, sql: str) -> list[object]:
    spec: StreamSpec = FRONT.lower(FRONT.parse(sql), catalog, "power", "UTC")
    assert spec.query is not None and spec.output is not None
    plain = re.sub(r"[`()]", "", spec.query)  # names may be quoted, a sum may stand in parentheses
    return [
        spec.full_name, spec.trigger, spec.source, spec.partition, spec.options, spec.emission, spec.notify,
        plain, spec.output.subtable,
    ]  # fmt: skip


def test_there_are_five() -> None:
    assert (len(OLDER), len(NEWER)) == (5, 5)


@pytest.mark.parametrize(("older", "newer"), zip(OLDER, NEWER, strict=True))
def test_the_newer_statement_is_what_explain_gives(catalog: Catalog, older: str, newer: str) -> None:
    spec = FRONT.lower(FRONT.parse(older), catalog, "power", "UTC")
    assert meaning(catalog, newer) == meaning(catalog, explain.statement(spec))


def test_the_case_plays_them_as_they_stand_there() -> None:
    steps = yaml.load(CASE.read_text(), yaml.CSafeLoader)["steps"]
    played = [sql for step in steps for sql in ([step["sql"]] if isinstance(step.get("sql"), str) else
              step.get("sql", []))]  # fmt: skip
    of_the_run = [sql.replace("power.", "{db}.").replace("ws://localhost:8080/notify", "{notify}")
                  for sql in (TABLE, *OLDER, *NEWER)]  # fmt: skip
    names = re.compile(r"(?<=CREATE STREAM )(\w+_s)\b")
    wanted = [names.sub(r"{db}_\1", sql) if sql not in of_the_run[6:] else sql for sql in of_the_run]
    given = [" ".join(sql.split()) for sql in played]
    assert [" ".join(sql.split()) for sql in wanted if " ".join(sql.split()) not in given] == []
