"""The pass that finds which rows a source needs: its child table, its group, and bounds on time."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millrace_core.errors import MillraceError
from millrace_core.language.query import nodes
from millrace_core.model.stream import Duration
from millrace_core.plan.functions.quotients import whole_quotient
from millrace_core.plan.join_pair import NearPair
from millrace_core.plan.model import Comparison, Formula
from millrace_core.plan.scope import Context, Relation, Scope, SourceDraft, conjuncts
from millrace_core.plan.spark.text import column_of
from millrace_core.plan.types.typed import typed
from millrace_core.timeline import ticks

_FLIPPED: dict[Comparison, Comparison] = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_COMPARISONS: dict[type[exp.Expr], Comparison] = {exp.GTE: ">=", exp.GT: ">", exp.LTE: "<=", exp.LT: "<"}
_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div"}


def find_bounds(scope: Scope, ctx: Context) -> None:
    """Read the conditions that every row must meet: those of WHERE, and those of ON of inner joins.

    The ON of an outer join says nothing about the rows of its left side, but WHERE does about both sides.
    """
    select = scope.select
    conditions = list(conjuncts(select.args.get("where")))
    for join in select.args.get("joins") or []:
        if not join.args.get("side") or join.args.get("kind") == "SEMI":
            conditions.extend(conjuncts(join.args.get("on")))
    by_alias = {relation.alias: relation for relation in scope.relations if relation.draft}
    near = scope.found(NearPair)
    if near is not None:
        by_alias.pop(near.other.alias)  # which row is near must not depend on WHERE
    for condition in conditions:
        for column, factor, comparison, value in _comparisons(condition):
            relation = by_alias.get(column.args["table"].name) if column.args.get("table") else None
            if relation is not None and relation.draft is not None and relation.draft.kind != "system":
                _note(relation, relation.draft, column, factor, comparison, value, ctx)
    for join in select.args.get("joins") or []:
        if join.args.get("side") in (None, "", "LEFT"):
            _follow(join, by_alias)
    if near is not None:
        _follow_near(near)
    for relation in by_alias.values():
        _group(relation.draft, ctx)


def _follow(join: exp.Expr, by_alias: dict[str, Relation]) -> None:
    """If tables are joined on their times, the joined table needs no times that the one before it
    does not need."""
    for condition in conjuncts(join.args.get("on")):
        if not (isinstance(condition, exp.EQ) and isinstance(condition.this, exp.Column)):
            continue
        sides = [condition.this, condition.expression]
        relations = [by_alias.get(side.table) if isinstance(side, exp.Column) else None for side in sides]
        for here, there in ((0, 1), (1, 0)):
            joined, before = relations[here], relations[there]
            if joined is None or before is None or joined.alias != join.this.name:
                continue
            if sides[here].name == joined.key and sides[there].name == before.key:
                _copy_bounds(before.draft, joined.draft)


def _follow_near(pair: NearPair) -> None:
    """The other rows of an ASOF or WINDOW JOIN lie on one side of the driving rows, or in their windows."""
    source, target = pair.driving.draft, pair.other.draft
    if source is None or target is None or not all(isinstance(time, exp.Column) for time in pair.times):
        return
    first, last = pair.offsets or (0, 0)
    if pair.comparison not in (exp.GT, exp.GTE):
        target.low.extend((way, ("add", formula, ("const", first))) for way, formula in source.low)
    if pair.comparison not in (exp.LT, exp.LTE):
        target.high.extend((way, ("add", formula, ("const", last))) for way, formula in source.high)


def _copy_bounds(source: SourceDraft | None, target: SourceDraft | None) -> None:
    same = source and target and source.table and target.table
    if same and source and target and source.table.precision == target.table.precision:  # type: ignore[union-attr]
        target.low.extend(source.low)
        target.high.extend(source.high)


def _comparisons(condition: exp.Expr) -> Iterator[tuple[exp.Column, int, str, exp.Expr]]:
    """``column * factor <comparison> value``, in each way in which the condition can be read like this."""
    if isinstance(condition, exp.Between) and (scaled := _scaled(condition.this)):
        yield *scaled, ">=", condition.args["low"]
        yield *scaled, "<=", condition.args["high"]
    comparison = "=" if isinstance(condition, exp.EQ) else _COMPARISONS.get(type(condition))
    if comparison is None:
        return
    left, right = condition.this, condition.expression
    if scaled := _scaled(left):
        yield *scaled, comparison, right
    if scaled := _scaled(right):
        yield *scaled, "=" if comparison == "=" else _FLIPPED[comparison], left


def _scaled(node: exp.Expr) -> tuple[exp.Column, int] | None:
    """A column, and the factor that converts its ticks to those it is compared with."""
    inner = node.unnest()
    if isinstance(inner, exp.Column):
        return inner, 1
    if isinstance(inner, exp.Mul) and typed(inner).timestamp and isinstance(inner.this, exp.Column):
        return inner.this, int(inner.expression.name)
    return None


def _in_ticks_of(formula: Formula, factor: int, comparison: Comparison) -> Formula:
    """The bound on a column, if ``factor`` times the column is compared with ``formula``.

    Whole numbers are used, because floats cannot hold times in nanoseconds exactly."""
    if factor == 1:
        return formula
    divisor: Formula = ("const", factor)
    if comparison in (">", "<="):
        return ("floordiv", formula, divisor)
    return ("neg", ("floordiv", ("neg", formula), divisor))  # rounded up


def _note(
    relation: Relation, draft: SourceDraft, column: exp.Column, factor: int, comparison: str,
    value: exp.Expr, ctx: Context,
) -> None:  # fmt: skip
    if column.name == relation.key:
        formula = _formula(value)
        if formula is None or draft.kind == "trows":
            return
        bounds: tuple[Comparison, ...] = (">=", "<=") if comparison == "=" else (comparison,)  # type: ignore[assignment]
        for bound in bounds:
            terms = draft.low if bound in (">=", ">") else draft.high
            terms.append((bound, _in_ticks_of(formula, factor, bound)))
        return
    if comparison != "=" or factor != 1:
        return
    if column.name == "tbname" and isinstance(value, exp.Literal) and value.is_string and not draft.child:
        draft.child = value.name
    elif isinstance(value, exp.Placeholder):
        _equals(draft, column.name, value.name, ctx)


def _equals(draft: SourceDraft, column: str, placeholder: str, ctx: Context) -> None:
    number = placeholder.removeprefix("%%")
    if number.isdigit() and int(number) > len(ctx.partition):
        return  # a key of rows says nothing about their tables
    grouping = ctx.partition[int(number) - 1] if number.isdigit() else "tbname"
    if column == "tbname" and grouping == "tbname":
        draft.own_table |= ctx.source is not None and draft.table is not None and _same_table(draft, ctx)
    elif number.isdigit() and draft.table is not None and draft.table.tag(column) is not None:
        draft.tag_equals[column] = int(number)


def _same_table(draft: SourceDraft, ctx: Context) -> bool:
    assert ctx.source is not None and draft.table is not None
    table = ctx.source.table
    return (table.db, table.name) == (draft.table.db, draft.table.name)


def _group(draft: SourceDraft | None, ctx: Context) -> None:
    """A source that is the trigger table and fixes all tags of the group holds only the group's rows."""
    if draft is None or draft.table is None or ctx.source is None or not ctx.partition or draft.own_table:
        return
    tags = {tag: i for i, tag in enumerate(ctx.partition, 1) if tag != "tbname"}
    if (
        _same_table(draft, ctx)
        and len(tags) == len(ctx.partition)
        and tags.items() <= draft.tag_equals.items()
    ):
        draft.group_tags = True


def _formula(node: exp.Expr) -> Formula | None:
    """The expression as a formula over the trigger's values, if it is one."""
    match node:
        case exp.Paren():
            return _formula(node.this)
        case exp.Literal() if not node.is_string:
            return ("const", int(node.name) if node.name.isdigit() else float(node.name))
        case exp.Placeholder():
            return ("ref", column_of(node.name))
        case nodes.DurationLiteral():
            try:
                return ("const", ticks(Duration(node.this, node.args["unit"]), node.meta["precision"]))
            except MillraceError:
                return None  # a month: the lowering refuses it, with its place
        case exp.Neg():
            return _applied("neg", node.this)
        case exp.Anonymous() if node.name == "cast" and typed(node).type.info.integer:
            if (division := whole_quotient(node)) is not None:
                return _applied("quotient", division.this, division.expression)
            source = typed(node.expressions[0])
            if source.text or (source.timestamp and source.precision != typed(node).precision):
                return None
            return _applied("trunc", node.expressions[0])
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _applied(_OPERATORS[type(node)], node.this, node.expression)
    return None


def _applied(operation: str, *nodes_: exp.Expr) -> Formula | None:
    found = [_formula(node) for node in nodes_]
    return None if None in found else (operation, *found)
