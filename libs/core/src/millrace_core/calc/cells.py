"""Rows of results as JSON text, and texts put together from columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import msgspec
import numpy as np
import polars as pl

FEW = 32
"""With fewer rows, an object for each takes less time than to start Polars."""
WRITTEN = {pl.Boolean, pl.String, pl.Float64, pl.Null} | {
    getattr(pl, f"{sign}Int{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)
}
"""Types of which Polars writes the JSON text that stands for the value."""
_encoder = msgspec.json.Encoder()
_encode, _lines = _encoder.encode, _encoder.encode_lines


def json_text(value: object) -> str:
    """A value as JSON text."""
    return _encode(value).decode()


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Cells that JSON can hold: no infinities, text for bytes."""
    changed = []
    for series in frame:
        if series.dtype.is_float():
            if not np.isfinite(series.to_numpy()).all():  # a NULL is NaN there
                changed.append(series.set(~series.is_finite(), None))
        elif series.dtype == pl.Binary:
            texts = [None if v is None else v.decode("utf-8", "replace") for v in series]
            changed.append(pl.Series(series.name, texts, dtype=pl.String))
    return frame.with_columns(changed) if changed else frame


def json_rows(frame: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Each row as a JSON object, its cells under these names. The cells are those of :func:`plain`."""
    if len(frame) >= FEW and len(set(names)) == len(names):
        # the shortest digits of a number of 32 bits are others
        columns = [series.cast(pl.Float64) if series.dtype == pl.Float32 else series for series in frame]
        if all(series.dtype in WRITTEN for series in columns):
            named = [series.alias(name) for series, name in zip(columns, names, strict=True)]
            return pl.DataFrame(named).to_struct("row").struct.json_encode().to_list()
    cells = zip(*(series.to_list() for series in frame), strict=True)
    return [json_text(dict(zip(names, row, strict=True))) for row in cells]


Cells = Sequence[str] | Sequence[int] | str
"""A column of texts or numbers; a single text stands in every row."""


def joined(rows: int, columns: Sequence[Cells]) -> list[str]:
    """The cells of each of so many rows, one after the other, as one text."""
    if rows < FEW:
        cells = [repeat(column) if isinstance(column, str) else map(str, column) for column in columns]
        return ["".join(row) for _, *row in zip(range(rows), *cells, strict=False)]
    series = [pl.lit(column) if isinstance(column, str) else pl.Series(column) for column in columns]
    return pl.select(pl.concat_str(series)).to_series().to_list()


def json_texts(values: Sequence[object]) -> list[str]:
    """Each value as JSON text."""
    # JSON has no line breaks within a value
    return _lines(values).decode().split("\n")[: len(values)]
