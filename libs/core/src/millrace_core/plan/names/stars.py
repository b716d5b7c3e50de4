"""The pass that expands ``*`` into columns, and ``last(*)``, ``last(a, b)`` and ``cols(…)`` into results."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.aggregates.cols import each_result
from millrace_core.plan.aggregates.table import EACH_COLUMN
from millrace_core.plan.names.resolve import named_relation
from millrace_core.plan.scope import Context, Relation, Scope
from millrace_core.plan.types.typed import fail


def expand_stars(scope: Scope, ctx: Context) -> None:
    """Replace ``*``, ``t.*`` and ``last(*)`` by columns."""
    found: list[exp.Expr] = []
    for projection in scope.select.expressions:
        found.extend(_expanded(projection, scope))
    scope.select.set("expressions", found)


def _expanded(node: exp.Expr, scope: Scope) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Star):
        if not scope.relations:
            raise fail(ErrorCode.SYNTAX, "* needs a table", node)
        for relation in scope.relations:
            yield from _columns(relation, node)
    elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        yield from _columns(named_relation(node, scope), node)
    elif (results := each_result(node)) is not None:
        for call, result in results:
            yield from _selected(call, result, scope)
    elif isinstance(node, exp.Anonymous) and node.name in EACH_COLUMN and _several(node):
        for argument in node.expressions:
            for each in _arguments(argument, scope):
                call = exp.Anonymous(this=node.name, expressions=[each])
                call.meta.update(node.meta, text=f"{node.name}({each.meta.get('text') or each.sql()})")
                yield call
    else:
        yield node


def _arguments(argument: exp.Expr, scope: Scope) -> Iterator[exp.Expr]:
    """The arguments that ``last(argument)`` stands for: a star means only columns, not a super table's tags
    (in TDengine, ``multiResultFunctionStarReturnTags`` 0)."""
    starred = isinstance(argument, exp.Star) or isinstance(argument.this, exp.Star)
    for each in _expanded(argument, scope):
        if not (starred and each.name in _tags(each, scope)):
            yield each


def _tags(column: exp.Expr, scope: Scope) -> set[str]:
    drafts = [r.draft for r in scope.relations if r.draft and r.alias == column.args["table"].name]
    return {tag.name for draft in drafts if draft.table for tag in draft.table.tags}


def _selected(call: exp.Expr, result: exp.Expr, scope: Scope) -> Iterator[exp.Expr]:
    """The result columns of a ``cols`` call with a single result, which may be ``*``."""
    for each in _expanded(result, scope):
        bare = each.this if isinstance(each, exp.Alias) else each
        made: exp.Expr = call.copy()
        made.set("expressions", [made.expressions[0], bare])
        if isinstance(each, exp.Alias):
            made = exp.Alias(this=made, alias=each.args["alias"])
        made.meta.update(call.meta, text=each.meta.get("text") or bare.sql())
        yield made


def _several(node: exp.Anonymous) -> bool:
    return len(node.expressions) > 1 or any(
        isinstance(a, exp.Star) or (isinstance(a, exp.Column) and isinstance(a.this, exp.Star))
        for a in node.expressions
    )


def _columns(relation: Relation, at: exp.Expr) -> Iterator[exp.Expr]:
    for name in relation.visible:
        found = relation.column(name)
        found.meta.update(
            text=name, resolved=True, **{k: at.meta[k] for k in ("line", "col") if k in at.meta}
        )
        yield found
