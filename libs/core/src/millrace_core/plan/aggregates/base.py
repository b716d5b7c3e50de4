"""What the table of aggregate functions is made of: the type of its rows, and the call that a row builds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.model.schema import Precision
from millrace_core.plan.types.typed import Typed, wrap

Order = exp.Expr
Pick = Callable[[exp.Expr, list[exp.Expr], Order], exp.Expr]


@dataclass(frozen=True, slots=True)
class Gathering:
    """An aggregate call that is being lowered. ``args``: lowered, except durations; ``order``: gives the
    rows' order in time (NULL if the function needs none); ``node``: the call itself, for errors;
    ``precision``: that of the time column."""

    name: str
    args: list[exp.Expr]
    order: Order
    node: exp.Expr
    precision: Precision

    @property
    def value(self) -> exp.Expr:
        return self.args[0]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row of the table: ``least``..``most`` arguments of these ``kinds`` (``functions.base.KINDS``).

    ``build``: makes the expression; None if rows must first be numbered or look at their neighbours
    (``running.py``). ``counts``: gives 0 over no rows, so a query that uses it gives a row even then.
    ``pick(column, args, order)``: another column's value in the row that a selection function selects.
    ``timed``: the order in time matters. ``streams``: whether a stream may use it. If an expression has
    ``meta["rows"]`` = n, it is an array of n results, each of which becomes a row.
    """

    result: Callable[[list[Typed], exp.Expr], Typed]
    build: Callable[[Gathering], exp.Expr] | None
    least: int = 1
    most: int | None = 1
    kinds: tuple[str, ...] = ("number",)
    counts: bool = False
    pick: Pick | None = None
    timed: bool = False
    streams: bool = True

    def kind(self, i: int) -> str:
        return self.kinds[min(i, len(self.kinds) - 1)]


def known(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=wrap(value.copy()), expression=exp.Null()))


def of_rows(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """The aggregate over the rows that meet the condition."""
    if condition is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition))
