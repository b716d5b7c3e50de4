"""Expressions over one row as data: what a trigger's condition becomes once its SQL has been parsed.

They are trees of three kinds of nodes, hashable and serialisable; ``trigger.rows.expressions``
evaluates them.
"""

from __future__ import annotations

import msgspec


class Expression(msgspec.Struct, frozen=True, tag_field="node"):
    """The base of the kinds of nodes."""


class Constant(Expression, frozen=True, tag="constant", eq=False):
    """A value as it stands in the SQL; None is NULL. ``1``, ``1.0`` and ``true`` are three constants."""

    value: int | float | str | bool | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[type, object]:
        return type(self.value), self.value


class Field(Expression, frozen=True, tag="field"):
    """A column or tag of the row, or ``tbname``."""

    name: str


class Call(Expression, frozen=True, tag="call"):
    """An operator or function, by its name in the table of ``trigger.rows.expressions``."""

    name: str
    arguments: tuple[Constant | Field | Call, ...]


AnyExpression = Constant | Field | Call


def nodes_of(expression: AnyExpression) -> list[AnyExpression]:
    """All nodes, each before those inside it. Not by recursion, of which little is left where rows
    are judged."""
    found: list[AnyExpression] = [expression]
    for node in found:
        if isinstance(node, Call):
            found.extend(node.arguments)
    return found


def fields_of(expression: AnyExpression) -> frozenset[str]:
    """The names of the columns and tags that an expression reads."""
    return frozenset(node.name for node in nodes_of(expression) if isinstance(node, Field))
