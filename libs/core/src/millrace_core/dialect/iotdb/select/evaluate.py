"""Expressions over values that are known: aggregates of a group, or the values of a time. NULL is None, and
what is calculated with it is None, as in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import semantic

_ARITHMETIC: dict[str, Callable[[float, float], float | None]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else None, "%": lambda a, b: a % b if b else None,
}  # fmt: skip
_COMPARISON: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,  # type: ignore[operator]
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``known``: values of nodes, by their ``id``; ``constant``: the value of a literal."""

    known: Mapping[int, object]
    constant: Callable[[e.Value], object] = lambda value: value

    def value(self, node: e.Expression) -> object:
        """The value; None where one that is needed is None."""
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
        raise semantic("this cannot be calculated here", node.position)

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
    if node.regular:
        return re.search(node.text, text) is not None
    pattern = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in node.text)
    return re.fullmatch(pattern, text, re.DOTALL) is not None
