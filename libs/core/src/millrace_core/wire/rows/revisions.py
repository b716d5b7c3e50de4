"""Messages of a table that was altered: each is read by the definition that was in force at its place in the
log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millrace_core.model.revisions import Ints, revision_of, revisions, sources
from millrace_core.model.schema import Column, Table
from millrace_core.wire.rows.decoded import Bad, Decoded, polars_type, together
from millrace_core.wire.rows.decoder import RowDecoder


def recast(frame: pl.DataFrame, old: Sequence[Column], new: Sequence[Column]) -> pl.DataFrame:
    """Rows with the columns ``old`` as rows with the columns ``new``: NULL in a column that ``old`` does not
    have."""
    types = {column.name: polars_type(column.type) for column in new}
    return frame.select(
        pl.lit(None, types[name]).alias(name) if source is None else pl.col(source).alias(name)
        for name, source in sources(old, new).items()
    ) if len(frame) else pl.DataFrame(schema=types)  # fmt: skip


class TableDecoder:
    """Decodes the WAL messages of one table into its columns as they are now. Build it once per version."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.revisions = revisions(table)
        self._decoders = [RowDecoder(revision) for revision in self.revisions]

    def decode(self, values: Sequence[bytes | None], partition: Ints, offset: Ints) -> Decoded:
        """Decode messages; ``partition`` and ``offset``: where in the topic each lies."""
        newest = len(self.revisions) - 1
        of = revision_of(self.table, partition, offset) if newest else np.zeros(0, dtype=np.int64)
        if not newest or (of == newest).all():
            return self._decoders[newest].decode(values)
        return together([self._part(values, np.flatnonzero(of == i), i) for i in np.unique(of).tolist()])

    def _part(self, values: Sequence[bytes | None], places: Ints, revision: int) -> Decoded:
        """What the messages at these places hold, numbered as all of ``values`` are."""
        found = self._decoders[revision].decode([values[place] for place in places.tolist()])
        old, new = self.revisions[revision].columns, self.table.columns
        names = {source: name for name, source in sources(old, new).items() if source is not None}
        return Decoded(
            recast(found.frame, old, new),
            places[found.message].astype(np.int32),
            {names[name]: mask for name, mask in found.absent.items() if name in names},
            [(int(places[at]), operation) for at, operation in found.operations],
            [Bad(int(places[bad.index]), bad.error) for bad in found.bad],
        )
