"""INSERT and DELETE."""

from __future__ import annotations

from collections.abc import Iterator

from millrace_core.dialect.tdengine.parse_tables import using_child
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.cursor import Cursor
from millrace_core.language.rows import read_rows
from millrace_core.language.statements import (
    Bound,
    Delete,
    Insert,
    InsertTable,
    Literal,
    Name,
    Operator,
    QualifiedName,
)
from millrace_core.language.words import TokenKind

_FLIPPED: dict[Operator, Operator] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def insert(c: Cursor) -> Insert:
    c.expect("into")
    tables = [_table(c)]
    while c.take(",") or c.peek().kind in (TokenKind.WORD, TokenKind.QUOTED):
        tables.append(_table(c))
    return Insert(tuple(tables))


def _table(c: Cursor) -> InsertTable:
    name = c.qualified("a table name")
    columns: tuple[Name, ...] = ()
    using = None
    while not c.take("values"):
        if c.at("using") and using is None:
            using = using_child(c, name)
        elif c.at("(") and not columns:
            columns = c.listed(lambda: c.name("a column name"))
            _distinct(columns)
        else:
            raise c.unexpected("VALUES")
    return InsertTable(name, read_rows(c, len(columns) or None), columns, using)


def _distinct(columns: tuple[Name, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.text in seen:
            raise SqlError(
                ErrorCode.INVALID_VALUE, f"the column {column.text} is given twice", column.position
            )
        seen.add(column.text)


def delete(c: Cursor) -> Delete:
    """``DELETE FROM t [WHERE ts … AND …]``: a range of time, and child tables by name; nothing else."""
    c.expect("from")
    name: QualifiedName = c.qualified("a table name")
    if not c.take("where"):
        return Delete(name)
    bounds: list[Bound] = []
    tables: tuple[str, ...] | None = None
    for found in _predicates(c):
        if isinstance(found, Bound):
            bounds.append(found)
        else:
            tables = found if tables is None else tuple(t for t in tables if t in found)
    return Delete(name, tuple(bounds), tables)


def _predicates(c: Cursor) -> Iterator[Bound | tuple[str, ...]]:
    depth = 0
    while True:
        while c.take("("):
            depth += 1
        yield from _predicate(c)
        while depth and c.take(")"):
            depth -= 1
        if c.at("or") or c.at("not"):
            raise c.unexpected("AND (DELETE supports only a range of time)")
        if not c.take("and"):
            break
    if depth:
        raise c.unexpected(")")


def _predicate(c: Cursor) -> Iterator[Bound | tuple[str, ...]]:
    if c.peek().kind not in (TokenKind.WORD, TokenKind.QUOTED) or c.at("now") or c.at("today"):
        yield _flipped(c)
        return
    column = c.name("the time column or tbname")
    if c.take("."):
        column = c.name("the time column or tbname")
    if column.text == "tbname":
        yield _tables(c)
    elif c.take("between"):
        yield Bound(column, ">=", _operand(c))
        c.expect("and")
        yield Bound(column, "<=", _operand(c))
    else:
        yield Bound(column, _operator(c), _operand(c))


def _flipped(c: Cursor) -> Bound:
    """``value <operator> column``."""
    value = _operand(c)
    operator = _operator(c)
    column = c.name("the time column")
    return Bound(column, _FLIPPED[operator], value)


def _operator(c: Cursor) -> Operator:
    for operator in _FLIPPED:
        if c.take(operator):
            return operator
    raise c.unexpected("=, <, <=, > or >= (DELETE supports only a range of time)")


def _operand(c: Cursor) -> Literal:
    def ends() -> bool:
        return c.at("and") or c.at("or") or any(c.at(o) for o in _FLIPPED)

    text = c.until("a time", ends)
    return Literal(text.text, text.position)


def _tables(c: Cursor) -> tuple[str, ...]:
    if c.take("="):
        return (c.string("a table name in quotes").text,)
    c.expect("in")
    return tuple(name.text for name in c.listed(lambda: c.string("a table name in quotes")))
