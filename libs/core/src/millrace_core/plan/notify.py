"""NOTIFY's WHERE: a condition over columns of the result, by the names that SELECT gives them, or over
constants.

Over columns, an event without a result does not meet it. A condition over constants applies to every event,
even to those that are not calculated (SEMANTICS, "Notifications").
"""

from __future__ import annotations

import msgspec
from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.model.stream import StreamSpec
from millrace_core.plan.aggregates.table import AGGREGATES
from millrace_core.plan.scope import Context, Scope, near
from millrace_core.plan.series.table import SERIES
from millrace_core.plan.types.typed import fail


def add_notify(scope: Scope, ctx: Context) -> None:
    """Add the condition as a last result column ``_notify``. A condition over constants is not added, because
    it also applies to events without a result (:func:`of_constants`).

    :raises SqlError: UNKNOWN_COLUMN for what is not a column of the result, NOT_ALLOWED for a placeholder.
    """
    if ctx.notify is None or not scope.select.meta.get("root"):
        return
    foreign = ctx.notify.find(exp.Placeholder)
    if foreign is not None:
        raise fail(ErrorCode.NOT_ALLOWED, "NOTIFY: only result columns and constants are allowed", foreign)
    found = _Columns(scope)
    condition = exp.Paren(this=ctx.notify.copy()).transform(found.put_in, copy=False)
    if not found.used:
        ctx.notify = None
        return
    certain = exp.Anonymous(this="coalesce", expressions=[condition, exp.Boolean(this=False)])
    alias = exp.Alias(this=certain, alias=exp.to_identifier("_notify", quoted=True))
    alias.meta["name"] = "_notify"
    scope.select.append("expressions", alias)


class _Columns:
    """The columns of a result: by their names, or, if they have no alias, as written in SELECT
    (``avg(v)``)."""

    def __init__(self, scope: Scope) -> None:
        selected = scope.select.expressions
        self.by_name = {node.meta["name"]: node.this for node in selected}
        self.by_text = [node.this for node in selected if not node.meta["aliased"]]
        self.used = False

    def put_in(self, node: exp.Expr) -> exp.Expr:
        """What replaces a part of the condition: the expression of the column that it names."""
        found = self._named(node)
        if found is not None:
            self.used = True
            return exp.Paren(this=found.copy())
        if isinstance(node, exp.Column):
            message = f"NOTIFY: unknown result column {node.name}{near(node.name, self.by_name)}"
            raise fail(ErrorCode.UNKNOWN_COLUMN, message, node)
        if isinstance(node, exp.Anonymous) and (node.name in AGGREGATES or node.name in SERIES):
            message = f"NOTIFY: {node.name}(…) is not a column of the result; add it to SELECT"
            raise fail(ErrorCode.UNKNOWN_COLUMN, message, node)
        return node

    def _named(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column):
            return None if node.args.get("table") else self.by_name.get(node.name)
        if isinstance(node, exp.Literal | exp.Paren):
            return None
        return next((column for column in self.by_text if column == node), None)


def of_constants(spec: StreamSpec) -> StreamSpec:
    """A stream like this one, but with NOTIFY's WHERE as its query: one row with one flag."""
    assert spec.notify is not None, "who has no NOTIFY has no condition"
    query = f"SELECT {spec.notify.where}"
    options = msgspec.structs.replace(spec.options, force_output=False)
    return msgspec.structs.replace(spec, query=query, sql=query, notify=None, options=options)
