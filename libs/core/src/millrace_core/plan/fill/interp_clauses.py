"""The clauses of INTERP: RANGE(first[, last][, surrounding]) EVERY(step) FILL(mode[, values])."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import DurationLiteral
from millrace_core.model.schema import Precision
from millrace_core.plan.expressions.annotate import Typer
from millrace_core.plan.expressions.lower import Lowerer
from millrace_core.plan.functions.scalar import convert, duration_ticks
from millrace_core.plan.levels import when
from millrace_core.plan.scope import Context, Relation, Scope
from millrace_core.plan.spark.pieces import refused
from millrace_core.plan.types.constants import constant
from millrace_core.plan.types.typed import BIGINT, TIMESTAMP, Typed, cast, fail, number, typed

MOST_SLICES = 1_000_000
TIME = "_t"
"""The column that holds a slice's time."""
ORIGINAL = ("PREV", "NEXT", "NEAR")
"""Modes in which a slice gets the value of another row unchanged."""


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of time, in ticks. ``surrounding``: how far away a row may be, if there is a limit."""

    first: exp.Expr
    last: exp.Expr
    every: int
    surrounding: int | None
    precision: Precision

    @staticmethod
    def of(scope: Scope, relation: Relation, ctx: Context, call: exp.Expr) -> Slices:
        select = scope.select
        assert relation.key is not None
        precision = relation.columns[relation.key].precision or ctx.precision
        clause, every = select.args.get("range_clause"), select.args.get("every")
        if clause is None:
            raise fail(ErrorCode.NOT_ALLOWED, "interp needs RANGE(first, last) EVERY(step)", call)
        times = list(clause.expressions)
        surrounding = None
        if len(times) > 1 and isinstance(times[-1], DurationLiteral):
            surrounding = _positive(times.pop(), precision, "the surrounding time of RANGE")
        if len(times) > 2:
            raise fail(
                ErrorCode.INVALID_VALUE, "RANGE takes one or two times and an optional duration", clause
            )
        if every is None and len(times) > 1:
            raise fail(ErrorCode.NOT_ALLOWED, "RANGE(first, last) needs EVERY(step)", clause)
        step = 1 if every is None else _positive(every, precision, "EVERY")
        ends = [_time(node, precision, scope, ctx) for node in times]
        _check_count(ends[0], ends[-1], step, clause)
        return Slices(ends[0], ends[-1], step, surrounding, precision)

    def last_number(self) -> exp.Expr:
        """The number of the last slice; the first one is 0."""
        span = exp.Paren(this=exp.Sub(this=self.last.copy(), expression=self.first.copy()))
        return cast(exp.IntDiv(this=span, expression=number(self.every)), BIGINT)

    def whole(self) -> exp.Expr:
        """As :meth:`last_number`, but -1 if there are no slices. If only placeholders tell the range, the
        query ends with an error when there are too many."""
        last = self.last_number()
        found: exp.Expr = exp.Greatest(this=last, expressions=[cast(number(-1), BIGINT)])
        if constant(self.first) is not None and constant(self.last) is not None:
            return found
        message = f" slices; at most {MOST_SLICES} are allowed"
        too_many = exp.GTE(this=last.copy(), expression=number(MOST_SLICES))
        return when(too_many, refused("RANGE and EVERY produce more than ", last.copy(), message), found)

    def time(self, at: exp.Expr) -> exp.Expr:
        """The time of the slice with this number."""
        step = exp.Mul(this=at, expression=number(self.every))
        return exp.Add(this=self.first.copy(), expression=step)


def _positive(node: exp.Expr, precision: Precision, what: str) -> int:
    found = duration_ticks(node, precision)
    if found <= 0:
        raise fail(ErrorCode.INVALID_VALUE, f"{what} must be longer than zero", node)
    return found


def _time(node: exp.Expr, precision: Precision, scope: Scope, ctx: Context) -> exp.Expr:
    """A time of RANGE, lowered; as a number of ticks, if that is known."""
    foreign = node.find(exp.Column)
    if foreign is not None:
        raise fail(ErrorCode.INVALID_VALUE, "the times in RANGE must be constants, not columns", foreign)
    typer = Typer(ctx)
    typer.aggregate = "RANGE"
    wanted = Typed(TIMESTAMP, precision)
    found = Lowerer(scope, ctx).visit(typer.timestamp(typer.visit(node), wanted))
    if not (typed(found).timestamp or typed(found).integer):
        raise fail(ErrorCode.TYPE_MISMATCH, f"RANGE needs times, not {typed(found).type.name}", node)
    value = constant(found)
    return cast(found if value is None else number(value), BIGINT)


def _check_count(first: exp.Expr, last: exp.Expr, step: int, at: exp.Expr) -> None:
    low, high = constant(first), constant(last)
    if low is None or high is None:
        return
    if high < low:
        raise fail(ErrorCode.INVALID_VALUE, "RANGE ends before it starts", at)
    if (high - low) // step >= MOST_SLICES:
        raise fail(ErrorCode.INVALID_VALUE, f"RANGE and EVERY produce more than {MOST_SLICES} slices", at)


@dataclass(frozen=True, slots=True)
class Fill:
    """How slices without a row are filled; ``values``: one typed constant for each INTERP, or none."""

    mode: str
    values: list[exp.Expr]

    @staticmethod
    def of(select: exp.Select, calls: list[exp.Expr], slices: Slices) -> Fill:
        clause = select.args.get("fill")
        at = select if clause is None else clause
        mode = clause.this.removesuffix("_F") if clause is not None else "NONE"
        given = list(clause.expressions) if clause is not None else []
        wanted = mode == "VALUE" or (mode in ORIGINAL and slices.surrounding is not None)
        if slices.surrounding is not None and mode not in ORIGINAL:
            message = f"a surrounding time in RANGE needs FILL({', '.join(ORIGINAL)}), not {mode}"
            raise fail(ErrorCode.NOT_ALLOWED, message, at)
        if len(given) != (len(calls) if wanted else 0):
            count = f"{len(calls)} values, one for each interp" if wanted else "no values"
            message = f"FILL({mode}) takes {count}, but {len(given)} are given"
            raise fail(ErrorCode.INVALID_VALUE, message, at)
        if mode == "LINEAR":
            for call in calls:
                if not typed(call).number:
                    message = f"FILL(LINEAR) needs numbers, not {typed(call).type.name}"
                    raise fail(ErrorCode.TYPE_MISMATCH, message, call)
        return Fill(mode, [_value(node, call) for node, call in zip(given, calls, strict=False)])


def _value(node: exp.Expr, call: exp.Expr) -> exp.Expr:
    """A value of FILL, with the column's type."""
    type_, given = typed(call), typed(node)
    if node.find(exp.Column, exp.Anonymous):
        raise fail(ErrorCode.INVALID_VALUE, "the values of FILL must be constants", node)
    if not given.null and given.text != type_.text:
        message = f"FILL: a value of type {given.type.name} does not fit a column of type {type_.type.name}"
        raise fail(ErrorCode.TYPE_MISMATCH, message, node)
    return cast(node.copy(), type_) if given.null else convert(node.copy(), type_)
