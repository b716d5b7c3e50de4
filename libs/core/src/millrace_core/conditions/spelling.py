"""Conditions on rows as data: typed and lowered like any expression of a query, then spelled out.

The planner's own passes type and lower a condition, so that it means what the same text means in WHERE. What
is left are Spark's operators and functions. Here Spark's implicit conversions become explicit, and every
operation gets its name from the table of ``trigger.rows.expressions``. What has no name there is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from sqlglot import exp

from millrace_core.catalog import Catalog
from millrace_core.conditions.calls import NAMED, SIMPLE, arguments_of, name_of
from millrace_core.conditions.patterns import like, regular
from millrace_core.conditions.types import (
    NUMBERS,
    WHOLE,
    Value,
    common_kind,
    converted,
    kind_of,
    real,
    scaled,
)
from millrace_core.conditions.work import MOST_WORK, work_of
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.query.nodes import position_of
from millrace_core.model.expression import AnyExpression, Call, Constant, Field
from millrace_core.model.schema import Table
from millrace_core.model.types import DataType
from millrace_core.plan.expressions.annotate import Typer
from millrace_core.plan.expressions.lower import Lowerer
from millrace_core.plan.growth import known_size
from millrace_core.plan.scope import Context, Scope, column, table_columns
from millrace_core.plan.types.typed import Typed, typed, with_type

MOST_DIGITS = 18  # a fraction of this many digits beside an unsigned BIGINT still fits into 128 bits
MOST_REPEATED, VISITS = 5_000, 4
"""How many visits a condition may take: the first number in all, and the second one more for each of its
nodes."""
Found = TypeVar("Found")
FORBIDDEN = frozenset({"now", "today", "rand"})
"""Functions whose value would be different when the row is evaluated again after a restart."""


def condition_expression(tree: exp.Expr, table: Table, timezone: str, what: str) -> AnyExpression:
    """A condition over one row of ``table``, as data. ``tree`` names columns, tags and ``tbname`` only.

    :raises SqlError: for types that do not fit, an unknown function, or one that is not supported here.
    """
    return _Row(tree, table, timezone, what).condition()


def value_expression(
    tree: exp.Expr, table: Table, timezone: str, what: str
) -> tuple[AnyExpression, DataType]:
    """A value of one row of ``table``, as data, and its type.

    :raises SqlError: as :func:`condition_expression`.
    """
    return _Row(tree, table, timezone, what).value()


class _Row:
    """An expression over one row, about to be typed, lowered and spelled out."""

    def __init__(self, tree: exp.Expr, table: Table, timezone: str, what: str) -> None:
        self.what, self.at = what, tree
        self.ctx = Context(Catalog(), None, timezone, table.precision, exp.Null())
        types = table_columns(table)
        self.tree, calls = _bound(tree, types, what)
        self.spelling = Spelling(what, {name: type_.type.info.spark for name, type_ in types.items()}, calls)

    def condition(self) -> AnyExpression:
        return self._shallow(
            lambda: self._spelled(Typer(self.ctx).row_condition(self.tree, self.what), "BOOLEAN")
        )

    def value(self) -> tuple[AnyExpression, DataType]:
        def read() -> tuple[AnyExpression, DataType]:
            tree = Typer(self.ctx).row_value(self.tree, self.what)
            type_ = typed(tree).type
            return self._spelled(tree, kind_of(type_.info.spark)), type_

        return self._shallow(read)

    def _spelled(self, tree: exp.Expr, kind: str) -> AnyExpression:
        lowered = Lowerer(Scope(exp.Select()), self.ctx, condition=True).visit(tree)
        self.spelling.visits = MOST_REPEATED + VISITS * known_size(lowered)
        found = self.spelling.as_kind(self.spelling.visit(lowered), kind, lowered)
        if work_of(found).cost > MOST_WORK:
            raise self.spelling.too_much(self.at)
        return found

    def _shallow(self, read: Callable[[], Found]) -> Found:
        try:
            return read()
        except RecursionError:
            message = f"{self.what}: the expression is nested too deeply"
            raise SqlError(ErrorCode.INVALID_VALUE, message, position_of(self.at)) from None


def _bound(
    tree: exp.Expr, types: Mapping[str, Typed], what: str
) -> tuple[exp.Expr, dict[tuple[int, int], str]]:
    """A copy whose columns are bound to those of the row, with their types; and the calls in it, by place."""
    holder = exp.Paren(this=tree.copy())
    calls: dict[tuple[int, int], str] = {}
    for node in list(holder.walk()):
        if isinstance(node, exp.Anonymous):
            if node.name in FORBIDDEN:
                raise _refused(what, f"{node.name}, whose value changes over time,", node)
            calls.setdefault((node.meta.get("line", 0), node.meta.get("col", 0)), node.name)
        elif isinstance(node, exp.Column):
            found = with_type(column(node.name, "_row"), types[node.name])
            place = position_of(node)
            found.meta.update(line=place.line, col=place.column)
            node.replace(found)
    return holder.this, calls


def _refused(what: str, thing: str, node: exp.Expr) -> SqlError:
    return SqlError(
        ErrorCode.UNSUPPORTED,
        f"{what}: {thing} is not supported in an expression over one row",
        position_of(node),
    )


class Spelling:
    """Visits Spark's tree bottom up."""

    def __init__(self, what: str, columns: dict[str, str], calls: dict[tuple[int, int], str]) -> None:
        self.what = what
        self.columns = columns
        self.calls = calls
        self.call: str | None = None
        """The function in the text that is being spelled out."""
        self.visits = 0
        """How many more visits there may be."""

    def visit(self, node: exp.Expr) -> Value:
        # an operand that is compared twice is spelled out twice
        self.visits -= 1
        if self.visits < 0:
            raise self.too_much(node)
        outer = self.call
        self.call = self.calls.get((node.meta.get("line", 0), node.meta.get("col", 0)), outer)
        found = self._visit(node)
        self.call = outer
        return Value(Call("not", (found.node,)), "BOOLEAN") if node.args.get("negate") else found

    def _visit(self, node: exp.Expr) -> Value:
        if any(value is True and key not in _FLAGS for key, value in node.args.items()):
            raise self.refused(node)
        visitor = _VISITORS.get(type(node)) or NAMED.get(name_of(node))
        if visitor is not None:
            return visitor(self, node)
        operation, kinds, result = SIMPLE.get(name_of(node), ("", (), ""))
        arguments = arguments_of(node)
        if operation == "concat":
            kinds *= len(arguments)
        if not operation or len(arguments) != len(kinds):
            raise self.refused(node)
        found = [self.as_kind(self.visit(a), kind, a) for a, kind in zip(arguments, kinds, strict=True)]
        return Value(Call(operation, tuple(found)), result)

    def too_much(self, node: exp.Expr) -> SqlError:
        message = (
            f"{self.what}: the expression is too expensive to evaluate for each row: it has too many chained "
            "parts, or nested calls that repeat their arguments"
        )
        return SqlError(ErrorCode.TOO_LARGE, message, position_of(node))

    def refused(self, node: exp.Expr) -> SqlError:
        return _refused(self.what, self.call or name_of(node).lower(), node)

    # -- types --

    def as_kind(self, value: Value, kind: str, at: exp.Expr) -> AnyExpression:
        """The value as one of another type, where Spark converts it by itself."""
        found = converted(value, kind)
        if found is None:
            raise SqlError(
                ErrorCode.TYPE_MISMATCH,
                f"{self.what}: {value.kind} cannot be used as {kind} in an expression over one row",
                position_of(at),
            )
        return found

    def common(self, nodes: list[exp.Expr], exact: bool = False) -> tuple[list[AnyExpression], str]:
        """The values as ones of a common type. ``exact``: whole numbers and fractions meet as DECIMAL."""
        values = [self.visit(node) for node in nodes]
        kind = common_kind(values)
        if kind == "DECIMAL":
            digits = max(value.digits for value in values)
            found = [scaled(value, digits) for value in values] if exact and digits <= MOST_DIGITS else []
            whole = [side for side in found if side is not None]
            if len(whole) == len(values):
                return whole, kind
            if digits:
                kind = "DOUBLE"
        return [self.as_kind(v, kind, node) for v, node in zip(values, nodes, strict=True)], kind

    # -- leaves --

    def column(self, node: exp.Expr) -> Value:
        spark = self.columns[node.name]
        found, kind = Field(node.name), kind_of(spark)
        plain = spark in ("BIGINT", "STRING", "BOOLEAN", "FLOAT", "DOUBLE", "BINARY")
        return Value(found if plain else Call("cast", (found, Constant(kind))), kind)

    def literal(self, node: exp.Expr) -> Value:
        text = node.name
        if node.args.get("is_string"):
            return Value(Constant(text), "STRING")
        if "e" in text.lower():
            return Value(real(float(text)), "DOUBLE")
        number = Decimal(text)
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and exponent < 0:
            return Value(Constant(text), "DECIMAL", -exponent)
        return Value(Constant(int(number)), "BIGINT" if abs(number) < 1 << 63 else "DECIMAL")

    def negative(self, node: exp.Expr) -> Value:
        value = self.visit(node.this)
        if isinstance(value.node, Constant) and value.kind in ("BIGINT", "DECIMAL"):
            constant = value.node.value
            if value.digits:
                text = str(constant)
                return value._replace(node=Constant(text[1:] if text.startswith("-") else f"-{text}"))
            assert isinstance(constant, int)
            return Value(Constant(-constant), "BIGINT" if -constant >= -(1 << 63) else "DECIMAL")
        if value.kind not in ("BIGINT", "DECIMAL", "FLOAT", "DOUBLE"):
            return Value(Call("neg", (self.as_kind(value, "DOUBLE", node),)), "DOUBLE")
        return value._replace(node=Call("neg", (value.node,)))

    # -- operators --

    def arithmetic(self, node: exp.Expr) -> Value:
        sides = [node.this, node.expression]
        values = [self.visit(side) for side in sides]
        kind = "BIGINT" if all(value.kind in ("BIGINT", "NULL") for value in values) else "DOUBLE"
        made = [self.as_kind(value, kind, side) for value, side in zip(values, sides, strict=True)]
        return Value(Call(_ARITHMETIC[type(node)], tuple(made)), kind)

    def rest(self, node: exp.Expr) -> Value:
        sides = [node.this, node.expression]
        values = [self.visit(side) for side in sides]
        kind = "BIGINT" if all(value.kind in ("BIGINT", "NULL") for value in values) else "DOUBLE"
        made = [self.as_kind(value, kind, side) for value, side in zip(values, sides, strict=True)]
        return Value(Call("rest" if kind == "BIGINT" else "real_rest", tuple(made)), kind)

    def comparison(self, node: exp.Expr) -> Value:
        sides, _ = self.common([node.this, node.expression], exact=True)
        return Value(Call(_COMPARISONS[type(node)], tuple(sides)), "BOOLEAN")

    def between(self, node: exp.Expr) -> Value:
        low, _ = self.common([node.this, node.args["low"]], exact=True)
        high, _ = self.common([node.this, node.args["high"]], exact=True)
        return Value(Call("and", (Call("ge", tuple(low)), Call("le", tuple(high)))), "BOOLEAN")

    def inside(self, node: exp.Expr) -> Value:
        values, _ = self.common([node.this, *node.expressions], exact=True)
        return Value(Call("in", tuple(values)), "BOOLEAN")

    def test(self, node: exp.Expr) -> Value:
        value = self.visit(node.this)
        if isinstance(node.expression, exp.Null):
            return Value(Call("is_null", (value.node,)), "BOOLEAN")
        wanted = Constant(bool(node.expression.this))
        return Value(Call("same", (self.as_kind(value, "BOOLEAN", node), wanted)), "BOOLEAN")

    def logic(self, node: exp.Expr) -> Value:
        """A chain of one operator is one call, however long."""
        sides: list[exp.Expr] = []
        left: exp.Expr = node
        while type(left) is type(node):
            sides.append(left.expression)
            left = left.this.unnest()
        sides = [left, *reversed(sides)]
        made = tuple(self.as_kind(self.visit(side), "BOOLEAN", side) for side in sides)
        return Value(Call("and" if isinstance(node, exp.And) else "or", made), "BOOLEAN")

    def like(self, node: exp.Expr) -> Value:
        return self._matches(node, like)

    def regular(self, node: exp.Expr) -> Value:
        return self._matches(node, regular)

    def _matches(self, node: exp.Expr, rewrite: Callable[[str], str]) -> Value:
        pattern = node.expression.unnest()
        text = self.as_kind(self.visit(node.this), "STRING", node.this)
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise _refused(self.what, "a pattern that is not a constant", node.expression)
        try:
            found = rewrite(pattern.name)
        except ValueError as error:
            raise SqlError(ErrorCode.INVALID_VALUE, f"{self.what}: {error}", position_of(pattern)) from None
        return Value(Call("matches", (text, Constant(found))), "BOOLEAN")

    # -- choices --

    def case(self, node: exp.Expr) -> Value:
        subject = node.args.get("this")
        conditions: list[AnyExpression] = []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(self.as_kind(self.visit(branch.this), "BOOLEAN", branch.this))
            else:
                sides, _ = self.common([subject, branch.this], exact=True)
                conditions.append(Call("eq", tuple(sides)))
        results = [branch.args["true"] for branch in node.args["ifs"]]
        return self._chosen(conditions, results, node.args.get("default"))

    def if_(self, node: exp.Expr) -> Value:
        condition = self.as_kind(self.visit(node.this), "BOOLEAN", node.this)
        return self._chosen([condition], [node.args["true"]], node.args.get("false"))

    def _chosen(
        self, conditions: list[AnyExpression], results: list[exp.Expr], default: exp.Expr | None
    ) -> Value:
        values, kind = self.common([*results, exp.Null() if default is None else default])
        parts = [part for pair in zip(conditions, values, strict=False) for part in pair]
        return Value(Call("case", (*parts, values[-1])), kind)

    def cast(self, node: exp.Expr) -> Value:
        target = node.args["to"].sql("spark")
        if target == "DATE" and isinstance(node.this, exp.Literal) and node.this.name == "1970-01-01":
            return Value(Constant(0), "DATE")
        value = self.visit(node.this)
        kind = kind_of(target)
        if value.kind == "STRING" and kind in ("BIGINT", "FLOAT", "DOUBLE"):
            parse, parsed = ("parse_whole", kind) if kind == "BIGINT" else ("parse_real", "DOUBLE")
            value = Value(Call(parse, (value.node,)), parsed)
        if value.kind == "DATE" and kind == "STRING":
            return Value(Call("day_text", (value.node,)), "STRING")
        if value.kind == "BOOLEAN" and target in WHOLE:
            value = Value(Call("cast", (value.node, Constant("BIGINT"))), "BIGINT")
        narrower = target in WHOLE - {"BIGINT"} and not isinstance(value.node, Constant)
        found = None if narrower else converted(value, kind)
        if found is None and value.kind in NUMBERS and kind in (*NUMBERS, "BOOLEAN"):
            whole = converted(value, "DOUBLE") if value.digits else value.node
            assert whole is not None
            found = Call("cast", (whole, Constant(target if target in WHOLE else kind)))
        if found is None:
            raise self.refused(node)
        return Value(found, kind)


_FLAGS = frozenset({"this", "is_string", "negate"})
"""The only boolean arguments of nodes that are taken into account."""
_ARITHMETIC: dict[Any, str] = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul"}
_COMPARISONS: dict[Any, str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
}  # fmt: skip

_VISITORS: dict[type[exp.Expr], Callable[[Spelling, exp.Expr], Value]] = {
    exp.Column: Spelling.column,
    exp.Literal: Spelling.literal,
    exp.Boolean: lambda spelling, node: Value(Constant(bool(node.this)), "BOOLEAN"),
    exp.Null: lambda spelling, node: Value(Constant(None), "NULL"),
    exp.Paren: lambda spelling, node: spelling.visit(node.this),
    exp.Neg: Spelling.negative,
    **dict.fromkeys(_ARITHMETIC, Spelling.arithmetic),
    exp.Mod: Spelling.rest,
    **dict.fromkeys(_COMPARISONS, Spelling.comparison),
    exp.Between: Spelling.between,
    exp.In: Spelling.inside,
    exp.Is: Spelling.test,
    **dict.fromkeys((exp.And, exp.Or), Spelling.logic),
    exp.Like: Spelling.like,
    exp.RegexpLike: Spelling.regular,
    exp.Case: Spelling.case,
    exp.If: Spelling.if_,
    **dict.fromkeys((exp.Cast, exp.TryCast), Spelling.cast),
}
"""By the node of the tree."""
