"""How much work a condition on rows is: whoever judges rows does it for each batch, and for all streams.

Some operations have an operand several times (``abs`` as ``CASE WHEN a < 0 …``), so that calls inside one
another become large; and what is deep costs the square of its depth.
"""

from __future__ import annotations

from typing import NamedTuple

from millrace_core.model.expression import AnyExpression, Call

MOST_WORK = 400_000
"""A fifth of a second or so for a batch, however few rows it has: a chain of some 400 sums, a thousand terms
of OR many times over, seven ``abs`` inside one another."""
COPIES: dict[str, tuple[int, ...]] = {
    "abs": (3,), "nullif": (2, 1), "div": (1, 2), "ln": (2,), "first_match": (2, 1), "locate": (1, 3),
    "substring": (7, 13, 3), "right": (5, 10), "parse_real": (5,), "day_text": (2,),
}  # fmt: skip
"""Operation -> how often it has each operand at most, where that is more than once."""
FOLDED = {"greatest": (3, 2), "least": (3, 2)}
"""Operations on the result so far and the next operand, one after the other; how often they have these."""


class Work(NamedTuple):
    """``size``: operations and operands; ``cost``: each counted as often as there is something around it."""

    size: int
    cost: int

    def around(self, other: Work, times: int) -> Work:
        return Work(self.size + times * other.size, self.cost + times * (other.size + other.cost))


def work_of(expression: AnyExpression) -> Work:
    if not isinstance(expression, Call):
        return Work(1, 1)
    parts = [work_of(argument) for argument in expression.arguments]
    if expression.name in FOLDED and parts:
        before, next_ = FOLDED[expression.name]
        found = parts[0]
        for part in parts[1:]:
            found = Work(1, 1).around(found, before).around(part, next_)
        return found
    copies = COPIES.get(expression.name, ())
    found = Work(1, 1)
    for i, part in enumerate(parts):
        times = len(parts) - 1 if expression.name == "in" and i == 0 else 1
        found = found.around(part, copies[i] if i < len(copies) else times)
    return found
