"""Rows of the log as tablets: for each message, the rows and measurements that a trigger watches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from millrace_core.dialect.iotdb.schema import TIME
from millrace_core.model.device import Series
from millrace_core.wire.rows.decoded import Decoded

Mask = npt.NDArray[np.bool_]


class Watched(NamedTuple):
    """What a trigger watches in one message: the device, and its matching series (may be none)."""

    device: str
    series: tuple[Series, ...]


class BatchTablet(NamedTuple):
    """One tablet: rows ``[begin, end)`` of the batch. ``message``: the index of the message it comes from;
    ``series``: an index into the batch's lists."""

    message: int
    device: str
    begin: int
    end: int
    series: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Tablets in the order of their messages, over shared arrays. ``times``: int64[rows], milliseconds.
    ``columns``: IoTDB's type, values[rows] (0 or NaN where there is none; text: objects), present bool[rows].
    ``series``: lists of (measurement, type, index of the column)."""

    times: npt.NDArray[np.int64]
    columns: list[tuple[str, npt.NDArray[Any], Mask]]
    series: list[list[tuple[str, str, int]]]
    parts: list[BatchTablet]


def batch_of(decoded: Decoded, watched: Sequence[Watched | None]) -> Batch | None:
    """The tablets of these messages (None: the message is not of a device). A row that is NULL in everything
    that is watched is left out, and a message with only such rows fires nothing (SEMANTICS-FRONTENDS, S5).

    Returns None if nothing is watched.
    """
    lists: dict[tuple[Series, ...], int] = {}
    of_message = np.full(len(watched), -1, dtype=np.int32)
    for index, one in enumerate(watched):
        if one is not None and one.series:
            of_message[index] = lists.setdefault(one.series, len(lists))
    if not lists or not len(decoded.message):
        return None
    of_row = of_message[decoded.message]
    columns: dict[str, int] = {}
    arrays: list[tuple[str, npt.NDArray[Any], Mask]] = []
    keep: Mask = np.zeros(len(of_row), np.bool_)
    for series, number in lists.items():
        there: Mask = np.zeros(len(of_row), np.bool_)
        for cells in series:
            if cells.column not in columns:
                columns[cells.column] = len(arrays)
                arrays.append((cells.type, *_cells(decoded.frame[cells.column])))
            there |= arrays[columns[cells.column]][2]
        keep |= there & (of_row == number)
    if not keep.any():
        return None
    rows = np.flatnonzero(keep)
    parts = _parts(decoded.message[rows], watched, of_message)
    times = decoded.frame[TIME].to_numpy()[rows].astype(np.int64, copy=False)
    whole = [(type_, values[rows], present[rows]) for type_, values, present in arrays]
    listed = [[(one.measurement, one.type, columns[one.column]) for one in series] for series in lists]
    return Batch(times, whole, listed, parts)


def _parts(
    messages: npt.NDArray[np.int32], watched: Sequence[Watched | None], of_message: npt.NDArray[np.int32]
) -> list[BatchTablet]:
    begins = np.flatnonzero(np.diff(messages, prepend=-1)).tolist()
    ends = [*begins[1:], len(messages)]
    parts = []
    for message, begin, end in zip(messages[begins].tolist(), begins, ends, strict=True):
        one = watched[message]
        assert one is not None, "a row that is kept is watched"
        parts.append(BatchTablet(message, one.device, begin, end, int(of_message[message])))
    return parts


def _cells(column: pl.Series) -> tuple[npt.NDArray[Any], Mask]:
    present = column.is_not_null().to_numpy()
    if column.dtype in (pl.String, pl.Binary):
        return column.to_numpy(), present
    if column.dtype == pl.Boolean:
        return column.fill_null(False).to_numpy(), present
    return column.fill_null(float("nan") if column.dtype.is_float() else 0).to_numpy(), present
