"""How much work a condition on rows is: whoever judges rows does it for each batch, and for all streams.

What is deep costs the square of its depth. Some operations have an operand several times (``nullif`` as
``CASE WHEN a = b …``); one that is a call itself is computed before, which has a price of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from millrace_core.model.expression import AnyExpression, Call
from millrace_core.trigger.rows.expressions import folded, is_bound

MOST_WORK = 400_000
"""A fifth of a second or so for a batch, however few rows it has: a chain of some 400 sums, a thousand terms
of OR many times over, two hundred ``abs`` inside one another."""
BOUND = 500
"""The price of an operation whose operands are computed before."""
COPIES: dict[str, tuple[int, ...]] = {
    "nullif": (2, 1), "div": (1, 2), "ln": (2,), "first_match": (2, 1), "locate": (1, 3),
    "substring": (7, 13, 3), "right": (5, 10), "parse_real": (5,), "day_text": (2,),
    "greatest": (3, 2), "least": (3, 2),
}  # fmt: skip
"""Operation -> how often it has each operand at most, where that is more than once."""


class Work(NamedTuple):
    """``size``: operations and operands; ``cost``: each counted as often as there is something around it."""

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
