"""Limits functions that can make long texts from short ones: no text is longer than a column's may be.

If the types show that a result fits, nothing is added. Otherwise the query itself checks the length (before
it makes the text, where that can grow without bound), and ends with an error that names the function.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.query.nodes import position_of
from millrace_core.model.types import MAX_LENGTH
from millrace_core.plan.functions.base import FunctionCall, Rule
from millrace_core.plan.functions.text_lengths import repeat_type, replace_type
from millrace_core.plan.spark.pieces import as_text, call, refused, when
from millrace_core.plan.types.typed import BIGINT, DOUBLE, bytes_of, cast, fail, number, wrap

MOST_INSIDE = 16
"""The most nested calls that are checked while the query runs. Spark resolves them one by one from the
inside, going through the whole query each time, and gives up at a hundred."""
_ROW = "_x"
_LONGEST = MAX_LENGTH - 3
"""Types that are at least as long as this may have been cut off: an NCHAR's length counts as four
bytes each."""


def fits(it: FunctionCall, rule: Rule) -> bool:
    """Whether the types of the arguments show that the result is no longer than a text may be."""
    return bytes_of(rule(it.types, it.node, it.precision)) < _LONGEST


def within(
    at: exp.Expr, parts: dict[str, exp.Expr], body: Callable[[dict[str, exp.Expr]], exp.Expr]
) -> exp.Expr:
    """``body`` over named values. Each expression stands only once, however often the body uses it, so that
    nested calls do not double each other.

    :raises SqlError: TOO_LARGE if too many are nested.
    """
    inner = (one for node in parts.values() for one in node.find_all(exp.Transform))
    level = 1 + max((one.meta.get("level", 0) for one in inner), default=0)
    if level > MOST_INSIDE:
        message = (
            f"calls that may make a text longer than {MAX_LENGTH:,} bytes are nested {level} levels deep; "
            f"at most {MOST_INSIDE} are allowed"
        )
        raise SqlError(ErrorCode.TOO_LARGE, message, position_of(at))
    row = exp.to_identifier(_ROW, quoted=True)
    names = {name: exp.to_identifier(name, quoted=True) for name in parts}
    given = [exp.PropertyEQ(this=names[name].copy(), expression=node) for name, node in parts.items()]
    inside: dict[str, exp.Expr] = {
        name: exp.Dot(this=row.copy(), expression=word.copy()) for name, word in names.items()
    }
    made = exp.Lambda(this=body(inside), expressions=[row.copy()])
    one = exp.Transform(this=exp.Array(expressions=[exp.Struct(expressions=given)]), expression=made)
    one.meta["level"] = level
    return call("ELEMENT_AT", one, number(1))


def bounded(name: str, at: exp.Expr, made: exp.Expr) -> exp.Expr:
    """A text that is at most a few times as long as its arguments: checked once made. ``at``: the call."""

    def body(part: dict[str, exp.Expr]) -> exp.Expr:
        return _unless(name, _size(part["made"]), part["made"])

    return within(at, {"made": made}, body)


def repeat(it: FunctionCall) -> exp.Expr:
    """:raises SqlError: TOO_LARGE for constants that would make too long a text."""
    this, times = it.args
    if fits(it, repeat_type):
        return call("REPEAT", this, times)
    if isinstance(this, exp.Literal) and isinstance(times, exp.Literal) and times.name.isdigit():
        size = len(this.name.encode()) * int(times.name)
        if size > MAX_LENGTH:
            raise fail(ErrorCode.TOO_LARGE, _sentence(it.name, f"{size:,}"), it.node)

    def body(part: dict[str, exp.Expr]) -> exp.Expr:
        size = exp.Mul(this=cast(_size(part["this"]), DOUBLE), expression=cast(part["times"].copy(), DOUBLE))
        return _unless(it.name, size, call("REPEAT", part["this"].copy(), part["times"].copy()))

    return within(it.node, {"this": this, "times": times}, body)


def replace(it: FunctionCall) -> exp.Expr:
    if fits(it, replace_type):
        return call("REPLACE", *it.args)

    def body(part: dict[str, exp.Expr]) -> exp.Expr:
        this, what, put = part["this"], part["what"], part["put"]
        without = call("REPLACE", this.copy(), what.copy(), exp.Literal.string(""))
        gone = exp.Paren(this=exp.Sub(this=_size(this), expression=_size(without)))
        # an empty text is never found
        each = exp.Nullif(this=_size(what), expression=number(0))
        share = exp.Div(this=cast(gone, DOUBLE), expression=wrap(each))
        size = exp.Add(this=_size(without), expression=exp.Mul(this=share, expression=_size(put)))
        return _unless(it.name, size, call("REPLACE", this.copy(), what.copy(), put.copy()))

    return within(it.node, dict(zip(("this", "what", "put"), it.args, strict=True)), body)


def grown(build: Callable[[FunctionCall], exp.Expr], rule: Rule) -> Callable[[FunctionCall], exp.Expr]:
    """A function whose result is at most a few times as long as its arguments."""
    return lambda it: build(it) if fits(it, rule) else bounded(it.name, it.node, build(it))


def _unless(name: str, size: exp.Expr, made: exp.Expr) -> exp.Expr:
    too_long = exp.GT(this=wrap(size), expression=number(MAX_LENGTH))
    before, after = _sentence(name, "\0").split("\0")
    refusal = refused(before, cast(wrap(size.copy()), BIGINT), after)
    return when((too_long, as_text(refusal)), default=made.copy())


def _sentence(name: str, size: str) -> str:
    return f"{name} would make a text of {size} bytes; at most {MAX_LENGTH:,} are allowed"


def _size(node: exp.Expr) -> exp.Expr:
    return call("OCTET_LENGTH", node.copy())
