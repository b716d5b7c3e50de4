"""The two relations of a SEMI, ANTI, ASOF or WINDOW JOIN."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.plan.scope import Relation, Scope


@dataclass(frozen=True, slots=True)
class Pair:
    """A join of two relations; one of them drives it."""

    join: exp.Expr
    driving: Relation
    other: Relation


@dataclass(frozen=True, slots=True)
class NearPair(Pair):
    """An ASOF or WINDOW JOIN. ``times``: those of the driving and of the other relation; ``keys``: pairs of
    columns that must be equal, in the same order; all are lowered. ``most``: how many rows may match one
    (None: any number). ASOF: ``comparison`` of the driving time with the other time. WINDOW: ``offsets``, the
    first and last tick of a row's window."""

    times: tuple[exp.Expr, exp.Expr]
    keys: tuple[tuple[exp.Expr, exp.Expr], ...]
    most: int | None
    comparison: type[exp.Expr] | None
    offsets: tuple[int, int] | None


def timed_by(scope: Scope, nodes: Iterable[exp.Expr]) -> Relation | None:
    """The relation whose time orders these values. In a window of a WINDOW JOIN all rows have the same
    driving row; so there it is the other relation, if that is read."""
    pair = scope.found(Pair)
    if pair is not None and pair.join.args.get("kind") == "WINDOW":
        columns = (found for node in nodes for found in node.find_all(exp.Column))
        if any(found.table == pair.other.alias for found in columns):
            return pair.other
    return scope.timed
