"""What a table of functions asks of the passes that type and lower expressions.

The passes know all tables; a table knows these two protocols alone.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from millrace_core.plan.scope import Context, Scope
from millrace_core.plan.types.typed import Typed


class Typing(Protocol):
    """Types expressions bottom up. ``aggregate``: the call or clause in which no aggregate may stand."""

    ctx: Context
    aggregate: str | None

    def visit(self, node: exp.Expr) -> exp.Expr:
        """The node with its type, or another in its place."""

    def condition(self, node: exp.Expr) -> exp.Expr:
        """The same of a condition."""

    def row_value(self, node: exp.Expr, clause: str) -> exp.Expr:
        """The same of a value of one row: no aggregate stands in it."""

    def timestamp(self, side: exp.Expr, wanted: Typed) -> exp.Expr:
        """A typed side of a comparison as a time of this precision."""


class Lowering(Protocol):
    """Turns typed expressions into Spark's, bottom up. ``condition``: see ``expressions.lower``."""

    scope: Scope
    ctx: Context
    condition: bool

    def visit(self, node: exp.Expr) -> exp.Expr:
        """Spark's expression for a typed one, typed as well."""

    def of_type(self, node: exp.Expr, wanted: Typed) -> exp.Expr:
        """The same, of the wanted type."""
