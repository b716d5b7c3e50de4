"""Scalar functions of numbers. A result that is not finite (``sqrt(-1)``, ``pow(0, -1)``) is NULL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.functions.base import (
    Build,
    Function,
    FunctionCall,
    any_null,
    constant_number,
    counted,
    fixed,
    is_null,
    of_one_type,
    same,
    spark,
)
from millrace_core.plan.functions.casts import plain_text
from millrace_core.plan.spark.pieces import call, text, when
from millrace_core.plan.types.typed import (
    BIGINT,
    DOUBLE,
    Typed,
    cast,
    common,
    fail,
    number,
    text_of,
    typed,
    wrap,
    written,
)

MOST_DIGITS = 300


def _real(name: str, count: int = 1) -> Function:
    """Spark's function of that name over DOUBLEs; it is finite wherever its arguments are."""

    def build(it: FunctionCall) -> exp.Expr:
        return call(name, *(cast(arg, DOUBLE) for arg in it.args))

    return Function(count, count, fixed(DOUBLE), build, ("number",))


def _within(name: str, low: str | None, high: str | None = None) -> Function:
    """Likewise, but NULL outside the bounds, which are comparisons such as ``> 0``."""

    def build(it: FunctionCall) -> exp.Expr:
        value = cast(it.args[0], DOUBLE)
        inside = _compare(value, low) if low else exp.Boolean(this=True)
        if high:
            inside = exp.And(this=inside, expression=_compare(value, high))
        return when((inside, call(name, value.copy())))

    return Function(1, 1, fixed(DOUBLE), build, ("number",))


def _compare(value: exp.Expr, bound: str) -> exp.Expr:
    operator, limit = bound.split()
    kind = {">": exp.GT, ">=": exp.GTE, "<=": exp.LTE}[operator]
    return kind(this=value.copy(), expression=number(int(limit)))


def finite(value: exp.Expr) -> exp.Expr:
    """The value; NULL for NaN and the infinities."""
    for name in ("NaN", "Infinity", "-Infinity"):
        value = exp.Nullif(this=value, expression=cast(text(name), DOUBLE))
    return value


def _finite(build: Build) -> Build:
    return lambda it: finite(build(it))


def _log(it: FunctionCall) -> exp.Expr:
    values = [cast(arg, DOUBLE) for arg in it.args]
    logs = [when((_compare(value, "> 0"), exp.Ln(this=value.copy()))) for value in values]
    if len(logs) == 1:
        return logs[0]
    return exp.Div(this=logs[0], expression=exp.Nullif(this=logs[1], expression=number(0)))


def _mod(it: FunctionCall) -> exp.Expr:
    left, right = (cast(arg, DOUBLE) for arg in it.args)
    return exp.Mod(this=left, expression=exp.Nullif(this=right, expression=number(0)))


def _whole(kind: type[exp.Expr]) -> Build:
    """CEIL and FLOOR. Spark makes BIGINTs of them, and turns huge numbers into the largest BIGINT."""

    def build(it: FunctionCall) -> exp.Expr:
        value = it.args[0]
        if not typed(value).real:
            return value
        small = exp.LT(this=exp.Abs(this=value.copy()), expression=exp.Literal.number("1e15"))
        return when((small, cast(kind(this=value.copy()), typed(value))), default=value)

    return build


def _round(it: FunctionCall) -> exp.Expr:
    return _digits(it, lambda value: exp.Round(this=value, decimals=number(0)), True)


def _truncate(it: FunctionCall) -> exp.Expr:
    return _digits(it, _towards_zero, False)


def _towards_zero(value: exp.Expr) -> exp.Expr:
    below = exp.LT(this=wrap(value.copy()), expression=number(0))
    huge = exp.GTE(this=exp.Abs(this=value.copy()), expression=exp.Literal.number("1e15"))
    return when(
        (huge, value), (below, cast(exp.Ceil(this=value.copy()), DOUBLE)),
        default=cast(exp.Floor(this=value.copy()), DOUBLE),
    )  # fmt: skip


def _digits(it: FunctionCall, whole: Callable[[exp.Expr], exp.Expr], nearest: bool) -> exp.Expr:
    """``whole(value * 10^digits) / 10^digits``; integers have no digits after the point to lose."""
    value, *rest = it.args
    if not rest:
        return whole(cast(value, DOUBLE)) if typed(value).real else value
    if isinstance(rest[0].unnest(), (exp.Literal, exp.Neg)):
        what = "the number of digits"
        count = int(constant_number(rest[0], it.name, what, -MOST_DIGITS, MOST_DIGITS))
        if not typed(value).real:
            return value if count >= 0 else _tens(value, -count, nearest)
        power: exp.Expr = cast(text(f"1e{abs(count)}"), DOUBLE)
        return _scaled(cast(value, DOUBLE), power, whole, count < 0)
    digits = wrap(rest[0].copy())
    power = call("POWER", number(10), cast(exp.Abs(this=digits.copy()), DOUBLE))
    left = exp.LT(this=digits, expression=number(0))
    real = cast(value, DOUBLE)
    return when(
        (is_null(rest[0]), exp.Null()),
        (left, cast(_scaled(real, power, whole, True), typed(value))),
        default=cast(_scaled(real, power, whole, False), typed(value)) if typed(value).real else value.copy(),
    )


def _scaled(value: exp.Expr, power: exp.Expr, whole: Callable[[exp.Expr], exp.Expr], left: bool) -> exp.Expr:
    """The value with the digits right (or left) of the point that ``power`` leaves, scaled back."""
    there, back = (exp.Div, exp.Mul) if left else (exp.Mul, exp.Div)
    scaled = exp.Paren(this=there(this=value.copy(), expression=power.copy()))
    done = back(this=whole(scaled), expression=power.copy())
    # a number that overflows when scaled has no such digits: it stays as it is
    endless = exp.GT(this=exp.Abs(this=scaled.copy()), expression=exp.Literal.number("1e300"))
    return when((endless, value.copy()), default=done)


def _tens(value: exp.Expr, zeros: int, nearest: bool) -> exp.Expr:
    """An integer with that many zeros at its end, calculated exactly."""
    if zeros > 18:
        return when((is_null(value), exp.Null()), default=number(0))
    unit = 10**zeros
    whole = cast(value, BIGINT)
    rest = exp.Paren(this=exp.Mod(this=whole, expression=number(unit)))
    cut = exp.Sub(this=whole.copy(), expression=rest)
    if not nearest:
        return cut
    far = exp.GTE(this=exp.Abs(this=rest.copy()), expression=number(unit // 2))
    up = exp.Mul(this=cast(exp.Sign(this=rest.copy()), BIGINT), expression=number(unit))
    return exp.Add(this=exp.Paren(this=cut), expression=when((far, up), default=number(0)))


def _extreme(name: str) -> Build:
    """NULL if one of the values is NULL (Spark skips NULLs); if one is a text, all are compared as texts."""

    def build(it: FunctionCall) -> exp.Expr:
        args = it.args
        if any(type_.text and not type_.null for type_ in it.types):
            args = [arg if typed(arg).text else plain_text(arg) for arg in args]
        else:
            args = of_one_type(it, args)
        return when((any_null(it.args), exp.Null()), default=call(name, *args))

    return build


def _extreme_type(types: list[Typed], node: exp.Expr, precision: object) -> Typed:
    texts = [t for t in types if t.text and not t.null]
    if not texts:
        return common(types, node)
    bad = next((t for t in types if t.type.name in ("JSON", "VARBINARY")), None)
    if bad is not None:
        raise fail(ErrorCode.TYPE_MISMATCH, f"{node.name} cannot compare {bad.type.name}", node)
    return text_of(max(map(written, types)), texts)


def _rand(it: FunctionCall) -> exp.Expr:
    """With a seed the same numbers in every run; without one, even a replay of a stream gives others."""
    if not it.args or typed(it.args[0]).null:
        return call("RAND")
    seed = int(constant_number(it.args[0], it.name, "the seed", -(1 << 63), (1 << 63) - 1))
    return call("RAND", number(seed))


MATH: dict[str, Function] = {
    "abs": Function(1, 1, same, lambda it: exp.Abs(this=counted(it.args[0])), ("number",)),
    "ceil": Function(1, 1, same, _whole(exp.Ceil), ("number",)),
    "floor": Function(1, 1, same, _whole(exp.Floor), ("number",)),
    "round": Function(1, 2, same, _round, ("number",)),
    "trunc": Function(2, 2, same, _truncate, ("number",)),
    "truncate": Function(2, 2, same, _truncate, ("number",)),
    "sign": Function(1, 1, same, lambda it: exp.Sign(this=counted(it.args[0])), ("number",)),
    "sqrt": _within("SQRT", ">= 0"),
    "pow": Function(2, 2, fixed(DOUBLE), _finite(_real("POWER", 2).build), ("number",)),
    "power": Function(2, 2, fixed(DOUBLE), _finite(_real("POWER", 2).build), ("number",)),
    "exp": Function(1, 1, fixed(DOUBLE), _finite(_real("EXP").build), ("number",)),
    "ln": _within("LN", "> 0"),
    "log": Function(1, 2, fixed(DOUBLE), _log, ("number",)),
    "mod": Function(2, 2, fixed(DOUBLE), _mod, ("number",)),
    "pi": Function(0, 0, fixed(DOUBLE), spark("PI")),
    "rand": Function(0, 1, fixed(DOUBLE), _rand, ("integer",)),
    "sin": _real("SIN"), "cos": _real("COS"), "tan": _real("TAN"), "atan": _real("ATAN"),
    "asin": _within("ASIN", ">= -1", "<= 1"), "acos": _within("ACOS", ">= -1", "<= 1"),
    "degrees": Function(1, 1, fixed(DOUBLE), _finite(_real("DEGREES").build), ("number",)),
    "radians": _real("RADIANS"),
    "greatest": Function(2, None, _extreme_type, _extreme("GREATEST")),
    "least": Function(2, None, _extreme_type, _extreme("LEAST")),
}  # fmt: skip
