"""FORCE_OUTPUT: the one row for a trigger whose query gives none (seed 000, control options).

Columns that are the same whatever the tables hold (constants and placeholders, alone or in calculations)
keep their value; all others are NULL.
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.plan.scope import Result
from millrace_core.plan.shape import set_wise
from millrace_core.plan.types.typed import cast

_VARYING = (exp.Column, exp.AggFunc, exp.Window, exp.Star, exp.Subquery, exp.Select)
"""What an expression must not contain if it is to be the same over any rows."""
SUBQUERY = "_sub"
"""How names of relations for the user's own subqueries begin."""


def forced_row(planned: exp.Expr) -> exp.Expr:
    """The tree of the forced rows, one for each trigger of ``_trig``.

    ``planned``: the query in its one-by-one shape. In a UNION the constants of the first SELECT count.
    """
    select = _first(planned)
    results: list[Result] = planned.meta["results"]
    constants = _constants(select)
    columns = [
        _named(cast(constants.get(result.alias, exp.Null()), result.typed), result.alias)
        for result in results
    ]
    # the rest is NOTIFY's condition, over the forced row
    columns += [
        _named(extra.this.transform(_without_columns), extra.alias)
        for extra in select.expressions[len(results) :]
    ]
    return set_wise(exp.Select(expressions=columns))


def _first(tree: exp.Expr) -> exp.Select:
    while not isinstance(tree, exp.Select):
        tree = tree.this
    return tree


def _constants(select: exp.Select) -> dict[str, exp.Expr]:
    """The constant results by name; a constant of the user's own subquery is constant outside as well."""
    inside: dict[tuple[str, str], exp.Expr] = {}
    for place in [select.args.get("from_"), *(select.args.get("joins") or [])]:
        source = place.this if place is not None else None
        if isinstance(source, exp.Subquery) and source.alias.startswith(SUBQUERY):
            known = _constants(_first(source.this))
            inside |= {(source.alias, name): node for name, node in known.items()}
    found: dict[str, exp.Expr] = {}
    for projection in select.expressions:
        value = projection.this.copy()
        for column in list(value.find_all(exp.Column)):
            constant = inside.get((column.table, column.name))
            if constant is None:
                break
            if column is value:
                value = constant.copy()
            else:
                column.replace(exp.Paren(this=constant.copy()))
        if value.find(*_VARYING) is None:
            found[projection.alias] = value
    return found


def _named(node: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _without_columns(node: exp.Expr) -> exp.Expr:
    return exp.Null() if isinstance(node, _VARYING) else node
