"""Converts values of results and tags to the types of the columns that they go into: what cannot be converted
becomes NULL, long text is cut."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import tzinfo
from functools import partial

import polars as pl

from millrace_core.calc.cells import FEW
from millrace_core.errors import MillraceError
from millrace_core.model.schema import TICKS_PER_SECOND, Column, Precision
from millrace_core.model.stream import ResultColumn
from millrace_core.timeline.text import parse_timestamp
from millrace_core.wire.rows.decoded import polars_type

NAME_TEXT = "utf-8"
MOST_BYTES = 4  # that a character takes there
Where = tzinfo | str


def convert(
    series: pl.Series, source: ResultColumn, target: Column, factor: tuple[int, int], ticks: Precision = "ms",
    where: Where = "UTC",
) -> pl.Series:  # fmt: skip
    """A result column as the output column's type; what does not fit becomes NULL, long text is cut.

    ``factor``: ticks of the output table per ticks of the result. ``ticks``: the output table's precision.
    ``where``: the time zone of texts that become times.
    """
    wanted = polars_type(target.type)
    if target.type.name == "TIMESTAMP":
        series = rescaled(series, source, factor)
    if wanted == pl.String:
        return _cut(_texts(series), target)
    if series.dtype == pl.Binary and wanted != pl.Binary:
        series = _texts(series)
    if wanted == pl.Binary:
        return _bytes(series)
    if series.dtype == pl.String:
        return _read(series, target, ticks, where)
    if series.dtype.is_float() and wanted.is_integer():
        # infinities and NaN are not whole numbers
        series = series.set(~series.is_finite(), None)
    return series.cast(wanted, strict=False)


def rescaled(series: pl.Series, source: ResultColumn, factor: tuple[int, int]) -> pl.Series:
    """A result column with its times in another precision (see :func:`scale`)."""
    if source.type.name != "TIMESTAMP" or factor[0] == factor[1]:
        return series
    return series * factor[0] if factor[0] > 1 else series // factor[1]


def scale(source: Precision, target: Precision) -> tuple[int, int]:
    """(multiply, divide) that turns ticks of ``source`` into ticks of ``target``."""
    a, b = TICKS_PER_SECOND[source], TICKS_PER_SECOND[target]
    return (b // a, 1) if b >= a else (1, a // b)


# -- to texts and bytes --------------------------------------------------------------------------------------


def _texts(series: pl.Series) -> pl.Series:
    if series.dtype == pl.Binary:
        texts = [None if v is None else v.decode(NAME_TEXT, "replace") for v in series]
        return pl.Series(series.name, texts, dtype=pl.String)
    if series.dtype.is_float():
        # six digits behind the point, as CAST writes them
        texts = [None if v is None or not math.isfinite(v) else f"{v:.6f}" for v in series]
        return pl.Series(series.name, texts, dtype=pl.String)
    return series.cast(pl.String, strict=False)


def _bytes(series: pl.Series) -> pl.Series:
    if series.dtype == pl.Binary:
        return series
    texts = [None if v is None else v.encode(NAME_TEXT) for v in _texts(series)]
    return pl.Series(series.name, texts, dtype=pl.Binary)


def _cut(found: pl.Series, target: Column) -> pl.Series:
    if target.type.length is None:
        return found
    if len(found) < FEW:
        most = max((len(text) for text in found.to_list() if text is not None), default=0)
        if most * MOST_BYTES <= target.type.length:
            return found
    if target.type.name == "NCHAR":
        return found.str.slice(0, target.type.length)
    long = found.str.len_bytes().max()
    if not isinstance(long, int) or long <= target.type.length:
        return found
    cut = [v if v is None else v.encode()[: target.type.length].decode(NAME_TEXT, "ignore") for v in found]
    return pl.Series(found.name, cut, dtype=pl.String)


# -- from texts ----------------------------------------------------------------------------------------------


def _read(series: pl.Series, target: Column, ticks: Precision, where: Where) -> pl.Series:
    """Texts as numbers, truth values or times; NULL where a text is none of these."""
    read = _reader(target, ticks, where)
    cells = [None if text is None else read(text.strip()) for text in series]
    wanted = polars_type(target.type)
    if target.type.info.integer:
        low, high = target.type.info.low or 0, target.type.info.high or 0
        cells = [cell if isinstance(cell, int) and low <= cell <= high else None for cell in cells]
    return pl.Series(series.name, cells, dtype=wanted, strict=False)


def _reader(target: Column, ticks: Precision, where: Where) -> Callable[[str], object]:
    if target.type.name == "TIMESTAMP":
        return partial(_time, ticks=ticks, where=where)
    if target.type.name == "BOOL":
        return _truth
    return _whole if target.type.info.integer else _number


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        found = _number(text)
        return None if found is None else int(found)


def _truth(text: str) -> bool | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    found = _number(text)
    return None if found is None else found != 0


def _time(text: str, ticks: Precision, where: Where) -> int | None:
    try:
        return parse_timestamp(text, ticks, where)
    except MillraceError:
        return _whole(text) if text.lstrip("+-").isdigit() else None
