"""What a table of functions needs from the passes that type and lower expressions.

The passes know all tables; a table knows only these two protocols.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from millrace_core.plan.scope import Context, Scope
from millrace_core.plan.types.typed import Typed


class Typing(Protocol):
    """Types expressions bottom up. ``aggregate``: the call or clause inside which no aggregate may stand."""

    ctx: Context
    aggregate: str | None

    def visit(self, node: exp.Expr) -> exp.Expr:
        """The node with its type, or another node to replace it."""

    def condition(self, node: exp.Expr) -> exp.Expr:
        """The same for a condition."""

    def row_value(self, node: exp.Expr, clause: str) -> exp.Expr:
        """The same for a value of one row, inside which no aggregate may stand."""

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
