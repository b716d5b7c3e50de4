"""What the clause of an ASOF or WINDOW JOIN says: by which time and which equal columns rows match."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import DurationLiteral
from millrace_core.plan.expressions.lower import Lowerer
from millrace_core.plan.functions.scalar import duration_ticks
from millrace_core.plan.join_pair import NearPair, Pair
from millrace_core.plan.scope import Context, Relation, Scope, conjuncts, own
from millrace_core.plan.types.typed import fail, typed

MOST_MATCHES = 1024
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip


def read_near(pair: Pair, scope: Scope, ctx: Context) -> NearPair:
    """:raises SqlError: NOT_ALLOWED, INVALID_VALUE, at anything that the join cannot have."""
    join = pair.join
    asof = join.args["kind"] == "ASOF"
    _check_tables(pair, scope)
    times: tuple[exp.Expr, exp.Expr] | None = None
    comparison: type[exp.Expr] = exp.GTE if join.args["side"] == "LEFT" else exp.LTE
    keys: list[tuple[exp.Expr, exp.Expr]] = []
    lowering = Lowerer(scope, ctx)
    for condition in conjuncts(join.args.get("on")):
        if type(condition) not in _FLIPPED:
            raise _refused(pair, condition)
        sides = [condition.this, condition.expression]
        names = [_relation(side, pair) for side in sides]
        if None in names or names[0] == names[1]:
            raise _refused(pair, condition)
        flip = names[0] == pair.other.alias
        driving, other = reversed(sides) if flip else sides
        if _is_time(driving, pair.driving) and _is_time(other, pair.other) and asof and times is None:
            comparison = _FLIPPED[type(condition)] if flip else type(condition)
            times = (lowering.visit(driving), lowering.visit(other))
        elif isinstance(condition, exp.EQ) and _is_key(driving, pair.driving) and _is_key(other, pair.other):
            keys.append((lowering.visit(driving), lowering.visit(other)))
        else:
            raise _refused(pair, condition)
    join.set("on", None)
    if times is None:
        assert pair.driving.key is not None and pair.other.key is not None
        times = (pair.driving.column(pair.driving.key), pair.other.column(pair.other.key))
    return NearPair(
        pair.join, pair.driving, pair.other, times, tuple(keys), _most(join, 1 if asof else None),
        comparison if asof else None, None if asof else _offsets(pair),
    )  # fmt: skip


def _check_tables(pair: Pair, scope: Scope) -> None:
    kind = pair.join.args["kind"]
    for relation in (pair.driving, pair.other):
        if relation.draft is None:
            raise fail(ErrorCode.NOT_ALLOWED, f"{kind} JOIN can join only tables", pair.join)
    precisions = {r.columns[r.key].precision for r in (pair.driving, pair.other) if r.key is not None}
    if len(precisions) > 1:
        message = f"the tables of a {kind} JOIN must have the same time precision"
        raise fail(ErrorCode.NOT_ALLOWED, message, pair.join)
    clauses = ("group", "partition_by", "window_clause")
    clause = next((scope.select.args[key] for key in clauses if scope.select.args.get(key)), None)
    if kind == "WINDOW" and clause is not None:
        at = clause[0] if isinstance(clause, list) else clause
        message = "WINDOW JOIN cannot be combined with GROUP BY, PARTITION BY or a window clause"
        raise fail(ErrorCode.NOT_ALLOWED, message, at)


def _refused(pair: Pair, node: exp.Expr) -> Exception:
    allowed = "one comparison of the time columns and equality of other columns"
    if pair.join.args["kind"] == "WINDOW":
        allowed = "equality of columns other than the time columns"
    message = f"ON of {pair.join.args['kind']} JOIN allows only {allowed}, joined by AND"
    return fail(ErrorCode.NOT_ALLOWED, message, node)


def _relation(node: exp.Expr, pair: Pair) -> str | None:
    """The only relation whose columns the side reads; None if there is not exactly one."""
    tables = {found.table for found in own(node) if isinstance(found, exp.Column)}
    found = tables.pop() if len(tables) == 1 else None
    return found if found in (pair.driving.alias, pair.other.alias) else None


def _is_time(node: exp.Expr, relation: Relation) -> bool:
    """The time column, or ``timetruncate`` of it."""
    if isinstance(node, exp.Anonymous) and node.name == "timetruncate":
        node = node.expressions[0]
    return isinstance(node, exp.Column) and node.name == relation.key


def _is_key(node: exp.Expr, relation: Relation) -> bool:
    return isinstance(node, exp.Column) and node.name != relation.key


def _most(join: exp.Expr, default: int | None) -> int | None:
    limit = join.args.get("jlimit")
    if limit is None:
        return default
    if int(limit.name) > MOST_MATCHES:
        message = f"JLIMIT must be from 0 to {MOST_MATCHES}, not {limit.name}"
        raise fail(ErrorCode.INVALID_VALUE, message, limit)
    return int(limit.name)


def _offsets(pair: Pair) -> tuple[int, int]:
    assert pair.driving.key is not None
    precision = typed(pair.driving.column(pair.driving.key)).precision or "ms"
    found = []
    for node in pair.join.args["window_offset"]:
        negative = isinstance(node, exp.Neg)
        literal = node.this if negative else node
        if not isinstance(literal, DurationLiteral):
            message = "WINDOW_OFFSET needs durations such as -1s"
            raise fail(ErrorCode.INVALID_VALUE, message, node)
        found.append(duration_ticks(literal, precision) * (-1 if negative else 1))
    return min(found), max(found)


def used_columns(scope: Scope, relation: Relation) -> list[str]:
    """The relation's columns that the SELECT reads, including those that order it."""
    found = [node.name for node in time_order(relation)]
    found += [
        node.name for node in own(scope.select)
        if isinstance(node, exp.Column) and node.table == relation.alias
    ]  # fmt: skip
    return list(dict.fromkeys(found))


def time_order(relation: Relation) -> list[exp.Column]:
    """The columns that order a relation's rows."""
    assert relation.key is not None
    found = [relation.column(relation.key)]
    return [*found, relation.column("tbname")] if relation.many_tables else found
