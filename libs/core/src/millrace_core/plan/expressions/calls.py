"""Calls: each belongs to a family of functions, which knows how to type and lower it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.plan.aggregates.calls import lower_aggregate, type_aggregate
from millrace_core.plan.aggregates.cols import lower_cols, type_cols
from millrace_core.plan.aggregates.table import AGGREGATES, COLS
from millrace_core.plan.analytics.calls import FORECAST, lower_forecast_call, type_forecast
from millrace_core.plan.functions.calls import CAST, lower_cast, lower_function, type_cast, type_function
from millrace_core.plan.functions.protocols import Lowering, Typing
from millrace_core.plan.functions.scalar import FUNCTIONS, LATER
from millrace_core.plan.scope import near
from millrace_core.plan.series.calls import lower_series_call, type_series
from millrace_core.plan.series.table import SERIES
from millrace_core.plan.types.typed import fail


@dataclass(frozen=True, slots=True)
class CallFamily:
    """Functions that are typed and lowered in the same way, by their names."""

    names: Collection[str]
    type: Callable[[Typing, exp.Expr], exp.Expr]
    lower: Callable[[Lowering, exp.Expr], exp.Expr]


FAMILIES = (
    CallFamily((CAST,), type_cast, lower_cast),
    CallFamily(FUNCTIONS, type_function, lower_function),
    CallFamily(AGGREGATES.keys() - {COLS}, type_aggregate, lower_aggregate),
    CallFamily((COLS,), type_cols, lower_cols),
    CallFamily(SERIES, type_series, lower_series_call),
    CallFamily((FORECAST,), type_forecast, lower_forecast_call),
)
_BY_NAME = {name: family for family in FAMILIES for name in family.names}


def type_call(typing: Typing, node: exp.Expr) -> exp.Expr:
    """Type a call and its arguments.

    :raises SqlError: UNKNOWN_FUNCTION, INVALID_VALUE, TYPE_MISMATCH, NOT_ALLOWED, UNSUPPORTED, at its place.
    """
    family = _BY_NAME.get(node.name)
    if family is None:
        raise _unknown(node)
    return family.type(typing, node)


def lower_call(lowering: Lowering, node: exp.Expr) -> exp.Expr:
    """Spark's expression for a typed call."""
    return _BY_NAME[node.name].lower(lowering, node)


def repeats(node: exp.Expr) -> bool:
    """Whether lowering may repeat the call's arguments, and does nothing else with them. (The cast of a
    quotient looks at the quotient's sides before they are lowered, and repeats each a few times.)"""
    if node.name == CAST:
        return not isinstance(node.expressions[0].unnest(), exp.Div)
    return node.name in FUNCTIONS


def _unknown(node: exp.Expr) -> MillraceError:
    if node.name in LATER:
        message = f"the function {node.name} is not supported{LATER[node.name]}"
        return fail(ErrorCode.UNSUPPORTED, message, node)
    if node.name.startswith("st_"):
        return fail(ErrorCode.UNSUPPORTED, f"geometry functions such as {node.name} are not supported", node)
    message = f"unknown function {node.name}{near(node.name, _BY_NAME)}"
    return fail(ErrorCode.UNKNOWN_FUNCTION, message, node)
