"""ALTER TABLE: the columns and tags that a table then has, or why it cannot be altered (TDengine's rules)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.names import Literal, Name
from millrace_core.language.statements import (
    Add,
    AlterTable,
    ColumnDef,
    Modify,
    Remove,
    Rename,
    Target,
)  # fmt: skip
from millrace_core.language.times import TimeContext
from millrace_core.language.values import literal_value
from millrace_core.model.schema import Child, Column, Table

MOST_COLUMNS = 4096  # of a table, including its tags
MOST_TAGS = 128
RESIZABLE = ("VARCHAR", "NCHAR", "VARBINARY")
Columns = tuple[Column, ...]


def check_kind(table: Table, child: Child | None, statement: AlterTable) -> None:
    """:raises SqlError: if a table of this kind cannot be altered in this way."""
    name, change = statement.name, statement.change
    if statement.super_only and (child is not None or table.kind != "super"):
        raise _no(f"{name} is not a super table", name.position)
    target = getattr(change, "target", None)
    if child is not None:
        raise _no(f"{name} is a child table: its columns and tags are defined by {table.name}", name.position)
    if table.kind == "normal" and target == "tag":
        raise _no(f"{name} is a normal table: it has no tags", name.position)
    if table.kind == "super" and target == "column" and isinstance(change, Rename):
        raise _no(f"{name} is a super table: its columns cannot be renamed", name.position)


def alter(table: Table, statement: AlterTable) -> tuple[Columns, Columns]:
    """(columns, tags) after the change.

    :raises SqlError: if this change is not possible; the message names the column and what is allowed.
    """
    change = statement.change
    match change:
        case Add(target=target, definition=definition):
            return _put(table, target, (*_of(table, target), _added(table, target, definition)))
        case Remove(target=target, name=name):
            removed = _find(table, target, name)
            _check_removal(table, target, removed, name)
            return _put(table, target, tuple(c for c in _of(table, target) if c is not removed))
        case Modify(target=target, name=name):
            _check_longer(change, _find(table, target, name))
            return _swap(table, target, name, lambda old: msgspec.structs.replace(old, type=change.type))
        case Rename(target=target, name=name, new=new):
            _find(table, target, name)
            _check_free(table, new)
            return _swap(
                table, target, name,
                lambda old: msgspec.structs.replace(old, name=new.text, stored=old.identity),
            )  # fmt: skip
    return table.columns, table.tags


def new_tags(
    table: Table, child: Child, assigned: Sequence[tuple[Name, Literal]], session: TimeContext
) -> tuple[object, ...]:
    """The child's tags after SET TAG.

    :raises SqlError: for an unknown tag, one given twice, or a value that does not fit.
    """
    values = dict(zip((tag.name for tag in table.tags), child.tags, strict=True))
    seen: set[str] = set()
    for name, literal in assigned:
        tag = _find(table, "tag", name)
        if name.text in seen:
            raise SqlError(ErrorCode.INVALID_VALUE, f"the tag {name.text} is given twice", name.position)
        seen.add(name.text)
        values[name.text] = literal_value(literal, tag, session)
    return tuple(values.values())


def _of(table: Table, target: Target) -> Columns:
    return table.columns if target == "column" else table.tags


def _put(table: Table, target: Target, new: Columns) -> tuple[Columns, Columns]:
    return (new, table.tags) if target == "column" else (table.columns, new)


def _swap(
    table: Table, target: Target, name: Name, change: Callable[[Column], Column]
) -> tuple[Columns, Columns]:
    new = tuple(change(old) if old.name == name.text else old for old in _of(table, target))
    return _put(table, target, new)


def _find(table: Table, target: Target, name: Name) -> Column:
    found = next((column for column in _of(table, target) if column.name == name.text), None)
    if found is None:
        names = ", ".join(column.name for column in _of(table, target))
        raise SqlError(
            ErrorCode.UNKNOWN_COLUMN,
            f"{table.name} has no {target} {name.text}; its {target}s: {names}",
            name.position,
        )
    return found


def _check_free(table: Table, name: Name) -> None:
    if name.text == "tbname":
        raise _bad(
            "tbname is reserved for the table's name: no column or tag can have that name", name.position
        )
    if table.column(name.text) or table.tag(name.text):
        raise _bad(f"{table.name} already has a column or tag {name.text}", name.position)


def _added(table: Table, target: Target, definition: ColumnDef) -> Column:
    name = definition.name
    _check_free(table, name)
    if definition.composite_key:
        raise _bad(f"{name.text}: a key column cannot be added", name.position)
    if definition.type.name == "JSON":
        raise _bad(f"{name.text}: JSON is allowed only as the single tag of a super table", name.position)
    if target == "tag" and any(tag.type.name == "JSON" for tag in table.tags):
        raise _bad(f"{table.name} has a JSON tag, so it can have no other tags", name.position)
    if target == "tag" and len(table.tags) >= MOST_TAGS:
        raise _bad(f"{table.name} already has {MOST_TAGS} tags; no more are allowed", name.position)
    if len(table.columns) + len(table.tags) >= MOST_COLUMNS:
        raise _bad(
            f"{table.name} already has {MOST_COLUMNS} columns and tags; no more are allowed", name.position
        )
    # no column's name contains a NUL: no dropped column can have stored its values under this
    stored = f"{name.text}\0{table.version + 1}"
    return Column(name.text, definition.type, comment=definition.comment, stored=stored)


def _check_removal(table: Table, target: Target, removed: Column, name: Name) -> None:
    if target == "tag" and len(table.tags) == 1:
        raise _bad(f"{name.text} is the only tag of {table.name}: it cannot be dropped", name.position)
    if target == "tag":
        return
    if removed == table.key or removed.composite_key:
        raise _bad(f"{name.text} is a key column: it cannot be dropped", name.position)
    if len(table.columns) == 2:
        raise _bad(
            f"{name.text} is the only column besides the time column: it cannot be dropped", name.position
        )


def _check_longer(change: Modify, old: Column) -> None:
    new, where = change.type, change.name.position
    if old.type.name not in RESIZABLE or new.name != old.type.name:
        raise _bad(
            f"{old.name} is {old.type}: only the length of {', '.join(RESIZABLE)} can be changed", where
        )
    if (new.length or 0) <= (old.type.length or 0):
        raise _bad(
            f"{old.name} is {old.type}: its length can only be increased, and {new} is not longer", where
        )


def _bad(message: str, where: Position) -> SqlError:
    return SqlError(ErrorCode.INVALID_VALUE, message, where)


def _no(message: str, where: Position) -> SqlError:
    return SqlError(ErrorCode.NOT_ALLOWED, message, where)
