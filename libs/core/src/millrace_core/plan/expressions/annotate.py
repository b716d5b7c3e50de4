"""The pass that finds the type of every expression, and reads texts next to timestamps as timestamps."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.language.query import nodes
from millrace_core.model.schema import TICKS_PER_SECOND
from millrace_core.model.types import DataType
from millrace_core.plan.expressions.calls import type_call
from millrace_core.plan.expressions.json_tags import as_text, compared, type_contains, type_get
from millrace_core.plan.scope import Context, Result, Scope
from millrace_core.plan.types.typed import (
    BIGINT,
    BOOL,
    DOUBLE,
    NULL,
    TIMESTAMP,
    Typed,
    common,
    fail,
    number,
    rescale,
    text_of,
    typed,
    with_type,
    written,
)  # fmt: skip
from millrace_core.timeline import parse_timestamp

_ESCAPE = re.compile(r"\\([%_\\]?)")
INTEGERS = range(-(1 << 63), 1 << 64)


def annotate(scope: Scope, ctx: Context) -> None:
    """Give every node of the SELECT its type; record the result columns.

    :raises SqlError: TYPE_MISMATCH, UNKNOWN_FUNCTION, INVALID_VALUE, NOT_ALLOWED, UNSUPPORTED.
    """
    select = scope.select
    typer = Typer(ctx)
    for clause in _clauses(select):
        _typed_places(clause, typer)
    for projection in select.expressions:
        found = typer.visit(projection.this)
        projection.set("this", found)
        type_ = typed(found)
        if type_.null:
            type_ = Typed(DataType("VARCHAR", 1))
        if projection.meta["name"] == "_notify" and projection.alias == "_notify" and ctx.notify is not None:
            continue
        scope.results.append(Result(projection.meta["name"], projection.alias, type_))


def _clauses(select: exp.Select) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    keys = ("where", "group", "having", "order", "window_clause", "fill")
    found.extend(select.args[key] for key in keys if select.args.get(key) is not None)
    found.extend(join for join in select.args.get("joins") or [] if join.args.get("on"))
    found.extend(select.args.get("partition_by") or [])
    return found


def _typed_places(clause: exp.Expr, typer: Typer) -> None:
    """Type the expressions directly under a clause."""
    match clause:
        case exp.Having():
            clause.set("this", typer.condition(clause.this))
        case exp.Where():
            clause.set("this", typer.row_condition(clause.this, "WHERE"))
        case exp.Join():
            clause.set("on", typer.row_condition(clause.args["on"], "ON"))
        case exp.Order():
            for ordered in clause.expressions:
                if not ordered.this.meta.get("result"):
                    ordered.set("this", typer.visit(ordered.this))
        case exp.Group():
            values = [typer.row_value(node, "GROUP BY") for node in clause.expressions]
            clause.set("expressions", values)
        case nodes.Fill():
            clause.set("expressions", [typer.visit(node) for node in clause.expressions])
        case exp.Alias():
            clause.set("this", typer.row_value(clause.this, "PARTITION BY"))
        case nodes.WindowClause():
            _typed_window(clause, typer)
        case _:
            clause.replace(typer.row_value(clause, "PARTITION BY"))


def _typed_window(clause: exp.Expr, typer: Typer) -> None:
    """Type what a window clause reads from its rows; INTERVAL consists of durations alone."""
    match clause:
        case nodes.EventWindow():
            for key in ("start", "end"):
                clause.set(key, typer.row_condition(clause.args[key], "EVENT_WINDOW"))
        case nodes.SessionWindow() | nodes.StateWindow():
            clause.set("this", typer.row_value(clause.this, "a window clause"))
        case nodes.AnomalyWindow():
            first, *options = clause.expressions
            clause.set("expressions", [typer.row_value(first, "ANOMALY_WINDOW"), *options])
        case nodes.CountWindow():
            values = [typer.row_value(node, "a window clause") for node in clause.expressions]
            clause.set("expressions", values)


class Typer:
    """Visits an expression bottom up; returns the node, or another one to replace it."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.aggregate: str | None = None

    def visit(self, node: exp.Expr) -> exp.Expr:
        if "typed" in node.meta:
            return node
        visitor = _VISITORS.get(type(node))
        if visitor is None:
            raise fail(ErrorCode.UNSUPPORTED, f"{node.key.upper()} is not allowed here", node)
        return visitor(self, node)

    def child(self, node: exp.Expr, key: str) -> exp.Expr:
        found = self.visit(node.args[key])
        node.set(key, found)
        return found

    def condition(self, node: exp.Expr) -> exp.Expr:
        found = self.visit(node)
        if not (typed(found).type == BOOL or typed(found).null):
            if typed(found).number:
                value = with_type(exp.Paren(this=found), typed(found))
                return with_type(exp.NEQ(this=value, expression=with_type(number(0), BIGINT)), BOOL)
            raise fail(ErrorCode.TYPE_MISMATCH, f"expected a condition, not {typed(found).type}", node)
        return found

    def row_condition(self, node: exp.Expr, clause: str) -> exp.Expr:
        return self._of_a_row(self.condition, node, clause)

    def row_value(self, node: exp.Expr, clause: str) -> exp.Expr:
        return self._of_a_row(self.visit, node, clause)

    def _of_a_row(self, read: Callable[[exp.Expr], exp.Expr], node: exp.Expr, clause: str) -> exp.Expr:
        self.aggregate = clause  # no aggregate inside
        try:
            return read(node)
        finally:
            self.aggregate = None

    # -- leaves --

    def literal(self, node: exp.Expr) -> exp.Expr:
        if node.is_string:
            return with_type(node, DataType("VARCHAR", max(1, len(node.name.encode()))))
        if node.name.isdigit():
            if int(node.name) not in INTEGERS:
                raise fail(ErrorCode.INVALID_VALUE, f"{node.name} is too large", node)
            return with_type(node, BIGINT)
        return with_type(node, DOUBLE)

    def placeholder(self, node: exp.Expr) -> exp.Expr:
        type_ = self.ctx.placeholders.get(node.name)
        if type_ is None:
            raise fail(ErrorCode.NOT_ALLOWED, self._refusal(node.name), node)
        self.ctx.uses.add(node.name)
        return with_type(node, type_)

    def _refusal(self, name: str) -> str:
        if name == "%%trows":
            return "%%trows can be used only in FROM"
        if not self.ctx.placeholders:
            return f"{name} can be used only in streams"
        if name == "%%tbname":
            return "%%tbname needs PARTITION BY tbname"
        if name.startswith("%%"):
            return f"{name}: the stream has {len(self.ctx.partition)} grouping columns"
        return f"{name} cannot be used with this type of trigger"

    # -- operators --

    def arithmetic(self, node: exp.Expr) -> exp.Expr:
        left, right = self._durations(self.child(node, "this"), self.child(node, "expression"))
        node.set("this", left)
        node.set("expression", right)
        a, b = typed(left), typed(right)
        for side, type_ in ((left, a), (right, b)):
            if type_.type.name in ("JSON", "VARBINARY"):
                raise fail(ErrorCode.TYPE_MISMATCH, f"{type_.type.name} cannot be used in arithmetic", side)
        time = next((type_ for type_ in (a, b) if type_.timestamp), None)
        for side, type_ in ((left, a), (right, b)):
            if time is not None and type_.text and not type_.null:
                message = "a time can be combined only with numbers, durations such as 1s, and timestamp '…'"
                raise fail(ErrorCode.TYPE_MISMATCH, message, side)
        if isinstance(node, (exp.Add, exp.Sub)) and time is not None:
            if a.timestamp and b.timestamp:
                return with_type(node, BIGINT)
            other = b if a.timestamp else a
            if other.integer or other.null or other.type.name == "BOOL":
                return with_type(node, time)
        return with_type(node, DOUBLE)

    def _durations(self, left: exp.Expr, right: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """Read a duration in the precision of the timestamp next to it."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one, nodes.DurationLiteral):
                one.meta["precision"] = typed(other).precision or self.ctx.precision
        time = Typed(TIMESTAMP, self.ctx.precision)  # what a text next to a duration is read as
        if isinstance(left, nodes.DurationLiteral) and _quoted(right):
            return left, self.timestamp(right, time)
        if isinstance(right, nodes.DurationLiteral) and _quoted(left):
            return self.timestamp(left, time), right
        return left, right

    def bits(self, node: exp.Expr) -> exp.Expr:
        for key in ("this", "expression"):
            side = self.child(node, key)
            if not typed(side).integer:
                raise fail(ErrorCode.TYPE_MISMATCH, f"& and | need integers, not {typed(side).type}", side)
        return with_type(node, BIGINT)

    def negative(self, node: exp.Expr) -> exp.Expr:
        inner = self.child(node, "this")
        type_ = typed(inner)
        if not (type_.number or type_.null):
            raise fail(ErrorCode.TYPE_MISMATCH, f"- needs a number, not {type_.type}", inner)
        large = type_.type.name == "BIGINT UNSIGNED"
        return with_type(node, DOUBLE if type_.real or large else BIGINT)

    def duration(self, node: exp.Expr) -> exp.Expr:
        node.meta.setdefault("precision", self.ctx.precision)
        return with_type(node, BIGINT)

    def comparison(self, node: exp.Expr) -> exp.Expr:
        sides = self._comparable([self.child(node, "this"), self.child(node, "expression")])
        node.set("this", sides[0])
        node.set("expression", sides[1])
        return with_type(node, BOOL)

    def between(self, node: exp.Expr) -> exp.Expr:
        keys = ("this", "low", "high")
        for key, side in zip(keys, self._comparable([self.child(node, key) for key in keys]), strict=True):
            node.set(key, side)
        return with_type(node, BOOL)

    def inside(self, node: exp.Expr) -> exp.Expr:
        if node.args.get("query") or not node.expressions:
            raise fail(ErrorCode.UNSUPPORTED, "IN needs a list of values, not a subquery", node)
        first, *rest = self._comparable([self.child(node, "this"), *map(self.visit, node.expressions)])
        node.set("this", first)
        node.set("expressions", rest)
        return with_type(node, BOOL)

    def _comparable(self, sides: list[exp.Expr]) -> list[exp.Expr]:
        """Bring the sides of a comparison to comparable types."""
        sides = compared(sides)
        types = [typed(side) for side in sides]
        time = next((type_ for type_ in types if type_.timestamp), None)
        if time is not None:
            finest = max(
                (t.precision or "ms" for t in types if t.timestamp), key=TICKS_PER_SECOND.__getitem__
            )
            return [self.timestamp(side, Typed(TIMESTAMP, finest)) for side in sides]
        if any(type_.number for type_ in types):
            real = any(type_.real for type_ in types)
            sides = [self._numeric(side, real) for side in sides]
        elif any(t.text for t in types) and not all(t.text or t.null for t in types):
            names = " and ".join(dict.fromkeys(t.type.name for t in types))
            raise fail(ErrorCode.TYPE_MISMATCH, f"{names} cannot be compared", sides[0])
        return sides

    def _numeric(self, side: exp.Expr, real: bool) -> exp.Expr:
        """A side of a comparison with numbers. A text counts as the number that it begins with, or 0; next to
        whole numbers it counts as a whole number (NCHAR: always as a DOUBLE, as in TDengine)."""
        type_ = typed(side)
        if isinstance(side, exp.Literal) and side.is_string:
            try:
                value = float(side.name)
            except ValueError:
                raise fail(ErrorCode.TYPE_MISMATCH, f"{side.name!r} is not a number", side) from None
            same = number(int(value)) if value.is_integer() else exp.Literal.number(repr(value))
            return with_type(same, BIGINT if value.is_integer() else DOUBLE)
        if type_.null or not type_.text:
            return side
        if type_.type.name not in ("VARCHAR", "NCHAR"):
            raise fail(ErrorCode.TYPE_MISMATCH, f"{type_.type} cannot be compared with a number", side)
        call = exp.Anonymous(this="cast", expressions=[side])
        return with_type(call, DOUBLE if real or type_.type.name == "NCHAR" else BIGINT)

    def timestamp(self, side: exp.Expr, wanted: Typed) -> exp.Expr:
        """The side as ticks of the wanted precision; a text is read in the query's time zone."""
        type_ = typed(side)
        precision = wanted.precision or "ms"
        if isinstance(side, exp.Literal) and side.is_string:
            try:
                ticks = parse_timestamp(side.name, precision, self.ctx.timezone)
            except MillraceError as error:
                raise fail(error.code, error.message, side) from None
            made = with_type(number(ticks), wanted)
            made.meta.update({key: side.meta[key] for key in ("line", "col") if key in side.meta})
            return made
        if type_.timestamp:
            if type_.precision == precision:
                return side
            return with_type(rescale(side, type_.precision or "ms", precision), wanted)
        if type_.number or type_.null or type_.type.name == "BOOL":
            return side
        raise fail(ErrorCode.TYPE_MISMATCH, f"{type_.type} cannot be compared with a timestamp", side)

    def test(self, node: exp.Expr) -> exp.Expr:
        self.child(node, "this")
        if not isinstance(node.expression, (exp.Null, exp.Boolean)):
            raise fail(ErrorCode.SYNTAX, "IS can be used only with NULL, TRUE or FALSE", node)
        self.child(node, "expression")
        return with_type(node, BOOL)

    def matching(self, node: exp.Expr) -> exp.Expr:
        for key in ("this", "expression"):
            side = as_text(self.child(node, key))
            if not typed(side).text:
                raise fail(ErrorCode.TYPE_MISMATCH, f"expected text, not {typed(side).type}", side)
        if isinstance(node, exp.Like) and isinstance(node.expression, exp.Literal):
            pattern = exp.Literal.string(_ESCAPE.sub(_escape, node.expression.name))
            node.set("expression", with_type(pattern, typed(node.expression)))
        return with_type(node, BOOL)

    def logic(self, node: exp.Expr) -> exp.Expr:
        for key in ("this", "expression"):
            if node.args.get(key) is not None:
                node.set(key, self.condition(node.args[key]))
        return with_type(node, BOOL)

    def paren(self, node: exp.Expr) -> exp.Expr:
        return with_type(node, typed(self.child(node, "this")))

    def case(self, node: exp.Expr) -> exp.Expr:
        if node.args.get("this") is not None:
            self._search(node)
        places: list[tuple[exp.Expr, str]] = []
        for branch in node.args["ifs"]:
            branch.set("this", self.condition(branch.this))
            places.append((branch, "true"))
        if node.args.get("default") is not None:
            places.append((node, "default"))
        results = [typed(self.child(*place)) for place in places]
        first = next((type_ for type_ in results if not type_.null), None)
        if first is not None and first.text:  # if the first is a text, all become texts
            for i, (holder, key) in enumerate(places):
                if results[i].number or results[i].type == BOOL:
                    results[i] = text_of(written(results[i]), [])
                    as_text_ = exp.Anonymous(this="cast", expressions=[holder.args[key]])
                    holder.set(key, with_type(as_text_, results[i]))
        return with_type(node, common(results, node))

    def _search(self, node: exp.Expr) -> None:
        """Turn ``CASE a WHEN b`` into ``CASE WHEN a = b``: each b may be compared with a in another type."""
        subject = self.child(node, "this")
        self.ctx.growth.copied(subject, len(node.args["ifs"]), node)
        pairs = [self._comparable([subject, self.visit(branch.this)]) for branch in node.args["ifs"]]
        for branch, (left, right) in zip(node.args["ifs"], pairs, strict=True):
            branch.set("this", with_type(exp.EQ(this=left.copy(), expression=right), BOOL))
        node.set("this", None)

    def json(self, node: exp.Expr) -> exp.Expr:
        for key in ("this", "expression"):
            self.child(node, key)
        return type_get(node) if isinstance(node, nodes.JsonGet) else type_contains(node)


def _escape(found: re.Match[str]) -> str:
    """A backslash before anything but %, _ or \\ stands for itself (Spark would refuse it)."""
    return found[0] if found[1] else "\\\\"


def _quoted(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


_VISITORS: dict[type[exp.Expr], Callable[[Typer, exp.Expr], exp.Expr]] = {
    exp.Literal: Typer.literal,
    exp.Boolean: lambda typer, node: with_type(node, BOOL),
    exp.Null: lambda typer, node: with_type(node, NULL),
    exp.Placeholder: Typer.placeholder,
    nodes.DurationLiteral: Typer.duration,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), Typer.arithmetic),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr), Typer.bits),
    exp.Neg: Typer.negative,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE), Typer.comparison),
    exp.Between: Typer.between,
    exp.In: Typer.inside,
    exp.Is: Typer.test,
    **dict.fromkeys((exp.Like, exp.RegexpLike), Typer.matching),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), Typer.logic),
    exp.Paren: Typer.paren,
    exp.Case: Typer.case,
    exp.Anonymous: type_call,
    nodes.JsonGet: Typer.json,
    nodes.JsonContains: Typer.json,
}
