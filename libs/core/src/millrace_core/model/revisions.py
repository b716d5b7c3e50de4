"""Versions of a table: which columns of one version are those of another, and what a child's tags are by now.

Columns and tags are told apart by their identity (``schema.Column``). So a renamed column keeps its values,
and a column that was dropped and added again has none of the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from millrace_core.errors import ErrorCode, PlanError
from millrace_core.model.schema import Child, Column, Revision, Table

Ints = npt.NDArray[np.int64]
MOST_REVISIONS = 64
"""The most earlier definitions that a table keeps. A message that lies before more ALTERs than these, and has
not been stored yet, is read by the oldest one."""


def sources(old: Sequence[Column], new: Sequence[Column]) -> dict[str, str | None]:
    """Name in ``new`` -> name of the same column in ``old`` (None: it has none), in the order of ``new``."""
    names = {column.identity: column.name for column in old}
    return {column.name: names.get(column.identity) for column in new}


def names_now(words: Table, table: Table, names: Sequence[str]) -> dict[str, str]:
    """The current names of columns and tags of ``words``, which is the table as it was when a query was
    planned or its stream was made.

    :raises PlanError: UNKNOWN_COLUMN for one that has been dropped since.
    """
    if words == table:
        return dict(zip(names, names, strict=True))
    now = sources((*table.columns, *table.tags), (*words.columns, *words.tags))
    found = {name: now.get(name, name) for name in names}
    for name, current in found.items():
        if current is None:
            message = f"{words.db}.{words.name} no longer has {name}: it was dropped"
            raise PlanError(ErrorCode.UNKNOWN_COLUMN, message)
    return {name: current for name, current in found.items() if current is not None}


def carry(values: Sequence[object], old: Sequence[Column], new: Sequence[Column]) -> tuple[object, ...]:
    """Values in the order of ``old`` as values in the order of ``new``; NULL for columns that
    ``old`` lacks."""
    found = {column.identity: value for column, value in zip(old, values, strict=True)}
    return tuple(found.get(column.identity) for column in new)


def revisions(table: Table) -> tuple[Table, ...]:
    """The table as it was before each ALTER that is still known, and finally as it is."""
    return (*(_as_of(table, revision) for revision in table.earlier), table)


def _as_of(table: Table, revision: Revision) -> Table:
    return msgspec.structs.replace(
        table, version=revision.version, columns=revision.columns, tags=revision.tags, earlier=()
    )


def revision_of(table: Table, partition: Ints, offset: Ints) -> Ints:
    """For each message of the WAL topic the index of the one of :func:`revisions` that reads it."""
    found = np.zeros(len(offset), dtype=np.int64)
    for revision in table.earlier:
        until = dict(revision.until)
        ends = np.array([until.get(p, 0) for p in partition.tolist()], dtype=np.int64)
        found += offset >= ends
    return found


def altered(
    table: Table, columns: tuple[Column, ...], tags: tuple[Column, ...], until: Mapping[int, int]
) -> Table:
    """The table's next version: in force for messages from ``until`` (partition -> offset) on."""
    before = Revision(table.version, tuple(sorted(until.items())), table.columns, table.tags)
    return msgspec.structs.replace(
        table, columns=columns, tags=tags, version=table.version + 1,
        earlier=(*table.earlier, before)[-MOST_REVISIONS:],
    )  # fmt: skip


def current(child: Child, table: Table) -> Child:
    """The child with the tags that its super table has now. One that is ahead of the table stays as it is."""
    if child.version >= table.version:
        return child
    before = next((old for old in revisions(table) if old.version >= child.version), table)
    tags = carry(child.tags, before.tags, table.tags) if len(child.tags) == len(before.tags) else ()
    return msgspec.structs.replace(child, tags=tags or (None,) * len(table.tags), version=table.version)
