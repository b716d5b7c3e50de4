"""The table of scalar functions: name -> number of arguments, type of the result, Spark SQL expression.

Aggregates are in ``aggregates.py``. A call's arguments come lowered (Spark expressions) and typed, save
durations, which stay literals. What Spark alone has is an ``exp.Anonymous`` with Spark's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from sqlglot import exp

from millrace_core.dialect.query_nodes import DurationLiteral
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import Duration
from millrace_core.model.types import DataType
from millrace_core.plan.typed import (
    BIGINT,
    BOOL,
    DOUBLE,
    TIMESTAMP,
    Typed,
    cast,
    common,
    fail,
    floor_mod,
    number,
    rescale,
    spark_type,
    typed,
    wrap,
)  # fmt: skip
from millrace_core.timeline import ticks, zone

SERVER_VERSION = "3.3.7.0"
_VARCHAR = DataType("VARCHAR", 64)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is being lowered. ``precision``, ``timezone``, ``database``: those of the query; ``now``:
    nanoseconds since the epoch, as an expression; ``node``: the call itself, for errors."""

    name: str
    args: list[exp.Expr]
    node: exp.Expr
    precision: Precision
    timezone: str
    database: str | None
    now: exp.Expr

    @property
    def types(self) -> list[Typed]:
        return [typed(arg) for arg in self.args]


Rule = Callable[[list[Typed], exp.Expr, Precision], Typed]
Build = Callable[[Call], exp.Expr]


@dataclass(frozen=True, slots=True)
class Function:
    """One row of the table: ``least``..``most`` arguments (most None: any number)."""

    least: int
    most: int | None
    result: Rule
    build: Build


def _fixed(type_: DataType) -> Rule:
    return lambda types, node, precision: Typed(type_)


def _same(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return types[0]


def _time(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return Typed(TIMESTAMP, next((t.precision for t in types if t.timestamp), None) or precision)


def _joined(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    name = "NCHAR" if any(t.type.name == "NCHAR" for t in types) else "VARCHAR"
    return Typed(DataType(name, max(1, sum(t.type.length or 0 for t in types))))


def _common(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return common(types, node)


def _branches(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return common(types[1:], node)


def _node(kind: type[exp.Expr], *keys: str) -> Build:
    """``kind(key=argument, …)`` with the arguments in this order."""
    return lambda call: kind(**dict(zip(keys, call.args, strict=False)))


def _call(name: str) -> Build:
    """Spark's own function of that name."""
    return lambda call: exp.Anonymous(this=name, expressions=call.args)


def _real(kind: type[exp.Expr], *keys: str) -> Function:
    """A function of DOUBLEs that gives a DOUBLE."""

    def build(call: Call) -> exp.Expr:
        _numbers(call)
        args = [cast(arg, DOUBLE) for arg in call.args]
        return kind(**dict(zip(keys, args, strict=True)))

    return Function(len(keys), len(keys), _fixed(DOUBLE), build)


def _spark_real(name: str, count: int = 1) -> Function:
    def build(call: Call) -> exp.Expr:
        _numbers(call)
        return exp.Anonymous(this=name, expressions=[cast(arg, DOUBLE) for arg in call.args])

    return Function(count, count, _fixed(DOUBLE), build)


def _numbers(call: Call) -> None:
    for arg, type_ in zip(call.args, call.types, strict=True):
        if not (type_.number or type_.null or type_.type.name == "BOOL"):
            message = f"{call.name} takes numbers, not {type_.type.name}"
            raise fail(ErrorCode.TYPE_MISMATCH, message, arg)


def _log(call: Call) -> exp.Expr:
    _numbers(call)
    values = [cast(arg, DOUBLE) for arg in call.args]
    if len(values) == 1:
        return exp.Ln(this=values[0])
    bottom = exp.Nullif(this=exp.Ln(this=values[1]), expression=number(0))
    return exp.Div(this=exp.Ln(this=values[0]), expression=bottom)


def _substring(call: Call) -> exp.Expr:
    text, start, *length = call.args
    return exp.Substring(this=text, start=start, length=length[0] if length else None)


def _if(call: Call) -> exp.Expr:
    condition, true, false = call.args
    return exp.If(this=condition, true=true, false=false)


def _null_test(wanted: bool) -> Build:
    def build(call: Call) -> exp.Expr:
        test: exp.Expr = exp.Is(this=wrap(call.args[0]), expression=exp.Null())
        return test if wanted else exp.Not(this=test)

    return build


# -- time ---------------------------------------------------------------------------------------------


def fixed_offset(timezone: str, node: exp.Expr) -> int:
    """Seconds that the zone is ahead of UTC.

    :raises SqlError: UNSUPPORTED for a zone with summer time.
    """
    where: tzinfo = zone(timezone)
    offsets = {
        (datetime(year, month, 1, tzinfo=where).utcoffset() or timedelta()).total_seconds()
        for year in (1990, 2010, 2020, 2030)
        for month in (1, 4, 7, 10)
    }
    if len(offsets) > 1:
        message = f"this is not possible yet in a time zone with summer time such as {timezone}"
        raise fail(ErrorCode.UNSUPPORTED, message, node)
    return int(offsets.pop())


def duration_ticks(node: exp.Expr, precision: Precision) -> int:
    """Ticks of a duration literal; :raises SqlError: where it is none, or of no fixed length."""
    if not isinstance(node, DurationLiteral):
        raise fail(ErrorCode.INVALID_VALUE, "a duration such as 10s is expected here", node)
    try:
        return ticks(Duration(node.this, node.args["unit"]), precision)
    except MillraceError as error:
        raise fail(error.code, error.message, node) from None


def _now(call: Call) -> exp.Expr:
    return rescale(call.now.copy(), "ns", call.precision)


def _today(call: Call) -> exp.Expr:
    offset = fixed_offset(call.timezone, call.node) * TICKS_PER_SECOND[call.precision]
    return _truncated(_now(call), 86_400 * TICKS_PER_SECOND[call.precision], offset)


def _truncated(time: exp.Expr, unit: int, offset: int) -> exp.Expr:
    shifted = (
        exp.Paren(this=exp.Add(this=wrap(time.copy()), expression=number(offset))) if offset else time.copy()
    )
    return exp.Sub(this=wrap(time), expression=floor_mod(shifted, unit))


def _timetruncate(call: Call) -> exp.Expr:
    precision = call.types[0].precision or call.precision
    unit = duration_ticks(call.args[1], precision)
    if unit <= 0:
        raise fail(ErrorCode.INVALID_VALUE, "the unit of timetruncate must be positive", call.args[1])
    local = len(call.args) < 3 or call.args[2].name != "0"
    days = call.args[1].args["unit"] in ("d", "w")
    offset = fixed_offset(call.timezone, call.node) * TICKS_PER_SECOND[precision] if local and days else 0
    return _truncated(call.args[0], unit, offset)


def _timediff(call: Call) -> exp.Expr:
    difference = exp.Sub(this=wrap(call.args[0]), expression=wrap(call.args[1]))
    if len(call.args) < 3:
        return difference
    unit = duration_ticks(call.args[2], call.types[0].precision or call.precision)
    return exp.IntDiv(this=exp.Paren(this=difference), expression=number(unit))


def _to_iso8601(call: Call) -> exp.Expr:
    """Text in a zone of fixed offset, by arithmetic: Spark's own formats depend on the session's zone."""
    time = call.args[0]
    precision = call.types[0].precision or call.precision
    per_second = TICKS_PER_SECOND[precision]
    name = call.args[1].name if len(call.args) > 1 else call.timezone
    seconds = fixed_offset(name, call.node)
    local = exp.Paren(this=exp.Add(this=wrap(time), expression=number(seconds * per_second)))
    in_day = floor_mod(local, 86_400 * per_second)
    days = exp.IntDiv(
        this=exp.Paren(this=exp.Sub(this=local.copy(), expression=in_day.copy())),
        expression=number(86_400 * per_second),
    )
    epoch = exp.Cast(this=exp.Literal.string("1970-01-01"), to=exp.DataType.build("DATE"))
    day = exp.Anonymous(
        this="DATE_ADD", expressions=[epoch, exp.Cast(this=days, to=exp.DataType.build("INT"))]
    )
    parts: list[exp.Expr] = [exp.Cast(this=day, to=spark_type(_VARCHAR)), exp.Literal.string("T")]
    for i, (unit, most) in enumerate(((3_600, 24), (60, 60), (1, 60))):
        parts += [exp.Literal.string(":")] if i else []
        parts.append(_digits(in_day, unit * per_second, most, 2))
    parts += [exp.Literal.string("."), _digits(in_day, 1, per_second, len(str(per_second)) - 1)]
    minutes = abs(seconds) // 60
    suffix = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    if name.upper() == "Z" or (len(call.args) < 2 and seconds == 0):
        suffix = "Z"
    return exp.Concat(expressions=[*parts, exp.Literal.string(suffix)])


def _digits(value: exp.Expr, unit: int, most: int, width: int) -> exp.Expr:
    """``value / unit % most`` with leading zeros."""
    whole = exp.Paren(this=exp.IntDiv(this=value.copy(), expression=number(unit)))
    text = exp.Cast(this=exp.Mod(this=whole, expression=number(most)), to=spark_type(_VARCHAR))
    return exp.Anonymous(this="LPAD", expressions=[text, number(width), exp.Literal.string("0")])


def _constant(value: Callable[[Call], str | None]) -> Build:
    def build(call: Call) -> exp.Expr:
        found = value(call)
        return exp.Null() if found is None else exp.Literal.string(found)

    return build


# -- casts --------------------------------------------------------------------------------------------


def cast_type(node: exp.Anonymous) -> DataType:
    """The target of a ``cast`` call: its second argument holds the type's name, its third the length."""
    name = node.expressions[1]
    length = int(node.expressions[2].name) if len(node.expressions) > 2 else None
    try:
        target = DataType.of(name.name, length)
    except MillraceError as error:
        raise fail(error.code, error.message, node) from None
    if target.name in ("VARCHAR", "NCHAR", "VARBINARY") and length is None:
        return DataType(target.name, 4096)
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


# -- the table ----------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Function] = {
    "abs": Function(1, 1, _same, _node(exp.Abs, "this")),
    "ceil": Function(1, 1, _same, _node(exp.Ceil, "this")),
    "floor": Function(1, 1, _same, _node(exp.Floor, "this")),
    "round": Function(1, 2, _same, _node(exp.Round, "this", "decimals")),
    "sqrt": _real(exp.Sqrt, "this"),
    "pow": _real(exp.Pow, "this", "expression"),
    "power": _real(exp.Pow, "this", "expression"),
    "exp": _real(exp.Exp, "this"),
    "ln": _real(exp.Ln, "this"),
    "log": Function(1, 2, _fixed(DOUBLE), _log),
    "sign": Function(1, 1, _same, _node(exp.Sign, "this")),
    "pi": Function(0, 0, _fixed(DOUBLE), _call("PI")),
    "sin": _spark_real("SIN"), "cos": _spark_real("COS"), "tan": _spark_real("TAN"),
    "asin": _spark_real("ASIN"), "acos": _spark_real("ACOS"), "atan": _spark_real("ATAN"),
    "degrees": _spark_real("DEGREES"), "radians": _spark_real("RADIANS"), "mod": _spark_real("MOD", 2),
    "greatest": Function(2, None, _common, _call("GREATEST")),
    "least": Function(2, None, _common, _call("LEAST")),
    "concat": Function(2, None, _joined, lambda call: exp.Concat(expressions=call.args)),
    "concat_ws": Function(3, None, _joined, _call("CONCAT_WS")),
    "lower": Function(1, 1, _same, _node(exp.Lower, "this")),
    "upper": Function(1, 1, _same, _node(exp.Upper, "this")),
    "length": Function(1, 1, _fixed(BIGINT), _call("OCTET_LENGTH")),
    "char_length": Function(1, 1, _fixed(BIGINT), _node(exp.Length, "this")),
    "ltrim": Function(1, 1, _same, _call("LTRIM")),
    "rtrim": Function(1, 1, _same, _call("RTRIM")),
    "trim": Function(1, 1, _same, _node(exp.Trim, "this")),
    "substr": Function(2, 3, _same, _substring),
    "substring": Function(2, 3, _same, _substring),
    "left": Function(2, 2, _same, lambda c: exp.Substring(this=c.args[0], start=number(1), length=c.args[1])),
    "right": Function(2, 2, _same, _call("RIGHT")),
    "replace": Function(3, 3, _same, _call("REPLACE")),
    "repeat": Function(2, 2, _fixed(DataType("VARCHAR", 4096)), _call("REPEAT")),
    "position": Function(2, 2, _fixed(BIGINT), _call("LOCATE")),
    "ascii": Function(1, 1, _fixed(BIGINT), _call("ASCII")),
    "coalesce": Function(1, None, _common, _call("COALESCE")),
    "ifnull": Function(2, 2, _common, _call("COALESCE")),
    "nvl": Function(2, 2, _common, _call("COALESCE")),
    "nullif": Function(2, 2, _same, _call("NULLIF")),
    "if": Function(3, 3, _branches, _if),
    "isnull": Function(1, 1, _fixed(BOOL), _null_test(True)),
    "isnotnull": Function(1, 1, _fixed(BOOL), _null_test(False)),
    "now": Function(0, 0, _time, _now),
    "today": Function(0, 0, _time, _today),
    "timetruncate": Function(2, 3, _time, _timetruncate),
    "timediff": Function(2, 3, _fixed(BIGINT), _timediff),
    "to_iso8601": Function(1, 2, _fixed(_VARCHAR), _to_iso8601),
    "timezone": Function(0, 0, _fixed(_VARCHAR), _constant(lambda call: call.timezone)),
    "database": Function(0, 0, _fixed(_VARCHAR), _constant(lambda call: call.database)),
    "server_version": Function(0, 0, _fixed(_VARCHAR), _constant(lambda call: SERVER_VERSION)),
    "client_version": Function(0, 0, _fixed(_VARCHAR), _constant(lambda call: SERVER_VERSION)),
    "server_status": Function(0, 0, _fixed(BIGINT), lambda call: number(1)),
}  # fmt: skip

TIMESTAMP_ARGUMENTS: dict[str, tuple[int, ...]] = {
    "timetruncate": (0,), "timediff": (0, 1), "to_iso8601": (0,),
}  # fmt: skip
"""Arguments that are timestamps: a text there is read as one."""

LATER = frozenset({
    "apercentile", "bottom", "csum", "derivative", "diff", "elapsed", "forecast", "histogram", "interp",
    "irate", "leastsquares", "mavg", "mode", "percentile", "sample", "statecount", "stateduration", "tail",
    "top", "twa", "unique", "to_char", "to_timestamp", "to_unixtimestamp", "dayofweek", "weekday", "week",
    "weekofyear", "char", "rand", "to_json", "trunc", "truncate", "substring_index", "cols", "group_concat",
})  # fmt: skip
"""Functions of TDengine that Millrace knows by name only."""
