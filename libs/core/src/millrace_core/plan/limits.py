"""The pass for LIMIT and OFFSET of each partition, and SLIMIT and SOFFSET, which count partitions.

Rows are numbered within their partition, in the order asked for, and partitions by their keys.
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.clauses import Clauses
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import ascending, rows_of
from millrace_core.plan.scope import Context, Scope, column
from millrace_core.plan.types.typed import fail, number

ROWS, NUMBERED = "_all", "_numbered"
ROW, PART = "_row", "_part"


def limit_partitions(scope: Scope, ctx: Context) -> None:
    """Number and cut the rows, if the SELECT has partitions and one of the clauses.

    :raises SqlError: NOT_ALLOWED for DISTINCT beside them.
    """
    select, clauses, keys = scope.select, scope.record(Clauses), scope.record(Keys)
    rows = {key: clause for key in ("limit", "offset") if (clause := select.args.get(key)) is not None}
    if not (clauses.partitions or (rows and clauses.partitioned)):
        return
    found = rows | clauses.partitions
    counted = {key: int(_count(clause).name) for key, clause in found.items()}
    if select.args.get("distinct"):
        message = "DISTINCT cannot be used with LIMIT of a partition or with SLIMIT"
        raise fail(ErrorCode.NOT_ALLOWED, message, next(iter(found.values())))
    for key in rows:
        select.set(key, None)
    names = [projection.alias for projection in select.expressions]
    order = _ordered(select)
    parts = []
    for i, part in enumerate(keys.parts):
        _append(select, f"_p#{i}", part.copy())
        parts.append(column(f"_p#{i}", ROWS))
    by_rows = [*order] or [ascending(part.copy()) for part in parts]
    row = exp.Window(
        this=exp.RowNumber(),
        partition_by=[part.copy() for part in parts],
        order=exp.Order(expressions=by_rows),
    )
    part_order = exp.Order(expressions=[ascending(part.copy()) for part in parts])
    part = exp.Window(this=exp.DenseRank(), order=part_order)
    beside = {**{name: column(name, ROWS) for name in names}, ROW: row, PART: part}
    hidden = {f"_o#{i}": key.this.copy() for i, key in enumerate(order)}
    numbered = exp.Select(
        expressions=_named({**beside, **hidden}), from_=exp.From(this=rows_of(select, ROWS))
    )
    outer = exp.Select(
        expressions=_named({name: column(name, NUMBERED) for name in names}),
        from_=exp.From(this=rows_of(numbered, NUMBERED)),
    )
    for name, first, most in ((ROW, "offset", "limit"), (PART, "soffset", "slimit")):
        _cut(outer, name, counted.get(first, 0), counted.get(most))
    _finish(select, outer, names, order, given=clauses.ordered)
    scope.select = outer


def _count(clause: exp.Expr) -> exp.Expr:
    return clause.expression if isinstance(clause, (exp.Limit, exp.Offset)) else clause


def _ordered(select: exp.Select) -> list[exp.Ordered]:
    """The SELECT's order, as columns of the SELECT seen from the level above it."""
    order = select.args.get("order")
    select.set("order", None)
    found = []
    for i, ordered in enumerate(order.expressions if order is not None else []):
        name = ordered.this.meta.get("result")
        if name is None:
            name = f"_o#{i}"
            _append(select, name, ordered.this.copy())
        made = ordered.copy()
        made.set("this", column(name, ROWS))
        found.append(made)
    return found


def _append(select: exp.Select, name: str, node: exp.Expr) -> None:
    select.append("expressions", exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True)))


def _cut(outer: exp.Select, name: str, skipped: int, most: int | None) -> None:
    if skipped:
        outer.where(exp.GT(this=column(name, NUMBERED), expression=number(skipped)), copy=False)
    if most is not None:
        outer.where(exp.LTE(this=column(name, NUMBERED), expression=number(skipped + most)), copy=False)


def _finish(
    select: exp.Select, outer: exp.Select, names: list[str], order: list[exp.Ordered], given: bool
) -> None:
    """Keep what the SELECT means to the query around it: its order, its types, whether it is the root."""
    keys = [column(PART, NUMBERED), column(ROW, NUMBERED)]
    by = [ascending(key) for key in keys]
    if given:
        by = []
        for i, ordered in enumerate(order):
            made = ordered.copy()
            made.set("this", column(f"_o#{i}", NUMBERED))
            by.append(made)
    if select.meta.pop("root", False):
        outer.meta["root"] = True
        outer.set("order", exp.Order(expressions=by))
    for projection, source in zip(outer.expressions, select.expressions, strict=False):
        projection.this.meta.update({k: v for k, v in source.this.meta.items() if k == "typed"})
        projection.meta.update({k: v for k, v in source.meta.items() if k == "name"})


def _named(columns: dict[str, exp.Expr]) -> list[exp.Expr]:
    return [
        exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True)) for name, node in columns.items()
    ]
