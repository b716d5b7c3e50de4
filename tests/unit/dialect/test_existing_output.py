"""INTO a table that exists: its texts must be as long as the result's types."""

from __future__ import annotations

import pytest

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.tdengine import lower, parse
from millrace_core.dialect.tdengine.output import complete
from millrace_core.errors import SqlError
from millrace_core.language.statements import CreateStream
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import ResultColumn
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType

INT, TS = DataType("INT"), Column("ts", TIMESTAMP)


def completed(catalog: Catalog, rest: str, found: tuple[ResultColumn, ...]) -> None:
    statement = parse(f"CREATE STREAM s {rest}")
    assert isinstance(statement, CreateStream)
    complete(lower(statement, catalog, "d", "UTC"), statement, found, catalog)


@pytest.mark.parametrize(("kept", "given", "fits"), [
    ("VARCHAR(40)", "VARCHAR(40)", True), ("VARCHAR(41)", "VARCHAR(40)", True),
    ("VARCHAR(39)", "VARCHAR(40)", False), ("VARCHAR(3)", "VARCHAR(40)", False),
    ("NCHAR(4)", "NCHAR(4)", True), ("NCHAR(3)", "NCHAR(4)", False), ("NCHAR(40)", "VARCHAR(4)", False),
    ("VARBINARY(4)", "VARBINARY(5)", False), ("BIGINT", "BIGINT", True),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["column", "tag"])
def test_texts_of_an_existing_table_are_long_enough(kept: str, given: str, fits: bool, kind: str) -> None:
    def type_of(text: str) -> DataType:
        name, _, length = text.partition("(")
        return DataType(name, int(length[:-1]) if length else None)

    own, there = type_of(given), type_of(kept)
    result = (TS, Column("x", own if kind == "column" else BIGINT))
    tags = (Column("k", own if kind == "tag" else INT),)
    old_columns = (TS, Column("x", there if kind == "column" else BIGINT))
    old_tags = (Column("k", there if kind == "tag" else INT),)
    found = Catalog()
    for record in (
        Database("d"), Table("d", "st", "super", 1, "ms", (TS, Column("v", INT)), tags),
        Table("d", "o", "super", 2, "ms", old_columns, old_tags),
    ):  # fmt: skip
        found.apply(key_of(record), encode(record))
    rest = "INTERVAL(1s) SLIDING(1s) FROM st PARTITION BY k INTO o AS SELECT ts, x FROM t"
    columns = tuple(ResultColumn(column.name, column.type) for column in result)
    if fits:
        completed(found, rest, columns)
        return
    with pytest.raises(SqlError) as raised:
        completed(found, rest, columns)
    name = "x" if kind == "column" else "k"
    assert f"its {kind} {name} is {there}" in raised.value.message and str(own) in raised.value.message
    assert raised.value.position is not None
