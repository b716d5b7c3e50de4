"""What the planner produces: plans, the sources they read, and bounds on the times of the rows they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from sqlglot import exp

from millrace_core.model.schema import Precision, Table
from millrace_core.model.stream import ResultColumn
from millrace_core.model.types import DataType
from millrace_core.plan.spark.text import Template, spark_text

Formula = tuple[Any, ...]
"""A small pure expression: ``("const", 5)``, ``("ref", "_twstart")``, ``("add", f, g)``, …"""
Comparison = Literal[">=", ">", "<=", "<"]


def _divide(a: float, b: float) -> float | None:
    return None if b == 0 else float(a) / float(b)  # as Spark divides: with both sides as DOUBLE


def _quotient(a: int, b: int) -> int | None:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATIONS: dict[str, Callable[..., float | None]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "quotient": _quotient,
    "neg": lambda a: -a,
    "trunc": math.trunc,
    "floordiv": lambda a, b: a // b,
}
_INCLUSIVE: dict[Comparison, Callable[[float], int]] = {
    ">=": math.ceil,
    ">": lambda value: math.floor(value) + 1,
    "<=": math.floor,
    "<": lambda value: math.ceil(value) - 1,
}


_STEP: dict[Comparison, int] = {">=": 0, ">": 1, "<=": 0, "<": -1}
"""The same for whole numbers, as a summand."""
_LARGE = 2**61
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def evaluate(formula: Formula, row: Mapping[str, object]) -> float | None:
    """The formula's value; None if anything in it is NULL."""
    match formula:
        case ("const", value):
            return value  # type: ignore[no-any-return]
        case ("ref", name):
            return row[name]  # type: ignore[return-value]
        case (operation, *arguments):
            values = [evaluate(argument, row) for argument in arguments]
            return None if None in values else _OPERATIONS[operation](*values)
    raise AssertionError(formula)


def _whole_numbers(formula: Formula, rows: pl.DataFrame) -> pl.Series | None:
    """For each row the value of a sum or difference of whole numbers. None for any other formula, and if a
    value would be too large to be added to."""
    match formula:
        case ("const", int(value)) if abs(value) < _LARGE:
            found = pl.Series(np.full(len(rows), value, dtype=np.int64))
        case ("ref", name) if rows.schema[name] == pl.Int64:
            found = rows[name]
        case ("add" | "sub" as operation, a, b):
            left, right = _whole_numbers(a, rows), _whole_numbers(b, rows)
            if left is None or right is None:
                return None
            found = left + right if operation == "add" else left - right
        case _:
            return None
    low, high = found.min(), found.max()
    small = (low is None or low > -_LARGE) and (high is None or high < _LARGE)  # type: ignore[operator]
    return found if small else None


def references(formula: Formula) -> frozenset[str]:
    """The columns of the trigger relation that the formula reads."""
    if formula[0] == "ref":
        return frozenset({formula[1]})
    return frozenset().union(*(references(f) for f in formula[1:] if isinstance(f, tuple)))


@dataclass(frozen=True, slots=True)
class Bound:
    """An inclusive bound on a source's time column, in ticks of the source's table.

    ``terms``: comparisons ``time <comparison> formula``, which must all hold; all have the same direction.
    """

    terms: tuple[tuple[Comparison, Formula], ...]

    def evaluate(self, row: Mapping[str, int | None]) -> int | None:
        """The bound for a trigger (a row of :func:`trigger_relation`); None if there is no bound."""
        found = [
            _INCLUSIVE[comparison](value)
            for comparison, formula in self.terms
            if (value := evaluate(formula, row)) is not None
        ]
        if not found:
            return None
        return max(found) if self.terms[0][0][0] == ">" else min(found)

    def evaluate_all(self, rows: pl.DataFrame, none: int) -> npt.NDArray[np.int64]:
        """As :meth:`evaluate`, for each row of a trigger relation; ``none`` if there is no bound."""
        columns = [_whole_numbers(formula, rows) for _, formula in self.terms]
        if any(column is None for column in columns):
            names = sorted(self.references)
            given = rows.select(names).rows(named=True) if names else [{}] * len(rows)
            found = [self.evaluate(row) for row in given]
            return np.array([none if value is None else value for value in found], dtype=np.int64)
        lower = self.terms[0][0][0] == ">"
        nothing = _LEAST if lower else _GREATEST
        bound = np.full(len(rows), nothing)
        for (comparison, _), column in zip(self.terms, columns, strict=True):
            assert column is not None
            step = _STEP[comparison]
            # where nothing is to be filled in, polars takes as long for that as for all the rest together
            filled = (column + step).fill_null(nothing) if column.null_count() else None
            values = column.to_numpy() + step if filled is None else filled.to_numpy()
            bound = np.maximum(bound, values) if lower else np.minimum(bound, values)
        bound[bound == nothing] = none
        return bound

    @property
    def references(self) -> frozenset[str]:
        return frozenset().union(*(references(formula) for _, formula in self.terms))


@dataclass(frozen=True, slots=True)
class SourceUse:
    """A relation that the generated SQL reads, and the rows it must hold.

    ``relation``: the name in the SQL. ``kind``: ``table``; ``trows``, the trigger's own rows; ``system``, a
    table of information_schema. ``child``: the only child table that is read. ``own_table``: only the group's
    own table (``%%tbname``). ``group_tags``: only the child tables of the group, which is a group by tags.
    ``tag_equals``: (tag, n) for each ``tag = %%n`` that every row must meet. ``low``/``high``: bounds on the
    table's key. A relation may hold more rows than these say, since the SQL filters again; but ``own_table``,
    ``group_tags`` and the bounds of ``trows`` must be exact. ``written``: only the rows that were written
    between the previous trigger and this one, whatever their times are (``TriggerEvent.written``).
    ``correlated``: each trigger needs different rows. ``columns``: the relation's columns, including
    ``tbname`` and tags.
    """

    relation: str
    kind: Literal["table", "trows", "system"]
    table: Table | None
    columns: tuple[str, ...]
    child: str | None = None
    own_table: bool = False
    group_tags: bool = False
    written: bool = False
    tag_equals: tuple[tuple[str, int], ...] = ()
    low: Bound | None = None
    high: Bound | None = None

    @property
    def correlated(self) -> bool:
        bounds = (self.low, self.high)
        return (
            self.kind == "trows"
            or self.own_table
            or self.group_tags
            or bool(self.tag_equals)
            or any(bound.references for bound in bounds if bound)
        )


@dataclass(frozen=True)
class Plan:
    """A query, ready to run.

    ``sources``: what must be there. ``result``: names and types of the result's columns, in order; the SQL's
    columns have these names too, but equal names get a ``#2`` there. ``uses``: placeholders. ``precision``:
    that of all TIMESTAMP columns of the result. ``notify``: the SQL gives one more column, ``_notify``
    (boolean), after the result's. ``failed``: the last column is ``_failed``, a text that says what went
    wrong in a partition of the query; a row that has one has no result. Trees are sqlglot's, with
    ``exp.Placeholder`` in ``one_tree``. ``set_tree``: None for a user's query. ``forced_tree``: with
    FORCE_OUTPUT, the row for a trigger whose query gives none.
    """

    sources: tuple[SourceUse, ...]
    result: tuple[ResultColumn, ...]
    uses: frozenset[str]
    precision: Precision
    one_tree: exp.Expr = field(compare=False, repr=False)
    set_tree: exp.Expr | None = field(compare=False, repr=False)
    notify: bool = False
    forced_tree: exp.Expr | None = field(default=None, compare=False, repr=False)
    failed: bool = False

    @cached_property
    def _template(self) -> Template:
        return Template.of(self.one_tree)

    @cached_property
    def set_sql(self) -> str | None:
        """Spark SQL for many triggers at once: relations have ``_tid``, ``_trig`` exists, and the result
        begins with ``_tid``. None for a user's query."""
        return None if self.set_tree is None else spark_text(self.set_tree)

    @cached_property
    def of_triggers(self) -> frozenset[str]:
        """The columns of ``_trig`` that the SQL for many triggers may read: all names of columns in it."""
        trees = [tree for tree in (self.set_tree, self.forced_tree) if tree is not None]
        return frozenset(node.name for tree in trees for node in tree.find_all(exp.Column))

    @cached_property
    def forced_sql(self) -> str | None:
        """Spark SQL over ``_trig`` (those triggers whose query gave no row): ``_tid`` and one row for each,
        with the columns of the result. None without FORCE_OUTPUT."""
        return None if self.forced_tree is None else spark_text(self.forced_tree)

    def one_sql(self, row: Mapping[str, object]) -> str:
        """Spark SQL for one trigger, a row of :func:`trigger_relation`; relations hold its rows."""
        return self._template.fill(row)


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """Spark SQL over ``_grp(_gid, _tbname, _g1, …)`` that names and tags the groups' sub-tables.

    It gives ``_gid``, ``_subtable`` (text; NULL: the name is made up) and one column for each of ``tags``,
    with its type in ``types``. If ``checked``, it also gives ``_lost``: a text if a tag cannot hold the
    group's value. ``constant``: the name, if it is the same for all groups.

    If the output ``converts``, values have the types of their expressions; the tag of the groups' ids is then
    not among ``tags``, because it is not calculated.
    """

    sql: str
    tags: tuple[str, ...]
    constant: str | None = None
    checked: bool = False
    types: tuple[DataType, ...] = ()
