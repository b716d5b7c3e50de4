"""Values of lowered expressions that are known during planning."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

_FOLDS: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: lambda a, b: a + b, exp.Sub: lambda a, b: a - b, exp.Mul: lambda a, b: a * b,
    exp.IntDiv: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    exp.Mod: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}  # fmt: skip
"""As Spark computes them: quotients are cut towards zero, and a remainder has the sign of the dividend."""


def constant(node: exp.Expr) -> int | None:
    """The value of an expression of whole numbers; None if it reads anything, or divides by zero."""
    if isinstance(node, (exp.Paren, exp.Cast)):
        return constant(node.this)
    if isinstance(node, exp.Literal):
        return int(node.name) if node.name.isdigit() and not node.is_string else None
    if isinstance(node, exp.Neg):
        inner = constant(node.this)
        return None if inner is None else -inner
    fold = _FOLDS.get(type(node))
    if fold is None:
        return None
    left, right = constant(node.this), constant(node.expression)
    if left is None or right is None or (right == 0 and isinstance(node, (exp.IntDiv, exp.Mod))):
        return None
    return fold(left, right)
