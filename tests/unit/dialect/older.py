"""Streams of the older dialect over a few tables: from their text to what they mean."""

from __future__ import annotations

from millrace_core.calc.filling import query_of
from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.dialect.legacy import lower
from millrace_core.errors import Position
from millrace_core.language.statements import CreateLegacyStream
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.sub_tables import GROUP_TAG
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import plan_stream

INT, BIGINT, TEXT = DataType("INT"), DataType("BIGINT"), DataType("VARCHAR", 32)
FRONT = FRONT_ENDS["tdengine"]
parse = FRONT.parse


def tables() -> Catalog:
    """A database ``d``: normal tables ``src`` and ``ck`` (with a composite key), super tables ``st`` (a child
    ``d1``), ``js``, ``dst``, ``wide``, ``kept`` (made for a stream before), a virtual table ``vt``."""
    time = Column("ts", TIMESTAMP)
    made = Catalog()
    for record in (
        Database("d", "ms"),
        Table("d", "src", "normal", 1, "ms",
              (time, Column("v", INT), Column("note", TEXT), Column("at", TIMESTAMP))),
        Table("d", "ck", "normal", 2, "ms", (time, Column("seq", INT, composite_key=True), Column("v", INT))),
        Table("d", "st", "super", 3, "ms", (time, Column("v", INT), Column("w", INT)), (Column("k", INT),)),
        Child("d", "st", "d1", (1,)),
        Table("d", "js", "super", 4, "ms", (time, Column("v", INT)), (Column("info", DataType("JSON")),)),
        Table("d", "dst", "super", 5, "ms", (time, Column("n", BIGINT)), (Column("dev", TEXT),)),
        Table("d", "wide", "super", 6, "ms", (time, Column("x", INT), Column("y", INT), Column("z", BIGINT)),
              (Column("origin", TEXT), Column("extra", INT))),
        Table("d", "vt", "normal", 7, "ms", (time, Column("v", INT)), virtual=True, origins=(None, None)),
        Table("d", "kept", "super", 8, "ms", (time, Column("n", BIGINT)), (GROUP_TAG,)),
        Table("d", "keyed", "super", 9, "ms", (time, Column("seq", INT, composite_key=True)), (GROUP_TAG,)),
    ):  # fmt: skip
        made.apply(key_of(record), encode(record))
    return made


def stream(catalog: Catalog, sql: str) -> StreamSpec:
    """What a statement means, before its query is planned."""
    statement = parse(sql)
    assert isinstance(statement, CreateLegacyStream), statement
    return lower(statement, catalog, "d", "UTC")


def accepted(catalog: Catalog, sql: str) -> StreamSpec:
    """The stream that CREATE STREAM would make."""
    statement = parse(sql)
    spec = FRONT.lower(statement, catalog, "d", "UTC")
    if spec.filled is not None:
        plan_stream(query_of(spec), catalog)
    return FRONT.complete(spec, statement, plan_stream(spec, catalog).result, catalog)


def create(options: str, query: str, into: str = "INTO o") -> str:
    return f"CREATE STREAM s {options} {into} AS {query}"


def place(sql: str, text: str, *, last: bool = False) -> Position:
    """Where a part of a statement begins."""
    offset = sql.rindex(text) if last else sql.index(text)
    line = sql.count("\n", 0, offset)
    return Position(line + 1, offset - (sql.rfind("\n", 0, offset) + 1) + 1)
