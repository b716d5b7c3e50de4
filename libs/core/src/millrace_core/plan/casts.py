"""CAST as TDengine does it (decision 0007): nothing fails, a text is the number that it begins with, or 0."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import MillraceError
from millrace_core.model.types import DataType
from millrace_core.plan.functions_base import MOST_TEXT
from millrace_core.plan.pieces import as_text, call, text
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

WHOLE = "[+-]?[0-9]+"
REAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


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
    """CAST as TDengine does it: numbers lose their fraction, a text is the number it begins with, or 0."""
    source = typed(node)
    if source.timestamp and target.timestamp:
        return rescale(node, source.precision or "ms", target.precision or "ms")
    if target.type.info.integer:
        return cast(_whole(node, source), target)
    if target.real and source.text:
        part = exp.TryCast(this=_begin(node.copy(), REAL), to=spark_type(DOUBLE))
        found = exp.TryCast(this=node, to=spark_type(DOUBLE))
        return cast(_unless_null(node, exp.Coalesce(this=found, expressions=[part, number(0)])), target)
    if target.type.name == "BOOL" and source.text:
        return exp.NEQ(this=_whole(node, source), expression=number(0))
    if target.text:
        written = cast(plain_text(node) if source.real else node, target)
        if source.text and (source.type.length or 0) <= (target.type.length or 0):
            return written
        length = number(target.type.length or 1)
        return exp.Substring(this=written, start=number(1), length=length)
    return cast(node, target)


def _whole(node: exp.Expr, source: Typed) -> exp.Expr:
    if source.real:
        below = exp.LT(this=wrap(node), expression=number(0))
        return exp.If(this=below, true=exp.Ceil(this=node.copy()), false=exp.Floor(this=node.copy()))
    if source.text:
        part = exp.TryCast(this=_begin(node, WHOLE), to=spark_type(BIGINT))
        return _unless_null(node, exp.Coalesce(this=part, expressions=[number(0)]))
    return node


def plain_text(node: exp.Expr) -> exp.Expr:
    """The value as TDengine writes it into a text: FLOAT and DOUBLE with six digits behind the point."""
    if not typed(node).real:
        return as_text(node)
    written = call("FORMAT_STRING", text("%.6f"), cast(node, DOUBLE))
    return _unless_null(node, written)


def _begin(node: exp.Expr, pattern: str) -> exp.Expr:
    """The number that a text begins with, as C reads it; the empty text if there is none."""
    return call("REGEXP_EXTRACT", node.copy(), text(rf"^[ \t\n\x0B\f\r]*({pattern})"), number(1))


def _unless_null(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    test = exp.Is(this=wrap(node.copy()), expression=exp.Null())
    return exp.If(this=test, true=exp.Null(), false=value)
