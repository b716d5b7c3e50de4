"""Signals: what a trigger reads from each row besides its time, computed for all rows of a batch at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np
import polars as pl

from millrace_core.model.expression import AnyExpression, Field, fields_of
from millrace_core.trigger.groups.columns import Array, objects
from millrace_core.trigger.rows.expressions import polars

RESULT = "\0"
"""A name that no column has."""


class Signal(msgspec.Struct, frozen=True):
    """One value per row: an expression over its columns, under the name by which a windower asks for it.

    ``kind``: ``flag`` is a bool array (NULL is false), ``cell`` an object array (NULL is None).
    """

    name: str
    expression: AnyExpression
    kind: Literal["flag", "cell"] = "cell"


def evaluate(signals: Iterable[Signal], frame: pl.DataFrame) -> dict[Signal, Array]:
    """Each signal's values for the rows of ``frame``.

    A signal that reads what the frame does not have (a column that was dropped) has no value in any row.
    """
    return {signal: _values(signal, frame) for signal in signals}


def typed(signal: Signal, cells: Array | Sequence[object]) -> Array:
    """A signal's values as windowers expect them."""
    return np.array(cells, dtype=bool) if signal.kind == "flag" else objects(list(cells))


def _values(signal: Signal, frame: pl.DataFrame) -> Array:
    expression = signal.expression
    if not fields_of(expression) <= set(frame.columns):
        return np.full(len(frame), False if signal.kind == "flag" else None)
    if isinstance(expression, Field):
        series = frame[expression.name]
    else:
        # added to the frame's columns, so that a constant gets as many rows
        series = frame.with_columns(polars(expression).alias(RESULT))[RESULT]
    if signal.kind == "flag":
        return np.asarray(series.cast(pl.Boolean).fill_null(False).to_numpy(), dtype=bool)
    return objects(series.to_list())
