"""SELECT LAST: the newest value of each series, one row for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import semantic
from millrace_core.dialect.iotdb.schema import path_of
from millrace_core.dialect.iotdb.select.bind import BoundColumn
from millrace_core.dialect.iotdb.statements import Item, Select
from millrace_core.dialect.iotdb.values import shortest

NAMES = ("Timeseries", "Value", "DataType")
FUNCTION = "last_value"


def as_aggregates(select: Select) -> Select:
    """The SELECT that finds the newest values: ``last_value`` of each series.

    :raises IotdbError: SEMANTIC_ERROR for a clause that LAST, with its one row for each series, cannot have.
    """
    for node in e.walk(select.where) if select.where is not None else ():
        if isinstance(node, e.SeriesRef):
            raise semantic(f"SELECT LAST allows conditions only on time, not on {node.path}", node.position)
    clauses = {
        "INTO": select.into, "GROUP BY": select.group, "HAVING": select.having, "FILL": select.fill,
        "ALIGN BY DEVICE": select.by_device,
    }  # fmt: skip
    for name, clause in clauses.items():
        if clause:
            raise semantic(f"SELECT LAST cannot be used with {name}", select.position)
    items = []
    for item in select.items:
        series = item.expression
        if not isinstance(series, e.SeriesRef):
            raise semantic(f"SELECT LAST needs series, but {item.text} is not a series", series.position)
        items.append(Item(e.Call(FUNCTION, (series,), series.position), None, item.text))
    return replace(select, items=tuple(items))


def texts(
    columns: Sequence[BoundColumn], found: Sequence[tuple[object, ...] | None]
) -> list[tuple[int, tuple[str, str, str]]]:
    """(time, cells) for each column with a value, by path. ``found``: (value, time) of each, or None."""
    rows = {}
    for column, pair in zip(columns, found, strict=True):
        if pair is None or pair[0] is None:
            continue
        value, time = pair
        bound = column.bound[0]
        series = bound.device.find(bound.measurement or "")
        assert series is not None and isinstance(time, int)
        rows[path_of(bound.device, series)] = time, value, series.type
    return [
        (time, (path, _shown(value, type_), type_)) for path, (time, value, type_) in sorted(rows.items())
    ]


def _shown(value: object, type_: str) -> str:
    if type_ == "FLOAT":
        value = shortest(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
