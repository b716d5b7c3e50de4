"""CAST as in TDengine (decision 0007): nothing fails; a text counts as the number it begins with, or 0."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import MillraceError
from millrace_core.model.types import MOST_BYTES, DataType
from millrace_core.plan.functions.base import MOST_TEXT
from millrace_core.plan.spark.pieces import as_text, call, text
from millrace_core.plan.types.typed import (
    BIGINT,
    DOUBLE,
    Typed,
    cast,
    fail,
    floor_mod,
    number,
    rescale,
    room,
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


def convert(node: exp.Expr, target: Typed, *, cut_bytes: bool = True) -> exp.Expr:
    """CAST as in TDengine: numbers lose their fraction; a text counts as the number it begins with, or 0.

    ``cut_bytes``: VARCHAR(n) is cut to n bytes; without it, and for NCHAR(n) always, to n characters.
    """
    source = typed(node)
    if source.timestamp and target.timestamp:
        return rescale(node, source.precision or "ms", target.precision or "ms")
    if target.type.info.integer:
        return cast(_wrapped(_whole(node, source), source, target), target)
    if target.real and source.text:
        part = exp.TryCast(this=_begin(node.copy(), REAL), to=spark_type(DOUBLE))
        found = exp.TryCast(this=node, to=spark_type(DOUBLE))
        return cast(_unless_null(node, exp.Coalesce(this=found, expressions=[part, number(0)])), target)
    if target.type.name == "BOOL" and source.text:
        return exp.NEQ(this=_whole(node, source), expression=number(0))
    if target.text:
        written = cast(plain_text(node) if source.real else node, target)
        return written if fits(source, target) else _shortened(written, source, target, cut_bytes)
    return cast(node, target)


def fits(source: Typed, target: Typed) -> bool:
    """Whether every text of the source's type fits into the target's: VARCHAR(n) has n bytes, NCHAR(n)
    has n characters."""
    has, most = room(source), target.type.length or 0
    if target.type.name == "VARCHAR" and source.type.name == "NCHAR":
        has *= MOST_BYTES
    return source.text and has <= most


def _shortened(written: exp.Expr, source: Typed, target: Typed, cut_bytes: bool) -> exp.Expr:
    most = target.type.length or 1
    short = exp.Substring(this=written, start=number(1), length=number(most))
    ascii_alone = not source.text and source.type.name != "VARBINARY"
    if target.type.name == "NCHAR" or ascii_alone or not cut_bytes:
        return short
    # cut bytes, two hexadecimal digits each; the cut must not leave part of a character behind
    hexed = call("HEX", written.copy())
    inside = [exp.Literal.string(digit) for digit in "89AB"]  # how the bytes inside a character begin
    kept: exp.Expr = number(2 * max(0, most - MOST_BYTES + 1))
    for bytes_ in range(max(0, most - MOST_BYTES + 2), most + 1):
        following = exp.Substring(this=hexed.copy(), start=number(2 * bytes_ + 1), length=number(1))
        within = exp.In(this=following, expressions=[digit.copy() for digit in inside])
        kept = exp.If(this=exp.Not(this=within), true=number(2 * bytes_), false=kept)
    cut = call("UNHEX", exp.Substring(this=hexed, start=number(1), length=kept))
    fits = exp.LTE(this=call("OCTET_LENGTH", written), expression=number(most))
    return exp.If(this=fits, true=written.copy(), false=call("MAKE_VALID_UTF8", as_text(cut)))


def _wrapped(whole: exp.Expr, source: Typed, target: Typed) -> exp.Expr:
    """The value in the range of an unsigned type, which Spark holds as a larger signed one; other
    types wrap in Spark."""
    low, high, most = target.type.info.low, target.type.info.high, source.type.info.high
    known = source.integer and source.type.info.low == 0 and (most or 0) <= (high or 0)
    if low != 0 or high is None or known or source.null or source.type.name == "BOOL":
        return whole
    if target.type.info.spark != "DECIMAL(20,0)":
        return floor_mod(whole if source.type.info.low == 0 else cast(whole, BIGINT), high + 1)
    signed = cast(whole, BIGINT)
    below = exp.LT(this=signed.copy(), expression=number(0))
    turned = exp.Add(this=cast(signed.copy(), target), expression=cast(number(high + 1), target))
    return exp.If(this=below, true=turned, false=cast(signed, target))


def _whole(node: exp.Expr, source: Typed) -> exp.Expr:
    if source.real:
        below = exp.LT(this=wrap(node), expression=number(0))
        return exp.If(this=below, true=exp.Ceil(this=node.copy()), false=exp.Floor(this=node.copy()))
    if source.text:
        part = exp.TryCast(this=_begin(node, WHOLE), to=spark_type(BIGINT))
        return _unless_null(node, exp.Coalesce(this=part, expressions=[number(0)]))
    return node


def plain_text(node: exp.Expr) -> exp.Expr:
    """The value as TDengine writes it into a text: FLOAT and DOUBLE with six digits after the point."""
    if not typed(node).real:
        return as_text(node)
    written = call("FORMAT_STRING", text("%.6f"), cast(node, DOUBLE))
    return _unless_null(node, written)


def _begin(node: exp.Expr, pattern: str) -> exp.Expr:
    """The number at the start of a text, as C reads it; the empty text if there is none."""
    return call("REGEXP_EXTRACT", node.copy(), text(rf"^[ \t\n\x0B\f\r]*({pattern})"), number(1))


def _unless_null(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    test = exp.Is(this=wrap(node.copy()), expression=exp.Null())
    return exp.If(this=test, true=exp.Null(), false=value)
