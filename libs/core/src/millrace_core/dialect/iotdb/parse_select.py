"""SELECT. The clauses after WHERE stand in any order, each once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from millrace_core.dialect.iotdb.codes import IotdbError, Status, semantic, syntax, unsupported
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.expressions import constant, expression
from millrace_core.dialect.iotdb.parse_schema import limits
from millrace_core.dialect.iotdb.paths import NAME, ROOT, Node
from millrace_core.dialect.iotdb.statements import Fill, GroupBy, Item, Select, Target
from millrace_core.dialect.iotdb.times import duration, time
from millrace_core.errors import Position
from millrace_core.language.words import TokenKind

_LATER: dict[tuple[str, ...], str] = {
    ("slimit",): "SLIMIT", ("soffset",): "SOFFSET",
    ("without", "null"): "WITHOUT NULL", ("order", "by", "device"): "ORDER BY DEVICE",
}  # fmt: skip
_LAST = re.compile(rf"\s+(?!(?:from|as|into)\b)(?:{NAME}|`|[*][*]?\s*(?:[.,]|from\b))", re.IGNORECASE)
"""What can follow ``last`` where it is the keyword, and not a series of that name."""
_GROUPS_LATER = ("tags", "variation", "session", "condition", "count")


def select(c: Cursor, where: Position) -> Select:
    last = c.at("last") and _LAST.match(c.text, c.peek().end) is not None and c.take("last")
    items = c.separated(lambda: _item(c))
    into = _into(c) if c.take("into") else ()
    c.expect("from")
    if c.at("("):
        raise syntax(
            "subqueries are not supported: write the inner query's results with a continuous query, and "
            "read those",
            c.here(),
        )
    sources = c.separated(lambda: c.path("a path to read from"))
    found: dict[str, Any] = {}
    if c.take("where"):
        found["where"] = expression(c)
    _clauses(c, found)
    if found.get("by_series") and not last:
        raise unsupported("ORDER BY TIMESERIES is allowed only with SELECT LAST", where)
    return Select(where, items, sources, into, last=last, **found)


def _item(c: Cursor) -> Item:
    start = c.peek().start
    found = expression(c)
    text = c.text[start : c.place].strip()
    alias = c.name("an alias") if c.take("as") else None
    return Item(found, alias, text)


def _into(c: Cursor) -> tuple[Target, ...]:
    return c.separated(lambda: _target(c))


def _target(c: Cursor) -> Target:
    aligned = c.take("aligned")
    path = c.target()
    if path.nodes[0] not in (Node(ROOT), Node("::")):
        raise semantic(f"INTO {path}: a path must begin with root", path.position)
    if not c.at("("):
        return Target(path, None, aligned)
    return Target(path, c.listed(c.target_measurement), aligned)


def _clauses(c: Cursor, found: dict[str, Any]) -> None:
    while True:
        where = c.here()
        clause = _clause(c)
        if clause is None:
            return
        for name, value in clause.items():
            if name in found:
                raise syntax(f"{_CLAUSE_NAMES[name]} is given twice", where)
            found[name] = value


_CLAUSE_NAMES = {
    "group": "GROUP BY", "having": "HAVING", "fill": "FILL",
    "by_time": "ORDER BY", "by_series": "ORDER BY", "descending": "ORDER BY", "limit": "LIMIT",
    "offset": "OFFSET", "by_device": "ALIGN BY",
}  # fmt: skip


def _clause(c: Cursor) -> dict[str, Any] | None:
    for words, name in _LATER.items():
        if c.at(*words):
            raise unsupported(f"{name} is not supported yet", c.here())
    if c.at("disable", "align"):
        raise IotdbError(Status.UNSUPPORTED_STATEMENT, "DISABLE ALIGN is not supported", c.here())
    for words, read in _CLAUSES:
        if c.at(*words):
            return read(c)
    return None


def _group_by(c: Cursor) -> dict[str, Any]:
    where = c.expect("group", "by")
    for word in _GROUPS_LATER:
        if c.at(word, "("):
            raise unsupported(f"GROUP BY {word.upper()} is not supported yet", c.here())
    if c.at("level"):
        return {"group": GroupBy(where, levels=_levels(c))}
    c.expect("(")
    start = end = None
    if c.at("("):
        raise unsupported("GROUP BY supports only ranges [start, end), not (start, end]", c.here())
    if c.take("["):
        start = time(c, "the first time")
        c.expect(",")
        end = time(c, "the last time")
        c.expect(")")
        c.expect(",")
    interval = _positive(c, "the interval of GROUP BY")
    step = interval
    levels: tuple[int, ...] = ()
    while c.take(","):
        if c.at("level"):
            levels = _levels(c)
            break
        step = _positive(c, "the sliding step of GROUP BY")
    c.expect(")")
    if not levels and c.take(","):
        levels = _levels(c)
    return {"group": GroupBy(where, start, end, interval, step, levels)}


def _positive(c: Cursor, what: str) -> int:
    where = c.here()
    found = duration(c, what)
    if found <= 0:
        raise semantic(f"{what} must be greater than 0", where)
    return found


def _levels(c: Cursor) -> tuple[int, ...]:
    c.expect("level", "=")
    levels = [c.integer("a level")]
    while c.at(","):
        place = c.place
        c.take(",")
        if c.peek().kind is not TokenKind.INTEGER:
            c.place = place
            break
        levels.append(c.integer("a level"))
    return tuple(sorted(set(levels)))


def _having(c: Cursor) -> dict[str, Any]:
    c.expect("having")
    return {"having": expression(c)}


def _fill(c: Cursor) -> dict[str, Any]:
    c.expect("fill")
    closing = c.take("(")
    if c.take("previous"):
        found = Fill("previous")
    elif c.take("linear"):
        found = Fill("linear")
    else:
        found = Fill("value", constant(c))
    if closing:
        if c.at(","):
            raise unsupported("FILL supports only one mode, without a threshold", c.here())
        c.expect(")")
    return {"fill": found}


def _order(c: Cursor) -> dict[str, Any]:
    c.expect("order", "by")
    by_series = c.take("timeseries")
    if not by_series:
        c.expect("time")
    if c.at(","):
        raise unsupported("ORDER BY supports only time", c.here())
    descending = c.take("desc")
    if not descending:
        c.take("asc")
    return {"by_time": not by_series, "by_series": by_series, "descending": descending}


def _limits(c: Cursor) -> dict[str, Any]:
    limit, offset = limits(c)
    return {"limit": limit, "offset": offset}


def _align(c: Cursor) -> dict[str, Any]:
    c.expect("align", "by")
    return {"by_device": c.one_of("device", "time") == "device"}


_CLAUSES: tuple[tuple[tuple[str, ...], Callable[[Cursor], dict[str, Any]]], ...] = (
    (("group", "by"), _group_by), (("having",), _having), (("fill",), _fill), (("order", "by"), _order),
    (("limit",), _limits), (("offset",), _limits), (("align", "by"), _align),
)  # fmt: skip
