"""The range that FILL fills: the first and the last tick that WHERE, or the trigger, allows for a row."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millrace_core.plan.model import Comparison, Formula
from millrace_core.plan.scope import Context, Relation, Scope, conjuncts
from millrace_core.plan.spark.zones import floor_div
from millrace_core.plan.types.typed import BIGINT, Typed, cast, number, wrap


def range_of(scope: Scope, relation: Relation, ctx: Context) -> tuple[exp.Expr | None, exp.Expr | None]:
    """The first and last tick that the conditions on a relation's time allow; None: there is no bound."""
    low: list[exp.Expr] = []
    high: list[exp.Expr] = []
    for condition in _conditions(scope.select):
        for comparison, value, scale in _comparisons(condition, relation):
            (low if comparison[0] == ">" else high).append(_inclusive(comparison, value, scale))
    if relation.draft is not None and relation.draft.kind == "trows":
        for found, terms in ((low, ctx.trows[0]), (high, ctx.trows[1])):
            found.extend(_inclusive(comparison, _reference(formula), 1) for comparison, formula in terms)
    return _extreme("GREATEST", low), _extreme("LEAST", high)


def _conditions(select: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of WHERE, which may be in a lower level by now."""
    yield from conjuncts(select.args.get("where"))
    source = select.args.get("from_")
    if source is not None and isinstance(source.this, exp.Subquery):
        yield from _conditions(source.this.this)


def _reference(formula: Formula) -> exp.Expr:
    """A trigger's value; bounds of a trigger's own rows are always such values."""
    kind, name = formula
    assert kind == "ref"
    return cast(exp.Placeholder(this=name), BIGINT)


def _extreme(name: str, terms: list[exp.Expr]) -> exp.Expr | None:
    if len(terms) < 2:
        return terms[0] if terms else None
    return exp.Anonymous(this=name, expressions=terms)


_FLIPPED: dict[Comparison, Comparison] = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_COMPARISONS: dict[type[exp.Expr], tuple[Comparison, ...]] = {
    exp.GTE: (">=",), exp.GT: (">",), exp.LTE: ("<=",), exp.LT: ("<",), exp.EQ: (">=", "<="),
}  # fmt: skip


def _comparisons(condition: exp.Expr, relation: Relation) -> list[tuple[Comparison, exp.Expr, int]]:
    """``time * scale <comparison> value``, in each way in which the condition can be read like this."""
    found: list[tuple[Comparison, exp.Expr, int]] = []
    if isinstance(condition, exp.Between):
        scale = _scale(condition.this, relation)
        bounds: tuple[tuple[Comparison, str], ...] = ((">=", "low"), ("<=", "high"))
        if scale:
            found = [(comparison, condition.args[key], scale) for comparison, key in bounds]
    for comparison in _COMPARISONS.get(type(condition), ()):
        left, right = condition.this, condition.expression
        if scale := _scale(left, relation):
            found.append((comparison, right, scale))
        elif scale := _scale(right, relation):
            found.append((_FLIPPED[comparison], left, scale))
    return [one for one in found if one[1].find(exp.Column) is None]


def _scale(node: exp.Expr, relation: Relation) -> int:
    """The factor of the relation's time (a comparison with finer ticks multiplies it); 0: it is not
    that time."""
    inner = node.unnest()
    if isinstance(inner, exp.Mul) and isinstance(inner.expression, exp.Literal):
        return int(inner.expression.name) if _scale(inner.this, relation) == 1 else 0
    same = isinstance(inner, exp.Column) and (inner.table, inner.name) == (relation.alias, relation.key)
    return 1 if same else 0


def _inclusive(comparison: Comparison, value: exp.Expr, scale: int) -> exp.Expr:
    """The first or last tick that a comparison allows."""
    value = value.copy()
    type_: Typed | None = value.meta.get("typed")
    whole = type_ is None or not type_.real
    if not whole:
        kind = exp.Ceil if comparison in (">=", "<") else exp.Floor
        value = cast(kind(this=value), BIGINT)
    if comparison in (">", "<"):
        step = exp.Add if comparison == ">" else exp.Sub
        value = exp.Paren(this=step(this=wrap(value), expression=number(1)))
    if scale == 1:
        return value
    if comparison[0] == ">":
        value = exp.Paren(this=exp.Add(this=wrap(value), expression=number(scale - 1)))
    return floor_div(value, scale)
