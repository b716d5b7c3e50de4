"""How much work a condition on rows takes: it is done for each batch, and for all streams that evaluate rows.

A deeply nested expression costs the square of its depth. Some operations contain an operand several times
(``nullif`` as ``CASE WHEN a = b …``). If such an operand is a call itself, it is computed beforehand, which
has a price of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from millrace_core.model.expression import AnyExpression, Call
from millrace_core.trigger.rows.expressions import folded, is_bound

MOST_WORK = 400_000
"""This takes about a fifth of a second per batch, however few rows it has. It allows a chain of some 400
sums, two hundred nested ``abs``, or a thousand terms of OR many times over."""
BOUND = 500
"""The price of an operation whose operands are computed beforehand."""
COPIES: dict[str, tuple[int, ...]] = {
    "nullif": (2, 1), "div": (1, 2), "ln": (2,), "first_match": (2, 1), "locate": (1, 3),
    "substring": (7, 13, 3), "right": (5, 10), "parse_real": (5,), "day_text": (2,),
    "greatest": (3, 2), "least": (3, 2),
}  # fmt: skip
"""Operation -> how often it contains each operand at most, if more than once."""


class Work(NamedTuple):
    """``size``: the number of operations and operands; ``cost``: the same, each counted once per enclosing
    operation."""

    size: int
    cost: int

    def around(self, other: Work, times: int) -> Work:
        return Work(self.size + times * other.size, self.cost + times * (other.size + other.cost))


def work_of(expression: AnyExpression) -> Work:
    if not isinstance(expression, Call):
        return Work(1, 1)
    call = folded(expression)
    parts = [work_of(argument) for argument in call.arguments]
    bound = is_bound(call)
    copies = () if bound else COPIES.get(call.name, ())
    found = Work(1, 1 + BOUND * bound)
    for i, part in enumerate(parts):
        times = len(parts) - 1 if call.name == "in" and i == 0 and not bound else 1
        found = found.around(part, copies[i] if i < len(copies) else times)
    return found
