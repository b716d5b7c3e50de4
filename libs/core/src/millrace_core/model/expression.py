"""Expressions over one row as data: what a condition of a trigger is once SQL has been parsed.

Trees of three kinds of nodes, hashable and serialisable; ``trigger.signals`` evaluates them over arrays.
"""

from __future__ import annotations

import msgspec


class Expression(msgspec.Struct, frozen=True, tag_field="node"):
    """The root of the kinds of nodes."""


class Constant(Expression, frozen=True, tag="constant"):
    """A value as it stands in the SQL; None is NULL."""

    value: int | float | str | bool | None


class Field(Expression, frozen=True, tag="field"):
    """A column or tag of the row, or ``tbname``."""

    name: str


class Call(Expression, frozen=True, tag="call"):
    """An operator or function, by its name in the table of ``trigger.signals``."""

    name: str
    arguments: tuple[Constant | Field | Call, ...]


AnyExpression = Constant | Field | Call
