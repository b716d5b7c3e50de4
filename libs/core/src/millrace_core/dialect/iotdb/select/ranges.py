"""The range of times that a condition on time alone selects."""

from __future__ import annotations

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import IotdbError, semantic
from millrace_core.dialect.iotdb.times import Moment, TimeContext, resolve
from millrace_core.timeline.precision import HIGHEST, LOWEST

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def time_range(node: e.Expression, session: TimeContext) -> tuple[int, int]:
    """The first and last millisecond, both included; if first > last, no time is selected.

    :raises IotdbError: SEMANTIC_ERROR for anything but comparisons of time, joined by AND.
    """
    match node:
        case e.Binary(operator="and", left=left, right=right):
            first, last = time_range(left, session)
            other_first, other_last = time_range(right, session)
            return max(first, other_first), min(last, other_last)
        case e.Between(operand=e.TimeColumn(), low=low, high=high, negated=False):
            return _at(low, session), _at(high, session)
        case e.Binary(operator=operator, left=e.TimeColumn(), right=right) if operator in _MIRRORED:
            return _bounds(operator, _at(right, session))
        case e.Binary(operator=operator, left=left, right=e.TimeColumn()) if operator in _MIRRORED:
            return _bounds(_MIRRORED[operator], _at(left, session))
    raise _refused(node)


def _bounds(operator: str, value: int) -> tuple[int, int]:
    first = value + (operator == ">") if operator in ("=", ">", ">=") else LOWEST
    last = value - (operator == "<") if operator in ("=", "<", "<=") else HIGHEST
    return first, last


def _at(node: e.Expression, session: TimeContext) -> int:
    if isinstance(node, e.Constant):
        value = node.value
        if isinstance(value, Moment) or (isinstance(value, int) and not isinstance(value, bool)):
            return resolve(value, session)
    raise _refused(node)


def _refused(node: e.Expression) -> IotdbError:
    return semantic("DELETE allows only conditions on time, joined by AND", node.position)
