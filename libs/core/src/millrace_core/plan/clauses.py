"""The pass that notes which clauses a SELECT has, and refuses those that do not go together."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query import nodes
from millrace_core.plan.scope import Context, Scope
from millrace_core.plan.types.typed import fail

_MORE = ("window_clause", "partition_by", "range_clause", "joins", "having", "operation_modifiers")
"""Clauses that a SELECT can only have if it reads rows."""


@dataclass
class Clauses:
    """The clauses with which a SELECT was written: a window, PARTITION BY, ORDER BY, TAGS (or an equivalent),
    and ``slimit`` and ``soffset``."""

    windowed: bool = False
    partitioned: bool = False
    ordered: bool = False
    tags: bool = False
    partitions: dict[str, exp.Expr] = field(default_factory=dict)


def check_clauses(scope: Scope, ctx: Context) -> None:
    """Note the SELECT's clauses; :raises SqlError: with the place of a clause that cannot stand here."""
    select, found = scope.select, scope.record(Clauses)
    found.windowed = select.args.get("window_clause") is not None
    found.partitioned = bool(select.args.get("partition_by"))
    found.ordered = select.args.get("order") is not None
    for key in ("slimit", "soffset"):
        if (clause := select.args.get(key)) is not None and not (
            found.partitioned or select.args.get("group")
        ):
            raise fail(ErrorCode.NOT_ALLOWED, f"{key.upper()} needs PARTITION BY or GROUP BY", clause)
        if clause is not None:
            found.partitions[key] = clause
            select.set(key, None)
        if clause is not None and "soffset" in clause.meta:
            select.set("soffset", clause.meta["soffset"])
    _check_fill(select)
    found.tags = bool(select.args.get("operation_modifiers")) or _lists_tables(select, ctx)
    select.set("operation_modifiers", None)
    if found.tags and (found.windowed or select.args.get("joins")):
        raise fail(
            ErrorCode.NOT_ALLOWED, "SELECT TAGS reads one table and cannot have windows or joins", select
        )
    for key in ("limit", "offset"):
        clause = select.args.get(key)
        if clause is not None and not _whole(clause.expression):
            raise fail(ErrorCode.INVALID_VALUE, f"{key.upper()} must be a non-negative integer", clause)


def _whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.name.isdigit()


def _check_fill(select: exp.Select) -> None:
    """FILL belongs to INTERVAL; beside RANGE it belongs to INTERP."""
    fill = select.args.get("fill")
    if fill is None or select.args.get("range_clause") is not None:
        return
    if not isinstance(select.args.get("window_clause"), nodes.IntervalWindow):
        raise fail(ErrorCode.NOT_ALLOWED, "FILL needs INTERVAL", fill)
    if fill.this == "NONE":
        select.set("fill", None)


def _lists_tables(select: exp.Expr, ctx: Context) -> bool:
    """Whether a user asks which tables exist: DISTINCT or GROUP BY over ``tbname`` and tags alone, and
    likewise WHERE. As in TDengine, the answer includes tables without rows.

    In a stream such a query reads rows, since these tell when it must calculate again.
    """
    source = select.args.get("from_")
    named = source is not None and isinstance(source.this, exp.Table) and source.this
    if ctx.placeholders or not named or any(select.args.get(key) for key in _MORE):
        return False
    database = named.args["db"].name if named.args.get("db") else ctx.database
    found = ctx.catalog.find(database, named.name) if database else None
    if found is None or not found[0].tags:
        return False
    names = {"tbname", *(tag.name for tag in found[0].tags)}
    results = [node.this if isinstance(node, exp.Alias) else node for node in select.expressions]
    group, where = select.args.get("group"), select.args.get("where")
    keys = group.expressions if group is not None else results if select.args.get("distinct") else []
    read = [*results, *keys, *(where.find_all(exp.Column) if where is not None else [])]
    known = all(isinstance(node, exp.Column) and node.name in names for node in read)
    listed = {node.name for node in keys}
    return known and "tbname" in listed and all(node.name in listed for node in results)
