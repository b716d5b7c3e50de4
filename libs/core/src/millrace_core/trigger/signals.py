"""Signals: what a trigger reads of each row besides its time, computed for all rows of a batch at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
import numpy as np
import polars as pl

from millrace_core.model.expression import AnyExpression, Field
from millrace_core.trigger.columns import Array, objects


class Signal(msgspec.Struct, frozen=True):
    """A value per row: an expression over its columns, under the name by which a windower asks for it.

    ``kind``: ``flag`` is a bool array (NULL is false), ``cell`` an object array (NULL is None).
    """

    name: str
    expression: AnyExpression
    kind: Literal["flag", "cell"] = "cell"


def evaluate(signals: Iterable[Signal], frame: pl.DataFrame) -> dict[Signal, Array]:
    """Each signal's values for the rows of ``frame``."""
    return {signal: _values(signal, frame) for signal in signals}


def _values(signal: Signal, frame: pl.DataFrame) -> Array:
    assert isinstance(signal.expression, Field), "calls come with conditions"
    series = frame[signal.expression.name]
    if signal.kind == "flag":
        return np.asarray(series.fill_null(False).to_numpy(), dtype=bool)
    return objects(series.to_list())
