"""CAST as TDengine does it (decision 0007): nothing fails, what is no number becomes 0."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import MillraceError
from millrace_core.model.types import DataType
from millrace_core.plan.functions_base import MOST_TEXT
from millrace_core.plan.typed import (
    BIGINT,
    DOUBLE,
    Typed,
    cast,
    fail,
    number,
    rescale,
    spark_type,
    typed,
    wrap,
)


def cast_type(node: exp.Anonymous) -> DataType:
    """The target of a ``cast`` call: its second argument holds the type's name, its third the length."""
    name = node.expressions[1]
    length = int(node.expressions[2].name) if len(node.expressions) > 2 else None
    try:
        target = DataType.of(name.name, length)
    except MillraceError as error:
        raise fail(error.code, error.message, node) from None
    if target.name in ("VARCHAR", "NCHAR", "VARBINARY") and length is None:
        return DataType(target.name, MOST_TEXT.length)
    return target


def convert(node: exp.Expr, target: Typed) -> exp.Expr:
    """CAST as TDengine does it: numbers lose their fraction, text that is no number becomes 0."""
    source = typed(node)
    if source.timestamp and target.timestamp:
        return rescale(node, source.precision or "ms", target.precision or "ms")
    if target.type.info.integer:
        return cast(_whole(node, source), target)
    if target.real and source.text:
        number_ = exp.Coalesce(this=exp.TryCast(this=node, to=spark_type(DOUBLE)), expressions=[number(0)])
        return cast(_unless_null(node, number_), target)
    if target.text:
        text = cast(node, target)
        if source.text and (source.type.length or 0) <= (target.type.length or 0):
            return text
        length = number(target.type.length or 1)
        return exp.Substring(this=text, start=number(1), length=length)
    return cast(node, target)


def _whole(node: exp.Expr, source: Typed) -> exp.Expr:
    if source.real:
        below = exp.LT(this=wrap(node), expression=number(0))
        return exp.If(this=below, true=exp.Ceil(this=node.copy()), false=exp.Floor(this=node.copy()))
    if source.text:
        whole = exp.TryCast(this=node, to=spark_type(BIGINT))
        part = exp.TryCast(this=exp.TryCast(this=node.copy(), to=spark_type(DOUBLE)), to=spark_type(BIGINT))
        return _unless_null(node, exp.Coalesce(this=whole, expressions=[part, number(0)]))
    return node


def _unless_null(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    test = exp.Is(this=wrap(node.copy()), expression=exp.Null())
    return exp.If(this=test, true=exp.Null(), false=value)
