"""What a query reads, by its names in the query: rows in memory, or in files."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Parquet:
    """Rows in files: columns (name in the file, name in the query), times (inclusive). ``schema``: what to
    read of the files, as DDL; a file from before a column was added gives NULL for it."""

    files: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    key: str
    low: int
    high: int
    tbname: str
    members: pa.Table | None
    """``tbname`` and tags of the tables that count; None: all, without tags."""
    schema: str


Relation = pa.Table | Parquet
