"""Nodes of Millrace's query language that sqlglot does not have.

Clauses of a SELECT that only this language has are kept in ``exp.Select`` under the keys of :data:`CLAUSES`.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

from millrace_core.errors import Position

CLAUSES = ("window_clause", "partition_by", "range_clause", "every", "fill", "slimit", "soffset")
"""Keys under which ``exp.Select`` carries these clauses."""

START = Position(1, 1)
UNITS = frozenset("buasmhdwny")
"""The letters that stand for units of durations."""


class DurationLiteral(exp.Expression, exp.Condition):
    """``10s``: ``this`` the number (int), ``unit`` the unit letter."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": True}


class Auto(exp.Expression):
    """The offset ``AUTO`` of INTERVAL."""

    arg_types: ClassVar[dict[str, bool]] = {}


def length_of(node: exp.Expr) -> exp.Expr:
    """An argument of INTERVAL or SLIDING: a duration may be written in quotes; AUTO is not a column."""
    found = node
    if isinstance(node, exp.Literal) and node.is_string:
        number, unit = node.name[:-1], node.name[-1:].lower()
        if number.isdigit() and unit in UNITS:
            found = DurationLiteral(this=int(number), unit=unit)
    elif isinstance(node, exp.Column) and not node.this.quoted and node.name.lower() == "auto":
        found = Auto()
    found.meta.update(node.meta)
    return found


class JsonGet(exp.Expression, exp.Condition):
    """``tag->'key'``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class JsonContains(exp.Expression, exp.Condition):
    """``tag CONTAINS 'key'``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class NearJoin(exp.Join):
    """ASOF or WINDOW JOIN (``kind``), until it is lowered: ``window_offset`` is two durations, ``jlimit`` a
    number."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Join.arg_types, "window_offset": False, "jlimit": False}


class WindowClause(exp.Expression):
    """The base of the clauses that cut rows into windows."""


class IntervalWindow(WindowClause):
    """``INTERVAL(this[, offset]) [SLIDING(sliding)]``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "offset": False, "sliding": False}


class SessionWindow(WindowClause):
    """``SESSION(this, gap)``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "gap": True}


class StateWindow(WindowClause):
    """``STATE_WINDOW(this[, extend]) [TRUE_FOR(true_for)]``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "extend": False, "true_for": False}


class EventWindow(WindowClause):
    """``EVENT_WINDOW START WITH start END WITH end [TRUE_FOR(true_for)]``."""

    arg_types: ClassVar[dict[str, bool]] = {"start": True, "end": True, "true_for": False}


class CountWindow(WindowClause):
    """``COUNT_WINDOW(count[, sliding][, columns])``."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class AnomalyWindow(WindowClause):
    """``ANOMALY_WINDOW(column[, options])``."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class Fill(exp.Expression):
    """``FILL(mode[, values])``: ``this`` is the mode in upper case."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class Range(exp.Expression):
    """``RANGE(first[, last])``."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


def position_at(sql: str, offset: int, origin: Position = START) -> Position:
    """The place of a character of ``sql``, when the text itself begins at ``origin``."""
    before = sql[:offset]
    line = before.count("\n")
    column = offset - (before.rfind("\n") + 1)
    return Position(origin.line + line, column + (1 if line else origin.column))


def position_of(node: exp.Expr) -> Position:
    """Where the text of the node begins (or that of its first part that has a place)."""
    places = [(n.meta["line"], n.meta["col"]) for n in node.walk() if "line" in n.meta]
    if not places and node.parent is not None:
        return position_of(node.parent)
    return Position(*min(places, default=(1, 1)))
