"""Evaluates expressions over known values: aggregates of a group, or the values at a time. NULL is None, and
as in SQL anything calculated from it is None."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import semantic

_ARITHMETIC: dict[str, Callable[[float, float], float | None]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else None,
    "%": lambda a, b: math.fmod(a, b) if b and math.isfinite(a) else None,
}  # fmt: skip
_COMPARISON: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,  # type: ignore[operator]
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``known``: values of nodes, by their ``id``; ``constant``: gives the value of a literal."""

    known: Mapping[int, object]
    constant: Callable[[e.Value], object] = lambda value: value

    def value(self, node: e.Expression) -> object:
        """The value; None if a value that it needs is None."""
        if id(node) in self.known:
            return self.known[id(node)]
        match node:
            case e.Constant(value=value):
                return self.constant(value)
            case e.Unary(operator="-"):
                found = self._number(node.operand)
                return None if found is None else -found
            case e.Unary():
                truth = self.value(node.operand)
                return None if truth is None else not truth
            case e.Binary(operator="and" | "or"):
                return self._logic(node)
            case e.Binary():
                return self._binary(node)
            case e.Between():
                low = self._compare(">=", node.operand, node.low, node)
                high = self._compare("<=", node.operand, node.high, node)
                return None if low is None or high is None else (low and high) != node.negated
            case e.In():
                found_value = self.value(node.operand)
                inside = found_value in [self.constant(one.value) for one in node.values]
                return None if found_value is None else inside != node.negated
            case e.IsNull():
                return (self.value(node.operand) is None) != node.negated
            case e.Matches():
                text = self.value(node.operand)
                return None if text is None else _matches(node, str(text)) != node.negated
        raise semantic("this expression cannot be evaluated here", node.position)

    def _logic(self, node: e.Binary) -> object:
        left, right = self.value(node.left), self.value(node.right)
        decisive = node.operator == "or"
        if decisive in (left, right):
            return decisive
        return None if left is None or right is None else not decisive

    def _binary(self, node: e.Binary) -> object:
        if node.operator not in _ARITHMETIC:
            return self._compare(node.operator, node.left, node.right, node)
        left, right = self._number(node.left), self._number(node.right)
        return None if left is None or right is None else _ARITHMETIC[node.operator](left, right)

    def _compare(self, operator: str, a: e.Expression, b: e.Expression, node: e.Expression) -> bool | None:
        left, right = self.value(a), self.value(b)
        if left is None or right is None:
            return None
        if isinstance(left, str) != isinstance(right, str):
            raise semantic(f"{left!r} and {right!r} cannot be compared", node.position)
        return _COMPARISON[operator](left, right)

    def _number(self, node: e.Expression) -> float | None:
        found = self.value(node)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise semantic("arithmetic needs numbers", node.position)
        return float(found)


def _matches(node: e.Matches, text: str) -> bool:
    """Takes time linear in the text: the patterns come from users, and nothing would end a slow match."""
    if not node.regular:
        return _like(node.text).fullmatch(text) is not None
    try:
        return _contains(node.text, text)
    except pl.exceptions.ComputeError as error:
        raise semantic(f"{node.text!r} is not a valid regular expression: {error}", node.position) from None


@lru_cache(maxsize=1024)
def _contains(pattern: str, text: str) -> bool:
    """Matched by polars, whose regular expressions do not backtrack."""
    return pl.Series([text]).str.contains(pattern).item() is True


@lru_cache(maxsize=64)
def _like(pattern: str) -> re.Pattern[str]:
    """Each part between two % matches where it first occurs: no later place lets more of the rest match."""
    first, *rest = ["".join("." if c == "_" else re.escape(c) for c in part) for part in pattern.split("%")]
    between = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(f"{first}{between}.*{rest[-1]}" if rest else first, re.DOTALL)
