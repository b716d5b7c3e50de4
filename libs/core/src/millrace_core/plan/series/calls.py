"""Calls of series functions: how they are typed and lowered."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.functions.protocols import Lowering, Typing
from millrace_core.plan.series.table import REQUIRED, SERIES, SeriesFunction
from millrace_core.plan.types.typed import fail, typed, with_type


def type_series(typing: Typing, node: exp.Expr) -> exp.Expr:
    """Check and type a call; the values of its constant arguments go into ``meta["constants"]``.

    :raises SqlError: INVALID_VALUE, TYPE_MISMATCH, NOT_ALLOWED.
    """
    name = node.name
    row = SERIES[name]
    if typing.aggregate is not None:
        raise fail(ErrorCode.NOT_ALLOWED, f"{name} cannot be used inside {typing.aggregate}", node)
    _check_count(node, row)
    argument, *rest = node.expressions
    typing.aggregate = name
    try:
        argument = typing.visit(argument)
    finally:
        typing.aggregate = None
    type_ = typed(argument)
    if not row.takes(type_):
        found = "NULL" if type_.null else type_.type.name
        raise fail(ErrorCode.TYPE_MISMATCH, f"{name} takes {row.accepted}, not {found}", argument)
    node.set("expressions", [argument, *rest])
    node.meta["constants"] = tuple(
        constant.read(rest[i], f"{name}: {constant.name}") if i < len(rest) else constant.default
        for i, constant in enumerate(row.constants)
    )
    return with_type(node, row.result(type_))


def _check_count(node: exp.Expr, row: SeriesFunction) -> None:
    most = 1 + len(row.constants)
    least = 1 + sum(constant.default is REQUIRED for constant in row.constants)
    if not least <= len(node.expressions) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        names = ", ".join(["column", *(constant.name for constant in row.constants)])
        message = f"{node.name} takes {wanted} arguments ({names}), not {len(node.expressions)}"
        raise fail(ErrorCode.INVALID_VALUE, message, node)


def lower_series_call(lowering: Lowering, node: exp.Expr) -> exp.Expr:
    """Only the argument: the constants were read when the call was typed."""
    node.set("expressions", [lowering.visit(node.expressions[0]), *node.expressions[1:]])
    node.meta["series"] = True
    return node
