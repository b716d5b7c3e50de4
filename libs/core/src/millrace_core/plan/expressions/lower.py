"""The pass that turns typed expressions into Spark's: operators, calls, durations, aggregate functions."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import DurationLiteral, JsonContains, JsonGet
from millrace_core.model.types import DataType
from millrace_core.plan.expressions.calls import lower_call, repeats
from millrace_core.plan.expressions.json_tags import lower_contains, lower_get
from millrace_core.plan.functions.base import counted
from millrace_core.plan.functions.scalar import convert, duration_ticks
from millrace_core.plan.growth import LARGE, known_size, measured
from millrace_core.plan.scope import Context, Scope, column
from millrace_core.plan.spark.zones import instant, local, months_later
from millrace_core.plan.types.typed import (
    BIGINT,
    DOUBLE,
    Typed,
    cast,
    fail,
    number,
    spark_type,
    typed,
    with_type,
    wrap,
)  # fmt: skip
from millrace_core.timeline.precision import CALENDAR_MONTHS

MOST_SAFE = 1 << 62
"""The sum of an INT and a constant up to this is within BIGINT."""


def lower_expressions(scope: Scope, ctx: Context) -> None:
    """Lower every expression of the SELECT."""
    select = scope.select
    lowering = Lowerer(scope, ctx)
    for projection in select.expressions:
        projection.set("this", lowering.visit(projection.this))
    for key in ("where", "having"):
        if (clause := select.args.get(key)) is not None:
            clause.set("this", lowering.visit(clause.this))
    for join in select.args.get("joins") or []:
        if join.args.get("on") is not None:
            join.set("on", lowering.visit(join.args["on"]))
    if (group := select.args.get("group")) is not None:
        group.set("expressions", [lowering.visit(node) for node in group.expressions])
    if (partition := select.args.get("partition_by")) is not None:
        bare = [node.this if isinstance(node, exp.Alias) else node for node in partition]
        select.set("partition_by", [lowering.visit(node) for node in bare])
    if (order := select.args.get("order")) is not None:
        for ordered in order.expressions:
            if not ordered.this.meta.get("result"):
                ordered.set("this", lowering.visit(ordered.this))


class Lowerer:
    """Visits a typed expression bottom up and returns Spark's expression, also typed.

    ``condition``: whether it is a condition on the rows that trigger. Those are evaluated without Spark, and
    have neither sums beyond BIGINT nor texts cut by bytes.
    """

    def __init__(self, scope: Scope, ctx: Context, *, condition: bool = False) -> None:
        self.scope = scope
        self.ctx = ctx
        self.condition = condition
        self._inside = 0
        """Nodes of what has been lowered inside the node that is being visited."""

    def visit(self, node: exp.Expr) -> exp.Expr:
        type_ = node.meta.get("typed")
        if node.meta.get("lowered"):
            self._inside += known_size(node)
            return node
        outside, self._inside = self._inside, 0
        visitor = _VISITORS.get(type(node))
        if visitor is not None:
            found = visitor(self, node)
        else:
            for key in list(node.args):
                self._visit_argument(node, key)
            found = node
        if type_ is not None:
            with_type(found, type_)
        for key in ("line", "col"):
            if key in node.meta:
                found.meta.setdefault(key, node.meta[key])
        found.meta["lowered"] = True
        self.ctx.growth.visited += 1
        size = measured(found)
        self.ctx.growth.add(max(0, size - self._inside - 1), node)
        self._inside = outside + size
        return found

    def _visit_argument(self, node: exp.Expr, key: str) -> None:
        value = node.args[key]
        if isinstance(value, exp.Expr) and not isinstance(value, (exp.Identifier, exp.DataType)):
            node.set(key, self.visit(value))
        elif isinstance(value, list):
            node.set(key, [self.visit(item) if isinstance(item, exp.Expr) else item for item in value])

    def call(self, node: exp.Expr) -> exp.Expr:
        """A call whose large arguments are measured before it copies them."""
        if repeats(node):
            for i, argument in enumerate(node.expressions):
                if not isinstance(argument, DurationLiteral):
                    node.expressions[i] = self.visit(argument)
            if self._inside > LARGE:
                self.ctx.growth.check(self._copies(node), node)
            self._inside = 0  # visiting the call meets them once more
        return lower_call(self, node)

    def _copies(self, node: exp.Expr) -> int:
        """How many nodes the call will have for its arguments beyond those that they have now."""
        sizes: dict[str, int] = {}
        tried = node.copy()
        for i, argument in enumerate(node.expressions):
            if known_size(argument) > 1:
                name = f"_a{i}"
                sizes[name] = known_size(argument)
                stands = with_type(column(name), typed(argument))
                stands.meta["lowered"] = True
                tried.expressions[i] = stands
        tried.set("expressions", tried.expressions)
        found = lower_call(self, tried)
        names = (one.name for one in found.find_all(exp.Column) if not one.table)
        return sum(sizes.get(name, 0) for name in names) - sum(sizes.values())

    def column(self, node: exp.Expr) -> exp.Expr:
        return node

    def placeholder(self, node: exp.Expr) -> exp.Expr:
        # the cast gives the constant the same type as the trigger relation's column
        bare = exp.Placeholder(this=node.name)
        return exp.Cast(this=bare, to=spark_type(typed(node).type))

    def duration(self, node: exp.Expr) -> exp.Expr:
        return number(duration_ticks(node, node.meta["precision"]))

    def sum(self, node: exp.Expr) -> exp.Expr:
        """+ and -: exact for integers, whatever the type of the result."""
        type_ = typed(node)
        sides = [node.this, node.expression]
        months = next((side for side in sides if _in_months(side)), None)
        if months is not None and type_.timestamp:
            return self._on_the_calendar(node, months)
        whole = all(typed(side).integer or typed(side).timestamp for side in sides)
        inner = Typed(BIGINT) if whole and not any(_unsigned(side) for side in sides) else Typed(DOUBLE)
        left, right = self.of_type(sides[0], inner), self.of_type(sides[1], inner)
        if whole and _constant(left) and _constant(right):
            left = cast(left, inner)  # small constants are INT in Spark, and their sum could overflow
        if inner.type == BIGINT and type_.real and not self.condition and any(map(_large, sides)):
            inner = Typed(DataType("BIGINT UNSIGNED"))  # a DECIMAL in Spark, also signed: no overflow
            left, right = cast(left, inner), cast(right, inner)
        made = type(node)(this=left, expression=right)
        return made if type_.type.info.spark == inner.type.info.spark else cast(exp.Paren(this=made), type_)

    def _on_the_calendar(self, node: exp.Expr, months: exp.Expr) -> exp.Expr:
        """A time plus months or years: the same day and time of day in another month, in the query's zone."""
        if months is node.this and isinstance(node, exp.Sub):
            raise fail(ErrorCode.TYPE_MISMATCH, "a time cannot be subtracted from months", months)
        time = node.expression if months is node.this else node.this
        count = months.this * CALENDAR_MONTHS[months.args["unit"]] * (-1 if isinstance(node, exp.Sub) else 1)
        precision = typed(node).precision or self.ctx.precision
        clock = local(self.visit(time), precision, self.ctx.timezone)
        return instant(months_later(clock, count, precision), precision, self.ctx.timezone)

    def product(self, node: exp.Expr) -> exp.Expr:
        if typed(node).timestamp:
            # ticks are brought to a finer precision for a comparison, which is exact
            return exp.Mul(this=wrap(self.visit(node.this)), expression=node.expression)
        return exp.Mul(
            this=self.of_type(node.this, Typed(DOUBLE)),
            expression=self.of_type(node.expression, Typed(DOUBLE)),
        )

    def division(self, node: exp.Expr) -> exp.Expr:
        by = exp.Nullif(this=self.of_type(node.expression, Typed(DOUBLE)), expression=number(0))
        return exp.Div(this=self.of_type(node.this, Typed(DOUBLE)), expression=by)

    def rest(self, node: exp.Expr) -> exp.Expr:
        sides = [node.this, node.expression]
        whole = all(typed(side).integer or typed(side).timestamp for side in sides)
        inner = Typed(BIGINT if whole else DOUBLE)
        by = exp.Nullif(this=self.of_type(node.expression, inner), expression=number(0))
        made = exp.Mod(this=self.of_type(node.this, inner), expression=by)
        return cast(exp.Paren(this=made), DOUBLE) if whole else made

    def of_type(self, node: exp.Expr, wanted: Typed) -> exp.Expr:
        """The operand, lowered, of the wanted type."""
        source = typed(node)
        found = self.visit(node)
        if source.type.info.spark == wanted.type.info.spark:
            return found
        if source.text:
            return convert(found, wanted)
        return cast(found, wanted)

    def negative(self, node: exp.Expr) -> exp.Expr:
        # with the type of the result: -(-128) is not a TINYINT
        return exp.Paren(this=exp.Neg(this=wrap(self.of_type(node.this, typed(node)))))

    def comparison(self, node: exp.Expr) -> exp.Expr:
        sides = [node.this, node.expression]
        made = [self._comparable(side, sides) for side in sides]
        return type(node)(this=wrap(made[0]), expression=wrap(made[1]))

    def _comparable(self, side: exp.Expr, sides: list[exp.Expr]) -> exp.Expr:
        """A BOOL beside a number counts as 0 or 1."""
        found = self.visit(side)
        if typed(side).type.name == "BOOL" and any(typed(other).number for other in sides):
            return cast(found, BIGINT)
        return found

    def logic(self, node: exp.Expr) -> exp.Expr:
        made = {
            key: _grouped(self.visit(node.args[key])) for key in ("this", "expression") if node.args.get(key)
        }
        return type(node)(**made)

    def case(self, node: exp.Expr) -> exp.Expr:
        """Spark does not take BOOL beside numbers, so a BOOL becomes 0 or 1."""
        for key in list(node.args):
            self._visit_argument(node, key)
        if "typed" in node.meta and typed(node).number:
            results = [(branch, "true") for branch in node.args["ifs"]]
            for holder, key in [*results, (node, "default")] if node.args.get("default") else results:
                holder.set(key, counted(holder.args[key]))
        return node

    def json(self, node: exp.Expr) -> exp.Expr:
        tag, key = self.visit(node.this), node.expression.name
        return lower_get(tag, key, typed(node)) if isinstance(node, JsonGet) else lower_contains(tag, key)


def _in_months(node: exp.Expr) -> bool:
    return isinstance(node, DurationLiteral) and node.args["unit"] in CALENDAR_MONTHS


def _unsigned(node: exp.Expr) -> bool:
    return typed(node).type.name == "BIGINT UNSIGNED"


def _large(node: exp.Expr) -> bool:
    """Whether the sum of this integer and another may leave the range of BIGINT. Values of a trigger (times
    and numbers of rows) never do."""
    inner = node
    while isinstance(inner, (exp.Paren, exp.Cast)) or (
        isinstance(inner, exp.Anonymous) and inner.name == "cast"
    ):
        inner = inner.expressions[0] if isinstance(inner, exp.Anonymous) else inner.this
    if isinstance(inner, exp.Literal):
        return inner.name.isdigit() and int(inner.name) > MOST_SAFE
    if isinstance(inner, exp.Placeholder):
        return False
    return typed(node).type.name == "BIGINT" and not _constant(node)


def _constant(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner.this if isinstance(inner, exp.Neg) else inner, exp.Literal)


def _grouped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Connector) else node


_VISITORS: dict[type[exp.Expr], Callable[[Lowerer, exp.Expr], exp.Expr]] = {
    exp.Column: Lowerer.column,
    exp.Placeholder: Lowerer.placeholder,
    DurationLiteral: Lowerer.duration,
    exp.Add: Lowerer.sum,
    exp.Sub: Lowerer.sum,
    exp.Mul: Lowerer.product,
    exp.Div: Lowerer.division,
    exp.Mod: Lowerer.rest,
    exp.Neg: Lowerer.negative,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE), Lowerer.comparison),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), Lowerer.logic),
    exp.Anonymous: Lowerer.call,
    exp.Case: Lowerer.case,
    **dict.fromkeys((JsonGet, JsonContains), Lowerer.json),
}
