"""The pass that reads which clauses a SELECT has, and refuses those that do not go together."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from millrace_core.dialect.query import nodes
from millrace_core.errors import ErrorCode
from millrace_core.plan.names.tag_rows import lists_tables
from millrace_core.plan.scope import Context, Scope
from millrace_core.plan.types.typed import fail


@dataclass
class Clauses:
    """Which clauses a SELECT was written with: a window, PARTITION BY, ORDER BY, TAGS (or what means it), and
    ``slimit`` and ``soffset``."""

    windowed: bool = False
    partitioned: bool = False
    ordered: bool = False
    tags: bool = False
    partitions: dict[str, exp.Expr] = field(default_factory=dict)


def check_clauses(scope: Scope, ctx: Context) -> None:
    """Note the SELECT's clauses; :raises SqlError: with the place of one that cannot stand here."""
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
    found.tags = bool(select.args.get("operation_modifiers")) or lists_tables(select, ctx)
    select.set("operation_modifiers", None)
    if found.tags and (found.windowed or select.args.get("joins")):
        raise fail(
            ErrorCode.NOT_ALLOWED, "SELECT TAGS reads one table's tags, without windows or joins", select
        )
    for key in ("limit", "offset"):
        clause = select.args.get(key)
        if clause is not None and not _whole(clause.expression):
            raise fail(ErrorCode.INVALID_VALUE, f"{key.upper()} takes a whole number", clause)


def _whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.name.isdigit()


def _check_fill(select: exp.Select) -> None:
    """FILL belongs to INTERVAL; beside RANGE it is INTERP's."""
    fill = select.args.get("fill")
    if fill is None or select.args.get("range_clause") is not None:
        return
    if not isinstance(select.args.get("window_clause"), nodes.IntervalWindow):
        raise fail(ErrorCode.NOT_ALLOWED, "FILL needs INTERVAL", fill)
    if fill.this == "NONE":
        select.set("fill", None)
